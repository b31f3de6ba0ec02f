// SPDX-License-Identifier: BSD-2-Clause
// Rows that are alike become one: by library, process, cgroup and key.
#include <stdlib.h>
#include <string.h>

#include "show/call.h"
#include "base/alloc.h"
#include "show/stats.h"

#define BOLD "1"

/* --- functions ----------------------------------------------------------------------------------- */

void func_sum_add(struct stats_func *sum, const struct stats_func *f)
{
	struct fsn_counts n = f->n;

	n.inner_ns = f->n.total_ns - stats_func_self(f);
	n.recursed_ns = f->n.total_ns - stats_func_outer(f);
	/* The others have no times, so their returns would falsify the average. */
	if (!f->timed)
		n.returns = n.jumped = n.errors = n.slow = n.total_ns = n.inner_ns =
			n.recursed_ns = n.on_cpu_ns = n.queued_ns = n.blocked_ns = 0;
	n.no_slot = stats_func_untimed(f) - n.jumped;
	n.sampled_out = n.inner = n.unseen = 0;
	counts_add(&sum->n, &n);
	if (n.returns)
		sum->nested = f->nested && (sum->nested || sum->n.returns == n.returns);
	sum->timed |= f->timed;
	sum->split |= f->split;
	if (f->timed && f->noise_ns > sum->noise_ns)
		sum->noise_ns = f->noise_ns;
	if (f->timed && f->max_noise_ns > sum->max_noise_ns)
		sum->max_noise_ns = f->max_noise_ns;
	sum->carried += f->carried;
	sum->in_flight += f->in_flight;
	sum->unswept |= f->unswept;
	if (!f->timed)
		return;
	if (f->has_extremes) {
		if (!sum->has_extremes || f->min_ns < sum->min_ns)
			sum->min_ns = f->min_ns;
		if (!sum->has_extremes || f->max_ns > sum->max_ns)
			sum->max_ns = f->max_ns;
		sum->has_extremes = true;
	}
	if (f->bucket && !sum->bucket)
		sum->bucket = xcalloc(FSN_HIST_CNT, sizeof(*sum->bucket));
	for (int i = 0; f->bucket && i < FSN_HIST_CNT; i++)
		sum->bucket[i] += f->bucket[i];
}

void func_sum_done(struct stats_func *sum)
{
	free(sum->bucket);
}

void fill_total(struct grid *grid, const struct stats *s, const struct figure_scope *scope)
{
	struct stats_func sum = {};
	struct figures f;

	for (size_t i = 0; i < s->func_cnt; i++)
		func_sum_add(&sum, &s->funcs[i]);
	sum.n.calls -= sum.n.chained;
	figures_of(&sum, scope, grid_wanted(grid), &f);
	/* One in another is in the time of both. */
	if (!scope->all_ns)
		f.known &= ~FIGURE_BIT(FIGURE_TOTAL);
	figure_set(&f, FIGURE_TOTAL, figure_known(&f, FIGURE_SELF), stats_func_self(&sum));
	figure_set(&f, FIGURE_OUTER, figure_known(&f, FIGURE_SELF), stats_func_self(&sum));
	func_sum_done(&sum);
	grid_text(grid, "total");
	for (size_t i = 1; i < grid->column_cnt - grid->figure_cnt; i++)
		grid_none(grid);
	grid_figures(grid, &f);
	grid_mark(grid, BOLD);
	grid->total_rows = 1;
}

/* --- keys ---------------------------------------------------------------------------------------- */

/*
 * Returns @row with only the requested keys and without its process. A caller or a lock has a
 * different address in each process, so its interned name replaces the address and the file.
 */
static struct stats_row projected(const struct report_group *rg, const struct func_keys *keys,
	const struct stats_row *row)
{
	struct stats_row to = *row;

	to.pid = 0;
	to.start_ns = 0;
	to.hidden = 0;
	memset(&to.key, 0, sizeof(to.key));
	for (size_t i = 0; i < rg->by_cnt; i++) {
		memcpy(&to.key.word[i * FSN_KEY_WIDE], stats_row_text(row, rg->by[i]),
			FSN_KEY_TEXT);
		if (key_is_place(keys->key[rg->by[i]].by)) {
			to.key.word[i * FSN_KEY_WIDE + 1] = 0;
			if (row->place)
				to.key.word[i * FSN_KEY_WIDE] = (uintptr_t)row->place;
		}
		if (keys->key[rg->by[i]].by == FSN_BY_KERNEL && row->kernel)
			to.key.word[i * FSN_KEY_WIDE] = (uintptr_t)row->kernel;
		if (row->hidden & 1U << rg->by[i])
			to.hidden |= 1U << i;
	}
	return to;
}

static bool has_spreads(const struct stats_func *f)
{
	size_t i = 0;

	while (i < f->row_cnt && !f->rows[i].spread)
		i++;
	return i < f->row_cnt;
}

static void add_row(void *to, const void *from)
{
	stats_row_add(to, from);
}

static void add_spread_row(void *to, const void *from)
{
	struct stats_row *row = to;

	stats_row_add(row, from);
	(void)stats_spread_add((struct stats_spread *)row->spread, from);
}

struct stats_row *report_rows_by(
	const struct report_group *rg, const struct stats_func *f, size_t *ret_cnt)
{
	size_t bytes = (f->row_cnt + 1) * sizeof(struct stats_row);
	bool spread = has_spreads(f);
	struct stats_row *rows = xcalloc(1, bytes + spread * f->row_cnt * sizeof(struct stats_spread));
	struct stats_spread *own = spread ? (struct stats_spread *)((char *)rows + bytes) : NULL;

	for (size_t i = 0; i < f->row_cnt; i++) {
		rows[i] = projected(rg, &rg->keys.funcs[f->fn], &f->rows[i]);
		if (own)
			(void)stats_spread_add(&own[i], &rows[i]);
		rows[i].spread = own ? &own[i] : NULL;
		rows[i].spread_was = NULL;
	}
	*ret_cnt = rows_group(rows, f->row_cnt, sizeof(*rows), stats_row_compare,
		own ? add_spread_row : add_row);
	return rows;
}

/* --- cgroups: rows say them where calls are grouped by cgroup, else processes -------------------- */

/* The key that is the cgroup, or -1. */
static int cgroup_key(const struct report_group *rg, const struct stats_func *f)
{
	if (!rg->keys.funcs || !rg->keys.funcs[f->fn].on || !rg->s->keys_known)
		return -1;
	for (size_t i = 0; i < rg->keys.key_cnt; i++)
		if (rg->keys.funcs[f->fn].key[i].by == FSN_BY_CGROUP)
			return (int)i;
	return -1;
}

bool report_has_cgroups(const struct report_group *rg, const struct stats_func *f)
{
	return group_info(rg->s->group).processes || cgroup_key(rg, f) >= 0;
}

/* Cgroup numbers increase with creation, so later cgroups sort after earlier ones. */
DEFINE_ORDER(compare_cgroups, struct stats_row,
	RISING(key.word[0]) ?: strcmp(x->cgroup->path, y->cgroup->path))

/* Rows whose cgroup was removed are part of the others. */
static void add_one(struct stats_row *rows, size_t *cnt, struct stats_row *rest,
	const struct stats_row *row)
{
	if (row->cgroup)
		rows[(*cnt)++] = *row;
	else
		stats_row_add(rest, row);
}

static size_t take_rows(const struct report_group *rg, const struct stats_func *f, size_t key,
	struct stats_row *rows, struct stats_row *rest)
{
	size_t cnt = 0;

	for (size_t i = 0; i < f->row_cnt; i++) {
		struct stats_row row = { .n = f->rows[i].n, .cgroup = f->rows[i].cgroup };

		row.key.word[0] = stats_row_word(&f->rows[i], key);
		add_one(rows, &cnt, rest, &row);
	}
	stats_row_add(rest, &f->others);
	stats_row_add(rest, &f->rows_ended);
	return cnt;
}

static size_t take_procs(const struct report_group *rg, const struct stats_func *f,
	struct stats_row *rows, struct stats_row *rest)
{
	size_t cnt = 0;

	for (size_t i = 0; i < f->proc_cnt; i++) {
		struct stats_row row = { .n = f->procs[i].n,
			.cgroup = stats_cgroup(rg->whole, &f->procs[i]) };

		row.key.word[0] = f->procs[i].cgroup_id;
		add_one(rows, &cnt, rest, &row);
	}
	stats_row_add(rest, &f->ended);
	return cnt;
}

struct stats_row *report_cgroups(const struct report_group *rg, const struct stats_func *f,
	size_t *ret_cnt, struct stats_row *ret_rest)
{
	struct stats_row *rows = xcalloc(f->row_cnt + f->proc_cnt + 1, sizeof(*rows));
	int key = cgroup_key(rg, f);
	size_t cnt;

	*ret_rest = (struct stats_row) {};
	cnt = key >= 0 ? take_rows(rg, f, (size_t)key, rows, ret_rest)
		       : take_procs(rg, f, rows, ret_rest);
	*ret_cnt = rows_group(rows, cnt, sizeof(*rows), compare_cgroups, add_row);
	return rows;
}
