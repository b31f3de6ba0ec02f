/* SPDX-License-Identifier: BSD-2-Clause */
/* JSON texts of others, parsed strictly by every version of json-c. */
#ifndef FUNCSNOOP_BASE_JSON_READ_H
#define FUNCSNOOP_BASE_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>

#include <json-c/json.h>

/* How a parse went: json_tokener_success, or why not; and the byte at which it ended. */
struct json_end {
	enum json_tokener_error status;
	size_t at;
};

/*
 * Parses one JSON value (RFC 8259, UTF-8, at most @depth levels deep) that begins in the @len
 * bytes of @text (at most INT_MAX). *ret_end tells whether it is one: then *ret_root is
 * it (NULL for null), to be put by the caller; else that is NULL.
 */
void json_read(const char *text, size_t len, int depth, struct json_object **ret_root,
	struct json_end *ret_end);

/*
 * The same where the strict mode of json-c takes @ascii_only (0.18: bytes of other characters
 * are control characters to it, where char is signed) or more.
 */
void json_read_with(const char *text, size_t len, int depth, bool ascii_only,
	struct json_object **ret_root, struct json_end *ret_end);

#endif
