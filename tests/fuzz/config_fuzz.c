// SPDX-License-Identifier: BSD-2-Clause
/* Fuzzing the configuration reader: hostile text must end in a set or in an error. */
#include "preset/internal.h"
#include "preset/preset.h"

#include <stdlib.h>
#include <string.h>

#include "group/records.h"
#include "group/types.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same_place(const struct preset_place *a, const struct preset_place *b)
{
	return a->where == b->where && a->index == b->index && a->words == b->words &&
		a->by_ref == b->by_ref;
}

/* Types are stored in a group's maps: later commands must read the same. */
static void check_types(const struct preset_func *f)
{
	struct type_records records = { 0 };
	struct fsn_func func = { 0 };
	struct strtab text = { 0 };
	struct types *t;
	const struct func_types *got;
	struct group g = { .name = "fuzz", .funcs = &func, .meta.fn_cnt = 1 };

	type_records_add(&records, &text, f, &func);
	g.text = text.buf;
	g.meta.text_bytes = text.len;
	g.meta.type_cnt = records.type_cnt;
	g.meta.name_cnt = records.name_cnt;
	if (types_make(&g, records.types, records.names, &t))
		abort();
	got = types_of(t, 0);
	if (got->has_args != f->has_args || got->arg_cnt != f->arg_cnt ||
		got->has_ret != (f->ret_text != NULL) || got->ret.kind != f->ret.kind)
		abort();
	for (size_t i = 0; i < f->arg_cnt; i++)
		if (strcmp(got->args[i].name, f->args[i].name) != 0 ||
			strcmp(got->args[i].text, f->args[i].text) != 0 ||
			!same_place(&got->args[i].place, &f->args[i].place))
			abort();
	for (size_t i = 0; f->ret.type && i < f->ret.type->code_cnt; i++) {
		const struct preset_code *c = &f->ret.type->codes[i];
		const struct type_code *n = type_code_find(got->ret_codes, c->code);

		if (!n || strcmp(n->name, c->name) != 0)
			abort();
	}
	types_free(t);
	type_records_done(&records);
	strtab_done(&text);
}

/* Reads everything returned, so that a bad pointer is detected. */
static size_t touch(const struct preset_set *set)
{
	size_t sum = 0;

	for (size_t i = 0; i < set->group_cnt; i++) {
		const struct preset_group *g = &set->groups[i];

		sum += strlen(g->name) + strlen(g->origin);
		if (preset_set_group(set, g->name) != g)
			abort();
		for (size_t j = 0; j < g->lib_cnt; j++)
			sum += strlen(g->libs[j]);
		for (size_t j = 0; j < g->func_cnt; j++) {
			const struct preset_func *f = &g->funcs[j];

			if ((j && strcmp(f[-1].name, f->name) >= 0) || !*f->symbol)
				abort();
			for (size_t k = 0; k < f->lib_cnt; k++)
				sum += strlen(f->libs[k]);
			for (size_t k = 0; k < f->arg_cnt; k++)
				sum += strlen(f->args[k].text) + strlen(f->args[k].name);
			for (size_t k = 0; f->ret.type && k < f->ret.type->code_cnt; k++)
				sum += strlen(f->ret.type->codes[k].name);
			check_types(f);
			if (f->judge.ok_cnt > FSN_OK_CODES)
				abort();
		}
	}
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct preset_set *set = NULL;
	struct err err = { 0 };
	char *text;
	int rc;

	/* No preset of the user's is read: each input says all there is. */
	setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
	text = malloc(size + 1);
	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	rc = source_read(SOURCE_CONFIG, NULL, "fuzz.json", text, size, &set, &err);
	if (!rc)
		touch(set);
	else if (!err.msg[0] || err.code != rc)
		abort();
	preset_set_free(set);
	free(text);
	return 0;
}
