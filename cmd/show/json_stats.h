/* SPDX-License-Identifier: BSD-2-Clause */
/* The JSON documents of `funcsnoop stats`. */
#ifndef FUNCSNOOP_SHOW_JSON_STATS_H
#define FUNCSNOOP_SHOW_JSON_STATS_H

#include "show/json.h"
#include "show/stats_report.h"

/*
 * stats: @rg's .funcs in their order, and .slow unless it is NULL. What is written goes to
 * @f function by function: the whole of thousands would take more memory than reading them.
 * 0 or -ENOMEM.
 */
int json_write_stats(struct json *doc, const struct report_group *rg, FILE *f);

/* stats --diff: @rg's .diff and .before. */
int json_write_diff(struct json *doc, const struct report_group *rg, FILE *f);

#endif
