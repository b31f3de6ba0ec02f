/* SPDX-License-Identifier: BSD-2-Clause */
/* Text: characters, names of groups, patterns, strings held once, near names, durations. */
#pragma once

#include <regex.h>

#include "base/err.h"
#include "base/util.h"

/* --- UTF-8 and control characters: printable text and character boundaries ------------------ */

/* True if @c is a continuation byte. */
static inline bool utf8_goes_on(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* Returns the length of a character that starts with @c; 0: invalid first byte. */
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
 * Returns the length of the UTF-8 character at @str (Unicode 15, table 3-7), of which @room bytes
 * can be read, at least one; 0 if it is invalid.
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
	/* Overlong forms, surrogates, and code points above U+10FFFF. */
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
		(s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return len;
}

/*
 * True if the character at @str, of @len bytes, is a control character: an ASCII one, or U+0080 to
 * U+009F, which also control some terminals.
 */
static inline bool utf8_is_control(const void *str, size_t len)
{
	const unsigned char *s = str;

	return len == 1 ? *s < 0x20 || *s == 0x7f : len && *s == 0xc2 && s[1] < 0xa0;
}

/*
 * True if the character at @str, of @len bytes, changes the direction of adjacent text (Unicode 15,
 * Bidi_Control) or separates lines. On a terminal it can make a name look like another one.
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
 * Returns 0 if @name is valid for a group: 1 to 32 letters, digits, _ and -, starting with a letter
 * or digit, except functions, presets, inflight, targets, allocations, crashes, help, all.
 * Otherwise -EINVAL.
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

/* True if @text has a character that is special in a glob: * ? [ */
bool pattern_is_glob(const char *text);

/*
 * Compiles @text. A glob matches complete names, a regular expression (POSIX extended) any part of
 * them. Returns -EINVAL with the reason. The caller frees @p with pattern_done().
 */
_must_check_ int pattern_init(
	struct pattern *p, enum pattern_kind kind, const char *text, struct err *err);
void pattern_done(struct pattern *p);

bool pattern_match(const struct pattern *p, const char *name);

/*
 * Matches a glob in at most strlen(glob) * strlen(name) steps: '*' any characters, '?' one byte,
 * [abc] [a-z] [!abc] a set ('[' without an end is literal), '\' makes the next one literal.
 */
bool pattern_glob(const char *glob, const char *name);

#define _cleanup_pattern_ __cleanup(pattern_done)

/* Adds @size bytes to a hash, which starts as HASH_BEGIN (FNV-1a). Not safe against attacks. */
#define HASH_BEGIN 0xcbf29ce484222325ULL
uint64_t hash_add(uint64_t hash, const void *bytes, size_t size);

/* --- a table of strings, to which the maps of a group refer by offset ----------------------- */

struct strtab {
	char *buf;     /* strings with their zero bytes, the empty one first */
	size_t len;
	uint32_t *slot; /* hash table of offsets + 1 */
	size_t slot_cnt, used;
};

/* Returns the offset of @str in the table, and adds it if it is new; NULL counts as "". */
uint32_t strtab_add(struct strtab *t, const char *str);
void strtab_done(struct strtab *t);

/* Returns the string at @offset of @buf, or "" if it is not completely inside. */
const char *strtab_at(const char *buf, size_t len, uint32_t offset);

/* --- similar names for one that was not found, for hints ------------------------------------ */

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
 * Offers a name: kept if it is among the nearest and near enough. That is an edit distance,
 * ignoring case, of at most a quarter of the length, or that one name contains the other.
 * The wanted name itself is skipped. @where is printed as "NAME in WHERE"; it can be NULL.
 */
void suggest_offer(struct suggest *s, const char *name, const char *where);

/* Returns the edit distance of two names, or ~0u if it is over a quarter of the length. */
unsigned int suggest_distance(const char *wanted, const char *name);
/* Offers a name as if it had that distance; ~0u: not at all. */
void suggest_offer_at(struct suggest *s, const char *name, unsigned int score, const char *where);

/* True if the nearest name differs in so few letters that a typing error is likely. */
bool suggest_is_near(const struct suggest *s);

/* Writes "did you mean 'a', 'b' in x or 'c'" to @buf. Returns the length, 0 if there is none. */
size_t suggest_text(const struct suggest *s, char *buf, size_t size);

/*
 * Sets the hint to those of @words (NULL-terminated) that are similar to @wanted. False if none is.
 */
bool suggest_hint(struct err *err, const char *wanted, const char *const *words);

/* --- durations and sizes as people write them ------------------------------------------------ */

/*
 * Parses "250ns", "5ms", "1.5s"; "µs" is accepted as us. A fraction is exact to the nanosecond.
 * Returns -EINVAL, with the reason in @err, for smaller digits, a missing unit, a sign, blanks, and
 * values above 2^63 - 1 ns. *ret_ns is written only on success.
 */
int duration_parse(const char *text, uint64_t *ret_ns, struct err *err);

#define DURATION_LEN 32

/*
 * Formats @ns: the largest unit in which the value is at least 1, at most three digits after the
 * point, rounded ("999ns", "1.235ms", "2s"). Returns @buf.
 */
const char *duration_format(uint64_t ns, char buf[DURATION_LEN]);

/*
 * Parses a size in bytes: "4096", or in powers of 1024 "64K", "1M", "2G", "1T". Returns 0 or
 * -EINVAL.
 */
int size_parse(const char *text, uint64_t *ret_bytes);
