/* SPDX-License-Identifier: BSD-2-Clause */
/* Who maps a file now, and whether a process still runs. */
#ifndef FUNCSNOOP_PROC_MAPPERS_H
#define FUNCSNOOP_PROC_MAPPERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/util.h"

/* A file: stat's numbers, and its path, perhaps with a remark in parentheses behind it. */
struct mappers_file {
	dev_t dev;
	uint64_t ino;
	const char *path;
};

/*
 * Processes, but not this one, that map one of @files, as far as they may be looked at;
 * *ret_pid is the first of them. Where a file system shows other devices and perhaps other
 * inodes in /proc/PID/maps than by stat(2), as overlayfs and btrfs do, the inode's lower
 * half and the name decide. @proc is "/proc" or, for tests, another folder.
 */
_must_check_ int mappers_count(const char *proc, const struct mappers_file *files, size_t cnt,
	size_t *ret_cnt, pid_t *ret_pid, struct err *err);

/*
 * Whether process @pid runs that began at @start_ns (CLOCK_BOOTTIME): one that began at
 * another time has only got its number.
 */
bool proc_alive(const char *proc, pid_t pid, uint64_t start_ns);

/*
 * Whether it certainly has ended, with all its threads: nobody has its number, or one that
 * began at another time. False where that can't be told, and while nobody waited for it.
 * Numbers and times are those of the first namespaces: proc_is_first_ns().
 */
bool proc_ended(pid_t pid, uint64_t start_ns);

#endif
