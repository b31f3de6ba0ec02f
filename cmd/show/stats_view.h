/* SPDX-License-Identifier: BSD-2-Clause */
/* The views of `stats`, which columns each has and how they are filled; and its formats. */
#ifndef FUNCSNOOP_SHOW_STATS_VIEW_H
#define FUNCSNOOP_SHOW_STATS_VIEW_H

#include "base/json.h"
#include "show/stats_grid.h"
#include "show/stats_report.h"

enum {
	VIEW_BY = 1,       /* --by NAME shows it, else --NAME */
	VIEW_PACE = 2,     /* its head says how many calls a second */
	VIEW_REST = 4,     /* its foot says what is in no column */
	VIEW_COST = 8,     /* and what the programs take */
	VIEW_METRICS = 16, /* metrics are of it */
	VIEW_FRAME = 32,   /* drawn again and again: remarks are part of it */
	VIEW_DIFF = 64,    /* of two readings */
};

struct view {
	const char *name;
	const struct grid_column *labels;
	size_t label_cnt;
	unsigned int flags; /* VIEW_... */
	enum figure_use uses[3]; /* the figures behind the labels; USE_NONE ends them */
	void (*fill)(
		struct grid *grid, const struct report *r, const struct report_group *rg);
	const char *none; /* what is said when there is no row */
	/* Its own form for readers, or NULL: a table of the grid. */
	void (*text)(const struct report *r, const struct report_group *rg, FILE *f);
	/* Its element of the JSON document; 0 or -ENOMEM. */
	int (*json)(struct json *doc, const struct report_group *rg, FILE *f);
};

/* The view named so, or NULL; "function" is the one without an option. */
const struct view *view_find(const char *name);

/* What --by takes: "function|process|library". */
const char *view_by_words(char buf[WORDS_LEN]);

/* Of files of their own. */
void fill_process(struct grid *grid, const struct report *r, const struct report_group *rg);
void fill_diff(struct grid *grid, const struct report *r, const struct report_group *rg);
void fill_hist(struct grid *grid, const struct report *r, const struct report_group *rg);
void print_hist(const struct report *r, const struct report_group *rg, FILE *f);
void fill_heat(struct grid *grid, const struct report *r, const struct report_group *rg);
void print_heat(const struct report *r, const struct report_group *rg, FILE *f);

/* What frames that are drawn one after the other remember: of each row how much it had. */
struct history *history_new(void); /* NULL: no memory */
void history_free(struct history *h);

/* A reading has come, @elapsed_ns after the one before; frames are of it until the next. */
void history_step(struct history *h, uint64_t elapsed_ns);

/*
 * Notes what @group's rows have now, and gives each row its sparkline; with @all a row that was
 * not there before had nothing. 0 or -ENOMEM.
 */
int history_trends(struct history *h, const char *group, bool all, struct grid *grid);

/* --diff: compares, and fills @rg's .diff. 0 or -ENOMEM. */
int diff_make(struct report_group *rg, const struct saved_group *before,
	const struct saved_group *after, size_t top);

/* The values of all functions that were called, sorted by name. NULL: no memory. */
struct saved *stats_snapshot(const struct stats *s);

/* after over before in percent; what was 0 has grown infinitely. */
double diff_percent(uint64_t before, uint64_t after);

/*
 * stats: @rg's .funcs in their order, and .slow unless it is NULL. What is written goes to
 * @f function by function: the whole of thousands would take more memory than reading them.
 * 0 or -ENOMEM.
 */
int json_write_stats(struct json *doc, const struct report_group *rg, FILE *f);

/* stats --diff: @rg's .diff and .before. */
int json_write_diff(struct json *doc, const struct report_group *rg, FILE *f);

/* --- what --format offers ------------------------------------------------------------------ */

enum {
	FORMAT_READERS = 1,    /* for people: says when there is nothing to show */
	FORMAT_JSON = 2,       /* what --json stands for: errors are told in JSON, too */
	FORMAT_CUMULATIVE = 4, /* since the reset, with --interval, too */
	FORMAT_METRICS = 8,    /* only of views with VIEW_METRICS */
};

struct stats_format {
	const char *name;
	unsigned int flags; /* FORMAT_... */
	/* Writes all of it; 0 or a negative errno. @f's own errors are the caller's. */
	int (*print)(const struct report *r, FILE *f);
};

/* The format named so, or NULL. */
const struct stats_format *stats_format_find(const char *name);

/* The one without --format. */
const struct stats_format *stats_format_default(bool json);

/* What --format takes: "table|json|...". */
const char *stats_format_words(char buf[WORDS_LEN]);

/* metrics.c */
int metrics_print_prometheus(const struct report *r, FILE *f);
int metrics_print_openmetrics(const struct report *r, FILE *f);

#endif
