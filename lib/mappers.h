/* SPDX-License-Identifier: BSD-2-Clause */
/* How much a group will hit: the processes that map its files now. */
#ifndef FUNCSNOOP_MAPPERS_H
#define FUNCSNOOP_MAPPERS_H

#include <stddef.h>

#include "err.h"
#include "target.h"

/*
 * Processes that have a file of @t mapped, as far as they can be looked at. Compared by
 * inode: on overlayfs the device differs (proc(5), stat(2)), so that a stranger may be
 * counted, never one missed.
 */
int mappers_count(const struct target *t, size_t *ret_processes, struct err *err);

#endif
