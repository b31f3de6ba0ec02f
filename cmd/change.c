// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop reset, set and detach: change a group while it runs, and end it.
#include "base/util.h"
#include "cli/options.h"
#include "group/filter.h"
#include "show/text.h"
#include "stats/stats.h"

/* --- reset --------------------------------------------------------------------------------- */

static int reset_run(struct globals *g, int argc, char **argv)
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

const struct command cmd_reset = { "reset", "[GROUP...]", "reset the statistics", reset_run,
	ON_RESET, "[GROUP...]", "Reset the statistics of groups; without GROUP, of all groups.\v"
	"Probes stay attached, and no call is lost or counted twice. 'funcsnoop\n"
	"stats --reset' reads and resets in one step.\n"
	"Examples:\n"
	"  funcsnoop reset cuda" };

/* --- set ----------------------------------------------------------------------------------- */

static bool changes_filters(const struct group_change *change)
{
	return change->set_pids || change->set_comms || change->set_uids || change->condition;
}

static int change_group(const struct options *o, const struct group_change *change)
{
	const struct draft_slow *slow = o->attach.slow.of;
	_cleanup_groups_ struct groups groups = GROUPS_NONE;
	struct err err = {};
	size_t never;

	if (groups_open(o->g, &o->words, GROUPS_CHANGE, &groups, &err))
		return cmd_fail(o->g, &err);
	/* Check first, so that an invalid change does not leave the others applied. */
	if (group_check_change(groups.group[0], change, &never, &err))
		return cmd_fail(o->g, &err);
	if (never)
		cmd_note(o->g, "no call of %zu functions counts: they lack an argument of --if",
			never);
	for (size_t i = 0; i < o->attach.slow.cnt; i++)
		if (slow[i].func && group_check_timed(groups.group[0], slow[i].func, &err))
			return cmd_fail(o->g, &err);
	for (size_t i = 0; i < o->attach.slow.cnt; i++) {
		bool off = slow[i].ns == SLOW_OFF;

		if (group_set_slow(groups.group[0], slow[i].func, off, off ? 0 : slow[i].ns, &err))
			return cmd_fail(o->g, &err);
	}
	if (changes_filters(change) && group_change(groups.group[0], change, &err))
		return cmd_fail(o->g, &err);
	return o->g->json ? json_print(json_object(o->g)) : EXIT_DONE;
}

static int set_run(struct globals *g, int argc, char **argv)
{
	_cleanup_options_ struct options o;
	const struct attach_options *s = &o.attach;
	struct group_change change;

	cmd_parse(g, &cmd_set, argc, argv, &o);
	if (!o.words.cnt)
		return cmd_usage(g, "no group given");
	if (o.words.cnt > 1)
		return cmd_usage(g, "one group at a time, not also '%s'", o.words.word[1]);
	change = (struct group_change) {
		.filter = &(struct filter) { .pids = s->pids.of, .pid_cnt = s->pids.cnt,
			.comms = s->comms.of, .comm_cnt = s->comms.cnt,
			.uids = s->uids.of, .uid_cnt = s->uids.cnt },
		.set_pids = s->pids.given, .set_comms = s->comms.given, .set_uids = s->uids.given,
		.condition = s->has_condition ? &s->condition : NULL };
	if (!s->slow.cnt && !changes_filters(&change))
		return cmd_usage(g, "nothing to change: give --slow, --pid or --if");
	return change_group(&o, &change);
}

const struct command cmd_set = { "set", "GROUP [--slow DUR] [--pid PID]", "change a running group",
	set_run, ON_SET, "GROUP", "Change a group while its probes stay attached.\v"
	"Examples:\n"
	"  funcsnoop set cuda --slow 10ms\n"
	"  funcsnoop set cuda --slow 'cudaMemcpy*=100us' --slow cudaFree=off\n"
	"  funcsnoop set cuda --pid 4711" };

/* --- detach -------------------------------------------------------------------------------- */

static void show_progress(size_t done, size_t total, void *arg)
{
	const struct globals *g = arg;

	if (!g->quiet && total >= 10 && isatty(STDERR_FILENO))
		fprintf(stderr, "\rdetached %zu of %zu links%s", done, total,
			done == total ? "\n" : "");
}

static int detach(const struct globals *g, struct bpffs *fs, const char *name, struct err *err)
{
	_cleanup_close_ int fd = -1;
	int code;

	code = bpffs_open_group(fs, name, &fd, err);
	if (!code)
		code = bpffs_retire(fs, name, err);
	if (!code)
		code = bpffs_remove(fs, name, show_progress, (void *)g, err);
	return code;
}

static int run_parsed(const struct options *o)
{
	_cleanup_bpffs_ struct bpffs fs = BPFFS_NONE;
	_cleanup_names_ char **all = NULL;
	char **names = o->words.word;
	size_t cnt = o->words.cnt;
	struct err err = {};
	int code;

	code = bpffs_open(o->g->bpffs, false, &fs, &err);
	if (!code)
		code = bpffs_lock(&fs, &err);
	if (!code && o->all)
		code = bpffs_groups(&fs, &all, &cnt, &err);
	if (o->all)
		names = all;
	/* One that is not there must not leave the others half done. */
	for (size_t i = 0; !code && i < cnt; i++) {
		_cleanup_close_ int fd = -1;

		code = bpffs_open_group(&fs, names[i], &fd, &err);
	}
	for (size_t i = 0; !code && i < cnt; i++)
		if (!groups_named_before(names, i))
			code = detach(o->g, &fs, names[i], &err);
	if (code)
		return cmd_fail(o->g, &err);
	return o->g->json ? json_print(json_object(o->g)) : EXIT_DONE;
}

static int detach_run(struct globals *g, int argc, char **argv)
{
	_cleanup_options_ struct options o;

	cmd_parse(g, &cmd_detach, argc, argv, &o);
	if (o.all == (o.words.cnt > 0))
		return cmd_usage(g, "needs either groups or --all");
	return run_parsed(&o);
}

const struct command cmd_detach = { "detach", "GROUP... | --all", "remove probes and pins",
	detach_run, ON_DETACH, "GROUP...\n--all",
	"Remove groups. After the command exits, none of their probes fires.\v"
	"Examples:\n"
	"  funcsnoop detach cuda\n"
	"  funcsnoop detach --all" };
