/* SPDX-License-Identifier: GPL-2.0-only */
/* Counters, buckets and extremes of functions; their failures by code; their processes. */
#pragma once

#include "maps.bpf.h"

#define READ(x)       (*(volatile __typeof__(x) *)&(x))
#define add(p, n)     ((void)__sync_fetch_and_add((p), (n)))
#define swap(p, o, n) (__sync_val_compare_and_swap((p), (o), (n)) == (o))

/* The CPU number only selects a shard. BPF programs do not migrate while they run. */
static __always_inline struct fsn_stat *stat_of(__u32 fn, __u32 cpu)
{
	__u32 i = (cpu & fsn_stat_mask) * fsn_fn_cnt + fn;

	return bpf_map_lookup_elem(&fsn_stats, &i);
}

/* Of @v < 2^63. Has no branches, because the verifier would follow all combinations of them. */
static __always_inline __u32 log2_u64(__u64 v)
{
	__u32 r = 0, shift;

	for (__u32 bits = 32; bits; bits /= 2) {
		shift = ((v + (1ULL << 63) - (1ULL << bits)) >> 63) * bits;
		v >>= shift;
		r += shift;
	}
	return r;
}

static __always_inline __u32 bucket_of(__u64 ns)
{
	__u32 octave;

	if (ns < FSN_HIST_STEPS)
		return ns;
	octave = log2_u64(ns) - FSN_HIST_STEP_BITS;
	return octave * FSN_HIST_STEPS + (ns >> octave);
}

static __always_inline int count_bucket(__u32 row, __u64 ns, __u32 cpu)
{
	__u32 i = (cpu & fsn_hist_mask) * fsn_timed_cnt + row, bucket;
	struct fsn_hist *hist = bpf_map_lookup_elem(&fsn_hists, &i);

	if (!hist)
		return 0;
	bucket = bucket_of(ns);
	if (bucket < FSN_HIST_CNT)
		add(&hist->bucket[bucket], 1);
	return 0;
}

/*
 * Atomic maximum. A failed exchange means that another CPU has raised the word; 64
 * failures during one return are out of reach, and the verifier needs a bound. Not
 * static, so that it is verified once.
 */
__noinline int raise_word(unsigned long long *word, __u64 value)
{
	__u64 seen, was;

	if (!word)
		return 0;
	seen = READ(*word);
	for (int i = 0; i < 64 && seen < value; i++) {
		was = __sync_val_compare_and_swap(word, seen, value);
		if (was == seen)
			break;
		seen = was;
	}
	return 0;
}

static __always_inline void raise(unsigned long long *word, __u64 value)
{
	if (READ(*word) < value)
		raise_word(word, value);
}

/*
 * Updates maximum and minimum of the current epoch; the words of the other parity are the previous
 * epoch's.
 */
static __always_inline void raise_extremes(struct fsn_stat *stat, __u64 ns)
{
	__u64 epoch = READ(ctl.epoch), tag = epoch << FSN_NS_BITS;

	if (epoch & 1) {
		raise(&stat->max[1], tag | ns);
		raise(&stat->min[1], tag | (FSN_NS_MASK - ns));
	} else {
		raise(&stat->max[0], tag | ns);
		raise(&stat->min[0], tag | (FSN_NS_MASK - ns));
	}
}

/* Raises the maximum overhead inside one call. */
static __always_inline void raise_probes(struct fsn_stat *stat, __u64 ns)
{
	__u32 most = ns >> FSN_DELAY_SHIFT;

	if (most > READ(stat->most_probes))
		stat->most_probes = most;
}

/*
 * Counts a word with an epoch tag. If the word's epoch is another one, no BPF program
 * writes under it any more.
 */
static __always_inline void count_tagged(unsigned long long *word, __u64 tag)
{
	__u64 seen = READ(*word);

	if ((seen ^ tag) & ~FSN_NS_MASK)
		(void)__sync_val_compare_and_swap(word, seen, tag);
	add(word, 1);
}

/* Counts a failed call whose code is dropped because the table is full. */
static __always_inline void count_unplaced(__u32 fn, __u64 epoch)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());

	if (stat && epoch & 1)
		count_tagged(&stat->unplaced[1], epoch << FSN_NS_BITS);
	else if (stat)
		count_tagged(&stat->unplaced[0], epoch << FSN_NS_BITS);
	add(&ctl.lost_codes, 1);
}

/* Counts a failed call by its code. */
__noinline int count_code(__u32 fn, __s64 code)
{
	struct fsn_code key = { .fn = fn, .epoch = READ(ctl.epoch), .code = code };
	__u64 none = 0, *count = bpf_map_lookup_elem(&fsn_codes, &key);

	if (!count) {
		bpf_map_update_elem(&fsn_codes, &key, &none, BPF_NOEXIST);
		count = bpf_map_lookup_elem(&fsn_codes, &key);
	}
	if (count)
		add(count, 1);
	else
		count_unplaced(fn, key.epoch);
	return 0;
}

/* The function's result: only .width bits of the register are valid. */
static __always_inline __s64 code_of(const struct fsn_conf *conf, __u64 result)
{
	__u32 unused = (64 - conf->width) & 63;

	return (__s64)(result << unused) >> unused;
}

/* True if a call that returned @result failed. */
__noinline int judge(__u32 fn, __u64 result)
{
	struct fsn_conf *conf = bpf_map_lookup_elem(&fsn_confs, &fn);
	__s64 code;

	if (!conf)
		return 0;
	code = code_of(conf, result);
	if ((conf->judge == FSN_JUDGE_NONZERO && !code) ||
		(conf->judge == FSN_JUDGE_NEGATIVE && code >= 0) ||
		((conf->judge == FSN_JUDGE_NULL || conf->judge == FSN_JUDGE_ZERO) && code) ||
		(conf->judge == FSN_JUDGE_NOT_POSITIVE && code > 0))
		return 0;
#pragma unroll
	for (int i = 0; i < FSN_OK_CODES; i++)
		if (i < conf->ok_cnt && code == conf->ok[i])
			return 0;
	return 1;
}

/* --- processes ------------------------------------------------------------------------------ */

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
 * Entries that may hold a key, starting at @i, with increasing distances. With linear
 * probing, neighbours would all be in use long before the table is full.
 */
#define for_each_place(n, i) for (__u32 n = 0; (n) < FSN_PROC_PROBES; (i) += ++(n))

/*
 * The bit of processes that started at @start. It is set before any of them has a record, so that
 * one look rules out most processes without a call.
 */
static __always_inline __u32 called_bit(__u64 start)
{
	return start * 0x9e3779b97f4a7c15ULL >> 32 & (FSN_CALLED - 1);
}

static __always_inline bool called_is_possible(__u64 start)
{
	__u32 bit = called_bit(start);

	return READ(ctl.called[bit / 64]) >> bit % 64 & 1;
}

/*
 * Claims a record for a process without one. Two CPUs may both do so: readers add them
 * up.
 */
static __noinline __u32 proc_claim(__u64 key, __u64 start, __u64 comm, __u32 first)
{
	struct fsn_proc *proc;
	__u32 at = first, bit = called_bit(start), i;

	if (!called_is_possible(start))
		__sync_fetch_and_or(&ctl.called[bit / 64], 1ULL << bit % 64);
	for_each_place(n, at) {
		i = at & fsn_proc_mask;
		proc = proc_at(i);
		if (!proc)
			break;
		if (READ(proc->key) || !swap(&proc->key, 0, FSN_PROC_LOCKED))
			continue;
		proc->start = start;
		bpf_probe_read_kernel_str(proc->comm, sizeof(proc->comm), (void *)comm);
		proc->cgroup = bpf_get_current_cgroup_id();
		(void)__sync_lock_test_and_set(&proc->key, key);
		return i;
	}
	add(&ctl.lost_processes, 1);
	return FSN_NO_PROC | (key >> FSN_PROC_EPOCH_SHIFT & FSN_EPOCH_MAX);
}

static __always_inline __u32 proc_first(__u64 key, __u64 start)
{
	return ((key ^ start) * 0x9e3779b97f4a7c15ULL) >> 32;
}

/*
 * Returns the index of the record of process @tgid, which started at @start and has its
 * name at @comm, or FSN_NO_PROC.
 */
static __always_inline __u32 proc_look(
	__u32 fn, __u32 tgid, __u32 cpu, __u64 start, __u64 comm)
{
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
	return proc_claim(key, start, comm, first);
}

/* Not static, so that each is verified once. */
__noinline __u32 proc_find_of(__u32 fn, __u32 tgid, __u32 cpu, __u64 start, __u64 comm)
{
	return proc_look(fn, tgid, cpu, start, comm);
}

/* The same for the current process. */
__noinline __u32 proc_find(__u32 fn, __u32 tgid, __u32 cpu)
{
	struct task_struct *leader = CURRENT_READ(group_leader);

	return proc_look(fn, tgid, cpu, BPF_CORE_READ(leader, start_boottime),
		as_number(leader->comm));
}

/*
 * The same at the return of a call whose entry was in another epoch, or was dropped
 * because the table was full. If that was in this epoch, the call is already counted as
 * lost, and its return is dropped.
 */
static __noinline __u32 proc_find_late(__u32 i, __u32 fn, __u32 tgid, __u32 cpu)
{
	return i == (FSN_NO_PROC | READ(ctl.epoch)) ? i : proc_find(fn, tgid, cpu);
}

/* Counts a call in its process. Most records are in the first entry of their key. */
static __always_inline __u32 proc_count(struct task_struct *task, __u32 fn, __u32 tgid,
	__u32 cpu)
{
	struct task_struct *leader = task->group_leader;
	__u64 start = leader->start_boottime, key = proc_key(fn, tgid, cpu);
	__u32 i = proc_first(key, start) & fsn_proc_mask;
	struct fsn_proc *proc = proc_at(i);
	__u64 seen;

	if (!proc)
		return FSN_NO_PROC;
	seen = READ(proc->key);
	if (seen != key || READ(proc[AFTER(seen, 0)].start) != start) {
		i = proc_find_of(fn, tgid, cpu, start, as_number(leader->comm));
		proc = proc_at(i);
		/* In a wait, the current task is another one. */
		if (proc && !READ(proc->n.calls))
			proc->cgroup = task->cgroups->dfl_cgrp->kn->id;
	}
	if (proc)
		add(&proc->n.calls, 1);
	return i;
}

/*
 * Returns the record at @i if it is still that of this process in this epoch, else finds
 * it.
 */
static __always_inline struct fsn_proc *proc_again(__u32 i, __u32 fn, __u32 tgid,
	__u32 cpu)
{
	struct fsn_proc *proc = proc_at(i);

	if (proc && !((READ(proc->key) ^ proc_key(fn, tgid, 0)) & ~FSN_PROC_SHARD_MASK))
		return proc;
	return proc_at(proc_find_late(i, fn, tgid, cpu));
}
