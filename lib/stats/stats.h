/* SPDX-License-Identifier: BSD-2-Clause */
/* The statistics of a group since its last reset, as the kernel keeps them now. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "group/group.h"
#include "group/types.h"
#include "kernel/kernel.h"
#include "pins/bpffs.h"
#include "proc/proc.h"
#include "shared/gpu.h"
#include "shared/words.h"

struct stats_code {
	int64_t code;
	char *name; /* or NULL */
	uint64_t count;
};

/* Allocations that have not been freed. */
struct stats_live {
	uint64_t bytes, blocks;
	uint64_t oldest_ns; /* CLOCK_MONOTONIC; 0: no live allocation */
};
void stats_live_add(struct stats_live *to, const struct stats_live *more);

/* The live allocations that a process made by a function. */
struct stats_holder {
	pid_t pid;
	uint32_t fn;
	struct stats_live live;
};

/*
 * Memory statistics of a function. Members live_... are current values, lost_... count since the
 * attach, all others since the reset.
 */
struct stats_memory {
	bool allocates, frees; /* both false: the other members are meaningless */
	struct fsn_memory_counts n;
	uint64_t peak_bytes;
};

/* Distribution of durations over the buckets of hist_bounds(). */
struct stats_spread {
	uint64_t bucket[FSN_HIST_CNT];
};

/* Calls of one process with one key. */
struct stats_row {
	pid_t pid;         /* 0: the row of dropped calls, or of exited processes */
	uint64_t start_ns; /* of the process, CLOCK_BOOTTIME */
	char comm[16];     /* of the process */
	struct fsn_key key; /* FSN_KEY_WIDE words each */
	unsigned int hidden; /* mask of keys that the reader has no permission to read */
	uint32_t nth; /* index in the group, in order of creation; lowest of a merged row */
	const char *place;  /* name of the caller key, interned; or NULL */
	const char *kernel; /* name of the kernel key, interned; or NULL */
	const struct cgroup *cgroup; /* of the cgroup key; or NULL */
	uint64_t cgroup_id; /* of a process: its cgroup v2 at its first call */
	struct fsn_proc_counts n; /* .inner_ns only if .nested */
	bool nested, split; /* of a process: as in struct stats_func */
	uint64_t sum[FSN_SUMS];   /* two's complement where the argument has a sign */
	struct stats_live live;   /* with stats.blocks_known */
	uint64_t exit_bytes, exit_blocks; /* live at the exit of the process; since the reset */
	bool allocates; /* the function allocates: .live and .exit_... are known */
	/* Durations since the attach, and at the reset; NULL if not kept. */
	struct stats_spread *spread;
	const struct stats_spread *spread_was;
};

/* The first word of key @i, and its text. */
static inline uint64_t stats_row_word(const struct stats_row *row, size_t i)
{
	return row->key.word[i * FSN_KEY_WIDE];
}

static inline const char *stats_row_text(const struct stats_row *row, size_t i)
{
	return (const char *)&row->key.word[i * FSN_KEY_WIDE];
}

/* True if @row has no calls; and the order of rows: by process, then by key. */
bool stats_row_is_empty(const struct stats_row *row);
int stats_row_compare(const void *a, const void *b);

/*
 * Adds @more to @to: keeps the higher maximum and the lower .nth, and ignores .spread. Subtracts
 * @was from @from.
 */
void stats_row_add(struct stats_row *to, const struct stats_row *more);
void stats_row_subtract(struct stats_row *from, const struct stats_row *was);

/*
 * Sorts @cnt rows of @size bytes with @compare and merges equal rows with @add. Returns the
 * number of rows that remain, at the start of @rows.
 */
size_t rows_group(void *rows, size_t cnt, size_t size, int (*compare)(const void *, const void *),
	void (*add)(void *to, const void *from));

/* Adds the durations of @row to @to. Returns false if they are not known. */
bool stats_spread_add(struct stats_spread *to, const struct stats_row *row);

/* Adds @more to @to; subtracts @was from @from, down to 0. */
void counts_add(struct fsn_counts *to, const struct fsn_counts *more);
void counts_subtract(struct fsn_counts *from, const struct fsn_counts *was);

/* The same for processes. Sets .max_ns to 0 if the longest call was made before @was. */
void proc_counts_add(struct fsn_proc_counts *to, const struct fsn_proc_counts *more);
void proc_counts_subtract(struct fsn_proc_counts *from, const struct fsn_proc_counts *was);

/*
 * Statistics of a function. For timed functions:
 *
 *	n.calls + carried = n.returns + in_flight + abandoned + n.no_slot + n.sampled_out + n.jumped
 *	+ n.inner + n.unseen + lost
 *
 * For other functions returns and times are meaningless, and all calls are untimed.
 */
struct stats_func {
	uint32_t fn;
	bool timed;
	bool same; /* entry and only ret are one instruction: returns = calls, no times */
	uint32_t overhead_ns; /* subtracted from each duration as probe overhead */
	uint64_t noise_ns;    /* error of the subtraction: shorter durations are noise; 0: none */
	uint64_t most_ns;     /* maximum overhead of nested probes in one call */
	uint64_t max_noise_ns; /* as .noise_ns, for the call with that */
	bool nested;          /* nested calls are tracked: inner_ns, recursed_ns, chained */
	bool split;           /* time is split: on_cpu_ns, queued_ns, blocked_ns are known */
	bool priced;          /* the cost of its probes is known */
	uint64_t cost_ns;     /* probe overhead, from hits; cost_of_hits() */
	struct fsn_counts n; /* since the reset */
	uint64_t carried;    /* calls in flight at the reset, or resumed after it */
	uint64_t in_flight;
	bool unswept;       /* .in_flight may include exited threads: the reader could not check */
	uint64_t lost;      /* may be in flight, or the kernel could not track their return */
	uint64_t abandoned; /* n.abandoned less n.revived; both only grow */
	bool has_extremes;
	uint64_t min_ns, max_ns;
	uint64_t *bucket; /* FSN_HIST_CNT of them: hist_bounds(); NULL if no call has returned */
	struct stats_code *codes; /* sorted by code */
	size_t code_cnt;
	uint64_t unplaced; /* failed calls without a code in .codes: the table was full */
	struct stats_row *procs; /* by process, without a key: stats_row_compare() */
	size_t proc_cnt;
	struct stats_row *rows; /* by key: stats_row_compare() */
	size_t row_cnt;
	struct stats_row *sleeps; /* where calls blocked: .key starts with a stack */
	size_t sleep_cnt;
	struct stats_row others; /* calls dropped from .rows: the table was full */
	struct stats_row rows_ended; /* rows that were evicted because their processes exited */
	struct stats_memory memory;
	struct stats_live live;  /* live allocations that match the reader's age limit */
	struct stats_row ended; /* evicted records of exited processes; no pid */
};

/*
 * Calls of a function from one path of probed callers, or from no probed caller. A recursive
 * function has one path: the functions that it calls are counted in the path of the outermost
 * call. The entry with STATS_NO_FN counts the calls of paths that were dropped.
 */
struct stats_path {
	uint32_t id;     /* at least 1; stable while the group is attached */
	uint32_t caller; /* id of the calling path; 0: no probed caller */
	uint32_t fn;     /* or STATS_NO_FN */
	uint64_t calls;
	/* of calls that have returned; can be negative because the overhead varies */
	int64_t self_ns;
};
#define STATS_NO_FN UINT32_MAX

/* The last report of libfuncsnoop-gpu.so in a process. */
struct stats_gpu {
	pid_t pid;
	struct fsn_gpu said;
};

struct stats {
	const struct group *group;      /* outlives this */
	uint64_t attached_ns, since_ns; /* CLOCK_REALTIME */
	uint64_t read_ns, read_mono_ns; /* start of the reading: CLOCK_REALTIME, _MONOTONIC */
	struct stats_func *funcs;       /* all functions of the group, by number */
	size_t func_cnt;
	struct stats_path *paths; /* by id; NULL if not requested or not kept (FSN_OPT_NESTING) */
	size_t path_cnt;
#define X(name) uint64_t name;
	FSN_LOSSES(X)
#undef X
	uint64_t slow_total, lost_slow; /* slow calls; those that newer ones have pushed out */
	unsigned int folds; /* number of evictions of exited processes since the attach */
	bool blocks_known;   /* live allocations were read: .live of rows, and .holders */
	struct stats_holder *holders; /* sorted by process and function */
	size_t holder_cnt;
	bool keys_known;     /* the reader has permission to read keys */
	void *places;        /* interned names of rows */
	struct stats_spread **spreads; /* distributions of rows */
	size_t spread_cnt;
	struct fsn_stack *stacks; /* of the rows; NULL: none was replaced by a completed one */
	uint64_t cpus_off; /* number of times since the attach that a sampled CPU went offline */
	uint64_t bulk_frees; /* calls since the attach that freed more than the known allocations */
	bool has_missed;
	uint64_t missed; /* since the attach: entries and returns that the kernel skipped */
	pid_t crowd_pid; /* the last process of .crowded */
	struct stats_gpu *gpus; /* of a group of GPU activity; by pid */
	size_t gpu_cnt;
	struct cgroups *cgroups; /* of processes and cgroup keys */
};

/* Returns the cgroup of a process; owned by @s. NULL if it is not known. */
static inline const struct cgroup *stats_cgroup(const struct stats *s, const struct stats_row *p)
{
	return cgroups_find_process(s->cgroups, p->cgroup_id, p->pid, p->start_ns);
}

/*
 * Reads all statistics: with @paths also call paths, with @lines also source lines of callers.
 * Takes no lock unless resets keep interfering: then it briefly takes the shared lock of @fs, the
 * directory of the group. The caller frees *@ret_stats with stats_free().
 */
int stats_read(struct bpffs *fs, const struct group *g, bool paths, bool lines,
	struct stats **ret_stats, struct err *err);
void stats_free(struct stats *s);

/*
 * The same, but reads only counts, calls in progress and live memory of functions: fast enough to be
 * repeated several times a second.
 */
int stats_read_counts(
	struct bpffs *fs, const struct group *g, struct stats **ret_stats, struct err *err);

/*
 * Renames the rows of @before whose stacks were completed until @now of the same group was read, so
 * that they are the same in both.
 */
void stats_complete_stacks(struct stats *before, const struct stats *now);

struct fsn_file_id;

/*
 * Finds the current path of a file that the BPF programs recorded, mapped or not. Returns false if
 * the file has no path, or if another file is now at its path.
 */
bool group_file_path(const struct group *g, const struct fsn_file_id *id, char path[PATH_MAX]);

/* The same without paths, and only with allocations that are at least @older_ns old. */
int stats_read_old(struct bpffs *fs, const struct group *g, uint64_t older_ns, bool lines,
	struct stats **ret_stats, struct err *err);

/*
 * Resolves callers and kernels of rows that are newer than *@seen, while their processes still
 * exist. Later readers use these names. A failed lookup can be repeated.
 */
void stats_name_rows(struct bpffs *fs, const struct group *g, uint32_t *seen);

/*
 * Reads only rows of keys whose values have names (.place, .kernel), including rows without calls
 * since the last reset. Used to print single calls. The caller frees *@ret_stats with
 * stats_free().
 */
int stats_read_names(const struct group *g, struct stats **ret_stats, struct err *err);

/*
 * Returns the row of a call of @fn in a process, or NULL. If a pid was reused, the row can be that
 * of the earlier process.
 */
const struct stats_row *stats_row_find(
	const struct stats *s, uint32_t fn, pid_t pid, const struct fsn_key *key);

/*
 * Sums the calls of all functions since the last reset by enum fsn_exit, into
 * ret_calls[FSN_EXIT_CNT]. Sets *@ret_shed to the number of functions with stats_is_shed(). Used
 * by `list`.
 */
int stats_calls(const struct group *g, uint64_t *ret_calls, size_t *ret_shed, struct err *err);

/*
 * True if some calls of @fn, whose counts are @n, were not timed because the group was above its bound
 * on overhead.
 */
bool stats_is_shed(const struct group *g, uint32_t fn, const struct fsn_counts *n);

/* The error of durations of single calls of a function; shorter durations are noise. */
struct call_noise {
	double slow;        /* times that its probes took longer than during the calibration */
	uint64_t overhead_ns; /* of its own probes; 0: none is subtracted, and there is no error */
	uint64_t own_ns;    /* error of that */
	uint64_t setup_ns;  /* added while the kernel maps a page for the probes of a process, */
	bool sets_up;       /* which the probes of the function need */
};
void call_noise_read(const struct group *g, uint32_t fn, struct call_noise *ret_noise);

/* Returns the error of a call with @probes_ns of probes, possibly the @first of its process. */
uint64_t call_noise_ns(const struct call_noise *noise, uint64_t probes_ns, bool first);

/* Reads the remembered slow calls since the last reset, oldest first. The caller frees them. */
int stats_slow_calls(const struct group *g, struct fsn_slow **ret_calls, size_t *ret_cnt,
	struct err *err);

/* Calls whose return is not traced; and the same plus .lost, which can decrease. */
uint64_t stats_func_unfollowed(const struct stats_func *f);
uint64_t stats_func_untimed(const struct stats_func *f);

/* True if the total time of the function, or of one of its rows, lacks that of some calls. */
bool stats_func_lacks(const struct stats_func *f);
bool stats_row_lacks(const struct stats_row *row, const struct stats_func *f);

/*
 * Self time: without the time of probed callees; only if .nested. And the time of outermost calls:
 * without calls that a call of the same function made.
 */
uint64_t stats_func_self(const struct stats_func *f);
uint64_t stats_func_outer(const struct stats_func *f);
uint64_t stats_row_self(const struct stats_row *row);

/* True if any call or return is recorded. */
bool stats_func_called(const struct stats_func *f);

/* True if there are durations; and hist_percentile() of them. */
bool stats_func_samples(const struct stats_func *f);
uint64_t stats_func_percentile(const struct stats_func *f, unsigned int permille);

/*
 * Resets @cnt groups that are open for writing, under the lock of their bpffs. Each group must
 * stay open until its stats_reset() has returned. The caller frees the result with resets_free().
 */
struct resets;
struct resets *resets_new(struct group *const *groups, size_t cnt);
void resets_free(struct resets *resets);
DEFINE_CLEANUP(resets, struct resets *, resets_free)
#define _cleanup_resets_ __cleanup(cleanup_resets)

/*
 * Reads the statistics of group @i and resets them. Calls @deliver with the statistics in between,
 * and resets only if @deliver returns 0, so statistics that were not delivered are not lost. Each
 * call, minimum and maximum is in exactly one reading.
 *
 * @deliver can be NULL, and can start the reset of the next group. Groups are reset in order,
 * starting with 0. If one reset fails, the others are not affected.
 */
int stats_reset(struct resets *resets, size_t i,
	int (*deliver)(const struct stats *s, void *arg), void *arg, struct err *err);

/*
 * Evicts records of exited processes when half of the table is in use: adds them to the rows of
 * their functions, oldest process first, until a quarter is in use. Does the same for rows of
 * keys. The sum of all records and rows is correct at every moment and for every reader.
 *
 * Does nothing if exits cannot be detected (in another pid or time namespace), or while another
 * command holds the lock of @fs. @g must be open for writing.
 */
int procs_fold(struct bpffs *fs, const struct group *g, struct err *err);

/* Bounds of bucket @i: [*ret_ge, *ret_lt) ns. */
void hist_bounds(unsigned int i, uint64_t *ret_ge, uint64_t *ret_lt);

/*
 * Returns the duration that @permille of all calls in @bucket are below: the middle of its bucket,
 * clamped to [min, max]; the error is at most 6.25 %. @bucket must contain at least one call.
 */
uint64_t hist_percentile(
	const uint64_t *bucket, unsigned int permille, uint64_t min_ns, uint64_t max_ns);

DEFINE_CLEANUP(stats, struct stats *, stats_free)
#define _cleanup_stats_ __cleanup(cleanup_stats)

/* --- probe overhead -------------------------------------------------------------------------- */

/*
 * The source of an overhead:
 *
 * - COST_ACCOUNTED: run time of the BPF programs as accounted by the kernel, without traps. Only
 *   for intervals, while kernel.bpf_stats_enabled is 1, and with CAP_SYS_ADMIN.
 * - COST_CALIBRATED: probe hits times the cost of a hit on this machine, traps included
 *   (calibrate()). Adds the run time beyond that of the calibration, which the BPF programs
 *   measure for a sample of hits (bpf/run.bpf.h).
 */
enum cost_source { COST_UNKNOWN, COST_ACCOUNTED, COST_CALIBRATED };

/*
 * Returns the cost of hits by kind of probe: entries, returns with or without their call, and
 * checked jumps. A call with only an entry hit costs as much as a call whose return is not traced.
 * A jump inside the function costs as much as an emulated entry.
 *
 * Includes run times, measured by the BPF programs, that differ from the calibration: keys, stacks,
 * memory and streams.
 */
uint64_t cost_of_hits(const struct price *price, enum price_site site, enum price_end end,
	const struct fsn_counts *n);

struct cost_reading {
	enum cost_source source;
	uint64_t at_ns; /* CLOCK_MONOTONIC */
	uint64_t ns;    /* since a fixed moment in the past; of an estimate since the reset */
	uint64_t elapsed_ns; /* since the reset; only of an estimate */
};

/* Probe overhead in ns per second. */
struct cost {
	enum cost_source source; /* COST_UNKNOWN: not known */
	uint64_t ns_per_s;
};

/*
 * Returns the overhead between two COST_INTERVAL readings. It is not known if their sources differ
 * or if the group was reset in between.
 */
struct cost cost_between(const struct cost_reading *before, const struct cost_reading *after);

/* Returns the mean since the reset or the attach; only of an estimate. */
struct cost cost_since_reset(const struct cost_reading *reading);

/*
 * Reads the overhead of @cnt groups. The kernel's accounting is used only for intervals, because
 * the kernel accounts only while the sysctl is on; since the reset, the overhead is an estimate.
 * Readings of groups that are NULL or cannot be read have the source COST_UNKNOWN.
 */
enum cost_span { COST_SINCE_RESET, COST_INTERVAL };
void cost_read(struct group *const *groups, size_t cnt, enum cost_span span,
	struct cost_reading *ret_readings);

/* Returns "kernel", "calibration" or NULL, as used in JSON documents. */
const char *cost_source_name(enum cost_source source);
