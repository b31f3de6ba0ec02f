/* SPDX-License-Identifier: BSD-2-Clause */
/* What every command has: its descriptor, the global options, and how it fails. */
#ifndef FUNCSNOOP_CMD_H
#define FUNCSNOOP_CMD_H

#include <argp.h>
#include <stdbool.h>
#include <stdio.h>

#include "bpffs.h"
#include "err.h"

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

struct command {
	const char *name;
	const char *args;    /* what follows the name, for help */
	const char *summary; /* a line */
	int (*run)(struct globals *g, int argc, char **argv);
};

extern const struct command cmd_attach, cmd_list, cmd_stats, cmd_stream, cmd_reset, cmd_set,
	cmd_detach, cmd_feature;

/* All commands; ends with NULL. */
extern const struct command *const commands[];

/* What stands on a command's line besides options; of argv, which is reordered. */
struct words {
	char **word;
	size_t cnt;
};

/*
 * Parses a command's line: its own options, which go with @input to @argp's parser, and the
 * global ones. @words, empty, takes the words, or is NULL when none may stand there. Leaves the process with
 * status 2 on wrong usage, and after --help.
 */
void cmd_parse(struct globals *g, const struct argp *argp, int argc, char **argv, void *input,
	struct words *words);

/* Prints "funcsnoop COMMAND: what: cause" and its hint, on stderr. */
void cmd_show_error(const struct globals *g, const struct err *err);

/* The same, and with --json {"error"}; EXIT_FAILED. */
int cmd_fail(const struct globals *g, const struct err *err);

/* The same for a message of the command's own; wrong usage gives EXIT_USAGE. */
__attribute__((format(printf, 2, 3))) int cmd_usage(const struct globals *g, const char *fmt,
	...);

/* A remark on stderr, "funcsnoop COMMAND: text"; not with --quiet. */
__attribute__((format(printf, 2, 3))) void cmd_note(const struct globals *g, const char *fmt,
	...);

#endif
