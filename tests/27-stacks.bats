# SPDX-License-Identifier: BSD-2-Clause
# Stacks: the same as the C library's unwinder finds, added up by the programs; how they are shown.
# bats file_tags=bpf

load helpers
load browser

setup() {
	common_setup
	need_bpf
	need_tool jq
	need_fixture stacks
	STACKS=$FIX/stacks
}

# Callers of st_call() in CASES by backtrace(3), one line each.
truth() { # CASE...
	"$STACKS" "$@" --truth | sed 's/self+/stacks+/g' | sort -u
}

# The same from the stacks of st_leaf() in group st.
walked() { # [END]
	"$FUNCSNOOP" stats st --json | jq -r --arg how "${1-outermost}" '
		.[0].functions[] | select(.name == "st_leaf") | .rows[] | .key.stack
		| select(.end == $how) | [.frames[1:][]
			| ((.file // "?") | split("/") | last) + "+" + .offset] | join(" ")' | sort -u
}

CASES=(plain recurse sort signal thread aligned alloca)

# bats test_tags=core
@test "stacks: match the C library's unwinder for code without frame pointers" {
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

@test "stacks: return probes on all functions of a stack do not change it" {
	need_arch x86_64
	local want
	want=$(truth "${CASES[@]}") # which return probes would cut
	fsn attach st st_leaf st_call st_plain st_recurse st_alloca st_aligned st_compare st_sort \
		st_handler st_signal st_thread --lib "$STACKS" --stacks all --exit return --force
	capture "$STACKS" "${CASES[@]}"
	assert_eq "$(walked)" "$want"
	fsn detach st
}

@test "stacks: a stack of more than 127 frames is truncated and marked" {
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

@test "stacks: calls, times and errors are summed by stack, and reset" {
	fsn attach st st_leaf st_plain --lib "$STACKS" --stacks all
	capture "$STACKS" plain plain plain thread
	fsn stats st --json
	assert_json '[.[0].functions[] | [.name, .calls, ([.rows[].calls] | add),
		([.rows[].returns] | add), .returns]] | sort' \
		'[["st_leaf",4,4,4,4],["st_plain",4,4,4,4]]'
	# A row below the overhead of probes is shown as 0.
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

@test "stacks: folded lines have calls, and the tree has shares of them" {
	need_arch x86_64
	fsn attach st st_leaf --lib "$STACKS" --stacks all
	capture "$STACKS" plain plain plain sort
	fsn stats st --format folded
	assert_output_match '^_start;.*main;st_case;st_plain;st_call;st_leaf 3$'
	assert_output_match ';main;st_case;st_sort;.*qsort.*;st_compare;st_call;st_leaf 1$'
	fsn stats st --by stack --sort calls
	assert_output_match '^SHARE +CALLED BY +CALLS '
	# A chain of single callees is one line.
	assert_output_match '^100\.0  main > st_case +4 '
	assert_output_match '^ 75\.0    st_plain > st_call > st_leaf +3 '
	assert_output_match '^ 25\.0    st_sort > .* > st_call > st_leaf +1 '
	refute_output_match '_start'
	fsn stats st --by stack --sort calls --all
	assert_output_match '^100\.0  _start > .*main > st_case +4 '
	fsn stats st --by stack --sort calls --format csv
	assert_output_match '75\.000,[0-9]+,st_plain,3,'
	fsn detach st
}

@test "stacks: a chain of single callees is one row on a terminal, with lines below" {
	local width

	need_terminal
	fsn attach st st_leaf --lib "$STACKS" --stacks all
	capture "$STACKS" inlined
	for width in 40 80; do
		capture script -qec "stty cols $width; '$FUNCSNOOP' stats st --by stack --color never" /dev/null
		output=$(tr -d '\r' <<<"$output")
		assert_eq "$(grep -c '^100\.0 ' <<<"$output")" 1
		output=$(sed -n '/^100/,/st_leaf/p' <<<"$output" | sed -E 's/^(100\.0)? +//; s/   .*//' | tr '\n' ' ')
		assert_output_match '^main > st_case > st_around > st_call > st_leaf $'
	done
	fsn detach st
}

@test "stacks: are complete also if another process maps another C library" {
	need_arch x86_64
	local own=$BATS_TEST_TMPDIR/own
	mkdir "$own"
	cp /lib/x86_64-linux-gnu/libc.so.6 "$own"
	start_bg other /lib64/ld-linux-x86-64.so.2 --library-path "$own" /bin/sleep 1000
	poll_until grep -q "$own/libc.so.6" "/proc/$(bg_pid other)/maps"
	fsn attach st st_leaf --lib "$STACKS" --stacks all --count
	capture "$STACKS" plain
	fsn stats st --format folded
	assert_output_match '^_start;.*main;st_case;st_plain;st_call;st_leaf 1$'
	fsn detach st
	stop_bg other
}

@test "stacks: --stacks N records the stack of one call in N" {
	fsn attach st st_leaf --lib "$STACKS" --stacks 4294967295 --count
	capture "$STACKS" plain plain
	fsn stats st --json
	assert_json '[.[0].functions[].rows[] | [.calls, .key.stack.value, .key.stack.frames]]' \
		'[[2,0,null]]'
	fsn detach st
}

# bats test_tags=core
@test "stacks: the calls of COMMAND have complete stacks from the first one" {
	need_arch x86_64
	fsn run st st_leaf --lib "$STACKS" --stacks all --count --format folded \
		--output "$BATS_TEST_TMPDIR/folded" -- "$STACKS" plain thread
	capture cat "$BATS_TEST_TMPDIR/folded"
	assert_eq "$(grep -c . <<<"$output")" 2
	# A thread's start function has a name only if the C library's debug file is installed.
	assert_eq "$(sed -E 's/^.*;(main|st_thread);/\1;/' <<<"$output" | sort)" \
		$'main;st_case;st_plain;st_call;st_leaf 1\nst_thread;st_plain;st_call;st_leaf 1'
	assert_eq "$(grep -c '\[' <<<"$output")" 0
	assert_eq "$(stat -c %a "$BATS_TEST_TMPDIR/folded")" 600
}

@test "stacks: a group without stacks is reported" {
	fsn attach st st_leaf --lib "$STACKS"
	fsn -s 2 stats st --by stack
	assert_stderr_match 'no group has stacks'
	fsn -s 2 stats st --format folded
	fsn -s 2 stats st --by process --format folded
	fsn detach st
	fsn -s 2 attach st s:getpid --stacks slow --slow 1ms
	assert_stderr_match "--by stack:slow is for functions of programs"
	fsn -s 2 attach st s:getpid t:sched:sched_switch --stacks all
	assert_stderr_match "'getpid' and of 'sched:sched_switch' begin in different places .*: use a group for each"
	fsn -s 2 attach st st_leaf --lib "$STACKS" --stacks some
	fsn -s 2 attach st st_leaf --lib "$STACKS" --stacks all --key caller,thread,comm
	fsn attach st st_leaf --lib "$STACKS" --stacks all --key thread
	capture "$STACKS" plain
	fsn stats st --by thread --format csv
	assert_eq "$(grep -c st_leaf <<<"$output")" 1
	fsn detach st
}

@test "stacks: a flame graph is one page with all stacks and no external content" {
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
	# That of a run without a name says what it looks at.
	fsn run "$STACKS:st_leaf" "$STACKS:st_plain" --stacks all --format flame -o "$page" -- "$STACKS" plain
	grep -q '^const data = {"title":"st_leaf and 1 more","about":"' "$page"
}

# How many calls of fix_add() have a stack that ended so, of a document in FILE.
ends() { # FILE
	jq -c '[.[0].functions[] | select(.name == "fix_add") | .rows[]
		| { end: .key.stack.end, calls }] | group_by(.end)
		| map({ key: .[0].end, value: (map(.calls) | add) }) | from_entries' "$1"
}

@test "stacks: the next command builds the unwind table of a file that a walk has met" {
	need_arch x86_64
	export FUNCSNOOP_UNWIND=tables
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
	# Also if the process has exited before the command runs, and the file was replaced.
	cp "$FIX/dlcall" "$BATS_TEST_TMPDIR/other"
	capture "$BATS_TEST_TMPDIR/other" "$FIX/libfix.so.1" fix_add 1
	fsn stats st --json --output "$doc"
	assert_eq "$(ends "$doc")" '{"no_table":2,"outermost":1}'
	capture "$BATS_TEST_TMPDIR/other" "$FIX/libfix.so.1" fix_add 1
	fsn stats st --json --output "$doc"
	assert_eq "$(ends "$doc")" '{"no_table":2,"outermost":2}'
	fsn stats st
	assert_stderr_match '50\.0 % of stacks are complete; most others met a file before its unwind table was loaded: 1 (dlcall, 1 other|other, 1 dlcall)$'
	fsn stats st --json
	assert_json '[.[0].functions[].rows[].key.stack | select(.end == "no_table") | .frames[-1]
		| [.name, (.file | split("/") | last)]] | sort' '[["dl_round","dlcall"],["dl_round","other"]]'
	fsn reset st
	fsn stats st
	refute_stderr_match 'of stacks are complete'
	fsn detach st
}

# Other frames than these would be those of the file before, by whose rows a walk still gets somewhere.
other_is_met() { # DOC PATH NO_TABLE OUTERMOST
	capture env LD_LIBRARY_PATH="$FIX" "$2" fix_add 1
	fsn stats st --json --output "$1"
	assert_eq "$(ends "$1")" "{\"no_table\":$3,\"outermost\":$4}"
	capture env LD_LIBRARY_PATH="$FIX" "$2" fix_add 1
	fsn stats st --json --output "$1"
	assert_eq "$(ends "$1")" "{\"no_table\":$3,\"outermost\":$(($4 + 1))}"
}

@test "stacks: a rewritten file, or a reused inode number, is a new file to walks" {
	need_arch x86_64
	export FUNCSNOOP_UNWIND=tables
	local doc=$BATS_TEST_TMPDIR/doc one=$BATS_TEST_TMPDIR/one number i
	cp "$FIX/dlcall" "$one"
	number=$(stat -c %i "$one")
	fsn attach st fix_add --lib "$FIX/libfix.so.1" --stacks all --count
	capture "$one" "$FIX/libfix.so.1" fix_add 1
	fsn stats st --json --output "$doc"
	assert_eq "$(ends "$doc")" '{"no_table":1}'
	capture "$one" "$FIX/libfix.so.1" fix_add 1
	fsn stats st --json --output "$doc"
	assert_eq "$(ends "$doc")" '{"no_table":1,"outermost":1}'
	cat "$FIX/call" >"$one"
	assert_eq "$(stat -c %i "$one")" "$number"
	other_is_met "$doc" "$one" 2 1
	# Nor by the time that it says it was written.
	touch -r "$one" "$BATS_TEST_TMPDIR/time"
	rm "$one"
	for ((i = 0; i < 100; i++)); do
		cp "$FIX/call" "$one.$i"
		[[ $(stat -c %i "$one.$i") != "$number" ]] || break
	done
	((i < 100)) || skip "this file system gives no number again"
	touch -r "$BATS_TEST_TMPDIR/time" "$one.$i"
	assert_eq "$(stat -c %y "$one.$i")" "$(stat -c %y "$BATS_TEST_TMPDIR/time")"
	other_is_met "$doc" "$one.$i" 3 2
	fsn detach st
}

@test "stacks: run truncates one stack of a new program and builds its unwind table" {
	need_arch x86_64
	export FUNCSNOOP_UNWIND=tables
	local doc=$BATS_TEST_TMPDIR/doc
	fsn -s 3 run "$FIX/libfix.so.1:fix_add" --stacks all --count --format json -o "$doc" -- \
		sh -c '"$@"; "$@"; exit 3' sh "$FIX/dlcall" "$FIX/libfix.so.1" fix_add 100
	assert_eq "$(ends "$doc")" '{"no_table":1,"outermost":199}'
	assert_eq "$(jq -c '.[0].health.stacks' "$doc")" '{"outermost":199,"too_deep":0,"busy":0,"nowhere":0,"no_table":1,"no_rule":0,"no_memory":0,"lost":0,"no_page":0,"bad_frames":0,"bound":0}'
}

# The stop is that of run's hold, which takes as long as it needs on this machine.
@test "stacks: call times exclude the time that run stops a program for an unwind table" {
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
	# Nor is it said of this group how long another one holds a process of its own.
	fsn run other "$FIX/libfix.so.1:fix_add" --stacks all --count --format json -o "$doc" -- \
		sh -c '"$@"; exit' sh "$FIX/dlcall" "$FIX/libfix.so.1" fix_add 1
	assert_eq "$(jq '.[0].health.held_times' "$doc")" 1
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

# Below a program of normal priority a nice one waits for its CPU for long, after a stop, too.
@test "stacks: run-queue latency after a stop for an unwind table is subtracted once" {
	local doc=$BATS_TEST_TMPDIR/doc lib=$BATS_TEST_TMPDIR/libcopy cpu took

	need_arch x86_64
	need_tool taskset
	cp "$FIX/libfix.so.1" "$lib.1"
	cpu=$(taskset -cp $$ | sed 's/.*[ ,-]//')
	start_bg burns taskset -c "$cpu" sh -c 'while :; do :; done'
	start_bg r "$FUNCSNOOP" run st dl_round fix_add --lib "$FIX/dlcall" --lib "$FIX/libfix.so.1" \
		--stacks all --with split --format json -o "$doc" -- env LD_PRELOAD="$FIX/libfix.so.1" \
		taskset -c "$cpu" nice -n 19 "$FIX/dlcall" --step "$lib" fix_nested 1 1 5
	wait_line -t 60 r '^step'
	tell r
	wait_bg -t 120 r
	stop_bg burns
	took=$(sed -n 's/^took 1 //p' "$(bg_out r)")
	output=$(<"$doc")
	assert_json '.[0].health.held_times' 1
	json -c '.[0].functions[] | [.name, .total_ns, .on_cpu_ns, .queued_ns, .blocked_ns]' >&2
	# It uses 5 ms of the CPU.
	assert_json ".[0].health.held_ns as \$held | .[0].functions[] | select(.name == \"dl_round\") |
		[.calls, .returns, .on_cpu_ns >= 4750000, .total_ns <= $took - \$held,
		.on_cpu_ns + .queued_ns + .blocked_ns == .total_ns]" '[1,1,true,true,true]'
}

@test "stacks: a sleeping program is not stopped for an unwind table" {
	local lib=$BATS_TEST_TMPDIR/libcopy

	cp "$FIX/libfix.so.1" "$lib.1"
	start_bg r "$FUNCSNOOP" run st dl_round --lib "$FIX/dlcall" --stacks all --with split \
		--format json -o "$BATS_TEST_TMPDIR/doc" -- "$FIX/dlcall" --step "$lib" fix_sleep_us 1 1 20000
	wait_line -t 60 r '^step'
	tell r
	wait_bg -t 60 r
	output=$(<"$BATS_TEST_TMPDIR/doc")
	assert_json '.[0] | [.health.held_times, .functions[0].calls, .functions[0].returns,
		.functions[0].blocked_ns >= 19000000]' '[0,1,1,true]'
}

@test "stacks: slow calls are walked at their return, others not at all" {
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

@test "stacks: each failed call with a stack is counted once by its code" {
	cat >"$BATS_TEST_TMPDIR/fails.json" <<-END
	{ "fails_sym": { "fix_ret": { "symbol": "fix_ret", "ret": "long", "error": "negative" } },
	  "lib": "$FIX/libfix.so" }
	END
	fsn attach --config "$BATS_TEST_TMPDIR/fails.json" --stacks slow
	capture "$FIX/call" --arg -5,-7,1,-7 ret 40
	fsn stats fails --json
	assert_sound
	assert_json '.[0].functions[0] | [.errors, (.return_codes | map([.code, .count]))]' \
		'[30,[[-7,20],[-5,10]]]'
	fsn detach fails
}

@test "stacks: fast calls have rows by other keys, without a stack" {
	fsn attach st st_leaf --lib "$STACKS" --stacks slow --slow 20ms --key thread
	capture "$STACKS" plain slow thread
	fsn stats st --json
	assert_json '.[0].functions[0].rows | map([.calls, .slow, .key.stack.value > 0]) | sort' \
		'[[1,0,false],[1,0,false],[1,1,true]]'
	fsn detach st
	fsn -s 2 attach st st_leaf --lib "$STACKS" --stacks slow --count
	assert_stderr_match 'by stack:slow needs'
}

@test "stacks: calls in flight and calls of a stream have their stacks" {
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


@test "stacks: reading stacks of calls in flight interrupts no system call" {
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
	fsn list inflight st --stack --lines
	assert_output_match '^    st_slow \(stacks\.cc:[0-9]+\)$'
	fsn list inflight st --stack --lines --json
	assert_json '[.[].stack.frames[] | select(.name == "st_slow") | (.source | split("/") | last), .line] | unique' \
		"[$(grep -n 'st_call(us)' "$BATS_TEST_DIRNAME/fixtures/stacks.cc" | cut -d: -f1),\"stacks.cc\"]"
	tell hung
	wait_bg hung
	assert_output_line 'interrupted 0 times'
	fsn detach st
}

# Interpreters that are here: of each version once.
pythons() {
	local minor root python

	root=$(pyenv root 2>/dev/null) || root=''
	for minor in 8 9 10 11 12 13 14; do
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

@test "stacks: Python frames replace the interpreter's and match Python's own" {
	need_arch x86_64
	local python fork truth=$BATS_TEST_TMPDIR/truth n=0
	for python in $(pythons); do
		for fork in '' fork; do
			# fork() has the same effect in all versions.
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
	((n)) || skip "needs python3 (3.8 to 3.14)"
}

@test "stacks: long names of Python functions and files are truncated in calls in flight" {
	need_arch x86_64
	local python
	python=$(pythons | head -1)
	[[ -n $python ]] || skip "needs python3 (3.8 to 3.14)"
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	fsn attach py s:openat --comm longname
	start_bg long "$python" -c '
import os, sys
open("/proc/self/comm", "w").write("longname")
name, file = "n" * 4000, "/" + "f" * 4000
exec(compile(f"def {name}(): os.open(sys.argv[1], os.O_RDONLY)", file, "exec"))
globals()[name]()' "$BATS_TEST_TMPDIR/pipe"
	poll_until eval 'fsn list inflight py --stack --json && [[ $(jq length <<<"$output") == 1 ]]'
	assert_json '.[0].stack.frames | map(select(.offset == null)) | [.[0].name, .[0].file]' \
		"[\"$(printf 'n%.0s' {1..152})...\",\"...$(printf 'f%.0s' {1..320})\"]"
	: >"$BATS_TEST_TMPDIR/pipe"
	wait_bg long
	fsn detach py
}

@test "stacks: a false interpreter keeps its C frames and does no harm" {
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

# Starts a copy of fakepy14 with @BYTES at offset @AT of its debug offsets, in the background.
start_said() { # NAME [AT BYTES]
	local exe=$BATS_TEST_TMPDIR/$1/fakepy14 at

	mkdir "${exe%/*}"
	cp "$FIX/fakepy14" "$exe"
	at=$(LC_ALL=C grep -obaF xdebugpy "$exe")
	(($# == 1)) || printf '%b' "$3" | dd of="$exe" bs=1 seek=$((${at%%:*} + $2)) conv=notrunc status=none
	start_bg "$1" env LD_LIBRARY_PATH="$FIX" "$exe"
}

@test "stacks: Python 3.14 is read by its debug offsets; unknown ones keep C frames" {
	need_arch x86_64
	local name said='[["Inner.call","/fake/of14.py",7],["outer","/fake/of14.py",3]]'
	start_said known
	start_said later 8 '\xf0\x00\x0f\x03'
	start_said free_threaded 16 '\x01'
	start_said no_cookie 7 '\x00'
	start_said other_text 624 '\x21'
	for name in known later free_threaded no_cookie other_text; do
		poll_until bg_says "$name" ready
	done
	fsn attach py fix_hang --lib "$FIX/libfix.so" --stacks python
	for name in known later free_threaded no_cookie other_text; do
		tell "$name"
	done
	poll_until eval 'fsn list inflight py --stack --json && [[ $(jq length <<<"$output") == 5 ]]'
	for name in known later free_threaded no_cookie other_text; do
		assert_json ".[] | select(.tid == $(bg_pid "$name")) | .stack | [.end, [.frames[]
			| select(.offset == null) | [.name, .file, .line]], any(.frames[]; .name == \"_PyEval_EvalFrameDefault\")]" \
			"[\"outermost\",$([[ $name == known ]] && echo "$said,false" || echo '[],true')]"
	done
	for name in known later free_threaded no_cookie other_text; do
		tell "$name"
		wait_bg "$name"
	done
	# And as the kernel has read them.
	fsn stats py --json
	assert_json '[.[0].functions[].rows[] | .key.stack.frames | [[.[] | select(.offset == null) | [.name, .file, .line]],
		any(.[]; .name == "_PyEval_EvalFrameDefault")]] | unique' "[[[],true],[$said,false]]"
	fsn detach py
}

# Frames of Python of all stacks of a group, innermost first, each stack once; without that of note().
python_stacks() {
	"$FUNCSNOOP" stats "$1" --json | jq -cS '.[0].functions[].rows[] | [.key.stack.frames[]?
		| select(.offset == null) | [.name, .file, .line]] | select(length > 0) | .[1:]' | sort -u
}

# fixtures/slow.py in the background, which waits for $truth.go.
start_slow() { # NAME PYTHON [spin]
	rm -f "$truth" "$truth.go"
	start_bg "$1" "$2" -W ignore "$BATS_TEST_DIRNAME/fixtures/slow.py" "$FIX/libfix.so" "$truth" "${@:3}"
	poll_until test -e "$truth"
}

@test "stacks: slow calls have Python's own frames, after it has exited" {
	need_arch x86_64
	local python truth=$BATS_TEST_TMPDIR/truth n=0
	for python in $(pythons); do
		start_slow "slow$((++n))" "$python"
		fsn attach py fix_sleep_us --lib "$FIX/libfix.so" --slow 1ms --stacks slow
		touch "$truth.go"
		wait_bg "slow$n"
		assert_eq "$(python_stacks py)" "$(jq -cS . "$truth" | sort -u)"
		fsn stats py --json
		assert_json '[.[0].health.lost_python, ([.[0].functions[0].rows[].key.stack.frames[]?.name
			| select(startswith("_PyEval_EvalFrameDefault"))] | length)]' '[0,0]'
		fsn stats py --format folded
		assert_output_match ';made7 \(<string>:9\);([a-zA-Z_]+;)*note \(slow\.py:[0-9]+\);'
		fsn detach py
	done
	((n)) || skip "needs python3 (3.8 to 3.14)"
}

@test "stacks: Python frames in samples are those around the C frames" {
	need_arch x86_64
	local python stop=$BATS_TEST_TMPDIR/stop n=0
	# Since 3.11 most calls are made without C.
	for python in $(pythons | grep -E '3\.(8|9|10)$'); do
		rm -f "$stop" "$stop.ready"
		start_bg chain "$python" "$BATS_TEST_DIRNAME/fixtures/chain.py" "$stop"
		poll_until test -e "$stop.ready"
		fsn run cpu --sample 1999hz --by stack --pid "$(bg_pid chain)" -d 2 --json
		# Next to each of the two on the outside and on the inside, unless there is none inside.
		if [[ $output == *'"list_sort"'* ]]; then # else it is stripped
			((++n))
			assert_json 'def python: map(select(.offset == null).name);
				[.[0].functions[].rows[].key.stack.frames // [] | . as $all | select($all | python | length > 0)
					| keys[] as $i | $all[$i].name | select(. == "list_sort" or . == "map_next")
					| [($all[$i:] | python[0]), ., ($all[:$i] | python[-1])] | join(" ")] | unique' \
				'["f0 list_sort ","f0 list_sort f1","f2 map_next ","f2 map_next f3"]'
		fi
		touch "$stop"
		wait_bg chain
	done
	((n)) || skip "needs python3 (3.8 to 3.10) with symbols"
}

@test "stacks: deep Python stacks have Python frames, in 3.8 and 3.9 as far as calls are counted" {
	need_arch x86_64
	local python truth=$BATS_TEST_TMPDIR/truth n=0 depth
	for python in $(pythons); do
		for depth in 100 1000; do
			[[ $depth == 100 || $python == *3.[89] ]] || continue
			rm -f "$truth" "$truth.ready"
			start_bg "deep$((++n))" "$python" -c '
import ctypes, os, sys, time
sys.setrecursionlimit(5000)
lib = ctypes.CDLL(sys.argv[1])
def deep(n):
    lib.fix_sleep_us(2000) if not n else deep(n - 1) if n % 2 else max([n], key=lambda x: deep(x - 1))
open(sys.argv[2] + ".ready", "w")
while not os.path.exists(sys.argv[2]):
    time.sleep(.01)
deep(int(sys.argv[3]))' "$FIX/libfix.so" "$truth" "$depth"
			poll_until test -e "$truth.ready"
			fsn attach py fix_sleep_us --lib "$FIX/libfix.so" --stacks python
			touch "$truth"
			wait_bg "deep$n"
			fsn stats py --json
			assert_json '.[0] | (.functions[0].rows[0].key.stack | .end, (.frames | [length,
				any(.[]; .name == "deep" and .line == 6), any(.[]; .name | startswith("_PyEval_EvalFrameDefault"))])),
				(.health.lost_python > 0)' "$([[ $depth == 100 ]] && echo $'too_deep\n[127,true,false]\nfalse' ||
				echo $'too_deep\n[127,false,true]\ntrue')"
			fsn detach py
		done
	done
	((n)) || skip "needs python3 (3.8 to 3.14)"
}

@test "stacks: a Python name with a zero byte ends no stack, and can be saved and read" {
	need_arch x86_64
	local python go=$BATS_TEST_TMPDIR/go

	python=$(pythons | tail -n 1)
	[[ -n $python ]] || skip "needs python3 (3.8 to 3.14)"
	cat >"$BATS_TEST_TMPDIR/zero.py" <<-'END'
	import ctypes, os, sys, time
	lib = ctypes.CDLL(sys.argv[1])
	def zero():
	    lib.fix_sleep_us(2000)
	names = {"co_name": "\0none"}
	if sys.version_info >= (3, 11):
	    names["co_qualname"] = "\0none"
	zero.__code__ = zero.__code__.replace(**names)
	open(sys.argv[2] + ".ready", "w")
	while not os.path.exists(sys.argv[2]):
	    time.sleep(.01)
	zero()
	END
	start_bg zero "$python" "$BATS_TEST_TMPDIR/zero.py" "$FIX/libfix.so" "$go"
	poll_until test -e "$go.ready"
	fsn attach py fix_sleep_us --lib "$FIX/libfix.so" --stacks python
	touch "$go"
	wait_bg zero
	fsn stats py --save "$BATS_TEST_TMPDIR/saved.json"
	fsn stats py --json
	assert_json '[.[0].functions[].rows[].key.stack.frames[] | select(.line == 4).name]' $'["\xef\xbf\xbdnone"]'
	fsn stats py --diff "$BATS_TEST_TMPDIR/saved.json" --by stack
	fsn detach py
}

@test "stacks: samples have Python frames, and calls have them on request" {
	need_arch x86_64
	local python truth=$BATS_TEST_TMPDIR/truth doc=$BATS_TEST_TMPDIR/doc n=0 word
	for python in $(pythons | sed -n '1p;$p' | sort -u); do
		start_slow "spin$((++n))" "$python" spin
		fsn attach cpu --comm "$(cat "/proc/$(bg_pid "spin$n")/comm")"
		touch "$truth.go"
		wait_bg "spin$n"
		"$FUNCSNOOP" stats cpu --json >"$doc"
		# Where there are none, why, and in which file the stack ends.
		jq -c '.[0] | .health, [.functions[].rows[] | .key.stack as $stack |
			{calls, end: $stack.end, at: ($stack.frames[-1]? | [.name, .library])}]' "$doc"
		# Only from the marked call, and not before or after it.
		assert_eq "$(jq -cS '.[0].functions[].rows[] | .key.stack.frames
			| select(.[]?.name == "fix_spin_ns") | [.[] | select(.offset == null) | [.name, .file, .line]]
			| .[1:]' "$doc" | sort -u)" "$(jq -cS . "$truth" | sort -u)"
		fsn detach cpu
	done
	((n)) || skip "needs python3 (3.8 to 3.14)"
	for word in all python; do
		start_slow "$word" "$python"
		fsn attach py fix_sleep_us --lib "$FIX/libfix.so" --stacks "$word" --count
		touch "$truth.go"
		wait_bg "$word"
		[[ $word == python ]] || : >"$truth"
		assert_eq "$(python_stacks py)" "$(jq -cS . "$truth" | sort -u)"
		fsn detach py
	done
}

# Frames of Python of the stacks in which there is FUNCTION, without that of note().
python_of() { # GROUP FUNCTION
	"$FUNCSNOOP" stats "$1" --json | jq -cS --arg in "$2" '.[0].functions[].rows[] | .key.stack.frames
		| select(any(.[]?; .name == $in)) | [.[] | select(.offset == null) | [.name, .file, .line]]
		| .[1:]' | sort -u
}

@test "stacks: waits have the Python frames of a thread that slept or lost its CPU" {
	need_arch x86_64
	local python truth=$BATS_TEST_TMPDIR/truth
	python=$(pythons | head -1)
	[[ $python ]] || skip "needs python3 (3.8 to 3.14)"
	start_slow sleeps "$python"
	fsn attach off-cpu --stacks all --comm "$(cat "/proc/$(bg_pid sleeps)/comm")"
	touch "$truth.go"
	wait_bg sleeps
	assert_eq "$(python_of off-cpu fix_sleep_us)" "$(jq -cS . "$truth" | sort -u)"
	fsn detach off-cpu
	# Two threads that have one CPU, and spin.
	start_slow spins "$python" spin
	taskset -pc 0 "$(bg_pid spins)" >/dev/null
	fsn attach run-queue --stacks all --pid "$(bg_pid spins)"
	touch "$truth.go"
	wait_bg spins
	assert_eq "$(python_of run-queue fix_spin_ns)" "$(jq -cS . "$truth" | sort -u)"
	fsn detach run-queue
}

@test "stacks: Python frames are one kind in a flame graph, with full paths in profiles" {
	need_arch x86_64
	local python truth=$BATS_TEST_TMPDIR/truth page=$BATS_TEST_TMPDIR/page.html
	python=$(pythons | head -1)
	[[ $python ]] || skip "needs python3 (3.8 to 3.14)"
	start_slow slow "$python"
	fsn attach py fix_sleep_us --lib "$FIX/libfix.so" --stacks python --count
	touch "$truth.go"
	wait_bg slow
	cp "$BATS_TEST_DIRNAME/fixtures/slow.py" "$BATS_TEST_TMPDIR"
	capture "$python" -W ignore "$BATS_TEST_TMPDIR/slow.py" "$FIX/libfix.so" "$truth"
	fsn stats py --format flame --output "$page"
	fsn stats py --format pprof --output "$page.pprof"
	fsn stats py --json
	# Without what is escaped where the locale does not have it.
	output=$(jq -c --argjson page "$(sed -n 's/^const data = \(.*\);$/\1/p' "$page")" '{
		python: [$page.python[] as $i | $page.names[$i] | select(startswith("gr") | not)] | sort,
		frames: [.[0].functions[].rows[].key.stack.frames[]? | select(.offset == null)
			| "\(.name) (\(.file | split("/") | last):\(.line))"
			| select(startswith("gr") | not)] | unique }' <<<"$output")
	assert_json '.python == .frames' true
	assert_json '.python | index("made7 (<string>:9)") != null' true
	fsn detach py
	in_browser "$page" '
		const shade = (text) => colour({ raw: [data.names.indexOf(text)] }).match(/\d+/)[0] >> 0;
		said.hues = ["made7 (<string>:9)", "fix_sleep_us"].map(shade);
		said.legend = part("legend").textContent;'
	assert_json '.hues | [.[0] >= 96, .[1] < 96]' '[true,true]'
	assert_json '.legend | contains("Python")' true
	need_tool go
	export HOME=$BATS_TEST_TMPDIR PPROF_TMPDIR=$BATS_TEST_TMPDIR
	output=$(go tool pprof -lines -traces "$page.pprof" 2>/dev/null)
	assert_output_match " note $BATS_TEST_DIRNAME/fixtures/slow.py:26\$"
	assert_output_match " note $BATS_TEST_TMPDIR/slow.py:26\$"
	assert_output_match ' made7 <string>:9$'
}

@test "stacks: a profile for pprof has each stack with its calls and time" {
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
	# Each stack: its value next to the innermost frame, then the callers.
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

@test "stacks: --min shows how much a tree leaves out" {
	fsn attach st st_leaf --lib "$STACKS" --stacks all --count
	capture "$STACKS" plain plain plain thread
	fsn stats st --by stack
	assert_output_match ' st_thread > st_plain > st_call > st_leaf +1 '
	fsn stats st --by stack --min 30%
	refute_output_match 'st_thread'
	assert_output_match '^ 75\.0 '
	fsn stats st --min 30%
	refute_output_match 'st_thread'
	assert_output_match '^ 75\.0 '
	fsn -s 2 stats st --min 1% --by process
	assert_stderr_match "--top SHARE goes with --by stack"
	fsn detach st
}

@test "stacks: --top N keeps the N heaviest rows of a tree" {
	fsn attach st st_leaf st_plain --lib "$STACKS" --stacks all --count
	capture "$STACKS" plain plain plain thread sort
	for top in 1 2 3; do
		fsn stats st --by stack --sort calls --top $top
		assert_eq "$(grep -c '^ *[0-9.]* .* [0-9]' <<<"$(sed '1,/^SHARE/d' <<<"$output")")" $top
	done
	assert_output_match ' main > st_case '
	refute_output_match 'st_sort|st_thread'
	fsn stats st --by stack --sort calls --top 4 --format csv
	assert_eq "${#lines[@]}" 5
	fsn detach st
}

@test "stacks: a system call and the library's function of that name are one frame" {
	fsn run s:getgroups --by stack --format folded -o "$BATS_TEST_TMPDIR/folded" -- id -G
	output=$(<"$BATS_TEST_TMPDIR/folded")
	assert_output_match ';getgroups [0-9]+$'
	refute_output_match ';getgroups;getgroups'
}

@test "stacks: --diff compares stacks in a tree, folded lines, CSV, JSON and a flame graph" {
	local before=$BATS_TEST_TMPDIR/before page=$BATS_TEST_TMPDIR/page.html
	fsn attach st st_leaf --lib "$STACKS" --stacks all --count
	capture "$STACKS" plain sort
	fsn stats st --save "$before"
	fsn reset st
	capture "$STACKS" plain plain thread
	fsn stats st --diff "$before" --by stack --format folded
	assert_eq "$(grep -c . <<<"$output")" 3
	assert_output_match ';main;st_case;st_plain;st_call;st_leaf 1 2$'
	assert_output_match ';main;st_case;st_sort;.*qsort.*;st_compare;st_call;st_leaf 1 0$'
	assert_output_match ';st_thread;st_plain;st_call;st_leaf 0 1$'
	fsn stats st --by stack --diff "$before"
	assert_output_match '^WHAT +BEFORE +AFTER +CHANGE +CALLED BY$'
	assert_output_match '^calls +1 +2 +\+100\.0 ?% +st_plain$'
	assert_output_match '^calls +1 +0 +vanished +st_sort$'
	assert_output_match '^calls +0 +1 +new +st_thread$'
	fsn stats st --by stack --diff "$before" --format csv
	assert_output_match ',calls,1,2,100\.000,5,st_plain'
	fsn stats st --by stack --diff "$before" --json
	assert_json '[.[0].stacks[] | [.function, .frames[:3], .before.calls, .after.calls]] | sort
		| map([.[0], .[1][1], .[2], .[3]])' \
		'[["st_leaf","st_compare",1,null],["st_leaf","st_plain",1,2],["st_leaf","st_plain",null,1]]'
	fsn stats st --diff "$before" --format flame --output "$page"
	output=$(sed -n 's/^const data = \(.*\);$/\1/p' "$page")
	# A node is [name, calls, time, errors, the same before, below].
	assert_json '. as $d | [def leaves: if .[7] == [] then [.[1], .[4]] else .[7][] | leaves end;
		.root | leaves] | sort' '[[0,1],[1,0],[2,1]]'
	assert_json '[.was, .root[1], .root[4]]' '[true,3,2]'
	fsn -s 2 stats st --diff "$before" --format pprof --output "$page"
	assert_stderr_match 'pprof has one reading'
	fsn reset st
	capture "$STACKS" deep
	fsn stats st --save "$before"
	capture "$STACKS" deep
	fsn stats st --diff "$before" --format folded
	assert_output_match '^\[too deep\];st_recurse;.*;st_plain;st_call;st_leaf 1 2$'
	fsn detach st
}

# Line of TEXT in a fixture's source: "stacks.cc:42".
line_of() { # FILE TEXT
	echo "$1:$(grep -nF "$2" "$BATS_TEST_DIRNAME/fixtures/$1" | cut -d: -f1)"
}

@test "stacks: --lines shows the line of each frame and inlined functions" {
	local within around profile=$BATS_TEST_TMPDIR/profile
	within=$(line_of stacks.cc 'made within')
	around=$(line_of stacks.cc 'put around')
	fsn attach st st_leaf --lib "$STACKS" --stacks all --key caller --count
	capture "$STACKS" inlined
	fsn stats st --format folded --lines
	assert_output_match "\(stacks\.cc:[0-9]+\);st_around \($around\);st_within \($within\)_\[i\];st_call \(stacks.cc:[0-9]+\);st_leaf 1\$"
	fsn stats st --by stack --lines
	assert_output_match "^(100.0)? +(.*> )?st_within \($within\)_\[i\] > st_call"
	fsn stats st --format flame --lines
	assert_output_match "\"st_within \($within\)_\[i\]\""
	fsn stats st --json --lines
	assert_json '.[0].functions[0].rows[0].key.stack.frames | [.[1:3][]
		| [.name, "\(.source | split("/") | last):\(.line)", .inlined, .offset]]
		| (.[0][3] == .[1][3]), (.[][:3])' \
		"true"$'\n'"[\"st_within\",\"$within\",true]"$'\n'"[\"st_around\",\"$around\",false]"
	fsn stats st --by caller --lines --format csv
	assert_output_match "^[^,]*,st,.*st_call\+0x[0-9a-f]+ \($(line_of stacks.cc 'st_leaf(n);')\),1,"
	fsn stats st --format folded
	assert_output_match ';main;st_case;st_around;st_call;st_leaf 1$'
	fsn stats st --json
	assert_json '[.[0].functions[0].rows[0].key.stack.frames[] | keys] | unique' \
		'[["file","name","offset"]]'
	fsn stats st --format pprof --lines --output "$profile"
	need_tool go
	export HOME=$BATS_TEST_TMPDIR PPROF_TMPDIR=$BATS_TEST_TMPDIR
	output=$(go tool pprof -lines -traces "$profile" 2>/dev/null)
	assert_output_match " st_within .*/$within( \(inline\))?\$"
	fsn detach st
}

@test "stacks: --lines leaves frames without lines unchanged" {
	local bare=$BATS_TEST_TMPDIR/bare
	objcopy --strip-debug "$STACKS" "$bare"
	fsn attach st st_leaf --lib "$bare" --stacks all --count
	capture "$bare" inlined
	fsn stats st --format folded --lines
	assert_output_match ';main;st_case;st_around;st_call;st_leaf 1$'
	fsn -s 2 list --lines
	assert_stderr_match "--lines goes with 'list inflight', 'list crashes' and 'list allocations'"
	fsn detach st
}

@test "stacks: JIT code has the names of its perf map" {
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

@test "stacks: speedscope reads folded lines" {
	need_arch x86_64
	need_tool speedscope base64
	local map page script=$BATS_TEST_TMPDIR/st.js
	page=$(dirname "$(realpath "$(command -v speedscope)")")/../dist/release/index.html
	[[ -e $page ]] || skip "this speedscope has no page of its own"
	fsn attach st st_leaf --lib "$STACKS" --stacks all --count
	capture "$STACKS" plain plain sort made
	map=${output#map }
	fsn stats st --format folded
	rm -f "$map"
	printf 'speedscope.loadFileFromBase64("st.folded", "%s");\n' "$(base64 -w0 <<<"$output")" >"$script"
	fsn detach st
	browse "file://$(realpath "$page")#localProfilePath=$script&view=sandwich" \
		--virtual-time-budget=5000 --window-size=1200,2000
	# Its table has each name with its total and self value.
	assert_eq "$(sed 's/<[^>]*>/\n/g' <<<"$output" | grep . | as_text | awk '
		/^(st_.*|made .*|main)$/ { print $0 ": " total ", " own }
		{ total = own; own = $0 }' | sort)" 'made in-memory <now>: 1 (25%), 0 (<0.01%)
main: 4 (100%), 0 (<0.01%)
st_call: 4 (100%), 0 (<0.01%)
st_case: 4 (100%), 0 (<0.01%)
st_compare: 1 (25%), 0 (<0.01%)
st_leaf: 4 (100%), 4 (100%)
st_made: 1 (25%), 0 (<0.01%)
st_plain: 3 (75%), 0 (<0.01%)
st_sort: 1 (25%), 0 (<0.01%)'
}

@test "stacks: a flame graph in a browser has zoom, search and other metrics" {
	local page=$BATS_TEST_TMPDIR/page.html before=$BATS_TEST_TMPDIR/before
	fsn attach st st_leaf --lib "$STACKS" --stacks all
	capture "$STACKS" plain sort slow
	fsn stats st --format flame --output "$page"
	fsn attach st st_leaf --lib "$STACKS" --stacks all --count --replace
	capture "$STACKS" plain sort
	fsn stats st --save "$before"
	fsn reset st
	capture "$STACKS" plain plain thread
	fsn stats st --diff "$before" --format flame --output "$page.diff"
	fsn detach st
	in_browser "$page" '
		said.wide = share(named("st_sort"));
		touch("mousemove", named("st_plain")); said.tip = part("tip").textContent;
		said.found = search_for("st_(sort|plain)$"); said.hit = is_found(named("st_sort")); said.miss = is_found(named("main"));
		said.wrong = search_for("("); hit_key("Escape"); said.cleared = part("search").value;
		touch("click", named("st_sort")); said.enlarged = [name(shown), share(named("st_sort"))];
		hit_key("ArrowDown"); hit_key("Enter"); said.deeper = name(shown) !== "st_sort" && shown.up === at.up;
		part("out").click(); said.whole = name(shown);
		part("figures").children[1].click(); said.title = part("title").textContent;
		said.slow = share(named("st_slow")) > 900;'
	assert_json '[.errors, .asked]' '[[],0]'
	assert_json '[.wide, .tip, .found, .hit, .miss, .wrong, .cleared]' \
		'[333,"st_plain\ncalls: 1, 33.3 % of all","66.7 % in 2 names",true,false,"no regular expression",""]'
	assert_json '[.enlarged, .deeper, .whole, .slow]' '[["st_sort",1000],true,"all",true]'
	assert_json '.title | test("^st: [0-9.]+ ms$")' true
	in_browser "$page.diff" '
		const paints = (text) => { const [r, , b] = paint(named(text)); return r > b + 40 ? "red" : b > r + 40 ? "blue" : "same"; };
		said.can = [...part("figures").children].map((b) => !b.disabled);
		said.paints = ["st_thread", "st_plain", "main", "st_sort"].map(paints);
		said.wide = share(named("clone3") ?? named("st_thread"));
		touch("mousemove", named("st_sort")); said.tip = part("tip").textContent;
		part("widths").children[0].click(); said.gone = !named("st_sort"); said.now = share(named("st_thread"));'
	assert_json '[.errors, .can, .paints, .wide, .tip, .gone, .now]' \
		'[[],[true,false,false],["red","red","same","blue"],250,"st_sort\ncalls: 0, 0.0 % of all; before 1: -1 (-100.0 %)",true,333]'
}

# 50,000 stacks, ten frames more deep than they are apart.
many='(() => {
	const names = ["all"], f = Array.from({ length: 3000 }, (_, i) => names.push(`operation_${i}`) - 1);
	let next = 0;
	const pick = () => f[(next = (next * 7919 + 13) % 3000)];
	const chain = (n, of, v) => n ? [pick(), v, [chain(n - 1, of, v)]] : of;
	const make = (cnt, below) => { const list = Array.from({ length: cnt }, below);
		return [pick(), list.reduce((a, b) => a + b[1], 0), list]; };
	const leaf = () => { const v = 1 + next % 5; return chain(10, [pick(), v, []], v); };
	const root = make(50, () => make(50, () => make(20, leaf)));
	root[0] = 0;
	return { title: "many", chosen: 0, names, root, figures: [{ name: "calls", unit: "count" }] };
})()'

@test "stacks: a flame graph of 50,000 stacks opens, can be searched and enlarged" {
	local page=$BATS_TEST_TMPDIR/page.html
	awk -v data="$(tr '\n' ' ' <<<"$many")" '{ sub(/@DATA@/, data) } 1' "$BATS_TEST_DIRNAME/../cmd/show/flame.html" >"$page"
	in_browser "$page" '
		const timed = (run) => { const start = performance.now(); run(); return Math.round(performance.now() - start); };
		said.drawn = boxes.length;
		said.searched = timed(() => { said.found = search_for("operation_1"); });
		said.enlarged = timed(() => { touch("click", boxes[7]); });
		said.seen = [shown !== root, boxes.every((b) => b.room >= 0.3), boxes.some((b) => b.n.depth > 10)];
		said.ms = Math.round(performance.now());'
	assert_json '[.errors, .seen]' '[[],[true,true,true]]'
	assert_json '.drawn > 500 and .drawn < 20000' true
	assert_json '.found | test("^100.0 % in 1111 names$")' true
	assert_json '.ms < 30000' true
}

@test "stacks: frames of an exited program whose file is gone have the file's name" {
	local at=$BATS_TEST_TMPDIR/private

	mkdir "$at"
	fsn attach g locks --by stack --if comm==wanter
	unshare -m sh -c 'mount -t tmpfs none "$1" && cp "$2" "$1/own-contend" && "$1/own-contend" 2' sh "$at" "$FIX/contend"
	fsn stats g --json
	assert_json '[.[0].functions[].rows[] | [.calls, ([.key.stack.frames[].name
		| select(test("^own-contend[+]0x[0-9a-f]+$"))] | length > 0)]]' '[[12,true]]'
	fsn stats g --format folded
	assert_output_match ';own-contend[+]0x[0-9a-f]+;.* 12$'
	fsn detach g
}
