/* SPDX-License-Identifier: BSD-2-Clause */
/* Breakpoints: written down before the first is made, so that none is left without an owner. */
#ifndef FUNCSNOOP_PINS_BREAKS_H
#define FUNCSNOOP_PINS_BREAKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/util.h"

/* A probed file, and where in it. */
struct breaks_file {
	uint64_t dev, ino, size, ctime_ns; /* by stat when it was probed */
	bool overlay;
	const char *path; /* or where else it was found: find/library.h */
	const uint64_t *offsets;
	size_t cnt;
};

/* Told what breaks_heal() could not do: the process, how many it has, what to do. */
typedef void (*breaks_tell_fn)(const struct err *what, void *arg);
void breaks_init(breaks_tell_fn tell, void *arg);

/*
 * Pins in the folder @dir_fd where probes go: each file's identity and offsets, sorted, each
 * once. It stays there as long as links do. To be done before the first link.
 */
_must_check_ int breaks_write(const struct breaks_file *files, size_t cnt, int dir_fd,
	struct err *err);

/*
 * For a folder whose links are gone, but whose writer was killed while it made or closed
 * one: a process with a deadly signal leaves breakpoints where they are (apart.h). Attaching
 * and detaching once takes them away; those that others own stay. 0 also when there is
 * nothing written down, or what can't be done was told. -EPERM when the caller may not,
 * -EINTR when it was cut short: then it is to be done again.
 */
int breaks_heal(int dir_fd);

#endif
