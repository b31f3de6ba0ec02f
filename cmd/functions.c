// SPDX-License-Identifier: BSD-2-Clause
// A row for each function: where its probe is, how its end is seen, and why.
#include "functions.h"
#include "util.h"

struct table *functions_table(void)
{
	static const struct table_column columns[] = { { "FUNCTION", TABLE_LEFT, true },
		{ "LIBRARY", TABLE_LEFT, true }, { "OFFSET", TABLE_RIGHT, false },
		{ "SITE", TABLE_LEFT, false }, { "INSTRUCTION", TABLE_LEFT, true },
		{ "EXIT", TABLE_LEFT, false }, { "WHY", TABLE_LEFT, true } };

	return table_new(columns, ARRAY_SIZE(columns));
}

void functions_add(struct table *table, const struct group_func *f, const char *refused)
{
	table_cell(table, "%s", f->demangled ? f->demangled : f->name);
	table_cell(table, "%s", f->library);
	table_cell(table, "%#llx", (unsigned long long)f->offset);
	table_cell(table, refused ? "-" : "+%llu",
		(unsigned long long)(f->site_offset - f->offset));
	table_cell(table, "%s", refused ? "-" : f->insn);
	table_cell(table, "%s", refused ? "refused" : text_exit(f->exit));
	table_cell(table, "%s", refused ? refused : f->exit_why);
}

void functions_add_missing(struct table *table, const char *name)
{
	static const char *const rest[] = { "-", "-", "-", "-", "missing",
		"no such symbol" };

	table_cell(table, "%s", name);
	for (size_t i = 0; i < ARRAY_SIZE(rest); i++)
		table_cell(table, "%s", rest[i]);
}
