/* SPDX-License-Identifier: BSD-2-Clause */
/* What is safe on this kernel, found by experiment: rules for the planner. */
#ifndef FUNCSNOOP_KERNEL_RULES_H
#define FUNCSNOOP_KERNEL_RULES_H

#include <stdbool.h>

#include "code/plan.h"
#include "kernel/experiment.h"

/*
 * Fills in what the kernel allows; leaves what the user chose. What could not be tried is
 * taken to be unsafe, but for return probes as such: that they work at all shows when they
 * are attached.
 */
void kernel_rules(struct plan_rules *rules);

/*
 * The experiments' answers: those of this boot that are in the cache, or new ones, always
 * with @fresh. Returns whether they were in the cache.
 */
bool kernel_experiments(bool fresh, struct experiment_result results[EXPERIMENT_CNT]);

/* What follows from the experiments' answers; leaves what the user chose. */
void kernel_rules_from(struct plan_rules *rules, const struct experiment_result *results);

#endif
