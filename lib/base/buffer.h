/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Output put together in memory and written in large pieces: for what comes a million times
 * a second. Nothing is allocated but when the buffer grows. And JSON on it.
 */
#ifndef FUNCSNOOP_BASE_BUFFER_H
#define FUNCSNOOP_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Begins as all zeroes. Between two pieces the owner sets .len to 0 and goes on. */
struct out {
	char *buf;
	size_t len, size;
	bool failed; /* never: to go with those that look */
};

/* Makes the buffer larger, as out_room() when there is too little. */
char *out_grow(struct out *o, size_t size);

/* Room for @size more bytes at .buf + .len, which the caller adds to .len. */
static inline char *out_room(struct out *o, size_t size)
{
	return o->size - o->len >= size && o->buf ? o->buf + o->len : out_grow(o, size);
}

static inline void out_mem(struct out *o, const char *str, size_t len)
{
	char *to = out_room(o, len);

	memcpy(to, str, len);
	o->len += len;
}

static inline void out_str(struct out *o, const char *str)
{
	out_mem(o, str, strlen(str));
}

static inline void out_char(struct out *o, char c)
{
	out_mem(o, &c, 1);
}

void out_u64(struct out *o, uint64_t v);
void out_i64(struct out *o, int64_t v);
void out_hex(struct out *o, uint64_t v); /* "0x1f" */

/* Spaces, until there are @width bytes since .len was @from. */
void out_pad(struct out *o, size_t from, size_t width);

/* RFC 3339 in UTC, with nanoseconds: "2026-11-20T12:00:00.000000001Z". */
void out_time(struct out *o, uint64_t realtime_ns);

/* Whether terminals of this locale show UTF-8: by LC_ALL, LC_CTYPE, LANG, the first that is set. */
bool locale_is_utf8(void);

/*
 * At most @len bytes of @str, for a terminal: as text_escape() does it, and where the locale is
 * not UTF-8 all that is not ASCII, too; see utf8_is_layout().
 */
void out_escaped(struct out *o, const char *str, size_t len);

/*
 * At most @len bytes of @str as a JSON string with its quotes; bytes that aren't UTF-8
 * become U+FFFD.
 */
void out_json(struct out *o, const char *str, size_t len);

void out_done(struct out *o);

/* --- JSON, value by value: a document takes no more memory than what is not yet printed ----- */

enum json_place {
	JSON_FIRST, /* of its array or object */
	JSON_NEXT,  /* a value stands before */
	JSON_KEYED, /* a key does */
};

/* Begins as zeroes but for .out and the manner of writing. */
struct json {
	struct out *out;
	bool pretty;  /* each value on a line of its own, indented by depth */
	bool letters; /* "\n" where control characters have a letter, else "\u000a" */
	unsigned int depth;
	enum json_place place; /* of what comes next */
};

/* The line and the indentation of the next value. */
void json_line(struct json *j);

/* What stands between two values. */
static inline void json_separate(struct json *j)
{
	if (j->place == JSON_NEXT)
		out_char(j->out, ',');
	if (j->pretty && j->depth)
		json_line(j);
}

/* Begins a value, which the caller writes into .out. */
static inline void json_value(struct json *j)
{
	if (j->place != JSON_KEYED && j->depth)
		json_separate(j);
	j->place = JSON_NEXT;
}

/*
 * Within an object, before each value. @key is plain ASCII without quotes. A literal is
 * copied as words of known length, which half of a stream's lines is made of.
 */
static inline __attribute__((always_inline)) void json_key(
	struct json *j, const char *key)
{
	size_t len = strlen(key);
	char *to, *start;

	if (j->pretty)
		json_separate(j);
	to = start = out_room(j->out, len + 5);
	if (j->place == JSON_NEXT && !j->pretty)
		*to++ = ',';
	*to++ = '"';
	memcpy(to, key, len);
	memcpy(to + len, "\": ", 3);
	j->out->len += to - start + len + 2 + j->pretty;
	j->place = JSON_KEYED;
}

/* '{' or '[', and what ends it. */
void json_open(struct json *j, char bracket);
void json_close(struct json *j, char bracket);

/* Values. Bytes of a string that are no UTF-8 become U+FFFD; NULL is null. */
void json_null(struct json *j);
void json_bool(struct json *j, bool value);
void json_u64(struct json *j, uint64_t value);
void json_str(struct json *j, const char *value);
void json_str_len(struct json *j, const char *value, size_t len);
__attribute__((format(printf, 2, 3))) void json_real(
	struct json *j, const char *fmt, ...);

/* The same in an object, each behind its key. */
void json_set_open(struct json *j, const char *key, char bracket);
void json_set_null(struct json *j, const char *key);
void json_set_bool(struct json *j, const char *key, bool value);
void json_set_u64(struct json *j, const char *key, uint64_t value);
void json_set_i64(struct json *j, const char *key, int64_t value);
void json_set_str(struct json *j, const char *key, const char *value);
/* What is not known is null, not 0. */
void json_set_u64_if(struct json *j, const char *key, bool known, uint64_t value);

/* A document that was written alone into @doc, in the same manner, as one value. */
void json_embed(struct json *j, const struct out *doc);

#endif
