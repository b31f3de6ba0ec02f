// SPDX-License-Identifier: BSD-2-Clause
// Inputs found by fuzzing the planner.
#include "../../fuzz/plan_fuzz.c"

#include "found.h"

int main(void)
{
	return found_replay("plan");
}
