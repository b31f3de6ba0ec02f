// SPDX-License-Identifier: BSD-2-Clause
// Parses untrusted JSON strictly with every version of json-c.
#include "base/json_read.h"

#include <stdlib.h>

#include "base/util.h"

#define JSON_C_0_18 (18 << 8) /* as in json_c_version_num(), below it is the micro version */

static void parse(const char *text, size_t len, int depth, int flags,
	struct json_object **ret_root, struct json_end *ret_end)
{
	struct json_tokener *tok = json_tokener_new_ex(depth);

	if (!tok)
		alloc_failed();
	json_tokener_set_flags(tok, flags);
	*ret_root = json_tokener_parse_ex(tok, text, (int)len);
	ret_end->status = json_tokener_get_error(tok);
	ret_end->at = json_tokener_get_parse_end(tok);
	json_tokener_free(tok);
}

static bool is_ascii(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] & 0x80)
			return false;
	return true;
}

/*
 * Parses a copy with all non-ASCII bytes replaced by letters. It is valid exactly if the text is:
 * outside strings and in escapes, both are errors.
 */
static void parse_letters(const char *text, size_t len, int depth, struct json_end *ret_end)
{
	_cleanup_free_ char *letters = xmalloc(len);
	struct json_object *root = NULL;

	for (size_t i = 0; i < len; i++)
		letters[i] = text[i] & 0x80 ? 'x' : text[i];
	parse(letters, len, depth, JSON_TOKENER_STRICT, &root, ret_end);
	json_object_put(root);
}

void json_read_with(const char *text, size_t len, int depth, bool ascii_only,
	struct json_object **ret_root, struct json_end *ret_end)
{
	int flags = JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8;

	*ret_root = NULL;
	if (ascii_only && !is_ascii(text, len)) {
		parse_letters(text, len, depth, ret_end);
		if (ret_end->status != json_tokener_success)
			return;
		flags &= ~JSON_TOKENER_STRICT;
	}
	parse(text, len, depth, flags, ret_root, ret_end);
}

void json_read(const char *text, size_t len, int depth, struct json_object **ret_root,
	struct json_end *ret_end)
{
	bool ascii_only = (json_c_version_num() & ~0xff) == JSON_C_0_18;

	json_read_with(text, len, depth, ascii_only, ret_root, ret_end);
}
