#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# Commands of other tracers are answered with a line that works here.

# shellcheck disable=SC2016,SC2030,SC2031,SC2086,SC2154

load helpers

HABITS='record stat profile report top trace strace funccount funclatency offcputime offwaketime memleak
	probe ltrace sched runqlat syscount stackcount argdist execsnoop opensnoop statsnoop killsnoop biolatency tcpconnect
	gethostlatency tplist gdb wakers wakeup sched_wakeup wakeuptime'

# The line of the hint, as words behind "funcsnoop".
hinted() { # COMMAND
	fsn -s 2 "$1"
	assert_output ""
	assert_stderr_match "^funcsnoop: unknown command '$1'$"
	line=$(sed -n "s/^hint: run 'funcsnoop \(.*\)'\($\|:.*\)/\1/p" <<<"$stderr")
	[[ -n $line ]] || fail "no line for $1"
}

@test "commands of other tracers: the error names a line that is valid usage" {
	local c line spec

	for c in $HABITS; do
		hinted "$c"
		fsn ${line/PID/$$} --usage
	done
	fsn -s 2 strace -f -p 17
	assert_stderr_match "^hint: run 'funcsnoop run syscalls -p 17 --stream'$"
	fsn -s 2 record -p 17
	assert_stderr_match "^hint: run 'funcsnoop run cpu -d 10 --by stack -p 17'$"
	fsn -s 2 strace ls -l
	assert_stderr_match "^hint: run 'funcsnoop run syscalls --stream -- ls -l'$"
	fsn -s 2 strace -fc -o out ls -l
	assert_stderr_match "^hint: run 'funcsnoop run syscalls -- ls -l'$"
	fsn -s 2 strace -c -p 17
	assert_stderr_match "^hint: run 'funcsnoop run syscalls -p 17'$"
	fsn -s 2 strace -e trace=connect ls -c
	assert_stderr_match "^hint: run 'funcsnoop run syscalls --stream -- ls -c'$"
	fsn -s 2 perf stat ls -l
	assert_stderr_match "^hint: run 'funcsnoop run cpu -- ls -l'$"
	fsn -s 2 gdb -p 17
	assert_stderr_match "^hint: run 'funcsnoop stack 17'$"
	fsn -s 2 record -- ls
	assert_stderr_match "^hint: run 'funcsnoop run cpu --by stack -- ls'$"
	fsn -s 2 record -F 99 -g ls -l
	assert_stderr_match "^hint: run 'funcsnoop run cpu --by stack -- ls -l'$"
	fsn -s 2 stat -p 17
	assert_stderr_match "^hint: run 'funcsnoop run cpu -d 10 -p 17'$"
	fsn -s 2 offcputime -p 17 1
	assert_stderr_match "^hint: run 'funcsnoop run off-cpu -p 17 --by stack -d 1'$"
	fsn -s 2 funclatency c:malloc -p 17 1 10
	assert_stderr_match "^hint: run 'funcsnoop run c:malloc --show hist -p 17 -d 1'$"
	fsn -s 2 biolatency 1
	assert_stderr_match "^hint: run 'funcsnoop run s:fsync .* -d 1 --show hist': times of system calls, not of requests to the disk$"
	fsn -s 2 report 1
	assert_stderr_match "^hint: run 'funcsnoop stats'$"
	fsn -s 2 trace c:malloc
	assert_stderr_match "^hint: run 'funcsnoop run c:malloc --stream'$"
	fsn -s 2 funclatency c:malloc -p 17
	assert_stderr_match "^hint: run 'funcsnoop run c:malloc --show hist -p 17'$"
	while IFS='|' read -r spec line; do
		fsn -s 2 argdist -H "$spec"
		assert_stderr_match "^hint: run 'funcsnoop run $line'$"
	done <<-'END'
		p:c:malloc(size_t size):size_t:size|c:malloc --by arg1
		p:c:calloc(size_t nmemb, size_t size):size_t:size#bytes|c:calloc --by arg2
		r:c:read(int fd):int:$retval|c:read --by result
		p::vfs_read(void *file):u64:file|k:vfs_read --by arg1
		c:malloc|c:malloc --by arg1
		prog:main.(*Store).Save|prog:main[.][(][*]Store[)][.]Save --by arg1
	END
	fsn -s 2 ltrace ls
	assert_stderr_match "^hint: run 'funcsnoop run LIB:FUNCTION -p PID --stream'$"
	fsn -s 2 --json record
	assert_json 'keys' '["error"]'
}

# bats test_tags=bpf
@test "commands of other tracers: run and attach answer them with the same line" {
	need_bpf
	fsn -s 1 run execsnoop -d 1
	assert_stderr_match "^hint: run 'funcsnoop run t:sched:sched_process_exec --stream'$"
	fsn -s 1 run profile -p $$
	assert_stderr_match "^hint: run 'funcsnoop run cpu -d 10 --by stack -p $$'$"
	fsn -s 1 attach memleak -p $$
	assert_stderr_match "^hint: run 'funcsnoop run malloc -p $$ --with memory'$"
}

# bats test_tags=bpf
@test "commands of other tracers: the line counts what it is for" {
	local c line

	need_bpf
	for c in trace funccount funclatency stackcount; do
		hinted "$c"
		line=${line/LIB:FUNCTION/$FIX/libfix.so:fix_add}
		fsn $line -- "$FIX/call" add 7
		assert_stderr_match '^fix_add +7 |count = 7$|^100[.]0 +(.* > )?fix_add +7 '
	done
	hinted biolatency
	fsn ${line/ -d 10/} -- dd if=/dev/zero of="$BATS_TEST_TMPDIR/file" count=1 conv=fsync status=none
	assert_stderr_match '^Function = fsync$'
	fsn -s 2 argdist -C "p:$FIX/libfix.so:fix_add(int a, int b):int:a"
	line=$(sed -n "s/^hint: run 'funcsnoop \(.*\)'$/\1/p" <<<"$stderr")
	fsn $line -- "$FIX/call" add 7
	assert_stderr_match '^fix_add +.* 7 '
	hinted probe
	line=${line/GROUP/g}
	fsn ${line/LIB:FUNCTION/$FIX/libfix.so:fix_add}
	capture "$FIX/call" add 7
	hinted report
	fsn $line
	assert_output_match '^fix_add +7 '
	fsn detach g
	hinted tplist
	fsn ${line/LIB/$FIX/events}
	assert_output_match '^u:.*:tick '
}

# bats test_tags=bpf
@test "commands of other tracers: the line watches a process" {
	local c line said

	need_bpf
	for c in strace ltrace syscount memleak offcputime offwaketime; do
		hinted "$c"
		start_bg fix bash -c 'echo "ready "; read -r; for i in 1 2 3; do /bin/true; done; exec "$0" add 7' \
			"$FIX/call"
		wait_ready fix
		line=${line/LIB:FUNCTION/$FIX/libfix.so:fix_add}
		line=${line/-d 10/}
		start_bg r "$FUNCSNOOP" ${line/PID/$(bg_pid fix)} --json
		said='attached to'
		[[ $line != *--stream* ]] || said=watching
		poll_until grep -q "$said" "$(bg_err r)"
		tell fix
		wait_bg fix
		stop_bg -INT r
		[[ $status == 0 ]] || fail "status $status of $line: $stderr"
		case $c in
		strace) grep -q '"function":"write"' "$(bg_out r)" ;;
		ltrace) assert_eq "$(grep -c '"function":"fix_add"' "$(bg_out r)")" 7 ;;
		syscount) jq -e '.[0].functions | any(.name == "write")' "$(bg_out r)" ;;
		memleak) jq -e '.[0].functions | length > 0' "$(bg_out r)" ;;
		off*) jq -e '.[0].functions[0] | .name == "off-cpu" and .calls > 1' "$(bg_out r)" ;;
		esac || fail "$c: $(cat "$(bg_out r)")"
	done
}

# bats test_tags=bpf
@test "commands of other tracers: the line samples, or watches all processes" {
	local c line

	need_bpf
	need_tracefs
	for c in record profile top sched runqlat; do
		hinted "$c"
		[[ $line == *'-d 10'* ]] || fail "no duration: $line"
		fsn ${line/-d 10/-d 1}
		assert_output_match 'since'
	done
	for c in execsnoop opensnoop; do
		hinted "$c"
		start_bg r "$FUNCSNOOP" $line --json
		poll_until grep -q watching "$(bg_err r)"
		"$FIX/call" --quiet add 1 >/dev/null
		sleep 0.5
		stop_bg -INT r
		grep -qE "(sched_process_exec|openat).*$FIX|$FIX.*(sched_process_exec|openat)" "$(bg_out r)" ||
			fail "$c: $(tail -n 5 "$(bg_out r)")"
	done
}

# bats test_tags=bpf
@test "options of other tracers: the error names what does the same" {
	need_bpf
	need_option "run -e openat" "a system call is a FUNCTION such as 's:openat'"
	fsn run s:openat -p $$ -d 0.1
	need_option "run -F 99 cpu" "did you mean '--sample 99hz'?"
	fsn run cpu --sample 99hz -d 0.1
	need_option "run -g cpu" "did you mean '--by stack'?"
	need_option "list inflight -p 1" "did you mean 'funcsnoop stack PID'?"
	need_option "run -k cpu" "did you mean '--by stack'?"
	fsn run cpu --by stack -d 0.1
	need_option "-l" "did you mean 'funcsnoop list targets LIB'?"
	need_option "run -c ./own" "a COMMAND comes last: '-- ./own'"
	need_option "run s:read -c -- true" "a COMMAND comes last: '-- COMMAND'"
	need_option "run -c --" "a COMMAND comes last: '-- COMMAND'"
	fsn list targets 's:get*'
	need_option "-c true" "did you mean 'funcsnoop run syscalls -- true'?"
	fsn run syscalls -- true
	need_option "-c -p 17" "did you mean 'funcsnoop run syscalls -p 17'?"
	need_option "-e openat" "did you mean 'funcsnoop run s:openat'?"
	need_option "-e s:openat" "did you mean 'funcsnoop run s:openat'?"
	fsn -s 2 -e 'kprobe:x { }'
	assert_stderr_match "^funcsnoop: unknown option '-e'; did you mean 'run'[?]$"
	fsn -s 2 -e
	assert_stderr_match "^funcsnoop: unknown option '-e'; did you mean 'run'[?]$"
	fsn -s 2 stats -e
	assert_stderr_match "^funcsnoop stats: unknown option '-e'$"
}

need_option() { # ARGS TEXT
	fsn -s 2 $1
	assert_stderr_match "unknown option '-.'; ${2//\?/[?]}$"
}
