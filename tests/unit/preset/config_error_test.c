// SPDX-License-Identifier: BSD-2-Clause
/* Configuration files that are wrong: each error names file, line and column. */
#include "preset/preset.h"

#include <errno.h>

#include "preset/internal.h"
#include "tap.h"

#define SUM_FORM \
	"'sum' is NAME = ARG * ARG, NAME = ARG@OFFSET * ARG@OFFSET unless ARG@OFFSET, "             \
	"NAME = result or NAME = *ARG"
#define FUNC(json) "{ \"a_sym\": { \"f\": {\n  " json " } } }"
#define TYPE(json) \
	"{ \"types\": { \"t\": {\n  " json " } }, \"a_sym\": { \"f\": \"f\" } }"
#define FIRST ", \"a_sym\": { \"f\": \"f\" } }"

static const struct {
	const char *text, *msg, *hint;
} bad_files[] = {
	{ "", "t.json:1:1: the file ends too early", "" },
	{ "[]", "t.json:1:1: an object '{...}' is needed", "" },
	{ "{\n\"a_sym\":", "t.json:2:9: the file ends too early", "" },
	{ "{ \"a_sym\": { \"f\" \"f\" } }", "t.json:1:18: ", "" },
	{ "{ \"a_sym\": { \"f\": \"f\", } }", "t.json:1:24: ", "" },
	{ "{ \"a_sym\": { \"f\": \"f\" } } x", "t.json:1:27: ", "" },
	{ "{ // no\n }", "t.json:1:3: ", "" },
	{ "{}", "t.json:1:1: no group (a key that ends in _func_sym or _sym)", "" },
	{ "{ \"lib\": \"c\" }",
		"t.json:1:1: no group (a key that ends in _func_sym or _sym)", "" },
	{ "{ \"a_sym\": {\n  \"f\": \"f\",\n  \"g\": \"g\",\n  \"f\": \"h\" } }",
		"t.json:4:3: \"f\" is used twice, or has a zero byte", "" },
	{ "{ \"a_sym\": { \"f\": \"f\" },\n \"a_sym\": { \"g\": \"g\" } }",
		"t.json:2:2: \"a_sym\" is used twice, or has a zero byte", "" },
	{ "{ \"a_sym\": { \"f\": \"f\", \"\\u0066\": \"g\" } }",
		"t.json:1:24: \"\\u0066\" is used twice, or has a zero byte", "" },
	{ "{ \"a_sym\": { \"f\": \"f\" },\n  \"a_func_sym\": { \"g\": \"g\" } }",
		"t.json:2:3: group 'a' is already defined", "" },
	{ "{ \"a_sym\": { \"f\": \"s\", \"h\": \"h\",\n \"g\": \"s\" } }",
		"t.json:2:2: symbol 's' is already declared, as 'f'", "" },
	{ "{ \"libz\": {}" FIRST, "t.json:1:3: unknown key 'libz' in the file",
		"did you mean 'lib' or 'libs'" },
	{ "{ \"functions\": {}" FIRST, "t.json:1:3: unknown key 'functions' in the file",
		"the key of a group ends in _func_sym or _sym" },
	{ FUNC("\"simbol\": \"g\""), "t.json:2:3: unknown key 'simbol' in function 'f'",
		"did you mean 'symbol'" },
	{ TYPE("\"size\": 4, \"xyzzy\": 1"),
		"t.json:2:14: unknown key 'xyzzy' in type 't'", "" },
	{ "{ \"a_sym\": [] }", "t.json:1:12: 'a_sym' must be an object of functions",
		"" },
	{ "{ \"a_sym\": {} }", "t.json:1:12: group 'a' has no functions", "" },
	{ "{ \"a_sym\": { \"f\": 1 } }",
		"t.json:1:19: function 'f' must be a symbol or an object", "" },
	{ "{ \"a_sym\": { \"f\": null } }",
		"t.json:1:19: null says nothing here; leave the name out", "" },
	{ "{ \"a_sym\": { \"f\": 1.5 } }",
		"t.json:1:19: a number with a fraction has no meaning here", "" },
	{ "{ \"a_sym\": { \"f\": \"\" } }", "t.json:1:19: 'symbol' is empty", "" },
	{ "{ \"a_sym\": { \"f\": \"a\\u0000b\" } }",
		"t.json:1:19: a string with a zero byte", "" },
	{ "{ \"a_sym\": { \"f\": \"a\\nb\" } }",
		"t.json:1:19: 'symbol' has a control character", "" },
	{ "{ \"a_sym\": { \"\": \"a\" } }",
		"t.json:1:14: a function's name has 1 to 4096 bytes", "" },
	{ "{ \"a_sym\": { \"a\\tb\": \"a\" } }",
		"t.json:1:14: a function's name has a control character", "" },
	{ "{\n\"help_sym\": { \"f\": \"f\" } }",
		"t.json:2:1: 'help' can't name a group: it has a meaning of its own",
		"" },
	{ "{\n\"-x_sym\": { \"f\": \"f\" } }",
		"t.json:2:1: '-x' can't name a group (letters, digits, _ and -, the first a letter or digit)",
		"" },
	{ "{\n\"_sym\": { \"f\": \"f\" } }", "t.json:2:1: a group needs a name", "" },
	{ "{\n\"a123456789012345678901234567890123_sym\": { \"f\": \"f\" } }",
		"t.json:2:1: group name 'a123456789012345678901234567890123' is longer than 32 characters",
		"" },
	{ "{ \"libs\": { \"bb\": \"x\" }, \"cc_sym\": { \"f\": \"f\" } }",
		"t.json:1:13: 'libs' names group 'bb', which isn't there", "" },
	{ "{ \"libs\": { \"custm\": \"x\" }, \"custom_sym\": { \"f\": \"f\" } }",
		"t.json:1:13: 'libs' names group 'custm', which isn't there",
		"did you mean 'custom'" },
	{ "{ \"libs\": \"x\"" FIRST,
		"t.json:1:11: 'libs' must be an object of group and library", "" },
	{ "{ \"lib\": 5" FIRST, "t.json:1:10: 'lib' must be a string", "" },
	{ "{ \"lib\": [\"c\",\n 5]" FIRST, "t.json:2:2: 'lib' must be a string", "" },
	{ "{ \"lib\": []" FIRST, "t.json:1:10: 'lib' is empty", "" },
	{ "{ \"nothrow\": \"yes\"" FIRST, "t.json:1:14: 'nothrow' must be true or false",
		"" },
	{ FUNC("\"args\": [\"int a\"], \"kernel\": \"b\""),
		"t.json:2:32: 'kernel': there is no argument 'b'", "" },
	{ FUNC("\"args\": [\"int a\"], \"named\": \"a\""),
		"t.json:2:22: function 'f': 'named' says nothing without 'kernel'", "" },
	{ FUNC("\"allocates\": \"p\""), "t.json:2:16: 'allocates' must be an object", "" },
	{ FUNC("\"allocates\": {}"),
		"t.json:2:16: 'allocates' does not say which 'pointer'", "" },
	{ FUNC("\"allocates\": { \"ptr\": \"result\" }"),
		"t.json:2:18: unknown key 'ptr' in 'allocates'", "" },
	{ FUNC("\"allocates\": { \"pointer\": \"result\" }"),
		"t.json:2:29: 'pointer': the result is not declared as a pointer", "" },
	{ FUNC("\"args\": [\"int *a\"], \"allocates\": { \"pointer\": \"a\" }"),
		"t.json:2:49: 'pointer' is \"result\", or \"*ARGUMENT\" where one is stored", "" },
	{ FUNC("\"args\": [\"int a\"], \"allocates\": { \"pointer\": \"*a\" }"),
		"t.json:2:48: 'pointer': argument 'a' is not a pointer", "" },
	{ FUNC("\"args\": [\"int *a\"], \"allocates\": { \"pointer\": \"*b\" }"),
		"t.json:2:49: 'pointer': there is no argument 'b'", "" },
	{ FUNC("\"args\": [\"int *a\"], \"allocates\": { \"pointer\": \"*a\", \"size\": \"a\" }"),
		"t.json:2:63: 'size': argument 'a' is not a number", "" },
	{ FUNC("\"args\": [\"int *a\"], \"allocates\": { \"pointer\": \"*a\", \"size\": [] }"),
		"t.json:2:63: 'size' is empty", "" },
	{ FUNC("\"args\": [\"int *a\", \"int n\"], \"allocates\": { \"pointer\": \"*a\", "
	       "\"size\": [\"n\", \"n\", \"n\", \"n\"] }"),
		"t.json:2:88: 'size' has more than 3 factors", "" },
	{ FUNC("\"args\": [\"int a\"], \"frees\": \"a\""),
		"t.json:2:31: 'frees': an argument that is the pointer itself", "" },
	{ FUNC("\"args\": [\"int a\"], \"sum\": \"n = a * b\""), "t.json:2:29: " SUM_FORM, "" },
	{ FUNC("\"args\": [\"int *a\"], \"sum\": \"n = a@8 * a\""), "t.json:2:30: " SUM_FORM, "" },
	{ FUNC("\"args\": [\"int *a\"], \"sum\": \"n = a@70000\""), "t.json:2:30: " SUM_FORM, "" },
	{ FUNC("\"nothrow\": 1"), "t.json:2:14: 'nothrow' must be true or false", "" },
	{ FUNC("\"slow\": \"5\""),
		"t.json:2:11: 'slow': '5' has no unit (ns, us, ms, s, m or h)", "" },
	{ FUNC("\"slow\": 5"), "t.json:2:11: 'slow' must be a string", "" },
	{ FUNC("\"ret\": \"cudaErorr_t\""),
		"t.json:2:10: 'cudaErorr_t': unknown type 'cudaErorr_t'",
		"declare it: \"types\": { \"cudaErorr_t\": { \"base\": \"unsigned int\" } }" },
	{ FUNC("\"ret\": \"int x\""),
		"t.json:2:10: 'int x': a name where only a type is meant", "" },
	{ FUNC("\"args\": \"int\""), "t.json:2:11: 'args' must be an array of strings",
		"" },
	{ FUNC("\"args\": [\"int a\",\n    \"thing b\"]"),
		"t.json:3:5: 'thing b': unknown type 'thing'",
		"declare it: \"types\": { \"thing\": { \"base\": \"unsigned int\" } }" },
	{ FUNC("\"args\": [\"void\"]"),
		"t.json:2:12: an argument can't be void; no arguments are []", "" },
	{ FUNC("\"args\": [\"int (a)\"]"),
		"t.json:2:12: 'int (a)': a '(' that begins no pointer to a function",
		"" },
	{ FUNC("\"args\": [\"int a[3\"]"), "t.json:2:12: 'int a[3': a '[' is not closed",
		"" },
	{ FUNC("\"args\": [\"vec<int a\"]"),
		"t.json:2:12: 'vec<int a': a '<' is not closed", "" },
	{ FUNC("\"args\": [\"* a\"]"), "t.json:2:12: '* a': a '*' or '&' out of place",
		"" },
	{ FUNC("\"args\": [\"int @\"]"), "t.json:2:12: 'int @': an unexpected character",
		"" },
	{ FUNC("\"args\": [\"const\"]"), "t.json:2:12: 'const': no type", "" },
	{ FUNC("\"args\": [\"int a\", \"long a\"]"),
		"t.json:2:21: two arguments are called 'a'", "" },
	{ FUNC("\"args\": [\"unsigned float a\"]"),
		"t.json:2:12: 'unsigned float a': no type that is known here", "" },
	{ FUNC("\"error\": \"nonzero\""),
		"t.json:2:12: 'error' can be 'nonzero' only for an integer", "" },
	{ FUNC("\"ret\": \"int\", \"error\": \"null\""),
		"t.json:2:26: 'error' can be 'null' only for a pointer", "" },
	{ FUNC("\"ret\": \"int\", \"error\": \"negativ\""),
		"t.json:2:26: 'error' is none, nonzero, negative, null, zero or not_positive, "
		"not 'negativ'",
		"did you mean 'negative'" },
	{ FUNC("\"ret\": \"void *\", \"error\": \"zero\""),
		"t.json:2:29: 'error' can be 'zero' only for an integer", "" },
	{ FUNC("\"ret\": \"int\", \"error\": \"zero\", \"no_error\": [1]"),
		"t.json:2:34: 'no_error' without 'error': no code is an error anyway",
		"" },
	{ FUNC("\"ret\": \"int\", \"args\": [\"int n\"], \"sum\": \"bytes = *n\""),
		"t.json:2:43: " SUM_FORM, "" },
	{ FUNC("\"ret\": \"int\", \"no_error\": [1]"),
		"t.json:2:17: 'no_error' without 'error': no code is an error anyway",
		"" },
	{ FUNC("\"ret\": \"int\", \"error\": \"nonzero\", \"no_error\": [1, 2, 3, 4, 5]"),
		"t.json:2:62: more than 4 codes that are no error", "" },
	{ FUNC("\"ret\": \"int\", \"error\": \"nonzero\", \"no_error\": [9223372036854775808]"),
		"t.json:2:50: 'no_error': number out of range", "" },
	{ FUNC("\"ret\": \"int\", \"error\": \"nonzero\", \"no_error\": [99999999999999999999]"),
		"t.json:2:50: number out of range", "" },
	{ FUNC("\"ret\": \"int\", \"error\": \"nonzero\", \"no_error\": [-9223372036854775809]"),
		"t.json:2:50: number out of range", "" },
	{ TYPE("\"base\": \"struct\""), "t.json:2:11: a struct needs its 'size' in bytes",
		"" },
	{ TYPE("\"base\": \"struct\", \"size\": 0"),
		"t.json:2:29: 'size' must be 1 to 65536 bytes", "" },
	{ TYPE("\"base\": \"int\", \"size\": 4"),
		"t.json:2:18: 'size' is for a struct or class", "" },
	{ TYPE("\"base\": \"int\", \"members\": \"unsigned\""),
		"t.json:2:18: 'members' of a type that is no struct", "" },
	{ TYPE("\"base\": \"struct\", \"size\": 12, \"members\": \"int\""),
		"t.json:2:44: 'members' is an unsigned integer type, not 'int'", "" },
	{ TYPE("\"base\": \"struct\", \"size\": 12, \"members\": \"size_t\""),
		"t.json:2:44: 'members' of 8 bytes do not fill 12 bytes", "" },
	{ TYPE("\"base\": \"wide\""),
		"t.json:2:11: 'base' is a basic C type, a pointer, \"struct\" or \"class\", not 'wide'",
		"" },
	{ TYPE("\"codes\": { \"one\": \"X\" }"), "t.json:2:14: 'one' is not a whole number",
		"" },
	{ TYPE("\"codes\": { \"1\": \"X\", \"01\": \"Y\" }"),
		"t.json:2:3: type 't' has code 1 twice", "" },
	{ TYPE("\"base\": \"void *\", \"codes\": { \"1\": \"X\" }"),
		"t.json:2:21: 'codes' of a type that is no integer", "" },
	{ "{ \"types\": { \"int\": {} }" FIRST,
		"t.json:1:14: 'int' can't be the name of a type", "" },
	{ "{ \"types\": { \"a b\": {} }" FIRST,
		"t.json:1:14: 'a b' can't be the name of a type", "" },
	{ "{ \"types\": { \"t\": 5 }" FIRST, "t.json:1:19: 't' must be an object", "" },
	{ "{ \"a_sym\": { \"\xc3\xa9\xc3\xa9\": \"f\", \"g\": 1 } }",
		"t.json:1:30: function 'g' must be a symbol or an object", "" },
	{ "{ \"a_sym\": { \"f\": \"\xff\" } }", "t.json:1:20: ", "" },
};

static void test_bad_files(void)
{
	char what[128];

	for (size_t i = 0; i < ARRAY_SIZE(bad_files); i++) {
		struct preset_set *set = NULL;
		struct err err = { 0 };
		const char *text = bad_files[i].text;
		int rc = source_read(SOURCE_CONFIG, NULL, "t.json", text, strlen(text), &set, &err);

		snprintf(what, sizeof(what), "error at %s", bad_files[i].msg);
		/* The parser's own words are json-c's: only the place is ours. */
		if (bad_files[i].msg[strlen(bad_files[i].msg) - 1] == ' ')
			err.msg[strlen(bad_files[i].msg)] = '\0';
		is_str(rc == -EINVAL && !set ? err.msg : "(accepted)", bad_files[i].msg,
			what);
		if (strcmp(err.hint, bad_files[i].hint))
			is_str(err.hint, bad_files[i].hint, "and its hint");
		preset_set_free(set);
	}
}

static void test_limits(void)
{
	static char deep[256];
	_cleanup_free_ char *big = malloc(JSON_DOC_MAX + 2);
	struct preset_set *set = NULL;
	struct err err = { 0 };

	source_read(SOURCE_CONFIG, NULL, "t.json", "{ \"a\xc2\x9bz\x7f\": 1 }", 14, &set, &err);
	is_str(err.msg, "t.json:1:3: unknown key 'a\?\?z\?' in the file",
		"control characters don't reach a terminal");
	strcpy(deep, "{ \"a_sym\": ");
	memset(deep + strlen(deep), '[', 100);
	for (size_t i = 0, n = 0; i <= CONFIG_GROUPS_MAX; i++)
		n += (size_t)sprintf(big + n, "%s\"g%zu_sym\": { \"f\": \"f\" }%s",
			i ? ",\n" : "{", i, i < CONFIG_GROUPS_MAX ? "" : "}");
	is_int(source_read(SOURCE_CONFIG, NULL, "t.json", big, strlen(big), &set, &err), -EINVAL,
		"very many groups are refused");
	is_str(err.msg, "t.json:257:1: more than 256 groups", "at the first too many");
	ok(source_read(SOURCE_CONFIG, NULL, "t.json", deep, strlen(deep), &set, &err) == -EINVAL &&
			strstr(err.msg, "nested too deep"),
		"deep nesting is refused");
	memset(big, ' ', JSON_DOC_MAX + 1);
	is_int(source_read(SOURCE_CONFIG, NULL, "t.json", big, JSON_DOC_MAX + 1, &set, &err), -EFBIG,
		"a huge file is refused");
	is_str(err.msg, "t.json: larger than 4 MiB", "and the error says so");
	is_int(source_read(SOURCE_CONFIG, NULL, "t.json", "{\0}", 3, &set, &err), -EINVAL,
		"a zero byte is refused");
	is_int(config_load("/nonexistent/file", &set, &err), -ENOENT,
		"a missing file is named");
	is_str(err.msg, "cannot open '/nonexistent/file': No such file or directory",
		"by its path");
	is_int(config_load("/", &set, &err), -EISDIR, "a folder is no file");
}

int main(void)
{
	test_bad_files();
	test_limits();
	return tap_done();
}
