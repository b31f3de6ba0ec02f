// SPDX-License-Identifier: BSD-2-Clause
// Seconds on the command line.
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "duration.h"
#include "seconds.h"

uint64_t seconds_parse(struct argp_state *state, const char *option, const char *arg)
{
	char text[64];
	size_t len = strlen(arg);
	bool bare = len && (isdigit((unsigned char)arg[len - 1]) || arg[len - 1] == '.');
	uint64_t ns = 0;

	snprintf(text, sizeof(text), "%s%s", arg, bare ? "s" : "");
	if (len > 32 || duration_parse(text, &ns, NULL))
		argp_error(state, "%s '%s' is not a number of seconds", option, arg);
	else if (ns < 1000000 || ns > 1000000000000000ULL)
		argp_error(state, "%s '%s' is not between 1 ms and 11 days", option, arg);
	return ns;
}
