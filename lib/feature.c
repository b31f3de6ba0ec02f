// SPDX-License-Identifier: BSD-2-Clause
// What the kernel allows; until it has been tried, the careful answer.
#include "feature.h"

void feature_rules(struct plan_rules *rules)
{
	rules->nop5_unsafe = true;
	rules->multinop_emulated = false;
	rules->call_unsafe = true;
	rules->return_unsafe = false;
}
