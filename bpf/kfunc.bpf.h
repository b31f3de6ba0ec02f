/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Functions of the kernel, in two ways.
 *
 * By trampolines (fentry, fexit), a program of its own for each function, loaded from one by
 * lib/attach/clones.c: entry and end of a call are seen from one frame of the stack, whose
 * address is the call's place. Each call that is seen to begin is seen to end, however many wait
 * in the function: nothing has to be kept of them but that frame.
 *
 * By kprobes, singly or many by one link: entries are all seen, ends as far as the kernel has
 * room to keep return addresses. How many of these it has lost it does not say of each call, so
 * that one without an end is not taken for one in progress (FSN_EXIT_SOME).
 *
 * What happens to calls:
 *   recursion: each has a frame of its own.
 *   a function that our own programs call: the kernel leaves a program out on a CPU on which it
 *	runs already. lib/kernel/kfunc.c refuses these; what is left out is counted by the kernel
 *	(recursion_misses), as is what another thread calls while one is preempted in a program,
 *	or an interrupt.
 *   do_exit and such: they never return, and stay until a command sees that the thread is gone.
 *   interrupts: they are counted for the thread that they have interrupted, at places on a stack
 *	that is not the thread's. The idle thread has process 0.
 *   exec: the thread may get another number, but not another process.
 */
#ifndef FUNCSNOOP_KFUNC_BPF_H
#define FUNCSNOOP_KFUNC_BPF_H

#include "call.bpf.h"

/* @places are on the kernel's stack. */
static __always_inline void kfunc_begins(struct pt_regs *regs, __u64 cookie, __u64 where)
{
	__u32 fn = cookie & FSN_FN_MASK;
	enum begun begun;

	/* Where no call is timed the rest is not verified, which is done for each function. */
	if (fn >= fsn_timed_cnt) {
		call_counted(regs, fn, where, false, 0);
		return;
	}
	begun = call_begin(regs, fn, where, where, 0, HIJACK_NONE, true, 0);
	if (has_no_end(begun))
		call_left_out(regs, fn, where, false);
}

SEC("fsn.fentry")
int fsn_fentry(__u64 *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	unsigned long room[KFUNC_ROOM] = {};

	/* The frame is one that the entry and the end of a call see. */
	kfunc_begins(kfunc_args(ctx, room), cookie, as_number(ctx));
	return 0;
}

SEC("fsn.fexit")
int fsn_fexit(__u64 *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), result = 0;

	bpf_get_func_ret(ctx, &result);
	call_end(cookie & FSN_FN_MASK, false, as_number(ctx), ANY_ADDRESS, result, false);
	return 0;
}

SEC("kprobe")
int fsn_kprobe(struct pt_regs *ctx)
{
	kfunc_begins(ctx, bpf_get_attach_cookie(ctx), REG_SP(ctx));
	return 0;
}

SEC("kretprobe")
int fsn_kreturn(struct pt_regs *ctx)
{
	call_end(bpf_get_attach_cookie(ctx) & FSN_FN_MASK, false, RETURN_SP(ctx), ANY_ADDRESS,
		REG_RESULT(ctx), false);
	return 0;
}

#endif
