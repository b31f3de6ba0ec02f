/* SPDX-License-Identifier: BSD-2-Clause */
/* What funcsnoop attach is asked for, and the group that it could make of it. */
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

/* --- the group that could be made ---------------------------------------------------------- */

/* The group of @preset, or with NULL of FUNCTIONs: draft_new(). */
int draft_group(struct attach_options *o, const struct preset_group *preset, bool lenient,
	struct draft **ret_draft, struct err *err);

/*
 * The group that the words of @o say: GROUP is a preset, or FUNCTIONs follow. Its name is
 * @name. *ret_set, what is known of it or NULL, must outlive the draft: free both, also
 * after an error.
 */
int draft_of_words(struct attach_options *o, const char *name,
	struct preset_set **ret_set, struct draft **ret_draft, struct err *err);

/* Says in a line or two on stderr what of a preset or pattern is left out. */
void draft_note_left_out(const struct attach_options *o, const struct draft *draft);

/*
 * How many processes get breakpoints. -EPERM when they are so many that --force is wanted,
 * as each pays for pages and time; where children are followed, those that are nobody's pay
 * for each call.
 */
int draft_check_hits(const struct attach_options *o, const struct draft *draft,
	size_t *ret_processes, struct err *err);

#endif
