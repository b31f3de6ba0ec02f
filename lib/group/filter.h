/* SPDX-License-Identifier: BSD-2-Clause */
/* Which processes, commands, CPUs and cgroups count: decided by the programs at the entry. */
#ifndef FUNCSNOOP_GROUP_FILTER_H
#define FUNCSNOOP_GROUP_FILTER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* Each list that is empty lets everything through. Strings belong to the caller. */
struct filter {
	const pid_t *pids;
	size_t pid_cnt;
	const char *const *comms; /* of threads, as in /proc/PID/task/TID/comm */
	size_t comm_cnt;
	const uint32_t *cpus;
	size_t cpu_cnt;
	const char *const *cgroups; /* folders of cgroup v2: they and all below */
	size_t cgroup_cnt;
};

/* Maps that a filter is written into. */
struct filter_maps {
	int pids, comms, cpus, cgroups;
};

/*
 * Fills the maps; *ret_mask gets the FSN_FILTER_... to be switched on. -E2BIG when a list
 * is longer than its map, -EINVAL for a command of more than 15 bytes or a folder that is
 * no cgroup v2, -ENOENT when it is not there.
 */
int filter_write(const struct filter *f, const struct filter_maps *maps, uint32_t *ret_mask,
	struct err *err);

#endif
