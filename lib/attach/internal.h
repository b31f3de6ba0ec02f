/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of attach and calibrate; included only by them. */
#pragma once

#include "attach/attach.h"
#include "base/err.h"
#include "base/text.h"
#include "base/util.h"
#include "group/filter.h"
#include "group/keys.h"
#include "group/types.h"
#include "kernel/kernel.h"
#include "kernel/trace.h"
#include "pins/maps.h"
#include "shared/layout.h"
#include "shared/words.h"
#include "target/draft.h"
#include "target/kind.h"
#include "unwind/unwind.h"

/* attach.c: -EEXIST when there is a group of that name. */
int attach_check_absent(const struct bpffs *fs, const char *name, struct err *err);

/* attach.c: true if links of @mode insert breakpoints only into the processes of the filter. */
bool attach_links_by_pid(
	const struct draft *draft, const struct attach_opts *opts, enum link_mode mode);

/* calibrate.c: the counters of the group whose pins are in @dir_fd, and how many there are. */
int counters_map(int dir_fd, struct map_mapping *ret_stats, uint32_t *ret_rows);

/* stacks.c: a file that may be on a stack. */
struct stack_file {
	struct elf_file *elf;
	struct elf_file *owned; /* the same, or NULL */
	const char *path;       /* owned */
	void *page;             /* a mapping here, so that the kernel reports .id; or NULL */
	struct fsn_file_id id;  /* identity of the file in stack walks */
	bool known;             /* .id is set */
	bool read;              /* .rows or .code is set: stack_files_read() */
	int code;
	struct unwind_rows rows;
};
void stack_file_done(struct stack_file *file); /* does not unmap .page */

/*
 * Reads the rows of all known files with one thread per CPU. The calling thread reports to
 * @progress (or NULL) how many bytes of @total are read, and once that all are.
 */
typedef void (*stack_progress_fn)(uint64_t bytes, uint64_t total, void *arg);
void stack_files_read(struct stack_file *files, size_t cnt, stack_progress_fn progress, void *arg);

struct engine;

/*
 * stacks.c: runs iterator program @prog_fd on the tasks of @info, before 6.1 on all tasks. Returns
 * a descriptor that reads its output and that the caller closes, or -errno of bpf(2).
 */
union bpf_iter_link_info;
int iterate_tasks(int prog_fd, union bpf_iter_link_info *info);

/*
 * stacks.c: loads the unwind tables of the files that may be on stacks of @draft's calls: the
 * probed files, and those that the processes of @opts map or the program that they will execute
 * needs. *@ret_left_out reports files without one. Does nothing if @opts has no stacks.
 */
int stacks_prepare(struct engine *e, const struct draft *draft, const struct attach_opts *opts,
	struct left_out *ret_left_out, struct err *err);

/* --- engine.c: programs and maps of a group that is being made; it alone uses the skeleton --- */

struct engine;

/* A draft and its description, for which programs are loaded, and what follows from them. */
struct engine_spec {
	const struct draft *draft;
	const struct attach_opts *opts;
	const struct description *desc;
	const struct probes *probes;
	enum link_mode mode; /* not LINK_AUTO */
	uint32_t hit_ns, step_ns; /* of a probe that measures nothing, emulated and single-stepped */
	uint32_t rate;       /* of samples, Hz */
	uint32_t runs_bits;  /* measure run time in one hit of 1 << N */
	enum kind_stacks stacks;
	uint32_t waits[WAIT_CNT]; /* 1 + number of the target for this wait; 0: no target */
	bool traces_calls;   /* some target is a system call, */
	bool futex_waits;    /* and one is the calls of futex(2) that wait */
	/* Functions of the kernel with a program for each: one of them, or NULL. */
	const struct link_probes *clone_first;
	unsigned int progs;  /* programs to load, as a mask of 1 << enum engine_prog */
	bool python; /* stacks include Python frames */
	bool stack_holds; /* a thread that meets a file without an unwind table waits for it */
	bool pauses;      /* processes may be stopped; subtract that from their calls */
	bool crashes;     /* record processes that die */
	bool samples; /* some function is sampled, as its struct fsn_conf says */
	uint32_t bound; /* overhead limit of the BPF programs, in millionths; 0: none */
};

/*
 * Loads the BPF programs and creates the maps, sized for @spec. Free with engine_free(), which
 * keeps everything that is pinned. Returns -EPERM without CAP_BPF and CAP_PERFMON.
 */
int engine_new(const struct engine_spec *spec, struct engine **ret_engine,
	struct err *err);
void engine_free(struct engine *e);

/* Returns a hash of the BPF programs of this build. */
uint64_t engine_programs_id(void);

/*
 * Loads only the iterator that reports the registers of sleeping threads. Its descriptor belongs to
 * the engine. Errors are those of engine_new().
 */
int engine_new_threads(struct engine **ret_engine, int *ret_prog_fd, struct err *err);

/* A map's descriptor; it belongs to the engine. */
int engine_map_fd(const struct engine *e, enum map_id id);

/* The iterator that lists the mappings of this process; for stacks.c. */
int engine_maps_fd(const struct engine *e);

/*
 * Assigns the links from number @first_link on to place @i. Its hits count as hits of function
 * @leader, or of the first function if @leader is UINT32_MAX.
 */
int engine_set_place(
	struct engine *e, uint32_t i, uint32_t leader, uint32_t first_link, struct err *err);

/* Code ranges of indirect jump @i. @jump is a struct fsn_jump. */
struct fsn_jump;
int engine_set_jump(struct engine *e, uint32_t i, const struct fsn_jump *jump,
	struct err *err);

/* Writes the argument locations of events. */
int engine_set_sources(struct engine *e, const struct fsn_sources *sources, size_t cnt,
	struct err *err);

/* Pins all maps in @dir_fd. */
int engine_pin_maps(struct engine *e, int dir_fd, struct err *err);

/*
 * Sets which calls count; @has_condition if arguments also decide. Call it before engine_arm().
 * Errors are those of filter_write().
 */
int engine_set_filter(struct engine *e, const struct filter *filter, bool has_condition,
	struct err *err);

/*
 * Starts counting, with one store. @since_ns is now (CLOCK_REALTIME); counting stops at @until_ns
 * (CLOCK_MONOTONIC; 0: never).
 */
void engine_arm(struct engine *e, uint64_t since_ns, uint64_t until_ns, bool save_args);

/* Sets how much memory the maps that grow use. */
void engine_set_grown(struct engine *e, uint64_t bytes);

/* Excludes the system call in which @pid waits before execve(), as it is funcsnoop's own. */
void engine_set_held(struct engine *e, pid_t pid);

DEFINE_CLEANUP(engine, struct engine *, engine_free)
#define _cleanup_engine_ __cleanup(cleanup_engine)

/* --- links.c: attaches the BPF programs ------------------------------------------------------ */

/* BPF programs on tracepoints, kernel functions (fentry) and kprobes: bits of enum engine_prog. */
#define TRACING                                                                  \
	(1U << ENGINE_SYS_ENTER | 1U << ENGINE_SYS_EXIT | 1U << ENGINE_TRACE | \
		1U << ENGINE_WAIT)
#define FENTRY  (1U << ENGINE_FENTRY | 1U << ENGINE_FEXIT)
#define KPROBES (1U << ENGINE_KPROBE | 1U << ENGINE_KRETURN)

/* Only engine.c and links.c write to it. */
struct fsn_bpf;
struct engine {
	struct fsn_bpf *skel;
	enum link_mode mode;
	uint32_t stat_shards, hist_shards, path_shards; /* of fsn_stats, .. ; powers of two */
	uint32_t path_cnt; /* 0: paths are not recorded */
	uint32_t block_sets, slot_cnt;
	unsigned int links; /* their kinds: mask of enum link_mode */
	uint32_t filters; /* mask of FSN_FILTER_... */
	bool children, holds;
	uint32_t rate, sampled_cpus;
	bool preempted; /* link_trace_is_preempted(), if that matters */
	bool no_cfi;    /* the verifier rejects deriving rows of files without an unwind table */
	bool one_by_one; /* libbpf loads all programs itself, and logs why one is rejected */
	int task_work; /* bpf_kfuncs.task_work, if threads repeat walks that missed a page; else 0 */
	bool many_kprobes; /* by one link */
	struct clones *clones;
	size_t link_cnt; /* pinned so far */
};

struct bpf_program *engine_program(const struct engine *e, enum engine_prog prog);

/* Reports that @done probes of @total are attached; may be NULL. */
typedef void (*engine_progress_fn)(size_t done, size_t total, void *arg);

/*
 * Attaches @probes to the program and pins the links in @dir_fd as link_0, link_1, ... Session and
 * multi mode need one link for all probes; perf mode needs one per probe, so the limit of open
 * files is raised to its maximum. Only process @pid gets breakpoints, or all processes if it is 0.
 * A tracepoint gets one link and ignores @pid. The probes do nothing until engine_arm().
 *
 * Runs in a helper process (apart.h). Returns -EINTR if the helper process is asked to stop.
 */
int engine_attach(struct engine *e, enum engine_prog prog, const struct link_probes *probes,
	pid_t pid, int dir_fd, engine_progress_fn progress, void *arg, struct err *err);

/* Attaches @probes with one session or multi link, which is not pinned. */
int engine_link(struct engine *e, enum engine_prog prog, const struct link_probes *probes,
	pid_t pid, int *ret_fd, struct err *err);

/* If allocations are tracked: attaches the programs that drop those of processes that exit. */
int engine_reclaim(struct engine *e, int dir_fd, struct err *err);

/*
 * Attaches and pins the programs that record stacks of blocked calls, and processes that die, if they
 * are loaded.
 */
int engine_watch(struct engine *e, int dir_fd, struct err *err);

/*
 * Attaches and pins the programs that follow children, if the spec says so. Call it before
 * engine_arm(). If @from_fd is above 0, it is the process list of another group that already
 * follows them; all its processes are added to the list of this group.
 */
int engine_follow(struct engine *e, int from_fd, int dir_fd, struct err *err);

/* Pins the probe offsets in @dir_fd, before the first link is created: breaks_write(). */
_must_check_ int description_breaks(const struct probes *p, const struct draft *draft, int dir_fd,
	struct err *err);

/* --- links.c: copies of programs that libbpf has loaded ------------------------------------- */

struct clones;
struct bpf_program;

/*
 * Call it before the programs are opened. Programs that will have clones are then loaded for the
 * first function of @first, if it is not NULL, and for tracepoints if @traces. Free the clones
 * after the programs.
 */
int clones_new(const struct link_probes *first, bool traces, struct clones **ret_clones,
	struct err *err);
void clones_free(struct clones *c);

/* --- describe.c: the description of a group that its maps store ----------------------------- */

struct description {
	struct fsn_func *funcs; /* of the probed functions, in their order */
	struct fsn_conf *confs;
	struct fsn_cond *conds;
	struct fsn_rule *rules;  /* NULL: allocations are not tracked */
	struct fsn_keyed *keyed; /* NULL: no keys */
	struct fsn_said *said;
	struct fsn_lib *libs;
	struct type_records types;
	struct strtab text;
	unsigned int left_out; /* in it: as meta's */
	bool save_args; /* some function records slow calls, or a key is a communicator */
	bool typed;     /* some function of a file has declared arguments */
	struct keys_summary keys;
	uint32_t key_text[FSN_KEYS], sum_text[FSN_SUMS]; /* their names in .text */
	bool has_more;  /* some function has arguments that registers don't hold */
	bool judged;     /* some function may fail */
	bool zero_frees; /* some function has fsn_conf.zero */
	bool other_regs; /* some function's arguments are in other registers than C's, or unknown */
	bool wide;      /* some system call has text */
	bool sheds;     /* the BPF programs limit the calls of some function */
};

/*
 * Describes @draft. @price is the overhead to subtract from measured times, or NULL. @mode is the
 * kind of link that the group will have.
 */
int description_new(const struct draft *draft, const struct attach_opts *opts,
	const struct price *price, enum link_mode mode, struct description *ret_desc, struct err *err);
void description_done(struct description *d);

/* Writes @d into the maps of the engine, and @meta with the additions of @d. */
int description_write(const struct description *d, const struct draft *draft,
	const struct attach_opts *opts, struct engine *e, struct fsn_meta *meta, struct err *err);

/* --- budget.c: the cost of calls, and which functions to limit; pure --- */

/*
 * Costs are in nanoseconds per second of the program's own CPU time, which excludes that of probes.
 * If probes slow a program down, it makes fewer calls per second, but not per own CPU time.
 */
struct budget_func {
	uint64_t calls;     /* during the trial */
	uint64_t own_ns;    /* CPU time of the program itself during the trial */
	uint32_t whole_ns;  /* cost of a timed call */
	uint32_t entry_ns;  /* cost of a counted call */
	bool can_sample;    /* untimed calls do not pay for an exit probe */
	bool exact;         /* requested by name: never limited, and not part of the cost */
	enum limit limit;   /* the weakest limit that it may have */
	uint32_t sample;    /* LIMIT_SAMPLED: one call in N is timed */
	uint64_t calls_per_s;
};

/* A program while probes ran. Times in ns. */
struct budget_span {
	uint64_t cost_ns; /* of the probes, by calibration */
	uint64_t used_ns; /* CPU time, including the probes */
	uint64_t wall_ns;
	uint64_t own_ns;  /* CPU time of the program itself: budget_own() */
};

/*
 * Sets .own_ns from the other times, to more than 0. It is at least 1/20 of the CPU time that the
 * program used, and an idle program counts as using 1/10 of a CPU.
 */
void budget_own(struct budget_span *span);

/* True if the probes cost more than @share of the own time. */
bool budget_is_over(const struct budget_span *span, uint32_t share);

/* Returns the cost of a function that is not limited: ns of a second of own CPU time. */
uint64_t budget_whole(const struct budget_func *f);

/*
 * Returns the own CPU time to use if functions have slowed the program down in @span. It is
 * increased so that only the most expensive functions exceed @share; the others are measured again
 * without them. It is at least what an idle process counts as using.
 */
uint64_t budget_blurred_own(const struct budget_span *span, uint32_t share);

/* Returns the cost of @cnt functions under their present limits. */
uint64_t budget_cost(const struct budget_func *funcs, size_t cnt);

/*
 * Leaves functions out, the most expensive first, until the entries of the others cost at most
 * @share. Returns how many.
 */
size_t budget_leave_out(struct budget_func *funcs, size_t cnt, uint32_t share);

/*
 * Limits functions, always the most expensive one that can be limited further, until they cost at
 * most @share.
 */
void budget_fit(struct budget_func *funcs, size_t cnt, uint32_t share);

/* budget.c: true if @t of @draft must not be limited. */
bool budget_is_exact(const struct draft *draft, const struct target *t);

/* --- budget.c: how often functions are called, before their calls are timed ------------------- */

/*
 * Finds the processes whose CPU time bounds the cost of @draft: those of the filter, those that map
 * its files, or all.
 */
struct load;
int stage_load(const struct draft *draft, const struct attach_opts *opts, struct load *ret_load,
	struct err *err);

/* attach.c: creates an unnamed group, calls @work instead of attaching it, and removes it. */
struct probes;
typedef int (*attach_work_fn)(
	struct engine *e, const struct probes *probes, bool by_pid, void *arg, struct err *err);
int attach_bare(const struct draft *draft, const struct attach_opts *opts, struct bpffs *fs,
	attach_work_fn work, void *arg, struct err *err);
