// SPDX-License-Identifier: BSD-2-Clause
// Two readings compared, function by function: --diff, and the present as if it had been saved.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "show/stats.h"
#include "show/text.h"

/* --- the present as if it had been saved ---------------------------------------------------- */

static int snapshot_func(const struct report_group *rg, const struct types *types,
	const struct stats_func *f, struct saved_func *out)
{
	struct group_func func = group_func(rg->s->group, f->fn);

	out->name = strdup(func.name);
	out->library = strdup(func.library);
	figures_of(f, NULL, figure_mask(USE_SAVED), &out->figures);
	return out->name && out->library ? rows_snapshot(rg, types, f, out) : -ENOMEM;
}

static int compare_names(const void *a, const void *b)
{
	const struct saved_func *x = a, *y = b;
	int by_name = strcmp(x->name, y->name);

	return by_name ? by_name : strcmp(x->library, y->library);
}

struct saved *stats_snapshot(const struct report_group *rg)
{
	_cleanup_saved_ struct saved *saved = calloc(1, sizeof(*saved));
	_cleanup_types_ struct types *types = NULL;
	const struct stats *s = rg->s;
	struct saved_group *group;

	if (!saved || (rg->keys.funcs && types_read(s->group, &types, NULL)))
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
			snapshot_func(rg, types, &s->funcs[i], &group->funcs[group->func_cnt++]))
			return NULL;
	qsort(group->funcs, group->func_cnt, sizeof(*group->funcs), compare_names);
	return TAKE_PTR(saved);
}

/* --- comparing ------------------------------------------------------------------------------ */

double diff_percent(uint64_t before, uint64_t after)
{
	if (before == after)
		return 0;
	return before ? 100.0 * ((double)after - before) / before : (double)INFINITY;
}

static bool called(const struct saved_func *f)
{
	return f &&
		(figure_or_0(&f->figures, FIGURE_CALLS) ||
			figure_or_0(&f->figures, FIGURE_RETURNS));
}

/* Of both, and in which a change can be said. */
static bool both_known(const struct diff_func *d, enum figure_id id)
{
	return d->before && d->after && figure_known(&d->before->figures, id) &&
		figure_known(&d->after->figures, id);
}

static double percent_of(const struct diff_func *d, enum figure_id id)
{
	return diff_percent(
		d->before->figures.value[id].n, d->after->figures.value[id].n);
}

/* The greatest change of a time in percent, either way; new and vanished ones come first. */
static double change_of(const struct diff_func *d)
{
	double most = 0, change;

	if (!d->before || !d->after)
		return (double)INFINITY;
	for (enum figure_id id = 0; id < FIGURE_CNT; id++) {
		if (!figures[id].place[USE_DIFF].at || figures[id].unit != UNIT_NS ||
			!both_known(d, id))
			continue;
		change = fabs(percent_of(d, id));
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

static void fill_value(struct grid *grid, const struct saved_func *f, enum figure_id id)
{
	bool known = f && figure_known(&f->figures, id);
	uint64_t value = known ? f->figures.value[id].n : 0;

	if (figures[id].unit == UNIT_NS)
		grid_ns(grid, known, value);
	else
		grid_count(grid, known, value);
}

const char *diff_status(const struct diff_func *d)
{
	return !d->before ? "new" : !d->after ? "vanished" : "both";
}

bool diff_change(const struct diff_func *d, enum figure_id id, double *ret_percent)
{
	if (!both_known(d, id))
		return false;
	*ret_percent = percent_of(d, id);
	return isfinite(*ret_percent);
}

/* Percentiles are known by eighths of an octave: within that they have not changed. */
#define LOUD 12.5

static void fill_change(struct grid *grid, const struct diff_func *d, enum figure_id id)
{
	const struct saved_func *f = d->after ? d->after : d->before;
	double change = 0;
	bool both = diff_change(d, id, &change);

	grid_text(grid, f->name);
	grid_text(grid, f->library);
	grid_text(grid, figures[id].word);
	grid_text(grid, figures[id].key);
	fill_value(grid, d->before, id);
	fill_value(grid, d->after, id);
	if (!d->before || !d->after)
		grid_text(grid, diff_status(d));
	else
		grid_real(grid, CELL_CHANGE, both, change);
	grid_real(grid, CELL_CHANGE, both, change);
	grid_text(grid, diff_status(d));
	if (fabs(change) >= LOUD && id != FIGURE_CALLS)
		grid_mark(grid, change > 0 ? "31" : "32");
}

/* Times and calls always; of what is counted besides, only what has come. */
static bool worth_a_row(const struct saved_func *f, enum figure_id id)
{
	return f && figure_known(&f->figures, id) &&
		(figures[id].unit == UNIT_NS || id == FIGURE_CALLS ||
			f->figures.value[id].n);
}

void fill_diff(struct grid *grid, const struct report *r, const struct report_group *rg)
{
	enum figure_id ids[FIGURE_CNT];
	size_t cnt = figure_list(USE_DIFF, ids);

	for (size_t i = 0; i < rg->diff_cnt; i++)
		for (size_t k = 0; k < cnt; k++)
			if (worth_a_row(rg->diff[i].before, ids[k]) ||
				worth_a_row(rg->diff[i].after, ids[k]))
				fill_change(grid, &rg->diff[i], ids[k]);
}
