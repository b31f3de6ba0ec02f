/* SPDX-License-Identifier: BSD-2-Clause */
/* The conditions of `stats --fail-if`. */
#ifndef FUNCSNOOP_SHOW_STATS_CHECK_H
#define FUNCSNOOP_SHOW_STATS_CHECK_H

#include "show/stats_report.h"

enum check_op { CHECK_GT, CHECK_GE, CHECK_LT, CHECK_LE, CHECK_EQ, CHECK_NE };

struct check {
	const char *text; /* as it was written */
	enum figure_id figure; /* of USE_SAVED */
	enum check_op op;
	bool relative; /* growth in percent, with --diff */
	double percent;
	uint64_t value;
};

/* Reads "p99>5ms", "errors>0", "p99>10%"; @text is kept. -EINVAL with the reason. */
int check_parse(const char *text, struct check *ret_check, struct err *err);

/*
 * Whether one of @checks holds for a function of @after; each that does is told on stderr.
 * @before is NULL without --diff, or when there was no such group.
 */
bool check_group(const struct globals *g, const struct check *checks, size_t cnt,
	const struct saved_group *before, const struct saved_group *after);

#endif
