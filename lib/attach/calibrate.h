/* SPDX-License-Identifier: BSD-2-Clause */
/* What a probed call costs on this machine: measured on functions of our own. */
#ifndef FUNCSNOOP_ATTACH_CALIBRATE_H
#define FUNCSNOOP_ATTACH_CALIBRATE_H

#include "base/err.h"
#include "pins/bpffs.h"
#include "stats/cost.h"

/*
 * Probes functions of this program for a moment by links of @mode, not LINK_AUTO, and times
 * them. Needs what attach needs, and the lock of @fs. Keeps the result until the next boot.
 * Takes a quarter of a second, most of it for the links to come and go.
 */
int calibrate(struct bpffs *fs, enum link_mode mode, struct calibration *ret_calibration,
	struct err *err);

#endif
