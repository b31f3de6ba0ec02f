// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop set: change a running group.
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "cli/cmd.h"
#include "group/filter.h"
#include "show/text.h"

#define SLOW_MAX   64
#define FILTER_MAX 64

struct slow {
	char *func; /* NULL: all */
	uint64_t ns;
	bool off;
};

struct options {
	struct globals *g;
	struct words group;
	struct slow slow[SLOW_MAX];
	size_t slow_cnt;
	pid_t pids[FILTER_MAX];
	const char *comms[FILTER_MAX];
	uid_t uids[FILTER_MAX];
	struct filter filter;
	struct condition condition;
	struct group_change change;
};

enum { KEY_SLOW = 0x100, KEY_COMM, KEY_UID, KEY_IF };

static const struct argp_option options[] = {
	{ "slow", KEY_SLOW, "[FUNC=]DUR", 0,
		"Calls of this length or more are slow and remembered; 'off' ends that", 1 },
	{ "pid", 'p', "PID", 0, "Only this process from now on, repeatable; 'all': every one", 1 },
	{ "comm", KEY_COMM, "NAME", 0,
		"Only threads of this command name, repeatable; 'all': every one", 1 },
	{ "uid", KEY_UID, "USER", 0, "Only this user's processes, repeatable; 'all': everybody's", 1 },
	{ "if", KEY_IF, "COND", 0, "Only calls with such arguments; 'all': whatever they are", 1 },
	{ 0 }
};

static const char help[] = "Change a group while its probes stay attached.\v"
			  "Examples:\n"
			  "  funcsnoop set cuda --slow 10ms\n"
			  "  funcsnoop set cuda --slow 'cudaMemcpy*=100us' --slow cudaFree=off\n"
			  "  funcsnoop set cuda --pid 4711 --comm all";

static void parse_slow(struct options *o, const char *arg, struct argp_state *state)
{
	const char *eq = strrchr(arg, '='), *dur = eq ? eq + 1 : arg;
	struct slow *slow = &o->slow[o->slow_cnt];
	struct err err = {};

	if (o->slow_cnt == SLOW_MAX)
		argp_error(state, "--slow more than %d times", SLOW_MAX);
	slow->off = !strcmp(dur, "off");
	if (!slow->off && duration_parse(dur, &slow->ns, &err))
		argp_error(state, "--slow: %s", err.msg);
	if (eq)
		slow->func = strndup(arg, eq - arg);
	o->slow_cnt++;
}

/* Whether @arg goes on the list that @option sets, which has @cnt: "all" makes it empty. */
static bool is_listed(struct argp_state *state, const char *option, const char *arg, size_t cnt,
	bool *ret_set)
{
	*ret_set = true;
	if (!strcmp(arg, "all"))
		return false;
	if (cnt == FILTER_MAX)
		argp_error(state, "%s more than %d times", option, FILTER_MAX);
	return true;
}

static void parse_pid(struct options *o, const char *arg, struct argp_state *state)
{
	if (is_listed(state, "--pid", arg, o->filter.pid_cnt, &o->change.set_pids))
		o->pids[o->filter.pid_cnt++] =
			number_parse(state, "--pid", arg, 1, 1U << 22);
}

static void parse_comm(struct options *o, const char *arg, struct argp_state *state)
{
	if (is_listed(state, "--comm", arg, o->filter.comm_cnt, &o->change.set_comms))
		o->comms[o->filter.comm_cnt++] = arg;
}

static void parse_uid(struct options *o, const char *arg, struct argp_state *state)
{
	if (is_listed(state, "--uid", arg, o->filter.uid_cnt, &o->change.set_uids))
		o->uids[o->filter.uid_cnt++] = user_parse(state, "--uid", arg);
}

static void parse_if(struct options *o, const char *arg, struct argp_state *state)
{
	struct err err = {};

	if (o->change.condition)
		argp_error(state, "--if more than once: && stands between terms");
	o->change.condition = &o->condition;
	if (strcmp(arg, "all") && condition_parse(arg, &o->condition, &err))
		argp_error(state, "%s", err.msg);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case KEY_SLOW:
		parse_slow(o, arg, state);
		return 0;
	case 'p':
		parse_pid(o, arg, state);
		return 0;
	case KEY_COMM:
		parse_comm(o, arg, state);
		return 0;
	case KEY_UID:
		parse_uid(o, arg, state);
		return 0;
	case KEY_IF:
		parse_if(o, arg, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static bool changes_filter(const struct options *o)
{
	const struct group_change *c = &o->change;

	return c->set_pids || c->set_comms || c->set_uids || c->condition;
}

static int set(const struct options *o)
{
	_cleanup_groups_ struct groups groups = GROUPS_NONE;
	struct err err = {};
	size_t never;

	if (groups_open(o->g, &o->group, GROUPS_CHANGE, &groups, &err))
		return cmd_fail(o->g, &err);
	/* What is refused must not leave the rest half done. */
	if (group_check_change(groups.group[0], &o->change, &never, &err))
		return cmd_fail(o->g, &err);
	if (never)
		cmd_note(o->g, "no call of %zu functions counts: they lack an argument of --if",
			never);
	for (size_t i = 0; i < o->slow_cnt; i++)
		if (o->slow[i].func &&
			group_check_timed(groups.group[0], o->slow[i].func, &err))
			return cmd_fail(o->g, &err);
	for (size_t i = 0; i < o->slow_cnt; i++)
		if (group_set_slow(groups.group[0], o->slow[i].func, o->slow[i].off,
			    o->slow[i].ns, &err))
			return cmd_fail(o->g, &err);
	if (changes_filter(o) && group_change(groups.group[0], &o->change, &err))
		return cmd_fail(o->g, &err);
	return o->g->json ? json_print(json_array(o->g)) : EXIT_DONE;
}

static int run(struct globals *g, int argc, char **argv)
{
	static const struct argp argp = { options, parse, .args_doc = "GROUP", .doc = help };
	struct options o = { .g = g };
	int status;

	cmd_parse(g, &argp, argc, argv, &o, &o.group);
	o.filter.pids = o.pids;
	o.filter.comms = o.comms;
	o.filter.uids = o.uids;
	o.change.filter = &o.filter;
	if (!o.group.cnt)
		status = cmd_usage(g, "no group given");
	else if (o.group.cnt > 1)
		status = cmd_usage(g, "one group at a time, not also '%s'", o.group.word[1]);
	else if (!o.slow_cnt && !changes_filter(&o))
		status = cmd_usage(
			g, "nothing to change: give --slow, --pid, --comm, --uid or --if");
	else
		status = set(&o);
	for (size_t i = 0; i < o.slow_cnt; i++)
		free(o.slow[i].func);
	return status;
}

const struct command cmd_set = { "set", "GROUP [--slow DUR] [--pid PID]", "change a running group", run };
