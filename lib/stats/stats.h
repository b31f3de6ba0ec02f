/* SPDX-License-Identifier: BSD-2-Clause */
/* The statistics of a group since its last reset, as the kernel keeps them now. */
#ifndef FUNCSNOOP_STATS_STATS_H
#define FUNCSNOOP_STATS_STATS_H

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

struct stats_proc {
	pid_t pid;
	uint64_t
		start_ns; /* of the process, CLOCK_BOOTTIME: a reused pid is another one */
	char comm[16];    /* at its first call */
	uint64_t cgroup;  /* the number of that of version 2, then */
	struct fsn_proc_counts n;
	bool nested; /* n.inner_ns is known */
	bool split;  /* where their time went is */
};

/* Blocks of memory that were not given back. */
struct stats_live {
	uint64_t bytes, blocks;
	uint64_t oldest_ns; /* CLOCK_MONOTONIC; 0: there is none */
};
void stats_live_add(struct stats_live *to, const struct stats_live *more);

/* And who has them. */
struct stats_holder {
	pid_t pid;
	uint32_t fn;
	struct stats_live live;
};

/* Of a function: live_... as they are, lost_... since the attach, the others since the reset. */
struct stats_memory {
	bool allocates, frees; /* neither: nothing else says anything */
	struct fsn_memory_counts n;
	uint64_t peak_bytes;
};

/* What calls of one process by one key had. */
/* How times are spread, by buckets of hist_bounds(). */
struct stats_spread {
	uint64_t bucket[FSN_HIST_CNT];
};

struct stats_row {
	pid_t pid;         /* 0: it is one of others, or of processes that have ended */
	uint64_t start_ns; /* of the process, CLOCK_BOOTTIME */
	char comm[16];     /* of the process */
	struct fsn_key key; /* FSN_KEY_WIDE words each */
	unsigned int hidden; /* mask of its keys that are not for who reads */
	uint32_t nth; /* of all rows of its group, as they came; of several the first */
	const char *place;  /* of its key by caller, one for all that are alike; or NULL */
	const char *kernel; /* the same of its key by kernel */
	const struct cgroup *cgroup; /* of its key by cgroup; or NULL */
	struct fsn_proc_counts n; /* without .inner_ns */
	uint64_t sum[FSN_SUMS];   /* two's complement where the argument has a sign */
	struct stats_live live;   /* with stats.blocks_known */
	uint64_t exit_bytes, exit_blocks; /* live when the process exited, since the reset */
	bool allocates; /* its function does: .live and .exit_... are known */
	/* Its times, and what they were before; each NULL where that is not kept. */
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

/* Whether anything came, and the order in which rows are: by process, then by key. */
bool stats_row_is_empty(const struct stats_row *row);
int stats_row_compare(const void *a, const void *b);

/*
 * @to and @more, of which the maximum is the higher one and .nth the lower, without how their
 * times are spread; and @from less @was.
 */
void stats_row_add(struct stats_row *to, const struct stats_row *more);
void stats_row_subtract(struct stats_row *from, const struct stats_row *was);

/* Adds how the times of @row are spread; false: that is not known. */
bool stats_spread_add(struct stats_spread *to, const struct stats_row *row);

/* @to and @more; @from less @was, not below 0. */
void counts_add(struct fsn_counts *to, const struct fsn_counts *more);
void counts_subtract(struct fsn_counts *from, const struct fsn_counts *was);

/* The same of processes. The longest is not known when it was not in what came since @was. */
void proc_counts_add(struct fsn_proc_counts *to, const struct fsn_proc_counts *more);
void proc_counts_subtract(struct fsn_proc_counts *from, const struct fsn_proc_counts *was);

/*
 * n.calls + carried = n.returns + in_flight + abandoned + n.no_slot + n.sampled_out + n.jumped
 * + n.inner + lost
 * for functions that are timed; for others returns and times mean nothing and all calls are
 * untimed.
 */
struct stats_func {
	uint32_t fn;
	bool timed;
	bool same; /* its one ret is entry and end: returns = calls, no times */
	uint32_t overhead_ns; /* taken off each time, as the probes' own */
	uint32_t noise_ns;    /* times below that are within what was taken off; 0: none was */
	bool nested;          /* it is known what its calls called: inner_ns, recursed_ns, chained */
	bool split;           /* and where their time went: on_cpu_ns, queued_ns, blocked_ns */
	bool priced;          /* it is known what its probes take */
	uint64_t cost_ns;     /* that is what they took, by hits; cost_of_hits() */
	struct fsn_counts n; /* since the reset */
	uint64_t carried;    /* calls in flight at the reset, or given up too early before it */
	uint64_t in_flight;
	bool unswept;       /* some of .in_flight may be of exited threads: the reader could not look */
	uint64_t lost;      /* may be in flight, or the kernel had no room to see their ends */
	uint64_t abandoned; /* n.abandoned less n.revived; those only grow */
	bool has_extremes;
	uint64_t min_ns, max_ns;
	uint64_t *bucket; /* FSN_HIST_CNT of them: hist_bounds(); or NULL when there is no return */
	struct stats_code *codes; /* sorted by code */
	size_t code_cnt;
	uint64_t unplaced; /* failed calls that are in none of them, as there was no room */
	struct stats_proc *procs; /* sorted by pid, start */
	size_t proc_cnt;
	struct stats_row *rows; /* by key: stats_row_compare() */
	size_t row_cnt;
	struct stats_row *sleeps; /* where calls slept: .key begins with a stack, .n has how often and long */
	size_t sleep_cnt;
	struct stats_row others; /* calls that found no room in rows */
	struct stats_row rows_ended; /* of processes whose rows were given up */
	struct stats_memory memory;
	struct stats_live live;  /* of the blocks that were asked for */
	struct stats_proc ended; /* of those whose records were given up; no pid */
};

/*
 * Calls of a function that were made in those of another path, or in none that is probed. Of
 * a function that is called again inside of itself what is called there is made in the path of
 * the outer call. One without a function has the calls by all paths that found no room.
 */
struct stats_path {
	uint32_t id;     /* from 1 on, as long as the group is attached */
	uint32_t caller; /* id, or 0 */
	uint32_t fn;     /* or STATS_NO_FN */
	uint64_t calls;
	/* Of those that have returned; as the probes' own time varies, it may be below 0. */
	int64_t self_ns;
};
#define STATS_NO_FN UINT32_MAX

/* What libfuncsnoop-gpu.so has last said of itself in a process. */
struct stats_gpu {
	pid_t pid;
	struct fsn_gpu said;
};

struct stats {
	const struct group *group;      /* outlives this */
	uint64_t attached_ns, since_ns; /* CLOCK_REALTIME */
	uint64_t read_ns, read_mono_ns; /* when reading began: CLOCK_REALTIME, _MONOTONIC */
	struct stats_func *funcs;       /* all of the group, by number */
	size_t func_cnt;
	struct stats_path *paths; /* by id; NULL where not asked for, or not kept (FSN_OPT_NESTING) */
	size_t path_cnt;
	uint64_t lost_codes, lost_processes, lost_slow;
	unsigned int folds; /* how often since the attach what ended processes had was folded */
	bool blocks_known;   /* live blocks were looked at: by row, and */
	struct stats_holder *holders; /* by process and function, sorted by both */
	size_t holder_cnt;
	bool keys_known;     /* what rows are of may be read */
	void *places;        /* of rows */
	struct stats_spread **spreads; /* the same */
	size_t spread_cnt;
	uint64_t lost_stacks; /* stacks for which there was no room */
	uint64_t cpus_off; /* how often since the attach a CPU that is sampled was switched off */
	uint64_t lost_python; /* frames of an interpreter in whose place those of Python are not */
	uint64_t lost_texts; /* keys that could not be read */
	uint64_t lost_conditions; /* calls that do not count: a condition's text could not be read */
	uint64_t bulk_frees; /* calls since the attach that took back more than is known */
	bool has_missed;
	uint64_t missed; /* since the attach: entries and ends for which the kernel left programs out */
	uint64_t crowded; /* of no_slot: their process had too many calls in flight */
	pid_t crowd_pid;  /* the last such process */
	/* Of no_slot, too: a signal's handler made them on a stack of its own. */
	uint64_t other_stack;
	uint64_t too_deep; /* deeper than return probes are tracked */
	/* How often processes were held, how long, and the calls of no_slot that began then. */
	uint64_t pauses, paused_ns, paused_calls;
	uint64_t slow_total;
	struct stats_gpu *gpus; /* of a group of what GPUs do; by pid */
	size_t gpu_cnt;
	struct cgroups *cgroups; /* of processes and keys */
};

/* Where a process of @s runs; NULL: that is not known. It belongs to @s. */
static inline const struct cgroup *stats_cgroup(const struct stats *s, const struct stats_proc *p)
{
	return cgroups_find_process(s->cgroups, p->cgroup, p->pid, p->start_ns);
}

/*
 * Reads everything, with @paths who called whom, too, and with @lines those of callers. Free with stats_free(). Takes no lock,
 * but to get past resets without end the shared one of @fs, the group's folder, for a moment.
 */
int stats_read(struct bpffs *fs, const struct group *g, bool paths, bool lines,
	struct stats **ret_stats, struct err *err);
void stats_free(struct stats *s);

struct fsn_file_id;

/*
 * Where the file lies whose name programs have kept, though nobody may map it any more. False where
 * it has none, or another file lies there.
 */
bool group_file_path(const struct group *g, const struct fsn_file_id *id, char path[PATH_MAX]);

/* The same, without paths; of blocks of memory only those that are @older_ns old, or more. */
int stats_read_old(struct bpffs *fs, const struct group *g, uint64_t older_ns, bool lines,
	struct stats **ret_stats, struct err *err);

/*
 * Finds out what callers and kernels are called of rows that have come since *@seen were there,
 * while their processes are: readers know them from then on. What can't be done now may be later.
 */
void stats_name_rows(struct bpffs *fs, const struct group *g, uint32_t *seen);

/*
 * Only rows of keys, with those that had no call since the last reset, and only where keys are
 * places that have names: .place, .kernel. For who shows single calls. Free with stats_free().
 */
int stats_read_names(const struct group *g, struct stats **ret_stats, struct err *err);

/* That of a call of @fn in a process, or NULL. A reused pid's may be that of another process. */
const struct stats_row *stats_row_find(
	const struct stats *s, uint32_t fn, pid_t pid, const struct fsn_key *key);

/*
 * Only the calls of all functions since the last reset, for `list`: added up for each enum
 * fsn_exit in ret_calls[FSN_EXIT_CNT]. *@ret_shed: functions of which stats_is_shed().
 */
int stats_calls(const struct group *g, uint64_t *ret_calls, size_t *ret_shed, struct err *err);

/*
 * True if some calls of @fn, whose counts are @n, were not timed because the group was above its bound
 * on overhead.
 */
bool stats_is_shed(const struct group *g, uint32_t fn, const struct fsn_counts *n);

/*
 * What the probes of a group have taken since the last reset, by hits of each kind and what
 * was measured of it; false where that was not known when it was attached.
 */
bool stats_cost(const struct group *g, uint64_t *ret_ns);

/* The remembered slow calls since the last reset, oldest first; free() them. */
int stats_slow_calls(const struct group *g, struct fsn_slow **ret_calls, size_t *ret_cnt,
	struct err *err);

/* Calls whose end is not followed; and with them those whose end may be lost, which may fall. */
uint64_t stats_func_unfollowed(const struct stats_func *f);
uint64_t stats_func_untimed(const struct stats_func *f);

/*
 * What its calls spent in themselves, where it is known (.nested): without what they called
 * that is probed; and what they took when a call inside of another of it counts with that.
 */
uint64_t stats_func_self(const struct stats_func *f);
uint64_t stats_func_outer(const struct stats_func *f);
uint64_t stats_proc_self(const struct stats_proc *p);

/* Whether anything is known of the function: a call, or an end. */
bool stats_func_called(const struct stats_func *f);

/* Whether there are durations, and hist_percentile() of them. */
bool stats_func_samples(const struct stats_func *f);
uint64_t stats_func_percentile(const struct stats_func *f, unsigned int permille);

/*
 * Resets of @cnt groups, open for writing, the lock of whose bpffs is held. End with
 * resets_free(); each group is to be there until its turn is over.
 */
struct resets;
struct resets *resets_new(struct group *const *groups, size_t cnt);
void resets_free(struct resets *resets);
DEFINE_CLEANUP(resets, struct resets *, resets_free)
#define _cleanup_resets_ __cleanup(cleanup_resets)

/*
 * Reads the statistics of group @i and begins new ones. Between the two @deliver is called with
 * what was read; only if it returns 0 does the reset take place, so that what could not be
 * delivered is not lost. Each call and each minimum and maximum is in exactly one reading.
 * @deliver may be NULL, or begin the next group's. Groups have their turns in their order, from 0
 * on; that of one that fails does not change the others'.
 */
int stats_reset(struct resets *resets, size_t i,
	int (*deliver)(const struct stats *s, void *arg), void *arg, struct err *err);

/*
 * When half of the table is in use, adds records of processes that have ended up in their
 * functions' rows, oldest processes first, until a quarter is, and frees them; likewise rows of
 * keys, when half of theirs are: the sum of all records and rows stays, at every moment and for every reader. Does nothing where it
 * can't be told that a process has ended (in another pid or time namespace), and while
 * another command has the lock of @fs. @g must be open for writing.
 */
int procs_fold(struct bpffs *fs, const struct group *g, struct err *err);

/* Bounds of bucket @i: [*ret_ge, *ret_lt) ns. */
void hist_bounds(unsigned int i, uint64_t *ret_ge, uint64_t *ret_lt);

/*
 * The duration below which @permille of all calls in @bucket are: the middle of its bucket,
 * kept within [min, max]; at most 6.25 % off. There must be at least one call.
 */
uint64_t hist_percentile(
	const uint64_t *bucket, unsigned int permille, uint64_t min_ns, uint64_t max_ns);

DEFINE_CLEANUP(stats, struct stats *, stats_free)
#define _cleanup_stats_ __cleanup(cleanup_stats)

/* --- what its programs take of the machine's time ------------------------------------------- */

/*
 * Where a number comes from: the kernel's own accounting of the programs' run time, without
 * the traps (of intervals, while kernel.bpf_stats_enabled is 1, and for CAP_SYS_ADMIN), else hits of
 * probes times what one costs on this machine, traps included (calibrate()), and by how much the
 * programs ran longer than then, as a sample of the hits has measured (bpf/run.bpf.h).
 */
enum cost_source { COST_UNKNOWN, COST_ACCOUNTED, COST_CALIBRATED };

/*
 * What hits took, by each kind of probe: entries, ends with or without their call, and jumps
 * that were looked at. What only the entry of a call takes is that of a call whose end is not
 * looked for; a jump that does not leave takes as much as an emulated entry. Run times that the
 * programs have measured, longer or shorter than those of the calibration, are in it: keys, stacks,
 * memory and streams.
 */
uint64_t cost_of_hits(const struct price *price, enum price_site site, enum price_end end,
	const struct fsn_counts *n);

struct cost_reading {
	enum cost_source source;
	uint64_t at_ns; /* CLOCK_MONOTONIC */
	uint64_t ns;    /* taken since some moment in the past; an estimate: since the reset */
	uint64_t elapsed_ns; /* since the reset; of an estimate only */
};

/* What programs take, in ns of each second. */
struct cost {
	enum cost_source source; /* COST_UNKNOWN: not known */
	uint64_t ns_per_s;
};

/* Between two readings of intervals; not known if their sources differ, or a reset came between. */
struct cost cost_between(const struct cost_reading *before, const struct cost_reading *after);

/* The mean since the reset or the attach; an estimate only. */
struct cost cost_since_reset(const struct cost_reading *reading);

/*
 * Reads what the BPF programs of @cnt groups have taken. The kernel accounts only while that is
 * switched on, so that its readings are for intervals: since the reset, there are estimates.
 * The reading of a group that is NULL, or that cannot be read, has no source.
 */
enum cost_span { COST_SINCE_RESET, COST_INTERVAL };
void cost_read(struct group *const *groups, size_t cnt, enum cost_span span,
	struct cost_reading *ret_readings);

/* "kernel", "calibration" or NULL: the word of JSON documents. */
const char *cost_source_name(enum cost_source source);

#endif
