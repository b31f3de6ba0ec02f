/* SPDX-License-Identifier: BSD-2-Clause */
/* What is said before or after every command, and how a command ends. */
#ifndef FUNCSNOOP_SHOW_GLOBALS_H
#define FUNCSNOOP_SHOW_GLOBALS_H

#include <stdbool.h>

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

#endif
