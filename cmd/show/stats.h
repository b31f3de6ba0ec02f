/* SPDX-License-Identifier: BSD-2-Clause */
/* What `stats` shows: reports, their rows, views and formats. */
#ifndef FUNCSNOOP_SHOW_STATS_H
#define FUNCSNOOP_SHOW_STATS_H

#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <stdio.h>

#include "base/buffer.h"
#include "base/util.h"
#include "group/keys.h"
#include "proc/proc.h"
#include "show/call.h"
#include "show/table.h"
#include "show/text.h"
#include "stats/figures.h"
#include "stats/stats.h"

/* --- one report, of which each format makes its text ---------------------------------------- */

/* --sort by name instead of a figure. */
#define SORT_BY_NAME FIGURE_CNT

#define METRIC_BUCKETS 25 /* at most, besides that of all */

struct stats_choice {
	const char *by_text;      /* as it was written */
	const char *by[FSN_KEYS]; /* keys that rows are shown by */
	size_t by_cnt;
	bool all;   /* functions never called, too */
	size_t top; /* 0: no limit */
	bool path_labels; /* metrics name a library by its path */
	unsigned int bucket_cnt; /* of their histograms, up to METRIC_BUCKETS; 0: none */
	bool lines; /* frames and callers have those of their source */
	uint32_t min_share; /* of a tree of stacks, in millionths: what has less is left out; 0: as usual */
	enum figure_id sort; /* of USE_SORT, or SORT_BY_NAME */
	bool sorted;         /* it was asked for */
};

struct stacks;

struct report_group {
	const struct stats *s;           /* since the reset, or of the interval */
	const struct stats *whole;       /* since the reset */
	uint64_t elapsed_ns;             /* in which @s came; 0: not known */
	struct group_keys keys;
	struct stacks *stacks; /* NULL: there are none, or they may not be read */
	bool sleeps; /* those that are asked for are where calls slept, not who made them */
	size_t by[FSN_KEYS]; /* of them those that are asked for */
	size_t by_cnt;       /* 0: it has not all of them */
	struct cost cost;                /* of the interval, or now */
	const struct stats_func **funcs; /* of @s: chosen, in order */
	size_t func_cnt;
	const struct fsn_slow *slow; /* NULL unless asked for */
	size_t slow_cnt;
	const struct stats_choice *tree; /* of who called whom; NULL unless asked for */
	struct diff_func *diff; /* with --diff, what changed most first */
	size_t diff_cnt;
	struct diff_parts *diff_parts; /* with --by, too: what .diff is of */
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

/* What the probes of all functions of @s took. */
uint64_t stats_all_cost(const struct stats *s);

/* What makes the numbers of @rg doubtful, and how often: keys of its JSON. Returns how many. */
#define HEALTH_MAX 32
struct health {
	const char *word;
	bool known;
	uint64_t n;
};
size_t health_read(const struct report_group *rg, struct health ret[HEALTH_MAX]);

struct report;

/* The same for readers: a note for each that is not 0, and for what else is not known. */
void health_notes(const struct report *r, const struct report_group *rg, FILE *f);

/* True if @r is one of many on a screen, which has all notes. */
bool report_is_frame(const struct report *r);

/* On stderr, but in the frame of --watch. */
__attribute__((format(printf, 3, 4))) void report_note(
	const struct report *r, FILE *f, const char *fmt, ...);

/* "1 call was", "2 calls were": the words after the number are of one, and of more. */
struct counted {
	char text[64];
};
struct counted counted(uint64_t n, const char *one, const char *more);

/* Whether anything of @f has come. */
bool report_is_shown(const struct report_group *rg, const struct stats_func *f);

struct view;
struct history;

#define REPORT_SUMS   8 /* of all groups, by name */
#define KEY_TITLE_LEN (KEY_NAME_LEN + 8)

struct report {
	const struct globals *g;
	const struct stats_choice *choice;
	const struct view *view;
	bool timestamps;
	bool first;           /* of the reports on one output */
	bool past;            /* what is shown is over: nothing is taken now */
	bool plain;           /* for a file: no terminal's width or colours */
	uint64_t time_ns;     /* CLOCK_REALTIME of the reading */
	uint64_t interval_ns; /* 0: since the reset */
	struct history *history; /* of the frames before this one, or NULL: it is not drawn again */
	struct report_group *group;
	size_t cnt;
	size_t left_cnt, failed_cnt; /* groups that it has not, and those of them that it should */
	/* Columns of keys, and of sums of all groups; report_by(). */
	char by_title[FSN_KEYS][KEY_TITLE_LEN];
	const char *sum[REPORT_SUMS];
	char sum_title[REPORT_SUMS][KEY_TITLE_LEN], sum_key[REPORT_SUMS][KEY_TITLE_LEN];
	size_t sum_cnt;
};

/* What was offered, and so much a second: a collective's call ends when the work is enqueued. */
static inline bool sum_is_bytes(const char *sum)
{
	return !strcmp(sum, "bytes");
}

/* Which keys of its groups are asked for. -ERR_USAGE when none has them. */
int report_by(struct report *r, struct err *err);

/*
 * A function before (NULL: it is new) and after (NULL: vanished); by key what of its calls had
 * the key of its one row.
 */
struct diff_func {
	const struct saved_func *before, *after;
};

struct diff_parts {
	struct diff_parts *next;
	struct saved_func *func;
	size_t cnt;
};
void diff_parts_free(struct diff_parts *parts);

/* "new", "vanished" or "both". */
const char *diff_status(const struct diff_func *d);

/* @after over @before in percent; what was 0 has grown infinitely. */
double diff_percent(uint64_t before, uint64_t after);

/* Growth in percent; false when it can't be said. */
bool diff_change(const struct diff_func *d, enum figure_id id, double *ret_percent);

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
 * since the reset.
 */
void report_choose(struct report_group *rg, const struct stats_choice *choice, bool ever);

void report_group_done(struct report_group *rg);

/*
 * What came between two readings of one group: @now less @before (NULL: all of @now).
 * Extremes are exact where the interval raised them, else of its buckets. stats_free() it.
 */
struct stats *stats_delta(
	const struct stats *now, const struct stats *before, uint64_t before_ns);

/* --- the conditions of --fail-if ----------------------------------------------------------- */

enum check_op { CHECK_GT, CHECK_GE, CHECK_LT, CHECK_LE, CHECK_EQ, CHECK_NE };

/* A key, and what it is to be: a value or the name of one. */
struct check_key {
	char key[KEY_NAME_LEN], value[KEY_NAME_LEN];
};

struct check {
	const char *text; /* as it was written */
	struct check_key of[FSN_KEYS]; /* only calls with these; .of_cnt 0: all */
	size_t of_cnt;
	enum figure_id figure; /* of USE_SAVED */
	enum check_op op;
	bool relative; /* growth in percent, with --diff; without, a share of the time */
	double percent;
	uint64_t value;
};

/* Whether its percents without --diff are those of the time that calls took: "queued>5%". */
bool check_is_share(const struct check *check);

/* Reads "p99>5ms", "errors>0", "p99>10%", "errors[kind=1]>0"; @text is kept. -EINVAL with the reason. */
int check_parse(const char *text, struct check *ret_check, struct err *err);

/*
 * Whether one of @checks holds for a function of @after; each that does is told on stderr.
 * @before is NULL without --diff, or when there was no such group.
 */
bool check_group(const struct globals *g, const struct check *checks, size_t cnt,
	const struct saved_group *before, const struct saved_group *after);

/* -ERR_USAGE when a key of @checks is known in no group of @r. */
int check_keys_known(const struct report *r, const struct check *checks, size_t cnt,
	struct err *err);

/* --- views: which columns each has and how they are filled ---------------------------------- */

enum {
	VIEW_BY = 1,       /* --by NAME shows it, else --NAME */
	VIEW_PACE = 2,     /* its head says how many calls a second */
	VIEW_REST = 4,     /* its foot says what is in no column */
	VIEW_COST = 8,     /* and what the programs take */
	VIEW_METRICS = 16, /* metrics are of it */
	VIEW_FRAME = 32,   /* drawn again and again: remarks are part of it */
	VIEW_DIFF = 64,    /* of two readings */
	VIEW_STACKS = 128, /* of stacks */
	VIEW_PROCESSES = 256, /* of processes */
	VIEW_SLEEPS = 512, /* where calls slept */
	VIEW_CGROUPS = 1024, /* of cgroups */
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

/*
 * Sorts @cnt rows of @size bytes, and adds each to the first one that @compare finds alike. Returns
 * how many are left, in that order.
 */
size_t rows_group(void *rows, size_t cnt, size_t size, int (*compare)(const void *, const void *),
	void (*add)(void *to, const void *from));

/* Adds @f to @sum, a library's or all functions' statistics; func_sum_done() it. */
void func_sum_add(struct stats_func *sum, const struct stats_func *f);
void func_sum_done(struct stats_func *sum);

/* The last row: all functions of @s together. */
void fill_total(struct grid *grid, const struct stats *s, const struct figure_scope *scope);

/* Of files of their own. */
void fill_tree(struct grid *grid, const struct report *r, const struct report_group *rg);
void fill_diff(struct grid *grid, const struct report *r, const struct report_group *rg);
void fill_hist(struct grid *grid, const struct report *r, const struct report_group *rg);
void print_hist(const struct report *r, const struct report_group *rg, FILE *f);
void fill_heat(struct grid *grid, const struct report *r, const struct report_group *rg);
void print_heat(const struct report *r, const struct report_group *rg, FILE *f);

/*
 * How many calls of @rg have stacks that ended so, by enum fsn_walk_end; FSN_WALK_ENDS numbers.
 * False where none are followed, or they may not be read.
 */
bool stacks_ends(const struct report_group *rg, uint64_t *ret_calls);

/* Of a group of kernels that GPUs ran, how many there were, and of how many the launch's stack is
   known. False where none are followed, or they may not be read. */
bool stacks_of_launches(const struct report_group *rg, uint64_t *ret_kernels, uint64_t *ret_known);

/* ": 12 libfoo.so, 3 libbar.so": which files ended most of them before those had a table; or "". */
void stacks_cut_by(const struct report_group *rg, char *text, size_t size);

/*
 * Of groups whose calls are told apart by stack: a tree, those who were called below who called
 * them, and a line for each stack. 0 or a negative errno.
 */
void fill_stacks(struct grid *grid, const struct report *r, const struct report_group *rg);
void fill_flat(struct grid *grid, const struct report *r, const struct report_group *rg);
void fill_stack_diff(struct grid *grid, const struct report *r, const struct report_group *rg);
int json_write_stack_diff(struct json *doc, const struct report_group *rg, FILE *f);
int print_folded(const struct report *r, FILE *f);
int print_flame(const struct report *r, FILE *f);
int print_pprof(const struct report *r, FILE *f);


/* Begins a grid with the columns of @r's view, and of the keys and sums that it shows. */
void report_begin_grid(const struct report *r, struct grid *grid);

/*
 * Rows of @f by the keys that are asked for, in that order, of all processes together; those
 * that are alike are one. Free them; NULL: no memory.
 */
struct stats_row *report_rows_by(
	const struct report_group *rg, const struct stats_func *f, size_t *ret_cnt);

/*
 * Rows of @f by cgroup (.cgroup), in the order in which these were made; *ret_rest is what is of
 * none, or of some that are gone. Free them.
 */
struct stats_row *report_cgroups(const struct report_group *rg, const struct stats_func *f,
	size_t *ret_cnt, struct stats_row *ret_rest);

/* Whether that is known of @f at all. */
bool report_has_cgroups(const struct report_group *rg, const struct stats_func *f);


/* Whether some of the keys that are asked for may be read in some row. */
bool report_keys_known(const struct report_group *rg);

/*
 * Calls that count as launches though they may be a part of one, as it is not known which call
 * was made in which: those of all functions but that which launched most often. 0: none may be.
 */
uint64_t report_inner_launches(const struct report_group *rg);


/* What frames that are drawn one after the other remember: of each row how much it had. */
struct history *history_new(void);
void history_free(struct history *h);

/* A reading has come, @elapsed_ns after the one before; frames are of it until the next. */
void history_step(struct history *h, uint64_t elapsed_ns);

/*
 * Notes what @group's rows have now, and gives each row its sparkline; with @all a row that was
 * not there before had nothing.
 */
void history_trends(struct history *h, const char *group, bool all, struct grid *grid);

/* --diff: compares, by the keys of @choice, and fills @rg's .diff. */
void diff_make(struct report_group *rg, const struct saved_group *before,
	const struct saved_group *after, const struct stats_choice *choice);

/* The values of all functions of @rg that were called, sorted by name. NULL: types can not be read. */
struct saved *stats_snapshot(const struct report_group *rg);

/*
 * stats: @rg's .funcs in their order, .slow and .tree unless NULL. What is written goes to
 * @f function by function: the whole of thousands would take more memory than reading them.
 * 0 or -ENOMEM.
 */
int json_write_stats(struct json *doc, const struct report_group *rg, FILE *f);

/* "tree": who called whom, as @rg's .tree says. */
void json_add_tree(struct json *j, const struct report_group *rg);

/* stats --diff: @rg's .diff and .before. */
int json_write_diff(struct json *doc, const struct report_group *rg, FILE *f);

/* --- what --format offers ------------------------------------------------------------------ */

enum {
	FORMAT_READERS = 1,    /* for people: says when there is nothing to show */
	FORMAT_JSON = 2,       /* what --json stands for: errors are told in JSON, too */
	FORMAT_CUMULATIVE = 4, /* since the reset, with --interval, too */
	FORMAT_METRICS = 8,    /* only of views with VIEW_METRICS */
	FORMAT_STACKS = 16,    /* of stacks, whatever the view */
	FORMAT_BINARY = 32,    /* nothing for a terminal */
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
