// SPDX-License-Identifier: BSD-2-Clause
/* The table of metrics: no duplicates in its rows, and their dependencies. */
#include "stats/figures.h"

#include <string.h>

#include "tap.h"

static bool used_together(const struct figure *a, const struct figure *b)
{
	for (enum figure_use use = USE_DOCUMENT; use < USE_CNT; use++)
		if (a->place[use].at && b->place[use].at)
			return true;
	return false;
}

static void test_rows(void)
{
	bool keys = true, titles = true, letters = true;

	for (enum figure_id a = 0; a < FIGURE_CNT; a++) {
		const struct figure *f = &figures[a];
		char letter = (char)f->place[USE_SORT].extra;

		for (enum figure_id b = 0; b < a; b++) {
			keys &= strcmp(f->key, figures[b].key) ||
				!used_together(f, &figures[b]);
			letters &= !letter ||
				letter != (char)figures[b].place[USE_SORT].extra;
		}
		titles &= f->title ||
			(!f->place[USE_PROCESS].at && !f->place[USE_RATES].at &&
				!f->place[USE_LIBRARY].at &&
				(!f->place[USE_TABLE].at ||
					f->place[USE_TABLE].extra == COLUMN_CSV));
		titles &= f->help || !f->place[USE_METRIC].at;
		/* q quits --watch, n orders by name. */
		letters &= !f->place[USE_SORT].at ||
			(letter && letter != 'q' && letter != 'n');
		/* A metric that --diff compares must be read back. */
		keys &= !f->place[USE_DIFF].at || f->place[USE_SAVED].at;
	}
	ok(keys, "no key twice in a use, and what --diff shows is read back");
	ok(titles, "what is a column has a title, what is a metric a help");
	ok(letters, "each figure of --sort has a letter of its own in --watch");
}

static void test_order(void)
{
	enum figure_id ids[FIGURE_CNT];
	bool good = true;
	size_t cnt;

	for (enum figure_use use = USE_DOCUMENT; use < USE_CNT; use++) {
		cnt = figure_list(use, ids);
		good &= cnt && (size_t)__builtin_popcountll(figure_mask(use)) == cnt;
		for (size_t i = 1; i < cnt; i++)
			good &= figures[ids[i - 1]].place[use].at <=
				figures[ids[i]].place[use].at;
	}
	ok(good, "each use lists its figures by their places");
}

static void test_known(void)
{
	struct stats_func counted = { .n = { .calls = 5 } }, same = counted;
	struct stats_func timed = { .timed = true,
		.n = { .calls = 7, .returns = 4, .total_ns = 4000, .no_slot = 2 } };
	const struct figure_scope scope = { .elapsed_ns = 2000000000, .all_ns = 8000 };
	struct figures f;

	same.same = true;
	same.n.returns = 5;
	figures_of(&counted, &scope, ~0ULL, &f);
	ok(figure_known(&f, FIGURE_CALLS) && figure_or_0(&f, FIGURE_UNTIMED) == 5 &&
			!figure_known(&f, FIGURE_RETURNS) &&
			!figure_known(&f, FIGURE_ERRORS) &&
			!figure_known(&f, FIGURE_TOTAL) &&
			!figure_known(&f, FIGURE_BUSY) &&
			f.moot & FIGURE_BIT(FIGURE_IN_FLIGHT),
		"of what is only counted, calls are known");
	figures_of(&same, &scope, ~0ULL, &f);
	ok(figure_or_0(&f, FIGURE_RETURNS) == 5 && figure_known(&f, FIGURE_UNTIMED) &&
			!figure_or_0(&f, FIGURE_UNTIMED),
		"of one instruction that is entry and end, returns, too");
	figures_of(&timed, &scope, ~0ULL, &f);
	ok(figure_or_0(&f, FIGURE_AVG) == 1000 && figure_or_0(&f, FIGURE_UNTIMED) == 2 &&
			f.value[FIGURE_TIME].x == 50 &&
			f.value[FIGURE_CALLS_RATE].x == 3.5 && !f.moot &&
			!figure_known(&f, FIGURE_P99) && !figure_known(&f, FIGURE_MIN),
		"of what is timed, times, shares and rates; no percentile without buckets");
	timed.lost = 3;
	figures_of(&timed, NULL, figure_mask(USE_METRIC) | FIGURE_BIT(FIGURE_UNTIMED), &f);
	ok(figure_or_0(&f, FIGURE_UNTIMED) == 5 && figure_or_0(&f, FIGURE_UNFOLLOWED) == 2 &&
			!(figure_mask(USE_METRIC) & FIGURE_BIT(FIGURE_UNTIMED)),
		"of metrics those are no untimed calls that may return yet");
	figures_of(&timed, NULL, FIGURE_BIT(FIGURE_CALLS) | FIGURE_BIT(FIGURE_TIME), &f);
	ok(f.known == FIGURE_BIT(FIGURE_CALLS),
		"no more than is wanted, no share of nothing");
}

static void test_self_noise(void)
{
	const struct figure_scope scope = { .cost_ns = 3000 };
	const uint64_t inner[] = { 5000, 2000, (uint64_t)-10 }, noise[] = { 300, 200, 0 };
	struct figures f;
	bool good = true;

	for (size_t i = 0; i < 3; i++) {
		struct stats_func func = { .n = { .probes_ns = inner[i] } };

		figures_of(&func, &scope, 0, &f);
		good &= f.self_noise_ns == noise[i];
	}
	ok(good, "an own time is uncertain by a tenth of what probes inside may have taken");
}

static void test_counts(void)
{
	struct fsn_counts sum = { .calls = 5, .errors = 1 };
	const struct fsn_counts more = { .calls = 3, .errors = 2, .unmatched = 9 };

	counts_add(&sum, &more);
	ok(sum.calls == 8 && sum.errors == 3 && sum.unmatched == 9 && !sum.slow,
		"counts are added, all of them");
	sum.errors = 1;
	counts_subtract(&sum, &more);
	ok(sum.calls == 5 && !sum.errors && !sum.unmatched,
		"and subtracted, not below 0");
}

int main(void)
{
	test_rows();
	test_order();
	test_known();
	test_self_noise();
	test_counts();
	return tap_done();
}
