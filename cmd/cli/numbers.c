// SPDX-License-Identifier: BSD-2-Clause
// Numbers, seconds and choices on the command line.
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "cli/numbers.h"
#include "group/access.h"

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

uid_t user_parse(struct argp_state *state, const char *option, const char *arg)
{
	uid_t uid = (uid_t)-1;
	gid_t gid = (gid_t)-1;
	struct err err = {};

	if (strchr(arg, ':'))
		argp_error(state, "%s '%s' is no user", option, arg);
	else if (access_parse_owner(arg, &uid, &gid, &err))
		argp_error(state, "%s: %s", option, err.msg);
	return uid;
}

/* The value that stands at *@at of an option's text or behind it; NULL at the end. */
static const char *next_value(const char **at, size_t *ret_len)
{
	const char *value = *at + strspn(*at, "|, ");

	if (*value == '(') /* a remark on the one before */
		value += strcspn(value, ")") + 1 + strlen(", ");
	if (!strncmp(value, "or ", 3))
		value += 3;
	*ret_len = strcspn(value, "|, ");
	*at = value + *ret_len;
	return *ret_len ? value : NULL;
}

static void refuse_choice(
	struct argp_state *state, const char *name, const char *values, const char *arg)
{
	const char *value, *next;
	size_t len, next_len;
	char text[256];
	int at = 0;

	value = next_value(&values, &len);
	for (bool first = true; value; value = next, len = next_len, first = false) {
		next = next_value(&values, &next_len);
		at += snprintf(text + at, sizeof(text) - at, "%s%.*s",
			first          ? ""
				: next ? ", "
				       : " or ",
			(int)len, value);
	}
	argp_error(state, "--%s is %s, not '%s'", name, text, arg);
}

unsigned int choice_parse(struct argp_state *state, const struct argp_option *options,
	int key, const char *arg)
{
	const struct argp_option *o = options;
	const char *values, *at, *value;
	unsigned int choice = 0;
	size_t len;

	while (o->key != key)
		o++;
	values = strchr(o->arg, '|') ? o->arg : strstr(o->doc, ": ") + 1;
	for (at = values; (value = next_value(&at, &len)); choice++)
		if (strlen(arg) == len && !memcmp(arg, value, len))
			return choice;
	refuse_choice(state, o->name, values, arg);
	return 0;
}
