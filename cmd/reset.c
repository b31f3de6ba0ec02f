// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop reset: start the statistics afresh.
#include "cmd.h"
#include "groups.h"
#include "json.h"
#include "stats.h"

struct options {
	struct globals *g;
	char **names;
	size_t name_cnt;
};

static const char help[] = "Start the statistics of groups afresh; without GROUP, of all.\v"
			  "Probes stay attached, and no call is lost or counted twice. 'funcsnoop\n"
			  "stats --reset' reads and resets in one step.\n"
			  "Examples:\n"
			  "  funcsnoop reset cuda";

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = o->g;
		return 0;
	case ARGP_KEY_ARGS:
		o->names = state->argv + state->next;
		o->name_cnt = state->argc - state->next;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int run(struct globals *g, int argc, char **argv)
{
	static const struct argp_child children[] = { { &globals_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = { NULL, parse, "[GROUP...]", help, children, NULL, NULL };
	_cleanup_groups_ struct groups groups = GROUPS_NONE;
	struct options o = { .g = g };
	struct err err = {};

	cmd_parse(g, &argp, argc, argv, &o);
	if (groups_open(g, o.names, o.name_cnt, GROUPS_CHANGE | GROUPS_REST, &groups, &err))
		return cmd_fail(g, &err);
	groups_tell_left(g, &groups);
	for (size_t i = 0; i < groups.cnt; i++)
		if (stats_reset(groups.group[i], NULL, NULL, &err))
			return cmd_fail(g, &err);
	if (g->json && json_print(g, json_array()) != EXIT_DONE)
		return EXIT_FAILED;
	return groups.left_cnt ? EXIT_FAILED : EXIT_DONE;
}

const struct command cmd_reset = { "reset", "[GROUP...]", "start the statistics afresh", run };
