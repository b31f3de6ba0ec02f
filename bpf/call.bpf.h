/* SPDX-License-Identifier: GPL-2.0-only */
/* A call begins, a call ends: what programs do about it, whatever its target is. */
#ifndef FUNCSNOOP_CALL_BPF_H
#define FUNCSNOOP_CALL_BPF_H

#include "counters.bpf.h"
#include "filter.bpf.h"
#include "hold.bpf.h"
#include "memory.bpf.h"
#include "nest.bpf.h"
#include "slots.bpf.h"
#include "rows.bpf.h"
#include "run.bpf.h"
#include "shed.bpf.h"
#include "stream.bpf.h"
#include "tails.bpf.h"

/* --- a call begins -------------------------------------------------------------------------- */

/*
 * What few calls need is in functions that are not static and take numbers: each is verified
 * once, on its own. What all need is inlined.
 */

/* One call of so many is followed; 0: all. */
static __always_inline __u32 sample_of(__u32 fn)
{
	struct fsn_conf *conf;

	if (!fsn_samples)
		return fsn_sample;
	conf = bpf_map_lookup_elem(&fsn_confs, &fn);
	return conf ? conf->sample : 0;
}

/* Counts a call of which not all are timed. Not inlined: the stacks of programs are full. */
static __noinline int count_one_of(__u32 fn)
{
	__u32 cpu = bpf_get_smp_processor_id(), sample = sample_of(fn);
	struct fsn_stat *stat = stat_of(fn, cpu);
	__u64 nth;

	if (!stat)
		return 0;
	nth = __sync_fetch_and_add(&stat->n.calls, 1);
	if (fsn_bound && !sample)
		sample = shed_one_of(stat, fn, nth);
	if (!sample)
		return 1;
	if (is_sampled(nth, sample, (__u64)fn << 32 | cpu)) {
		if (fsn_bound)
			shed_end(fn);
		return 1;
	}
	add(&stat->n.sampled_out, 1);
	return 0;
}

/* Counts a call. Returns whether it is timed: one of each N calls on a CPU, if calls are sampled. */
static __always_inline int count_call(struct fsn_stat *stat, __u32 fn)
{
	if (fsn_sample || fsn_samples || fsn_bound)
		return count_one_of(fn);
	if (!stat)
		return 0;
	add(&stat->n.calls, 1);
	return 1;
}

/* The probe was hit all the same. */
static __noinline int count_aside(__u32 fn)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());

	if (stat)
		add(&stat->n.aside, 1);
	return 0;
}

static __noinline int count_no_slot(__u32 fn, int why)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());

	if (why == SLOT_INNER) {
		if (stat)
			add(&stat->n.inner, 1);
		return 0;
	}
	if (why == SLOT_CROWD) {
		add(&ctl.crowded, 1);
		ctl.crowd_pid = bpf_get_current_pid_tgid() >> 32;
	}
	if (why == SLOT_OTHER_STACK)
		add(&ctl.other_stack, 1);
	if (why == SLOT_TOO_DEEP)
		add(&ctl.too_deep, 1);
	if (why == SLOT_PAUSED)
		add(&ctl.paused_calls, 1);
	if (stat)
		add(&stat->n.no_slot, 1);
	return 0;
}

/* A call that is not followed, though its end may be seen, or those that go on with it. */
static __always_inline void call_left_out(
	struct pt_regs *ctx, __u32 fn, __u64 where, bool arrived)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32, i;
	struct fsn_set *set;

	i = set_index(tgid, where);
	set = bpf_map_lookup_elem(&fsn_slots, &i);
	if (!set || !set_is_used(set))
		return;
	if (fsn_follows && !arrived &&
		slots_arrive(set, call_key(fn, tgid), where, caller_link(ctx)) & ARRIVED_OWN)
		return;
	slot_clear(set, call_key(fn, tgid), where);
}

/* Handles an entry of @place, which is probed for tracked calls only: it is not in the group. */
static __always_inline void call_arrives(struct pt_regs *ctx, __u32 place, __u64 where)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32, i = set_index(tgid, where);
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &i);
	int arrived = 0;

	if (set && set_is_used(set))
		arrived = slots_arrive(set, call_key(place, tgid), where, caller_link(ctx));
	if (!arrived && fsn_nesting && is_on())
		nest_stray(where, fsn_hit_ns);
}

/* True if a size of the call is 0: NULL is not an error then. */
static __noinline int is_of_zero(const struct pt_regs *ctx, __u32 fn)
{
	struct fsn_conf *conf = bpf_map_lookup_elem(&fsn_confs, &fn);

	if (!conf)
		return 0;
#pragma unroll
	for (__u32 i = 0; i < FSN_ZEROS; i++)
		if (conf->zero[i] &&
			!(arg_word(ctx, conf->zero[i]) << ((64 - conf->zero_width[i]) & 63)))
			return 1;
	return 0;
}

enum begun { LEFT_OUT, COUNTED, FOLLOWED, NO_ROOM, INNER };

/* Returns true if the end of the call is not looked for, though it may be seen. */
static __always_inline bool has_no_end(enum begun begun)
{
	return begun == LEFT_OUT || begun == COUNTED || begun == NO_ROOM;
}

/* call_begin() without the end of its measurement, unless the call is followed. */
static __always_inline enum begun call_follow(struct pt_regs *ctx, __u32 fn, __u64 where,
	__u64 sp, __u64 byret, enum hijack hijack, bool nests, struct fsn_stat *stat, __u64 run)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 slot, tgid = task->tgid, proc = FSN_NO_PROC;
	__u64 parent = 0;
	struct fsn_args *args;
	struct fsn_call *call;
	struct fsn_set *set;
	__u32 row = FSN_NO_ROW;
	int way;

	if (!is_wanted(ctx, fn)) {
		count_aside(fn);
		if (fsn_memory_on)
			memory_passes(ctx, fn, false);
		return LEFT_OUT;
	}
	if (fsn_processes)
		proc = proc_count(task, fn, tgid, bpf_get_smp_processor_id());
	if (fsn_keyed)
		row = row_count(ctx, fn, sp);
	if (!count_call(stat, fn))
		return COUNTED;
	slot = set_index(tgid, where);
	set = bpf_map_lookup_elem(&fsn_slots, &slot);
	if (!set)
		return LEFT_OUT;
	if (fsn_nesting && nests)
		parent = nest_parent(task, fn, sp);
	way = return_is_unsafe(task, where, hijack);
	if (fsn_may_pause && is_about_to_pause())
		way = SLOT_PAUSED;
	else if (!way)
		way = slot_claim_first(set, call_key(fn, tgid) | byret, where, caller_link(ctx));
	if (way < 0) {
		count_no_slot(fn, way);
		if (fsn_memory_on)
			memory_passes(ctx, fn, true);
		if (fsn_nesting)
			nest_hit(fn, sp, HIT_ENTRY);
		return way == SLOT_INNER ? INNER : NO_ROOM;
	}
	way &= FSN_WAYS - 1;
	slot = slot * FSN_WAYS + way;
	if (fsn_keyed)
		row_keep(ctx, fn, slot, row);
	if (fsn_memory_on)
		memory_begins(ctx, fn, slot);
	if (fsn_nesting && !nests)
		nest_hit(fn, sp, HIT_ENTRY);
	if (fsn_nesting && nests) {
		if (nest_open(task, fn, slot, parent, sp))
			count_chained(fn);
		if (fsn_launched)
			launch_open(fn, slot);
	}
	if (fsn_asked)
		handle_asked(ctx, fn, slot);
	if (READ(ctl.save_args)) {
		args = bpf_map_lookup_elem(&fsn_args, &slot);
		if (args) {
			if (args_read(ctx, fn, args->arg))
				proc |= FSN_HAS_ARGS;
			if (fsn_has_more)
				keep_more(fn, slot, where);
		}
	}
	if (fsn_zero_frees && is_of_zero(ctx, fn))
		proc |= FSN_OF_ZERO;
	call = &set->call[way];
	call->where = where;
	call->task = (__u64)task;
	call->tid = task->pid;
	call->proc = proc;
	if (fsn_split)
		split_begin(slot);
	if (fsn_may_pause)
		pause_keep(slot);
	if (run) /* no part of the call's time */
		run_over(run, fn, RUN_ENTRY);
	call->start = bpf_ktime_get_ns();
	if (READ(ctl.streams) && READ(ctl.save_args)) {
		stream_begins(fn, slot, call->start);
		if (run)
			run_more(call->start, run, fn);
	}
	slot_publish(set, way, call_key(fn, tgid) | byret);
	return FOLLOWED;
}

/*
 * Follows a call if a probe looks for its end. Its place is @where; calls that it is made in
 * have theirs above @sp. @hijack: what sees its return. @nests: the call around it lasts until it
 * ends. @run: as of run_entry(), or RUN_NOW if the measurement begins here.
 */
static __always_inline enum begun call_begin(struct pt_regs *ctx, __u32 fn, __u64 where,
	__u64 sp, __u64 byret, enum hijack hijack, bool nests, __u64 run)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());
	enum begun begun;

	if (run == RUN_NOW)
		run = run_entry(stat);
	begun = call_follow(ctx, fn, where, sp, byret, hijack, nests, stat, run);
	if (run && begun != FOLLOWED)
		run_over(run, fn, RUN_ENTRY);
	return begun;
}

static __always_inline void call_count(
	struct pt_regs *ctx, __u32 fn, __u64 sp, bool same, struct fsn_stat *stat)
{
	struct task_struct *task;

	if (!is_wanted(ctx, fn)) {
		count_aside(fn);
		if (fsn_memory_on)
			memory_passes(ctx, fn, false);
		return;
	}
	count_call(stat, fn);
	if (fsn_memory_on)
		memory_passes(ctx, fn, true);
	if (fsn_keyed)
		row_count(ctx, fn, sp);
	if (fsn_processes) {
		task = bpf_get_current_task_btf();
		proc_count(task, fn, task->tgid, bpf_get_smp_processor_id());
	}
	if (fsn_nesting)
		nest_hit(fn, sp, HIT_ENTRY);
	if (READ(ctl.streams))
		stream_counted(ctx, fn, same);
}

/* A call that is only counted. @run: as of call_begin(). */
static __always_inline void call_counted(
	struct pt_regs *ctx, __u32 fn, __u64 sp, bool same, __u64 run)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());

	if (run == RUN_NOW)
		run = run_entry(stat);
	call_count(ctx, fn, sp, same, stat);
	if (run)
		run_over(run, fn, RUN_ENTRY);
}

/* --- a call ends ---------------------------------------------------------------------------- */

/* What few ends need: a failure, a slow call. */
__noinline int end_unusual(__u32 fn, __u32 slot, __u64 ns, __u64 result)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());
	struct fsn_conf *conf = bpf_map_lookup_elem(&fsn_confs, &fn);
	__u32 flags = slot_flags(slot);
	int how = 0;

	if (!conf || !stat)
		return 0;
	if (conf->judge && judge(fn, result) && !slot_of_zero(slot)) {
		count_code(fn, code_of(conf, result));
		add(&stat->n.errors, 1);
		flags |= FSN_CALL_FAILED;
		how = FSN_CALL_FAILED;
	}
	if (ns >= READ(conf->slow_ns)) {
		add(&stat->n.slow, 1);
		remember_slow(fn, slot, flags, ns, result);
		how |= FSN_CALL_SLOW;
	}
	return how;
}

/* Whether end_unusual() may have something to do. */
static __always_inline bool is_unusual(
	const struct fsn_conf *conf, __u64 ns, __u64 result)
{
	if (ns >= READ(conf->slow_ns))
		return true;
	if (conf->judge == FSN_JUDGE_NONZERO)
		return result << ((64 - conf->width) & 63);
	return conf->judge;
}

/*
 * A call's time without the probes' own. That varies: what is taken off can be more than there
 * was. Such a call counts as none, but sums take it as it is, so that they err to no side.
 */
static __always_inline __s64 net_time(const struct fsn_conf *conf, __u64 ns)
{
	return conf ? (__s64)ns - conf->overhead_ns : (__s64)ns;
}

static __always_inline __u64 shown_time(__s64 net)
{
	return net > 0 ? net : 0;
}

/*
 * The end in the function's record. Returns FSN_CALL_FAILED, FSN_CALL_SLOW. Chooses whether the
 * measurement *@run counts, unless @run is NULL.
 */
static __always_inline int end_in_function(__u32 fn, const struct fsn_conf *conf, __u32 slot,
	__s64 net, __u64 result, const struct fsn_nest *nest, const struct fsn_split *split,
	__u64 *run)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());
	__u64 ns = shown_time(net);

	if (!stat)
		return 0;
	add(&stat->n.total_ns, net);
	if (nest && nest->inner_ns)
		add(&stat->n.inner_ns, nest->inner_ns);
	if (nest && nest->probes_ns)
		add(&stat->n.probes_ns, nest->probes_ns);
	if (nest && nest->flags & FSN_NEST_AGAIN)
		add(&stat->n.recursed_ns, net);
	if (nest)
		path_end(nest, net);
	if (split)
		SPLIT_ADD(stat->n, split, net);
	if (run)
		*run |= run_chosen(__sync_fetch_and_add(&stat->n.returns, 1));
	else
		add(&stat->n.returns, 1);
	raise_extremes(stat, ns);
	count_bucket(fn, ns, bpf_get_smp_processor_id());
	if (conf && is_unusual(conf, ns, result))
		return end_unusual(fn, slot, ns, result);
	return 0;
}

/* The end in the record of its process, if that has one. */
static __always_inline void end_in_process(struct fsn_proc *proc, __s64 net, int how,
	const struct fsn_nest *nest, const struct fsn_split *split)
{
	if (!proc)
		return;
	add(&proc->n.returns, 1);
	add(&proc->n.total_ns, net);
	if (nest && nest->inner_ns)
		add(&proc->n.inner_ns, nest->inner_ns);
	if (nest && nest->probes_ns)
		add(&proc->n.probes_ns, nest->probes_ns);
	if (split)
		SPLIT_ADD(proc->n, split, net);
	raise(&proc->n.max_ns, shown_time(net));
	if (how & FSN_CALL_FAILED)
		add(&proc->n.errors, 1);
	if (how & FSN_CALL_SLOW)
		add(&proc->n.slow, 1);
}

/*
 * Counts the end of the call in the locked @slot, and frees the slot. @run: as of run_begin(), when
 * the call ended. Returns that for run_end(), or with @late for run_late(): some programs have no
 * more stack. Those that are not @roomy ask for the current @task again instead of keeping it.
 */
static __always_inline __u64 call_over(struct task_struct *task, bool roomy,
	struct fsn_set *set, __u32 slot, __u32 fn, __u64 run, __u64 result, bool streamed,
	bool nests, bool late)
{
	struct fsn_conf *conf = bpf_map_lookup_elem(&fsn_confs, &fn);
	__u32 tgid = READ(task->tgid), way = slot % FSN_WAYS;
	__u64 start = set->call[way].start, now = run_time(run), ns = now > start ? now - start : 0;
	const struct fsn_nest *nest = NULL;
	struct fsn_split *split = NULL;
	__s64 net;
	int how;

	ns = unpaused(slot, ns);
	if (ns > FSN_NS_MASK)
		ns = FSN_NS_MASK;
	net = net_time(conf, ns);
	if (fsn_split)
		split = split_ends(&set->call[way], slot, ns);
	if (fsn_nesting && nests) {
		nest = nest_close(task, slot, run_time(run));
		if (nest)
			net = nest_ends(roomy ? task : bpf_get_current_task_btf(), nest, fn, conf, net, ns, split);
	}
	how = end_in_function(fn, conf, slot, net, result, nest, split, late ? NULL : &run);
	if (fsn_processes)
		end_in_process(proc_again(FSN_PROC_OF(set->call[way].proc), fn, tgid,
				       bpf_get_smp_processor_id()),
			net, how, nest, split);
	if (fsn_keyed)
		end_in_row(slot, fn, tgid, net, how, result, split);
	if (fsn_memory_on)
		memory_ends(fn, slot, result, how & FSN_CALL_FAILED, run_time(run));
	if (fsn_asked && !(how & FSN_CALL_FAILED))
		handle_found(fn, slot);
	if (streamed) /* with the probes of calls inside, so that these lie within it */
		stream_ends(fn, slot, shown_time(net_time(conf, ns)), how, result);
	slot_publish(set, way, 0);
	return run;
}

/*
 * Counts the end of a call if it has a slot. With @roomy the current task is asked for once: some
 * programs have no stack to keep it.
 */
static __always_inline int end_call(
	__u32 fn, __u64 where, __u64 result, bool streamed, bool roomy)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 run = run_begin(task);
	__u32 slot = set_index(READ(task->tgid), where);
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &slot);
	int way;

	if (!set)
		return 0;
	way = slot_take_first(set, call_key(fn, READ(task->tgid)), where);
	if (way < 0) {
		count_unmatched(fn, where, HIT_END);
		return run_late(run, fn);
	}
	way &= FSN_WAYS - 1;
	run = call_over(roomy ? task : bpf_get_current_task_btf(), roomy, set,
		slot * FSN_WAYS + way, fn, run, result, streamed, true, streamed);
	if (streamed)
		return run_late(run, fn);
	run_end(run, fn);
	return 0;
}

/* Whether the call in @slot of @set, which is about to end, is slow or has failed. */
static __noinline int is_notable(
	const struct fsn_set *set, __u32 slot, __u64 now, __u64 result)
{
	__u32 way = slot % FSN_WAYS;
	__u32 fn = (READ(set->key[way]) & FSN_KEY_FN_MASK) - 1;
	__u64 ns = now - set->call[way].start;
	struct fsn_conf *conf = bpf_map_lookup_elem(&fsn_confs, &fn);

	if (!conf || fn >= fsn_timed_cnt)
		return 0;
	ns = shown_time(net_time(conf, unpaused(slot, ns)));
	return ns >= READ(conf->slow_ns) ||
	       (is_unusual(conf, ns, result) && judge(fn, result) && !slot_of_zero(slot));
}

/* A walk at an end is rare and long: all are measured. */
static __noinline int count_walk(__u32 fn, __u64 ns)
{
	struct fsn_stat *stat =
		fn < fsn_fn_cnt ? stat_of(fn, bpf_get_smp_processor_id()) : NULL;

	if (stat)
		add(&stat->n.walks_ns, ns);
	return 0;
}

/*
 * Before calls end whose place is @where: by whom slow and failed ones were made. No program's
 * stack has room for a walk where their ends are counted. It is no part of their time.
 */
__noinline int walk_notable(__u64 where, __u64 result)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32, no = set_index(tgid, where), number = 0;
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &no);
	__u64 now = bpf_ktime_get_ns(), key, took;

	if (!fsn_walks_late || !set)
		return 0;
	for (int i = 0; i < FSN_WAYS; i++) {
		key = READ(set->key[i]);
		if (!(key & FSN_KEY_USED_MASK) || set->call[i].where != where ||
			(key & FSN_KEY_TGID_MASK) >> FSN_KEY_TGID_SHIFT != tgid)
			continue;
		if (!number && is_notable(set, no * FSN_WAYS + i, now, result)) {
			number = stack_of_end(where);
			took = bpf_ktime_get_ns() - now;
			set->call[i].start += took;
			count_walk((key & FSN_KEY_FN_MASK) - 1, took);
		}
		key_walked((key & FSN_KEY_FN_MASK) - 1, no * FSN_WAYS + i, number);
	}
	return 0;
}

/* While somebody looks on; the usual end is inlined. */
__noinline int end_streamed(__u32 fn, __u64 where, __u64 result)
{
	return end_call(fn, where, result, true, false);
}

/* The end of a call that was followed, in the locked @slot. */
__noinline int end_followed(__u32 fn, __u32 slot, __u64 now, __u64 result)
{
	__u32 i = slot / FSN_WAYS;
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &i);

	if (set)
		call_over(bpf_get_current_task_btf(), false, set, slot, fn, now << RUN_SHIFT, result, READ(ctl.streams), true, true);
	return 0;
}

/*
 * Handles a return. @led: calls are tracked to here; @link: as for return_address(), or ANY_ADDRESS
 * after a return probe. False: @fn is not in the group, and no tracked call has come to it.
 */
static __always_inline bool call_end(
	__u32 fn, bool led, __u64 where, __u64 link, __u64 result, bool roomy)
{
	int ended = 0;

	if (fsn_walks_late)
		walk_notable(where, result);
	if (fsn_follows && led && (fn >= fsn_fn_cnt || some_left(where)))
		ended = end_left(fn, where, link, result);
	if (fn >= fsn_fn_cnt)
		return ended;
	if (ended & ENDED_OWN)
		return true;
	if (READ(ctl.streams))
		end_streamed(fn, where, result);
	else
		end_call(fn, where, result, false, roomy);
	return true;
}

#endif
