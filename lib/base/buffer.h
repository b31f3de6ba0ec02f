/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Output that is built in memory and written in large pieces, for up to a million lines a second.
 * Memory is only allocated when the buffer grows. Also JSON and protocol buffers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Starts as all zeros. After writing a piece, the owner sets .len to 0 and continues. */
struct out {
	char *buf;
	size_t len, size;
};

/* Enlarges the buffer if out_room() needs more space. */
char *out_grow(struct out *o, size_t size);

/* Returns space for @size more bytes at .buf + .len; the caller adds the number used to .len. */
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
__attribute__((format(printf, 2, 3))) void out_printf(struct out *o, const char *fmt, ...);

/* Adds spaces, until there are @width bytes since .len was @from. */
void out_pad(struct out *o, size_t from, size_t width);

/* RFC 3339 in UTC, with nanoseconds: "2026-11-20T12:00:00.000000001Z". */
void out_time(struct out *o, uint64_t realtime_ns);

/*
 * True if terminals of this locale show UTF-8: by the first of LC_ALL, LC_CTYPE, LANG that is set.
 */
bool locale_is_utf8(void);

/*
 * Adds at most @len bytes of @str for a terminal, escaped as by text_escape(). If the locale is not
 * UTF-8, also escapes everything that is not ASCII; see utf8_is_layout().
 */
void out_escaped(struct out *o, const char *str, size_t len);

/* Adds at most @len bytes of @str as a quoted JSON string, whose text is that of out_utf8(). */
void out_json(struct out *o, const char *str, size_t len);

/* Adds @str with each byte that is not UTF-8 as "\xNN". */
void out_utf8(struct out *o, const char *str);

void out_done(struct out *o);

/* --- JSON, value by value: only the part that is not yet printed needs memory --------------- */

enum json_place {
	JSON_FIRST, /* first value of its array or object */
	JSON_NEXT,  /* after a value */
	JSON_KEYED, /* after a key */
};

/* Starts as zeros, except .out and the format. */
struct json {
	struct out *out;
	bool pretty;  /* each value on a line of its own, indented by depth */
	bool letters; /* "\n" where control characters have a letter, else "\u000a" */
	unsigned int depth;
	enum json_place place; /* of the next value */
};

/* Adds the newline and the indentation of the next value. */
void json_line(struct json *j);

/* Adds the separator between two values. */
static inline void json_separate(struct json *j)
{
	if (j->place == JSON_NEXT)
		out_char(j->out, ',');
	if (j->pretty && j->depth)
		json_line(j);
}

/* Starts a value, which the caller writes to .out. */
static inline void json_value(struct json *j)
{
	if (j->place != JSON_KEYED && j->depth)
		json_separate(j);
	j->place = JSON_NEXT;
}

/*
 * Adds a key before a value of an object. @key is plain ASCII without quotes. A literal is copied
 * as words of known length, because keys are half of the output of stream.
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

/* Add '{' or '[', and the matching end. */
void json_open(struct json *j, char bracket);
void json_close(struct json *j, char bracket);

/* Add values, strings as by out_json(); NULL becomes null. */
void json_null(struct json *j);
void json_bool(struct json *j, bool value);
void json_u64(struct json *j, uint64_t value);
void json_str(struct json *j, const char *value);
void json_str_len(struct json *j, const char *value, size_t len);
__attribute__((format(printf, 2, 3))) void json_real(
	struct json *j, const char *fmt, ...);

/* Same in an object, each after its key. */
void json_set_open(struct json *j, const char *key, char bracket);
void json_set_null(struct json *j, const char *key);
void json_set_bool(struct json *j, const char *key, bool value);
void json_set_u64(struct json *j, const char *key, uint64_t value);
void json_set_i64(struct json *j, const char *key, int64_t value);
void json_set_hex(struct json *j, const char *key, uint64_t value); /* the text "0x1f" */
void json_set_str(struct json *j, const char *key, const char *value);
/* Unknown values are null, not 0. */
void json_set_u64_if(struct json *j, const char *key, bool known, uint64_t value);

/* --- messages of protocol buffers, which pprof and Perfetto read ------------------------------ */

/* Adds a number without a field: one element of a packed field. */
void proto_varint(struct out *o, uint64_t n);

/* Add field @field of the open message. A negative number is passed as its 64-bit complement. */
void proto_u64(struct out *o, unsigned int field, uint64_t n);
void proto_double(struct out *o, unsigned int field, double x);
void proto_bytes(struct out *o, unsigned int field, const char *bytes, size_t len);
void proto_str(struct out *o, unsigned int field, const char *text);

/*
 * Starts a message, or other bytes of unknown length, as field @field. Returns its offset in @o for
 * proto_close(), which adds the length.
 */
size_t proto_open(struct out *o, unsigned int field);
void proto_close(struct out *o, size_t at);
