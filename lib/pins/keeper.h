/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes that take groups away: a command's when that ends, however it does, and those
 * whose time is over.
 */
#ifndef FUNCSNOOP_PINS_KEEPER_H
#define FUNCSNOOP_PINS_KEEPER_H

#include "base/err.h"
#include "base/name.h"
#include "base/util.h"
#include "pins/bpffs.h"

struct keeper;

/*
 * A group that is kept counts for so long (struct fsn_ctl .until_ns), and the keeper puts the
 * end off each second: it ends by itself where the keeper is killed with the command.
 */
#define KEEPER_LEASE_NS 5000000000ULL

/*
 * To be started before group @name is made, in the folder that bpffs_open() opens for @dir:
 * from then on the group goes when this process does, even by SIGKILL. It maps what this
 * process maps now. -EEXIST when there is such a group already, and what fork(2) and
 * pipe(2) give.
 */
_must_check_ int keeper_start(
	const char *dir, const char *name, struct keeper **ret_keeper, struct err *err);

/*
 * Removes the group, if it is there, and waits until its probes are gone; the keeper ends.
 * Errors as of bpffs_remove().
 */
int keeper_finish(struct keeper *k, struct err *err);

/* The same without a word of what went wrong. NULL is fine. */
void keeper_free(struct keeper *k);

DEFINE_CLEANUP(keeper, struct keeper *, keeper_free)
#define _cleanup_keeper_ __cleanup(cleanup_keeper)

/*
 * A process that stays behind, and removes the groups that it is told of with ender_tell(),
 * each at its time, CLOCK_MONOTONIC; what is detached or replaced before is no concern of it.
 * It begins when *@ret_fd is closed, here and in what has been forked. It maps what this
 * process maps now. Where it is killed, the programs stop at that time by themselves, and the
 * next command that may removes them: bpffs_lock(), bpffs_tidy().
 */
_must_check_ int ender_start(const char *dir, int *ret_fd, struct err *err);
void ender_tell(int fd, const struct bpffs *fs, const char *name, uint64_t until_ns);

#endif
