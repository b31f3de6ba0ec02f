/* SPDX-License-Identifier: BSD-2-Clause */
/* The JSON documents of `funcsnoop stats`. */
#ifndef FUNCSNOOP_CMD_JSON_STATS_H
#define FUNCSNOOP_CMD_JSON_STATS_H

#include "json.h"
#include "stats_report.h"

/* stats, with these functions in this order; @slow NULL unless slow calls are asked for. */
void json_add_stats(struct json_object *doc, const struct stats *stats,
	const struct stats_func *const *funcs, size_t func_cnt,
	const struct stats_slow *slow, size_t slow_cnt);

/*
 * The same element of the document without line breaks, written function by function: the
 * whole of thousands would take more memory than reading them. 0 or -ENOMEM.
 */
int json_write_stats(const struct stats *stats, const struct stats_func *const *funcs,
	size_t func_cnt, const struct stats_slow *slow, size_t slow_cnt, FILE *f);

/* stats --diff: @group's .diff and .before. */
void json_add_diff(struct json_object *doc, const struct report_group *group);

#endif
