/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Keeping each task's stack its own.
 *
 * From 6.13 on (a76ab5731e32) the kernel gives a program or subprogram of this type whose
 * stack, rounded up to 16, has BPF_PRIV_STACK_MIN_SIZE = 64 bytes or more, one that all tasks
 * on a CPU share (check_max_stack_depth(), kernel/bpf/verifier.c), on the ground that such
 * programs don't run again on a CPU on which they run. Uprobe programs do: they have no such
 * check, and since 6.0 (8c7dcb84e3b7) they can be preempted. Then two tasks overwrite each
 * other's variables: seen on 7.2, where calls lost their ends.
 *
 * A program with a tail call in any of its subprograms is given none. Whether it has one is
 * seen before dead code is removed (check_subprogs()), so that one which never comes costs
 * nothing; and what a tail call needs of the architecture is asked only where it may come.
 */
#ifndef FUNCSNOOP_STACK_BPF_H
#define FUNCSNOOP_STACK_BPF_H

#include "core.bpf.h"

const volatile bool fsn_never = false;

/* An array of programs takes those of one kind of link, and two kinds may be loaded. */
#define TAILS(name)                                    \
	struct {                                       \
		__uint(type, BPF_MAP_TYPE_PROG_ARRAY); \
		__uint(max_entries, 1);                \
		__type(key, __u32);                    \
		__type(value, __u32);                  \
	} name SEC(".maps")

TAILS(fsn_tails);
TAILS(fsn_tails_sess);

static __noinline int never_tail(struct pt_regs *ctx)
{
	bpf_tail_call(ctx, &fsn_tails, 0);
	return 0;
}

static __noinline int never_tail_session(struct pt_regs *ctx)
{
	bpf_tail_call(ctx, &fsn_tails_sess, 0);
	return 0;
}

/* To stand in each program. */
static __always_inline void own_stack(struct pt_regs *ctx)
{
	if (fsn_never)
		never_tail(ctx);
}

static __always_inline void own_stack_session(struct pt_regs *ctx)
{
	if (fsn_never)
		never_tail_session(ctx);
}

#endif
