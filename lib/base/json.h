/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * JSON as it is written: value by value into a buffer, so that a document of any length
 * takes no more memory than what is not yet printed.
 */
#ifndef FUNCSNOOP_BASE_JSON_H
#define FUNCSNOOP_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

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
	if (!to)
		return;
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
void json_i64(struct json *j, int64_t value);
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
