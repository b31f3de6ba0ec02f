/* SPDX-License-Identifier: BSD-2-Clause */
/* A configuration file that a test has as text, read. */
#ifndef FUNCSNOOP_PRESET_CONFIG_H
#define FUNCSNOOP_PRESET_CONFIG_H

#include "preset/internal.h"
#include "preset/preset.h"
#include "tap.h"

/*
 * Parses a configuration; the caller frees it. On errors, prints the reason and returns
 * NULL.
 */
static struct preset_set *parse(const char *text)
{
	struct preset_set *set = NULL;
	struct err err = { 0 };

	if (source_read(SOURCE_CONFIG, NULL, "t.json", text, strlen(text), &set, &err))
		printf("# %s\n", err.msg);
	return set;
}

static const struct preset_func *func_of(
	const struct preset_set *set, const char *group, const char *func)
{
	const struct preset_group *g = set ? preset_set_group(set, group) : NULL;

	for (size_t i = 0; g && i < g->func_cnt; i++)
		if (!strcmp(g->funcs[i].name, func))
			return &g->funcs[i];
	return NULL;
}

#endif
