/* SPDX-License-Identifier: BSD-2-Clause */
/* A JSON text with a place for every value, so that an error can name line and column. */
#ifndef FUNCSNOOP_PRESET_LOCATED_JSON_H
#define FUNCSNOOP_PRESET_LOCATED_JSON_H

#include <json-c/json.h>

#include "base/err.h"
#include "base/util.h"

struct json_doc {
	const char *label; /* the file's name in messages */
	const char *text;  /* ends with a zero byte at text[len] */
	size_t len;
	struct json_object *root;
};

/*
 * Parses @text strictly (RFC 8259, UTF-8, 16 levels deep) into @doc, which keeps @label and
 * @text. What a configuration never has is refused here: a name used twice in one object,
 * null, fractions, zero bytes in strings. -EINVAL with the place, -ENOMEM. End with
 * json_doc_done().
 */
int json_doc_parse(struct json_doc *doc, const char *label, const char *text, size_t len,
	struct err *err);
void json_doc_done(struct json_doc *doc);

/* Which end of a member is wrong: its name or its value. */
enum json_side { JSON_AT_KEY, JSON_AT_VALUE };

/*
 * Fills @err with "LABEL:LINE:COLUMN: message" for @at, an object of @doc; returns -EINVAL.
 * Lines and columns count from 1, columns in characters.
 */
__attribute__((format(printf, 5, 6))) int json_err(const struct json_doc *doc,
	const struct json_object *at, enum json_side side, struct err *err,
	const char *fmt, ...);

#endif
