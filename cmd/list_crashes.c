// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop list crashes: processes that died, and what they were doing; run tells of them at once.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "attach/attach.h"
#include "base/buffer.h"
#include "cli/cmd.h"
#include "group/group.h"
#include "group/stacks.h"
#include "group/types.h"
#include "internal.h"
#include "pins/bpffs.h"
#include "show/call.h"
#include "show/list.h"
#include "show/text.h"

/* Context in which a process that died is printed. */
struct scene {
	const struct group *group;
	const struct types *types;
	struct thread_stacks *stacks; /* NULL: without */
};

static struct thread_stack stack_of(const struct scene *s, const struct crash *c)
{
	struct thread_stack stack = {};
	enum fsn_walk_end end;

	thread_stacks_of_crash(s->stacks, s->group, c->record, &stack.frames, &stack.cnt, &end);
	stack.end = stack.frames ? stack_end_name(end) : NULL;
	return stack;
}

static uint64_t real_time_of(const struct crash *c)
{
	return clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC) + c->time_ns;
}

/* --- text --------------------------------------------------------------------------------------- */

/* "... > main 1.2 s > parse(p=0x8) 12 us": the calls of one thread from *@at on, which is advanced. */
static void calls_text(struct out *o, const struct scene *s, const struct crash *c, size_t *at)
{
	pid_t tid = c->calls[*at].tid;
	bool first = true;

	if (c->call_cnt > c->cnt)
		out_str(o, "... > ");
	for (; *at < c->cnt && c->calls[*at].tid == tid; ++*at) {
		const struct slot_call *call = &c->calls[*at];
		struct call plain;
		struct shown_call shown = call_of_slot(s->group, s->types, call, &plain);
		char age[TEXT_NUM_LEN];

		out_str(o, first ? "" : " > ");
		first = false;
		out_escaped(o, shown.function, strlen(shown.function));
		if (call_has_args(shown.call)) {
			out_char(o, '(');
			call_args_text(o, &shown);
			out_char(o, ')');
		}
		out_printf(o, " %s", text_duration(call->age_ns, age));
	}
}

/* "process 4711 (worker) died of SIGSEGV at 0x8", its calls by thread, and a line for each frame. */
static void report_text(struct out *o, const struct scene *s, const struct crash *c)
{
	struct thread_stack stack = stack_of(s, c);
	char how[CRASH_TEXT];

	out_printf(o, "process %d (", c->pid);
	out_escaped(o, c->comm, strlen(c->comm));
	out_printf(o, ") %s: %s", c->signal ? "was killed" : "failed", crash_text(c, how));
	if (c->tid != c->pid)
		out_printf(o, ", in thread %d", c->tid);
	out_char(o, '\n');
	for (size_t i = 0; i < c->cnt;) {
		out_str(o, "  in flight");
		if (c->calls[i].tid != c->tid)
			out_printf(o, " in thread %d", c->calls[i].tid);
		out_str(o, ": ");
		calls_text(o, s, c, &i);
		out_char(o, '\n');
	}
	if (stack.frames)
		out_str(o, "  stack:\n");
	thread_stack_text(o, &stack);
}

/* --- list crashes ------------------------------------------------------------------------------- */

static void add_json(struct json *j, const struct scene *s, const struct crash *c, bool lines)
{
	struct thread_stack stack = stack_of(s, c);
	char buf[CRASH_TEXT];

	json_open(j, '{');
	json_set_str(j, "group", group_name(s->group));
	json_set_time(j, "time", real_time_of(c));
	json_set_i64(j, "pid", c->pid);
	json_set_i64(j, "tid", c->tid);
	json_set_str(j, "comm", c->comm);
	json_set_str(j, "signal", crash_signal(c, buf));
	if (c->has_addr)
		json_set_hex(j, "address", c->addr);
	else
		json_set_null(j, "address");
	json_set_u64_if(j, "exit_status", !c->signal, c->status);
	json_set_bool(j, "out_of_memory", c->out_of_memory);
	json_set_u64(j, "in_flight", c->call_cnt);
	json_set_open(j, "calls", '[');
	for (size_t i = 0; i < c->cnt; i++) {
		struct call plain;
		struct shown_call shown = call_of_slot(s->group, s->types, &c->calls[i], &plain);

		json_open(j, '{');
		json_set_str(j, "function", shown.function);
		json_set_i64(j, "tid", c->calls[i].tid);
		json_set_u64(j, "age_ns", c->calls[i].age_ns);
		call_args_json(j, &shown);
		json_close(j, '}');
	}
	json_close(j, ']');
	thread_stack_json(j, &stack, lines);
	json_close(j, '}');
}

static void add_row(struct grid *table, struct out *stacks, const struct scene *s,
	const struct crash *c)
{
	__cleanup(out_done) struct out calls = {};
	char how[CRASH_TEXT], when[TEXT_NUM_LEN];

	for (size_t i = 0; i < c->cnt;) {
		if (calls.len)
			out_str(&calls, "; ");
		calls_text(&calls, s, c, &i);
	}
	out_char(&calls, '\0');
	grid_textf(table, "%s", group_name(s->group));
	grid_textf(table, "%s", text_time(real_time_of(c), when));
	grid_textf(table, "%d", c->pid);
	grid_textf(table, "%d", c->tid);
	grid_textf(table, "%s", c->comm);
	grid_textf(table, "%s", crash_text(c, how));
	grid_textf(table, "%s", calls.len > 1 ? calls.buf : "-");
	if (!s->stacks)
		return;
	out_char(stacks, '\n');
	report_text(stacks, s, c);
}

struct listed {
	const struct list_options *choice;
	struct thread_stacks *stacks;
	struct json *doc;
	struct grid *table;
	struct out text;
};

static void listed_done(struct listed *l)
{
	thread_stacks_free(l->stacks);
	out_done(&l->text);
}

static int add_group(struct listed *l, const struct group *group, struct err *err)
{
	_cleanup_types_ struct types *types = NULL;
	uint64_t end = crashes_ever(group), first = end > CRASHES_MAX ? end - CRASHES_MAX : 0;
	int code = types_read(group, &types, err);
	const struct scene scene = { group, types, l->stacks };

	for (uint64_t i = first; !code && i < end; i++) {
		_cleanup_crash_ struct crash c;

		code = crash_read(group, i, &c, err);
		if (!code && l->doc)
			add_json(l->doc, &scene, &c, l->choice->lines);
		else if (!code)
			add_row(l->table, &l->text, &scene, &c);
		code = code == -EAGAIN || code == -ENOENT ? 0 : code;
	}
	return code;
}

int list_crashes(struct globals *g, const struct words *words, const struct list_options *choice)
{
	const struct words names = { words->word + 1, words->cnt - 1 };
	static const struct table_column columns[] = { { "GROUP", TABLE_LEFT, false },
		{ "TIME", TABLE_LEFT, false }, { "PID", TABLE_RIGHT, false },
		{ "TID", TABLE_RIGHT, false }, { "COMMAND", TABLE_LEFT, false },
		{ "END", TABLE_LEFT, false }, { "IN FLIGHT", TABLE_LEFT, TABLE_WRAP } };
	_cleanup_table_ struct grid *table = table_new(columns, ARRAY_SIZE(columns));
	_cleanup_json_ struct json *doc = g->json ? json_list(g, "crashes") : NULL;
	__cleanup(listed_done) struct listed l = { .choice = choice, .doc = doc, .table = table };
	_cleanup_groups_ struct groups groups = GROUPS_NONE;
	struct err err = {};
	int status;

	if (groups_open(g, &names, GROUPS_REST, &groups, &err))
		return cmd_fail(g, &err);
	groups_tell_left(g, &groups);
	if (doc || choice->stacks)
		thread_stacks_new_dead(choice->lines, &l.stacks);
	for (size_t i = 0; i < groups.cnt; i++)
		if (add_group(&l, groups.group[i], &err))
			return cmd_fail(g, &err);
	status = groups.failed_cnt ? EXIT_FAILED : EXIT_DONE;
	if (doc)
		return json_print(TAKE_PTR(doc)) ?: status;
	list_print(g, table, "no process has died", &l.text);
	return status;
}

/* --- run ---------------------------------------------------------------------------------------- */

#define REPORTED 64

struct crash_group {
	struct group *group;
	uint64_t told[CRASHES_MAX]; /* 1 + the number of the process last reported of each place */
	uint64_t seen;              /* number of the first process that is not reported yet */
	uint64_t ready;             /* all before this one had died at the last step */
};

struct crash_watch {
	const struct globals *g;
	const struct bpffs *fs;
	const struct filter *filter;
	struct crash_group *groups;
	size_t cnt;
	struct thread_stacks *stacks;
	/* The processes reported last: one can be in several groups. */
	struct reported {
		uint64_t start_ns;
		pid_t pid, tid;
	} reported[REPORTED];
	size_t reported_cnt; /* ever */
};

struct crash_watch *crash_watch_new(
	const struct globals *g, const struct bpffs *fs, const struct filter *filter)
{
	struct crash_watch *w = xcalloc(1, sizeof(*w));

	w->g = g;
	w->fs = fs;
	w->filter = filter;
	thread_stacks_new_dead(true, &w->stacks);
	return w;
}

void crash_watch_free(struct crash_watch *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->cnt; i++)
		group_free(w->groups[i].group);
	thread_stacks_free(w->stacks);
	free(w->groups);
	free(w);
}

static void watch_group(struct crash_watch *w, const char *name)
{
	struct group *group = NULL;

	for (size_t i = 0; i < w->cnt; i++)
		if (!strcmp(group_name(w->groups[i].group), name))
			return;
	if (group_open_brief(w->fs, name, false, &group, NULL)) {
		group_free(group);
		return;
	}
	w->groups = array_grow(w->groups, w->cnt, sizeof(*w->groups));
	w->groups[w->cnt++] = (struct crash_group) { .group = group };
}

/* Whether @c was reported before, as a process of another group. */
static bool is_reported(struct crash_watch *w, const struct crash *c)
{
	for (size_t i = 0; i < REPORTED; i++)
		if (w->reported[i].pid == c->pid && w->reported[i].start_ns == c->start_ns)
			return true;
	w->reported[w->reported_cnt++ % REPORTED] = (struct reported) { c->start_ns, c->pid, c->tid };
	return false;
}

/* A status of grep, diff or test is an answer: only that of COMMAND or of --pid is a failure. */
static bool is_failure(const struct crash_watch *w, const struct crash *c)
{
	for (size_t i = 0; !c->signal && i < w->filter->pid_cnt; i++)
		if (w->filter->pids[i] == c->pid)
			return true;
	return c->signal;
}

static void tell(struct crash_watch *w, const struct crash_group *g, const struct crash *c)
{
	_cleanup_types_ struct types *types = NULL;
	__cleanup(out_done) struct out o = {};

	if (w->g->quiet || !is_failure(w, c) || is_reported(w, c) || types_read(g->group, &types, NULL))
		return;
	report_text(&o, &(struct scene) { g->group, types, w->stacks }, c);
	fflush(stdout);
	fwrite(o.buf, 1, o.len, stderr);
}

/* Processes before @end that are not reported, because their records were overwritten. */
static uint64_t lost_before(const struct crash_group *g, uint64_t end)
{
	uint64_t lost = end - g->seen;

	/* After one that was dying, others may have been reported. */
	for (uint64_t i = g->seen; i < end && i < g->seen + CRASHES_MAX; i++)
		lost -= g->told[i % CRASHES_MAX] == i + 1;
	return lost;
}

/*
 * Those that had died at the last step: a stream has been read since, so that the calls which they
 * made before are printed before.
 */
static void step(struct crash_watch *w, struct crash_group *g)
{
	uint64_t ever = crashes_ever(g->group), first = ever > CRASHES_MAX ? ever - CRASHES_MAX : 0;
	uint64_t end = g->ready, seen = end, lost;

	g->ready = ever;
	lost = g->seen < first && first <= end ? lost_before(g, first) : 0;
	if (lost)
		cmd_note(w->g, "%llu more processes were killed or failed", (unsigned long long)lost);
	for (uint64_t i = first > g->seen ? first : g->seen; i < end; i++) {
		uint64_t *told = &g->told[i % CRASHES_MAX];
		_cleanup_crash_ struct crash c = {};
		int code;

		if (*told == i + 1)
			continue;
		code = crash_read(g->group, i, &c, NULL);
		if (code == -EAGAIN || code == -ENOENT) {
			seen = i < seen ? i : seen;
			continue;
		}
		*told = i + 1;
		if (!code)
			tell(w, g, &c);
	}
	g->seen = seen;
}

void crash_watch_step(struct crash_watch *w, const struct words *groups)
{
	for (size_t i = 0; i < groups->cnt; i++)
		watch_group(w, groups->word[i]);
	for (size_t i = 0; i < w->cnt; i++)
		step(w, &w->groups[i]);
}

pid_t crash_watch_thread(const struct crash_watch *w, pid_t pid)
{
	for (size_t i = 0; i < REPORTED; i++)
		if (w->reported[i].pid == pid)
			return w->reported[i].tid;
	return 0;
}
