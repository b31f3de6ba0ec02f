/* SPDX-License-Identifier: BSD-2-Clause */
/* What the commands do that have more than one file, once their lines are read. */
#ifndef FUNCSNOOP_CMD_INTERNAL_H
#define FUNCSNOOP_CMD_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "attach/attach.h"
#include "base/buffer.h"
#include "cli/options.h"
#include "show/call.h"
#include "show/stats.h"
#include "stream/stream.h"

/* --- stats_*.c: reading groups, making reports of them, and delivering those ---------------- */

/* Does what @o says, and returns the status. */
int stats_options_run(struct stats_options *o);

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
	struct cost_reading *spent;  /* by each of groups */
	uint64_t time_ns, mono_ns;   /* when it began */
};
#define READING_NONE                  \
	{                             \
		.groups = GROUPS_NONE \
	}

int reading_take(const struct stats_options *o, struct reading *now, struct err *err);

/*
 * Its steps, for what is reset as it is read: opens the groups and reads their overhead; adds the
 * slow calls of group @i, if these are asked for.
 */
int reading_open(const struct stats_options *o, struct reading *now, struct err *err);
int reading_slow(const struct stats_options *o, struct reading *now, size_t i, struct err *err);

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

/* Until a signal, the end that was asked for, or that of the groups. Returns the status. */
int stream_run(const struct stream_options *o);

/* --- run_session.c: attach, look, detach ---------------------------------------------------- */

/* As those who run commands for others have it: env(1), timeout(1), nohup(1). */
enum { EXIT_OWN_FAILURE = 125, EXIT_NOT_RUN = 126, EXIT_NOT_FOUND = 127 };

/* Does it; an exit status. */
int run_session(struct options *o);

/* NAME-PID and @suffix, cut where NAME is long; GROUP_NAME_MAX + 1 bytes. */
void run_group_name(const struct options *o, const char *suffix, char *ret_name);

/* The draft of what @a asks for, a configuration's group, too: draft_of_words(). */
int run_draft(struct attach_options *a, const char *name, struct preset_set **ret_set,
	struct draft **ret_draft, struct err *err);

/* run_summary.c: what the processes of --pid or COMMAND do, where no group is given. */
int run_summary(struct options *o);

/* --- run_await.c: libraries that are not there yet --------------------------------------------- */

struct await;

/*
 * Before COMMAND, which is on @o's filter, may run: from here on what it and its children load
 * is looked at, and what can be found without them is attached already. Fails as attach_draft()
 * and draft_new() do. Free *ret_await with await_free() in any case, which removes all of it.
 */
_must_check_ int await_begin(struct options *o, struct bpffs *fs, struct await **ret_await,
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

/*
 * Lists the calls that are in flight in the groups named behind the first of @words, or in all.
 * Returns the exit status.
 */
int list_inflight(struct globals *g, const struct words *words, const struct list_options *choice);

/* --- list_allocations.c ----------------------------------------------------------------------- */

/* Lists what the groups named behind the first of @names, or all, know to be held. */
int list_allocations(
	struct globals *g, const struct words *names, const struct list_options *choice);

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
