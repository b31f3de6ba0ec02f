// SPDX-License-Identifier: BSD-2-Clause
/* Characters of UTF-8, and what is none. */
#include "base/text.h"

#include "base/util.h"
#include "tap.h"

static void test_len(void)
{
	static const struct {
		const char *bytes;
		size_t room, len;
		const char *what;
	} cases[] = {
		{ "a", 1, 1, "a letter" },
		{ "", 1, 1, "a zero byte" },
		{ "\x7f", 1, 1, "the last of ASCII" },
		{ "\xc2\x80", 2, 2, "the first of two bytes" },
		{ "\xdf\xbf", 2, 2, "the last of two bytes" },
		{ "\xe0\xa0\x80", 3, 3, "the first of three bytes" },
		{ "\xed\x9f\xbf", 3, 3, "the last before the surrogates" },
		{ "\xee\x80\x80", 3, 3, "the first behind them" },
		{ "\xef\xbf\xbf", 3, 3, "the last of three bytes" },
		{ "\xf0\x90\x80\x80", 4, 4, "the first of four bytes" },
		{ "\xf4\x8f\xbf\xbf", 4, 4, "the last of all" },
		{ "\x80", 1, 0, "a byte that goes on" },
		{ "\xbf", 1, 0, "the last such byte" },
		{ "\xc0\x80", 2, 0, "an overlong zero" },
		{ "\xc1\xbf", 2, 0, "an overlong letter" },
		{ "\xe0\x9f\xbf", 3, 0, "three bytes where two would do" },
		{ "\xed\xa0\x80", 3, 0, "the first surrogate" },
		{ "\xed\xbf\xbf", 3, 0, "the last surrogate" },
		{ "\xf0\x8f\xbf\xbf", 4, 0, "four bytes where three would do" },
		{ "\xf4\x90\x80\x80", 4, 0, "what lies beyond the last" },
		{ "\xf5\x80\x80\x80", 4, 0, "a byte that begins nothing" },
		{ "\xff", 1, 0, "another" },
		{ "\xc3", 1, 0, "two bytes cut to one" },
		{ "\xe2\x82\xac", 2, 0, "three bytes cut to two" },
		{ "\xf0\x9f\x98\x80", 3, 0, "four bytes cut to three" },
		{ "\xc3z", 2, 0, "a letter where a byte should go on" },
		{ "\xe2\x82z", 3, 0, "the same at the third" },
		{ "\xf0\x9f\x98z", 4, 0, "the same at the fourth" },
		{ "\xc3\xa4z", 3, 2, "a character before another" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		ok(utf8_len(cases[i].bytes, cases[i].room) == cases[i].len,
			"%s: length %zu", cases[i].what, cases[i].len);
}

static void test_control(void)
{
	ok(utf8_is_control("\0", 1), "a zero byte is a control character");
	ok(utf8_is_control("\x1f", 1), "so is all below the space");
	ok(!utf8_is_control(" ", 1), "the space is none");
	ok(!utf8_is_control("~", 1), "nor is the tilde");
	ok(utf8_is_control("\x7f", 1), "delete is one");
	ok(utf8_is_control("\xc2\x80", 2), "the first of C1 is one");
	ok(utf8_is_control("\xc2\x9f", 2), "the last of C1 is one");
	ok(!utf8_is_control("\xc2\xa0", 2), "what follows is none");
	ok(!utf8_is_control("\xc3\x80", 2), "nor is a letter");
	ok(!utf8_is_control("\xe2\x82\xac", 3), "nor is a longer one");
	ok(utf8_is_layout("\xe2\x80\xae", 3), "U+202E turns what follows");
	ok(utf8_is_layout("\xe2\x81\xa6", 3), "U+2066 isolates it");
	ok(utf8_is_layout("\xe2\x80\x8f", 3), "U+200F is a mark of the same kind");
	ok(utf8_is_layout("\xd8\x9c", 2), "so is U+061C");
	ok(utf8_is_layout("\xe2\x80\xa8", 3), "U+2028 parts lines");
	ok(!utf8_is_layout("\xe2\x80\x8d", 3), "U+200D joins letters of names");
	ok(!utf8_is_layout("\xe2\x80\xaf", 3), "U+202F is a space");
	ok(!utf8_is_layout("\xe2\x81\xaa", 3), "U+206A is none of them");
	ok(!utf8_is_layout("\xe3\x80\xae", 3), "nor is a letter that ends alike");
}

int main(void)
{
	test_len();
	test_control();
	return tap_done();
}
