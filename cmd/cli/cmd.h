/* SPDX-License-Identifier: BSD-2-Clause */
/* What every command has: its descriptor, and the reading of its line. */
#ifndef FUNCSNOOP_CLI_CMD_H
#define FUNCSNOOP_CLI_CMD_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "show/message.h"

struct command {
	const char *name;
	const char *args;    /* what follows the name, for help */
	const char *summary; /* a line */
	int (*run)(struct globals *g, int argc, char **argv);
};

extern const struct command cmd_run, cmd_attach, cmd_list, cmd_stats, cmd_stream, cmd_reset, cmd_set,
	cmd_detach, cmd_feature;

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

/* Options before the command, and where it stands. */
struct first_words {
	int command; /* index in argv, or 0: none */
	bool version, help;
};

/* Parses the program's line up to the command; wrong usage ends the process with status 2. */
void cmd_parse_first(struct globals *g, int argc, char **argv, struct first_words *ret_first);

/* --- numbers, and words of which an option knows few --------------------------------------- */

/* A whole number from @min to @max. Leaves by argp_error(), which names @option, otherwise. */
uint64_t number_parse(struct argp_state *state, const char *option, const char *arg,
	uint64_t min, uint64_t max);

/*
 * -d SEC, -i SEC: "2", "0.5", or a duration with its unit, in ns: between 1 ms and 11 days.
 * Leaves by argp_error(), which names @option, for anything else.
 */
uint64_t seconds_parse(struct argp_state *state, const char *option, const char *arg);

/*
 * Which of its values the option @key of @options is given: 0 for the first. They stand in
 * the option's own text: its argument is "auto|entry", or what it does ends in ": call (when it
 * is over), entry or all". Leaves by argp_error(), which names them, for any other.
 */
unsigned int choice_parse(struct argp_state *state, const struct argp_option *options,
	int key, const char *arg);

/* A user's name or number. Leaves by argp_error(), which names @option, for anything else. */
uid_t user_parse(struct argp_state *state, const char *option, const char *arg);

#endif
