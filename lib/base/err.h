/* SPDX-License-Identifier: BSD-2-Clause */
/* The error object: filled where a thing fails, wrapped on the way up, printed once. */
#ifndef FUNCSNOOP_BASE_ERR_H
#define FUNCSNOOP_BASE_ERR_H

#include <stdbool.h>
#include <stddef.h>

#define ERR_MSG_LEN  1024
#define ERR_HINT_LEN 512

/* A code of its own, beside errno's and libbpf's: what is looked for is below /proc. */
#define ERR_NO_PROC 600
/* And: what was asked for makes no sense, which could not be seen before; EXIT_USAGE. */
#define ERR_USAGE 601

struct err {
	int code;                /* negative errno, 0 while nothing has failed */
	char msg[ERR_MSG_LEN];   /* "what: cause", lower case, no full stop */
	char hint[ERR_HINT_LEN]; /* advice on a line of its own, or "" */
};

/*
 * Each fills @e (which may be NULL) and returns @code, so that a caller fails in one line:
 *	return err_set(e, -ENOENT, "no function '%s' in %s", name, path);
 * A message is cut, never overrun. @code is a negative errno. The hint is cleared.
 */
__attribute__((format(printf, 3, 4))) int err_set(struct err *e, int code,
	const char *fmt, ...);

/* The same, with ": " and the text of @code appended (libbpf's own codes included). */
__attribute__((format(printf, 3, 4))) int err_sys(struct err *e, int code,
	const char *fmt, ...);

/* Puts "formatted text: " before the message that @e holds; returns the code it holds. */
__attribute__((format(printf, 2, 3))) int err_wrap(struct err *e, const char *fmt, ...);

/* Sets the hint of a filled @e; returns the code it holds. */
__attribute__((format(printf, 2, 3))) int err_hint(struct err *e, const char *fmt, ...);

/* The text of a negative errno or libbpf code; the pointer is valid until the next call. */
const char *err_text(int code);

/* --- what libbpf says: its log, of which errors tell the end, and its version --------------- */

typedef void (*log_sink_fn)(const char *line);

/* Takes libbpf's log over. @sink gets every line as it comes, or is NULL. */
void log_init(log_sink_fn sink);

/* Whether log_init() was given a sink: then the verifier is asked for its statistics. */
bool log_wanted(void);

/* The last lines of warnings since log_init(), joined by "; ", or "". Static storage. */
const char *log_tail(void);

/* "v1.1", of the libbpf that runs. */
const char *version_libbpf(void);

#endif
