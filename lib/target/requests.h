/* SPDX-License-Identifier: BSD-2-Clause */
/* From what a draft is asked to hold to requests for the resolver, and libraries. */
#ifndef FUNCSNOOP_TARGET_REQUESTS_H
#define FUNCSNOOP_TARGET_REQUESTS_H

#include "target/draft.h"

/* Libraries, each once. The array is owned, its elements belong to the finder. */
struct objects {
	const struct object **lib;
	size_t cnt;
};

void objects_done(struct objects *l);
int objects_add(struct objects *l, const struct object *lib, struct err *err);

enum libs_needed {
	LIBS_ALL, /* each of the names must be found */
	LIBS_ONE, /* one at least */
	LIBS_ANY, /* none need be there */
};

/* Adds the libraries that @names mean; errors as of libfind_get(). */
int objects_find(struct objects *l, struct libfind *finder, const char *const *names, size_t cnt,
	enum libs_needed needed, struct err *err);

/*
 * After the libraries of a preset were not found: says in the hint of @err which program
 * of @opts' processes has them linked in.
 */
void draft_hint_static(
	struct libfind *finder, const struct draft_opts *opts, struct err *err);

struct requests {
	struct resolve_req *req;
	const struct preset_func **preset; /* beside each, NULL for a plain FUNCTION */
	struct objects **own;                 /* libraries that single requests have */
	size_t cnt, own_cnt;
};

/*
 * What @opts asks for: its FUNCTIONs, those of the preset that they choose, or the whole
 * preset. -ENOENT when a FUNCTION is not in the preset. Empty it with requests_done().
 */
int requests_make(struct requests *r, struct libfind *finder, const struct draft_opts *opts,
	struct err *err);
void requests_done(struct requests *r);

#endif
