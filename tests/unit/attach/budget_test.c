// SPDX-License-Identifier: BSD-2-Clause
/* The reductions by which the overhead of probes stays within its limit. */
#include "attach/internal.h"
#include "tap.h"

#define MS      1000000ULL
#define PERCENT 10000 /* of a CPU */

static const struct budget_func none = { .entry_ns = 500, .whole_ns = 1100,
	.own_ns = 1000 * MS };

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

	f[0].own_ns = 250 * MS;
	/* 10,000 calls in 250 ms: 44 ms of each second. */
	is_int(budget_cost(f, 2), 44 * MS, "calls of a part of a second are a second's");
	is_int(budget_whole(&f[0]), 44 * MS, "of one function, too");
	budget_fit(f, 2, 5 * PERCENT);
	is_int(f[0].limit, LIMIT_NONE, "a function within the bound is timed");
	budget_fit(f, 2, 4 * PERCENT);
	is_int(f[0].limit, LIMIT_SAMPLED, "one above it is sampled where that helps");
	is_int(f[0].sample, 32, "as many as cost a sixteenth of what entries cost");
	ok(budget_cost(f, 2) <= 40 * MS, "then it costs less");
	is_int(f[1].limit, LIMIT_NONE, "what is not called is timed, whatever its price");
}

static void test_order(void)
{
	struct budget_func f[] = { func(1000, 11000, false), func(2000, 11000, false),
		func(20, 11000, false), func(1000, 11000, false) };

	/* 11, 22, 0.2 and 11 ms a second; counted a half, one, 0.01 and a half. */
	budget_fit(f, 4, 3 * PERCENT);
	is_int(f[1].limit, LIMIT_COUNTED, "the most expensive is given up first");
	is_int(f[0].limit, LIMIT_NONE, "and no more than needed");
	is_int(f[3].limit, LIMIT_NONE, "of none");
	budget_fit(f, 4, 2 * PERCENT);
	is_int(f[0].limit + f[3].limit, LIMIT_COUNTED, "of two alike one is");
	is_int(f[2].limit, LIMIT_NONE, "what is called rarely stays");
}

static void test_left_out(void)
{
	struct budget_func f[] = { func(1000000, 1100, true), func(20000, 1100, false),
		func(10, 1100, true) };

	is_int(budget_leave_out(f, 3, 2 * PERCENT), 1,
		"a function whose entries cost more than all may is left out");
	is_int(f[0].limit, LIMIT_LEFT_OUT, "not sampled");
	is_int(budget_leave_out(f, 3, 2 * PERCENT), 0, "once");
	is_int(budget_cost(f, 3), 20010 * 1100, "and costs nothing any more");
	budget_fit(f, 3, 2 * PERCENT);
	is_int(f[1].limit, LIMIT_COUNTED, "the others are judged without it");
	is_int(f[2].limit, LIMIT_NONE, "each");
	budget_fit(f, 3, 1);
	is_int(f[1].limit, LIMIT_LEFT_OUT, "a counted one is left out when that is too much");
}

static void test_own_time(void)
{
	struct budget_func f[] = { func(20000, 1100, false), func(20000, 1100, false) };

	/* As many calls in a tenth of the time: the program was slowed down meanwhile. */
	f[1].own_ns = 100 * MS;
	budget_leave_out(f, 2, 2 * PERCENT);
	is_int(f[1].limit, LIMIT_LEFT_OUT, "calls count by the program's own time");
	is_int(f[0].limit, LIMIT_NONE, "not by their number");
	f[0].own_ns = 0;
	budget_leave_out(f, 2, 100 * PERCENT);
	is_int(f[0].limit, LIMIT_LEFT_OUT, "calls in no time at all are too many");
}

static void test_exact(void)
{
	struct budget_func f[] = { func(1000000, 1100, true), func(30000, 1100, false) };

	f[0].exact = true;
	budget_fit(f, 2, 2 * PERCENT);
	is_int(f[0].limit, LIMIT_NONE, "a function asked for by its name is kept");
	is_int(f[1].limit, LIMIT_COUNTED, "and the bound is for the others");
	is_int(budget_cost(f, 2), 30000 * 500, "whose cost alone counts");
}

static void test_nothing(void)
{
	struct budget_func f[] = { func(100, 500, true) };

	budget_fit(f, 1, 1);
	is_int(f[0].limit, LIMIT_LEFT_OUT, "what is counted alone is not sampled");
}

static void test_asleep(void)
{
	struct budget_span span = { .wall_ns = 200 * MS, .cost_ns = 25 * MS, .own_ns = 2 * MS };

	is_int(budget_blurred_own(&span, 10 * PERCENT), 20 * MS, "who sleeps counts as using a tenth of a CPU");
	span.own_ns = 30 * MS;
	is_int(budget_blurred_own(&span, 10 * PERCENT), 30 * MS, "who uses more, as using that");
	span.cost_ns = 480 * MS;
	is_int(budget_blurred_own(&span, 10 * PERCENT), 300 * MS, "and where probes take much, as using a part of that");
}

int main(void)
{
	test_fits();
	test_order();
	test_left_out();
	test_own_time();
	test_exact();
	test_nothing();
	test_asleep();
	return tap_done();
}
