/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens attached groups; reads and changes them. */
#pragma once

#include <sys/types.h>

#include "base/err.h"
#include "base/util.h"
#include "group/notation.h"
#include "pins/bpffs.h"
#include "shared/words.h"

struct group;
struct filter;
struct condition;

/* Strings belong to the group. */
struct group_info {
	const char *name;
	const char *version;  /* of the command that attached it */
	uint32_t layout;
	uint64_t attached_ns; /* CLOCK_REALTIME */
	unsigned int links;   /* mask of enum link_mode (kernel.h) */
	unsigned int exits;   /* mask of 1 << enum fsn_exit */
	uint32_t fn_cnt, lib_cnt;
	uint32_t sample;      /* one call in N is timed; 1: all */
	uid_t uid;            /* user who attached it: the login user if known */
	pid_t pid;            /* of the command that attached it */
	bool processes;       /* it has statistics per process */
	bool nesting;         /* nested calls are tracked */
	bool memory;          /* allocations are tracked */
	bool split;           /* times are split into on-CPU, runnable and blocked */
	bool raw;             /* durations are uncorrected */
	bool events;          /* some of its functions are events */
	bool gpu;             /* all of its functions are GPU activity */
	bool waits;           /* it counts nothing, because it waits for a library */
	bool kept;            /* it is removed when .pid exits */
	uint32_t duty;        /* GPU activity is recorded one second in N; 0, 1: always */
	uint32_t sampled_cpus; /* 0: it does not sample CPUs */
	struct price price;   /* overhead of its probes; .at_ns 0: not known */
	uint32_t budget;      /* overhead limit in millionths of one CPU; 0: no limit */
	uint64_t tried_ns;    /* how long entries were counted to keep .budget */
	uint64_t tried_cost_ns; /* overhead per second estimated from that count */
	uint64_t definition;  /* from attach_definition(); 0: attached temporarily */
	const char *key[FSN_KEYS], *sum[FSN_SUMS]; /* unused entries are NULL */
};

struct group_func {
	const char *name;
	const char *kind; /* "function", "syscall" */
	bool in_file;     /* it is in a file and has offsets */
	bool priced;      /* the overhead of its probes can be measured */
	bool is_sample;   /* its stacks are sampled locations, not callers */
	const char *symbol, *demangled; /* or NULL */
	const char *library, *build_id;
	const char *soname; /* of the library, or NULL */
	uint64_t offset, site_offset;   /* in the file: function, entry probe */
	const char *site_why, *insn;
	enum fsn_exit exit;
	const char *exit_why;
	bool undercounted;              /* its count may be too low */
	enum price_site site;
	enum price_end end;   /* the most expensive of its exit probes */
	uint32_t overhead_ns; /* correction of each measured time */
	enum limit limit;    /* what is not traced, to keep the budget */
	uint64_t calls_per_s; /* before it was left out */
	const char *types_why; /* source of its types, or why they are not known; or NULL */
	const char *aliases; /* its other names, each with a newline; or NULL */
};

/*
 * Opens group @name; with @write, its maps can be changed. Returns 0, -ENOENT if there is no such
 * group, -EPROTO if another version of funcsnoop attached it, or -EACCES or -EPERM if the caller
 * cannot read it. After such an error, only group_info()'s .name and .layout are valid.
 *
 * The caller frees *@ret_group with group_free(), also after an error.
 */
int group_open(const struct bpffs *fs, const char *name, bool write,
	struct group **ret_group, struct err *err);
void group_free(struct group *g);

/*
 * Like group_open(), but opens only the maps that describe the group. Other maps are opened, and
 * damage to them is reported, on first use. For readers of many groups that need few maps of each.
 * @fs must outlive the group.
 */
int group_open_brief(const struct bpffs *fs, const char *name, bool write,
	struct group **ret_group, struct err *err);

/*
 * Closes the maps that were opened by group_open_brief() and by reading. The next read opens them
 * again, if the group still exists.
 */
void group_close_maps(struct group *g);

/* Opens the maps of keys and stacks, so that they can be read after the group was removed. */
void group_open_keys(const struct group *g);

/* True if the name of @g now belongs to another group or to none. */
bool group_is_gone(const struct group *g);

/*
 * Locks @g against other writers until group_unlock() or group_free(). Takes the lock of @fs if
 * the caller has access to it, and the lock of the group itself if another user owns it.
 *
 * Returns 0, -EBUSY like bpffs_lock(), or -EACCES if the caller has access to neither lock.
 */
int group_lock(struct group *g, const struct bpffs *fs, struct err *err);
void group_unlock(struct group *g);

/* True if group_open() refused @g because another version of funcsnoop attached it. */
bool group_is_foreign(const struct group *g);

struct group_info group_info(const struct group *g);

/* Returns function @fn, which is less than group_info().fn_cnt. */
struct group_func group_func(const struct group *g, uint32_t fn);

const char *group_name(const struct group *g);

/*
 * Iterates over the functions that were left out to keep the budget. .at is 0 at the start. Returns
 * false after the last function. Sets .name, .symbol, .library, .offset, .limit and .calls_per_s of
 * @ret_func, and *@ret_why to the reason. The strings are valid until group_left_done().
 */
struct group_left {
	uint32_t at;
	char *text; /* owned: group_left_done() */
};
bool group_next_left(const struct group *g, struct group_left *left, struct group_func *ret_func,
	const char **ret_why);
void group_left_done(struct group_left *left);

/*
 * Returns all functions that were left out, at the attach or later, those with the most calls per
 * second first. The caller frees the array; its strings are valid until group_left_done(@ret_left).
 */
struct group_func *group_left_out(
	const struct group *g, struct group_left *ret_left, size_t *ret_cnt);

/* Returns the name of function @fn for output. */
const char *group_func_name(const struct group *g, uint32_t fn);

/* Returns that name with its kind or library, "s:write", if another function of the group has it too. */
const char *group_func_title(const struct group *g, uint32_t fn);

/* Returns the path of library @lib, which is less than group_info().lib_cnt. */
const char *group_lib(const struct group *g, uint32_t lib);

/* True if the path of library @lib now refers to another file or to none. */
bool group_lib_stale(const struct group *g, uint32_t lib);

/* Gets the CLOCK_REALTIME of the last reset, or of the attach. */
int group_since(const struct group *g, uint64_t *ret_ns, struct err *err);

/* Gets the CLOCK_REALTIME at which the group expires, or 0. */
int group_until(const struct group *g, uint64_t *ret_ns, struct err *err);

/* Returns the kernel memory of all maps of the group in bytes, or 0 if not all can be read. */
uint64_t group_memory(const struct group *g);

/* Records for group_memory() the size of maps that grow. Called after writing them. */
void group_has_grown(const struct group *g);

/* True if any function has a threshold for slow calls. */
bool group_has_slow(const struct group *g);

/*
 * Counts the processes of @procs that map library @lib and whose calls count, and gets the first:
 * mappers_count().
 */
struct procs;
_must_check_ int group_lib_mappers(const struct group *g, uint32_t lib, struct procs *procs,
	size_t *ret_cnt, pid_t *ret_pid, struct err *err);

/*
 * Counts no more calls of @g, which is open for writing, so that all that is read is of one moment.
 * Calls in flight may still return.
 */
void group_stop(const struct group *g);

/* Returns 0, or -ENOENT if the glob @pattern matches no timed function. */
int group_check_timed(const struct group *g, const char *pattern, struct err *err);

/*
 * Sets the duration from which calls are slow and remembered, for all functions that @pattern (a
 * glob; NULL: all) matches. With @off, removes the threshold. @g must be open for writing, and the
 * caller holds the lock of its bpffs. Returns 0, or -ENOENT if no timed function matches.
 */
int group_set_slow(const struct group *g, const char *pattern, bool off, uint64_t ns,
	struct err *err);

/* Changes of the filters. Filters that are not set stay unchanged. */
struct group_change {
	const struct filter *filter;
	bool set_pids, set_comms, set_uids; /* lists to set; all calls pass an empty list */
	const struct condition *condition;  /* or NULL; all calls pass one without terms */
};

/*
 * group_change() changes the filters. Calls that pass both the old and the new filters are counted
 * throughout. After an error nothing has changed. Like group_set_slow(), it needs a group that is
 * open for writing, and the lock. group_check_change() returns the same errors without changing
 * anything; @ret_never may be NULL.
 *
 * Both return 0, -EBUSY for processes if others have no breakpoints (attached with --pid), or an
 * error of condition_bind().
 */
int group_check_change(const struct group *g, const struct group_change *change,
	size_t *ret_never, struct err *err);
int group_change(const struct group *g, const struct group_change *change, struct err *err);

DEFINE_CLEANUP(group, struct group *, group_free)
#define _cleanup_group_ __cleanup(cleanup_group)

/*
 * Closes the maps of @g that only its owner can read, by the modes of their pins. The caller then
 * sees the same as other users. Returns 0, or -EACCES if the group shares nothing.
 */
int group_keep_shared(struct group *g, struct err *err);

/* --- the filters and the command line of a group, for its owner to read --------------------- */

/* All calls pass an empty list. Strings are "" if the option was not given. */
struct asked {
	uint32_t *pids, *uids, *tids;
	size_t pid_cnt, uid_cnt, tid_cnt;
	char (*comms)[FSN_COMM_LEN];
	size_t comm_cnt;
	const char *condition;  /* --if */
	const char *cpus;       /* a blank after each */
	const char *cgroups;    /* a newline after each */
	const char *argv;       /* command line, a zero byte after each word; may be truncated */
	size_t argv_bytes;
	bool by_pid;            /* only .pids are counted; all of them may have exited */
	bool children;          /* descendants are counted; .pids has no exited processes */
	uint32_t lost_children; /* children not counted because the list was full */
	size_t ended_cnt;       /* exited processes, which come first in .pids */
	void *said;             /* owned */
};

/*
 * Reads the filters of @g. Returns 0, or -EACCES or -EPERM if the caller can only read the
 * counters. The caller frees @ret_asked with asked_done(), also after an error.
 */
_must_check_ int asked_read(const struct group *g, struct asked *ret_asked);
void asked_done(struct asked *a);
#define _cleanup_asked_ __cleanup(asked_done)

/* True if the group counts only processes that have all exited. */
static inline bool asked_is_over(const struct asked *a)
{
	return a->by_pid && a->ended_cnt == a->pid_cnt;
}

/* --- calls in progress: listing them, and abandoning those of exited threads ---------------- */

struct slot_call {
	uint32_t fn;
	pid_t pid, tid;
	uint64_t start_ns; /* CLOCK_MONOTONIC */
	uint64_t age_ns;
	uint64_t where;    /* as in its slot: user stack pointer, at the return address */
	char comm[16];     /* of the thread; "" if it has exited */
	bool stale;        /* it cannot be running: the stack pointer of its thread is above */
	bool has_args;     /* .args is known */
	bool has_more;     /* .more has the arguments that are not in registers */
	bool keyed;        /* .key is known, with FSN_KEY_WIDE words per part */
	struct fsn_args args;
	struct fsn_more more;
	struct fsn_key key;
};

/*
 * Lists all calls in progress, longest first. The caller frees *@ret_calls with free(). A call is
 * stale if /proc/PID/task/TID/syscall (proc(5)) shows a stack pointer above the call's in the same
 * mapping, or if the call's stack is no longer mapped. Stale calls do not change any counter.
 */
int slots_read(const struct group *g, struct slot_call **ret_calls, size_t *ret_cnt,
	struct err *err);

/* The same for calls that slots_sweep() would abandon. */
int slots_read_dead(const struct group *g, struct slot_call **ret_calls, size_t *ret_cnt,
	struct err *err);

/*
 * Abandons calls whose thread has exited, whose TID was reused, or whose process has called
 * execve(2). Each is counted as abandoned by compare-and-exchange, so that a call that returns
 * meanwhile is counted once. An abandoned call that returns later is resumed.
 *
 * Does nothing outside the first PID and time namespaces, where threads cannot be identified. @g
 * must be open for writing. *@ret_cnt is the number of abandoned calls.
 */
int slots_sweep(struct group *g, size_t *ret_cnt, struct err *err);

/*
 * Frees the slots of calls in progress whose links are gone, so that no probe sees their ends, and
 * counts them as unseen. @gone has for each function the mask of the turns of such links, 1 << turn.
 * @g must be open for writing. Returns 0 or an error of mmap(2).
 */
int slots_unsee(struct group *g, const unsigned char *gone);

/*
 * Adds to @ret_dead, by function, the calls in progress that cannot return. For readers, which
 * cannot sweep. Returns 0, or -EACCES or -EPERM if the reader cannot see calls in progress.
 */
int slots_count_dead(const struct group *g, uint64_t *ret_dead);

/*
 * Unpins the links of tail-called functions to which tail calls are no longer tracked, because
 * other callers call them more often (struct fsn_place). The kernel removes their breakpoints soon
 * after. @g must be open for writing. The next command tries failed unpins again. Returns the
 * number of functions.
 */
size_t places_sweep(const struct group *g);

/* --- processes that died while the group counted their calls: the last CRASHES_MAX of them --- */

#define CRASHES_MAX 16

struct crash {
	uint64_t time_ns;  /* CLOCK_MONOTONIC */
	uint64_t start_ns; /* of the process: CLOCK_BOOTTIME */
	pid_t pid, tid;    /* the thread that took the signal or exited */
	char comm[16];
	unsigned int signal; /* 0: it has exited with .status */
	unsigned int status;
	uint64_t addr; /* whose access has failed, if .has_addr */
	bool has_addr, out_of_memory;
	/* Calls in progress by thread, outermost first; .call_cnt can be more: the innermost ones. */
	struct slot_call *calls;
	size_t cnt, call_cnt;
	struct fsn_crash *record; /* for its stack */
};

/* Returns how many processes have died so far, or 0 if that cannot be read. */
uint64_t crashes_ever(const struct group *g);

/*
 * Reads process @number, which is below crashes_ever(). The caller frees it with crash_done(), also
 * after an error. Returns 0, -EAGAIN while the process is dying, -ENOENT if its record was
 * overwritten, or -EACCES or -EPERM if the caller is not the owner.
 */
_must_check_ int crash_read(const struct group *g, uint64_t number, struct crash *ret_crash, struct err *err);
void crash_done(struct crash *c);
#define _cleanup_crash_ __cleanup(crash_done)

/* "SIGSEGV at 0x8", "exit status 3", "SIGKILL, out of memory". */
#define CRASH_TEXT NOTATION_LEN
const char *crash_text(const struct crash *c, char buf[CRASH_TEXT]);

/* Returns the name of the signal, or NULL if the process has exited. */
const char *crash_signal(const struct crash *c, char buf[CRASH_TEXT]);
