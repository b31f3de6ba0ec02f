// SPDX-License-Identifier: BSD-2-Clause
/* Durations as people write them. */
#include "base/text.h"

#include <errno.h>

#include "base/util.h"
#include "tap.h"

static void test_durations(void)
{
	static const struct {
		const char *text;
		uint64_t ns;
		const char *back;
	} good[] = {
		{ "0ns", 0, "0ns" },
		{ "250ns", 250, "250ns" },
		{ "5ms", 5000000, "5ms" },
		{ "1.5s", 1500000000, "1.5s" },
		{ "0.000000001s", 1, "1ns" },
		{ "1234567ns", 1234567, "1.235ms" },
		{ "999999.6us", 999999600, "1s" },
		{ "999.9996us", 0, NULL },
		{ "12µs", 12000, "12us" },
		{ "9223372036854775807ns", INT64_MAX, "9223372036.855s" },
		{ "100s", 100000000000, "100s" },
	};
	static const struct {
		const char *text, *msg;
	} bad[] = {
		{ "", "'' is not a duration (a number with ns, us, ms, s, m or h)" },
		{ "ms", "'ms' is not a duration (a number with ns, us, ms, s, m or h)" },
		{ "5", "'5' has no unit (ns, us, ms, s, m or h)" },
		{ "5 ms", "'5 ms' is not a duration (a number with ns, us, ms, s, m or h)" },
		{ "-5ms", "'-5ms' is not a duration (a number with ns, us, ms, s, m or h)" },
		{ "5.ms", "'5.ms' is not a duration (a number with ns, us, ms, s, m or h)" },
		{ ".5ms", "'.5ms' is not a duration (a number with ns, us, ms, s, m or h)" },
		{ "5d", "'5d' is not a duration (a number with ns, us, ms, s, m or h)" },
		{ "1.5ns", "'1.5ns' is finer than a nanosecond" },
		{ "9223372036854775808ns", "'9223372036854775808ns' is too long a time" },
		{ "9223372037s", "'9223372037s' is too long a time" },
		{ "99999999999999999999s", "'99999999999999999999s' is too long a time" },
	};
	char buf[DURATION_LEN], what[64];

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct err err = { 0 };
		uint64_t ns = 77;
		int rc = duration_parse(good[i].text, &ns, &err);

		if (!good[i].back) {
			is_str(err.msg, "'999.9996us' is finer than a nanosecond",
				"digits below a nanosecond are refused");
			continue;
		}
		snprintf(what, sizeof(what), "duration '%s' is read", good[i].text);
		is_int(rc ? -1 : (int64_t)ns, (int64_t)good[i].ns, what);
		snprintf(what, sizeof(what), "duration '%s' is written", good[i].text);
		is_str(duration_format(good[i].ns, buf), good[i].back, what);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct err err = { 0 };
		uint64_t ns = 77;
		int rc = duration_parse(bad[i].text, &ns, &err);

		snprintf(what, sizeof(what), "duration '%s' is refused", bad[i].text);
		is_str(rc == -EINVAL && ns == 77 ? err.msg : "(accepted)", bad[i].msg,
			what);
	}
}

int main(void)
{
	test_durations();
	return tap_done();
}
