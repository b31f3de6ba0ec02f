/* SPDX-License-Identifier: BSD-2-Clause */
/* A group from inside the library: descriptors and records. */
#pragma once

#include <errno.h>

#include "group/group.h"
#include "pins/maps.h"
#include "shared/layout.h"
#include "target/kind.h"

struct group {
	char name[GROUP_NAME_MAX + 1];
	struct fsn_meta meta;
	struct fsn_func *funcs; /* meta.fn_cnt of them; the first meta.timed_cnt are timed */
	struct fsn_lib *libs;
	char *text;             /* group_text() */
	char **titles;          /* group_func_title() of functions that share their name, or NULL */
	unsigned int exits; /* as in struct group_info */
	bool events, gpu;
	bool write, foreign;
	bool swept; /* slots_sweep() has abandoned the calls that cannot return */
	bool brief; /* group_open_brief(): maps are opened on demand */
	int lock_fd; /* group_lock(), or -1 */
	int folder_fd; /* directory of all groups; owned by struct bpffs */
	bool lean;     /* it was closed once, and is closed again after reading */
	int dir_fd;    /* -1 after group_close_maps() */
	ino_t ino;     /* of that directory */
	int fd[MAPID_CNT]; /* group_fd() */
	uint32_t entries[MAPID_CNT]; /* of those that were opened */
};

#define MAP_LEFT (-EBADF) /* in .fd: it was not tried to open it */

/* Returns the descriptor of a map, or a negative errno. Opens the map if it is not open yet. */
int group_fd(const struct group *g, enum map_id id);

/* Returns the descriptor of the directory that was opened for the group, or -ENOENT. */
int group_dir_fd(const struct group *g);

/* Returns the number of entries of a map, or 0 if it cannot be opened. */
uint32_t group_entries(const struct group *g, enum map_id id);

/*
 * Returns the descriptor of a map that not all users can read, or -EACCES or -EPERM with the error
 * "@what of group ... are for its owner only".
 */
int group_map_fd(const struct group *g, enum map_id id, const char *what, struct err *err);

/* Returns the number of calls of a timed function whose exit was not traced. */
static inline uint64_t counts_untimed(const struct fsn_counts *n)
{
	return n->no_slot + n->sampled_out + n->jumped + n->inner + n->unseen;
}

/* Returns the number of calls of a timed function that have not returned. */
static inline uint64_t counts_open(const struct fsn_counts *n)
{
	return n->calls + n->revived - n->returns - n->abandoned - counts_untimed(n);
}

/*
 * Number of calls of all functions since the attach, regardless of resets, and number of timed
 * calls that have not returned. UINT64_MAX if not readable. Readers use it to skip large tables
 * that cannot have entries.
 */
struct group_begun {
	uint64_t calls, open;
};
struct group_begun group_begun(const struct group *g);

/* A string of the group's text; "" for offset 0. It belongs to the group. */
const char *group_text(const struct group *g, uint32_t offset);

/* Makes the types of the functions of @g from its records. Returns 0, -ENOMEM or -EPROTO. */
struct types;
int types_make(const struct group *g, const struct fsn_type *types, const struct fsn_name *names,
	struct types **ret_types);

static inline const struct target_kind *kind_of(const struct group *g, uint32_t fn)
{
	return target_kind(g->funcs[fn].kind);
}

/* Reads the current switches. */
int group_ctl(const struct group *g, struct fsn_ctl *ret_ctl, struct err *err);

/* Waits until all running BPF programs of all groups have ended: see fsn_sync. 0 or -EPERM. */
int group_wait_for_programs(const struct group *g);
