#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# funcsnoop stream: each call once, filters, several at a time, what is lost is counted, and
# what a stream that is killed or stopped leaves.
# bats file_tags=bpf

load helpers
load stream

# --- each call once -----------------------------------------------------------------------

@test "stream: --json prints one object for each call" {
	need_bpf
	need_tool jq
	fsn attach g fix_add --lib "$LIB"
	start_stream s g --json
	capture "$FIX/call" add 1234
	stop_stream s
	assert_eq "$(jq -c 'select(.type == "call" and .function == "fix_add")' <<<"$output" | wc -l)" 1234
	assert_eq "$(wc -l <<<"$output")" 1234
	assert_free g
	fsn detach g
}

cpu_ns() { # NAME: CPU time of its threads
	awk '{ n += $1 } END { printf "%.0f\n", n }' "/proc/$(bg_pid "$1")"/task/*/schedstat
}

cost_of_stream() { # TARGET...: CPU time of a stream of 20,000 calls, $cost
	fsn attach g "$LIB:fix_add" "$@" --overhead none --force
	start_stream s g --json
	cost=$(cpu_ns s)
	capture "$FIX/call" add 20000
	poll_until has_lines s 20000
	cost=$(($(cpu_ns s) - cost))
	stop_stream s
	fsn detach g
}

@test "stream: the cost of a call does not depend on the number of functions in the group" {
	local cost few

	need_link multi # which takes many functions at once
	copy_libc "$FIX/call" "$BATS_TEST_TMPDIR/lib"
	cost_of_stream
	few=$cost
	cost_of_stream "$BATS_TEST_TMPDIR/lib/libc.so.6:*"
	assert_between "$cost" 1 $((3 * few))
}

@test "stream: each call of threads and processes is shown once, with its pid and tid" {
	attach_fix fix_ret
	start_stream s g --json
	capture "$FIX/call" --threads 4 --procs 3 --comm caller ret 100
	local pids
	pids=$(sed -n 's/^child //p' <<<"$output" | sort)
	stop_stream s
	assert_events "call fix_ret 1200"
	assert_eq "$(jq .pid <<<"$output" | sort -u)" "$pids"
	assert_eq "$(jq -s 'group_by(.tid) | map(length) | unique' -c <<<"$output")" "[100]"
	assert_eq "$(jq -s 'group_by(.pid) | map(map(.tid) | unique | length)' -c <<<"$output")" "[4,4,4]"
	fsn detach g
}

each_link() { # EXIT: the same numbers with each kind of link
	local link

	need_bpf
	need_tool jq
	for link in session multi perf; do
		(need_link "$link") >/dev/null 2>&1 || continue
		fsn attach g fix_add fix_nested fix_recurse --lib "$LIB" --exit "$1" --link "$link"
		start_stream s g --json
		capture "$FIX/call" --arg 5 nested 20
		capture "$FIX/call" --arg 30 recurse 2
		stop_stream s
		assert_events "call fix_add 100
call fix_nested 20
call fix_recurse 60" || fail "with $link links"
		assert_eq "$(jq -r 'select(.function == "fix_recurse").ret' <<<"$output" | sort -n | uniq -c |
			awk '$1 != 2' | wc -l)" 0 "each depth twice, with $link links"
		fsn detach g
	done
}

@test "stream: all kinds of links show the same calls with return probes" {
	each_link return
}

@test "stream: all kinds of links show the same calls with probes on ret" {
	each_link ret
}

@test "stream: recursion of 200 calls is 200 events with probes on ret" {
	need_bpf
	need_tool jq
	fsn attach g fix_recurse --lib "$LIB" --exit ret
	start_stream s g --json
	capture "$FIX/call" --arg 200 recurse 2
	stop_stream s
	assert_events "call fix_recurse 400"
	assert_eq "$(jq -s '[.[].ret] | add' <<<"$output")" $((2 * 200 * 201 / 2))
	fsn detach g
}

@test "stream: an untracked tail call has no result and no duration" {
	need_bpf
	need_tool jq
	fsn attach g eng_jump_reg eng_spin --lib "$FIX/libengine.so" --exit ret
	start_stream s g --json
	capture "$FIX/engine" jumps 50
	stop_stream s
	assert_events "call eng_jump_reg 50
call eng_spin 100"
	assert_eq "$(jq -c 'select(.function == "eng_jump_reg") | [.ret, .duration_ns]' <<<"$output" |
		sort -u)" '[null,null]'
	assert_eq "$(jq -c 'select(.function == "eng_spin") | .ret, .duration_ns' <<<"$output" |
		grep -c null)" 0
	start_stream s g
	capture "$FIX/engine" jumps 3
	stop_stream s
	assert_eq "$(grep -c 'eng_jump_reg([^<]*) = ?$' <<<"$output")" 3
	assert_eq "$(grep -c 'eng_spin(.*) = [0-9]* <.*>$' <<<"$output")" 6
	fsn detach g
}

@test "stream: tail calls are in order of time and pass no filter by duration" {
	need_bpf
	need_tool jq
	fsn attach g 'eng_jump_*' eng_spin --lib "$FIX/libengine.so" --exit ret --slow 1ns
	start_stream all g --json --events all -f eng_jump_reg -f eng_spin
	start_stream long g --json --min 1ns
	start_stream slow g --json --slow
	start_stream chrome g --format chrome -f eng_jump_reg -f eng_spin
	capture "$FIX/engine" jumps 1
	stop_stream all
	output=$(jq -c 'select(.type != "call")' <<<"$output")
	assert_eq "$(jq -r '"\(.type) \(.function)"' <<<"$output")" "entry eng_spin
exit eng_spin
entry eng_jump_reg
exit eng_jump_reg
entry eng_spin
exit eng_spin"
	assert_eq "$(jq -c .ts_ns <<<"$output")" "$(jq -c .ts_ns <<<"$output" | sort -n)"
	stop_stream long
	assert_events "call eng_jump_cond 1
call eng_jump_direct 1
call eng_jump_plt 1
call eng_spin 2"
	stop_stream slow
	assert_events "call eng_jump_cond 1
call eng_jump_direct 1
call eng_jump_plt 1
call eng_spin 2"
	stop_stream chrome
	assert_eq "$(jq -c '.[] | select(.cat) | [.name, .ph, .dur >= 1000]' <<<"$output" | sort)" \
		'["eng_jump_reg","i",false]
["eng_spin","X",true]
["eng_spin","X",true]'
	fsn detach g
}

@test "stream: a function whose entry is its exit has events without a duration" {
	need_arch x86_64
	need_bpf
	need_tool jq
	fsn attach g asm_ret --lib "$FIX/libinsn.so" --site entry
	start_stream s g --json --events all
	capture "$FIX/asmcall" asm_ret 20
	stop_stream s
	assert_events "call asm_ret 20
entry asm_ret 20
exit asm_ret 20"
	assert_eq "$(jq -c 'select(.type != "entry").duration_ns' <<<"$output" | sort -u)" null
	fsn detach g
}

@test "stream: functions that are only counted show entries" {
	need_bpf
	need_tool jq
	fsn attach g fix_add --lib "$LIB" --count
	start_stream s g --json --events entry
	start_stream t g --json --events call
	start_stream u g --json
	capture "$FIX/call" --arg 7 add 40
	stop_stream t
	assert_eq "$output" ""
	assert_stderr_match "functions of group 'g' are only counted: use --events entry for their calls"
	stop_stream u
	refute_stderr_match "only counted"
	assert_events "entry fix_add 40"
	stop_stream s
	assert_events "entry fix_add 40"
	assert_eq "$(jq -c '[.args.arg1, .ret, .duration_ns]' <<<"$output" | sort -u)" '["0x7",null,null]'
	fsn detach g
}

@test "--events: entries, exits, calls, or all, in the order in which they were" {
	attach_fix fix_nested fix_add
	start_stream e g --json --events entry
	start_stream x g --json --events exit
	start_stream a g --json --events all
	capture "$FIX/call" --arg 2 nested 10
	stop_stream e
	assert_events "entry fix_add 20
entry fix_nested 10"
	stop_stream x
	assert_events "exit fix_add 20
exit fix_nested 10"
	stop_stream a
	assert_eq "$(jq -r '"\(.type) \(.function)"' <<<"$output" | head -n 8 | paste -sd,)" \
		"entry fix_nested,entry fix_add,exit fix_add,call fix_add,entry fix_add,exit fix_add,call fix_add,exit fix_nested"
	assert_eq "$(wc -l <<<"$output")" 90
	fsn detach g
}

@test "stream: a call that began earlier has a duration and result, but no arguments" {
	attach_fix fix_hang
	start_bg c "$FIX/call" hang 1
	wait_line c '^blocked'
	start_stream s g --json
	tell c
	wait_bg c
	stop_stream s
	assert_events "call fix_hang 1"
	assert_json '[.args, .ret, .duration_ns > 0]' '[null,0,true]'
	fsn detach g
}

# --- filters ------------------------------------------------------------------------------

@test "stream: --slow, --min and --failed show those calls and no others" {
	attach_typed --slow 20ms --slow fail=10s
	start_stream all g --json
	start_stream slow g --json --slow
	start_stream min g --json --min 25ms
	start_stream failed g --json --failed
	capture "$FIX/call" --arg 1,30000,1 sleep_us 9
	capture "$FIX/call" --arg 0,2,0,7 fail 8
	stop_stream all
	# On a machine that is busy any call may be slow.
	local all=$output
	stop_stream slow
	assert_between "${#lines[@]}" 3 9
	output=$(jq -c 'del(.time, .noise_ns)' <<<"$output")
	assert_output "$(jq -c 'del(.time, .noise_ns) | select(.function == "sleep" and .duration_ns >= 20000000)' <<<"$all")"
	assert_eq "$(jq -c '[.slow, .failed]' <<<"$output" | sort -u)" '[true,false]'
	stop_stream min
	assert_between "${#lines[@]}" 3 17
	output=$(jq -c 'del(.time, .noise_ns)' <<<"$output")
	assert_output "$(jq -c 'del(.time, .noise_ns) | select(.duration_ns >= 25000000)' <<<"$all")"
	stop_stream failed
	assert_events "call fail 4"
	assert_eq "$(jq -c '[.ret, .ret_name, .slow, .failed]' <<<"$output" | sort | uniq -c | tr -s ' ')" \
		' 2 [2,"fixBad",false,true]
 2 [7,null,false,true]'
	fsn detach g
}

@test "stream: --pid shows the calls of these processes" {
	attach_fix fix_add
	start_bg c "$FIX/call" --wait --procs 3 add 50
	wait_ready c
	local pids
	mapfile -t pids < <(sed -n 's/^child //p' "$(bg_out c)")
	start_stream one g --json -p "${pids[1]}"
	start_stream two g --json -p "${pids[0]}" -p "${pids[2]}"
	tell c
	wait_bg c
	stop_stream one
	assert_eq "$(jq .pid <<<"$output" | sort | uniq -c | tr -s ' ')" " 50 ${pids[1]}"
	stop_stream two
	assert_eq "$(jq .pid <<<"$output" | sort | uniq -c | tr -s ' ' | sort)" \
		"$(printf ' 50 %s\n' "${pids[0]}" "${pids[2]}" | sort)"
	fsn detach g
}

@test "stream: --function accepts names and globs" {
	attach_fix fix_add fix_ret fix_nested
	start_stream name g --json -f fix_add
	start_stream glob g --json -f 'fix_[rn]*'
	start_stream both g --json -f fix_ret -f '*_add'
	assert_eq "$(<"$(bg_err both)")" "funcsnoop stream: watching 2 functions of 1 group"
	capture "$FIX/call" --arg 2 nested 10
	capture "$FIX/call" ret 7
	stop_stream name
	assert_events "call fix_add 20"
	stop_stream glob
	assert_events "call fix_nested 10
call fix_ret 7"
	stop_stream both
	assert_events "call fix_add 20
call fix_ret 7"
	fsn detach g
}

@test "stream: --sample N shows one of every N calls" {
	attach_fix fix_add
	start_stream three g --json --sample 3
	start_stream seven g --json --sample 7
	start_stream one g --json --sample 1
	capture "$FIX/call" add 105
	stop_stream three
	assert_events "call fix_add 35"
	stop_stream seven
	assert_events "call fix_add 15"
	stop_stream one
	assert_events "call fix_add 105"
	fsn detach g
}

@test "stream: filters combine, and --sample applies after the others" {
	attach_typed --slow 100s
	start_bg c "$FIX/call" --wait --procs 2 --arg 2,0 fail 20
	wait_ready c
	local pid
	pid=$(sed -n 's/^child //p' "$(bg_out c)" | head -n 1)
	start_stream s g --json --failed -p "$pid" -f fa* --sample 4
	start_stream none g --json --failed --slow
	tell c
	wait_bg c
	stop_stream s
	# 10 failed calls: two blocks of four, and two more.
	assert_between "$(jq -s 'map(select(.type == "call" and .function == "fail")) | length' <<<"$output")" 2 3
	assert_eq "$(jq -c '[.pid, .failed]' <<<"$output" | sort -u)" "[$pid,true]"
	stop_stream none
	assert_eq "$output" ""
	fsn detach g
}

@test "stream: --number stops after exactly N events" {
	attach_fix fix_add
	start_stream n g --json -n 17
	start_stream all g --json -n 8 --events all
	start_stream one g --json --events exit -n 1
	capture "$FIX/call" add 100
	wait_bg n
	assert_events "call fix_add 17"
	wait_bg all
	assert_events "call fix_add 2
entry fix_add 3
exit fix_add 3"
	wait_bg one
	assert_events "exit fix_add 1"
	assert_free g
	fsn detach g
}

@test "stream: --duration stops after SEC seconds, with all calls until then" {
	attach_fix fix_add
	start_stream d g --json -d 1
	capture "$FIX/call" add 100
	wait_bg d
	assert_events "call fix_add 100"
	local ms
	ms=$(ms_of "$FUNCSNOOP" stream g -d 300ms)
	assert_between "$ms" 300 3000
	fsn detach g
}

# --- several ------------------------------------------------------------------------------

@test "stream: eight streams of a group are exact, and the ninth is refused" {
	attach_fix fix_add
	local i
	for i in 1 2 3 4 5 6 7 8; do
		start_stream "s$i" g --json --sample "$i"
	done
	fsn -s 1 stream g
	assert_stderr "funcsnoop stream: group 'g' has 8 streams already
hint: stop one; the place of a killed one is free after 5 s"
	capture "$FIX/call" add 840
	stop_stream s3
	assert_events "call fix_add 280"
	start_stream again g --json
	capture "$FIX/call" add 840
	stop_stream again
	assert_events "call fix_add 840"
	for i in 1 2 4 5 6 7 8; do
		stop_stream "s$i"
		assert_events "call fix_add $((1680 / i))"
	done
	assert_free g
	fsn detach g
}

@test "stream: shows several groups or all, and a group named twice only once" {
	attach_fix fix_add
	fsn attach h fix_ret fix_add --lib "$LIB" --exit return
	start_stream two h g --json
	start_stream all --json
	start_stream twice g g --json
	start_stream glob --json -f '*_ret'
	assert_eq "$(<"$(bg_err two)")" "funcsnoop stream: watching 3 functions of 2 groups"
	capture "$FIX/call" add 30
	capture "$FIX/call" ret 20
	local want='["g","fix_add"] 30
["h","fix_add"] 30
["h","fix_ret"] 20' name
	for name in two all; do
		stop_stream "$name"
		assert_eq "$(jq -c '[.group, .function]' <<<"$output" | sort | uniq -c |
			awk '{ print $2, $1 }')" "$want"
	done
	stop_stream twice
	assert_events "call fix_add 30"
	stop_stream glob
	assert_events "call fix_ret 20"
	assert_free g
	assert_free h
	fsn detach g h
}

# --- killed, stopped ------------------------------------------------------------------------

@test "stream: after kill -9 the next command frees the stream, and counts are exact" {
	need_tool bpftool
	attach_fix fix_add
	start_stream s g --json
	start_stream t g --json -o "$BATS_TEST_TMPDIR/t.json"
	stop_bg -KILL s
	stop_bg -KILL t
	assert_eq "$(rings g)" 2
	poll_until lease_ended g
	capture "$FIX/call" add 10
	assert_eq "$(switches g)" "[0,0]" "after a call when the lease has ended"
	assert_eq "$(rings g)" 2 "swept by a call"
	fsn list
	assert_free g
	start_stream s g --json
	capture "$FIX/call" add 25
	stop_stream s
	assert_events "call fix_add 25"
	assert_numbers g "fix_add 35 0 35 0 0 0"
	fsn detach g
}

@test "stream: a stopped stream reports the gap and continues" {
	need_tool bpftool
	attach_fix fix_add
	start_stream s g --json
	start_stream t g
	kill -STOP "$(bg_pid s)" "$(bg_pid t)"
	capture "$FIX/call" add 10
	poll_until lease_ended g
	capture "$FIX/call" add 20
	assert_eq "$(switches g)" "[0,0]"
	kill -CONT "$(bg_pid s)" "$(bg_pid t)"
	poll_until grep -q '"gap"' "$(bg_out s)"
	poll_until grep -q -- '-- stopped' "$(bg_out t)"
	capture "$FIX/call" add 5
	stop_stream s
	assert_events "call fix_add 15
gap - 1"
	assert_eq "$(jq -r .type <<<"$output" | uniq -c | tr -s ' ' | paste -sd,)" " 10 call, 1 gap, 5 call"
	assert_between "$(jq 'select(.type == "gap").duration_ns' <<<"$output")" 1000 20000000000
	stop_stream t
	assert_output_match '^-- stopped: nothing of g was recorded for [0-9.]+ m?s --$'
	assert_eq "$(grep -c fix_add <<<"$output")" 15
	fsn detach g
}

@test "stream: a stopped stream whose entry was reused ends with an error" {
	need_tool bpftool
	attach_fix fix_add
	start_stream s g --json
	kill -STOP "$(bg_pid s)"
	poll_until lease_ended g
	start_stream t g --json
	assert_eq "$(rings g)" 1
	capture "$FIX/call" add 5
	kill -CONT "$(bg_pid s)"
	wait_bg -s 1 s
	assert_stderr_match "this process was stopped for so long that its place in group 'g' was given away"
	assert_json 'select(.error).error' \
		"this process was stopped for so long that its place in group 'g' was given away"
	capture "$FIX/call" add 5
	stop_stream t
	assert_events "call fix_add 10"
	assert_free g
	fsn detach g
}

# --- lost ---------------------------------------------------------------------------------

# Delivered calls, the sum of reported losses, and the final message.
assert_all_accounted() { # CALLS
	local got lost

	got=$(jq -s '[.[] | select(.type == "call")] | length' <<<"$output")
	lost=$(jq -s '[.[] | select(.type == "lost").count] | add // 0' <<<"$output")
	assert_eq $((got + lost)) "$1" "delivered $got and lost $lost"
	((got > 0 && lost > 0)) || fail "delivered $got and lost $lost"
	assert_stderr_match "^funcsnoop stream: $lost calls were lost: use a larger --limit buffer=SIZE, filters, or --overhead none$"
}

@test "stream: counts calls dropped because the reader is stopped" {
	attach_fix fix_add
	start_stream s g --json --buffer 4K
	kill -STOP "$(bg_pid s)"
	capture "$FIX/call" --threads 3 add 400
	kill -CONT "$(bg_pid s)"
	poll_until has_lines s 10
	capture "$FIX/call" add 3
	stop_stream s
	assert_all_accounted 1203
	assert_eq "$(jq -c '[.group, .type]' <<<"$output" | grep -c lost)" 1 "told once, where it was"
	assert_eq "$(tail -n 4 <<<"$output" | jq -r .type | paste -sd,)" "lost,call,call,call"
	assert_free g
	fsn detach g
}

@test "stream: counts calls dropped with several threads, a full pipe, several groups" {
	attach_fix fix_add
	fsn attach h fix_add --lib "$LIB" --exit return
	mkfifo "$BATS_TEST_TMPDIR/pipe"
	exec 8<>"$BATS_TEST_TMPDIR/pipe"
	start_stream s --json --buffer 4K -o "$BATS_TEST_TMPDIR/pipe" 8>&-
	capture "$FIX/call" --threads 4 add 1000
	start_bg reader cat "$BATS_TEST_TMPDIR/pipe" 8>&-
	poll_until has_open reader "$BATS_TEST_TMPDIR/pipe"
	exec 8>&-
	capture "$FIX/call" --threads 4 add 500
	kill -INT "$(bg_pid s)"
	wait_bg s
	local note=$stderr
	wait_bg reader
	stderr=$note
	assert_all_accounted 12000
	local g
	for g in g h; do
		assert_eq "$(jq -s "[.[] | select(.group == \"$g\") | .count // 1] | add" <<<"$output")" 6000
	done
	assert_numbers g "fix_add 6000 0 6000 0 0 0"
	fsn detach g h
}

# --- order --------------------------------------------------------------------------------

@test "stream: events of many threads are in order of their returns" {
	attach_fix fix_add fix_nested
	start_stream x g --json --events exit
	start_stream s g --json
	capture "$FIX/call" --threads 8 --arg 3 nested 500
	stop_stream x
	assert_eq "$(jq -s 'map(.ts_ns) | . == sort' <<<"$output")" true "out of order"
	stop_stream s
	assert_events "call fix_add 12000
call fix_nested 4000"
	assert_eq "$(jq -sc 'group_by(.tid) | map(map(.function == "fix_nested") | [range(length) as $i
		| .[$i] == ($i % 4 == 3)]) | add | unique' <<<"$output")" '[true]' "a call before one inside"
	assert_eq "$(jq -s 'length as $n | (map({ts_ns, tid, function}) | unique | length) == $n' <<<"$output")" true
	fsn detach g
}

# --- what else happens to the group -----------------------------------------------------------

@test "stream: a detach shows all calls and ends the stream" {
	attach_fix fix_add
	start_stream s g --json
	capture "$FIX/call" add 30
	fsn detach g
	wait_bg s
	assert_events "call fix_add 30"
	assert_stderr "funcsnoop stream: watching 1 function of 1 group
funcsnoop stream: all groups were detached"
}

@test "stream: continues with the other group after one of two is detached" {
	attach_fix fix_add
	fsn attach h fix_ret --lib "$LIB" --exit return
	start_stream s --json
	fsn detach g
	capture "$FIX/call" ret 4
	capture "$FIX/call" add 4
	poll_until has_lines s 4
	kill -0 "$(bg_pid s)"
	stop_stream s
	assert_events "call fix_ret 4"
	fsn detach h
}

@test "stream: attach --replace ends the stream of the old group" {
	attach_fix fix_add
	start_stream s g --json
	capture "$FIX/call" add 3
	fsn attach g fix_add --lib "$LIB" --exit return --replace
	capture "$FIX/call" add 3
	wait_bg s
	assert_events "call fix_add 3"
	assert_stderr_match "all groups were detached"
	assert_free g
	fsn detach g
}

@test "stream: reset and set lose no event of a running stream" {
	attach_fix fix_add
	start_stream s g --json
	capture "$FIX/call" add 10
	fsn reset g
	fsn set g --slow 0ns
	capture "$FIX/call" add 10
	stop_stream s
	assert_events "call fix_add 20"
	assert_eq "$(jq -c .slow <<<"$output" | uniq -c | tr -s ' ' | paste -sd,)" " 10 false, 10 true"
	fsn detach g
}
