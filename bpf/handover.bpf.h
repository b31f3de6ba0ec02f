/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A link that holds many probes gives some of them up: a new link without those is attached, then
 * the old one is removed. Meanwhile both run at the same trap, and one of them has to count.
 *
 * The kernel runs the consumer first that came last (consumer_add(), kernel/events/uprobes.c). So
 * the new link always counts, and marks thread, function and kind of probe; the old one finds the
 * mark, and leaves the hit alone. Where only the old one is attached so far it finds no mark, and
 * counts. A mark that remains is of an earlier turn, or of the same probe, whose next hit replaces
 * it.
 */
#ifndef FUNCSNOOP_HANDOVER_BPF_H
#define FUNCSNOOP_HANDOVER_BPF_H

#include "core.bpf.h"
#include "maps.bpf.h"

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

#endif
