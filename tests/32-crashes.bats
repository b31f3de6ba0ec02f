# SPDX-License-Identifier: BSD-2-Clause
# Processes that die: what run reports, and list crashes.
# bats file_tags=bpf

load helpers

CRASH=$FIX/crash
FUNCTIONS=(work outer inner)

setup() {
	common_setup
	need_bpf
	ulimit -c 0
}

attach_crash() { # OPTION...
	fsn attach g "${FUNCTIONS[@]}" --lib "$CRASH" "$@"
}

# HOW ends with STATUS.
dies() { # STATUS HOW
	start_bg dying "$CRASH" "$2"
	wait_bg -s "$1" dying
}

crashes() {
	fsn list crashes g --json
}

# The report of a run of HOW, without numbers that differ and frames of libraries.
report() { # STATUS HOW [OPTION...]
	fsn -s "$1" run "${FUNCTIONS[@]/#/$CRASH:}" "${@:3}" -- "$CRASH" "$2"
	printf '%s\n' "$stderr" | sed -n '/^process /,/^run-/p' | grep '^process \|^  in flight\|^  stack:\|crash\.c' |
		sed -E 's/process [0-9]+/process PID/; s/thread [0-9]+/thread TID/
			s/ [0-9.]+ (ns|us|ms|s)( >|$)/ TIME\2/g; s/:[0-9]+\)/:N)/; s/\.cold / /'
}

IN_FLIGHT='  in flight: work() TIME > outer(n=2) TIME > inner(at=8, text="text") TIME'
STACK='  stack:
    inner (crash.c:N)
    outer (crash.c:N)
    work (crash.c:N)'

@test "run: reports a signal with its address, the calls in progress and the stack" {
	assert_eq "$(report 139 segv)" "process PID (crash) was killed: SIGSEGV at 0x8
$IN_FLIGHT
$STACK
    main (crash.c:N)"
	assert_eq "$(report 139 null)" "process PID (crash) was killed: SIGSEGV at 0x0
$IN_FLIGHT
$STACK
    main (crash.c:N)"
	assert_eq "$(report 134 abort)" "process PID (crash) was killed: SIGABRT
$IN_FLIGHT
$STACK
    main (crash.c:N)"
}

@test "run: reports a signal in another thread than the first" {
	assert_eq "$(report 139 thread)" "process PID (crash) was killed: SIGSEGV at 0x8, in thread TID
$IN_FLIGHT
$STACK
    run (crash.c:N)"
}

@test "run: reports an exit status other than 0" {
	report 3 exit --slow 1h >"$BATS_TEST_TMPDIR/report"
	assert_eq "$(head -2 "$BATS_TEST_TMPDIR/report")" "process PID (crash) failed: exit status 3
$IN_FLIGHT"
}

@test "run: reports no handled signal, no exit status 0, and nothing with --quiet" {
	local how

	for how in handled survives fine; do
		assert_eq "$(report 0 $how)" "" "$how"
	done
	fsn -s 139 run --quiet "$CRASH:outer" -- "$CRASH" segv
	refute_stderr_match "SIGSEGV"
}

@test "run: reports each child of COMMAND that a signal kills, in order, and no exit status of one" {
	fsn -s 3 run "$CRASH:outer" -- sh -c "$CRASH segv; $CRASH fine; $CRASH abort; $CRASH exit; exit 3"
	assert_eq "$(grep -o '(crash).*' <<<"$stderr")" "(crash) was killed: SIGSEGV at 0x8
(crash) was killed: SIGABRT"
}

@test "run: counts dead processes whose records were overwritten" {
	fsn run "$CRASH:outer" -- sh -c "kill -STOP \$PPID; for i in 1 2 3 4 5; do
		$CRASH abort; $CRASH abort; $CRASH abort; $CRASH abort; done; kill -CONT \$PPID"
	assert_stderr_match "^funcsnoop run: 4 more processes were killed or failed$"
	assert_eq "$(grep -c ') was killed: SIGABRT' <<<"$stderr")" 16
}

@test "run: --stream prints the calls of a process before the report of its death" {
	fsn -s 139 run "$CRASH:outer" --stream --events entry -- "$CRASH" segv
	assert_eq "$(grep -o 'outer(n=2)$\|was killed' <<<"$stderr" | head -2)" "outer(n=2)
was killed"
}

@test "list crashes: signal, address, status, calls and stack of each, the oldest first" {
	attach_crash
	crashes
	assert_output '{"version":1,"crashes":[]}'
	fsn list crashes g
	assert_stderr "funcsnoop list: no process has died"
	dies 139 segv
	dies 134 abort
	dies 3 exit
	dies 0 fine
	dies 0 handled
	crashes
	assert_json 'map([.signal, .address, .exit_status, .out_of_memory, .in_flight, .comm])' \
		'[["SIGSEGV","0x8",null,false,3,"crash"],["SIGABRT",null,null,false,3,"crash"],[null,null,3,false,3,"crash"]]'
	assert_json 'map(.calls | map(.function)) | unique' '[["work","outer","inner"]]'
	assert_json_true 'all(.[]; .pid == .tid and (.calls | map(.age_ns) | . == (sort | reverse) and .[2] > 0))'
	assert_json '.[0].stack | [(.frames | map(.name) | .[:4]), .end]' \
		'[["inner","outer","work","main"],"outermost"]'
	fsn list crashes g
	assert_eq "$(tr -s ' ' <<<"${lines[0]}")" "GROUP TIME PID TID COMMAND END IN FLIGHT"
	assert_output_match "^g +[^ ]+Z +[0-9]+ +[0-9]+ +crash +SIGSEGV at 0x8 +work\(\) .* > outer\(n=2\) .* > inner\(at=8, text=\"text\"\) "
	assert_output_match " exit status 3 +work\(\) "
	fsn list crashes g --lines
	assert_output_match "^    outer \(crash.c:[0-9]+\)$"
	fsn detach g
}

in_flight() { # N
	fsn list inflight g --json
	[[ $(json length) == "$1" ]]
}

@test "list crashes: a signal to the process shows the calls of all threads" {
	local signal

	for signal in TERM KILL; do
		attach_crash
		start_bg dying "$CRASH" waits
		poll_until in_flight 6
		kill "-$signal" "$(bg_pid dying)"
		wait_bg -s any dying
		crashes
		assert_json 'map([.signal, .address, .out_of_memory])' "[[\"SIG$signal\",null,false]]"
		assert_json 'map(.calls | group_by(.tid) | map(map(.function)) | [length, unique])' \
			'[[2,[["work","outer","inner"]]]]'
		fsn detach g
	done
}

# All threads end at once, and the first one to end differs.
@test "list crashes: a signal to a thread shows the stack and the calls of that thread" {
	attach_crash --probe exit=ret
	for _ in {1..8}; do
		dies 138 raise
	done
	crashes
	assert_json 'map([.signal, .tid != .pid, (.tid as $tid | .calls | map([.tid == $tid, .function]))])
		| unique' '[["SIGUSR1",true,[[true,"work"],[true,"outer"],[true,"inner"]]]]'
	fsn detach g
}

@test "list crashes: a signal that kills a selected process is recorded without calls" {
	start_bg dying "$CRASH" fine wait
	wait_line dying "^ready"
	attach_crash --pid "$(bg_pid dying)"
	kill -TERM "$(bg_pid dying)"
	wait_bg -s 143 dying
	crashes
	assert_json 'map([.signal, .calls, .in_flight])' '[["SIGTERM",[],0]]'
	fsn detach g
}

# The truth is gdb's, for arguments in registers and on the stack, texts, pointers and enumerators.
@test "list crashes: arguments are those of gdb, also if no call can be slow" {
	local prog=$BATS_TEST_TMPDIR/many

	need_tool gdb
	need_tool cc
	cat >"$prog.c" <<-'END'
		enum kind { NONE, FIRST = 7 };
		struct req { int n; };
		#define OUT __attribute__((noinline, noipa))

		OUT int parse(const char *p) { return *p; }
		OUT int many(char a, short b, unsigned c, enum kind d, struct req *e, _Bool f, long g, const char *h)
		{
			return parse((const char *)8L) + a + b + (int)c + (int)d + e->n + f + (int)g + h[0];
		}
		OUT int bare(void) { struct req r = { 1 }; char text[] = "local"; return many('a', -2, 3000000000U, FIRST, &r, 1, -7, text) + 1; }
		int main(void) { return bare() + 1; }
	END
	cc -g -O1 -o "$prog" "$prog.c"
	cat >"$prog.gdb" <<-'END'
		set print entry-values no
		run
		bt 4
	END
	gdb -q -batch -nx -x "$prog.gdb" "$prog" 2>/dev/null | tac |
		sed -nE "s/^#[0-3] .*(parse|many|bare|main) \((.*)\) at .*/\1(\2)/; T; s/97 'a'/97/
			s/ <error[^>]*>//; s/e=0x[0-9a-f]+/e=0x/; s/h=0x[0-9a-f]+ /h=/; p" >"$prog.truth"
	assert_eq "$(<"$prog.truth")" 'main()
bare()
many(a=97, b=-2, c=3000000000, d=FIRST, e=0x, f=true, g=-7, h="local")
parse(p=0x8)'
	fsn -s 139 run "$prog:*" -- "$prog"
	assert_eq "$(sed -nE 's/^  in flight: //; T; s/ [0-9.]+ [num]?s( > |$)/\n/g; s/e=0x[0-9a-f]+/e=0x/; s/\n$//; p' \
		<<<"$stderr")" "$(<"$prog.truth")"
	# No register is shown of functions without debug information.
	strip "$prog"
	fsn -s 139 run "$prog:*" -- "$prog"
	refute_stderr_match 'in flight: .*\('
}

@test "list crashes: calls that longjmp has left are not in progress" {
	attach_crash --probe exit=ret
	dies 139 left
	crashes
	assert_json 'map(.calls | map(.function))' '[["outer","inner"]]'
	fsn detach g
}

@test "list crashes: calls before an exec are not in progress" {
	[[ $(</proc/sys/kernel/randomize_va_space) != 0 ]] || skip "stacks are not randomized"
	attach_crash --probe exit=ret
	dies 139 exec
	crashes
	assert_json 'map([.in_flight, (.calls | map(.function))])' '[[3,["work","outer","inner"]]]'
	fsn detach g
}

@test "list crashes: the innermost ones of many nested calls are kept" {
	attach_crash --slow 1h
	dies 139 recursive
	crashes
	assert_json '.[0] | [.in_flight, (.calls | length), .calls[-1].args]' \
		'[21,16,{"at":8,"text":"text"}]'
	assert_json '.[0].calls[:-1] | map(.args.n)' "$(jq -nc '[range(6; 21)]')"
	assert_json '.[0].stack.frames | map(select(.name == "outer")) | length' 19
	fsn list crashes g
	assert_output_match " \.\.\. > outer\(n=6\) "
	fsn detach g
}

@test "list crashes: stacks of a program that is above its libraries, as without a limit of the stack" {
	need_tool setarch
	attach_crash
	start_bg dying setarch --addr-compat-layout "$CRASH" abort
	wait_bg -s 134 dying
	crashes
	assert_json '.[0].stack.frames | map(.name | sub("[.]cold$"; "")) |
		index("inner") as $at | .[$at:$at + 4]' \
		'["inner","outer","work","main"]'
	fsn detach g
}

@test "list crashes: a stack that has overflowed" {
	attach_crash
	dies 139 overflow
	crashes
	assert_json '.[0] | [.signal, .in_flight, (.stack.frames[:8] | map(.name) | unique), .stack.end]' \
		'["SIGSEGV",3,["deep"],"too_deep"]'
	fsn detach g
}

@test "list crashes: no caller is guessed of code that is in no file" {
	need_arch x86_64
	attach_crash
	dies 139 alien
	crashes
	assert_json '.[0] | [.address, .stack.frames[0].file]' '["0x8",null]'
	assert_json '.[0].stack.frames | map(.name) | index("hog")' null
	fsn detach g
}

@test "list crashes: no names of a file that has changed since" {
	CRASH=$BATS_TEST_TMPDIR/crash
	cp "$FIX/crash" "$CRASH"
	attach_crash
	dies 139 segv
	crashes
	assert_json '.[0].stack.frames[0] | [.name, .file == null]' '["inner",false]'
	touch "$CRASH"
	crashes
	assert_json '.[0].stack.frames[0].file' null
	fsn detach g
}

@test "list crashes: the last 16 are kept" {
	local i

	attach_crash
	dies 134 abort
	for ((i = 0; i < 16; i++)); do
		dies 139 segv
	done
	crashes
	assert_json 'map(.signal) | [length, (unique)]' '[16,["SIGSEGV"]]'
	fsn detach g
}

@test "list crashes: a process that the OOM killer has chosen" {
	local memory

	memory=$(awk '$3 == "cgroup" && $4 ~ /memory/ { print $2; exit }' /proc/mounts)
	if [[ -n $memory ]]; then
		CGROUP=$memory/funcsnoop-test-$$
		mkdir "$CGROUP" || skip "cannot make a memory cgroup"
		echo 32M >"$CGROUP/memory.limit_in_bytes" || skip "cannot limit memory"
		# shellcheck disable=SC2016	# for the inner shell
		IN_CGROUP=(bash -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$CGROUP")
	else
		own_cgroup memory.max "no memory cgroup"
		echo 32M >"$CGROUP/memory.max"
		echo 0 >"$CGROUP/memory.swap.max" || true
	fi
	attach_crash
	start_bg dying "${IN_CGROUP[@]}" "$CRASH" oom
	wait_bg -s 137 dying
	crashes
	assert_json 'map([.signal, .out_of_memory, (.calls | map(.function))])' \
		'[["SIGKILL",true,["work","outer","inner"]]]'
	fsn detach g
}

@test "list crashes: a tracer that withholds a signal prevents the record" {
	need_tool gdb
	attach_crash
	gdb -q -batch -nx -ex run -ex 'signal 0' -ex kill --args "$CRASH" abort >/dev/null 2>&1 || true
	crashes
	refute_output_match SIGABRT
	fsn detach g
}

@test "list crashes: the stack is that of gdb" {
	local how

	need_tool gdb
	cat >"$BATS_TEST_TMPDIR/stack.py" <<-'END'
		import gdb
		gdb.execute('set backtrace past-main on')
		gdb.execute('set backtrace past-entry on')
		gdb.execute('run', to_string=True)
		pid = gdb.selected_inferior().pid
		maps = [line.split() for line in open(f'/proc/{pid}/maps') if line.count('/')]
		frame, inner = gdb.newest_frame(), True
		while frame:
		    at = frame.pc() - (not inner)
		    for m in maps:
		        low, high = (int(x, 16) for x in m[0].split('-'))
		        # Others are inlined, or tail calls, which leave nothing on the stack.
		        if low <= at < high and frame.type() == gdb.NORMAL_FRAME:
		            print('FRAME', m[5].split('/')[-1], hex(at - low + int(m[2], 16)))
		    frame, inner = frame.older(), False
	END
	# A probe at a return changes what gdb finds.
	for how in segv abort thread; do
		gdb -q -batch -nx -x "$BATS_TEST_TMPDIR/stack.py" --args "$CRASH" "$how" |
			sed -n 's/^FRAME //p' >"$BATS_TEST_TMPDIR/gdb"
		attach_crash
		start_bg dying "$CRASH" "$how"
		wait_bg -s any dying
		crashes
		json -r '.[-1].stack.frames[] | (.file | sub(".*/"; "")) + " " + .offset' \
			>"$BATS_TEST_TMPDIR/ours"
		fsn detach g
		assert_between "$(wc -l <"$BATS_TEST_TMPDIR/gdb")" 6 20 "frames of gdb"
		diff -u "$BATS_TEST_TMPDIR/gdb" "$BATS_TEST_TMPDIR/ours"
	done
}
