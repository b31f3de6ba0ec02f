/* SPDX-License-Identifier: BSD-2-Clause */
/* Parses untrusted JSON strictly with every version of json-c. */
#ifndef FUNCSNOOP_BASE_JSON_READ_H
#define FUNCSNOOP_BASE_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>

#include <json-c/json.h>

/* Result of a parse: json_tokener_success or the error, and the offset at which it stopped. */
struct json_end {
	enum json_tokener_error status;
	size_t at;
};

/*
 * Parses one JSON value (RFC 8259, UTF-8, at most @depth levels deep) in the @len bytes (at most
 * INT_MAX) of @text. *@ret_end is the result. On success, *@ret_root is the value (NULL for null),
 * which the caller puts; otherwise it is NULL.
 */
void json_read(const char *text, size_t len, int depth, struct json_object **ret_root,
	struct json_end *ret_end);

/*
 * Same, but @ascii_only says whether the strict mode of json-c accepts only ASCII. Version 0.18
 * does if char is signed: it takes other bytes for control characters.
 */
void json_read_with(const char *text, size_t len, int depth, bool ascii_only,
	struct json_object **ret_root, struct json_end *ret_end);

#endif
