/* SPDX-License-Identifier: BSD-2-Clause */
/* Parses untrusted JSON strictly with every version of json-c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <json-c/json.h>

#include "base/err.h"

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

/* --- the same with the location of every value, for errors ------------------------------------ */

#define JSON_DOC_MAX (4u << 20) /* bytes */

struct json_doc {
	const char *label; /* the file's name in messages */
	const char *text;  /* ends with a zero byte at text[len] */
	size_t len;
	struct json_object *root;
};

/*
 * Parses @text strictly (RFC 8259, UTF-8, 16 levels deep) into @doc, which refers to @label and
 * @text. Refuses JSON that configurations never use: a name used twice in one object, null,
 * fractions, zero bytes in strings. Returns 0, -EFBIG, or -EINVAL with the location. The caller
 * frees @doc with json_doc_done().
 */
int json_doc_parse(struct json_doc *doc, const char *label, const char *text, size_t len,
	struct err *err);
void json_doc_done(struct json_doc *doc);

/* The wrong part of a member: its name or its value. */
enum json_side { JSON_AT_KEY, JSON_AT_VALUE };

/*
 * Fills @err with "LABEL:LINE:COLUMN: message" for @at, an object of @doc. Lines and columns start
 * at 1; columns are in characters. Returns -EINVAL.
 */
__attribute__((format(printf, 5, 6))) int json_err(const struct json_doc *doc,
	const struct json_object *at, enum json_side side, struct err *err,
	const char *fmt, ...);
