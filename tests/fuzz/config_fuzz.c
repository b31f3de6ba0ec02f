// SPDX-License-Identifier: BSD-2-Clause
/* Fuzzing the configuration reader: hostile text must end in a set or in an error. */
#include "preset.h"

#include <stdlib.h>
#include <string.h>

#include "duration.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads all of what was handed out, so that a bad pointer is noticed. */
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

			if (preset_group_func(g, f->name) != f || !*f->symbol)
				abort();
			for (size_t k = 0; k < f->lib_cnt; k++)
				sum += strlen(f->libs[k]);
			for (size_t k = 0; k < f->arg_cnt; k++)
				sum += strlen(f->args[k].text) + strlen(f->args[k].name);
			for (size_t k = 0; f->ret.type && k < f->ret.type->code_cnt; k++)
				sum += strlen(preset_code_name(
					f->ret.type, f->ret.type->codes[k].code));
			sum += preset_failed(&f->judge, 0x8000000080000000);
		}
	}
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct preset_set *set = NULL;
	struct err err = { 0 };
	char buf[DURATION_LEN];
	uint64_t ns;
	char *text;
	int rc;

	/* No preset of the user's is read: each input says all there is. */
	setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
	text = malloc(size + 1);
	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	rc = config_parse("fuzz.json", text, size, &set, &err);
	if (!rc)
		touch(set);
	else if (!err.msg[0] || err.code != rc)
		abort();
	preset_set_free(set);
	if (!duration_parse(text, &ns, NULL))
		duration_format(ns, buf);
	free(text);
	return 0;
}
