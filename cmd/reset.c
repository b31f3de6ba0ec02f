// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop reset: reset the statistics.
#include "cli/options.h"
#include "show/text.h"
#include "stats/stats.h"

static int run(struct globals *g, int argc, char **argv)
{
	_cleanup_options_ struct options o;
	_cleanup_groups_ struct groups groups = GROUPS_NONE;
	_cleanup_resets_ struct resets *resets = NULL;
	struct err err = {};

	cmd_parse(g, &cmd_reset, argc, argv, &o);
	if (groups_open(g, &o.words, GROUPS_CHANGE | GROUPS_REST | GROUPS_BRIEF, &groups, &err))
		return cmd_fail(g, &err);
	resets = resets_new(groups.group, groups.cnt);
	for (size_t i = 0, turn = 0; i < groups.cnt; turn++) {
		int code = stats_reset(resets, turn, NULL, NULL, &err);

		if (!groups_pass(&groups, i, code))
			continue;
		if (code && groups.named)
			return cmd_fail(g, &err);
		if (code)
			groups_leave(&groups, i, &err);
		i += !code;
	}
	groups_tell_left(g, &groups);
	if (g->json && json_print(json_object(g)) != EXIT_DONE)
		return EXIT_FAILED;
	return groups.left_cnt ? EXIT_FAILED : EXIT_DONE;
}

const struct command cmd_reset = { "reset", "[GROUP...]", "reset the statistics", run,
	ON_RESET, "[GROUP...]", "Reset the statistics of groups; without GROUP, of all groups.\v"
	"Probes stay attached, and no call is lost or counted twice. 'funcsnoop\n"
	"stats --reset' reads and resets in one step.\n"
	"Examples:\n"
	"  funcsnoop reset cuda" };
