/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where the time of a call went: on the CPU, runnable without one, asleep.
 *
 * Whenever the scheduler adds to a task's runtime it sets exec_start to that moment, and also
 * when it gives the task a CPU. So between two moments at which the task runs
 *
 *	off the CPU = what exec_start has grown by - what sum_exec_runtime has
 *
 * is exact in the run queue's clock, though neither alone is: both may be a tick old. What was
 * queued of it is in run_delay; the rest, it was asleep. A task that was never switched out
 * was on the CPU all the time.
 *
 * That clock of tasks stands still while interrupts or a hypervisor have the CPU, and the time of
 * a call does not. What is lost so is shared out in proportion: how much of it the task slept
 * through, and how much it lost itself, is not known. Where it went on on another CPU, what is
 * behind is more there, or less, so that all of it is taken for time off the CPU.
 */
#ifndef FUNCSNOOP_SPLIT_BPF_H
#define FUNCSNOOP_SPLIT_BPF_H

#include "counters.bpf.h"
#include "hold.bpf.h"

static __always_inline __u64 switches_of(const struct task_struct *task)
{
	return READ(task->nvcsw) + READ(task->nivcsw);
}

/* What the clock that tasks are measured with is behind by, on the CPU that this one runs on. */
static __always_inline __u64 clock_behind(struct task_struct *task)
{
	struct rq *rq;

	if (!bpf_core_field_exists(task->se.cfs_rq) ||
		!bpf_core_field_exists(task->se.cfs_rq->rq))
		return 0;
	rq = task->se.cfs_rq->rq;
	return rq->clock - rq->clock_task;
}

static __noinline int split_begin(__u32 slot)
{
	struct fsn_split *split = bpf_map_lookup_elem(&fsn_splits, &slot);
	struct task_struct *task = bpf_get_current_task_btf();

	if (!split)
		return 0;
	split->switches = switches_of(task);
	split->start = task->se.exec_start;
	split->ran = task->se.sum_exec_runtime;
	split->delay = task->sched_info.run_delay;
	split->behind = clock_behind(task);
	split->cpu = bpf_get_smp_processor_id();
	split->known = 0;
	split->slept = 0;
	return 0;
}

#define SHARE 1024 /* parts of a whole; times have 48 bits */

/* It was switched out. */
static __noinline int split_off(struct fsn_split *split, __u32 slot, __u64 ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 ran = task->se.sum_exec_runtime - split->ran;
	__s64 off, behind, queued, most = ns;

	off = task->se.exec_start - split->start - ran;
	behind = clock_behind(task) - split->behind;
	if (split->cpu != bpf_get_smp_processor_id())
		off += behind;
	else if (off > 0 && behind > 0)
		off += (__u64)behind * ((__u64)off * SHARE / (off + ran)) / SHARE;
	if (fsn_may_pause)
		off -= pause_in(slot);
	queued = task->sched_info.run_delay - split->delay;
	if (off < 0)
		off = 0;
	if (off > most)
		off = most;
	if (queued > off)
		queued = off;
	split->queued = queued;
	split->blocked = off - queued;
	return 0;
}

/*
 * How the @ns of the call in the locked @slot, which @task began and now ends, are divided;
 * NULL when it has been in another thread's hands, or that is not asked for.
 */
static __always_inline struct fsn_split *split_ends(
	const struct fsn_call *call, __u32 slot, __u64 ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fsn_split *split = bpf_map_lookup_elem(&fsn_splits, &slot);

	if (!split)
		return NULL;
	split->known = call->task == (__u64)task && call->tid == (__u32)task->pid;
	if (!split->known)
		return NULL;
	split->queued = split->blocked = 0;
	if (split->switches != switches_of(task))
		split_off(split, slot, ns);
	return split;
}

/* What is left is the CPU's: net, as the call's time is. */
#define SPLIT_ADD(n, split, net)                                               \
	do {                                                                   \
		add(&(n).on_cpu_ns, (net) - (split)->queued - (split)->blocked); \
		if ((split)->queued)                                           \
			add(&(n).queued_ns, (split)->queued);                  \
		if ((split)->blocked)                                          \
			add(&(n).blocked_ns, (split)->blocked);                \
	} while (0)

#endif
