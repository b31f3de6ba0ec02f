// SPDX-License-Identifier: BSD-2-Clause
// Texts of Python's code, as processes may have them.
#include "unwind/python.h"

#include <stdlib.h>
#include <string.h>

#include "tap.h"

static void is(const void *chars, size_t len, unsigned int kind, const char *wanted, const char *what)
{
	char *text = python_text(chars, len, kind);

	ok(text && !strcmp(text, wanted), "%s", what);
	free(text);
}

int main(void)
{
	static const uint16_t two[] = { 'a', 0x20ac, 0 };
	static const uint32_t four[] = { 0x1f600, 0x10ffff, 0x110000, 0xffffffff };

	is("caf\xe9", 4, 1, "caf\xc3\xa9", "Latin-1 is UTF-8");
	is("\0ab\0", 4, 1, "\xef\xbf\xbd" "ab\xef\xbf\xbd", "a zero ends no text");
	is(two, 3, 2, "a\xe2\x82\xac\xef\xbf\xbd", "nor one of two bytes");
	is(four, 4, 4, "\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf\xef\xbf\xbd\xef\xbf\xbd",
		"what is beyond Unicode is no character");
	is("", 0, 1, "", "no characters are an empty text");
	return tap_done();
}
