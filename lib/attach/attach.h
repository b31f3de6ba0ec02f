/* SPDX-License-Identifier: BSD-2-Clause */
/* Attaches a group: loads its BPF programs and pins its links and maps, atomically. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "code/plan.h"
#include "group/filter.h"
#include "group/group.h"
#include "group/keys.h"
#include "kernel/kernel.h"
#include "pins/bpffs.h"
#include "stats/stats.h"
#include "target/draft.h"

/*
 * The bound on the cost of a group: a share of the CPU time of the processes that it traces, or of all
 * CPUs if it names none. Functions that the user has named are kept at any cost.
 */
#define BUDGET_USUAL 100000 /* 10 % */

struct budget {
	uint32_t share;    /* in millionths; 0: no bound */
	bool trims;        /* functions may be sampled, only counted or left out */
	uint64_t tried_ns; /* duration of the trial; 0: there was none */
	uint64_t cost_ns;  /* of the kept functions, of a second of CPU time, by the trial */
};

/* --- access to counters for other users than the owner -------------------------------------- */

struct access {
	mode_t mode; /* of the pinned maps: 0600, and 040 or 04 to let others read */
	uid_t uid;   /* owner of the maps; (uid_t)-1: the caller */
	gid_t gid;   /* group of the maps; (gid_t)-1: the caller's */
	bool all;    /* also share slow calls, arguments and calls in progress */
};

#define ACCESS_PRIVATE                                           \
	{                                                        \
		.mode = 0600, .uid = (uid_t)-1, .gid = (gid_t)-1 \
	}

/* True if only the caller can read. */
static inline bool access_is_private(const struct access *access)
{
	return !(access->mode & (S_IRGRP | S_IROTH)) && access->uid == (uid_t)-1 &&
		access->gid == (gid_t)-1;
}

/* True if other users than the group of the pins must be able to search the directories. */
static inline bool access_is_for_others(const struct access *access)
{
	return access->mode & S_IROTH || access->uid != (uid_t)-1;
}

#define BLOCKS_USUAL 262144 /* tracked allocations (default) */
#define BLOCKS_MAX   16777216

#define RATE_USUAL 99 /* samples per second; 99 avoids lockstep with activity at 100 Hz */
#define RATE_MAX   10000

struct attach_opts {
	enum link_mode link;
	bool processes;   /* statistics per process */
	uint32_t sample;  /* time one call in N; 0 and 1: all */
	struct filter filter; /* only these calls count */
	const struct condition *condition; /* count only calls that also match this; NULL: all */
	const struct keys *keys; /* keys to group calls by; NULL: none */
	uint64_t for_ns; /* stop counting after this duration; 0: never */
	struct access access; /* who may read the counters */
	struct budget budget; /* as budget_try() left it */
	uint32_t blocks;  /* maximum number of tracked allocations; 0: none */
	uint32_t stack_cnt; /* size of the stack table for grouping by stack; 0: no stacks */
	uint32_t rate;      /* samples per second; 0: RATE_USUAL */
	uint32_t stacks_of; /* record the stack of one call in N; 0: of all */
	const char *program; /* with .unborn: the file that they will execute, or NULL */
	uint64_t definition; /* attach_definition(), stored for later comparisons; 0: none */
	bool split;       /* split times into on-CPU, runnable and blocked */
	bool nesting;     /* track nested calls */
	bool stacks_python; /* include Python frames (sampled stacks always do) */
	bool raw;         /* do not subtract the probe overhead */
	bool streamed;    /* calls will be streamed: record also what only streams show */
	bool replace;     /* replace a group of that name */
	bool children;    /* also count children that the processes of .filter start from now on */
	bool unborn;      /* the processes of .filter have not called execve() yet */
	bool kept;        /* the group is removed when this process exits: keeper_start() */
	bool holds;       /* stop processes of .filter when they have mapped code, and count
			     nothing: holds_open() */
	bool held;        /* another group stops the processes of .filter: subtract those times */
	uint32_t runs_bits; /* measure run time in one hit of 1 << N; 0: FSN_RUNS_BITS */
	int pids_fd;      /* above 0: the list of another group, instead of .filter.pids */
	/*
	 * Reports how many @things of @total are done: probes attached, probes of a replaced group
	 * removed, or, if it takes longer than a second, MB of files read for stacks.
	 */
	void (*progress)(const char *what, const char *things, size_t done, size_t total,
		void *arg);
	void *progress_arg;
	void (*tick)(void *arg); /* every 2 ms while it attaches, or NULL */
	void *tick_arg;
};

/* Number of skipped items, and the reason for the first one. */
struct left_out {
	size_t cnt;
	char why[512];
};

struct attach_report {
	uint64_t until_ns; /* CLOCK_MONOTONIC of its end, or 0 */
	unsigned int links; /* mask of enum link_mode */
	struct price price; /* overhead of its probes; .at_ns is 0 if it is not known */
	struct left_out no_tables; /* files at which stack walks will stop */
	size_t shared_cnt;  /* functions that another group probes at the same place */
	char shared_group[GROUP_NAME_MAX + 1]; /* the group that has most of them */
};

/*
 * Computes a hash of the functions, their files, the probe sites, the types and the options of a
 * group. Two groups with the same hash would be attached in the same way. Measured overhead, the
 * functions that a budget has limited, and .replace are not part of it.
 */
_must_check_ int attach_definition(const struct draft *draft, const struct attach_opts *opts,
	uint64_t *ret_definition, struct err *err);

/* Returns @t in the form in which commands show it after the attach. */
struct group_func target_shown(const struct target *t);

/*
 * Replaces LINK_AUTO by the best kind of link that the kernel supports. Fails like attach_draft()
 * if a privilege or the kind of link is missing, before anything is created.
 */
_must_check_ int attach_choose_link(struct attach_opts *opts, struct err *err);

/*
 * Checks that @c can be evaluated for functions of @draft. *@ret_never of them lack an argument:
 * condition_bind().
 */
_must_check_ int attach_check_condition(
	const struct draft *draft, const struct condition *c, size_t *ret_never, struct err *err);

/* Checks @keys in the same way: keys_bind(). */
_must_check_ int attach_check_keys(const struct draft *draft, const struct keys *keys,
	struct keys_left *ret_left, struct err *err);

/* Checks that some function of @draft is known to allocate memory: rules_bind(). */
struct rules_left;
_must_check_ int attach_check_memory(
	const struct draft *draft, struct rules_left *ret_left, struct err *err);

/*
 * Attaches @draft as a group. Takes the lock of @fs. Calibrates first (calibrate()), unless that
 * was done since the boot or its result cannot be cached. A failed attach leaves nothing in bpffs.
 *
 * Returns 0, -EEXIST if the group exists and .replace is not set, -EPERM without the privileges,
 * -EOPNOTSUPP if the kernel lacks the kind of link, or -EBUSY if the lock is held too long.
 */
int attach_draft(const struct draft *draft, const struct attach_opts *opts, struct bpffs *fs,
	struct attach_report *ret_report, struct err *err);

/*
 * Attaches @draft without a name, calls @measure with the directory of its pins, and removes it
 * again. @measure returns 0 or a negative errno.
 */
int attach_measure(const struct draft *draft, const struct attach_opts *opts, struct bpffs *fs,
	int (*measure)(int dir_fd, void *arg), void *arg, struct err *err);

/*
 * Counts the calls of functions of @draft for a moment, limits @draft by draft_limit() to
 * @opts->budget.share, and sets the rest of @opts->budget. @how are the options of draft_new().
 *
 * Does nothing if all functions must be kept, if the processes have not started, or with perf links,
 * which attach too slowly. A killed command leaves nothing in bpffs. Returns 0, an error of
 * attach_draft(), or an error of draft_limit() if no function would be left.
 */
_must_check_ int budget_try(struct draft *draft, const struct draft_opts *how,
	struct attach_opts *opts, struct bpffs *fs, struct err *err);

/* True if budget_try() counts calls of @draft before the attach. */
bool budget_tries(const struct draft *draft, const struct attach_opts *opts);

/* True if functions of @draft can be sampled, only counted or left out. */
bool bound_can_limit(const struct draft *draft);

/* --- bound.c: functions that become too expensive while the group counts -------------------- */

/*
 * Watches the overhead of an attached group. If it exceeds the bound, removes the probes of functions
 * that need not be kept, the most expensive ones first.
 *
 * A link with such a function is replaced by a link without it. Meanwhile, calls of its other
 * functions are counted once, but calls in progress are not timed. A function without probes has no
 * numbers any more: its record marks it as left out. Perf links stay, and so do links whose probes
 * the kernel does not report (before 6.8).
 */
struct shed;

/*
 * *@ret_shed is NULL if there is nothing to watch: there is no bound, or the overhead of probes is not
 * known. @draft and @fs must outlive it. Returns 0 or an error of group_open(). The caller frees it
 * with shed_free().
 */
_must_check_ int shed_new(const struct draft *draft, const struct attach_opts *opts,
	const struct price *price, struct bpffs *fs, struct shed **ret_shed);
void shed_free(struct shed *s);

/* Checks the overhead after shed_left_ns(). Takes the lock of @fs to remove probes. */
void shed_step(struct shed *s);
uint64_t shed_left_ns(const struct shed *s);

/*
 * Returns the overhead of functions that must be kept, in millionths of the CPU time, if that alone
 * exceeds the bound; otherwise 0.
 */
uint64_t shed_over_share(const struct shed *s);

/* Marks targets of @draft, that of shed_new(), as left out. Returns their number. */
size_t shed_tell(const struct shed *s, struct draft *draft);

/* Returns the list of processes of the group if it also traces their children, or -1. */
int shed_pids_fd(const struct shed *s);

/* --- bound.c: new groups after their command has ended -------------------------------------- */

/*
 * Starts a process that continues for GUARD_NS after this one has exited. It watches the overhead of
 * the groups of guard_tell() as shed_step() does, and exits with the last of them. The caller closes
 * *@ret_fd.
 */
#define GUARD_NS 10000000000ULL
_must_check_ int guard_start(const char *dir, int *ret_fd, struct err *err);
void guard_tell(int fd, const char *name);

/* Returns true if load after the attach is not to be limited. */
bool guard_is_off(void);

/*
 * Creates unwind tables for files that stack walks of @g have met without one, because the process
 * or library was loaded after the attach. With @everywhere searches all processes for these files,
 * otherwise those that met them. Does nothing if @g is not open for writing, or if another command
 * holds the lock of @fs. Returns 0 or an error of bpf(2).
 */
struct group;
_must_check_ int stacks_meet(
	struct bpffs *fs, const struct group *g, bool everywhere, struct err *err);

/*
 * Returns how often stack walks have met such a file. While this number is the same, stacks_meet()
 * has nothing to do.
 */
uint32_t stacks_met(const struct group *g);

/* --- threads.c: stacks of threads that sleep, without touching them --------------------------- */

struct thread_stacks;

/*
 * Loads the BPF program that reads the registers of sleeping threads. With @lines, frames have source
 * lines and inlined functions. Returns 0, -EPERM without the privileges, or an error of bpf(2). The
 * caller frees *@ret_stacks with thread_stacks_free().
 */
_must_check_ int thread_stacks_new(
	bool lines, struct thread_stacks **ret_stacks, struct err *err);
void thread_stacks_free(struct thread_stacks *s);
DEFINE_CLEANUP(thread_stacks, struct thread_stacks *, thread_stacks_free)
#define _cleanup_thread_stacks_ __cleanup(cleanup_thread_stacks)

struct thread_frame {
	const char *name; /* a function, or "FILE+0xOFFSET", or an address */
	const char *text; /* .name with the source line; NULL: a Python frame */
	const char *file; /* that contains the code; NULL: not known */
	uint64_t offset;  /* in .file; an address if .file is NULL */
	bool is_source;   /* a Python frame: .file is its source file */
	const char *source; /* source file of another frame, or NULL */
	unsigned int line; /* in the source file; 0: not known */
	bool inlined;     /* into the function of the next frame */
};

struct thread_stack {
	const struct thread_frame *frames; /* innermost first; NULL: not known */
	size_t cnt;
	enum fsn_walk_end end;
	bool runs;         /* or waits for a CPU; the frames are those of a moment ago */
	bool python;       /* some are of the interpreter, or replaced by Python's */
	uint64_t since_ns; /* CLOCK_MONOTONIC: since when it sleeps; 0: not known */
	uint64_t slept_ns; /* since then; 0: not known */
};

/*
 * Takes a sample of each of the threads that runs, in 200 ms at most, for thread_stacks_get(). A thread
 * that gets no CPU has none.
 */
void thread_stacks_sample(struct thread_stacks *s, const pid_t *tids, size_t cnt);

/* Returns a process that made code without giving it a name, or 0. */
pid_t thread_stacks_nameless(const struct thread_stacks *s);

/*
 * Unwinds the stack of thread @tid of process @pid. If it sleeps, Python frames replace frames of the
 * interpreter if they can be read. The frames and their strings belong to @s until the next call.
 *
 * Reads the memory of the process, starting with the registers that the thread had when it went to
 * sleep. perf_event_open(2) gives registers and up to 63 KiB of stack of a thread that runs. Returns 0,
 * -EBUSY if the thread has run meanwhile, or had no CPU for 5 ms, -ESRCH if it has exited or is the
 * kernel's, or -EPERM.
 */
_must_check_ int thread_stacks_get(struct thread_stacks *s, pid_t pid, pid_t tid,
	struct thread_stack *ret_stack);

/* True if the thread of the last stack, which slept, has slept ever since. */
bool thread_stacks_stays(const struct thread_stacks *s);

/*
 * The same for processes that have exited, without a BPF program. thread_stacks_of_crash() names the
 * frames of @crash, a record of @g; without frames if its stack was not recorded.
 */
struct fsn_crash;
void thread_stacks_new_dead(bool lines, struct thread_stacks **ret_stacks);
struct thread_stack thread_stacks_of_crash(struct thread_stacks *s, const struct group *g,
	const struct fsn_crash *crash);

/* --- the overhead of probes on this machine ------------------------------------------------ */

/* Two windows that differ by more, in thousandths, are noise: the result is not reliable. */
#define CALIBRATION_STEADY 30

struct calibration {
	struct price price;
	uint32_t spread; /* thousandths by which the two lowest windows differ, at most */
};

/*
 * Reads the cached result of calibrate() for links of @mode. Returns false if there is none since the
 * boot for the BPF programs of this build.
 */
bool calibration_read(enum link_mode mode, struct calibration *ret_calibration);

/*
 * Probes functions of this program for a moment by links of @mode, which is not LINK_AUTO, and
 * measures their calls. Needs the privileges of attach_draft(), and takes the lock of @fs. Caches the
 * result until the next boot. It takes a quarter of a second, most of it to attach and detach.
 */
int calibrate(struct bpffs *fs, enum link_mode mode, struct calibration *ret_calibration,
	struct err *err);

/*
 * The same for probes on system calls, whose overhead is added to @price. Measuring it slows down the
 * system calls of all processes for a moment.
 */
bool calibration_read_calls(struct price *price);
int calibrate_calls(struct bpffs *fs, struct price *price, struct err *err);
