/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waits of threads. Off-CPU waits last from going to sleep until the thread has a CPU
 * again. Run-queue waits last from being woken or preempted until then.
 *
 * Waits are calls of two functions, in a slot by the thread's task_struct. The current
 * thread is usually not the waiting one: at the start it may be the waker, and at the end
 * it is the previous thread. So all facts about the waiting thread are read from its
 * task_struct.
 *
 * Waits without an end: the last switch of an exiting thread is not a sleep and starts no
 * wait. Waits in progress at the attach have no start and are not counted. Idle threads
 * do not wait. Some kernels do not trace every switch (observed on 6.18, in a virtual
 * machine: its own trace lacks some switches away from one process). A thread that got a
 * CPU untraced abandons its wait at its next switch, also at the last one.
 *
 * All this runs with the run queue locked, so it must not wake threads or allocate
 * memory.
 */
#pragma once

#include "call.bpf.h"

const volatile bool fsn_one_clock = false; /* the clocks of all run queues are the same */

/* Innermost frames of a stack at a switch: this BPF program and its callers. */
#define SWITCH_FRAMES 3

#define NO_TID    (~0U)

/* include/linux/sched.h */
#define TASK_DEAD     0x80
#define PF_FORKNOEXEC 0x40

/*
 * True between fork() and execve() of run's COMMAND: the process still runs funcsnoop's
 * code.
 */
static __always_inline bool is_pre_exec(struct task_struct *task)
{
	/* each thread has PF_FORKNOEXEC */
	struct task_struct *leader = task->group_leader;

	return (__u32)task->tgid == READ(ctl.held) && leader->flags & PF_FORKNOEXEC;
}

/* filter_passes() for @task, which may not be the current task. */
static __noinline bool wait_passes(struct task_struct *task, __u32 filters)
{
	struct fsn_comm comm = {};
	__u32 key;

	if (filters & FSN_FILTER_UNTIL && is_over())
		return false;
	if (filters & FSN_FILTER_PID) {
		key = task->tgid;
		if (!bpf_map_lookup_elem(&fsn_pids, &key) || is_pre_exec(task))
			return false;
	}
	if (filters & FSN_FILTER_TID) {
		key = task->pid;
		if (!bpf_map_lookup_elem(&fsn_tids, &key))
			return false;
	}
	if (filters & FSN_FILTER_UID) {
		key = task->cred->uid.val;
		if (!bpf_map_lookup_elem(&fsn_uids, &key))
			return false;
	}
	if (filters & FSN_FILTER_CPU) {
		key = bpf_get_smp_processor_id();
		if (!bpf_map_lookup_elem(&fsn_cpus, &key))
			return false;
	}
	if (filters & FSN_FILTER_COMM) {
		bpf_probe_read_kernel_str(&comm, sizeof(comm), task->comm);
		if (!bpf_map_lookup_elem(&fsn_comms, &comm))
			return false;
	}
	/*
	 * The cgroup of the current task. wait_passes() is also called for others, which
	 * target_wait rejects for --cgroup.
	 */
	return !(filters & FSN_FILTER_CGROUP) || in_cgroups();
}

static __always_inline bool wait_is_wanted(struct task_struct *task)
{
	__u32 on = READ(ctl.on);

	return on & FSN_ON && (on == FSN_ON || wait_passes(task, on));
}

static __always_inline void name_thread(struct task_struct *task, char *to, __u32 *ret_tid)
{
	*ret_tid = task->pid;
	/* it can be part of a key, and has data of another thread */
	__builtin_memset(to, 0, FSN_COMM_LEN);
	bpf_probe_read_kernel_str(to, FSN_COMM_LEN, task->comm);
}

/*
 * Names the current thread as the one that wakes another, or the interrupt that does: the idle thread
 * wakes none itself, nor does a thread that is in no system call and does not exit, but in a page fault.
 */
static __always_inline void name_waker(struct task_struct *waker, struct wait *wait)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(waker);

	name_thread(waker, wait->waker, &wait->waker_tid);
	if (waker->pid &&
		(waker->flags & (PF_KTHREAD | PF_EXITING) || (__s64)SYSCALL_NR(regs) != -1))
		return;
	wait->waker_tid = NO_TID;
	__builtin_memcpy(wait->waker, "(interrupt)\0\0\0\0", FSN_COMM_LEN);
}

/*
 * True if a key, a slow call or a stream needs the names of threads. Reading them costs as much as
 * all the rest.
 */
static __always_inline bool wait_has_names(void)
{
	return fsn_keyed || READ(ctl.save_args) || READ(ctl.streams);
}

/*
 * Time of a switch or wakeup of @task, by the clock of its run queue. The kernel has just read it;
 * reading another one takes a third of the time of these programs. A wait can end on another CPU.
 */
static __always_inline __u64 wait_clock(const struct task_struct *task)
{
	if (!fsn_one_clock || !bpf_core_field_exists(task->se.cfs_rq) ||
		!bpf_core_field_exists(task->se.cfs_rq->rq))
		return bpf_ktime_get_ns();
	return task->se.cfs_rq->rq->clock;
}

/*
 * CLOCK_MONOTONIC at time @clock of wait_clock(). Only slow calls and streams show it exactly. For others
 * the difference of the clocks is measured once per jiffy. It is never too small, because the run
 * queue's clock was read first: so no wait starts before its thread (wait_is_stale()).
 */
static __always_inline __u64 wait_monotonic(__u64 clock)
{
	__u64 jiffy = bpf_jiffies64(), now;

	if (READ(ctl.ahead_jiffy) == jiffy && !READ(ctl.save_args) && !READ(ctl.streams))
		return clock + READ(ctl.ahead_ns);
	now = bpf_ktime_get_ns();
	ctl.ahead_ns = now - clock;
	publish(&ctl.ahead_jiffy, jiffy);
	return now;
}

/*
 * fsn_call.where of a wait of @task. A thread can have one of each kind at the same time: in
 * different sets, both usually have the first slot, which is the fastest.
 */
static __always_inline __u64 wait_place(const struct task_struct *task, __u32 fn)
{
	return as_number(task) + (fn == fsn_run_queue - 1);
}

#define WAIT_OF(fn, stack) ((fn) | (__u64)(stack) << 32)

/*
 * True if the wait is of a dead thread whose task_struct @task reuses: the kernel did not
 * trace that the dead thread got a CPU.
 */
static __always_inline bool wait_is_stale(const struct fsn_call *call, const struct task_struct *task)
{
	return READ(call->start) < task->start_time;
}

/* True if @task has a wait in progress under @key at @where. */
static __always_inline bool is_waiting(
	struct fsn_set *set, __u64 key, __u64 where, const struct task_struct *task)
{
	int way = set_is_used(set) ? slot_find(set, key, where) : -1;

	return way >= 0 && !wait_is_stale(&set->call[way & (FSN_WAYS - 1)], task);
}

/*
 * Starts a wait of @task: @instead got its CPU (else it is @task), or @waker woke it (else NULL).
 * @what is WAIT_OF() its function and stack.
 */
static __always_inline void wait_begins(struct task_struct *task, struct task_struct *instead,
	struct task_struct *waker, __u64 what, __u64 clock)
{
	__u32 fn = what;
	__u64 where = wait_place(task, fn), key;
	__u32 tgid = task->tgid, slot = set_index(tgid, where), proc = FSN_NO_PROC;
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &slot);
	struct task_struct *leader = task->group_leader;
	struct fsn_call *call;
	struct wait *wait;
	int way;

	key = call_key(fn, tgid);
	/* The thread was preempted on its way to sleep, and is runnable since then. */
	if (!set || (waker != task && is_waiting(set, key, where, task)))
		return;
	if (fsn_processes)
		proc = proc_count(task, fn, tgid, bpf_get_smp_processor_id());
	if (!count_call(stat_of(fn, bpf_get_smp_processor_id()), fn))
		return;
	way = slot_claim_first(set, key, where, 0);
	if (way < 0) {
		count_no_slot(fn, way);
		return;
	}
	way &= FSN_WAYS - 1;
	slot = slot * FSN_WAYS + way;
	wait = bpf_map_lookup_elem(&fsn_wait, &slot);
	if (wait) {
		wait->since = clock;
		wait->start = leader->start_boottime;
		wait->named = as_number(leader->comm);
		wait->tgid = tgid;
		wait->tid = task->pid;
		wait->instead_tid = wait->waker_tid = NO_TID;
		wait->instead[0] = wait->waker[0] = 0;
		wait->stack = what >> 32;
		wait->waker_stack = 0;
		if (fsn_keyed || fsn_processes)
			wait->cgroup = task->cgroups->dfl_cgrp->kn->id;
		if (wait_has_names() && instead != task)
			name_thread(instead, wait->instead, &wait->instead_tid);
		if (waker && wait_has_names())
			name_waker(waker, wait);
	}
	call = &set->call[way];
	call->where = where;
	call->task = as_number(task);
	call->tid = task->pid;
	call->proc = proc;
	call->start = wait_monotonic(clock);
	slot_publish(set, way, key);
}

/* Argument @n, in the order of lib/target/activity.c. */
static __always_inline __u64 wait_arg(const struct wait *wait, __u32 n)
{
	switch (n) {
	case 0:
		return as_number(wait->instead);
	case 1:
		return wait->instead_tid;
	case 2:
		return as_number(wait->waker);
	case 3:
		return wait->waker_tid;
	default:
		return 0;
	}
}

/* Value of key part @p of a wait. */
static __always_inline void wait_part(
	const struct fsn_part *p, const struct wait *wait, __u64 *to)
{
	__u32 n = (p->where & ~FSN_STR_KERNEL) - 1;

	switch (p->what) {
	case FSN_BY_NUMBER:
		*to = part_cut(p, wait_arg(wait, n));
		break;
	case FSN_BY_TEXT:
		if (fsn_key_wide)
			__builtin_memcpy(to, n ? wait->waker : wait->instead, FSN_COMM_LEN);
		break;
	case FSN_BY_COMM:
		if (fsn_key_wide)
			__builtin_memcpy(to, wait->comm, FSN_COMM_LEN);
		break;
	case FSN_BY_THREAD:
		*to = wait->tid;
		break;
	case FSN_BY_CGROUP:
		*to = wait->cgroup;
		break;
	case FSN_BY_STACK:
		*to = wait->stack;
		break;
	case FSN_BY_WAKER_STACK:
		*to = wait->waker_stack;
		break;
	}
}

/* Counts the wait in its row, where end_in_row() finds it. */
static __noinline int wait_in_row(const struct wait *wait, __u32 slot, __u32 fn)
{
	struct fsn_keyed *keyed = bpf_map_lookup_elem(&fsn_keyed_by, &fn);
	__u32 *kept = bpf_map_lookup_elem(&fsn_slot_rows, &slot), i;
	struct fsn_key key = {};
	struct fsn_row *row;

	if (!kept)
		return 0;
	*kept = FSN_NO_ROW;
	if (!keyed || !keyed->on)
		return 0;
#pragma unroll
	for (__u32 n = 0; n < FSN_KEYS; n++)
		if (n < fsn_key_cnt)
			wait_part(&keyed->key[n], wait,
				&key.word[n * (fsn_key_wide ? FSN_KEY_WIDE : 1)]);
	i = row_find_of(&key, fn, wait->tgid, wait->start, wait->named);
	if (i == ROW_LOST)
		i = fsn_row_cnt + fn;
	i = row_named(i, keyed, &key);
	row = row_at(i);
	if (!row)
		return 0;
	add(&row->calls, 1);
#pragma unroll
	for (__u32 n = 0; n < FSN_SUMS; n++)
		if (n < fsn_sum_cnt && keyed->sum[n].what)
			add(&row->sum[n], part_cut(&keyed->sum[n],
				wait_arg(wait, (keyed->sum[n].where & ~FSN_STR_KERNEL) - 1)));
	*kept = i;
	return 0;
}

/* Saves the arguments for keys, slow calls and streams. */
static __always_inline void wait_args(
	const struct wait *wait, struct fsn_call *call, __u32 slot, __u32 fn)
{
	struct fsn_args *args;

	if (fsn_keyed)
		wait_in_row(wait, slot, fn);
	if (!READ(ctl.save_args) && !READ(ctl.streams))
		return;
	args = bpf_map_lookup_elem(&fsn_args, &slot);
	if (!args)
		return;
#pragma unroll
	for (__u32 n = 0; n < FSN_ARGS; n++)
		args->arg[n] = wait_arg(wait, n);
	if (fsn_has_more)
		keep_more(fn, slot, 0);
	call->proc |= FSN_HAS_ARGS;
}

/* Like proc_again(), for a process that is not the current one. */
static __always_inline struct fsn_proc *wait_proc(const struct wait *wait, __u32 i, __u32 fn)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct fsn_proc *proc = proc_at(i);

	if (proc && !((READ(proc->key) ^ proc_key(fn, wait->tgid, 0)) & ~FSN_PROC_SHARD_MASK))
		return proc;
	if (i == (FSN_NO_PROC | READ(ctl.epoch)))
		return NULL;
	proc = proc_at(proc_find_of(fn, wait->tgid, cpu, wait->start, wait->named));
	if (proc)
		proc->cgroup = wait->cgroup;
	return proc;
}

/* Ends the wait in the locked @slot. Not static, so that it is verified once. */
__noinline int wait_over(__u32 fn, __u32 slot, __u64 clock)
{
	struct wait *wait = bpf_map_lookup_elem(&fsn_wait, &slot);
	struct fsn_conf *conf = bpf_map_lookup_elem(&fsn_confs, &fn);
	__u32 i = slot / FSN_WAYS, way = slot % FSN_WAYS;
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &i);
	struct fsn_call *call;
	__u64 ns;
	int how;

	if (!fsn_waits || !set || !wait)
		return 0;
	call = &set->call[way];
	ns = clock > wait->since ? clock - wait->since : 0;
	if (ns > FSN_NS_MASK)
		ns = FSN_NS_MASK;
	if (wait_has_names())
		wait_args(wait, call, slot, fn);
	how = end_in_function(fn, conf, slot, ns, 0, NULL, NULL, NULL);
	if (READ(ctl.streams))
		stream_ends(fn, slot, ns, how, 0);
	if (fsn_processes)
		end_in_process(
			wait_proc(wait, FSN_PROC_OF(call->proc), fn), ns, how, NULL, NULL);
	if (fsn_keyed)
		end_in_row(slot, fn, wait->tgid, ns, how, 0, NULL);
	slot_publish(set, way, 0);
	return 0;
}

/* Ends the wait of function @fn of @task, which got the CPU of @before. */
static __always_inline void wait_ends(
	struct task_struct *task, struct task_struct *before, __u32 fn, __u64 clock)
{
	__u64 where = wait_place(task, fn);
	__u32 no = set_index(task->tgid, where), slot;
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &no);
	struct wait *wait;
	int way;

	if (!set || !set_is_used(set))
		return;
	way = slot_take_first(set, call_key(fn, task->tgid), where);
	if (way < 0)
		return;
	way &= FSN_WAYS - 1;
	if (wait_is_stale(&set->call[way], task)) {
		count_abandoned(call_key(fn, task->tgid));
		slot_publish(set, way, 0);
		return;
	}
	slot = no * FSN_WAYS + way;
	wait = bpf_map_lookup_elem(&fsn_wait, &slot);
	if (wait && wait_has_names()) {
		name_thread(task, wait->comm, &wait->tid);
		if (wait->instead_tid == NO_TID)
			name_thread(before, wait->instead, &wait->instead_tid);
	}
	wait_over(fn, slot, clock);
}

/*
 * Records who wakes @task. The event sched_wakeup is too late: it can be sent by the CPU of @task,
 * where another thread runs.
 */
SEC("tp_btf/sched_waking")
int fsn_wakes(__u64 *ctx)
{
	struct task_struct *task = for_reading((void *)ctx[0]), *waker = bpf_get_current_task_btf();
	__u64 where = as_number(task);
	__u32 tgid = task->tgid, slot = set_index(tgid, where);
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &slot);
	struct wait *wait;
	int way;

	if (!set || !wait_has_names() || !set_is_used(set))
		return 0;
	way = slot_find(set, call_key(fsn_off_cpu - 1, tgid), where);
	if (way < 0)
		return 0;
	slot = slot * FSN_WAYS + (way & (FSN_WAYS - 1));
	wait = bpf_map_lookup_elem(&fsn_wait, &slot);
	if (!wait)
		return 0;
	name_waker(waker, wait);
	/* names of frames are looked up in the waiting process */
	if (fsn_waker_stacks)
		wait->waker_stack = stack_of_thread_in(ctx, SWITCH_FRAMES, (__u32)waker->tgid == tgid);
	return 0;
}

/* A thread woken while on a CPU does not wait. */
static __always_inline void woken(struct task_struct *task)
{
	if (bpf_core_field_exists(task->on_cpu) && task->on_cpu)
		return;
	if (!is_bystander(task) && wait_is_wanted(task))
		wait_begins(task, task, bpf_get_current_task_btf(), WAIT_OF(fsn_run_queue - 1, 0),
			wait_clock(task));
}

SEC("tp_btf/sched_wakeup")
int fsn_wakeup(__u64 *ctx)
{
	woken(for_reading((void *)ctx[0]));
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int fsn_wakeup_new(__u64 *ctx)
{
	woken(for_reading((void *)ctx[0]));
	return 0;
}

/*
 * Abandons a wait of @task that is switched out: its CPU was not traced. A wait of the
 * same kind is abandoned by the one that starts now.
 */
static __always_inline void wait_abandon(struct task_struct *task, __u32 fn)
{
	__u64 where = wait_place(task, fn);
	__u32 tgid = task->tgid, i = set_index(tgid, where);
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &i);

	if (set && set_is_used(set) && slot_find(set, call_key(fn, tgid), where) >= 0)
		slot_clear(set, call_key(fn, tgid), where);
}

SEC("tp_btf/sched_switch")
int fsn_switch(__u64 *ctx)
{
	struct task_struct *prev = for_reading((void *)ctx[1]), *next = for_reading((void *)ctx[2]);
	__u32 state = prev->__state, stack = 0, kind, other;
	bool runnable = ctx[0] & 1 || !state; /* preempted, or it yielded the CPU */
	__u64 clock;

	if (is_bystander(prev) && is_bystander(next))
		return 0;
	/* of this CPU's run queue, which is locked */
	clock = wait_clock(prev);
	if (next->pid && fsn_off_cpu)
		wait_ends(next, prev, fsn_off_cpu - 1, clock);
	if (next->pid && fsn_run_queue)
		wait_ends(next, prev, fsn_run_queue - 1, clock);
	if (prev->pid && state & TASK_DEAD) {
		if (fsn_off_cpu)
			wait_abandon(prev, fsn_off_cpu - 1);
		if (fsn_run_queue)
			wait_abandon(prev, fsn_run_queue - 1);
		return 0;
	}
	if (!prev->pid || is_bystander(prev) || !wait_is_wanted(prev))
		return 0;
	kind = runnable ? fsn_run_queue : fsn_off_cpu;
	other = runnable ? fsn_off_cpu : fsn_run_queue;
	if (other)
		wait_abandon(prev, other - 1);
	if (!kind)
		return 0;
	if (fsn_walks_stacks)
		stack = stack_of_thread(ctx, SWITCH_FRAMES);
	wait_begins(prev, next, NULL, WAIT_OF(kind - 1, stack), clock);
	return 0;
}

/*
 * Sleeps inside calls: when a thread sleeps while it has a call in progress, the sleep's
 * stack and duration are counted for the function of the innermost call.
 *
 * The thread's word (nest.bpf.h) identifies that call. While no call is open, a switch
 * costs one lookup. A call left by an exception or a longjmp counts as open until another
 * starts. A preempted thread is runnable and does not sleep, and a woken thread is
 * runnable from then on.
 *
 * All this runs with the run queue locked, so it must not wake threads.
 */

/* The slot of the innermost open call of @task, or -1; @ret_fn is its function. */
static __always_inline int open_slot(const struct task_struct *task, __u32 *ret_fn)
{
	__u64 word = nest_top(task), key;
	struct fsn_call *call = nest_call(word, &key);

	if (!call || READ(call->tid) != (__u32)task->pid)
		return -1;
	*ret_fn = (key & FSN_KEY_FN_MASK) - 1;
	return word & FSN_OPEN_SLOT_MASK;
}

/* Adds a sleep of @ns to those of the function in the process at the stack. */
static __noinline int sleep_count(__u32 fn, __u32 tgid, __u32 stack, __u64 ns)
{
	struct fsn_sleep_at key = { .fn = fn, .epoch = READ(ctl.epoch), .tgid = tgid, .stack = stack };
	struct fsn_slept none = {}, *sum = bpf_map_lookup_elem(&fsn_sleeps, &key);

	if (!sum) {
		bpf_map_update_elem(&fsn_sleeps, &key, &none, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&fsn_sleeps, &key);
	}
	if (sum) {
		add(&sum->sleeps, 1);
		add(&sum->ns, ns);
	} else {
		add(&ctl.lost_stacks, 1);
	}
	return 0;
}

/* Counts the sleep of @task inside its innermost call, if there was one. */
static __always_inline void sleep_ends(struct task_struct *task)
{
	__u32 fn = 0, slot = open_slot(task, &fn);
	struct fsn_split *split = bpf_map_lookup_elem(&fsn_splits, &slot);
	__u64 now, ns, queued;

	if (!split || !split->slept)
		return;
	now = bpf_ktime_get_ns();
	ns = now > split->slept ? now - split->slept : 0;
	queued = delay_until_now(task) - split->slept_delay;
	split->slept = 0;
	sleep_count(fn, task->tgid, split->stack, ns > queued ? ns - queued : 0);
}

SEC("tp_btf/sched_switch")
int fsn_sleep(__u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	__u32 state = prev->__state, fn, slot;
	struct fsn_split *split;

	sleep_ends(next);
	if (ctx[0] & 1 || !state || state & TASK_DEAD)
		return 0;
	slot = open_slot(prev, &fn);
	split = bpf_map_lookup_elem(&fsn_splits, &slot);
	if (!split)
		return 0;
	split->slept = bpf_ktime_get_ns();
	split->slept_delay = delay_of(prev);
	split->stack = stack_of_thread(ctx, SWITCH_FRAMES);
	return 0;
}
