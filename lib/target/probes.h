/* SPDX-License-Identifier: BSD-2-Clause */
/* The probes of a draft, sorted into lists that one link (or kind of link) can take. */
#ifndef FUNCSNOOP_TARGET_PROBES_H
#define FUNCSNOOP_TARGET_PROBES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "kernel/link.h"
#include "shared/layout.h"

/* Which program a probe runs. */
enum engine_prog {
	ENGINE_END,     /* on ret instructions and leaving jumps */
	ENGINE_RETURN,  /* return probe */
	ENGINE_COUNT,   /* entry, counted only */
	ENGINE_ENTRY,   /* entry */
	ENGINE_SESSION, /* entry and return */
	ENGINE_PROG_CNT
};

struct probe_list {
	enum engine_prog prog;
	const char *path; /* for messages */
	struct link_probes probes;
	unsigned long *offsets; /* what probes points to */
	uint64_t *cookies;
};

struct probes {
	struct probe_list *lists; /* in the order in which they are to be attached */
	size_t object_cnt, list_cnt, total;
	struct fsn_jump *jumps;
	size_t jump_cnt;
	bool follows; /* some jump is followed */
};

/*
 * One list for each object and program that has probes, as the kinds of its targets make
 * them. -ENOMEM, and -E2BIG when there are more targets or indirect jumps than a cookie can
 * number.
 */
struct draft;
int probes_new(const struct draft *draft, enum link_mode mode, struct probes *ret_probes,
	struct err *err);
void probes_done(struct probes *p);

/* For kinds: adds a probe at @offset of object number @object. -ENOMEM only. */
_must_check_ int probes_add(struct probes *p, uint32_t object, enum engine_prog prog,
	uint64_t offset, uint64_t cookie);

#endif
