/* SPDX-License-Identifier: GPL-2.0-only */
/* Places of calls in progress. */
#ifndef FUNCSNOOP_SLOTS_BPF_H
#define FUNCSNOOP_SLOTS_BPF_H

#include "counters.bpf.h"

static __always_inline __u32 set_index(__u32 tgid, __u64 sp)
{
	return ((sp ^ (__u64)tgid << 40) * 0x9e3779b97f4a7c15ULL) >> (64 - FSN_SET_BITS);
}

static __always_inline __u64 call_key(__u32 fn, __u32 tgid)
{
	return (fn + 1) | (__u64)tgid << FSN_KEY_TGID_SHIFT;
}

static __always_inline __u64 next_gen(__u64 key)
{
	return (key & FSN_KEY_GEN_MASK) + FSN_KEY_GEN;
}

static __noinline int count_abandoned(__u64 key)
{
	struct fsn_stat *stat =
		stat_of((key & FSN_KEY_FN_MASK) - 1, bpf_get_smp_processor_id());

	if (stat)
		add(&stat->abandoned, 1);
	return 0;
}

/*
 * Takes a place in the set for a call and leaves it locked. Older calls at the same stack
 * pointer that can't be live any more are given up on the way. Returns the way or -1.
 * Not static, so that it is verified once, on its own.
 */
__noinline int slot_claim(struct fsn_set *set, __u64 key, __u64 sp)
{
	__u64 seen, gen;
	int mine = -1;

	if (!set)
		return -1;
#pragma unroll
	for (int i = 0; i < FSN_WAYS; i++) {
		seen = READ(set->key[i]);
		gen = next_gen(seen);
		if (!(seen & FSN_KEY_USED_MASK)) {
			if (mine < 0 && swap(&set->key[i], seen, gen | FSN_KEY_LOCKED))
				mine = i;
			continue;
		}
		if (((seen ^ key) & FSN_KEY_TGID_MASK) || READ(set->sp[i]) != sp)
			continue;
		if (((seen ^ key) & FSN_KEY_FN_MASK) && !(seen & FSN_KEY_BYRET))
			continue;
		if (!swap(&set->key[i], seen, mine < 0 ? gen | FSN_KEY_LOCKED : gen))
			continue;
		count_abandoned(seen);
		if (mine < 0)
			mine = i;
	}
	return mine;
}

/*
 * Takes the slot of a call at this place away and leaves it locked, so that its contents
 * stay until it is given back with slot_free(). Returns the way, or -1: there is none.
 */
__noinline int slot_take(struct fsn_set *set, __u64 key, __u64 sp)
{
	__u64 seen;

	if (!set)
		return -1;
#pragma unroll
	for (int i = 0; i < FSN_WAYS; i++) {
		seen = READ(set->key[i]);
		if (((seen ^ key) & FSN_KEY_CALL_MASK) || READ(set->sp[i]) != sp)
			continue;
		if (swap(&set->key[i], seen, next_gen(seen) | FSN_KEY_LOCKED))
			return i;
	}
	return -1;
}

/*
 * The usual case, without a call: nobody is in the set, so that nothing can be given up in
 * it either, and the first way is free.
 */
static __always_inline int slot_claim_first(struct fsn_set *set, __u64 key, __u64 sp)
{
	__u64 first = READ(set->key[0]), used = first;

#pragma unroll
	for (int i = 1; i < FSN_WAYS; i++)
		used |= READ(set->key[i]);
	if (!(used & FSN_KEY_USED_MASK) &&
		swap(&set->key[0], first, next_gen(first) | FSN_KEY_LOCKED))
		return 0;
	return slot_claim(set, key, sp);
}

/* The same for the end of a call. */
static __always_inline int slot_take_first(struct fsn_set *set, __u64 key, __u64 sp)
{
	__u64 seen = READ(set->key[0]);

	if (!((seen ^ key) & FSN_KEY_CALL_MASK) && READ(set->sp[0]) == sp &&
		swap(&set->key[0], seen, next_gen(seen) | FSN_KEY_LOCKED))
		return 0;
	return slot_take(set, key, sp);
}

/*
 * Gives up what stands under the key of a call that is not followed: its end may be seen all
 * the same, and would be taken for that of the older one. A second try is for what a sweep
 * has changed in between.
 */
__noinline int slot_clear(struct fsn_set *set, __u64 key, __u64 sp)
{
	__u64 seen;

	if (!set)
		return 0;
#pragma unroll
	for (int i = 0; i < FSN_WAYS * 2; i++) {
		seen = READ(set->key[i % FSN_WAYS]);
		if (((seen ^ key) & FSN_KEY_CALL_MASK) || READ(set->sp[i % FSN_WAYS]) != sp)
			continue;
		if (swap(&set->key[i % FSN_WAYS], seen, next_gen(seen)))
			count_abandoned(seen);
	}
	return 0;
}

/* A locked slot gets its key, or none; it keeps its generation. */
static __always_inline void slot_publish(struct fsn_set *set, int way, __u64 key)
{
	publish(&set->key[way], (set->key[way] & FSN_KEY_GEN_MASK) | key);
}

/* What is known of a call whose slot is locked: FSN_CALL_NO_RESULT, FSN_CALL_NO_ARGS. */
static __noinline __u32 slot_flags(__u32 slot)
{
	__u32 index = slot / FSN_WAYS, way = slot % FSN_WAYS;
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &index);

	if (!set)
		return FSN_CALL_NO_RESULT | FSN_CALL_NO_ARGS;
	return (set->sp[way] ? 0 : FSN_CALL_NO_RESULT) |
		(set->proc[way] & FSN_HAS_ARGS ? 0 : FSN_CALL_NO_ARGS);
}

#endif
