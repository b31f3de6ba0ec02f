// SPDX-License-Identifier: BSD-2-Clause
/* Conditions on arguments: what is read, and where it is wrong. */
#include "group/filter.h"

#include "shared/layout.h"
#include "tap.h"

static const struct preset_arg args[] = {
	{ .name = "size",
		.value = { .kind = TYPE_INT, .size = 8 },
		.place = { .where = PLACE_REG, .index = 1, .words = 1 } },
	{ .name = "",
		.value = { .kind = TYPE_INT, .size = 4, .is_signed = true },
		.place = { .where = PLACE_STACK, .index = 3, .words = 1 } },
	{ .name = "path",
		.value = { .kind = TYPE_STRING, .size = 8 },
		.place = { .where = PLACE_REG, .index = 0, .words = 1 } },
	{ .name = "x", .value = { .kind = TYPE_FLOAT, .size = 8 } },
	{ .name = "",
		.value = { .kind = TYPE_INT, .size = 1 },
		.place = { .where = PLACE_REG, .index = 2, .words = 1 } },
};

static const struct condition_func typed = { .args = args, .arg_cnt = 5, .has_args = true };
static const struct condition_func plain = {};
static const struct condition_func behind = { .regs = FSN_REGS_UNKNOWN };

/* Returns the error message, or "". */
static const char *refusal(const char *text, const struct condition_func *f)
{
	static struct err err;
	struct condition c;
	struct fsn_cond cond;
	size_t never;

	memset(&err, 0, sizeof(err));
	if (!condition_parse(text, &c, &err))
		(void)!condition_bind(&c, f, 1, &cond, &never, &err);
	return strstr(err.msg, "character") ? strstr(err.msg, "character") : err.msg;
}

static struct fsn_cond bound(const char *text, const struct condition_func *f)
{
	struct fsn_cond cond = {};
	struct condition c;
	struct err err = {};
	size_t never;

	if (condition_parse(text, &c, &err) || condition_bind(&c, f, 1, &cond, &never, &err))
		printf("# %s\n", err.msg);
	return cond;
}

static void terms_are_bound(void)
{
	struct fsn_cond cond = bound("size>=1M&&arg2 == -3 && path != \"a\\\"b\"", &typed);

	is_int(cond.term_cnt, 3, "three terms are three");
	is_int(cond.term[0].how, FSN_EQUAL | FSN_ABOVE, "a comparison is a mask");
	is_int(cond.term[0].where, 2, "a register goes by its number");
	is_int(cond.term[0].value[0], 1 << 20, "M is 1024 K");
	is_int(cond.term[1].where, FSN_STR_STACK + 3, "a word on the stack does, too");
	is_int(cond.term[1].width, 32, "an int has 32 bits");
	ok(cond.term[1].is_signed && cond.term[1].value[0] == (unsigned long long)-3,
		"and a sign");
	is_int(cond.term[2].width, 0, "text has no width");
	is_str((const char *)cond.term[2].value, "a\"b", "a backslash quotes");
	cond = bound("arg6 == 0x10", &plain);
	ok(cond.term[0].where == 6 && cond.term[0].width == 64 && cond.term[0].is_signed,
		"what is not declared is a register of 64 bits with a sign");
}

static void wrong_ones_are_refused(void)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{ "", "character 1: an argument's name is missing here" },
		{ "  && size > 1", "character 3: an argument's name is missing here" },
		{ "size", "character 5: one of == != < <= > >= is missing here" },
		{ "size = 3", "character 6: one of == != < <= > >= is missing here" },
		{ "size > 3 || size < 1", "character 10: && or the end is missing here" },
		{ "size > 3 &&", "character 12: an argument's name is missing here" },
		{ "size > 1T",
			"character 8: expected a number (optionally with K, M or G), a name or \"text\"" },
		{ "size > 0x",
			"character 8: expected a number (optionally with K, M or G), a name or \"text\"" },
		{ "size > 17179869184G", "character 8: the number is too large" },
		{ "size > -1", "character 8: 'size' is never negative" },
		{ "arg2 == 0x80000000", "character 9: 'arg2' is never as large" },
		{ "arg2 > -2147483649", "character 8: 'arg2' is never as small" },
		{ "arg5 < 256", "character 8: 'arg5' is never as large" },
		{ "size == \"x\"", "character 9: 'size' is not text" },
		{ "path == 3",
			"character 9: 'path' is text, which is compared with \"text\"" },
		{ "path > \"x\"", "character 6: text is compared by == and != only" },
		{ "path == \"x", "character 9: the text has no end" },
		{ "path == \"12345678901234567890123456789012\"",
			"character 9: the text is longer than 31 bytes" },
		{ "x > 1",
			"character 1: 'x' is a floating point number, which programs can't see" },
		{ "size > 1 && nosuch == 1",
			"character 13: no function has an argument 'nosuch'" },
		{ "arg6 == 1", "character 1: no function has an argument 'arg6'" },
		{ "size == MANY",
			"character 9: 'size' has no value 'MANY'; put text in double quotes" },
		{ "size>1&&size>1&&size>1&&size>1&&size>1", "character 33: more than 4 terms" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		is_str(refusal(cases[i].text, &typed), cases[i].why, cases[i].text);
	is_str(refusal("path == \"1234567890123456789012345678901\"", &typed), "",
		"a text of 31 bytes has room");
	is_str(refusal("size == 17179869183G", &typed), "", "the largest number has room");
	is_str(refusal("arg2 >= -2147483648 && arg2 <= 2147483647 && arg5 == 255", &typed), "",
		"so do the largest and the smallest of each width");
	is_str(refusal("path == NULL", &typed), "", "a pointer to text may be none");
	is_str(refusal("size > 1", &plain), "character 1: no argument 'size' is known",
		"without a declaration there are no names");
	is_str(refusal("arg1 > 1", &behind), "character 1: no argument 'arg1' is known",
		"behind code that changes them there are no arguments");
}

/* The debug information of a hostile file can have them: no register has that number of bytes. */
static void sizes_that_no_register_has_are_refused(void)
{
	static const uint32_t sizes[] = { 0, 9, 16, UINT32_MAX };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		const struct preset_arg n = { .name = "n",
			.value = { .kind = TYPE_INT, .size = sizes[i], .is_signed = true },
			.place = { .where = PLACE_REG, .words = 1 } };
		const struct condition_func f = { .args = &n, .arg_cnt = 1, .has_args = true };

		is_str(refusal("n > 3", &f), "character 1: 'n' has a size that no register has",
			"a number needs a size");
	}
}

static void functions_may_lack_one(void)
{
	const struct condition_func funcs[] = { typed, plain };
	struct fsn_cond conds[2];
	struct condition c;
	struct err err = {};
	size_t never = 9;

	is_int(condition_parse("size == 1", &c, &err) ||
			condition_bind(&c, funcs, 2, conds, &never, &err),
		0, "one function that has the argument is enough");
	is_int(never, 1, "the other is counted");
	ok(!conds[0].never && conds[1].never, "and none of its calls passes");
	is_int(condition_parse("size == 1 && arg6 == 2", &c, &err) ||
			condition_bind(&c, funcs, 2, conds, &never, &err),
		1, "a function must have all of them");
}

int main(void)
{
	terms_are_bound();
	wrong_ones_are_refused();
	functions_may_lack_one();
	sizes_that_no_register_has_are_refused();
	return tap_done();
}
