# SPDX-License-Identifier: BSD-2-Clause
# list inflight: the calls that have not come back.
# bats file_tags=bpf

load helpers

# Two groups; two calls of fix_hang and one of eng_block that do not come back.
attach_hanging() {
	need_bpf
	fsn attach hang fix_hang fix_add --lib "$FIX/libfix.so"
	fsn attach eng eng_block --lib "$FIX/libengine.so"
	start_bg call "$FIX/call" --threads 2 --comm hangs hang 1
	start_bg engine "$FIX/engine" block 1
	wait_line call "^blocked "
	wait_line engine "^blocked "
}

end_hanging() {
	tell call
	wait_bg call
	assert_output_line "result fix_hang calls=2 sum=0 wrong=0"
	tell engine
	wait_bg engine
	fsn list inflight
	assert_output ""
	assert_stderr "funcsnoop list: no call is in flight"
	fsn list inflight --older-than 1h
	assert_stderr "funcsnoop list: no call is in flight for this long"
	fsn list inflight --json
	assert_output '{"version":1,"calls":[]}'
	fsn detach hang eng
}

@test "in flight: without a group all calls are listed, with a group its own" {
	attach_hanging
	fsn list inflight --json
	assert_json 'map([.group, .function]) | sort' \
		'[["eng","eng_block"],["hang","fix_hang"],["hang","fix_hang"]]'
	fsn list inflight eng --json
	assert_json 'map([.group, .function, .pid])' "[[\"eng\",\"eng_block\",$(bg_pid engine)]]"
	fsn list inflight hang eng --json
	assert_json length 3
	fsn -s 1 list inflight nosuch --json
	assert_json .error 'no group '\''nosuch'\'' is attached'
	end_hanging
}

@test "in flight: JSON has all keys of a call, and an age that grows" {
	local age

	attach_hanging
	fsn list inflight eng --json
	assert_json '.[0] | keys_unsorted' \
		'["group","function","pid","tid","comm","age_ns","stale","key","sums","args"]'
	assert_json '.[0] | map_values(type) | [.group, .function, .pid, .tid, .comm, .age_ns,
		.stale] | unique' '["boolean","number","string"]'
	age=$(json '.[0].age_ns')
	fsn list inflight eng --json
	assert_between "$(json '.[0].age_ns')" $((age + 1)) $((age + 60000000000)) "age_ns"
	end_hanging
}

@test "in flight: the table has its columns in order" {
	attach_hanging
	fsn list inflight
	assert_eq "$(tr -s ' ' <<<"${lines[0]}")" "GROUP PID TID COMMAND AGE FUNCTION"
	assert_eq "${#lines[@]}" 4
	assert_output_match "^hang +$(bg_pid call) +[0-9]+ +hangs +[0-9].*s +fix_hang$"
	assert_output_match "^eng +$(bg_pid engine) +[0-9]+ +engine +[0-9].*s +eng_block\\(fd=[0-9]+\\)$"
	end_hanging
}

@test "in flight: --older-than omits younger calls" {
	attach_hanging
	fsn -s 2 list inflight --older-than 1y
	fsn list inflight --older-than 3600s --json
	assert_output '{"version":1,"calls":[]}'
	older() {
		fsn list inflight --older-than 200ms --json
		[[ $(json length) == 3 ]]
	}
	poll_until older
	start_bg later "$FIX/call" hang 1
	wait_line later "^blocked "
	fsn list inflight --json
	assert_json length 4
	fsn list inflight --older-than 3600s --all --json
	assert_output '{"version":1,"calls":[]}'
	fsn list inflight --older-than 0ns --json
	assert_json length 4
	tell later
	wait_bg later
	end_hanging
}

@test "in flight: --older-than requires a duration with a unit" {
	fsn -s 2 list inflight --older-than 5
	assert_stderr_match "^funcsnoop list: --older-than: '5' has no unit"
	fsn -s 2 list inflight --older-than fast
	assert_stderr_match "--older-than"
	fsn -s 2 list inflight --older-than -5s
	fsn -s 2 list --older-than 5s
	assert_stderr_match "^funcsnoop list: --all, --older-than and --stack go with 'list inflight'$"
}

# The thread has left them by longjmp, and is above all but the first few.
@test "in flight: run names no call that longjmp has left" {
	local shown

	need_bpf
	start_bg engine "$FIX/engine" deep_longjmp 1 400 --wait --wait-end
	wait_ready engine
	start_bg run "$FUNCSNOOP" run g eng_deep_longjmp --lib "$FIX/libengine.so" --exit ret -p "$(bg_pid engine)"
	poll_until grep -q 'attached to 1 function' "$(bg_err run)"
	tell engine
	wait_line engine "^done "
	fsn list inflight --json
	shown=$(json length)
	assert_between "$shown" 0 100
	kill -INT "$(bg_pid run)"
	wait_bg run
	output=$(sed -n 's/^in flight: //p' "$(bg_out run)")
	case $shown in
	0) assert_output "" ;;
	1) assert_output "1 call: eng_deep_longjmp 1" ;;
	*) assert_output "$shown calls: eng_deep_longjmp $shown" ;;
	esac
	tell engine
	wait_bg engine
}

@test "in flight: calls that longjmp has left are stale, and only shown with --all" {
	local shown stale

	need_bpf
	fsn attach g eng_deep_longjmp --lib "$FIX/libengine.so" --exit ret
	start_bg engine "$FIX/engine" deep_longjmp 1 400 --wait-end
	wait_line engine "^done "
	fsn list inflight --json
	assert_json_true 'all(.[]; .stale == false)'
	shown=$(json length)
	fsn list inflight
	stale=$((400 - shown))
	assert_stderr_match "^funcsnoop list: $stale stale calls are hidden; --all shows them$"
	assert_between "$stale" 300 400
	fsn list inflight --all --json
	assert_json "[length, (map(select(.stale)) | length)]" "[400,$stale]"
	assert_json 'map(.function) | unique' '["eng_deep_longjmp"]'
	fsn list inflight --all
	assert_eq "${#lines[@]}" 401
	assert_output_match " eng_deep_longjmp\(n=.*\) \(stale\)$"
	assert_stderr ""
	tell engine
	wait_bg engine
	assert_numbers g "eng_deep_longjmp 400 0 0 0 400 0"
	fsn detach g
}

@test "in flight: a zombie process has no calls" {
	local pid

	need_bpf
	fsn attach g fix_hang --lib "$FIX/libfix.so"
	# The shell becomes a program that never waits for its child.
	start_bg parent bash -c '"$0" hang 1 <&0 & echo "child $!"; exec sleep 1000' "$FIX/call"
	wait_line parent "^child "
	wait_line parent "^blocked "
	pid=$(sed -n 's/^child //p' "$(bg_out parent)")
	fsn list inflight --json
	assert_json 'map(.pid)' "[$pid]"
	kill -KILL "$pid"
	is_zombie() {
		[[ $(sed 's/.*) //; s/ .*//' "/proc/$pid/stat") == Z ]]
	}
	poll_until is_zombie
	fsn list inflight --all --json
	assert_output '{"version":1,"calls":[]}'
	assert_numbers g "fix_hang 1 0 0 0 1 0"
	stop_bg parent
	fsn detach g
}

@test "in flight: a process with a reused pid does not inherit calls" {
	local pid

	need_bpf
	need_fixture pidreuse
	fsn attach g fix_hang fix_add --lib "$FIX/libfix.so"
	start_bg first "$FIX/call" hang 1
	wait_line first "^blocked "
	pid=$(bg_pid first)
	stop_bg -KILL first
	start_bg second "$FIX/pidreuse" "$pid" "$FIX/call" --wait-end add 5
	wait_line second "^done "
	fsn list inflight --all --json
	assert_output '{"version":1,"calls":[]}'
	assert_numbers g "fix_add 5 0 5 0 0 0
fix_hang 1 0 0 0 1 0"
	tell second
	wait_bg second
	fsn detach g
}

@test "in flight: escape sequences in a program's name are not written to the terminal" {
	local comm=$'\e[31mx\ny"'

	need_bpf
	fsn attach g fix_hang --lib "$FIX/libfix.so"
	start_bg call bash -c 'exec -a call "$0" --threads 1 --comm "$1" hang 1' "$FIX/call" "$comm"
	wait_line call "^blocked "
	fsn list inflight
	refute_output_match $'\e'
	assert_eq "${#lines[@]}" 2
	assert_output_match '\\x1b\[31mx'
	fsn list inflight --json
	assert_json '.[0].comm | startswith("\u001b[31mx")' true
	tell call
	wait_bg call
	fsn detach g
}

@test "in flight: calls are gone after a detach, and a new group does not inherit them" {
	attach_hanging
	fsn detach hang
	fsn list inflight --json
	assert_json 'map(.group)' '["eng"]'
	fsn attach hang fix_hang --lib "$FIX/libfix.so"
	fsn list inflight hang --json
	assert_output '{"version":1,"calls":[]}'
	end_hanging
}

# There are 8 places for a stack pointer and 8,192 such sets: many calls at many places.
@test "in flight: 400 concurrent calls are all in flight" {
	need_bpf
	fsn attach g fix_hang --lib "$FIX/libfix.so"
	start_bg call "$FIX/call" --threads 400 hang 1
	wait_line call "^blocked "
	assert_numbers g "fix_hang 400 0 0 400 0 0"
	tell call
	wait_bg call
	assert_numbers g "fix_hang 400 0 400 0 0 0"
	fsn detach g
}

# --- what a reading must not give up ----------------------------------------------------

# Between the readings of two clocks any time may pass.
@test "in flight: a young call is in flight, however slow the reader is" {
	need_bpf
	need_no_sanitizer
	fsn attach g fix_hang --lib "$FIX/libfix.so"
	start_bg call "$FIX/call" --threads 4 hang 1
	wait_line call "^blocked "
	capture env LD_PRELOAD="$FIX/slowclock.so" "$FUNCSNOOP" stats g --json
	assert_json '.[0].functions[0] | [.calls, .in_flight, .abandoned]' '[4,4,0]'
	tell call
	wait_bg call
	assert_numbers g "fix_hang 4 0 4 0 0 0"
	fsn detach g
}

@test "in flight: readers with another clock abandon no call" {
	need_bpf
	capture -s any unshare --time --monotonic 100000 true
	[[ $status == 0 ]] || skip "no time namespace can be made here"
	fsn attach g fix_hang --lib "$FIX/libfix.so"
	start_bg call "$FIX/call" --threads 4 hang 1
	wait_line call "^blocked "
	capture unshare --fork --time --monotonic 100000 "$FUNCSNOOP" stats g --json
	assert_json '.[0].functions[0] | [.calls, .in_flight, .abandoned]' '[4,4,0]'
	capture unshare --fork --time --monotonic -10 --boottime 100000 "$FUNCSNOOP" stats g --json
	assert_json '.[0].functions[0] | [.calls, .in_flight, .abandoned]' '[4,4,0]'
	tell call
	wait_bg call
	assert_numbers g "fix_hang 4 0 4 0 0 0"
	fsn detach g
}

# --- calls that come back ---------------------------------------------------------------

attach_orphan() { # starts a call whose thread has ended, on a stack that lives on
	need_bpf
	fsn attach g hz_yield_asm --lib "$FIX/libhazard.so"
	start_bg hazard "$FIX/hazard" fiber_orphan 1 --wait-end
	wait_line hazard "^left "
}

end_orphan() { # TEXT: counts when the call has returned
	tell hazard
	wait_line hazard "^done "
	assert_numbers g "$1"
	tell hazard
	wait_bg hazard
	assert_numbers g "$1"
	fsn detach g
}

@test "in flight: a call abandoned with its thread can resume and return" {
	attach_orphan
	assert_numbers g "hz_yield_asm 1 0 0 0 1 0"
	end_orphan "hz_yield_asm 1 0 1 0 0 0"
}

@test "in flight: a call abandoned before a reset and resumed after it is carried" {
	attach_orphan
	assert_numbers g "hz_yield_asm 1 0 0 0 1 0"
	fsn reset g
	assert_numbers g ""
	end_orphan "hz_yield_asm 0 1 1 0 0 0"
}

@test "in flight: intervals add up when an abandoned call resumes" {
	attach_orphan
	fsn stats g --json
	start_bg stats "$FUNCSNOOP" stats g -i 0.1 --json --all
	readings() { (($(wc -l <"$(bg_out stats)") >= $1)); }
	poll_until readings 1
	tell hazard
	wait_line hazard "^done "
	returned() { grep -q '"returns":1,' "$(bg_out stats)"; }
	poll_until returned
	stop_bg -INT stats
	assert_eq "$(jq -cr "$SOUND unsound" "$(bg_out stats)")" ""
	assert_eq "$(jq -s '[.[][0].functions[0].returns] | add' "$(bg_out stats)")" 1
	assert_numbers g "hz_yield_asm 1 0 1 0 0 0"
	tell hazard
	wait_bg hazard
	fsn detach g
}

# bats test_tags=core,arch
@test "in flight: coroutines that copy their stack return from at most 8 abandoned calls" {
	need_bpf
	fsn attach g hz_yield_asm --lib "$FIX/libhazard.so" --exit ret
	start_bg hazard "$FIX/hazard" fiber_copy 7 --wait-end
	wait_line hazard "^left "
	assert_numbers g "hz_yield_asm 7 0 0 1 6 0"
	tell hazard
	wait_line hazard "^done "
	assert_numbers g "hz_yield_asm 7 0 7 0 0 0"
	# Counters of metrics only grow: what is abandoned is the difference.
	fsn stats g --format prometheus
	assert_output_match '^funcsnoop_abandoned_total\{group="g",function="hz_yield_asm",.*\} 6$'
	assert_output_match '^funcsnoop_revived_total\{group="g",function="hz_yield_asm",.*\} 6$'
	tell hazard
	wait_bg hazard
	fsn reset g
	start_bg hazard "$FIX/hazard" fiber_copy 50 --wait-end
	wait_line hazard "^left "
	tell hazard
	wait_line hazard "^done "
	assert_numbers g "hz_yield_asm 50 0 8 0 42 0
unmatched_returns 42"
	fsn stats g
	assert_stderr_match "coroutines"
	tell hazard
	wait_bg hazard
	fsn detach g
}

# The process and its first thread continue; the stack of the call is gone.
@test "in flight: a call that executes another program is abandoned while that one runs" {
	need_bpf
	[[ $(</proc/sys/kernel/randomize_va_space) != 0 ]] || skip "stacks are not randomized"
	fsn attach g eng_exec --lib "$FIX/libengine.so" --exit ret
	start_bg engine "$FIX/engine" exec_stay 1
	wait_ready engine
	assert_numbers g "eng_exec 1 0 0 0 1 0"
	tell engine
	wait_bg engine
	assert_numbers g "eng_exec 1 0 0 0 1 0"
	fsn detach g
}

# --- a table that fills -----------------------------------------------------------------

# 100,000 calls that are left behind would take each place of the table.
# bats test_tags=bpf,slow
@test "in flight: a process that leaves very many calls uses no slot that others need" {
	need_bpf
	fsn attach g eng_deep_longjmp eng_leaf --lib "$FIX/libengine.so" --exit ret
	start_bg deep "$FIX/engine" deep_longjmp 1 100000 --wait-end
	wait_line deep "^done "
	for _ in 1 2 3 4 5 6; do
		capture "$FIX/engine" threads 5 64 # each thread at another place
	done
	fsn stats g --json
	assert_json '.[0].functions | map(select(.name == "eng_leaf"))[0] | [.calls, .returns]' \
		'[1921,1921]'
	assert_json '.[0].functions | map(select(.name == "eng_deep_longjmp"))[0]
		| [.calls, .in_flight + .abandoned + .untimed]' '[100000,100000]'
	assert_json_true '.[0].health | .crowded > 0 and .crowded == .no_slot'
	assert_sound
	fsn stats g
	assert_stderr_match "not timed: too many of process $(bg_pid deep) in flight"
	tell deep
	wait_bg deep
	fsn detach g
}

# On the first thread's stack, calls below a new call were left.
# bats test_tags=bpf,slow
@test "in flight: a process that has left very many calls gets slots for new ones" {
	need_bpf
	fsn attach g eng_deep_longjmp eng_leaf --lib "$FIX/libengine.so" --exit ret
	capture "$FIX/engine" deep_longjmp 3 100000
	fsn stats g --json
	assert_json '.[0].functions | map(select(.name == "eng_leaf"))[0] | [.calls, .returns]' '[3,3]'
	assert_json '.[0].functions | map(select(.name == "eng_deep_longjmp"))[0]
		| [.calls, .in_flight, .abandoned + .untimed]' '[300000,0,300000]'
	fsn detach g
}

# No command reads the group meanwhile, so nothing is swept.
# bats test_tags=bpf,slow
@test "in flight: unswept calls of killed processes do not fill the table" {
	local i

	need_bpf
	fsn attach g eng_deep_block eng_leaf --lib "$FIX/libengine.so" --exit ret
	for i in 1 2 3 4; do
		start_bg "block$i" "$FIX/engine" deep_block 1 30000
		wait_line "block$i" "^blocked "
	done
	for i in 1 2 3 4; do
		stop_bg -KILL "block$i"
	done
	capture "$FIX/engine" threads 500 16
	capture "$FIX/engine" leaf 1000
	fsn stats g --json
	assert_json '.[0].functions | map(select(.name == "eng_leaf"))[0] | [.calls, .returns]' \
		'[9000,9000]'
	assert_json '.[0].functions | map(select(.name == "eng_deep_block"))[0]
		| [.calls, .in_flight, .abandoned + .untimed]' '[120000,0,120000]'
	assert_sound
	fsn detach g
}

@test "in flight: the message has the singular for one call" {
	need_bpf
	fsn attach g fix_hang --lib "$FIX/libfix.so"
	start_bg one "$FIX/call" hang 1
	wait_line one "^blocked "
	fsn stats g
	assert_output_line "in flight: 1 call; 'funcsnoop list inflight g' shows it"
	tell one
	wait_bg one
	fsn detach g
}

# No probe sees the begin of a call that a thread is in since before the attach.
@test "in flight: threads of --pid that wait in no call that was seen are counted" {
	local pid

	need_bpf
	start_bg w "$FIX/call" --wait add 1
	wait_ready w
	pid=$(bg_pid w)
	poll_until grep -q '^State:.S' "/proc/$pid/status"
	fsn attach g s:read s:pause s:rt_sigsuspend s:futex -p "$pid"
	fsn list inflight g
	assert_stderr_match "^funcsnoop list: 1 thread waits in no call that 'g' saw begin; 'funcsnoop stack $pid' shows where$"
	fsn list --help
	assert_output_match "^Calls from before the attach are not listed: 'funcsnoop stack PID' shows them[.]$"
	fsn list inflight g --json
	assert_stderr ""
	fsn stack "$pid"
	assert_output_match "^$pid call: waits in "
	fsn detach g
	tell w
	wait_bg w
	start_bg hung "$FIX/call" --wait hang 1
	wait_ready hung
	fsn attach g fix_hang --lib "$FIX/libfix.so" -p "$(bg_pid hung)"
	tell hung
	wait_line hung "^blocked "
	poll_until grep -q '^State:.S' "/proc/$(bg_pid hung)/status"
	fsn list inflight g
	assert_output_match ' fix_hang$'
	assert_stderr_match "^funcsnoop list: 1 thread waits in no call that 'g' saw" # its main thread
	tell hung
	wait_bg hung
	fsn detach g
}

@test "in flight: a thread has one call of a system call at a time, however many it makes" {
	local copy=$BATS_TEST_TMPDIR/own-copy i

	cp "$(type -P dd)" "$copy"
	fsn attach g s:read s:write --if comm==own-copy
	start_bg copy "$copy" if=/dev/zero of=/dev/null bs=1
	for ((i = 0; i < 60; i++)); do
		fsn stats g
		refute_output_match '^in flight: [0-9]+ calls'
	done
	stop_bg copy
	fsn detach g
}
