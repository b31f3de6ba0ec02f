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

/* X(id, key of the document, whether it is a duration) */
#define SAVED_METRICS(X)                       \
	X(SAVED_CALLS, "calls", false)         \
	X(SAVED_RETURNS, "returns", false)     \
	X(SAVED_IN_FLIGHT, "in_flight", false) \
	X(SAVED_ABANDONED, "abandoned", false) \
	X(SAVED_UNTIMED, "untimed", false)     \
	X(SAVED_ERRORS, "errors", false)       \
	X(SAVED_SLOW, "slow", false)           \
	X(SAVED_TOTAL, "total_ns", true)       \
	X(SAVED_MIN, "min_ns", true)           \
	X(SAVED_AVG, "avg_ns", true)           \
	X(SAVED_MAX, "max_ns", true)           \
	X(SAVED_P50, "p50_ns", true)           \
	X(SAVED_P90, "p90_ns", true)           \
	X(SAVED_P99, "p99_ns", true)           \
	X(SAVED_P999, "p999_ns", true)

enum saved_metric {
#define X(id, key, duration) id,
	SAVED_METRICS(X)
#undef X
		SAVED_METRIC_CNT
};

const char *saved_metric_key(enum saved_metric m);
bool saved_metric_is_duration(enum saved_metric m);

struct saved_func {
	char *name, *library;         /* library may be NULL */
	bool known[SAVED_METRIC_CNT]; /* null in the document otherwise */
	uint64_t value[SAVED_METRIC_CNT];
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
