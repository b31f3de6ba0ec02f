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
	unsigned int links;   /* mask of enum link_mode (link.h) */
	unsigned int exits;   /* mask of 1 << enum fsn_exit */
	uint32_t fn_cnt, lib_cnt, probe_cnt;
	uint32_t sample;      /* one call of so many is timed; 1: all */
	uid_t uid;            /* who attached it: the login's user where that is known */
	pid_t pid;            /* of that command */
	bool processes;       /* there are statistics per process */
	bool nesting;         /* it is known which call was made in which */
	bool raw;             /* the probes' own time is left in */
	struct price price;   /* what they take; .at_ns is 0 when it was not known */
};

struct group_func {
	const char *name;
	const char *symbol, *demangled; /* NULL when there is none */
	const char *library, *build_id;
	uint64_t offset, site_offset;   /* in the file: function, entry probe */
	const char *site_why, *insn;
	enum fsn_exit exit;
	const char *exit_why;
	enum price_site site;
	enum price_end end;   /* the dearest of its ends */
	uint32_t overhead_ns; /* taken off each measured time */
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

/* Whether any function has a duration from which on its calls are slow. */
bool group_has_slow(const struct group *g);

/* How many processes map library @lib now, and the first of them: proc/proc.h. */
_must_check_ int group_lib_mappers(const struct group *g, uint32_t lib, size_t *ret_cnt,
	pid_t *ret_pid, struct err *err);

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

#endif
