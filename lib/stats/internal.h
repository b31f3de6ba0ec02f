/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the readers of statistics and by the reset. */
#pragma once

#include "code/cuda.h"
#include "elf/elf_file.h"
#include "group/records.h"
#include "stats/stats.h"

/* The part of the maps to read: since which baseline, and of which epochs. */
struct stats_view {
	struct fsn_ctl ctl;
	uint32_t first, last; /* epochs, both included; they wrap at FSN_EPOCH_MAX */
	bool paths;           /* read call paths */
	bool lines;           /* read source lines of callers */
	bool counts; /* read only counts, calls in progress and memory of functions */
	bool idle;            /* include rows of keys without a call since the reset */
	uint64_t older_ns;    /* only allocations of at least this age */
};

static inline bool view_has(const struct stats_view *v, uint32_t epoch)
{
	return ((epoch - v->first) & FSN_EPOCH_MAX) <=
		((v->last - v->first) & FSN_EPOCH_MAX);
}

/*
 * Counters since the attach, summed over all shards. A reset stores them as the next baseline.
 * .carried of a function is its number of calls in flight now.
 */
struct stats_raw {
	struct fsn_base *total;
	struct fsn_path *paths;    /* NULL: not requested or not kept */
	struct fsn_memory *memory; /* NULL: allocations are not tracked */
	struct fsn_row *rows; /* rows of keys, then the others of each function: rows_cnt() */
};

/* Returns a sum of corrected times, which may be negative (two's complement), but at least 0. */
static inline uint64_t stats_signed(uint64_t sum)
{
	return (int64_t)sum < 0 ? 0 : sum;
}

/* Returns @total without the part @in_it, but at least 0. */
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

/* detail.c: adds the epochs of @view in @stat to .unplaced of @f. */
void stats_add_unplaced(
	struct stats_func *f, const struct fsn_stat *stat, const struct stats_view *view);

/* Fill in .codes and .procs of all functions, and .paths. Return 0 or a negative errno. */
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

/* rows.c: reads .memory of all functions, and the calls that freed in bulk. */
int stats_read_memory(
	const struct group *g, const struct stats_view *view, struct stats *s, struct stats_raw *raw);

/* rows.c: reads .rows, .others, .rows_ended and .holders. *@ret_raw: the rows since the attach. */
int stats_read_rows(const struct group *g, const struct stats_view *view, struct stats *s,
	struct fsn_row **ret_raw);

/*
 * detail.c: reads the distributions of durations of rows, for the epochs of @view, sorted by row
 * and bucket. Free with spreads_done().
 */
struct spread_cell {
	struct fsn_spread_at at;
	uint64_t cnt;
};

struct spreads {
	struct spread_cell *cells;
	size_t cnt;
	bool lost; /* incomplete */
};

void spreads_read(const struct group *g, const struct stats_view *view, struct spreads *ret);
void spreads_done(struct spreads *spreads);

/* Sets .spread of @row, which was the @nth row created, if it is complete. @s owns it. */
void spread_take(const struct spreads *spreads, uint32_t nth, struct stats *s, struct stats_row *row);
void spreads_forget(struct stats *s);

/* callers.c: the same for .gpus. */
void stats_read_gpus(const struct group *g, struct stats *s);

/* The counters that rows of keys have in the map and in struct fsn_proc_counts. */
#define ROW_COUNTS(X) \
	X(calls) X(returns) X(total_ns) X(errors) X(slow) X(on_cpu_ns) X(queued_ns) X(blocked_ns)

/* Returns what row @now has counted since the baseline, in which it was @base. */
struct stats_row rows_since(
	const struct stats_view *view, const struct fsn_row *now, const struct fsn_row *base);

/* --- callers.c: where calls were made ---------------------------------------------------------- */

/* Cache of processes and files, for one reading. */
struct callers;
struct callers *callers_new(void);
void callers_free(struct callers *c);
DEFINE_CLEANUP(callers, struct callers *, callers_free)

/* A mapped file of code, read once. */
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
 * Names the code before return address @addr in a running process: "function+0x1f", demangled, or
 * "file+0x1f" without a symbol. With @is_data, names the static data at @addr: "variable",
 * "variable+0x10", or "file+0x4010" with an address as in the file's symbol table. Returns false if the
 * process has exited, if the file of place_word() @word is not mapped there (0: any file), and for other
 * memory, such as the heap.
 */
bool callers_name(struct callers *c, pid_t pid, uint64_t start_ns, uint64_t addr, uint64_t word,
	bool is_data, struct fsn_caller *ret);

/*
 * The same from the record of the BPF programs; the process may have exited. If that file cannot be
 * found any more or has changed, returns "file+0x1f" with the recorded file name, and false for data.
 */
bool callers_name_kept(struct callers *c, const struct group *g, const struct fsn_called *called,
	uint64_t word, bool is_data, struct fsn_caller *ret);

/*
 * Writes the source line of @addr as " (leak.c:42)", or " (leak.c:42 in get)" if a function is
 * inlined there. @called is the record of the BPF programs, or NULL. Returns false if the line is
 * not known.
 */
bool callers_line(struct callers *c, const struct group *g, const struct stats_row *row,
	uint64_t addr, uint64_t word, const struct fsn_called *called, char *text, size_t size);

/* Returns the copy of @text that @s owns. */
const char *callers_intern(struct stats *s, const char *text);
void callers_done(struct stats *s);

/* --- callers.c: which kernels were launched ---------------------------------------------------- */

/* A kernel launch, from its row. */
struct launch {
	pid_t pid;
	uint64_t start_ns; /* of the process */
	struct fsn_launch by;
	bool compiled; /* by a function that only the compiler's stub of one kernel calls */
};

/* Kernel handles that processes have created since the attach. */
struct handle {
	struct fsn_handle key;
	struct fsn_handle_of of;
};
struct handles {
	struct handle *handles; /* sorted */
	size_t cnt;
};
/* Reads the handles, and deletes those of exited processes if the group's map is half full. */
void handles_read(const struct group *g, struct handles *ret_handles);
void handles_done(struct handles *h);

/*
 * Finds the kernel of a launch: its demangled name, or "file+0x1f" if the code has no symbol.
 * Returns false if only a handle is known.
 */
bool kernel_name(
	struct callers *c, const struct handles *h, const struct launch *l, struct fsn_kernel *ret);

/*
 * Counts the rows of keys, including one per function for dropped calls; 0 without keys. The map
 * has two more per function, for exited processes. Returns 0 or -EPROTO.
 */
int rows_cnt(const struct group *g, uint32_t *ret_cnt);

/*
 * Reads all statistics of @view. The caller frees *@ret_stats with stats_free(), and *@ret_raw, which
 * may be NULL, with stats_raw_done(). Returns 0, -EPROTO if a map is damaged, or an error of bpf(2).
 */
int stats_collect(const struct group *g, const struct stats_view *view,
	struct stats **ret_stats, struct stats_raw *ret_raw, struct err *err);

/* --- records of processes: which of them count ------------------------------------------------ */

static inline uint32_t procs_fn(uint64_t key)
{
	return (key & FSN_FN_MASK) - 1;
}

/* Returns 0 for the row of exited processes. */
static inline pid_t procs_pid(uint64_t key)
{
	return key >> FSN_PROC_TGID_SHIFT & ((1U << FSN_KEY_TGID_BITS) - 1);
}

/* True if a record or row with this key counts in @view. */
static inline bool procs_counts(const struct stats_view *view, uint64_t key)
{
	uint64_t mark = FSN_PROC_MARK(view->ctl.fold);

	if (!key || key == FSN_PROC_LOCKED || (key & FSN_PROC_MARK(1)) == mark)
		return false;
	return view_has(view, key >> FSN_PROC_EPOCH_SHIFT & FSN_EPOCH_MAX);
}

/* True if a row of keys with this tag counts in @view. */
static inline bool procs_row_counts(const struct stats_view *view, uint64_t tag)
{
	return tag && tag != FSN_PROC_LOCKED &&
		(tag & FSN_PROC_MARK(1)) != FSN_PROC_MARK(view->ctl.fold);
}

/*
 * Counts the records of processes. In the map the rows of exited processes follow them. Returns 0,
 * -EPROTO, or -errno of bpf(2).
 */
int procs_cnt(const struct group *g, uint32_t *ret_cnt);
