/* SPDX-License-Identifier: BSD-2-Clause */
/* What funcsnoop attach is asked for, and what it says of it. */
#ifndef FUNCSNOOP_CLI_ATTACH_OPTIONS_H
#define FUNCSNOOP_CLI_ATTACH_OPTIONS_H

#include "attach/attach.h"
#include "cli/cmd.h"
#include "target/draft.h"

struct attach_options {
	struct globals *g;
	struct target_opts target;
	struct attach_opts attach;
	const char *name, *config;
	struct words words; /* GROUP, FUNCTIONs or, with --config, groups */
	const char **libs;
	pid_t *pids;
	const char **comms, **cgroups;
	uint32_t *cpus;
	struct target_slow *slow;
	char **owned; /* names cut from --slow */
	size_t owned_cnt;
	bool dry_run, force, has_mode;
};

/*
 * Reads the command's line into @o, which holds .g and defaults. False when it makes no
 * sense, which has been said: EXIT_USAGE. Free with attach_options_done() in any case.
 */
bool attach_options_parse(struct attach_options *o, int argc, char **argv);
void attach_options_done(struct attach_options *o);

/* For struct attach_opts .progress; @arg is the struct globals. */
void attach_show_progress(const char *what, size_t done, size_t total, void *arg);

/* What of a preset or pattern is left out, in a line or two on stderr. */
void attach_note_left_out(const struct attach_options *o, const struct target *t);

/* What still keeps those out whom --mode and --owner let in. */
void attach_note_closed(const struct attach_options *o, const struct bpffs *fs);

/* The table of --dry-run. */
void attach_print_target(const struct attach_options *o, const struct target *t);

/* The line or two that say what is attached; @processes map its files now. */
void attach_print_done(
	const struct target *t, const struct attach_report *report, size_t processes);

#endif
