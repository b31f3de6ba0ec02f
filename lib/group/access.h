/* SPDX-License-Identifier: BSD-2-Clause */
/* Who besides its owner may read a group's counters. */
#ifndef FUNCSNOOP_GROUP_ACCESS_H
#define FUNCSNOOP_GROUP_ACCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "pins/bpffs.h"

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

/* Whether those whom @access lets in are stopped by the bpffs itself: its mode then. */
bool access_is_blocked(
	const struct bpffs *fs, const struct access *access, mode_t *ret_mode);

#endif
