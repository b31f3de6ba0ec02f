/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of processes: how it has room again when many have ended. */
#ifndef FUNCSNOOP_STATS_PROCS_H
#define FUNCSNOOP_STATS_PROCS_H

#include "base/err.h"
#include "group/group.h"
#include "pins/bpffs.h"

/*
 * When half of the table is in use, adds records of processes that have ended up in their
 * functions' rows, oldest processes first, until a quarter is, and frees them: the sum of
 * all records and rows stays, at every moment and for every reader. Does nothing where it
 * can't be told that a process has ended (in another pid or time namespace), and while
 * another command has the lock of @fs. @g must be open for writing.
 */
int procs_fold(struct bpffs *fs, const struct group *g, struct err *err);

#endif
