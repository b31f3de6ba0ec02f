/* SPDX-License-Identifier: BSD-2-Clause */
/* What a probed call costs on this machine: measured on a function of our own. */
#ifndef FUNCSNOOP_ATTACH_CALIBRATE_H
#define FUNCSNOOP_ATTACH_CALIBRATE_H

#include "base/err.h"
#include "pins/bpffs.h"
#include "stats/calibration.h"

/*
 * Probes a function of this program for a moment, in each way, and times it. Needs what
 * attach needs, and the lock of @fs. Keeps the result until the next boot. Takes about a
 * second.
 */
int calibrate(struct bpffs *fs, struct calibration *ret_calibration, struct err *err);

#endif
