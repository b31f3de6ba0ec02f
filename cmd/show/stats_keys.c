// SPDX-License-Identifier: BSD-2-Clause
// What calls had by their keys: rows of arguments, text, callers, threads.
#include <stdlib.h>
#include <string.h>

#include "show/call.h"
#include "show/stats.h"
#include "show/text.h"

/* --- the table: a function's rows, by the keys that are asked for ---------------------------- */

struct keyed_rows {
	struct stats_row *rows;
	size_t cnt;
	const struct stats_func *f;
};

struct ranked {
	const struct stats_row *row;
	uint64_t value;
};

static int compare_ranked(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->value != y->value)
		return x->value > y->value ? -1 : 1;
	/* Sorted by live bytes: a process that exited has none left. */
	if (!x->value && x->row->exit_bytes != y->row->exit_bytes)
		return x->row->exit_bytes > y->row->exit_bytes ? -1 : 1;
	if (x->row->n.calls != y->row->n.calls && x->value)
		return x->row->n.calls > y->row->n.calls ? -1 : 1;
	return stats_row_compare(x->row, y->row);
}

/* What a row is ordered by; of percentiles and the like nothing is kept by key. */
static uint64_t value_of(const struct stats_row *row, const struct stats_func *f,
	enum figure_id sort)
{
	struct figures values;

	if (sort == FIGURE_P99)
		sort = FIGURE_MAX;
	else if (sort != SORT_BY_NAME && !figures[sort].place[USE_ROW].at)
		sort = FIGURE_TOTAL;
	figures_of_row(row, f, NULL, &values);
	return sort_value(&values, sort);
}

/* What was offered in a second that went by; of a GPU, what it moved in one that it took for it. */
static void fill_pace(
	struct grid *grid, const struct report_group *rg, const struct stats_row *row, size_t k)
{
	uint64_t ns = group_info(rg->s->group).gpu ? row->n.total_ns : rg->elapsed_ns;

	grid_real(grid, CELL_RATE, k < rg->keys.sum_cnt && ns,
		k < rg->keys.sum_cnt && ns ? row->sum[k] * 1e9 / ns : 0);
}

static void fill_sums(struct grid *grid, const struct report *r, const struct report_group *rg,
	uint32_t fn, const struct stats_row *row)
{
	for (size_t i = 0; i < r->sum_cnt; i++) {
		size_t k = 0;

		while (k < rg->keys.sum_cnt && strcmp(rg->keys.sum[k], r->sum[i]))
			k++;
		if (k == rg->keys.sum_cnt || rg->keys.funcs[fn].sum[k].by == FSN_BY_NONE)
			grid_none(grid);
		else if (rg->keys.funcs[fn].sum[k].is_signed)
			grid_number(grid, (int64_t)row->sum[k]);
		else
			grid_count(grid, true, row->sum[k]);
		if (sum_is_bytes(r->sum[i]))
			fill_pace(grid, rg, row, k);
	}
}

/* On a terminal: how much of its function's time a row has, or of its calls. */
static void fill_bar(struct grid *grid, const struct report *r, const struct stats_func *f,
	const struct stats_row *row)
{
	double all = (double)f->n.total_ns, part = (double)(int64_t)row->n.total_ns;

	if (r->plain || r->history || !text_width())
		return;
	if (!f->timed || all <= 0) {
		all = (double)f->n.calls;
		part = (double)row->n.calls;
	}
	grid_bar(grid, all > 0 && part > 0 ? part / all : 0);
}

/* Of a row it is not known what was spent in other calls: a share is one of whole times. */
static uint64_t keyed_time(const struct report *r, const struct report_group *rg)
{
	bool cgroups = r->view->flags & VIEW_CGROUPS;
	uint64_t ns = 0;

	for (size_t i = 0; i < rg->s->func_cnt; i++)
		if (rg->s->funcs[i].timed && (cgroups || rg->keys.funcs[rg->s->funcs[i].fn].on))
			ns += rg->s->funcs[i].n.total_ns;
	return ns;
}

static void fill_figures(struct grid *grid, const struct report *r,
	const struct report_group *rg, const struct stats_func *f, const struct stats_row *row)
{
	struct figure_scope scope = { rg->elapsed_ns, keyed_time(r, rg), stats_all_cost(rg->s) };
	struct figures values;

	fill_sums(grid, r, rg, f->fn, row);
	figures_of_row(row, f, &scope, &values);
	grid_figures(grid, &values);
	fill_bar(grid, r, f, row);
}

static void fill_keys_of(struct grid *grid, const struct report_group *rg,
	const struct types *types, const struct stats_func *f, const struct stats_row *row)
{
	const struct func_keys *keys = &rg->keys.funcs[f->fn];
	struct out text = {};

	for (size_t i = 0; i < rg->by_cnt; i++) {
		const struct func_part *part = &keys->key[rg->by[i]];

		text.len = 0;
		key_text(&text, types_of(types, f->fn), part, row, i);
		out_char(&text, '\0');
		grid->failed |= text.failed;
		grid_text(grid, part->by == FSN_BY_NONE || row->hidden & 1U << i || text.failed
				? NULL
				: text.buf);
	}
	out_done(&text);
}

#define SHORT_ID 12 /* digits of a container's number that a table shows, as docker does */

/* NULL: the rest. */
static void grid_cgroup(struct grid *grid, const struct cgroup *c)
{
	grid_text(grid, c ? c->path : "others");
	grid_text(grid, c && *c->pod_uid ? c->pod_uid : NULL);
	if (c && *c->container_id)
		grid_textf(grid, "%.*s", SHORT_ID, c->container_id);
	else
		grid_none(grid);
	grid_text(grid, c && *c->container_id ? c->container_id : NULL);
	grid_text(grid, c && *c->slurm_job ? c->slurm_job : NULL);
	grid_text(grid, c && *c->unit ? c->unit : NULL);
}

static void fill_row(struct grid *grid, const struct report *r, const struct report_group *rg,
	const struct types *types, const struct stats_func *f, const struct stats_row *row)
{
	const struct group_func func = group_func(rg->s->group, f->fn);

	grid_text(grid, func.name);
	grid_text(grid, func.library);
	if (r->view->flags & VIEW_CGROUPS)
		grid_cgroup(grid, row->cgroup);
	else
		fill_keys_of(grid, rg, types, f, row);
	fill_figures(grid, r, rg, f, row);
}

/* One that stands for many. */
static void fill_rest(struct grid *grid, const struct report *r, const struct report_group *rg,
	const struct stats_func *f, const char *what, const struct stats_row *row)
{
	const struct group_func func = group_func(rg->s->group, f->fn);

	if (stats_row_is_empty(row))
		return;
	grid_text(grid, func.name);
	grid_text(grid, func.library);
	grid_text(grid, what);
	for (size_t i = 1; i < rg->by_cnt; i++)
		grid_none(grid);
	fill_figures(grid, r, rg, f, row);
}

static void fill_function(struct grid *grid, const struct report *r,
	const struct report_group *rg, const struct types *types, const struct stats_func *f)
{
	bool cgroups = r->view->flags & VIEW_CGROUPS;
	_cleanup_free_ struct stats_row *rows = NULL;
	_cleanup_free_ struct ranked *ranked = NULL;
	struct stats_row rest = {};
	size_t cnt = 0;

	rows = cgroups ? report_cgroups(rg, f, &cnt, &rest) : report_rows_by(rg, f, &cnt);
	ranked = calloc(cnt + 1, sizeof(*ranked));
	if (!rows || !ranked) {
		grid->failed = true;
		return;
	}
	for (size_t i = 0; i < cnt; i++)
		ranked[i] = (struct ranked) { &rows[i],
			value_of(&rows[i], f, r->choice->sort) };
	qsort(ranked, cnt, sizeof(*ranked), compare_ranked);
	for (size_t i = 0; i < cnt && (!r->choice->top || i < r->choice->top); i++)
		fill_row(grid, r, rg, types, f, ranked[i].row);
	if (cgroups) {
		if (!stats_row_is_empty(&rest))
			fill_row(grid, r, rg, types, f, &rest);
		return;
	}
	fill_rest(grid, r, rg, f, "others", &f->others);
	fill_rest(grid, r, rg, f, "ended", &f->rows_ended);
}

void fill_keys(struct grid *grid, const struct report *r, const struct report_group *rg)
{
	bool cgroups = r->view->flags & VIEW_CGROUPS;
	_cleanup_types_ struct types *types = NULL;

	if (!cgroups && (!rg->by_cnt || !report_keys_known(rg)))
		return;
	grid->failed |= types_read(rg->s->group, &types, NULL) < 0;
	for (size_t i = 0; !grid->failed && i < rg->func_cnt; i++)
		if (cgroups ? report_has_cgroups(rg, rg->funcs[i])
			    : rg->keys.funcs[rg->funcs[i]->fn].on)
			fill_function(grid, r, rg, types, rg->funcs[i]);
}

/* --- JSON -------------------------------------------------------------------------------------- */

static void add_sums(struct json *j, const struct report_group *rg, uint32_t fn,
	const struct stats_row *row)
{
	const struct func_part *sum = rg->keys.funcs[fn].sum;

	json_set_open(j, "sums", '{');
	for (size_t i = 0; i < rg->keys.sum_cnt; i++)
		if (sum[i].by == FSN_BY_NONE)
			json_set_null(j, rg->keys.sum[i]);
		else if (sum[i].is_signed)
			json_set_i64(j, rg->keys.sum[i], (int64_t)row->sum[i]);
		else
			json_set_u64(j, rg->keys.sum[i], row->sum[i]);
	json_close(j, '}');
}

static void add_row_figures(struct json *j, const struct report_group *rg,
	const struct stats_func *f, const struct stats_row *row)
{
	struct figures values;

	figures_of_row(row, f, NULL, &values);
	json_add_figures(j, USE_ROW_DOCUMENT, &values);
	add_sums(j, rg, f->fn, row);
}

static void add_rest(struct json *j, const char *key, const struct report_group *rg,
	const struct stats_func *f, const struct stats_row *row)
{
	if (!rg->keys.funcs || stats_row_is_empty(row)) {
		json_set_null(j, key);
		return;
	}
	json_set_open(j, key, '{');
	add_row_figures(j, rg, f, row);
	json_close(j, '}');
}

void json_add_rows(struct json *j, const struct report_group *rg, const struct types *types,
	const struct stats_func *f)
{
	json_set_open(j, "rows", '[');
	for (size_t i = 0; rg->keys.funcs && types && i < f->row_cnt; i++) {
		const struct stats_row *row = &f->rows[i];
		bool known;

		json_open(j, '{');
		json_set_u64(j, "pid", row->pid);
		json_set_str(j, "comm", row->comm);
		known = rg->s->keys_known || row->hidden != (1U << rg->keys.key_cnt) - 1;
		if (known)
			keys_json(j, &rg->keys, f->fn, types_of(types, f->fn), row);
		else
			json_set_null(j, "key");
		add_row_figures(j, rg, f, row);
		json_close(j, '}');
	}
	json_close(j, ']');
	add_rest(j, "other_rows", rg, f, &f->others);
	add_rest(j, "ended_rows", rg, f, &f->rows_ended);
}
