// SPDX-License-Identifier: BSD-2-Clause
// Demangled names as text: comparing what people type with what the demangler writes.
#include <ctype.h>
#include <string.h>

#include "internal.h"

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (c & 0x80);
}

/* What ends at @end is "operator", so that what follows is its sign. */
static bool after_operator(const char *start, const char *end)
{
	static const char word[] = "operator";
	const size_t len = sizeof(word) - 1;

	while (end > start && strchr("<>=-+!~^&|*/%,([", end[-1]))
		end--;
	return (size_t)(end - start) >= len && memcmp(end - len, word, len) == 0 &&
		((size_t)(end - start) == len || !is_word(*(end - len - 1)));
}

/* Past the bracket that closes the one at @p, or NULL. */
static const char *skip_group(const char *p)
{
	int depth = 0;

	for (; *p; p++) {
		if (strchr("(<[{", *p)) {
			depth++;
		} else if (strchr(")>]}", *p)) {
			if (*p == '>' && p[-1] == '-') /* Rust's and operator's -> */
				continue;
			if (!--depth)
				return p + 1;
		}
	}
	return NULL;
}

void text_normalize(const char *text, char *out)
{
	const char *p = text, *end;
	char last = '\0';

	while (*p) {
		if (*p == '[' && strncmp(p, "[abi:", 5) == 0 && (end = strchr(p, ']'))) {
			p = end + 1;
			continue;
		}
		if (*p == ' ') {
			p += strspn(p, " ");
			if (!is_word(last) || !is_word(*p))
				continue;
			*out++ = last = ' ';
			continue;
		}
		*out++ = last = *p++;
	}
	*out = '\0';
}

bool text_drop_templates(const char *text, char *out)
{
	const char *p = text, *end;
	bool dropped = false;

	while (*p) {
		/* "<T as Trait>::f" of Rust begins with one: that is no argument list */
		if (*p == '<' && p > text && is_word(p[-1]) && !after_operator(text, p) &&
			(end = skip_group(p))) {
			p = end;
			dropped = true;
			continue;
		}
		*out++ = *p++;
	}
	*out = '\0';
	return dropped;
}

void text_drop_qualifiers(char *text)
{
	char *close = strrchr(text, ')');

	if (close)
		close[1] = '\0';
}

bool text_has_args(const char *text)
{
	static const char anonymous[] = "(anonymous namespace)";
	const char *p = text;

	while ((p = strchr(p, '('))) {
		if (strncmp(p, anonymous, sizeof(anonymous) - 1) == 0) {
			p += sizeof(anonymous) - 1;
			continue;
		}
		if (p[1] == ')' && after_operator(text, p)) {
			p += 2;
			continue;
		}
		return true;
	}
	return false;
}

bool text_is_qualified(const char *text, bool regex)
{
	if (regex)
		return strstr(text, "::") || strstr(text, "\\(") || strchr(text, ' ');
	return strstr(text, "::") || strpbrk(text, "(<{ ~") ||
		strncmp(text, "operator", 8) == 0;
}

/* Words that the mangled form abbreviates, or that are no name. */
static bool is_unreliable(const char *p, size_t len)
{
	static const char *const words[] = { "std", "string", "allocator", "basic_string",
		"istream", "ostream", "iostream", "basic_istream", "basic_ostream",
		"basic_iostream", "operator", "impl", "const", "_GLOBAL__N_1" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strlen(words[i]) == len && memcmp(words[i], p, len) == 0)
			return true;
	}
	return false;
}

/* The word at @p without a last character that a quantifier makes optional. */
static size_t word_length(const char *p, bool regex)
{
	size_t len = 0;

	while (is_word(p[len]))
		len++;
	if (regex && p[len] && strchr("*?{", p[len]))
		len--;
	return len;
}

struct ident text_ident(const char *text, bool regex, bool whole)
{
	struct ident best = { 0 }, second = { 0 };
	const char *p = text, *end;

	if (regex && strchr(text, '|'))
		return best;
	while (*p) {
		size_t len;

		if (*p == '\\' && p[1]) {
			p += 2;
			continue;
		}
		if (strchr("(<[{", *p)) {
			end = skip_group(p);
			if (!end) /* what follows may be inside of it */
				break;
			p = end;
			continue;
		}
		if (!is_word(*p)) {
			p++;
			continue;
		}
		len = word_length(p, regex);
		end = p + len + strspn(p + len, " ");
		if (len == 8 &&
			memcmp(p, "operator", 8) == 0) { /* up to its scope's end */
			p = strstr(p, "::");
			if (!p)
				break;
			continue;
		}
		if (len && !is_unreliable(p, len)) {
			/* Rust's "Vec<T>" is one word in the mangled name */
			struct ident *slot = whole && *end == '<' ? &second : &best;

			if (len >= slot->len)
				*slot = (struct ident) { .p = p, .len = len };
		}
		p += len ? len : 1;
		while (is_word(*p))
			p++;
	}
	return best.len ? best : second;
}
