// SPDX-License-Identifier: BSD-2-Clause
/* Durations as people write them: a number with ns, us, ms or s. */
#include "base/duration.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

static const struct unit {
	const char *name;
	uint64_t ns;
} units[] = {
	{ "s", 1000000000 },
	{ "ms", 1000000 },
	{ "us", 1000 },
	{ "µs", 1000 },
	{ "ns", 1 },
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Adds the next digit; false when the sum exceeds 2^63 - 1. */
static bool add_digit(uint64_t *sum, char digit)
{
	if (__builtin_mul_overflow(*sum, 10, sum) ||
		__builtin_add_overflow(*sum, (uint64_t)(digit - '0'), sum))
		return false;
	return *sum <= INT64_MAX;
}

/* The digits after the point, in ns; 0, or -1 when they are finer than a nanosecond. */
static int read_fraction(
	const char *p, const char *end, uint64_t unit_ns, uint64_t *ret_ns)
{
	uint64_t ns = 0;

	for (; p < end; p++) {
		if (unit_ns % 10 && *p != '0')
			return -1;
		unit_ns /= 10;
		ns += unit_ns * (uint64_t)(*p - '0');
	}
	*ret_ns = ns;
	return 0;
}

static int not_duration(struct err *err, const char *text)
{
	return err_set(err, -EINVAL,
		"'%s' is no duration (a number with ns, us, ms or s)", text);
}

int duration_parse(const char *text, uint64_t *ret_ns, struct err *err)
{
	const char *p = text, *frac = NULL, *frac_end = NULL;
	uint64_t whole = 0, part = 0, ns;
	size_t i;

	for (; is_digit(*p); p++)
		if (!add_digit(&whole, *p))
			return err_set(err, -EINVAL, "'%s' is too long a time", text);
	if (p == text)
		return not_duration(err, text);
	if (*p == '.') {
		for (frac = ++p; is_digit(*p); p++)
			;
		frac_end = p;
		if (frac == frac_end)
			return not_duration(err, text);
	}
	for (i = 0; i < ARRAY_SIZE(units); i++)
		if (!strcmp(p, units[i].name))
			break;
	if (i == ARRAY_SIZE(units) && !*p)
		return err_set(err, -EINVAL, "'%s' has no unit (ns, us, ms or s)", text);
	if (i == ARRAY_SIZE(units))
		return not_duration(err, text);
	if (frac && read_fraction(frac, frac_end, units[i].ns, &part))
		return err_set(err, -EINVAL, "'%s' is finer than a nanosecond", text);
	if (__builtin_mul_overflow(whole, units[i].ns, &ns) || ns > INT64_MAX - part)
		return err_set(err, -EINVAL, "'%s' is too long a time", text);
	*ret_ns = ns + part;
	return 0;
}

const char *duration_format(uint64_t ns, char buf[DURATION_LEN])
{
	static const struct unit out[] = {
		{ "ns", 1 },
		{ "us", 1000 },
		{ "ms", 1000000 },
		{ "s", 1000000000 },
	};
	uint64_t whole = ns, milli = 0;
	size_t u;

	for (u = 0; u + 1 < ARRAY_SIZE(out); u++) {
		uint64_t unit = out[u].ns, third = unit / 1000;

		/* Rounded to what is printed, so that 999.9996 us is 1ms. */
		whole = ns / unit;
		milli = third ? (ns % unit + third / 2) / third : 0;
		if (whole + milli / 1000 < 1000)
			break;
	}
	if (u + 1 == ARRAY_SIZE(out)) {
		whole = ns / out[u].ns;
		milli = (ns % out[u].ns + 500000) / 1000000;
	}
	whole += milli / 1000;
	milli %= 1000;
	snprintf(buf, DURATION_LEN, "%" PRIu64 ".%03" PRIu64, whole, milli);
	for (char *p = buf + strlen(buf) - 1; *p == '0' || *p == '.'; p--) {
		bool point = *p == '.';

		*p = '\0';
		if (point)
			break;
	}
	strcat(buf, out[u].name);
	return buf;
}

int size_parse(const char *text, uint64_t *ret_bytes)
{
	static const char sizes[] = "KMGT";
	unsigned long long n;
	const char *unit;
	char *end;

	errno = 0;
	n = strtoull(text, &end, 10);
	unit = *end ? strchr(sizes, *end) : NULL;
	for (const char *u = sizes; unit && u <= unit && !errno; u++) {
		errno = n >> 54 ? ERANGE : 0;
		n <<= 10;
	}
	if (*text < '0' || *text > '9' || errno || end[unit != NULL])
		return -EINVAL;
	*ret_bytes = n;
	return 0;
}
