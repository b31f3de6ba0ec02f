// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop set: change a running group.
#include "cli/options.h"
#include "group/filter.h"
#include "show/text.h"

static bool changes_filters(const struct group_change *change)
{
	return change->set_pids || change->set_comms || change->set_uids || change->condition;
}

static int set(const struct options *o, const struct group_change *change)
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

static int run(struct globals *g, int argc, char **argv)
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
	return set(&o, &change);
}

const struct command cmd_set = { "set", "GROUP [--slow DUR] [--pid PID]", "change a running group",
	run, ON_SET, "GROUP", "Change a group while its probes stay attached.\v"
	"Examples:\n"
	"  funcsnoop set cuda --slow 10ms\n"
	"  funcsnoop set cuda --slow 'cudaMemcpy*=100us' --slow cudaFree=off\n"
	"  funcsnoop set cuda --pid 4711" };
