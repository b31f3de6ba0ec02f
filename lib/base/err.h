/* SPDX-License-Identifier: BSD-2-Clause */
/* The error object: filled where an operation fails, wrapped on the way up, printed once. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define ERR_MSG_LEN  1024
#define ERR_HINT_LEN 512

/* A code in addition to those of errno and libbpf: /proc is missing. */
#define ERR_NO_PROC 600
/* Also: the request is invalid, which is only known at this point; EXIT_USAGE. */
#define ERR_USAGE 601

struct err {
	int code;                /* negative errno, 0 while nothing has failed */
	char msg[ERR_MSG_LEN];   /* "what: cause", lower case, no full stop */
	char hint[ERR_HINT_LEN]; /* advice on a line of its own, or "" */
};

/*
 * Each fills @e (which can be NULL) and returns @code, so that a caller fails in one line:
 *	return err_set(e, -ENOENT, "no function '%s' in %s", name, path);
 * A long message is truncated. @code is a negative errno. The hint is cleared.
 */
__attribute__((format(printf, 3, 4))) int err_set(struct err *e, int code,
	const char *fmt, ...);

/* Same, with ": " and the text of @code appended (including libbpf's codes). */
__attribute__((format(printf, 3, 4))) int err_sys(struct err *e, int code,
	const char *fmt, ...);

/* Inserts "formatted text: " before the message of @e. Returns the code of @e. */
__attribute__((format(printf, 2, 3))) int err_wrap(struct err *e, const char *fmt, ...);

/* Sets the hint of a filled @e. Returns the code of @e. */
__attribute__((format(printf, 2, 3))) int err_hint(struct err *e, const char *fmt, ...);

/* Returns the text of a negative errno or libbpf code, valid until the next call. */
const char *err_text(int code);

/* --- libbpf: its log, the end of which is part of errors, and its version ------------------- */

typedef void (*log_sink_fn)(const char *line);

/* Redirects libbpf's log. @sink gets every line immediately; it can be NULL. */
void log_init(log_sink_fn sink);

/* True if log_init() got a sink: then the verifier's statistics are requested. */
bool log_wanted(void);

/* Returns the last warnings since log_init(), joined by "; ", or "". Static storage. */
const char *log_tail(void);

/* Returns the version of libbpf at run time: "v1.1". */
const char *version_libbpf(void);
