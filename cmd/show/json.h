/* SPDX-License-Identifier: BSD-2-Clause */
/* JSON documents: what all share, and those of attach and list. */
#ifndef FUNCSNOOP_SHOW_JSON_H
#define FUNCSNOOP_SHOW_JSON_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "group/calls.h"
#include "group/group.h"
#include "preset/preset.h"
#include "show/globals.h"
#include "stats/cost.h"
#include "target/draft.h"

/*
 * A document is an array that grows group by group and is printed at the end. Memory that
 * runs out shows when it is printed: EXIT_FAILED. json_print() frees it, else json_free().
 */
struct json_object;
struct json_object *json_array(void);
int json_print(const struct globals *g, struct json_object *doc);
void json_free(struct json_object **doc);
#define _cleanup_json_ __cleanup(json_free)

/* The same to @f; 0 or -ENOMEM. */
int json_write(const struct globals *g, struct json_object *doc, FILE *f);

/* {"error": "..."} on stdout. */
void json_error(const struct globals *g, const char *message);

/* {"error": "...", "groups": @groups}, those only if there are any; @groups is taken over. */
void json_error_groups(
	const struct globals *g, const char *message, struct json_object *groups);

/* {"version": ..., "libbpf": ...} */
int json_version(const struct globals *g, const char *version, const char *libbpf);

/* attach; with what else --dry-run tells. */
void json_add_target(struct json_object *doc, const struct target *t);
void json_explain_target(struct json_object *doc, const struct target *t);

/* list functions: the same shape, from a group that is attached. */
void json_add_functions(struct json_object *doc, const struct group *group);

/* list. @calls and @stale as found by the caller; @error for a group of another layout. */
struct json_list_row {
	const struct group *group;
	uint64_t since_ns, calls, memory_bytes;
	struct cost cost;
	bool stale;
	const char *error;
};
void json_add_list(struct json_object *doc, const struct json_list_row *row);

/* list inflight. */
void json_add_call(
	struct json_object *doc, const struct group *group, const struct slot_call *call);

/* list presets. */
void json_add_preset(struct json_object *doc, const struct preset_entry *preset);

#endif
