// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reading the types of a group's functions: the input is how many there are, the records
 * of types and of names, and the text of its maps.
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

static size_t touch_codes(const struct type_codes *codes)
{
	size_t sum = 0;

	for (size_t i = 0; codes && i < codes->cnt; i++) {
		const struct type_code *c = type_code_find(codes, codes->code[i].code);

		check(c && c->code == codes->code[i].code);
		check(!i || c[-(c > codes->code)].code <= c->code);
		sum += strlen(codes->code[i].name);
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
		size_t len;
		bool cut;

		words = call_arg_at(f, i, c, more, &cnt);
		check(!words || are_of(words, cnt, c->args.arg, FSN_ARGS) ||
			are_of(words, cnt, more->stack, FSN_STACK_WORDS));
		for (unsigned int w = 0; words && w < cnt; w++)
			sum += words[w];
		str = call_arg_string(f, i, c, more, &len, &cut);
		check(!str || len <= strlen(str));
		sum += str ? len : 0;
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

/* The next @size bytes of the input, padded with zeros. */
static void *take(const uint8_t **data, size_t *left, size_t size)
{
	size_t there = size < *left ? size : *left;
	char *bytes = calloc(1, size + 1);

	check(bytes);
	memcpy(bytes, *data, there);
	*data += there;
	*left -= there;
	return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fsn_func funcs[MOST_FUNCS] = { 0 };
	struct group g = { .name = "fuzz", .funcs = funcs };
	uint8_t *head = take(&data, &size, 4);
	struct fsn_type *types;
	struct fsn_name *names;
	struct types *t = NULL;
	size_t sum = 0;
	int rc;

	g.meta.fn_cnt = g.meta.type_cnt = head[0] % MOST_FUNCS;
	g.meta.name_cnt = head[1];
	types = take(&data, &size, g.meta.type_cnt * sizeof(*types));
	names = take(&data, &size, g.meta.name_cnt * sizeof(*names));
	g.meta.text_bytes = size + 2;
	g.text = calloc(1, g.meta.text_bytes);
	check(g.text);
	memcpy(g.text + 1, data, size);
	for (uint32_t i = 0; i < g.meta.fn_cnt; i++) {
		funcs[i].ret = i & 1 ? 0 : i + 1;
		funcs[i].args = i + 1;
		/* A last one may have more than there are. */
		funcs[i].arg_cnt = head[2] % (g.meta.fn_cnt - i + (head[3] & 1));
	}
	rc = types_make(&g, types, names, &t);
	check(rc ? !t : t != NULL);
	for (uint32_t i = 0; t && i < g.meta.fn_cnt; i++)
		sum += touch_func(types_of(t, i), data, size);
	types_free(t);
	free(g.text);
	free(head);
	free(types);
	free(names);
	return sum == SIZE_MAX;
}
