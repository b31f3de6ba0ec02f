/* SPDX-License-Identifier: BSD-2-Clause */
/* Output: messages, text for people, JSON documents, and their destinations. */
#pragma once

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
 * Messages and exit statuses of all commands. Errors have one form on standard error; with --json
 * also on standard output.
 */

/* Exit statuses; part of the contract. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_CONDITION = 3 };

enum color { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

/* Options that are valid before and after the command. */
struct globals {
	const char *command; /* its name, for messages */
	const char *bpffs;   /* --bpffs or NULL */
	enum color color;
	bool json, pretty, debug, quiet;
};

/* Prints "funcsnoop COMMAND: what: cause" and its hint, on stderr. */
void cmd_show_error(const struct globals *g, const struct err *err);

/*
 * Prints @err, and with --json {"error"}. Returns EXIT_USAGE for -ERR_USAGE, otherwise
 * EXIT_FAILED.
 */
int cmd_fail(const struct globals *g, const struct err *err);

/* Prints a usage error. Returns EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int cmd_usage(const struct globals *g, const char *fmt,
	...);

/* Prints a note on standard error, "funcsnoop COMMAND: text", unless --quiet is given. */
__attribute__((format(printf, 2, 3))) void cmd_note(const struct globals *g, const char *fmt,
	...);

/* --- text: tables, colours, escaped names, times -------------------------------------------- */

/*
 * True if standard output gets colours: depends on --color, NO_COLOR, TERM=dumb, and whether it
 * is a terminal.
 */
bool text_color(const struct globals *g);

/*
 * Returns the number of columns of the terminal; 0 if standard output is not a terminal and
 * text_set_width() was not called.
 */
unsigned int text_width(void);

/* Sets the number of columns, for output that another process copies to its terminal. */
void text_set_width(unsigned int columns);

/*
 * Returns @str with control characters, escape sequences and invalid UTF-8 written as \xNN,
 * because text from a traced process must never reach a terminal raw. The caller frees the
 * result.
 */
char *text_escape(const char *str);

#define TEXT_NUM_LEN 40

/* "12 345 ns", "1.23 us", "4.56 ms", "7.89 s": three digits that count. */
const char *text_duration(uint64_t ns, char buf[TEXT_NUM_LEN]);

/* How JIT code of @pid that was printed as an address gets names. */
#define TEXT_JIT_LEN 256
const char *text_jit(pid_t pid, char buf[TEXT_JIT_LEN]);

/* RFC 3339 in UTC: "2026-11-20T12:00:00Z". */
const char *text_time(uint64_t realtime_ns, char buf[TEXT_NUM_LEN]);

/*
 * Formats the time of a call for people: local time of day in microseconds, after the date if it
 * is not today.
 */
const char *text_moment(uint64_t realtime_ns, char buf[TEXT_NUM_LEN]);

/* "3.4 MB". */
const char *text_bytes(uint64_t bytes, char buf[TEXT_NUM_LEN]);

/* Formats "PATH", or "TYPED (PATH)" if the user gave another path. Escaped as by text_escape(). */
struct object;
char *text_library(const struct object *lib);

/*
 * Formats "process 1234, the only one of group 'k', has ended" if no process of the group's
 * filter exists any more. Otherwise returns NULL.
 */
struct asked;
const char *text_over(const char *group, const struct asked *a, char *buf, size_t size);

/* Writes "; only process 1 2; only user 0; if size > 1", one part per filter. */
struct out;
void out_filters(struct out *out, const struct asked *a);

/* Writes " funcsnoop attach g 'a b'", quoted for a shell where necessary. */
void out_command(struct out *out, const struct asked *a);

/* "return+ret" for a mask of 1 << enum fsn_exit. */
const char *text_exits(unsigned int mask, char *buf, size_t size);

/* "return", "ret", "none" or "same" for an enum fsn_exit. */
const char *text_exit(unsigned int exit);

/* "sampled", "counted only" or "left out"; NULL if --budget changed nothing. */
const char *text_limit(enum limit limit);

/* Joins @words with @between, and with @last before the last one. */
#define WORDS_LEN 400
const char *words_join(const char *const *words, size_t cnt, const char *between,
	const char *last, char buf[WORDS_LEN]);

/* Returns the number of columns of a string, one per character. */
size_t text_columns(const char *s);

/*
 * Shortens function names that need more than @width columns (at least 8), in the middle of their
 * longest list of parameters or template arguments. Different names stay different. ret[i] is
 * NULL if names[i] is NULL or fits; otherwise the caller frees it.
 */
void text_shorten(const char *const *names, size_t cnt, size_t width, char **ret);

/* --- JSON documents: start and end, times, overhead, errors ---------------------------------- */

/* Version of all documents; incremented if a key changes its meaning or is removed. */
#define JSON_VERSION 1

/*
 * A document is an object, {"version": 1, ...}, that is printed when complete. A list adds the
 * array @key, {"version": 1, "groups": [...]}, to which objects are added. json_print() frees the
 * document; json_free() frees it without printing.
 */
struct json *json_object(const struct globals *g);
struct json *json_list(const struct globals *g, const char *key);
int json_print(struct json *doc);
void json_free(struct json **doc);
#define _cleanup_json_ __cleanup(json_free)

/* Starts a document in @out, formatted as @g says, that the caller prints piece by piece. */
struct json json_begin(const struct globals *g, struct out *out);

/* Writes the opening of such an object, up to "version". */
void json_head(struct json *j);

/* Writes the buffered part of the document to @f. More can be added afterwards. */
void json_flush(struct json *j, FILE *f);

/*
 * Digits after the decimal point of a rate in documents; more for small rates, so that a rare
 * event is not 0.
 */
static inline int rate_digits(double per_s)
{
	return per_s > 0 && per_s < 1 ? 9 : 3;
}

/* Add a percentage or rate; add the metrics of a kind of document under their keys. */
void json_add_real(struct json *j, enum figure_unit unit, double x);
void json_add_figures(struct json *j, enum figure_use use, const struct figures *f);

/* Adds a time (CLOCK_REALTIME, ns) as a string. */
void json_set_time(struct json *j, const char *key, uint64_t realtime_ns);

/* Adds "cost_ns_per_s" and "cost_source". */
void json_set_cost(struct json *j, const struct cost *cost);

/*
 * Completes @list with "error" and prints it if it has an element; otherwise prints a document
 * with only the error. Frees @list, which may be NULL.
 */
void json_error_list(
	const struct globals *g, const char *message, const char *hint, struct json *list);

/* {"version": 1, "funcsnoop": ..., "libbpf": ...} */
int json_version(const struct globals *g, const char *version, const char *libbpf);

/* --- output of a stream: a file, a pipe or a terminal; in complete lines ---------------------- */

/*
 * Returns the length of the lines or records at the start of @buf that one write has: up to
 * PIPE_BUF, which a pipe writes atomically (pipe(7)), but at least one of them.
 */
typedef size_t (*sink_piece_fn)(const char *buf, size_t len);

struct sink {
	struct out out;      /* lines to be written */
	const char *name;    /* for messages */
	int fd;
	bool owned;          /* fd is to be closed */
	bool regular;        /* fd is a regular file that this command alone writes */
	const char *created; /* the file that sink_open() made, until sink_begin() */
	off_t at;            /* offset of the next line in a document */
	uint64_t bytes;      /* written */
	/*
	 * Text that ends a document, or NULL; set before sink_open(). In a regular file it is
	 * written after each flush, and the next flush overwrites it.
	 */
	const char *trailer;
	sink_piece_fn piece; /* NULL: pieces are lines */
	/* True if a blocked write must be abandoned, such as to a pipe without a reader. */
	bool (*give_up)(void);
};

#define SINK_NONE { .fd = -1 }

/*
 * Opens @path, or standard output if it is NULL. A new file gets mode 0600; an existing file
 * keeps its contents until sink_begin(). sink_done() removes a new file if sink_begin() was not
 * called. Blocks like open(2) until a FIFO has a reader. @path must outlive the sink.
 */
int sink_open(const char *path, struct sink *s, struct err *err);

/* Truncates the file. */
int sink_begin(struct sink *s, struct err *err);

/*
 * Writes .out in complete lines. Returns 0, -EPIPE if the pipe has no reader, -EINTR if
 * .give_up() abandoned the write, or -ENOSPC if the disk is full; the file is then truncated
 * after its last complete line.
 */
int sink_flush(struct sink *s, struct err *err);

/* Writes .out and the trailer. */
int sink_end(struct sink *s, struct err *err);

void sink_done(struct sink *s);


void text_put_seconds(FILE *f, uint64_t ns);
