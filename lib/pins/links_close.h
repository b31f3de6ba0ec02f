/* SPDX-License-Identifier: BSD-2-Clause */
/* Closing pinned links for good, whoever ends the command meanwhile. */
#ifndef FUNCSNOOP_PINS_LINKS_CLOSE_H
#define FUNCSNOOP_PINS_LINKS_CLOSE_H

#include "kernel/link.h"
#include "pins/bpffs.h"

struct link_pin {
	char *name;            /* in its folder; the caller's */
	struct link_info info; /* zeros: not known */
	bool unpinned;
};

/*
 * Unpins and closes @pins[@cnt] of the folder @dir_fd, fills in what is known of them, and
 * sorts them. When it returns, those are closed that nobody else holds; after an error or
 * the death of the caller some are still pinned, and none is half closed. -errno of the
 * first that can't be unpinned, -EINTR, -ENOMEM. @progress may be NULL.
 */
int links_close(int dir_fd, struct link_pin *pins, size_t cnt, bpffs_progress_fn progress,
	void *arg);

#endif
