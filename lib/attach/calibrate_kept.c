// SPDX-License-Identifier: BSD-2-Clause
// What was measured, kept until the next boot.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "attach/attach.h"
#include "base/file.h"
#include "base/util.h"
#include "internal.h"

/*
 * A line for each kind of link and build: which of them, then overhead, whole, rest and run of each
 * class. A build is told by its programs, and by the code that they are timed on.
 */
#define CACHE        "calibration"
#define LINE_MAX_LEN 512
#define LINES_MAX    (BOOTCACHE_MAX / LINE_MAX_LEN - 1)
#define CODE_NO      3 /* one more when calibrate.c's code, or what is timed of it, is another */

/* "session of 1-0123456789abcdef at" */
static void line_begin(char *begin, size_t size, enum link_mode mode)
{
	snprintf(begin, size, "%s of %d-%016" PRIx64 " at", link_mode_name(mode), CODE_NO,
		engine_programs_id());
}

static size_t line_write(char *line, const char *begin, const struct calibration *c)
{
	size_t len = snprintf(line, LINE_MAX_LEN, "%s %llu spread %" PRIu32 ":", begin,
		c->price.at_ns, c->spread);

	for (int site = 0; site < PRICE_INSNS; site++)
		for (int end = 0; end < PRICE_ENDS; end++)
			len += snprintf(line + len, LINE_MAX_LEN - len,
				" %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32,
				c->price.overhead_ns[site][end],
				c->price.whole_ns[site][end], c->price.rest_ns[site][end],
				c->price.run_ns[site][end]);
	return len + snprintf(line + len, LINE_MAX_LEN - len, "\n");
}

static bool line_read(const char *line, const char *begin, struct calibration *ret_calibration)
{
	struct calibration c = {};
	int used = 0;

	if (strncmp(line, begin, strlen(begin)) != 0)
		return false;
	line += strlen(begin);
	if (sscanf(line, " %llu spread %" SCNu32 ":%n", &c.price.at_ns, &c.spread, &used) != 2 ||
		!used)
		return false;
	for (int site = 0; site < PRICE_INSNS; site++)
		for (int end = 0; end < PRICE_ENDS; end++) {
			line += used;
			if (sscanf(line, " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 "%n",
				    &c.price.overhead_ns[site][end],
				    &c.price.whole_ns[site][end],
				    &c.price.rest_ns[site][end],
				    &c.price.run_ns[site][end], &used) != 4)
				return false;
		}
	if (line[used] && line[used] != '\n')
		return false;
	*ret_calibration = c;
	return c.price.at_ns;
}

static const char *next_line(const char *line)
{
	line += strcspn(line, "\n");
	return *line ? line + 1 : line;
}

/* It stands first; what was kept longest is forgotten. */
void calibration_write(enum link_mode mode, const struct calibration *calibration)
{
	_cleanup_free_ char *old = bootcache_read(CACHE);
	char text[LINES_MAX * LINE_MAX_LEN + 1] = "", begin[64];
	size_t len, cnt = 1;

	line_begin(begin, sizeof(begin), mode);
	len = line_write(text, begin, calibration);
	for (const char *line = old; line && *line; line = next_line(line)) {
		size_t n = next_line(line) - line;

		if (n >= LINE_MAX_LEN || !strncmp(line, begin, strlen(begin)) ||
			cnt++ == LINES_MAX)
			continue;
		memcpy(text + len, line, n);
		len += n;
	}
	text[len] = '\0';
	bootcache_write(CACHE, text);
}

bool calibration_read(enum link_mode mode, struct calibration *ret_calibration)
{
	_cleanup_free_ char *text = bootcache_read(CACHE);
	char begin[64];

	line_begin(begin, sizeof(begin), mode);
	for (const char *line = text; line && *line; line = next_line(line))
		if (line_read(line, begin, ret_calibration))
			return true;
	return false;
}
