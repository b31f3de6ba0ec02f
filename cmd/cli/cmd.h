/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors of commands, and the groups that a line names. */
#pragma once

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

/*
 * Sets the hint to the line that does what @name does, a command of another tracer. @words: what
 * follows it on the line; or NULL. False if no line is known.
 */
bool cmd_hint_habit(const char *name, char *const *words, struct err *err);

/* The line that does what strace(1) does with @words, which begin with "-c". */
void cmd_counts_line(char *const *words, char *buf, size_t size);

/* Returns the PID of "-p PID" among @words, or NULL. */
const char *cmd_typed_pid(char *const *words);

/* Returns the number among @words that is no value of an option, or NULL. */
const char *cmd_typed_time(char *const *words);

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
	size_t failed_cnt; /* those of .left that make the command fail */
	bool named;        /* the user has named the groups */
	bool crowded;      /* too few descriptors to open all groups at once: groups_pass() */
};

#define GROUPS_NONE { .fs = BPFFS_NONE }

enum groups_mode {
	GROUPS_READ,   /* for reading; swept of dead calls where permitted */
	GROUPS_CHANGE, /* for writing, with the lock held */
	/*
	 * Like GROUPS_READ, but opens with group_open_brief(), and keeps groups that cannot be read
	 * with their error.
	 */
	GROUPS_LIST,
	/*
	 * A flag for GROUPS_READ (the default) and GROUPS_CHANGE. If the user names no groups,
	 * skips groups that cannot be opened, unless none can. With GROUPS_READ, a group of another
	 * layout does not count as a failure.
	 */
	GROUPS_REST = 0x100,
	/*
	 * A flag for GROUPS_READ. Keeps only statistics that users other than the owner may read
	 * (group_keep_shared()). Succeeds even if all groups are skipped.
	 */
	GROUPS_SHARED = 0x200,
	/* A flag for GROUPS_READ and GROUPS_CHANGE: open with group_open_brief(). */
	GROUPS_BRIEF = 0x400,
};

/*
 * Opens the groups of @names, or all groups if it is empty. Returns the error of the first group
 * that cannot be opened. Free with groups_done().
 */
int groups_open(const struct globals *g, const struct words *names, unsigned int mode,
	struct groups *ret_groups, struct err *err);

/*
 * Call it after reading group @i, opened with GROUPS_LIST or GROUPS_BRIEF, with the result @code.
 * If there are too many groups, closes the descriptors of this one.
 *
 * Returns false if the group was detached during the reading and the user has not named it. Then it
 * is removed from @groups, and the next group is now group @i.
 */
bool groups_pass(struct groups *groups, size_t i, int code);

/* Moves group @i, which failed with *@err, from @groups to .left; the next group is now group @i. */
void groups_leave(struct groups *groups, size_t i, const struct err *err);

/* Prints on stderr which groups were skipped, and why. */
void groups_tell_left(const struct globals *g, const struct groups *groups);

/* True if @names[i] repeats an earlier name. Such a name is ignored. */
bool groups_named_before(char *const *names, size_t i);

/* Releases the locks of groups opened with GROUPS_CHANGE. */
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

/* Appends the @size bytes at @value. */
void list_add(struct list *list, const void *value, size_t size);

struct attach_options {
	struct globals *g;
	struct draft_opts draft;
	struct attach_opts attach;
	const char *name, *config;
	struct words words; /* GROUP, FUNCTIONs or, with --config, groups */
	struct folder_groups *folder; /* groups of the files of a --config directory, or NULL */
	struct list libs, pids, tids, comms, cgroups, cpus, uids, slow;
	struct list allocators; /* functions that --with memory selects from a preset */
	char *allocating_lib;   /* their LIB, or NULL */
	struct condition condition; /* .attach.condition, if there is one */
	struct keys keys; /* .attach.keys, if there are any */
	bool usual;       /* .keys are the defaults of the preset or configuration file */
	bool of_command; /* only count processes of a COMMAND that will be run */
	bool memory, dry_run, verbose, force, no_keys;
	bool memory_usual; /* .memory is the default of the preset */
	bool caller_usual; /* .keys is "caller", the default of .memory */
	bool has_overhead, has_mode, has_condition;
	uint32_t sample_duty; /* --sample 1/N if a GPU can be recorded so, else 0 */
	const char *const *shown; /* keys that a view needs: recorded if they are not already */
	size_t shown_cnt;
	bool refresh; /* keep a group that is attached and up to date */
	int ender_fd; /* ender_start(), or -1 */
	int guard_fd; /* guard_start(), or -1 */
};

/*
 * Checks the options and .words of @o and sets defaults. Returns false after a message on wrong
 * usage: EXIT_USAGE.
 */
bool attach_options_finish(struct attach_options *o);

/*
 * Makes @o also record the keys that a view needs: @keys, and stacks. Returns false, after a
 * message, if the options of the user contradict that.
 */
bool attach_options_show(
	struct attach_options *o, const char *const *keys, size_t key_cnt, bool stacks);

/* Makes the group record .keys. */
void attach_options_use_keys(struct attach_options *o);

void attach_options_done(struct attach_options *o);

/* --- the draft of a group ------------------------------------------------------------------ */

/* True if all of @preset is drafted, its functions allocate or free, and no option rules out .memory. */
bool draft_suits_memory(const struct attach_options *o, const struct preset_group *preset);

/* Drafts the group of @preset, or of the FUNCTIONs if it is NULL: draft_new(). */
int draft_group(struct attach_options *o, const struct preset_group *preset, bool lenient,
	struct draft **ret_draft, struct err *err);

/*
 * Drafts the group @name of the words of @o: GROUP is a preset, or FUNCTIONs follow. *@ret_set, its
 * preset or NULL, must outlive the draft. Free both, also after an error.
 */
int draft_of_words(struct attach_options *o, const char *name,
	struct preset_set **ret_set, struct draft **ret_draft, struct err *err);

/*
 * Counts the processes that get breakpoints. Each costs memory and time; if children are traced,
 * calls of unrelated processes also become slower. Returns 0, or -EPERM if there are too many and
 * --force was not given.
 */
int draft_check_hits(struct attach_options *o, const struct draft *draft,
	size_t *ret_processes, struct err *err);
