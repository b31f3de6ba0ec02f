#!/usr/bin/env bats
# SPDX-License-Identifier: BSD-2-Clause
# funcsnoop stack: where each thread of a process is, and what it waits for.
# bats file_tags=bpf

load helpers

LOCKS=$FIX/locks

setup() {
	common_setup
	need_bpf
	need_tool jq
	start_bg locks "$LOCKS"
	wait_line locks '^ready$'
	pid=$(bg_pid locks)
	poll_until all_wait
}

teardown() {
	stop_bg locks
	common_teardown
}

tids() { # NAME of thread
	grep -lx "$1" "/proc/$pid"/task/*/comm | cut -d/ -f5
}

# Each thread is where it stays.
all_wait() {
	[[ $(grep -c '^State:.*sleeping' "/proc/$pid"/task/*/status | grep -c ':1$') == 6 ]] &&
		[[ $(tids waiter | wc -l) == 3 && -n $(tids reader) ]]
}

# Where all threads are: one that gets no CPU while it is sampled has no stack, and a note says so.
all_stacks() { # ARG...
	local i

	for i in {1..20}; do
		fsn stack "$pid" "$@"
		[[ $stderr != *" thread runs: "* && $output != *'"frames":[]'* ]] && return
	done
}

@test "stack: each thread has its system call, and what it waits for" {
	all_stacks --json
	assert_json '[.[] | select(.comm != "runner") | [.comm, .state, .syscall]] | sort' \
		'[["holder","S","clock_nanosleep"],["locks","S","read"],["reader","S","read"],["waiter","S","futex"],["waiter","S","futex"],["waiter","S","futex"]]'
	assert_json '[.[] | select(.comm == "waiter").lock_owner] | unique' "[$(tids holder)]"
	assert_json '.[] | select(.comm == "reader").file | test("^pipe:\\[[0-9]+\\]$")' true
	assert_json '[.[] | select(.comm != "waiter").lock_owner] | unique' '[null]'
	assert_json '.[] | select(.comm == "runner") | [.state, .syscall, .waited_ns, .stack.end]' \
		'["R",null,null,"outermost"]'
	assert_json '[.[].pid] | unique' "[$pid]"
}

@test "stack: each thread has the frames that gdb has" {
	need_tool gdb
	all_stacks --json
	json '.[] | "\(.tid) " + ([.stack.frames[].name
		| select(test("^(lock_|hold$|want$|take$|spin$|main$)"))] | join(" "))' |
		sort >"$BATS_TEST_TMPDIR/own"
	gdb -nx -batch -p "$pid" -ex "thread apply all bt" 2>/dev/null |
		awk '/^Thread / { split($0, w, "LWP "); tid = w[2] + 0 }
			/^#/ { name = $2 ~ /^0x/ ? $4 : $2
				if (name ~ /^(lock_|hold$|want$|take$|spin$|main$)/) frames[tid] = frames[tid] " " name }
			END { for (tid in frames) print tid frames[tid] }' | sort >"$BATS_TEST_TMPDIR/gdb"
	diff -u "$BATS_TEST_TMPDIR/gdb" "$BATS_TEST_TMPDIR/own" >&2
	assert_eq "$(wc -l <"$BATS_TEST_TMPDIR/own")" 7
}

@test "stack: threads with the same stack are one block of lines" {
	local lines time=' for [0-9.]+ m?s( to [0-9.]+ m?s)?'

	all_stacks
	mapfile -t lines < <(tids waiter | sort -n)
	assert_output_match "^${lines[0]}, ${lines[1]}, ${lines[2]} waiter: waits in futex: mutex at 0x[0-9a-f]+ held by $(tids holder) holder$time$"
	assert_output_match "^$(tids reader) reader: waits in read of pipe:\[[0-9]+\]$time$"
	assert_output_match "^$(tids holder) holder: waits in clock_nanosleep$time$"
	assert_output_match "^$(tids runner) runner: runs$"
	assert_eq "$(grep -c '^    lock_want$' <<<"$output")" 1
	refute_output_match '_\[k\]$'
	assert_output_match '^    spin$'
	assert_stderr ""
	fsn stack "$pid" "$(tids reader)" -v
	assert_output_match '^    .*pipe_read_\[k\]$'
	assert_output_match '^    lock_read$'
	refute_output_match holder
}

@test "stack: no thread of the program is woken" {
	local i before

	before=$(grep voluntary "/proc/$pid/task/$(tids reader)/status")
	for i in {1..20}; do
		fsn stack "$pid"
	done
	assert_eq "$(grep voluntary "/proc/$pid/task/$(tids reader)/status")" "$before"
	# At the end of its input it ends as it does.
	stop_bg locks
	start_bg locks "$LOCKS"
	wait_line locks '^ready$'
}

# It runs for a while before it waits: the wait begins after that. The scheduler's clock stands while
# interrupts are handled and other guests run: the difference of the program's own two clocks.
@test "stack: a thread waits since it last ran" {
	local began until

	start_bg waits python3 -c 'import time
start, used = time.monotonic_ns(), time.thread_time_ns()
while time.monotonic_ns() < start + 5e8: pass
end = time.monotonic_ns()
print(end - ((end - start) - (time.thread_time_ns() - used)), flush=True)
time.sleep(600)'
	wait_line waits '^[0-9]+$'
	began=$(<"$(bg_out waits)")
	poll_until grep -q '^State:.*sleeping' "/proc/$(bg_pid waits)/status"
	sleep 0.3
	fsn stack "$(bg_pid waits)" --json
	until=$(python3 -c 'import time; print(time.monotonic_ns())')
	assert_json ".[0].waited_ns | . >= 300000000 and . <= $until - $began" true
	stop_bg waits
}

@test "stack: 100 threads of Python are read with few system calls" {
	need_tool python3 strace
	local reads=$BATS_TEST_TMPDIR/reads

	start_bg py python3 -c 'import threading, time
def deep(n):
    deep(n - 1) if n else time.sleep(600)
for i in range(100):
    threading.Thread(target=deep, args=(20,), daemon=True).start()
print("ready", flush=True)
time.sleep(600)'
	wait_line py ready
	capture strace -f -qq -o "$reads" -e trace=process_vm_readv "$FUNCSNOOP" stack "$(bg_pid py)"
	assert_eq "$(grep -c '^    deep (<string>:3)$' <<<"$output")" 21
	(($(wc -l <"$reads") < 20000))
	stop_bg py
}

# Its Python frames change while they are read: they are not shown.
@test "stack: a thread that runs Python has the interpreter's frames, and a remark" {
	need_tool python3
	start_bg spin python3 -c 'print("ready", flush=True)
while True: pass'
	wait_line spin '^ready$'
	fsn stack "$(bg_pid spin)" --json
	assert_json '.[0] | [.state, .stack.end, any(.stack.frames[]; .name == "<module>")]' '["R","outermost",false]'
	fsn stack "$(bg_pid spin)"
	assert_stderr "funcsnoop stack: 1 thread runs: 'funcsnoop run cpu -p $(bg_pid spin) -d 1 --by stack' shows where"
	stop_bg spin
}

# A thread that waits in two ways in turn, each for $1 us.
alternate() { # US
	need_tool cc
	cc -O1 -D_GNU_SOURCE -fno-omit-frame-pointer -x c -o "$BATS_TEST_TMPDIR/own" - <<-'END'
		#include <poll.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <time.h>
		__attribute__((noinline)) void by_sleep(long ns)
		{
			nanosleep(&(struct timespec) { .tv_nsec = ns }, NULL);
			__asm__ volatile("" ::: "memory");
		}
		__attribute__((noinline)) void by_poll(long ns)
		{
			ppoll(NULL, 0, &(struct timespec) { .tv_nsec = ns }, NULL);
			__asm__ volatile("" ::: "memory");
		}
		int main(int argc, char **argv)
		{
			puts("ready");
			fflush(stdout);
			for (;;) {
				by_sleep(atol(argv[1]) * 1000);
				by_poll(atol(argv[1]) * 1000);
			}
		}
	END
	start_bg own "$BATS_TEST_TMPDIR/own" "$1"
	wait_line own ready
}

@test "stack: the call, the kernel's frames and the stack are those of one wait" {
	local us i

	for us in 150 2000 20000; do
		alternate "$us"
		for i in {1..15}; do
			fsn stack "$(bg_pid own)" --json
			assert_json '.[0] | .syscall as $call | (.kernel | join(" ")) as $kernel | select(.state == "S")
				| [.stack.frames[].name | select(startswith("by_"))]
				| if $call == "ppoll" then (. == ["by_poll"] and ($kernel | test("poll")))
				  else (. == ["by_sleep"] and ($kernel | test("nanosleep"))) end | select(not)' ''
		done
		stop_bg own
	done
}

@test "list inflight: a stack has the function of the call, or is absent" {
	local us i

	for us in 150 2000 20000; do
		alternate "$us"
		fsn attach w by_sleep by_poll --lib "$BATS_TEST_TMPDIR/own" -p "$(bg_pid own)" --overhead none
		for i in {1..15}; do
			fsn list inflight w --stack --json
			assert_json '.[] | .function as $f | select(.stack.frames)
				| select(any(.stack.frames[]; .name == $f) | not)' ''
		done
		fsn detach w
		stop_bg own
	done
}

@test "stack: a thread that runs where the CPU clock cannot be had is only named" {
	need_tool strace
	capture strace -f -qq -o /dev/null -e trace=perf_event_open \
		-e inject=perf_event_open:error=EACCES "$FUNCSNOOP" stack "$pid" "$(tids runner)"
	assert_output "$(tids runner) runner: runs"
	assert_stderr "funcsnoop stack: 1 thread runs: 'funcsnoop run cpu -p $pid -d 1 --by stack' shows where"
}

@test "stack: --format has the threads by stack, as lines or as a flame graph" {
	local page=$BATS_TEST_TMPDIR/page.html

	fsn stack "$pid" --format folded
	assert_output_match '^waiter;([a-z0-9_]+;)*lock_want;[a-z0-9_;]+ 3$'
	assert_output_match '^reader;([a-z0-9_]+;)*lock_read;read 1$'
	fsn stack "$pid" --format folded -v
	assert_output_match '^reader;([a-z0-9_]+;)*lock_read;read;.*_\[k\] 1$'
	"$FUNCSNOOP" stack "$pid" --format flame >"$page"
	output=$(sed -n 's/^const data = \(.*\);$/\1/p' "$page")
	assert_json '[.title, .figures[0].name, .root[1]]' "[\"stack $pid\",\"threads\",7]"
	assert_json '.names as $names | [.root | .. | arrays | select(length > 3 and (.[0] | type) == "number")
		| select($names[.[0]] == "lock_want")[1]]' '[3]'
	fsn -s 2 stack "$pid" --format flame --json
	assert_stderr_match '^funcsnoop stack: --format cannot be combined with --json$'
}

@test "stack: --lines adds lines of the source" {
	fsn stack "$pid" --lines
	assert_output_match '^    lock_read \(locks.c:[0-9]+\)$'
}

@test "stack: an unknown process or thread and a word that is not a number are errors" {
	fsn -s 1 stack 4194000
	assert_stderr "funcsnoop stack: there is no process 4194000"
	fsn -s 1 stack "$pid" 1
	assert_stderr "funcsnoop stack: process $pid has no thread 1"
	fsn -s 2 stack abc
	assert_stderr_match "^funcsnoop stack: 'abc' is not the number of a process or thread$"
	fsn -s 2 stack
	assert_stderr_match "^funcsnoop stack: no process given"
	fsn -s 1 stack 4194000 --json
	assert_json '.error | test("there is no process 4194000")' true
}

@test "stack: a thread of the kernel waits, in no system call" {
	[[ $(cat /proc/2/comm 2>/dev/null) == kthreadd ]] || skip "kthreadd is not process 2 here"
	fsn stack 2 --json
	assert_json '.[0] | [.comm, .state, .syscall, .stack.frames]' '["kthreadd","S",null,null]'
	fsn stack 2
	assert_output "2 kthreadd: waits"
	assert_stderr ""
}

@test "stack: a process that must not be read is an error, not one that has ended" {
	need_tool strace
	capture -s 1 strace -f -qq -o /dev/null -P "/proc/$pid/task/$pid/syscall" -e trace=openat,read \
		-e inject=openat:error=EACCES "$FUNCSNOOP" stack "$pid"
	assert_stderr_match "^funcsnoop stack: cannot look at process $pid: Permission denied$"
}

# Its file is mapped in three parts; it calls code that it has made, and the vDSO.
@test "stack: code in other parts of a file, JIT code and the vDSO have names" {
	need_arch x86_64
	need_tool cc
	local own=$BATS_TEST_TMPDIR/own

	cc -O1 -D_GNU_SOURCE -o "$own" -x c - <<-'END'
		#include <stdio.h>
		#include <string.h>
		#include <sys/mman.h>
		#include <time.h>
		#include <unistd.h>
		__attribute__((aligned(4096), noinline)) void apart(void) { __asm__ volatile(""); }
		__attribute__((aligned(4096), noinline)) int waits(void) { return pause(); }
		__attribute__((noinline)) int spins(void)
		{
			struct timespec t;
			for (;;)
				clock_gettime(CLOCK_MONOTONIC, &t);
		}
		int main(int argc, char **argv)
		{
			/* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret */
			static const char code[] = "\x55\x48\x89\xe5\xff\xd7\x5d\xc3";
			int (*made)(int (*)(void)) = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			memcpy(made, code, sizeof(code));
			mprotect(apart, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
			printf("%lx\n", (unsigned long)made);
			fflush(stdout);
			return made(argc > 1 ? spins : waits);
		}
	END
	start_bg own "$own"
	wait_line own '^[0-9a-f]+$'
	pid=$(bg_pid own)
	poll_until grep -q '^State:.*sleeping' "/proc/$pid/status"
	fsn stack "$pid"
	assert_output_match '^    waits$'
	assert_output_match '^    0x[0-9a-f]+$'
	assert_output_match '^    main$'
	assert_stderr "funcsnoop stack: JIT code of process $pid has no names: it writes no /tmp/perf-$pid.map"
	echo "$(<"$(bg_out own)") 1000 made_here" >"/tmp/perf-$pid.map"
	fsn stack "$pid"
	rm "/tmp/perf-$pid.map"
	assert_output_match '^    waits
    made_here
    main$'
	assert_stderr ""
	stop_bg own
	start_bg own "$own" spin
	wait_line own '^[0-9a-f]+$'
	poll_until eval 'fsn stack "$(bg_pid own)" && [[ $output == *"    __vdso_clock_gettime"*"    spins"* ]]'
	stop_bg own
}

@test "stack: a 32-bit program's stack is marked" {
	need_arch x86_64
	need_tool as ld
	local own=$BATS_TEST_TMPDIR/own

	as --32 -o "$own.o" - <<-'END'
		.globl _start
		_start:	xor %ebp, %ebp
			call inner
		inner:	mov $29, %eax
			int $0x80
			jmp inner
	END
	ld -m elf_i386 -o "$own" "$own.o"
	"$own" & # pause(2)
	pid=$!
	poll_until grep -q '^State:.*sleeping' "/proc/$pid/status" || skip "the kernel runs no 32-bit programs"
	fsn stack "$pid"
	kill "$pid"
	assert_output_match '^    \[truncated: file without an unwind table\]$'
}

@test "stack: samples of 60 threads that run are taken at once" {
	need_tool cc strace
	local waits=$BATS_TEST_TMPDIR/waits

	cc -O1 -pthread -o "$BATS_TEST_TMPDIR/own" -x c - <<-'END'
		#include <pthread.h>
		#include <stdio.h>
		#include <unistd.h>
		static volatile unsigned long n;
		static void *spins(void *arg)
		{
			for (;;)
				n++;
		}
		int main(void)
		{
			pthread_t thread;
			for (int i = 0; i < 60; i++)
				pthread_create(&thread, NULL, spins, NULL);
			puts("ready");
			fflush(stdout);
			return pause();
		}
	END
	start_bg own "$BATS_TEST_TMPDIR/own"
	wait_line own ready
	capture strace -f -qq -o "$waits" -e trace=clock_nanosleep,poll "$FUNCSNOOP" stack "$(bg_pid own)" --json
	(($(wc -l <"$waits") < 300))
	assert_json '[.[].stack.frames // [] | select(any(.[]; .name == "spins"))] | length > 20' true
	stop_bg own
}
