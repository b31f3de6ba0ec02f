/* SPDX-License-Identifier: BSD-2-Clause */
/* What a probed call costs on this machine, as calibrate() has measured it. */
#ifndef FUNCSNOOP_STATS_CALIBRATION_H
#define FUNCSNOOP_STATS_CALIBRATION_H

#include <stdbool.h>
#include <stdint.h>

#include "group/group.h"

/* Name under which it is kept until the next boot (base/bootcache.h). */
#define CALIBRATION_CACHE "calibration"

/*
 * Time that one call takes longer for its probes, traps included, by how its end is seen:
 * indices are enum group_exit; GROUP_EXIT_SAME is as GROUP_EXIT_NONE.
 */
#define CALIBRATION_CNT 4
struct calibration {
	uint64_t at_ns; /* CLOCK_REALTIME of the measurement */
	uint64_t ns[CALIBRATION_CNT];
};

/* Keeps it until the next boot. */
void calibration_write(const struct calibration *calibration);

/* What was kept since the last boot. */
bool calibration_read(struct calibration *ret_calibration);

#endif
