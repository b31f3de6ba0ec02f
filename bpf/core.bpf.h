/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel types that the BPF programs use, relocated against the running kernel's BTF,
 * and names of registers for the two architectures.
 */
#pragma once

#include <linux/types.h>
#define bpf_task_work bpf_task_work_of_headers /* of 6.18 and later only */
#include <linux/bpf.h>
#undef bpf_task_work
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "shared/layout.h"

#define __core __attribute__((preserve_access_index))

/* A map of @cnt_ entries that only the programs use, or whose size the attaching command sets. */
#define MAP(name, type_, key_, value_, cnt_)      \
	struct {                                   \
		__uint(type, BPF_MAP_TYPE_##type_); \
		__uint(max_entries, cnt_);         \
		__type(key, key_);                 \
		__type(value, value_);             \
	} name SEC(".maps")

struct kernel_siginfo {
	int si_code;
	struct {
		struct {
			void *_addr;
		} _sigfault;
	} _sifields;
} __core;

struct k_sigaction {
	struct {
		void *sa_handler;
		unsigned long sa_flags;
	} sa;
} __core;

struct sighand_struct {
	struct k_sigaction action[64];
} __core;

struct sigpending {
	struct {
		unsigned long sig[1];
	} signal;
} __core;

struct signal_struct {
	struct {
		int counter;
	} live; /* threads that have not exited */
	unsigned int flags;
	int group_exit_code;
	struct sigpending shared_pending; /* signals that were sent to the process */
	struct mm_struct *oom_mm; /* not NULL: the OOM killer chose the process */
} __core;

struct thread_info {
	unsigned long flags;
	unsigned int status;
} __core;

struct return_instance {
	unsigned long stack;
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
} __core;

struct uprobe_task {
	unsigned long vaddr, xol_vaddr; /* of the instruction that is single-stepped, and of its copy */
	struct uprobe *active_uprobe;   /* NULL: none is */
	struct return_instance *return_instances;
	unsigned int depth; /* length of the list */
} __core;

struct xol_area {
	unsigned long vaddr;
} __core;

struct uprobes_state {
	struct xol_area *xol_area;
} __core;

struct maple_tree {
	void *ma_root;
} __core;

struct rb_node {
	struct rb_node *rb_left, *rb_right;
} __core;

struct rb_root {
	struct rb_node *rb_node;
} __core;

/*
 * Members of all kernels, where their types permit it: libbpf searches all types of the kernel for
 * each type here.
 */
struct mm_struct {
	unsigned long start_code, start_stack, mmap_base;
	unsigned long exec_vm; /* executable pages */
	struct uprobes_state uprobes_state;
	struct maple_tree mm_mt; /* since 6.1 */
	struct rb_root mm_rb;    /* before 6.1 */
	struct {
		void *vdso; /* on x86-64 and arm64 */
		struct {
			__s64 counter;
		} tlb_gen; /* x86-64 */
	} context;
	int mm_lock_seq; /* since 6.4 */
} __core;

struct mm_struct___now {
	struct {
		unsigned int sequence;
	} mm_lock_seq; /* since 6.13 */
} __core;

struct rq {
	__u64 clock;      /* CPU's, ns */
	__u64 clock_task; /* without interrupts and time stolen by the hypervisor */
} __core;

struct cfs_rq {
	struct rq *rq;
} __core;

struct sched_entity {
	__u64 exec_start;       /* clock_task at the last update */
	__u64 sum_exec_runtime; /* ns on a CPU up to exec_start */
	__u64 prev_sum_exec_runtime; /* the same when it got its CPU */
	struct cfs_rq *cfs_rq;
} __core;

struct sched_info {
	unsigned long long run_delay; /* ns runnable without a CPU */
	/* since when it is runnable, by its run queue's clock, or 0 */
	unsigned long long last_queued;
	unsigned long long last_arrival; /* when it got its CPU, by the same clock */
} __core;

struct cred {
	struct {
		__u32 val;
	} uid;
} __core;

struct kernfs_node {
	__u64 id;
} __core;

struct cgroup {
	struct kernfs_node *kn;
} __core;

struct css_set {
	struct cgroup *dfl_cgrp; /* in cgroup v2 */
} __core;

#if defined(__TARGET_ARCH_x86)
struct thread_struct {
	unsigned long fsbase;
} __core;
#elif defined(__TARGET_ARCH_arm64)
struct thread_struct {
	struct {
		unsigned long tp_value;
	} uw;
} __core;
#endif

#define SIGKILL 9
#define PF_KTHREAD 0x00200000U /* include/linux/sched.h */
#define PF_EXITING 0x00000004U

struct task_struct {
	struct thread_info thread_info;
	struct thread_struct thread;
	int pid;
	int tgid;
	__u64 start_time;     /* CLOCK_MONOTONIC, ns */
	__u64 start_boottime; /* since 5.5 */
	unsigned int __state; /* 0: running or runnable */
	unsigned int flags;
	/* 32 bits; a byte in 7.2, which libbpf relocates for unsigned types only */
	unsigned int on_cpu;
	unsigned int policy; /* SCHED_NORMAL, ... */
	int exit_state, exit_code;
	__u64 self_exec_id; /* incremented with each exec; 64 bits since 5.7 */
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct mm_struct *mm;
	struct signal_struct *signal;
	struct sighand_struct *sighand;
	struct sigpending pending; /* signals that were sent to this thread */
	void *stack;             /* kernel stack: its lowest address */
	unsigned long sas_ss_sp; /* sigaltstack() */
	unsigned long sas_ss_size;
	struct uprobe_task *utask;
	unsigned int in_execve : 1;
	struct sched_entity se;
	struct sched_info sched_info;
	unsigned long nvcsw, nivcsw; /* voluntary and involuntary context switches */
	const struct cred *cred;
	struct css_set *cgroups;
	char comm[16];
} __core;

/* Placeholder for bpf_rdonly_cast(), inserted by lib/kernel/trace.c; returns @object. */
static void *(*const rdonly_cast)(const void *object, __u64 type) = (void *)FSN_RDONLY_CAST;

/*
 * @task, only to read its fields. For each pointer that is loaded from a task which it trusts, the
 * verifier searches all types of the kernel by name (since 6.4): a third of the time that attaching
 * took. For the programs' own functions, not for those that are verified separately.
 */
#define for_reading(task) \
	((struct task_struct *)rdonly_cast(task, bpf_core_type_id_kernel(struct task_struct)))
#define current_for_reading() for_reading(bpf_get_current_task_btf())

/* For those: a field of the current task, by the names of pointers that lead to it. */
#define CURRENT_READ(...) BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), __VA_ARGS__)

/*
 * Thread pointer of the current thread as set by its thread library: pthread_self() on
 * x86-64. It is above the thread's stack in the same mapping.
 */
static __always_inline __u64 thread_pointer(const struct task_struct *task)
{
#if defined(__TARGET_ARCH_x86)
	return task->thread.fsbase;
#elif defined(__TARGET_ARCH_arm64)
	return task->thread.uw.tp_value;
#endif
}

/*
 * Converts a pointer to a number that can be hashed or stored. The negation makes the
 * verifier treat it as one.
 */
static __always_inline __u64 as_number(const void *pointer)
{
	__u64 number = (__u64)pointer;

	asm volatile("%0 = -%0" : "+r"(number));
	return -number;
}

/*
 * A BPF context may only be read at constant offsets. The barrier keeps the compiler from
 * merging the reads into one at a computed offset. Sets @value if @reg is @n.
 */
#define PICK(n, r)                                                  \
	do {                                                        \
		__u64 _v = *(const volatile unsigned long *)&(ctx)->r; \
		asm volatile("" : "+r"(_v));                        \
		if (reg == (__u32)(n))                              \
			value = _v;                                 \
	} while (0)

/* Context of uprobe programs: registers, in the layout of the architecture's ABI. */
#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};

#define REG_IP(ctx)     ((ctx)->ip)
#define REG_SP(ctx)     ((ctx)->sp)
#define REG_FP(ctx)     ((ctx)->bp)
#define REG_RESULT(ctx) ((ctx)->ax)
/* A return probe runs after ret has popped the return address. */
#define RETURN_SP(ctx) ((ctx)->sp - 8)
/* At an entry, a ret and a tail call, the stack pointer points to the return address. */
#define REG_LINK(ctx) 0
/* The first argument on the stack is above the return address. */
#define STACK_ARGS(sp) ((sp) + 8)
/* Number of a system call, valid also at its return; -1 after rt_sigreturn. */
#define SYSCALL_NR(regs) ((regs)->orig_ax)
/*
 * True for a 32-bit call, also one of a 64-bit program (TS_COMPAT,
 * arch/x86/include/asm/thread_info.h).
 */
#define SYSCALL_IS_32BIT(task) ((task)->thread_info.status & 2)
#define NR_RESTART 219 /* restart_syscall(2); 0 for a 32-bit call */
/* Stores become visible in program order. */
#define publish(p, v) (*(volatile __u64 *)(p) = (v))
/* Loads are executed in program order. */
#define AFTER(seen, i) (i)

static __always_inline void regs_args(const struct pt_regs *ctx, __u64 *arg)
{
	arg[0] = ctx->di;
	arg[1] = ctx->si;
	arg[2] = ctx->dx;
	arg[3] = ctx->cx;
	arg[4] = ctx->r8;
	arg[5] = ctx->r9;
}

/* Argument registers of Go, in its order. */
#define GO_REGS(X) \
	X(0, ax) X(1, bx) X(2, cx) X(3, di) X(4, si) X(5, r8) X(6, r9) X(7, r10) X(8, r11) \
	X(FSN_GO_G, r14)

/* An argument register by its number. */
static __always_inline __u64 reg_arg(const struct pt_regs *ctx, __u32 reg)
{
	__u64 value = 0;

	PICK(0, di);
	PICK(1, si);
	PICK(2, dx);
	PICK(3, cx);
	PICK(4, r8);
	PICK(5, r9);
	return value;
}

/* The same for an event, which has more arguments: event_regs(). */
#define EVENT_REGS(X) \
	X(0, di) X(1, si) X(2, dx) X(3, cx) X(4, r8) X(5, r9) X(6, ax) X(7, orig_ax) X(8, ip) \
	X(9, cs) X(10, flags)
#define EVENT_ROOM SYSCALL_ROOM
/* The last one holds the number of the thread's stack. */
#define EVENT_STACK(regs)  ((regs)->flags)

static __always_inline struct pt_regs *event_room(unsigned long *room)
{
	struct pt_regs *args = (void *)room - __builtin_offsetof(struct pt_regs, r9);

	args->sp = 0;
	return args;
}

/* The goroutine, at entries and returns of functions compiled by Go. */
#define REG_GOROUTINE(ctx) ((ctx)->r14)

#define caller_sp(ctx)   REG_SP(ctx)
#define caller_fp(ctx)   REG_FP(ctx)
#define caller_link(ctx) REG_LINK(ctx)

/*
 * Copies the arguments of a system call to the registers of a function's arguments. The
 * struct pt_regs starts before @room, which has space only for r9 to sp: SYSCALL_ROOM
 * words.
 */
#define SYSCALL_ROOM 12
static __always_inline struct pt_regs *syscall_args(
	struct pt_regs *regs, bool is_32bit, unsigned long *room)
{
	struct pt_regs *args = (void *)room - __builtin_offsetof(struct pt_regs, r9);

	args->sp = 0;
	if (is_32bit) {
		args->di = (__u32)regs->bx;
		args->si = (__u32)regs->cx;
		args->dx = (__u32)regs->dx;
		args->cx = (__u32)regs->si;
		args->r8 = (__u32)regs->di;
		args->r9 = (__u32)regs->bp;
	} else {
		args->di = regs->di;
		args->si = regs->si;
		args->dx = regs->dx;
		args->cx = regs->r10;
		args->r8 = regs->r8;
		args->r9 = regs->r9;
	}
	return args;
}

/* The same for a kernel function, from the arguments saved by the trampoline. */
#define KFUNC_ROOM SYSCALL_ROOM
static __always_inline struct pt_regs *kfunc_args(__u64 *ctx, unsigned long *room)
{
	struct pt_regs *args = (void *)room - __builtin_offsetof(struct pt_regs, r9);

	bpf_get_func_arg(ctx, 0, (__u64 *)&args->di);
	bpf_get_func_arg(ctx, 1, (__u64 *)&args->si);
	bpf_get_func_arg(ctx, 2, (__u64 *)&args->dx);
	bpf_get_func_arg(ctx, 3, (__u64 *)&args->cx);
	bpf_get_func_arg(ctx, 4, (__u64 *)&args->r8);
	bpf_get_func_arg(ctx, 5, (__u64 *)&args->r9);
	return args;
}

#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	unsigned long regs[31], sp, pc, pstate;
};

/* The member of the kernel's struct pt_regs after those. */
struct pt_regs___call {
	int syscallno;
} __core;

#define REG_IP(ctx)     ((ctx)->pc)
#define REG_SP(ctx)     ((ctx)->sp)
#define REG_FP(ctx)     ((ctx)->regs[29])
#define REG_RESULT(ctx) ((ctx)->regs[0])
/* The return address is in a register: the stack pointer is the same at entry and return. */
#define RETURN_SP(ctx)  ((ctx)->sp)
#define REG_LINK(ctx)   ((ctx)->regs[30])
#define REG_GOROUTINE(ctx) ((ctx)->regs[28])
#define STACK_ARGS(sp)  (sp)
#define SYSCALL_NR(regs) ((__u64)((struct pt_regs___call *)(regs))->syscallno)
/* TIF_32BIT, arch/arm64/include/asm/thread_info.h */
#define SYSCALL_IS_32BIT(task) ((task)->thread_info.flags >> 22 & 1)
#define NR_RESTART 128 /* restart_syscall(2); 0 for a 32-bit call */
#define publish(p, v)   ((void)__sync_lock_test_and_set((p), (v)))
/*
 * @i with a data dependency on @seen, so that a load at index @i is executed after @seen
 * was loaded. A branch does not order loads.
 */
#define AFTER(seen, i)                           \
	({                                       \
		__u64 _none = (seen);            \
		asm volatile("%0 &= 0"           \
			     : "+r"(_none));     \
		(i) + _none;                     \
	})

static __always_inline void regs_args(const struct pt_regs *ctx, __u64 *arg)
{
	arg[0] = ctx->regs[0];
	arg[1] = ctx->regs[1];
	arg[2] = ctx->regs[2];
	arg[3] = ctx->regs[3];
	arg[4] = ctx->regs[4];
	arg[5] = ctx->regs[5];
	arg[6] = ctx->regs[6];
	arg[7] = ctx->regs[7];
}

static __always_inline __u64 reg_arg(const struct pt_regs *ctx, __u32 reg)
{
	__u64 value = 0;

#pragma unroll
	for (int i = 0; i < 8; i++)
		PICK(i, regs[i]);
	return value;
}

#define GO_REGS(X) \
	X(0, regs[0]) X(1, regs[1]) X(2, regs[2]) X(3, regs[3]) X(4, regs[4]) X(5, regs[5]) \
	X(6, regs[6]) X(7, regs[7]) X(8, regs[8]) X(9, regs[9]) X(10, regs[10]) \
	X(11, regs[11]) X(12, regs[12]) X(13, regs[13]) X(14, regs[14]) X(15, regs[15]) \
	X(FSN_GO_G, regs[28])

/* Arguments are in the same registers as those of functions. */
#define SYSCALL_ROOM 1
static __always_inline struct pt_regs *syscall_args(
	struct pt_regs *regs, bool is_32bit, unsigned long *room)
{
	return regs;
}

#define EVENT_REGS(X) \
	X(0, regs[0]) X(1, regs[1]) X(2, regs[2]) X(3, regs[3]) X(4, regs[4]) X(5, regs[5]) \
	X(6, regs[6]) X(7, regs[7]) X(8, regs[8]) X(9, regs[9]) X(10, regs[10])
#define EVENT_ROOM 11
#define EVENT_STACK(r)  ((r)->regs[10])

static __always_inline struct pt_regs *event_room(unsigned long *room)
{
	return (void *)room;
}

#define KFUNC_ROOM EVENT_ROOM
static __always_inline struct pt_regs *kfunc_args(__u64 *ctx, unsigned long *room)
{
#pragma unroll
	for (__u32 i = 0; i < 8; i++)
		bpf_get_func_arg(ctx, i, (__u64 *)&room[i]);
	return (void *)room;
}
/*
 * @room of the arguments has no space for these registers. For targets that use it, read
 * the thread's registers at its entry to the kernel.
 */
const volatile bool fsn_rooms = false; /* some target's arguments are in @room */
#define CALLER_REG(name, REG) \
	static __always_inline __u64 name(const struct pt_regs *ctx) \
	{ \
		if (!fsn_rooms) \
			return REG(ctx); \
		return REG((struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf())); \
	}
CALLER_REG(caller_sp, REG_SP)
CALLER_REG(caller_fp, REG_FP)
CALLER_REG(caller_link, REG_LINK)
#else
#error "unknown architecture"
#endif

static __always_inline __u64 event_arg(const struct pt_regs *ctx, __u32 reg)
{
	__u64 value = 0;

#define X(n, r) PICK(n, r);
	EVENT_REGS(X)
#undef X
	return value;
}

const volatile bool fsn_other_regs = false; /* some function does not use FSN_REGS_C */

/*
 * Argument @reg of a Go function, from the thread's own registers, because the argument
 * array of some BPF programs is too small for all of them.
 */
static __always_inline __u64 go_arg(__u32 reg)
{
	const struct pt_regs *ctx = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	__u64 value = 0;

#define X(n, r) PICK(n, r);
	GO_REGS(X)
#undef X
	return value;
}

/*
 * Private stacks must not be used.
 *
 * Since 6.13 (a76ab5731e32) the kernel gives a BPF program or subprogram of this type
 * whose stack, rounded up to 16, has at least BPF_PRIV_STACK_MIN_SIZE = 64 bytes a stack
 * that all tasks on a CPU share (check_max_stack_depth(), kernel/bpf/verifier.c). It
 * assumes that such programs are not reentered on a CPU. Uprobe programs are: they have
 * no such check, and since 6.0 (8c7dcb84e3b7) they can be preempted. Then two tasks
 * overwrite each other's variables (observed on 7.2, as lost returns).
 *
 * A program with a tail call in any subprogram gets no private stack. The verifier
 * decides this before it removes dead code (check_subprogs()), so a tail call that is
 * never executed costs nothing. The architecture's requirements for tail calls are
 * checked only for live code.
 */

const volatile bool fsn_never = false;

/* All programs in an array must be of one kind of link, and two kinds may be loaded. */
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

/* Must be called in each BPF program. */
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
