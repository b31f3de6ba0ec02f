// SPDX-License-Identifier: BSD-2-Clause
/* JSON as it is written: commas, lines and indentation, strings, and documents within others. */
#include "base/buffer.h"

#include "written.h"

static void put_all(struct json *j)
{
	json_open(j, '[');
	json_open(j, '{');
	json_set_str(j, "name", "a\"b\n");
	json_set_str(j, "none", NULL);
	json_set_bool(j, "yes", true);
	json_set_u64(j, "most", UINT64_MAX);
	json_set_i64(j, "least", INT64_MIN);
	json_set_u64_if(j, "unknown", false, 7);
	json_key(j, "rate");
	json_real(j, "%.3f", 0.25);
	json_set_open(j, "empty", '[');
	json_close(j, ']');
	json_set_open(j, "nothing", '{');
	json_close(j, '}');
	json_set_open(j, "list", '[');
	json_u64(j, 1);
	json_str_len(j, "two more", 3);
	json_null(j);
	json_close(j, ']');
	json_close(j, '}');
	json_bool(j, false);
	json_close(j, ']');
}

static void test_forms(void)
{
	struct out o = {};
	struct json j = { .out = &o },
		    pretty = { .out = &o, .pretty = true, .letters = true };

	put_all(&j);
	ok(same(&o,
		   "[{\"name\":\"a\\\"b\\u000a\",\"none\":null,\"yes\":true,"
		   "\"most\":18446744073709551615,\"least\":-9223372036854775808,"
		   "\"unknown\":null,\"rate\":0.250,\"empty\":[],\"nothing\":{},"
		   "\"list\":[1,\"two\",null]},false]"),
		"a document in one line");
	put_all(&pretty);
	ok(same(&o,
		   "[\n  {\n    \"name\": \"a\\\"b\\n\",\n    \"none\": null,\n"
		   "    \"yes\": true,\n    \"most\": 18446744073709551615,\n"
		   "    \"least\": -9223372036854775808,\n    \"unknown\": null,\n"
		   "    \"rate\": 0.250,\n    \"empty\": [\n    ],\n    \"nothing\": {\n    },\n"
		   "    \"list\": [\n      1,\n      \"two\",\n      null\n    ]\n  },\n"
		   "  false\n]"),
		"the same with a line for each value");
	out_done(&o);
}

static void test_letters(void)
{
	struct out o = {};
	struct json j = { .out = &o, .letters = true };

	json_str(&j, "\a\b\t\n\v\f\r\x1f\x7f\xc2\x9b/\xff");
	ok(same(&o,
		   "\"\\u0007\\b\\t\\n\\u000b\\f\\r\\u001f\\u007f\\u009b/\\\\xff\""),
		"control characters that have a letter are written as it");
	out_done(&o);
}

int main(void)
{
	test_forms();
	test_letters();
	return tap_done();
}
