/* SPDX-License-Identifier: BSD-2-Clause */
/* What the commands do that have more than one file, once their lines are read. */
#ifndef FUNCSNOOP_CMD_INTERNAL_H
#define FUNCSNOOP_CMD_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "attach/attach.h"
#include "base/buffer.h"
#include "cli/cmd.h"
#include "show/call.h"
#include "show/stats.h"
#include "stream/stream.h"

/* --- stats_*.c: reading groups, making reports of them, and delivering those ---------------- */

struct stats_options {
	struct globals *g;
	struct words names;
	struct stats_choice choice;
	const struct view *view;
	bool view_set, slow, tree, reset, timestamps, watch;
	const char *for_metrics; /* an option that says how they are, or NULL */
	bool past; /* what is shown is over: what it takes now is not asked */
	bool shared; /* only what others than the owners may read: GROUPS_SHARED */
	uint64_t interval_ns, duration_ns;
	const struct stats_format *format;
	const char *output, *save;
	const char *diff_path;
	struct saved *before; /* of diff_path */
	char words[WORDS_LEN];
	char *by; /* of which .choice.by are parts */
	struct check *checks;
	size_t check_cnt;
	int until_fd; /* intervals end when it can be read, and not by signals; 0: none */
	void (*ready)(void *arg); /* told when the first interval has begun; or NULL */
	void *ready_arg;
	void (*tick)(void *arg); /* called with ready_arg every 20 ms, or NULL */
};

/*
 * Reads a line of options into @o, which holds .g; names of groups stand in .names. False
 * when it makes no sense, which has been said: EXIT_USAGE. stats_options_run() then does
 * what they say and returns the status. End with stats_options_done() in any case.
 */
bool stats_options_parse(struct stats_options *o, int argc, char **argv);
int stats_options_run(struct stats_options *o);
void stats_options_done(struct stats_options *o);

/* For other commands with such options: what they are at first, and --by, --top, --buckets. */
void stats_options_begin(struct stats_options *o);
void stats_parse_by(struct argp_state *state, struct stats_options *o, char *arg);
void stats_parse_top(struct argp_state *state, struct stats_options *o, const char *arg);
void stats_parse_buckets(struct argp_state *state, struct stats_options *o, const char *arg);

/* One reading of all groups. Begin with READING_NONE, end with reading_done(). */
struct reading_group {
	const struct stats *s;
	struct stats *owned;     /* @s, when it is to be freed */
	struct fsn_slow *slow; /* with --slow */
	size_t slow_cnt;
};
struct reading {
	struct groups groups;
	struct reading_group *group; /* one for each of groups */
	struct cost_reading *spent;  /* by each of groups, for intervals */
	struct cost *cost;           /* of each now, without intervals */
	uint64_t time_ns, mono_ns;   /* when it began */
};
#define READING_NONE                  \
	{                             \
		.groups = GROUPS_NONE \
	}

int reading_take(const struct stats_options *o, struct reading *now, struct err *err);

/*
 * Its steps, for what is reset as it is read: opens the groups; adds the slow calls of group @i, if
 * these are asked for; and says what all groups' programs took since they were opened.
 */
int reading_open(const struct stats_options *o, struct reading *now, struct err *err);
int reading_slow(const struct stats_options *o, struct reading *now, size_t i, struct err *err);
void reading_costs(const struct stats_options *o, struct reading *now);

/* Whether readings of one command follow each other, and nothing is reset between them. */
bool stats_has_intervals(const struct stats_options *o);
void reading_done(struct reading *r);
#define _cleanup_reading_ __cleanup(reading_done)

/*
 * Makes a report of @now, which must outlive it: of what came since @before, or with NULL
 * of everything since the reset. End with report_done(), also after an error.
 */
int report_make(const struct stats_options *o, const struct reading *now,
	const struct reading *before, struct report *ret_report, struct err *err);
void report_done(struct report *r);
#define _cleanup_report_ __cleanup(report_done)

/* What lasts from one report to the next. */
struct stats_run {
	const struct stats_options *o;
	bool more; /* something has been printed */
	bool held; /* a condition has */
	char *late; /* what is printed when nothing is locked any more, or NULL */
	size_t late_size;
	bool left; /* groups could not be read */
	bool told; /* which groups are left out */
};

/*
 * Reads all groups into @now and delivers a report of what came since @before (NULL: of
 * everything). With --reset all is delivered before any group is reset, but for a standard
 * output that may keep the groups locked: that gets it afterwards.
 */
int stats_report(struct stats_run *run, struct reading *now, const struct reading *before,
	struct err *err);

/*
 * The text of one report, to be freed, for who delivers it otherwise. Groups that are left out
 * are told on stderr; ret_failed: whether one of them should not be.
 */
int stats_render(const struct stats_options *o, char **ret_text, size_t *ret_size,
	bool *ret_failed, struct err *err);

/* How a run ends in which nothing failed as a whole. */
int stats_status(const struct stats_run *run);

/* stats --interval, --duration: an exit status. */
int stats_loop(const struct stats_options *o);

/* stats --watch, and --hist with --interval where screen_can(): an exit status. */
int stats_watch(struct stats_options *o);

/* Whether standard output is a terminal that can be drawn on again and again. */
bool screen_can(void);

/* --- stream_run.c: running a stream --------------------------------------------------------- */

struct stream_options {
	struct globals *g;
	struct words names;
	struct stream_filter filter;
	pid_t pid[FSN_STREAM_PIDS];
	const char **func;
	bool calls, entries, exits; /* which of the events are shown */
	const struct stream_format *format;
	const char *output;
	uint64_t max_calls;   /* end after so many; 0: no end */
	uint64_t duration_ns; /* end after so long; 0: no end */
	uint64_t buffer_bytes;
	bool alert;
	int until_fd; /* it ends when this can be read, and not by signals; 0: none */
	void (*ready)(void *arg); /* told when calls are recorded; or NULL */
	void *ready_arg;
	void (*tick)(void *arg); /* called with ready_arg at each look, or NULL */
};

/*
 * Reads a line of options into @o, which holds .g; names of groups stand in .names. False
 * when it makes no sense, which has been said: EXIT_USAGE. End with stream_options_done() in
 * any case.
 */
bool stream_options_parse(struct stream_options *o, int argc, char **argv);
void stream_options_done(struct stream_options *o);

/* Until a signal, the end that was asked for, or that of the groups. Returns the status. */
int stream_run(const struct stream_options *o);

/* --- run_session.c: attach, look, detach ---------------------------------------------------- */

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

/* NAME-PID and @suffix, cut where NAME is long; GROUP_NAME_MAX + 1 bytes. */
void run_group_name(const struct run_options *o, const char *suffix, char *ret_name);

/* The draft of what @a asks for, a configuration's group, too: draft_of_words(). */
int run_draft(struct attach_options *a, const char *name, struct preset_set **ret_set,
	struct draft **ret_draft, struct err *err);

/* --- run_await.c: libraries that are not there yet --------------------------------------------- */

struct await;

/*
 * Before COMMAND, which is on @o's filter, may run: from here on what it and its children load
 * is looked at, and what can be found without them is attached already. Fails as attach_draft()
 * and draft_new() do. Free *ret_await with await_free() in any case, which removes all of it.
 */
_must_check_ int await_begin(struct run_options *o, struct bpffs *fs, struct await **ret_await,
	struct err *err);
void await_free(struct await *w);

/* Readable when there is something to do for await_step(); -1 when there never will be. */
int await_fd(const struct await *w);

/* After so many ns at the latest it is to be called again. */
uint64_t await_left(const struct await *w);

/*
 * Attaches what is there now, and lets those go who were held for it. Whether anything was
 * attached. With @until_found who has brought that is held until the next call.
 */
bool await_step(struct await *w, bool until_found);

/* Whether nothing is waited for any more. */
bool await_is_over(const struct await *w);

/* The groups that are attached; they belong to @w. */
void await_groups(const struct await *w, struct words *ret_words);

/* Tells what has not come. The first error that there was. */
int await_end(struct await *w, struct err *err);

/* --- run_stacks.c: files that stacks lead through, as they are met ------------------------------ */

struct watch;
_must_check_ int watch_new(struct bpffs *fs, struct watch **ret_watch, struct err *err);
void watch_free(struct watch *w);

/* Every so often it looks at the groups that there are: */
#define WATCH_NS 10000000ULL
void watch_step(struct watch *w, const struct words *groups);

/* --- list_inflight.c -------------------------------------------------------------------------- */

struct inflight_choice {
	uint64_t older_ns; /* only calls of this age or more */
	bool all;          /* stale ones, too */
	bool stacks;       /* where their threads sleep, */
	bool lines;        /* with lines of the source */
};

/*
 * Lists the calls that are in flight in the groups named behind the first of @words, or in all.
 * Returns the exit status.
 */
int list_inflight(
	struct globals *g, const struct words *words, const struct inflight_choice *choice);

/* --- list_allocations.c ----------------------------------------------------------------------- */

enum allocations_by {
	ALLOCATIONS_BY_ANY, /* caller, stack or function: what is known */
	ALLOCATIONS_BY_FUNCTION,
	ALLOCATIONS_BY_CALLER,
	ALLOCATIONS_BY_STACK,
	ALLOCATIONS_BY_PROCESS,
};

struct allocations_choice {
	uint64_t older_ns;  /* only blocks of this age or more */
	uint64_t min_bytes; /* only what holds so much together */
	enum allocations_by by;
	bool lines; /* of the source, behind callers and frames */
};

/* False when there is no such word. */
bool allocations_by(const char *word, enum allocations_by *ret_by);

/* Lists what the groups named behind the first of @names, or all, know to be held. */
int list_allocations(
	struct globals *g, const struct words *names, const struct allocations_choice *choice);

/* --- attach.c ------------------------------------------------------------------------------- */

/* Says in a line or two on stderr what of a preset or pattern is left out. */
void draft_note_left_out(const struct attach_options *o, const struct draft *draft);

/* attach.c: the groups of the file o->config, or those of them that are named. */
int attach_config(struct attach_options *o, struct bpffs *fs, struct json *doc, struct err *err);

/* --- attach_refresh.c: what is to be attached at every start ---------------------------------- */

/*
 * What there is of the group that @draft would be, by attach_definition(): one that can't be read,
 * or has ended, is another one.
 */
enum there { THERE_NOT, THERE_OTHER, THERE_SAME };
enum there attach_find_there(
	const struct bpffs *fs, const struct draft *draft, uint64_t definition);

/* -EEXIST when @name is that of a group of another file of the folder that is attached, if any. */
int attach_take_name(struct attach_options *o, const char *name, struct err *err);

/*
 * All *.json of the folder o->config, in order of their names. One that is wrong is told, and keeps
 * out no other; -EIO when there was one.
 */
int attach_folder(struct attach_options *o, struct bpffs *fs, struct json *doc, struct err *err);

/* --- stack.c: stacks of threads, of list inflight, too ------------------------------------------ */

struct thread_stack {
	const struct thread_frame *frames; /* NULL: not known */
	size_t cnt;
	const char *end; /* a word for documents */
};

/* The stack of a thread, if it sleeps. It lives until the next one is read from @threads. */
struct thread_stack thread_stack_read(struct thread_stacks *threads, pid_t pid, pid_t tid);

/* Key "stack" of a thread; @lines: with source lines. */
void thread_stack_json(struct json *j, const struct thread_stack *stack, bool lines);

/* A line for each frame, if they are known. */
void thread_stack_text(struct out *out, const struct thread_stack *stack);

#endif
