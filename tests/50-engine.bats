# SPDX-License-Identifier: BSD-2-Clause
# Every way in which a call can end, with every kind of link and both ways to see ends.
# Under ret, session and multi are the same: both use multi links.
# bats file_tags=bpf

load helpers

# The functions that most cases call.
FUNCTIONS=(eng_leaf eng_outer eng_inner eng_recurse eng_longjmp eng_thread_exit eng_exit eng_block
	eng_exec eng_fork eng_vfork eng_deep_block)

# Attaches them once for all tests of a mode, which are next to each other for that reason.
share_engine() { # MODE EXIT
	need_link "$1"
	share g "${FUNCTIONS[@]}" --lib "$FIX/libengine.so" --link "$1" --exit "$2"
}

attach_engine() { # MODE EXIT FUNCTION...
	need_link "$1"
	share_ends g
	fsn attach g "${@:3}" --lib "$FIX/libengine.so" --link "$1" --exit "$2"
}

# Runs `engine CASE` and compares the counts.
engine_case() { # MODE EXIT CASE TEXT
	local case

	read -ra case <<<"$3"
	share_engine "$1" "$2"
	run_case "${case[@]}"
	assert_numbers g "$4"
}

run_case() { # CASE N [M]
	capture "$FIX/engine" "$@"
	assert_output "result $1 calls=$2 sum=$2"
}

# The same where what is expected differs: TEXT under return, TEXT under ret.
engine_case2() { # MODE EXIT CASE TEXT TEXT
	local text=$4

	[[ $2 == return ]] || text=$5
	engine_case "$1" "$2" "$3" "$text"
}

# --- calls that return -----------------------------------------------------

case_leaf() {
	engine_case "$1" "$2" "leaf 1000" "eng_leaf 1000 0 1000 0 0 0"
}

case_threads() {
	engine_case "$1" "$2" "threads 500 16" "eng_leaf 8000 0 8000 0 0 0"
}

case_tail() {
	engine_case "$1" "$2" "tail 100" \
		"eng_inner 100 0 100 0 0 0
eng_outer 100 0 100 0 0 0"
}

# Each of these takes a millisecond in its jump target, unless a condition prevents the jump.
case_jumps() { # MODE EXIT
	# Raw: what is taken off as the probes' own may be some more than it was.
	attach_engine "$1" "$2" 'eng_jump_*' eng_spin --raw
	# A jump through a word that is not bound yet is not followed.
	LD_BIND_NOW=1 capture "$FIX/engine" jumps 20
	assert_output "result jumps calls=20 sum=20"
	fsn stats g --json
	assert_sound
	if [[ $2 == return ]]; then
		assert_json '[.[0].functions[] | select(.calls != .returns)]' '[]'
		assert_json '[.[0].functions[] | select(.name != "eng_jump_cond" and .min_ns < 1000000)]' '[]'
		assert_json_true '.[0].functions[] | select(.name == "eng_jump_cond")
			| .total_ns >= 10000000 and .max_ns >= 1000000'
		assert_json '.[0].health.left_by_jump' 0
	else
		assert_json '[.[0].functions[] | [.name, .calls, .returns, .untimed]] | sort' \
			'[["eng_jump_cond",20,20,0],["eng_jump_direct",20,20,0],["eng_jump_plt",20,20,0],["eng_jump_reg",20,0,20],["eng_jump_there",10,10,0],["eng_spin",40,40,0]]'
		assert_json '[.[0].functions[]
			| select(.returns > 0 and .name != "eng_jump_cond" and .min_ns < 1000000)]' '[]'
		assert_json '[.[0].functions[] | select(.returns == 0)
			| .total_ns, .min_ns, .avg_ns, .max_ns, .p50_ns, .p999_ns, .histogram[]] | unique' '[null]'
		assert_json '[.[0].functions[] | select(.name == "eng_jump_cond") | .histogram[].count] | add' 20
		assert_json_true '.[0].functions[] | select(.name == "eng_jump_cond")
			| .total_ns >= 10000000 and .max_ns >= 1000000'
		assert_json '.[0].health.left_by_jump' 20
	fi
	fsn reset g
	fsn stats g --all --json
	assert_json '[.[0].functions[] | [.calls, .carried, .in_flight, .untimed] | unique] | unique' '[[0]]'
	assert_json '.[0].health.left_by_jump' 0
	fsn detach g
}

@test "stats: untracked tail calls have no duration, and the table says why" {
	need_bpf
	fsn attach g eng_jump_reg eng_jump_cond eng_spin --lib "$FIX/libengine.so" --exit ret
	fsn list functions g
	assert_output_match "^eng_jump_reg .*; 0 ret, 1 jump that leaves: its calls are not timed$"
	assert_output_match "^eng_jump_cond .*; 1 ret, 1 jump that leaves: followed$"
	assert_output_match "^eng_spin .*; 1 ret, 0 jumps that leave$"
	capture "$FIX/engine" jumps 4
	fsn stats g
	assert_eq "$(awk '$1 == "eng_jump_reg" { print $2, $3, $4, $5, $8 }' <<<"$output")" "4 - - - -"
	# Nor is it known what they returned, and whether it took long.
	assert_eq "$(awk '$1 == "eng_jump_reg" { print $(NF - 2), $(NF - 1) }' <<<"$output")" "- -"
	assert_stderr "funcsnoop stats: 4 calls left through tail calls and are not timed ('funcsnoop list functions g' shows whose); --probe exit=return would time them, where that is safe"
	fsn stats g --by process --json
	assert_json '[.[0].functions[] | .processes[] | [.calls, .returns, .total_ns != null]] | sort' \
		'[[4,0,false],[4,4,true],[8,8,true]]'
	fsn reset g
	capture "$FIX/engine" leaf 4
	fsn stats g
	assert_stderr ""
	fsn detach g
}

@test "stats: a function that is one jump has the time of its target" {
	need_arch x86_64
	need_bpf
	fsn attach g asm_jmp asm_ret --lib "$FIX/libinsn.so" --site entry
	fsn list functions g
	assert_output_match "^asm_jmp .* ret .*; 0 ret, 1 jump that leaves: followed$"
	capture "$FIX/asmcall" asm_jmp 30
	capture "$FIX/asmcall" asm_ret 20
	assert_numbers g "asm_jmp 30 0 30 0 0 0
asm_ret 20 0 20 0 0 0"
	fsn detach g
}

# Twelve functions, each called by the one before in a tail call: all twelve live at one stack
# pointer, where there is room for eight.
case_chain() {
	local n

	attach_engine "$1" "$2" "eng_tail_*"
	run_case chain 10
	assert_numbers g "$(for n in 1 10 11 12 2 3 4 5 6 7 8 9; do
		((n < 9)) && echo "eng_tail_$n 10 0 10 0 0 0" || echo "eng_tail_$n 10 0 0 0 0 10"
	done)
no_slot 40"
	fsn detach g
}

# The kernel tracks 64 nested calls of a thread under return: the others are counted, not timed.
case_recurse() {
	local numbers="eng_recurse 200 0 200 0 0 0"

	[[ $2 == ret ]] || numbers="eng_recurse 200 0 64 0 0 136
no_slot 136
too_deep 136"
	share_engine "$1" "$2"
	start_bg engine "$FIX/engine" recurse 1 200 --wait-end
	wait_line engine "^done "
	assert_numbers g "$numbers"
	fsn list inflight g --all --json
	assert_output '{"version":1,"calls":[]}'
	tell engine
	wait_bg engine
	assert_numbers g "$numbers"
}

# Three calls in each set of slots: only their stack pointers differ.

case_recurse_again() {
	engine_case2 "$1" "$2" "recurse 10 200" "eng_recurse 2000 0 640 0 0 1360
no_slot 1360
too_deep 1360" \
		"eng_recurse 2000 0 2000 0 0 0"
}

# --- calls that do not return ----------------------------------------------

case_longjmp() {
	engine_case "$1" "$2" "longjmp 50" "eng_longjmp 50 0 0 0 50 0"
}

case_longjmp_leaf() {
	engine_case "$1" "$2" "longjmp_leaf 50" \
		"eng_leaf 50 0 50 0 0 0
eng_longjmp 50 0 0 0 50 0"
}

# Pairs of calls at one place, of which the first is left and one is sampled. If it is the first, the
# second ends nothing. So about half of the sampled calls return: 25, with a deviation of 3.5; 46 are
# six of these more. If the second ended the first, all 50 would return.
case_longjmp_sample() {
	need_link "$1"
	share_ends g
	fsn attach g eng_longjmp --lib "$FIX/libengine.so" --link "$1" --exit "$2" --sample 2
	start_bg engine taskset -c 0 "$FIX/engine" longjmp_return 50 --wait-end
	wait_line engine "^done "
	fsn stats g --json
	assert_json '.[0].functions[0] | [.calls, .untimed, .returns + .in_flight + .abandoned, .in_flight <= 1]' \
		'[100,50,50,true]'
	assert_json '.[0].health | [.sampled_out, .unmatched_returns]' '[50,0]'
	assert_between "$(json '.[0].functions[0].returns')" 4 46 "returns"
	tell engine
	wait_bg engine
	fsn detach g
}

case_longjmp_filter() {
	share_engine "$1" "$2"
	start_bg engine "$FIX/engine" longjmp_wait 50 --wait-end
	wait_line engine "^left "
	assert_numbers g "eng_longjmp 50 0 0 1 49 0"
	fsn set g --comm nobody
	tell engine
	wait_line engine "^done "
	fsn set g --comm all
	fsn stats g --json
	assert_json '.[0].functions[] | [.calls, .returns, .abandoned]' '[50,0,50]'
	tell engine
	wait_bg engine
}

case_thread_exit() {
	engine_case "$1" "$2" "thread_exit 5" "eng_thread_exit 5 0 0 0 5 0"
}

# eng_exit has no ret instruction: under ret it is only counted.
case_exit() {
	engine_case2 "$1" "$2" "exit 5" "eng_exit 5 0 0 0 5 0" "eng_exit 5 0 - 0 0 5"
}

case_kill() {
	engine_case "$1" "$2" "kill 5" "eng_block 5 0 0 0 5 0"
}

case_exec() {
	engine_case "$1" "$2" "exec 5" "eng_exec 5 0 0 0 5 0"
}

# The process lives on under its pid; its other threads and their calls do not.
case_exec_blocked() {
	share_engine "$1" "$2"
	start_bg engine "$FIX/engine" exec_blocked 3
	wait_line engine "^blocked "
	assert_numbers g "eng_block 3 0 0 3 0 0"
	tell engine
	wait_ready engine
	assert_numbers g "eng_block 3 0 0 0 3 0"
	tell engine
	wait_bg engine
	assert_numbers g "eng_block 3 0 0 0 3 0"
}

# --- two processes of one call ---------------------------------------------

case_fork() {
	engine_case "$1" "$2" "fork 10" "eng_fork 10 0 10 0 0 0
unmatched_returns 10"
}

case_vfork() {
	engine_case "$1" "$2" "vfork 10" "eng_leaf 10 0 10 0 0 0
eng_vfork 10 0 10 0 0 0"
}

case_manyprocs() {
	need_link "$1"
	share_ends g
	fsn attach g fix_add --lib "$FIX/libfix.so" --link "$1" --exit "$2"
	capture "$FIX/call" --manyprocs 1000 add 2
	assert_output_match "calls=2000 .* wrong=0$"
	assert_numbers g "fix_add 2000 0 2000 0 0 0"
	assert_json ".[0].functions[0].processes | length" 1000
	assert_json "[.[0].functions[0].processes[] | [.calls, .returns]] | unique" "[[2,2]]"
	fsn detach g
}

# --- calls in progress -----------------------------------------------------

case_block() {
	local pid

	share_engine "$1" "$2"
	start_bg engine "$FIX/engine" block 4
	wait_line engine "^blocked "
	pid=$(bg_pid engine)
	assert_numbers g "eng_block 4 0 0 4 0 0"
	fsn list inflight g --json
	assert_json "sort_by(.tid)[] | [.group, .function, .pid, .comm, .stale, .tid] | tojson" \
		"$(threads_of "$pid" | sed "1d; s/.*/[\"g\",\"eng_block\",$pid,\"engine\",false,&]/")"
	tell engine
	wait_bg engine
	assert_numbers g "eng_block 4 0 4 0 0 0"
}

threads_of() { # PID: sorted, the first is the main thread
	ls "/proc/$1/task" | sort -n
}

case_deep_block() {
	share_engine "$1" "$2"
	start_bg engine "$FIX/engine" deep_block 3 8
	wait_line engine "^blocked "
	assert_numbers g "eng_deep_block 24 0 0 24 0 0"
	fsn list inflight --json
	assert_json "map(select(.stale | not)) | length" 24
	tell engine
	wait_bg engine
	assert_numbers g "eng_deep_block 24 0 24 0 0 0"
}

case_attach_mid() {
	local unmatched=

	need_link "$1"
	[[ $2 == return ]] || unmatched="eng_block 0 0 0 0 0 0
unmatched_returns 3"
	share_ends g
	start_bg engine "$FIX/engine" block 3
	wait_line engine "^blocked "
	attach_engine "$1" "$2" eng_block
	assert_numbers g ""
	tell engine
	wait_bg engine
	assert_numbers g "$unmatched"
	fsn detach g
}

case_detach_mid() {
	share_engine "$1" "$2"
	start_bg engine "$FIX/engine" block 3
	start_bg deep "$FIX/engine" deep_block 3 8
	wait_line engine "^blocked "
	wait_line deep "^blocked "
	assert_numbers g "eng_block 3 0 0 3 0 0
eng_deep_block 24 0 0 24 0 0"
	share_ends g
	tell engine
	wait_bg engine
	assert_output_match "^result block calls=3 sum=3$"
	tell deep
	wait_bg deep
	assert_output_match "^result deep_block calls=3 sum=3$"
}

case_reset_mid() {
	share_engine "$1" "$2"
	start_bg engine "$FIX/engine" block 3
	wait_line engine "^blocked "
	fsn reset g
	assert_numbers g "eng_block 0 3 0 3 0 0"
	tell engine
	wait_bg engine
	assert_numbers g "eng_block 0 3 3 0 0 0"
	fsn reset g
	assert_numbers g ""
}

case_sample() {
	need_link "$1"
	share_ends g
	fsn attach g fix_add --lib "$FIX/libfix.so" --link "$1" --exit "$2" --sample 10
	capture "$FIX/call" --cpu 0 add 1000
	assert_numbers g "fix_add 1000 0 100 0 0 900
sampled_out 900"
	fsn detach g
}


# --- session links, return probes ---

@test "calls: all 1,000 calls are counted and return (session, return)" {
	case_leaf session return
}
@test "threads: sixteen concurrent threads lose no call (session, return)" {
	case_threads session return
}
@test "tail calls: caller and callee return once for each call (session, return)" {
	case_tail session return
}
@test "recursion: 200 levels are 200 calls, and none stays in flight (session, return)" {
	case_recurse session return
}
@test "recursion: ten recursions of 200 levels are 2,000 calls (session, return)" {
	case_recurse_again session return
}
@test "longjmp: a call that it leaves is abandoned (session, return)" {
	case_longjmp session return
}
@test "longjmp: a later call at the address of an abandoned one returns (session, return)" {
	case_longjmp_leaf session return
}
@test "threads: a call whose thread exits is abandoned (session, return)" {
	case_thread_exit session return
}
@test "exit: a call whose process exits is counted and not in flight (session, return)" {
	case_exit session return
}
@test "kill: calls of a killed process are abandoned (session, return)" {
	case_kill session return
}
@test "exec: a call that executes another program is abandoned (session, return)" {
	case_exec session return
}
@test "exec: calls of the other threads are abandoned (session, return)" {
	case_exec_blocked session return
}
@test "fork: a child that returns from its parent's call ends no call (session, return)" {
	case_fork session return
}
@test "vfork: calls of the child are counted as its own (session, return)" {
	case_vfork session return
}
@test "in flight: blocked calls are listed until they return (session, return)" {
	case_block session return
}
@test "in flight: each level of a blocked recursion is listed (session, return)" {
	case_deep_block session return
}
@test "reset: calls in progress are carried over (session, return)" {
	case_reset_mid session return
}
# bats test_tags=bpf,slow
@test "threads: 320,000 calls of sixteen threads are all counted (session, return)" {
	engine_case session return "threads 20000 16" "eng_leaf 320000 0 320000 0 0 0"
}
@test "detach: a program continues if its calls are in progress (session, return)" {
	case_detach_mid session return
}
@test "tail calls: all twelve calls of a chain are counted (session, return)" {
	case_chain session return
}
@test "attach: calls that began earlier are not counted (session, return)" {
	case_attach_mid session return
}
# bats test_tags=core
@test "tail calls: the time of a caller includes the callee (session, return)" {
	case_jumps session return
}
@test "sample: an unsampled call does not end an older one at its address (session, return)" {
	case_longjmp_sample session return
}
@test "processes: a thousand short processes have a row each (session, return)" {
	case_manyprocs session return
}
@test "sample: one call of ten is timed, and all are counted (session, return)" {
	case_sample session return
}

# --- multi links, return probes ---

@test "calls: all 1,000 calls are counted and return (multi, return)" {
	case_leaf multi return
}
@test "threads: sixteen concurrent threads lose no call (multi, return)" {
	case_threads multi return
}
@test "tail calls: caller and callee return once for each call (multi, return)" {
	case_tail multi return
}
@test "recursion: 200 levels are 200 calls, and none stays in flight (multi, return)" {
	case_recurse multi return
}
@test "recursion: ten recursions of 200 levels are 2,000 calls (multi, return)" {
	case_recurse_again multi return
}
@test "longjmp: a call that it leaves is abandoned (multi, return)" {
	case_longjmp multi return
}
@test "longjmp: a later call at the address of an abandoned one returns (multi, return)" {
	case_longjmp_leaf multi return
}
@test "longjmp: a filtered call does not end an older one at its address (multi, return)" {
	case_longjmp_filter multi return
}
@test "threads: a call whose thread exits is abandoned (multi, return)" {
	case_thread_exit multi return
}
@test "exit: a call whose process exits is counted and not in flight (multi, return)" {
	case_exit multi return
}
@test "kill: calls of a killed process are abandoned (multi, return)" {
	case_kill multi return
}
@test "exec: a call that executes another program is abandoned (multi, return)" {
	case_exec multi return
}
@test "exec: calls of the other threads are abandoned (multi, return)" {
	case_exec_blocked multi return
}
@test "fork: a child that returns from its parent's call ends no call (multi, return)" {
	case_fork multi return
}
@test "vfork: calls of the child are counted as its own (multi, return)" {
	case_vfork multi return
}
@test "in flight: blocked calls are listed until they return (multi, return)" {
	case_block multi return
}
@test "in flight: each level of a blocked recursion is listed (multi, return)" {
	case_deep_block multi return
}
@test "reset: calls in progress are carried over (multi, return)" {
	case_reset_mid multi return
}
@test "detach: a program continues if its calls are in progress (multi, return)" {
	case_detach_mid multi return
}
@test "tail calls: all twelve calls of a chain are counted (multi, return)" {
	case_chain multi return
}
@test "attach: calls that began earlier are not counted (multi, return)" {
	case_attach_mid multi return
}
@test "tail calls: the time of a caller includes the callee (multi, return)" {
	case_jumps multi return
}
@test "sample: an unsampled call does not end an older one at its address (multi, return)" {
	case_longjmp_sample multi return
}
@test "processes: a thousand short processes have a row each (multi, return)" {
	case_manyprocs multi return
}
@test "sample: one call of ten is timed, and all are counted (multi, return)" {
	case_sample multi return
}

# --- perf links, return probes ---

@test "calls: all 1,000 calls are counted and return (perf, return)" {
	case_leaf perf return
}
@test "threads: sixteen concurrent threads lose no call (perf, return)" {
	case_threads perf return
}
@test "tail calls: caller and callee return once for each call (perf, return)" {
	case_tail perf return
}
@test "recursion: 200 levels are 200 calls, and none stays in flight (perf, return)" {
	case_recurse perf return
}
@test "recursion: ten recursions of 200 levels are 2,000 calls (perf, return)" {
	case_recurse_again perf return
}
@test "longjmp: a call that it leaves is abandoned (perf, return)" {
	case_longjmp perf return
}
@test "longjmp: a later call at the address of an abandoned one returns (perf, return)" {
	case_longjmp_leaf perf return
}
@test "longjmp: a filtered call does not end an older one at its address (perf, return)" {
	case_longjmp_filter perf return
}
@test "threads: a call whose thread exits is abandoned (perf, return)" {
	case_thread_exit perf return
}
@test "exit: a call whose process exits is counted and not in flight (perf, return)" {
	case_exit perf return
}
@test "kill: calls of a killed process are abandoned (perf, return)" {
	case_kill perf return
}
@test "exec: a call that executes another program is abandoned (perf, return)" {
	case_exec perf return
}
@test "exec: calls of the other threads are abandoned (perf, return)" {
	case_exec_blocked perf return
}
@test "fork: a child that returns from its parent's call ends no call (perf, return)" {
	case_fork perf return
}
@test "vfork: calls of the child are counted as its own (perf, return)" {
	case_vfork perf return
}
@test "in flight: blocked calls are listed until they return (perf, return)" {
	case_block perf return
}
@test "in flight: each level of a blocked recursion is listed (perf, return)" {
	case_deep_block perf return
}
@test "reset: calls in progress are carried over (perf, return)" {
	case_reset_mid perf return
}
@test "detach: a program continues if its calls are in progress (perf, return)" {
	case_detach_mid perf return
}
@test "tail calls: all twelve calls of a chain are counted (perf, return)" {
	case_chain perf return
}
@test "attach: calls that began earlier are not counted (perf, return)" {
	case_attach_mid perf return
}
@test "tail calls: the time of a caller includes the callee (perf, return)" {
	case_jumps perf return
}
@test "sample: an unsampled call does not end an older one at its address (perf, return)" {
	case_longjmp_sample perf return
}
@test "processes: a thousand short processes have a row each (perf, return)" {
	case_manyprocs perf return
}
@test "sample: one call of ten is timed, and all are counted (perf, return)" {
	case_sample perf return
}

# --- multi links, ret probes ---

@test "calls: all 1,000 calls are counted and return (multi, ret)" {
	case_leaf multi ret
}
@test "threads: sixteen concurrent threads lose no call (multi, ret)" {
	case_threads multi ret
}
@test "tail calls: caller and callee return once for each call (multi, ret)" {
	case_tail multi ret
}
@test "recursion: 20,000 levels are 20,000 calls, and each returns (multi, ret)" {
	share_engine multi ret
	capture "$FIX/engine" recurse 1 20000
	assert_numbers g "eng_recurse 20000 0 20000 0 0 0"
}
@test "recursion: 200 levels are 200 calls, and none stays in flight (multi, ret)" {
	case_recurse multi ret
}
@test "recursion: ten recursions of 200 levels are 2,000 calls (multi, ret)" {
	case_recurse_again multi ret
}
@test "longjmp: a call that it leaves is abandoned (multi, ret)" {
	case_longjmp multi ret
}
@test "longjmp: a later call at the address of an abandoned one returns (multi, ret)" {
	case_longjmp_leaf multi ret
}
@test "longjmp: a filtered call does not end an older one at its address (multi, ret)" {
	case_longjmp_filter multi ret
}
@test "threads: a call whose thread exits is abandoned (multi, ret)" {
	case_thread_exit multi ret
}
@test "exit: a call whose process exits is counted and not in flight (multi, ret)" {
	case_exit multi ret
}
@test "kill: calls of a killed process are abandoned (multi, ret)" {
	case_kill multi ret
}
@test "exec: a call that executes another program is abandoned (multi, ret)" {
	case_exec multi ret
}
@test "exec: calls of the other threads are abandoned (multi, ret)" {
	case_exec_blocked multi ret
}
@test "fork: a child that returns from its parent's call ends no call (multi, ret)" {
	case_fork multi ret
}
@test "vfork: calls of the child are counted as its own (multi, ret)" {
	case_vfork multi ret
}
@test "in flight: blocked calls are listed until they return (multi, ret)" {
	case_block multi ret
}
@test "in flight: each level of a blocked recursion is listed (multi, ret)" {
	case_deep_block multi ret
}
@test "reset: calls in progress are carried over (multi, ret)" {
	case_reset_mid multi ret
}
@test "detach: a program continues if its calls are in progress (multi, ret)" {
	case_detach_mid multi ret
}
@test "tail calls: all twelve calls of a chain are counted (multi, ret)" {
	case_chain multi ret
}
@test "attach: calls that began earlier are not counted (multi, ret)" {
	case_attach_mid multi ret
}
# bats test_tags=arch
@test "tail calls: the time of a caller includes the callee, or is unknown (multi, ret)" {
	case_jumps multi ret
}
@test "sample: an unsampled call does not end an older one at its address (multi, ret)" {
	case_longjmp_sample multi ret
}
@test "processes: a thousand short processes have a row each (multi, ret)" {
	case_manyprocs multi ret
}
@test "sample: one call of ten is timed, and all are counted (multi, ret)" {
	case_sample multi ret
}

# --- perf links, ret probes ---

@test "calls: all 1,000 calls are counted and return (perf, ret)" {
	case_leaf perf ret
}
@test "threads: sixteen concurrent threads lose no call (perf, ret)" {
	case_threads perf ret
}
@test "tail calls: caller and callee return once for each call (perf, ret)" {
	case_tail perf ret
}
@test "recursion: 20,000 levels are 20,000 calls, and each returns (perf, ret)" {
	share_engine perf ret
	capture "$FIX/engine" recurse 1 20000
	assert_numbers g "eng_recurse 20000 0 20000 0 0 0"
}
@test "recursion: 200 levels are 200 calls, and none stays in flight (perf, ret)" {
	case_recurse perf ret
}
@test "recursion: ten recursions of 200 levels are 2,000 calls (perf, ret)" {
	case_recurse_again perf ret
}
@test "longjmp: a call that it leaves is abandoned (perf, ret)" {
	case_longjmp perf ret
}
@test "longjmp: a later call at the address of an abandoned one returns (perf, ret)" {
	case_longjmp_leaf perf ret
}
@test "longjmp: a filtered call does not end an older one at its address (perf, ret)" {
	case_longjmp_filter perf ret
}
@test "threads: a call whose thread exits is abandoned (perf, ret)" {
	case_thread_exit perf ret
}
@test "exit: a call whose process exits is counted and not in flight (perf, ret)" {
	case_exit perf ret
}
@test "kill: calls of a killed process are abandoned (perf, ret)" {
	case_kill perf ret
}
@test "exec: a call that executes another program is abandoned (perf, ret)" {
	case_exec perf ret
}
@test "exec: calls of the other threads are abandoned (perf, ret)" {
	case_exec_blocked perf ret
}
@test "fork: a child that returns from its parent's call ends no call (perf, ret)" {
	case_fork perf ret
}
@test "vfork: calls of the child are counted as its own (perf, ret)" {
	case_vfork perf ret
}
@test "in flight: blocked calls are listed until they return (perf, ret)" {
	case_block perf ret
}
@test "in flight: each level of a blocked recursion is listed (perf, ret)" {
	case_deep_block perf ret
}
@test "reset: calls in progress are carried over (perf, ret)" {
	case_reset_mid perf ret
}
@test "detach: a program continues if its calls are in progress (perf, ret)" {
	case_detach_mid perf ret
}
@test "tail calls: all twelve calls of a chain are counted (perf, ret)" {
	case_chain perf ret
}
@test "attach: calls that began earlier are not counted (perf, ret)" {
	case_attach_mid perf ret
}
@test "tail calls: the time of a caller includes the callee, or is unknown (perf, ret)" {
	case_jumps perf ret
}
@test "sample: an unsampled call does not end an older one at its address (perf, ret)" {
	case_longjmp_sample perf ret
}
@test "processes: a thousand short processes have a row each (perf, ret)" {
	case_manyprocs perf ret
}
@test "sample: one call of ten is timed, and all are counted (perf, ret)" {
	case_sample perf ret
}

# --- both ways in one group -----------------------------------------------------------

@test "attach: one group has functions with return probes and with ret probes" {
	need_link session
	cat >"$BATS_TEST_TMPDIR/both.json" <<-END
	{ "both_sym": { "eng_outer": { "symbol": "eng_outer", "nothrow": true },
	                "eng_inner": "eng_inner", "eng_block": "eng_block" },
	  "lib": "$FIX/libengine.so" }
	END
	fsn attach --config "$BATS_TEST_TMPDIR/both.json"
	assert_output_match '^both: 3 functions of .*, mapped by 0 processes$'
	assert_ends both return+ret session+multi
	capture "$FIX/engine" tail 100
	assert_numbers both "eng_inner 100 0 100 0 0 0
eng_outer 100 0 100 0 0 0"
	fsn list functions both --json
	assert_json '[.[0].functions[] | select(.name != "eng_inner") | [.name, .exit]] | sort' \
		'[["eng_block","ret"],["eng_outer","return"]]'
	fsn detach both
}

# bats test_tags=core,arch
@test "attach: all BPF programs load with keys, stacks, --split, waits and samples" {
	local -a ask=("fix_add --lib $FIX/libfix.so --key arg1,result --sum arg2"
		"fix_add --lib $FIX/libfix.so --key caller,comm --stacks slow --slow 1ms"
		"fix_add --lib $FIX/libfix.so --stacks all --split"
		"s:openat --key arg1,comm" "t:sched:sched_switch --key prev_comm"
		"w:off-cpu --key comm,waker" "w:run-queue --stacks all" "cpu:samples --key comm --stacks all")
	local one
	for one in "${ask[@]}"; do
		# shellcheck disable=SC2086 # words of a command line
		fsn -q attach loads $one
		fsn detach loads
	done
}

# If the descriptor of a program loaded by a thread cannot be used, the one that does nothing would stay.
@test "attach: threads load programs, and libbpf loads them if that fails" {
	local trace=$BATS_TEST_TMPDIR/trace inject

	need_tool strace
	need_no_sanitizer
	for inject in dup3:error=EMFILE clone3:error=EAGAIN dup3:delay_exit=1; do
		rm -f "$trace".*
		capture strace -ff -qq -o "$trace" -e trace=bpf,dup3,clone3 -e "inject=$inject" \
			"$FUNCSNOOP" -q attach loads eng_leaf --lib "$FIX/libengine.so"
		run_case leaf 1000
		assert_numbers loads "eng_leaf 1000 0 1000 0 0 0"
		fsn detach loads
	done
	# Two threads: one has loaded the program of the probes, the other one those of crashes.
	assert_eq "$(grep -lE 'BPF_PROG_LOAD.*insn_cnt=[0-9]{4,}' "$trace".* | wc -l)" 2
}
