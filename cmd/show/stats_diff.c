// SPDX-License-Identifier: BSD-2-Clause
// Two readings diff_metrics, function by function.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "show/stats_view.h"

/* --- the present as if it had been saved ---------------------------------------------------- */

static void set(struct saved_func *out, enum saved_metric m, bool known, uint64_t value)
{
	out->known[m] = known;
	out->value[m] = known ? value : 0;
}

static int snapshot_func(
	const struct stats *s, const struct stats_func *f, struct saved_func *out)
{
	static const unsigned int permille[] = { 500, 900, 990, 999 };
	struct group_func func = group_func(s->group, f->fn);
	bool times = f->timed && f->returns, spread = times && stats_func_samples(f);

	out->name = strdup(func.name);
	out->library = strdup(func.library);
	set(out, SAVED_CALLS, true, f->calls);
	set(out, SAVED_RETURNS, f->timed || f->same, f->returns);
	set(out, SAVED_IN_FLIGHT, true, f->in_flight);
	set(out, SAVED_ABANDONED, true, f->abandoned);
	set(out, SAVED_UNTIMED, true, stats_func_untimed(f));
	set(out, SAVED_ERRORS, f->timed, f->errors);
	set(out, SAVED_SLOW, f->timed, f->slow);
	set(out, SAVED_TOTAL, times, f->total_ns);
	set(out, SAVED_AVG, times, times ? f->total_ns / f->returns : 0);
	set(out, SAVED_MIN, f->has_extremes, f->min_ns);
	set(out, SAVED_MAX, f->has_extremes, f->max_ns);
	for (size_t i = 0; i < ARRAY_SIZE(permille); i++)
		set(out, SAVED_P50 + i, spread,
			spread ? stats_func_percentile(f, permille[i]) : 0);
	return out->name && out->library ? 0 : -ENOMEM;
}

static int compare_names(const void *a, const void *b)
{
	const struct saved_func *x = a, *y = b;
	int by_name = strcmp(x->name, y->name);

	return by_name ? by_name : strcmp(x->library, y->library);
}

struct saved *stats_snapshot(const struct stats *s)
{
	_cleanup_saved_ struct saved *saved = calloc(1, sizeof(*saved));
	struct saved_group *group;

	if (!saved)
		return NULL;
	saved->groups = group = calloc(1, sizeof(*group));
	if (!group)
		return NULL;
	saved->cnt = 1;
	group->name = strdup(group_info(s->group).name);
	group->funcs = calloc(s->func_cnt + 1, sizeof(*group->funcs));
	if (!group->name || !group->funcs)
		return NULL;
	for (size_t i = 0; i < s->func_cnt; i++)
		if (stats_func_called(&s->funcs[i]) &&
			snapshot_func(s, &s->funcs[i], &group->funcs[group->func_cnt++]))
			return NULL;
	qsort(group->funcs, group->func_cnt, sizeof(*group->funcs), compare_names);
	return TAKE_PTR(saved);
}

/* --- comparing ------------------------------------------------------------------------------ */

const enum saved_metric diff_metrics[DIFF_METRICS] = { SAVED_CALLS, SAVED_AVG, SAVED_P50,
	SAVED_P90, SAVED_P99, SAVED_ERRORS };

double diff_percent(uint64_t before, uint64_t after)
{
	if (before == after)
		return 0;
	return before ? 100.0 * ((double)after - before) / before : (double)INFINITY;
}

static bool called(const struct saved_func *f)
{
	return f && (f->value[SAVED_CALLS] || f->value[SAVED_RETURNS]);
}

/* The greatest change of a time in percent, either way; new and vanished ones come first. */
static double change_of(const struct diff_func *d)
{
	double most = 0, change;

	if (!d->before || !d->after)
		return (double)INFINITY;
	for (size_t i = 0; i < ARRAY_SIZE(diff_metrics); i++) {
		enum saved_metric m = diff_metrics[i];

		if (!saved_metric_is_duration(m) || !d->before->known[m] ||
			!d->after->known[m])
			continue;
		change = fabs(diff_percent(d->before->value[m], d->after->value[m]));
		most = change > most ? change : most;
	}
	return most;
}

static int compare_changes(const void *a, const void *b)
{
	const struct diff_func *x = a, *y = b;
	double cx = change_of(x), cy = change_of(y);

	if (cx != cy)
		return cx > cy ? -1 : 1;
	return strcmp((x->after ? x->after : x->before)->name,
		(y->after ? y->after : y->before)->name);
}

int diff_make(struct report_group *rg, const struct saved_group *before,
	const struct saved_group *after, size_t top)
{
	size_t was = before ? before->func_cnt : 0, cnt = 0;

	rg->diff = calloc(was + after->func_cnt + 1, sizeof(*rg->diff));
	if (!rg->diff)
		return -ENOMEM;
	for (size_t i = 0; i < after->func_cnt; i++) {
		const struct saved_func *now = &after->funcs[i], *old = NULL;

		if (before)
			old = saved_func_find(before, now->name, now->library);
		rg->diff[cnt++] = (struct diff_func) { called(old) ? old : NULL, now };
	}
	for (size_t i = 0; i < was; i++) {
		const struct saved_func *old = &before->funcs[i];

		if (called(old) && !saved_func_find(after, old->name, old->library))
			rg->diff[cnt++] = (struct diff_func) { old, NULL };
	}
	qsort(rg->diff, cnt, sizeof(*rg->diff), compare_changes);
	rg->diff_cnt = top && top < cnt ? top : cnt;
	return 0;
}

/* --- the view ------------------------------------------------------------------------------- */

static const struct grid_column columns[] = {
	{ "FUNCTION", "function", TABLE_LEFT, true, GRID_BOTH, 0 },
	{ NULL, "library", TABLE_LEFT, false, GRID_CSV, 0 },
	{ "WHAT", NULL, TABLE_LEFT, false, GRID_TABLE, 0 },
	{ NULL, "metric", TABLE_LEFT, false, GRID_CSV, 0 },
	{ "BEFORE", "before", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "AFTER", "after", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "CHANGE", NULL, TABLE_RIGHT, false, GRID_TABLE, 0 },
	{ NULL, "change_percent", TABLE_RIGHT, false, GRID_CSV, 0 },
	{ NULL, "status", TABLE_LEFT, false, GRID_CSV, 0 },
};

static void fill_value(struct grid *grid, const struct saved_func *f, enum saved_metric m)
{
	bool known = f && f->known[m];

	if (saved_metric_is_duration(m))
		grid_ns(grid, known, known ? f->value[m] : 0);
	else
		grid_count(grid, known, known ? f->value[m] : 0);
}

const char *diff_status(const struct diff_func *d)
{
	return !d->before ? "new" : !d->after ? "vanished" : "both";
}

bool diff_change(const struct diff_func *d, enum saved_metric m, double *ret_percent)
{
	if (!d->before || !d->after || !d->before->known[m] || !d->after->known[m])
		return false;
	*ret_percent = diff_percent(d->before->value[m], d->after->value[m]);
	return isfinite(*ret_percent);
}

/* Percentiles are known by eighths of an octave: within that they have not changed. */
#define LOUD 12.5

static void fill_metric(struct grid *grid, const struct diff_func *d, enum saved_metric m,
	const char *word)
{
	const struct saved_func *f = d->after ? d->after : d->before;
	double change = 0;
	bool both = diff_change(d, m, &change);

	grid_text(grid, f->name);
	grid_text(grid, f->library);
	grid_text(grid, word);
	grid_text(grid, saved_metric_key(m));
	fill_value(grid, d->before, m);
	fill_value(grid, d->after, m);
	if (!d->before || !d->after)
		grid_text(grid, diff_status(d));
	else
		grid_real(grid, CELL_CHANGE, both, change);
	grid_real(grid, CELL_CHANGE, both, change);
	grid_text(grid, diff_status(d));
	if (fabs(change) >= LOUD && m != SAVED_CALLS)
		grid_mark(grid, change > 0 ? "31" : "32");
}

static bool worth_a_row(const struct saved_func *f, enum saved_metric m)
{
	return f && f->known[m] && (m != SAVED_ERRORS || f->value[m]);
}

static void fill(struct grid *grid, const struct report *r, const struct report_group *rg)
{
	static const char *const words[] = { "calls", "avg", "p50", "p90", "p99",
		"errors" };

	for (size_t i = 0; i < rg->diff_cnt; i++)
		for (size_t k = 0; k < ARRAY_SIZE(diff_metrics); k++)
			if (worth_a_row(rg->diff[i].before, diff_metrics[k]) ||
				worth_a_row(rg->diff[i].after, diff_metrics[k]))
				fill_metric(
					grid, &rg->diff[i], diff_metrics[k], words[k]);
}

const struct view view_diff = { columns, ARRAY_SIZE(columns), fill,
	"no function was called before or after", NULL };
