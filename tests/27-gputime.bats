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
	fsn stats gpu
	assert_output_match '^FUNCTION +KERNEL +CALLS +CALLS/S +TIME% +TOTAL +AVG +MAX '
	assert_output_match '^kernels +add<float> +5 +[0-9.k]+ +66\.4 +100 us +20\.0 us +90\.0 us '
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
	fsn attach gpu --key kernel,log2:ns --replace
	job heard 10 known
	assert_eq "$(rows gpu kernel,ns "kernel ns calls returns" | sort)" "add<float> 1024 1 1
add<float> 2048 2 2
add<float> 512 1 1
add<float> 65536 1 1
ns::scale 0 1 0
ns::scale 4096 10 10
plain 512 1 1"
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
	# 100 bytes in a microsecond.
	assert_eq "$(rows gpu-copies kernel "kernel bytes_per_s" | sort | head -n 1)" \
		"[copy device to host] 100000000.000"
	fsn stats gpu-copies
	assert_output_match '^FUNCTION +KERNEL +BYTES +BYTES/S +CALLS '
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

said() { # COUNT
	fsn stats gpu --json
	jq -e ".[0].gpu_processes | length == $1" <<<"$output" >/dev/null
}

@test "why nothing is seen of a process is told: libcupti refuses, is not there, or is another's" {
	local dir=$BATS_TEST_TMPDIR

	need_no_sanitizer # one does not follow another library into a process
	fsn attach gpu
	# A job lives on, whatever libcupti says.
	start_bg refused env CUPTIMOCK=999 CUDA_INJECTION64_PATH="$GPU" FUNCSNOOP_CUPTI="$CUPTI" \
		"$FIX/gpujob" --wait-end
	start_bg without env CUDA_INJECTION64_PATH="$GPU" FUNCSNOOP_CUPTI=/nowhere \
		"$FIX/gpujob" --wait-end
	ln -s "$CUPTI" "$dir/libToolsInjection64.so"
	start_bg taken env LD_PRELOAD="$dir/libToolsInjection64.so" CUDA_INJECTION64_PATH="$GPU" \
		FUNCSNOOP_CUPTI="$CUPTI" "$FIX/gpujob" --wait-end
	poll_until said 3
	assert_json '[.[0].gpu_processes[] | [.state, .code, .library]] | sort' \
		'[["no library",0,"libcupti"],["refused",999,"libcuptimock.so"],["taken",0,"libToolsInjection"]]'
	fsn stats gpu
	assert_stderr_match "^funcsnoop stats: process [0-9]+: its GPU times are not known: \
libcuptimock.so refuses with 999\$"
	assert_stderr_match "^funcsnoop stats: process [0-9]+: its GPU times are not known: there is \
no libcupti\$"
	assert_stderr_match "^funcsnoop stats: process [0-9]+: its GPU times are not known: \
libToolsInjection has libcupti\$"
	for job in refused without taken; do
		tell "$job"
		wait_bg "$job"
	done
	fsn detach gpu
}

@test "what was lost is told: times, and records for which libcupti had no room" {
	fsn attach gpu
	job heard 10 known say
	fsn stats gpu
	assert_output_match '^kernels +add<float> +5 '
	assert_stderr_match '^funcsnoop stats: 1 of these was counted but not timed: the driver has lost its times$'
	assert_stderr_match '^funcsnoop stats: process [0-9]+: libcuptimock.so had no room for 3 records$'
	fsn detach gpu
}

@test "millions of records take no more room than thousands, and each is counted" {
	local grown

	fsn attach gpu
	job heard 10 many 2000000
	grown=$(sed -n 's/^grown //p' <<<"$output")
	((grown < 40000)) || fail "grown by $grown KiB"
	fsn stats gpu --json
	assert_json '.[0].functions[0] | [.calls, .returns, .total_ns]' '[2000000,2000000,200000000]'
	fsn detach gpu
}

# Nobody but NVIDIA's own says here what a runtime asks of a driver, and what libcupti answers.
@test "the real runtime's driver loads the library, and what the real libcupti refuses is told" {
	local cupti

	need_cuda
	cupti=$(find "${CUDART%/*}" -maxdepth 1 -name "libcupti.so.*" | head -n 1)
	[[ $cupti ]] || skip "no libcupti beside libcudart"
	fsn attach gpu
	start_bg real env LD_LIBRARY_PATH="$FIX/driver" CUDA_INJECTION64_PATH="$GPU" \
		FUNCSNOOP_CUPTI="$cupti" "$FIX/cudacall" "$CUDART" 3 --wait-end
	wait_line real '^initialized 1'
	wait_line real '^cudaMalloc 100 x3'
	poll_until said 1
	assert_json '.[0].gpu_processes[0] | [.state, .code, (.library | startswith("libcupti.so"))]' \
		'["refused",999,true]'
	tell real
	wait_bg real
	fsn stats gpu --json
	assert_json '.[0].functions' '[]'
	fsn detach gpu
}

@test "the library is clean under ASan, with children, losses, long names and at its end" {
	local dir=$BATS_TEST_TMPDIR src=$BATS_TEST_DIRNAME/.. flags=(-g -O1 -fsanitize=address,undefined
		-std=gnu11 -D_GNU_SOURCE -fPIC)

	need_tool cc
	echo 'int main(void) { return 0; }' >"$dir/none.c"
	cc "${flags[@]}" -o "$dir/none" "$dir/none.c" 2>/dev/null || skip "no ASan"
	capture -t 60 cc "${flags[@]}" -fvisibility=hidden -I"$src/bpf" -I"$src/lib" -shared -o "$dir/gpu.so" \
		"$src/lib/gpu/gpu.c" -ldl -lpthread
	capture -t 60 cc "${flags[@]}" -shared -o "$dir/cupti.so" "$src/tests/fixtures/cuptimock.c" \
		-lpthread
	capture -t 60 cc "${flags[@]}" -o "$dir/gpujob" "$src/tests/fixtures/gpujob.c" -ldl
	fsn attach gpu --lib "$dir/gpu.so"
	# What it has while its thread runs is no leak.
	capture -t 60 env ASAN_OPTIONS=detect_leaks=0 CUDA_INJECTION64_PATH="$dir/gpu.so" FUNCSNOOP_CUPTI="$dir/cupti.so" \
		"$dir/gpujob" heard 10 known names 500 many 20000 fork left
	assert_stderr ""
	fsn stats gpu --json
	assert_json '.[0].functions[0].calls' 20519
	# Of names that begin alike each is one of its own.
	assert_json '[.[0].functions[0].rows[].key.kernel.name | select(. and startswith("long_"))]
		| [length, (unique | length)]' '[250,250]'
	fsn detach gpu
}
