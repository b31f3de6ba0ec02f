/* SPDX-License-Identifier: BSD-2-Clause */
/* One call with its typed arguments and result, for stream and stats --slow. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "group/keys.h"
#include "group/types.h"
#include "show/text.h"
#include "stats/figures.h"

/* A call with the names and types needed to print it. */
struct shown_call {
	const struct call *call;
	const struct fsn_more *more; /* or NULL */
	const char *group, *function;
	const char *title; /* .function for readers; group_func_title() */
	const struct func_types *types; /* or NULL */
	uint64_t ahead_ns;              /* ns by which CLOCK_REALTIME is ahead of CLOCK_MONOTONIC */
	const struct group_keys *keys; /* keys that its calls are grouped by; or NULL */
	const struct fsn_key *key;     /* FSN_KEY_WIDE words for each; NULL: not known */
	const struct stats *names;     /* its rows have the names of call sites; or NULL */
	bool on_gpu;                   /* GPU activity, in GPU time */
	uint64_t late_ns;              /* as of struct stream_record */
	uint64_t noise_ns;             /* a shorter duration is within the error of the correction */
};

/* True if @c ran on a stream of a GPU; false for NVTX ranges, whose thread is the "device". */
bool call_on_stream(const struct shown_call *c);

/* Returns the kernel name of GPU activity, or NULL. */
const char *call_kernel(const struct shown_call *c);

struct stats;

enum call_form { CALL_WHOLE, CALL_ENTRY, CALL_EXIT };

/*
 * "size=1024, kind=cudaMemcpyHostToDevice": integers with their sign and width, pointers in hex
 * or NULL, enumerators by name, text quoted and escaped, with "..." after it if truncated.
 * Without types, six registers in hex. Values that could not be read are "?", and so are all
 * values if the call's arguments are not known.
 */
void call_args_text(struct out *o, const struct shown_call *c);

/*
 * "35 cudaErrorInsufficientDriver", "0x7f00", "12"; "?" if it is not known; nothing for void.
 * Without types, the register: in hex unless it is a small number.
 */
void call_result_text(struct out *o, const struct shown_call *c);

/* The start, or for an exit the end with the overhead of probes; CLOCK_MONOTONIC. */
uint64_t call_time(const struct shown_call *c, enum call_form form);

/*
 * The object of funcsnoop-json(5): {"type":"call",...}. An entry lacks "ret", "ret_name",
 * "duration_ns", "slow" and "failed". "ts_ns" and "time" of an exit are the times of the exit.
 */
void call_json(struct json *j, const struct shown_call *c, enum call_form form);

/* "98 % blocked, 1 % queued": the states with most of its time; nothing if they are not known. */
void call_split_text(struct out *o, const struct call *call);

/* Wraps @call of @g, whose types are @types. All arguments must outlive the result. */
struct shown_call call_of(const struct group *g, const struct types *types,
	const struct call *call, const struct fsn_more *more, uint64_t ahead_ns);

struct slot_call;

/* The same for a call in progress, which is copied to *ret_call. */
struct shown_call call_of_slot(const struct group *g, const struct types *types,
	const struct slot_call *from, struct call *ret_call);

/* The member "args": an object, or null. */
void call_args_json(struct json *j, const struct shown_call *c);

/*
 * Format key @i of @row; @t are the types of its function, @p describes the key. key_name()
 * returns the key's name, possibly in @buf, or NULL; key_value_text() writes the value;
 * key_text() writes the name if there is one, otherwise the value.
 */
struct stats_row;
#define KEY_TEXT_LEN NOTATION_LEN
const char *key_name(const struct func_types *t, const struct func_part *p,
	const struct stats_row *row, size_t i, char *buf);
void key_value_text(struct out *o, const struct func_types *t, const struct func_part *p,
	const struct stats_row *row, size_t i);
void key_text(struct out *o, const struct func_types *t, const struct func_part *p,
	const struct stats_row *row, size_t i);

/*
 * Writes stack @number of process @pid: "st_call < st_plain < main", the caller, then its caller. "?" if
 * it is not known; @s may be NULL.
 */
void key_stack_text(struct out *o, struct stacks *s, uint64_t number, pid_t pid);

/*
 * Adds the members that follow a cgroup's path: its pod, container, job and unit. @c NULL: not
 * known.
 */
struct cgroup;
void json_add_cgroup(struct json *j, const struct cgroup *c);

/* The member "key": an object of all keys of @row, of function @fn. */
void keys_json(struct json *j, const struct group_keys *keys, uint32_t fn,
	const struct func_types *t, const struct stats_row *row);

/* Adds stack @number of calls of function @fn to an object. @s is NULL if stacks are not known. */
void json_add_stack(struct json *j, struct stacks *s, uint64_t number, pid_t pid, uint32_t fn);

/* True if the calls of its function are grouped by a key, or have sums. */
bool call_is_keyed(const struct shown_call *c);

/* " communicator=fa93daea854b060b 3/8 bytes=8192": the known keys and sums. */
void call_keys_text(struct out *o, const struct shown_call *c);

/* The same, without the keys and sums that are arguments or otherwise in the call's line. */
void call_line_keys_text(struct out *o, const struct shown_call *c);

/* The members "key" and "sums": objects, or null. */
void call_keys_json(struct json *j, const struct shown_call *c);

/* Members that a trace has of a call: its arguments, result, keys, sums, and split time. */
void call_details_json(struct json *j, const struct shown_call *c);

/* --- formats of a stream: lines for people, JSON lines, traces for viewers ------------------- */

#define TRACK_NAME_LEN 32

/* Part of a trace: a process, a thread, or a stream of a GPU. */
struct track {
	pid_t pid, tid; /* tid is made up for a process and for a stream of a GPU */
	char name[TRACK_NAME_LEN];
	bool is_named;
	struct lane *lanes; /* of a trace, one unless calls overlap without nesting */
	size_t lane_cnt;
};

/* State of a format between lines. */
struct stream_page {
	struct out *out;
	bool color;
	unsigned int comm_width, id_width; /* largest width so far */
	uint64_t second;    /* second of the time of day in .clock */
	char clock[16];
	struct track **tracks; /* of a trace, hashed */
	size_t track_cnt, tracks_size;
	bool any;           /* a trace has at least one object */
	struct track own;   /* what Perfetto shows of funcsnoop itself */
	uint32_t sequence, uuid_cnt; /* of Perfetto's packets */
	struct out details; /* of the call that is written */
};

/* A metric of a function over time. */
struct counter {
	uint64_t track; /* of the trace; 0: not described yet */
	uint64_t value; /* the last one, as struct figures has it; at first 0, which is not written */
};

struct stream_format {
	const char *name;
	const char *trailer; /* ends the document; or NULL */
	sink_piece_fn piece; /* of a binary format; or NULL */
	bool calls_only;     /* entries and exits cannot be written */
	void (*begin)(struct stream_page *p);
	void (*call)(struct stream_page *p, const struct shown_call *c, enum call_form form);
	/* @cnt calls of the group were lost before the next one. */
	void (*lost)(struct stream_page *p, const char *group, uint64_t cnt);
	/*
	 * Nothing was recorded for @ns, because this process was stopped until @now_ns
	 * (CLOCK_REALTIME).
	 */
	void (*gap)(struct stream_page *p, const char *group, uint64_t ns, uint64_t now_ns);
	/* Metric @id has the value c->value from @ns (CLOCK_MONOTONIC) on. NULL: it has no counters. */
	void (*counter)(struct stream_page *p, struct counter *c, const char *group,
		const char *function, enum figure_id id, uint64_t ns);
};

extern const struct stream_format stream_text, stream_json, stream_perfetto;

/* Returns the format @name, or NULL. */
const struct stream_format *stream_format_find(const char *name);

void stream_page_done(struct stream_page *p);

/*
 * Return the track of a call, of its thread or stream of a GPU, and that of its process. *@ret_new
 * is true if the trace has no track of this name yet. The process has the name of its first thread.
 */
struct track *track_of_call(struct stream_page *p, const struct shown_call *c, bool *ret_new);
struct track *track_of_process(struct stream_page *p, const struct call *call, bool *ret_new);

/*
 * Returns the end of the slice of a call: that of the last call inside, if its duration lacks the
 * overhead of the probes inside. To be called once, in the order of a stream.
 */
uint64_t lane_end(struct stream_page *p, struct track *track, const struct shown_call *c);

void lanes_free(struct track *track);

/*
 * Writes "function(arg=value) = result <1.2 ms> SLOW FAILED" as the text format does, without
 * colours.
 */
void stream_line(struct out *o, const struct shown_call *c, enum call_form form);
