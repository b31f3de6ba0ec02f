/* SPDX-License-Identifier: GPL-2.0-only */
/* Which calls count: decided at the entry; an end belongs to whoever has a slot. */
#ifndef FUNCSNOOP_FILTER_BPF_H
#define FUNCSNOOP_FILTER_BPF_H

#include "maps.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FSN_CPUS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} fsn_cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(max_entries, FSN_CGROUPS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} fsn_cgroups SEC(".maps");

static __noinline bool in_cgroups(void)
{
#pragma unroll
	for (int i = 0; i < FSN_CGROUPS_MAX; i++)
		if (bpf_current_task_under_cgroup(&fsn_cgroups, i) == 1)
			return true;
	return false;
}

/* Asked only when some filter is set. Not static, so that it is verified once. */
__noinline int filter_passes(__u32 filters)
{
	struct fsn_comm comm = {};
	__u32 key;

	if (filters & FSN_FILTER_PID) {
		key = bpf_get_current_pid_tgid() >> 32;
		if (!bpf_map_lookup_elem(&fsn_pids, &key))
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

/* One word says whether calls count, and whether all do. */
static __always_inline bool is_on(void)
{
	__u32 on = *(volatile __u32 *)&ctl.on;

	return on == FSN_ON || (on & FSN_ON && filter_passes(on));
}

#endif
