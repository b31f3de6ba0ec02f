// SPDX-License-Identifier: BSD-2-Clause
// What fuzzing found in the planner.
#include "../../fuzz/plan_fuzz.c"

#include "found.h"

int main(void)
{
	return found_replay("plan");
}
