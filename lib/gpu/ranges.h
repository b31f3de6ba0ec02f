/* SPDX-License-Identifier: BSD-2-Clause */
/* NVTX ranges of the process, and the names that they share with GPU activity. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/gpu.h"

#define EXPORT __attribute__((visibility("default")))

#define NAMES_MAX   16384
#define NAME_PLACES (2 * NAMES_MAX)
#define NAME_LEN    480 /* limit of the BPF programs */

struct names {
	char *text[NAME_PLACES];
	unsigned int cnt;
};

/* Returns one address per name, valid for the life of the process. The caller locks @names. */
const char *name_of(struct names *names, const char *text);

uint64_t now_ns(void);

/* CUDA's driver and NVTX load this library: the first of them starts its thread. */
EXPORT int InitializeInjection(void);

/* True if a tracer listens to ranges: the other part of the library knows. */
bool ranges_wanted(void);

/* Passes finished ranges on, and tells tracers where they and the innermost ones of threads are. */
void ranges_send(void);

extern bool ranges_told; /* a tracer that listens knows that */
extern struct fsn_gpu_thread ranges_of[FSN_GPU_THREADS];
extern struct fsn_gpu_ranges ranges_done;
