# SPDX-License-Identifier: BSD-2-Clause
# Stacks of programs that start after the command has ended: rows made of .eh_frame in the kernel.
# bats file_tags=bpf

load helpers

setup() {
	common_setup
	need_bpf
	need_arch x86_64
	need_tool jq
	need_fixture stacks
	# The program is mapped by no process, so that attach makes no table of it; the library that is
	# probed always has one.
	OWN=$BATS_TEST_TMPDIR/stacks
	cp "$FIX/stacks" "$OWN"
	copy_libc "$FIX/stacks" "$BATS_TEST_TMPDIR/lib"
	LIBC=$BATS_TEST_TMPDIR/lib/libc.so.6
	CXX=$BATS_TEST_TMPDIR/lib/libstdc++.so.6
	cp "$(ldd "$FIX/stacks" | awk '$1 == "libstdc++.so.6" { print $3 }')" "$CXX"
	# Into the page cache.
	cat $(ldd "$FIX/stacks" | grep -o '/[^ ]*') "$(command -v timeout)" >/dev/null
}

CASES=(plain recurse sort signal thread aligned alloca catch)

# Whether the page cache can be read here.
need_pages() {
	"$FUNCSNOOP" feature --json | jq -e '.stacks_without_tables.complete' >/dev/null ||
		skip "the page cache can't be read here: see 'funcsnoop feature'"
}

run_own() { # CASE...
	LD_LIBRARY_PATH=$BATS_TEST_TMPDIR/lib capture "$OWN" "$@"
}

# How the stacks of calls ended that the C++ library has made.
own_ends() {
	"$FUNCSNOOP" stats st --json | jq -c '[.[0].functions[].rows[].key.stack
		| select(any(.frames[]; (.file // "") | test("/libstdc[+][+][.]so"))) | .end] | unique'
}

@test "lazy: stacks of a program that starts after attach are complete" {
	need_pages
	fsn attach st malloc --lib "$LIBC" --stacks all --count
	run_own "${CASES[@]}"
	fsn stats st --format folded
	# Other programs run with that library, too.
	assert_output_match '^_start;__libc_start_main;.*;main;st_case;st_catch;.*;__cxa_allocate_exception;malloc 1$'
	assert_eq "$(grep -F 'st_case;' <<<"$output" | grep -vc '^_start;__libc_start_main;')" 0
	fsn detach st
}

@test "lazy: 99 % of the samples of a program that starts after attach have complete stacks" {
	need_pages
	local own=$BATS_TEST_TMPDIR/own-shell
	cp "$(command -v bash)" "$own"
	cat "$own" >/dev/null
	fsn attach cpu --comm own-shell --rate 999
	# shellcheck disable=SC2016	# of the other shell
	capture "$own" -c 'for ((i = 0; SECONDS < 2; i++)); do x=${i//1/2}; done'
	fsn stats cpu --json
	assert_json '.[0].health.stacks | [.[]] | add > 100' true
	assert_json '.[0].health.stacks | .outermost >= 99 * ([.[]] | add) / 100' true
	fsn detach cpu
}

@test "lazy: FUNCSNOOP_UNWIND=tables truncates these stacks as before" {
	FUNCSNOOP_UNWIND=tables fsn attach st malloc --lib "$LIBC" --stacks all --count
	run_own plain
	fsn stats st --json
	assert_eq "$(own_ends)" '["no_table"]'
	fsn detach st
}

@test "lazy: feature reports whether the page cache can be read" {
	FUNCSNOOP_UNWIND=tables fsn feature --json
	assert_json '.stacks_without_tables.complete' false
	need_pages
}

@test "lazy: a file that is rewritten, or has the inode number of a removed one, has its own stacks" {
	need_pages
	local one=$BATS_TEST_TMPDIR/one number i file
	cp "$FIX/dlcall" "$one"
	number=$(stat -c %i "$one")
	fsn attach st fix_add --lib "$FIX/libfix.so.1" --stacks all --count
	capture "$one" "$FIX/libfix.so.1" fix_add 1
	cat "$FIX/call" >"$one"
	assert_eq "$(stat -c %i "$one")" "$number"
	capture env LD_LIBRARY_PATH="$FIX" "$one" fix_add 1
	touch -r "$one" "$BATS_TEST_TMPDIR/time"
	rm "$one"
	for ((i = 0; i < 100; i++)); do
		cp "$FIX/dlcall" "$one.$i"
		[[ $(stat -c %i "$one.$i") != "$number" ]] || break
	done
	file=$one
	if ((i < 100)); then
		file=$one.$i
		touch -r "$BATS_TEST_TMPDIR/time" "$file"
		capture "$file" "$FIX/libfix.so.1" fix_add 1
	fi
	fsn stats st --json
	assert_json '[.[0].functions[].rows[].key.stack.end] | unique' '["outermost"]'
	assert_json '[.[0].functions[] | select(.name == "fix_add").rows[].calls] | add' "$((i < 100 ? 3 : 2))"
	# By file and offset, as the first two files are gone.
	assert_json '[.[0].functions[].rows[].key.stack.frames[0].offset] | length' "$((i < 100 ? 3 : 2))"
	assert_json '[.[0].functions[].rows[].key.stack.frames[0].offset] | unique | length' 2
	fsn detach st
}

@test "lazy: run has complete stacks from the first call of a program that COMMAND starts" {
	need_pages
	local doc=$BATS_TEST_TMPDIR/doc
	cat "$FIX/dlcall" "$FIX/libfix.so.1" >/dev/null
	fsn -s 3 run "$FIX/libfix.so.1:fix_add" --stacks all --count --format json -o "$doc" -- \
		sh -c '"$@"; "$@"; exit 3' sh "$FIX/dlcall" "$FIX/libfix.so.1" fix_add 100
	assert_eq "$(jq -c '.[0].health.stacks | with_entries(select(.value > 0))' "$doc")" '{"outermost":200}'
}

@test "lazy: a damaged .eh_frame truncates the stack and is marked" {
	need_pages
	need_tool objcopy readelf python3
	local at size
	read -r at size < <(readelf -SW "$CXX" | awk '$2 == ".eh_frame" || $3 == ".eh_frame" {
		sub(/^ *\[ *[0-9]+\] /, ""); print $4, $5 }')
	# Versions of all CIEs.
	python3 - "$CXX" "$at" "$size" <<-'END'
		import struct, sys
		path, at, size = sys.argv[1], int(sys.argv[2], 16), int(sys.argv[3], 16)
		data = bytearray(open(path, "rb").read())
		i = at
		while i < at + size:
		    length, = struct.unpack_from("<I", data, i)
		    if not length:
		        break
		    if not struct.unpack_from("<I", data, i + 4)[0]:
		        data[i + 8] = 77
		    i += 4 + length
		open(path, "wb").write(data)
	END
	fsn attach st malloc --lib "$LIBC" --stacks all --count
	run_own plain
	fsn stats st --json
	assert_eq "$(own_ends)" '["bad_frames"]'
	fsn detach st
}

# A library and a program of its own, whose pages of .eh_frame can be dropped.
cold_setup() {
	need_tool python3
	COLD=$BATS_TEST_TMPDIR/cold
	cp "$FIX/cold" "$FIX/libfix.so.1" "$BATS_TEST_TMPDIR"
	sync "$COLD"
}

run_cold() { # LINES
	local status=0
	python3 "$BATS_TEST_DIRNAME/cold_pages.py" "$COLD" "$1" || status=$?
	((status != 77)) || skip "pages of files here can't be dropped"
	assert_eq "$status" 0
}

need_later() {
	"$FUNCSNOOP" feature --json | jq -e '.stacks_without_tables.why | test("from the disk")' >/dev/null ||
		skip "this kernel has no bpf_task_work"
}

@test "lazy: a page that is not in memory is read by the thread: 200 of 200 stacks are complete" {
	need_pages
	need_later
	cold_setup
	fsn attach st "$BATS_TEST_TMPDIR/libfix.so.1:fix_add" --stacks all --count
	run_cold 200
	fsn stats st --json
	assert_json '.[0].health.stacks | with_entries(select(.value > 0))' '{"outermost":200}'
	fsn stats st --format folded
	sort <<<"$output" >"$BATS_TEST_TMPDIR/cold-stacks"
	assert_eq "$(grep -cE ';main;cold_[0-9]+;fix_add 1$' <<<"$output")" 200
	fsn reset st
	# Nothing is to be read any more.
	seq 0 199 | "$COLD" >/dev/null
	fsn stats st --format folded
	assert_eq "$(sort <<<"$output")" "$(cat "$BATS_TEST_TMPDIR/cold-stacks")"
	fsn detach st
}

# Its server may never answer: the thread is not made to wait for it.
@test "lazy: a page of a file on FUSE is not read by the thread; a command reads it" {
	need_pages
	need_tool python3
	local mount=$BATS_TEST_TMPDIR/mount

	mkdir "$mount"
	cp "$FIX/cold" "$FIX/libfix.so.1" "$BATS_TEST_TMPDIR"
	start_bg fuse python3 "$BATS_TEST_DIRNAME/fuse_file.py" "$mount" "$BATS_TEST_TMPDIR/cold"
	poll_until eval 'mountpoint -q "$mount" || bg_ended fuse'
	mountpoint -q "$mount" || skip "FUSE can't be mounted here"
	fsn attach st "$BATS_TEST_TMPDIR/libfix.so.1:fix_add" --stacks all --count
	seq 0 20 | LD_LIBRARY_PATH=$BATS_TEST_TMPDIR "$mount/cold"
	fsn stats st --json
	assert_json '.[0].health.stacks | with_entries(select(.value > 0))' '{"no_page":21}'
	fsn reset st
	seq 0 20 | LD_LIBRARY_PATH=$BATS_TEST_TMPDIR "$mount/cold"
	fsn stats st --json
	assert_json '.[0].health.stacks | with_entries(select(.value > 0))' '{"outermost":21}'
	fsn detach st
	umount "$mount"
	stop_bg fuse
}

@test "lazy: a group with times reads no page of a file, and marks the stack" {
	need_pages
	cold_setup
	fsn attach st "$BATS_TEST_TMPDIR/libfix.so.1:fix_add" --stacks all
	run_cold 20
	fsn stats st --json
	assert_json '.[0].health.stacks | with_entries(select(.value > 0))' '{"no_page":20}'
	fsn detach st
}

rows_have() { # END
	fsn stats st --json
	[[ $(jq -c '[.[0].functions[].rows[]? | [.calls, .key.stack.end]]' <<<"$output") == "[[1,\"$1\"]]" ]]
}

two_more_came() { # NAME
	(($(wc -l <"$(bg_out "$1")") > came + 1))
}

@test "lazy: a call whose stack is completed between two readings is in no later one" {
	need_pages
	need_later
	local came
	cold_setup
	fsn attach st s:rt_sigtimedwait --by stack --count --if comm==cold
	start_bg cold python3 "$BATS_TEST_DIRNAME/cold_pages.py" "$COLD" 1 "$BATS_TEST_TMPDIR/go"
	poll_until rows_have no_page
	start_bg w "$FUNCSNOOP" stats st --by stack --json -i 0.1
	poll_until grep -q '"functions"' "$(bg_out w)"
	touch "$BATS_TEST_TMPDIR/go"
	wait_bg cold
	rows_have outermost
	came=$(wc -l <"$(bg_out w)")
	poll_until two_more_came w
	stop_bg -INT w
	assert_eq "$(jq -sc '[.[] | objects | .groups[].functions[]]' <<<"$output")" '[]'
	fsn detach st
}

@test "lazy: a process that exits before its page is read is counted, and its stack is marked" {
	need_pages
	cold_setup
	fsn attach st s:exit_group --by stack --if comm==cold
	run_cold 1
	fsn stats st --format folded
	assert_output_match '^\[truncated: page of file not in memory\];cold_end;exit;.*;exit_group 1$'
	fsn detach st
}

# Stacks of fix_add of a copy of the library; $own is the place of the other namespace.
attach_for_namespace() {
	need_pages
	need_tool unshare
	mkdir "$own"
	cp "$FIX/libfix.so.1" "$BATS_TEST_TMPDIR"
	fsn attach st "$BATS_TEST_TMPDIR/libfix.so.1:fix_add" --stacks all --count
}

# shellcheck disable=SC2016	# of the other shell
@test "stacks: a program of another mount namespace has names while it runs" {
	local own=$BATS_TEST_TMPDIR/own
	attach_for_namespace
	start_bg cold unshare -m bash -c 'mount -t tmpfs own "$1" && cp "$2" "$1/cold" &&
		LD_LIBRARY_PATH=$3 exec "$1/cold"' bash "$own" "$FIX/cold" "$BATS_TEST_TMPDIR"
	wait_line cold '^ready'
	tell cold
	wait_line cold '^ok'
	[[ ! -e $own/cold ]]
	fsn stats st --format folded
	assert_output_match ';main;cold_[0-9]+;fix_add 1$'
	stop_bg cold
	fsn detach st
}

@test "stacks: an ended program of another mount namespace has names while that has a process" {
	local own=$BATS_TEST_TMPDIR/own
	attach_for_namespace
	# A link of the namespace leads to a place in it.
	start_bg cold unshare -m bash -c 'mount -t tmpfs own "$1" && mkdir "$1/a" && cp "$2" "$1/a/cold" &&
		LD_LIBRARY_PATH=$3 "$1/a/cold" <<<1 && mv "$1/a" "$1/b" && ln -s "$1/b" "$1/a" &&
		exec sleep 600' bash "$own" "$FIX/cold" "$BATS_TEST_TMPDIR"
	wait_line cold '^ok'
	poll_until eval '[[ $(cat "/proc/$(bg_pid cold)/comm") == sleep ]]'
	[[ ! -e $own/cold ]]
	fsn stats st --format folded
	assert_output_match ';main;cold_[0-9]+;fix_add 1$'
	stop_bg cold
	fsn detach st
}

@test "stacks: a hint says how JIT code gets names" {
	need_tool node
	local pid
	start_bg jit node -e 'console.log("ready"); for (let s = 0;;) for (let i = 0; i < 1e6; i++) s += Math.sqrt(i) * s'
	wait_line jit '^ready'
	fsn run cpu -p "$(bg_pid jit)" --rate 999 -d 1
	assert_stderr_match "JIT code of process $(bg_pid jit) has no names: start it with 'node --perf-basic-prof'"
	stop_bg jit
	cp "$(realpath "$(command -v node)")" "$BATS_TEST_TMPDIR/java"
	start_bg jit "$BATS_TEST_TMPDIR/java" -e 'console.log("ready"); for (let s = 0;;) for (let i = 0; i < 1e6; i++) s += Math.sqrt(i) * s'
	wait_line jit '^ready'
	fsn run cpu -p "$(bg_pid jit)" --rate 999 -d 1
	assert_stderr_match "has no names: 'jcmd $(bg_pid jit) Compiler.perfmap && funcsnoop run cpu -p $(bg_pid jit)' has them"
	stop_bg jit
	start_bg named env -C "$BATS_TEST_TMPDIR" node --perf-basic-prof -e 'console.log("ready"); for (let s = 0;;) for (let i = 0; i < 1e6; i++) s += Math.sqrt(i) * s'
	wait_line named '^ready'
	pid=$(bg_pid named)
	capture "$FUNCSNOOP" run cpu -p "$pid" --rate 999 -d 1
	stop_bg named
	rm -f "/tmp/perf-$pid.map"
	refute_stderr_match 'has no names'
}

# Two functions that a third one calls are inlined into it; with the option of the remark they are not.
@test "stacks: a remark says that optimized JavaScript contains inlined functions" {
	need_tool node
	local pid option own=$BATS_TEST_TMPDIR
	cat >"$own/n.js" <<-'END'
		function inner_work() { let s = 0; for (let i = 0; i < 1e5; i++) s += Math.sqrt(i) * s + i; return s; }
		function outer_work() { let s = 0; for (let i = 0; i < 100; i++) s += inner_work(); return s; }
		console.log('ready');
		setInterval(outer_work, 1);
	END
	for option in --turbo-inlining --no-turbo-inlining; do
		start_bg js env -C "$own" node --perf-basic-prof "$option" n.js
		wait_line js '^ready'
		pid=$(bg_pid js)
		fsn run cpu -p "$pid" --sample 999hz -d 2 --all
		assert_stderr_match "^funcsnoop run: 'JS:\*' is optimized code and can contain functions that V8 has inlined; 'node --no-turbo-inlining' calls them$"
		[[ $option != --no-* ]] || assert_output_match 'JS:.inner_work '
		stop_bg js
		rm -f "/tmp/perf-$pid.map"
	done
}
