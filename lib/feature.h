/* SPDX-License-Identifier: BSD-2-Clause */
/* What this kernel can do and what is safe on it, found by experiment. */
#ifndef FUNCSNOOP_FEATURE_H
#define FUNCSNOOP_FEATURE_H

#include "plan.h"

/* Fills in what the kernel allows; leaves what the user chose. */
void feature_rules(struct plan_rules *rules);

#endif
