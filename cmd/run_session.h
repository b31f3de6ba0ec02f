/* SPDX-License-Identifier: BSD-2-Clause */
/* What funcsnoop run is asked for, and doing it: attach, look, detach. */
#ifndef FUNCSNOOP_CMD_RUN_SESSION_H
#define FUNCSNOOP_CMD_RUN_SESSION_H

#include "cli/attach_options.h"
#include "stats_run.h"
#include "stream_run.h"

/* As those who run commands for others have it: env(1), timeout(1), nohup(1). */
enum { EXIT_OWN_FAILURE = 125, EXIT_NOT_RUN = 126, EXIT_NOT_FOUND = 127 };

struct run_options {
	struct globals *g;
	struct attach_options
		attach; /* .words: GROUP, FUNCTIONs; with --config a group or none */
	struct stats_options stats;
	struct stream_options stream; /* if .streams */
	char name[GROUP_NAME_MAX + 1];
	char **command;       /* ends with NULL; or is NULL */
	uint64_t duration_ns; /* 0: no end */
	bool streams, no_children;
	bool table_apart; /* calls go to stdout in a form of which the table is no part */
};

/* Does it; an exit status. */
int run_session(struct run_options *o);

#endif
