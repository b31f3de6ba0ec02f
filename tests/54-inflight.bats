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
	fsn list inflight --json
	assert_output "[]"
	fsn detach hang eng
}

@test "without a group the calls of all groups are listed, of one by name only its own" {
	attach_hanging
	fsn list inflight --json
	assert_json 'map([.group, .function]) | sort' \
		'[["eng","eng_block"],["hang","fix_hang"],["hang","fix_hang"]]'
	fsn list inflight eng --json
	assert_json 'map([.group, .function, .pid])' "[[\"eng\",\"eng_block\",$(bg_pid engine)]]"
	fsn list inflight hang eng --json
	assert_json length 3
	fsn -s 1 list inflight nosuch --json
	assert_output '{"error":"no group '\''nosuch'\'' is attached"}'
	end_hanging
}

@test "a call in flight has its keys, and an age that grows" {
	local age

	attach_hanging
	fsn list inflight eng --json
	assert_json '.[0] | keys_unsorted' \
		'["group","function","pid","tid","comm","age_ns","stale"]'
	assert_json '.[0] | map_values(type) | [.group, .function, .pid, .tid, .comm, .age_ns,
		.stale] | unique' '["boolean","number","string"]'
	age=$(json '.[0].age_ns')
	fsn list inflight eng --json
	assert_between "$(json '.[0].age_ns')" $((age + 1)) $((age + 60000000000)) "age_ns"
	end_hanging
}

@test "the table of calls in flight has its columns in order" {
	attach_hanging
	fsn list inflight
	assert_eq "$(tr -s ' ' <<<"${lines[0]}")" "GROUP PID TID COMMAND AGE FUNCTION"
	assert_eq "${#lines[@]}" 4
	assert_output_match "^hang +$(bg_pid call) +[0-9]+ +hangs +[0-9].*s +fix_hang$"
	assert_output_match "^eng +$(bg_pid engine) +[0-9]+ +engine +[0-9].*s +eng_block$"
	end_hanging
}

@test "--older-than leaves out calls that began since" {
	attach_hanging
	fsn -s 2 list inflight --older-than 1h
	fsn list inflight --older-than 3600s --json
	assert_output "[]"
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
	assert_output "[]"
	fsn list inflight --older-than 0ns --json
	assert_json length 4
	tell later
	wait_bg later
	end_hanging
}

@test "--older-than takes a duration with a unit" {
	fsn -s 2 list inflight --older-than 5
	assert_stderr_match "^funcsnoop list: --older-than: '5' has no unit"
	fsn -s 2 list inflight --older-than fast
	assert_stderr_match "--older-than"
	fsn -s 2 list inflight --older-than -5s
	fsn -s 2 list --older-than 5s
	assert_stderr_match "^funcsnoop list: --all and --older-than go with 'list inflight'$"
}

# Of a recursion the kernel follows 64 calls under return; the thread is above all of them.
@test "calls below where their thread is now are stale, and hidden without --all" {
	need_bpf
	fsn attach g eng_recurse --lib "$FIX/libengine.so" --exit return
	start_bg engine "$FIX/engine" recurse 1 70 --wait-end
	wait_line engine "^done "
	fsn list inflight
	assert_output ""
	assert_stderr "funcsnoop list: no call is in flight
funcsnoop list: 6 stale calls are hidden; --all shows them"
	fsn list inflight --json
	assert_output "[]"
	fsn list inflight --all --json
	assert_json 'map([.function, .stale]) | unique' '[["eng_recurse",true]]'
	fsn list inflight --all
	assert_eq "${#lines[@]}" 7
	assert_output_match " eng_recurse \(stale\)$"
	assert_stderr ""
	tell engine
	wait_bg engine
	assert_numbers g "eng_recurse 70 0 64 0 6 0"
	fsn detach g
}

@test "a dead process that its parent has not waited for has no call in flight" {
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
	assert_output "[]"
	assert_numbers g "fix_hang 1 0 0 0 1 0"
	stop_bg parent
	fsn detach g
}

@test "a process with the number of a dead one does not inherit its calls" {
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
	assert_output "[]"
	assert_numbers g "fix_add 5 0 5 0 0 0
fix_hang 1 0 0 0 1 0"
	tell second
	wait_bg second
	fsn detach g
}

@test "a program's name in the list cannot write to the terminal" {
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

@test "a call in flight in another group's process is nobody's after detach" {
	attach_hanging
	fsn detach hang
	fsn list inflight --json
	assert_json 'map(.group)' '["eng"]'
	fsn attach hang fix_hang --lib "$FIX/libfix.so"
	fsn list inflight hang --json
	assert_output "[]"
	end_hanging
}

# There are 8 places for a stack pointer and 8,192 such sets: many calls at many places.
@test "four hundred calls at once are all in flight" {
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
