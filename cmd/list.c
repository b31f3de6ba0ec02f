// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop list: groups, their functions, presets.
#include <pwd.h>

#include "attach/attach.h"
#include "base/buffer.h"
#include "base/util.h"
#include "cli/cmd.h"
#include "group/group.h"
#include "group/types.h"
#include "internal.h"
#include "kernel/kernel.h"
#include "show/list.h"
#include "show/text.h"
#include "stats/stats.h"

/* --- groups --------------------------------------------------------------------------------- */

/* @asked stays as it is where it may not be read, and is of the row where it may. */
static int read_row(const struct group *group, const char *error, struct json_list_row *row,
	struct asked *asked, struct err *err)
{
	struct group_info info = group_info(group);
	uint64_t calls[FSN_EXIT_CNT];
	int code;

	row->group = group;
	row->error = error;
	if (error)
		return 0;
	code = group_since(group, &row->since_ns, err);
	if (!code)
		code = stats_calls(group, calls, &row->shed_cnt, err);
	for (int i = 0; !code && i < FSN_EXIT_CNT; i++)
		row->calls += calls[i];
	if (!code)
		code = group_until(group, &row->until_ns, err);
	if (!asked_read(group, asked))
		row->asked = asked;
	row->memory_bytes = group_memory(group);
	for (uint32_t i = 0; i < info.lib_cnt; i++)
		row->stale |= group_lib_stale(group, i);
	return code;
}

/* Prints the line that -v adds: choices and options of the attach. */
static void print_more(struct grid *table, const struct json_list_row *row)
{
	struct group_info info = group_info(row->group);
	const struct passwd *user = getpwuid(info.uid);
	__cleanup(out_done) struct out out = {};
	char exits[64], when[TEXT_NUM_LEN];

	out_printf(&out, "link %s, exits %s", link_mode_name(info.links),
		text_exits(info.exits, exits, sizeof(exits)));
	if (info.sample > 1)
		out_printf(&out, "; one call of %u is timed", info.sample);
	out_str(&out, info.processes ? "" : "; without processes");
	out_str(&out, info.raw ? "; times are raw" : "");
	out_budget(&out, row->group);
	if (row->asked)
		out_filters(&out, row->asked);
	if (info.kept)
		out_printf(&out, "; while run %u lives", info.pid);
	else if (row->until_ns)
		out_printf(&out, "; until %s", text_time(row->until_ns, when));
	out_printf(&out, "; attached %s by ", text_time(info.attached_ns, when));
	if (user)
		out_str(&out, user->pw_name);
	else
		out_u64(&out, info.uid);
	out_printf(&out, ", process %u%s", info.pid, row->asked ? ":" : "");
	if (row->asked)
		out_command(&out, row->asked);
	out_char(&out, '\0');
	grid_note(table, out.buf);
}

static void print_row(struct grid *table, const struct json_list_row *row)
{
	struct group_info info = group_info(row->group);
	char exits[64], since[TEXT_NUM_LEN], bytes[TEXT_NUM_LEN], cost[TEXT_NUM_LEN];

	grid_textf(table, "%s", info.name);
	if (row->error) {
		grid_textf(table, "(%s)", row->error);
		for (int i = 0; i < 7; i++)
			grid_textf(table, "-");
		return;
	}
	if (info.lib_cnt > 1)
		grid_textf(table, "%s%s and %u more", row->stale ? "STALE " : "",
			group_lib(row->group, 0), info.lib_cnt - 1);
	else
		grid_textf(table, "%s%s", row->stale ? "STALE " : "",
			info.waits ? "waiting" : group_lib(row->group, 0));
	grid_textf(table, "%u", info.fn_cnt);
	grid_textf(table, "%s", link_mode_name(info.links));
	grid_textf(table, "%s", text_exits(info.exits, exits, sizeof(exits)));
	grid_textf(table, "%s", text_time(row->since_ns, since));
	grid_textf(table, "%llu", (unsigned long long)row->calls);
	grid_textf(table, "%s",
		row->memory_bytes ? text_bytes(row->memory_bytes, bytes) : "-");
	/* An estimate is marked as one. */
	if (row->cost.source != COST_UNKNOWN)
		grid_textf(table, "%s%s/s", row->cost.source == COST_CALIBRATED ? "~" : "",
			text_duration(row->cost.ns_per_s, cost));
	else
		grid_textf(table, "-");
}

/* The overhead of each group since its reset; that of a group with an error is not known. */
static void read_costs(const struct groups *groups, struct json_list_row *rows)
{
	struct cost_reading reading;

	for (size_t i = 0; i < groups->cnt; i++) {
		if (rows[i].error)
			continue;
		cost_read(&groups->group[i], 1, COST_SINCE_RESET, &reading);
		rows[i].cost = cost_since_reset(&reading);
	}
}

/* Groups and what is read of each. */
struct listing {
	struct groups groups;
	struct json_list_row *rows;
	struct asked *asked;
};

static void listing_done(struct listing *l)
{
	for (size_t i = 0; l->asked && i < l->groups.cnt; i++)
		asked_done(&l->asked[i]);
	free(l->asked);
	free(l->rows);
	groups_done(&l->groups);
}

/* A group that cannot be read does not hide the others: its row says why. */
static void row_failed(struct listing *l, size_t i, const struct err *err)
{
	asked_done(&l->asked[i]);
	l->asked[i] = (struct asked) {};
	l->groups.error[i] = xstrdup(err->msg);
	l->rows[i] = (struct json_list_row) { .group = l->groups.group[i],
		.error = l->groups.error[i] };
}

static int listing_read(const struct options *o, struct listing *l, struct err *err)
{
	int code = groups_open(o->g, &o->words, GROUPS_LIST, &l->groups, err);

	if (code == -ENOENT && o->words.cnt == 1 && !strcmp(o->words.word[0], "probes"))
		err_hint(err, "'funcsnoop list functions GROUP' has the probed functions of a group");
	if (code)
		return code;
	l->rows = xcalloc(l->groups.cnt + 1, sizeof(*l->rows));
	l->asked = xcalloc(l->groups.cnt + 1, sizeof(*l->asked));
	for (size_t i = 0; !code && i < l->groups.cnt;) {
		code = read_row(l->groups.group[i], l->groups.error[i], &l->rows[i],
			&l->asked[i], err);
		if (groups_pass(&l->groups, i, code)) {
			if (code && code != -ENOMEM) {
				row_failed(l, i, err);
				code = 0;
			}
			i++;
			continue;
		}
		asked_done(&l->asked[i]);
		l->asked[i] = (struct asked) {};
		l->rows[i] = (struct json_list_row) {};
		code = 0;
	}
	if (!code)
		read_costs(&l->groups, l->rows);
	return code;
}

/* Reports groups whose traced processes have all exited. */
static void note_over(const struct options *o, const struct listing *l)
{
	char text[256];

	for (size_t i = 0; i < l->groups.cnt; i++)
		if (l->rows[i].asked &&
			text_over(group_info(l->groups.group[i]).name, l->rows[i].asked,
				text, sizeof(text)))
			cmd_note(o->g, "%s", text);
}

/* Groups that are, or were, above their bound on overhead. */
static void note_shed(const struct options *o, const struct listing *l)
{
	for (size_t i = 0; i < l->groups.cnt; i++) {
		struct group_info info = group_info(l->groups.group[i]);

		if (l->rows[i].shed_cnt)
			cmd_note(o->g,
				"group '%s' was above its overhead of %g %%: not all calls of %zu function%s were timed; 'funcsnoop stats %s' names them",
				info.name, info.budget / 1e4, l->rows[i].shed_cnt,
				l->rows[i].shed_cnt == 1 ? "" : "s", info.name);
	}
}

static int list_groups(const struct options *o)
{
	static const struct table_column columns[] = { { "NAME", TABLE_LEFT, false },
		{ "LIBRARY", TABLE_LEFT, true }, { "FUNCTIONS", TABLE_RIGHT, false },
		{ "LINK", TABLE_LEFT, false }, { "EXITS", TABLE_LEFT, false },
		{ "SINCE", TABLE_LEFT, false }, { "CALLS", TABLE_RIGHT, false },
		{ "MEMORY", TABLE_RIGHT, false }, { "COST", TABLE_RIGHT, false } };
	_cleanup_table_ struct grid *table = table_new(columns, ARRAY_SIZE(columns));
	__cleanup(listing_done) struct listing l = { .groups = GROUPS_NONE };
	_cleanup_json_ struct json *doc = o->g->json ? json_list(o->g, "groups") : NULL;
	struct err err = {};

	if (listing_read(o, &l, &err))
		return cmd_fail(o->g, &err);
	for (size_t i = 0; i < l.groups.cnt; i++) {
		if (doc)
			json_add_list(doc, &l.rows[i]);
		else
			print_row(table, &l.rows[i]);
		if (!doc && o->list.verbose && !l.rows[i].error)
			print_more(table, &l.rows[i]);
	}
	if (doc)
		return json_print(TAKE_PTR(doc));
	if (l.groups.cnt)
		grid_print(table, o->g, false, stdout);
	else
		cmd_note(o->g, "nothing is attached");
	note_over(o, &l);
	note_shed(o, &l);
	return EXIT_DONE;
}

/* --- functions ------------------------------------------------------------------------------ */

static void print_functions(const struct globals *g, const struct group *group)
{
	_cleanup_table_ struct grid *table = functions_table();
	struct group_info info = group_info(group);

	for (uint32_t i = 0; i < info.fn_cnt; i++) {
		struct group_func f = group_func(group, i);

		functions_add(table, &f,
			f.limit == LIMIT_LEFT_OUT ? "--overhead: it became too expensive" : NULL);
	}
	functions_add_left(table, group);
	grid_print(table, g, false, stdout);
}

static void print_types(
	const struct globals *g, const struct group *group, const struct types *types)
{
	_cleanup_table_ struct grid *table = prototypes_table();
	struct group_info info = group_info(group);

	for (uint32_t i = 0; i < info.fn_cnt; i++) {
		const struct preset_func known = types_declared(types_of(types, i));
		struct group_func f = group_func(group, i);

		prototypes_add(table, f.name, &known, f.types_why);
	}
	grid_print(table, g, false, stdout);
}

static int list_group(const struct options *o, const struct group *group, struct json *doc,
	struct err *err)
{
	_cleanup_types_ struct types *types = NULL;
	int code = doc || o->list.types ? types_read(group, &types, err) : 0;

	if (code)
		return code;
	if (doc)
		json_add_functions(doc, group, types);
	else if (o->list.types)
		print_types(o->g, group, types);
	else
		print_functions(o->g, group);
	return 0;
}

static int list_functions(const struct options *o)
{
	const struct words names = { o->words.word + 1, o->words.cnt - 1 };
	_cleanup_json_ struct json *doc = o->g->json ? json_list(o->g, "groups") : NULL;
	_cleanup_groups_ struct groups groups = GROUPS_NONE;
	struct err err = {};

	if (o->words.cnt < 2)
		return cmd_usage(o->g, "functions of which group?");
	if (groups_open(o->g, &names, GROUPS_READ, &groups, &err))
		return cmd_fail(o->g, &err);
	for (size_t i = 0; i < groups.cnt; i++)
		if (list_group(o, groups.group[i], doc, &err))
			return cmd_fail(o->g, &err);
	return doc ? json_print(TAKE_PTR(doc)) : EXIT_DONE;
}

/* --- presets -------------------------------------------------------------------------------- */

static int list_presets(const struct options *o)
{
	static const struct table_column columns[] = { { "NAME", TABLE_LEFT, false },
		{ "FUNCTIONS", TABLE_RIGHT, false }, { "FROM", TABLE_LEFT, false },
		{ "DESCRIPTION", TABLE_LEFT, TABLE_WRAP } };
	_cleanup_table_ struct grid *table = table_new(columns, ARRAY_SIZE(columns));
	_cleanup_json_ struct json *doc = o->g->json ? json_list(o->g, "presets") : NULL;
	struct preset_entry *entries;
	size_t cnt;

	if (o->words.cnt > 1)
		return cmd_usage(o->g, "'list presets' takes no further words");
	preset_list(&entries, &cnt);
	for (size_t i = 0; i < cnt; i++) {
		const struct preset_entry *e = &entries[i];

		if (doc) {
			json_add_preset(doc, e);
			continue;
		}
		grid_textf(table, "%s", e->name);
		grid_textf(table, e->error ? "-" : "%zu", e->func_cnt);
		grid_textf(table, "%s", e->origin);
		grid_textf(table, "%s", e->error ? e->error : e->description ? e->description : "");
	}
	preset_list_free(entries, cnt);
	if (doc)
		return json_print(TAKE_PTR(doc));
	grid_print(table, o->g, false, stdout);
	return EXIT_DONE;
}

static int run(struct globals *g, int argc, char **argv)
{
	_cleanup_options_ struct options o;
	struct list_options *l = &o.list;
	const char *what;

	cmd_parse(g, &cmd_list, argc, argv, &o);
	what = o.words.cnt ? o.words.word[0] : "";
	if (!strcmp(what, "inflight")) {
		l->stacks |= l->lines;
		return list_inflight(g, &o.words, l);
	}
	if (!strcmp(what, "crashes") && !l->all && !option_given("older-than")) {
		l->stacks |= l->lines;
		return list_crashes(g, &o.words, l);
	}
	if (!strcmp(what, "allocations") && !l->all && !l->stacks)
		return list_allocations(g, &o.words, l);
	if (l->lines)
		return cmd_usage(g, "--lines goes with 'list inflight', 'list crashes' and 'list allocations'");
	if (l->by || l->min_bytes || l->top)
		return cmd_usage(g, "--by and --top go with 'list allocations'");
	if (l->all || l->stacks || option_given("older-than"))
		return cmd_usage(g, "--all, --older-than and --stack go with 'list inflight'");
	if (l->verbose && (!strcmp(what, "functions") || !strcmp(what, "presets") ||
				  !strcmp(what, "targets")))
		return cmd_usage(g, "--verbose goes with 'list' and groups");
	if (l->types && strcmp(what, "functions"))
		return cmd_usage(g, "--types goes with 'list functions'");
	if (!strcmp(what, "functions"))
		return list_functions(&o);
	if (!strcmp(what, "presets"))
		return list_presets(&o);
	if (!strcmp(what, "targets"))
		return list_targets(g, o.words.word + 1, o.words.cnt - 1);
	return list_groups(&o);
}

const struct command cmd_list = { "list", "[functions|inflight|...]",
	"groups, functions, calls in flight ...", run, ON_LIST,
	"[GROUP...]\nfunctions GROUP...\npresets\ntargets FUNCTION...\n"
	"inflight|crashes [GROUP...]\nallocations [GROUP...]",
	"List groups, their functions, presets, targets, calls in flight, processes\n"
	"that died, or memory that was not freed.\v"
	"A call in flight is stale if its thread's stack shows that it has ended.\n"
	"Calls from before the attach are not listed: 'funcsnoop stack PID' shows them.\n"
	"Example: funcsnoop list inflight --older-than 10s --stack" };
