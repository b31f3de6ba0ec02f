/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * While a group costs more of a CPU than its bound, calls of its most expensive functions are only
 * counted, except one of 2 to SHED_MOST, which is followed. Nothing is removed: a hit of such a function
 * costs its entry alone.
 *
 * A function is judged at one of SHED_CALLS calls, by what all of its calls would cost if they were
 * followed, so that it stays limited as long as its load lasts. The counters here are approximate:
 * programs on a CPU may preempt each other.
 */
#ifndef FUNCSNOOP_SHED_BPF_H
#define FUNCSNOOP_SHED_BPF_H

#include "counters.bpf.h"

const volatile __u32 fsn_bound = 0; /* share of a CPU's time, in millionths; 0: no bound */

#define SHED_CALLS   1024         /* a power of two */
#define SHED_CLOCK   10           /* bits less of fsn_stat.looked */
#define SHED_SPAN_NS 200000000ULL /* a burst may cost the bound's share of this */
#define SHED_MIN_NS  5000000ULL   /* and this in any case */
#define SHED_MOST    256
#define SHED_PART    64 /* functions with less than this part of the cost are followed */
#define SHED_SPARSE  20 /* programs have this part of a CPU's time for themselves, at least */

/* Cost of the group's calls on a CPU, as they are and as if all were followed. */
struct shed {
	__u64 from_ns, whole_ns, paid_ns;
	__u64 last_whole_ns, last_ns; /* of the last span, and its length */
	__u32 over; /* how many times the bound that was; 0: within it */
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct shed);
} fsn_sheds SEC(".maps");

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

/* Called at one of SHED_CALLS calls of @fn: chooses how many of the next ones are followed. */
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

/* Follows all calls of a limited function again that is called rarely by now. */
__noinline int shed_end(__u32 fn)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());

	if (stat && (__u32)(bpf_ktime_get_ns() >> SHED_CLOCK) - stat->looked > SHED_SPAN_NS >> SHED_CLOCK)
		stat->one_of = 0;
	return 0;
}

/* Returns N to follow one of N calls of @fn, or 0 for all. @stat is its record, @nth this call. */
static __always_inline __u32 shed_one_of(struct fsn_stat *stat, __u32 fn, __u64 nth)
{
	if (!(nth & (SHED_CALLS - 1)))
		shed_look(fn);
	return READ(stat->one_of);
}

#endif
