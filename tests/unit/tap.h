/* SPDX-License-Identifier: BSD-2-Clause */
/* TAP output for unit tests: ok(), is_str(), is_int(), and tap_done() at the end. */
#ifndef FUNCSNOOP_TAP_H
#define FUNCSNOOP_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static unsigned int tap_tests, tap_failures;

/* One test; its name is a sentence. Returns @good. */
__attribute__((format(printf, 2, 3), unused)) static bool ok(
	bool good, const char *fmt, ...)
{
	va_list ap;

	printf("%sok %u - ", good ? "" : "not ", ++tap_tests);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	tap_failures += !good;
	return good;
}

/* Both may be NULL. */
__attribute__((unused)) static void is_str(
	const char *got, const char *want, const char *what)
{
	if (!ok(got && want ? !strcmp(got, want) : got == want, "%s", what))
		printf("# got:  %s\n# want: %s\n", got ? got : "(null)",
			want ? want : "(null)");
}

__attribute__((unused)) static void is_int(int64_t got, int64_t want, const char *what)
{
	if (!ok(got == want, "%s", what))
		printf("# got:  %lld\n# want: %lld\n", (long long)got, (long long)want);
}

/* Prints the plan; the exit status of main(). */
__attribute__((unused)) static int tap_done(void)
{
	printf("1..%u\n", tap_tests);
	return tap_failures != 0;
}

#endif
