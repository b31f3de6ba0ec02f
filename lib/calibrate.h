/* SPDX-License-Identifier: BSD-2-Clause */
/* What a probed call costs on this machine: measured on a function of our own. */
#ifndef FUNCSNOOP_CALIBRATE_H
#define FUNCSNOOP_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>

#include "bpffs.h"
#include "err.h"
#include "group.h"

/*
 * Time that one call takes longer for its probes, traps included, by how its end is seen:
 * indices are enum group_exit; GROUP_EXIT_SAME is as GROUP_EXIT_NONE.
 */
#define CALIBRATION_CNT 4
struct calibration {
	uint64_t at_ns; /* CLOCK_REALTIME of the measurement */
	uint64_t ns[CALIBRATION_CNT];
};

/*
 * Probes a function of this program for a moment, in each way, and times it. Needs what
 * attach needs, and the lock of @fs. Keeps the result until the next boot. Takes about a
 * second.
 */
int calibrate(struct bpffs *fs, struct calibration *ret_calibration, struct err *err);

/* What calibrate() has found since the last boot. */
bool calibration_read(struct calibration *ret_calibration);

#endif
