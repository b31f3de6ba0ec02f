# SPDX-License-Identifier: BSD-2-Clause
# Time on the GPU. There is none here: a mock of libcupti plays back what one would have done, and
# a program loads the library as CUDA's driver does.
# bats file_tags=bpf

load helpers

GPU=$O/libfuncsnoop-gpu.so
CUPTI=$FIX/libcuptimock.so

setup() {
	common_setup
	need_bpf
	need_tool jq
}

job() { # CASE...
	capture env CUDA_INJECTION64_PATH="$GPU" FUNCSNOOP_CUPTI="$CUPTI" "$FIX/gpujob" "$@"
}

# bats test_tags=core
@test "kernels have the GPU's times by name, device and stream, whatever order buffers come in" {
	fsn attach gpu
	job heard 10 known
	assert_eq "$(rows gpu kernel "function kernel calls returns total_ns avg_ns max_ns" | sort)" \
		"kernels add<float> 5 5 100000 20000 90000
kernels ns::scale 11 10 50000 5000 5000
kernels plain 1 1 700 700 700"
	assert_eq "$(rows gpu device,stream "device stream calls total_ns" | sort)" \
		"0 7 6 100700
1 8 11 50000"
	fsn stats gpu --json
	assert_json '.[0].functions[0] | [.name, .calls, .returns, .untimed, .in_flight, .total_ns,
		.min_ns, .max_ns, (.histogram | map(.count) | add)]' \
		'["kernels",17,16,1,0,150700,700,90000,16]'
	assert_json '[.[0].functions[0].processes[] | [.comm, .calls, .returns, .total_ns, .max_ns]]' \
		'[["gpujob",17,16,150700,90000]]'
	fsn reset gpu
	job heard 10 known known
	assert_eq "$(rows gpu kernel "kernel calls total_ns max_ns" | sort)" \
		"add<float> 10 200000 90000
ns::scale 22 100000 5000
plain 2 1400 700"
	fsn detach gpu
}

@test "copies and sets have bytes, by direction, and are recorded where they are asked for" {
	fsn attach gpu-copies --lib "$GPU"
	job heard 1 heard 2 quiet 10 copies
	assert_output_match '^recorded 0$'
	assert_eq "$(rows gpu-copies kernel "function kernel calls sum_bytes total_ns" | sort)" \
		"copies [copy device to host] 1 100 1000
copies [copy host to device] 3 12288 6000
sets [set] 2 1024 600"
	fsn detach gpu-copies
}

@test "what a buffer still has when the process ends is told, and children have no part in it" {
	fsn attach gpu
	job heard 10 fork known left
	assert_eq "$(rows gpu kernel "kernel calls total_ns" | sort)" "add<float> 5 100000
ns::scale 11 50000
plain 3 2100"
	fsn detach gpu
}

@test "nothing is recorded while nobody listens, nor any more when nobody does" {
	job quiet 10
	assert_output_match '^recorded 0$'
	fsn attach gpu
	start_bg job env CUDA_INJECTION64_PATH="$GPU" FUNCSNOOP_CUPTI="$CUPTI" "$FIX/gpujob" heard 10 \
		left say unheard 10 --wait-end
	wait_line job '^said '
	fsn detach gpu
	wait_line job '^done '
	tell job
	wait_bg job
}
