/* SPDX-License-Identifier: BSD-2-Clause */
/* From answers of experiments to the planner's rules; leaves what the user chose. */
#ifndef FUNCSNOOP_FEATURE_PRIV_H
#define FUNCSNOOP_FEATURE_PRIV_H

#include "experiment.h"
#include "plan.h"

void feature_set_rules(struct plan_rules *rules, const struct experiment_result *results);

#endif
