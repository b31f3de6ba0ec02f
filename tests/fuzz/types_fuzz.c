// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reading the types of a group's functions: the input is the text of its maps, and every
 * string in it is taken for a function's result and for its arguments.
 */
#include "group/types.h"

#include <stdlib.h>
#include <string.h>

#include "group/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MOST_FUNCS 16

static void check(bool good)
{
	if (!good)
		abort();
}

static size_t touch(const char *p, size_t len)
{
	size_t sum = 0;

	for (size_t i = 0; i < len; i++)
		sum += (unsigned char)p[i];
	return sum;
}

static size_t touch_codes(const struct type_codes *codes)
{
	size_t sum = 0;

	for (size_t i = 0; codes && i < codes->cnt; i++) {
		const struct type_code *c = type_code_find(codes, codes->code[i].code);

		check(c && c->code == codes->code[i].code);
		check(!i || c[-(c > codes->code)].code <= c->code);
		sum += touch(codes->code[i].name, codes->code[i].len);
		check(!memchr(codes->code[i].name, '\n', codes->code[i].len));
	}
	check(!type_code_find(NULL, 0));
	return sum;
}

/* Whether @cnt words from @at on are all of @of's. */
static bool are_of(const unsigned long long *at, unsigned int cnt, const unsigned long long *of,
	size_t most)
{
	return at >= of && at < of + most && cnt <= most - (size_t)(at - of);
}

static size_t touch_args(
	const struct func_types *f, const struct call *c, const struct fsn_more *more)
{
	size_t sum = 0;

	for (size_t i = 0; i < f->arg_cnt; i++) {
		const unsigned long long *words;
		unsigned int cnt = 0;
		const char *str;
		bool cut;

		words = call_arg_at(f, i, c, more, &cnt);
		check(!words || are_of(words, cnt, c->args.arg, FSN_ARGS) ||
			are_of(words, cnt, more->stack, FSN_STACK_WORDS));
		for (unsigned int w = 0; words && w < cnt; w++)
			sum += words[w];
		str = call_arg_string(f, i, more, &cut);
		sum += str ? strlen(str) : 0;
		sum += strlen(f->args[i].name) + strlen(f->args[i].text);
		sum += touch_codes(f->arg_codes[i]);
	}
	check(f->kept.stack_cnt <= FSN_STACK_WORDS);
	return sum;
}

static size_t touch_func(const struct func_types *f, const uint8_t *data, size_t size)
{
	struct call *call = calloc(1, sizeof(*call));
	struct fsn_more *more = calloc(1, sizeof(*more));
	size_t sum;

	check(call && more);
	memcpy(more->str, data, size < FSN_STR_BYTES ? size : FSN_STR_BYTES);
	more->str[FSN_STR_BYTES - 1] = more->str[FSN_STR_BYTES / FSN_STRINGS - 1] = '\0';
	sum = touch_args(f, call, more) + touch_codes(f->ret_codes);
	free(call);
	free(more);
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fsn_func funcs[MOST_FUNCS] = { 0 };
	struct group g = { .name = "fuzz", .funcs = funcs };
	struct types *t = NULL;
	struct err err = { 0 };
	size_t sum = 0;
	int rc;

	g.text = calloc(1, size + 2);
	check(g.text);
	memcpy(g.text + 1, data, size);
	g.meta.text_bytes = size + 2;
	for (size_t at = 1; at <= size && g.meta.fn_cnt < MOST_FUNCS;
		at += strlen(g.text + at) + 1) {
		funcs[g.meta.fn_cnt].ret = g.meta.fn_cnt & 1 ? 0 : at;
		funcs[g.meta.fn_cnt].args = g.meta.fn_cnt & 1 ? at : 0;
		g.meta.fn_cnt++;
	}
	rc = types_read(&g, &t, &err);
	check(rc ? !t && err.msg[0] && err.code == rc : t != NULL);
	for (uint32_t i = 0; i < g.meta.fn_cnt; i++) {
		char *name = types_code_name(&g, i, i & 1 ? 0 : INT64_MIN);

		sum += name ? strlen(name) : 0;
		free(name);
		if (t)
			sum += touch_func(types_of(t, i), data, size);
	}
	types_free(t);
	free(g.text);
	return sum == SIZE_MAX;
}
