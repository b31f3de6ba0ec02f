/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys of JSON objects, for the files that make documents. */
#ifndef FUNCSNOOP_CMD_JSON_SET_H
#define FUNCSNOOP_CMD_JSON_SET_H

#include <stdbool.h>
#include <stdint.h>

#include <json-c/json.h>

#include "cost.h"

/* Each gives @obj a key; a @value of NULL is null. Memory that runs out leaves null. */
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

#endif
