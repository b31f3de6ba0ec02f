/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers of experiments, kept by root until the next boot. */
#ifndef FUNCSNOOP_FEATURE_CACHE_H
#define FUNCSNOOP_FEATURE_CACHE_H

#include <stdbool.h>

#include "experiment.h"

/* The answers that bootcache_read() has; false, with @results untouched, without them. */
bool feature_cache_read(struct experiment_result results[EXPERIMENT_CNT]);

/* Keeps them with bootcache_write(). */
void feature_cache_write(const struct experiment_result results[EXPERIMENT_CNT]);

#endif
