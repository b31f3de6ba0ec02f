/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of attach and calibrate; included only by them. */
#ifndef FUNCSNOOP_ATTACH_INTERNAL_H
#define FUNCSNOOP_ATTACH_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attach/attach.h"
#include "base/err.h"
#include "base/text.h"
#include "base/util.h"
#include "group/filter.h"
#include "group/keys.h"
#include "group/types.h"
#include "kernel/kernel.h"
#include "kernel/kfunc.h"
#include "pins/maps.h"
#include "shared/layout.h"
#include "shared/words.h"
#include "target/draft.h"
#include "target/kind.h"
#include "unwind/unwind.h"

/* attach.c: -EEXIST when there is a group of that name. */
int attach_check_absent(const struct bpffs *fs, const char *name, struct err *err);

/* attach.c: whether only the processes of the filter get breakpoints, by links of @mode. */
bool attach_links_by_pid(
	const struct draft *draft, const struct attach_opts *opts, enum link_mode mode);

/* calibrate.c: the counters of the group whose pins are in @dir_fd, and how many there are. */
int counters_map(int dir_fd, struct map_mapping *ret_stats, uint32_t *ret_rows);

/* stacks.c: a file that may be on a stack. */
struct stack_file {
	struct elf_file *elf;
	struct elf_file *owned; /* the same, or NULL */
	const char *path;       /* owned */
	void *page;             /* mapped here, to be told how walks will know it; or NULL */
	struct fsn_file_id id;
	bool known;             /* .id is */
	bool read;              /* .rows are, or why they could not be: stack_files_read() */
	int code;
	struct unwind_rows rows;
};
void stack_file_done(struct stack_file *file); /* but for .page */

/*
 * Reads the rows of all that are known, by as many threads as there are CPUs. @progress, or NULL,
 * is told by this one how many bytes of files are read, of how many; all of them once, at the end.
 */
typedef void (*stack_progress_fn)(uint64_t bytes, uint64_t total, void *arg);
void stack_files_read(struct stack_file *files, size_t cnt, stack_progress_fn progress, void *arg);

struct engine;

/*
 * stacks.c: what iterator program @prog_fd tells of the tasks of @info is to be read from the
 * descriptor that is returned, and belongs to the caller: before 6.1 of all tasks. -errno of bpf(2).
 */
union bpf_iter_link_info;
int iterate_tasks(int prog_fd, union bpf_iter_link_info *info);

/*
 * stacks.c: tables of all files that may lie on a stack of @draft's calls, as far as it is known
 * now: what is to be probed, and what processes of @opts map, or the program that they are to be.
 * *ret_left_out of them had no room. Nothing if no stacks are asked for.
 */
int stacks_prepare(struct engine *e, const struct draft *draft, const struct attach_opts *opts,
	struct left_out *ret_left_out, struct err *err);

/* --- engine.c: programs and maps of a group that is being made; it alone uses the skeleton --- */

struct engine;

struct engine_spec {
	size_t fn_cnt;    /* functions */
	size_t timed_cnt; /* of them those whose ends are followed; they come first */
	size_t lib_cnt;
	size_t jump_cnt;  /* indirect jumps to be compared with code ranges */
	size_t place_cnt; /* places that are none of the functions, to which jumps are followed */
	size_t type_cnt, name_cnt, text_bytes;
	size_t source_cnt;   /* places of events, whose arguments are somewhere */
	enum link_mode mode; /* not LINK_AUTO */
	uint32_t hit_ns, step_ns; /* of a probe that measures nothing, emulated and single-stepped */
	uint32_t rate;       /* of samples, Hz */
	uint32_t runs_bits;  /* run time is measured of one hit of 1 << N */
	bool follows;        /* some jump is followed */
	bool spans;          /* some target is one */
	enum kind_stacks stacks;
	uint32_t waits[WAIT_CNT]; /* 1 + the target that is this wait; 0: none is */
	uint32_t key_kinds[FSN_KEYS]; /* keys_kinds() */
	bool traces_calls;   /* some target is a system call */
	/* Functions of the kernel with a program for each: one of them, or NULL. */
	const struct link_probes *clone_first;
	unsigned int progs;  /* mask of 1 << enum engine_prog: those that are needed */
	bool processes;
	bool children; /* of the filter's processes are to be followed */
	bool split;    /* where its time went is kept of each call */
	bool nesting;  /* which call was made in which is followed */
	bool holds;    /* counted calls hold who makes them, and are not counted */
	const struct keys *keys; /* keys to group calls by; NULL: none */
	uint32_t stack_cnt, stacks_of; /* size of the stack table; one call in N */
	bool python; /* they have frames of Python */
	uint32_t block_cnt; /* blocks of memory that are followed; 0: none are */
	bool stack_holds; /* a thread that meets a file without an unwind table waits for it */
	bool pauses;      /* who makes calls may be held: that is no part of their time */
	bool key_wide;           /* some key takes more than a word */
	bool key_late;           /* some row is found when its call ends */
	bool asked;              /* some call returns the handle of a kernel */
	bool has_more; /* arguments on the stack or text are kept */
	bool judged;     /* some function may fail */
	bool zero_frees; /* some function has fsn_conf.zero */
	bool other_regs; /* some function's arguments are in other registers than C's */
	bool wide;     /* of texts FSN_STR_WIDE bytes */
	uint32_t sample;
	bool samples; /* of some functions, as their struct fsn_conf says */
	uint32_t bound; /* on overhead, in millionths, which the programs keep; 0: none */
};

/*
 * Loads the programs and makes the maps, sized for @spec. -EPERM without CAP_BPF and
 * CAP_PERFMON. Free with engine_free(), which leaves alone what is pinned.
 */
int engine_new(const struct engine_spec *spec, struct engine **ret_engine,
	struct err *err);
void engine_free(struct engine *e);

/* A number that other programs than these don't have. */
uint64_t engine_programs_id(void);

/*
 * The program alone that tells where threads sleep, an iterator: its descriptor belongs to the
 * engine. Errors as of engine_new().
 */
int engine_new_threads(struct engine **ret_engine, int *ret_prog_fd, struct err *err);

/* Shards of fsn_stats and fsn_hists, powers of two. */
uint32_t engine_stat_shards(const struct engine *e);
uint32_t engine_hist_shards(const struct engine *e);
uint32_t engine_path_shards(const struct engine *e);
uint32_t engine_block_sets(const struct engine *e);
uint32_t engine_path_cnt(const struct engine *e); /* places, 0: paths are not kept */

/* A map's descriptor; it belongs to the engine. */
int engine_map_fd(const struct engine *e, enum map_id id);

/* The program that tells what is mapped here; stacks.c. */
int engine_maps_fd(const struct engine *e);

/* Links that are pinned so far. */
uint32_t engine_link_cnt(const struct engine *e);

/*
 * Place @i has the links that were pinned since there were @first_link of them; its hits are among
 * those of function @leader, or of the first if that is UINT32_MAX.
 */
int engine_set_place(
	struct engine *e, uint32_t i, uint32_t leader, uint32_t first_link, struct err *err);

/* Code ranges of indirect jump @i. @jump is a struct fsn_jump. */
struct fsn_jump;
int engine_set_jump(struct engine *e, uint32_t i, const struct fsn_jump *jump,
	struct err *err);

/* Where the arguments of events are. */
int engine_set_sources(struct engine *e, const struct fsn_sources *sources, size_t cnt,
	struct err *err);

/* CPUs that a program takes samples of. */
uint32_t engine_sampled_cpus(const struct engine *e);

/* Mask of enum link_mode: what its programs are linked by. */
unsigned int engine_links(const struct engine *e);

/* Pins all maps in @dir_fd. */
int engine_pin_maps(struct engine *e, int dir_fd, struct err *err);

/*
 * Which calls are to count, @has_condition if arguments decide, too; before engine_arm().
 * Errors as of filter_write().
 */
int engine_set_filter(struct engine *e, const struct filter *filter, bool has_condition,
	struct err *err);

/*
 * From here on calls count: one store. @since_ns is CLOCK_REALTIME; @until_ns, CLOCK_MONOTONIC,
 * is when they don't any more, 0: never.
 */
void engine_arm(struct engine *e, uint64_t since_ns, uint64_t until_ns, bool save_args);

/* Its growing maps have @bytes of memory. */
void engine_set_grown(struct engine *e, uint64_t bytes);

/* Process @pid waits in a system call that is not its program's: that counts as none. */
void engine_set_held(struct engine *e, pid_t pid);

DEFINE_CLEANUP(engine, struct engine *, engine_free)
#define _cleanup_engine_ __cleanup(cleanup_engine)

/* --- links.c: where programs are put ---------------------------------------------------------- */

/* Programs of tracepoints, on kernel functions, and on kprobes: bits of enum engine_prog. */
#define TRACING                                                                  \
	(1U << ENGINE_SYS_ENTER | 1U << ENGINE_SYS_EXIT | 1U << ENGINE_TRACE | \
		1U << ENGINE_WAIT)
#define FENTRY  (1U << ENGINE_FENTRY | 1U << ENGINE_FEXIT)
#define KPROBES (1U << ENGINE_KPROBE | 1U << ENGINE_KRETURN)

/* Of engine.c, which makes it, and links.c. */
struct fsn_bpf;
struct engine {
	struct fsn_bpf *skel;
	enum link_mode mode;
	uint32_t stat_shards, hist_shards, path_shards, path_cnt, block_sets, slot_cnt;
	unsigned int links;
	uint32_t filters; /* mask of FSN_FILTER_... */
	bool children, holds, pauses, memory;
	bool sleeps; /* where calls sleep is seen at each switch */
	uint32_t rate, sampled_cpus;
	bool preempted; /* link_trace_is_preempted(), if that matters */
	bool no_cfi;    /* the verifier rejects deriving rows of files without an unwind table */
	uint32_t task_work; /* task_work_id(), if threads repeat walks that missed a page; else 0 */
	bool many_kprobes; /* by one link */
	struct clones *clones;
	size_t link_cnt;
};

struct bpf_program *engine_program(const struct engine *e, enum engine_prog prog);
struct bpf_map;
struct bpf_map *engine_map(const struct engine *e, enum map_id id);

/* sizes.c: its maps' entries and what the programs find in their constants, before they are loaded. */
void engine_size(struct engine *e, const struct engine_spec *spec);

/* Told how many probes of @total are attached; may be NULL. */
typedef void (*engine_progress_fn)(size_t done, size_t total, void *arg);

/*
 * Attaches @probes to the program and pins the links in @dir_fd as link_0, link_1, ... Of a
 * tracepoint one link, whatever @pid is. Else one link for all in session and multi mode, one
 * each in perf mode (whose limit of open files is raised as far as it goes). Only process @pid
 * gets breakpoints, or all if it is 0. The probes do nothing until engine_arm(). To be run apart
 * (apart.h); -EINTR when it is to stop.
 */
int engine_attach(struct engine *e, enum engine_prog prog, const struct link_probes *probes,
	pid_t pid, int dir_fd, engine_progress_fn progress, void *arg, struct err *err);

/* Attaches @probes by one link, in session and multi mode, and pins it nowhere. */
int engine_link(struct engine *e, enum engine_prog prog, const struct link_probes *probes,
	pid_t pid, int *ret_fd, struct err *err);

/* Attaches what gives up the blocks of memory of processes that end, if some are followed. */
int engine_reclaim(struct engine *e, int dir_fd, struct err *err);

/* Whether its programs see where calls sleep: divided times, stacks, and who called whom. */
bool engine_sees_sleeps(const struct engine_spec *spec);

/* Attaches what sees that, if the spec says so, and pins it like the others. */
int engine_watch_sleeps(struct engine *e, int dir_fd, struct err *err);

/*
 * Attaches what follows children, if the spec says so, and pins it like the others; before
 * engine_arm(). With @from_fd above 0, the list of a group that follows them already, the
 * processes on it are put on this one's, too, and none is lost.
 */
int engine_follow(struct engine *e, int from_fd, int dir_fd, struct err *err);

/* Pins in directory @dir_fd where the probes go: breaks_write(). Before the first link. */
_must_check_ int description_breaks(const struct probes *p, const struct draft *draft, int dir_fd,
	struct err *err);

/* --- links.c: programs that libbpf has loaded, loaded again --------------------------------- */

struct clones;
struct bpf_program;

/*
 * To be called before the programs are opened: those that are to have clones are then loaded for
 * the first function of @first, if it is not NULL, and for tracepoints if @traces. Free it after
 * them.
 */
int clones_new(const struct link_probes *first, bool traces, struct clones **ret_clones,
	struct err *err);
void clones_free(struct clones *c);

/* --- describe.c: a group's own description of itself, as its maps keep it ------------------- */

struct description {
	struct fsn_func *funcs; /* of the probed functions, in their order */
	struct fsn_conf *confs;
	struct fsn_cond *conds;
	struct fsn_rule *rules;  /* NULL: no memory is followed */
	struct fsn_keyed *keyed; /* NULL: no keys */
	struct fsn_said *said;
	struct fsn_lib *libs;
	struct type_records types;
	struct strtab text;
	unsigned int left_out; /* in it: as meta's */
	bool save_args; /* some function remembers slow calls, or all are of a communicator */
	bool key_wide;  /* some key takes more than a word */
	uint32_t key_kinds[FSN_KEYS];
	bool key_late;  /* some row is found when its call ends */
	bool asked;     /* some call hands out a kernel's handle */
	uint32_t key_text[FSN_KEYS], sum_text[FSN_SUMS]; /* their names in .text */
	bool has_more;  /* some function has arguments that registers don't hold */
	bool judged;     /* some function may fail */
	bool zero_frees; /* some function has fsn_conf.zero */
	bool other_regs; /* and some are in other registers than C's, or it is not known in which */
	bool wide;      /* some system call has text */
	bool sheds;     /* the programs limit some function's calls */
};

/*
 * @price is what is to be taken off measured times, or NULL: nothing. @mode is the kind of link that
 * @draft will have.
 */
int description_new(const struct draft *draft, const struct attach_opts *opts,
	const struct price *price, enum link_mode mode, struct description *ret_desc, struct err *err);
void description_done(struct description *d);

/* Writes @d into the maps of the engine, and @meta with the additions of @d. */
int description_write(const struct description *d, const struct draft *draft,
	const struct attach_opts *opts, struct engine *e, struct fsn_meta *meta, struct err *err);

/* --- budget.c: what calls cost, and what to give up; pure --------------- */

/*
 * Costs are shares of the program's own CPU time, without that of probes: nanoseconds of a second
 * of it. A program that probes slow down makes fewer calls, but not fewer calls per own time.
 */
struct budget_func {
	uint64_t calls;     /* while they were counted */
	uint64_t own_ns;    /* CPU time that the program had for itself meanwhile */
	uint32_t whole_ns;  /* cost of a call that is timed */
	uint32_t entry_ns;  /* of one that is only counted */
	bool can_sample;    /* only the calls that are timed pay for their ends */
	bool exact;         /* asked for by its name: kept, and not counted among the costs */
	enum limit limit;   /* at least */
	uint32_t sample;    /* LIMIT_SAMPLED: 1 call of N is timed */
	uint64_t calls_per_s;
};

/* A program while probes ran. Times in ns. */
struct budget_span {
	uint64_t cost_ns; /* of the probes, by calibration */
	uint64_t used_ns; /* CPU time, that of probes included */
	uint64_t wall_ns;
	uint64_t own_ns;  /* CPU time that the program had for itself: budget_own() */
};

/*
 * Sets .own_ns from the other times, above 0. A program that is slowed down has at least a part of
 * its CPU time for itself, and an idle one counts as if it used a part of a CPU.
 */
void budget_own(struct budget_span *span);

/* True if the probes cost more than @share of the own time. */
bool budget_is_over(const struct budget_span *span, uint32_t share);

/* Returns the cost of a function that is not limited: ns of a second of own CPU time. */
uint64_t budget_whole(const struct budget_func *f);

/*
 * The own time by which functions are to be judged that slowed the program down in @span: so much
 * that those that make up a small part of the cost are judged again, without the others.
 */
uint64_t budget_blurred_own(const struct budget_span *span, uint32_t share);

/* The same of @cnt functions, each as it is limited. */
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

/* budget.c: true if @t of @draft must be kept as it is. */
bool budget_is_exact(const struct draft *draft, const struct target *t);

/* --- budget.c: how often functions are called, before their calls are timed ------------------- */

/*
 * Finds the processes whose CPU time bounds the cost of @draft: those of the filter, those that map
 * its files, or all.
 */
struct load;
int stage_load(const struct draft *draft, const struct attach_opts *opts, struct load *ret_load,
	struct err *err);

/* attach.c: makes a group without a name, calls @work in place of attaching, and removes it. */
struct probes;
typedef int (*attach_work_fn)(
	struct engine *e, const struct probes *probes, bool by_pid, void *arg, struct err *err);
int attach_bare(const struct draft *draft, const struct attach_opts *opts, struct bpffs *fs,
	attach_work_fn work, void *arg, struct err *err);

#endif
