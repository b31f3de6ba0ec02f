// SPDX-License-Identifier: BSD-2-Clause
// JSON, value by value into a buffer.
#include "base/json.h"

#include <stdarg.h>
#include <stdio.h>

void json_line(struct json *j)
{
	out_char(j->out, '\n');
	out_pad(j->out, j->out->len, (size_t)j->depth * 2);
}

void json_open(struct json *j, char bracket)
{
	json_value(j);
	out_char(j->out, bracket);
	j->depth++;
	j->place = JSON_FIRST;
}

void json_close(struct json *j, char bracket)
{
	j->depth--;
	/* What is empty takes two lines: it has always been so. */
	if (j->pretty)
		json_line(j);
	out_char(j->out, bracket);
	j->place = JSON_NEXT;
}

void json_null(struct json *j)
{
	json_value(j);
	out_str(j->out, "null");
}

void json_bool(struct json *j, bool value)
{
	json_value(j);
	out_str(j->out, value ? "true" : "false");
}

void json_u64(struct json *j, uint64_t value)
{
	json_value(j);
	out_u64(j->out, value);
}

void json_i64(struct json *j, int64_t value)
{
	json_value(j);
	out_i64(j->out, value);
}

void json_str_len(struct json *j, const char *value, size_t len)
{
	json_value(j);
	if (j->letters)
		out_json_letters(j->out, value, len);
	else
		out_json(j->out, value, len);
}

void json_str(struct json *j, const char *value)
{
	if (value)
		json_str_len(j, value, SIZE_MAX);
	else
		json_null(j);
}

void json_real(struct json *j, const char *fmt, ...)
{
	char text[64];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	json_value(j);
	out_str(j->out, text);
}

void json_set_open(struct json *j, const char *key, char bracket)
{
	json_key(j, key);
	json_open(j, bracket);
}

void json_set_null(struct json *j, const char *key)
{
	json_key(j, key);
	json_null(j);
}

void json_set_bool(struct json *j, const char *key, bool value)
{
	json_key(j, key);
	json_bool(j, value);
}

void json_set_u64(struct json *j, const char *key, uint64_t value)
{
	json_key(j, key);
	json_u64(j, value);
}

void json_set_i64(struct json *j, const char *key, int64_t value)
{
	json_key(j, key);
	json_i64(j, value);
}

void json_set_str(struct json *j, const char *key, const char *value)
{
	json_key(j, key);
	json_str(j, value);
}

void json_set_u64_if(struct json *j, const char *key, bool known, uint64_t value)
{
	json_key(j, key);
	if (known)
		json_u64(j, value);
	else
		json_null(j);
}

/* No string has a line's end in it: behind each comes more indentation. */
void json_embed(struct json *j, const struct out *doc)
{
	json_value(j);
	for (size_t i = 0; i < doc->len; i++)
		if (doc->buf[i] == '\n')
			json_line(j);
		else
			out_char(j->out, doc->buf[i]);
	j->out->failed |= doc->failed;
}
