// SPDX-License-Identifier: BSD-2-Clause
// Cost of an operation: "WALL_MS PROCESSOR_MS SYSTEM_MS PEAK_KB" on descriptor 3.
//
//	spend cpu			a loop of arithmetic: no system call, no probe
//	spend calls MILLIONS		system calls that do next to nothing
//	spend locks CPU COUNT		waits in futex(2), each ended by another thread
//	spend exec COUNT CMD...		COUNT times fork, exec, wait
//	spend run CMD...		CMD once; its status is the result
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define LOOPS 10000000UL

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e3 + ts.tv_nsec / 1e6;
}

static double ms(const struct timeval *tv)
{
	return tv->tv_sec * 1e3 + tv->tv_usec / 1e3;
}

static void spin(void)
{
	for (uint64_t i = 0, x = 1; i < LOOPS; i++) {
		x = x * 6364136223846793005ULL + 1;
		asm volatile("" : "+r"(x));
	}
}

static void call(long cnt)
{
	while (cnt--)
		syscall(SYS_getppid);
}

static int turn; /* of one of two threads */

/* Waits for turn @own, @cnt times, and gives it to the other thread. */
static void take_turns(int own, long cnt)
{
	while (cnt--) {
		while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != own)
			syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, !own, NULL);
		__atomic_store_n(&turn, !own, __ATOMIC_RELEASE);
		syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1);
	}
}

static void *other(void *cnt)
{
	take_turns(1, *(long *)cnt);
	return NULL;
}

static void locks(int cpu, long cnt)
{
	pthread_t thread;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die_errno("cannot run on CPU %d", cpu);
	cnt /= 2;
	if (pthread_create(&thread, NULL, other, &cnt))
		die("cannot start a thread");
	take_turns(0, cnt);
	pthread_join(thread, NULL);
}

static int run(char **argv)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		die_errno("cannot fork");
	if (!pid) {
		execvp(argv[0], argv);
		die_errno("cannot run %s", argv[0]);
	}
	if (waitpid(pid, &status, 0) != pid)
		die_errno("cannot wait for %s", argv[0]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

int main(int argc, char **argv)
{
	double start = now_ms();
	struct rusage self, use;
	int code = 0;

	if (argc == 2 && !strcmp(argv[1], "cpu")) {
		spin();
	} else if (argc == 3 && !strcmp(argv[1], "calls")) {
		call(atol(argv[2]) * 1000000);
	} else if (argc == 4 && !strcmp(argv[1], "locks")) {
		locks(atoi(argv[2]), atol(argv[3]));
	} else if (argc > 3 && !strcmp(argv[1], "exec")) {
		for (int i = atoi(argv[2]); i > 0 && !code; i--)
			code = run(argv + 3);
	} else if (argc > 2 && !strcmp(argv[1], "run")) {
		code = run(argv + 2);
	} else {
		die("usage: spend cpu | calls MILLIONS | locks CPU COUNT | exec COUNT CMD... | run CMD...");
	}
	start = now_ms() - start;
	getrusage(RUSAGE_SELF, &self);
	getrusage(RUSAGE_CHILDREN, &use);
	dprintf(3, "%.3f %.3f %.3f %ld\n", start,
		ms(&self.ru_utime) + ms(&self.ru_stime) + ms(&use.ru_utime) +
			ms(&use.ru_stime),
		ms(&use.ru_stime), use.ru_maxrss);
	return code;
}
