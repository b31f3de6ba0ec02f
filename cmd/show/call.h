/* SPDX-License-Identifier: BSD-2-Clause */
/* One call, its arguments and its result by their types: for stream, and stats --slow. */
#ifndef FUNCSNOOP_SHOW_CALL_H
#define FUNCSNOOP_SHOW_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "group/types.h"

/* What a call is shown with: how its function is called, and what its words mean. */
struct shown_call {
	const struct call *call;
	const struct fsn_more *more; /* or NULL */
	const char *group, *function;
	const struct func_types *types; /* or NULL */
	uint64_t ahead_ns;              /* of CLOCK_REALTIME before CLOCK_MONOTONIC */
};

enum call_form { CALL_WHOLE, CALL_ENTRY, CALL_EXIT };

/*
 * "size=1024, kind=cudaMemcpyHostToDevice": integers with their sign and width, pointers in
 * hex or NULL, enumerators by name, text in quotes, escaped, "..." behind it when it is cut;
 * without types six registers in hex. What can't be seen is "?", as all is when it is not
 * known.
 */
void call_args_text(struct out *o, const struct shown_call *c);

/*
 * "35 cudaErrorInsufficientDriver", "0x7f00", "12"; "?" when it is not known; nothing for
 * void. Without types the register, in hex when it is no small number.
 */
void call_result_text(struct out *o, const struct shown_call *c);

/*
 * The object of funcsnoop-json(5): {"type":"call",...}. An
 * entry has no "ret", "ret_name", "duration_ns", "slow" and "failed"; "ts_ns" and "time" of
 * an exit are those of the exit.
 */
void call_json(struct json *j, const struct shown_call *c, enum call_form form);

/* Call @call of @g, whose types are @types; all outlive what is returned. */
struct shown_call call_of(const struct group *g, const struct types *types,
	const struct call *call, const struct fsn_more *more, uint64_t ahead_ns);

/* The member "args": an object, or null. */
void call_args_json(struct json *j, const struct shown_call *c);

/* The members "ret" and "ret_name". */
void call_result_json(struct json *j, const struct shown_call *c);

#endif
