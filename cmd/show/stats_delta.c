// SPDX-License-Identifier: BSD-2-Clause
// What came between two readings of statistics: counters subtracted, so that intervals add up.
#include <stdlib.h>
#include <string.h>

#include "show/stats.h"

static uint64_t less(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

/* Records in an order, gone through once, as those are that are looked for. */
struct sorted {
	const void *at;
	size_t cnt, size;
	int (*order)(const void *a, const void *b);
};

/* The one that stands where @key does, or NULL. */
static const void *sorted_find(struct sorted *s, const void *key)
{
	int order = -1;

	while (s->cnt && (order = s->order(s->at, key)) < 0) {
		s->at = (const char *)s->at + s->size;
		s->cnt--;
	}
	return order ? NULL : s->at;
}

static int code_order(const void *a, const void *b)
{
	const struct stats_code *x = a, *y = b;

	return (x->code > y->code) - (x->code < y->code);
}

static int proc_order(const void *a, const void *b)
{
	const struct stats_proc *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static int path_order(const void *a, const void *b)
{
	const struct stats_path *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static int delta_codes(struct stats_func *d, const struct stats_func *now,
	const struct stats_func *before)
{
	struct sorted old = { before->codes, before->code_cnt, sizeof(*d->codes), code_order };

	d->codes = calloc(now->code_cnt + 1, sizeof(*d->codes));
	if (!d->codes)
		return -1;
	for (size_t i = 0; i < now->code_cnt; i++) {
		struct stats_code code = now->codes[i];
		const struct stats_code *was = sorted_find(&old, &code);

		code.count = less(code.count, was ? was->count : 0);
		if (!code.count)
			continue;
		code.name = code.name ? strdup(code.name) : NULL;
		d->codes[d->code_cnt++] = code;
	}
	return 0;
}

/*
 * A process that is there no more has been given up meanwhile: what it had before is among
 * the ended now.
 */
static void delta_ended(struct stats_func *d, const struct stats_func *now,
	const struct stats_func *before)
{
	struct sorted left = { now->procs, now->proc_cnt, sizeof(*now->procs), proc_order };

	d->ended = now->ended;
	proc_counts_subtract(&d->ended.n, &before->ended.n);
	for (size_t i = 0; i < before->proc_cnt; i++)
		if (!sorted_find(&left, &before->procs[i]))
			proc_counts_subtract(&d->ended.n, &before->procs[i].n);
}

static int delta_procs(struct stats_func *d, const struct stats_func *now,
	const struct stats_func *before)
{
	struct sorted old = { before->procs, before->proc_cnt, sizeof(*d->procs), proc_order };

	d->procs = calloc(now->proc_cnt + 1, sizeof(*d->procs));
	if (!d->procs)
		return -1;
	for (size_t i = 0; i < now->proc_cnt; i++) {
		struct stats_proc p = now->procs[i];
		const struct stats_proc *was = sorted_find(&old, &p);

		if (was)
			proc_counts_subtract(&p.n, &was->n);
		if (p.n.calls || p.n.returns)
			d->procs[d->proc_cnt++] = p;
	}
	return 0;
}

/* Rows that are not there any more are in that of ended processes. */
static void delta_ended_rows(struct stats_func *d, const struct stats_func *now,
	const struct stats_func *before)
{
	size_t k = 0;

	stats_row_subtract(&d->rows_ended, &before->rows_ended);
	for (size_t i = 0; i < before->row_cnt; i++) {
		const struct stats_row *was = &before->rows[i];

		while (k < now->row_cnt && stats_row_compare(&now->rows[k], was) < 0)
			k++;
		if (k == now->row_cnt || stats_row_compare(&now->rows[k], was))
			stats_row_subtract(&d->rows_ended, was);
	}
}

/* Of @cnt rows what came since @before. */
static int delta_list(const struct stats_row *now, size_t cnt, struct stats_row *before,
	size_t before_cnt, struct stats_row **ret_rows, size_t *ret_cnt)
{
	struct sorted old = { before, before_cnt, sizeof(*before), stats_row_compare };
	struct stats_row *rows = *ret_rows = calloc(cnt + 1, sizeof(*rows));

	*ret_cnt = 0;
	if (!rows)
		return -1;
	for (size_t i = 0; i < cnt; i++) {
		struct stats_row row = now[i];
		const struct stats_row *was = sorted_find(&old, &row);

		if (was)
			stats_row_subtract(&row, was);
		if (!stats_row_is_empty(&row))
			rows[(*ret_cnt)++] = row;
	}
	return 0;
}

static int delta_rows(struct stats_func *d, const struct stats_func *now,
	const struct stats_func *before)
{
	if (delta_list(now->rows, now->row_cnt, before->rows, before->row_cnt, &d->rows, &d->row_cnt) ||
		delta_list(now->sleeps, now->sleep_cnt, before->sleeps, before->sleep_cnt, &d->sleeps,
			&d->sleep_cnt))
		return -1;
	stats_row_subtract(&d->others, &before->others);
	delta_ended_rows(d, now, before);
	return 0;
}

/* A new maximum is exact; else the longest lies in the last bucket that has grown. */
static void delta_extremes(struct stats_func *d, const struct stats_func *now,
	const struct stats_func *before)
{
	if (!now->has_extremes || !stats_func_samples(d))
		return;
	d->has_extremes = true;
	d->min_ns = now->min_ns;
	d->max_ns = now->max_ns;
	if (!before || !before->has_extremes)
		return;
	if (now->max_ns <= before->max_ns)
		d->max_ns = hist_percentile(d->bucket, 1000, now->min_ns, now->max_ns);
	if (now->min_ns >= before->min_ns)
		d->min_ns = hist_percentile(d->bucket, 0, now->min_ns, now->max_ns);
}

/* A path that is new has had nothing before. */
static int delta_paths(struct stats *d, const struct stats *now, const struct stats *before)
{
	struct sorted old = { before ? before->paths : NULL, before ? before->path_cnt : 0,
		sizeof(*d->paths), path_order };

	d->path_cnt = 0;
	if (!now->paths)
		return 0;
	d->paths = calloc(now->path_cnt + 1, sizeof(*d->paths));
	if (!d->paths)
		return -1;
	for (size_t i = 0; i < now->path_cnt; i++) {
		struct stats_path *p = &d->paths[d->path_cnt++];
		const struct stats_path *was;

		*p = now->paths[i];
		was = sorted_find(&old, p);
		if (!was)
			continue;
		p->calls = less(p->calls, was->calls);
		p->self_ns -= was->self_ns;
	}
	return 0;
}

static int delta_func(struct stats_func *d, const struct stats_func *now,
	const struct stats_func *before)
{
	static const struct stats_func none;
	const struct stats_func *b = before ? before : &none;

	*d = *now;
	d->bucket = NULL;
	d->codes = NULL;
	d->procs = NULL;
	d->rows = d->sleeps = NULL;
	d->code_cnt = d->proc_cnt = d->row_cnt = d->sleep_cnt = 0;
	counts_subtract(&d->n, &b->n);
	d->cost_ns = less(now->cost_ns, b->cost_ns);
	d->abandoned = less(now->abandoned, b->abandoned);
	/* What was abandoned and has come back is carried, as are calls from before a reset. */
	if (before)
		d->carried = before->in_flight + less(now->carried, before->carried) +
			less(before->abandoned, now->abandoned);
	d->has_extremes = false;
	d->min_ns = d->max_ns = 0;
	if (now->bucket) {
		d->bucket = calloc(FSN_HIST_CNT, sizeof(*d->bucket));
		if (!d->bucket)
			return -1;
		for (int i = 0; i < FSN_HIST_CNT; i++)
			d->bucket[i] = less(now->bucket[i], b->bucket ? b->bucket[i] : 0);
	}
	delta_extremes(d, now, before);
	delta_ended(d, now, b);
	return delta_codes(d, now, b) || delta_procs(d, now, b) || delta_rows(d, now, b)
		? -1
		: 0;
}

/* What is held is so now, whatever was before. */
static int delta_holders(struct stats *d, const struct stats *now)
{
	d->holders = calloc(now->holder_cnt + 1, sizeof(*d->holders));
	if (d->holders && now->holder_cnt)
		memcpy(d->holders, now->holders, now->holder_cnt * sizeof(*d->holders));
	return d->holders ? 0 : -1;
}

struct stats *stats_delta(
	const struct stats *now, const struct stats *before, uint64_t before_ns)
{
	_cleanup_stats_ struct stats *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	*d = *now;
	/* These stay those of @now. */
	d->places = NULL;
	d->cgroups = NULL;
	d->gpus = NULL;
	d->spreads = NULL;
	d->paths = NULL;
	d->holders = NULL;
	d->func_cnt = d->gpu_cnt = d->spread_cnt = 0;
	d->funcs = calloc(now->func_cnt + 1, sizeof(*d->funcs));
	if (!d->funcs || delta_holders(d, now) || delta_paths(d, now, before))
		return NULL;
	if (before) {
		d->since_ns = before_ns;
		d->lost_codes = less(now->lost_codes, before->lost_codes);
		d->lost_processes = less(now->lost_processes, before->lost_processes);
		d->lost_slow = less(now->lost_slow, before->lost_slow);
		d->lost_stacks = less(now->lost_stacks, before->lost_stacks);
		d->lost_python = less(now->lost_python, before->lost_python);
		d->lost_texts = less(now->lost_texts, before->lost_texts);
		d->lost_conditions = less(now->lost_conditions, before->lost_conditions);
		d->crowded = less(now->crowded, before->crowded);
		d->other_stack = less(now->other_stack, before->other_stack);
		d->too_deep = less(now->too_deep, before->too_deep);
		d->pauses = less(now->pauses, before->pauses);
		d->paused_ns = less(now->paused_ns, before->paused_ns);
		d->paused_calls = less(now->paused_calls, before->paused_calls);
		d->slow_total = less(now->slow_total, before->slow_total);
	}
	for (size_t i = 0; i < now->func_cnt; i++) {
		d->func_cnt++;
		if (delta_func(&d->funcs[i], &now->funcs[i],
			    before ? &before->funcs[i] : NULL))
			return NULL;
	}
	return TAKE_PTR(d);
}
