/* SPDX-License-Identifier: GPL-2.0-only */
/* Filters, applied at the entry. A return counts if its call has a slot. */
#pragma once

#include "counters.bpf.h"
#include "core.bpf.h"

MAP(fsn_cpus, HASH, __u32, __u32, FSN_CPUS_MAX);
MAP(fsn_cgroups, CGROUP_ARRAY, __u32, __u32, FSN_CGROUPS_MAX);

static __noinline bool in_cgroups(void)
{
#pragma unroll
	for (int i = 0; i < FSN_CGROUPS_MAX; i++)
		if (bpf_current_task_under_cgroup(&fsn_cgroups, i) == 1)
			return true;
	return false;
}

/* Reads the clock once per jiffy, because that costs as much as all the rest here. */
static __always_inline bool is_over(void)
{
	__u64 jiffy = bpf_jiffies64();

	if (READ(ctl.over_jiffy) != jiffy) {
		ctl.over = bpf_ktime_get_ns() > READ(ctl.until_ns);
		ctl.over_jiffy = jiffy;
	}
	return READ(ctl.over);
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

/* Called only if a filter is set. Not static, so that it is verified once. */
__noinline int filter_passes(__u32 filters)
{
	struct fsn_comm comm = {};
	__u32 key;

	if (filters & FSN_FILTER_UNTIL && is_over())
		return 0;
	if (filters & FSN_FILTER_PID) {
		key = bpf_get_current_pid_tgid() >> 32;
		if (!bpf_map_lookup_elem(&fsn_pids, &key))
			return 0;
	}
	if (filters & FSN_FILTER_TID) {
		key = bpf_get_current_pid_tgid();
		if (!bpf_map_lookup_elem(&fsn_tids, &key))
			return 0;
	}
	if (filters & FSN_FILTER_UID) {
		key = bpf_get_current_uid_gid();
		if (!bpf_map_lookup_elem(&fsn_uids, &key))
			return 0;
	}
	if (filters & FSN_FILTER_CPU) {
		key = bpf_get_smp_processor_id();
		if (!bpf_map_lookup_elem(&fsn_cpus, &key))
			return 0;
	}
	if (filters & FSN_FILTER_COMM) {
		bpf_get_current_comm(&comm, sizeof(comm));
		if (!bpf_map_lookup_elem(&fsn_comms, &comm))
			return 0;
	}
	return !(filters & FSN_FILTER_CGROUP) || in_cgroups();
}

/* --- conditions on arguments --------------------------------------------------------------- */

const volatile bool fsn_events = false; /* some function is an event */

/* The argument at @where: 1 + register, FSN_GO_REG + 1 + Go's register, or FSN_STR_STACK + word. */
static __always_inline __u64 arg_word(const struct pt_regs *ctx, __u32 where)
{
	__u64 word = 0;

	if (fsn_other_regs && where > FSN_GO_REG && where < FSN_STR_KERNEL)
		return go_arg(where - 1 - FSN_GO_REG);
	if (where < FSN_STR_STACK && fsn_events)
		return event_arg(ctx, (where & ~FSN_STR_KERNEL) - 1);
	if (where < FSN_STR_STACK)
		return reg_arg(ctx, where - 1);
	where -= FSN_STR_STACK;
	bpf_probe_read_user(&word, sizeof(word), (void *)(STACK_ARGS(caller_sp(ctx)) + where * 8));
	return word;
}

/*
 * Not inlined: the compiler would merge the reads of two context pointers, which the
 * verifier rejects.
 */
static __noinline int go_args(__u64 *arg)
{
	const struct pt_regs *ctx = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());

#define X(n, r)             \
	if (n < FSN_ARGS)   \
		arg[n < FSN_ARGS ? n : 0] = ctx->r;
	GO_REGS(X)
#undef X
	return 0;
}

/* Reads the argument registers of @fn. Returns false if they are not known. */
static __always_inline bool args_read(const struct pt_regs *ctx, __u32 fn, __u64 *arg)
{
	const struct fsn_conf *conf =
		fsn_other_regs ? bpf_map_lookup_elem(&fsn_confs, &fn) : NULL;

	if (conf && conf->regs == FSN_REGS_GO) {
		go_args(arg);
		return true;
	}
	regs_args(ctx, arg);
	return !conf || conf->regs == FSN_REGS_C;
}

/*
 * Reads the text that an argument at @where points to: kernel memory if it is in a
 * tracepoint's record.
 */
static __always_inline long text_read(void *to, __u32 size, __u32 where, __u64 at)
{
	if (fsn_events && where & FSN_STR_KERNEL)
		return bpf_probe_read_kernel_str(to, size, (void *)at);
	return bpf_probe_read_user_str(to, size, (void *)at);
}

/* Returns FSN_EQUAL, FSN_ABOVE for any other text, or 0 if the text cannot be read. */
static __always_inline __u32 compare_text(const struct fsn_term *t, __u64 at)
{
	__u64 text[FSN_COND_TEXT / 8 + 1] = {}, other;

	/* One word longer, so that a longer text does not match its prefix. */
	if (text_read(text, sizeof(text), t->where, at) < 0) {
		if (at)
			add(&ctl.lost_conditions, 1);
		return 0;
	}
	other = text[FSN_COND_TEXT / 8];
#pragma unroll
	for (int i = 0; i < FSN_COND_TEXT / 8; i++)
		other |= text[i] ^ t->value[i];
	return other ? FSN_ABOVE : FSN_EQUAL;
}

/* True if argument @word satisfies the comparison @t. Not static, so that it is verified once. */
__noinline int term_holds(const struct fsn_term *t, __u64 word)
{
	__u64 value;
	__u32 unused;

	if (!t)
		return 0;
	value = t->value[0];
	unused = (64 - t->width) & 63;
	if (!t->width)
		return t->how & compare_text(t, word);
	if (word << unused >> unused == value << unused >> unused)
		return t->how & FSN_EQUAL;
	if (t->is_signed)
		return t->how & ((__s64)(word << unused) >> unused < (__s64)value ? FSN_BELOW
										 : FSN_ABOVE);
	return t->how & (word << unused >> unused < value ? FSN_BELOW : FSN_ABOVE);
}

/* True if the call satisfies all terms of --if; @on selects the half of fsn_conds. */
static __noinline int condition_holds(const struct pt_regs *ctx, __u32 fn, __u32 on)
{
	__u32 i = on & FSN_FILTER_IF2 ? fn + fsn_fn_cnt : fn;
	struct fsn_cond *cond = bpf_map_lookup_elem(&fsn_conds, &i);

	if (!cond || cond->never)
		return 0;
#pragma unroll
	for (__u32 n = 0; n < FSN_COND_TERMS; n++)
		if (n < cond->term_cnt && 
			!term_holds(&cond->term[n], arg_word(ctx, cond->term[n].where)))
			return 0;
	return 1;
}

/* --- used by the BPF programs ------------------------------------------------------- */

/* True if calls of the current thread count now, for any arguments. */
static __always_inline bool is_on(void)
{
	__u32 on = READ(ctl.on);

	return on == FSN_ON || (on & FSN_ON && filter_passes(on));
}

/*
 * True if this call counts; used at its entry. One word tells if the group is on and has
 * no filter.
 */
static __always_inline bool is_wanted(const struct pt_regs *ctx, __u32 fn)
{
	__u32 on = READ(ctl.on);

	if (on == FSN_ON)
		return true;
	if (!(on & FSN_ON) || !filter_passes(on))
		return false;
	return !(on & FSN_FILTER_IF) || condition_holds(ctx, fn, on);
}

/* --- children ------------------------------------------------------------------------------- */

/*
 * Processes started by those of a group's PID filter, and their children: added to the
 * list before they run, and removed when their last thread exits. Loaded only if children
 * are traced.
 *
 * exec changes nothing, because the process stays, and the thread that calls it becomes
 * the first one.
 */

/* The parent runs this before its child is woken (kernel_clone(), kernel/fork.c). */
SEC("tp_btf/sched_process_fork")
int fsn_fork(__u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	__u32 from = parent->tgid, pid = child->tgid, none = FSN_PID_NONE, value = 0,
	      *lost;

	if (pid == from || !bpf_map_lookup_elem(&fsn_pids, &from))
		return 0;
	if (!bpf_map_update_elem(&fsn_pids, &pid, &value, BPF_ANY))
		return 0;
	lost = bpf_map_lookup_elem(&fsn_pids, &none);
	if (lost)
		__sync_fetch_and_add(lost, 1);
	return 0;
}

/*
 * Each exiting thread runs this, after it has decremented .live (do_exit(),
 * kernel/exit.c).
 */
SEC("tp_btf/sched_process_exit")
int fsn_exit(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	__u32 pid = task->tgid, tid = task->pid;

	if (fsn_may_pause && tid != pid)
		bpf_map_delete_elem(&fsn_stops, &tid);
	if (task->signal->live.counter || !bpf_map_lookup_elem(&fsn_pids, &pid))
		return 0;
	if (fsn_may_pause)
		bpf_map_delete_elem(&fsn_stops, &pid);
	bpf_map_delete_elem(&fsn_pids, &pid);
	bpf_map_delete_elem(&fsn_holds, &pid);
	return 0;
}
