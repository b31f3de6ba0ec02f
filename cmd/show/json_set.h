/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Values and keys of JSON documents, for the files that make them. Where memory runs out the
 * program ends, with a message and EXIT_FAILED: half a document is worse than none.
 */
#ifndef FUNCSNOOP_SHOW_JSON_SET_H
#define FUNCSNOOP_SHOW_JSON_SET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <json-c/json.h>

#include "stats/cost.h"

struct json_object *json_new(void);
struct json_object *json_int(int64_t value);
struct json_object *json_flag(bool value);
struct json_object *json_double(double value, const char *text); /* written as @text */
void json_add(struct json_object *array, struct json_object *value);

/* What @doc owns until it changes; @flags are json-c's. */
const char *json_text(struct json_object *doc, int flags);

/* Each gives @obj a key; a @value of NULL is null. */
void json_set(struct json_object *obj, const char *key, struct json_object *value);
void json_set_str(struct json_object *obj, const char *key, const char *value);
void json_set_bool(struct json_object *obj, const char *key, bool value);
void json_set_u64(struct json_object *obj, const char *key, uint64_t value);

/* What is not known is null, not 0. */
void json_set_u64_if(
	struct json_object *obj, const char *key, bool known, uint64_t value);

/* A time of day, ns of CLOCK_REALTIME, as a string. */
void json_set_time(struct json_object *obj, const char *key, uint64_t realtime_ns);

/* "cost_ns_per_s" and "cost_source". */
void json_set_cost(struct json_object *obj, const struct cost *cost);

/* A string; bytes that are no UTF-8 become U+FFFD. */
struct json_object *json_str(const char *value);
/* Its first @size bytes, behind which lies a zero or another character that ends it. */
struct json_object *json_str_len(const char *value, size_t size);

/*
 * Writes @len bytes of a document as json-c gives them. It leaves DEL and the C1 controls
 * (U+0080 to U+009F) in strings as they are, and U+009B begins a terminal's commands: they
 * become escapes.
 */
void json_write_text(const char *text, size_t len, FILE *f);

#endif
