/* SPDX-License-Identifier: BSD-2-Clause */
/* What a group was asked to count, and by whose command: for its owner to read. */
#ifndef FUNCSNOOP_GROUP_ASKED_H
#define FUNCSNOOP_GROUP_ASKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "group/group.h"
#include "shared/words.h"

/* A list that is empty lets everything through. Strings are "" where nothing was asked. */
struct asked {
	uint32_t *pids, *uids, *tids;
	size_t pid_cnt, uid_cnt, tid_cnt;
	char (*comms)[FSN_COMM_LEN];
	size_t comm_cnt;
	const char *condition;  /* --if */
	const char *cpus;       /* a blank behind each */
	const char *cgroups;    /* a newline behind each */
	const char *argv;       /* the command line, a zero byte behind each word; cut */
	size_t argv_bytes;
	bool by_pid;            /* only .pids count, of which none may be left */
	bool children;          /* what they start counts, too; who has ended is not on the list */
	uint32_t lost_children; /* for which there was no room */
	size_t ended_cnt;       /* of .pids, which then stand first */
	void *said;             /* owned */
};

/*
 * Reads it. -EACCES or -EPERM for who may read the counters alone. End with asked_done(), also
 * after an error.
 */
_must_check_ int asked_read(const struct group *g, struct asked *ret_asked, struct err *err);
void asked_done(struct asked *a);
#define _cleanup_asked_ __cleanup(asked_done)

/* Whether it counts processes of which none runs any more. */
static inline bool asked_is_over(const struct asked *a)
{
	return a->by_pid && a->ended_cnt == a->pid_cnt;
}

#endif
