// SPDX-License-Identifier: BSD-2-Clause
/* Overhead of probes between two readings, and cases in which it is not known. */
#include "stats/stats.h"

#include "base/util.h"
#include "tap.h"

#define S 1000000000ULL

/* Each kind of hit has a price that shows in the sum. */
static void test_hits(void)
{
	const struct price price = {
		.whole_ns = { { 1, 10, 100, 30 }, { 1000, 11000, 101000, 31000 } },
	};
	const struct {
		const char *what;
		enum price_site site;
		enum price_end end;
		struct fsn_counts n;
		uint64_t ns;
	} cases[] = {
		{ "counted calls", PRICE_STEPPED, PRICE_COUNT, { .calls = 5, .returns = 5 }, 5000 },
		{ "returns", PRICE_EMULATED, PRICE_RETURN, { .calls = 5, .returns = 5 }, 50 },
		{ "a call that is not followed", PRICE_EMULATED, PRICE_RETURN,
			{ .calls = 5, .returns = 4, .sampled_out = 1 }, 41 },
		{ "an end without its call", PRICE_EMULATED, PRICE_RETURN,
			{ .calls = 5, .returns = 5, .unmatched = 1 }, 59 },
		{ "rets after stepped entries", PRICE_STEPPED, PRICE_RET,
			{ .calls = 2, .returns = 2 }, 202000 },
		{ "jumps that are taken among rets", PRICE_EMULATED, PRICE_RET,
			{ .calls = 5, .returns = 3, .jumped = 2 }, 5 + 3 * 99 + 2 * 29 },
		{ "jumps that are not taken", PRICE_STEPPED, PRICE_RET,
			{ .calls = 1, .returns = 1, .passed = 7 }, 101007 },
		{ "entries that are filtered out", PRICE_STEPPED, PRICE_COUNT,
			{ .calls = 5, .aside = 2 }, 7000 },
		{ "ends of what is filtered out", PRICE_EMULATED, PRICE_RET,
			{ .calls = 1, .aside = 1, .returns = 1, .strays = 1 }, 2 + 2 * 99 },
		{ "ends that are seen where a jump leads, and paid for there", PRICE_EMULATED,
			PRICE_RET, { .calls = 5, .returns = 5, .led = 4, .passed = 4 },
			5 + 99 + 4 },
		{ "rets while links are replaced", PRICE_EMULATED, PRICE_RET,
			{ .calls = 5, .returns = 2, .unseen = 3 }, 5 + 5 * 99 },
		{ "rets that others hit, where it leads", PRICE_EMULATED, PRICE_RET,
			{ .calls = 5, .returns = 5, .led = 5, .passed = 25, .stepped = 20 },
			30 + 20 * 999 },
		{ "calls that all leave by jumps", PRICE_EMULATED, PRICE_JUMP,
			{ .calls = 2, .jumped = 2 }, 2 + 2 * 29 },
		{ "jumps that the kernel does not emulate", PRICE_EMULATED, PRICE_JUMP,
			{ .calls = 5, .jumped = 5, .stepped = 5 }, 5 + 5 * 29 + 5 * 999 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t ns = cost_of_hits(&price, cases[i].site, cases[i].end, &cases[i].n);

		ok(ns == cases[i].ns, "%s: %llu ns", cases[i].what, (unsigned long long)ns);
	}
}

/* Run times, by how much they differ from those of the calibration: 40 ns of entries, 60 of ends. */
static void test_runs(void)
{
	const struct price price = {
		.whole_ns = { { 700, 1400, 1500, 1300, 1200 } },
		.run_ns = { { 40, 100, 120, 50, 110 } },
	};
	const struct price unknown = { .whole_ns = { { 700, 1400, 1500, 1300, 1200 } } };
	const struct {
		const char *what;
		const struct price *price;
		enum price_end end;
		struct fsn_counts n;
		uint64_t ns;
	} cases[] = {
		{ "as calibrated", &price, PRICE_RETURN, { .calls = 10, .returns = 10,
			.entry_ns = 80, .entry_runs = 2, .end_ns = 60, .end_runs = 1 }, 14000 },
		{ "longer entries", &price, PRICE_RETURN, { .calls = 10, .returns = 10,
			.entry_ns = 280, .entry_runs = 2, .end_ns = 60, .end_runs = 1 }, 15000 },
		{ "longer ends, and calls in flight", &price, PRICE_RETURN, { .calls = 12, .returns = 10,
			.entry_ns = 80, .entry_runs = 2, .end_ns = 160, .end_runs = 1 }, 16400 },
		{ "shorter ones", &price, PRICE_COUNT, { .calls = 10, .entry_ns = 30, .entry_runs = 1 },
			6900 },
		{ "less than nothing", &price, PRICE_COUNT, { .calls = 10, .entry_runs = 1 }, 6600 },
		{ "ends at ret instructions", &price, PRICE_RET, { .calls = 10, .returns = 10,
			.entry_ns = 40, .entry_runs = 1, .end_ns = 180, .end_runs = 1 }, 16000 },
		{ "calls that leave by jumps", &price, PRICE_RET, { .calls = 10, .returns = 5, .jumped = 5,
			.entry_ns = 50, .entry_runs = 1, .end_ns = 70, .end_runs = 1 }, 14000 },
		{ "walks at ends", &price, PRICE_RETURN, { .calls = 10, .returns = 10, .walks_ns = 5000,
			.entry_ns = 80, .entry_runs = 2, .end_ns = 60, .end_runs = 1 }, 19000 },
		{ "no sample of ends", &price, PRICE_RETURN, { .calls = 10, .returns = 10,
			.entry_ns = 280, .entry_runs = 2 }, 14000 },
		{ "a calibration without run times", &unknown, PRICE_RETURN, { .calls = 10, .returns = 10,
			.entry_ns = 280, .entry_runs = 2, .end_ns = 60, .end_runs = 1 }, 14000 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t ns = cost_of_hits(cases[i].price, PRICE_EMULATED, cases[i].end, &cases[i].n);

		ok(ns == cases[i].ns, "run times, %s: %llu ns", cases[i].what, (unsigned long long)ns);
	}
}

int main(void)
{
	static const struct {
		const char *what;
		struct cost_reading before, after;
		enum cost_source source;
		uint64_t ns_per_s;
	} cases[] = {
		{ "half a second of two", { COST_ACCOUNTED, S, 7, 0 },
			{ COST_ACCOUNTED, 3 * S, S / 2 + 7, 0 }, COST_ACCOUNTED, S / 4 },
		{ "nothing", { COST_CALIBRATED, S, 7, 0 }, { COST_CALIBRATED, 2 * S, 7, 0 },
			COST_CALIBRATED, 0 },
		{ "more than 64 bits hold on the way", { COST_CALIBRATED, 0, 0, 0 },
			{ COST_CALIBRATED, S, 64 * S, 0 }, COST_CALIBRATED, 64 * S },
		{ "another source", { COST_CALIBRATED, S, 7, 0 },
			{ COST_ACCOUNTED, 2 * S, 8, 0 }, COST_UNKNOWN, 0 },
		{ "a reset in between", { COST_CALIBRATED, S, 7, 0 },
			{ COST_CALIBRATED, 2 * S, 6, 0 }, COST_UNKNOWN, 0 },
		{ "no time in between", { COST_CALIBRATED, S, 7, 0 },
			{ COST_CALIBRATED, S, 9, 0 }, COST_UNKNOWN, 0 },
		{ "no source", { COST_UNKNOWN, S, 0, 0 }, { COST_UNKNOWN, 2 * S, 0, 0 },
			COST_UNKNOWN, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cost cost = cost_between(&cases[i].before, &cases[i].after);

		ok(cost.source == cases[i].source && cost.ns_per_s == cases[i].ns_per_s,
			"%s", cases[i].what);
	}
	ok(!cost_source_name(COST_UNKNOWN), "what is not known has no name");
	ok(!strcmp(cost_source_name(COST_ACCOUNTED), "kernel"),
		"the kernel's accounting");
	ok(!strcmp(cost_source_name(COST_CALIBRATED), "calibration"), "the estimate");
	test_hits();
	test_runs();
	return tap_done();
}
