/* SPDX-License-Identifier: BSD-2-Clause */
/* A table of strings, each held once: what the maps of a group refer to by offset. */
#ifndef FUNCSNOOP_BASE_STRTAB_H
#define FUNCSNOOP_BASE_STRTAB_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct strtab {
	char *buf;     /* strings with their zero bytes, the empty one first */
	size_t len;
	uint32_t *slot; /* hash table of offsets + 1 */
	size_t slot_cnt, used;
};

/* Offset of @str in the table, added if it is new; NULL counts as "". -ENOMEM. */
int strtab_add(struct strtab *t, const char *str, uint32_t *ret_offset, struct err *err);
void strtab_done(struct strtab *t);

/* The string at @offset of @buf, or "" when it does not lie inside whole. */
const char *strtab_at(const char *buf, size_t len, uint32_t offset);

#endif
