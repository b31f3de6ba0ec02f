/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Run time of the programs, measured by themselves: what a group costs depends on its keys, stacks,
 * memory and streams, and on what the caches hold, so that no calibration can tell.
 *
 * A clock read costs a tenth of a program, so that it is done for a sample of the hits. Each stands
 * for as many as it was chosen from. The first hits of a function are all measured, because few
 * calls have no sample otherwise, and because the first stack walks take much longer than later
 * ones. A multiple of the hit's number chooses the others (the golden ratio times 2^32, modulo
 * 2^32): that spreads them evenly, without a period that a rhythm of the program could have, too.
 *
 * A program that was preempted has measured other threads: it is left out.
 */
#ifndef FUNCSNOOP_RUN_BPF_H
#define FUNCSNOOP_RUN_BPF_H

#include "filter.bpf.h"

/*
 * When a measurement began (ns), the low bits of how often the thread was preempted until then,
 * whether the hit is chosen, and whether it stands for more than one: one word, because stacks are
 * full.
 */
#define RUN_SHIFT       5
#define RUN_CHOSEN      16U
#define RUN_MANY        8U
#define RUN_PREEMPTIONS 7U

#define RUN_NOW         (~0ULL)

enum run_of { RUN_ENTRY, RUN_END };

static __always_inline __u64 run_preemptions(const struct task_struct *task)
{
	return task->nivcsw & RUN_PREEMPTIONS;
}

/* @task is the current one: to ask for it is a call. */
static __always_inline __u64 run_begin(const struct task_struct *task)
{
	return bpf_ktime_get_ns() << RUN_SHIFT | run_preemptions(task);
}

/* The time at which it began. A compiler that kept it next to @run would need more stack. */
static __always_inline __u64 run_time(__u64 run)
{
	asm volatile("" : "+r"(run));
	return run >> RUN_SHIFT;
}

/* RUN_CHOSEN if hit @nth is chosen, with RUN_MANY unless it is one of the first; else 0. */
static __always_inline __u32 run_chosen(__u64 nth)
{
	if (nth < FSN_RUNS_FIRST)
		return RUN_CHOSEN;
	return (__u32)nth * 0x9e3779b1U >> (32 - fsn_runs_bits) ? 0 : RUN_CHOSEN | RUN_MANY;
}

/* A chosen measurement of a hit of @fn is over. Not static, so that it is verified once. */
__noinline int run_over(__u64 run, __u32 fn, int of)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());
	__u64 ns = bpf_ktime_get_ns() - (run >> RUN_SHIFT), hits = 1;

	if (!stat || (run ^ run_preemptions(bpf_get_current_task_btf())) & RUN_PREEMPTIONS)
		return 0;
	if (run & RUN_MANY)
		hits <<= fsn_runs_bits;
	if (of == RUN_END) {
		add(&stat->n.end_ns, ns * hits);
		add(&stat->n.end_runs, hits);
	} else {
		add(&stat->n.entry_ns, ns * hits);
		add(&stat->n.entry_runs, hits);
	}
	return 0;
}

/* More of the same entry, from @began on. */
__noinline int run_more(__u64 began, __u64 run, __u32 fn)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());
	__u64 ns = bpf_ktime_get_ns() - began;

	if (stat && !((run ^ run_preemptions(bpf_get_current_task_btf())) & RUN_PREEMPTIONS))
		add(&stat->n.entry_ns, run & RUN_MANY ? ns << fsn_runs_bits : ns);
	return 0;
}

/* Begins the measurement of an entry, or 0. Filtered calls are counted elsewhere. */
static __always_inline __u64 run_entry(struct fsn_stat *stat)
{
	__u32 chosen;
	__u64 nth;

	if (!stat)
		return 0;
	nth = READ(stat->n.calls);
	if (READ(ctl.on) != FSN_ON)
		nth += READ(stat->n.aside);
	chosen = run_chosen(nth);
	return chosen ? run_begin(bpf_get_current_task_btf()) | chosen : 0;
}

/* A hit of an end of @fn that began at @run is over, if it is chosen. */
static __always_inline void run_end(__u64 run, __u32 fn)
{
	if (run & RUN_CHOSEN)
		run_over(run, fn, RUN_END);
}

/* The same of one that is chosen now, after it was counted. Not static, as run_over(). */
__noinline int run_late(__u64 run, __u32 fn)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());

	__u64 nth;

	if (!stat)
		return 0;
	nth = READ(stat->n.returns) + READ(stat->n.strays) + READ(stat->n.unmatched);
	run_end(run | run_chosen(nth), fn);
	return 0;
}

#endif
