// SPDX-License-Identifier: BSD-2-Clause
/* Names of functions that are too long for a column. */
#include "show/text.h"

#include <stdlib.h>

#include "../tap.h"
#include "base/util.h"

#define COLUMNS 32

static void is_short(const char *name, const char *want, const char *what)
{
	char *text;

	text_shorten(&name, 1, COLUMNS, &text);
	is_str(text, want, what);
	free(text);
}

static void test_middle(void)
{
	is_short("f(int)", NULL, "a name that fits stays as it is");
	is_short("std::vector<unsigned long long, std::allocator<int>>::push_back",
		"std::vector<un...nt>>::push_back", "template arguments are cut, and what follows stays");
	is_short("ns::call(unsigned long, std::string const&, int) const",
		"ns::call(unsigne...&, int) const", "parameters are cut, and what follows stays");
	is_short("a_name_in_c_that_is_longer_than_a_column", "a_name_in_c_that_is_longer_th...",
		"a name without a list is cut at its end");
}

/* Names of different functions are different in one table, and none is too long. */
static void is_distinct(const char *const *names, size_t cnt, size_t width, const char *what)
{
	char *text[64];
	size_t alike = 0, wide = 0;

	text_shorten(names, cnt, width, text);
	for (size_t i = 0; i < cnt; i++) {
		const char *x = text[i] ? text[i] : names[i];

		wide += text_columns(x) > width;
		for (size_t k = 0; k < i; k++)
			alike += !strcmp(x, text[k] ? text[k] : names[k]) &&
				strcmp(names[i], names[k]) != 0;
	}
	is_int(alike, 0, what);
	is_int(wide, 0, "and no name is wider than the column");
	for (size_t i = 0; i < cnt; i++)
		free(text[i]);
}

static void test_distinct(void)
{
	static const char *const overloads[] = {
		"ns::queue<message, std::allocator<message>>::push(message const&, unsigned int, bool)",
		"ns::queue<message, std::allocator<message>>::push(message const&, unsigned long, bool)",
		"ns::queue<message, std::allocator<message>>::push(message const&, signed char, bool)",
		"ns::queue<message, std::allocator<message>>::push(message const&, unsigned int, bool)",
		"ns::queue<message, std::allocator<message>>::push(message const&, double, bool)",
	};
	static const char *const rust[] = {
		"<alloc::vec::Vec<core::option::Option<u8>> as core::iter::Extend<u8>>::extend::<A>",
		"<alloc::vec::Vec<core::option::Option<u8>> as core::iter::Extend<u8>>::extend::<B>",
		"<alloc::vec::Vec<core::option::Option<u16>> as core::iter::Extend<u8>>::extend::<B>",
	};
	char many[64][100];
	const char *names[64];

	for (size_t i = 0; i < ARRAY_SIZE(many); i++) {
		snprintf(many[i], sizeof(many[i]), "f<%s%c%s%c%s>()", "aaaaaaaaaaaaaaaaaaaaaaaaaaaa",
			(char)('0' + i / 8), "bbbbbbbbbbbbbbbbbbbbbbbbb", (char)('0' + i % 8),
			"cccccccccccccccccccccccccccccc");
		names[i] = many[i];
	}
	for (size_t width = 14; width <= 60; width += 23) {
		is_distinct(overloads, ARRAY_SIZE(overloads), width, "overloads differ");
		is_distinct(rust, ARRAY_SIZE(rust), width, "instances of a Rust function differ");
		is_distinct(names, ARRAY_SIZE(names), width, "64 instances of a template differ");
	}
}

int main(void)
{
	setenv("LC_ALL", "C", 1);
	test_middle();
	test_distinct();
	return tap_done();
}
