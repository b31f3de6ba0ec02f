/* SPDX-License-Identifier: BSD-2-Clause */
/* From what a draft is asked to hold to requests for the kinds, and objects to look in. */
#ifndef FUNCSNOOP_TARGET_INTERNAL_H
#define FUNCSNOOP_TARGET_INTERNAL_H

#include "base/err.h"
#include "elf/elf_file.h"
#include "target/draft.h"

enum libs_needed {
	LIBS_ALL, /* each of the names must be found */
	LIBS_ONE, /* one at least */
	LIBS_ANY, /* none need be there */
};

/* Adds the libraries that @names mean; errors as of libfind_get(). */
int libs_find(struct objects *libs, struct libfind *finder, const char *const *names,
	size_t cnt, enum libs_needed needed, struct err *err);

/*
 * After the libraries of a preset were not found: says in the hint of @err which program
 * of @opts' processes has them linked in.
 */
void requests_hint_static(
	struct libfind *finder, const struct draft_opts *opts, struct err *err);

/*
 * What @opts asks for: its FUNCTIONs, those of the preset that they choose, or the whole
 * preset. -ENOENT when a FUNCTION is not in the preset. Empty it with requests_done().
 */
int requests_make(struct requests *r, struct libfind *finder, const struct draft_opts *opts,
	struct err *err);
void requests_done(struct requests *r);

/*
 * Finds where the jumps of the functions of @object lead, whose planner is at hand; and says
 * in their plans what becomes of calls that leave so. jumps_number() is for when the functions
 * are in their order.
 */
int jumps_find(struct draft *draft, const struct object *object, struct planner *planner,
	const struct plan_rules *rules, struct err *err);
int jumps_number(struct draft *draft, struct err *err);
void jumps_done(struct draft *draft);

/*
 * Puts what @said, if it is not NULL, above what @known has of an event: arguments in their
 * order, wherever they are. False when memory is out.
 */
bool event_declare(
	struct targets *targets, struct preset_func *known, const struct preset_func *said);

/* What is known of the jumps of an object's functions. */
const struct follow *jumps_of(const struct draft *draft, const struct object *object);

#endif
