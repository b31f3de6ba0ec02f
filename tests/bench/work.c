// SPDX-License-Identifier: BSD-2-Clause
// The workload: calls a function as often as it is told, and says how long that took.
//
//	work [CPU]	pinned to CPU. Reads "FUNCTION THREADS CALLS", answers with processor
//			and wall nanoseconds ("123 123"), until its input ends. CALLS is of all
//			threads together.
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

#define THREADS_MAX 64

/* A frame like a compiler's, so that entry, ret and chosen site are what is usual. */
#if defined(__x86_64__)
#define FRAME \
	"push %rbp\n\t.cfi_def_cfa_offset 16\n\tmov %rsp, %rbp\n\tmov %edi, %eax\n\t"
#define LEAVE "pop %rbp\n\t.cfi_def_cfa_offset 8\n\tret\n\t"
#define MARK  "endbr64\n\t"
#elif defined(__aarch64__)
#define FRAME "stp x29, x30, [sp, #-16]!\n\t.cfi_def_cfa_offset 16\n\tmov x29, sp\n\t"
#define LEAVE "ldp x29, x30, [sp], #16\n\t.cfi_def_cfa_offset 0\n\tret\n\t"
#define MARK  "hint #34\n\t" /* bti c */
#endif

#define FUNCTION(name, mark)                                                 \
	int name(int n);                                                     \
	asm(".text\n\t.p2align 4\n\t.globl " #name "\n\t.type " #name        \
	    ", %function\n" #name ":\n\t.cfi_startproc\n\t" mark FRAME LEAVE \
	    ".cfi_endproc\n\t.size " #name ", . - " #name "\n")

FUNCTION(bench_call, "");
FUNCTION(bench_endbr, MARK);

struct job {
	int (*fn)(int);
	unsigned long calls;
	pthread_barrier_t *start;
};

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static void *run(void *arg)
{
	const struct job *job = arg;

	if (job->start)
		pthread_barrier_wait(job->start);
	for (unsigned long i = 0; i < job->calls; i++)
		job->fn(i);
	return NULL;
}

static void run_threads(struct job job, unsigned int threads)
{
	pthread_t thread[THREADS_MAX];
	pthread_barrier_t start;
	uint64_t cpu, wall;

	pthread_barrier_init(&start, NULL, threads + 1);
	job.start = &start;
	job.calls /= threads;
	for (unsigned int i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, run, &job))
			die("cannot make threads");
	cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
	wall = now_ns(CLOCK_MONOTONIC);
	pthread_barrier_wait(&start);
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	printf("%lu %lu\n", now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu,
		now_ns(CLOCK_MONOTONIC) - wall);
	pthread_barrier_destroy(&start);
}

static void run_one(struct job job)
{
	uint64_t cpu = now_ns(CLOCK_THREAD_CPUTIME_ID), wall = now_ns(CLOCK_MONOTONIC);

	run(&job);
	printf("%lu %lu\n", now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu,
		now_ns(CLOCK_MONOTONIC) - wall);
}

int main(int argc, char **argv)
{
	unsigned int threads;
	char name[32];
	struct job job = {};
	cpu_set_t cpus;

	if (argc > 1) {
		CPU_ZERO(&cpus);
		CPU_SET(atoi(argv[1]), &cpus);
		if (sched_setaffinity(0, sizeof(cpus), &cpus))
			die_errno("cannot run on CPU %s", argv[1]);
	}
	while (scanf("%31s %u %lu", name, &threads, &job.calls) == 3) {
		if (!threads || threads > THREADS_MAX)
			die("%u threads: 1 to %d", threads, THREADS_MAX);
		job.fn = strcmp(name, "bench_endbr") ? bench_call : bench_endbr;
		if (threads == 1)
			run_one(job);
		else
			run_threads(job, threads);
		fflush(stdout);
	}
	return 0;
}
