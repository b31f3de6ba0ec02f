/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Calls that launch kernels on GPUs: by which stack each was made is kept until the kernel's record
 * comes, which says in which thread that was, and from when to when. The last call which that
 * thread has begun by then is it.
 *
 * A thread makes one call after the other: recursion, longjmp and exceptions end none of them
 * here, as no ends are looked for. Of a call in another the inner one is found, and who has made the
 * outer one is on its stack, too. What is kept of a thread or a process that has ended is
 * overwritten: nobody asks for it.
 */
#ifndef FUNCSNOOP_GPUCALLS_BPF_H
#define FUNCSNOOP_GPUCALLS_BPF_H

#include "call.bpf.h"
#include "shared/gpu.h"

struct gpu_call {
	__u64 time;
	__u32 tgid, thread; /* .tgid: 0 while it is written */
	__u32 stack;
	__u32 taken; /* the number of the call whose kernels it has got; 0: none yet */
};

/* A power of two; no command reads it. */
const volatile __u32 fsn_gpu_call_cnt = 1;
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gpu_call);
} fsn_gpu_calls SEC(".maps");

/* A thread may be kept from running between the probe and the call that CUPTI sees. */
#define LAUNCH_LATE_NS 1000000
/* So many calls, most of them of other threads, are looked at, at either end of one. */
#define LAUNCH_OTHERS  96
/* Of these so many behind it: who was kept from running has its place before it has its time. */
#define LAUNCH_BEHIND  32

/* Not static, so that it is verified once, on its own. */
__noinline int gpu_call_keep(__u32 stack)
{
	__u32 i = __sync_fetch_and_add(&ctl.gpu_calls, 1) & (fsn_gpu_call_cnt - 1);
	struct gpu_call *to = bpf_map_lookup_elem(&fsn_gpu_calls, &i);

	if (!to)
		return 0;
	(void)__sync_lock_test_and_set(&to->tgid, 0);
	to->time = bpf_ktime_get_ns();
	to->taken = 0;
	to->thread = (__u32)thread_pointer(bpf_get_current_task_btf());
	to->stack = stack;
	(void)__sync_lock_test_and_set(&to->tgid, bpf_get_current_pid_tgid() >> 32);
	return 0;
}

/* A call that launches kernels begins. */
static __always_inline int gpu_called(struct pt_regs *ctx, __u32 fn)
{
	struct task_struct *task = bpf_get_current_task_btf();

	count_call(stat_of(fn, bpf_get_smp_processor_id()), fn);
	if (fsn_processes)
		proc_count(task, fn, task->tgid, bpf_get_smp_processor_id());
	if (fsn_walks_stacks)
		gpu_call_keep(
			stack_of_call(caller_sp(ctx), caller_fp(ctx), caller_link(ctx)));
	return 0;
}

/* How many of the @cnt calls from the @first on had begun by @time: they are nearly in that order. */
static __noinline __u32 gpu_calls_until(__u32 first, __u32 cnt, __u64 time)
{
	__u32 low = 0, i;
	const struct gpu_call *l;

	for (int n = 0; n < 17 && cnt; n++) {
		i = (first + low + cnt / 2) & (fsn_gpu_call_cnt - 1);
		l = bpf_map_lookup_elem(&fsn_gpu_calls, &i);
		if (!l)
			break;
		if (READ(l->time) <= time) {
			low += cnt / 2 + 1;
			cnt -= cnt / 2 + 1;
		} else {
			cnt /= 2;
		}
	}
	return low;
}

/*
 * Of the calls before place @at, as far back as @cnt, the last of @launch's thread that may be it: 1 +
 * its place, or 0. With @inside only one that has begun in its time, else also one shortly before.
 */
static __noinline __u32 gpu_call_near(
	const struct fsn_gpu_launch *launch, __u32 at, __u32 cnt, bool inside)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32, i, by;
	__u64 since = launch->begin - (inside ? 0 : LAUNCH_LATE_NS), time;
	const struct gpu_call *l;

	for (__u32 n = 1; n <= LAUNCH_OTHERS && n <= cnt; n++) {
		i = (at - n) & (fsn_gpu_call_cnt - 1);
		l = bpf_map_lookup_elem(&fsn_gpu_calls, &i);
		if (!l)
			break;
		by = READ(l->tgid);
		time = READ(l->time);
		if (by && time < since)
			break;
		if (by == tgid && l->thread == launch->thread && time <= launch->end)
			return i + 1;
	}
	return 0;
}

/*
 * The stack of the call that a kernel's record, whose launch lies at @at in the process, is of; 0: it
 * is not known. Not static, so that it is verified once, on its own. A thread that had to wait in the
 * call did so before the probe or behind it: then that is near the end, or near the begin.
 */
__noinline __u32 gpu_call_of(__u64 at)
{
	__u32 head = READ(ctl.gpu_calls), cnt = fsn_gpu_call_cnt, low, end, i;
	struct fsn_gpu_launch launch;
	struct gpu_call *l;

	if (!fsn_walks_stacks || bpf_probe_read_user(&launch, sizeof(launch), (void *)at) ||
		!launch.end)
		return 0;
	if (head < cnt)
		cnt = head;
	end = gpu_calls_until(head - cnt, cnt, launch.end) + LAUNCH_BEHIND;
	if (end > cnt)
		end = cnt;
	i = gpu_call_near(&launch, head - cnt + end, end, false);
	if (!i && end > LAUNCH_OTHERS) {
		low = gpu_calls_until(head - cnt, cnt, launch.begin) + LAUNCH_OTHERS;
		if (low > end)
			low = end;
		i = gpu_call_near(&launch, head - cnt + low, low, true);
	}
	if (!i--)
		return 0;
	l = bpf_map_lookup_elem(&fsn_gpu_calls, &i);
	if (!l)
		return 0;
	/* All kernels of one launch are its, and those of no other. */
	if (!READ(l->taken))
		l->taken = launch.number;
	return l->taken == launch.number ? l->stack : 0;
}

#endif
