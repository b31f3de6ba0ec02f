/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waits of threads: off the CPU, from where a thread goes to sleep to where it has a CPU again; and
 * in the run queue, from where it could run, being woken or having lost its CPU, to there.
 *
 * They are calls like others, of two functions, in the slot of the thread by its task_struct. But
 * who begins or ends one is not who waits: at the end another thread is still the current one, and
 * at the begin it may be who wakes. So all that is asked of the thread is asked of its task_struct.
 *
 * What does not come back: a thread that ends sleeps no more when it is switched out for the last
 * time, which begins no wait. Waits that had begun at the attach have no begin, and are not counted.
 * The idle threads wait for nothing. Some kernels do not trace every switch (seen on 6.18, in a
 * virtual machine: its own trace lacks some of those away from one process): who got a CPU so
 * gives up its wait when it is switched out, which then is abandoned, also for the last time.
 *
 * All this runs with the run queue locked: it wakes nobody, and allocates nothing.
 */
#ifndef FUNCSNOOP_WAIT_BPF_H
#define FUNCSNOOP_WAIT_BPF_H

#include "call.bpf.h"

/* 1 + the functions whose calls are these waits; 0: they are none. */
const volatile __u32 fsn_off_cpu = 0;
const volatile __u32 fsn_run_queue = 0;

/* What a stack at a switch begins with: this program, and who runs it. */
#define SWITCH_FRAMES 3

#define NO_TID    (~0U)

/* include/linux/sched.h */
#define TASK_DEAD     0x80
#define PF_FORKNOEXEC 0x40

/* It is the command that is to be run, and not yet what it shall be: until then it is the runner's. */
static __always_inline bool is_unborn(struct task_struct *task)
{
	struct task_struct *leader = task->group_leader; /* threads are born anew */

	return (__u32)task->tgid == READ(ctl.held) && leader->flags & PF_FORKNOEXEC;
}

static __noinline bool wait_passes(struct task_struct *task, __u32 filters)
{
	struct fsn_comm comm = {};
	__u32 key;

	if (filters & FSN_FILTER_UNTIL && is_over())
		return false;
	if (filters & FSN_FILTER_PID) {
		key = task->tgid;
		if (!bpf_map_lookup_elem(&fsn_pids, &key) || is_unborn(task))
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
	/* That of the current one: who waits to be woken by others is not asked for it (target_wait). */
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
	__builtin_memset(to, 0, FSN_COMM_LEN); /* it may be a part of a key, and another's was there */
	bpf_probe_read_kernel_str(to, FSN_COMM_LEN, task->comm);
}

/* Whether somebody wants more of a wait than its time: names take as long as all else. */
static __always_inline bool wait_is_told(void)
{
	return fsn_keyed || READ(ctl.save_args) || READ(ctl.streams);
}

#define WAIT_OF(fn, stack) ((fn) | (__u64)(stack) << 32)

/*
 * Whether the wait is not @task's but that of a dead thread, whose task_struct @task has: the
 * kernel has not traced that the dead one got a CPU.
 */
static __always_inline bool wait_is_stale(const struct fsn_call *call, const struct task_struct *task)
{
	return READ(call->start) < task->start_time;
}

/* Whether @task waits under @key. */
static __always_inline bool is_waiting(
	struct fsn_set *set, __u64 key, const struct task_struct *task)
{
	int way = set_is_used(set) ? slot_find(set, key, as_number(task)) : -1;

	return way >= 0 && !wait_is_stale(&set->call[way & (FSN_WAYS - 1)], task);
}

/*
 * @task begins to wait: @instead has its CPU, or @waker has woken it; what is not known is @task.
 * @what is WAIT_OF() its function and its stack.
 */
static __always_inline void wait_begins(struct task_struct *task, struct task_struct *instead,
	struct task_struct *waker, __u64 what, __u64 now)
{
	__u32 fn = what;
	__u64 where = as_number(task), key;
	__u32 tgid = task->tgid, slot = set_index(tgid, where), proc = FSN_NO_PROC;
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &slot);
	struct task_struct *leader = task->group_leader;
	struct fsn_call *call;
	struct wait *wait;
	int way;

	key = call_key(fn, tgid);
	/* It lost its CPU on the way to sleep, and is queued since. */
	if (!set || (waker != task && is_waiting(set, key, task)))
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
		wait->start = leader->start_boottime;
		wait->named = as_number(leader->comm);
		wait->tgid = tgid;
		wait->tid = task->pid;
		wait->instead_tid = wait->waker_tid = NO_TID;
		wait->instead[0] = wait->waker[0] = 0;
		wait->stack = what >> 32;
		if (fsn_keyed || fsn_processes)
			wait->cgroup = task->cgroups->dfl_cgrp->kn->id;
		if (wait_is_told() && instead != task)
			name_thread(instead, wait->instead, &wait->instead_tid);
		if (wait_is_told() && waker != task)
			name_thread(waker, wait->waker, &wait->waker_tid);
	}
	call = &set->call[way];
	call->where = where;
	call->task = where;
	call->tid = task->pid;
	call->proc = proc;
	call->start = now;
	slot_publish(set, way, key);
}

/* Argument @n: as lib/target/wait.c has them. */
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
	}
}

/* Counts the wait in its row, which end_in_row() finds. */
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

/* For keys, and for who is told of it. */
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

/* As proc_again(), of another process than the current one. */
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

/* The wait in the locked @slot has come to its end. Not static, so that it is verified once. */
__noinline int wait_over(__u32 fn, __u32 slot, __u64 now)
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
	ns = now > call->start ? now - call->start : 0;
	if (ns > FSN_NS_MASK)
		ns = FSN_NS_MASK;
	if (wait_is_told())
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

/* @task, whose waits are in set @no, has a CPU again, which was that of @before. */
static __always_inline void wait_ends(struct fsn_set *set, __u32 no, struct task_struct *task,
	struct task_struct *before, __u32 fn, __u64 now)
{
	int way = slot_take_first(set, call_key(fn, task->tgid), as_number(task));
	struct wait *wait;
	__u32 slot;

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
	if (wait && wait_is_told()) {
		name_thread(task, wait->comm, &wait->tid);
		if (wait->instead_tid == NO_TID)
			name_thread(before, wait->instead, &wait->instead_tid);
	}
	wait_over(fn, slot, now);
}

/* The same, whatever it waited for. When that was: what most have not asked for takes longer. */
static __always_inline __u64 waits_end(struct task_struct *task, struct task_struct *before)
{
	__u32 no = set_index(task->tgid, as_number(task));
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &no);
	__u64 now;

	if (!set || !set_is_used(set))
		return 0;
	now = bpf_ktime_get_ns();
	if (fsn_off_cpu)
		wait_ends(set, no, task, before, fsn_off_cpu - 1, now);
	if (fsn_run_queue)
		wait_ends(set, no, task, before, fsn_run_queue - 1, now);
	return now;
}

/* Whoever runs wakes @task: what it says of itself may be an interrupt that came upon it. */
static __always_inline void wait_woken(struct task_struct *task)
{
	__u64 where = as_number(task);
	__u32 tgid = task->tgid, slot = set_index(tgid, where);
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &slot);
	struct wait *wait;
	int way;

	if (!set)
		return;
	way = slot_find(set, call_key(fsn_off_cpu - 1, tgid), where);
	if (way < 0)
		return;
	slot = slot * FSN_WAYS + (way & (FSN_WAYS - 1));
	wait = bpf_map_lookup_elem(&fsn_wait, &slot);
	if (wait)
		name_thread(bpf_get_current_task_btf(), wait->waker, &wait->waker_tid);
}

/* What is woken while it runs goes on. */
static __always_inline void woken(struct task_struct *task)
{
	bool told = fsn_off_cpu && wait_is_told();

	if (!told && !fsn_run_queue)
		return;
	if (bpf_core_field_exists(task->on_cpu) && task->on_cpu)
		return;
	if (told)
		wait_woken(task);
	if (fsn_run_queue && wait_is_wanted(task))
		wait_begins(task, task, bpf_get_current_task_btf(), WAIT_OF(fsn_run_queue - 1, 0),
			bpf_ktime_get_ns());
}

SEC("tp_btf/sched_wakeup")
int fsn_wakeup(__u64 *ctx)
{
	woken((void *)ctx[0]);
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int fsn_wakeup_new(__u64 *ctx)
{
	woken((void *)ctx[0]);
	return 0;
}

/*
 * Whoever is switched out has waited for nothing since it had its CPU: that it got one was not
 * seen, if it seems so. What begins now gives up its own kind in passing.
 */
static __always_inline void wait_is_over(struct task_struct *task, __u32 fn)
{
	__u64 where = as_number(task);
	__u32 tgid = task->tgid, i = set_index(tgid, where);
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &i);

	if (set && set_is_used(set) && slot_find(set, call_key(fn, tgid), where) >= 0)
		slot_clear(set, call_key(fn, tgid), where);
}

SEC("tp_btf/sched_switch")
int fsn_switch(__u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	__u32 state = prev->__state, stack = 0, begins, ends;
	bool runs = ctx[0] & 1 || !state;
	__u64 now = 0;

	if (next->pid)
		now = waits_end(next, prev);
	if (prev->pid && state & TASK_DEAD) {
		if (fsn_off_cpu)
			wait_is_over(prev, fsn_off_cpu - 1);
		if (fsn_run_queue)
			wait_is_over(prev, fsn_run_queue - 1);
		return 0;
	}
	if (!prev->pid || !wait_is_wanted(prev))
		return 0;
	begins = runs ? fsn_run_queue : fsn_off_cpu;
	ends = runs ? fsn_off_cpu : fsn_run_queue;
	if (ends)
		wait_is_over(prev, ends - 1);
	if (!begins)
		return 0;
	if (fsn_walks_stacks)
		stack = stack_of_thread(ctx, SWITCH_FRAMES);
	wait_begins(prev, next, prev, WAIT_OF(begins - 1, stack), now ? now : bpf_ktime_get_ns());
	return 0;
}

/*
 * Where calls sleep: of a thread that is switched out while a call of it is open, the stack, and
 * how long it slept there, in the function of the innermost call.
 *
 * Which call that is the thread's word says (nest.bpf.h), as long as nothing is open it is one
 * look-up that a switch takes. A call that was left by an exception or a longjmp counts as open
 * until another begins. What a thread does not do of itself is no sleep: who loses its CPU is
 * queued; and once it is woken, it is queued, too.
 *
 * All this runs with the run queue locked: it wakes nobody.
 */

/* The slot of the innermost call that @task has open, or -1; @ret_fn is its function. */
static __always_inline int open_slot(const struct task_struct *task, __u32 *ret_fn)
{
	__u64 word = nest_top(task), key;
	struct fsn_call *call = nest_call(word, &key);

	if (!call || READ(call->tid) != (__u32)task->pid)
		return -1;
	*ret_fn = (key & FSN_KEY_FN_MASK) - 1;
	return word & FSN_OPEN_SLOT_MASK;
}

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

#endif
