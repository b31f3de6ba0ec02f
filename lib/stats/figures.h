/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The metrics of a function, a library or a process: their names, units, and the outputs that have
 * them. All code that prints metrics loops over FIGURES.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "base/util.h"
#include "stats/stats.h"

/* The outputs that may have a metric. */
enum figure_use {
	USE_NONE,
	USE_DOCUMENT, /* keys of a function in the JSON document */
	USE_TABLE,    /* columns by function and by library */
	USE_LIBRARY,  /* the first columns by library, before those of USE_TABLE */
	USE_PROCESS,  /* columns by process */
	USE_PROCESS_DOCUMENT,
	USE_TREE,   /* columns of the call tree */
	USE_ROW, /* columns by key */
	USE_ROW_DOCUMENT,
	USE_RATES,  /* columns of --watch */
	USE_SORT,   /* --sort; in --watch each has a key */
	USE_SAVED,  /* read back from documents: --fail-if, --diff */
	USE_DIFF,   /* rows of --diff */
	USE_METRIC, /* metrics */
	USE_TRACE,  /* counters of a trace */
	USE_CNT,
};

/*
 * Columns have flags and a number of up to 15. On a narrow terminal the columns with the highest
 * numbers are omitted first. A column that is unknown in all rows is always omitted.
 */
#define COLUMN_CSV     255 /* only in CSV */
#define COLUMN_DIFFERS 16  /* in tables only if it differs from the column before it in some row */
#define COLUMN_ANY     32  /* in tables only if it is not 0 in some row */
#define COLUMN_KNOWN   128 /* not in CSV */

/* Types of Prometheus metrics. */
enum { METRIC_COUNTER, METRIC_GAUGE, METRIC_BY_CODE };

/* Units of integers, then units of fractions. */
enum figure_unit { UNIT_COUNT, UNIT_NS, UNIT_BYTES, UNIT_PERCENT, UNIT_RATE, UNIT_RATIO };

/* Suffixes of JSON keys. */
#define UNIT_SUFFIX_COUNT   ""
#define UNIT_SUFFIX_NS      "_ns"
#define UNIT_SUFFIX_BYTES   "_bytes"
#define UNIT_SUFFIX_PERCENT "_percent"
#define UNIT_SUFFIX_RATE    "_per_s"
#define UNIT_SUFFIX_RATIO   ""

/*
 * One entry per metric:
 *
 *	X(id, unit, word, column title, help of the Prometheus metric,
 *		condition under which it is known, value,
 *		AT(use, place, flags), ...)
 *
 * Places are the order within an output; an output without a place does not have the metric.
 * figures_of() evaluates the condition and the value for function f, and defines the names in
 * them. No other code decides whether a metric is known.
 */
/* clang-format off */
#define FIGURES(X) \
	X(CALLS, COUNT, "calls", "CALLS", "Calls of a function.",                       \
		true, f->n.calls,                                                       \
		AT(ROW, 10), AT(ROW_DOCUMENT, 10), \
		AT(DOCUMENT, 10), AT(TABLE, 10), AT(PROCESS, 10),                       \
		AT(PROCESS_DOCUMENT, 10), AT(TREE, 10), AT(RATES, 100, 8),              \
		AT(SORT, 20, 'c'),                                                      \
		AT(SAVED, 10), AT(DIFF, 10), AT(METRIC, 10))                            \
	X(CALLS_RATE, RATE, "calls", "CALLS/S", NULL,                                   \
		paced, f->n.calls * 1e9 / scope->elapsed_ns,                            \
		AT(ROW, 20, 6), \
		AT(DOCUMENT, 20), AT(TABLE, 170, 5), AT(RATES, 10), AT(TRACE, 10)) \
	X(BUSY, RATIO, "busy", "BUSY", NULL,                                            \
		paced && ends,                                                          \
		f->n.total_ns / 1e9 / seconds,                                          \
		AT(RATES, 20, 3))                                                       \
	X(CARRIED, COUNT, "carried", NULL, NULL,                                        \
		true, f->carried,                                                       \
		AT(DOCUMENT, 30))                                                       \
	X(RETURNS, COUNT, "returns", "RETURNS", "Calls that have returned.",            \
		f->timed || f->same, f->n.returns,                                      \
		AT(ROW, 15, COLUMN_CSV), AT(ROW_DOCUMENT, 20), \
		AT(DOCUMENT, 40), AT(TABLE, 20, COLUMN_CSV),                            \
		AT(PROCESS, 20, COLUMN_CSV), AT(PROCESS_DOCUMENT, 20),                  \
		AT(SAVED, 20), AT(METRIC, 20))                                          \
	X(IN_FLIGHT, COUNT, "in_flight", "IN FLIGHT", "Calls that have not returned.",  \
		!f->unswept, f->in_flight,                                                     \
		AT(DOCUMENT, 50), AT(TABLE, 30, COLUMN_CSV), AT(RATES, 90, 6),          \
		AT(SAVED, 50), AT(METRIC, 60, METRIC_GAUGE), AT(TRACE, 20)) \
	X(ABANDONED, COUNT, "abandoned", NULL, NULL,                                    \
		true, f->abandoned,                                                     \
		AT(DOCUMENT, 60), AT(TABLE, 40, COLUMN_CSV), AT(SAVED, 60))             \
	X(GIVEN_UP, COUNT, "abandoned", NULL, "Calls that were abandoned.",             \
		f->timed, f->n.abandoned,                                               \
		AT(METRIC, 50))                                                         \
	X(REVIVED, COUNT, "revived", NULL, "Calls that were abandoned and have returned.", \
		f->timed, f->n.revived,                                                 \
		AT(METRIC, 55))                                                         \
	X(UNTIMED, COUNT, "untimed", NULL, "Calls whose return was not traced.",        \
		true, stats_func_untimed(f),                                            \
		AT(DOCUMENT, 70), AT(TABLE, 50, COLUMN_CSV), AT(SAVED, 70))             \
	X(UNFOLLOWED, COUNT, "untimed", NULL, "Calls whose return was not traced.",     \
		true, stats_func_unfollowed(f),                                         \
		AT(METRIC, 57))                                                         \
	X(ERRORS, COUNT, "errors", "ERRORS", "Returns whose result is an error, by code.", \
		ends, f->n.errors,                                                      \
		AT(ROW, 80, COLUMN_ANY), AT(ROW_DOCUMENT, 50), \
		AT(DOCUMENT, 80), AT(TABLE, 160, COLUMN_ANY), AT(PROCESS, 80, COLUMN_ANY), \
		AT(PROCESS_DOCUMENT, 50), AT(SORT, 60, 'e'), AT(SAVED, 30),             \
		AT(DIFF, 60), AT(METRIC, 30, METRIC_BY_CODE))                           \
	X(SLOW, COUNT, "slow", "SLOW", "Returns at or over the threshold for slow calls.", \
		ends, f->n.slow,                                                        \
		AT(ROW, 70, COLUMN_ANY | 4), AT(ROW_DOCUMENT, 60), \
		AT(DOCUMENT, 90), AT(TABLE, 150, COLUMN_ANY | 8), AT(PROCESS, 70, COLUMN_ANY | 4), \
		AT(PROCESS_DOCUMENT, 60), AT(SORT, 70, 's'), AT(SAVED, 40),             \
		AT(METRIC, 40))                                                         \
	X(ERRORS_RATE, RATE, "errors", "ERRORS/S", NULL,                                \
		paced && ends, f->n.errors / seconds,                                   \
		AT(RATES, 80, 1))                                                       \
	X(SLOW_RATE, RATE, "slow", "SLOW/S", NULL,                                      \
		paced && ends, f->n.slow / seconds,                                     \
		AT(RATES, 70, 7))                                                       \
	X(TIME, PERCENT, "time", "TIME%", NULL,                                         \
		times && scope->all_ns,                                                 \
		100.0 * (f->nested ? stats_func_self(f) : f->n.total_ns) / scope->all_ns, \
		AT(ROW, 30, 3), \
		AT(TABLE, 60, 2), AT(PROCESS, 30, 3), AT(TREE, 20))                                   \
	X(TOTAL, NS, "total", "TOTAL", NULL,                                            \
		times, f->n.total_ns,                                                   \
		AT(ROW, 40), AT(ROW_DOCUMENT, 30), \
		AT(DOCUMENT, 100), AT(TABLE, 70), AT(PROCESS, 40),                      \
		AT(PROCESS_DOCUMENT, 30), AT(TREE, 30), AT(SORT, 10, 't'),              \
		AT(SAVED, 80))                                                          \
	X(OUTER, NS, "outer", NULL, NULL,                                               \
		times && f->nested, stats_func_outer(f),                                \
		AT(DOCUMENT, 102), AT(TABLE, 72, COLUMN_CSV), AT(SAVED, 82))            \
	X(SELF, NS, "self", "SELF",                                                     \
		"Time of calls that have returned, less that of probed ones inside.",   \
		times && f->nested, stats_func_self(f),                                 \
		AT(DOCUMENT, 104), AT(TABLE, 74, COLUMN_DIFFERS | 2), AT(PROCESS, 45, COLUMN_DIFFERS | 4),                   \
		AT(PROCESS_DOCUMENT, 35), AT(TREE, 40), AT(SORT, 15, 'f'),              \
		AT(SAVED, 84),                                                          \
		AT(DIFF, 70), AT(METRIC, 45, METRIC_GAUGE))                             \
	X(ON_CPU, NS, "on_cpu", "ON CPU", "Time of calls that have returned, on a CPU.",    \
		times && f->split, f->n.on_cpu_ns,                                      \
		AT(ROW, 91, COLUMN_CSV), AT(ROW_DOCUMENT, 32), \
		AT(DOCUMENT, 106), AT(TABLE, 180, COLUMN_CSV),                           \
		AT(PROCESS, 91, COLUMN_CSV), AT(PROCESS_DOCUMENT, 36), AT(SORT, 16, 'u'), \
		AT(SAVED, 86), AT(METRIC, 46))                                          \
	X(QUEUED, NS, "queued", "QUEUED",                                                   \
		"Time of calls that have returned, runnable without a CPU.",            \
		times && f->split, f->n.queued_ns,                                      \
		AT(ROW, 92, COLUMN_CSV), AT(ROW_DOCUMENT, 34), \
		AT(DOCUMENT, 107), AT(TABLE, 181, COLUMN_CSV),                           \
		AT(PROCESS, 92, COLUMN_CSV), AT(PROCESS_DOCUMENT, 37), AT(SORT, 17, 'w'), \
		AT(SAVED, 87), AT(DIFF, 72), AT(METRIC, 47))                            \
	X(BLOCKED, NS, "blocked", "BLOCKED", "Time of calls that have returned, asleep.",    \
		times && f->split, f->n.blocked_ns,                                     \
		AT(ROW, 93, COLUMN_CSV), AT(ROW_DOCUMENT, 36), \
		AT(DOCUMENT, 108), AT(TABLE, 182, COLUMN_CSV),                           \
		AT(PROCESS, 93, COLUMN_CSV), AT(PROCESS_DOCUMENT, 38), AT(SORT, 18, 'b'), \
		AT(SAVED, 88), AT(DIFF, 74), AT(METRIC, 48))                            \
	X(ON_CPU_SHARE, PERCENT, "on_cpu", "CPU%", NULL,                                \
		times && f->split, split_share(f->n.on_cpu_ns, SPLIT_OF(f)),            \
		AT(ROW, 46, COLUMN_KNOWN | 2), \
		AT(TABLE, 79, COLUMN_KNOWN | 2), AT(PROCESS, 49, COLUMN_KNOWN | 3))     \
	X(QUEUED_SHARE, PERCENT, "queued", "QUEUED%", NULL,                             \
		times && f->split, split_share(f->n.queued_ns, SPLIT_OF(f)),            \
		AT(ROW, 47, COLUMN_KNOWN), \
		AT(TABLE, 80, COLUMN_KNOWN), AT(PROCESS, 50, COLUMN_KNOWN))             \
	X(BLOCKED_SHARE, PERCENT, "blocked", "BLOCKED%", NULL,                          \
		times && f->split, split_share(f->n.blocked_ns, SPLIT_OF(f)),           \
		AT(ROW, 48, COLUMN_KNOWN), \
		AT(TABLE, 81, COLUMN_KNOWN), AT(PROCESS, 51, COLUMN_KNOWN))             \
	X(MIN, NS, "min", "MIN", NULL,                                                  \
		f->timed && f->has_extremes, f->min_ns,                                 \
		AT(DOCUMENT, 110), AT(TABLE, 90, COLUMN_CSV), AT(SAVED, 100))                    \
	X(AVG, NS, "avg", "AVG", NULL,                                                  \
		times, f->n.total_ns / f->n.returns,                                    \
		AT(ROW, 50, 2), \
		AT(DOCUMENT, 120), AT(TABLE, 86), AT(PROCESS, 55, 2), AT(RATES, 30),    \
		AT(SORT, 30, 'a'), AT(SAVED, 90), AT(DIFF, 20))                         \
	X(MAX, NS, "max", "MAX", NULL,                                                  \
		f->timed && f->has_extremes, f->max_ns,                                 \
		AT(ROW, 60, 1), AT(ROW_DOCUMENT, 40), \
		AT(DOCUMENT, 130), AT(TABLE, 140, 4), AT(PROCESS, 60, 1),               \
		AT(PROCESS_DOCUMENT, 40), AT(RATES, 60, 4), AT(SORT, 40, 'm'),          \
		AT(SAVED, 110))                                                         \
	X(OVERHEAD, NS, "overhead", NULL, NULL,                                         \
		f->timed && f->priced, f->overhead_ns,                                  \
		AT(DOCUMENT, 171))                                                      \
	X(NOISE, NS, "noise", NULL, NULL,                                               \
		f->timed && f->priced, f->noise_ns,                                     \
		AT(DOCUMENT, 172), AT(SAVED, 155))                                      \
	X(MAX_NOISE, NS, "max_noise", NULL, NULL,                                       \
		f->timed && f->priced, f->max_noise_ns,                                 \
		AT(DOCUMENT, 173))                                                      \
	X(COST, NS, "cost", NULL, "Time that the probes added to calls.",               \
		f->priced, f->cost_ns,                                                  \
		AT(DOCUMENT, 174), AT(METRIC, 70))                                      \
	X(P50, NS, "p50", "P50", NULL,                                                  \
		spread, stats_func_percentile(f, 500),                                  \
		AT(ROW, 52, 3), AT(ROW_DOCUMENT, 42),                     \
		AT(DOCUMENT, 140), AT(TABLE, 100, 3), AT(RATES, 40, 5),                 \
		AT(SAVED, 120), AT(DIFF, 30))                                           \
	X(P90, NS, "p90", "P90", NULL,                                                  \
		spread, stats_func_percentile(f, 900),                                  \
		AT(ROW, 54, COLUMN_CSV), AT(ROW_DOCUMENT, 44),                     \
		AT(DOCUMENT, 150), AT(TABLE, 110, COLUMN_CSV), AT(SAVED, 130), AT(DIFF, 40))     \
	X(P99, NS, "p99", "P99", NULL,                                                  \
		spread, stats_func_percentile(f, 990),                                  \
		AT(ROW, 56, 1), AT(ROW_DOCUMENT, 46),                     \
		AT(DOCUMENT, 160), AT(TABLE, 120, 1), AT(RATES, 50, 2),                 \
		AT(SORT, 50, 'p'), AT(SAVED, 140), AT(DIFF, 50))                        \
	X(P999, NS, "p999", NULL, NULL,                                                 \
		spread, stats_func_percentile(f, 999),                                  \
		AT(DOCUMENT, 170), AT(TABLE, 130, COLUMN_CSV), AT(SAVED, 150))          \
	X(LIVE, BYTES, "live", "LIVE", "Allocated memory that has not been freed.",     \
		f->memory.allocates, f->memory.n.live_bytes,                            \
		AT(ROW, 90, COLUMN_KNOWN), AT(ROW_DOCUMENT, 70),                        \
		AT(DOCUMENT, 180), AT(TABLE, 190, COLUMN_KNOWN), AT(SORT, 80, 'l'),     \
		AT(SAVED, 160), AT(DIFF, 80), AT(METRIC, 80, METRIC_GAUGE), AT(TRACE, 30)) \
	X(LIVE_BLOCKS, COUNT, "live_blocks", "BLOCKS", "Allocations that have not been freed.", \
		f->memory.allocates, f->memory.n.live_blocks,                           \
		AT(ROW, 92, COLUMN_KNOWN), AT(ROW_DOCUMENT, 72),                        \
		AT(DOCUMENT, 182), AT(TABLE, 192, COLUMN_KNOWN),                        \
		AT(SAVED, 162), AT(DIFF, 82), AT(METRIC, 82, METRIC_GAUGE))             \
	X(PEAK, BYTES, "peak", "PEAK", "The peak of live memory since the reset.",      \
		f->memory.allocates, f->memory.peak_bytes,                              \
		AT(DOCUMENT, 184), AT(TABLE, 194, COLUMN_KNOWN | 4),                    \
		AT(SAVED, 164), AT(METRIC, 84, METRIC_GAUGE))                           \
	X(FREED, BYTES, "freed", "FREED", "Allocated memory that has been freed.",      \
		f->memory.allocates, f->memory.n.freed_bytes,                           \
		AT(DOCUMENT, 186), AT(TABLE, 196, COLUMN_KNOWN | 5),                    \
		AT(SAVED, 166), AT(METRIC, 86))                                         \
	X(EXIT, BYTES, "exit", "AT EXIT", "Memory live when its process exited or called exec.", \
		f->memory.allocates, f->memory.n.exit_bytes,                            \
		AT(ROW, 94, COLUMN_KNOWN | COLUMN_ANY), AT(ROW_DOCUMENT, 74),           \
		AT(DOCUMENT, 187), AT(TABLE, 197, COLUMN_KNOWN | COLUMN_ANY),           \
		AT(SORT, 82, 'x'),                                                      \
		AT(SAVED, 167), AT(DIFF, 84), AT(METRIC, 87))                           \
	X(EXIT_BLOCKS, COUNT, "exit_blocks", "EXIT BLOCKS", "Allocations live when their process exited or called exec.", \
		f->memory.allocates, f->memory.n.exit_blocks,                           \
		AT(ROW, 96, COLUMN_KNOWN | COLUMN_ANY), AT(ROW_DOCUMENT, 76),           \
		AT(DOCUMENT, 188), AT(TABLE, 198, COLUMN_KNOWN | COLUMN_ANY),           \
		AT(SAVED, 168), AT(DIFF, 86), AT(METRIC, 89))                           \
	X(LOST_BLOCKS, COUNT, "lost_blocks", NULL,                                      \
		"Allocations since the attach that were not tracked: table full.",      \
		f->memory.allocates, f->memory.n.lost_blocks,                           \
		AT(DOCUMENT, 189), AT(SAVED, 169), AT(METRIC, 90))                      \
	X(UNKNOWN_FREES, COUNT, "unknown_frees", NULL,                                  \
		"Frees of memory that no tracked call has allocated.",                  \
		f->memory.frees, f->memory.n.unknown_frees,                             \
		AT(DOCUMENT, 190), AT(SAVED, 170))                                      \
	X(SHARE, PERCENT, "share", "SHARE", NULL,                                       \
		scope->all_samples, 100.0 * f->n.calls / scope->all_samples,            \
		AT(ROW, 5, COLUMN_KNOWN), AT(PROCESS, 5, COLUMN_KNOWN))                 \
	X(USER_SHARE, PERCENT, "user", "USER%", NULL,                                   \
		false, 0,                                                               \
		AT(PROCESS, 6, COLUMN_KNOWN))                                           \
	X(KERNEL_SHARE, PERCENT, "kernel", "KERNEL%", NULL,                             \
		false, 0,                                                               \
		AT(PROCESS, 7, COLUMN_KNOWN))                                           \
	X(FUNCTIONS, COUNT, "functions", "FUNCTIONS", NULL,                             \
		false, 0,                                                               \
		AT(LIBRARY, 10, 9), AT(PROCESS, 90, 5))
/* clang-format on */

enum figure_id {
#define X(id, ...) FIGURE_##id,
	FIGURES(X)
#undef X
		FIGURE_CNT
};

struct figure {
	const char *word, *key; /* "total", "total_ns" */
	const char *title, *help;
	enum figure_unit unit;
	struct {
		unsigned char at; /* 0: not there */
		unsigned char extra;
	} place[USE_CNT];
};

/* Total time of the calls whose time is split: 100 % of the shares. */
#define SPLIT_OF(x) ((x)->n.on_cpu_ns + (x)->n.queued_ns + (x)->n.blocked_ns)

extern const struct figure figures[FIGURE_CNT];

/* Lists the metrics of @use in their order. Returns their number. */
size_t figure_list(enum figure_use use, enum figure_id ret_ids[FIGURE_CNT]);

/* Returns the metrics of @use as a mask of FIGURE_BIT(). */
uint64_t figure_mask(enum figure_use use);
#define FIGURE_BIT(id) (1ULL << (id))

/* Metrics that cannot be added. */
#define FIGURE_SPREAD (FIGURE_BIT(FIGURE_P50) | FIGURE_BIT(FIGURE_P90) | FIGURE_BIT(FIGURE_P99))

/* On a busy machine the measured overhead is accurate to 10 %. */
#define SELF_NOISE(cost_ns) ((cost_ns) / 10)

/* The metrics of a row. */
struct figures {
	uint64_t known; /* mask of FIGURE_BIT() */
	/*
	 * Metrics that are always 0 because the function is only counted. Only documents and CSV
	 * have them, so that the sum of calls adds up.
	 */
	uint64_t moot;
	uint64_t noise_ns;      /* shorter durations are within the error of the correction */
	uint64_t max_noise_ns;  /* the same for the longest ones */
	uint64_t self_noise_ns; /* the same for self times, corrected for nested probes */
	bool lacks; /* sums of times lack calls: stats_func_lacks() */
	union {
		uint64_t n;
		double x; /* percentages, rates and ratios */
	} value[FIGURE_CNT];
};

static inline bool figure_known(const struct figures *f, enum figure_id id)
{
	return f->known & FIGURE_BIT(id);
}

static inline uint64_t figure_or_0(const struct figures *f, enum figure_id id)
{
	return figure_known(f, id) ? f->value[id].n : 0;
}

void figure_set(struct figures *f, enum figure_id id, bool known, uint64_t n);

static inline bool figure_is_real(enum figure_id id)
{
	return figures[id].unit >= UNIT_PERCENT;
}

/* The reference of shares and rates; 0: not known. */
struct figure_scope {
	uint64_t elapsed_ns; /* interval of the calls */
	uint64_t all_ns;     /* time of all functions (self time if it is known) */
	uint64_t cost_ns;    /* overhead of the probes of all functions */
	uint64_t all_samples; /* of all threads of the machine, or of those that filters leave */
};

/* Sets a share of 100 % = @all. */
void figure_set_share(struct figures *f, enum figure_id id, uint64_t part, uint64_t all);


/*
 * Computes the metrics of mask @wanted for a function, or for several added up. Percentiles are
 * expensive. Without @scope, shares and rates are not known.
 */
void figures_of(const struct stats_func *f, const struct figure_scope *scope,
	uint64_t wanted, struct figures *ret);

/* Computes those of one row of @f, or of a process for all timed functions if @f is NULL. */
void figures_of_row(const struct stats_row *row, const struct stats_func *f,
	const struct figure_scope *scope, struct figures *ret);

/* Computes the percentiles of @spread, limited to @max_ns (0: no limit). */
void figures_of_spread(const struct stats_spread *spread, uint64_t max_ns, struct figures *ret);

/* --- documents of `stats --json`, read for comparison ---------------------------------------- */

/* One key of a row. Its value is text, or a number as text. */
struct saved_part {
	char *key, *value;
	char *name; /* of the value, or NULL */
	/*
	 * Names of the frames of a stack, the outermost first, each ended by '\0', and an empty
	 * name. A truncated stack starts with the reason. NULL: not a stack, or not known.
	 */
	char *stack;
};

/* The calls of one process with one key. */
struct saved_row {
	struct saved_part part[FSN_KEYS];
	size_t part_cnt;
	struct figures figures; /* of USE_ROW_DOCUMENT, and the average */
	double amount; /* total of its sums */
	bool summed;   /* .amount is known */
	const struct stats_row *now; /* the row that it was made from (not owned), or NULL */
};

/* Without libm, which is not linked for this alone. */
double square_root(double x);

struct hist_bucket {
	uint64_t ge_ns, lt_ns, cnt;
};

/* Durations in a histogram, taken as spread evenly in each bucket. */
struct moments {
	double cnt, sum, squares;
	uint64_t median_ge_ns, median_lt_ns; /* bounds of the median, 3 standard errors apart from it */
};

/* Stores the moments of the durations in @buckets, which are in order. */
void moments_of(const struct hist_bucket *buckets, size_t cnt, struct moments *ret);

/*
 * Stores the square of the standard error of the mean, in ns squared. Returns false if there are
 * fewer than two durations.
 */
bool moments_error(const struct moments *m, double *ret_square);

struct saved_func {
	char *name, *library;   /* library may be NULL */
	struct moments durations; /* none if the document has no histogram */
	struct figures figures; /* of USE_SAVED; unknown ones are null in the document */
	struct saved_row *rows;
	size_t row_cnt;
};

/* Adds the metrics of @row to @to, which the caller has zeroed. */
void saved_row_add(struct figures *to, const struct figures *row);

/* Returns key @key of @row, or NULL; and the text that is shown for it. */
const struct saved_part *saved_part_find(const struct saved_row *row, const char *key);
static inline const char *saved_part_text(const struct saved_part *part)
{
	return part->name ? part->name : part->value;
}

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

/*
 * The same of a file that has several documents, one behind the other, each at the beginning of
 * a line. ret_documents, and each of them, are to be freed.
 */
int saved_read_all(const char *path, struct saved ***ret_documents, size_t *ret_cnt,
	struct err *err);

/* Frees what @func has, not itself. */
void saved_func_done(struct saved_func *func);

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
