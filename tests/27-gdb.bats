# SPDX-License-Identifier: BSD-2-Clause
# Stacks of real programs that start after attach, against those that gdb finds of the same calls.
# bats file_tags=bpf

load helpers

setup() {
	common_setup
	need_bpf
	need_arch x86_64
	need_tool jq gdb nm setarch
	"$FUNCSNOOP" feature --json | jq -e '.stacks_without_tables.complete' >/dev/null ||
		skip "the page cache can't be read here: see 'funcsnoop feature'"
	LIB=$BATS_TEST_TMPDIR/lib
	copy_libc "$(command -v bash)" "$LIB"
	LIBC=$LIB/libc.so.6
}

# As gdb runs it: the same environment, and no random addresses.
alone() {
	setarch -R env -i LD_LIBRARY_PATH="$LIB" LC_ALL=C PERL_HASH_SEED=0 HOME=/ "$@" </dev/null
}

gdb_stacks() { # NAME=VALUE OUT COMMAND...
	local what=$1 out=$2 offset
	shift 2
	offset=$(nm -D "$LIBC" | awk '$3 ~ /^malloc@/ { print "0x" $1 }')
	# gdb itself has the system's library.
	env "$what" FUNC_OFFSET="$offset" OUT="$out" gdb -q -batch -nx \
		-ex "set exec-wrapper env -i LD_LIBRARY_PATH=$LIB LC_ALL=C PERL_HASH_SEED=0 HOME=/" \
		-x "$BATS_TEST_DIRNAME/gdb_stacks.py" --args "$@" </dev/null
}

# Lines of `CALLS FRAME...` as those of tests/gdb_stacks.py.
our_stacks() {
	jq -r '.[0].functions[].rows[] | "\(.calls) \([.key.stack.frames[] | .file + ":" + .offset] | join(" "))"' |
		awk '{ calls = $1; sub(/^[0-9]+ /, ""); sum[$0] += calls }
			END { for (stack in sum) print sum[stack], stack }' | sort
}

# The document of a program's run, with its files in the page cache.
our_run() { # COMMAND...
	alone ldd "$1" | grep -o '/[^ ]*' | xargs cat "$1" >/dev/null
	fsn attach st malloc --lib "$LIBC" --stacks all --count
	alone "$@" >/dev/null
	fsn stats st --json --output "$BATS_TEST_TMPDIR/doc"
	fsn detach st
	output=$(<"$BATS_TEST_TMPDIR/doc")
}

@test "stacks: frames and numbers of calls of programs that start after attach are those of gdb" {
	local name program stacks=0
	local -A commands=(
		[git]="git --version"
		[perl]="perl -e print(1)"
		[sqlite3]="sqlite3 :memory: select(1+2);"
		[bash]="bash -c :"
		[xz]="xz --version"
		[python]="/usr/bin/python3 -I -S -c pass"
		[curl]="curl --version"
		[node]="node --version"
	)
	# The compiler proper, with thousands of functions.
	echo 'int main() { return 0; }' >"$BATS_TEST_TMPDIR/a.cc"
	commands[cc1plus]="$(g++ -print-prog-name=cc1plus) -quiet $BATS_TEST_TMPDIR/a.cc -o /dev/null" || :
	for name in "${!commands[@]}"; do
		program=$(command -v "${commands[$name]%% *}") || continue
		program=$(realpath "$program")
		# shellcheck disable=SC2086	# words
		set -- "$program" ${commands[$name]#* }
		# The kernel may reclaim a page of .eh_frame at any time: then measure again.
		for _ in 1 2 3; do
			our_run "$@"
			[[ $(jq '.[0].health.stacks.no_page' <<<"$output") != 0 ]] || break
		done
		assert_json '.[0].health.stacks | to_entries | map(select(.value > 0).key)' '["outermost"]'
		our_stacks <<<"$output" >"$BATS_TEST_TMPDIR/ours"
		gdb_stacks FUNC_FILE="$LIBC" "$BATS_TEST_TMPDIR/gdb" "$@" >"$BATS_TEST_TMPDIR/gdb.out" 2>&1 ||
			fail "gdb: $(tail -n 5 "$BATS_TEST_TMPDIR/gdb.out")"
		sort -o "$BATS_TEST_TMPDIR/gdb" "$BATS_TEST_TMPDIR/gdb"
		((stacks += $(wc -l <"$BATS_TEST_TMPDIR/gdb")))
		diff "$BATS_TEST_TMPDIR/gdb" "$BATS_TEST_TMPDIR/ours" >"$BATS_TEST_TMPDIR/diff" ||
			fail "$name: $(cut -c 1-400 "$BATS_TEST_TMPDIR/diff" | head -n 6)"
	done
	((stacks > 100)) || fail "only $stacks stacks"
}

# shellcheck disable=SC2016	# perl's own
@test "stacks: those of system calls are those of gdb" {
	local program=$BATS_TEST_TMPDIR/own-perl doc=$BATS_TEST_TMPDIR/doc
	cp "$(command -v perl)" "$program"
	fsn attach st s:openat --stacks all --comm own-perl
	alone "$program" -e 'use POSIX; open my $f, "<", "/etc/passwd"; print "x"' >/dev/null
	fsn stats st --json --output "$doc"
	our_stacks <"$doc" >"$BATS_TEST_TMPDIR/ours"
	fsn detach st
	gdb_stacks SYSCALL=openat "$BATS_TEST_TMPDIR/gdb" "$program" -e \
		'use POSIX; open my $f, "<", "/etc/passwd"; print "x"' >"$BATS_TEST_TMPDIR/gdb.out" 2>&1 ||
		fail "gdb: $(tail -n 5 "$BATS_TEST_TMPDIR/gdb.out")"
	# In the dynamic linker, before the program starts, gdb has no outermost frame.
	for file in ours gdb; do
		grep -F own-perl: "$BATS_TEST_TMPDIR/$file" | sort -o "$BATS_TEST_TMPDIR/$file"
	done
	diff "$BATS_TEST_TMPDIR/gdb" "$BATS_TEST_TMPDIR/ours" | cut -c 1-400
	(($(wc -l <"$BATS_TEST_TMPDIR/gdb") > 5))
}

@test "stacks: those of tracepoints begin in the kernel" {
	local program=$BATS_TEST_TMPDIR/own-shell
	cp "$(command -v bash)" "$program"
	fsn attach st t:signal:signal_generate --stacks all --comm own-shell
	alone "$program" -c 'kill -CONT $$; kill -CONT $$'
	fsn stats st --json
	assert_json '[.[0].functions[0].rows[].calls] | add' 3
	# Two by the kill builtin; the third is SIGCHLD to its parent.
	assert_json '[.[0].functions[0].rows[] | select(any(.key.stack.frames[]; .name == "kill_builtin")) |
		[.calls, .key.stack.end, (.key.stack.frames | .[0].file, any(.[]; .name == "main"))]]
		| map(.[1:]) | unique' '[["outermost",null,true]]'
	assert_json '[.[0].functions[0].rows[] | select(any(.key.stack.frames[]; .name == "kill_builtin")).calls]
		| add' 2
	fsn detach st
}

@test "stacks: events that a filter leaves out take no place in the table of stacks" {
	need_tool bpftool
	fsn attach st t:sched:sched_switch --by stack --if comm==nobody
	capture sleep 0.2
	capture bpftool -j map dump pinned "$FUNCSNOOP_BPFFS/funcsnoop/st/stacks"
	assert_json '[.[].formatted.value.cnt | select(. > 0)] | length' 0
	fsn detach st
}

# shellcheck disable=SC2016	# of the other shell
@test "stacks: calls whose rows were evicted are in a note, in all formats" {
	local total i program=$BATS_TEST_TMPDIR/own-calls
	cp "$FIX/syscalls" "$program"
	fsn attach st s:getppid --by stack --limit rows=64 --if comm==own-calls
	capture bash -c 'for ((i = 0; i < 100; i++)); do "$0" children 2 1 >/dev/null; done' "$program"
	fsn stats st --json
	total=$(json '.[0].functions[0].calls')
	assert_eq "$total" 200
	fsn stats st --by stack
	assert_stderr_match '[0-9]+ calls are not in the stacks: too many rows [(]--limit rows=N[)], [0-9]+ of exited processes$'
	fsn stats st --format folded
	assert_eq "$(($(awk '{ sum += $NF } END { print sum }' <<<"$output") +
		$(sed -nE 's/^.* ([0-9]+) calls are not in the stacks.*/\1/p' <<<"$stderr")))" "$total"
	fsn detach st
}
