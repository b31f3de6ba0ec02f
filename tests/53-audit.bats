# SPDX-License-Identifier: BSD-2-Clause
# Return probes must not affect programs that read their stack, or handlers that leave calls.
# bats file_tags=bpf

load helpers
load stream

# How the returns of FUNCTION of FILE are seen, and the first part of the reason.
exit_of() { # FUNCTION FILE
	fsn attach -n g "$1" --lib "$2" --json
	json -r '.[].functions[] | "\(.exit): \(.exit_why | split("; ")[0])"'
}

@test "return probes: a function has none if it jumps to one that reads its return address" {
	need_bpf
	need_arch x86_64
	assert_eq "$(exit_of ln_call "$FIX/lone-1")" \
		"ret: no return probe: a function that it jumps to reads its own return address"
	assert_eq "$(exit_of ln_call "$FIX/lone-2")" \
		"ret: no return probe: a function that it jumps to reads its own return address"
	unharmed "$FIX/lone-1" ln_call "ln_call 2 0 2 0 0 0" "$FIX/lone-1"
	unharmed "$FIX/lone-2" ln_call "ln_call 2 0 2 0 0 0" "$FIX/lone-2"
}

@test "return probes: a program that takes backtraces or looks up the next symbol has none" {
	need_bpf
	need_arch x86_64
	assert_eq "$(exit_of ln_call "$FIX/lone-3")" \
		"ret: no return probe: a callee calls 'backtrace', which may unwind or call back"
	assert_eq "$(exit_of ln_call "$FIX/lone-4")" \
		"ret: no return probe: it calls 'dlsym', which may unwind or call back"
	unharmed "$FIX/lone-3" ln_call "ln_call 2 0 2 0 0 0" "$FIX/lone-3"
	unharmed "$FIX/lone-4" ln_call "ln_call 2 0 2 0 0 0" "$FIX/lone-4"
}

@test "return probes: a fiber's stack below the first thread's pointer is not that thread's stack" {
	need_bpf
	need_arch x86_64
	need_link session
	assert_eq "$(exit_of hz_turn "$FIX/libhazard.so" | cut -d: -f1)" return
	unharmed "$FIX/libhazard.so" hz_turn "hz_turn 20 0 10 0 0 10
no_slot 10
other_stack 10" timeout 20 "$FIX/hazard" preempted_below 20
}

@test "return probes: a handler that throws in any way is found" {
	local how by

	need_bpf
	need_arch x86_64
	for how in library pointer many; do
		need_fixture "throws-$how"
		start_bg f "$FIX/throws-$how" --wait 20
		wait_ready f
		fsn attach g hz_read --lib "$FIX/libhazard.so"
		fsn list functions g --json
		by=$(json -r '.[].functions[] | .exit, (.exit_why | split(" by ")[0])')
		assert_eq "$by" "ret
no return probe: a signal handler of process $(bg_pid f) may leave calls"
		tell f
		wait_bg f
		assert_eq "$(grep '^result' "$(bg_out f)")" "result throws calls=20 sum=20"
		assert_numbers g "hz_read 20 0 0 0 20 0"
		fsn detach g
	done
}
