/* SPDX-License-Identifier: BSD-2-Clause */
/* Output of attach and list: functions and their probes, groups, calls in flight, presets. */
#pragma once

#include "group/group.h"
#include "group/types.h"
#include "preset/preset.h"
#include "show/table.h"
#include "show/text.h"
#include "target/draft.h"

/* --- table of functions, of a group or a draft --------------------------------------------- */

struct grid *functions_table(void);

/* Adds a row. @refused: the reason why it cannot be probed, or NULL. */
void functions_add(struct grid *table, const struct group_func *f, const char *refused);

/* Adds rows for functions of @group that were left out because of the overhead limit. */
void functions_add_left(struct grid *table, const struct group *group);

/* Writes "; overhead at most 10 %: 1 sampled, 2 left out", or nothing if @group has no bound. */
struct out;
void out_budget(struct out *out, const struct group *group);

/* A row for a name that is in no library. */
void functions_add_missing(struct grid *table, const char *name);

/*
 * Prototypes of functions, and where they are from: "name(type arg, ...) -> result".
 * @known and @why may be NULL. The table as functions_table().
 */
struct grid *prototypes_table(void);
void prototypes_add(struct grid *table, const char *name, const struct preset_func *known,
	const char *why);

/* --- overhead: functions that are sampled, only counted or left out -------------------------- */

#define BOUND_NAMES 3

struct bound {
	size_t cnt[LIMIT_CNT]; /* functions by their limit */
	const struct target *expensive[BOUND_NAMES]; /* of those, the most expensive first */
	size_t named;
};

struct budget;
void bound_count(const struct draft *draft, struct bound *ret_bound);

/* True if some function is sampled, only counted or left out. */
bool bound_limits(const struct bound *b);

/*
 * "overhead at most 10 %: 12 functions kept, 1 of them counted only, 2 left out: 'f' (9000
 * calls/s), 'g' (80 calls/s, counted only) ...; '--overhead none' keeps all, 'run cpu' samples
 * those left out"
 */
void bound_text(const struct bound *b, const struct budget *budget, char *buf, size_t size);

/*
 * The same of the @cnt functions that were left out while @draft counted: shed_tell(). "overhead at
 * most 10 %: 2 functions left out meanwhile: 'f' (9000 calls/s), ..."
 */
void bound_shed_text(
	const struct draft *draft, size_t cnt, const struct budget *budget, char *buf, size_t size);

/*
 * Of functions whose calls the programs did not all time to keep to the bound: how many calls, and those
 * with the most. False: there are none.
 */
struct stats;
bool bound_shed_calls(const struct stats *s, char *buf, size_t size);

/* --- JSON ---------------------------------------------------------------------------------- */

/* For attach; json_explain_draft() adds the details of --dry-run. */
struct budget;
void json_add_draft(struct json *doc, const struct draft *draft, const struct budget *budget);
void json_explain_draft(struct json *doc, const struct draft *draft);

/* For list functions: the same format, from an attached group. */
void json_add_functions(
	struct json *doc, const struct group *group, const struct types *types);

/* For list. The caller sets .calls and .stale; .error is set for a group of another layout. */
struct asked;
struct json_list_row {
	const struct group *group;
	uint64_t since_ns, calls, memory_bytes;
	size_t shed_cnt; /* functions: stats_is_shed() */
	struct cost cost;
	bool stale;
	const char *error;
	uint64_t until_ns;         /* 0: no end */
	const struct asked *asked; /* NULL unless the user is the owner */
};
void json_add_list(struct json *doc, const struct json_list_row *row);

/*
 * list targets: prints the targets that @functions match, their declarations, and why
 * some cannot be probed. Returns the exit status, after printing errors.
 */
int list_targets(const struct globals *g, char *const *functions, size_t cnt);

/*
 * For list inflight: opens the object of a call, which the caller ends with json_close(). @shown is
 * the same call with its arguments and keys.
 */
struct shown_call;
void json_begin_call(struct json *doc, const struct group *group, const struct slot_call *call,
	const struct shown_call *shown);

/* For list presets. */
void json_add_preset(struct json *doc, const struct preset_entry *preset);
