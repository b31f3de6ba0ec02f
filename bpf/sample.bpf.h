/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Samples: what every CPU does at the ticks of a perf event of its own. They are events of the
 * thread that runs, without times; the idle threads do nothing that is counted.
 */
#ifndef FUNCSNOOP_SAMPLE_BPF_H
#define FUNCSNOOP_SAMPLE_BPF_H

#include "call.bpf.h"

/* What stands in registers: on the stack of the program there is no room for all of arm64's. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pt_regs);
} fsn_sample_regs SEC(".maps");

SEC("perf_event")
int fsn_sample_cpu(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 fn = bpf_get_attach_cookie(ctx) & FSN_FN_MASK, first = 0;
	struct pt_regs *regs = bpf_map_lookup_elem(&fsn_sample_regs, &first);

	if (!regs || !task->pid || !is_wanted(regs, fn))
		return 0;
	EVENT_STACK(regs) = stack_of_thread(ctx, 0);
	call_counted(regs, fn, -1, true, 0);
	return 0;
}

#define CPUHP_OFFLINE 0 /* where a CPU that is switched off ends (include/linux/cpuhotplug.h) */

/* Its event goes with a CPU and does not come back with it. */
SEC("tp_btf/cpuhp_enter")
int fsn_cpu_off(__u64 *ctx)
{
	__u32 cpu = ctx[0];
	int target = ctx[1];

	if (target != CPUHP_OFFLINE) {
		if (ctl.cpu_going == cpu + 1)
			ctl.cpu_going = 0;
	} else if (ctl.cpu_going != cpu + 1) {
		ctl.cpu_going = cpu + 1;
		add(&ctl.cpus_off, 1);
	}
	return 0;
}

#endif
