/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where calls sleep: of a thread that is switched out while a call of it is open, the stack, and
 * how long it slept there, in the function of the innermost call.
 *
 * Which call that is the thread's word says (nest.bpf.h), as long as nothing is open it is one
 * look-up that a switch takes. A call that was left by an exception or a longjmp counts as open
 * until another begins. What a thread does not do of itself is no sleep: who loses its CPU is
 * queued; and once it is woken, it is queued, too.
 *
 * All this runs with the run queue locked: it wakes nobody.
 */
#ifndef FUNCSNOOP_SLEEP_BPF_H
#define FUNCSNOOP_SLEEP_BPF_H

#include "wait.bpf.h"

/* The slot of the innermost call that @task has open, or -1; @ret_fn is its function. */
static __always_inline int open_slot(const struct task_struct *task, __u32 *ret_fn)
{
	__u64 word = nest_top(task), key;
	struct fsn_call *call = nest_call(word, &key);

	if (!call || READ(call->tid) != (__u32)task->pid)
		return -1;
	*ret_fn = (key & FSN_KEY_FN_MASK) - 1;
	return word & FSN_OPEN_SLOT_MASK;
}

/* How long it has been runnable without a CPU, up to now, when it has just got one. */
static __always_inline __u64 delay_of(const struct task_struct *task)
{
	__u64 since = task->sched_info.last_queued, now;

	if (!since || !bpf_core_field_exists(task->se.cfs_rq->rq))
		return task->sched_info.run_delay;
	now = task->se.cfs_rq->rq->clock;
	return task->sched_info.run_delay + (now > since ? now - since : 0);
}

static __noinline int sleep_count(__u32 fn, __u32 tgid, __u32 stack, __u64 ns)
{
	struct fsn_sleep_at key = { .fn = fn, .epoch = READ(ctl.epoch), .tgid = tgid, .stack = stack };
	struct fsn_slept none = {}, *sum = bpf_map_lookup_elem(&fsn_sleeps, &key);

	if (!sum) {
		bpf_map_update_elem(&fsn_sleeps, &key, &none, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&fsn_sleeps, &key);
	}
	if (sum) {
		add(&sum->sleeps, 1);
		add(&sum->ns, ns);
	} else {
		add(&ctl.lost_stacks, 1);
	}
	return 0;
}

static __always_inline void sleep_ends(struct task_struct *task)
{
	__u32 fn = 0, slot = open_slot(task, &fn);
	struct fsn_split *split = bpf_map_lookup_elem(&fsn_splits, &slot);
	__u64 now, ns, queued;

	if (!split || !split->slept)
		return;
	now = bpf_ktime_get_ns();
	ns = now > split->slept ? now - split->slept : 0;
	queued = delay_of(task) - split->slept_delay;
	split->slept = 0;
	sleep_count(fn, task->tgid, split->stack, ns > queued ? ns - queued : 0);
}

SEC("tp_btf/sched_switch")
int fsn_sleep(__u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	__u32 state = prev->__state, fn, slot;
	struct fsn_split *split;

	sleep_ends(next);
	if (ctx[0] & 1 || !state || state & TASK_DEAD)
		return 0;
	slot = open_slot(prev, &fn);
	split = bpf_map_lookup_elem(&fsn_splits, &slot);
	if (!split)
		return 0;
	split->slept = bpf_ktime_get_ns();
	split->slept_delay = prev->sched_info.run_delay;
	split->stack = stack_of_thread(ctx, SWITCH_FRAMES);
	return 0;
}

#endif
