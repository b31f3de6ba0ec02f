/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of options, and what reads command lines, prints help and serves completion from it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/cmd.h"
#include "show/call.h"
#include "show/stats.h"
#include "stream/stream.h"

/* --- values of options ---------------------------------------------------------------------- */

struct stats_options {
	struct globals *g;
	struct words names;
	struct stats_choice choice;
	const struct view *view;
	bool view_set, slow, tree, reset, timestamps, watch;
	bool of_command; /* the processes are those of a COMMAND, whose end is not reported */
	bool past; /* what is shown is over: what it takes now is not asked */
	bool shared; /* only what others than the owners may read: GROUPS_SHARED */
	uint64_t interval_ns, duration_ns;
	const struct stats_format *format;
	const char *output, *save;
	const char *diff_path;
	struct saved *before; /* of diff_path */
	char *by_text, *by; /* values of --by, joined; the same, whose parts are .choice.by */
	struct check *checks;
	size_t check_cnt;
	int until_fd; /* intervals end when it can be read, and not by signals; 0: none */
	void (*ready)(void *arg); /* told when the first interval has begun; or NULL */
	void *ready_arg;
	void (*tick)(void *arg); /* called with ready_arg every 20 ms, or NULL */
};

struct stream_options {
	struct globals *g;
	struct words names;
	struct stream_filter filter;
	struct list pids, funcs;
	bool calls, entries, exits; /* which of the events are shown */
	const struct stream_format *format;
	const char *output;
	uint64_t max_calls;   /* stop after N calls; 0: never */
	uint64_t duration_ns; /* 0: no limit */
	uint64_t buffer_bytes;
	bool alert;
	int until_fd; /* it ends when this can be read, and not by signals; 0: none */
	void (*ready)(void *arg); /* told when calls are recorded; or NULL */
	void *ready_arg;
	void (*tick)(void *arg); /* called with ready_arg at each look, or NULL */
};

struct list_options {
	bool verbose, types, all, stacks, lines;
	enum { STACK_TEXT, STACK_FOLDED, STACK_FLAME } format;
	uint64_t older_ns;  /* minimum age of calls and allocations */
	uint64_t min_bytes; /* only rows of at least this many bytes */
	size_t top;         /* rows of each group; 0: no limit */
	enum allocations_by {
		ALLOCATIONS_BY_ANY, /* caller, stack or function: what is known */
		ALLOCATIONS_BY_FUNCTION,
		ALLOCATIONS_BY_CALLER,
		ALLOCATIONS_BY_STACK,
		ALLOCATIONS_BY_PROCESS,
	} by;
};

struct options {
	struct globals *g;
	struct words words;
	struct attach_options attach; /* of set, too: there the lists may be .given and empty */
	struct stats_options stats; /* of stats, run and serve */
	struct stream_options stream;
	struct list_options list;
	uint64_t duration_ns; /* 0: no end */
	const char *output, *format;
	bool all;                              /* of detach */
	unsigned int fail_if;                  /* of compare: mask of enum compare_what */
	bool fresh, calibrate;                 /* of feature */
	bool inetd;                            /* of serve */
	uint64_t timeout_ns;
	/* of run */
	bool streams, no_children, show_slow;
	uint32_t document_fd; /* receives the JSON document of the table; 0: none */
	uint32_t ready_fd; /* gets a byte when the group is attached; one from it starts the time; 0: none */
	uint32_t width;    /* columns of the terminal to which another process copies the table */
	bool table_apart; /* calls go to stdout as JSON or a trace, the table to stderr */
	char name[GROUP_NAME_MAX + 1];
	char *names[1];   /* .name, as words */
	char **command;   /* NULL-terminated, or NULL */
};

/* Frees the values of options. */
void options_done(struct options *o);
#define _cleanup_options_ __cleanup(options_done)

/* --- a row of the table --------------------------------------------------------------------- */

/* Commands that have an option; ON_FIRST: options before the command. */
enum {
	ON_RUN = 1 << 0, ON_ATTACH = 1 << 1, ON_STATS = 1 << 2, ON_STREAM = 1 << 3,
	ON_LIST = 1 << 4, ON_SERVE = 1 << 5, ON_COMPARE = 1 << 6, ON_RESET = 1 << 7,
	ON_SET = 1 << 8, ON_DETACH = 1 << 9, ON_FEATURE = 1 << 10, ON_VERSION = 1 << 11,
	ON_STACK = 1 << 12, ON_EACH = (1 << 13) - 1, ON_FIRST = 1 << 13,
};

/* Heading in the help. */
enum option_group {
	GROUP_PLAIN, GROUP_TRACE, GROUP_FILTER, GROUP_RECORD, GROUP_KEEP, GROUP_PRINT, GROUP_STREAM,
	GROUP_DEBUG,  /* listed in one line */
	GROUP_COMMON, /* of every command, in one line: .at is in struct globals */
	GROUP_OLD,    /* names of the last version: hidden */
	GROUP_CNT,
};

/*
 * Parses @arg (NULL if the option takes no value) into @at. The error message names the option;
 * every error except -ENOMEM is wrong usage.
 */
struct option_row;
typedef int option_fn(void *at, const struct option_row *opt, char *arg, struct err *err);

struct option_row {
	/*
	 * "OPTION WORD" is a part of the value of OPTION; a WORD in capitals is any other part.
	 * NULL: only a letter, not in the help.
	 */
	const char *name;
	char letter;
	unsigned int on;
	enum option_group group;
	const char *arg;    /* name of the value in the help; NULL: no value */
	const char *help;   /* "%s" is replaced by the values; NULL: hidden, as old names and parts are */
	option_fn *read;    /* NULL: --help, --usage, --version */
	size_t at;          /* offset in struct options */
	uint64_t min, max;  /* range of numbers */
	const char *values; /* "a|b": all values of read_choice(), else examples for completion; of
			       read_old(): the new name */
	const char *(*words)(char *buf); /* or a function that writes them, WORDS_LEN bytes */
	const char *completes; /* other source of completion: "files", "processes", ...; or NULL */
};

/* Ends with a row of no command. */
#define OPTIONS_MAX 256
extern const struct option_row option_table[];

/* Options that exclude, need, or switch on other options. */
struct option_rule {
	unsigned int on;
	enum { EXCLUDES, NEEDS, IMPLIES } does;
	const char *these, *those; /* any of these names, with | between; IMPLIES a flag */
	const char *message;       /* NULL for IMPLIES */
};

extern const struct option_rule option_rules[]; /* ends as the table does */

/* --- command lines -------------------------------------------------------------------------- */

/*
 * Sets *ret_options to the defaults, then parses the line of @command into it. Exits with status 2
 * on wrong usage, and after --help.
 */
void cmd_parse(struct globals *g, const struct command *command, int argc, char **argv,
	struct options *ret_options);

/* Options before the command, and its position. */
struct first_words {
	int command; /* index in argv, or 0: none */
	bool version, help;
	bool run;    /* the line is one of run, without that word */
};

/* Parses the line up to the command. Exits with status 2 on wrong usage. */
void cmd_parse_first(struct globals *g, int argc, char **argv, struct first_words *ret_first);

/*
 * The index of the first word of the line that is no option of @on and not the value of one; 0:
 * there is none before "--". Exits with status 2 on an unknown option.
 */
int cmd_first_word(const struct globals *g, unsigned int on, int argc, char **argv);

/* The row of option @name, which a command of @on must have. */
const struct option_row *option_find(unsigned int on, const char *name);

/* Parses @arg as the value of @opt. */
int option_read(struct options *o, const struct option_row *opt, char *arg, struct err *err);

/* Returns whether any of @names, separated by |, is on the line. */
bool option_given(const char *names);

/* The name of @opt within the value of another option, or NULL if it is an option. */
const char *option_part(const struct option_row *opt);

/* The values of @opt as "a|b|c", or NULL. */
const char *option_values(const struct option_row *opt, char buf[WORDS_LEN]);

/* "a, b or c" of "a|b|c". */
#define VALUES_LEN (WORDS_LEN + 8)
const char *values_text(const char *values, char buf[VALUES_LEN]);

/* --- help ----------------------------------------------------------------------------------- */

/* Prints the names of the options of @group, as "HEAD: -j|--json, --bpffs DIR". */
void help_named(FILE *f, const char *head, unsigned int on, enum option_group group);

/* Prints one line per option for completion and tests: "--NAME LETTER ARG COMPLETES VALUE...". */
void help_words(unsigned int on);

/* --- readers -------------------------------------------------------------------------------- */

#define SLOW_OFF UINT64_MAX /* in draft_slow .ns: no threshold */

/* Parses a list of parts, "a=1,b": struct options. */
option_fn read_parts;

/* Parsers for any option, by the type of @at. */
option_fn read_number, read_share, read_choice; /* uint32_t, or an enum */
option_fn read_from_one;                        /* size_t */
option_fn read_size;                            /* uint64_t */
option_fn read_numbers;                         /* struct list */
option_fn read_finding;                         /* unsigned int, a mask */

/* Parsers for options of struct attach_options, stats_options and stream_options. */
option_fn read_pid, read_stacks, read_attach_by, read_key, read_sample, read_duty, read_overhead,
	read_link, read_access, read_owner;

/*
 * Parses USER, USER:GROUP or :GROUP, as names or numbers; an omitted part becomes -1. Returns 0,
 * -ENOENT for an unknown name, or -EINVAL for an empty text.
 */
int parse_owner(const char *text, uid_t *ret_uid, gid_t *ret_gid, struct err *err);

option_fn read_view, read_by, read_metrics_by, read_diff, read_sort, read_top, read_check,
	read_buckets;
option_fn read_events, read_only, read_stream_format;
option_fn read_list_top; /* struct list_options */
option_fn read_if, read_run_by, read_format; /* struct options */

/* Check the options and set defaults. Return false after a message on wrong usage: EXIT_USAGE. */
bool stats_options_finish(struct stats_options *o);
bool stream_options_finish(struct stream_options *o);
