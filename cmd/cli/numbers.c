// SPDX-License-Identifier: BSD-2-Clause
// Numbers and seconds on the command line.
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "cli/numbers.h"

uint64_t number_parse(struct argp_state *state, const char *option, const char *arg,
	uint64_t min, uint64_t max)
{
	unsigned long long n;
	char *end;

	errno = 0;
	n = strtoull(arg, &end, 10);
	if (!isdigit((unsigned char)arg[0]) || *end || errno || n < min || n > max)
		argp_error(state, "%s '%s' is not a number from %llu to %llu", option, arg,
			(unsigned long long)min, (unsigned long long)max);
	return n;
}

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
