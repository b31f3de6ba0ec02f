/* SPDX-License-Identifier: BSD-2-Clause */
/* UTF-8 and control characters: what may be shown, and where a character ends. */
#ifndef FUNCSNOOP_BASE_UTF8_H
#define FUNCSNOOP_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Whether @c is a byte of a character, but not the first. */
static inline bool utf8_goes_on(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* The length of a character that begins with @c; 0: none does. */
static inline size_t utf8_len_by(char c)
{
	unsigned char first = c;

	return first < 0x80                     ? 1
		: first >= 0xc2 && first < 0xe0 ? 2
		: first >= 0xe0 && first < 0xf0 ? 3
		: first >= 0xf0 && first < 0xf5 ? 4
						: 0;
}

/*
 * Length of the UTF-8 character at @str (Unicode 15, table 3-7), of which @room bytes may be
 * read, at least one; 0 when it is none.
 */
static inline size_t utf8_len(const void *str, size_t room)
{
	const unsigned char *s = str;
	size_t len = utf8_len_by(s[0]);

	if (len > room)
		return 0;
	for (size_t i = 1; i < len; i++)
		if (!utf8_goes_on(s[i]))
			return 0;
	/* Overlong forms, surrogates, and what lies beyond U+10FFFF. */
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
		(s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return len;
}

/*
 * Whether the character at @str, of @len bytes, is a control character: one of ASCII, or
 * U+0080 to U+009F, which steer some terminals, too.
 */
static inline bool utf8_is_control(const void *str, size_t len)
{
	const unsigned char *s = str;

	return len == 1 ? *s < 0x20 || *s == 0x7f : len && *s == 0xc2 && s[1] < 0xa0;
}

#endif
