/* SPDX-License-Identifier: BSD-2-Clause */
/* Reports of `stats`: their rows, views and formats. */
#pragma once

#include "base/buffer.h"
#include "base/util.h"
#include "group/keys.h"
#include "proc/proc.h"
#include "show/call.h"
#include "show/table.h"
#include "show/text.h"
#include "stats/figures.h"
#include "stats/stats.h"

/* --- one report, the input of each format ---------------------------------------------------- */

/* --sort name, instead of a metric. */
#define SORT_BY_NAME FIGURE_CNT

#define METRIC_BUCKETS 25 /* at most; +Inf not included */

struct stats_choice {
	const char *by_text;      /* as it was written */
	const char *by[FSN_KEYS]; /* keys to group rows by */
	size_t by_cnt;
	bool all;   /* also functions that were never called */
	size_t top; /* 0: no limit */
	bool path_labels; /* metrics name a library by its path */
	unsigned int bucket_cnt; /* of their histograms, up to METRIC_BUCKETS; 0: none */
	bool lines; /* frames and callers with source lines */
	bool no_kernel; /* stacks without the frames of the kernel */
	uint32_t min_share; /* millionths; smaller nodes of a stack tree are hidden; 0: default */
	enum figure_id sort; /* of USE_SORT, or SORT_BY_NAME */
	bool sorted;         /* --sort was given */
};

struct stacks;

struct report_group {
	const struct stats *s;           /* since the reset, or of the interval */
	const struct stats *whole;       /* since the reset */
	uint64_t elapsed_ns;             /* ns covered by @s; 0: not known */
	struct group_keys keys;
	struct stacks *stacks; /* NULL: none, or not readable by this user */
	bool no_kernel; /* .no_kernel of the choice */
	bool sleeps; /* @stacks are those at which calls blocked, not those of the callers */
	size_t by[FSN_KEYS]; /* indices of the keys of --by */
	size_t by_cnt;       /* 0: the group lacks one of them */
	struct cost cost;                /* of the interval, or now */
	const struct stats_func **funcs; /* of @s: those to show, sorted */
	size_t func_cnt;
	const struct fsn_slow *slow; /* NULL unless asked for */
	size_t slow_cnt;
	const struct stats_choice *tree; /* of the call tree; NULL without --tree */
	struct diff_func *diff; /* with --diff; largest change first */
	size_t diff_cnt, diff_all; /* shown, and with those that --top leaves out */
	struct diff_parts *diff_parts; /* with --diff and --by: owns the functions of .diff */
	const struct saved_group *before; /* with --diff; NULL: the group is new */
	struct saved *after;              /* @s as a saved group, with --diff and --fail-if */
	struct stats *owned;              /* @s, if it is the delta of an interval */
};

/* Converts @cnt to a rate per second over the time of @rg. Returns false if that time is 0. */
bool report_rate(const struct report_group *rg, uint64_t cnt, double *ret_per_s);

/* True if what @rg counts are samples of CPUs. */
bool report_is_sampled(const struct report_group *rg);

/* Returns the samples that shares are of. 0: the group has functions. */
uint64_t report_samples(const struct report_group *rg);

/* Stores the probe overhead in the time of @rg. Returns false if it is not known. */
bool report_cost(const struct report_group *rg, uint64_t *ret_ns);

/* Returns slow call @i of @rg. @types are the types of its group. */
struct shown_call report_slow(
	const struct report_group *rg, const struct types *types, size_t i);

/* Sums the calls of all functions of @s. A tail call is part of the same call, not a new one. */
uint64_t stats_all_calls(const struct stats *s);

/*
 * Sums the time of all functions of @s: their self times. Without them, in a group that has nesting,
 * the sum is not known, and 0.
 */
uint64_t stats_all_time(const struct stats *s);

/* Sums the probe overhead of all functions of @s. */
uint64_t stats_all_cost(const struct stats *s);

/*
 * Reads the counters that limit the accuracy of @rg, one per key of its JSON. Returns their
 * number.
 */
#define HEALTH_MAX 32
struct health {
	const char *word;
	bool known;
	uint64_t n;
};
size_t health_read(const struct report_group *rg, struct health ret[HEALTH_MAX]);

struct report;

/* Prints a note for each counter that is not 0, and for other values that are not known. */
void health_notes(const struct report *r, const struct report_group *rg, FILE *f);

/* Prints to standard error how many calls no stack of the groups has, if any. */
void stackless_notes(const struct report *r);

/* True if @r is one frame of a screen; a frame includes all notes. */
bool report_is_frame(const struct report *r);

/* Prints a note to standard error, or to @f if @r is a frame of --watch. */
__attribute__((format(printf, 3, 4))) void report_note(
	const struct report *r, FILE *f, const char *fmt, ...);

/* "1 call was", "2 calls were": @one follows the number 1, @more every other number. */
struct counted {
	char text[64];
};
struct counted counted(uint64_t n, const char *one, const char *more);

/* True if @f was called, or has any other value, since the reset. */
bool report_is_shown(const struct report_group *rg, const struct stats_func *f);

struct view;
struct history;

#define REPORT_SUMS   8 /* of all groups, distinct names */
#define KEY_TITLE_LEN (KEY_NAME_LEN + 8)

struct report {
	const struct globals *g;
	const struct stats_choice *choice;
	const struct view *view;
	bool timestamps;
	bool first;           /* first report on this output */
	bool of_command;      /* the processes are those of a COMMAND */
	bool past;            /* tracing has ended: nothing is recorded now */
	bool plain;           /* for a file: ignores the terminal's width and colours */
	uint64_t time_ns;     /* CLOCK_REALTIME of the reading */
	uint64_t interval_ns; /* 0: since the reset */
	struct history *history; /* of earlier frames; NULL: the report is printed once */
	struct report_group *group;
	size_t cnt;
	size_t left_cnt, failed_cnt; /* groups left out; those that are errors */
	/* Columns of keys, and of sums of all groups; report_by(). */
	char by_title[FSN_KEYS][KEY_TITLE_LEN];
	const char *sum[REPORT_SUMS];
	char sum_title[REPORT_SUMS][KEY_TITLE_LEN], sum_key[REPORT_SUMS][KEY_TITLE_LEN];
	size_t sum_cnt;
};

/*
 * True if @sum counts bytes. A bandwidth computed from it is the rate offered: a collective's
 * call returns when the work is enqueued, not when it is done.
 */
static inline bool sum_is_bytes(const char *sum)
{
	return !strcmp(sum, "bytes");
}

/* True if @sum is the self time of NVTX ranges. */
static inline bool sum_is_self(const char *sum)
{
	return !strcmp(sum, "self_ns");
}

/*
 * Sets up the columns for the keys of --by and for the sums. Returns 0, or -ERR_USAGE if no group
 * has these keys.
 */
int report_by(struct report *r, struct err *err);

/*
 * A function before (NULL: new) and after (NULL: vanished). With --by, the part of its calls that
 * has one key.
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

/* Returns the growth from @before to @after in percent; infinite if @before is 0. */
double diff_percent(uint64_t before, uint64_t after);

/* Stores the growth of metric @id in percent. Returns false if it cannot be computed. */
bool diff_change(const struct diff_func *d, enum figure_id id, double *ret_percent);

/*
 * Splits the growth of a function's total time into .more_ns, by the number of calls, and
 * .slower_ns, by the time of each. The means differ by noise unless they differ by more than three
 * standard errors of their difference, which the histograms have, and the error of the correction.
 */
struct diff_time {
	double mean_was_ns, mean_ns, noise_ns; /* per call */
	double more_ns, slower_ns;
	bool beyond_noise;  /* the means differ */
	bool median_beyond; /* the medians do */
};

/* Returns false if a reading lacks the total or a histogram of two calls. */
bool diff_time(const struct diff_func *d, struct diff_time *ret);

/*
 * Prints the up to three functions (with --by, keys) whose calls have become slower or faster by most of
 * their own time, and for each the times and the keys that made it so.
 */
void diff_summary(const struct report *r, const struct report_group *rg, FILE *f);

/*
 * Lists the arguments of --sort; parses one of them. Parsing returns false if @name is not in the
 * list.
 */
const char *stats_sort_words(char buf[WORDS_LEN]);
bool stats_sort_parse(const char *name, enum figure_id *ret_sort);

/* Returns the value by which --sort orders a row. */
static inline uint64_t sort_value(const struct figures *f, enum figure_id sort)
{
	return sort == SORT_BY_NAME ? 0 : figure_or_0(f, sort);
}

/*
 * Fills @rg's .funcs from its .s with the functions called in that time; with @ever, with all
 * called since the reset.
 */
void report_choose(struct report_group *rg, const struct stats_choice *choice, bool ever);

void report_group_done(struct report_group *rg);

/*
 * Subtracts reading @before of a group from @now (@before NULL: copies @now). Minimum and maximum
 * are exact if the interval changed them; otherwise they come from its buckets. The caller frees
 * the result with stats_free().
 */
struct stats *stats_delta(
	const struct stats *now, const struct stats *before, uint64_t before_ns);

/* --- the conditions of --fail-if ----------------------------------------------------------- */

enum check_op { CHECK_GT, CHECK_GE, CHECK_LT, CHECK_LE, CHECK_EQ, CHECK_NE };

/* A key and the value it must have: a number or its name. */
struct check_key {
	char key[KEY_NAME_LEN], value[KEY_NAME_LEN];
};

struct check {
	const char *text; /* as it was written */
	struct check_key of[FSN_KEYS]; /* only calls with these keys; .of_cnt 0: all calls */
	size_t of_cnt;
	enum figure_id figure; /* of USE_SAVED */
	enum check_op op;
	bool relative; /* percent: with --diff of growth, otherwise of time */
	double percent;
	uint64_t value;
	char *noted; /* groups that have called functions whose figure is not known, each with a newline */
};

/* True if a percentage without --diff is a share of call time: "queued>5%". */
bool check_is_share(const struct check *check);

/*
 * Parses "p99>5ms", "errors>0", "p99>10%", "errors[kind=1]>0". Keeps a pointer to @text. Returns
 * 0, or -EINVAL with the reason.
 */
int check_parse(const char *text, struct check *ret_check, struct err *err);

/*
 * True if one of @checks holds for a function of @after; prints each that holds to standard
 * error. @before is NULL without --diff, or if the group is new.
 */
bool check_group(const struct globals *g, struct check *checks, size_t cnt,
	const struct saved_group *before, const struct saved_group *after);

/* Returns 0, or -ERR_USAGE if no group of @r has a key that @checks use. */
int check_keys_known(const struct report *r, const struct check *checks, size_t cnt,
	struct err *err);

/* --- views: which columns each has and how they are filled ---------------------------------- */

enum {
	VIEW_BY = 1,       /* --by NAME shows it, else --NAME */
	VIEW_PACE = 2,     /* the header line has calls per second */
	VIEW_REST = 4,     /* the footer has values without a column */
	VIEW_COST = 8,     /* the footer has the overhead of the BPF programs */
	VIEW_METRICS = 16, /* can be exported as metrics */
	VIEW_FRAME = 32,   /* a frame that is redrawn: notes are part of it */
	VIEW_DIFF = 64,    /* compares two readings */
	VIEW_STACKS = 128, /* of stacks */
	VIEW_PROCESSES = 256, /* of processes */
	VIEW_SLEEPS = 512, /* where calls blocked */
	VIEW_CGROUPS = 1024, /* of cgroups */
	VIEW_SUMS = 2048, /* of functions; has the sums of groups without keys */
};

struct view {
	const char *name;
	const struct grid_column *labels;
	size_t label_cnt;
	unsigned int flags; /* VIEW_... */
	enum figure_use uses[3]; /* metrics after the labels; USE_NONE ends the list */
	void (*fill)(
		struct grid *grid, const struct report *r, const struct report_group *rg);
	const char *none; /* message if there are no rows */
	/* Prints a form of its own for readers; NULL: the grid as a table. */
	void (*text)(const struct report *r, const struct report_group *rg, FILE *f);
	/* Writes its element of the JSON document. Returns 0 or an error of types_read(). */
	int (*json)(struct json *doc, const struct report_group *rg, FILE *f);
};

/* Returns the view @name, or NULL. "function" is the default view. */
const struct view *view_find(const char *name);

/* Lists the arguments of --by: "function|process|library". */
const char *view_by_words(char buf[WORDS_LEN]);

/*
 * Adds @f to @sum, the total of a library or of all functions. func_sum_done() frees @sum's
 * members.
 */
void func_sum_add(struct stats_func *sum, const struct stats_func *f);
void func_sum_done(struct stats_func *sum);

/* Appends the name of function @fn: tables have no column of its library. */
void grid_function(struct grid *grid, const struct report_group *rg, uint32_t fn);

/* Appends the sums of @row, of function @fn. */
void fill_sums(struct grid *grid, const struct report *r, const struct report_group *rg,
	uint32_t fn, const struct stats_row *row);

/* Views that have a source file of their own. */
void fill_process(struct grid *grid, const struct report *r, const struct report_group *rg);
void fill_keys(struct grid *grid, const struct report *r, const struct report_group *rg);
void fill_bandwidth(struct grid *grid, const struct report *r, const struct report_group *rg);
void fill_diff(struct grid *grid, const struct report *r, const struct report_group *rg);
void fill_hist(struct grid *grid, const struct report *r, const struct report_group *rg);
void print_hist(const struct report *r, const struct report_group *rg, FILE *f);
void fill_heat(struct grid *grid, const struct report *r, const struct report_group *rg);
void print_heat(const struct report *r, const struct report_group *rg, FILE *f);

/*
 * Counts the calls of @rg by the reason why their stack ended (enum fsn_walk_end) in
 * FSN_WALK_ENDS numbers. Returns false if no stacks are recorded, or this user may not read them.
 */
bool stacks_ends(const struct report_group *rg, uint64_t *ret_calls);

/*
 * Counts the GPU kernels of @rg, and those whose launch has a known stack. Returns false if no
 * stacks are recorded, or this user may not read them.
 */
bool stacks_of_launches(const struct report_group *rg, uint64_t *ret_kernels, uint64_t *ret_known);

/*
 * Formats ": 12 libfoo.so, 3 libbar.so": the files without an unwind table that truncated most
 * stacks; or "".
 */
void stacks_cut_by(const struct report_group *rg, char *text, size_t size);

/* True if a function of @rg has allocations that are tracked. */
bool report_tracks_memory(const struct report_group *rg);

/*
 * For groups with stacks: a tree, in which callees are below their callers, and one line per
 * stack. The functions that return int return 0 or a negative errno.
 */
void fill_stacks(struct grid *grid, const struct report *r, const struct report_group *rg);
void fill_flat(struct grid *grid, const struct report *r, const struct report_group *rg);
void fill_stack_diff(struct grid *grid, const struct report *r, const struct report_group *rg);
int json_write_stack_diff(struct json *doc, const struct report_group *rg, FILE *f);
int print_folded(const struct report *r, FILE *f);
int print_flame(const struct report *r, FILE *f);
int print_pprof(const struct report *r, FILE *f);


/* Starts a grid with the columns of @r's view and of the keys and sums that it shows. */
void report_begin_grid(const struct report *r, struct grid *grid);

/*
 * Returns rows of @f grouped by the keys of --by, in that order, summed over all processes. The
 * caller frees them. Returns NULL if memory is out.
 */
struct stats_row *report_rows_by(
	const struct report_group *rg, const struct stats_func *f, size_t *ret_cnt);

/*
 * Returns rows of @f grouped by cgroup (.cgroup), oldest cgroup first. Calls without a cgroup,
 * and those of removed cgroups, go to *ret_rest. The caller frees the rows.
 */
struct stats_row *report_cgroups(const struct report_group *rg, const struct stats_func *f,
	size_t *ret_cnt, struct stats_row *ret_rest);

/* True if the calls of @f are recorded by cgroup. */
bool report_has_cgroups(const struct report_group *rg, const struct stats_func *f);


/* True if this user may read at least one of the keys of --by in some row. */
bool report_keys_known(const struct report_group *rg);

/*
 * Returns the number of launches that may be part of another launch, if nested calls are not
 * tracked: those of all functions except the one with the most. 0: none.
 */
uint64_t report_inner_launches(const struct report_group *rg);


/* The values of each row in earlier frames. */
struct history *history_new(void);
void history_free(struct history *h);

/*
 * Starts a new reading, @elapsed_ns after the previous one. Frames belong to it until the next
 * call.
 */
void history_step(struct history *h, uint64_t elapsed_ns);

/*
 * Records the current values of @group's rows and gives each row its sparkline. With @all, a row
 * that was missing before had the value 0.
 */
void history_trends(struct history *h, const char *group, bool all, struct grid *grid);

/* --diff: compares @before and @after by the keys of @choice and fills @rg's .diff. */
void diff_make(struct report_group *rg, const struct saved_group *before,
	const struct saved_group *after, const struct stats_choice *choice);

/*
 * Copies the values of all called functions of @rg, sorted by name. Returns 0 or an error of
 * types_read(). The caller frees *ret_saved with saved_free().
 */
int stats_snapshot(const struct report_group *rg, struct saved **ret_saved);

/*
 * stats: writes @rg's .funcs in their order, and .slow and .tree unless they are NULL. Flushes to
 * @f after each function, because buffering thousands of functions would take more memory than
 * reading them. Returns 0 or an error of types_read().
 */
int json_write_stats(struct json *doc, const struct report_group *rg, FILE *f);

/* Writes "tree", the call tree of @rg's .tree. */
void json_add_tree(struct json *j, const struct report_group *rg);

/* stats --diff: writes @rg's .diff and .before. */
int json_write_diff(struct json *doc, const struct report_group *rg, FILE *f);

/* --- formats of --format --------------------------------------------------------------------- */

enum {
	FORMAT_READERS = 1,    /* for people: prints a message if there is nothing to show */
	FORMAT_JSON = 2,       /* the format of --json: errors are JSON as well */
	FORMAT_CUMULATIVE = 4, /* values since the reset, even with --interval */
	FORMAT_METRICS = 8,    /* only of views with VIEW_METRICS */
	FORMAT_STACKS = 16,    /* prints stacks, regardless of the view */
	FORMAT_BINARY = 32,    /* not printed to a terminal */
};

struct stats_format {
	const char *name;
	unsigned int flags; /* FORMAT_... */
	/* Writes the document. Returns 0 or a negative errno; the caller checks @f for errors. */
	int (*print)(const struct report *r, FILE *f);
};

/* Returns the format @name, or NULL. */
const struct stats_format *stats_format_find(const char *name);

/* Returns the default format. */
const struct stats_format *stats_format_default(bool json);

/* Lists the arguments of --format: "table|json|...". */
const char *stats_format_words(char buf[WORDS_LEN]);

/* metrics.c */
int metrics_print_prometheus(const struct report *r, FILE *f);
int metrics_print_openmetrics(const struct report *r, FILE *f);
