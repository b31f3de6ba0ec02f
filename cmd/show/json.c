// SPDX-License-Identifier: BSD-2-Clause
// What all JSON documents share: keys, strings that are UTF-8, writing, and errors.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "base/utf8.h"
#include "show/json.h"
#include "show/json_set.h"
#include "show/text.h"

static void out_of_memory(void)
{
	fprintf(stderr, "funcsnoop: out of memory\n");
	exit(EXIT_FAILED);
}

static struct json_object *made(struct json_object *value)
{
	if (!value)
		out_of_memory();
	return value;
}

struct json_object *json_new(void)
{
	return made(json_object_new_object());
}

void json_free(struct json_object **doc)
{
	json_object_put(*doc);
}

struct json_object *json_array(void)
{
	return made(json_object_new_array());
}

struct json_object *json_int(int64_t value)
{
	return made(json_object_new_int64(value));
}

struct json_object *json_flag(bool value)
{
	return made(json_object_new_boolean(value));
}

struct json_object *json_double(double value, const char *text)
{
	return made(json_object_new_double_s(value, text));
}

void json_add(struct json_object *array, struct json_object *value)
{
	if (json_object_array_add(array, value))
		out_of_memory();
}

void json_set(struct json_object *obj, const char *key, struct json_object *value)
{
	if (json_object_object_add(obj, key, value))
		out_of_memory();
}

/* A JSON text is UTF-8 (RFC 8259): bytes of names that are not become U+FFFD. */
struct json_object *json_str_len(const char *value, size_t size)
{
	const unsigned char *s = (const unsigned char *)value, *end = s + size;
	_cleanup_free_ char *out = malloc(size * 3 + 1);
	size_t at = 0, len;

	if (!out)
		out_of_memory();
	for (; s < end; s += len ? len : 1) {
		len = utf8_len(s, end - s);
		memcpy(out + at, len ? (const char *)s : "\xef\xbf\xbd", len ? len : 3);
		at += len ? len : 3;
	}
	return made(json_object_new_string_len(out, (int)at));
}

struct json_object *json_str(const char *value)
{
	return json_str_len(value, strlen(value));
}

void json_set_str(struct json_object *obj, const char *key, const char *value)
{
	json_set(obj, key, value ? json_str(value) : NULL);
}

void json_set_u64(struct json_object *obj, const char *key, uint64_t value)
{
	json_set(obj, key, made(json_object_new_uint64(value)));
}

/* What is not known is null, not 0. */
void json_set_u64_if(struct json_object *obj, const char *key, bool known, uint64_t value)
{
	json_set(obj, key, known ? made(json_object_new_uint64(value)) : NULL);
}

void json_set_bool(struct json_object *obj, const char *key, bool value)
{
	json_set(obj, key, json_flag(value));
}

void json_set_time(struct json_object *obj, const char *key, uint64_t realtime_ns)
{
	char buf[TEXT_NUM_LEN];

	json_set_str(obj, key, text_time(realtime_ns, buf));
}

void json_set_cost(struct json_object *obj, const struct cost *cost)
{
	json_set_u64_if(
		obj, "cost_ns_per_s", cost->source != COST_UNKNOWN, cost->ns_per_s);
	json_set_str(obj, "cost_source", cost_source_name(cost->source));
}

void json_write_text(const char *text, size_t len, FILE *f)
{
	const unsigned char *s = (const unsigned char *)text, *end = s + len, *plain = s;

	while (s < end) {
		size_t c1 = end - s > 1 && s[0] == 0xc2 && s[1] < 0xa0;

		if (*s != 0x7f && !c1) {
			s++;
			continue;
		}
		fwrite(plain, 1, s - plain, f);
		fprintf(f, "\\u%04x", s[c1]);
		s += 1 + c1;
		plain = s;
	}
	fwrite(plain, 1, s - plain, f);
}

/* json-c leaves out what its buffer has no room for, without a word. */
const char *json_text(struct json_object *doc, int flags)
{
	const char *text;

	errno = 0;
	text = json_object_to_json_string_ext(doc, flags);
	if (!text || errno == ENOMEM)
		out_of_memory();
	return text;
}

int json_write(const struct globals *g, struct json_object *doc, FILE *f)
{
	int flags = JSON_C_TO_STRING_NOSLASHESCAPE |
		(g->pretty ? JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED : 0);
	const char *text = json_text(doc, flags);

	json_write_text(text, strlen(text), f);
	fputc('\n', f);
	json_object_put(doc);
	return 0;
}

int json_print(const struct globals *g, struct json_object *doc)
{
	return json_write(g, doc, stdout) ? EXIT_FAILED : EXIT_DONE;
}

void json_error(const struct globals *g, const char *message)
{
	struct json_object *doc = json_new();

	json_set_str(doc, "error", message);
	json_print(g, doc);
}

void json_error_groups(
	const struct globals *g, const char *message, struct json_object *groups)
{
	struct json_object *doc = json_new();

	json_set_str(doc, "error", message);
	if (json_object_array_length(groups))
		json_set(doc, "groups", groups);
	else
		json_object_put(groups);
	json_print(g, doc);
}

int json_version(const struct globals *g, const char *version, const char *libbpf)
{
	struct json_object *doc = json_new();

	json_set_str(doc, "version", version);
	json_set_str(doc, "libbpf", libbpf);
	return json_print(g, doc);
}
