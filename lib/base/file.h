/* SPDX-License-Identifier: BSD-2-Clause */
/* Files as a whole: read, written, replaced, kept until the next boot. */
#ifndef FUNCSNOOP_BASE_FILE_H
#define FUNCSNOOP_BASE_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/util.h"

/*
 * Reads @fd, a file or a pipe, to its end. *ret_bytes, which the caller frees, has a zero
 * byte behind it. -EFBIG when there are more than @max bytes, -ENOMEM, or read(2)'s error.
 */
_must_check_ int file_read(int fd, size_t max, char **ret_bytes, size_t *ret_len);

/* Reads the number that @path, a setting of the kernel, begins with; -EINVAL: it has none. */
_must_check_ int file_read_number(const char *path, int64_t *ret_number);

/* Writes all of @bytes; 0 or write(2)'s error. */
_must_check_ int file_write(int fd, const void *bytes, size_t len);

/* The descriptor of this process that @path is a name of, as are /dev/stdout and /dev/fd/3; -1. */
int file_descriptor(const char *path);

/*
 * Writes @path: a file of that name appears whole, with @mode whatever the umask, by rename in
 * its folder; what is there and no regular file (a device, a pipe) is written to, and so is an
 * open file of this process. 0 or a negative errno.
 */
_must_check_ int file_replace(const char *path, mode_t mode, const void *bytes, size_t len);

/* --- small texts that root keeps until the next boot, in /run/funcsnoop ---------------------- */

#define BOOTCACHE_DIR "/run/funcsnoop"
#define BOOTCACHE_MAX 4096 /* bytes of a text, with a head line */

/*
 * The text kept as @name, to be freed. NULL unless it is of this boot and this version, and
 * it and its folder belong to root and can be written by nobody else. Links are not followed.
 */
char *bootcache_read(const char *name);

/*
 * Keeps @text as @name, as root only; where that can't be done nothing is kept. Renamed
 * into place, so that a reader sees a whole text.
 */
void bootcache_write(const char *name, const char *text);

#endif
