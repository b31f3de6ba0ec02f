/* SPDX-License-Identifier: BSD-2-Clause */
/* One call, its arguments and its result by their types: for stream, and stats --slow. */
#ifndef FUNCSNOOP_SHOW_CALL_H
#define FUNCSNOOP_SHOW_CALL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/json.h"
#include "group/types.h"
#include "stats/stats.h"

struct call {
	const char *group, *function;
	uint32_t fn;
	pid_t pid, tid;
	const char *comm;
	uint64_t start_ns, start_realtime_ns, duration_ns;
	const struct func_types *types;
	struct call_args args;
	uint64_t result; /* the register */
	bool has_args, has_result;
	bool timed; /* false: .duration_ns is when it left by a jump, or 0 */
	bool slow, failed;
};

enum call_form { CALL_WHOLE, CALL_ENTRY, CALL_EXIT };

/*
 * "size=1024, kind=cudaMemcpyHostToDevice": integers with their sign and width, pointers in
 * hex or NULL, enumerators by name, text in quotes, escaped, "..." behind it when it is cut;
 * without types six registers in hex. What can't be seen is "?", as all is when it is not
 * known.
 */
void call_args_text(struct out *o, const struct call *c);

/*
 * "35 cudaErrorInsufficientDriver", "0x7f00", "12"; "?" when it is not known; nothing for
 * void. Without types the register, in hex when it is no small number.
 */
void call_result_text(struct out *o, const struct call *c);

/*
 * The object of funcsnoop-json(5): {"type":"call",...}. An
 * entry has no "ret", "ret_name", "duration_ns", "slow" and "failed"; "ts_ns" and "time" of
 * an exit are those of the exit.
 */
void call_json(struct json *j, const struct call *c, enum call_form form);

/* A slow call of @g, whose types are @types; all three outlive *@ret_call. */
void call_of_slow(const struct group *g, const struct types *types,
	const struct stats_slow *slow, struct call *ret_call);

/* The member "args": an object, or null. */
void call_args_json(struct json *j, const struct call *c);

/* The members "ret" and "ret_name". */
void call_result_json(struct json *j, const struct call *c);

#endif
