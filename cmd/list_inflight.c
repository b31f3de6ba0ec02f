// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop list inflight: calls that have not returned.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "attach/attach.h"
#include "base/buffer.h"
#include "cli/cmd.h"
#include "group/group.h"
#include "group/keys.h"
#include "group/stacks.h"
#include "group/types.h"
#include "internal.h"
#include "show/call.h"
#include "show/list.h"
#include "show/text.h"
#include "stats/stats.h"

struct flight {
	const struct list_options *choice;
	struct thread_stacks *threads; /* with .choice->stacks */
	struct out stacks;             /* text of the stacks, printed after the table */
	struct json *doc;
	struct table *table;
	size_t hidden;
};

/* "ncclAllReduce communicator=fa93daea854b060b 0/2 bytes=8192 (sendbuff=0x7f00, ...)" */
static void add_call_text(struct flight *flight, const struct shown_call *c, bool stale)
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
	table_cell(flight->table, "%s", text.buf);
	out_done(&text);
}

/* "ncclAllReduce of 1234/1235:" and a line for each frame. */
static void add_stack_text(struct out *o, const char *function, const struct slot_call *call,
	const struct thread_stack *stack)
{
	out_str(o, "\n");
	out_escaped(o, function, strlen(function));
	out_str(o, " of ");
	out_i64(o, call->pid);
	out_char(o, '/');
	out_i64(o, call->tid);
	out_str(o, stack->frames ? ":\n" : stack->end ? ": it runs\n" : ": it can't be seen\n");
	thread_stack_text(o, stack);
}

static void add_call(struct flight *flight, const struct group *group, const struct types *types,
	const struct group_keys *keys, const struct stats *names, const struct slot_call *call)
{
	struct call plain;
	struct shown_call shown = call_of_slot(group, types, call, &plain);
	struct thread_stack stack = {};
	char age[TEXT_NUM_LEN];

	shown.keys = keys;
	shown.key = call->keyed ? &call->key : NULL;
	shown.names = names;
	if (flight->threads)
		stack = thread_stack_read(flight->threads, call->pid, call->tid);
	if (flight->doc) {
		json_begin_call(flight->doc, group, call, &shown);
		if (flight->threads)
			thread_stack_json(flight->doc, &stack, flight->choice->lines);
		json_close(flight->doc, '}');
		return;
	}
	if (flight->threads)
		add_stack_text(&flight->stacks, shown.function, call, &stack);
	table_cell(flight->table, "%s", group_info(group).name);
	table_cell(flight->table, "%d", call->pid);
	table_cell(flight->table, "%d", call->tid);
	table_cell(flight->table, "%s", call->comm);
	table_cell(flight->table, "%s", text_duration(call->age_ns, age));
	add_call_text(flight, &shown, call->stale);
}

static int add_calls(struct flight *flight, const struct group *group, struct err *err)
{
	_cleanup_free_ struct slot_call *calls = NULL;
	_cleanup_group_keys_ struct group_keys keys = {};
	_cleanup_stacks_ struct stacks *stacks = NULL;
	_cleanup_stats_ struct stats *names = NULL;
	_cleanup_types_ struct types *types = NULL;
	size_t cnt;
	int code;

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
		if (calls[i].age_ns < flight->choice->older_ns)
			continue;
		if (calls[i].stale && !flight->choice->all) {
			flight->hidden++;
			continue;
		}
		add_call(flight, group, types, &keys, names, &calls[i]);
	}
	return code;
}

static void print_flight(const struct globals *g, struct flight *flight)
{
	list_print(g, flight->table, "no call is in flight", &flight->stacks);
	if (flight->hidden)
		cmd_note(g, "%zu stale call%s hidden; --all shows %s", flight->hidden,
			flight->hidden == 1 ? " is" : "s are",
			flight->hidden == 1 ? "it" : "them");
}

static void flight_done(struct flight *flight)
{
	thread_stacks_free(flight->threads);
	out_done(&flight->stacks);
}

int list_inflight(
	struct globals *g, const struct words *words, const struct list_options *choice)
{
	const struct words names = { words->word + 1, words->cnt - 1 };
	static const struct table_column columns[] = { { "GROUP", TABLE_LEFT, false },
		{ "PID", TABLE_RIGHT, false }, { "TID", TABLE_RIGHT, false },
		{ "COMMAND", TABLE_LEFT, false }, { "AGE", TABLE_RIGHT, false },
		{ "FUNCTION", TABLE_LEFT, true } };
	_cleanup_table_ struct table *table = table_new(columns, ARRAY_SIZE(columns));
	_cleanup_json_ struct json *doc = g->json ? json_list(g, "calls") : NULL;
	__cleanup(flight_done) struct flight flight = {
		.choice = choice, .doc = doc, .table = table };
	_cleanup_groups_ struct groups groups = GROUPS_NONE;
	struct err err = {};
	int status;

	if (groups_open(g, &names, GROUPS_REST, &groups, &err))
		return cmd_fail(g, &err);
	groups_tell_left(g, &groups);
	if (choice->stacks && thread_stacks_new(choice->lines, &flight.threads, &err))
		return cmd_fail(g, &err);
	for (size_t i = 0; i < groups.cnt; i++)
		if (add_calls(&flight, groups.group[i], &err))
			return cmd_fail(g, &err);
	status = groups.failed_cnt ? EXIT_FAILED : EXIT_DONE;
	if (doc)
		return json_print(TAKE_PTR(doc)) ?: status;
	print_flight(g, &flight);
	return status;
}
