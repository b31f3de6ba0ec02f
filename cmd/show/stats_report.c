// SPDX-License-Identifier: BSD-2-Clause
// Which functions a report has, and in which order.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "show/stats_report.h"

static const struct stats_format *const formats[] = { &format_table, &format_json,
	&format_csv, &format_prometheus, &format_openmetrics };

const struct stats_format *stats_format_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (!strcmp(formats[i]->name, name))
			return formats[i];
	return NULL;
}

static const char *const sort_names[] = { "total", "calls", "avg", "max", "p99", "errors",
	"slow", "name" };

bool stats_sort_parse(const char *name, enum stats_sort *ret_sort)
{
	for (size_t i = 0; i < ARRAY_SIZE(sort_names); i++)
		if (!strcmp(name, sort_names[i])) {
			*ret_sort = (enum stats_sort)i;
			return true;
		}
	return false;
}

static uint64_t sort_value(const struct stats_func *f, enum stats_sort sort)
{
	switch (sort) {
	case STATS_BY_TOTAL:
		return f->timed ? f->total_ns : 0;
	case STATS_BY_CALLS:
		return f->calls;
	case STATS_BY_AVG:
		return f->timed && f->returns ? f->total_ns / f->returns : 0;
	case STATS_BY_MAX:
		return f->max_ns;
	case STATS_BY_P99:
		return stats_func_samples(f) ? stats_func_percentile(f, 990) : 0;
	case STATS_BY_ERRORS:
		return f->errors;
	case STATS_BY_SLOW:
		return f->slow;
	default:
		return 0;
	}
}

/* A function with what it is ordered by: percentiles are dear. */
struct ranked {
	const struct stats_func *f;
	const char *name;
	uint64_t value;
	bool by_name;
};

static int compare_ranked(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;
	int by_name;

	if (x->value != y->value)
		return x->value > y->value ? -1 : 1;
	if (!x->by_name && x->f->calls != y->f->calls)
		return x->f->calls > y->f->calls ? -1 : 1;
	by_name = strcmp(x->name, y->name);
	return by_name ? by_name : (x->f->fn > y->f->fn) - (x->f->fn < y->f->fn);
}

/*
 * What is kept by key is read after the counters: an interval may have the first call of a
 * function in its processes and not yet in its counters, and all intervals must add up.
 */
static bool is_shown(const struct stats_func *f)
{
	return stats_func_called(f) || f->proc_cnt || f->ended.calls || f->code_cnt ||
		stats_func_samples(f);
}

int report_choose(struct report_group *rg, const struct stats_choice *choice, bool ever)
{
	const struct stats *s = rg->s, *since = ever ? rg->whole : rg->s;
	_cleanup_free_ struct ranked *ranked = calloc(s->func_cnt + 1, sizeof(*ranked));
	size_t cnt = 0;

	free(rg->funcs);
	rg->funcs = calloc(s->func_cnt + 1, sizeof(*rg->funcs));
	if (!ranked || !rg->funcs)
		return -ENOMEM;
	for (size_t i = 0; i < s->func_cnt; i++) {
		const struct stats_func *f = &s->funcs[i];

		if (!choice->all && !is_shown(&since->funcs[i]))
			continue;
		ranked[cnt++] = (struct ranked) {
			.f = f,
			.name = group_func_name(s->group, f->fn),
			.value = sort_value(f, choice->sort),
			.by_name = choice->sort == STATS_BY_NAME,
		};
	}
	qsort(ranked, cnt, sizeof(*ranked), compare_ranked);
	if (choice->top && choice->top < cnt)
		cnt = choice->top;
	for (size_t i = 0; i < cnt; i++)
		rg->funcs[i] = ranked[i].f;
	rg->func_cnt = cnt;
	return 0;
}

bool report_rate(const struct report_group *rg, uint64_t cnt, double *ret_per_s)
{
	if (!rg->elapsed_ns)
		return false;
	*ret_per_s = cnt * 1e9 / rg->elapsed_ns;
	return true;
}

uint64_t stats_all_calls(const struct stats *s)
{
	uint64_t calls = 0;

	for (size_t i = 0; i < s->func_cnt; i++)
		calls += s->funcs[i].calls;
	return calls;
}

void report_group_done(struct report_group *rg)
{
	free(rg->funcs);
	free(rg->diff);
	saved_free(rg->after);
	stats_free(rg->owned);
}
