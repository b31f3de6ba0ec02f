/* SPDX-License-Identifier: BSD-2-Clause */
/* Documents of `stats --json` read back, for comparing. */
#ifndef FUNCSNOOP_STATS_SAVED_H
#define FUNCSNOOP_STATS_SAVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/util.h"
#include "stats/figures.h"

struct saved_func {
	char *name, *library;   /* library may be NULL */
	struct figures figures; /* of USE_SAVED; not known is null in the document */
};

struct saved_group {
	char *name, *since;
	struct saved_func *funcs;
	size_t func_cnt;
};

struct saved {
	struct saved_group *groups;
	size_t cnt;
};

/*
 * Reads the document in file @path. Keys that are not known are passed over, those that
 * are missing are not known. -EINVAL when it is no such document. Free with saved_free().
 */
int saved_read(const char *path, struct saved **ret_saved, struct err *err);
void saved_free(struct saved *saved);

/* The group named so; if there is one group only, and @sole, that one; or NULL. */
const struct saved_group *saved_group_find(
	const struct saved *saved, const char *name, bool sole);

/*
 * The function of @group by name and library; if no library matches, the only one of that
 * name: a library moves when it is updated. NULL when there is none.
 */
const struct saved_func *saved_func_find(
	const struct saved_group *group, const char *name, const char *library);

DEFINE_CLEANUP(saved, struct saved *, saved_free)
#define _cleanup_saved_ __cleanup(cleanup_saved)

#endif
