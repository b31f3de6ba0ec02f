/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of functions and their probes, of a group or of what is to become one. */
#ifndef FUNCSNOOP_SHOW_FUNCTIONS_H
#define FUNCSNOOP_SHOW_FUNCTIONS_H

#include "group/group.h"
#include "show/text.h"

/* NULL when memory is out, which functions_add() accepts. */
struct table *functions_table(void);

/* A row; @refused says why it can't be probed, or is NULL. */
void functions_add(struct table *table, const struct group_func *f, const char *refused);

/* A row for a name that is in no library. */
void functions_add_missing(struct table *table, const char *name);

#endif
