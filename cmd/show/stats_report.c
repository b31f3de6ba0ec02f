// SPDX-License-Identifier: BSD-2-Clause
// Which functions a report has, and in which order.
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "group/stacks.h"
#include "show/stats.h"

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
	return stats_func_called(f) || f->proc_cnt || f->row_cnt || f->ended.n.calls || f->code_cnt ||
		f->memory.n.live_blocks || f->memory.n.exit_blocks || stats_func_samples(f);
}

bool report_is_shown(const struct report_group *rg, const struct stats_func *f)
{
	return is_shown(&rg->whole->funcs[f->fn]);
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

	for (size_t i = 0; i < s->func_cnt; i++)
		ns += s->funcs[i].timed ? stats_func_self(&s->funcs[i]) : 0;
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
	bool found = false;

	for (size_t n = 0; n < r->cnt; n++) {
		struct report_group *rg = &r->group[n];

		for (size_t i = 0; i < c->by_cnt; i++)
			for (size_t k = 0; k < rg->keys.key_cnt; k++)
				if (!strcmp(rg->keys.key[k], c->by[i]))
					rg->by[rg->by_cnt++] = k;
		if (rg->by_cnt < c->by_cnt)
			rg->by_cnt = 0;
		found |= rg->by_cnt;
		/* What is compared has no sums. */
		for (size_t i = 0; rg->by_cnt && !rg->diff && i < rg->keys.sum_cnt; i++) {
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
	}
	if (!c->by_cnt || found || !r->cnt)
		return 0;
	err_set(err, -ERR_USAGE, "--by '%s': no group has %s", c->by_text,
		c->by_cnt > 1 ? "these keys" : "such a key");
	return err_hint(err,
		"use function, process, cgroup, library, or a key that the group was attached with (--key)");
}
