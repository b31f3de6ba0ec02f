// SPDX-License-Identifier: BSD-2-Clause
// Calls by the cgroup of who made them: a pod's, a container's, a job's, a unit's.
//
// Of a group that tells calls apart by cgroup its rows say it, of others its processes, each by
// where it was at its first call.
#include <stdlib.h>
#include <string.h>

#include "show/call.h"
#include "show/stats.h"
#include "show/text.h"

#define SHORT_ID 12 /* digits of a container's number that a table shows, as docker does */

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

/* Cgroups have numbers as they are made: who comes later stands behind who was there. */
static int compare_cgroups(const void *a, const void *b)
{
	const struct stats_row *x = a, *y = b;

	if (x->key.word[0] != y->key.word[0])
		return x->key.word[0] < y->key.word[0] ? -1 : 1;
	return strcmp(x->cgroup->path, y->cgroup->path);
}

/* One whose cgroup is gone is among the rest. */
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
	const struct stats_row ended = { .n = f->ended.n };
	size_t cnt = 0;

	for (size_t i = 0; i < f->proc_cnt; i++) {
		struct stats_row row = { .n = f->procs[i].n,
			.cgroup = stats_cgroup(rg->whole, &f->procs[i]) };

		row.key.word[0] = f->procs[i].cgroup;
		add_one(rows, &cnt, rest, &row);
	}
	stats_row_add(rest, &ended);
	return cnt;
}

struct stats_row *report_cgroups(const struct report_group *rg, const struct stats_func *f,
	size_t *ret_cnt, struct stats_row *ret_rest)
{
	struct stats_row *rows = calloc(f->row_cnt + f->proc_cnt + 1, sizeof(*rows));
	int key = cgroup_key(rg, f);
	size_t kept = 0, cnt;

	*ret_rest = (struct stats_row) {};
	*ret_cnt = 0;
	if (!rows)
		return NULL;
	cnt = key >= 0 ? take_rows(rg, f, (size_t)key, rows, ret_rest)
		       : take_procs(rg, f, rows, ret_rest);
	qsort(rows, cnt, sizeof(*rows), compare_cgroups);
	for (size_t i = 1; i < cnt; i++)
		if (compare_cgroups(&rows[kept], &rows[i]))
			rows[++kept] = rows[i];
		else
			stats_row_add(&rows[kept], &rows[i]);
	*ret_cnt = cnt ? kept + 1 : 0;
	return rows;
}

/* --- as text ---------------------------------------------------------------------------------- */

void grid_cgroup(struct grid *grid, const struct cgroup *c)
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
