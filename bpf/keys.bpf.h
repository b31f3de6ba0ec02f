/* SPDX-License-Identifier: GPL-2.0-only */
/* What a call is about: the words of its key, each part from where the group says, and sums. */
#ifndef FUNCSNOOP_KEYS_BPF_H
#define FUNCSNOOP_KEYS_BPF_H

#include "mapping.bpf.h"
#include "filter.bpf.h"
#include "launches.bpf.h"
#include "stacks.bpf.h"

const volatile bool fsn_keyed = false;    /* some function has a key or a sum */
const volatile bool fsn_key_wide = false; /* some key takes more than a word */
const volatile __u32 fsn_key_kinds[FSN_KEYS] = {}; /* 1 << enum fsn_by, of all functions' */
const volatile bool fsn_key_late = false; /* some key is a result */
const volatile __u32 fsn_key_cnt = 0;
const volatile __u32 fsn_sum_cnt = 0;

/* Of an argument or a result as wide as it is, with its sign. */
static __always_inline __u64 part_cut(const struct fsn_part *p, __u64 word)
{
	__u32 unused = (64 - p->width) & 63;

	return p->is_signed ? (__u64)((__s64)(word << unused) >> unused)
			    : word << unused >> unused;
}

static __always_inline __u64 part_number(const struct pt_regs *ctx, const struct fsn_part *p)
{
	return part_cut(p, arg_word(ctx, p->where));
}

static __always_inline bool word_at(__u64 base, __u32 behind, __u64 *to)
{
	return base && !bpf_probe_read_user(to, sizeof(*to), (void *)(base + behind - 1));
}

/* What is not there (never touched, swapped out) can't be waited for, nor what is in other units. */
static __noinline __u64 part_product(const struct pt_regs *ctx, const struct fsn_part *p)
{
	__u64 base = p->at ? arg_word(ctx, p->where) : 0, word = 0, n = 1;
	bool fails = false;

#pragma unroll
	for (__u32 i = 0; i < FSN_ABSENTS; i++)
		if (p->type >> 16 * i & 0xffff)
			fails |= !word_at(base, p->type >> 16 * i & 0xffff, &word) || word;
#pragma unroll
	for (__u32 i = 0; i < FSN_FACTORS; i++) {
		__u32 at = p->sizes >> 16 * i & 0xffff;

		if (!at)
			break;
		if (p->at)
			fails |= !word_at(base, at, &word);
		else
			word = arg_word(ctx, at);
		n *= word;
	}
	if (!fails)
		return n;
	add(&ctl.lost_texts, 1);
	return 0;
}

static __always_inline __u64 part_sum(const struct pt_regs *ctx, const struct fsn_part *p)
{
	__u64 n, type;
	__u32 size;

	if (p->what == FSN_BY_PRODUCT)
		return part_product(ctx, p);
	n = part_number(ctx, p);
	if (p->what != FSN_BY_BYTES)
		return n;
	type = (__u32)arg_word(ctx, p->type);
	size = type < 16 ? p->sizes >> 4 * type & 15 : 0;
	return size ? n << (size - 1) : 0;
}

/* Text that is not there (never touched, swapped out) can't be waited for. */
static __noinline int part_text(const struct pt_regs *ctx, const struct fsn_part *p, char *to)
{
	__u64 at = arg_word(ctx, p->where);

	if (text_read(to, FSN_KEY_TEXT, p->where, at) >= 0)
		return 0;
	__builtin_memset(to, 0, FSN_KEY_TEXT);
	to[FSN_KEY_TEXT - 1] = 1;
	add(&ctl.lost_texts, 1);
	return 0;
}

/* What can be no communicator of NCCL's is told apart by its address. */
static __noinline int part_communicator(
	const struct pt_regs *ctx, const struct fsn_part *p, struct fsn_communicator *to)
{
	__u64 at = arg_word(ctx, p->where);

	if (!bpf_probe_read_user(to, offsetof(struct fsn_communicator, pad), (void *)(at + p->at)) &&
		to->ranks >= 1 && to->ranks <= FSN_RANKS_MAX && to->rank >= 0 &&
		to->rank < to->ranks)
		return 0;
	__builtin_memset(to, 0, sizeof(*to));
	to->hash = at;
	return 0;
}

/* Sizes are written out: the verifier loses the bounds of one that is computed. */
static __always_inline long number_read(__u64 *to, __u32 bits, const void *at)
{
	switch (bits) {
	case 8:
		return bpf_probe_read_user(to, 1, at);
	case 16:
		return bpf_probe_read_user(to, 2, at);
	case 32:
		return bpf_probe_read_user(to, 4, at);
	default:
		return bpf_probe_read_user(to, 8, at);
	}
}

/* As of text, what is not there can't be waited for. */
static __noinline int part_member(const struct pt_regs *ctx, const struct fsn_part *p, __u64 *to)
{
	__u64 at = arg_word(ctx, p->where);

	to[0] = 0;
	to[1] = !at || number_read(to, p->width, (void *)(at + p->at));
	if (to[1])
		add(&ctl.lost_texts, 1);
	else
		to[0] = part_cut(p, to[0]);
	return 0;
}

/* What no function has is not verified, which takes a verifier of 5.15 too long for three keys. */
#define IS_PART(by) (fsn_key_kinds[i] & 1U << (by) && p->what == (by))

/* Parts of more than a word. */
static __always_inline void part_wide(
	const struct pt_regs *ctx, const struct fsn_part *p, __u32 i, __u64 *to)
{
	if (IS_PART(FSN_BY_TEXT))
		part_text(ctx, p, (char *)to);
	else if (IS_PART(FSN_BY_COMM))
		bpf_get_current_comm(to, FSN_COMM_LEN);
	else if (IS_PART(FSN_BY_COMMUNICATOR))
		part_communicator(ctx, p, (struct fsn_communicator *)to);
	else if (IS_PART(FSN_BY_MEMBER))
		part_member(ctx, p, to);
}

static __always_inline __u64 part_stack(const struct pt_regs *ctx)
{
	if (!fsn_walks_stacks || fsn_walks_late)
		return 0;
	if (fsn_thread_stacks)
		return event_arg(ctx, FSN_EVENT_STACK);
	if (fsn_user_stacks)
		return stack_of_user();
	return stack_of_call(caller_sp(ctx), caller_fp(ctx), caller_link(ctx));
}

static __always_inline __u64 part_word(
	const struct pt_regs *ctx, const struct fsn_part *p, __u32 i)
{
	if (IS_PART(FSN_BY_NUMBER) || IS_PART(FSN_BY_KERNEL))
		return part_number(ctx, p);
	if (IS_PART(FSN_BY_CLASS))
		return key_class(part_number(ctx, p));
	if (IS_PART(FSN_BY_CALLER))
		return caller_of(ctx);
	if (IS_PART(FSN_BY_THREAD))
		return (__u32)bpf_get_current_pid_tgid();
	if (IS_PART(FSN_BY_CGROUP))
		return bpf_get_current_cgroup_id();
	return IS_PART(FSN_BY_STACK) ? part_stack(ctx) : 0;
}

static __always_inline void key_fill(
	const struct pt_regs *ctx, const struct fsn_keyed *keyed, struct fsn_key *key)
{
#pragma unroll
	for (__u32 i = 0; i < FSN_KEYS; i++) {
		if (i >= fsn_key_cnt)
			break;
		if (!fsn_key_wide) {
			key->word[i] = part_word(ctx, &keyed->key[i], i);
			continue;
		}
		key->word[i * FSN_KEY_WIDE] = part_word(ctx, &keyed->key[i], i);
		part_wide(ctx, &keyed->key[i], i, &key->word[i * FSN_KEY_WIDE]);
	}
}

#endif
