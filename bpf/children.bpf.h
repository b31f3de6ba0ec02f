/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes that those of a group's filter start, and theirs: they are on its list before they
 * run, and off it when their last thread has ended. Loaded only if they are to be followed.
 *
 * Recursion, longjmp and exceptions are none of these programs' business. exec changes nothing,
 * as the process stays, and a thread that calls it takes the place of the first one.
 */
#ifndef FUNCSNOOP_CHILDREN_BPF_H
#define FUNCSNOOP_CHILDREN_BPF_H

#include "filter.bpf.h"

/* Called by the parent before its child is woken (kernel_clone(), kernel/fork.c). */
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

/* Called by each thread, counted down before (do_exit(), kernel/exit.c). */
SEC("tp_btf/sched_process_exit")
int fsn_exit(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	__u32 pid = task->tgid;

	if (!task->signal->live.counter && bpf_map_lookup_elem(&fsn_pids, &pid))
		bpf_map_delete_elem(&fsn_pids, &pid);
	return 0;
}

#endif
