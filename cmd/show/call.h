/* SPDX-License-Identifier: BSD-2-Clause */
/* One call, its arguments and its result by their types: for stream, and stats --slow. */
#ifndef FUNCSNOOP_SHOW_CALL_H
#define FUNCSNOOP_SHOW_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "group/keys.h"
#include "group/types.h"

/* What a call is shown with: how its function is called, and what its words mean. */
struct shown_call {
	const struct call *call;
	const struct fsn_more *more; /* or NULL */
	const char *group, *function;
	const struct func_types *types; /* or NULL */
	uint64_t ahead_ns;              /* of CLOCK_REALTIME before CLOCK_MONOTONIC */
	const struct group_keys *keys; /* what its calls are told apart by; or NULL */
	const struct fsn_key *key;     /* FSN_KEY_WIDE words for each; NULL: it is not known */
	const struct stats *names;     /* whose rows say how places are called; or NULL */
	bool on_gpu;                   /* a GPU made it, in its own time */
};

/* Of what is on a GPU: the name of the kernel, or NULL. */
const char *call_kernel(const struct shown_call *c);

struct stats;

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

/* "98 % blocked, 1 % queued": where most of its time went; nothing when that is not known. */
void call_split_text(struct out *o, const struct call *call);

/* Call @call of @g, whose types are @types; all outlive what is returned. */
struct shown_call call_of(const struct group *g, const struct types *types,
	const struct call *call, const struct fsn_more *more, uint64_t ahead_ns);

/* The member "args": an object, or null. */
void call_args_json(struct json *j, const struct shown_call *c);

/*
 * Key @i of @row, whose function's types are @t, as part @p tells: what it is called, perhaps in
 * @buf, or NULL; its value; and the former, or else the latter.
 */
struct stats_row;
#define KEY_TEXT_LEN NOTATION_LEN
const char *key_name(const struct func_types *t, const struct func_part *p,
	const struct stats_row *row, size_t i, char *buf);
void key_value_text(struct out *o, const struct func_types *t, const struct func_part *p,
	const struct stats_row *row, size_t i);
void key_text(struct out *o, const struct func_types *t, const struct func_part *p,
	const struct stats_row *row, size_t i);

/* The members behind a cgroup's path: who runs there. NULL: nobody knows. */
struct cgroup;
void json_add_cgroup(struct json *j, const struct cgroup *c);

/* The member "key": an object of all keys of @row, of function @fn. */
void keys_json(struct json *j, const struct group_keys *keys, uint32_t fn,
	const struct func_types *t, const struct stats_row *row);

/* Members of an object: stack @number of @s, which is NULL where stacks are not known. */
void json_add_stack(struct json *j, struct stacks *s, uint64_t number, pid_t pid);

/* Whether calls of its function are told apart, or added up. */
bool call_is_keyed(const struct shown_call *c);

/* " communicator=fa93daea854b060b 3/8 bytes=8192", what is known of both. */
void call_keys_text(struct out *o, const struct shown_call *c);

/* The same of what is neither an argument nor in a line of the call otherwise. */
void call_line_keys_text(struct out *o, const struct shown_call *c);

/* The members "key" and "sums": objects, or null. */
void call_keys_json(struct json *j, const struct shown_call *c);

/* The members "ret" and "ret_name". */
void call_result_json(struct json *j, const struct shown_call *c);

/* --- how a stream is written: lines for people, JSON lines, a trace for a viewer ------------ */

/* What formats keep from line to line. */
struct stream_page {
	struct out *out;
	bool color;
	unsigned int comm_width, id_width; /* as wide as any has been */
	uint64_t second;    /* of the time of day in .clock */
	char clock[16];
	struct seen *seen;  /* threads that the trace has named */
	size_t seen_cnt, seen_size;
	bool any;           /* a trace has its first object */
};

struct stream_format {
	const char *name;
	const char *trailer; /* ends the document; or NULL */
	bool calls_only;     /* entries and exits have no place in it */
	void (*begin)(struct stream_page *p);
	void (*call)(struct stream_page *p, const struct shown_call *c, enum call_form form);
	/* @cnt calls of the group are missing before the next. */
	void (*lost)(struct stream_page *p, const char *group, uint64_t cnt);
	/* For so long nothing was recorded, as this process was stopped; until @now_ns,
	 * CLOCK_REALTIME. */
	void (*gap)(struct stream_page *p, const char *group, uint64_t ns, uint64_t now_ns);
};

extern const struct stream_format stream_text, stream_json;

/* NULL when there is none of that name. */
const struct stream_format *stream_format_find(const char *name);

void stream_page_done(struct stream_page *p);

/* "function(arg=value) = result <1.2 ms> SLOW FAILED", as in text, without colours. */
void stream_line(struct out *o, const struct shown_call *c, enum call_form form);

#endif
