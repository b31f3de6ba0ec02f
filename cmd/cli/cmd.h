/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors of commands, and the groups that a line names. */
#ifndef FUNCSNOOP_CLI_CMD_H
#define FUNCSNOOP_CLI_CMD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "attach/attach.h"
#include "group/group.h"
#include "show/text.h"
#include "target/draft.h"

struct command {
	const char *name;
	const char *args;    /* what follows the name in the list of commands */
	const char *summary; /* a line */
	int (*run)(struct globals *g, int argc, char **argv);
	unsigned int on;     /* its bit in struct option_row .on */
	const char *usage;   /* words of the line, one form per line; NULL: none */
	const char *text;    /* for the help: description, \v, examples */
};

extern const struct command cmd_run, cmd_attach, cmd_list, cmd_stats, cmd_stream, cmd_reset, cmd_set,
	cmd_detach, cmd_feature, cmd_serve, cmd_compare, cmd_stack;

/* Words of a command line that are not options; part of argv, which is reordered. */
struct words {
	char **word;
	size_t cnt;
};

/* --- the groups that a line names, or all --------------------------------------------------- */

struct groups {
	struct bpffs fs;
	struct group **group;
	char **error; /* of a group that can't be read: why; else NULL */
	size_t cnt;
	struct groups_left {
		struct err why;
		bool excused; /* no failure of a reader's: another version attached it, or it is
				 not shared */
	} *left; /* each group that was left out, with GROUPS_REST */
	size_t left_cnt;
	size_t failed_cnt; /* of them, those that make a failure of the whole */
	bool named;        /* they are those of the line */
	bool crowded;      /* there are not descriptors enough for all at once: groups_pass() */
};

#define GROUPS_NONE { .fs = BPFFS_NONE }

enum groups_mode {
	GROUPS_READ,   /* for reading; swept of dead calls where permitted */
	GROUPS_CHANGE, /* for writing, with the lock held */
	/*
	 * Like GROUPS_READ, but by group_open_brief(), and one that can't be read is kept with its
	 * error.
	 */
	GROUPS_LIST,
	/*
	 * A flag for GROUPS_READ (alone: that) and GROUPS_CHANGE: when no names are given, groups that
	 * can't be opened are left out, unless all are. To readers one of another layout is
	 * no failure.
	 */
	GROUPS_REST = 0x100,
	/*
	 * A flag for GROUPS_READ: what others than the owner may read, group_keep_shared(). That
	 * all groups are left out is no failure then.
	 */
	GROUPS_SHARED = 0x200,
	/* A flag for GROUPS_READ and GROUPS_CHANGE: by group_open_brief(). */
	GROUPS_BRIEF = 0x400,
};

/*
 * Opens @names, or all groups when there are none. All must be there; else the error of
 * the first that isn't. End with groups_done().
 */
int groups_open(const struct globals *g, const struct words *names, unsigned int mode,
	struct groups *ret_groups, struct err *err);

/*
 * To be called when group @i, opened with GROUPS_LIST or GROUPS_BRIEF, has been read, with what
 * that gave: of many groups the descriptors are closed. False when reading has failed as a
 * detach has removed the group meanwhile, and the line does not name it: it is none of @groups
 * any more, and the next one is now group @i.
 */
bool groups_pass(struct groups *groups, size_t i, int code);

/*
 * Group @i has failed as *err says, and is none of @groups any more, but left out; the next one is
 * now group @i. -ENOMEM, with *err.
 */
int groups_leave(struct groups *groups, size_t i, struct err *err);

/* Says on stderr which groups were left out, and why: failures, and notes. */
void groups_tell_left(const struct globals *g, const struct groups *groups);

/* Is names[i] one of those before it? A group named twice is meant once. */
bool groups_named_before(char *const *names, size_t i);

/* Lets other writers in again, when opened with GROUPS_CHANGE. */
void groups_unlock(struct groups *groups);

void groups_done(struct groups *groups);

#define _cleanup_groups_ __cleanup(groups_done)

/* --- options of attach ---------------------------------------------------------------------- */

/* Values of an option that can be repeated. */
struct list {
	void *of;
	size_t cnt;
	bool given;
};

struct attach_options {
	struct globals *g;
	struct draft_opts draft;
	struct attach_opts attach;
	const char *name, *config;
	struct words words; /* GROUP, FUNCTIONs or, with --config, groups */
	struct folder_groups *folder; /* of the files of a --config folder, else NULL */
	struct list libs, pids, tids, comms, cgroups, cpus, uids, slow;
	struct condition condition; /* .attach.condition, if there is one */
	struct keys keys; /* .attach.keys, if there are any */
	bool usual;       /* they are those of the preset or, of the group last drafted, of its file */
	bool of_command; /* only processes of a command count that is to be run */
	bool memory, dry_run, verbose, force, no_keys;
	bool has_overhead, has_mode, has_condition;
	uint32_t sample_duty; /* --sample 1/N if a GPU can be recorded so, else 0 */
	const char *const *shown; /* keys that a view needs: recorded if they are not already */
	size_t shown_cnt;
	bool refresh; /* a group that is there as it would be made stays */
	int ender_fd; /* ender_start(), or -1 */
	int guard_fd; /* guard_start(), or -1 */
};

/*
 * Checks the options and .words of @o and sets defaults. Returns false after a message on wrong
 * usage: EXIT_USAGE.
 */
bool attach_options_finish(struct attach_options *o);

/*
 * Makes @o, which was read, record what the group is to be shown by: @keys, and stacks. Returns
 * false, after a message, if its line contradicts that.
 */
bool attach_options_show(
	struct attach_options *o, const char *const *keys, size_t key_cnt, bool stacks);

/* The group has @o's keys, and rows for them. */
void attach_options_use_keys(struct attach_options *o);

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

/*
 * How many processes get breakpoints. -EPERM when they are so many that --force is wanted,
 * as each pays for pages and time; where children are followed, those that are nobody's pay
 * for each call.
 */
int draft_check_hits(struct attach_options *o, const struct draft *draft,
	size_t *ret_processes, struct err *err);

#endif
