/* SPDX-License-Identifier: BSD-2-Clause */
/* The probes of a draft, sorted into lists that one link (or kind of link) can take. */
#ifndef FUNCSNOOP_ATTACH_PROBES_H
#define FUNCSNOOP_ATTACH_PROBES_H

#include "attach/engine.h"
#include "shared/layout.h"
#include "target/draft.h"

struct probe_list {
	enum engine_prog prog;
	const char *path; /* for messages */
	struct link_probes probes;
	unsigned long *offsets; /* what probes points to */
	uint64_t *cookies;
};

struct probes {
	struct probe_list *lists; /* in the order in which they are to be attached */
	size_t list_cnt, total;
	struct fsn_jump *jumps;
	size_t jump_cnt;
	bool follows; /* some jump is followed */
};

/*
 * One list for each library and program that has probes. -ENOMEM, and -E2BIG when there
 * are more functions or indirect jumps than a cookie can number.
 */
int probes_new(const struct draft *draft, enum link_mode mode, struct probes *ret_probes,
	struct err *err);
void probes_done(struct probes *p);

/* Pins in the folder @dir_fd where the probes go: pins/breaks.h. Before the first link. */
_must_check_ int probes_write_down(const struct probes *p, const struct draft *draft, int dir_fd,
	struct err *err);

#endif
