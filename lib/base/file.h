/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads, writes and replaces complete files, and keeps texts until the next boot. */
#pragma once

#include <sys/types.h>

#include "base/util.h"

/*
 * Reads @fd, a file or a pipe, to its end. *ret_bytes has a zero byte after the data; the caller
 * frees it. Returns 0, -EFBIG if there are more than @max bytes, -ENOMEM, or the error of read(2).
 */
_must_check_ int file_read(int fd, size_t max, char **ret_bytes, size_t *ret_len);

/* Reads the number at the start of @path, a kernel setting. Returns -EINVAL if it has none. */
_must_check_ int file_read_number(const char *path, int64_t *ret_number);

/* Writes all of @bytes. Returns 0 or the error of write(2). */
_must_check_ int file_write(int fd, const void *bytes, size_t len);

/*
 * Returns the descriptor of this process that @path names, such as /dev/stdout or /dev/fd/3; else
 * -1.
 */
int file_descriptor(const char *path);

/*
 * Opens directory @path in directory @at_fd; a symbolic link is not followed. Returns NULL with errno.
 * The caller closes it with closedir(3).
 */
_must_check_ DIR *dir_open_at(int at_fd, const char *path);

/*
 * Writes @path atomically, by rename in its directory, with @mode regardless of the umask. An
 * existing file that is not regular (a device, a pipe), or an open file of this process, is written
 * in place. Returns 0 or a negative errno.
 */
_must_check_ int file_replace(const char *path, mode_t mode, const void *bytes, size_t len);

/* --- small texts that root keeps until the next boot, in /run/funcsnoop --------------------- */

#define BOOTCACHE_DIR "/run/funcsnoop"
#define BOOTCACHE_MAX 4096 /* bytes of a text, with a head line */

/*
 * Returns the text kept as @name, which the caller frees; NULL unless it is of this boot and this
 * version. The file and its directory must belong to root and be writable only by root. Symbolic
 * links are not followed.
 */
char *bootcache_read(const char *name);

/*
 * Keeps @text as @name, if the caller is root. Errors are ignored. The file is renamed into place,
 * so that readers see a complete text.
 */
void bootcache_write(const char *name, const char *text);
