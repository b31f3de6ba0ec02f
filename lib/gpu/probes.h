/* SPDX-License-Identifier: BSD-2-Clause */
/* Who listens to what, and for how much of the time. */
#ifndef FUNCSNOOP_GPU_PROBES_H
#define FUNCSNOOP_GPU_PROBES_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/gpu.h"

enum stream_of { KERNELS, COPIES, SETS, GRAPHS, STREAM_CNT };

extern const struct stream {
	/* The kernel counts in them who probes; no code of this library writes there. */
	volatile unsigned short *wanted, *duty; /* .duty: by the numbers of FSN_GPU_DUTIES */
	void (*hand)(const struct fsn_gpu_batch *b);
	uint32_t kinds[2]; /* of CUPTI's activity; 0: no more */
} streams[STREAM_CNT];

/* Whether somebody asks by which calls kernels were launched. */
bool launches_asked(void);

/*
 * Of how many seconds of @s one is asked for; 0: all. The shortest is enough for the others, too;
 * who asks for none wants all.
 */
unsigned int period_asked(enum stream_of s);

#endif
