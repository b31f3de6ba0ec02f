# SPDX-License-Identifier: BSD-2-Clause
# Stacks: the same as the C library's unwinder finds, added up by the programs; how they are shown.
# bats file_tags=bpf

load helpers

setup() {
	common_setup
	need_bpf
	need_tool jq
	need_fixture stacks
	STACKS=$FIX/stacks
}

# What backtrace(3) says of the callers of st_call() in CASES, a line for each.
truth() { # CASE...
	"$STACKS" "$@" --truth | sed 's/self+/stacks+/g' | sort -u
}

# The same of what calls of st_leaf() have in group st.
walked() { # [CONDITION on .key.stack]
	"$FUNCSNOOP" stats st --json | jq -r --arg how "${1-outermost}" '
		.[0].functions[] | select(.name == "st_leaf") | .rows[] | .key.stack
		| select(.end == $how) | [.frames[1:][]
			| ((.file // "?") | split("/") | last) + "+" + .offset] | join(" ")' | sort -u
}

CASES=(plain recurse sort signal thread aligned alloca)

# bats test_tags=core
@test "stacks of code without frame pointers are those of the C library's unwinder" {
	need_arch x86_64
	local want
	want=$(truth "${CASES[@]}" catch)
	assert_eq "$(wc -l <<<"$want")" 9
	fsn attach st st_leaf --lib "$STACKS" --stacks all --count
	capture "$STACKS" "${CASES[@]}" catch
	assert_eq "$(walked)" "$want"
	fsn stats st --json
	assert_json '[.[0].functions[].rows[].calls] | add' 9
	assert_json '.[0].health.lost_stacks' 0
	fsn detach st
}

@test "return probes on all functions of a stack change nothing of it" {
	need_arch x86_64
	local want
	want=$(truth "${CASES[@]}") # which return probes would cut
	fsn attach st st_leaf st_call st_plain st_recurse st_alloca st_aligned st_compare st_sort \
		st_handler st_signal st_thread --lib "$STACKS" --stacks all --exit return --force
	capture "$STACKS" "${CASES[@]}"
	assert_eq "$(walked)" "$want"
	fsn detach st
}

@test "a stack of more than 127 frames is cut there, and says so" {
	need_arch x86_64
	local want
	want=$(truth deep | cut -d' ' -f1-126)
	fsn attach st st_leaf --lib "$STACKS" --stacks all --count
	capture "$STACKS" deep
	assert_eq "$(walked too_deep)" "$want"
	fsn stats st --format folded
	assert_output_match '^\[too deep\];st_recurse;.*;st_plain;st_call;st_leaf 1$'
	fsn detach st
}

@test "calls, times and errors add up by stack, and begin afresh with a reset" {
	fsn attach st st_leaf st_plain --lib "$STACKS" --stacks all
	capture "$STACKS" plain plain plain thread
	fsn stats st --json
	assert_json '[.[0].functions[] | [.name, .calls, ([.rows[].calls] | add),
		([.rows[].returns] | add), .returns]] | sort' \
		'[["st_leaf",4,4,4,4],["st_plain",4,4,4,4]]'
	# What a row has less than the probes take is shown as none.
	assert_json '[.[0].functions[] | .total_ns == null
		or any(.rows[]; .total_ns == 0) or .total_ns == ([.rows[].total_ns] | add)] | all' true
	fsn reset st
	fsn stats st --json
	assert_json '[.[0].functions[].rows[]] | length' 0
	capture "$STACKS" plain
	fsn stats st --format folded
	assert_eq "$(grep -c . <<<"$output")" 2
	assert_output_match ';main;st_case;st_plain 1$'
	assert_output_match ';main;st_case;st_plain;st_call;st_leaf 1$'
	fsn detach st
}

@test "folded lines count calls or microseconds, the tree has shares of them" {
	need_arch x86_64
	fsn attach st st_leaf --lib "$STACKS" --stacks all
	capture "$STACKS" plain plain plain sort
	fsn stats st --format folded
	assert_output_match '^_start;.*main;st_case;st_plain;st_call;st_leaf 3$'
	assert_output_match ';main;st_case;st_sort;.*qsort.*;st_compare;st_call;st_leaf 1$'
	fsn stats st --by stack --sort calls
	assert_output_match '^SHARE +CALLED BY +CALLS '
	assert_output_match '^100\.0 +main +4 '
	assert_output_match '^ 75\.0 +st_plain +3 '
	assert_output_match '^ 25\.0 +st_sort +1 '
	fsn stats st --by stack --sort calls --format csv
	assert_output_match '75\.000,[0-9]+,st_plain,3,'
	fsn detach st
}

@test "of so many calls one stack is taken" {
	fsn attach st st_leaf --lib "$STACKS" --stacks 4294967295 --count
	capture "$STACKS" plain plain
	fsn stats st --json
	assert_json '[.[0].functions[].rows[] | [.calls, .key.stack.value, .key.stack.frames]]' \
		'[[2,0,null]]'
	fsn detach st
}

@test "a command's own calls have whole stacks from its first on" {
	fsn run st st_leaf --lib "$STACKS" --stacks all --count --format folded \
		--output "$BATS_TEST_TMPDIR/folded" -- "$STACKS" plain thread
	capture cat "$BATS_TEST_TMPDIR/folded"
	assert_eq "$(grep -c . <<<"$output")" 2
	assert_output_match ';main;st_case;st_plain;st_call;st_leaf 1$'
	assert_output_match ';start_thread;st_thread;st_plain;st_call;st_leaf 1$'
	assert_eq "$(grep -c '\[' <<<"$output")" 0
	assert_eq "$(stat -c %a "$BATS_TEST_TMPDIR/folded")" 600
}

@test "what has no stacks says so" {
	fsn attach st st_leaf --lib "$STACKS"
	fsn -s 2 stats st --by stack
	assert_stderr_match 'no group has stacks'
	fsn -s 2 stats st --format folded
	fsn -s 2 stats st --by process --format folded
	fsn detach st
	fsn -s 2 attach st s:getpid --stacks all
	assert_stderr_match "--stacks is for functions of programs"
	fsn -s 2 attach st st_leaf --lib "$STACKS" --stacks some
	fsn -s 2 attach st st_leaf --lib "$STACKS" --stacks all --key caller,thread,comm
	fsn attach st st_leaf --lib "$STACKS" --stacks all --key thread
	capture "$STACKS" plain
	fsn stats st --by thread --format csv
	assert_eq "$(grep -c st_leaf <<<"$output")" 1
	fsn detach st
}

@test "a flame graph is one page that has every stack, and nothing from outside" {
	local page=$BATS_TEST_TMPDIR/flame.html
	fsn attach st st_leaf st_plain --lib "$STACKS" --stacks all
	capture "$STACKS" plain plain thread
	fsn stats st --format flame --output "$page"
	assert_eq "$(grep -cE 'https?://|src=|@DATA@' "$page")" 0
	output=$(sed -n 's/^const data = \(.*\);$/\1/p' "$page")
	# A node is [name, calls, time, errors, below]; here by names, leaves only.
	assert_json '. as $d | [def leaves: if .[4] == [] then [$d.names[.[0]], .[1]]
		else .[4][] | leaves end; .root | leaves] | sort' '[["st_leaf",1],["st_leaf",2]]'
	assert_json '[.root[1], .figures[.chosen].name, .title]' '[6,"calls","st"]'
	fsn detach st
}

# How many calls of fix_add() have a stack that ended so, of a document in FILE.
ends() { # FILE
	jq -c '[.[0].functions[] | select(.name == "fix_add") | .rows[]
		| { end: .key.stack.end, calls }] | group_by(.end)
		| map({ key: .[0].end, value: (map(.calls) | add) }) | from_entries' "$1"
}

@test "a file that a stack was the first to meet has a table from the next command on" {
	need_arch x86_64
	local doc=$BATS_TEST_TMPDIR/doc
	fsn attach st fix_add --lib "$FIX/libfix.so.1" --stacks all --count
	start_bg calls "$FIX/dlcall" --wait-end "$FIX/libfix.so.1" fix_add 1
	wait_line calls '^done'
	fsn stats st --json --output "$doc"
	assert_eq "$(ends "$doc")" '{"no_table":1}'
	tell calls
	wait_bg calls
	capture "$FIX/dlcall" "$FIX/libfix.so.1" fix_add 1
	fsn stats st --json --output "$doc"
	assert_eq "$(ends "$doc")" '{"no_table":1,"outermost":1}'
	fsn stats st
	assert_stderr_match '50\.0 % of stacks are whole; of the others most met a file before it had a table'
	fsn reset st
	fsn stats st
	refute_stderr_match 'of stacks are whole'
	fsn detach st
}

@test "run cuts one stack of a program that COMMAND starts, and has a table for the rest" {
	need_arch x86_64
	local doc=$BATS_TEST_TMPDIR/doc
	fsn -s 3 run "$FIX/libfix.so.1:fix_add" --stacks all --count --format json -o "$doc" -- \
		sh -c '"$@"; "$@"; exit 3' sh "$FIX/dlcall" "$FIX/libfix.so.1" fix_add 100
	assert_eq "$(ends "$doc")" '{"no_table":1,"outermost":199}'
	assert_eq "$(jq -c '.[0].health.stacks' "$doc")" '{"outermost":199,"too_deep":0,"busy":0,"nowhere":0,"no_table":1,"no_rule":0,"no_memory":0,"lost":0}'
}

# What run is stopped for is its hold of the program, so that this takes as long as it takes here.
@test "no call's time has that of a stop for a table in it" {
	need_arch x86_64
	local doc=$BATS_TEST_TMPDIR/doc lib=$BATS_TEST_TMPDIR/libcopy pid
	cp "$FIX/libfix.so.1" "$lib.1"
	cp "$FIX/libfix.so.1" "$lib.2"
	start_bg r "$FUNCSNOOP" run st dl_round fix_add --lib "$FIX/dlcall" --lib "$FIX/libfix.so.1" \
		--stacks all --format json -o "$doc" -- env LD_PRELOAD="$FIX/libfix.so.1" \
		sh -c '"$@"; exit' sh "$FIX/dlcall" --step "$lib" fix_nested 1 2 5
	wait_line r '^step'
	pid=$(sed -n 's/^step //p' "$(bg_out r)")
	tell r
	wait_line r '^round 1'
	kill -STOP "$(bg_pid r)"
	tell r
	poll_until grep -q '^State:.T' "/proc/$pid/status"
	read -rt 0.3 <> <(:) || true
	kill -CONT "$(bg_pid r)"
	wait_bg r
	output=$(<"$doc")
	assert_json '[.[0].functions[] | [.name, .calls, .returns, .untimed]] | sort' \
		'[["dl_round",2,2,0],["fix_add",10,8,2]]'
	assert_json '.[0].health | [.no_slot, .held_calls, .held_times, .unmatched_returns]' '[2,2,2,0]'
	assert_json '.[0].health.held_ns >= 300000000' true
	# Ten milliseconds of its own, within the 5 % that times are right by.
	jq -e --argjson took "$(sed -n 's/^took 2 //p' "$(bg_out r)")" \
		--argjson first "$(sed -n 's/^took 1 //p' "$(bg_out r)")" '
		.[0].functions | INDEX(.name)
		| .dl_round.total_ns >= 9500000 and .dl_round.total_ns <= $first + $took - 300000000
		and .fix_add.max_ns <= ([$took - 300000000, $first] | max)' "$doc"
}

@test "stacks of slow calls are followed when they end, and others have none" {
	need_arch x86_64
	local want exit
	want=$(truth slow)
	for exit in return ret; do
		fsn attach st st_leaf --lib "$STACKS" --stacks slow --slow 20ms --exit "$exit"
		capture "$STACKS" plain slow plain slow thread
		assert_eq "$(walked)" "$want" "exit $exit"
		fsn stats st --json
		assert_json '.[0].functions[0] | [.calls, .slow, (.rows | map([.calls, .returns, .slow]))]' \
			'[5,2,[[2,2,2]]]'
		assert_json '.[0].health.stacks.outermost' 2
		fsn stats st --slow --json
		assert_json '[.[0].slow_calls[] | .key.stack.frames[0].name]' '["st_call","st_call"]'
		fsn stats st --slow
		assert_output_match 'st_leaf stack=st_call < st_slow < st_case < main < \.\.\.'
		fsn detach st
	done
}

@test "beside other keys calls that are not slow are told apart without a stack" {
	fsn attach st st_leaf --lib "$STACKS" --stacks slow --slow 20ms --key thread
	capture "$STACKS" plain slow thread
	fsn stats st --json
	assert_json '.[0].functions[0].rows | map([.calls, .slow, .key.stack.value > 0]) | sort' \
		'[[1,0,false],[1,0,false],[1,1,true]]'
	fsn detach st
	fsn -s 2 attach st st_leaf --lib "$STACKS" --stacks slow --count
	assert_stderr_match 'stacks slow'
}

@test "single calls are shown with their stacks: in flight, and in a stream" {
	local doc=$BATS_TEST_TMPDIR/doc
	fsn attach st st_leaf --lib "$STACKS" --stacks all
	start_bg hung "$STACKS" hang
	poll_until inflight_has st_slow
	fsn list inflight st --json
	assert_json '[.[].key.stack.frames[:2][].name]' '["st_call","st_slow"]'
	fsn list inflight st
	assert_output_match 'st_leaf stack=st_call < st_slow < st_case < main'
	stop_bg hung
	fsn detach st
	fsn run "$STACKS:st_leaf" --stacks all --stream --json -o "$doc" -- "$STACKS" plain slow
	assert_eq "$(jq -r 'select(.type == "call") | .key.stack.frames[1].name' "$doc")" $'st_plain\nst_slow'
}

inflight_has() { # TEXT
	fsn list inflight
	[[ $output == *"$1"* ]]
}


@test "where threads of calls in flight sleep is read without ending their system calls" {
	need_arch x86_64
	fsn attach st st_leaf st_call st_slow --lib "$STACKS" --exit return
	start_bg hung "$STACKS" interrupted
	poll_until inflight_has st_leaf
	fsn list inflight st --stack --json
	assert_json '[.[].function]' '["st_slow","st_call","st_leaf"]'
	assert_json '[.[].stack | [.end, ([.frames[].name] | index("st_leaf") as $i | .[$i:$i+4])]] | unique' \
		'[["outermost",["st_leaf","st_call","st_slow","st_case"]]]'
	fsn list inflight st --stack
	assert_output_match '^st_leaf of [0-9]+/[0-9]+:$'
	assert_output_match '^    st_slow$'
	tell hung
	wait_bg hung
	assert_output_line 'interrupted 0 times'
	fsn detach st
}

# Interpreters that are here: of each version once.
pythons() {
	local minor root python

	root=$(pyenv root 2>/dev/null) || root=''
	for minor in 10 11 12 13; do
		for python in /usr/bin/python3.$minor ${root:+"$root"/versions/3.$minor.*/bin/python3.$minor}; do
			if [[ -x $python ]]; then
				echo "$python"
				break
			fi
		done
	done
}

# Threads of fsnhung that are in read(2), and their frames of Python.
hangs() { # NUMBER
	fsn list inflight py --stack --json
	[[ $(jq '[.[] | select(.comm == "fsnhung")] | length' <<<"$output") == "$1" ]]
}

@test "frames of Python stand in the place of its interpreter's, as Python itself has them" {
	need_arch x86_64
	local python fork truth=$BATS_TEST_TMPDIR/truth n=0
	for python in $(pythons); do
		for fork in '' fork; do
			# What fork() leaves is the same in all.
			[[ ! $fork || $n == 1 ]] || continue
			rm -f "$truth"
			fsn attach py s:read --comm fsnhung
			start_bg "hung$((++n))" "$python" "$BATS_TEST_DIRNAME/fixtures/hung.py" "$truth" $fork
			poll_until test -e "$truth"
			poll_until hangs 2
			assert_eq "$(jq -S '[.[] | { key: (.tid | tostring), value: [.stack.frames[]
				| select(.offset == null) | [.name, .file, .line]] }] | from_entries' <<<"$output")" \
				"$(jq -S . "$truth")"
			assert_json '[.[] | .stack | [.end, ([.frames[] | select(.name | startswith("_PyEval_EvalFrameDefault"))]
				| length)]] | unique' '[["outermost",0]]'
			fsn list inflight py --stack
			assert_output_match "^    <module> \(.*/hung\.py:[0-9]+\)\$"
			kill -KILL $(jq -r 'keys[]' "$truth" | head -1) || true
			stop_bg -KILL "hung$n"
			fsn detach py
		done
	done
	((n)) || skip "needs python3 (3.10 to 3.13)"
}

@test "what only looks like an interpreter keeps its own frames, and ends the reading of none" {
	need_arch x86_64
	local case
	for case in interpreters threads frames nowhere code; do
		fsn attach py s:read --comm fakepy
		start_bg "$case" "$FIX/fakepy" "$case"
		poll_until eval 'fsn list inflight py --stack --json && [[ $output == *fakepy* ]]'
		assert_json '.[0].stack | [.end, ([.frames[].name | select(startswith("_PyEval") or . == "main")])]' \
			'["outermost",["_PyEval_EvalFrameDefault","main"]]'
		stop_bg -KILL "$case"
		fsn detach py
	done
}

@test "a profile for pprof has every stack with its calls, time and errors" {
	local profile=$BATS_TEST_TMPDIR/profile
	fsn attach st st_leaf st_plain --lib "$STACKS" --stacks all
	capture "$STACKS" plain plain thread
	fsn stats st --format pprof --output "$profile"
	gzip -t "$profile"
	fsn reset st
	capture "$STACKS" slow
	fsn stats st --format pprof --sort total --output "$profile.time"
	need_tool go
	export HOME=$BATS_TEST_TMPDIR PPROF_TMPDIR=$BATS_TEST_TMPDIR
	output=$(go tool pprof -sample_index=calls -traces "$profile" 2>/dev/null)
	# Each stack: its value beside the innermost frame, then who has called that.
	assert_eq "$(grep -cE '^ +2 +st_leaf$' <<<"$output")" 1
	assert_eq "$(grep -cE '^ +1 +st_leaf$' <<<"$output")" 1
	assert_eq "$(grep -A2 -E '^ +2 +st_leaf$' <<<"$output" | tail -2 | tr -d ' \n')" st_callst_plain
	output=$(go tool pprof -top "$profile" 2>/dev/null)
	assert_output_match '^Type: calls$'
	assert_output_match '^ +3 50\.00% .* st_leaf$'
	output=$(go tool pprof -top "$profile.time" 2>/dev/null)
	assert_output_match '^Type: time$'
	assert_output_match '^ +[0-9.]+ms +100% .* st_leaf$'
	fsn detach st
}

@test "--min says what a tree of stacks leaves out" {
	fsn attach st st_leaf --lib "$STACKS" --stacks all --count
	capture "$STACKS" plain plain plain thread
	fsn stats st --by stack
	assert_output_match ' st_thread +1 '
	fsn stats st --by stack --min 30%
	refute_output_match 'st_thread'
	assert_output_match '^ 75\.0 '
	fsn -s 2 stats st --min 1%
	assert_stderr_match "--min goes with --by stack"
	fsn detach st
}

@test "code that a process has made is called what its perf map says" {
	need_arch x86_64
	local map
	fsn attach st st_leaf --lib "$STACKS" --stacks all --count
	capture "$STACKS" made
	map=${output#map }
	fsn stats st --format folded
	rm -f "$map"
	assert_output_match ';main;st_case;st_made;made in-memory <now>;st_plain;st_call;st_leaf 1$'
	fsn stats st --json
	assert_json '.[0].functions[0].rows[0].key.stack | [.end, .frames[2].file,
		(.frames[2].name | test("^0x[0-9a-f]+$"))]' '["outermost",null,true]'
	fsn detach st
}
