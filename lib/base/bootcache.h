/* SPDX-License-Identifier: BSD-2-Clause */
/* Small texts that root keeps until the next boot, in /run/funcsnoop. */
#ifndef FUNCSNOOP_BASE_BOOTCACHE_H
#define FUNCSNOOP_BASE_BOOTCACHE_H

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
