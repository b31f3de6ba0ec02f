/* SPDX-License-Identifier: BSD-2-Clause */
/* What a probed call costs on this machine, as calibrate() has measured it. */
#ifndef FUNCSNOOP_STATS_CALIBRATION_H
#define FUNCSNOOP_STATS_CALIBRATION_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/words.h"
#include "kernel/link.h"

/* Name under which it is kept until the next boot (base/file.h). */
#define CALIBRATION_CACHE "calibration"

/* Two windows that differ by more, in thousandths, are noise: the figures are not to be trusted. */
#define CALIBRATION_STEADY 30

struct calibration {
	struct price price;
	uint32_t spread; /* thousandths by which the two lowest windows differ, at most */
};

/* Keeps what was measured of links of @mode until the next boot, beside that of others. */
void calibration_write(enum link_mode mode, const struct calibration *calibration);

/* What was kept since the last boot. */
bool calibration_read(enum link_mode mode, struct calibration *ret_calibration);

#endif
