// SPDX-License-Identifier: BSD-2-Clause
/* JSON texts, parsed as strictly where json-c's strict mode takes ASCII only. */
#include "base/json_read.h"

#include <limits.h>

#include "base/util.h"
#include "tap.h"

#define ANY SIZE_MAX

static const struct {
	const char *name, *text, *tree; /* no tree: an error */
	size_t at;
} texts[] = {
	{ "ASCII",
		"{\"a\":1}", "{\"a\":1}", 7 },
	{ "other characters in names and values",
		"{\"\xc3\xa9\":[\"\xe2\x82\xac\"]}", "{\"\xc3\xa9\":[\"\xe2\x82\xac\"]}", 14 },
	{ "escapes beside other characters",
		"[\"\xf0\x9f\x90\x9d\\u00e9\\ud83d\\udc1d\"]",
		"[\"\xf0\x9f\x90\x9d\xc3\xa9\xf0\x9f\x90\x9d\"]", 26 },
	{ "a comma before the end",
		"[\"\xc3\xa9\",]", NULL, 6 },
	{ "a comment",
		"[\"\xc3\xa9\" // no\n]", NULL, 6 },
	{ "single quotes",
		"['\xc3\xa9']", NULL, 1 },
	{ "a literal in capitals",
		"[\"\xc3\xa9\", True]", NULL, 7 },
	{ "no number",
		"[\"\xc3\xa9\", nan]", NULL, ANY },
	{ "a number that begins with 0",
		"[\"\xc3\xa9\", 01]", NULL, ANY },
	{ "what follows",
		"[\"\xc3\xa9\"] x", NULL, 7 },
	{ "a second value",
		"[\"\xc3\xa9\"] \"\"", NULL, 7 },
	{ "other characters without quotes",
		"[\xc3\xa9]", NULL, 1 },
	{ "a byte order mark",
		"\xef\xbb\xbf[]", NULL, 0 },
	{ "an escape of another character",
		"[\"\\\xc3\xa9\"]", NULL, ANY },
	{ "one in the digits of an escape",
		"[\"\\u00\xc3\xa9\"]", NULL, ANY },
	{ "one behind a number",
		"[1\xc3\xa9]", NULL, 2 },
	{ "one behind a literal",
		"[true\xc3\xa9]", NULL, 5 },
	{ "one behind a name",
		"{\"a\"\xc3\xa9:1}", NULL, 4 },
	{ "a byte that begins no character",
		"[\"\xff\"]", NULL, 2 },
	{ "a character that is cut",
		"[\"\xc3\"]", NULL, ANY },
	{ "a text that is too deep",
		"[[[[\"\xc3\xa9\"]]]]", NULL, 4 },
	{ "a text that ends too early",
		"[\"\xc3\xa9\"", NULL, 5 },
};

static void parse(size_t i, bool ascii_only)
{
	struct json_object *root = NULL;
	struct json_end end = {};
	const char *tree;
	char what[128];

	if (ascii_only)
		json_read_with(
			texts[i].text, strlen(texts[i].text), 4, true, &root, &end);
	else
		json_read(texts[i].text, strlen(texts[i].text), 4, &root, &end);
	tree = root ? json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN) : NULL;
	snprintf(what, sizeof(what), "%s is %s%s", texts[i].name,
		texts[i].tree ? "read" : "refused", ascii_only ? ", by what takes ASCII only" : "");
	is_str(tree, texts[i].tree, what);
	ok((end.status == json_tokener_success) == !!texts[i].tree, "and its status says so");
	if (texts[i].at != ANY)
		is_int((int64_t)end.at, (int64_t)texts[i].at, "and where it ended");
	json_object_put(root);
}

int main(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		parse(i, false);
		parse(i, true);
	}
	return tap_done();
}
