/* SPDX-License-Identifier: BSD-2-Clause */
/* The views of `stats`: which columns each has, and how they are filled. */
#ifndef FUNCSNOOP_SHOW_STATS_VIEW_H
#define FUNCSNOOP_SHOW_STATS_VIEW_H

#include "show/stats_grid.h"
#include "show/stats_report.h"

struct view {
	const struct grid_column *columns;
	size_t column_cnt;
	void (*fill)(
		struct grid *grid, const struct report *r, const struct report_group *rg);
	const char *none; /* what is said when there is no row */
	/* Its own form for readers, or NULL: a table of the grid. */
	void (*text)(const struct report *r, const struct report_group *rg, FILE *f);
};

/* One for each enum stats_view. */
const struct view *view_get(enum stats_view view);

/* A function's, library's or all functions' statistics added up; stats_sum_done() it. */
void stats_sum_add(struct stats_func *sum, const struct stats_func *f);
void stats_sum_done(struct stats_func *sum);

extern const struct view view_process, view_diff, view_hist; /* of files of their own */

/* --diff: compares, and fills @rg's .diff. 0 or -ENOMEM. */
int diff_make(struct report_group *rg, const struct saved_group *before,
	const struct saved_group *after, size_t top);

/* The values of all functions that were called, sorted by name. NULL: no memory. */
struct saved *stats_snapshot(const struct stats *s);

/* after over before in percent; what was 0 has grown infinitely. */
double diff_percent(uint64_t before, uint64_t after);

#endif
