// SPDX-License-Identifier: BSD-2-Clause
// The workload: calls a function a given number of times, and prints how long that took.
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
#define WARM_UP     8 /* calls of each thread */

/* Looks like a communicator of all three libraries; each call passes it. */
struct comm {
	char before[128];
	uint64_t hash;
	int rank, ranks, device;
};
static const struct comm comm = { .hash = 1, .ranks = 8 };

#define ACCESSOR(name, member)                                               \
	__attribute__((noinline, used)) int name(const struct comm *c, int *ret); \
	int name(const struct comm *c, int *ret)                             \
	{                                                                    \
		*ret = c->member;                                            \
		return 0;                                                    \
	}
ACCESSOR(ncclCommUserRank, rank)
ACCESSOR(ncclCommCount, ranks)
ACCESSOR(ncclCommCuDevice, device)

/* A frame like a compiler's, so that entry, ret and chosen site are what is usual. */
#if defined(__x86_64__)
#define FRAME \
	"push %rbp\n\t.cfi_def_cfa_offset 16\n\tmov %rsp, %rbp\n\tmov %edi, %eax\n\t"
#define LEAVE "pop %rbp\n\t.cfi_def_cfa_offset 8\n\tret\n\t"
#define MARK  "endbr64\n\t"
#define JUMP  "jmp 1f\n1:\n\t" /* before the ret */
#elif defined(__aarch64__)
#define FRAME "stp x29, x30, [sp, #-16]!\n\t.cfi_def_cfa_offset 16\n\tmov x29, sp\n\t"
#define LEAVE "ldp x29, x30, [sp], #16\n\t.cfi_def_cfa_offset 0\n\tret\n\t"
#define MARK  "hint #34\n\t" /* bti c */
#define JUMP  ""
#endif

#define FUNCTION(name, mark, jump)                                           \
	int name(int n, const struct comm *comm);                            \
	asm(".text\n\t.p2align 4\n\t.globl " #name "\n\t.type " #name        \
	    ", %function\n" #name ":\n\t.cfi_startproc\n\t" mark FRAME jump LEAVE \
	    ".cfi_endproc\n\t.size " #name ", . - " #name "\n")

FUNCTION(bench_call, "", "");
FUNCTION(bench_endbr, MARK, "");
FUNCTION(bench_early, "", JUMP);

/* One leads to a place by a jump, and the place is called by others, too. */
#if defined(__x86_64__)
#define LEAD "push %rbp\n\tpop %rbp\n\tjmp bench_place\n\t"
#else
#define LEAD "adr x9, .\n\tb bench_place\n\t"
#endif
FUNCTION(bench_place, "", "");
int bench_lead(int n, const struct comm *comm);
asm(".text\n\t.p2align 4\n\t.globl bench_lead\n\t.type bench_lead, %function\nbench_lead:\n\t"
    ".cfi_startproc\n\t" LEAD ".cfi_endproc\n\t.size bench_lead, . - bench_lead\n");

int bench_pair(int n, const struct comm *comm);
__attribute__((noinline)) int bench_pair(int n, const struct comm *comm)
{
	return bench_lead(n, comm) + bench_place(n, comm);
}

/*
 * An allocator that costs almost nothing and reuses freed blocks. It starts with a nop,
 * because the kernel would single-step other instructions.
 */
void *bench_malloc(unsigned long size);
__attribute__((noinline, patchable_function_entry(1))) void *bench_malloc(unsigned long size)
{
	static char blocks[64][64];
	static unsigned int at;
	void *block = blocks[__atomic_fetch_add(&at, 1, __ATOMIC_RELAXED) % 64];

	asm volatile("" : "+r"(block) : "r"(size));
	return block;
}

void bench_free(void *block);
__attribute__((noinline, patchable_function_entry(1))) void bench_free(void *block)
{
	asm volatile("" : : "r"(block) : "memory");
}

static int bench_heap(int n, const struct comm *comm)
{
	bench_free(bench_malloc(64 + (n & 7)));
	return n;
}

struct job {
	int (*fn)(int n, const struct comm *comm);
	unsigned long calls;
	pthread_barrier_t *barrier;
	uint64_t start_ns, end_ns, cpu_ns;
};

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* A function that can be probed, too: its calls are then in one. */
__attribute__((noinline)) void bench_loop(const struct job *job);
void bench_loop(const struct job *job)
{

	for (unsigned long i = 0; i < job->calls; i++)
		job->fn(i, &comm);
}

/* The first calls are not timed: the kernel prepares the thread. Nor is the thread's end. */
static void *run_thread(void *arg)
{
	struct job *job = arg;

	for (int i = 0; i < WARM_UP; i++)
		job->fn(i, &comm);
	pthread_barrier_wait(job->barrier);
	job->start_ns = now_ns(CLOCK_MONOTONIC);
	job->cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
	bench_loop(job);
	job->cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - job->cpu_ns;
	job->end_ns = now_ns(CLOCK_MONOTONIC);
	return NULL;
}

/* From the first thread's start to the last one's end: the main thread may wake up late. */
static void run_threads(struct job job, unsigned int threads)
{
	uint64_t cpu = 0, first = UINT64_MAX, last = 0;
	pthread_t thread[THREADS_MAX];
	struct job jobs[THREADS_MAX];
	pthread_barrier_t barrier;

	pthread_barrier_init(&barrier, NULL, threads);
	job.barrier = &barrier;
	job.calls = job.calls / threads - WARM_UP;
	for (unsigned int i = 0; i < threads; i++) {
		jobs[i] = job;
		if (pthread_create(&thread[i], NULL, run_thread, &jobs[i]))
			die("cannot make threads");
	}
	for (unsigned int i = 0; i < threads; i++) {
		pthread_join(thread[i], NULL);
		cpu += jobs[i].cpu_ns;
		first = jobs[i].start_ns < first ? jobs[i].start_ns : first;
		last = jobs[i].end_ns > last ? jobs[i].end_ns : last;
	}
	pthread_barrier_destroy(&barrier);
	printf("%lu %lu\n", cpu, last - first);
}

static void run_one(struct job job)
{
	uint64_t cpu = now_ns(CLOCK_THREAD_CPUTIME_ID), wall = now_ns(CLOCK_MONOTONIC);

	bench_loop(&job);
	printf("%lu %lu\n", now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu,
		now_ns(CLOCK_MONOTONIC) - wall);
}

/*
 * The same below this number of additional frames: with those of the C library it is one
 * of 16, or of 44.
 */
#define FRAMES_OWN 6 /* bench_loop(), run_one(), main() and what calls that */
static __attribute__((noinline)) void run_below(struct job job, int frames)
{
	if (frames > 1)
		run_below(job, frames - 1);
	else
		run_one(job);
	asm volatile("" : : : "memory"); /* a call, not a jump */
}

static int (*function_of(const char *name))(int n, const struct comm *comm)
{
	if (!strcmp(name, "bench_pair"))
		return bench_pair;
	if (!strcmp(name, "bench_heap"))
		return bench_heap;
	if (!strcmp(name, "bench_early"))
		return bench_early;
	return strcmp(name, "bench_endbr") ? bench_call : bench_endbr;
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
		if (!threads || threads > THREADS_MAX || job.calls / threads <= WARM_UP)
			die("%u threads, %lu calls", threads, job.calls);
		job.fn = function_of(name);
		if (!strncmp(name, "below", 5))
			run_below(job, atoi(name + 5) - FRAMES_OWN);
		else if (threads == 1)
			run_one(job);
		else
			run_threads(job, threads);
		fflush(stdout);
	}
	return 0;
}
