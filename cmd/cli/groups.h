/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening the groups that a command's line names, or all. */
#ifndef FUNCSNOOP_CLI_GROUPS_H
#define FUNCSNOOP_CLI_GROUPS_H

#include "cli/cmd.h"
#include "group/group.h"

struct groups {
	struct bpffs fs;
	struct group **group;
	char **error; /* of a group that can't be read: why; else NULL */
	size_t cnt;
	struct groups_left {
		struct err why;
		bool foreign; /* no failure of a reader's: another version attached it */
	} *left; /* each group that was left out, with GROUPS_REST */
	size_t left_cnt;
	size_t failed_cnt; /* of them, those that make a failure of the whole */
};

#define GROUPS_NONE { .fs = BPFFS_NONE }

enum groups_mode {
	GROUPS_READ,   /* for reading; swept of dead calls where permitted */
	GROUPS_CHANGE, /* for writing, with the lock held */
	GROUPS_LIST,   /* like GROUPS_READ, and one that can't be read is kept with its error */
	/*
	 * A flag for GROUPS_READ (alone: that) and GROUPS_CHANGE: when no names are given, groups that
	 * can't be opened are left out, unless all are. To readers one of another layout is
	 * no failure.
	 */
	GROUPS_REST = 0x100,
};

/*
 * Opens @names, or all groups when there are none. All must be there; else the error of
 * the first that isn't. End with groups_done().
 */
int groups_open(const struct globals *g, const struct words *names, unsigned int mode,
	struct groups *ret_groups, struct err *err);

/* Says on stderr which groups were left out, and why: failures, and notes. */
void groups_tell_left(const struct globals *g, const struct groups *groups);

/* Is names[i] one of those before it? A group named twice is meant once. */
bool groups_named_before(char *const *names, size_t i);

/* Lets other writers in again, when opened with GROUPS_CHANGE. */
void groups_unlock(struct groups *groups);

void groups_done(struct groups *groups);

#define _cleanup_groups_ __cleanup(groups_done)

#endif
