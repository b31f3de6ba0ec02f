/* SPDX-License-Identifier: BSD-2-Clause */
/* A group that is attached, opened by any later command. */
#ifndef FUNCSNOOP_GROUP_GROUP_H
#define FUNCSNOOP_GROUP_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/util.h"
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
	uint32_t fn_cnt, lib_cnt, probe_cnt;
	uint32_t sample;      /* one call of so many is timed; 1: all */
	uid_t uid;            /* who attached it: the login's user where that is known */
	pid_t pid;            /* of that command */
	bool processes;       /* there are statistics per process */
	bool nesting;         /* it is known which call was made in which */
	bool memory;          /* blocks of memory are followed */
	bool split;           /* it is known where times went: on the CPU, queued, blocked */
	bool raw;             /* the probes' own time is left in */
	bool events;    /* some of its functions are events */
	bool gpu;             /* all are what GPUs do */
	bool waits;           /* it counts nothing: a library is waited for */
	bool kept;            /* it goes with .pid */
	uint32_t duty;        /* GPUs are recorded for one of so many seconds; 0, 1: always */
	uint32_t sampled_cpus; /* 0: it takes no samples of CPUs */
	struct price price;   /* what they take; .at_ns is 0 when it was not known */
	uint32_t budget;      /* what they were to take, in millionths of a CPU; 0: as it comes */
	uint64_t tried_ns;    /* how long entries were counted for that, */
	uint64_t tried_cost_ns; /* by which they take so much of a second */
	uint64_t definition;  /* as attach_definition() had it; 0: it was attached for a moment */
	const char *key[FSN_KEYS], *sum[FSN_SUMS]; /* NULL: there are no more */
};

struct group_func {
	const char *name;
	const char *kind; /* "function", "syscall" */
	bool in_file;     /* and so has offsets */
	bool priced;      /* what its probes take can be measured */
	bool is_sample;   /* a stack is where somebody was, not who called it */
	const char *symbol, *demangled; /* NULL when there is none */
	const char *library, *build_id;
	const char *soname; /* of the library; NULL: it has none */
	uint64_t offset, site_offset;   /* in the file: function, entry probe */
	const char *site_why, *insn;
	enum fsn_exit exit;
	const char *exit_why;
	enum price_site site;
	enum price_end end;   /* the dearest of its ends */
	uint32_t overhead_ns; /* taken off each measured time */
	enum limit limit;    /* what was given up of it */
	const char *types_why; /* where its types are from, or why they are not known; or NULL */
	const char *aliases; /* its other names, a newline behind each; NULL when there are none */
};

/*
 * Opens group @name; with @write its maps can be changed. -ENOENT when there is none,
 * -EPROTO when another version of the command laid it out, -EACCES or -EPERM when it may not
 * be read (ret_group is then good for group_info()'s .name and .layout only).
 * Free with group_free() whatever is returned.
 */
int group_open(const struct bpffs *fs, const char *name, bool write,
	struct group **ret_group, struct err *err);
void group_free(struct group *g);

/*
 * The same with as few maps as it says what it is with; others are opened when they are needed,
 * and one that is damaged is told of then. For readers of many groups, of which each needs few
 * maps. @fs is to outlive it.
 */
int group_open_brief(const struct bpffs *fs, const char *name, bool write,
	struct group **ret_group, struct err *err);

/*
 * Closes what group_open_brief() and reading have opened; the next reading opens it again, if the
 * group is still there.
 */
void group_close_maps(struct group *g);

/* Opens what reading its keys and stacks takes: they can be read when it has been removed. */
void group_open_keys(const struct group *g);

/* Whether another group, or none, has the name of @g now. */
bool group_is_gone(const struct group *g);

/*
 * Keeps other writers of this group away, until group_unlock() or group_free(): by the lock of
 * @fs, which is held where it may be, and by that of a group that is another user's. -EBUSY
 * as bpffs_lock(), -EACCES for who may have neither.
 */
int group_lock(struct group *g, const struct bpffs *fs, struct err *err);
void group_unlock(struct group *g);

/* Whether group_open() refused @g as another version of the command laid it out. */
bool group_is_foreign(const struct group *g);

struct group_info group_info(const struct group *g);

/* Function @fn, below group_info().fn_cnt. */
struct group_func group_func(const struct group *g, uint32_t fn);

/* Its name. */
const char *group_name(const struct group *g);

/*
 * Goes through the functions that were left out to keep to the budget: *at is 0 at first. False
 * behind the last. Of @ret_func .name, .symbol, .library, .offset and .limit are set, the strings
 * good till the next call, and *ret_why says why.
 */
struct group_left {
	uint32_t at;
	char *text; /* owned: group_left_done() */
};
bool group_next_left(const struct group *g, struct group_left *left, struct group_func *ret_func,
	const char **ret_why);
void group_left_done(struct group_left *left);

/* Name by which people know function @fn. */
const char *group_func_name(const struct group *g, uint32_t fn);

/* Path of library @lib, below group_info().lib_cnt. */
const char *group_lib(const struct group *g, uint32_t lib);

/* Whether another file, or none, lies now where library @lib was. */
bool group_lib_stale(const struct group *g, uint32_t lib);

/* CLOCK_REALTIME of the last reset, or of the attach. */
int group_since(const struct group *g, uint64_t *ret_ns, struct err *err);

/* CLOCK_REALTIME of its end, 0 where it has none. */
int group_until(const struct group *g, uint64_t *ret_ns, struct err *err);

/* Bytes of kernel memory that all of the group's maps take; 0 when not all can be read. */
uint64_t group_memory(const struct group *g);

/* Keeps for that how much memory the maps have that grow, after some were written. */
void group_has_grown(const struct group *g);

/* Whether any function has a duration from which on its calls are slow. */
bool group_has_slow(const struct group *g);

/* How many of @procs map library @lib, and the first of them: mappers_count(). */
struct procs;
_must_check_ int group_lib_mappers(const struct group *g, uint32_t lib, struct procs *procs,
	size_t *ret_cnt, pid_t *ret_pid, struct err *err);

/* 0, or -ENOENT when @pattern (a glob) matches none of the functions that are timed. */
int group_check_timed(const struct group *g, const char *pattern, struct err *err);

/*
 * From which duration on calls are slow and remembered, for the functions that @pattern (a
 * glob; NULL: all) names; no threshold with @off. -ENOENT when no timed function matches.
 * @g must be open for writing and the lock of its bpffs held.
 */
int group_set_slow(const struct group *g, const char *pattern, bool off, uint64_t ns,
	struct err *err);

/* Which calls are to count from now on; what is not set stays as it is. */
struct group_change {
	const struct filter *filter;
	bool set_pids, set_comms, set_uids; /* its lists; an empty one lets all pass */
	const struct condition *condition;  /* or NULL; one without a term lets all pass */
};

/*
 * Changes it. Calls that pass the old and the new lists count meanwhile, too, and so do those
 * that meet the old and the new condition. On failure nothing has changed; -EBUSY for
 * processes when others have no breakpoints (attached with --pid), for the condition as
 * condition_bind(). As group_set_slow() it needs writing and the lock. group_check_change()
 * tells beforehand what would be refused; *ret_never may be NULL.
 */
int group_check_change(const struct group *g, const struct group_change *change,
	size_t *ret_never, struct err *err);
int group_change(const struct group *g, const struct group_change *change, struct err *err);

DEFINE_CLEANUP(group, struct group *, group_free)
#define _cleanup_group_ __cleanup(cleanup_group)

/* --- who besides its owner may read its counters -------------------------------------------- */

struct access {
	mode_t mode; /* of the pinned maps: 0600, and 040 or 04 for others who may read */
	uid_t uid;   /* their owner, (uid_t)-1: the caller */
	gid_t gid;   /* their group, (gid_t)-1: the caller's */
	bool all;    /* slow calls, arguments and calls in flight, too */
};

#define ACCESS_PRIVATE                                           \
	{                                                        \
		.mode = 0600, .uid = (uid_t)-1, .gid = (gid_t)-1 \
	}

/* Whether only the caller may read. */
bool access_is_private(const struct access *access);

/*
 * @text is an octal mode, of which others' right to read counts: the owner always reads and
 * writes. -EINVAL for anything but permissions, -EPERM for a mode that lets others write.
 */
int access_parse_mode(const char *text, mode_t *ret_mode, struct err *err);

/*
 * @text is USER, USER:GROUP or :GROUP, names or numbers; what is not named becomes -1.
 * -ENOENT for a name that nobody has, -EINVAL for an empty text.
 */
int access_parse_owner(const char *text, uid_t *ret_uid, gid_t *ret_gid, struct err *err);

/*
 * Opens a group for its readers: the staged directory @dir_fd, the maps in it that hold
 * counters (with .all every map), and @fs, the folder of all groups. Directories and links
 * keep their owner, and nobody else gets the right to write. Does nothing when @access is
 * private. Needs the lock; -EPERM where the caller may not give the maps away.
 */
int access_grant(
	const struct bpffs *fs, int dir_fd, const struct access *access, struct err *err);

/*
 * Keeps of @g, which is open, what others than its owner may read, by the modes of its pins:
 * from here on its reader sees what they see. -EACCES when it shares nothing.
 */
int group_keep_shared(struct group *g, struct err *err);

/* Whether those whom @access lets in are stopped by the bpffs itself: its mode then. */
bool access_is_blocked(
	const struct bpffs *fs, const struct access *access, mode_t *ret_mode);

/* --- what it was asked to count, and by whose command: for its owner to read ---------------- */

/* A list that is empty lets everything through. Strings are "" where nothing was asked. */
struct asked {
	uint32_t *pids, *uids, *tids;
	size_t pid_cnt, uid_cnt, tid_cnt;
	char (*comms)[FSN_COMM_LEN];
	size_t comm_cnt;
	const char *condition;  /* --if */
	const char *cpus;       /* a blank behind each */
	const char *cgroups;    /* a newline behind each */
	const char *argv;       /* the command line, a zero byte behind each word; cut */
	size_t argv_bytes;
	bool by_pid;            /* only .pids count, of which none may be left */
	bool children;          /* what they start counts, too; who has ended is not on the list */
	uint32_t lost_children; /* for which there was no room */
	size_t ended_cnt;       /* of .pids, which then stand first */
	void *said;             /* owned */
};

/*
 * Reads it. -EACCES or -EPERM for who may read the counters alone. End with asked_done(), also
 * after an error.
 */
_must_check_ int asked_read(const struct group *g, struct asked *ret_asked, struct err *err);
void asked_done(struct asked *a);
#define _cleanup_asked_ __cleanup(asked_done)

/* Whether it counts processes of which none runs any more. */
static inline bool asked_is_over(const struct asked *a)
{
	return a->by_pid && a->ended_cnt == a->pid_cnt;
}

/* --- calls in progress: listing them, and giving up those whose thread is gone -------------- */

struct slot_call {
	uint32_t fn;
	pid_t pid, tid;
	uint64_t start_ns; /* CLOCK_MONOTONIC */
	uint64_t age_ns;
	uint64_t where;    /* as in its slot: a user's stack pointer, at its return address */
	char comm[16];     /* the thread's, "" when it is gone */
	bool stale;        /* its thread's stack pointer is above: it can't be running */
	bool has_args;     /* .args are known, and what registers don't hold if .has_more */
	bool has_more;
	bool keyed;        /* .key is known, FSN_KEY_WIDE words for each part */
	struct fsn_args args;
	struct fsn_more more;
	struct fsn_key key;
};

/*
 * All calls in progress, longest first. *ret_calls is freed with free(). A call is stale
 * when /proc/PID/task/TID/syscall (proc(5)) shows a stack pointer above the call's in the
 * same mapping, or when the call's stack is not mapped any more; that changes no count.
 */
int slots_read(const struct group *g, struct slot_call **ret_calls, size_t *ret_cnt,
	struct err *err);

/*
 * Gives up calls whose thread is gone, or is another one that began later, or has become
 * another program: they are counted as abandoned, each by compare-and-exchange, so that a
 * call that ends meanwhile counts once. One that ends later is no longer abandoned then.
 * Does nothing outside the first pid and time namespaces, where threads can't be told. @g
 * must be open for writing. Returns their number.
 */
int slots_sweep(struct group *g, size_t *ret_cnt, struct err *err);

/*
 * For readers, who cannot sweep: adds to @ret_dead, by function, the calls in progress that cannot
 * return. -EACCES or -EPERM if the reader may not see them; -ENOMEM.
 */
int slots_count_dead(const struct group *g, uint64_t *ret_dead);

/*
 * Unpins the links of tail-called functions to which calls are tracked no more, as others call them
 * more often (struct fsn_place): the kernel removes their breakpoints soon after. Returns how many
 * functions that were. Needs a group that was opened to be changed; what fails is tried again by the
 * next command.
 */
size_t places_sweep(const struct group *g);

#endif
