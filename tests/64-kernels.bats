# SPDX-License-Identifier: BSD-2-Clause
# Kernel-dependent behaviour, in few and long tests, because every program starts slowly where
# `make check-vm` runs them.
# bats file_tags=bpf,core

load helpers

# --- the link ---------------------------------------------------------------------------

# Features of Linux by version. Distribution kernels may have more, by backports.
link_of_version() {
	local major minor

	IFS=. read -r major minor _ < <(uname -r)
	if ((major > 6 || (major == 6 && minor >= 13))); then
		echo session
	elif ((major == 6 && minor >= 6)); then
		echo multi
	else
		echo perf
	fi
}

@test "kernels: attach uses the best kind of link of this Linux version" {
	need_bpf
	[[ $(uname -r) != *.el[0-9]* ]] || skip "a kernel with backports"
	fsn attach g fix_add --lib "$FIX/libfix.so" --exit return
	assert_ends g return "$(link_of_version)"
	capture "$FIX/call" add 100
	assert_numbers g "fix_add 100 0 100 0 0 0"
	fsn detach g
}

# --- every end of a call ------------------------------------------------------------------

attach_engine() { # MODE EXIT FUNCTION...: auto is the link that is chosen here
	[[ $1 == auto ]] || need_link "$1"
	need_bpf
	fsn attach g "${@:3}" --lib "$FIX/libengine.so" --link "$1" --exit "$2"
}

run_engine() { # CASE N [M]
	capture "$FIX/engine" "$@"
	assert_output_match "^result $1 calls=$2 sum=$2$"
}

# The kernel tracks 64 nested calls under return. eng_exit has no ret instruction.
every_end() { # MODE EXIT
	local exit="eng_exit 5 0 0 0 5 0" recurse="eng_recurse 400 0 128 0 0 272" deep="no_slot 272
too_deep 272
"

	if [[ $2 != return ]]; then
		deep=""
		exit="eng_exit 5 0 - 0 0 5"
		recurse="eng_recurse 400 0 400 0 0 0"
	fi
	attach_engine "$1" "$2" eng_leaf eng_outer eng_inner eng_recurse eng_longjmp eng_fork \
		eng_vfork eng_exec eng_exit eng_thread_exit
	run_engine leaf 100
	run_engine tail 100
	run_engine recurse 2 200
	run_engine longjmp_leaf 50
	run_engine fork 10
	run_engine vfork 10
	run_engine exec 5
	run_engine exit 5
	run_engine thread_exit 5
	run_engine threads 500 16
	assert_numbers g "eng_exec 5 0 0 0 5 0
$exit
eng_fork 10 0 10 0 0 0
eng_inner 100 0 100 0 0 0
eng_leaf 8160 0 8160 0 0 0
eng_longjmp 50 0 0 0 50 0
eng_outer 100 0 100 0 0 0
$recurse
eng_thread_exit 5 0 0 0 5 0
eng_vfork 10 0 10 0 0 0
${deep}unmatched_returns 10"
	fsn detach g
}

# bats test_tags=arch
@test "kernels: returned and abandoned calls have exact counts (session, return)" {
	every_end session return
}
# bats test_tags=arch
@test "kernels: returned and abandoned calls have exact counts (multi, return)" {
	every_end multi return
}
@test "kernels: returned and abandoned calls have exact counts (perf, return)" {
	every_end perf return
}
# bats test_tags=arch
@test "kernels: returned and abandoned calls have exact counts (multi, ret)" {
	every_end multi ret
}
# bats test_tags=arch
@test "kernels: returned and abandoned calls have exact counts (perf, ret)" {
	every_end perf ret
}

# --- calls in progress ----------------------------------------------------------------------

# Four calls go on over a reset, four more over a detach.
calls_in_progress() { # MODE EXIT
	attach_engine "$1" "$2" eng_block
	start_bg engine "$FIX/engine" block 4
	wait_line engine "^blocked "
	assert_numbers g "eng_block 4 0 0 4 0 0"
	fsn reset g
	tell engine
	wait_bg engine
	assert_numbers g "eng_block 0 4 4 0 0 0"
	start_bg engine "$FIX/engine" block 4
	wait_line engine "^blocked "
	fsn detach g
	tell engine
	wait_bg engine
	assert_output_match "^result block calls=4 sum=4$"
}

@test "kernels: calls in progress survive a reset and a detach (return)" {
	calls_in_progress auto return
}
# bats test_tags=arch
@test "kernels: calls in progress survive a reset and a detach (ret)" {
	calls_in_progress auto ret
}

# --- readings and detach under load ---------------------------------------------------------

# Four threads call 100 times a second each, which leaves a slow machine time for the rest.
start_calls() {
	start_bg call "$FIX/call" --threads 4 --arg 10000 --until-line sleep_us
	wait_line call "^running "
}

calls_made() { # until it is told to end; sets $calls
	tell call
	wait_bg call
	[[ $output =~ calls=([0-9]+)\ .*wrong=0$ ]] || fail "not right: $output" || return
	calls=${BASH_REMATCH[1]}
}

any_call() {
	"$FUNCSNOOP" list g --json | grep -qE '"calls":[1-9]'
}

# Five readings reset while there are calls; then, while there are, the counters are pinned
# at another place too, where they outlive the group.
load() {
	local i calls kept=$FUNCSNOOP_BPFFS/kept first readings=()

	need_bpf
	need_tool bpftool
	fsn attach g fix_sleep_us --lib "$FIX/libfix.so" --exit return
	start_calls
	for i in 1 2 3 4 5; do
		fsn stats g --reset --json
		cp "$BATS_TEST_TMPDIR/.out" "$BATS_TEST_TMPDIR/reading.$i"
	done
	calls_made
	fsn stats g --reset --json
	cp "$BATS_TEST_TMPDIR/.out" "$BATS_TEST_TMPDIR/reading.6"
	readings=("$BATS_TEST_TMPDIR"/reading.*)
	assert_eq "$(jq -s "$SOUND"' ([.[] | unsound] | length) as $bad | [.[][0].functions[]]
		| ([.[].calls] | add), ([.[].returns] | add), ([.[].histogram[].count] | add),
		([.[].carried] | max > 0), $bad' "${readings[@]}" | paste -sd' ')" \
		"$calls $calls $calls true 0" "calls, returns, buckets of all readings"

	start_calls
	poll_until any_call
	bpftool map pin pinned "$FUNCSNOOP_BPFFS/funcsnoop/g/stats" "$kept"
	fsn detach g
	capture bpftool map dump pinned "$kept"
	first=$output
	fsn list
	capture bpftool map dump pinned "$kept"
	rm "$kept"
	assert_output "$first"
	calls_made
	((calls > 0)) || fail "no call was made"
}

@test "kernels: each call is in one reading, and probes are silent after detach" {
	load
}

# --- instructions that kernels get wrong ------------------------------------------------------

# bats test_tags=arch
@test "kernels: a forked child survives probes on nops and other special instructions" {
	local name names=(asm_nop5 asm_nop9 asm_nop10 asm_redzone asm_endbr_push)

	need_bpf
	[[ $(uname -m) == x86_64 ]] || names=(asm_bti asm_pac asm_adr asm_cbz asm_jmp)
	fsn attach g "${names[@]}" --lib "$FIX/libinsn.so"
	for name in "${names[@]}"; do
		capture "$FIX/asmcall" --fork "$name" 10
		assert_output_line "child ok"
	done
	fsn detach g
}

# --- filters --------------------------------------------------------------------------------

@test "kernels: --pid and --comm filter calls" {
	need_bpf
	start_bg a "$FIX/call" --comm alpha --wait add 10
	start_bg b "$FIX/call" --comm beta --wait add 20
	wait_ready a
	wait_ready b
	fsn attach one fix_add --lib "$FIX/libfix.so" --exit return --pid "$(bg_pid a)"
	fsn attach two fix_add --lib "$FIX/libfix.so" --exit return --comm beta
	tell a
	tell b
	wait_bg a
	wait_bg b
	assert_numbers one "fix_add 10 0 10 0 0 0"
	assert_numbers two "fix_add 20 0 20 0 0 0"
	fsn detach one two
}

# --- programs that interrupt each other -----------------------------------------------------

# bats file_tags=bpf,preempt

# The kernel says how it preempts in a file: none (voluntary) full, full (lazy).
need_preempt() { # MODEL
	local models=/sys/kernel/debug/sched/preempt

	need_bpf
	grep -qw "preempt=$1" /proc/cmdline || skip "not started with preempt=$1"
	[[ -r $models ]] || skip "this kernel cannot change how it preempts"
	grep -qF "($1)" $models || fail "preempt=$1 was asked for, and it is $(<$models)"
}

# Eight threads for each processor: programs are interrupted by others on the same one.
preempted() { # MODE EXIT
	local threads=$(($(nproc) * 8))

	need_preempt full
	attach_engine "$1" "$2" eng_leaf
	run_engine threads 3000 "$threads"
	assert_numbers g "eng_leaf $((threads * 3000)) 0 $((threads * 3000)) 0 0 0"
	fsn detach g
}

@test "kernels: with preempt=full each call of many threads counts (session, return)" {
	preempted session return
}
@test "kernels: with preempt=full each call of many threads counts (multi, return)" {
	preempted multi return
}
@test "kernels: with preempt=full each call of many threads counts (perf, return)" {
	preempted perf return
}
@test "kernels: with preempt=full each call of many threads counts (multi, ret)" {
	preempted multi ret
}
@test "kernels: with preempt=full each call of many threads counts (perf, ret)" {
	preempted perf ret
}
