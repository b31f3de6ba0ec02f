// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop stats: the statistics that the kernel keeps.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "groups.h"
#include "json.h"
#include "stats_view.h"
#include "text.h"

struct options {
	struct globals *g;
	char **names;
	size_t name_cnt;
	struct stats_choice choice;
	bool slow, errors, reset;
};

enum { KEY_SORT = 0x100, KEY_TOP, KEY_ERRORS, KEY_SLOW, KEY_RESET };

static const struct argp_option options[] = {
	{ "all", 'a', NULL, 0, "Functions never called, too", 1 },
	{ "sort", KEY_SORT, "KEY", 0, "Order by " STATS_SORT_KEYS, 1 },
	{ "top", KEY_TOP, "N", 0, "Only the first N", 1 },
	{ "errors", KEY_ERRORS, NULL, 0, "Failed calls by return code", 2 },
	{ "slow", KEY_SLOW, NULL, 0, "The remembered slow calls", 2 },
	{ "reset", KEY_RESET, NULL, 0, "Start afresh after reading, no call lost or twice", 2 },
	{ 0 }
};

static const char help[] =
	"Show statistics of groups; without GROUP, of all.\v"
	"Percentiles are at most 6.25 % off: buckets are an eighth of an octave wide.\n"
	"\n"
	"Examples:\n"
	"  funcsnoop stats cuda --top 10\n"
	"  funcsnoop stats --json | jq '.[].functions[] | {name, calls, errors}'\n"
	"  funcsnoop stats cuda --errors";

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	char *end;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = o->g;
		return 0;
	case 'a':
		o->choice.all = true;
		return 0;
	case KEY_SORT:
		if (!stats_sort_parse(arg, &o->choice.sort))
			argp_error(state, "--sort is " STATS_SORT_KEYS ", not '%s'", arg);
		return 0;
	case KEY_TOP:
		o->choice.top = strtoul(arg, &end, 10);
		if (!o->choice.top || *end || arg[0] == '-')
			argp_error(state, "--top '%s' is not a number from 1 on", arg);
		return 0;
	case KEY_ERRORS:
		o->errors = true;
		return 0;
	case KEY_SLOW:
		o->slow = true;
		return 0;
	case KEY_RESET:
		o->reset = true;
		return 0;
	case ARGP_KEY_ARGS:
		o->names = state->argv + state->next;
		o->name_cnt = state->argc - state->next;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

struct show {
	const struct options *o;
	const struct groups *groups;
	size_t at; /* the group whose turn it is */
	struct json_object *doc;
	struct err *err;
};

static int show_from(struct show *show);

static int show_one(const struct show *show, const struct stats *s)
{
	const struct options *o = show->o;
	const struct stats_func **funcs;
	struct stats_slow *slow = NULL;
	size_t cnt, slow_cnt = 0;
	int code = 0;

	funcs = stats_choose(s, &o->choice, &cnt);
	if (!funcs)
		return err_sys(show->err, -ENOMEM, "cannot show statistics");
	if (o->slow)
		code = stats_slow_calls(show->groups->group[show->at], &slow, &slow_cnt,
			show->err);
	if (!code && show->doc)
		json_add_stats(show->doc, s, funcs, cnt, slow, slow_cnt);
	else if (!code && o->slow)
		stats_print_slow(o->g, s, slow, slow_cnt);
	else if (!code && o->errors)
		stats_print_errors(o->g, s, funcs, cnt);
	else if (!code)
		stats_print(o->g, s, funcs, cnt);
	stats_slow_free(slow, slow_cnt);
	free(funcs);
	return code;
}

/*
 * Called with one group's statistics, with --reset between reading and resetting them: the
 * other groups' turn comes inside, so that nothing is reset before all has been printed.
 */
static int deliver(const struct stats *s, void *arg)
{
	struct show *show = arg;
	int code;

	code = show_one(show, s);
	if (code)
		return code;
	show->at++;
	if (show->at < show->groups->cnt)
		return show_from(show);
	if (show->doc && json_print(show->o->g, show->doc))
		return err_sys(show->err, -ENOMEM, "cannot show statistics");
	show->doc = NULL;
	if (fflush(stdout) || ferror(stdout))
		return err_sys(show->err, -errno, "cannot write statistics");
	return 0;
}

static int show_from(struct show *show)
{
	const struct group *group = show->groups->group[show->at];
	_cleanup_stats_ struct stats *s = NULL;
	int code;

	if (show->o->reset)
		return stats_reset(group, deliver, show, show->err);
	code = stats_read(group, &s, show->err);
	return code ? code : deliver(s, show);
}

static int run(struct globals *g, int argc, char **argv)
{
	static const struct argp_child children[] = { { &globals_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = { options, parse, "[GROUP...]", help, children, NULL, NULL };
	_cleanup_groups_ struct groups groups = GROUPS_NONE;
	struct options o = { .g = g };
	struct err err = {};
	struct show show = { .o = &o, .groups = &groups, .err = &err };

	cmd_parse(g, &argp, argc, argv, &o);
	if (groups_open(g, o.names, o.name_cnt, o.reset ? GROUPS_CHANGE : GROUPS_READ, &groups,
		    &err))
		return cmd_fail(g, &err);
	if (!groups.cnt) {
		if (g->json)
			return json_print(g, json_array());
		cmd_note(g, "nothing is attached");
		return EXIT_DONE;
	}
	show.doc = g->json ? json_array() : NULL;
	if (show_from(&show))
		return cmd_fail(g, &err);
	return EXIT_DONE;
}

const struct command cmd_stats = { "stats", "[GROUP...]", "statistics kept by the kernel", run };
