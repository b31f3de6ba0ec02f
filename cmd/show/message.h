/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is said before or after every command, and how a command ends; what went wrong, in one
 * form on stderr and, with --json, on stdout.
 */
#ifndef FUNCSNOOP_SHOW_MESSAGE_H
#define FUNCSNOOP_SHOW_MESSAGE_H

#include <stdbool.h>

#include "base/err.h"

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

#endif
