// SPDX-License-Identifier: BSD-2-Clause
/* What is given up of functions so that their probes take no more than was granted. */
#include "attach/internal.h"
#include "tap.h"

#define MS      1000000ULL
#define PERCENT 10000 /* of a CPU */

static const struct budget_func none = { .entry_ns = 500, .whole_ns = 1100 };

static struct budget_func func(uint64_t calls, uint32_t whole_ns, bool can_sample)
{
	struct budget_func f = none;

	f.calls = calls;
	f.whole_ns = whole_ns;
	f.can_sample = can_sample;
	return f;
}

static void test_fits(void)
{
	struct budget_func f[] = { func(10000, 1100, true), func(0, 11000, false) };

	/* 10,000 calls in 250 ms: 44 ms of each second. */
	is_int(budget_cost(f, 2, 250 * MS), 44 * MS, "calls of a part of a second are a second's");
	budget_fit(f, 2, 250 * MS, 5 * PERCENT);
	is_int(f[0].limit, LIMIT_NONE, "what takes less than was granted is timed");
	budget_fit(f, 2, 250 * MS, 4 * PERCENT);
	is_int(f[0].limit, LIMIT_SAMPLED, "what takes more is sampled where that helps");
	is_int(f[0].sample, 32, "as many as take a sixteenth of what entries take");
	is_int(f[0].calls_per_s, 40000, "and its calls are told");
	ok(budget_cost(f, 2, 250 * MS) <= 40 * MS, "then it takes less");
	is_int(f[1].limit, LIMIT_NONE, "what is not called is timed, dear as it may be");
}

static void test_order(void)
{
	struct budget_func f[] = { func(1000, 11000, false), func(2000, 11000, false),
		func(20, 11000, false), func(1000, 11000, false) };

	/* 11, 22, 0.2 and 11 ms a second; counted a half, one, 0.01 and a half. */
	budget_fit(f, 4, 1000 * MS, 3 * PERCENT);
	is_int(f[1].limit, LIMIT_COUNTED, "the dearest is given up first");
	is_int(f[0].limit, LIMIT_NONE, "and no more than must be");
	is_int(f[3].limit, LIMIT_NONE, "of none");
	budget_fit(f, 4, 1000 * MS, 2 * PERCENT);
	is_int(f[0].limit + f[3].limit, LIMIT_COUNTED, "of two alike one is");
	is_int(f[2].limit, LIMIT_NONE, "what is called seldom stays");
}

static void test_left_out(void)
{
	struct budget_func f[] = { func(1000000, 1100, true), func(20000, 1100, false),
		func(10, 1100, true) };

	is_int(budget_leave_out(f, 3, 1000 * MS, 2 * PERCENT), 1,
		"whose entries take more than all are granted is left out");
	is_int(f[0].limit, LIMIT_LEFT_OUT, "not sampled");
	is_int(budget_leave_out(f, 3, 1000 * MS, 2 * PERCENT), 0, "once");
	is_int(budget_cost(f, 3, 1000 * MS), 20010 * 1100, "and costs nothing any more");
	budget_fit(f, 3, 1000 * MS, 2 * PERCENT);
	is_int(f[1].limit, LIMIT_COUNTED, "the others are looked at without it");
	is_int(f[2].limit, LIMIT_NONE, "each");
	budget_fit(f, 3, 1000 * MS, 1);
	is_int(f[1].limit, LIMIT_LEFT_OUT, "what is counted is left out when that is too much");
}

static void test_nothing(void)
{
	struct budget_func f[] = { func(100, 500, true) };

	is_int(budget_cost(f, 1, 0), 0, "in no time nothing is known");
	budget_fit(f, 1, 1000 * MS, 1);
	is_int(f[0].limit, LIMIT_LEFT_OUT, "what is counted alone is not sampled");
}

int main(void)
{
	test_fits();
	test_order();
	test_left_out();
	test_nothing();
	return tap_done();
}
