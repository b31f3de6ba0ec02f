/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Calls that leave by a jump. What they jump to goes on with them at the same stack pointer,
 * and returns to their caller: where its ends are probed, they are seen there.
 *
 * "A ret ends whatever is at its stack pointer" would be wrong: all calls that one function
 * makes have the same one, and what an exception or longjmp() has left stands there, too. So
 * each jump marks the calls that it leaves with, by where it leads and by their return address;
 * the entry of that place, where it is probed, tells those that have come there from those
 * that never did, or that were there before; and a ret ends what is marked with its place
 * and return address. What is marked otherwise, or not at all, is over.
 *
 * Recursion by jumps needs one slot a function: a call that is reached again is part of the
 * outer one. One case is left: an exception or longjmp() leaves a place whose entry is not
 * probed, and the very instruction that had called the function that jumped there then calls
 * the place itself. Thread exit and exec are as with other calls.
 */
#ifndef FUNCSNOOP_TAILS_BPF_H
#define FUNCSNOOP_TAILS_BPF_H

#include "nest.bpf.h"
#include "stream.bpf.h"

/* --- counted, and taken off ----------------------------------------------------------- */

static __noinline int count_chained(__u32 fn)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());

	if (stat)
		add(&stat->n.chained, 1);
	return 0;
}

/*
 * An end without a slot: its call began before, or in a parent, or was not followed. Where
 * calls are chosen by their arguments it says nothing: most are not followed.
 */
__noinline int count_unmatched(__u32 fn, __u64 where, int hit)
{
	struct fsn_stat *stat =
		fn < fsn_fn_cnt ? stat_of(fn, bpf_get_smp_processor_id()) : NULL;
	bool on = is_on(), told = on && !(READ(ctl.on) & FSN_FILTER_IF);

	if (stat && told)
		add(&stat->n.unmatched, 1);
	else if (stat && hit == HIT_END)
		add(&stat->n.strays, 1);
	/* No ret's hit: a jump's, or none of its own. */
	if (stat && told && hit != HIT_END)
		add(&stat->n.led, 1);
	if (stat && hit == HIT_PASSED)
		add(&stat->n.passed, 1);
	if (fsn_nesting && on && hit != HIT_NONE)
		nest_hit(fn, where, hit);
	return 0;
}

/* An end of what the filters leave out. */
static __noinline int count_stray(__u32 fn)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());

	if (stat)
		add(&stat->n.strays, 1);
	return 0;
}

/* A probe on a jump that did not leave: what it takes is part of what the group costs. */
static __noinline int count_passed(__u32 fn, __u64 where)
{
	struct fsn_stat *stat =
		fn < fsn_fn_cnt ? stat_of(fn, bpf_get_smp_processor_id()) : NULL;

	if (stat)
		add(&stat->n.passed, 1);
	if (fsn_nesting && is_on())
		nest_hit(fn, where, HIT_PASSED);
	return 0;
}

#define ANY_ADDRESS    (~0ULL)
#define LEAVES_AT_ONCE (1ULL << 32)

int end_followed(__u32 fn, __u32 slot, __u64 now, __u64 result);

static __always_inline struct fsn_place *place_of(__u32 place)
{
	__u32 i = place - fsn_fn_cnt;

	return place < fsn_fn_cnt ? NULL : bpf_map_lookup_elem(&fsn_places, &i);
}

/* Its ends are hit by other callers more than they end tracked calls. */
static __always_inline bool is_dear(__u32 to)
{
	struct fsn_place *place = place_of(to);

	return place && place_is_dear(READ(place->hits), READ(place->ended));
}

/* The call in the locked @slot goes on where no end is seen: no result, no duration. */
__noinline int end_untimed(__u32 fn, __u32 slot, __u64 now)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());
	__u32 i = slot / FSN_WAYS;
	struct fsn_set *set;

	if (stat)
		add(&stat->n.jumped, 1);
	if (fsn_nesting)
		nest_left(fn, slot, now);
	if (READ(ctl.streams)) {
		__u64 start = slot_start(slot);

		stream_ends(fn, slot, now > start ? now - start : 0,
			FSN_CALL_UNTIMED | FSN_CALL_NO_RESULT, 0);
	}
	set = bpf_map_lookup_elem(&fsn_slots, &i);
	if (set)
		slot_publish(set, slot % FSN_WAYS, 0);
	return 0;
}

/* Whether the call under @seen is in @place now. */
static __always_inline bool is_at(
	const struct fsn_mark *mark, __u64 seen, __u32 place, __u64 back)
{
	if (!(seen & FSN_KEY_LEFT))
		return seen & FSN_KEY_BYRET && (seen & FSN_KEY_FN_MASK) == place + 1;
	return mark && mark->to == place && !mark->waits &&
	       (back == ANY_ADDRESS || mark->back == back);
}

/* It is, and jumps on, its slot being locked: there it is marked, else it ends. */
static __always_inline void slot_leaves(struct fsn_set *set, __u32 no, int way, __u64 seen,
	__u64 how, __u64 back)
{
	struct fsn_mark *mark = mark_of(no, way);

	if (!how || !mark) {
		held_add(seen, way, -1);
		end_untimed((seen & FSN_KEY_FN_MASK) - 1, no * FSN_WAYS + way,
			bpf_ktime_get_ns());
		return;
	}
	mark->hits = seen & FSN_KEY_LEFT ? mark->hits + 1 : !(how & LEAVES_AT_ONCE);
	mark->back = back;
	mark->to = ((__u32)how >> 1) - 1;
	mark->waits = how & 1;
	slot_publish(set, way, (seen & FSN_KEY_USED_MASK) | FSN_KEY_LEFT);
}

/* A hit of a probe of @place, no function's, is one of the function that has it there. */
static __noinline int count_place(__u32 place, int stepped)
{
	struct fsn_place *other = place_of(place);
	struct fsn_stat *stat =
		other ? stat_of(other->fn, bpf_get_smp_processor_id()) : NULL;

	if (stat) {
		add(&stat->n.passed, 1);
		if (stepped)
			add(&stat->n.stepped, 1);
	}
	return 0;
}

/* A jump of @fn was hit that is dearer than others. */
static __noinline int count_step(__u32 fn)
{
	struct fsn_stat *stat =
		fn < fsn_fn_cnt ? stat_of(fn, bpf_get_smp_processor_id()) : NULL;

	if (stat)
		add(&stat->n.stepped, 1);
	return 0;
}

/* Whether the kernel steps the instruction of an end that is no early one. */
static __always_inline bool end_is_stepped(__u64 kind, __u64 cookie)
{
#if defined(__TARGET_ARCH_x86)
	return kind == FSN_END ||
	       (kind < FSN_END_EARLY && cookie >> FSN_COOKIE_STEP_SHIFT & 1);
#else
	return kind == FSN_END;
#endif
}

/* A call of @fn has ended by the probe of what it was led to, which counts its own hits. */
static __noinline int count_led(__u32 fn)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());

	if (stat)
		add(&stat->n.led, 1);
	return 0;
}

/* The hit of a jump that is followed is counted as cost; the call's time goes without it. */
static __noinline int count_jump(__u32 fn)
{
	struct fsn_stat *stat = stat_of(fn, bpf_get_smp_processor_id());

	if (stat)
		add(&stat->n.passed, 1);
	return 0;
}

/* A jump that calls leave by. */
struct leaving {
	__u32 no; /* of their set */
	__u32 place;
	__u64 back;
	__u64 how; /* as call_leaves() has it, 0 also for what is not followed */
};

/*
 * One of the calls at a jump's stack pointer, @way under @seen, leaves by it if it is there;
 * else it is over. Returns its key, or 0. As end_left_way(), verified once.
 */
__noinline __u64 call_leaves_way(
	struct fsn_set *set, __u32 way, __u64 seen, const struct leaving *jump)
{
	if (!set || !jump)
		return 0;
	way &= FSN_WAYS - 1;
	if (!is_at(mark_of(jump->no, way), seen, jump->place, jump->back)) {
		if (seen & FSN_KEY_BYRET)
			slot_drop(set, way, seen);
		return 0;
	}
	if (!swap(&set->key[way], seen, next_gen(seen) | FSN_KEY_LOCKED))
		return 0;
	slot_leaves(set, jump->no, way, seen, jump->how, jump->back);
	return seen;
}

/*
 * A jump leaves @place, a function or not: all calls that are there now go on where it leads.
 * @how: what stands in its cookie from FSN_COOKIE_WAIT_SHIFT on, 0: not known where; and
 * LEAVES_AT_ONCE where the probe is the entry's, too.
 */
__noinline int call_leaves(__u32 place, __u64 where, __u64 how, __u64 link)
{
	__u32 tgid = bpf_get_current_task_btf()->tgid, no = set_index(tgid, where);
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &no);
	struct leaving jump = { .no = no, .place = place };
	__u64 key = call_key(place, tgid), seen, left = 0;
	bool at_once = how & LEAVES_AT_ONCE;

	if (!set)
		return 0;
	if (fsn_follows)
		jump.back = return_address(where, link);
	if (jump.back && (__u32)how >= 2 && !is_dear(((__u32)how >> 1) - 1))
		jump.how = how;
	for (int i = 0; i < FSN_WAYS; i++) {
		seen = READ(set->key[i]);
		if (!(seen & FSN_KEY_TGID_MASK) || seen & FSN_KEY_GHOST ||
			!is_here(set, i, seen, key, where))
			continue;
		left |= call_leaves_way(set, i, seen, &jump);
	}
	if (!left)
		return count_unmatched(place, where, at_once ? HIT_NONE : HIT_PASSED);
	if (jump.how && !at_once && place < fsn_fn_cnt)
		count_jump(place);
	return 0;
}

/* Whether some call that has left by a jump may stand at @where. */
static __always_inline bool some_left(__u64 where)
{
	__u32 no = set_index(bpf_get_current_task_btf()->tgid, where);
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &no);
	__u64 used = 0;

	if (!set)
		return false;
#pragma unroll
	for (int i = 0; i < FSN_WAYS; i++)
		used |= READ(set->key[i]);
	return used & FSN_KEY_LEFT;
}

/* An end at which calls may be that have left by jumps. */
struct left_end {
	__u32 no; /* of their set */
	__u32 place;
	__u64 back, now, result;
};

#define ENDED     1 /* some call */
#define ENDED_OWN 2 /* one of the place itself */

/*
 * One of them, @way under @seen, ends if it has come there; else it is over. Not static, so that it
 * is verified once, and for no way in particular.
 */
__noinline int end_left_way(
	struct fsn_set *set, __u32 way, __u64 seen, const struct left_end *end)
{
	struct fsn_place *other;
	struct fsn_mark *mark;
	__u64 hits_ns;
	__u32 fn;

	if (!set || !end)
		return 0;
	way &= FSN_WAYS - 1;
	mark = mark_of(end->no, way);
	if (!is_at(mark, seen, end->place, end->back)) {
		slot_drop(set, way, seen);
		return 0;
	}
	if (!swap(&set->key[way], seen, next_gen(seen) | FSN_KEY_LOCKED))
		return 0;
	held_add(seen, way, -1);
	other = place_of(end->place);
	if (other)
		add(&other->ended, 1);
	fn = (seen & FSN_KEY_FN_MASK) - 1;
	hits_ns = (mark ? mark->hits : 0) * (__u64)fsn_hit_ns;
	if (fsn_nesting && hits_ns)
		nest_outer_probe(end->no * FSN_WAYS + way, hits_ns);
	end_followed(fn, end->no * FSN_WAYS + way, end->now - hits_ns, end->result);
	if (fn == end->place)
		return ENDED | ENDED_OWN;
	count_led(fn);
	return ENDED;
}

/*
 * A call of @place ends, and with it those that have come there by jumps: ENDED, and with ENDED_OWN
 * one of these is of the place itself, so that the call that ends has no slot of its own. @link: as
 * for return_address(), or ANY_ADDRESS where a return probe has taken it, and the entry is probed.
 */
__noinline int end_left(__u32 place, __u64 where, __u64 link, __u64 result)
{
	__u32 tgid = bpf_get_current_task_btf()->tgid, no = set_index(tgid, where);
	struct left_end end = { .no = no, .place = place, .result = result };
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &no);
	__u64 key = call_key(place, tgid), seen, own = 0;
	struct fsn_place *other = place_of(place);

	end.now = bpf_ktime_get_ns();
	if (!set)
		return 0;
	if (other)
		add(&other->hits, 1);
	for (int i = 0; i < FSN_WAYS; i++) {
		seen = READ(set->key[i]);
		if (!(seen & FSN_KEY_LEFT) || !is_here(set, i, seen, key, where))
			continue;
		if (!end.back)
			end.back = link == ANY_ADDRESS ? link : return_address(where, link);
		own |= end_left_way(set, i, seen, &end);
	}
	return own;
}

#endif
