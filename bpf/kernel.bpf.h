/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Kernel functions, traced in one of two ways.
 *
 * Trampolines (fentry, fexit): a BPF program for each function, cloned by
 * lib/attach/links.c. Entry and return of a call have the same stack frame, whose address
 * is the call's key. Every traced entry has a traced return, for any number of concurrent
 * calls, because no other state is needed.
 *
 * Kprobes, single or multi: all entries are traced, but returns only as far as the kernel
 * has preallocated return instances. The kernel does not report which calls were missed,
 * so a call without a return is not shown as in progress (FSN_EXIT_SOME).
 *
 * Special cases:
 * - recursion: each call has a frame of its own.
 * - a function that funcsnoop's BPF programs call: the kernel skips a program that is
 *   already running on the CPU. lib/kernel/trace.c refuses such functions. The kernel
 *   counts skipped hits (recursion_misses), also those of another thread, or of an
 *   interrupt, while a program is preempted.
 * - do_exit and similar: they never return, and stay until a command sees that the thread
 *   has exited.
 * - interrupts: counted for the interrupted thread, on a stack that is not the thread's.
 *   The idle thread has process 0.
 * - exec: the thread id may change, the process does not.
 */
#pragma once

#include "call.bpf.h"
#include "event.bpf.h"
#include "hold.bpf.h"

/* First frames of the kernel stack in fentry programs: kfunc_walk(), its caller, the trampoline. */
#define FENTRY_FRAMES 3
/* Bytes from the start of a function to the return address of the call of its trampoline. */
#define FENTRY_CALL 16

/*
 * Returns the stack of the caller of the kernel function. @ip is the start of the function, which can
 * have a frame after those of the trampoline; 0: a kprobe, whose stack begins with the function. Not
 * inlined, because the stack of fsn_fentry() is full.
 */
static __noinline __u32 kfunc_walk(void *ctx, __u64 ip)
{
	__u64 first = 0, skip = ip ? FENTRY_FRAMES : 1;

	if (ip && bpf_get_stack(ctx, &first, sizeof(first), skip) == sizeof(first) &&
		first - ip < FENTRY_CALL)
		skip++;
	return stack_of_thread(ctx, skip);
}

/* Stores the number of the stack next to the arguments in @regs, if the filter accepts the call. */
static __always_inline void kfunc_stack(void *ctx, struct pt_regs *regs, __u64 cookie, bool trampoline)
{
	if (fsn_thread_stacks && is_wanted(regs, cookie & FSN_FN_MASK))
		EVENT_STACK(regs) = kfunc_walk(ctx, trampoline ? bpf_get_func_ip(ctx) : 0);
}

/* @where is on the kernel stack. */
static __always_inline void kfunc_begins(struct pt_regs *regs, __u64 cookie, __u64 where)
{
	__u32 fn = cookie & FSN_FN_MASK;
	enum begun begun;

	/*
	 * For an untimed function, the verifier skips the rest; it runs for each
	 * function.
	 */
	if (fn >= fsn_timed_cnt) {
		call_counted(regs, fn, where, false, 0);
		return;
	}
	begun = call_begin(regs, fn, where, where, 0, HIJACK_NONE, true, 0);
	if (is_untracked(begun))
		call_untracked(regs, fn, where, false);
}

SEC("fsn.fentry")
int fsn_fentry(__u64 *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	unsigned long room[KFUNC_ROOM] = {};
	struct pt_regs *regs = kfunc_args(ctx, room);

	kfunc_stack(ctx, regs, cookie, true);
	/* The entry and the return of a call have the same frame. */
	kfunc_begins(regs, cookie, as_number(ctx));
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
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct pt_regs *regs = ctx;
	__u32 first = 0;

	if (fsn_thread_stacks) {
		regs = bpf_map_lookup_elem(&fsn_sample_regs, &first);
		if (!regs || bpf_probe_read_kernel(regs, sizeof(*regs), ctx))
			return 0;
		kfunc_stack(ctx, regs, cookie, false);
	}
	kfunc_begins(regs, cookie, REG_SP(ctx));
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
 * System calls. Two tracepoints trace those of all threads; a table has the numbers of
 * the counted ones.
 *
 * A thread is in one system call at a time, so its task_struct is the key. It stays the
 * same when exec changes the thread's number and stack. Special cases:
 * - exit, exit_group: only counted.
 * - kill, or an exec in another thread: the call stays until a command sees that the
 *   thread has exited.
 * - fork, clone: the child returns from its parent's call; it has no slot and is ignored.
 * - exec between 64 and 32 bits, rt_sigreturn: they return with the number of another
 *   call or none, which is matched with any call of the thread.
 * - signals: an interrupted call returns (-ERESTARTSYS and similar). When the kernel
 *   restarts it, that is a new call.
 * - a wait with a time limit (-ERESTART_RESTARTBLOCK): restart_syscall continues the call, or the
 *   call ends before the handler of the signal runs.
 * - seccomp: a rejected call is not entered but has a return, which is unmatched. So is
 *   that of a call in progress at the attach.
 *
 * A BPF program at such a tracepoint must not be preempted, because the kernel then skips
 * it for all other threads on its CPU (__bpf_trace_run, kernel/trace/bpf_trace.c:
 * "active"). Until some 7.x, tracepoints run with preemption disabled; later kernels do
 * this for system calls only in programs of perf events. Both kinds exist here, and
 * lib/kernel/link.c selects one.
 */

MAP(fsn_syscalls, ARRAY, __u32, __u32, 1);

/* Number of futex(2) if the calls that wait are a target of their own; 0: they are not. */
const volatile __u32 fsn_futex = 0;

/* include/uapi/linux/futex.h: FUTEX_WAIT, _LOCK_PI, _WAIT_BITSET, _WAIT_REQUEUE_PI, _LOCK_PI2 */
#define FUTEX_WAITS    (1U << 0 | 1U << 6 | 1U << 9 | 1U << 11 | 1U << 13)
#define FUTEX_COMMANDS 0x7f /* without FUTEX_PRIVATE_FLAG and FUTEX_CLOCK_REALTIME */

/* True if the thread is in a call of futex(2) that waits: its second argument stays until the return. */
static __always_inline bool futex_waits(struct task_struct *task)
{
	__u32 op = reg_arg((void *)bpf_task_pt_regs(task), 1) & FUTEX_COMMANDS;

	return op < 32 && FUTEX_WAITS >> op & 1;
}

/* The address of the lock that the call of futex(2) is for. */
static __always_inline __u64 futex_lock(struct task_struct *task)
{
	return reg_arg((void *)bpf_task_pt_regs(task), 0);
}

/* The table's entry for system call @nr of the current thread, or 0. */
static __always_inline __u32 syscall_target(struct task_struct *task, __u64 nr)
{
	__u32 i = nr, *target;

	if (nr >= FSN_SYSCALLS)
		return 0;
	if (SYSCALL_IS_32BIT(task))
		i += FSN_SYSCALLS;
	else if (fsn_futex && nr == fsn_futex && futex_waits(task))
		i = FSN_FUTEX_WAIT;
	target = bpf_map_lookup_elem(&fsn_syscalls, &i);
	return target ? *target : 0;
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

/*
 * The run time of entries is not measured, because the stack of these BPF programs is
 * full.
 */
static __always_inline int target_begins(struct task_struct *task, __u32 fn)
{
	/*
	 * Not the tracepoint's argument, which would have to be kept on the stack until
	 * here.
	 */
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
	if (is_untracked(begun))
		call_untracked(args, fn, where, false);
	return 0;
}

static __always_inline int syscall_begins(struct task_struct *task, __u64 nr)
{
	__u32 fn = syscall_target(task, nr) & FSN_SYSCALL_FN;

	if (!fn--)
		return 0;
	return is_of_others(task) ? count_filtered(fn) : target_begins(task, fn);
}

/* Locks the slot of any call of the thread. Returns the way | (function + 1) << 3, or -1. */
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
 * Reads text again that was not in memory at the entry; by now the kernel has read it
 * itself. The slot is locked.
 */
static __noinline int keep_late(__u32 fn, __u32 slot)
{
	struct fsn_more *more = bpf_map_lookup_elem(&fsn_more, &slot);
	__u32 next = FSN_STR_NEXT(fsn_wide ? FSN_STR_WIDE + 1 : FSN_STR_BYTES / FSN_STRINGS);

	if (more && ((!more->str[0] && more->str[1]) || (!more->str[next] && more->str[next + 1])))
		keep_more(fn, slot, 0);
	return 0;
}

/* Counts the return of the call in the locked @slot. */
static __always_inline void syscall_over(
	struct fsn_set *set, __u32 slot, __u32 fn, __u64 run, __u64 result)
{
	if (fsn_has_more && set->call[slot % FSN_WAYS].proc & FSN_HAS_ARGS)
		keep_late(fn, slot);
	if (fsn_wakers)
		key_woken(fn, slot, set->call[slot % FSN_WAYS].start, result);
	call_over(bpf_get_current_task_btf(), false, set, slot, fn, run, result, READ(ctl.streams), true, true);
	run_late(run, fn);
	if (fsn_locks_known)
		row_locked(fn, slot, futex_lock(bpf_get_current_task_btf()));
}

/* True for restart_syscall(2), with which a thread continues the call that a signal has interrupted. */
static __always_inline bool is_restart(const struct task_struct *task, __u64 nr)
{
	return nr == (SYSCALL_IS_32BIT(task) ? 0 : NR_RESTART);
}

/* The call is not over: include/linux/errno.h. */
#define ERESTART_RESTARTBLOCK 516

/*
 * Matches the return of a system call with the call in the thread's slot, or counts it as
 * unmatched.
 */
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
	if ((__s64)result == -ERESTART_RESTARTBLOCK && !is_restart(task, nr) &&
		slot_find(set, call_key(fn, tgid), where) >= 0)
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

/* Ends the call that a signal has interrupted, if there is one. */
static __noinline int interrupted_ends(__u64 result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tgid = task->tgid, i = set_index(tgid, as_number(task));
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &i);
	int way;

	if (!set || !set_is_used(set))
		return 0;
	way = slot_take_any(set, call_key(0, tgid), as_number(task));
	if (way >= 0)
		syscall_over(set, i * FSN_WAYS + (way & (FSN_WAYS - 1)), ((__u32)way >> 3) - 1,
			run_begin(task), result);
	return 0;
}

static __always_inline int syscall_returns(
	struct task_struct *task, struct pt_regs *regs, __u64 result)
{
	if (is_bystander(task))
		return 0;
	syscall_ends(task, regs, result);
	if ((__s64)result != -ERESTART_RESTARTBLOCK && is_restart(task, SYSCALL_NR(regs)))
		interrupted_ends(result);
	return 0;
}

/* A signal with a handler, or one that kills, ends an interrupted call. After others it continues. */
SEC("tp_btf/signal_deliver")
int fsn_interrupt(__u64 *ctx)
{
	void *handler = BPF_CORE_READ((struct k_sigaction *)ctx[2], sa.sa_handler);

	if (is_bystander(bpf_get_current_task_btf()) || handler == SIG_IGN ||
		(!handler && signal_passes(ctx[0])))
		return 0;
	return interrupted_ends(-ERESTART_RESTARTBLOCK);
}

/* Bystanders return before anything else is read. */
SEC("tp_btf/sys_enter")
int fsn_sys_enter(__u64 *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return is_bystander(task) ? 0 : syscall_begins(task, ctx[1]);
}

SEC("tp_btf/sys_exit")
int fsn_sys_exit(__u64 *ctx)
{
	return syscall_returns(bpf_get_current_task_btf(), (void *)ctx[0], ctx[1]);
}

/*
 * A thread wakes another one. This ends a wait for a lock if the current thread is in a call of
 * futex(2) for the same lock that does not wait; other threads are interrupted by timers and signals.
 * The lock of its run queue is held, and interrupts are off.
 */
SEC("tp_btf/sched_waking")
int fsn_waking(__u64 *ctx)
{
	struct task_struct *task = for_reading((void *)ctx[0]), *waker = bpf_get_current_task_btf();
	__u64 nr = SYSCALL_NR((struct pt_regs *)bpf_task_pt_regs(waker)), where = as_number(task);
	__u32 i = FSN_FUTEX_WAIT, *target, tgid = task->tgid;
	struct fsn_set *set;
	int way;

	if (nr != fsn_futex || SYSCALL_IS_32BIT(waker) || (__u32)waker->tgid != tgid ||
		is_bystander(waker) || futex_waits(waker) || futex_lock(waker) != futex_lock((void *)ctx[0]))
		return 0;
	target = bpf_map_lookup_elem(&fsn_syscalls, &i);
	i = set_index(tgid, where);
	set = bpf_map_lookup_elem(&fsn_slots, &i);
	if (!target || !set)
		return 0;
	way = slot_find(set, call_key((*target & FSN_SYSCALL_FN) - 1, tgid), where);
	if (way < 0)
		return 0;
	way &= FSN_WAYS - 1;
	waker_keep(i * FSN_WAYS + way, READ(set->call[way].start));
	return 0;
}

/* events/raw_syscalls/{sys_enter,sys_exit}/format: number of the call, result. */
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

	return syscall_returns(task, (void *)bpf_task_pt_regs(task), ctx->result);
}
