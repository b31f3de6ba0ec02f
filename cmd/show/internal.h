/* SPDX-License-Identifier: BSD-2-Clause */
/* What metrics are of: series, which each have their labels. */
#ifndef FUNCSNOOP_SHOW_INTERNAL_H
#define FUNCSNOOP_SHOW_INTERNAL_H

#include <stdio.h>

#include "show/stats.h"

/* Of the calls of a function those that are told apart from others by a key or a process. */
struct series {
	char *text; /* its function's labels, and its own */
	struct stats_row row;
};

/* A function of one group; in files that are labelled alike they are one. */
struct labels {
	const struct report_group *rg;
	const struct stats *s;
	const struct stats_func **f; /* in order; the first one's name and types are theirs */
	size_t cnt;
	bool called;
	char *text; /* group="...",function="...",library="..." */
	struct series *series; /* others, then those told apart; NULL: it is not */
	size_t series_cnt;
	bool full; /* more were to have series than may */
};

struct all_labels {
	struct labels *of;
	size_t cnt;
	const struct stats_func **funcs; /* what .f of each lies in */
};

/* The value of a label, without its quotes. */
void label_put(FILE *f, const char *value);

/* Those of all functions of @r, each group's together; -ENOMEM. End with labels_done(). */
_must_check_ int labels_collect(const struct report *r, struct all_labels *ret_labels);
void labels_done(struct all_labels *all);

#endif
