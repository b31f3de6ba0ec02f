// SPDX-License-Identifier: BSD-2-Clause
/* What programs take between two readings, and when that is not known. */
#include "stats/cost.h"

#include "base/util.h"
#include "tap.h"

#define S 1000000000ULL

int main(void)
{
	static const struct {
		const char *what;
		struct cost_reading before, after;
		enum cost_source source;
		uint64_t ns_per_s;
	} cases[] = {
		{ "half a second of two", { COST_ACCOUNTED, S, 7 },
			{ COST_ACCOUNTED, 3 * S, S / 2 + 7 }, COST_ACCOUNTED, S / 4 },
		{ "nothing", { COST_CALIBRATED, S, 7 }, { COST_CALIBRATED, 2 * S, 7 },
			COST_CALIBRATED, 0 },
		{ "more than 64 bits hold on the way", { COST_CALIBRATED, 0, 0 },
			{ COST_CALIBRATED, S, 64 * S }, COST_CALIBRATED, 64 * S },
		{ "another source", { COST_CALIBRATED, S, 7 },
			{ COST_ACCOUNTED, 2 * S, 8 }, COST_UNKNOWN, 0 },
		{ "a reset in between", { COST_CALIBRATED, S, 7 },
			{ COST_CALIBRATED, 2 * S, 6 }, COST_UNKNOWN, 0 },
		{ "no time in between", { COST_CALIBRATED, S, 7 },
			{ COST_CALIBRATED, S, 9 }, COST_UNKNOWN, 0 },
		{ "no source", { COST_UNKNOWN, S, 0 }, { COST_UNKNOWN, 2 * S, 0 },
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
	return tap_done();
}
