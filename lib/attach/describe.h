/* SPDX-License-Identifier: BSD-2-Clause */
/* A group's own description of itself, as its maps keep it: made at attach. */
#ifndef FUNCSNOOP_ATTACH_DESCRIBE_H
#define FUNCSNOOP_ATTACH_DESCRIBE_H

#include "attach/attach.h"
#include "attach/engine.h"
#include "base/strtab.h"
#include "group/types.h"
#include "shared/layout.h"
#include "target/draft.h"
#include "target/probes.h"

struct description {
	struct fsn_func *funcs; /* of the probed functions, in their order */
	struct fsn_conf *confs;
	struct fsn_cond *conds;
	struct fsn_said *said;
	struct fsn_lib *libs;
	struct type_records types;
	struct strtab text;
	bool save_args; /* some function remembers slow calls */
	bool has_more;  /* some function has arguments that registers don't hold */
};

/* @price is what is to be taken off measured times, or NULL: nothing. */
int description_new(const struct draft *draft, const struct attach_opts *opts,
	const struct price *price, struct description *ret_desc, struct err *err);
void description_done(struct description *d);

/* Writes it, and @meta with what it adds, into the engine's maps. */
int description_write(const struct description *d, const struct draft *draft,
	struct engine *e, struct fsn_meta *meta, struct err *err);

/* Pins in the folder @dir_fd where the probes go: pins/breaks.h. Before the first link. */
_must_check_ int description_breaks(const struct probes *p, const struct draft *draft, int dir_fd,
	struct err *err);

#endif
