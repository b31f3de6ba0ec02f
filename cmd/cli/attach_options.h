/* SPDX-License-Identifier: BSD-2-Clause */
/* What funcsnoop attach is asked for. */
#ifndef FUNCSNOOP_CLI_ATTACH_OPTIONS_H
#define FUNCSNOOP_CLI_ATTACH_OPTIONS_H

#include "attach/attach.h"
#include "cli/cmd.h"
#include "target/draft.h"

struct attach_options {
	struct globals *g;
	struct draft_opts draft;
	struct attach_opts attach;
	const char *name, *config;
	struct words words; /* GROUP, FUNCTIONs or, with --config, groups */
	const char **libs;
	pid_t *pids;
	const char **comms, **cgroups;
	uint32_t *cpus;
	uid_t *uids;
	pid_t *tids;
	struct condition condition; /* .attach.condition, if there is one */
	struct draft_slow *slow;
	char **owned; /* names cut from --slow */
	size_t owned_cnt;
	bool dry_run, force, has_mode;
	int ender_fd; /* ender_start(), or -1 */
};

/*
 * Reads the command's line into @o, which holds .g and defaults. False when it makes no
 * sense, which has been said: EXIT_USAGE. Free with attach_options_done() in any case.
 */
bool attach_options_parse(struct attach_options *o, int argc, char **argv);
void attach_options_done(struct attach_options *o);

#endif
