# SPDX-License-Identifier: BSD-2-Clause
# Memory that was live when its process exited or called exec.
# bats file_tags=bpf

load helpers

LEAKS=$FIX/leaks

setup() {
	common_setup
	need_bpf
	need_no_sanitizer
	need_tool jq
	LIB=$BATS_TEST_TMPDIR/lib
	copy_libc "$LEAKS" "$LIB"
}

attach_malloc() { # OPTION...
	fsn attach malloc --lib "$LIB/libc.so.6" --memory --no-nesting --replace "$@"
}

# Runs CMD with the copy.
with_copy() { # CMD...
	capture env LD_LIBRARY_PATH="$LIB" "$@"
	fsn stats malloc --json
}

# The sums of all functions, and of all their rows: nothing is counted twice, and nothing is missing.
assert_at_exit() { # BYTES BLOCKS
	assert_json '.[0].functions | [map(.exit_bytes // 0), map(.exit_blocks // 0),
		map(.live_bytes // 0), map(.live_blocks // 0)] | map(add // 0)' "[$1,$2,0,0]"
	assert_json '[.[0].functions[] | .rows[]?, .other_rows, .ended_rows | objects]
		| [map(.exit_bytes // 0), map(.exit_blocks // 0)] | map(add // 0)' "[$1,$2]"
}

# By what keep() of the fixture has called.
kept() {
	json '[.[0].functions[] | select(.name == "malloc") | .rows[] | select(.key.caller.name // "" | startswith("keep+"))
		| [.exit_bytes, .exit_blocks]] | transpose | map(add)' -c
}

# bats test_tags=arch
@test "memory: run shows what was live at exit, by caller" {
	fsn run malloc --lib "$LIB/libc.so.6" --memory --by function \
		-- env LD_LIBRARY_PATH="$LIB" "$LEAKS"
	assert_stderr_match '^FUNCTION .* LIVE +BLOCKS +PEAK +FREED +AT EXIT +EXIT BLOCKS$'
	assert_stderr_match '^malloc +600 .* 0 B +0 +.* 300 kB +300$'
	fsn run malloc --lib "$LIB/libc.so.6" --memory --by caller --sort live \
		-- env LD_LIBRARY_PATH="$LIB" "$LEAKS"
	assert_eq "$(sed -n 2p <<<"$stderr" | cut -d' ' -f1)" FUNCTION
	[[ $(sed -n 3p <<<"$stderr") =~ ^malloc\ +keep\+0x.*\ 0\ B\ +0\ +300\ kB\ +300$ ]]
	assert_stderr_match '^malloc +drop\+0x.* 0 B +0 +0 B +0$'
	fsn run malloc --lib "$LIB/libc.so.6" --memory --by caller --top 1 \
		-- env LD_LIBRARY_PATH="$LIB" "$LEAKS"
	assert_stderr_match '^malloc +keep\+0x'
	refute_stderr_match 'drop|^free '
	fsn run malloc --lib "$LIB/libc.so.6" --memory --json --output "$BATS_TEST_TMPDIR/stats" \
		-- env LD_LIBRARY_PATH="$LIB" "$LEAKS"
	output=$(<"$BATS_TEST_TMPDIR/stats")
	assert_at_exit 300000 300
}

@test "memory: FUNCTIONs of a preset are tracked until they are freed, with any LIB" {
	local words

	for words in "malloc malloc --lib $LIB/libc.so.6" "$LIB/libc.so.6:malloc"; do
		# shellcheck disable=SC2086	# words
		fsn run $words --with memory --by caller -- env LD_LIBRARY_PATH="$LIB" "$LEAKS"
		assert_stderr_match '^malloc +keep\+0x.* 0 B +0 +300 kB +300$'
		assert_stderr_match '^malloc +drop\+0x.* 0 B +0 +0 B +0$'
	done
	for words in libc.so.6:malloc libc:malloc c:malloc; do
		fsn attach g "$words" --with memory --dry-run
		assert_output_match '^(.*:)?malloc '
		assert_output_match '^(.*:)?free '
	done
}

@test "memory: run tracks live bytes by default for a preset of allocators" {
	local own=(run malloc --lib "$LIB/libc.so.6")

	fsn "${own[@]}" -- env LD_LIBRARY_PATH="$LIB" "$LEAKS"
	assert_stderr_match '^FUNCTION +CALLER .* LIVE +BLOCKS +AT EXIT +EXIT BLOCKS$'
	[[ $(grep -A1 '^FUNCTION' <<<"$stderr" | tail -n1) =~ ^malloc\ +keep\+0x.*\ 0\ B\ +0\ +300\ kB\ +300$ ]] ||
		fail "not the largest first: $stderr"
	fsn "${own[@]}" --json --output "$BATS_TEST_TMPDIR/stats" -- env LD_LIBRARY_PATH="$LIB" "$LEAKS"
	output=$(<"$BATS_TEST_TMPDIR/stats")
	assert_at_exit 300000 300
	for given in --count '--sample 1/2' '--overhead 90%' free; do
		# shellcheck disable=SC2086	# an option and its value
		fsn "${own[@]}" $given -- env LD_LIBRARY_PATH="$LIB" "$LEAKS"
		refute_stderr_match ' LIVE |live bytes'
	done
	fsn "${own[@]}" -- env LD_LIBRARY_PATH="$LIB" "$LEAKS" thread
	refute_stderr_match 'overhead|probes cost'
	fsn "${own[@]}" -- env LD_LIBRARY_PATH="$LIB" "$LEAKS" loop
	assert_stderr_match "^funcsnoop run: the probes cost [0-9]+ % of the program's own CPU time, more than 10 %: live bytes need every call; '--overhead 10%' limits it, without live bytes$"
	fsn "${own[@]}" -d 10ms
	assert_stderr_match "preset 'malloc': '--with memory' tracks live bytes; the overhead is not limited then$"
	refute_output_match ' LIVE '
}

# bats test_tags=arch
@test "memory: a FUNCTION that a preset knows comes with those that free what it allocates" {
	fsn attach g c:malloc --with memory --dry-run --json
	assert_json '[.[0].functions[] | select(.refused == null).name] | sort' \
		'["free","malloc","realloc","reallocarray"]'
	fsn attach g c:malloc c:calloc --with memory --dry-run --json
	assert_json '[.[0].functions[].name] | index("calloc") != null' true
	fsn -s 2 attach g "$FIX/libfix.so:fix_add" --with memory --dry-run
}

# bats test_tags=arch
@test "memory: a group keeps what was live at exit until the reset" {
	attach_malloc
	with_copy "$LEAKS"
	assert_at_exit 300000 300
	with_copy "$LEAKS"
	assert_at_exit 600000 600
	assert_eq "$(kept)" '[600000,600]'
	fsn -s 3 stats malloc --fail-if 'exit_bytes>585K'
	fsn stats malloc --fail-if 'exit_bytes>586K'
	fsn stats malloc --format prometheus
	assert_output_match '^# TYPE funcsnoop_exit_bytes(_total)? counter$'
	assert_output_match '^funcsnoop_exit_bytes_total\{.*function="malloc".*\} 600000$'
	assert_output_match '^funcsnoop_exit_blocks_total\{.*function="malloc".*\} 600$'
	fsn stats malloc --reset --json
	fsn stats malloc --json
	assert_at_exit 0 0
	with_copy "$LEAKS"
	assert_at_exit 300000 300
	fsn detach malloc
}

# bats test_tags=arch
@test "memory: exec, exits of threads and a reused process id count a block once" {
	local pid

	attach_malloc
	with_copy "$LEAKS" exec
	assert_at_exit 300100 310
	fsn stats malloc --reset --json
	with_copy "$LEAKS" thread
	assert_eq "$(kept)" '[100,10]'
	fsn stats malloc --reset --json
	start_bg first "$FIX/call" --wait-end add 1
	pid=$(bg_pid first)
	stop_bg first
	with_copy "$FIX/pidreuse" "$pid" "$LEAKS"
	assert_eq "$(kept)" '[300000,300]'
	with_copy "$FIX/pidreuse" "$pid" "$LEAKS"
	assert_eq "$(kept)" '[600000,600]'
	fsn detach malloc
}

# bats test_tags=arch
@test "memory: a child in its parent's memory allocates and frees what is the parent's" {
	attach_malloc
	with_copy "$LEAKS" vfork
	assert_at_exit 400 5
	assert_json '[.[0].functions[].unknown_frees | numbers] | add' 0
	assert_json '[.[0].functions[] | select(.name == "malloc") | .freed_bytes, .calls]' '[250,8]'
	fsn detach malloc
}

# Whether reallocarray() calls realloc() depends on the C library.
# bats test_tags=arch
@test "memory: a size of 0 is not an error of realloc(array), with and without --memory" {
	local memory

	for memory in --memory --no-processes; do
		fsn attach malloc --lib "$LIB/libc.so.6" "$memory" --no-nesting --replace
		with_copy "$LEAKS" zero
		assert_json '.[0].functions[] | select(.name == "reallocarray") | [.calls, .errors]' '[40,0]'
		assert_json '.[0].functions[] | select(.name == "realloc") | [.calls >= 20, .errors]' '[true,0]'
		[[ $memory != --memory ]] || assert_at_exit 0 0
		fsn stats malloc --reset --json
		with_copy "$LEAKS" huge
		assert_json '.[0].functions[] | select(.name == "reallocarray") | [.calls, .errors]' '[3,3]'
		assert_json '.[0].functions[] | select(.name == "realloc") | [.calls, .errors]' '[7,7]'
		[[ $memory != --memory ]] || assert_at_exit 100 10
	done
	fsn detach malloc
}

@test "memory: stacks have what was live at exit" {
	need_arch x86_64
	attach_malloc --stacks all
	with_copy "$LEAKS"
	assert_at_exit 300000 300
	fsn stats malloc --by stack
	assert_output_match '^EXIT% +CALLED BY '
	assert_output_match '^100[.]0 .*keep > malloc .* 300 kB +300$'
	refute_output_match 'drop'
	fsn stats malloc --by stack --sort calls
	assert_output_match '^SHARE +CALLED BY '
	assert_output_match 'drop'
	fsn stats malloc --by stack --sort exit --format folded
	assert_output_match '(^|;)keep;malloc 300000$'
	refute_output_match 'drop;malloc'
	fsn stats malloc --by stack --sort exit --format flame
	assert_output_match '"name":"bytes at exit"'
	fsn detach malloc
}

@test "memory: blocks live at exit are those that valgrind reports in use at exit" {
	need_tool valgrind
	need_tool git
	[[ -x /usr/bin/python3 ]] || skip "needs /usr/bin/python3"
	export PYTHONMALLOC=malloc PYTHONHASHSEED=0
	attach_malloc
	same_as_valgrind "$LEAKS"
	same_as_valgrind /usr/bin/python3 -I -S -c pass
	same_as_valgrind "$(command -v git)" --version
	fsn detach malloc
}

# Blocks, of all functions and of all callers: a copy of the environment is longer under valgrind.
same_as_valgrind() { # CMD...
	local blocks bytes

	fsn stats malloc --reset --json
	with_copy "$@"
	blocks=$(json '[.[0].functions[].exit_blocks | numbers] | add')
	bytes=$(json '[.[0].functions[].exit_bytes | numbers] | add')
	assert_at_exit "$bytes" "$blocks"
	capture valgrind --run-libc-freeres=no --run-cxx-freeres=no "$@"
	assert_eq "$blocks" "$(sed -n 's/.*in use at exit: .* bytes in \([0-9,]*\) blocks/\1/p' \
		<<<"$stderr" | tr -d ,)" "$*"
}
