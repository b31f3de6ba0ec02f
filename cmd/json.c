// SPDX-License-Identifier: BSD-2-Clause
// What all JSON documents share: keys, strings that are UTF-8, writing, and errors.
#include <errno.h>
#include <string.h>

#include <json-c/json.h>

#include "json.h"
#include "json_set.h"
#include "text.h"

void json_set(struct json_object *obj, const char *key, struct json_object *value)
{
	json_object_object_add(obj, key, value);
}

/* Length of the UTF-8 character at @s, which ends with a zero byte; 0 when it is none. */
static size_t utf8_len(const unsigned char *s)
{
	size_t len = s[0] < 0x80              ? 1
		: s[0] >= 0xc2 && s[0] < 0xe0 ? 2
		: s[0] >= 0xe0 && s[0] < 0xf0 ? 3
		: s[0] >= 0xf0 && s[0] < 0xf5 ? 4
					      : 0;

	for (size_t i = 1; i < len; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	/* Overlong forms, surrogates, and what lies beyond U+10FFFF. */
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
		(s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return len;
}

/* A JSON text is UTF-8 (RFC 8259): bytes of names that are not become U+FFFD. */
struct json_object *json_str(const char *value)
{
	const unsigned char *s = (const unsigned char *)value;
	_cleanup_free_ char *out = malloc(strlen(value) * 3 + 1);
	size_t at = 0, len;

	if (!out)
		return NULL;
	for (; *s; s += len ? len : 1) {
		len = utf8_len(s);
		memcpy(out + at, len ? (const char *)s : "\xef\xbf\xbd", len ? len : 3);
		at += len ? len : 3;
	}
	return json_object_new_string_len(out, (int)at);
}

void json_set_str(struct json_object *obj, const char *key, const char *value)
{
	json_set(obj, key, value ? json_str(value) : NULL);
}

void json_set_u64(struct json_object *obj, const char *key, uint64_t value)
{
	json_set(obj, key, json_object_new_uint64(value));
}

/* What is not known is null, not 0. */
void json_set_u64_if(struct json_object *obj, const char *key, bool known, uint64_t value)
{
	json_set(obj, key, known ? json_object_new_uint64(value) : NULL);
}

void json_set_bool(struct json_object *obj, const char *key, bool value)
{
	json_set(obj, key, json_object_new_boolean(value));
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

struct json_object *json_array(void)
{
	return json_object_new_array();
}

int json_write(const struct globals *g, struct json_object *doc, FILE *f)
{
	int flags = JSON_C_TO_STRING_NOSLASHESCAPE |
		(g->pretty ? JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED : 0);
	const char *text = json_object_to_json_string_ext(doc, flags);

	if (text)
		fprintf(f, "%s\n", text);
	json_object_put(doc);
	return text ? 0 : -ENOMEM;
}

int json_print(const struct globals *g, struct json_object *doc)
{
	return json_write(g, doc, stdout) ? EXIT_FAILED : EXIT_DONE;
}

void json_error(const struct globals *g, const char *message)
{
	struct json_object *doc = json_object_new_object();

	json_set_str(doc, "error", message);
	json_print(g, doc);
}

void json_error_groups(
	const struct globals *g, const char *message, struct json_object *groups)
{
	struct json_object *doc = json_object_new_object();

	json_set_str(doc, "error", message);
	if (json_object_array_length(groups))
		json_set(doc, "groups", groups);
	else
		json_object_put(groups);
	json_print(g, doc);
}

int json_version(const struct globals *g, const char *version, const char *libbpf)
{
	struct json_object *doc = json_object_new_object();

	json_set_str(doc, "version", version);
	json_set_str(doc, "libbpf", libbpf);
	return json_print(g, doc);
}
