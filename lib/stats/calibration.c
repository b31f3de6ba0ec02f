// SPDX-License-Identifier: BSD-2-Clause
// What a probed call costs here, kept until the next boot.
#include <inttypes.h>
#include <stdio.h>

#include "base/bootcache.h"
#include "base/util.h"
#include "group/group.h"
#include "stats/calibration.h"

void calibration_write(const struct calibration *calibration)
{
	const struct calibration *c = calibration;
	char text[256];

	snprintf(text, sizeof(text),
		"at %" PRIu64 " none %" PRIu64 " return %" PRIu64 " ret %" PRIu64 "\n", c->at_ns,
		c->ns[GROUP_EXIT_NONE], c->ns[GROUP_EXIT_RETURN], c->ns[GROUP_EXIT_RET]);
	bootcache_write(CALIBRATION_CACHE, text);
}

bool calibration_read(struct calibration *ret_calibration)
{
	_cleanup_free_ char *text = bootcache_read(CALIBRATION_CACHE);
	struct calibration c = {};

	if (!text ||
		sscanf(text, "at %" SCNu64 " none %" SCNu64 " return %" SCNu64 " ret %" SCNu64,
			&c.at_ns, &c.ns[GROUP_EXIT_NONE], &c.ns[GROUP_EXIT_RETURN],
			&c.ns[GROUP_EXIT_RET]) != 4)
		return false;
	c.ns[GROUP_EXIT_SAME] = c.ns[GROUP_EXIT_NONE];
	*ret_calibration = c;
	return true;
}
