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

/* Of functions that were made of keys: of their one row. */
static int compare_parts(const void *a, const void *b)
{
	const struct saved_func *x = a, *y = b;
	int order = 0;

	for (size_t i = 0; !order && i < x->rows->part_cnt; i++)
		order = strcmp(saved_part_text(&x->rows->part[i]),
			saved_part_text(&y->rows->part[i]));
	return order;
}

static int compare_changes(const void *a, const void *b)
{
	const struct diff_func *x = a, *y = b;
	double cx = change_of(x), cy = change_of(y);
	const struct saved_func *x_func, *y_func;
	int order;

	if (cx != cy)
		return cx > cy ? -1 : 1;
	x_func = x->after ? x->after : x->before;
	y_func = y->after ? y->after : y->before;
	order = strcmp(x_func->name, y_func->name);
	return order || !x_func->rows || !y_func->rows ? order : compare_parts(x_func, y_func);
}

struct diffing {
	struct report_group *rg;
	const struct stats_choice *choice;
	size_t cnt;
};

static int diff_add(struct diffing *d, const struct saved_func *before,
	const struct saved_func *after)
{
	struct diff_func *more = array_grow(d->rg->diff, d->cnt, sizeof(*more));

	if (!more)
		return -ENOMEM;
	d->rg->diff = more;
	more[d->cnt++] = (struct diff_func) { called(before) ? before : NULL, after };
	return 0;
}

/* --- by key: of each key's calls a function is made ------------------------------------------- */

void diff_parts_free(struct diff_parts *parts)
{
	struct diff_parts *next;

	for (; parts; parts = next) {
		next = parts->next;
		for (size_t i = 0; i < parts->cnt; i++)
			saved_func_done(&parts->func[i]);
		free(parts->func);
		free(parts);
	}
}

/* Of the calls of @row in @f, by the keys of @c. -ENOMEM, with what there is of it. */
static int part_make(const struct saved_func *f, const struct saved_row *row,
	const struct stats_choice *c, struct saved_func *ret)
{
	ret->name = strdup(f->name);
	ret->library = f->library ? strdup(f->library) : NULL;
	ret->rows = calloc(1, sizeof(*ret->rows));
	if (!ret->name || (f->library && !ret->library) || !ret->rows)
		return -ENOMEM;
	ret->row_cnt = 1;
	for (size_t i = 0; i < c->by_cnt; i++) {
		const struct saved_part *part = saved_part_find(row, c->by[i]);
		struct saved_part *to = &ret->rows->part[ret->rows->part_cnt++];

		to->key = strdup(c->by[i]);
		to->value = strdup(part ? part->value : "-");
		to->name = part && part->name ? strdup(part->name) : NULL;
		if (!to->key || !to->value || (part && part->name && !to->name))
			return -ENOMEM;
	}
	saved_row_add(&ret->figures, &row->figures);
	return 0;
}

/* Sorted; those that are alike are one. -ENOMEM. */
static int parts_make(struct diffing *d, const struct saved_func *f, struct diff_parts **ret_parts)
{
	struct diff_parts *parts = calloc(1, sizeof(*parts));
	size_t kept = 0;
	int code = 0;

	if (!parts)
		return -ENOMEM;
	parts->next = d->rg->diff_parts;
	d->rg->diff_parts = *ret_parts = parts;
	parts->func = calloc((f ? f->row_cnt : 0) + 1, sizeof(*parts->func));
	if (!parts->func)
		return -ENOMEM;
	while (!code && f && parts->cnt < f->row_cnt) {
		size_t i = parts->cnt++;

		code = part_make(f, &f->rows[i], d->choice, &parts->func[i]);
	}
	if (code || !parts->cnt)
		return code;
	qsort(parts->func, parts->cnt, sizeof(*parts->func), compare_parts);
	for (size_t i = 1; i < parts->cnt; i++) {
		if (compare_parts(&parts->func[kept], &parts->func[i])) {
			parts->func[++kept] = parts->func[i];
			continue;
		}
		saved_row_add(&parts->func[kept].figures, &parts->func[i].figures);
		saved_func_done(&parts->func[i]);
	}
	parts->cnt = kept + 1;
	return 0;
}

static int diff_by_keys(
	struct diffing *d, const struct saved_func *before, const struct saved_func *after)
{
	struct diff_parts *was, *is;
	size_t k = 0;
	int code = parts_make(d, before, &was);

	if (!code)
		code = parts_make(d, after, &is);
	for (size_t i = 0; !code && i < is->cnt; i++) {
		const struct saved_func *old = NULL;

		for (; !code && k < was->cnt && compare_parts(&was->func[k], &is->func[i]) < 0; k++)
			code = diff_add(d, &was->func[k], NULL);
		if (k < was->cnt && !compare_parts(&was->func[k], &is->func[i]))
			old = &was->func[k++];
		if (!code)
			code = diff_add(d, old, &is->func[i]);
	}
	for (; !code && k < was->cnt; k++)
		code = diff_add(d, &was->func[k], NULL);
	return code;
}

static int diff_one(
	struct diffing *d, const struct saved_func *before, const struct saved_func *after)
{
	return d->choice->by_cnt ? diff_by_keys(d, before, after) : diff_add(d, before, after);
}

int diff_make(struct report_group *rg, const struct saved_group *before,
	const struct saved_group *after, const struct stats_choice *choice)
{
	struct diffing d = { rg, choice, 0 };
	int code = 0;

	for (size_t i = 0; !code && i < after->func_cnt; i++) {
		const struct saved_func *now = &after->funcs[i], *old = NULL;

		if (before)
			old = saved_func_find(before, now->name, now->library);
		code = diff_one(&d, old, now);
	}
	for (size_t i = 0; !code && before && i < before->func_cnt; i++) {
		const struct saved_func *old = &before->funcs[i];

		if (called(old) && !saved_func_find(after, old->name, old->library))
			code = diff_one(&d, old, NULL);
	}
	if (d.cnt)
		qsort(rg->diff, d.cnt, sizeof(*rg->diff), compare_changes);
	rg->diff_cnt = choice->top && choice->top < d.cnt ? choice->top : d.cnt;
	return code;
}

/* --- the view ------------------------------------------------------------------------------- */

static void fill_value(struct grid *grid, const struct saved_func *f, enum figure_id id)
{
	bool known = f && figure_known(&f->figures, id);
	uint64_t value = known ? f->figures.value[id].n : 0;

	grid_n(grid, figures[id].unit == UNIT_NS ? CELL_NS
			: figures[id].unit == UNIT_BYTES ? CELL_BYTES
							 : CELL_COUNT,
		known, value);
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

static void fill_change(
	struct grid *grid, const struct report *r, const struct diff_func *d, enum figure_id id)
{
	const struct saved_func *f = d->after ? d->after : d->before;
	double change = 0;
	bool both = diff_change(d, id, &change);

	grid_text(grid, f->name);
	grid_text(grid, f->library);
	for (size_t i = 0; i < r->choice->by_cnt; i++)
		grid_text(grid, saved_part_text(&f->rows->part[i]));
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
				fill_change(grid, r, &rg->diff[i], ids[k]);
}
