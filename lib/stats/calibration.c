// SPDX-License-Identifier: BSD-2-Clause
// What a probed call costs here, kept until the next boot: a line for each kind of link.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/util.h"
#include "stats/calibration.h"

static const enum link_mode modes[] = { LINK_SESSION, LINK_MULTI, LINK_PERF };

#define LINE_MAX_LEN 512

/* "session at 1 spread 2:", and overhead and whole of each class. */
static void line_write(char *line, enum link_mode mode, const struct calibration *c)
{
	size_t len = snprintf(line, LINE_MAX_LEN, "%s at %llu spread %" PRIu32 ":",
		link_mode_name(mode), c->price.at_ns, c->spread);

	for (int site = 0; site < PRICE_SITES; site++)
		for (int end = 0; end < PRICE_ENDS; end++)
			len += snprintf(line + len, LINE_MAX_LEN - len,
				" %" PRIu32 " %" PRIu32, c->price.overhead_ns[site][end],
				c->price.whole_ns[site][end]);
	snprintf(line + len, LINE_MAX_LEN - len, "\n");
}

static bool line_read(const char *line, enum link_mode mode, struct calibration *ret_calibration)
{
	struct calibration c = {};
	char name[16];
	int used = 0;

	if (sscanf(line, "%15s at %llu spread %" SCNu32 ":%n", name, &c.price.at_ns,
		    &c.spread, &used) != 3 ||
		!used || strcmp(name, link_mode_name(mode)) != 0)
		return false;
	for (int site = 0; site < PRICE_SITES; site++)
		for (int end = 0; end < PRICE_ENDS; end++) {
			line += used;
			if (sscanf(line, " %" SCNu32 " %" SCNu32 "%n",
				    &c.price.overhead_ns[site][end],
				    &c.price.whole_ns[site][end], &used) != 2)
				return false;
		}
	*ret_calibration = c;
	return c.price.at_ns;
}

void calibration_write(enum link_mode mode, const struct calibration *calibration)
{
	char text[ARRAY_SIZE(modes) * LINE_MAX_LEN] = "";
	struct calibration other;

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		char *line = text + strlen(text);

		if (modes[i] == mode)
			line_write(line, mode, calibration);
		else if (calibration_read(modes[i], &other))
			line_write(line, modes[i], &other);
	}
	bootcache_write(CALIBRATION_CACHE, text);
}

bool calibration_read(enum link_mode mode, struct calibration *ret_calibration)
{
	_cleanup_free_ char *text = bootcache_read(CALIBRATION_CACHE);

	for (const char *line = text; line && *line; line++) {
		if (line_read(line, mode, ret_calibration))
			return true;
		line += strcspn(line, "\n");
		if (!*line)
			break;
	}
	return false;
}
