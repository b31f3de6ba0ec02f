#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# funcsnoop run: attach, look and detach in one command; around COMMAND, whose first call
# counts, whose status is the command's, and to whom signals go. Nothing is left.
# bats file_tags=bpf

load helpers

LIB=$FIX/libfix.so

setup() {
	common_setup
	need_bpf
	need_tool jq
}

nothing_left() {
	holds_only ""
}

# Calls of FUNCTION by the table on stderr; "" when it has no row.
calls_of() { # FUNCTION
	sed -n "s/^$1  *\([0-9]*\) .*/\1/p" <<<"$stderr"
}

start_run() { # NAME ARG...: until it counts
	start_bg "$1" "$FUNCSNOOP" run "${@:2}"
	poll_until grep -q "$([[ " $* " == *" --"@(stream|number)" "* ]] && echo watching || echo 'attached to')" \
		"$(bg_err "$1")"
}

# --- without COMMAND ------------------------------------------------------------------------

@test "run: without COMMAND, counts until Ctrl-C, shows the table, and leaves nothing" {
	start_run r "$LIB:fix_add"
	capture "$FIX/call" add 123
	stop_bg -INT r
	assert_eq "$status" 0
	assert_output_match '^run-[0-9]+ since '
	assert_output_match '^fix_add +123 '
	nothing_left
}

# Longer than the lease that the keeper renews.
@test "run: counts on if its keeper is killed, and removes its group itself" {
	start_run r "$LIB:fix_add"
	kill -KILL "$(pgrep -P "$(bg_pid r)" -x funcsnoop-keep)"
	sleep 6
	capture "$FIX/call" add 123
	stop_bg -INT r
	assert_eq "$status" 0
	assert_output_match '^fix_add +123 '
	nothing_left
}

@test "run: --pid without a group shows what the process does, on and off the CPU and in system calls" {
	need_fixture waits
	start_bg w "$FIX/waits" --wait --wait-end lock 20
	wait_ready w
	start_bg r "$FUNCSNOOP" run -p "$(bg_pid w)"
	poll_until -t 60 grep -qx 'funcsnoop run: counting until Ctrl-C' "$(bg_err r)"
	four_groups
	tell w
	wait_line -t 60 w '^done'
	stop_bg -INT r
	assert_eq "$status" 0
	assert_output_match "^process $(bg_pid w), waits$"
	assert_output_match '^ *[0-9.]+ % +[0-9.]+ m?s  waiting for locks \(futex\), [0-9]+ times; '
	assert_output_match '^names and holders of locks: funcsnoop run locks --by lock,waker_stack$'
	assert_output_match '^On CPU: functions, by samples$'
	assert_output_match '^Off CPU: where threads waited$'
	assert_output_match '^[ 0-9.]+ .*pthread_mutex_lock.*'
	assert_output_match '^System calls, by time$'
	assert_output_match '^futex +[0-9]+ '
	holds_only ""
}

four_groups() {
	[[ $("$FUNCSNOOP" list --json | jq -r '.[].name' | sed 's/-[0-9]*$//' | sort | xargs) == "cpu off-cpu run-queue syscalls" ]]
}

# The truth is the program's own clocks. A woken thread that has no CPU yet is still asleep for it.
@test "run: a summary says where the time went, and that adds up to the time of the thread" {
	need_tool cc
	cd "$BATS_TEST_TMPDIR"
	cat >why.c <<-'END'
		#include <poll.h>
		#include <stdio.h>
		#include <time.h>
		#include <unistd.h>

		static long us(clockid_t c)
		{
			struct timespec t;

			clock_gettime(c, &t);
			return t.tv_sec * 1000000 + t.tv_nsec / 1000;
		}

		int main(int argc, char **argv)
		{
			long start = us(CLOCK_MONOTONIC), slept = 0, polled = 0, at;

			for (int i = 0; i < 10; i++) {
				for (at = us(CLOCK_THREAD_CPUTIME_ID); us(CLOCK_THREAD_CPUTIME_ID) - at < 40000;)
					;
				at = us(CLOCK_MONOTONIC);
				usleep(60000);
				slept += us(CLOCK_MONOTONIC) - at;
				at = us(CLOCK_MONOTONIC);
				poll(NULL, 0, 30);
				polled += us(CLOCK_MONOTONIC) - at;
			}
			printf("%ld %ld %ld %ld\n", us(CLOCK_MONOTONIC) - start, us(CLOCK_THREAD_CPUTIME_ID), slept, polled);
			return 0;
		}
	END
	cc -O1 -o why why.c
	cat >why.awk <<-'END'
		function us(n, unit) { return n * (unit == "s" ? 1e6 : unit == "ms" ? 1e3 : unit == "us" ? 1 : 1e-3) }
		function near(a, b, by, what) { if (a < b * (1 - by) || a > b * (1 + by)) { print what, a, b; bad = 1 } }
		FILENAME ~ /out$/ { wall = $1; cpu = $2; slept = $3; polled = $4; next }
		/^Where the time went:/ { all = us($5, $6); elapsed = us($10, $11) }
		/^ *[0-9.]+ %  / { sum += us($3, $4); seen++ }
		/ on a CPU/ { on = us($3, $4) }
		/\(sleep\)/ { sleep = us($3, $4) }
		/\(poll, / { events = us($3, $4) }
		END {
			near(sum, all, 0.02, "sum"); near(all, wall, 0.02, "all"); near(elapsed, wall, 0.05, "elapsed")
			near(on, cpu, 0.05, "CPU"); near(sleep, slept, 0.08, "sleep"); near(events, polled, 0.08, "events")
			exit bad
		}
	END
	# A busy machine can delay what is measured between two clocks.
	for _ in 1 2 3; do
		fsn run -- ./why
		capture -s any awk -f why.awk "$BATS_TEST_TMPDIR/.out" "$BATS_TEST_TMPDIR/.err"
		[[ $status != 0 ]] || break
	done
	assert_eq "$status" 0
	fsn run -- ./why
	assert_stderr_match '; 100 % in main > usleep'
	assert_stderr_match '^page faults: [0-9]+, of which [0-9]+ read from a disk$'
	# A thread that waits all the time has no wait that is seen.
	start_bg w "$FIX/call" --wait add 1
	wait_ready w
	fsn run -p "$(bg_pid w)" -d 300ms
	assert_output_match '^100\.0 % +[0-9]+ ms  in waits that began before, or continue$'
	tell w
	wait_bg w
}

@test "run: says that calls are counted before the attach, and how long a summary lasts" {
	local own=$BATS_TEST_TMPDIR/own-bash

	cp "$BASH" "$own"
	start_bg w "$own" -c 'read -r'
	fsn run "$own:*" -p "$(bg_pid w)" -d 100ms
	assert_stderr_match '^funcsnoop run: counting calls of [0-9]+ functions first, to leave out those that cost too much; then --duration begins$'
	fsn run "$own:execute_command" -p "$(bg_pid w)" -d 100ms
	refute_stderr_match 'counting calls of'
	fsn run -p "$(bg_pid w)" -d 100ms
	assert_stderr_match '^funcsnoop run: attaching the probes of four groups$'
	assert_stderr_match '^funcsnoop run: counting for 100 ms$'
	tell w
	wait_bg w
}

# Calls before the answer on --ready-fd are those of other parts' attach.
@test "run: the parts of a summary begin to count at the same time" {
	need_tool python3
	cat >"$BATS_TEST_TMPDIR/part.py" <<-'END'
		import json, os, signal, socket, subprocess, sys
		own, other = socket.socketpair()
		run = subprocess.Popen([sys.argv[1], 'run', 's:getppid', '-p', str(os.getpid()), '--json',
			'--ready-fd', str(other.fileno())], pass_fds=[other.fileno()], stdout=subprocess.PIPE)
		other.close()
		assert own.recv(1) == b'\0'
		for i in range(5): os.getppid()
		own.send(b'\0')
		assert own.recv(1) == b''
		for i in range(3): os.getppid()
		run.send_signal(signal.SIGINT)
		print(json.loads(run.communicate()[0])['groups'][0]['functions'][0]['calls'])
	END
	capture python3 "$BATS_TEST_TMPDIR/part.py" "$FUNCSNOOP"
	assert_output 3
	holds_only ""
}

# A thread that sleeps from before the attach until the end makes no call and no wait that counts.
@test "run: says how many threads have waited since before the attach, and what shows where" {
	local pid line="funcsnoop run: 1 thread has waited since before the attach; "

	start_bg w "$FIX/call" --wait add 1
	wait_ready w
	pid=$(bg_pid w)
	poll_until grep -q '^State:.S' "/proc/$pid/status"
	fsn run syscalls -p "$pid" -d 100ms
	assert_stderr_match "^$line'funcsnoop stack $pid' shows where$"
	fsn run off-cpu -p "$pid" -d 100ms
	assert_stderr_match "^$line'funcsnoop stack $pid' shows where$"
	fsn run -p "$pid" -d 100ms
	assert_stderr_match "^$line'funcsnoop stack $pid' shows where$"
	fsn run "$FIX/libfix.so:fix_add" -p "$pid" -d 100ms
	refute_stderr_match 'waited since'
	fsn stack "$pid"
	assert_output_match "^$pid call: waits in "
	tell w
	wait_bg w
	start_bg busy bash -c 'while :; do :; done'
	fsn run syscalls -p "$(bg_pid busy)" -d 100ms
	refute_stderr_match 'waited since'
	stop_bg busy
}

@test "run: a program before -- is an error, and the hint names its functions" {
	fsn -s 2 run "$FIX/call" -- "$FIX/call" add 1
	assert_output ""
	assert_stderr_match "^funcsnoop run: no function of '.*/call' is named$"
	assert_stderr_match "^hint: use '.*/call:\*' for all functions of that file$"
}

@test "run: the name of a file with --pid is all of its functions, unless it is that of a function" {
	cp "$FIX/call" "$BATS_TEST_TMPDIR/hanger"
	cp "$FIX/call" "$BATS_TEST_TMPDIR/main"
	start_bg c env LD_LIBRARY_PATH="${LIB%/*}" "$BATS_TEST_TMPDIR/hanger" --wait hang 1
	start_bg m env LD_LIBRARY_PATH="${LIB%/*}" "$BATS_TEST_TMPDIR/main" --wait hang 1
	wait_ready c
	wait_ready m
	fsn run hanger -p "$(bg_pid c)" -d 0.1
	assert_stderr_match "^funcsnoop run: 'hanger' is a file: all of its functions$"
	fsn attach g hanger -p "$(bg_pid c)" -n --json
	assert_json_true '.[0].functions | length > 1'
	fsn attach g main -p "$(bg_pid m)" -n --json
	assert_json '[.[0].functions[].name]' '["main"]'
	# Also if a program has the name, which need not be mapped.
	[[ -x /usr/bin/free ]]
	fsn -s 1 attach g free -p "$(bg_pid m)" -n
	assert_stderr_match "^funcsnoop attach: 'free' is only imported by "
	refute_stderr_match 'is a file'
	fsn -s 1 run hanger -d 0.1
	assert_stderr_match "^hint: "
	fsn run call -- "$FIX/call" add 3
	assert_stderr_match "^funcsnoop run: 'call' is a file: all of its functions$"
	assert_stderr_match '^main +1 '
	stop_bg c
	stop_bg m
}

@test "run: --pid without a group is refused with options of a group, and for a process that is not there" {
	fsn -s 2 run -p $$ --json
	assert_json '.error' "no group given"
	fsn -s 2 run -p $$ --by comm,waker
	assert_stderr_match "^funcsnoop run: no group given: --by needs one, such as 'run off-cpu --by comm,waker'$"
	fsn -s 1 run -p 4194000
	assert_stderr "funcsnoop run: there is no process 4194000"
}

@test "run: a command without a group runs within the summary, and its status remains" {
	local command

	for command in "--" ""; do
		# shellcheck disable=SC2086	# a word or none
		fsn run $command "$FIX/call" add 3
		assert_output_match '^result fix_add calls=3 '
		assert_stderr_match '^On CPU: functions, by samples$'
		assert_stderr_match '^Off CPU: where threads waited$'
		assert_stderr_match '^System calls, by time$'
		assert_stderr_match '^execve +1 '
	done
	fsn -s 7 run -- sh -c 'exit 7'
	fsn -s 127 run -- /no/such/command
	holds_only ""
}

@test "run: a summary names the signal that ended the command, and the codes of failed calls" {
	fsn -s 137 run -- sh -c 'cat /no/such/file 2>/dev/null; kill -KILL $$'
	assert_stderr_match '^funcsnoop run: SIGKILL ended process [0-9]+$'
	assert_stderr_match '^failed: .*openat [0-9]+ ENOENT'
	fsn -s 139 run -- sh -c 'kill -SEGV $$'
	assert_stderr_match "^funcsnoop run: SIGSEGV ended process [0-9]+: with the target 'sh:\\*' run shows its calls and stack$"
	fsn run -- true
	[[ $stderr != *"ended process"* ]] || fail "a signal: $stderr"
	holds_only ""
}

@test "run: a summary fits the terminal" {
	need_tool script
	capture script -qec "stty cols 80; '$FUNCSNOOP' run -- '$FIX/call' add 3" /dev/null
	assert_output_match '^execve +1 '
	[[ -z $(tr -d '\r' <<<"$output" | grep -E '.{81}') ]] || fail "wider than 80 columns: $output"
}

@test "run: prints on a terminal that --output was written" {
	local run="'$FUNCSNOOP' run -q"

	need_tool script
	capture script -qec "'$FUNCSNOOP' run '$LIB:fix_add' -d 0.1 -o '$BATS_TEST_TMPDIR/out'" /dev/null
	assert_output_match "^funcsnoop run: wrote $BATS_TEST_TMPDIR/out"
	capture script -qec "$run '$LIB:fix_add' -d 0.1 -o '$BATS_TEST_TMPDIR/out'" /dev/null
	refute_output_match 'wrote'
	fsn run "$LIB:fix_add" -d 0.1 -o "$BATS_TEST_TMPDIR/out"
	refute_stderr_match 'wrote'
}

@test "run: -d stops by itself; the group has GROUP's name and the command's number" {
	fsn run my fix_add --lib "$LIB" -d 0.2 --all --json
	assert_json '[.[0].group | test("^my-[0-9]+$")]' '[true]'
	assert_json '.[0].functions | map([.name, .calls])' '[["fix_add",0]]'
	nothing_left
}

@test "run: accepts the options of attach under the same names" {
	fsn run my fix_add --lib "$LIB" --no-nesting --no-processes --raw -d 0.1 --all --json
	assert_json '.[0].functions | map([.name, .calls, .self_ns])' '[["fix_add",0,null]]'
	nothing_left
}

@test "run: its group can be used like any other, and detaching it ends run" {
	start_run r my fix_add --lib "$LIB"
	capture "$FIX/call" add 7
	fsn stats --json
	assert_json '.[0].functions | map([.name, .calls])' '[["fix_add",7]]'
	fsn detach --all
	wait_bg r
	assert_stderr_match 'the group was detached'
	nothing_left
}

@test "run: a long name of a group is truncated" {
	local name=a234567890123456789012345678901

	fsn run "$name" fix_add --lib "$LIB" -d 0.1 --json
	assert_json '.[0].group | test("^a[0-9]+-[0-9]+$") and length == 32' true
}

@test "run: -i shows each interval, and --output writes them to a file" {
	fsn run "$LIB:fix_add" -i 0.1 -d 0.3 --format csv -o "$BATS_TEST_TMPDIR/out"
	assert_output ""
	assert_eq "$(grep -c , "$BATS_TEST_TMPDIR/out" | sed 's/^[1-9].*/some/')" some
	nothing_left
}

@test "run: --stream shows each call, then the table" {
	start_run r "$LIB:fix_add" --stream --number 3
	capture "$FIX/call" add 3
	wait_bg r
	assert_eq "$(grep -c ' fix_add(' <<<"$output")" 3
	assert_output_match '^fix_add +3 '
	nothing_left
}

@test "run: an option of single calls switches --stream on" {
	start_run r "$LIB:fix_add" --number 3
	capture "$FIX/call" add 3
	wait_bg r
	assert_eq "$(grep -c ' fix_add(' <<<"$output")" 3
	nothing_left
}

@test "run: --stream --json prints only calls; the table goes to stderr" {
	start_run r "$LIB:fix_add" --stream --json --number 3
	capture "$FIX/call" add 3
	wait_bg r
	assert_eq "$(jq -r .function <<<"$output" | xargs)" "fix_add fix_add fix_add"
	assert_eq "$(calls_of fix_add)" 3
}

# --- around COMMAND ---------------------------------------------------------------------------

@test "run: every call of COMMAND counts, the first included" {
	fsn run "$LIB:fix_add" -- "$FIX/call" add 1
	assert_output "result fix_add calls=1 sum=1 wrong=0"
	assert_eq "$(calls_of fix_add)" 1
	fsn run g fix_add --lib "$LIB" -- "$FIX/call" --threads 3 add 1000
	assert_eq "$(calls_of fix_add)" 3000
	nothing_left
}

# A probe that is no longer hit costs nothing.
@test "run: shows the overhead during its run, not that of a later moment" {
	local took="^probes took ~[0-9.]+ [mu]s of these [0-9.]+ m?s; estimated from 'feature --calibrate'$"

	fsn run "$LIB:fix_add" -- "$FIX/call" add 1000
	assert_stderr_match "$took"
	refute_stderr_match '^cost: '
	refute_stderr_match 'have ended' # what run waited for is no news
	start_run r "$LIB:fix_add"
	capture "$FIX/call" add 1000
	stop_bg -INT r
	assert_output_match "$took"
	refute_output_match '^cost: '
	fsn run "$LIB:fix_add" --json --output "$BATS_TEST_TMPDIR/json" -- "$FIX/call" add 1000
	output=$(<"$BATS_TEST_TMPDIR/json")
	assert_json '.[0] | [.cost_ns_per_s, .cost_source, .cost_ns > 0]' '[null,null,true]'
	fsn run "$LIB:fix_add" -i 0.3 -- "$FIX/call" add 1000
	assert_stderr_match '^cost: ~'
}

@test "run: every kind of link counts all calls of COMMAND" {
	local link links

	read_links
	for link in "${links[@]}"; do
		fsn run g fix_add --lib "$LIB" --link "$link" -- "$FIX/call" add 17
		assert_eq "$(calls_of fix_add)" 17 "with $link links"
	done
}

@test "run: only COMMAND's calls count" {
	start_bg other "$FIX/call" --until-line add
	wait_line other '^running '
	fsn run "$LIB:fix_add" -- "$FIX/call" add 5
	assert_eq "$(calls_of fix_add)" 5
	tell other
	wait_bg other
}

@test "run: a stream shows COMMAND's calls from the first on" {
	fsn run "$LIB:fix_add" --stream -- "$FIX/call" add 3
	assert_eq "$(grep -c ' fix_add(' <<<"$stderr")" 3
	assert_eq "$(calls_of fix_add)" 3
	assert_output "result fix_add calls=3 sum=6 wrong=0"
}

@test "run: intervals end with COMMAND and have all its calls" {
	fsn run "$LIB:fix_add" -i 0.2 -- "$FIX/call" add 50
	assert_eq "$(calls_of fix_add | awk '{ n += $1 } END { print n }')" 50
}

@test "run: JSON of a run with COMMAND goes only to a file" {
	fsn -s 2 run "$LIB:fix_add" --json -- "$FIX/call" add 5
	assert_json '.error | test("--output")' true
	fsn run "$LIB:fix_add" --json -o "$BATS_TEST_TMPDIR/out" -- "$FIX/call" add 5
	assert_output "result fix_add calls=5 sum=15 wrong=0"
	output=$(<"$BATS_TEST_TMPDIR/out")
	assert_json '.[0].functions | map([.name, .calls])' '[["fix_add",5]]'
}

@test "run: --output writes to a link to standard output, and keeps the link" {
	local link=$BATS_TEST_TMPDIR/stdout out=$BATS_TEST_TMPDIR/out

	ln -s /proc/self/fd/1 "$link"
	echo before >"$out"
	"$FUNCSNOOP" run "$LIB:fix_add" --json -o "$link" -- "$FIX/call" add 5 >>"$out" 2>/dev/null
	"$FUNCSNOOP" run "$LIB:fix_add" --stream --json -o "$link" -- "$FIX/call" add 1 >>"$out" \
		2>/dev/null
	[[ -L $link ]] || fail "the link is none any more"
	assert_eq "$(grep -v '^[[{]' "$out")" "before
result fix_add calls=5 sum=15 wrong=0
result fix_add calls=1 sum=1 wrong=0"
	output=$(grep '^{"version"' "$out")
	assert_json '.[0].functions | map([.name, .calls])' '[["fix_add",5]]'
	output=$(grep '^{' "$out" | grep -v '^{"version"')
	assert_json .function fix_add
}

@test "run: the exit status is COMMAND's, or 128 plus the number of its signal" {
	fsn -s 7 run "$LIB:fix_add" -- sh -c 'exit 7'
	fsn -s 137 run "$LIB:fix_add" -- sh -c 'kill -9 $$'
	fsn -s 143 run "$LIB:fix_add" -- sh -c 'kill -TERM $$'
	nothing_left
}

@test "run: status 127 for a missing COMMAND, 126 if not executable, 125 for funcsnoop" {
	fsn -s 127 run "$LIB:fix_add" -- /no/such/command
	assert_stderr_match "cannot run '/no/such/command': No such file"
	fsn -s 127 run "$LIB:fix_add" -- nosuchcommand
	echo x >"$BATS_TEST_TMPDIR/file"
	fsn -s 126 run "$LIB:fix_add" -- "$BATS_TEST_TMPDIR/file"
	fsn -s 126 run "$LIB:fix_add" -- "$BATS_TEST_TMPDIR"
	printf '#!/no/such/shell\n' >"$BATS_TEST_TMPDIR/script"
	chmod +x "$BATS_TEST_TMPDIR/script"
	fsn -s 127 run "$LIB:fix_add" -- "$BATS_TEST_TMPDIR/script"
	fsn -s 125 run "$LIB:nosuch" -- touch "$BATS_TEST_TMPDIR/ran"
	[[ ! -e $BATS_TEST_TMPDIR/ran ]]
	nothing_left
}

@test "run: the shell runs a script without an interpreter line, with its arguments" {
	echo 'echo "$1-$2"; exit 3' >"$BATS_TEST_TMPDIR/script"
	chmod +x "$BATS_TEST_TMPDIR/script"
	fsn -s 3 run "$LIB:fix_add" -- "$BATS_TEST_TMPDIR/script" a 'b c'
	assert_output "a-b c"
}

@test "run: COMMAND gets the signals sent to run, and then the table is shown" {
	# A shell's jobs in the background ignore this one.
	start_bg r env --default-signal=INT "$FUNCSNOOP" run "$LIB:fix_hang" -- "$FIX/call" hang 1
	wait_line r '^blocked '
	stop_bg -INT r
	assert_eq "$status" 130
	assert_eq "$(calls_of fix_hang)" 1
	nothing_left
}

@test "run: COMMAND inherits run's input and signal settings, but no descriptor" {
	local tells='cat; grep -E "^Sig(Blk|Ign)" /proc/self/status; ls /proc/self/fd | xargs' alone

	capture bash -c 'echo hello | "$@"' bash bash -c "$tells"
	alone=$output
	capture bash -c 'echo hello | "$@"' bash "$FUNCSNOOP" run "$LIB:fix_add" -- bash -c "$tells"
	assert_output "$alone"
}

@test "run: -d with COMMAND shows the table after that time, and waits for COMMAND" {
	start_bg r "$FUNCSNOOP" run "$LIB:fix_hang" -d 0.1 -- "$FIX/call" hang 1
	poll_until grep -q '^fix_hang ' "$(bg_err r)"
	poll_until nothing_left
	tell r
	wait_bg r
	assert_output_match '^result fix_hang calls=1 '
}

@test "run: a library loaded later is counted from the first call, also in children" {
	local lib=$BATS_TEST_TMPDIR/late.so.1

	cp "$FIX/libfix.so" "$lib"
	start_bg r "$FUNCSNOOP" run "$lib:fix_alias_a" -- \
		sh -c "read x; '$FIX/dlcall' '$lib' fix_alias_a 1 3; '$FIX/dlcall' '$lib' fix_alias_a 2"
	tell r
	wait_bg r
	assert_eq "$(calls_of fix_alias_a)" 5
}

@test "run: finds libraries in COMMAND's environment of wheels or conda" {
	local env=$BATS_TEST_TMPDIR/env lib

	mkdir -p "$env/bin" "$env/lib/python3.11/site-packages/nvidia/late/lib"
	lib=$env/lib/python3.11/site-packages/nvidia/late/lib/libfixlate-1a2b3c4d.so.1
	cp "$FIX/libfix.so" "$lib"
	ln -s "$FIX/dlcall" "$env/bin/python"
	fsn run fixlate:fix_alias_a -- "$env/bin/python" "$lib" fix_alias_a 3
	assert_eq "$(calls_of fix_alias_a)" 3
	cp "$lib" "$env/lib/libfixconda.so.2"
	cp "$FIX/dlcall" "$env/bin/app"
	PATH=$env/bin:$PATH fsn run g fix_alias_a --lib fixconda -- app "$env/lib/libfixconda.so.2" fix_alias_a 4
	assert_eq "$(calls_of fix_alias_a)" 4
}

# --- libraries that are waited for --------------------------------------------------------------

# A copy of libfix in a place that is not searched.
late_lib() { # NAME
	mkdir -p "$BATS_TEST_TMPDIR/late"
	cp "$FIX/libfix.so" "$BATS_TEST_TMPDIR/late/$1"
	echo "$BATS_TEST_TMPDIR/late/$1"
}

@test "run: waits for a library that is not found and counts its first call" {
	local lib link

	lib=$(late_lib libfixlate.so.1)
	fsn feature --json
	for link in $(json -r '.links[] | select(.available) | .name'); do
		fsn run g fix_alias_a --lib fixlate --link "$link" -- "$FIX/dlcall" "$lib" fix_alias_a 5
		assert_eq "$(calls_of fix_alias_a)" 5 "with $link links"
	done
	assert_stderr_match "no library or program 'fixlate' yet: waiting for it"
	nothing_left
}

# The bytes of PID's dynamic linker that are code, as they are in its memory.
linker_code() { # PID
	local map

	map=$(grep -m 1 ' r-xp .*/ld-linux' "/proc/$1/maps") || fail "no dynamic linker"
	python3 -c 'import sys
start, end = (int(x, 16) for x in sys.argv[2].split("-"))
with open(f"/proc/{sys.argv[1]}/mem", "rb") as mem:
    mem.seek(start)
    sys.stdout.buffer.write(mem.read(end - start))' "$1" "${map%% *}" | md5sum
}

@test "run: waiting for a library puts no breakpoint into other processes" {
	local before pid

	need_bpf
	need_tool python3
	start_bg other "$FIX/call" --wait add 1
	wait_ready other
	pid=$(bg_pid other)
	before=$(linker_code "$pid")
	start_bg r "$FUNCSNOOP" run fixlate:fix_alias_a -- sh -c 'echo began; exec cat'
	wait_line r "^began"
	assert_eq "$(linker_code "$pid")" "$before" "the other process's dynamic linker"
	stop_bg r
}

# One segment for code and data: the dynamic linker reads it before its code runs. Its constructor
# makes the first call.
@test "run: a library with one segment is counted from the call of its constructor" {
	local dir=$BATS_TEST_TMPDIR ld

	need_bpf
	need_tool cc
	cat >"$dir/late.c" <<-'END'
	static volatile int calls;
	__attribute__((noinline, visibility("default"))) int late_call(long x)
	{
		return calls += x;
	}
	__attribute__((constructor)) static void begin(void)
	{
		late_call(1);
	}
	END
	for ld in separate-code noseparate-code; do
		capture cc -O1 -fPIC -shared -Wl,-z,$ld -o "$dir/libfsnlate$ld.so" "$dir/late.c"
		fsn run fsnlate$ld:late_call --json -o "$dir/run.json" -- \
			"$FIX/dlcall" "$dir/libfsnlate$ld.so" late_call 5
		capture cat "$dir/run.json"
		assert_json '.[0].functions[] | [.calls, .returns]' '[6,6]'
	done
}

@test "run: list shows that a library is awaited, and the group's lifetime" {
	local lib

	lib=$(late_lib libfixlate.so.1)
	start_bg r "$FUNCSNOOP" run fixlate:fix_alias_a -- \
		sh -c "read x; '$FIX/dlcall' '$lib' fix_alias_a 1 4; read x"
	poll_until holds_group "run-$(bg_pid r)_waits"
	fsn list -v
	assert_output_match "^run-$(bg_pid r)_waits +waiting "
	assert_output_match "; while run $(bg_pid r) lives; attached "
	fsn list --json
	assert_json 'map([.waiting, .while_run, .until])' "[[true,$(bg_pid r),null]]"
	tell r
	poll_until bg_says r '^result '
	poll_until holds_only "run-$(bg_pid r)"
	fsn list --json
	assert_json 'map([.waiting, .while_run, .until, .calls])' "[[false,$(bg_pid r),null,4]]"
	tell r
	wait_bg r
	assert_eq "$(calls_of fix_alias_a)" 4
	nothing_left
}

holds_group() { # NAME
	[[ -d $FUNCSNOOP_BPFFS/funcsnoop/$1 ]]
}

@test "run: counts each of several libraries from the first call, for any loader" {
	local one two

	one=$(late_lib libfixone.so.1) two=$(late_lib libfixtwo.so.1)
	fsn run fixone:fix_alias_a fixtwo:fix_alias_b "$LIB:fix_add" -- sh -c "'$FIX/call' add 7
		'$FIX/dlcall' '$one' fix_alias_a 1 5; ('$FIX/dlcall' '$two' fix_alias_b 2 & wait)
		'$FIX/dlcall' '$one' fix_alias_a 4"
	assert_eq "$(calls_of fix_add) $(calls_of fix_alias_a) $(calls_of fix_alias_b)" "7 9 2"
	fsn run g fix_alias_a --lib fixone --lib fixtwo -- sh -c \
		"'$FIX/dlcall' '$one' fix_alias_a 3; '$FIX/dlcall' '$two' fix_alias_a 2"
	assert_eq "$(calls_of fix_alias_a | xargs)" "3 2"
	nothing_left
}

@test "run: streams and intervals start with the first call of an awaited library" {
	local lib

	lib=$(late_lib libfixlate.so.1)
	fsn run fixlate:fix_alias_a --stream -- "$FIX/dlcall" "$lib" fix_alias_a 3
	assert_eq "$(grep -c ' fix_alias_a(' <<<"$stderr")" 3
	assert_eq "$(calls_of fix_alias_a)" 3
	fsn run fixlate:fix_alias_a -i 0.1 -- "$FIX/dlcall" "$lib" fix_alias_a 3
	assert_eq "$(calls_of fix_alias_a | awk '{ n += $1 } END { print n }')" 3
}

@test "run: a parent that stops itself with its child continues with it" {
	local lib

	lib=$(late_lib libfixlate.so.1)
	fsn run fixlate:fix_alias_a -- "$FIX/dlcall" --su "$lib" fix_alias_a 3
	assert_output_match '^result fix_alias_a calls=3 '
	counted_or_said
}

# A SIGCONT cancels a stop that has not begun: then calls may run before they have a probe.
counted_or_said() {
	[[ $(calls_of fix_alias_a) == 3 ]] ||
		assert_stderr_match "stopped to be probed was continued by another: its first calls may be missing"
}

@test "run: a note says that calls may be missing if another process continues a stopped one" {
	local parent lib

	lib=$(late_lib libfixlate.so.1)
	for parent in --cont --cont --cont --deaf --deaf; do
		# If the process ends while its files are looked up, that fails.
		"$FUNCSNOOP" run fixlate:fix_alias_a -- "$FIX/dlcall" "$parent" "$lib" fix_alias_a 3 \
			>"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" || true
		grep -q '^result fix_alias_a calls=3 ' "$BATS_TEST_TMPDIR/out"
		stderr=$(<"$BATS_TEST_TMPDIR/err")
		counted_or_said
	done
	nothing_left
}

state_is() { # PID LETTER
	grep -q "^State:.$2" "/proc/$1/status"
}

nobody_is_held() {
	fsn list --json
	[[ $output != *_waits* ]]
}

@test "run: a parent stopped by another process stays stopped" {
	local fifo=$BATS_TEST_TMPDIR/fifo lib pid

	lib=$(late_lib libfixlate.so.1)
	mkfifo "$fifo"
	exec {fd}<>"$fifo"
	start_bg r "$FUNCSNOOP" run fixlate:fix_alias_a -- sh -c '"$@" & wait; echo waited' \
		sh "$FIX/dlcall" --fifo "$fifo" --wait "$lib" fix_alias_a 3
	wait_line r '^ready'
	pid=$(sed -n 's/^ready //p' "$(bg_out r)")
	pid=$(awk '$1 == "PPid:" { print $2 }' "/proc/$pid/status")
	kill -STOP "$pid"
	poll_until state_is "$pid" T
	echo >&"$fd"
	exec {fd}>&-
	wait_line r '^result fix_alias_a calls=3 '
	poll_until nobody_is_held
	state_is "$pid" T
	! bg_says r '^waited' || fail "the parent was told to go on"
	kill -CONT "$pid"
	wait_bg r
	assert_eq "$(bg_says r '^waited' && echo yes)" yes
}

# Sets pid to a process that a hold has stopped, whose command cannot continue it.
start_held() { # CALLS
	local lib

	lib=$(late_lib libfixlate.so.1)
	start_bg r "$FUNCSNOOP" run fixlate:fix_alias_a -- "$FIX/dlcall" --wait "$lib" fix_alias_a "$1"
	wait_line r '^ready'
	pid=$(sed -n 's/^ready //p' "$(bg_out r)")
	kill -STOP "$(bg_pid r)"
	tell r
	poll_until state_is "$pid" T
}

@test "run: a program stopped by another process while on hold stays stopped" {
	local pid

	start_held 3
	kill -STOP "$pid"
	kill -CONT "$(bg_pid r)"
	poll_until nobody_is_held
	state_is "$pid" T
	! bg_says r '^result' || fail "it was told to go on"
	kill -CONT "$pid"
	wait_bg r
	assert_eq "$(bg_says r '^result fix_alias_a calls=3 ' && echo yes)" yes
}

@test "run: reports a library never loaded and a missing function after COMMAND" {
	local lib

	lib=$(late_lib libfixlate.so.1)
	fsn run fixlate:fix_alias_a -- echo here
	assert_output here
	assert_stderr_match "nothing of 'fixlate:fix_alias_a' is counted: no process has loaded"
	fsn -s 1 run fixlate:fix_nosuch -- "$FIX/dlcall" "$lib" fix_alias_a 3
	assert_stderr_match "no function 'fixlate:fix_nosuch' in .*libfixlate"
	assert_output_match '^result fix_alias_a calls=3 '
	fsn -s 1 run fixlate:fix_alias_a
	assert_stderr_match "no library or program 'fixlate'"
	nothing_left
}

@test "run: a stopped process continues when run is killed" {
	local lib pid

	lib=$(late_lib libfixlate.so.1)
	start_bg r "$FUNCSNOOP" run fixlate:fix_alias_a -- \
		sh -c "echo \$\$; read x; exec '$FIX/dlcall' '$lib' fix_alias_a 2"
	poll_until bg_says r '^[0-9]'
	pid=$(sed -n 's/^[0-9].*/&/p' "$(bg_out r)")
	kill -STOP "$(bg_pid r)"
	tell r
	poll_until grep -q '^State:.T' "/proc/$pid/status"
	kill -KILL "$(bg_pid r)"
	poll_until bg_says r '^result fix_alias_a calls=2 '
	poll_until no_groups
	wait_bg -s 137 r
}

# A BPF program may write the time of a stop to a record that the command has just replaced.
@test "run: a stopped process without a time in its record continues when run ends" {
	local pid pins key

	need_tool bpftool
	start_held 2
	pins=("$FUNCSNOOP_BPFFS"/funcsnoop/*_waits*)
	read -ra key < <(printf '%08x\n' "$pid" | sed 's/\(..\)\(..\)\(..\)\(..\)/0x\4 0x\3 0x\2 0x\1/')
	bpftool map update pinned "${pins[0]}/holds" key "${key[@]}" value $(printf '0 %.0s' {1..32})
	state_is "$pid" T
	kill -KILL "$(bg_pid r)"
	poll_until bg_says r '^result fix_alias_a calls=2 '
	poll_until no_groups
	wait_bg -s 137 r
}

@test "run: restores the terminal after any change by COMMAND" {
	local modes="stty -a; '$FUNCSNOOP' run '$LIB:fix_add' -- sh -c \"'$FIX/call' add 3; \$*\"; stty -a"

	need_tool script
	for how in ':' 'stty -echo -icanon min 7' 'stty raw; kill -9 $$' \
		'bash -ic "stty -echo; kill -9 \$\$"'; do
		capture script -qec "set -- $(printf %q "$how"); $modes" /dev/null
		output=$(tr -d '\r' <<<"$output" | grep -oE '(-?(echo|icanon|isig|opost)|min = [0-9]+);? ' | sort | uniq -c)
		refute_output_match '^ *[13] '
		assert_output_match '^ *2 echo'
	done
}

# Attaching is made to last: each link takes a while.
@test "run: shows the progress of an attach that takes over a second on a terminal" {
	need_tool script
	need_tool strace
	need_link perf
	need_no_sanitizer
	capture script -qec "strace -f -qq -o /dev/null -e trace=perf_event_open \
		-e inject=perf_event_open:delay_exit=300000 '$FUNCSNOOP' run g 'fix_a*' 'fix_r*' \
		--lib '$LIB' --link perf --exit none -d 0.1" /dev/null
	assert_output_match 'attach(ing to|ed) [0-9]+ (functions|of [0-9]+ probes)'
	capture script -qec "'$FUNCSNOOP' run g fix_add --lib '$LIB' -d 0.1" /dev/null
	refute_output_match 'attach(ing to|ed) [0-9]+ (functions|of)'
}

# --- children -----------------------------------------------------------------------------------

# bats test_tags=bpf
@test "run: counts the first call of each of 200 children of COMMAND" {
	local spawn

	for spawn in fork vfork spawn; do
		fsn run "$LIB:fix_add" -- "$FIX/call" --manyprocs 200 --spawn "$spawn" add 1
		assert_eq "$(calls_of fix_add)" 200 "children by $spawn"
	done
	nothing_left
}

@test "run: children and their children count with every kind of link" {
	local link links

	read_links
	for link in "${links[@]}"; do
		fsn run g fix_add --lib "$LIB" --link "$link" -- sh -c "'$FIX/call' --procs 8 add 100
			('$FIX/call' add 3; sh -c \"'$FIX/call' add 4; :\"); exec '$FIX/call' add 5"
		assert_eq "$(calls_of fix_add)" 812 "with $link links"
	done
}

@test "run: each child is a process of its own, and other processes do not count" {
	start_bg other "$FIX/call" --until-line add
	wait_line other '^running '
	fsn run "$LIB:fix_add" --json -o "$BATS_TEST_TMPDIR/out" -- "$FIX/call" --procs 5 add 2
	tell other
	wait_bg other
	output=$(<"$BATS_TEST_TMPDIR/out")
	assert_json '.[0].functions[0] | [.calls, (.processes | map(.calls))]' '[10,[2,2,2,2,2]]'
}

@test "run: an exiting thread, also the main one, keeps the process on the list" {
	start_bg r "$FUNCSNOOP" run "$FIX/libengine.so:eng_leaf" -- "$FIX/engine" headless 10
	wait_line r '^headless '
	tell r
	wait_line r '^blocked '
	tell r
	wait_bg r
	assert_eq "$(calls_of eng_leaf)" 10
}

# The list has room for 32,768: what the program would have counted is written here.
@test "run: reports children dropped because the list of processes was full" {
	need_tool bpftool
	start_bg r "$FUNCSNOOP" run "$LIB:fix_hang" -- "$FIX/call" hang 1
	wait_line r '^blocked '
	bpftool map update pinned "$(echo "$FUNCSNOOP_BPFFS"/funcsnoop/run-*/pids)" key 0 0 0 0 value 5 0 0 0
	tell r
	wait_bg r
	assert_stderr_match 'calls of 5 children are not counted'
}

@test "run: FUNCTION without a library is searched in program, system calls, libraries" {
	fsn run fix_add -- "$FIX/call" add 3
	assert_stderr_match '^fix_add +3 '
	fsn run main fix_add -- "$FIX/call" add 3
	assert_stderr_match '^main +1 '
	assert_stderr_match '^fix_add +3 '
	fsn run 'fix_ad*' -- "$FIX/call" add 3
	assert_stderr_match '^fix_add +3 '
	fsn run fix_add --lib "$LIB" -- "$FIX/call" add 3
	assert_stderr_match '^fix_add +3 '
	need_tracefs
	fsn run execve -- "$FIX/call" add 3
	assert_stderr_match '^execve +1 '
	start_bg w "$FIX/call" --wait add 9
	wait_ready w
	start_bg r "$FUNCSNOOP" run fix_add -p "$(bg_pid w)"
	poll_until grep -q 'attached to 1 function' "$(bg_err r)"
	tell w
	wait_bg w
	stop_bg -INT r
	assert_output_match '^fix_add +9 '
	fsn -s 125 run fix_adt -- "$FIX/call" add 3
	assert_stderr_match "^hint: did you mean 'fix_add' in "
	fsn -s 125 run 'fix_adt*' -- "$FIX/call" add 3
	assert_stderr_match "^hint: did you mean 'fix_add' in "
	nothing_left
}

@test "run: a function of the program is not taken for the system call of that name" {
	need_tool cc
	cc -O0 -o "$BATS_TEST_TMPDIR/own" -xc - <<-'END'
		#include <stdlib.h>
		int acct(const char *text) { return atoi(text); }
		int main(void) { return acct("0") + acct("0"); }
	END
	fsn run acct atoi -- "$BATS_TEST_TMPDIR/own"
	# The library of atoi has an acct, too.
	assert_eq "$(calls_of own:acct) $(calls_of atoi)" "2 2"
}

@test "run: names the signal that ended COMMAND, and the calls that it ended" {
	local pid

	start_bg r "$FUNCSNOOP" run "$FIX/call:main" "$LIB:fix_hang" -- "$FIX/call" hang 1
	poll_until pgrep -P "$(bg_pid r)" -x call
	pid=$(pgrep -P "$(bg_pid r)" -x call)
	poll_until in_hang
	kill -SEGV "$pid"
	wait_bg -s 139 r
	assert_stderr_match "^process $pid \(call\) was killed: SIGSEGV$"
	assert_stderr_match '^  in flight: main\(argc=3, argv=0x[0-9a-f]+\) [0-9.]+ m?s$'
	refute_stderr_match "SIGSEGV ended thread $pid"
	assert_stderr_match "^funcsnoop run: SIGSEGV ended thread [0-9]+ in fix_hang$"
	fsn -s 143 run "$LIB:fix_add" -- sh -c 'kill -TERM $$'
	assert_eq "$(grep -c SIGTERM <<<"$stderr")" 1
	assert_stderr_match '^process [0-9]+ \(sh\) was killed: SIGTERM$'
	fsn -s 163 run "$LIB:fix_add" -- sh -c 'kill -35 $$'
	assert_stderr_match '^process [0-9]+ \(sh\) was killed: SIGRTMIN\+1$'
	fsn -s 3 run "$LIB:fix_add" -- sh -c 'exit 3'
	refute_stderr_match ' ended process | was killed'
	nothing_left
}

in_hang() {
	fsn list inflight
	[[ $output == *fix_hang* ]]
}

@test "run: a name that no library has is COMMAND by its file name" {
	local own=$BATS_TEST_TMPDIR/ownprog lib=$BATS_TEST_TMPDIR/lib

	cp "$FIX/call" "$own"
	mkdir "$lib"
	cp "$FIX/libfix.so" "$FIX/libfix.so.1" "$lib"
	LD_LIBRARY_PATH=$lib fsn run ownprog:main --json -o "$BATS_TEST_TMPDIR/stats" -- "$own" add 3
	output=$(<"$BATS_TEST_TMPDIR/stats")
	assert_json '[.[0].functions[] | [.name, .calls, .library]]' "[[\"main\",1,\"$own\"]]"
	cp "$FIX/libfix.so" "$lib/libownprog.so"
	LD_LIBRARY_PATH=$lib fsn run ownprog:fix_add --all --json -o "$BATS_TEST_TMPDIR/stats" -- "$own" add 3
	output=$(<"$BATS_TEST_TMPDIR/stats")
	assert_json '[.[0].functions[].library]' "[\"$lib/libownprog.so\"]"
}

@test "run: --without children counts only COMMAND itself" {
	fsn run "$LIB:fix_add" --without children -- sh -c "'$FIX/call' add 3; exec '$FIX/call' add 5"
	refute_stderr_match 'has ended'
	assert_eq "$(calls_of fix_add)" 5
	nothing_left
}

@test "attach: --children counts calls of children started later" {
	start_bg w sh -c "read x; '$FIX/call' --manyprocs 20 add 1; read x"
	fsn attach g fix_add --lib "$LIB" --pid "$(bg_pid w)" --children
	tell w
	wait_line w '^result '
	fsn stats g --json
	assert_json '.[0].functions | map([.name, .calls])' '[["fix_add",20]]'
	tell w
	wait_bg w
	fsn detach g
	fsn -s 2 attach g fix_add --lib "$LIB" --children
	assert_stderr_match 'needs --pid'
}

@test "run: exited processes free their entries of the list" {
	fsn attach g fix_add --lib "$LIB" --pid $$ --children
	for _ in {1..50}; do "$FIX/call" --manyprocs 20 --quiet add 1; done
	need_tool bpftool
	assert_between "$(bpftool -j map dump pinned "$FUNCSNOOP_BPFFS/funcsnoop/g/pids" | jq length)" 1 100
	fsn stats g --json
	assert_json '.[0].functions[0].calls' 1000
	fsn detach g
}

# --- killed ----------------------------------------------------------------------------------

@test "run: killed at any moment, it leaves nothing" {
	local ms i lib

	ms=$(ms_of "$FUNCSNOOP" run "$LIB:fix_add" -- "$FIX/call" add 10)
	for ((i = 0; i < ${FSN_KILLS:-20}; i++)); do
		killed_within "$ms" "$FUNCSNOOP" run "$LIB:fix_add" -- "$FIX/call" add 10 >/dev/null
		poll_until no_groups
		poll_until no_test_processes
	done
	lib=$(late_lib libfixlate.so.1)
	for ((i = 0; i < ${FSN_KILLS:-20} / 4; i++)); do
		killed_within "$((ms * 2))" "$FUNCSNOOP" run fixlate:fix_alias_a -- \
			"$FIX/dlcall" "$lib" fix_alias_a 10 >/dev/null
		poll_until no_groups
		poll_until no_test_processes
	done
}

# Without a funcsnoop command, which would clean up. A command killed with the lock leaves its
# directory, but the lock is free.
no_groups() {
	[[ -z $(find "$FUNCSNOOP_BPFFS/funcsnoop" -mindepth 1 ! -name '~lock' 2>/dev/null) ]]
}

@test "run: its group is removed when it is killed, and COMMAND continues" {
	start_bg r "$FUNCSNOOP" run "$LIB:fix_hang" -- "$FIX/call" hang 1
	wait_line r '^blocked '
	[[ -n $(find "$FUNCSNOOP_BPFFS/funcsnoop" -mindepth 1) ]]
	kill -KILL "$(bg_pid r)"
	poll_until no_groups
	tell r
	poll_until bg_says r '^result fix_hang calls=1 '
	wait_bg -s 137 r
}

# True if one more call changes the counters; without a funcsnoop command.
counts_on() { # GROUP
	local before

	before=$(calls_at "$FUNCSNOOP_BPFFS/funcsnoop/$1/stats")
	"$FIX/call" --quiet add 1
	[[ $(calls_at "$FUNCSNOOP_BPFFS/funcsnoop/$1/stats") != "$before" ]]
}

counts_no_more() { # GROUP
	! counts_on "$1"
}

# The one test that waits for the lease to run out.
@test "run: after its cgroup is killed, the lease ends and list removes the group" {
	local group

	need_tool bpftool
	own_cgroup cgroup.kill "cgroups can't be killed before Linux 5.14"
	start_bg r "${IN_CGROUP[@]}" "$FUNCSNOOP" run "$LIB:fix_add" -d 100
	poll_until grep -q 'attached to' "$(bg_err r)"
	group=run-$(bg_pid r)
	counts_on "$group"
	echo 1 >"$CGROUP/cgroup.kill"
	wait_bg -s 137 r
	poll_until rmdir "$CGROUP"
	[[ -d $FUNCSNOOP_BPFFS/funcsnoop/$group ]]
	poll_until counts_no_more "$group"
	[[ -d $FUNCSNOOP_BPFFS/funcsnoop/$group ]]
	fsn list --json
	assert_json . '[]'
	no_groups
}

@test "run: shows the table if COMMAND is killed, and leaves nothing" {
	start_bg r "$FUNCSNOOP" run "$LIB:fix_hang" -- "$FIX/call" hang 1
	wait_line r '^blocked '
	kill -KILL "$(sed -n 's/^blocked //p' "$(bg_out r)")"
	wait_bg -s 137 r
	assert_eq "$(calls_of fix_hang)" 1
	nothing_left
}

@test "run: a summary that is killed leaves no group" {
	need_bpf
	start_bg r "$FUNCSNOOP" run -- "$FIX/call" hang 1
	wait_line r '^blocked '
	four_groups() {
		(($(find "$FUNCSNOOP_BPFFS/funcsnoop" -mindepth 1 -maxdepth 1 -name '[a-z]*' | wc -l) >= 3))
	}
	poll_until four_groups
	kill -KILL "$(bg_pid r)"
	wait_bg -s 137 r
	kill -KILL "$(sed -n 's/^blocked //p' "$(bg_out r)")"
	poll_until nothing_left
}

@test "run: a summary whose parts cannot be started fails with the cause" {
	local when

	need_bpf
	need_tool strace
	# The first part gets its signal before it has executed.
	for when in 1 2; do
		capture -s 125 strace -f -qq -o /dev/null -e trace=memfd_create,execve \
			-e inject=execve:delay_enter=500000 \
			-e inject=memfd_create:error=EMFILE:when=$when "$FUNCSNOOP" run -- "$FIX/call" add 3
		assert_stderr "funcsnoop run: cannot run a part of the summary: Too many open files"
	done
	nothing_left
}

# --- wrong usage -------------------------------------------------------------------------------

@test "run: conflicting options are wrong usage, before COMMAND starts" {
	local ran=$BATS_TEST_TMPDIR/ran

	fsn -s 2 run "$LIB:fix_add" --
	fsn -s 2 run "$LIB:fix_add" -p 1 -- touch "$ran"
	fsn -s 2 run "$LIB:fix_add" --number 3 -i 1 -- touch "$ran"
	assert_stderr_match 'stream excludes --interval and --watch'
	fsn -s 2 run "$LIB:fix_add" --sort nosuch -- touch "$ran"
	fsn -s 2 run "$LIB:fix_add" --stream -i 1 -- touch "$ran"
	fsn -s 2 run "$LIB:fix_add" --replace -- touch "$ran"
	fsn -s 2 run "$LIB:fix_add" --count --slow 1ms -- touch "$ran"
	assert_stderr_match 'slow cannot be combined with --count'
	fsn -s 2 run "$LIB:fix_add" --count --split -- touch "$ran"
	fsn -s 2 run "$LIB:fix_add" --count --hist -- touch "$ran"
	fsn -s 2 run "$LIB:fix_add" --tree --no-nesting -- touch "$ran"
	fsn -s 2 run "$LIB:fix_add" --tree --sample 2 -- touch "$ran"
	[[ ! -e $ran ]]
}

@test "run: a part of one name is enough, unless a function or two presets have it" {
	need_tool cc
	fsn run queue -d 0.1
	assert_stderr_match "^funcsnoop run: 'queue' is preset 'run-queue'$"
	fsn attach queue
	fsn list --json
	assert_json '.[0] | [.name, .libraries]' '["queue",["[scheduler]"]]'
	fsn detach queue
	echo 'int queue(int n) { return n; } int main(void) { return queue(0); }' >"$BATS_TEST_TMPDIR/own.c"
	cc -O0 -o "$BATS_TEST_TMPDIR/own" "$BATS_TEST_TMPDIR/own.c"
	fsn run queue --json -o "$BATS_TEST_TMPDIR/json" -- "$BATS_TEST_TMPDIR/own"
	refute_stderr_match "is preset"
	output=$(<"$BATS_TEST_TMPDIR/json")
	assert_json '.[0].functions | map([.name, .calls])' '[["queue",1]]'
	fsn -s 1 run cub
	assert_stderr_match "^funcsnoop run: cannot attach .*: no preset 'cub'$"
	fsn -s 1 attach g queue
	refute_stderr_match "is preset"
}
