/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes stopped by a signal until a command has checked which libraries they have
 * loaded.
 *
 * A process stopped by one group may have calls in progress in other groups, and their
 * clocks keep running. The stopped time of each thread is summed, from the signal until
 * it has a CPU again, and subtracted from its calls in progress. Calls that start after
 * the signal and before the stop are not timed, because the kernel's work for the stop,
 * some microseconds, would be most of their time. A call already in progress keeps the
 * time up to the signal.
 *
 * The sums belong to the thread, so recursion, longjmp and exceptions do not matter.
 */
#pragma once

#include "counters.bpf.h"
#include "core.bpf.h"
#include "filter.bpf.h"
#include "mapping.bpf.h"

#define EBUSY   16
#define SIGCHLD 17
#define SIGCONT 18
#define SIGSTOP 19
#define SIGTTOU 22
#define SIGURG 23
#define SIGWINCH 28

#define TASK_STOPPED 4 /* __TASK_STOPPED, include/linux/sched.h */
#define SENT_BY_KERNEL 1 /* SEND_SIG_PRIV, include/linux/sched/signal.h */
#define CLD_CONTINUED 6
#define SIGNAL_CLD_CONTINUED 0x20 /* include/linux/sched/signal.h */
#define SIG_IGN ((void *)1)
#define SA_NOCLDSTOP 1

/* --- stopping processes ------------------------------------------------------------- */

/* Context of a perf event program: include/uapi/linux/bpf_perf_event.h. */
struct fault {
	struct pt_regs regs;
	__u64 sample_period, addr;
};

/* Returns the record of process @pid, created if necessary; NULL if the table is full. */
static __always_inline struct fsn_hold *hold_of(__u32 pid)
{
	struct fsn_hold none = {}, *hold = bpf_map_lookup_elem(&fsn_holds, &pid);

	if (hold)
		return hold;
	bpf_map_update_elem(&fsn_holds, &pid, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&fsn_holds, &pid);
}

/* A process runs on that should be stopped. Any page fault stops it then. */
static __always_inline void hold_slips(struct fsn_hold *hold)
{
	struct fsn_hold *all = hold_of(0);

	hold->lost++;
	hold->pages = 0;
	if (all)
		__sync_fetch_and_add(&all->lost, 1);
}

/*
 * Sends the signal that stops the current process, @pid, and writes the time after it. A command
 * that continues the process replaces the record by one without a time, and then sends its own
 * signal. So the time belongs into the record that is found after the signal: a record that was
 * found before may be another process's by now.
 */
static __always_inline long hold_signal(__u32 pid, struct fsn_hold **ret_hold)
{
	long code = bpf_send_signal(SIGSTOP);
	struct fsn_hold *hold = bpf_map_lookup_elem(&fsn_holds, &pid);

	if (hold && !code)
		(void)__sync_lock_test_and_set(&hold->since_ns, bpf_ktime_get_ns());
	*ret_hold = hold;
	return code;
}

/* Stops the current process, whose record is @hold, and wakes the command. */
static __noinline int hold_current(struct fsn_hold *hold)
{
	__u32 first = 0, pid = bpf_get_current_pid_tgid() >> 32;
	void *ring;
	long code;

	if (!hold)
		return 0;
	(void)__sync_lock_test_and_set(&hold->stopping, 1);
	code = hold_signal(pid, &hold);
	if (!hold)
		return 0;
	hold->stopping = 0;
	/* Other errors are those of processes that run no more code of their own. */
	if (code == -EBUSY)
		hold_slips(hold);
	if (code)
		return 0;
	ring = bpf_map_lookup_elem(&fsn_rings, &first);
	if (ring)
		bpf_ringbuf_output(ring, &first, sizeof(first), BPF_RB_FORCE_WAKEUP);
	return 0;
}

/*
 * Runs at each page fault of a traced process. Code mapped since the last stop cannot run
 * before a page of it is faulted in. Stopping the process there gives the code its probes
 * first. The signal takes effect after the fault.
 */
SEC("perf_event")
int fsn_fault(struct fault *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mm_struct *mm = task->mm;
	struct fsn_hold *hold;

	if (!mm || !is_on())
		return 0;
	hold = hold_of(task->tgid);
	if (!hold)
		return 0;
	if (!(hold->lost && !hold->pages) &&
		((hold->exec_id == task->self_exec_id && hold->pages >= mm->exec_vm) ||
			!mapping_may_run(ctx->addr)))
		return 0;
	hold->exec_id = task->self_exec_id;
	hold->pages = mm->exec_vm;
	hold_current(hold);
	return 0;
}

/* --- stops and their duration ------------------------------------------------------- */

/* Total run-queue latency of @task. */
static __always_inline __u64 delay_of(const struct task_struct *task)
{
	return bpf_core_field_exists(task->sched_info.run_delay) ? task->sched_info.run_delay : 0;
}

/* The same up to now, for a task that has just got a CPU. */
static __always_inline __u64 delay_until_now(const struct task_struct *task)
{
	__u64 since, now;

	if (!bpf_core_field_exists(task->sched_info.run_delay) ||
		!bpf_core_field_exists(task->se.cfs_rq->rq))
		return delay_of(task);
	since = task->sched_info.last_queued;
	now = task->se.cfs_rq->rq->clock;
	return delay_of(task) + (since && now > since ? now - since : 0);
}

/* too large for the stack of some BPF programs */
const volatile struct fsn_stop fsn_no_stop = {};

/*
 * Returns the record of @id, a thread or a process, created if necessary; NULL if the table is
 * full.
 */
static __always_inline struct fsn_stop *stop_make(__u32 id)
{
	if (!bpf_map_lookup_elem(&fsn_stops, &id))
		bpf_map_update_elem(&fsn_stops, &id, (const void *)&fsn_no_stop, BPF_NOEXIST);
	return bpf_map_lookup_elem(&fsn_stops, &id);
}

/*
 * Stops a process again if another process has continued it during a hold, such as a parent that
 * answers an earlier stop. The process calls it to notify its parent, before it runs its own code.
 */
static __always_inline void hold_again(__u32 pid, struct kernel_siginfo *info)
{
	struct fsn_hold *hold = bpf_map_lookup_elem(&fsn_holds, &pid);

	/* 7.2 treats @info as a number, because it may be one (SEND_SIG_PRIV). */
	if (hold && READ(hold->since_ns) && BPF_CORE_READ(info, si_code) == CLD_CONTINUED)
		hold_current(hold);
}

/*
 * True if the process of @task will notify its parent that it continues: then hold_again() stops it.
 * Parents can refuse that.
 */
static __always_inline bool will_notify(const struct task_struct *task)
{
	const struct k_sigaction *action;

	if (!(task->signal->flags & SIGNAL_CLD_CONTINUED))
		return false;
	action = &BPF_CORE_READ(task, group_leader, real_parent, sighand)->action[SIGCHLD - 1];
	return BPF_CORE_READ(action, sa.sa_handler) != SIG_IGN &&
	       !(BPF_CORE_READ(action, sa.sa_flags) & SA_NOCLDSTOP);
}

#define SIGNALS(a, b, c, d) (1ULL << (a) | 1ULL << (b) | 1ULL << (c) | 1ULL << (d))

/* True if a signal without a handler is ignored, or stops or continues the process. */
static __always_inline bool signal_passes(__u32 sig)
{
	return sig < 64 && 1ULL << sig & (SIGNALS(SIGCHLD, SIGCONT, SIGURG, SIGWINCH) |
				SIGNALS(SIGSTOP, SIGSTOP + 1, SIGSTOP + 2, SIGTTOU));
}

/* A SIGCONT cancels a SIGSTOP that process @pid has not acted on, or ends a stop unheard. */
static __always_inline void hold_lose(const struct task_struct *task, __u32 pid)
{
	struct fsn_hold *hold = bpf_map_lookup_elem(&fsn_holds, &pid);

	if (!hold || (!READ(hold->since_ns) && !READ(hold->stopping)) || will_notify(task))
		return;
	hold_slips(hold);
}

/* The sender runs this; for a signal of fsn_fault(), that is the stopped process. */
SEC("tp_btf/signal_generate")
int fsn_signal(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[2];
	__u32 sig = ctx[0], pid = task->tgid, from = bpf_get_current_pid_tgid() >> 32;
	bool holds = sig == SIGSTOP && ctx[1] == SENT_BY_KERNEL && from == pid;
	struct fsn_stop *stop;

	if (sig == SIGCHLD && is_on())
		hold_again(from, (void *)ctx[1]);
	else if (sig == SIGCONT)
		hold_lose(task, pid);
	if (sig < SIGCONT || sig > SIGTTOU)
		return 0;
	if (holds || (sig != SIGCONT && bpf_map_lookup_elem(&fsn_pids, &pid)))
		stop = stop_make(pid);
	else
		stop = bpf_map_lookup_elem(&fsn_stops, &pid);
	if (!stop)
		return 0;
	if (sig == SIGCONT)
		stop->by = FSN_STOPPER_NONE;
	else if (holds)
		stop->by = FSN_STOPPER_HOLD;
	else if (bpf_map_lookup_elem(&fsn_pids, &from))
		stop->by = FSN_STOPPER_FOLLOWED;
	else
		stop->by = FSN_STOPPER_OTHER;
	stop->at_ns = bpf_ktime_get_ns();
	stop->at_delay_ns = delay_of(task);
	return 0;
}

/* Starts the stop of a thread that is switched out, if a hold has stopped it. */
static __always_inline void pause_begins(struct task_struct *task)
{
	__u32 pid = task->tgid, tid = task->pid;
	struct fsn_stop *stop = bpf_map_lookup_elem(&fsn_stops, &pid), *own = stop;

	if (!stop || stop->by != FSN_STOPPER_HOLD)
		return;
	if (tid != pid)
		own = stop_make(tid);
	if (!own || own->since_ns)
		return;
	own->since_ns = bpf_ktime_get_ns();
	own->since_delay_ns = delay_of(task);
	/* A single thread has sent itself the signal. */
	if (tid == pid && task->signal->live.counter == 1) {
		own->since_ns = stop->at_ns;
		own->since_delay_ns = stop->at_delay_ns;
	}
	add(&ctl.pausing, 1);
}

/*
 * True if this group traces the process. The stops of others do not belong to its
 * statistics.
 */
static __always_inline bool is_followed(__u32 pid)
{
	return !(READ(ctl.on) & FSN_FILTER_PID) || bpf_map_lookup_elem(&fsn_pids, &pid);
}

/* Ends the stop of a thread that has a CPU again. */
static __always_inline void pause_ends(struct task_struct *task)
{
	__u64 now = bpf_ktime_get_ns(), ns;
	__u32 tid = task->pid;
	struct fsn_stop *own = bpf_map_lookup_elem(&fsn_stops, &tid);

	if (!own || !own->since_ns)
		return;
	ns = now - own->since_ns;
	own->total_ns += ns;
	own->delay_ns += delay_until_now(task) - own->since_delay_ns;
	own->until_ns = now;
	own->since_ns = 0;
	add(&ctl.pausing, -1);
	if (tid == (__u32)task->tgid && is_followed(tid)) {
		add(&ctl.pauses, 1);
		add(&ctl.paused_ns, ns);
	}
}

SEC("tp_btf/sched_switch")
int fsn_pause(__u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];

	if (READ(ctl.pausing))
		pause_ends(next);
	if (prev->__state & TASK_STOPPED)
		pause_begins(prev);
	return 0;
}

/* --- calls -------------------------------------------------------------------------------------- */

/* True if the current thread is about to stop: the signal is sent. */
static __noinline bool is_about_to_pause(void)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 pid = id >> 32;
	struct fsn_stop *stop;

	if (pid != (__u32)id)
		return false;
	stop = bpf_map_lookup_elem(&fsn_stops, &pid);
	return stop && stop->by == FSN_STOPPER_HOLD && stop->at_ns > stop->until_ns;
}

static __always_inline __u64 paused_ever(void)
{
	__u32 tid = bpf_get_current_pid_tgid();
	struct fsn_stop *own = bpf_map_lookup_elem(&fsn_stops, &tid);

	return own ? own->total_ns : 0;
}

/*
 * Total run-queue latency of the current thread, without that at the end of its stops, which is not
 * part of any call's time. Not static, so that it is verified once.
 */
__noinline __u64 delay_unpaused(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tid = task->pid;
	struct fsn_stop *own = fsn_may_pause ? bpf_map_lookup_elem(&fsn_stops, &tid) : NULL;

	return delay_of(task) - (own ? own->delay_ns : 0);
}

/* Saves the thread's totals at the start of the call in @slot. */
static __noinline int pause_keep(__u32 slot)
{
	__u64 *kept = bpf_map_lookup_elem(&fsn_pauses, &slot);
	struct fsn_nest *nest = bpf_map_lookup_elem(&fsn_nests, &slot);

	if (kept)
		*kept = paused_ever();
	if (nest)
		nest->delay = delay_unpaused() >> FSN_DELAY_SHIFT;
	return 0;
}

/* How long the current thread was stopped since it started the call in @slot. */
static __noinline __u64 pause_in(__u32 slot)
{
	__u64 *kept = bpf_map_lookup_elem(&fsn_pauses, &slot), ever = paused_ever();
	__u32 i = slot / FSN_WAYS;
	struct fsn_set *set = bpf_map_lookup_elem(&fsn_slots, &i);

	if (!kept || !set || ever <= *kept ||
		set->call[slot % FSN_WAYS].tid != (__u32)bpf_get_current_pid_tgid())
		return 0;
	return ever - *kept;
}

/* Subtracts that from the duration @ns of the call in @slot. */
static __always_inline __u64 unpaused(__u32 slot, __u64 ns)
{
	__u64 paused = fsn_may_pause ? pause_in(slot) : 0;

	return paused < ns ? ns - paused : 0;
}
