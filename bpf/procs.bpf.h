/* SPDX-License-Identifier: GPL-2.0-only */
/* Statistics per process. */
#ifndef FUNCSNOOP_PROCS_BPF_H
#define FUNCSNOOP_PROCS_BPF_H

#include "counters.bpf.h"

static __always_inline __u64 proc_key(__u32 fn, __u32 tgid, __u32 cpu)
{
	return (fn + 1) | (__u64)tgid << FSN_PROC_TGID_SHIFT |
	       (__u64)(cpu % FSN_PROC_SHARDS) << FSN_PROC_SHARD_SHIFT |
	       (__u64)READ(ctl.epoch) << FSN_PROC_EPOCH_SHIFT;
}

static __always_inline struct fsn_proc *proc_at(__u32 i)
{
	return bpf_map_lookup_elem(&fsn_procs, &i);
}

/*
 * Where a key may be, from place @i on: in steps that grow. In a row, neighbours are all
 * taken long before the table is full.
 */
#define for_each_place(n, i) for (__u32 n = 0; (n) < FSN_PROC_PROBES; (i) += ++(n))

/* Claims a record for a process that has none. Two CPUs may both do so: readers add up. */
static __noinline __u32 proc_claim(__u64 key, __u64 start, __u32 first)
{
	struct task_struct *leader = bpf_get_current_task_btf()->group_leader;
	struct fsn_proc *proc;
	__u32 at = first, i;

	for_each_place(n, at) {
		i = at & fsn_proc_mask;
		proc = proc_at(i);
		if (!proc)
			break;
		if (READ(proc->key) || !swap(&proc->key, 0, FSN_PROC_LOCKED))
			continue;
		proc->start = start;
		bpf_probe_read_kernel_str(proc->comm, sizeof(proc->comm), leader->comm);
		(void)__sync_lock_test_and_set(&proc->key, key);
		return i;
	}
	add(&ctl.lost_procs, 1);
	return FSN_NO_PROC | (key >> FSN_PROC_EPOCH_SHIFT & FSN_EPOCH_MAX);
}

static __always_inline __u32 proc_first(__u64 key, __u64 start)
{
	return ((key ^ start) * 0x9e3779b97f4a7c15ULL) >> 32;
}

/* The record's number, or FSN_NO_PROC. Not static, so that it is verified once, on its own. */
__noinline __u32 proc_find(__u32 fn, __u32 tgid, __u32 cpu)
{
	__u64 start = bpf_get_current_task_btf()->group_leader->start_boottime;
	__u64 key = proc_key(fn, tgid, cpu);
	__u32 first = proc_first(key, start), at = first, i;
	struct fsn_proc *proc;
	__u64 seen;

	for_each_place(n, at) {
		i = at & fsn_proc_mask;
		proc = proc_at(i);
		if (!proc)
			break;
		seen = READ(proc->key);
		if (seen == key && READ(proc[AFTER(seen, 0)].start) == start)
			return i;
	}
	return proc_claim(key, start, first);
}

/*
 * The same at the end of a call whose entry was in another epoch, or found no room. If it
 * found none in this epoch, it has been counted as lost, and its end is lost with it.
 */
static __noinline __u32 proc_find_late(__u32 i, __u32 fn, __u32 tgid, __u32 cpu)
{
	return i == (FSN_NO_PROC | READ(ctl.epoch)) ? i : proc_find(fn, tgid, cpu);
}

/* Counts a call in its process: most records stand where they are looked for first. */
static __always_inline __u32 proc_count(struct task_struct *task, __u32 fn, __u32 tgid,
	__u32 cpu)
{
	__u64 start = task->group_leader->start_boottime, key = proc_key(fn, tgid, cpu);
	__u32 i = proc_first(key, start) & fsn_proc_mask;
	struct fsn_proc *proc = proc_at(i);
	__u64 seen;

	if (!proc)
		return FSN_NO_PROC;
	seen = READ(proc->key);
	if (seen != key || READ(proc[AFTER(seen, 0)].start) != start) {
		i = proc_find(fn, tgid, cpu);
		proc = proc_at(i);
	}
	if (proc)
		add(&proc->n.calls, 1);
	return i;
}

/* The record at @i if it still is this process's in this epoch, else the right one. */
static __always_inline struct fsn_proc *proc_again(__u32 i, __u32 fn, __u32 tgid,
	__u32 cpu)
{
	struct fsn_proc *proc = proc_at(i);

	if (proc && !((READ(proc->key) ^ proc_key(fn, tgid, 0)) & ~FSN_PROC_SHARD_MASK))
		return proc;
	return proc_at(proc_find_late(i, fn, tgid, cpu));
}

#endif
