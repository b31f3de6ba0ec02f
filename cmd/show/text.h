/* SPDX-License-Identifier: BSD-2-Clause */
/* What is shown: messages, text for people, JSON documents, and where they go. */
#ifndef FUNCSNOOP_SHOW_TEXT_H
#define FUNCSNOOP_SHOW_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/err.h"
#include "stats/figures.h"
#include "stats/stats.h"

/* --- messages ------------------------------------------------------------------------------- */

/*
 * What is said before or after every command, and how a command ends; what went wrong, in one
 * form on stderr and, with --json, on stdout.
 */

/* Exit statuses; part of the contract. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_CONDITION = 3 };

enum color { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

/* Options that stand before or after the command. */
struct globals {
	const char *command; /* its name, for messages */
	const char *bpffs;   /* --bpffs or NULL */
	enum color color;
	bool json, pretty, debug, quiet;
};

/* Prints "funcsnoop COMMAND: what: cause" and its hint, on stderr. */
void cmd_show_error(const struct globals *g, const struct err *err);

/* The same, and with --json {"error"}; EXIT_FAILED, of -ERR_USAGE EXIT_USAGE. */
int cmd_fail(const struct globals *g, const struct err *err);

/* The same for a message of the command's own; wrong usage gives EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int cmd_usage(const struct globals *g, const char *fmt,
	...);

/* A remark on stderr, "funcsnoop COMMAND: text"; not with --quiet. */
__attribute__((format(printf, 2, 3))) void cmd_note(const struct globals *g, const char *fmt,
	...);

/* --- text: tables, colours, escaped names, times -------------------------------------------- */

/* Whether stdout gets colours: --color, NO_COLOR, TERM=dumb, a terminal. */
bool text_color(const struct globals *g);

/* Columns of the terminal, 0 when stdout is none. */
unsigned int text_width(void);

/*
 * @str with control characters, escape sequences and broken UTF-8 written as \xNN: what
 * comes from a traced process never reaches a terminal raw. A malloc'ed string.
 */
char *text_escape(const char *str);

#define TEXT_NUM_LEN 40

/* "12 345 ns", "1.23 us", "4.56 ms", "7.89 s": three digits that count. */
const char *text_duration(uint64_t ns, char buf[TEXT_NUM_LEN]);

/* RFC 3339 in UTC: "2026-11-20T12:00:00Z". */
const char *text_time(uint64_t realtime_ns, char buf[TEXT_NUM_LEN]);

/*
 * When a call was, for people: the local time of day to the microsecond, with the date before
 * it when it was on another day than today.
 */
const char *text_moment(uint64_t realtime_ns, char buf[TEXT_NUM_LEN]);

/* "3.4 MB". */
const char *text_bytes(uint64_t bytes, char buf[TEXT_NUM_LEN]);

/* "PATH", or "TYPED (PATH)" where it was asked for by another path; as text_escape(). */
struct object;
char *text_library(const struct object *lib);

/*
 * "process 1234, the only one of group 'k', has ended", where no process is left that it
 * counts; else NULL.
 */
struct asked;
const char *text_over(const char *group, const struct asked *a, char *buf, size_t size);

/* "; only process 1 2; only user 0; if size > 1", for each filter that there is. */
struct out;
void out_filters(struct out *out, const struct asked *a);

/* " funcsnoop attach g 'a b'", with quotes where a shell needs them. */
void out_command(struct out *out, const struct asked *a);

/* "return+ret" for a mask of 1 << enum fsn_exit. */
const char *text_exits(unsigned int mask, char *buf, size_t size);

/* "return", "ret", "none" or "same" for an enum fsn_exit. */
const char *text_exit(unsigned int exit);

/* "sampled", "counted only" or "left out"; NULL when nothing was given up. */
const char *text_limit(enum limit limit);

/* Words with @between them, and @last before the last. */
#define WORDS_LEN 400
const char *words_join(const char *const *words, size_t cnt, const char *between,
	const char *last, char buf[WORDS_LEN]);

/* Columns that a string takes: characters, of which each takes one here. */
size_t text_columns(const char *s);

/*
 * Shortens those of @cnt names of functions that take more than @width columns, 8 at least: in the
 * middle of their longest list of parameters or template arguments. Different names stay different.
 * ret[i] is to be freed; NULL where names[i] is NULL or fits.
 */
void text_shorten(const char *const *names, size_t cnt, size_t width, char **ret);

/* --- JSON documents: how they begin and end, times, costs, and errors ----------------------- */

/* Of all documents; it grows when a key changes its meaning or goes. */
#define JSON_VERSION 1

/*
 * A document is an object, {"version": 1, ...}, that is printed at its end. A list has the array
 * @key in it, {"version": 1, "groups": [...]}, to which objects are added. json_print() frees it,
 * else json_free().
 */
struct json *json_object(const struct globals *g);
struct json *json_list(const struct globals *g, const char *key);
int json_print(struct json *doc);
void json_free(struct json **doc);
#define _cleanup_json_ __cleanup(json_free)

/* A document in @out as @g wants it, for who prints it piece by piece. */
struct json json_begin(const struct globals *g, struct out *out);

/* Begins such an object. */
void json_head(struct json *j);

/* Writes what there is of it to @f, and goes on. */
void json_flush(struct json *j, FILE *f);

/* Digits after the point of a rate in documents: something rare is not 0. */
static inline int rate_digits(double per_s)
{
	return per_s > 0 && per_s < 1 ? 9 : 3;
}

/* A percentage or a rate; the figures of a kind of document by their keys. */
void json_add_real(struct json *j, enum figure_unit unit, double x);
void json_add_figures(struct json *j, enum figure_use use, const struct figures *f);

/* A time of day, ns of CLOCK_REALTIME, as a string. */
void json_set_time(struct json *j, const char *key, uint64_t realtime_ns);

/* "cost_ns_per_s" and "cost_source". */
void json_set_cost(struct json *j, const struct cost *cost);

/* The same with what @list has, if it has anything; takes it over. It may be NULL. */
void json_error_list(
	const struct globals *g, const char *message, const char *hint, struct json *list);

/* {"version": 1, "funcsnoop": ..., "libbpf": ...} */
int json_version(const struct globals *g, const char *version, const char *libbpf);

/* --- where a stream is written to: a file, a pipe, a terminal; in whole lines --------------- */

struct sink {
	struct out out;      /* lines to be written */
	const char *name;    /* for messages */
	int fd;
	bool owned;          /* fd is to be closed */
	bool regular;        /* fd is a file of its own, not one that others write, too */
	const char *created; /* the file that sink_open() made, until sink_begin() */
	off_t at;            /* of a document: where the next line goes */
	uint64_t bytes;      /* written */
	/*
	 * Ends a document; set before sink_open(), or NULL. A file of its own ends with
	 * it after each write, and the next one takes its place.
	 */
	const char *trailer;
	/* Whether to give up a write that waits: a pipe that nobody reads, a stopped terminal. */
	bool (*give_up)(void);
};

#define SINK_NONE { .fd = -1 }

/*
 * Opens @path or, with NULL, stdout. The file is made 0600, or kept as it is until
 * sink_begin(); one that was made is removed by sink_done() if it never comes to that. Waits,
 * as open(2) does, for whoever reads a pipe with a name. @path outlives the sink.
 */
int sink_open(const char *path, struct sink *s, struct err *err);

/* From here on the file's old contents are gone. */
int sink_begin(struct sink *s, struct err *err);

/*
 * Writes .out, whole lines at a time. -EPIPE when nobody reads any more, -EINTR when it was
 * given up; a file is cut behind its last whole line when the disk is full (-ENOSPC).
 */
int sink_flush(struct sink *s, struct err *err);

/* The same for the last time: the trailer, too. */
int sink_end(struct sink *s, struct err *err);

void sink_done(struct sink *s);


void text_put_seconds(FILE *f, uint64_t ns);

#endif
