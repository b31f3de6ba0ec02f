/* SPDX-License-Identifier: BSD-2-Clause */
/* What `stats` shows: one report, of which each format makes its text. */
#ifndef FUNCSNOOP_SHOW_STATS_REPORT_H
#define FUNCSNOOP_SHOW_STATS_REPORT_H

#include <stdio.h>

#include "show/call.h"
#include "show/message.h"
#include "stats/cost.h"
#include "stats/figures.h"
#include "stats/saved.h"
#include "stats/stats.h"

/* --sort by name instead of a figure. */
#define SORT_BY_NAME FIGURE_CNT

struct stats_choice {
	bool all;   /* functions never called, too */
	size_t top; /* 0: no limit */
	enum figure_id sort; /* of USE_SORT, or SORT_BY_NAME */
};

struct report_group {
	const struct stats *s;           /* since the reset, or of the interval */
	const struct stats *whole;       /* since the reset */
	uint64_t elapsed_ns;             /* in which @s came; 0: not known */
	struct cost cost;                /* of the interval, or now */
	const struct stats_func **funcs; /* of @s: chosen, in order */
	size_t func_cnt;
	const struct fsn_slow *slow; /* NULL unless asked for */
	size_t slow_cnt;
	struct diff_func *diff; /* with --diff, what changed most first */
	size_t diff_cnt;
	const struct saved_group *before; /* with --diff; NULL: there was no such group */
	struct saved *after;              /* @s as one group, with --diff and --fail-if */
	struct stats *owned;              /* @s, when it is an interval's */
};

/* So many in the time of @rg, a second; false when no time has passed. */
bool report_rate(const struct report_group *rg, uint64_t cnt, double *ret_per_s);

/* What the probes took of the time of @rg; false when it is not known. */
bool report_cost(const struct report_group *rg, uint64_t *ret_ns);

/* Slow call @i of @rg; @types are those of its group. */
struct shown_call report_slow(
	const struct report_group *rg, const struct types *types, size_t i);

/* Calls of all functions of @s; one that is jumped to by another is the same. */
uint64_t stats_all_calls(const struct stats *s);

/* Time of all functions of @s: what they spent in themselves, where that is known. */
uint64_t stats_all_time(const struct stats *s);

/* Digits after the point of a rate in documents: something rare is not 0. */
static inline int rate_digits(double per_s)
{
	return per_s > 0 && per_s < 1 ? 9 : 3;
}

struct view;
struct history; /* show/stats_view.h */

struct report {
	const struct globals *g;
	const struct stats_choice *choice;
	const struct view *view;
	bool timestamps;
	bool first;           /* of the reports on one output */
	bool plain;           /* for a file: no terminal's width or colours */
	uint64_t time_ns;     /* CLOCK_REALTIME of the reading */
	uint64_t interval_ns; /* 0: since the reset */
	struct history *history; /* of the frames before this one, or NULL: it is not drawn again */
	struct report_group *group;
	size_t cnt;
};

/* A function before (NULL: it is new) and after (NULL: vanished). */
struct diff_func {
	const struct saved_func *before, *after;
};

/* "new", "vanished" or "both". */
const char *diff_status(const struct diff_func *d);

/* Growth in percent; false when it can't be said. */
bool diff_change(const struct diff_func *d, enum figure_id id, double *ret_percent);

/* Words with @between them, and @last before the last. */
#define WORDS_LEN 400
const char *words_join(const char *const *words, size_t cnt, const char *between,
	const char *last, char buf[WORDS_LEN]);

/* What --sort takes, and false when @name is none of it. */
const char *stats_sort_words(char buf[WORDS_LEN]);
bool stats_sort_parse(const char *name, enum figure_id *ret_sort);

/* What a row is ordered by when it is ordered by @sort. */
static inline uint64_t sort_value(const struct figures *f, enum figure_id sort)
{
	return sort == SORT_BY_NAME ? 0 : figure_or_0(f, sort);
}

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

/* --- the conditions of --fail-if ----------------------------------------------------------- */

enum check_op { CHECK_GT, CHECK_GE, CHECK_LT, CHECK_LE, CHECK_EQ, CHECK_NE };

struct check {
	const char *text; /* as it was written */
	enum figure_id figure; /* of USE_SAVED */
	enum check_op op;
	bool relative; /* growth in percent, with --diff */
	double percent;
	uint64_t value;
};

/* Reads "p99>5ms", "errors>0", "p99>10%"; @text is kept. -EINVAL with the reason. */
int check_parse(const char *text, struct check *ret_check, struct err *err);

/*
 * Whether one of @checks holds for a function of @after; each that does is told on stderr.
 * @before is NULL without --diff, or when there was no such group.
 */
bool check_group(const struct globals *g, const struct check *checks, size_t cnt,
	const struct saved_group *before, const struct saved_group *after);

#endif
