/* SPDX-License-Identifier: BSD-2-Clause */
/* By which calls kernels were launched, as CUPTI numbers both. */
#ifndef FUNCSNOOP_GPU_LAUNCHES_H
#define FUNCSNOOP_GPU_LAUNCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/cupti.h"
#include "shared/gpu.h"

/* Of one thread at a time, all of them. Room for calls, once and for good: whether there is. */
bool launches_room(void);

/* A child of fork() begins anew: none of its parent's is known. */
void launches_forget(void);

/* Keeps a call, in the place of one long before; without room it does nothing. */
void launches_keep(const struct cupti_call *c);

/* The call of that number, its times by CUPTI's clock; false: it is not known. */
bool launches_find(uint32_t correlation, struct fsn_gpu_launch *ret);

#endif
