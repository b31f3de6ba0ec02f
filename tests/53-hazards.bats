# SPDX-License-Identifier: BSD-2-Clause
# Programs that a replaced return address kills: under --exit auto they live and give the
# same results as without probes, and their calls are counted exactly.
# bats file_tags=bpf

load helpers
load stream

hazard() { # CASE FUNCTIONS TEXT
	unharmed "$FIX/libhazard.so" "$2" "$3" "$FIX/hazard" "$1" 20
}

@test "hazards: fibers of swapcontext survive switches during calls" {
	hazard fiber_uc "hz_yield_uc hz_leaf" "hz_leaf 20 0 20 0 0 0
hz_yield_uc 20 0 20 0 0 0"
}

# bats test_tags=core,arch
@test "hazards: fibers of assembly code survive switches during calls" {
	hazard fiber_asm "hz_yield_asm hz_leaf" "hz_leaf 20 0 20 0 0 0
hz_yield_asm 20 0 20 0 0 0"
}

@test "hazards: a C program that switches stacks with its own code survives" {
	unharmed "$FIX/switch" "work again" "again 20 0 20 0 0 0
work 40 0 39 0 1 0" "$FIX/switch" 20
}

@test "hazards: a C program that switches stacks survives probes on all its functions" {
	local plain

	need_bpf
	capture "$FIX/switch" 20
	plain=$output
	fsn attach g '*' --lib "$FIX/switch"
	capture "$FIX/switch" 20
	assert_output "$plain"
	fsn stats g --json
	assert_json '[.[0].functions[] | select(.name | IN("keep_place", "swap_over", "work")) | [.name, .calls]] | sort' \
		'[["keep_place",20],["swap_over",42],["work",40]]'
	fsn detach g
}

@test "hazards: a function that reads its return address is only counted with --exit return" {
	need_bpf
	fsn attach g keep_place --lib "$FIX/switch" --exit return --json
	assert_json '.[0].functions[0] | [.exit, .exit_why]' \
		'["none","it reads its own return address, which a return probe replaces"]'
	fsn detach g
}

# Makes the code of FILE one that is mapped writable, by its program header's flags.
make_writable() { # FILE
	local i

	i=$(readelf -lW "$1" | awk '/^ +Type/ { n = -1; on = 1; next } !on || /Requesting/ { next }
		{ n++ } $1 == "LOAD" && / R E / { print n; exit }')
	printf '\7' | dd of="$1" bs=1 seek=$((64 + 56 * i + 4)) conv=notrunc status=none
	readelf -lW "$1" | grep -q RWE || fail "the code of $1 is not writable"
}

@test "hazards: code that is mapped writable is refused with the reason" {
	local lib=$BATS_TEST_TMPDIR/libfix.so

	need_tool readelf
	cp "$FIX/libfix.so" "$lib"
	make_writable "$lib"
	fsn -s 1 attach g fix_add --lib "$lib"
	assert_stderr_match 'it is mapped writable, and the kernel refuses probes there'
	fsn -s 1 attach g 'fix_a*' --lib "$lib"
	assert_stderr_match 'mapped writable'
	fsn -s 125 run "$lib:fix_add" -- "$FIX/call" add 5
	assert_stderr_match 'mapped writable'
}

@test "hazards: a FIPS module, which hashes its own code, is refused with the reason" {
	need_bpf
	fsn -s 1 attach g fix_add --lib "$FIX/hashed/libfix.so.1"
	assert_stderr_match "cannot probe 'fix_add' .* FIPS module, which hashes its own code"
}

@test "hazards: a call that returns in another thread is one returned call" {
	hazard fiber_migrate "hz_yield_asm" "hz_yield_asm 20 0 20 0 0 0"
}

@test "hazards: a signal during a call does no harm" {
	hazard signal "hz_raise hz_leaf" "hz_leaf 20 0 20 0 0 0
hz_raise 20 0 20 0 0 0"
}

@test "hazards: a signal handler on another stack does no harm" {
	hazard altstack "hz_raise hz_leaf" "hz_leaf 20 0 20 0 0 0
hz_raise 20 0 20 0 0 0"
}

# Both are proven safe for return probes; the handler's calls get none.
@test "hazards: a handler on another stack in a call with a return probe does no harm" {
	need_arch x86_64
	need_link session
	fsn attach -n g hz_turn hz_leaf --lib "$FIX/libhazard.so" --json
	assert_json '[.[].functions[].exit] | unique' '["return"]'
	hazard interrupted "hz_turn hz_leaf" "hz_leaf 20 0 0 0 0 20
hz_turn 20 0 20 0 0 0
no_slot 20
other_stack 20"
	fsn attach g hz_turn hz_leaf --lib "$FIX/libhazard.so"
	capture "$FIX/hazard" interrupted 20
	fsn stats g
	assert_stderr_match "20 calls were counted but not timed: on a fiber's or signal handler's stack"
	refute_stderr_match "no place"
	fsn reset g
	fsn stats g --all --json
	assert_json '.[0].health | [.no_slot, .other_stack]' '[0,0]'
	fsn detach g
}

@test "hazards: fibers of signal handlers survive, without return probes on them" {
	need_arch x86_64
	need_link session
	fsn attach -n g hz_turn --lib "$FIX/libhazard.so" --json
	assert_json '[.[].functions[].exit]' '["return"]'
	hazard preempted hz_turn "hz_turn 20 0 10 0 0 10
no_slot 10
other_stack 10"
}

# Its process runs when the group is attached, or is to be run.
@test "hazards: a C++ program with a throwing signal handler survives" {
	local why="no return probe: a signal handler of "

	need_bpf
	need_arch x86_64
	need_fixture faults
	fsn attach -n g hz_read --lib "$FIX/libhazard.so" --json
	assert_json '[.[].functions[].exit]' '["return"]'
	start_bg f "$FIX/faults" --wait 20
	wait_ready f
	fsn attach g hz_read --lib "$FIX/libhazard.so"
	fsn list functions g --json
	assert_json '.[].functions[] | [.exit, (.exit_why | split("; ")[0])]' \
		"[\"ret\",\"${why}process $(bg_pid f) may leave calls by '__cxa_throw'\"]"
	tell f
	wait_bg f
	assert_eq "$(grep '^result' "$(bg_out f)")" "result faults calls=20 sum=20"
	assert_numbers g "hz_read 20 0 0 0 20 0"
	fsn detach g
	fsn run "$FIX/libhazard.so:hz_read" --json -o "$BATS_TEST_TMPDIR/run.json" -- \
		"$FIX/faults" 20
	assert_output "result faults calls=20 sum=20"
	fsn attach -n g hz_read --lib "$FIX/libhazard.so" --lib "$FIX/faults" --json
	assert_json '[.[].functions[].exit]' '["return"]'
}

# attach -n of PROGRAM's functions: "NAME EXIT", one a line.
exits() { # FILE FUNCTION...
	fsn attach -n g "${@:2}" --lib "$1" --json
	json -r '.[].functions[] | "\(.name) \(.exit)"' | sort
}

@test "hazards: no return probe is set if a function or its callee reads return addresses" {
	local f

	need_bpf
	need_arch x86_64
	for f in libframes.so frames; do
		exits "$FIX/$f" fr_own fr_compared fr_callee fr_walk fr_pointer >"$BATS_TEST_TMPDIR/e"
		if grep ' return$' "$BATS_TEST_TMPDIR/e"; then
			fail "a return probe in $f"
		fi
	done
	capture "$FIX/frames" 10
	assert_output "own 1 compared 1 callee 1 walk 1 pointer 1
result frames calls=10 sum=21"
	unharmed "$FIX/libframes.so" "fr_own fr_compared fr_callee fr_walk fr_pointer" \
		"fr_callee 1 0 1 0 0 0
fr_compared 1 0 1 0 0 0
fr_own 1 0 1 0 0 0
fr_pointer 1 0 1 0 0 0
fr_walk 1 0 1 0 0 0" "$FIX/frames-lib" 10
	unharmed "$FIX/frames" "fr_own fr_compared fr_callee fr_walk fr_pointer" \
		"fr_callee 1 0 1 0 0 0
fr_compared 1 0 1 0 0 0
fr_own 1 0 1 0 0 0
fr_pointer 1 0 1 0 0 0
fr_walk 1 0 1 0 0 0" "$FIX/frames" 10
}

@test "hazards: the reason for a missing return probe is one sentence" {
	need_arch x86_64
	fsn attach -n g fr_own fr_walk fr_pointer fr_even --lib "$FIX/libframes.so" --json
	assert_json '[.[].functions[] | .exit_why | split("; ")[0]] | sort' \
		'["no return probe: a callee reads or copies stack addresses of its callers","no return probe: it calls a function pointer","no return probe: it calls a function that another file may replace","no return probe: it reads its own return address"]'
	fsn attach -n g fr_even --lib "$FIX/frames" --json
	assert_json '.[].functions[] | .exit_why | split("; ")[0]' "no return probe: it is recursive"
}

@test "hazards: recursion deeper than 64 return probes abandons no call" {
	need_bpf
	need_arch x86_64
	fsn attach g fr_depth fr_even fr_odd --lib "$FIX/frames"
	capture "$FIX/frames" 300
	assert_numbers g "fr_depth 301 0 301 0 0 0
fr_even 151 0 151 0 0 0
fr_odd 150 0 150 0 0 0"
	fsn detach g
}

@test "hazards: indirect recursion beyond 64 calls is counted, not timed, and reported" {
	local link

	need_bpf
	need_arch x86_64
	read_links
	for link in "${links[@]}"; do
		fsn attach g fr_indirect --lib "$FIX/libframes.so" --exit return --link "$link"
		capture "$FIX/frames-lib" 300
		assert_numbers g "fr_indirect 301 0 64 0 0 237
no_slot 237
too_deep 237"
		fsn stats g
		assert_stderr_match "^funcsnoop stats: 237 calls were counted but not timed: the kernel tracks 64 nested calls"
		fsn detach g
	done
}

@test "hazards: a cancelled thread runs its outer cleanups, and its call is abandoned" {
	hazard cancel "hz_pause" "hz_pause 20 0 0 0 20 0"
}

@test "hazards: a thread that exits runs its outer cleanups, and its call is abandoned" {
	hazard thread_exit "hz_thread_exit" "hz_thread_exit 20 0 0 0 20 0"
}

@test "hazards: a backtrace through a probed function is complete" {
	hazard backtrace "hz_backtrace" "hz_backtrace 20 0 20 0 0 0"
}

# libc is everybody's: only this process's calls are known.
@test "hazards: a thread cancelled in libc's sleep runs its outer cleanups" {
	local pid

	need_bpf
	fsn attach g sleep --lib c
	start_bg hazard "$FIX/hazard" cancel_sleep 20 --wait-end
	pid=$(bg_pid hazard)
	wait_line hazard "^done "
	assert_eq "$(head -n 1 "$(bg_out hazard)")" "result cancel_sleep calls=20 sum=20"
	fsn stats g --json
	assert_sound
	assert_json "[.[0].functions[] | .processes[] | select(.pid == $pid) | [.calls, .returns]]" \
		'[[20,0]]'
	tell hazard
	wait_bg hazard
	fsn list inflight g --all --json
	assert_json "map(select(.pid == $pid))" "[]"
	fsn detach g
}

# --- C++ ------------------------------------------------------------------------------------

hazcxx() { # FIXTURE CASE TEXT
	local dir=$FIX

	[[ $1 == plain ]] || dir=$FIX/$1
	LD_LIBRARY_PATH=$dir unharmed "$dir/libhazcxx.so" "hzx_outer hzx_inner hzx_catch" "$3" \
		"$FIX/hazcxx" "$2" 20
}

# Half of the calls are left by an exception.
CXX_THROW="hzx_inner 20 0 10 0 10 0
hzx_outer 20 0 10 0 10 0"
CXX_CATCH="hzx_catch 20 0 20 0 0 0
$CXX_THROW"

# bats test_tags=core,arch
@test "hazards: exceptions pass through probed functions, and their calls are abandoned" {
	hazcxx plain throw "$CXX_THROW"
}

@test "hazards: a probed function that catches an exception returns" {
	hazcxx plain catch "$CXX_CATCH"
}

@test "hazards: exceptions in four concurrent threads do no harm" {
	hazcxx plain threads "hzx_inner 80 0 40 0 40 0
hzx_outer 80 0 40 0 40 0"
}

@test "hazards: an exception that another thread throws again does no harm" {
	hazcxx plain pass_on "hzx_inner 20 0 0 0 20 0
hzx_outer 20 0 0 0 20 0"
}

@test "hazards: exceptions pass through functions of a stripped library" {
	hazcxx stripped throw "$CXX_THROW"
}

@test "hazards: a function of a stripped library that catches an exception returns" {
	hazcxx stripped catch "$CXX_CATCH"
}

@test "hazards: C++ functions with one name are counted separately" {
	need_bpf
	fsn attach g 'hz::*' --lib "$FIX/libhazcxx.so" --json
	assert_json '[.[0].functions[] | select(.refused)]' '[]'
	capture "$FIX/hazcxx" names 20
	fsn stats g --json
	assert_sound
	# Linear's constructor and destructor run once more.
	assert_json '.[0].functions | map(.calls) | group_by(.) | map([.[0], length])' \
		'[[20,7],[21,2]]'
	assert_json '.[0].functions | map(.calls == .returns) | all' true
	assert_json '.[0].functions | map(.name) | length == (unique | length)' true
	fsn detach g
}

# --- other languages --------------------------------------------------------------------

@test "hazards: a Rust panic passes through probed functions" {
	need_fixture hazrust
	unharmed "$FIX/hazrust" "hzr_outer hzr_inner" "hzr_inner 20 0 10 0 10 0
hzr_outer 20 0 10 0 10 0" "$FIX/hazrust" 20
}

# Goroutines move between threads, and their stacks are copied when they grow. The function
# then restarts at its entry, so it is counted after the stack check.
@test "hazards: a Go function is probed after its stack check, with a reason" {
	need_fixture hazgo
	fsn attach g main.yield main.grow main.deep main.huge --lib "$FIX/hazgo" --dry-run --json
	assert_json '[.[0].functions[] | .refused, .exit] | unique' '[null,"goroutine"]'
	assert_json_true '[.[0].functions[] | .exit_why | startswith("Go moves a stack that grows; ")] | all'
	assert_json '[.[0].functions[] | .site_why | startswith("after Go'"'"'s check of the stack")] | unique' \
		'[true]'
	assert_json '[.[0].functions[] | select(.site_offset <= .offset)]' '[]'
}

GO_COUNTS="main.deep 10000 0 - 0 0 10000
main.grow 2000 0 - 0 0 2000
main.huge 200 0 - 0 0 200
main.yield 80 0 - 0 0 80"
GO_TIMES="main.deep 10000 0 10000 0 0 0
main.grow 2000 0 2000 0 0 0
main.huge 200 0 200 0 0 0
main.yield 80 0 80 0 0 0"

go_unharmed() { # TEXT ATTACH-OPTION...
	local plain

	need_bpf
	need_fixture hazgo
	capture "$FIX/hazgo" 20
	plain=$output
	fsn attach g main.yield main.grow main.deep main.huge --lib "$FIX/hazgo" "${@:2}"
	capture "$FIX/hazgo" 20
	assert_output "$plain"
	[[ -z $1 ]] || assert_numbers g "$1"
}

@test "hazards: a call of a Go function counts once, whether or not its stack grows" {
	go_unharmed "$GO_TIMES"
	fsn detach g
}

@test "hazards: --count counts a call of a Go function once" {
	go_unharmed "$GO_COUNTS" --count
	fsn detach g
}

@test "hazards: Go functions are only counted with --probe exit=return" {
	go_unharmed "$GO_COUNTS" --exit return
	fsn detach g
}

@test "hazards: Go functions are matched by goroutine with --probe exit=ret" {
	go_unharmed "$GO_TIMES" --exit ret
	fsn detach g
}

@test "hazards: --site entry counts entries of Go functions, again after the stack grows" {
	go_unharmed "" --site entry
	fsn stats g --json
	assert_sound
	assert_json '.[0].functions[] | select(.name == "main.yield") | .calls' 80
	assert_json '[.[0].functions[] | .calls - .untimed] | unique' '[0]'
	assert_json_true '.[0].functions[] | select(.name == "main.huge") | .calls > 200'
	fsn detach g
}

@test "hazards: a Go program survives probes on all of its functions and its runtime" {
	local plain

	need_bpf
	need_fixture hazgo
	capture "$FIX/hazgo" 5
	plain=$output
	fsn attach g '**' --lib "$FIX/hazgo" --quiet # "*" skips the runtime and the standard library
	capture "$FIX/hazgo" 5
	assert_output "$plain"
	fsn stats g --json
	assert_json '[.[0].functions[] | select(.name | test("^main\\.(yield|grow|deep|huge)$")) | [.name, .calls]]
		| sort' '[["main.deep",2500],["main.grow",500],["main.huge",50],["main.yield",20]]'
	# Perf links are removed one after the other.
	FSN_TIMEOUT=600 fsn detach g
}

# --- filters of system calls --------------------------------------------------------------

# Some kernels make a system call of their own for a return probe.
# bats test_tags=core
@test "hazards: a program that may not make the probes' system calls survives" {
	need_bpf
	fsn attach g fix_add --lib "$FIX/libfix.so"
	capture "$FIX/call" --seccomp add 20
	assert_numbers g "fix_add 20 0 20 0 0 0"
	fsn detach g
	fsn attach g fix_add --lib "$FIX/call-static"
	capture "$FIX/call-static" --seccomp add 20
	assert_numbers g "fix_add 20 0 20 0 0 0"
	fsn detach g
}

# --- every instruction ----------------------------------------------------------------------

# Output of asmcall, and the number of entries of each function (tests/fixtures/README).
asm_expected() { # N: from $output, NAME CALLS, sorted
	awk -v n="$1" '
		/ skipped$/ { next }
		/^[a-z]/ {
			calls[$1] += n
			taken = 0
			if (match($0, /taken=[0-9]+/))
				taken = substr($0, RSTART + 6, RLENGTH - 6)
			if ($1 ~ /^asm_selftail/)
				calls[$1] += 3 * n
			else if ($1 == "asm_jmp" || $1 ~ /^asm_itail_(reg|rip|mem)$/)
				calls["asm_target"] += n
			else if ($1 == "asm_itail_both" || $1 == "asm_parts")
				calls["asm_target"] += n / 2
			else if ($1 ~ /^asm_(cc_.*|cbz|tbnz|cold_tail)$/)
				calls["asm_target"] += taken
			else if ($1 == "asm_jrcxz")
				calls["asm_near"] += taken
			else if ($1 == "asm_alt")
				calls["asm_alt_in"] += n
			else if ($1 == "asm_fall")
				calls["asm_fall_next"] += n
			else if ($1 == "c_tail" || $1 == "c_itail")
				calls["c_target"] += n
			else if ($1 == "cf_tail" || $1 == "cf_itail")
				calls["cf_target"] += n
		}
		END { for (f in calls) print f, calls[f] }' <<<"$output" | sort
}

# Number of untracked tail calls and tail recursions: NAME CALLS, sorted. c_switch does not
# report it.
asm_jumped() { # N: from $output
	awk -v n="$1" '
		/ skipped$/ { next }
		{
			jumped = 0
			if ($1 ~ /^asm_selftail/)
				jumped = 3 * n
			else if ($1 == "asm_itail_both" || $1 == "asm_parts")
				jumped = n / 2
			else if ($1 ~ /^asm_(lander|itail_(reg|rip|mem))$/ || $1 ~ /^cf?_itail$/)
				jumped = n
			if (jumped > 0)
				print $1, jumped + 0
		}' <<<"$output" | sort
}

# NAME or the counterpart that this architecture has.
asm_name() { # X86-NAME ARM64-NAME
	[[ $(uname -m) == x86_64 ]] && echo "$1" || echo "$2"
}

every_instruction() { # FILE PROGRAM FLAGS...
	local expected jumped plain refused

	need_bpf
	capture "$2" all 90
	plain=$output
	expected=$(asm_expected 90)
	jumped=$(asm_jumped 90)
	fsn attach g 'asm_*' 'c_*' 'cf_*' --lib "$1" --json "${@:3}"
	refused=$(json '.[0].functions[] | select(.refused) | .name')
	assert_json '[.[0].functions[] | .refused | values | length > 10] | all' true
	capture "$2" all 90
	assert_output "$plain"
	fsn stats g --json
	assert_sound
	# c_switch goes on to c_target in one case of nine.
	assert_eq "$(json '.[0].functions[] | "\(.name) \(.calls)"' | grep -v '_target ' | sort)" \
		"$(grep -v '_target ' <<<"$expected" | grep -vxE "($(paste -sd'|' <<<"$refused")) [0-9]+" | sort)"
	assert_json '.[0].functions[] | select(.name == "asm_target").calls' \
		"$(sed -n 's/^asm_target //p' <<<"$expected")"
	# One call has no traceable return. All other calls return or end in a tail call, also
	# those of asm_alt, which falls through to another function: there they are abandoned
	# and resumed.
	if [[ ${*:3} != *--count* ]]; then
		assert_json '[.[0].functions[] | select((.returns // 0) != .calls - .untimed) | .name]' \
			'[]'
		assert_eq "$(json '.[0].functions[] | select(.untimed > 0 and .name != "asm_fall")
			| "\(.name) \(.untimed)"' | grep -v '_switch ' | sort)" \
			"$(grep -vxE "($(paste -sd'|' <<<"$refused")) [0-9]+" <<<"$jumped")"
	fi
	fsn detach g
}

# bats test_tags=core,arch
@test "hazards: probes on all kinds of instructions change no result, and counts are exact" {
	every_instruction "$FIX/libinsn.so" "$FIX/asmcall"
}

@test "hazards: probes on all kinds of instructions change no result with --count" {
	every_instruction "$FIX/libinsn.so" "$FIX/asmcall" --count
}

# Probe sites of both, after their entries.
frames() { # SITES OPTION...
	fsn attach g asm_frame asm_frame_call --lib "$FIX/libinsn.so" --json "${@:2}"
	assert_json '[.[0].functions[] | .site_offset - .offset]' "$1"
}

@test "hazards: a probe inside a function's frame reads arguments and result of the call" {
	need_bpf
	need_arch x86_64
	frames '[22,4]' --exit ret
	start_stream s g --json
	capture "$FIX/asmcall" all 50
	assert_eq "$(grep '^asm_frame' <<<"$output")" "asm_frame calls=50 sum=3325 wrong=0
asm_frame_call calls=50 sum=3375 wrong=0"
	poll_until has_lines s 100
	stop_stream s
	assert_eq "$(jq -r 'select(.type == "call") | "\(.function) \(.args.arg1) \(.ret)"' \
		<<<"$output" | while read -r name arg result; do
			echo "$name $((result - arg))"; done | sort | uniq -c | xargs)" \
		"50 asm_frame 42 50 asm_frame_call 43"
	assert_numbers g "asm_frame 50 0 50 0 0 0
asm_frame_call 50 0 50 0 0 0"
	fsn set g --if 'arg1>=40'
	fsn reset g
	capture "$FIX/asmcall" asm_frame 50
	assert_numbers g "asm_frame 10 0 10 0 0 0"
	fsn detach g
	frames '[22,4]' --count --dry-run
	frames '[0,0]' --exit return --dry-run
	frames '[0,0]' --exit ret --key caller --dry-run
}

# bats test_tags=core,arch
@test "hazards: a table after the code of a function keeps its bytes" {
	local plain

	need_bpf
	capture "$FIX/asmcall" asm_data 100
	plain=$output
	fsn attach g asm_data --lib "$FIX/libinsn.so" --exit ret --json
	assert_json '.[0].functions[0].exit_why' '--probe exit=ret; 1 ret, 0 jumps that leave'
	capture "$FIX/asmcall" asm_data 100
	assert_output "$plain"
	assert_numbers g "asm_data 100 0 100 0 0 0"
	fsn detach g
}

@test "hazards: a glob skips a table with a function's symbol, with the reason" {
	local plain

	need_bpf
	need_arch x86_64
	capture "$FIX/asmcall" asm_data_far 100
	plain=$output
	fsn attach g 'asm_bytes*' 'asm_data_far' --lib "$FIX/libinsn.so" --json
	assert_json '[.[0].functions[] | select(.refused) | [.name, .refused]]' \
		'[["asm_bytes","no code calls it, and its bytes cannot begin a function: they are data"]]'
	capture "$FIX/asmcall" asm_data_far 100
	assert_output "$plain"
	assert_numbers g "asm_data_far 100 0 100 0 0 0"
	fsn detach g
}

# Traced exits and the results of each call, by each kind of link.
early_ends() { # LINK
	local sums

	fsn attach --config "$BATS_TEST_TMPDIR/early.json" --exit early --link "$1" --json
	assert_json '[.[0].functions[].exit] | unique' '["early"]'
	start_stream s g --json
	capture "$FIX/asmcall" all 200
	sums=$(sed -En 's/^(asm_early_[a-z]*) calls=([0-9]+) sum=(-?[0-9]+) wrong=0$/\1 \2 \3/p' \
		<<<"$output" | sort)
	assert_eq "$(wc -l <<<"$sums")" 7 "functions"
	fsn stats g --json
	assert_json '.[0].functions | sort_by(.name)[] |
		"\(.name) \(.calls) \(.returns) \(.untimed)"' \
		"$(awk '{ print $1, $2, $2, 0 }' <<<"$sums")"
	poll_until has_lines s 1400
	stop_stream s
	assert_eq "$(jq -rs 'group_by(.function)[] |
		"\(.[0].function) \(length) \(map(.ret) | add)"' <<<"$output")" "$sums"
	fsn detach g
}

# bats test_tags=core,arch
@test "hazards: early exits are those of all calls, with their results" {
	local link links

	need_bpf
	need_arch x86_64
	need_tool jq
	jq -n --arg lib "$FIX/libinsn.so" '{ lib: $lib, g_func_sym: [
		("guard", "sides", "tests", "frame", "nop", "push", "number") | "asm_early_" + . |
		{ (.): { symbol: ., ret: "long", args: [] } }] | add }' >"$BATS_TEST_TMPDIR/early.json"
	read_links
	for link in "${links[@]}"; do
		early_ends "$link"
	done
}

# Only functions with tail calls, because closing hundreds of perf links takes half a minute.
@test "hazards: perf links trace tail calls of all kinds" {
	local jumps=asm_cold_tail

	need_link perf
	[[ $(uname -m) == x86_64 ]] || jumps="asm_cbz asm_tbnz"
	capture "$FIX/asmcall" all 90
	# shellcheck disable=SC2086
	fsn attach g asm_target asm_itail_reg asm_itail_both asm_cc_e asm_cc_le $jumps \
		asm_selftail --lib "$FIX/libinsn.so" --link perf
	assert_numbers g ""
	capture "$FIX/asmcall" all 90
	output=$(join -a 1 <(asm_expected 90) <(asm_jumped 90) | awk -v jumps="${jumps// /|}" '
		$1 ~ "^(asm_(target|itail_reg|itail_both|cc_e|cc_le|selftail)|" jumps ")$" {
			print $1, $2, 0, $2 - $3, 0, 0, $3 + 0
			if ($1 ~ /selftail/)
				inner += $3
			else
				jumped += $3
		}
		END { print "left_by_jump", jumped; print "inner", inner }')
	assert_numbers g "$output"
	fsn detach g
}

@test "hazards: probes on all kinds of instructions change no result in a stripped library" {
	LD_LIBRARY_PATH=$FIX/stripped every_instruction "$FIX/stripped/libinsn.so" "$FIX/asmcall"
}

@test "hazards: probes on an executable at a fixed address change no result" {
	local plain name

	need_bpf
	name=$(asm_name asm_switch_abs asm_switch)
	capture "$FIX/asmcall-nopie" all 90
	plain=$output
	fsn attach g 'asm_*' 'c_*' --lib "$FIX/asmcall-nopie" --exit ret
	capture "$FIX/asmcall-nopie" all 90
	assert_output "$plain"
	fsn stats g --json
	assert_sound
	assert_json ".[0].functions[] | select(.name == \"$name\") | [.calls, .returns]" '[90,90]'
	fsn detach g
}

@test "hazards: a child forked while probed lives, for any probed instruction" {
	local name

	need_bpf
	name=$(asm_name asm_nop5 asm_bti)
	fsn attach g 'asm_*' 'c_*' 'cf_*' --lib "$FIX/libinsn.so" --quiet
	capture "$FIX/asmcall" --fork all 10
	assert_output_line "child ok"
	fsn stats g --json
	assert_sound
	assert_json ".[0].functions[] | select(.name == \"$name\") | [.calls, .returns]" '[20,20]'
	fsn detach g
}
