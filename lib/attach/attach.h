/* SPDX-License-Identifier: BSD-2-Clause */
/* Making a group real: programs loaded, links and maps pinned, all or nothing. */
#ifndef FUNCSNOOP_ATTACH_ATTACH_H
#define FUNCSNOOP_ATTACH_ATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "group/access.h"
#include "group/condition.h"
#include "group/filter.h"
#include "group/group.h"
#include "kernel/link.h"
#include "pins/bpffs.h"
#include "target/draft.h"

struct attach_opts {
	enum link_mode link;
	bool processes;   /* statistics per process */
	uint32_t sample;  /* time one call of so many; 0 and 1: all */
	struct filter filter; /* only these calls count */
	const struct condition *condition; /* and of them those; NULL: all */
	uint64_t for_ns; /* it counts for so long from when it is whole on; 0: no end */
	struct access access; /* who may read the counters */
	bool nesting;     /* follow which call was made in which */
	bool raw;         /* leave the probes' own time in what is measured */
	bool replace;     /* take the place of a group of that name */
	bool children;    /* what the processes of .filter start from now on counts, too */
	bool unborn;      /* the processes of .filter are yet to become other programs */
	/* Told how many probes of @total are attached or, when a replaced group goes, removed. */
	void (*progress)(const char *what, size_t done, size_t total, void *arg);
	void *progress_arg;
	void (*tick)(void *arg); /* every 2 ms while it attaches, or NULL */
	void *tick_arg;
};

struct attach_report {
	uint64_t until_ns; /* CLOCK_MONOTONIC of its end, or 0 */
	unsigned int links; /* mask of enum link_mode */
	size_t probe_cnt;
	struct price price; /* what its probes take; .at_ns is 0 when it is not known */
	size_t shared_cnt;  /* functions that another group probes at the same place */
	char shared_group[GROUP_NAME_MAX + 1]; /* that which has most of them */
};

/* A target as it will be shown once it is attached. */
struct group_func target_shown(const struct target *t);

/*
 * Replaces LINK_AUTO by the best kind of link that there is. Fails as attach_draft() would
 * for want of privilege or of a link, before anything has been made.
 */
_must_check_ int attach_choose_link(struct attach_opts *opts, struct err *err);

/*
 * Whether @c can be asked of the functions of @draft, of which *@ret_never lack an argument:
 * condition_bind().
 */
_must_check_ int attach_check_condition(
	const struct draft *draft, const struct condition *c, size_t *ret_never, struct err *err);

/*
 * Attaches @draft as a group. Takes the lock of @fs. -EEXIST when there is such a group (unless
 * .replace), -EPERM without privilege, -EOPNOTSUPP when the kernel lacks the kind of link,
 * -EBUSY when the lock is held too long. On failure nothing is left behind. What probes take
 * is measured first where that is not known since the boot and can be kept (calibrate.h).
 */
int attach_draft(const struct draft *draft, const struct attach_opts *opts, struct bpffs *fs,
	struct attach_report *ret_report, struct err *err);

/*
 * Attaches @draft without giving it a name, calls @measure with the folder of its pins, and
 * removes it again. What @measure returns is a negative errno or 0.
 */
int attach_measure(const struct draft *draft, const struct attach_opts *opts, struct bpffs *fs,
	int (*measure)(int dir_fd, void *arg), void *arg, struct err *err);

#endif
