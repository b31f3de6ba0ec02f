/* SPDX-License-Identifier: BSD-2-Clause */
/* A process that takes a command's group away when the command ends, however it does. */
#ifndef FUNCSNOOP_PINS_KEEPER_H
#define FUNCSNOOP_PINS_KEEPER_H

#include "base/err.h"
#include "base/name.h"
#include "base/util.h"

struct keeper;

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

#endif
