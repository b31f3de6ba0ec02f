/* SPDX-License-Identifier: BSD-2-Clause */
/* What all JSON documents share: how they begin and end, times, costs, and errors. */
#ifndef FUNCSNOOP_SHOW_JSON_H
#define FUNCSNOOP_SHOW_JSON_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/json.h"
#include "show/message.h"
#include "stats/cost.h"

/*
 * A document is an array that grows group by group, or an object, and is printed at the
 * end. Memory that runs out ends the program then, with EXIT_FAILED: half a document is
 * worse than none. json_print() frees it, else json_free().
 */
struct json *json_array(const struct globals *g);
struct json *json_object(const struct globals *g);
int json_print(struct json *doc);
void json_free(struct json **doc);
#define _cleanup_json_ __cleanup(json_free)

/* A document in @out as @g wants it, for who prints it piece by piece. */
struct json json_begin(const struct globals *g, struct out *out);

/* Writes what there is of it to @f, and goes on; 0 or -ENOMEM. */
int json_flush(struct json *j, FILE *f);

/* A time of day, ns of CLOCK_REALTIME, as a string. */
void json_set_time(struct json *j, const char *key, uint64_t realtime_ns);

/* "cost_ns_per_s" and "cost_source". */
void json_set_cost(struct json *j, const struct cost *cost);

/* {"error": "..."} on stdout. */
void json_error(const struct globals *g, const char *message);

/* {"error": "...", "groups": @groups}, those only if there are any; @groups is taken over. */
void json_error_groups(const struct globals *g, const char *message, struct json *groups);

/* {"version": ..., "libbpf": ...} */
int json_version(const struct globals *g, const char *version, const char *libbpf);

#endif
