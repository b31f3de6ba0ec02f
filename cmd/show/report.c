// SPDX-License-Identifier: BSD-2-Clause
// A report: which functions it has, in which order, by which keys, and what came in an interval.
#include <ctype.h>

#include "base/util.h"
#include "group/stacks.h"
#include "show/stats.h"

/* --- words ---------------------------------------------------------------------------------- */

const char *stats_sort_words(char buf[WORDS_LEN])
{
	enum figure_id ids[FIGURE_CNT];
	const char *words[FIGURE_CNT + 1];
	size_t cnt = figure_list(USE_SORT, ids);

	for (size_t i = 0; i < cnt; i++)
		words[i] = figures[ids[i]].word;
	words[cnt++] = "name";
	return words_join(words, cnt, "|", "|", buf);
}

bool stats_sort_parse(const char *name, enum figure_id *ret_sort)
{
	enum figure_id ids[FIGURE_CNT];
	size_t cnt = figure_list(USE_SORT, ids);

	*ret_sort = SORT_BY_NAME;
	for (size_t i = 0; i < cnt; i++)
		if (!strcmp(name, figures[ids[i]].word) ||
			!strcmp(name, figures[ids[i]].key))
			*ret_sort = ids[i];
	return *ret_sort != SORT_BY_NAME || !strcmp(name, "name");
}

/* --- which, and in which order -------------------------------------------------------------- */

/* A function and its sort value, computed once: percentiles are expensive. */
struct ranked {
	const struct stats_func *f;
	const char *name;
	uint64_t value;
	bool by_name;
};

DEFINE_ORDER(compare_ranked, struct ranked,
	FALLING(value) ?: (x->by_name ? 0 : FALLING(f->n.calls)) ?: strcmp(x->name, y->name) ?:
		RISING(f->fn))

/*
 * What is kept by key is read after the counters: an interval may have the first call of a
 * function in its processes and not yet in its counters, and all intervals must add up.
 */
static bool is_shown(const struct stats_func *f)
{
	return stats_func_called(f) || f->proc_cnt || f->row_cnt || f->ended.n.calls || f->code_cnt ||
		f->memory.n.live_blocks || f->memory.n.exit_blocks || stats_func_samples(f);
}

bool report_is_shown(const struct report_group *rg, const struct stats_func *f)
{
	return is_shown(&rg->whole->funcs[f->fn]);
}

void report_choose(struct report_group *rg, const struct stats_choice *choice, bool ever)
{
	const struct stats *s = rg->s, *since = ever ? rg->whole : rg->s;
	_cleanup_free_ struct ranked *ranked = xcalloc(s->func_cnt + 1, sizeof(*ranked));
	uint64_t wanted = choice->sort == SORT_BY_NAME ? 0 : FIGURE_BIT(choice->sort);
	struct figures values;
	size_t cnt = 0;

	free(rg->funcs);
	rg->funcs = xcalloc(s->func_cnt + 1, sizeof(*rg->funcs));
	for (size_t i = 0; i < s->func_cnt; i++) {
		const struct stats_func *f = &s->funcs[i];

		if (!choice->all && !is_shown(&since->funcs[i]))
			continue;
		if (group_func(s->group, f->fn).limit == LIMIT_LEFT_OUT)
			continue;
		figures_of(f, NULL, wanted, &values);
		ranked[cnt++] = (struct ranked) {
			.f = f,
			.name = group_func_name(s->group, f->fn),
			.value = sort_value(&values, choice->sort),
			.by_name = choice->sort == SORT_BY_NAME,
		};
	}
	qsort(ranked, cnt, sizeof(*ranked), compare_ranked);
	if (choice->top && choice->top < cnt)
		cnt = choice->top;
	for (size_t i = 0; i < cnt; i++)
		rg->funcs[i] = ranked[i].f;
	rg->func_cnt = cnt;
}

bool report_rate(const struct report_group *rg, uint64_t cnt, double *ret_per_s)
{
	if (!rg->elapsed_ns)
		return false;
	*ret_per_s = cnt * 1e9 / rg->elapsed_ns;
	return true;
}

bool report_is_sampled(const struct report_group *rg)
{
	return rg->s->func_cnt && ALL_WHERE(rg->s->func_cnt, i,
		group_func(rg->s->group, rg->s->funcs[i].fn).is_sample);
}

uint64_t report_samples(const struct report_group *rg)
{
	return report_is_sampled(rg) ? stats_all_calls(rg->s) : 0;
}

bool report_cost(const struct report_group *rg, uint64_t *ret_ns)
{
	for (size_t i = 0; i < rg->s->func_cnt; i++)
		if (!rg->s->funcs[i].priced)
			return false;
	*ret_ns = stats_all_cost(rg->s);
	return true;
}

struct shown_call report_slow(
	const struct report_group *rg, const struct types *types, size_t i)
{
	struct shown_call c = call_of(rg->s->group, types, &rg->slow[i].call, &rg->slow[i].more,
		rg->whole->read_ns - rg->whole->read_mono_ns);

	c.keys = &rg->keys;
	c.key = rg->slow[i].keyed ? &rg->slow[i].key : NULL;
	c.names = rg->whole;
	c.noise_ns = rg->s->funcs[c.call->fn].max_noise_ns;
	return c;
}

uint64_t stats_all_calls(const struct stats *s)
{
	uint64_t calls = 0;

	for (size_t i = 0; i < s->func_cnt; i++)
		calls += s->funcs[i].n.calls - s->funcs[i].n.chained;
	return calls;
}

uint64_t stats_all_time(const struct stats *s)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < s->func_cnt; i++) {
		const struct stats_func *f = &s->funcs[i];

		if (f->timed && f->n.returns && !f->nested && group_info(s->group).nesting)
			return 0;
		ns += f->timed ? stats_func_self(f) : 0;
	}
	return ns;
}

uint64_t stats_all_cost(const struct stats *s)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < s->func_cnt; i++)
		ns += s->funcs[i].cost_ns;
	return ns;
}

void report_group_done(struct report_group *rg)
{
	free(rg->funcs);
	free(rg->diff);
	diff_parts_free(rg->diff_parts);
	saved_free(rg->after);
	stats_free(rg->owned);
	group_keys_done(&rg->keys);
	stacks_free(rg->stacks);
}

/* --- by which keys --------------------------------------------------------------------------- */

int report_by(struct report *r, struct err *err)
{
	const struct stats_choice *c = r->choice;
	bool found = false, sums;

	for (size_t n = 0; n < r->cnt; n++) {
		struct report_group *rg = &r->group[n];

		for (size_t i = 0; i < c->by_cnt; i++) {
			int key = group_keys_find(&rg->keys, c->by[i]);

			if (key >= 0)
				rg->by[rg->by_cnt++] = key;
		}
		if (rg->by_cnt < c->by_cnt)
			rg->by_cnt = 0;
		found |= rg->by_cnt;
		/* Comparisons have no sums. */
		sums = rg->by_cnt || (r->view->flags & VIEW_SUMS && !rg->keys.key_cnt);
		for (size_t i = 0; sums && !rg->diff && i < rg->keys.sum_cnt; i++) {
			size_t k = 0;

			while (k < r->sum_cnt && strcmp(r->sum[k], rg->keys.sum[i]))
				k++;
			if (k == r->sum_cnt && k < ARRAY_SIZE(r->sum))
				r->sum[r->sum_cnt++] = rg->keys.sum[i];
		}
	}
	for (size_t i = 0; i < c->by_cnt; i++) {
		snprintf(r->by_title[i], KEY_TITLE_LEN, "%s", c->by[i]);
		for (char *p = r->by_title[i]; *p; p++)
			*p = (char)toupper((unsigned char)*p);
	}
	for (size_t i = 0; i < r->sum_cnt; i++) {
		snprintf(r->sum_title[i], KEY_TITLE_LEN, "SUM(%s)", r->sum[i]);
		snprintf(r->sum_key[i], KEY_TITLE_LEN, "sum_%s", r->sum[i]);
		if (sum_is_bytes(r->sum[i]))
			snprintf(r->sum_title[i], KEY_TITLE_LEN, "BYTES");
		else if (sum_is_self(r->sum[i]))
			snprintf(r->sum_title[i], KEY_TITLE_LEN, "SELF");
	}
	if (!c->by_cnt || found || !r->cnt)
		return 0;
	err_set(err, -ERR_USAGE, "--by '%s': no group has %s", c->by_text,
		c->by_cnt > 1 ? "these keys" : "such a key");
	return err_hint(err,
		"use function, process, cgroup, library, or a key that the group was attached with (--by)");
}

bool report_keys_known(const struct report_group *rg)
{
	unsigned int wanted = 0;

	for (size_t i = 0; i < rg->by_cnt; i++)
		wanted |= 1U << rg->by[i];
	for (size_t i = 0; !rg->s->keys_known && i < rg->s->func_cnt; i++)
		for (size_t k = 0; k < rg->s->funcs[i].row_cnt; k++)
			if (wanted & ~rg->s->funcs[i].rows[k].hidden)
				return true;
	return rg->s->keys_known;
}

uint64_t report_inner_launches(const struct report_group *rg)
{
	uint64_t all = 0, most = 0;

	if (group_info(rg->s->group).nesting || !rg->keys.funcs)
		return 0;
	for (size_t i = 0; i < rg->s->func_cnt; i++) {
		const struct func_part *key = rg->keys.funcs[i].key;
		uint64_t calls = 0;

		for (size_t k = 0; k < rg->keys.key_cnt; k++)
			if (key[k].by == FSN_BY_KERNEL)
				calls = rg->s->funcs[i].n.calls;
		all += calls;
		most = calls > most ? calls : most;
	}
	return all - most;
}

static bool is_offered(const struct report *r)
{
	return ANY_WHERE(r->cnt, i, !group_info(r->group[i].s->group).gpu);
}

/* Titles of columns in a report where all that is counted are samples. */
static void title_samples(const struct report *r, struct grid *grid)
{
	for (size_t i = 0; i < r->cnt; i++)
		if (!report_is_sampled(&r->group[i]))
			return;
	for (size_t c = 0; r->cnt && c < grid->column_cnt; c++) {
		const char **title = &grid->columns[c].title;

		if (*title && !strcmp(*title, "CALLS"))
			*title = "SAMPLES";
		else if (*title && !strcmp(*title, "CALLS/S"))
			*title = "SAMPLES/S";
	}
}

void report_begin_grid(const struct report *r, struct grid *grid)
{
	struct grid_column labels[GRID_COLUMNS];
	size_t own = r->view->label_cnt, cnt = 0, sums;

	/* Keys come after the function and its library. */
	for (; cnt < own && cnt < 2; cnt++)
		labels[cnt] = r->view->labels[cnt];
	for (size_t i = 0; i < r->choice->by_cnt; i++)
		labels[cnt++] = (struct grid_column) { r->by_title[i], r->choice->by[i],
			TABLE_LEFT, true, GRID_BOTH, 0 };
	for (size_t i = 2; i < own; i++)
		labels[cnt++] = r->view->labels[i];
	sums = cnt;
	for (size_t i = 0; i < r->sum_cnt; i++) {
		labels[cnt++] = (struct grid_column) { r->sum_title[i], r->sum_key[i],
			TABLE_RIGHT, false, GRID_SOME, 0 };
		if (sum_is_bytes(r->sum[i]))
			labels[cnt++] = (struct grid_column) { is_offered(r) ? "BYTES/S offered" : "BYTES/S", "bytes_per_s",
				TABLE_RIGHT, false, GRID_SOME, 0 };
	}
	grid_begin(grid, labels, cnt, r->view->uses);
	title_samples(r, grid);
	grid->sum_cnt = cnt - sums;
}

/* --- what came between two readings: counters subtracted, so that intervals add up --------------- */

static uint64_t less(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

/* Sorted records, searched for ascending keys in one pass. */
struct sorted {
	const void *at;
	size_t cnt, size;
	int (*order)(const void *a, const void *b);
};

/* Returns the record equal to @key, or NULL. */
static const void *sorted_find(struct sorted *s, const void *key)
{
	int order = -1;

	while (s->cnt && (order = s->order(s->at, key)) < 0) {
		s->at = (const char *)s->at + s->size;
		s->cnt--;
	}
	return order ? NULL : s->at;
}

DEFINE_ORDER(code_order, struct stats_code, RISING(code))

DEFINE_ORDER(path_order, struct stats_path, RISING(id))

static void delta_codes(struct stats_func *d, const struct stats_func *now,
	const struct stats_func *before)
{
	struct sorted old = { before->codes, before->code_cnt, sizeof(*d->codes), code_order };

	d->codes = xcalloc(now->code_cnt + 1, sizeof(*d->codes));
	for (size_t i = 0; i < now->code_cnt; i++) {
		struct stats_code code = now->codes[i];
		const struct stats_code *was = sorted_find(&old, &code);

		code.count = less(code.count, was ? was->count : 0);
		if (!code.count)
			continue;
		code.name = code.name ? xstrdup(code.name) : NULL;
		d->codes[d->code_cnt++] = code;
	}
}

/* Rows that were evicted since @before are now part of @ended, that of exited processes. */
static void delta_ended(struct stats_row *ended, const struct stats_row *was_ended,
	const struct stats_row *now, size_t cnt, const struct stats_row *before, size_t before_cnt)
{
	struct sorted left = { now, cnt, sizeof(*now), stats_row_compare };

	stats_row_subtract(ended, was_ended);
	for (size_t i = 0; i < before_cnt; i++)
		if (!sorted_find(&left, &before[i]))
			stats_row_subtract(ended, &before[i]);
}

/* Subtracts the rows of @before from @cnt rows of @now. */
static void delta_list(const struct stats_row *now, size_t cnt, struct stats_row *before,
	size_t before_cnt, struct stats_row **ret_rows, size_t *ret_cnt)
{
	struct sorted old = { before, before_cnt, sizeof(*before), stats_row_compare };
	struct stats_row *rows = *ret_rows = xcalloc(cnt + 1, sizeof(*rows));

	*ret_cnt = 0;
	for (size_t i = 0; i < cnt; i++) {
		struct stats_row row = now[i];
		const struct stats_row *was = sorted_find(&old, &row);

		if (was)
			stats_row_subtract(&row, was);
		if (!stats_row_is_empty(&row))
			rows[(*ret_cnt)++] = row;
	}
}

static void delta_rows(struct stats_func *d, const struct stats_func *now,
	const struct stats_func *before)
{
	delta_list(now->procs, now->proc_cnt, before->procs, before->proc_cnt, &d->procs,
		&d->proc_cnt);
	delta_list(now->rows, now->row_cnt, before->rows, before->row_cnt, &d->rows, &d->row_cnt);
	delta_list(now->sleeps, now->sleep_cnt, before->sleeps, before->sleep_cnt, &d->sleeps,
		&d->sleep_cnt);
	stats_row_subtract(&d->others, &before->others);
	delta_ended(&d->ended, &before->ended, now->procs, now->proc_cnt, before->procs,
		before->proc_cnt);
	delta_ended(&d->rows_ended, &before->rows_ended, now->rows, now->row_cnt, before->rows,
		before->row_cnt);
}

/* A new maximum is exact; otherwise the maximum is in the last bucket that has grown. */
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

/* A new path has no counts in @before. */
static void delta_paths(struct stats *d, const struct stats *now, const struct stats *before)
{
	struct sorted old = { before ? before->paths : NULL, before ? before->path_cnt : 0,
		sizeof(*d->paths), path_order };

	d->path_cnt = 0;
	if (!now->paths)
		return;
	d->paths = xcalloc(now->path_cnt + 1, sizeof(*d->paths));
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
}

static void delta_func(struct stats_func *d, const struct stats_func *now,
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
	/* Abandoned calls that were resumed count as carried, like calls from before a reset. */
	if (before)
		d->carried = before->in_flight + less(now->carried, before->carried) +
			less(before->abandoned, now->abandoned);
	d->has_extremes = false;
	d->min_ns = d->max_ns = 0;
	if (now->bucket) {
		d->bucket = xcalloc(FSN_HIST_CNT, sizeof(*d->bucket));
		for (int i = 0; i < FSN_HIST_CNT; i++)
			d->bucket[i] = less(now->bucket[i], b->bucket ? b->bucket[i] : 0);
	}
	delta_extremes(d, now, before);
	delta_codes(d, now, b);
	delta_rows(d, now, b);
}

struct stats *stats_delta(
	const struct stats *now, const struct stats *before, uint64_t before_ns)
{
	struct stats *d = xcopy(now, sizeof(*now));

	/* These stay those of @now. */
	d->places = NULL;
	d->cgroups = NULL;
	d->gpus = NULL;
	d->spreads = NULL;
	d->stacks = NULL;
	d->paths = NULL;
	/* Live memory is a current value, not a difference. */
	d->holders = now->holder_cnt ? xcopy(now->holders, now->holder_cnt * sizeof(*d->holders)) : NULL;
	d->func_cnt = d->gpu_cnt = d->spread_cnt = 0;
	d->funcs = xcalloc(now->func_cnt + 1, sizeof(*d->funcs));
	delta_paths(d, now, before);
	if (before) {
		d->since_ns = before_ns;
#define X(name) d->name = less(now->name, before->name);
		FSN_LOSSES(X)
#undef X
		d->lost_slow = less(now->lost_slow, before->lost_slow);
		d->slow_total = less(now->slow_total, before->slow_total);
	}
	for (size_t i = 0; i < now->func_cnt; i++) {
		d->func_cnt++;
		delta_func(&d->funcs[i], &now->funcs[i], before ? &before->funcs[i] : NULL);
	}
	return d;
}

/* --- sums of functions --------------------------------------------------------------------------- */

void func_sum_add(struct stats_func *sum, const struct stats_func *f)
{
	struct fsn_counts n = f->n;
	uint64_t untimed = stats_func_untimed(f);

	n.inner_ns = f->n.total_ns - stats_func_self(f);
	n.recursed_ns = f->n.total_ns - stats_func_outer(f);
	/* The others have no times, so their returns would falsify the average. */
	if (!f->timed)
		n.returns = n.jumped = n.errors = n.slow = n.total_ns = n.inner_ns =
			n.recursed_ns = n.on_cpu_ns = n.queued_ns = n.blocked_ns = 0;
	/* As in the sum, which lacks no call of a function without times. */
	n.inner = f->timed ? n.inner : untimed;
	n.no_slot = untimed - n.jumped - n.inner;
	n.sampled_out = n.unseen = 0;
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
