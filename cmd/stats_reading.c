// SPDX-License-Identifier: BSD-2-Clause
// Reading the groups that statistics are of, and what their programs take.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/util.h"
#include "internal.h"

bool stats_has_intervals(const struct stats_options *o)
{
	return (o->interval_ns || o->duration_ns || o->watch) && !o->reset;
}

static bool shows_cost(const struct stats_options *o)
{
	if (o->save)
		return true;
	if (o->format->flags & FORMAT_JSON)
		return !(o->view->flags & VIEW_DIFF);
	return o->format->flags & FORMAT_READERS && o->view->flags & VIEW_COST;
}

static void read_costs(const struct stats_options *o, struct reading *now)
{
	bool intervals = stats_has_intervals(o);

	if (shows_cost(o) && (!o->past || intervals))
		cost_read(now->groups.group, now->groups.cnt,
			intervals ? COST_INTERVAL : COST_SINCE_RESET, now->spent);
}

int reading_open(const struct stats_options *o, struct reading *now, struct err *err)
{
	int code;

	code = groups_open(o->g, &o->names,
		GROUPS_REST | GROUPS_BRIEF | (o->reset ? GROUPS_CHANGE : GROUPS_READ) |
			(o->shared ? GROUPS_SHARED : 0),
		&now->groups, err);
	if (code)
		return code;
	now->group = xcalloc(now->groups.cnt + 1, sizeof(*now->group));
	now->spent = xcalloc(now->groups.cnt + 1, sizeof(*now->spent));
	now->time_ns = clock_ns(CLOCK_REALTIME);
	now->mono_ns = clock_ns(CLOCK_MONOTONIC);
	read_costs(o, now);
	return 0;
}

int reading_slow(const struct stats_options *o, struct reading *now, size_t i, struct err *err)
{
	struct reading_group *rg = &now->group[i];

	if (!o->slow)
		return 0;
	return stats_slow_calls(now->groups.group[i], &rg->slow, &rg->slow_cnt, err);
}

/* Group @i was there when others were begun to be read, and is not any more. */
static void forget(struct reading *now, size_t i)
{
	size_t left = now->groups.cnt - i;

	stats_free(now->group[i].owned);
	free(now->group[i].slow);
	memset(&now->group[i], 0, sizeof(now->group[i]));
	memmove(&now->spent[i], &now->spent[i + 1], left * sizeof(*now->spent));
}

int reading_take(const struct stats_options *o, struct reading *now, struct err *err)
{
	int code;

	code = reading_open(o, now, err);
	for (size_t i = 0; !code && i < now->groups.cnt;) {
		struct reading_group *rg = &now->group[i];

		code = stats_read(
			&now->groups.fs, now->groups.group[i], o->tree, o->choice.lines, &rg->owned, err);
		rg->s = rg->owned;
		if (!code)
			code = reading_slow(o, now, i, err);
		group_open_keys(now->groups.group[i]);
		if (groups_pass(&now->groups, i, code)) {
			if (code && code != -ENOMEM && !now->groups.named) {
				groups_leave(&now->groups, i, err);
				forget(now, i);
				code = 0;
			} else {
				i++;
			}
			continue;
		}
		forget(now, i);
		code = 0;
	}
	if (!code && !now->groups.cnt && now->groups.left_cnt && !o->shared) {
		*err = now->groups.left[0].why;
		code = err->code;
	}
	return code;
}

void reading_done(struct reading *r)
{
	for (size_t i = 0; r->group && i < r->groups.cnt; i++) {
		stats_free(r->group[i].owned);
		free(r->group[i].slow);
	}
	free(r->group);
	free(r->spent);
	groups_done(&r->groups);
}
