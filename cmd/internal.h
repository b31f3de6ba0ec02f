/* SPDX-License-Identifier: BSD-2-Clause */
/* Interfaces of commands with more than one source file, after their options are parsed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "attach/attach.h"
#include "base/buffer.h"
#include "cli/options.h"
#include "proc/proc.h"
#include "show/call.h"
#include "show/stats.h"
#include "show/table.h"
#include "stream/stream.h"

/* --- stats.c, stats_watch.c: reading groups, making reports and delivering them ------------- */

/* Runs `stats` with @o. Returns the exit status. */
int stats_options_run(struct stats_options *o);

/* One reading of all groups. Initialize with READING_NONE; free with reading_done(). */
struct reading_group {
	const struct stats *s;
	struct stats *owned;     /* @s, if it must be freed */
	struct fsn_slow *slow; /* with --slow */
	size_t slow_cnt;
};
struct reading {
	struct groups groups;
	struct reading_group *group; /* one for each of groups */
	struct cost_reading *spent;  /* by each of groups */
	uint64_t time_ns, mono_ns;   /* when the reading started */
};
#define READING_NONE                  \
	{                             \
		.groups = GROUPS_NONE \
	}

int reading_take(const struct stats_options *o, struct reading *now, struct err *err);

void reading_done(struct reading *r);
#define _cleanup_reading_ __cleanup(reading_done)

/*
 * Makes a report of @now, which must outlive it: of the interval since @before, or since the
 * reset if @before is NULL. Free it with report_done(), also after an error.
 */
int report_make(const struct stats_options *o, const struct reading *now,
	const struct reading *before, struct report *ret_report, struct err *err);
void report_done(struct report *r);
#define _cleanup_report_ __cleanup(report_done)

/* State between the reports of one command. */
struct stats_run {
	const struct stats_options *o;
	bool more; /* something has been printed */
	bool held; /* a condition of --fail-if holds */
	char *late; /* output to print after the groups are unlocked, or NULL */
	size_t late_size;
	bool left; /* groups could not be read */
	bool told; /* a warning about skipped groups was printed */
};

/*
 * Stores the text of one report, which the caller frees. Prints skipped groups to standard error;
 * sets *ret_failed if one of them is an error.
 */
int stats_render(const struct stats_options *o, char **ret_text, size_t *ret_size,
	bool *ret_failed, struct err *err);

/* Returns the exit status of a run without a fatal error. */
int stats_status(const struct stats_run *run);

/* stats --interval, --duration. Returns the exit status. */
int stats_loop(const struct stats_options *o);

/* stats --watch, and --hist with --interval if screen_can(). Returns the exit status. */
int stats_watch(struct stats_options *o);

/* True if standard output is a terminal that can be redrawn. */
bool screen_can(void);

/* --- stream.c: running a stream ------------------------------------------------------------- */

/*
 * Streams until a signal, the end of --duration, or the end of the groups. Returns the exit
 * status.
 */
int stream_run(const struct stream_options *o);

/* --- run_session.c: attach, look, detach ---------------------------------------------------- */

/* Statuses of tools that run a command: env(1), timeout(1), nohup(1). */
enum { EXIT_OWN_FAILURE = 125, EXIT_NOT_RUN = 126, EXIT_NOT_FOUND = 127 };

/* Runs a session. Returns the exit status. */
int run_session(struct options *o);

/*
 * Formats NAME-PID and @suffix, with a long NAME truncated; @ret_name has GROUP_NAME_MAX + 1
 * bytes.
 */
void run_group_name(const struct options *o, const char *suffix, char *ret_name);

/* Notes how many threads of @idle have slept since, and the command that shows where. */
void run_tell_idle(const struct globals *g, const struct idle *idle);

/* Makes the draft for @a, also for a group of a configuration file; see draft_of_words(). */
int run_draft(struct attach_options *a, const char *name, struct preset_set **ret_set,
	struct draft **ret_draft, struct err *err);

/* A group whose overhead is limited while it counts. */
struct limited {
	struct draft *draft;
	struct shed *shed; /* NULL: it is not limited */
};

/* --- run_await.c: libraries that are not loaded yet, and CPU samples --------------------------- */

struct await;

/*
 * Watches the files that COMMAND and its children load, and attaches what can be found without
 * them. Must be called before COMMAND, which is in @o's filter, may execute. Returns errors as
 * attach_draft() and draft_new() do. The caller frees *ret_await with await_free() also after an
 * error; this removes the groups.
 */
_must_check_ int await_begin(struct options *o, struct bpffs *fs, struct await **ret_await,
	struct err *err);
void await_free(struct await *w);

/* Returns a descriptor that is readable if await_step() has work to do, or -1 if it never will. */
int await_fd(const struct await *w);

/* Returns the ns after which await_step() must be called at the latest. */
uint64_t await_left(const struct await *w);

/*
 * Attaches the functions of newly loaded files and resumes the processes stopped for that.
 * Returns true if anything was attached. With @until_found, the process that loaded the file
 * stays stopped until the next call.
 */
bool await_step(struct await *w, bool until_found);

/* Stores the names of the attached groups; @w owns them. */
void await_groups(const struct await *w, struct words *ret_words);

/* Returns the group of the @i-th library, or NULL after the last one. */
struct limited *await_limited(struct await *w, size_t i);

/* Reports the functions that were not found. Returns the first error, or 0. */
int await_end(struct await *w, struct err *err);

/*
 * Samples the CPU time of the processes that @o traces, with stacks, in a group of its own.
 * @pids_fd is the list of processes of another group, or -1. The caller frees *ret_samples with
 * samples_free(), which removes the group; NULL after an error.
 */
struct samples;
_must_check_ int samples_begin(const struct options *o, struct bpffs *fs, int pids_fd,
	struct samples **ret_samples, struct err *err);
void samples_free(struct samples *s);

/* The name of the group; it lives as long as @s. */
char *samples_group(struct samples *s);

/* Prints a flat profile of the functions of programs. Returns the exit status. */
int samples_show(struct samples *s);

/* --- run_why.c: where the time of a summary's threads went --------------------------------------- */

/* Of some processes, since each started. */
struct why_counts {
	uint64_t at_ns; /* CLOCK_MONOTONIC */
	uint64_t cpu_ns, minor, major; /* CPU time, page faults */
	size_t threads; /* 0: not known */
};

/* Returns false if a process has exited. The second one is for COMMAND after its exit. */
bool why_count(const pid_t *pids, size_t cnt, struct why_counts *ret);
bool why_count_command(pid_t pid, struct why_counts *ret);

/* Prints it, from the documents of cpu, off-cpu and run-queue, unless one cannot be read. */
void why_print(const struct why_counts *from, const struct why_counts *to, int cpu_fd, int off_fd,
	int queue_fd);

/* --- list_records.c --------------------------------------------------------------------------- */

/*
 * List calls in flight, processes that died, or live allocations, of the groups named in @words
 * after the first word, or of all groups. Return the exit status.
 */
int list_inflight(struct globals *g, const struct words *words, const struct list_options *choice);
int list_crashes(struct globals *g, const struct words *words, const struct list_options *choice);
int list_allocations(
	struct globals *g, const struct words *words, const struct list_options *choice);

/*
 * Reports processes that died since the last step on standard error, each once: those that a signal
 * killed, and the processes of @filter that exited with a status other than 0. @filter must outlive it.
 */
struct crash_watch;
struct crash_watch *crash_watch_new(
	const struct globals *g, const struct bpffs *fs, const struct filter *filter);
void crash_watch_free(struct crash_watch *w);
void crash_watch_step(struct crash_watch *w, const struct words *groups);
/* The thread that process @pid was reported with, or 0. */
pid_t crash_watch_thread(const struct crash_watch *w, pid_t pid);

/* --- attach.c ------------------------------------------------------------------------------- */

/* Prints to standard error the functions of a preset or pattern that are skipped. */
void draft_note_left_out(const struct attach_options *o, const struct draft *draft);

/*
 * --- stack.c: stacks of threads, also for list inflight ----------------------------------------
 */

/* thread_stacks_get(), without frames if the stack cannot be read. */
struct thread_stack thread_stack_read(struct thread_stacks *threads, pid_t pid, pid_t tid);

/* Adds key "stack" of a thread; @lines: with source lines. */
void thread_stack_json(struct json *j, const struct thread_stack *stack, bool lines);

/* Writes one line per frame, if the frames are known. */
void thread_stack_text(struct out *out, const struct thread_stack *stack);
