/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the readers of statistics and by the reset. */
#ifndef FUNCSNOOP_STATS_INTERNAL_H
#define FUNCSNOOP_STATS_INTERNAL_H

#include "code/kernels.h"
#include "elf/elf_file.h"
#include "group/records.h"
#include "stats/stats.h"

/* The part of the maps to read: since which baseline, and of which epochs. */
struct stats_view {
	struct fsn_ctl ctl;
	uint32_t first, last; /* epochs, both included; they wrap at FSN_EPOCH_MAX */
	bool paths;           /* read call paths */
	bool lines;           /* read source lines of callers */
	bool idle;            /* include rows of keys without a call since the reset */
	uint64_t older_ns;    /* only allocations of at least this age */
};

static inline bool view_has(const struct stats_view *v, uint32_t epoch)
{
	return ((epoch - v->first) & FSN_EPOCH_MAX) <=
		((v->last - v->first) & FSN_EPOCH_MAX);
}

/*
 * Counters of each function since the group was attached, over all shards: what a baseline
 * is made of; .carried is what is in flight now. Likewise of each path, if they are wanted.
 */
struct stats_raw {
	struct fsn_base *total;
	struct fsn_path *paths;
	struct fsn_memory *memory; /* NULL: none is followed */
	struct fsn_row *rows; /* of keys, and the others of each function: rows_cnt() */
};

/* How often the kernel has left out programs of the group; false: it is not told to the caller. */
bool stats_missed(const struct group *g, uint64_t *ret_missed);

/* A sum of times without the probes' own, in two's complement, that may be under 0. */
static inline uint64_t stats_signed(uint64_t sum)
{
	return (int64_t)sum < 0 ? 0 : sum;
}

/* Sums of times, @total and what is in it: the rest, 0 when that is less than nothing. */
static inline uint64_t stats_less(uint64_t total, uint64_t in_it)
{
	return stats_signed(total - in_it);
}

void stats_raw_done(struct stats_raw *raw);

/* The map that holds the buckets of the baseline in use, or of the idle one. */
static inline int base_hist_fd(const struct group *g, uint32_t index)
{
	return group_fd(g, index ? MAPID_BASE_HIST1 : MAPID_BASE_HIST0);
}

static inline int base_fd(const struct group *g, uint32_t index)
{
	return group_fd(g, index ? MAPID_BASE1 : MAPID_BASE0);
}

static inline int base_rows_fd(const struct group *g, uint32_t index)
{
	return group_fd(g, index ? MAPID_BASE_ROWS1 : MAPID_BASE_ROWS0);
}

/* The map that holds the paths of the baseline in use, or of the idle one. */
static inline int base_paths_fd(const struct group *g, uint32_t index)
{
	return group_fd(g, index ? MAPID_BASE_PATHS1 : MAPID_BASE_PATHS0);
}

/* detail.c: add to .unplaced what one record has of epochs that count. */
void stats_add_unplaced(
	struct stats_func *f, const struct fsn_stat *stat, const struct stats_view *view);

/* Fill in .codes and .procs of all functions, and .paths. 0 or a negative errno. */
int stats_read_codes(const struct group *g, const struct stats_view *view, struct stats *s);

/* Reads where calls blocked; nothing if the reader has no permission. */
void stats_read_sleeps(const struct group *g, const struct stats_view *view, struct stats *s);
int stats_read_procs(const struct group *g, const struct stats_view *view, struct stats *s);
int stats_read_paths(const struct group *g, const struct stats_view *view, struct stats *s,
	struct stats_raw *raw);

static inline int base_memory_fd(const struct group *g, uint32_t index)
{
	return group_fd(g, index ? MAPID_BASE_MEMORY1 : MAPID_BASE_MEMORY0);
}

/*
 * rows.c: .memory of all functions; and .holders, with what each row of keys has, by its
 * number: NULL where no blocks are followed, or who reads may not see them. Free *@ret_rows.
 */
int stats_read_memory(
	const struct group *g, const struct stats_view *view, struct stats *s, struct stats_raw *raw);

/* rows.c: the same for .rows, .others; *@ret_raw are the rows as they are. */
int stats_read_rows(const struct group *g, const struct stats_view *view, struct stats *s,
	struct fsn_row **ret_raw);

/*
 * detail.c: how times of rows are spread, of all epochs that count, by row and bucket. Free with
 * spreads_done().
 */
struct spread_cell {
	struct fsn_spread_at at;
	uint64_t cnt;
};

struct spreads {
	struct spread_cell *cells;
	size_t cnt;
	bool lost; /* there are not all */
};

void spreads_read(const struct group *g, const struct stats_view *view, struct spreads *ret);
void spreads_done(struct spreads *spreads);

/* That of @row, which is the @nth one, as its own and of @s, where all its times are known. */
void spread_take(const struct spreads *spreads, uint32_t nth, struct stats *s, struct stats_row *row);
void spreads_forget(struct stats *s);

/* callers.c: the same for .gpus. */
void stats_read_gpus(const struct group *g, struct stats *s);

/* What a row has had since the baseline, in which it was as @base. */
struct stats_row rows_since(
	const struct stats_view *view, const struct fsn_row *now, const struct fsn_row *base);

/* --- callers.c: where calls were made ---------------------------------------------------------- */

/* Cache of processes and files, for one reading. */
struct callers;
struct callers *callers_new(void);
void callers_free(struct callers *c);
DEFINE_CLEANUP(callers, struct callers *, callers_free)

/* A mapped file of code: what is known of it, once. */
struct code_known {
	struct elf_file *elf; /* NULL: it can't be read */
	struct kernel_names kernels;
	bool kernels_read;
};

/* A place of code. */
struct code_at {
	struct code_known *known; /* NULL: nothing is, and .addr says nothing */
	const char *file;         /* without its directory */
	uint64_t offset, addr;    /* in the file, and as its symbols have it */
};

/*
 * What lies before @addr in a process, which must run: "function+0x1f", demangled, or
 * "file+0x1f" where no symbol is known. False when it has ended, or nothing is mapped there.
 */
bool callers_name(struct callers *c, pid_t pid, uint64_t start_ns, uint64_t addr,
	struct fsn_caller *ret);

/*
 * The same by what programs kept of it, whatever has become of the process: by its file, where
 * that is still what it was, else "file+0x1f" by the name that it had.
 */
bool callers_name_kept(struct callers *c, const struct group *g, const struct fsn_called *called,
	struct fsn_caller *ret);

/*
 * The same with the line of the source behind it, " (leak.c:42)", and the function that is inlined
 * there, " (leak.c:42 in get)". @called is what programs kept of it, or NULL. False: it is not known.
 */
bool callers_line(struct callers *c, const struct group *g, const struct stats_row *row,
	uint64_t addr, const struct fsn_called *called, char *text, size_t size);

/* One text for all that are alike; it lives as long as @s. */
const char *callers_intern(struct stats *s, const char *text);
void callers_done(struct stats *s);

/* --- callers.c: which kernels were launched ---------------------------------------------------- */

/* A launch as its row has it. */
struct launch {
	pid_t pid;
	uint64_t start_ns; /* of the process */
	struct fsn_launch by;
	bool compiled; /* only code that the compiler makes for one kernel calls that function */
};

/* Handles that processes were given while the group has looked on. */
struct handle {
	struct fsn_handle key;
	struct fsn_handle_of of;
};
struct handles {
	struct handle *handles; /* sorted */
	size_t cnt;
};
/* Those of processes that have ended go from the group's map. */
void handles_read(const struct group *g, struct handles *ret_handles);
void handles_done(struct handles *h);

/*
 * The kernel of a launch: by its name, demangled, or "file+0x1f" where it is code that has none.
 * False when only a handle is known of it.
 */
bool kernel_name(
	struct callers *c, const struct handles *h, const struct launch *l, struct fsn_kernel *ret);

/* How many rows programs use, behind which two for each function stand; 0 when nothing is told apart. -EPROTO. */
int rows_cnt(const struct group *g, uint32_t *ret_cnt);

/* Reads all of the group as @view has it; @ret_raw may be NULL. */
int stats_collect(const struct group *g, const struct stats_view *view,
	struct stats **ret_stats, struct stats_raw *ret_raw, struct err *err);

/* --- the table of processes: which of its records count --------------------------------------- */

static inline uint32_t procs_fn(uint64_t key)
{
	return (key & FSN_FN_MASK) - 1;
}

/* 0: it is a row of ended processes. */
static inline pid_t procs_pid(uint64_t key)
{
	return key >> FSN_PROC_TGID_SHIFT & ((1U << FSN_KEY_TGID_BITS) - 1);
}

/* Whether a record or row with this key counts in @view. */
static inline bool procs_counts(const struct stats_view *view, uint64_t key)
{
	uint64_t mark = FSN_PROC_MARK(view->ctl.fold);

	if (!key || key == FSN_PROC_LOCKED || (key & FSN_PROC_MARK(1)) == mark)
		return false;
	return view_has(view, key >> FSN_PROC_EPOCH_SHIFT & FSN_EPOCH_MAX);
}

/* Whether a row of keys with this tag does. */
static inline bool procs_row_counts(const struct stats_view *view, uint64_t tag)
{
	return tag && tag != FSN_PROC_LOCKED &&
		(tag & FSN_PROC_MARK(1)) != FSN_PROC_MARK(view->ctl.fold);
}

/* How many records programs use; behind them stand the rows. -EPROTO, or what bpf(2) gives. */
int procs_cnt(const struct group *g, uint32_t *ret_cnt);

#endif
