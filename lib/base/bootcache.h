/* SPDX-License-Identifier: BSD-2-Clause */
/* Small texts that root keeps until the next boot, in /run/funcsnoop. */
#ifndef FUNCSNOOP_BASE_BOOTCACHE_H
#define FUNCSNOOP_BASE_BOOTCACHE_H

#include <stdbool.h>
#include <stddef.h>

#define BOOTCACHE_DIR "/run/funcsnoop"
#define BOOTCACHE_MAX 4096 /* bytes of a text, with a head line */

/*
 * Reads the text kept as @name into @buf of BOOTCACHE_MAX bytes. False unless it is of this
 * boot and this version, and it and its folder belong to root and can be written by nobody
 * else. Links are not followed.
 */
bool bootcache_read(const char *name, char *buf);

/*
 * Keeps @text as @name, as root only; where that can't be done nothing is kept. Renamed
 * into place, so that a reader sees a whole text.
 */
void bootcache_write(const char *name, const char *text);

#endif
