/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading a command's line: what is wrong with it, said in one form; and its help. */
#ifndef FUNCSNOOP_CLI_USAGE_H
#define FUNCSNOOP_CLI_USAGE_H

#include "cli/cmd.h"

/*
 * Options of this group (struct argp_option .group) and above are only named in the help;
 * an option with few values has them as its argument: "auto|entry".
 */
#define USAGE_MORE   50
#define USAGE_GLOBAL 90

/*
 * argp_parse() whose messages are this program's: wrong usage is told on stderr and, with
 * --json, as {"error"}, and ends the process with EXIT_USAGE. An unknown option comes with
 * those near it. @flags: ARGP_IN_ORDER or 0. argv[0] is changed.
 */
void usage_parse(struct globals *g, const struct argp *argp, unsigned int flags, int argc,
	char **argv, void *input);

/* For ARGP_KEY_INIT of the global options' parser: messages go where usage_parse() is. */
void usage_capture(struct argp_state *state);

/* The children of the argp of a command's line: its own, and the options of every command. */
enum { USAGE_OWN, USAGE_EVERYWHERE };

/* Prints the help of @command, which fits a screen, and ends the process. */
__attribute__((noreturn)) void usage_help(const struct argp *line, const char *command);

#endif
