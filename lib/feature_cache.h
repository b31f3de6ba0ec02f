/* SPDX-License-Identifier: BSD-2-Clause */
/* Answers of experiments, kept by root until the next boot. */
#ifndef FUNCSNOOP_FEATURE_CACHE_H
#define FUNCSNOOP_FEATURE_CACHE_H

#include <stdbool.h>

#include "experiment.h"

/*
 * Reads FEATURE_CACHE_DIR/FEATURE_CACHE_FILE. False, with @results untouched, unless it is
 * of this boot and this version, whole, and it and its folder belong to root and can be
 * written by nobody else.
 */
bool feature_cache_read(struct experiment_result results[EXPERIMENT_CNT]);

/*
 * Writes it, as root only; where that can't be done there is no cache. Renamed into place,
 * so that a reader sees a whole file.
 */
void feature_cache_write(const struct experiment_result results[EXPERIMENT_CNT]);

#endif
