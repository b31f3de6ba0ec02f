// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop list allocations: memory that was allocated and not freed.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buffer.h"
#include "cli/cmd.h"
#include "group/group.h"
#include "group/keys.h"
#include "group/stacks.h"
#include "internal.h"
#include "show/list.h"
#include "show/stats.h"
#include "show/text.h"
#include "stats/stats.h"

/* Live allocations of one function, caller, stack or process. */
struct held {
	const char *function; /* NULL: it is by process */
	char *label;          /* caller; or frames, innermost first, each with a newline */
	pid_t pid;
	struct stats_live live;
};

struct holding {
	const struct list_options *choice;
	enum allocations_by by;
	const struct group *group;
	struct held *held;
	size_t cnt;
	struct json *doc;
	struct grid *table;
	struct out stacks; /* text of the stacks, printed after the table */
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
	out_done(&h->stacks);
}

/* Takes @label. */
static void held_add(struct holding *h, const char *function, char *label, pid_t pid,
	const struct stats_live *live)
{
	h->held = array_grow(h->held, h->cnt, sizeof(*h->held));
	h->held[h->cnt++] = (struct held) { function, label, pid, *live };
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

static void take(struct holding *h, const struct stats *s, struct stacks *stacks, int key)
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

static void add_json(struct holding *h, const struct held *held, uint64_t age_ns)
{
	char comm[PROC_COMM_LEN];

	json_open(h->doc, '{');
	json_set_str(h->doc, "group", group_info(h->group).name);
	if (held->function)
		json_set_str(h->doc, "function", held->function);
	if (h->by == ALLOCATIONS_BY_CALLER)
		json_set_str(h->doc, "caller", held->label);
	if (h->by == ALLOCATIONS_BY_STACK)
		add_frames(h->doc, held->label);
	if (!held->function) {
		json_set_i64(h->doc, "pid", held->pid);
		json_set_str(h->doc, "comm", proc_comm(held->pid, held->pid, comm) ? comm : NULL);
	}
	json_set_u64(h->doc, "live_bytes", held->live.bytes);
	json_set_u64(h->doc, "live_blocks", held->live.blocks);
	json_set_u64(h->doc, "oldest_ns", age_ns);
	json_close(h->doc, '}');
}

static void add_stack(struct holding *h, const struct held *held)
{
	char bytes[TEXT_NUM_LEN];

	out_printf(&h->stacks, "\n%s in %llu block%s by ", text_bytes(held->live.bytes, bytes),
		(unsigned long long)held->live.blocks, held->live.blocks == 1 ? "" : "s");
	out_escaped(&h->stacks, held->function, strlen(held->function));
	out_str(&h->stacks, ":\n");
	for (const char *at = held->label, *end; (end = strchr(at, '\n')); at = end + 1) {
		out_str(&h->stacks, "    ");
		out_escaped(&h->stacks, at, (size_t)(end - at));
		out_char(&h->stacks, '\n');
	}
}

static void add_row(struct holding *h, const struct held *held, uint64_t age_ns)
{
	char bytes[TEXT_NUM_LEN], age[TEXT_NUM_LEN], comm[PROC_COMM_LEN];
	bool named = !held->function && proc_comm(held->pid, held->pid, comm);

	grid_textf(h->table, "%s", group_info(h->group).name);
	grid_textf(h->table, "%s", text_bytes(held->live.bytes, bytes));
	grid_textf(h->table, "%llu", (unsigned long long)held->live.blocks);
	grid_textf(h->table, "%s", text_duration(age_ns, age));
	if (!held->function) {
		grid_textf(h->table, "%d", held->pid);
		grid_textf(h->table, "%s", named ? comm : "-");
		return;
	}
	grid_textf(h->table, "%s", held->function);
	if (h->by == ALLOCATIONS_BY_STACK)
		grid_textf(h->table, "%.*s", (int)strcspn(held->label, "\n"), held->label);
	else
		grid_textf(h->table, "%s", held->label ? held->label : "-");
}

static void show(struct holding *h)
{
	for (size_t i = 0, shown = 0; i < h->cnt && (!h->choice->top || shown < h->choice->top); i++) {
		const struct held *held = &h->held[i];
		uint64_t since = held->live.oldest_ns;
		uint64_t age_ns = since && since < h->now_ns ? h->now_ns - since : 0;

		if (held->live.bytes < h->choice->min_bytes)
			continue;
		h->any = true;
		shown++;
		if (h->doc) {
			add_json(h, held, age_ns);
			continue;
		}
		add_row(h, held, age_ns);
		if (h->by == ALLOCATIONS_BY_STACK)
			add_stack(h, held);
	}
}

/* --- of groups ---------------------------------------------------------------------------------- */

static const char *const words[] = {
	[ALLOCATIONS_BY_ANY] = "",
	[ALLOCATIONS_BY_FUNCTION] = "function",
	[ALLOCATIONS_BY_CALLER] = "caller",
	[ALLOCATIONS_BY_STACK] = "stack",
	[ALLOCATIONS_BY_PROCESS] = "process",
};

/* By whom it was taken, as far as the group knows. */
static int choose_by(struct holding *h, const struct group_keys *keys, int *ret_key, struct err *err)
{
	h->by = h->choice->by;
	if (h->by == ALLOCATIONS_BY_ANY)
		h->by = group_keys_find(keys, "caller") >= 0 ? ALLOCATIONS_BY_CALLER
			: group_keys_find(keys, "stack") >= 0 ? ALLOCATIONS_BY_STACK
							: ALLOCATIONS_BY_FUNCTION;
	*ret_key = -1;
	if (h->by != ALLOCATIONS_BY_CALLER && h->by != ALLOCATIONS_BY_STACK)
		return 0;
	*ret_key = group_keys_find(keys, words[h->by]);
	if (*ret_key >= 0)
		return 0;
	err_set(err, -ERR_USAGE, "group '%s' does not know the %s of its calls",
		group_info(h->group).name, words[h->by]);
	return err_hint(err, "attach the group again with --replace --with memory --by %s",
		h->by == ALLOCATIONS_BY_STACK ? "stack" : "caller");
}

static int add_group(
	struct holding *h, struct bpffs *fs, const struct group *group, struct err *err)
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
		code = stats_read_old(
			fs, group, h->choice->older_ns, h->choice->lines, &s, err);
	if (!code && !s->blocks_known)
		code = err_set(err, -EACCES, "blocks of group '%s' are for its owner only",
			group_info(group).name);
	if (!code && h->by == ALLOCATIONS_BY_STACK)
		code = stacks_read(group, &stacks, err);
	if (code)
		return code;
	if (stacks && h->choice->lines)
		stacks_want_lines(stacks);
	h->now_ns = s->read_mono_ns;
	take(h, s, stacks, key);
	held_merge(h);
	show(h);
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

int list_allocations(
	struct globals *g, const struct words *names, const struct list_options *choice)
{
	const struct words groups_named = { names->word + 1, names->cnt - 1 };
	_cleanup_table_ struct grid *table = table_by(choice->by);
	_cleanup_json_ struct json *doc = g->json ? json_list(g, "allocations") : NULL;
	__cleanup(holding_done) struct holding h = {
		.choice = choice, .doc = doc, .table = table };
	_cleanup_groups_ struct groups groups = GROUPS_NONE;
	size_t followed = 0;
	struct err err = {};
	int status;

	if (groups_open(g, &groups_named, GROUPS_REST, &groups, &err))
		return cmd_fail(g, &err);
	groups_tell_left(g, &groups);
	for (size_t i = 0; i < groups.cnt; i++) {
		/* Other groups are skipped silently unless the user named them. */
		if (!group_info(groups.group[i]).memory) {
			if (groups_named.cnt)
				cmd_note(g,
					"group '%s' does not follow memory: attach the group again with --replace --with memory",
					group_info(groups.group[i]).name);
			continue;
		}
		followed++;
		if (add_group(&h, &groups.fs, groups.group[i], &err))
			return cmd_fail(g, &err);
	}
	status = groups.failed_cnt || (groups_named.cnt && followed < groups.cnt) ? EXIT_FAILED
										   : EXIT_DONE;
	if (h.lost)
		cmd_note(g,
			"%llu blocks were not tracked: table full; attach the group again with --replace --limit allocations=N",
			(unsigned long long)h.lost);
	if (h.bulk_frees && h.any)
		cmd_note(g, "%llu call%s may have freed all memory of a device or context: older blocks listed here may be freed",
			(unsigned long long)h.bulk_frees, h.bulk_frees == 1 ? "" : "s");
	if (doc)
		return json_print(TAKE_PTR(doc)) ?: status;
	list_print(g, table, "nothing is held", &h.stacks);
	return status;
}
