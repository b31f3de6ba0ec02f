/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Events: places that a thread passes, which have no end of their own. USDT probes are
 * instructions that do nothing, with notes beside the code that say where arguments are.
 *
 * Recursion, longjmp and exceptions are none of an event's business: it is over when it is seen.
 */
#ifndef FUNCSNOOP_EVENT_BPF_H
#define FUNCSNOOP_EVENT_BPF_H

#include "stream.bpf.h"

/* By the number in the cookie; no command reads them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fsn_sources);
} fsn_sources SEC(".maps");

/* A word of the context, which may only be read at places that are known beforehand. */
static __always_inline __u64 context_word(void *ctx, __u8 reg)
{
	__u64 word = 0;

	if (reg != FSN_NO_REG)
		bpf_probe_read_kernel(&word, sizeof(word), ctx + reg * sizeof(word));
	return word;
}

static __noinline __u64 source_value(void *ctx, const struct fsn_source *s)
{
	__u64 value = s->offset, at, size = s->size;
	__u32 unused = (64 - s->size * 8) & 63;

	if (s->from == FSN_FROM_REG)
		value = context_word(ctx, s->reg);
	if (s->from == FSN_FROM_MEMORY) {
		at = context_word(ctx, s->reg) + s->offset +
			(context_word(ctx, s->index) << (s->shift & 3));
		value = 0;
		/* As for keep_more(). */
		asm volatile("" : "+r"(size));
		if (size > sizeof(value))
			return 0;
		asm volatile("" : "+r"(size));
		bpf_probe_read_user(&value, size, (void *)at);
	}
	return s->is_signed ? (__u64)((__s64)(value << unused) >> unused)
			    : value << unused >> unused;
}

/* Whether somebody wants the arguments of a function of which nothing is kept. */
static __always_inline bool args_wanted(void)
{
	return fsn_keyed || READ(ctl.on) & FSN_FILTER_IF || READ(ctl.streams);
}

/* Puts the arguments of the place that @cookie is of where those of a function are. */
static __always_inline struct pt_regs *event_regs(
	void *ctx, __u64 cookie, bool wanted, unsigned long *room)
{
	__u32 i = cookie >> FSN_COOKIE_MORE_SHIFT;
	struct fsn_sources *from;
	__u64 arg[FSN_ARGS] = {};

	i--;
	from = wanted ? bpf_map_lookup_elem(&fsn_sources, &i) : NULL;
	if (from) {
#pragma unroll
		for (int n = 0; n < FSN_ARGS; n++)
			if (from->arg[n].from != FSN_FROM_NOWHERE)
				arg[n] = source_value(ctx, &from->arg[n]);
	}
	return event_args(arg, room);
}

SEC("uprobe")
int fsn_usdt(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	unsigned long room[EVENT_ROOM];

	own_stack(ctx);
	call_counted(event_regs(ctx, cookie, args_wanted(), room), cookie & FSN_FN_MASK,
		REG_SP(ctx), true);
	return 0;
}

#endif
