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
	const uid_t *uids; /* real user ids */
	size_t uid_cnt;
	const pid_t *tids; /* single threads */
	size_t tid_cnt;
};

/* Maps that a filter is written into. */
struct filter_maps {
	int pids, comms, cpus, cgroups, uids, tids;
};

/*
 * Fills the maps; *ret_mask gets the FSN_FILTER_... to be switched on. -E2BIG when a list
 * is longer than its map, -EINVAL for a command of more than 15 bytes or a folder that is
 * no cgroup v2, -ENOENT when it is not there.
 */
int filter_write(const struct filter *f, const struct filter_maps *maps, uint32_t *ret_mask,
	struct err *err);

/*
 * Whether the lists of processes, commands and users could be written: -EINVAL and -E2BIG as
 * above, before anything has changed.
 */
int filter_check(const struct filter *f, struct err *err);

/*
 * Replaces the lists of @change, FSN_FILTER_PID, FSN_FILTER_COMM and FSN_FILTER_UID, while
 * programs look them up by the switches *@on, which are set; an empty list ends its filter.
 * Calls that pass the old and the new lists pass meanwhile. Other switches of @change become
 * as in @set, at the same moment. On failure all is as before, as far as the kernel lets it.
 * Nobody else may write these maps at the time.
 */
int filter_replace(const struct filter *f, const struct filter_maps *maps, uint32_t change,
	uint32_t set, uint32_t *on, struct err *err);

/*
 * How many children of the processes on the list of the group in @dir_fd are not counted,
 * as there was no room on it. 0 also where none are followed.
 */
uint32_t filter_lost_children(int dir_fd);

#endif
