// SPDX-License-Identifier: BSD-2-Clause
// A row for each function: where its probe is, how its end is seen, and why.
#include <string.h>

#include "base/util.h"
#include "show/functions.h"

struct table *functions_table(void)
{
	static const struct table_column columns[] = { { "FUNCTION", TABLE_LEFT, true },
		{ "LIBRARY", TABLE_LEFT, true }, { "OFFSET", TABLE_RIGHT, false },
		{ "SITE", TABLE_LEFT, false }, { "INSTRUCTION", TABLE_LEFT, true },
		{ "EXIT", TABLE_LEFT, false }, { "WHY", TABLE_LEFT, true } };

	return table_new(columns, ARRAY_SIZE(columns));
}

/* "read (__read, __libc_read)" */
static const char *with_aliases(const struct group_func *f, char *buf, size_t size)
{
	size_t len = snprintf(buf, size, "%s (", f->name);

	for (const char *at = f->aliases; *at && len < size;) {
		size_t n = strcspn(at, "\n");

		len += snprintf(buf + len, size - len, "%s%.*s",
			at == f->aliases ? "" : ", ", (int)n, at);
		at += at[n] ? n + 1 : n;
	}
	if (len < size)
		snprintf(buf + len, size - len, ")");
	return buf;
}

void functions_add(struct table *table, const struct group_func *f, const char *refused)
{
	char names[512];

	table_cell(table, "%s",
		f->demangled         ? f->demangled
			: f->aliases ? with_aliases(f, names, sizeof(names))
				     : f->name);
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
