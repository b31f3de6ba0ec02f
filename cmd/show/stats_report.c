// SPDX-License-Identifier: BSD-2-Clause
// Which functions a report has, and in which order.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "show/stats_report.h"

/* --- words ---------------------------------------------------------------------------------- */

const char *words_join(const char *const *words, size_t cnt, const char *between,
	const char *last, char buf[WORDS_LEN])
{
	size_t len = 0;

	for (size_t i = 0; i < cnt && len < WORDS_LEN; i++)
		len += snprintf(buf + len, WORDS_LEN - len, "%s%s",
			!i                    ? ""
				: i + 1 < cnt ? between
					      : last,
			words[i]);
	return buf;
}

const char *stats_sort_words(char buf[WORDS_LEN])
{
	enum figure_id ids[FIGURE_CNT];
	const char *words[FIGURE_CNT + 1];
	size_t cnt = figure_list(USE_SORT, ids);

	for (size_t i = 0; i < cnt; i++)
		words[i] = figures[ids[i]].word;
	words[cnt++] = "name";
	return words_join(words, cnt, ", ", " or ", buf);
}

bool stats_sort_parse(const char *name, enum figure_id *ret_sort)
{
	enum figure_id ids[FIGURE_CNT];
	size_t cnt = figure_list(USE_SORT, ids);

	*ret_sort = SORT_BY_NAME;
	for (size_t i = 0; i < cnt; i++)
		if (!strcmp(name, figures[ids[i]].word))
			*ret_sort = ids[i];
	return *ret_sort != SORT_BY_NAME || !strcmp(name, "name");
}

/* --- which, and in which order -------------------------------------------------------------- */

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
	if (!x->by_name && x->f->n.calls != y->f->n.calls)
		return x->f->n.calls > y->f->n.calls ? -1 : 1;
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
	uint64_t wanted = choice->sort == SORT_BY_NAME ? 0 : FIGURE_BIT(choice->sort);
	struct figures values;
	size_t cnt = 0;

	free(rg->funcs);
	rg->funcs = calloc(s->func_cnt + 1, sizeof(*rg->funcs));
	if (!ranked || !rg->funcs)
		return -ENOMEM;
	for (size_t i = 0; i < s->func_cnt; i++) {
		const struct stats_func *f = &s->funcs[i];

		if (!choice->all && !is_shown(&since->funcs[i]))
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
	return 0;
}

bool report_rate(const struct report_group *rg, uint64_t cnt, double *ret_per_s)
{
	if (!rg->elapsed_ns)
		return false;
	*ret_per_s = cnt * 1e9 / rg->elapsed_ns;
	return true;
}

bool report_cost(const struct report_group *rg, uint64_t *ret_ns)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < rg->s->func_cnt; i++) {
		if (!rg->s->funcs[i].priced)
			return false;
		ns += rg->s->funcs[i].cost_ns;
	}
	*ret_ns = ns;
	return true;
}

struct shown_call report_slow(
	const struct report_group *rg, const struct types *types, size_t i)
{
	return call_of(rg->s->group, types, &rg->slow[i].call, &rg->slow[i].more,
		rg->whole->read_ns - rg->whole->read_mono_ns);
}

uint64_t stats_all_calls(const struct stats *s)
{
	uint64_t calls = 0;

	for (size_t i = 0; i < s->func_cnt; i++)
		calls += s->funcs[i].n.calls;
	return calls;
}

void report_group_done(struct report_group *rg)
{
	free(rg->funcs);
	free(rg->diff);
	saved_free(rg->after);
	stats_free(rg->owned);
}
