/* SPDX-License-Identifier: GPL-2.0-only */
/* Entries and returns of calls, for all kinds of targets. */
#pragma once

#include "core.bpf.h"
#include "counters.bpf.h"
#include "filter.bpf.h"
#include "hold.bpf.h"
#include "maps.bpf.h"
#include "memory.bpf.h"
#include "nest.bpf.h"
#include "rows.bpf.h"
#include "slots.bpf.h"
#include "stream.bpf.h"
#include "tails.bpf.h"

/*
 * Handover between links. To remove some probes of a link that has many, a new link
 * without these probes is attached, and then the old link is removed. Meanwhile both run
 * at each hit, and one of them must count.
 *
 * The kernel runs the consumer attached last first (consumer_add(),
 * kernel/events/uprobes.c). The new link always counts, and marks thread, function and
 * kind of probe. The old link skips a hit if it finds the mark, and counts it otherwise,
 * because then only the old link is attached there. A mark that remains is of an earlier
 * handover, or of the same probe, whose next hit replaces it.
 */

/* True if the new link has already counted this hit of the old one. Marks a hit of the new link. */
static __noinline int hit_is_counted(__u64 cookie, __u32 turn)
{
	__u64 tid = (__u32)bpf_get_current_pid_tgid(), value;
	__u64 kind = cookie >> FSN_COOKIE_KIND_SHIFT & 15;
	__u32 i = tid % FSN_MARKS;
	__u64 *mark = bpf_map_lookup_elem(&fsn_counted, &i);

	if (!mark)
		return 0;
	value = tid << 32 | (turn & 511ULL) << 23 | kind << 19 | (cookie & FSN_COOKIE_FN_MASK);
	if ((cookie >> FSN_COOKIE_TURN_SHIFT & 1) == (turn & 1)) {
		*(volatile __u64 *)mark = value;
		return 0;
	}
	if (READ(*mark) != value)
		return 0;
	*(volatile __u64 *)mark = 0;
	return 1;
}

/* True if the hit was counted by another link. */
static __always_inline bool is_counted(__u64 cookie)
{
	__u32 turn = READ(ctl.turn);

	return turn && hit_is_counted(cookie, turn);
}

/*
 * Run time of the BPF programs, measured by themselves. The overhead of a group depends
 * on its keys, stacks, memory and streams, and on the contents of the caches, so no
 * calibration can predict it.
 *
 * A clock read costs a tenth of a program, so only a sample of the hits is measured, and
 * each stands for the number of hits that it was chosen from. The first hits of a
 * function are all measured, because few calls have no sample otherwise, and because the
 * first stack walks take much longer than later ones. A multiple of the hit's number
 * chooses the others (the golden ratio times 2^32, modulo 2^32): that spreads them
 * evenly, without a period that the traced program could share.
 *
 * If the BPF program was preempted, it has measured other threads, and the measurement is
 * dropped.
 */

/*
 * Start time of a measurement (ns), the low bits of the thread's preemption count at that
 * time, whether the hit is chosen, and whether it stands for more than one hit. All in
 * one word, because the BPF programs have no stack left.
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

/* @task is the current one; reading it again would cost a helper call. */
static __always_inline __u64 run_begin(const struct task_struct *task)
{
	return bpf_ktime_get_ns() << RUN_SHIFT | run_preemptions(task);
}

/*
 * The start time. The compiler must not keep it next to @run, which would need more
 * stack.
 */
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

/* Ends a chosen measurement of a hit of @fn. Not static, so that it is verified once. */
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

/* Adds time since @began to the measurement of the same entry. */
__noinline int run_more(__u64 began, __u64 run, __u32 fn)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());
	__u64 ns = bpf_ktime_get_ns() - began;

	if (stat && !((run ^ run_preemptions(bpf_get_current_task_btf())) & RUN_PREEMPTIONS))
		add(&stat->n.entry_ns, run & RUN_MANY ? ns << fsn_runs_bits : ns);
	return 0;
}

/* Starts the measurement of an entry, or returns 0. Filtered calls are counted elsewhere. */
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

/* Ends the measurement @run of an exit of @fn, if it is chosen. */
static __always_inline void run_end(__u64 run, __u32 fn)
{
	if (run & RUN_CHOSEN)
		run_over(run, fn, RUN_END);
}

/* The same if the exit was counted first and is chosen now. Not static, like run_over(). */
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

/*
 * While a group costs more of a CPU than its bound, its most expensive functions track
 * one of 2 to 256 calls and only count the others. No probe is removed: an
 * untracked call costs its entry alone.
 *
 * A function is checked at one of SHED_CALLS calls, by the cost of all of its calls if
 * they were tracked, so it stays limited as long as its load lasts. The counters here are
 * approximate, because BPF programs on a CPU may preempt each other.
 */

const volatile __u32 fsn_bound = 0; /* share of a CPU's time, in millionths; 0: no bound */

#define SHED_CALLS   1024         /* a power of two */
#define SHED_CLOCK   10           /* bits less of fsn_stat.looked */
/* length of a span; a burst may cost the bound's share of it */
#define SHED_SPAN_NS 200000000ULL
#define SHED_MIN_NS  5000000ULL   /* but at least this is allowed */
/* functions with less than this part of the cost are not limited */
#define SHED_PART    64
/* at least this part of a CPU's time belongs to the traced programs */
#define SHED_SPARSE  20

/* Cost of the group's calls on a CPU: whole_ns if all were tracked, paid_ns as it is. */
struct shed {
	__u64 from_ns, whole_ns, paid_ns;
	__u64 last_whole_ns, last_ns; /* the last span: .whole_ns and its length */
	__u32 over; /* cost of the last span as a multiple of the bound; 0: within it */
	__u32 pad;
};

MAP(fsn_sheds, PERCPU_ARRAY, __u32, struct shed, 1);

static __always_inline void shed_begin_span(struct shed *s, __u64 now)
{
	s->last_whole_ns = s->whole_ns;
	s->last_ns = now - s->from_ns;
	s->from_ns = now;
	s->whole_ns = s->paid_ns = 0;
}

/* Compares the span so far with the bound. */
static __always_inline void shed_judge(struct shed *s, __u64 now)
{
	__u64 span = now - s->from_ns, own = span > s->paid_ns ? span - s->paid_ns : 0, limit;
	__u64 burst = SHED_SPAN_NS / FSN_SHARE_ALL * fsn_bound;

	if (burst < SHED_MIN_NS)
		burst = SHED_MIN_NS;
	if (own < span / SHED_SPARSE)
		own = span / SHED_SPARSE;
	limit = own / 1000 * fsn_bound / (FSN_SHARE_ALL / 1000);
	if (s->whole_ns >= burst && s->whole_ns > limit) {
		s->over = s->whole_ns / (limit + 1) + 1;
		shed_begin_span(s, now);
	} else if (span >= SHED_SPAN_NS) {
		s->over = 0;
		shed_begin_span(s, now);
	}
}

/*
 * Called at one of SHED_CALLS calls of @fn: chooses how many of the next ones are
 * tracked.
 */
__noinline int shed_look(__u32 fn)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());
	struct fsn_conf *conf = bpf_map_lookup_elem(&fsn_confs, &fn);
	__u64 now, took, whole, end;
	__u32 zero = 0, one_of;
	struct shed *s = bpf_map_lookup_elem(&fsn_sheds, &zero);

	if (!stat || !conf || !s || !conf->shed_ns)
		return 0;
	now = bpf_ktime_get_ns();
	took = (__u64)((__u32)(now >> SHED_CLOCK) - stat->looked) << SHED_CLOCK;
	if (!stat->looked)
		took = 0;
	stat->looked = now >> SHED_CLOCK;
	if (!s->from_ns)
		s->from_ns = now;
	if (!took)
		return 0;
	one_of = stat->one_of;
	whole = (__u64)SHED_CALLS * conf->shed_ns;
	end = (__u64)SHED_CALLS * conf->end_ns;
	s->whole_ns += whole;
	s->paid_ns += one_of > 1 ? whole - end + end / one_of : whole;
	shed_judge(s, now);
	one_of = 0;
	/* Its share of the cost: whole / took against that of all in the last span. */
	if (s->over && whole * SHED_PART / took >= s->last_whole_ns / (s->last_ns + 1)) {
		one_of = 2;
		for (int i = 0; i < 7 && one_of < 2 * s->over; i++)
			one_of *= 2;
	}
	stat->one_of = one_of;
	return 0;
}

/* Tracks all calls again of a limited function that is now rarely called. */
__noinline int shed_end(__u32 fn)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());

	if (stat && (__u32)(bpf_ktime_get_ns() >> SHED_CLOCK) - stat->looked > SHED_SPAN_NS >> SHED_CLOCK)
		stat->one_of = 0;
	return 0;
}

/*
 * Returns N to track one of N calls of @fn, or 0 for all. @stat is its record, @nth this
 * call.
 */
static __always_inline __u32 shed_one_of(struct fsn_stat *stat, __u32 fn, __u64 nth)
{
	if (!(nth & (SHED_CALLS - 1)))
		shed_look(fn);
	return READ(stat->one_of);
}

/* --- entries ------------------------------------------------------------------------ */

/*
 * Code for rare cases is in functions that are not static and take numbers: each is
 * verified once, separately. Code for all calls is inlined.
 */

/* Returns N to track one of N calls; 0: all. */
static __always_inline __u32 sample_of(__u32 fn)
{
	struct fsn_conf *conf;

	if (!fsn_samples)
		return fsn_sample;
	conf = bpf_map_lookup_elem(&fsn_confs, &fn);
	return conf ? conf->sample : 0;
}

/*
 * Counts a call of a sampled function. Not inlined, because the BPF programs have no
 * stack left.
 */
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

/*
 * Counts a call. True if the call is tracked: one of N calls on a CPU, if calls are
 * sampled.
 */
static __always_inline int count_call(struct fsn_stat *stat, __u32 fn)
{
	if (fsn_sample || fsn_samples || fsn_bound)
		return count_one_of(fn);
	if (!stat)
		return 0;
	add(&stat->n.calls, 1);
	return 1;
}

/* Counts the probe hit of a filtered call. */
static __noinline int count_filtered(__u32 fn)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());

	if (stat)
		add(&stat->n.aside, 1);
	return 0;
}

/* Counts a call without a slot, by the reason that slot_claim() returned. */
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

/*
 * Handles an untracked call whose return may be traced: no older call may match that
 * return.
 */
static __always_inline void call_untracked(
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

/*
 * Handles the entry of tail call target @place, which is not in the group: probed for
 * tracked calls only.
 */
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

enum begun {
	SKIPPED,     /* filtered */
	COUNTED,     /* not sampled */
	TRACKED,     /* has a slot */
	NOT_CLAIMED, /* got no slot */
	INNER,       /* part of an outer call that has tail-called it */
};

/* True if the call is untracked, although a probe may trace its return. */
static __always_inline bool is_untracked(enum begun begun)
{
	return begun == SKIPPED || begun == COUNTED || begun == NOT_CLAIMED;
}

/* call_begin() without the end of the measurement, unless the call is tracked. */
static __always_inline enum begun call_follow(struct pt_regs *ctx, __u32 fn, __u64 where,
	__u64 sp, __u64 byret, enum hijack hijack, bool nests, struct fsn_stat *stat, __u64 run)
{
	struct task_struct *task = current_for_reading();
	__u32 slot, tgid = task->tgid, proc = FSN_NO_PROC;
	__u64 parent = 0;
	struct fsn_args *args;
	struct fsn_call *call;
	struct fsn_set *set;
	__u32 row = FSN_NO_ROW;
	int way;

	if (!is_wanted(ctx, fn)) {
		count_filtered(fn);
		if (fsn_memory_on)
			memory_untracked(ctx, fn, false);
		return SKIPPED;
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
		return SKIPPED;
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
			memory_untracked(ctx, fn, true);
		if (fsn_nesting)
			nest_hit(fn, sp, HIT_ENTRY);
		return way == SLOT_INNER ? INNER : NOT_CLAIMED;
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
	if (fsn_keeps_regs || READ(ctl.save_args)) {
		args = bpf_map_lookup_elem(&fsn_args, &slot);
		if (args) {
			if (args_read(ctx, fn, args->arg))
				proc |= READ(ctl.save_args) ? FSN_HAS_ARGS : FSN_HAS_REGS;
			if (fsn_has_more && proc & FSN_HAS_ARGS)
				keep_more(fn, slot, sp);
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
	return TRACKED;
}

/*
 * Tracks a call if a probe traces its return. @where is its stack address; calls that it
 * is made in have theirs above @sp. @hijack: how its return is traced. @nests: calls made
 * before it returns are inside of it. @run: as of run_entry(), or RUN_NOW if the
 * measurement starts here.
 */
static __always_inline enum begun call_begin(struct pt_regs *ctx, __u32 fn, __u64 where,
	__u64 sp, __u64 byret, enum hijack hijack, bool nests, __u64 run)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());
	enum begun begun;

	if (run == RUN_NOW)
		run = run_entry(stat);
	begun = call_follow(ctx, fn, where, sp, byret, hijack, nests, stat, run);
	if (run && begun != TRACKED)
		run_over(run, fn, RUN_ENTRY);
	return begun;
}

/* Counts a call that is not tracked, in all of its records. @same: its entry is its return. */
static __always_inline void call_count(
	struct pt_regs *ctx, __u32 fn, __u64 sp, bool same, struct fsn_stat *stat)
{
	struct task_struct *task;

	if (!is_wanted(ctx, fn)) {
		count_filtered(fn);
		if (fsn_memory_on)
			memory_untracked(ctx, fn, false);
		return;
	}
	count_call(stat, fn);
	if (fsn_memory_on)
		memory_untracked(ctx, fn, true);
	if (fsn_keyed)
		row_count(ctx, fn, sp);
	if (fsn_processes) {
		task = current_for_reading();
		proc_count(task, fn, task->tgid, bpf_get_smp_processor_id());
	}
	if (fsn_nesting)
		nest_hit(fn, sp, HIT_ENTRY);
	if (READ(ctl.streams))
		stream_counted(ctx, fn, same);
}

/* Handles an untracked call. @run: as in call_begin(). */
static __always_inline void call_counted(
	struct pt_regs *ctx, __u32 fn, __u64 sp, bool same, __u64 run)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());

	if (run == RUN_NOW)
		run = run_entry(stat);
	call_count(ctx, fn, sp, same, stat);
	cold_send();
	if (run)
		run_over(run, fn, RUN_ENTRY);
}

/* --- returns ------------------------------------------------------------------------ */

/* Handles a failed or slow call. Returns FSN_CALL_FAILED, FSN_CALL_SLOW. */
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

/* True if end_unusual() may be needed. */
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
 * Time of a call without the overhead of its probes. The overhead varies, so the result
 * can be negative. Such a call has the duration 0, but sums include the negative value,
 * so that they have no bias.
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
 * Counts a return in the function's record. Returns FSN_CALL_FAILED, FSN_CALL_SLOW.
 * Chooses whether the measurement *@run counts, unless @run is NULL.
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
	if (nest && nest->probes_ns) {
		add(&stat->n.probes_ns, nest->probes_ns);
		raise_probes(stat, nest->probes_ns);
	}
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

/*
 * Returns FSN_CALL_UNTIMED and counts the call in @slot if links were replaced during it,
 * else 0. Its thread may have waited for that; the same is true of its outer calls. Not
 * static, so that it is verified once.
 */
__noinline int end_disturbed(__u32 fn, __u32 slot)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());

	if (slot_start(slot) >= READ(ctl.replaced_ns))
		return 0;
	if (stat)
		add(&stat->n.unseen, 1);
	return FSN_CALL_UNTIMED;
}

/* Counts a return in the record of its process, if there is one. */
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
 * Counts the return of the call in the locked @slot, and frees the slot. @run: as of
 * run_begin(), at the return. Returns it for run_end(), or with @late for run_late(),
 * because some BPF programs have no stack left. Without @roomy, the current task is read
 * again instead of being kept in @task.
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
	how = READ(ctl.replaced_ns) ? end_disturbed(fn, slot) : 0;
	if (!how)
		how = end_in_function(fn, conf, slot, net, result, nest, split, late ? NULL : &run);
	if (fsn_processes && !(how & FSN_CALL_UNTIMED))
		end_in_process(proc_again(FSN_PROC_OF(set->call[way].proc), fn, tgid,
				       bpf_get_smp_processor_id()),
			net, how, nest, split);
	if (fsn_keyed && !(how & FSN_CALL_UNTIMED))
		end_in_row(slot, fn, tgid, net, how, result, split);
	if (fsn_memory_on)
		memory_ends(fn, slot, result, how & FSN_CALL_FAILED, run_time(run));
	if (fsn_asked && !(how & FSN_CALL_FAILED))
		handle_found(fn, slot);
	if (streamed)
		stream_ends(fn, slot, shown_time(net), how, result);
	slot_publish(set, way, 0);
	return run;
}

/*
 * Counts the return of a call if it has a slot. With @roomy the current task is read
 * once; some BPF programs have no stack to keep it.
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
		slot * FSN_WAYS + way, fn, run, result, streamed, !is_of_goroutine(where), streamed);
	if (streamed)
		return run_late(run, fn);
	run_end(run, fn);
	return 0;
}

/* True if the call in @slot of @set, which is about to return, is slow or has failed. */
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

/*
 * Counts the run time of a walk at a return. Such walks are rare and long, so all are
 * measured.
 */
static __noinline int count_walk(__u32 fn, __u64 ns)
{
	struct fsn_stat *stat =
		fn < fsn_fn_cnt ? stat_of(fn, bpf_get_smp_processor_id()) : NULL;

	if (stat)
		add(&stat->n.walks_ns, ns);
	return 0;
}

/*
 * Records the stacks of slow and failed calls at stack address @where before their return
 * is counted, because no BPF program has stack left for a walk there. The walk is not
 * part of their time.
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

/* The return of a call while a stream is open; the usual return is inlined. */
__noinline int end_streamed(__u32 fn, __u64 where, __u64 result)
{
	return end_call(fn, where, result, true, false);
}

/* Counts the return of a call through a tracked tail call, in the locked @slot. */
__noinline int end_followed(__u32 fn, __u32 slot, __u64 now, __u64 result)
{
	__u32 i = slot / FSN_WAYS;
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &i);

	if (set)
		call_over(bpf_get_current_task_btf(), false, set, slot, fn, now << RUN_SHIFT, result, READ(ctl.streams), true, true);
	return 0;
}

/*
 * Handles a return. @led: tail calls are tracked to here; @link: as for return_address(),
 * or ANY_ADDRESS after a return probe. Returns false if @fn is not in the group and no
 * tracked call has come to it.
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
