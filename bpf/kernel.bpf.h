/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Functions of the kernel, in two ways.
 *
 * By trampolines (fentry, fexit), a program of its own for each function, loaded from one by
 * lib/attach/links.c: entry and end of a call are seen from one frame of the stack, whose
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
#ifndef FUNCSNOOP_KERNEL_BPF_H
#define FUNCSNOOP_KERNEL_BPF_H

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

	/* The entry and the return of a call have the same frame. */
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

/*
 * System calls. Two tracepoints see those of all threads; a table says by number which are to be
 * counted.
 *
 * A thread is in one call at a time, so that its task_struct is the place of that: it stays the
 * same when exec gives the thread another number and another stack. What does not come back:
 *
 *   exit, exit_group: counted, their end is not looked for.
 *   kill, an exec in another thread: the call stays until a command sees that the thread is gone.
 *   fork, clone: the child returns from its parent's call; it has no slot, and is passed over.
 *   exec between 64 and 32 bits, rt_sigreturn: they return by the number of another call, or
 *	none: what ends is whatever the thread is in.
 *   signals: an interrupted call ends (-ERESTARTSYS and such), and is a new one when the
 *	kernel restarts it, perhaps as restart_syscall.
 *   seccomp: what a filter refuses is not entered, but has an end: it is unmatched, as is a
 *	call that was in progress when the probes came.
 *
 * A program must not be preempted: until it goes on, the kernel leaves it out for all others on
 * its CPU (__bpf_trace_run, kernel/trace/bpf_trace.c: "active"). Up to some 7.x tracepoints run
 * with preemption off; then those of system calls did no more, but for programs of perf events:
 * there are both kinds, and lib/kernel/link.c tells which is needed.
 */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} fsn_syscalls SEC(".maps");

/* The table's entry for call @nr, or 0. */
static __always_inline __u32 syscall_target(const struct task_struct *task, __u64 nr)
{
	__u32 i = nr, *target;

	if (nr >= FSN_SYSCALLS)
		return 0;
	if (SYSCALL_IS_32BIT(task))
		i += FSN_SYSCALLS;
	target = bpf_map_lookup_elem(&fsn_syscalls, &i);
	return target ? *target : 0;
}

/*
 * True if no call of the thread's process can ever be tracked. This needs no lookup, because
 * untracked processes pay most of the cost of a group.
 */
static __always_inline bool is_bystander(const struct task_struct *task)
{
	__u32 only = READ(ctl.only_pid);

	return only && only != (__u32)task->tgid;
}

/*
 * True if --pid excludes the thread's process. Checked first, because excluded processes pay for
 * everything before this check.
 */
static __always_inline bool is_of_others(const struct task_struct *task)
{
	__u32 pid = task->tgid;

	return READ(ctl.on) & FSN_FILTER_PID && !bpf_map_lookup_elem(&fsn_pids, &pid);
}

/* The run time of entries is not measured, because the stack of these BPF programs is full. */
static __always_inline int target_begins(struct task_struct *task, __u32 fn)
{
	/* Not what the tracepoint hands on: kept until here, it would take room on the stack. */
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	__u64 where = bpf_get_current_task(), sp = REG_SP(regs) - 1;
	unsigned long room[SYSCALL_ROOM] = {};
	struct pt_regs *args = syscall_args(regs, SYSCALL_IS_32BIT(task), room);
	enum begun begun;

	if (fn >= fsn_timed_cnt) {
		call_counted(args, fn, sp, false, 0);
		return 0;
	}
	begun = call_begin(args, fn, where, sp, 0, HIJACK_NONE, true, 0);
	if (has_no_end(begun))
		call_left_out(args, fn, where, false);
	return 0;
}

static __always_inline int syscall_begins(struct task_struct *task, __u64 nr)
{
	__u32 fn = syscall_target(task, nr) & FSN_SYSCALL_FN;

	if (!fn--)
		return 0;
	return is_of_others(task) ? count_aside(fn) : target_begins(task, fn);
}

/* Takes the slot of any call that the thread is in. Returns the way or -1. */
__noinline int slot_take_any(struct fsn_set *set, __u64 key, __u64 where)
{
	__u64 seen;

	if (!set)
		return -1;
#pragma unroll
	for (int i = 0; i < FSN_WAYS; i++) {
		seen = READ(set->key[i]);
		if (seen & FSN_KEY_GHOST || !is_here(set, i, seen, key, where))
			continue;
		if (!swap(&set->key[i], seen, next_gen(seen) | FSN_KEY_LOCKED))
			continue;
		held_add(seen, i, -1);
		return i | (seen & FSN_KEY_FN_MASK) << 3;
	}
	return -1;
}

/*
 * Text that was not there at the entry is, now that the kernel has read it itself. The slot is
 * locked.
 */
static __noinline int keep_late(__u32 fn, __u32 slot)
{
	struct fsn_more *more = bpf_map_lookup_elem(&fsn_more, &slot);
	__u32 next = FSN_STR_NEXT(fsn_wide ? FSN_STR_WIDE + 1 : FSN_STR_BYTES / FSN_STRINGS);

	if (more && ((!more->str[0] && more->str[1]) || (!more->str[next] && more->str[next + 1])))
		keep_more(fn, slot, 0);
	return 0;
}

/* The call in the set's way, which is locked, is over. */
static __always_inline void syscall_over(
	struct fsn_set *set, __u32 slot, __u32 fn, __u64 run, __u64 result)
{
	if (fsn_has_more && set->call[slot % FSN_WAYS].proc & FSN_HAS_ARGS)
		keep_late(fn, slot);
	call_over(bpf_get_current_task_btf(), false, set, slot, fn, run, result, READ(ctl.streams), true, true);
	run_late(run, fn);
}

static __always_inline int syscall_ends(
	struct task_struct *task, struct pt_regs *regs, __u64 result)
{
	__u64 nr = SYSCALL_NR(regs), where, run = 0;
	__u32 target, fn, i, tgid = task->tgid;
	struct fsn_set *set;
	int way = -1;
	bool other;

	target = syscall_target(task, nr);
	other = target & FSN_SYSCALL_OTHER || (__s64)nr == -1;
	fn = (target & FSN_SYSCALL_FN) - 1;
	if (!target && !other)
		return 0;
	where = bpf_get_current_task();
	i = set_index(tgid, where);
	set = bpf_map_lookup_elem(&fsn_slots, &i);
	if (!set)
		return 0;
	if (set_is_used(set)) {
		run = run_begin(task);
		if (target & FSN_SYSCALL_FN)
			way = slot_take_first(set, call_key(fn, tgid), where);
		if (way < 0 && other) {
			way = slot_take_any(set, call_key(0, tgid), where);
			fn = way < 0 ? fn : ((__u32)way >> 3) - 1;
		}
	}
	if (way >= 0)
		syscall_over(set, i * FSN_WAYS + (way & (FSN_WAYS - 1)), fn, run, result);
	else if (fn < fsn_timed_cnt && is_of_others(task))
		count_stray(fn);
	else if (tgid == READ(ctl.held))
		ctl.held = 0;
	else if (fn < fsn_timed_cnt && (result || !(target & FSN_SYSCALL_CHILD)))
		count_unmatched(fn, REG_SP(regs), HIT_END);
	return 0;
}

/* Bystanders have left before anything else is read. */
SEC("tp_btf/sys_enter")
int fsn_sys_enter(__u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return is_bystander(task) ? 0 : syscall_begins(task, ctx[1]);
}

SEC("tp_btf/sys_exit")
int fsn_sys_exit(__u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return is_bystander(task) ? 0 : syscall_ends(task, (void *)ctx[0], ctx[1]);
}

/* events/raw_syscalls/{sys_enter,sys_exit}/format: the call's number, then its result. */
struct raw_syscall {
	__u64 common;
	__s64 nr, result;
};

SEC("tp/raw_syscalls/sys_enter")
int fsn_perf_enter(struct raw_syscall *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (is_bystander(task))
		return 0;
	return syscall_begins(task, ctx->nr);
}

SEC("tp/raw_syscalls/sys_exit")
int fsn_perf_exit(struct raw_syscall *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (is_bystander(task))
		return 0;
	return syscall_ends(task, (void *)bpf_task_pt_regs(task), ctx->result);
}

#endif
