/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Samples: what every CPU does at the ticks of a perf event of its own. They are events of the
 * thread that runs, without times; the idle threads do nothing that is counted.
 */
#ifndef FUNCSNOOP_SAMPLE_BPF_H
#define FUNCSNOOP_SAMPLE_BPF_H

#include "call.bpf.h"

SEC("perf_event")
int fsn_sample_cpu(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	unsigned long room[EVENT_ROOM] = {};
	struct pt_regs *regs = event_room(room);
	__u32 fn = bpf_get_attach_cookie(ctx) & FSN_FN_MASK;

	if (!task->pid || !is_wanted(regs, fn))
		return 0;
	EVENT_STACK(regs) = stack_of_thread(ctx, 0);
	call_counted(regs, fn, -1, true);
	return 0;
}

#endif
