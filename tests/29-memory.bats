# SPDX-License-Identifier: BSD-2-Clause
# Memory allocated and not freed: live blocks equal the program's own count.
# bats file_tags=bpf

load helpers

HEAP=$FIX/heap

setup() {
	common_setup
	need_bpf
	need_tool jq
	CONFIG=$BATS_TEST_TMPDIR/heap.json
	cat >"$CONFIG" <<-'END'
	{ "nothrow": true, "heap_sym": {
		"heap_malloc": { "ret": "void *", "error": "null", "args": ["size_t size"],
			"allocates": { "pointer": "result", "size": "size" } },
		"heap_calloc": { "ret": "void *", "error": "null", "args": ["size_t cnt", "size_t size"],
			"allocates": { "pointer": "result", "size": ["cnt", "size"] } },
		"heap_realloc": { "ret": "void *", "error": "null", "args": ["void *block", "size_t size"],
			"allocates": { "pointer": "result", "size": "size" }, "frees": "block" },
		"heap_aligned": { "ret": "int", "error": "nonzero",
			"args": ["void **to", "size_t align", "size_t size"],
			"allocates": { "pointer": "*to", "size": "size" } },
		"heap_pitch": { "ret": "int", "error": "nonzero",
			"args": ["void **to", "size_t *pitch", "size_t width", "size_t height"],
			"allocates": { "pointer": "*to", "size": ["*pitch", "height"] } },
		"heap_release": { "ret": "int", "error": "nonzero", "args": ["void *block", "int code"],
			"frees": "block" },
		"heap_free": { "ret": "void", "args": ["void *block"], "frees": "block" }
	} }
	END
}

attach_heap() { # OPTION...
	fsn attach --config "$CONFIG" heap --lib "$HEAP" --memory --no-nesting --replace "$@"
}

# Live blocks and frees of unknown memory, over all functions.
held() {
	json '[.[0].functions[] | [.live_blocks, .live_bytes, .unknown_frees]]
		| "live \(map(.[0]) | add // 0) \(map(.[1]) | add // 0) unknown \(map(.[2]) | add // 0)"' -r
}

held_said() {
	grep '^live ' "$(bg_out heap)"
}

# Runs the fixture to its end, and compares it with the live blocks, in all lists.
assert_held() { # HOW...
	start_bg heap "$HEAP" --wait --wait-end "$@"
	wait_ready heap
	[[ $1 != before ]] || attach_heap
	fsn stats heap --reset --json
	tell heap
	wait_line heap '^done '
	said=$(held_said)
	fsn stats heap --json
	assert_eq "$(held)" "$said" "$*"
	fsn list allocations heap --json
	assert_eq "$(json '"live \(map(.live_blocks) | add // 0) \(map(.live_bytes) | add // 0)"' -r)" \
		"${said% unknown*}" "list of $*"
}

end_held() {
	tell heap
	wait_bg heap
	fsn stats heap --json
	assert_eq "$(held | cut -d' ' -f1-3)" "live 0 0"
}

# bats test_tags=core,arch
@test "memory: live bytes match the program's own count, for any thread and order" {
	attach_heap
	assert_held mix 500 16
	end_held
	assert_held mix 2000 4
	fsn list allocations heap
	assert_output_match '^heap +[0-9.]+ k?B +[0-9]+ +[0-9.]+ [mu]?s +heap_malloc +get\+0x[0-9a-f]+'
	end_held
	assert_held double 100
	fsn stats heap --json
	assert_json '.[0].functions[] | select(.name == "heap_malloc")
		| [.freed_bytes, .peak_bytes]' '[1600,1600]'
	end_held
	assert_held sizes 20
	end_held
	assert_held fail 50
	end_held
	fsn detach heap
}

@test "memory: frees of older and inherited blocks are unknown; exit and exec free all" {
	assert_held before 100
	end_held
	assert_held fork 100
	fsn list allocations heap --by process --json
	assert_json '[length, .[0].live_blocks, .[0].comm]' '[1,100,"heap"]'
	end_held
	assert_held alike 100
	end_held
	assert_held exec 100
	end_held
	assert_held exit 2000
	fsn stats heap --json
	assert_json '.[0].functions[] | select(.name == "heap_malloc") | .exit_blocks' 2000
	end_held
	fsn detach heap
}

@test "memory: a reset keeps live memory and resets peak and freed" {
	attach_heap
	start_bg heap "$HEAP" --wait leak 9
	wait_ready heap
	tell heap
	tell heap
	tell heap
	poll_until -t 10 holds_blocks 2
	fsn stats heap --reset --json
	fsn stats heap --json
	assert_json '.[0].functions[] | [.calls, .live_blocks, .live_bytes, .peak_bytes, .freed_bytes]' \
		'[0,2,2048,2048,0]'
	tell heap
	poll_until -t 10 holds_blocks 3
	fsn list allocations heap
	assert_output_match '^heap +3.1 kB +3 +.* heap_malloc +(main|leak|blocks_of)\+0x[0-9a-f]+$'
	local line
	line=$(grep -n 'blocks\[i\] = heap_malloc(size);' "$BATS_TEST_DIRNAME/fixtures/heap.c" | cut -d: -f1)
	fsn list allocations heap --lines
	assert_output_match "^heap +3.1 kB +3 +.* heap_malloc +(main|leak|blocks_of)\+0x[0-9a-f]+ \(heap\.c:$line( in blocks_of)?\)\$"
	fsn list allocations heap --by function --json
	assert_json '.[0] | [.function, .live_bytes, .live_blocks]' '["heap_malloc",3072,3]'
	fsn list allocations heap --min 4K
	assert_stderr_match 'nothing is held'
	fsn list allocations heap --older-than 1000s
	assert_stderr_match 'nothing is held'
	fsn -s 2 list allocations heap --by stack
	assert_stderr_match "does not know the stack of its calls"
	fsn -s 3 stats heap --fail-if 'live_bytes>2K'
	fsn stats heap --fail-if 'live_bytes>1G'
	fsn stats heap --format prometheus
	assert_output_match "^funcsnoop_live_bytes\{group=\"heap\",function=\"heap_malloc\",.*,process=\"$(bg_pid heap)\"\} 3072$"
	fsn stats heap --by caller --sort live_bytes
	assert_output_match '^heap_malloc +[a-z_]+\+0x.* 3.1 kB +3$'
	fsn stats heap --save "$BATS_TEST_TMPDIR/before"
	tell heap
	poll_until -t 10 holds_blocks 4
	fsn stats heap --diff "$BATS_TEST_TMPDIR/before"
	assert_output_match '^heap_malloc +live +3.1 kB +4.1 kB +\+33.3 %'
	stop_bg heap
	fsn detach heap
}

holds_blocks() {
	fsn stats --json
	[[ $(json '[.[0].functions[].live_blocks | numbers] | add') == "$1" ]]
}

all_of() { # FIELD: added up over all functions
	json "[.[0].functions[].$1 | numbers] | add // 0"
}

@test "memory: a million live blocks, freed by others, across resets; exits stay fast" {
	local alone most

	alone=$("$HEAP" exits 30 | sed -n 's/^least //p')
	attach_heap --no-keys --blocks 1000000
	start_bg heap "$HEAP" --wait --wait-end crowd 1000000 16
	wait_ready heap
	tell heap
	until grep -q '^done ' "$(bg_out heap)"; do
		fsn stats heap --reset --json
	done
	fsn stats heap --json
	assert_eq "$(held)" "$(held_said)"
	most=$(sed -n 's/^most //p' "$(bg_out heap)")
	assert_between "$(all_of peak_bytes)" "$(all_of live_bytes)" "$most"
	fsn list allocations heap --by process --json
	assert_eq "$(json '"live \(.[0].live_blocks) \(.[0].live_bytes) unknown 0"' -r)" "$(held_said)"
	# A table of 117 MB is not scanned completely when a process with one block in it
	# exits.
	assert_between "$("$HEAP" exits 30 | sed -n 's/^least //p')" 1 $((10 * alone))
	end_held
	capture "$HEAP" exit 100000
	fsn stats heap --json
	assert_eq "$(held)" 'live 0 0 unknown 0'
	assert_eq "$(all_of exit_blocks)" $((666656 + 30 + 100000))
	fsn detach heap
}

@test "memory: a full table counts dropped allocations and keeps live ones" {
	fsn attach --config "$CONFIG" heap --lib "$HEAP" --no-nesting --replace --blocks 4
	start_bg heap "$HEAP" --wait --wait-end fork 100
	wait_ready heap
	tell heap
	wait_line heap '^done '
	fsn stats heap --json
	assert_json '.[0].functions[] | select(.name == "heap_malloc")
		| [.live_blocks, .live_blocks + .lost_blocks]' '[8,100]'
	fsn list allocations heap
	assert_stderr_match '^funcsnoop list: 92 blocks were not tracked: table full; attach the group again with --replace --limit allocations=N$'
	fsn stats heap
	assert_stderr_match '^funcsnoop stats: 92 blocks are not in the live memory: table full; attach the group again with --replace --limit allocations=N$'
	end_held
	# All threads at one set: what they free of others is of those, or unknown.
	start_bg heap "$HEAP" --wait --wait-end crowd 20000 16
	wait_ready heap
	fsn stats heap --reset --json
	fsn stats heap --all --json
	assert_json '.[0].functions[] | select(.name == "heap_malloc") | .lost_blocks' 92
	tell heap
	wait_line heap '^done '
	fsn stats heap --json
	assert_between "$(all_of live_blocks)" 1 8
	assert_eq $(($(all_of live_blocks) + $(all_of lost_blocks) - 92 - $(all_of unknown_frees))) \
		"$(held_said | cut -d' ' -f2)"
	end_held
	fsn detach heap
}

@test "memory: GPU memory is tracked for each function of runtime, driver and NCCL" {
	local lib=$FIX/libgpuheap.so preset

	for preset in cuda cuda-driver nccl; do
		fsn attach "$preset" --lib "$lib" --memory --no-nesting
	done
	assert_held_on_gpu runtime cuda 1
	fsn list allocations cuda
	assert_held_on_gpu driver cuda-driver 1
	assert_held_on_gpu nccl nccl 0
	fsn detach --all
}

# Half of the blocks of each function, after frees that fail. Successful BULK calls free an
# unknown set of a device's blocks, which is reported.
assert_held_on_gpu() { # HOW GROUP BULK
	start_bg heap "$FIX/gpuheap" --wait-end "$1" 10
	wait_line heap '^done '
	fsn stats "$2" --json
	assert_eq "$(held)" "$(held_said)" "$1"
	assert_json '.[0].health.bulk_frees' "$3"
	if (($3)); then
		fsn stats "$2"
		assert_stderr_match 'stats: 1 call may have freed all memory of a device or context: '
	fi
	fsn list allocations "$2"
	if (($3)); then
		assert_stderr_match 'list: 1 call may have freed all memory of a device or context: '
	fi
	assert_output_match "^$2 +5.0 kB +5 .* (cudaMalloc|cuMemAlloc_v2|ncclMemAlloc) +$1\+0x"
	fsn list allocations "$2" --json
	assert_eq "$(json '"live \(map(.live_blocks) | add) \(map(.live_bytes) | add)"' -r)" \
		"$(held_said | cut -d' ' -f1-3)" "list of $1"
	tell heap
	wait_bg heap
	fsn stats "$2" --json
	assert_eq "$(held | cut -d' ' -f1-3)" "live 0 0" "$1"
}

@test "memory: PyTorch's tensors are tracked in its own allocators" {
	local said

	fsn attach tensors --lib "$FIX/libc10_cuda.so" --memory --no-nesting
	start_bg heap "$FIX/gpuheap" --wait-end tensors 10
	wait_line heap '^done '
	fsn stats tensors --json
	assert_eq "$(held)" "$(held_said)"
	assert_json '[.[0].functions[] | [.live_blocks | numbers] | add | numbers]' '[5,5]'
	stop_bg heap
	fsn detach tensors
	[[ -e $FIX/torchcall ]] || skip "no libtorch with headers here (Debian: libtorch-dev)"
	fsn attach tensors --memory --no-nesting
	capture "$FIX/torchcall" keep 100
	said=$output
	fsn stats tensors --json
	assert_eq "live $(all_of exit_blocks) $(all_of exit_bytes)" "$said"
	assert_eq "$(all_of unknown_frees)" 0
	fsn detach tensors
}

@test "memory: one command shows growing leaks with their callers" {
	start_bg heap "$HEAP" --wait leak 9
	wait_ready heap
	start_bg look "$FUNCSNOOP" run heap --config "$CONFIG" --lib "$HEAP" --memory \
		-p "$(bg_pid heap)" --by caller --sort live -i 0.2 -d 60
	assert_grows '^heap_malloc  (main|leak|blocks_of)\+0x[0-9a-f]+'
	start_bg heap "$FIX/gpuheap" --wait leak 9
	wait_ready heap
	start_bg look "$FUNCSNOOP" run cuda --lib "$FIX/libgpuheap.so" --memory \
		-p "$(bg_pid heap)" --by caller --sort live -i 0.2 -d 60
	assert_grows '^cudaMalloc  leak\+0x[0-9a-f]+'
}

assert_grows() { # REGEX: of the row
	poll_until -t 10 grep -q attached "$(bg_err look)"
	tell heap
	for n in 1 2 3; do
		tell heap
		poll_until -t 10 grep -qE "$1 .* $n.[0-9] kB +$n\$" "$(bg_out look)"
	done
	stop_bg look
	stop_bg heap
}

# The function's own counters, and those of its rows, are in maps that are read one after another.
# A call in flight can return between these readings.
@test "memory: run reads calls, rows and live blocks of one moment while a process allocates" {
	start_bg busy "$HEAP" --wait mix 1000000000 2
	wait_line busy '^ready'
	tell busy
	for _ in 1 2 3; do
		fsn run heap --config "$CONFIG" --lib "$HEAP" --with memory -p "$(bg_pid busy)" -d 0.5 --json
		assert_json_true '.[0].functions | map(select(.calls > 100)) | length > 3 and
			all(.[]; .calls == (.rows | map(.calls) | add) and
				((.live_blocks // 0) - (.rows | map(.live_blocks // 0) | add) | fabs) <= .in_flight)'
	done
	stop_bg busy
}

@test "memory: CUDA's runtime is shown by stack, and in flame graphs of bytes" {
	need_arch x86_64
	start_bg heap "$FIX/gpuheap" --wait leak 99
	wait_ready heap
	fsn attach cuda --lib "$FIX/libgpuheap.so" --memory --stacks all --no-nesting
	for _ in {0..10}; do
		tell heap
	done
	poll_until -t 10 holds_blocks 10
	fsn list allocations cuda --by stack --json
	assert_json '[.[] | select(.function == "cudaMalloc" and .stack[0] == "leak")
		| [.live_blocks, .live_bytes, .stack[1]]]' '[[10,10000,"main"]]'
	fsn stats cuda --by stack --sort live --format folded
	assert_output_match ';main;leak;cudaMalloc 10000$'
	fsn stats cuda --by stack --sort live --format flame
	assert_output_match '"chosen":3.*"name":"bytes"'
	start_bg all "$FIX/gpuheap" --wait-end runtime 10
	wait_line all '^done '
	fsn stats cuda --by stack --sort live --format csv
	assert_output_match ',cuda,12\.609,5,cudaMalloc3D,11,' # 30,000 bytes of 237,920
	stop_bg all
	stop_bg heap
	# Nothing is held any more: what is sorted by has no shares, and those of calls are not its.
	fsn stats cuda --by stack --sort live --format csv
	assert_output_match ',cuda,,5,cudaMalloc,11,'
	fsn detach cuda
}

@test "memory: failed calls of a CUDA runtime without a driver allocate nothing" {
	need_cuda
	fsn attach cuda cudaMalloc cudaFree --lib "$CUDART" --memory --no-nesting
	capture "$FIX/cudacall" "$CUDART" 5
	[[ $output != *'cudaMalloc 0 '* ]] || skip "there is a driver"
	fsn stats cuda --json
	assert_json '.[0].functions[] | select(.name == "cudaMalloc")
		| [.calls, .errors, .live_blocks, .peak_bytes, .exit_blocks]' '[5,5,0,0,0]'
	fsn detach cuda
}

@test "memory: wrong options, and functions that do not allocate, are errors" {
	fsn -s 2 attach my 'fix_*' --lib "$FIX/libfix.so" --memory
	assert_stderr_match 'no function of the group is known to allocate memory'
	assert_stderr_match '"allocates" in a configuration'
	fsn -s 2 attach malloc --memory --count
	assert_stderr_match 'not with --count'
	fsn -s 2 attach malloc --blocks 10 --count
	assert_stderr_match 'not with --count'
	fsn -s 2 attach malloc --memory --sample 10
	assert_stderr_match 'not with --sample or --overhead'
	fsn -s 2 list allocations --by nobody
	assert_stderr_match "is function, caller, stack or process, not 'nobody'"
	fsn -s 2 list allocations --min 1Q
	fsn -s 2 list --min 1K
	fsn attach my fix_add --lib "$FIX/libfix.so"
	fsn -s 1 list allocations my
	assert_stderr_match "group 'my' does not follow memory: attach the group again with --replace --with memory"
	fsn detach my
}

@test "memory: live blocks at exit of python3, git and g++ match valgrind and a preload" {
	need_no_sanitizer
	need_tool git
	[[ -x /usr/bin/python3 ]] || skip "needs /usr/bin/python3"
	copy_libc /usr/bin/python3 "$BATS_TEST_TMPDIR/lib"
	fsn attach malloc --lib "$BATS_TEST_TMPDIR/lib/libc.so.6" --memory --no-keys --no-nesting
	same_as_inside /usr/bin/python3 -c 'import json, threading
a = [threading.Thread(target=lambda: [bytearray(i) for i in range(500)]) for _ in range(8)]
[t.start() for t in a]
[t.join() for t in a]'
	same_as_inside "$(command -v git)" --version
	echo 'int main() { return 0; }' >"$BATS_TEST_TMPDIR/empty.cc"
	same_as_inside "$("${CXX:-g++}" -print-prog-name=cc1plus)" -quiet "$BATS_TEST_TMPDIR/empty.cc" \
		-o /dev/null
	need_tool valgrind
	export PYTHONMALLOC=malloc PYTHONHASHSEED=0
	same_as_valgrind 1,2 /usr/bin/python3 -I -S -c "pass"
	same_as_valgrind 2 "$(command -v git)" --version
	fsn detach malloc
}

# Runs CMD with the copy of the C library, with a counting library preloaded.
same_as_inside() { # CMD...
	if ! command -v "$1" >/dev/null; then
		return
	fi
	rm -f "$BATS_TEST_TMPDIR/truth"
	fsn stats malloc --reset --json
	capture env LD_LIBRARY_PATH="$BATS_TEST_TMPDIR/lib" LD_PRELOAD="$FIX/heaptruth.so" \
		HEAPTRUTH="$BATS_TEST_TMPDIR/truth" "$@"
	fsn stats malloc --json
	assert_eq "$(all_of exit_blocks) $(all_of exit_bytes)" "$(<"$BATS_TEST_TMPDIR/truth")" "$1"
}

# Bytes and blocks, or blocks alone: a copy of the environment is longer under valgrind.
same_as_valgrind() { # FIELDS CMD...
	local held fields=$1

	shift
	fsn stats malloc --reset --json
	capture env LD_LIBRARY_PATH="$BATS_TEST_TMPDIR/lib" "$@"
	fsn stats malloc --json
	held="$(json '[.[0].functions[].exit_bytes | numbers] | add') $(json \
		'[.[0].functions[].exit_blocks | numbers] | add')"
	capture valgrind --run-libc-freeres=no --run-cxx-freeres=no "$@"
	assert_eq "$(cut -d ' ' -f "$fields" <<<"$held")" "$(sed -n \
		's/.*in use at exit: \([0-9,]*\) bytes in \([0-9,]*\) blocks/\1 \2/p' <<<"$stderr" |
		tr -d , | cut -d ' ' -f "$fields")" "$*"
}
