/* SPDX-License-Identifier: BSD-2-Clause */
/* Statistics as tables: which functions, in which order, and how they look. */
#ifndef FUNCSNOOP_CMD_STATS_VIEW_H
#define FUNCSNOOP_CMD_STATS_VIEW_H

#include "cmd.h"
#include "stats.h"

#define STATS_SORT_KEYS "total, calls, avg, max, p99, errors, slow or name"

enum stats_sort {
	STATS_BY_TOTAL,
	STATS_BY_CALLS,
	STATS_BY_AVG,
	STATS_BY_MAX,
	STATS_BY_P99,
	STATS_BY_ERRORS,
	STATS_BY_SLOW,
	STATS_BY_NAME,
};

struct stats_choice {
	bool all;   /* functions never called, too */
	size_t top; /* 0: no limit */
	enum stats_sort sort;
};

/* False when @name is no key. */
bool stats_sort_parse(const char *name, enum stats_sort *ret_sort);

/* The functions chosen, in order: an array to be freed, NULL when memory is out. */
const struct stats_func **stats_choose(const struct stats *s, const struct stats_choice *choice,
	size_t *ret_cnt);

void stats_print(const struct globals *g, const struct stats *s,
	const struct stats_func *const *funcs, size_t cnt);
void stats_print_errors(const struct globals *g, const struct stats *s,
	const struct stats_func *const *funcs, size_t cnt);
void stats_print_slow(const struct globals *g, const struct stats *s,
	const struct stats_slow *slow, size_t cnt);

#endif
