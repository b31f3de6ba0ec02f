/* SPDX-License-Identifier: BSD-2-Clause */
/* Text: characters, names of groups, patterns, strings held once, near names, durations. */
#ifndef FUNCSNOOP_BASE_TEXT_H
#define FUNCSNOOP_BASE_TEXT_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/util.h"

/* --- UTF-8 and control characters: what may be shown, and where a character ends ------------ */

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

/*
 * Whether the character at @str, of @len bytes, turns the direction of what stands beside it
 * (Unicode 15, Bidi_Control) or parts lines: on a terminal it shows a name as another one.
 */
static inline bool utf8_is_layout(const void *str, size_t len)
{
	const unsigned char *s = str;

	if (len == 2)
		return s[0] == 0xd8 && s[1] == 0x9c;
	if (len != 3 || s[0] != 0xe2)
		return false;
	return s[1] == 0x80 ? s[2] == 0x8e || s[2] == 0x8f || (s[2] >= 0xa8 && s[2] <= 0xae)
			    : s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9;
}

/* --- names that groups may have ------------------------------------------------------------- */

#define GROUP_NAME_MAX 32

/*
 * 0 when @name may name a group: 1 to 32 letters, digits, _ and -, beginning with a letter
 * or digit, and none of functions, presets, inflight, targets,
 * allocations, help, all. Otherwise -EINVAL.
 */
int group_name_check(const char *name, struct err *err);

/* --- globs and regular expressions over names of functions ---------------------------------- */

enum pattern_kind { PATTERN_GLOB, PATTERN_REGEX };

struct pattern {
	enum pattern_kind kind;
	char *glob;     /* PATTERN_GLOB */
	regex_t regex;  /* PATTERN_REGEX */
	bool has_regex; /* .regex is compiled */
};

/* Whether @text has a character that is special in a glob: * ? [ */
bool pattern_is_glob(const char *text);

/*
 * Prepares @text; a glob matches whole names, a regular expression (POSIX extended)
 * anywhere in them. -EINVAL with the reason. End with pattern_done().
 */
_must_check_ int pattern_init(
	struct pattern *p, enum pattern_kind kind, const char *text, struct err *err);
void pattern_done(struct pattern *p);

bool pattern_match(const struct pattern *p, const char *name);

/*
 * Glob match in time of at most strlen(glob) * strlen(name): '*' any characters, '?' one
 * byte, [abc] [a-z] [!abc] a set ('[' without an end is itself), '\' takes the next one
 * literally.
 */
bool pattern_glob(const char *glob, const char *name);

#define _cleanup_pattern_ __cleanup(pattern_done)

/* --- a table of strings: what the maps of a group refer to by offset ------------------------ */

struct strtab {
	char *buf;     /* strings with their zero bytes, the empty one first */
	size_t len;
	uint32_t *slot; /* hash table of offsets + 1 */
	size_t slot_cnt, used;
};

/* Offset of @str in the table, added if it is new; NULL counts as "". */
uint32_t strtab_add(struct strtab *t, const char *str);
void strtab_done(struct strtab *t);

/* The string at @offset of @buf, or "" when it does not lie inside whole. */
const char *strtab_at(const char *buf, size_t len, uint32_t offset);

/* --- the names nearest to one that was not found, for hints --------------------------------- */

#define SUGGEST_MAX 3

struct suggest {
	const char *wanted;
	const char *prefix; /* before each name in the text, as "s:"; or NULL */
	size_t len;
	const char *names[SUGGEST_MAX]; /* nearest first; they belong to the caller */
	const char *where[SUGGEST_MAX]; /* a remark on each, or NULL */
	unsigned int score[SUGGEST_MAX];
	size_t cnt;
};

void suggest_init(struct suggest *s, const char *wanted);

/*
 * Offers a name: kept when it is among the nearest so far and near enough (edit distance
 * of at most a quarter of the length and one, letters' case aside; or one contains the other).
 * The wanted name itself is passed over. @where is shown as "NAME in WHERE", or is NULL.
 */
void suggest_offer(struct suggest *s, const char *name, const char *where);

/* Whether the nearest differs by so few letters that it is most likely a slip of the hand. */
bool suggest_is_near(const struct suggest *s);

/* "did you mean 'a', 'b' in x or 'c'" into @buf; the length, 0 when there is none. */
size_t suggest_text(const struct suggest *s, char *buf, size_t size);

/*
 * Sets the hint to those of @words (ends with NULL) that @wanted was perhaps meant to be;
 * false when none is near.
 */
bool suggest_hint(struct err *err, const char *wanted, const char *const *words);

/* --- durations and sizes as people write them ------------------------------------------------ */

/*
 * Reads "250ns", "5ms", "1.5s". A fraction is exact to the nanosecond; digits below that,
 * a missing unit, a sign, blanks, and what exceeds 2^63 - 1 ns are -EINVAL with @err
 * saying which. *ret_ns is written only on success. "µs" is taken for us.
 */
int duration_parse(const char *text, uint64_t *ret_ns, struct err *err);

#define DURATION_LEN 32

/*
 * Writes @ns for a reader: the largest unit that leaves at least 1, at most three digits
 * after the point, rounded ("999ns", "1.235ms", "2s"). Returns @buf.
 */
const char *duration_format(uint64_t ns, char buf[DURATION_LEN]);

/* A size in bytes: "4096", or by powers of 1024 "64K", "1M", "2G", "1T". -EINVAL. */
int size_parse(const char *text, uint64_t *ret_bytes);

#endif
