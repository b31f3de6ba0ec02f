// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop list inflight, crashes and allocations: what groups have recorded of single calls,
// processes and blocks. run reports processes that die at once.
#include "attach/attach.h"
#include "base/buffer.h"
#include "base/util.h"
#include "cli/cmd.h"
#include "group/group.h"
#include "group/keys.h"
#include "group/stacks.h"
#include "group/types.h"
#include "internal.h"
#include "pins/bpffs.h"
#include "proc/proc.h"
#include "show/call.h"
#include "show/list.h"
#include "show/stats.h"
#include "show/text.h"
#include "stats/stats.h"

/* Records of groups: a document, or a table with stacks below it. */
struct listed {
	struct globals *g;
	const struct list_options *choice;
	struct groups groups;
	struct json *doc; /* NULL: a table */
	struct grid *table;
	struct out text;               /* of the stacks */
	struct thread_stacks *threads; /* NULL: without stacks */
	uint64_t read_ns;              /* CLOCK_MONOTONIC: before the calls of a group were read */
	size_t hidden;                 /* stale calls */
};

#define LISTED_NONE { .groups = GROUPS_NONE }

static void listed_done(struct listed *l)
{
	thread_stacks_free(l->threads);
	out_done(&l->text);
	table_free(l->table);
	json_free(&l->doc);
	groups_done(&l->groups);
}

#define _cleanup_listed_ __cleanup(listed_done)

/* Opens the groups named in @words after the first word, or all. Takes @table. */
static int listed_open(struct listed *l, struct globals *g, const struct words *words,
	const struct list_options *choice, const char *key, struct grid *table, struct err *err)
{
	const struct words names = { words->word + 1, words->cnt - 1 };
	int code;

	l->g = g;
	l->choice = choice;
	l->table = table;
	l->doc = g->json ? json_list(g, key) : NULL;
	code = groups_open(g, &names, GROUPS_REST, &l->groups, err);
	if (!code)
		groups_tell_left(g, &l->groups);
	return code;
}

/* Prints the document; or the table, or @none if it has no rows, and the stacks. The exit status. */
static int listed_print(struct listed *l, const char *none)
{
	int status = l->groups.failed_cnt ? EXIT_FAILED : EXIT_DONE;

	if (l->doc)
		return json_print(TAKE_PTR(l->doc)) ?: status;
	if (!l->table->row_cnt)
		cmd_note(l->g, "%s", none);
	else
		grid_print(l->table, l->g, false, stdout);
	if (l->text.len)
		fwrite(l->text.buf, 1, l->text.len, stdout);
	return status;
}

/* --- calls in flight ------------------------------------------------------------------------- */

/* "ncclAllReduce communicator=fa93daea854b060b 0/2 bytes=8192 (sendbuff=0x7f00, ...)" */
static void add_call_text(struct listed *l, const struct shown_call *c, bool stale)
{
	struct out text = {};

	out_str(&text, c->function);
	call_keys_text(&text, c);
	if (call_has_args(c->call)) {
		out_str(&text, call_is_keyed(c) ? " (" : "(");
		call_args_text(&text, c);
		out_char(&text, ')');
	}
	if (stale)
		out_str(&text, " (stale)");
	out_char(&text, '\0');
	grid_textf(l->table, "%s", text.buf);
	out_done(&text);
}

/* "ncclAllReduce of 1234/1235:" and a line for each frame. */
static void add_stack_text(struct out *o, const char *function, const struct slot_call *call,
	const struct thread_stack *stack)
{
	out_str(o, "\n");
	out_escaped(o, function, strlen(function));
	out_printf(o, " of %d/%d%s", call->pid, call->tid,
		stack->frames        ? ":\n"
			: stack->runs ? ": it runs\n"
				      : ": it can't be seen\n");
	thread_stack_text(o, stack);
}

/* A thread that has run since the calls were read may be in another one. */
static struct thread_stack stack_of(const struct listed *l, const struct slot_call *call)
{
	struct thread_stack stack = thread_stack_read(l->threads, call->pid, call->tid);
	const struct thread_stack other = { .runs = true };

	return stack.runs || stack.since_ns > l->read_ns ? other : stack;
}

static void add_call(struct listed *l, const struct group *group, const struct types *types,
	const struct group_keys *keys, const struct stats *names, const struct slot_call *call)
{
	struct call plain;
	struct shown_call shown = call_of_slot(group, types, call, &plain);
	struct thread_stack stack = {};
	char age[TEXT_NUM_LEN];

	shown.keys = keys;
	shown.key = call->keyed ? &call->key : NULL;
	shown.names = names;
	if (l->threads)
		stack = stack_of(l, call);
	if (l->doc) {
		json_begin_call(l->doc, group, call, &shown);
		if (l->threads)
			thread_stack_json(l->doc, &stack, l->choice->lines);
		json_close(l->doc, '}');
		return;
	}
	if (l->threads)
		add_stack_text(&l->text, shown.function, call, &stack);
	grid_textf(l->table, "%s", group_info(group).name);
	grid_textf(l->table, "%d", call->pid);
	grid_textf(l->table, "%d", call->tid);
	grid_textf(l->table, "%s", call->comm);
	grid_textf(l->table, "%s", text_duration(call->age_ns, age));
	add_call_text(l, &shown, call->stale);
}

static bool is_in_call(const struct slot_call *calls, size_t cnt, pid_t tid)
{
	return ANY_WHERE(cnt, i, calls[i].tid == tid && !calls[i].stale);
}

/* Notes the threads of --pid that wait, and whose call no probe has seen: it began before the attach. */
static void tell_unseen(const struct globals *g, const struct group *group,
	const struct slot_call *calls, size_t call_cnt)
{
	_cleanup_asked_ struct asked asked = {};
	pid_t pid = 0;
	size_t cnt = 0;

	if (asked_read(group, &asked) || !asked.by_pid || asked.tid_cnt || asked.comm_cnt)
		return;
	for (size_t i = asked.ended_cnt; i < asked.pid_cnt; i++) {
		_cleanup_free_ pid_t *tids = NULL;
		struct proc_stat stat;
		char path[64];
		size_t tid_cnt = 0;

		snprintf(path, sizeof(path), "/proc/%u/task", asked.pids[i]);
		if (proc_pids(path, &tids, &tid_cnt, NULL))
			continue;
		for (size_t k = 0; k < tid_cnt; k++) {
			if (is_in_call(calls, call_cnt, tids[k]) ||
				proc_read_stat("/proc", (pid_t)asked.pids[i], tids[k], &stat) ||
				(stat.state != 'S' && stat.state != 'D'))
				continue;
			pid = cnt++ ? pid : (pid_t)asked.pids[i];
		}
	}
	if (cnt)
		cmd_note(g, "%s in no call that '%s' saw begin; 'funcsnoop stack %d' shows where",
			counted(cnt, "thread waits", "threads wait").text, group_name(group), pid);
}

static int add_calls(struct listed *l, const struct group *group, struct err *err)
{
	_cleanup_free_ struct slot_call *calls = NULL;
	_cleanup_group_keys_ struct group_keys keys = {};
	_cleanup_stacks_ struct stacks *stacks = NULL;
	_cleanup_stats_ struct stats *names = NULL;
	_cleanup_types_ struct types *types = NULL;
	size_t cnt;
	int code;

	l->read_ns = clock_ns(CLOCK_MONOTONIC);
	code = slots_read(group, &calls, &cnt, err);
	if (!code)
		code = types_read(group, &types, err);
	if (!code)
		code = group_keys_read(group, &keys, err);
	if (!code)
		code = stacks_read(group, &stacks, err);
	if (!code)
		code = stats_read_names(group, &names, err);
	keys.stacks = stacks;
	for (size_t i = 0; !code && i < cnt; i++) {
		if (calls[i].age_ns < l->choice->older_ns)
			continue;
		if (calls[i].stale && !l->choice->all) {
			l->hidden++;
			continue;
		}
		add_call(l, group, types, &keys, names, &calls[i]);
	}
	if (!code && !l->doc)
		tell_unseen(l->g, group, calls, cnt);
	return code;
}

int list_inflight(
	struct globals *g, const struct words *words, const struct list_options *choice)
{
	static const struct table_column columns[] = { { "GROUP", TABLE_LEFT, false },
		{ "PID", TABLE_RIGHT, false }, { "TID", TABLE_RIGHT, false },
		{ "COMMAND", TABLE_LEFT, false }, { "AGE", TABLE_RIGHT, false },
		{ "FUNCTION", TABLE_LEFT, true } };
	_cleanup_listed_ struct listed l = LISTED_NONE;
	struct err err = {};
	int status;

	if (listed_open(&l, g, words, choice, "calls", table_new(columns, ARRAY_SIZE(columns)), &err))
		return cmd_fail(g, &err);
	if (choice->stacks && thread_stacks_new(choice->lines, &l.threads, &err))
		return cmd_fail(g, &err);
	for (size_t i = 0; i < l.groups.cnt; i++)
		if (add_calls(&l, l.groups.group[i], &err))
			return cmd_fail(g, &err);
	status = listed_print(&l,
		choice->older_ns ? "no call is in flight for this long" : "no call is in flight");
	if (l.hidden && !g->json)
		cmd_note(g, "%zu stale call%s hidden; --all shows %s", l.hidden,
			l.hidden == 1 ? " is" : "s are", l.hidden == 1 ? "it" : "them");
	return status;
}

/* --- processes that died ----------------------------------------------------------------------- */

/* Context in which a process that died is printed. */
struct scene {
	const struct group *group;
	const struct types *types;
	struct thread_stacks *stacks; /* NULL: without */
};

static uint64_t real_time_of(const struct crash *c)
{
	return clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC) + c->time_ns;
}

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
		out_escaped(o, shown.title, strlen(shown.title));
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
	struct thread_stack stack = thread_stacks_of_crash(s->stacks, s->group, c->record);
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

static void crash_json(struct json *j, const struct scene *s, const struct crash *c, bool lines)
{
	struct thread_stack stack = thread_stacks_of_crash(s->stacks, s->group, c->record);
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

static void crash_row(struct grid *table, struct out *stacks, const struct scene *s,
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

static int add_crashes(struct listed *l, const struct group *group, struct err *err)
{
	_cleanup_types_ struct types *types = NULL;
	uint64_t end = crashes_ever(group), first = end > CRASHES_MAX ? end - CRASHES_MAX : 0;
	int code = types_read(group, &types, err);
	const struct scene scene = { group, types, l->threads };

	for (uint64_t i = first; !code && i < end; i++) {
		_cleanup_crash_ struct crash c;

		code = crash_read(group, i, &c, err);
		if (!code && l->doc)
			crash_json(l->doc, &scene, &c, l->choice->lines);
		else if (!code)
			crash_row(l->table, &l->text, &scene, &c);
		code = code == -EAGAIN || code == -ENOENT ? 0 : code;
	}
	return code;
}

int list_crashes(struct globals *g, const struct words *words, const struct list_options *choice)
{
	static const struct table_column columns[] = { { "GROUP", TABLE_LEFT, false },
		{ "TIME", TABLE_LEFT, false }, { "PID", TABLE_RIGHT, false },
		{ "TID", TABLE_RIGHT, false }, { "COMMAND", TABLE_LEFT, false },
		{ "END", TABLE_LEFT, false }, { "IN FLIGHT", TABLE_LEFT, TABLE_WRAP } };
	_cleanup_listed_ struct listed l = LISTED_NONE;
	struct err err = {};

	if (listed_open(&l, g, words, choice, "crashes", table_new(columns, ARRAY_SIZE(columns)), &err))
		return cmd_fail(g, &err);
	if (l.doc || choice->stacks)
		thread_stacks_new_dead(choice->lines, &l.threads);
	for (size_t i = 0; i < l.groups.cnt; i++)
		if (add_crashes(&l, l.groups.group[i], &err))
			return cmd_fail(g, &err);
	return listed_print(&l, "no process has died");
}

/* --- processes that die while run waits ------------------------------------------------------ */

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
	*array_add(w->groups, w->cnt) = (struct crash_group) { .group = group };
}

/* Whether @c was reported before, as a process of another group. */
static bool is_reported(struct crash_watch *w, const struct crash *c)
{
	if (ANY_WHERE(REPORTED, i,
		w->reported[i].pid == c->pid && w->reported[i].start_ns == c->start_ns))
		return true;
	w->reported[w->reported_cnt++ % REPORTED] = (struct reported) { c->start_ns, c->pid, c->tid };
	return false;
}

/* A status of grep, diff or test is an answer: only that of COMMAND or of --pid is a failure. */
static bool is_failure(const struct crash_watch *w, const struct crash *c)
{
	return c->signal || ANY_WHERE(w->filter->pid_cnt, i, w->filter->pids[i] == c->pid);
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

/* --- memory that was allocated and not freed --------------------------------------------------- */

/* Live allocations of one function, caller, stack or process. */
struct held {
	const char *function; /* NULL: it is by process */
	char *label;          /* caller; or frames, innermost first, each with a newline */
	pid_t pid;
	struct stats_live live;
};

struct holding {
	struct listed l;
	enum allocations_by by;
	const struct group *group;
	struct held *held;
	size_t cnt;
	uint64_t now_ns, lost, bulk_frees;
	bool any;
};

static void held_forget(struct holding *h)
{
	for (size_t i = 0; i < h->cnt; i++)
		free(h->held[i].label);
	free(h->held);
	h->held = NULL;
	h->cnt = 0;
}

static void holding_done(struct holding *h)
{
	held_forget(h);
	listed_done(&h->l);
}

/* Takes @label. */
static void held_add(struct holding *h, const char *function, char *label, pid_t pid,
	const struct stats_live *live)
{
	*array_add(h->held, h->cnt) = (struct held) { function, label, pid, *live };
}

/* --- what is held alike ------------------------------------------------------------------------ */

DEFINE_ORDER(compare_alike, struct held,
	RISING(pid) ?: (x->function ? strcmp(x->function, y->function) : 0) ?:
		(x->label && y->label ? strcmp(x->label, y->label) : 0))

DEFINE_ORDER(compare_bytes, struct held,
	FALLING(live.bytes) ?: FALLING(live.blocks) ?: compare_alike(a, b))

static void add_held(void *to, const void *from)
{
	const struct held *more = from;

	stats_live_add(&((struct held *)to)->live, &more->live);
	free(more->label);
}

static void held_merge(struct holding *h)
{
	if (!h->cnt)
		return;
	h->cnt = rows_group(h->held, h->cnt, sizeof(*h->held), compare_alike, add_held);
	qsort(h->held, h->cnt, sizeof(*h->held), compare_bytes);
}

static char *stack_label(struct stacks *s, uint64_t number, pid_t pid)
{
	struct stack stack = stacks_get(s, number);
	struct out text = {};

	for (size_t i = 0; number && i < stack.cnt; i++) {
		size_t cnt = 0;
		const struct frame_name *names = stacks_names(s, stack.frames[i], pid, &cnt);

		for (size_t k = 0; names && k < cnt; k++)
			out_printf(&text, "%s\n", names[k].text);
	}
	out_char(&text, '\0');
	return text.buf;
}

static char *caller_label(const struct stats_row *row, size_t key)
{
	return row->place
		? xstrdup(row->place)
		: xasprintf("0x%llx", (unsigned long long)stats_row_word(row, key));
}

/* Allocations dropped from the full table of keys are counted as others'. */
static void take_rows(struct holding *h, const struct stats_func *f, struct stacks *s, size_t key)
{
	const char *function = group_func_name(h->group, f->fn);

	for (size_t i = 0; i < f->row_cnt; i++) {
		const struct stats_row *row = &f->rows[i];
		char *label;

		if (!row->live.blocks)
			continue;
		label = h->by == ALLOCATIONS_BY_STACK
			? stack_label(s, stats_row_word(row, key), row->pid)
			: caller_label(row, key);
		held_add(h, function, label, 0, &row->live);
	}
	if (f->others.live.blocks)
		held_add(h, function, xstrdup("others"), 0, &f->others.live);
}

static void take_held(struct holding *h, const struct stats *s, struct stacks *stacks, int key)
{
	h->bulk_frees += s->bulk_frees;
	for (size_t i = 0; h->by == ALLOCATIONS_BY_PROCESS && i < s->holder_cnt; i++)
		held_add(h, NULL, NULL, s->holders[i].pid, &s->holders[i].live);
	for (size_t i = 0; i < s->func_cnt; i++) {
		const struct stats_func *f = &s->funcs[i];

		h->lost += f->memory.n.lost_blocks;
		if (h->by == ALLOCATIONS_BY_FUNCTION && f->live.blocks)
			held_add(h, group_func_name(h->group, f->fn), NULL, 0, &f->live);
		else if (h->by != ALLOCATIONS_BY_FUNCTION && h->by != ALLOCATIONS_BY_PROCESS)
			take_rows(h, f, stacks, (size_t)key);
	}
}

/* --- shown -------------------------------------------------------------------------------------- */

static void add_frames(struct json *j, const char *label)
{
	json_set_open(j, "stack", '[');
	for (const char *at = label, *end; (end = strchr(at, '\n')); at = end + 1) {
		_cleanup_free_ char *name = xstrndup(at, (size_t)(end - at));

		json_str(j, name);
	}
	json_close(j, ']');
}

static void held_json(struct holding *h, const struct held *held, uint64_t age_ns)
{
	char comm[PROC_COMM_LEN];

	json_open(h->l.doc, '{');
	json_set_str(h->l.doc, "group", group_info(h->group).name);
	if (held->function)
		json_set_str(h->l.doc, "function", held->function);
	if (h->by == ALLOCATIONS_BY_CALLER)
		json_set_str(h->l.doc, "caller", held->label);
	if (h->by == ALLOCATIONS_BY_STACK)
		add_frames(h->l.doc, held->label);
	if (!held->function) {
		json_set_i64(h->l.doc, "pid", held->pid);
		json_set_str(h->l.doc, "comm", proc_comm(held->pid, held->pid, comm) ? comm : NULL);
	}
	json_set_u64(h->l.doc, "live_bytes", held->live.bytes);
	json_set_u64(h->l.doc, "live_blocks", held->live.blocks);
	json_set_u64(h->l.doc, "oldest_ns", age_ns);
	json_close(h->l.doc, '}');
}

static void held_stack(struct holding *h, const struct held *held)
{
	char bytes[TEXT_NUM_LEN];

	out_printf(&h->l.text, "\n%s in %llu block%s by ", text_bytes(held->live.bytes, bytes),
		(unsigned long long)held->live.blocks, held->live.blocks == 1 ? "" : "s");
	out_escaped(&h->l.text, held->function, strlen(held->function));
	out_str(&h->l.text, ":\n");
	for (const char *at = held->label, *end; (end = strchr(at, '\n')); at = end + 1) {
		out_str(&h->l.text, "    ");
		out_escaped(&h->l.text, at, (size_t)(end - at));
		out_char(&h->l.text, '\n');
	}
}

static void held_row(struct holding *h, const struct held *held, uint64_t age_ns)
{
	char bytes[TEXT_NUM_LEN], age[TEXT_NUM_LEN], comm[PROC_COMM_LEN];
	bool named = !held->function && proc_comm(held->pid, held->pid, comm);

	grid_textf(h->l.table, "%s", group_info(h->group).name);
	grid_textf(h->l.table, "%s", text_bytes(held->live.bytes, bytes));
	grid_textf(h->l.table, "%llu", (unsigned long long)held->live.blocks);
	grid_textf(h->l.table, "%s", text_duration(age_ns, age));
	if (!held->function) {
		grid_textf(h->l.table, "%d", held->pid);
		grid_textf(h->l.table, "%s", named ? comm : "-");
		return;
	}
	grid_textf(h->l.table, "%s", held->function);
	if (h->by == ALLOCATIONS_BY_STACK)
		grid_textf(h->l.table, "%.*s", (int)strcspn(held->label, "\n"), held->label);
	else
		grid_textf(h->l.table, "%s", held->label ? held->label : "-");
}

static void show_held(struct holding *h)
{
	for (size_t i = 0, shown = 0; i < h->cnt && (!h->l.choice->top || shown < h->l.choice->top); i++) {
		const struct held *held = &h->held[i];
		uint64_t since = held->live.oldest_ns;
		uint64_t age_ns = since && since < h->now_ns ? h->now_ns - since : 0;

		if (held->live.bytes < h->l.choice->min_bytes)
			continue;
		h->any = true;
		shown++;
		if (h->l.doc) {
			held_json(h, held, age_ns);
			continue;
		}
		held_row(h, held, age_ns);
		if (h->by == ALLOCATIONS_BY_STACK)
			held_stack(h, held);
	}
}

/* --- of groups ---------------------------------------------------------------------------------- */

static const char *const by_words[] = {
	[ALLOCATIONS_BY_ANY] = "",
	[ALLOCATIONS_BY_FUNCTION] = "function",
	[ALLOCATIONS_BY_CALLER] = "caller",
	[ALLOCATIONS_BY_STACK] = "stack",
	[ALLOCATIONS_BY_PROCESS] = "process",
};

/* By whom it was taken, as far as the group knows. */
static int choose_by(struct holding *h, const struct group_keys *keys, int *ret_key, struct err *err)
{
	h->by = h->l.choice->by;
	if (h->by == ALLOCATIONS_BY_ANY)
		h->by = group_keys_find(keys, "caller") >= 0 ? ALLOCATIONS_BY_CALLER
			: group_keys_find(keys, "stack") >= 0 ? ALLOCATIONS_BY_STACK
							: ALLOCATIONS_BY_FUNCTION;
	*ret_key = -1;
	if (h->by != ALLOCATIONS_BY_CALLER && h->by != ALLOCATIONS_BY_STACK)
		return 0;
	*ret_key = group_keys_find(keys, by_words[h->by]);
	if (*ret_key >= 0)
		return 0;
	err_set(err, -ERR_USAGE, "group '%s' does not know the %s of its calls",
		group_info(h->group).name, by_words[h->by]);
	return err_hint(err, "attach the group again with --replace --with memory --by %s",
		h->by == ALLOCATIONS_BY_STACK ? "stack" : "caller");
}

static int add_allocations(struct holding *h, const struct group *group, struct err *err)
{
	_cleanup_group_keys_ struct group_keys keys = {};
	_cleanup_stacks_ struct stacks *stacks = NULL;
	_cleanup_stats_ struct stats *s = NULL;
	int code, key;

	h->group = group;
	code = group_keys_read(group, &keys, err);
	if (!code)
		code = choose_by(h, &keys, &key, err);
	if (!code)
		code = stats_read_old(&h->l.groups.fs, group, h->l.choice->older_ns,
			h->l.choice->lines, &s, err);
	if (!code && !s->blocks_known)
		code = err_set(err, -EACCES, "blocks of group '%s' are for its owner only",
			group_info(group).name);
	if (!code && h->by == ALLOCATIONS_BY_STACK)
		code = stacks_read(group, &stacks, err);
	if (code)
		return code;
	if (stacks && h->l.choice->lines)
		stacks_want_lines(stacks);
	h->now_ns = s->read_mono_ns;
	take_held(h, s, stacks, key);
	held_merge(h);
	show_held(h);
	held_forget(h);
	return 0;
}

static struct grid *table_by(enum allocations_by by)
{
	static const struct table_column callers[] = { { "GROUP", TABLE_LEFT, false },
		{ "BYTES", TABLE_RIGHT, false }, { "BLOCKS", TABLE_RIGHT, false },
		{ "OLDEST", TABLE_RIGHT, false }, { "FUNCTION", TABLE_LEFT, true },
		{ "CALLER", TABLE_LEFT, true } };
	static const struct table_column processes[] = { { "GROUP", TABLE_LEFT, false },
		{ "BYTES", TABLE_RIGHT, false }, { "BLOCKS", TABLE_RIGHT, false },
		{ "OLDEST", TABLE_RIGHT, false }, { "PID", TABLE_RIGHT, false },
		{ "COMMAND", TABLE_LEFT, false } };

	return by == ALLOCATIONS_BY_PROCESS ? table_new(processes, ARRAY_SIZE(processes))
					    : table_new(callers, ARRAY_SIZE(callers));
}

int list_allocations(struct globals *g, const struct words *words, const struct list_options *choice)
{
	__cleanup(holding_done) struct holding h = { .l = LISTED_NONE };
	size_t followed = 0;
	struct err err = {};
	int status;

	if (listed_open(&h.l, g, words, choice, "allocations", table_by(choice->by), &err))
		return cmd_fail(g, &err);
	for (size_t i = 0; i < h.l.groups.cnt; i++) {
		const struct group *group = h.l.groups.group[i];

		/* Other groups are skipped silently unless the user named them. */
		if (!group_info(group).memory) {
			if (words->cnt > 1)
				cmd_note(g,
					"group '%s' does not follow memory: attach the group again with --replace --with memory",
					group_info(group).name);
			continue;
		}
		followed++;
		if (add_allocations(&h, group, &err))
			return cmd_fail(g, &err);
	}
	if (h.lost)
		cmd_note(g,
			"%llu blocks were not tracked: table full; attach the group again with --replace --limit allocations=N",
			(unsigned long long)h.lost);
	if (h.bulk_frees && h.any)
		cmd_note(g, "%llu call%s may have freed all memory of a device or context: older blocks listed here may be freed",
			(unsigned long long)h.bulk_frees, h.bulk_frees == 1 ? "" : "s");
	status = listed_print(&h.l, "nothing is held");
	return words->cnt > 1 && followed < h.l.groups.cnt ? EXIT_FAILED : status;
}
