/* SPDX-License-Identifier: BSD-2-Clause */
/* What `stats` shows: one report, of which each format makes its text. */
#ifndef FUNCSNOOP_SHOW_STATS_REPORT_H
#define FUNCSNOOP_SHOW_STATS_REPORT_H

#include <stdio.h>

#include "show/globals.h"
#include "stats/cost.h"
#include "stats/saved.h"
#include "stats/stats.h"

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

enum stats_view {
	VIEW_FUNCTION,
	VIEW_PROCESS,
	VIEW_LIBRARY,
	VIEW_HIST,
	VIEW_ERRORS,
	VIEW_SLOW,
	VIEW_DIFF,
	VIEW_RATES, /* of --watch */
	VIEW_CNT,
};

struct report_group {
	const struct stats *s;           /* since the reset, or of the interval */
	const struct stats *whole;       /* since the reset */
	uint64_t elapsed_ns;             /* in which @s came; 0: not known */
	struct cost cost;                /* of the interval, or now */
	const struct stats_func **funcs; /* of @s: chosen, in order */
	size_t func_cnt;
	const struct stats_slow *slow; /* NULL unless asked for */
	size_t slow_cnt;
	struct diff_func *diff; /* with --diff, what changed most first */
	size_t diff_cnt;
	const struct saved_group *before; /* with --diff; NULL: there was no such group */
	struct saved *after;              /* @s as one group, with --diff and --fail-if */
	struct stats *owned;              /* @s, when it is an interval's */
};

/* So many in the time of @rg, a second; false when no time has passed. */
bool report_rate(const struct report_group *rg, uint64_t cnt, double *ret_per_s);

/* Calls of all functions of @s. */
uint64_t stats_all_calls(const struct stats *s);

/* Digits after the point of a rate in documents: something rare is not 0. */
static inline int rate_digits(double per_s)
{
	return per_s > 0 && per_s < 1 ? 9 : 3;
}

struct report {
	const struct globals *g;
	const struct stats_choice *choice;
	enum stats_view view;
	bool timestamps;
	bool first;           /* of the reports on one output */
	bool plain;           /* for a file: no terminal's width or colours */
	uint64_t time_ns;     /* CLOCK_REALTIME of the reading */
	uint64_t interval_ns; /* 0: since the reset */
	struct report_group *group;
	size_t cnt;
};

/* A function before (NULL: it is new) and after (NULL: vanished). */
struct diff_func {
	const struct saved_func *before, *after;
};

/* What --diff shows, in this order. */
#define DIFF_METRICS 6
extern const enum saved_metric diff_metrics[DIFF_METRICS];

/* "new", "vanished" or "both". */
const char *diff_status(const struct diff_func *d);

/* Growth in percent; false when it can't be said. */
bool diff_change(const struct diff_func *d, enum saved_metric m, double *ret_percent);

struct stats_format {
	const char *name;
	bool cumulative; /* since the reset, with --interval, too */
	bool every_view; /* else only what funcsnoop_... metrics hold */
	/* Writes all of it; 0 or a negative errno. @f's own errors are the caller's. */
	int (*print)(const struct report *r, FILE *f);
};

extern const struct stats_format format_table, format_json, format_csv, format_prometheus,
	format_openmetrics;

/* The format named so, or NULL. */
const struct stats_format *stats_format_find(const char *name);

/* False when @name is no key. */
bool stats_sort_parse(const char *name, enum stats_sort *ret_sort);

/*
 * Fills @rg's functions from its @s: those called in it, with @ever all that were called
 * since the reset. 0 or -ENOMEM.
 */
int report_choose(struct report_group *rg, const struct stats_choice *choice, bool ever);

void report_group_done(struct report_group *rg);

/*
 * What came between two readings of one group: @now less @before (NULL: all of @now).
 * Extremes are exact where the interval raised them, else of its buckets. stats_free() it.
 */
struct stats *stats_delta(
	const struct stats *now, const struct stats *before, uint64_t before_ns);

#endif
