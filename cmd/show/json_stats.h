/* SPDX-License-Identifier: BSD-2-Clause */
/* The JSON documents of `funcsnoop stats`. */
#ifndef FUNCSNOOP_SHOW_JSON_STATS_H
#define FUNCSNOOP_SHOW_JSON_STATS_H

#include "show/json.h"
#include "show/stats_report.h"

/* stats: @rg's .funcs in their order, and .slow unless it is NULL. */
void json_add_stats(struct json_object *doc, const struct report_group *rg);

/*
 * The same element of the document without line breaks, written function by function: the
 * whole of thousands would take more memory than reading them. 0 or -ENOMEM.
 */
int json_write_stats(const struct report_group *rg, FILE *f);

/* stats --diff: @group's .diff and .before. */
void json_add_diff(struct json_object *doc, const struct report_group *group);

#endif
