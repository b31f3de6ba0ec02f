# SPDX-License-Identifier: BSD-2-Clause
# Memory that was handed out and not taken back: what is live equals the program's own count.
# bats file_tags=bpf

load helpers

HEAP=$FIX/heap

setup() {
	common_setup
	need_bpf
	need_tool jq
	CONFIG=$BATS_TEST_TMPDIR/heap.json
	cat >"$CONFIG" <<-'END'
	{ "heap_sym": {
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

# What is live, and how many releases were of what is not known: of all functions.
held() {
	json '[.[0].functions[] | [.live_blocks, .live_bytes, .unknown_frees]]
		| "live \(map(.[0]) | add // 0) \(map(.[1]) | add // 0) unknown \(map(.[2]) | add // 0)"' -r
}

# Runs the fixture up to its end, and compares it with what is held then, and in all lists.
assert_held() { # HOW...
	start_bg heap "$HEAP" --wait --wait-end "$@"
	wait_ready heap
	[[ $1 != before ]] || attach_heap
	fsn stats heap --reset --json
	tell heap
	wait_line heap '^done '
	said=$(grep '^live ' "$(bg_out heap)")
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

# bats test_tags=core
@test "what is live is what the program has not given back, whoever frees it, and in any order" {
	attach_heap
	assert_held mix 5000 4
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

@test "frees of blocks from before, and of a parent's, are unknown; who ends or calls exec holds none" {
	assert_held before 100
	end_held
	assert_held fork 100
	fsn list allocations heap --by process --json
	assert_json '[length, .[0].live_blocks, .[0].comm]' '[1,100,"heap"]'
	end_held
	assert_held exec 100
	end_held
	assert_held exit 20000
	fsn stats heap --json
	assert_json '.[0].functions[] | select(.name == "heap_malloc") | .ended_blocks' 20000
	end_held
	fsn detach heap
}

@test "a reset leaves what is live, and begins the peak and what was freed anew" {
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
	fsn stats heap --json
	[[ $(json '[.[0].functions[].live_blocks | numbers] | add') == "$1" ]]
}

@test "a full table counts what it could not follow, and gives up nothing that is live" {
	attach_heap --blocks 4
	start_bg heap "$HEAP" --wait --wait-end fork 100
	wait_ready heap
	tell heap
	wait_line heap '^done '
	fsn stats heap --json
	assert_json '.[0].functions[] | select(.name == "heap_malloc")
		| [.live_blocks, .live_blocks + .lost_blocks]' '[8,100]'
	fsn list allocations heap
	assert_stderr_match '^funcsnoop list: 92 blocks found no room and are not here: attach --blocks N$'
	stop_bg heap
	fsn detach heap
}

@test "memory of CUDA's runtime is followed by the preset, by caller" {
	fsn attach cuda --lib "$FIX/libcudamock.so" --memory --no-nesting
	start_bg heap "$HEAP" --wait --wait-end cuda 10
	wait_ready heap
	tell heap
	wait_line heap '^done '
	fsn stats cuda --json
	assert_eq "$(held)" "$(grep '^live ' "$(bg_out heap)")"
	fsn list allocations cuda
	assert_output_match '^cuda +5.2 MB +5 .* cudaMalloc +cuda\+0x'
	assert_output_match '^cuda +10.0 kB +10 .* cudaMalloc +leak_cuda\+0x'
	stop_bg heap
	fsn detach cuda
}

@test "memory of CUDA's runtime is told apart by stack, and so are flame graphs of bytes" {
	need_arch x86_64
	start_bg heap "$HEAP" --wait --wait-end cuda 10
	wait_ready heap
	fsn attach cuda -p "$(bg_pid heap)" --lib "$FIX/libcudamock.so" --memory --stacks all \
		--no-nesting
	tell heap
	wait_line heap '^done '
	fsn list allocations cuda --by stack --json
	assert_json '[.[] | select(.function == "cudaMalloc" and .stack[0] == "leak_cuda")
		| [.live_blocks, .live_bytes, .stack[1]]]' '[[10,10000,"cuda"]]'
	fsn stats cuda --by stack --sort live --format folded
	assert_output_match ';cuda;leak_cuda;cudaMalloc 10000$'
	fsn stats cuda --by stack --sort live --format flame
	assert_output_match '"chosen":3.*"name":"bytes"'
	stop_bg heap
	fsn detach cuda
}

@test "what memory can't be followed with, and where nothing is known, is told" {
	fsn -s 2 attach my 'fix_*' --lib "$FIX/libfix.so" --memory
	assert_stderr_match 'no function is known to hand out memory'
	assert_stderr_match '"allocates" says it'
	fsn -s 2 attach malloc --blocks 10
	assert_stderr_match -- '--blocks needs --memory'
	fsn -s 2 attach malloc --memory --count
	assert_stderr_match -- 'not with --count'
	fsn -s 2 attach malloc --memory --sample 10
	assert_stderr_match -- 'not with --sample or --budget'
	fsn -s 2 list allocations --by nobody
	assert_stderr_match "is function, caller, stack or process, not 'nobody'"
	fsn -s 2 list allocations --min 1Q
	fsn -s 2 list --min 1K
	fsn attach my fix_add --lib "$FIX/libfix.so"
	fsn -s 1 list allocations my
	assert_stderr_match "group 'my' does not follow memory: attach --memory"
	fsn detach my
}

@test "what python3 and git hold when they end is what valgrind says" {
	local libc

	need_no_sanitizer
	need_tool valgrind git
	[[ -x /usr/bin/python3 ]] || skip "needs /usr/bin/python3"
	libc=$(ldd /usr/bin/python3 | awk '$1 == "libc.so.6" { print $3 }')
	[[ -n $libc ]] || skip "python3 is linked statically"
	mkdir "$BATS_TEST_TMPDIR/lib"
	cp "$libc" "$BATS_TEST_TMPDIR/lib/libc.so.6"
	fsn attach malloc --lib "$BATS_TEST_TMPDIR/lib/libc.so.6" --memory --no-keys --no-nesting
	export PYTHONMALLOC=malloc PYTHONHASHSEED=0
	same_as_valgrind 1,2 /usr/bin/python3 -I -S -c "pass"
	same_as_valgrind 2 "$(command -v git)" --version
	fsn detach malloc
}

# Bytes and blocks, or blocks alone: a copy of the environment is longer under valgrind.
same_as_valgrind() { # FIELDS CMD...
	local held fields=$1

	shift
	fsn stats malloc --reset --json
	capture env LD_LIBRARY_PATH="$BATS_TEST_TMPDIR/lib" "$@"
	fsn stats malloc --json
	held="$(json '[.[0].functions[].ended_bytes | numbers] | add') $(json \
		'[.[0].functions[].ended_blocks | numbers] | add')"
	capture valgrind --run-libc-freeres=no --run-cxx-freeres=no "$@"
	assert_eq "$(cut -d ' ' -f "$fields" <<<"$held")" "$(sed -n \
		's/.*in use at exit: \([0-9,]*\) bytes in \([0-9,]*\) blocks/\1 \2/p' <<<"$stderr" |
		tr -d , | cut -d ' ' -f "$fields")" "$*"
}
