/* SPDX-License-Identifier: BSD-2-Clause */
/* From what attach and run are asked for to a group that could be made: found, and judged. */
#ifndef FUNCSNOOP_CLI_ATTACH_DRAFT_H
#define FUNCSNOOP_CLI_ATTACH_DRAFT_H

#include "cli/attach_options.h"

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
