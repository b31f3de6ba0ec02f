# SPDX-License-Identifier: BSD-2-Clause
# Keys of GPU libraries' calls: NCCL communicators, launched kernels. No GPU is used: the real
# libraries fail, and stubs and mocks replace the driver.
# bats file_tags=bpf

load helpers

STUB=$FIX/libncclstub.so
STUB_AT=0x1044c8

setup() {
	common_setup
	need_bpf
	need_tool jq
}

# --- communicators ------------------------------------------------------------------------

@test "nccl: groups collectives by communicators created before the attach" {
	local made

	fsn attach nccl --lib "$STUB" --key communicator
	capture "$FIX/ncclcall" "$STUB" made "$STUB_AT"
	assert_output_match 'ncclAllReduce 0 x5'
	made=$(rows nccl communicator "function communicator calls errors" | grep -v 0x | sort)
	assert_eq "$made" "ncclAllReduce fa93daea854b060b 3/8 5 0
ncclBroadcast fa93daea854b060b 3/8 2 0"
	fsn stats nccl --json
	assert_json '[.[0].functions[].rows[].key.communicator | select(.name)
		| [.value, .name, .rank, .ranks, .device]] | unique' \
		'[["0xfa93daea854b060b","fa93daea854b060b 3/8",3,8,3]]'
	assert_json '[.[0].functions[].rows[] | select(.key.communicator.name == null)
		| [.calls, .errors, .key.communicator.value == "0x0", (.key.communicator | length)]]
		| sort' '[[1,0,false,2],[1,1,true,2]]'
	fsn detach nccl
}

@test "nccl: communicators of the real library are known without a GPU" {
	local version
	local -A at=([22809]=0x1044c8)

	need_nccl
	capture "$FIX/ncclcall" "$NCCL" made 0
	version=$(sed -n 's/^version //p' <<<"$output")
	[[ ${at[$version]-} ]] || skip "where NCCL $version has its rank was not looked up"
	fsn attach nccl --lib "$NCCL" --key communicator
	capture "$FIX/ncclcall" "$NCCL" made "${at[$version]}"
	assert_output_match 'ncclAllReduce 4 x5'
	assert_eq "$(rows nccl communicator "function communicator calls errors" | grep -v 0x | sort)" \
		"ncclAllReduce fa93daea854b060b 3/8 5 5
ncclBroadcast fa93daea854b060b 3/8 2 2"
	fsn stats nccl --json
	assert_json '[.[0].functions[].rows[].key.communicator | select(.name)] | unique
		| [.[] | [.name, .device]]' '[["fa93daea854b060b 3/8",3]]'
	fsn detach nccl
}

@test "nccl: key 'communicator' is refused if the functions disagree about the rank" {
	fsn -s 1 attach nccl --lib "$FIX/disagree/libncclstub.so" --key communicator
	assert_stderr_match "^funcsnoop attach: --by 'communicator': cannot find the rank in communicators of .*\
/disagree/libncclstub.so: ncclCommUserRank, ncclCommCount and \
ncclCommCuDevice disagree\$"
	fsn attach nccl --lib "$FIX/disagree/libncclstub.so"
	assert_stderr_match "^funcsnoop attach: group 'nccl': --by 'communicator': cannot find the rank in .* disagree\$"
	fsn list nccl --json
	assert_json '[.[0].options | .keys, .sums]' '[[],["bytes"]]'
	fsn detach nccl
	fsn -s 2 attach mine fix_add --lib "$FIX/libfix.so" --key communicator
	assert_stderr_match "^funcsnoop attach: --by 'communicator': no function has an argument \
of type ncclComm_t\$"
	fsn list
	assert_output ""
}

@test "nccl: bytes of collectives are counts times the size of an element" {
	fsn attach nccl --lib "$STUB"
	capture "$FIX/ncclcall" "$STUB" made "$STUB_AT"
	assert_eq "$(rows nccl communicator "function communicator calls sum_bytes" | grep -v 0x | sort)" \
		"ncclAllReduce fa93daea854b060b 3/8 5 10485760
ncclBroadcast fa93daea854b060b 3/8 2 8000"
	fsn stats nccl --by communicator
	assert_output_match '^FUNCTION +COMMUNICATOR +BYTES +BYTES/S offered +CALLS '
	fsn stats nccl --json
	assert_json '[.[0].functions[].rows[] | select(.key.communicator.name) | .sums.bytes] | add' \
		10493760
	fsn detach nccl
}

# All that who looks for the rank that is missing wants to know.
@test "nccl: a hanging collective is one line with communicator, rank, bytes and arguments" {
	local pid

	fsn attach nccl --lib "$STUB" --key communicator --sum bytes --slow 0ns
	start_bg two "$FIX/ncclcall" "$STUB" two
	wait_line two '^hung '
	pid=$(bg_pid two)
	fsn list inflight
	assert_eq "${#lines[@]}" 2
	assert_output_match "^nccl +$pid +[0-9]+ +ncclcall +[0-9.]+ .*s +ncclAllReduce \
communicator=fa93daea854b060b 0/2 bytes=8192 \\(sendbuff=0x[0-9a-f]+, recvbuff=0x[0-9a-f]+, \
count=1024, datatype=ncclFloat64, op=ncclSum, comm=0x[0-9a-f]+, stream=NULL\\)\$"
	fsn list inflight --json
	assert_json '.[] | [.key.communicator.name, .key.communicator.device, .sums, .args.count,
		.args.datatype]' \
		'["fa93daea854b060b 0/2",0,{"bytes":8192},1024,"ncclFloat64"]'
	assert_eq "$(rows nccl communicator "communicator calls returns" | sort)" \
		"fa93daea854b060b 0/2 4 3
fa93daea854b060b 1/2 3 3"
	tell two
	wait_bg two
	fsn stats nccl --slow
	assert_eq "$(grep -c 'ncclAllReduce communicator=fa93daea854b060b 0/2 bytes=8192 (' <<<"$output")" 4
	assert_eq "$(grep -c 'ncclAllReduce communicator=fa93daea854b060b 1/2 bytes=8192 (' <<<"$output")" 3
	fsn stats nccl --slow --json
	assert_json '[.[0].slow_calls[] | [.key.communicator.rank, .sums.bytes]] | group_by(.)
		| map([.[0], length])' '[[[0,8192],4],[[1,8192],3]]'
	fsn detach nccl
}

# --- kernels ------------------------------------------------------------------------------

MOCK=$FIX/libcudamock.so

# Into $BATS_TEST_TMPDIR/rows what launches of PROGRAM, which runs while they are named, have of
# kernels: "function kernel calls".
launched() { # GROUP PROGRAM CASE...
	start_bg launched env LD_LIBRARY_PATH="$FIX" "${@:2}" --wait-end
	wait_line launched '^done '
	rows "$1" kernel "function kernel calls" | sort >"$BATS_TEST_TMPDIR/rows"
	tell launched
	wait_bg launched
}

@test "gpu: each launch counts once, under the kernel's name" {
	local program want

	want="__cudaLaunchKernel add<float> 3
__cudaLaunchKernel ns::scale 2
__cudaLaunchKernel plain 1
cudaLaunchKernel add<float> 4
cudaLaunchKernel plain 2
cudaLaunchKernelExC ns::scale 5"
	fsn attach cuda --lib "$MOCK"
	# Without symbols, the names are those in the registration code.
	for program in kernels stripped/kernels unoptimised/kernels unoptimised/stripped/kernels; do
		fsn reset cuda
		launched cuda "$FIX/$program" stubs host handle
		assert_eq "$(cat "$BATS_TEST_TMPDIR/rows")" "$want"
	done
	# They outlive the process.
	assert_eq "$(rows cuda kernel "function kernel calls" | sort)" "$want"
	fsn stats cuda --json
	assert_json '[.[0].functions[].rows[].key.kernel | select(. != null) | .name] | unique' \
		'["add<float>","ns::scale","plain"]'
	# Inner calls count as calls of their functions.
	assert_json '[.[0].functions[] | select(.name == "cudaLaunchKernel") | .calls]' '[17]'
	assert_json '.[0].health.inner_launches' 0
	# Without nesting, inner launches are not recognized; the command says so.
	fsn attach cuda --lib "$MOCK" --no-nesting --replace
	launched cuda "$FIX/kernels" stubs host handle
	fsn stats cuda --json
	assert_json '[.[0].functions[].rows[] | select(.key.kernel) | .calls] | add' 28
	assert_json '.[0].health.inner_launches' 11
	fsn stats cuda --by kernel
	assert_stderr_match '^funcsnoop stats: up to 11 launches are a part of another one: '
	fsn detach cuda
}

# Factors behind pointers have the offsets of CUDA's own headers.
@test "gpu: bytes of copies match the source by kind, 2D, 3D, peer and array included" {
	fsn attach cuda --lib "$MOCK"
	fsn attach cuda-driver --lib "$MOCK"
	capture env LD_LIBRARY_PATH="$FIX" "$FIX/kernels" copies
	fsn stats cuda --json
	assert_json '[.[0].functions[].rows[] | select(.calls > 0)
		| [(.key.kind.name // "" | ltrimstr("cudaMemcpy")), .sums.count]] | group_by(.[0])
		| map([.[0][0], (map(.[1]) | add)])' \
		'[["",5489],["DeviceToDevice",8192],["DeviceToHost",200],["HostToDevice",14524]]'
	assert_json '[.[0].functions[] | select(.calls > 0) | [.name, ([.rows[].sums.count] | add)]]
		| map(select(.[0] | test("2D|3D|Peer|Array"))) | sort' \
		'[["cudaMemcpy2D",1280],["cudaMemcpy2DToArray",256],["cudaMemcpy3D",384],["cudaMemcpy3DPeer",105],["cudaMemcpyPeer",5000],["cudaMemcpyToArray",700]]'
	# The size of an array's elements is unknown.
	assert_json '.[0].health.lost_texts' 1
	fsn stats cuda-driver --json
	assert_json '[.[0].functions[] | select(.calls > 0) | [.name, ([.rows[].sums.ByteCount] | add)]]
		| sort' '[["cuMemcpy2D_v2",77],["cuMemcpy3D_v2",6000],["cuMemcpyPeer",900]]'
	fsn detach cuda cuda-driver
}

@test "gpu: factors of presets' sums have the offsets of CUDA's headers" {
	local include=/usr/local/cuda/include dir=$BATS_TEST_TMPDIR

	[[ -e $include/cuda.h && -e $include/cuda_runtime_api.h ]] || skip "no headers of CUDA"
	{
		printf '#include <cuda.h>\n#include <cuda_runtime_api.h>\n#include <stddef.h>\n'
		printf 'typedef struct cudaMemcpy3DParms A;\ntypedef struct cudaMemcpy3DPeerParms B;\n'
		printf '_Static_assert(offsetof(%s, %s) == %s, "");\n' A srcArray 0 A dstArray 64 \
			A extent 128 B srcArray 0 B dstArray 72 B extent 144 \
			CUDA_MEMCPY2D WidthInBytes 112 CUDA_MEMCPY2D Height 120 \
			CUDA_MEMCPY3D WidthInBytes 176 CUDA_MEMCPY3D Depth 192 \
			CUDA_MEMCPY3D_PEER WidthInBytes 176 CUDA_MEMCPY3D_PEER Depth 192
	} >"$dir/offsets.c"
	capture cc -fsyntax-only -I"$include" "$dir/offsets.c"
	assert_eq "$(grep -o '"sum": "count = p@[^"]*' lib/presets/cuda.json | sort | uniq -c | tr -s ' ')" \
		' 4 "sum": "count = p@128 * p@136 * p@144 unless p@0, p@64
 4 "sum": "count = p@144 * p@152 * p@160 unless p@0, p@72'
	assert_eq "$(grep -o '"sum": "ByteCount = [^"]*' lib/presets/cuda-driver.json | sort -u)" \
		'"sum": "ByteCount = pCopy@112 * pCopy@120
"sum": "ByteCount = pCopy@176 * pCopy@184 * pCopy@192'
}

@test "gpu: hanging and slow launches have their kernel's name, also after a reset" {
	local pid

	fsn attach cuda --lib "$MOCK" --slow 0ns
	start_bg hang env LD_LIBRARY_PATH="$FIX" "$FIX/kernels" stubs hang
	wait_line hang '^hung '
	pid=$(bg_pid hang)
	fsn list inflight
	assert_output_match "^cuda +$pid +[0-9]+ +kernels +[0-9.]+ .*s +cudaLaunchKernel \
kernel=plain \\(func=0x"
	fsn stats cuda --slow
	assert_output_match 'cudaLaunchKernel kernel=add<float> \('
	fsn reset cuda
	fsn list inflight --json
	assert_json '[.[] | .key.kernel.name]' '["plain"]'
	tell hang
	wait_bg hang
	fsn stats cuda --slow --json
	assert_json '[.[0].slow_calls[] | .key.kernel.name]' '["plain"]'
	fsn detach cuda
}

@test "gpu: keys of a preset also work if run waits for the library" {
	ldconfig -p | grep -q libcuda.so.1 && skip "there is a driver"
	cp "$MOCK" "$BATS_TEST_TMPDIR/libcuda.so.1"
	fsn run cuda-driver --by kernel --format csv -o "$BATS_TEST_TMPDIR/csv" -- \
		env LD_PRELOAD="$BATS_TEST_TMPDIR/libcuda.so.1" "$FIX/kernels" driver
	assert_stderr_match "'libcuda\.so\.1' yet: waiting for it"
	assert_eq "$(tr -d '\r' <"$BATS_TEST_TMPDIR/csv" | awk -F, '
		NR == 1 { for (i = 1; i <= NF; i++) col[$i] = i; next }
		{ print $col["function"], $col["kernel"], $col["calls"] }' | sort)" \
		"cuLaunchKernel blend 3
cuLaunchKernel sort_keys 1
cuLaunchKernelEx blend 2"
}

@test "gpu: handles of the driver API are named if their lookup was traced" {
	fsn attach cuda-driver --lib "$MOCK"
	launched cuda-driver "$FIX/kernels" driver unknown
	fsn -s 2 attach mine fix_add --lib "$FIX/libfix.so" --key kernel
	assert_stderr_match "^funcsnoop attach: --by 'kernel': no function is known to launch kernels\$"
	sed 's/0x[0-9a-f]*/HANDLE/' "$BATS_TEST_TMPDIR/rows" >"$BATS_TEST_TMPDIR/want"
	assert_eq "$(cat "$BATS_TEST_TMPDIR/want")" "cuLaunchKernel HANDLE 7
cuLaunchKernel blend 3
cuLaunchKernel sort_keys 1
cuLaunchKernelEx blend 2"
	fsn stats cuda-driver --json
	assert_json '[.[0].functions[].rows[] | select(.key.kernel.name == null) | .calls]' '[7]'
	fsn detach cuda-driver
}

# Only CUDA's compiler and runtime define what a launch is.
@test "gpu: kernels compiled by nvcc have the names and counts of their source" {
	local nvcc lib how dir=$BATS_TEST_TMPDIR/cuda want

	nvcc=$(PATH=$PATH:/usr/local/cuda/bin type -P nvcc) || skip "needs nvcc, of CUDA"
	mkdir "$dir"
	cp "tests/fixtures/kernels.cu" "$dir"
	"$nvcc" -cudart shared -O2 -o "$dir/kernels" "$dir/kernels.cu" >"$dir/log" 2>&1 ||
		skip "nvcc does not compile here: $(head -n 1 "$dir/log")"
	lib=$(find -L "${nvcc%/bin/nvcc}" -name 'libcudart.so.*' 2>/dev/null | head -n 1)
	[[ -n $lib ]] || skip "no libcudart beside nvcc"
	cp -L "$lib" "$dir/" # whose processes are nobody else's
	"$nvcc" -cudart shared -O0 -o "$dir/plain" "$dir/kernels.cu"
	"$nvcc" -cudart static -O2 -o "$dir/static" "$dir/kernels.cu"
	strip -o "$dir/stripped" "$dir/kernels"
	strip -o "$dir/bare" "$dir/plain"
	want="__cudaLaunchKernel add<double> 1
__cudaLaunchKernel add<float> 2
__cudaLaunchKernel hidden 4
__cudaLaunchKernel ns::scale 3
__cudaLaunchKernel plain 5
cudaLaunchKernel ex 1
cudaLaunchKernelExC ex 13"
	fsn attach cuda --lib "$dir/${lib##*/}"
	for how in kernels plain stripped bare; do
		fsn reset cuda
		start_bg "$how" env LD_LIBRARY_PATH="$dir" "$dir/$how"
		wait_line "$how" '^done'
		assert_eq "$(rows cuda kernel "function kernel calls" | sort)" "$want"
		tell "$how"
		wait_bg "$how"
	done
	fsn attach cuda --lib "$dir/static" --replace
	start_bg static "$dir/static"
	wait_line static '^done'
	assert_eq "$(rows cuda kernel "function kernel calls" | sort)" "$want"
	tell static
	wait_bg static
	fsn detach cuda
}
