// SPDX-License-Identifier: BSD-2-Clause
// What could be probed, with types: found as attach finds it, and never attached.
#include <stdlib.h>

#include "attach/attach.h"
#include "base/util.h"
#include "show/list.h"
#include "show/text.h"
#include "target/draft.h"
#include "target/types.h"

struct table *prototypes_table(void)
{
	static const struct table_column columns[] = { { "PROTOTYPE", TABLE_LEFT, true },
		{ "TYPES FROM", TABLE_LEFT, true } };

	return table_new(columns, ARRAY_SIZE(columns));
}

void prototypes_add(struct table *table, const char *name, const struct preset_func *known,
	const char *why)
{
	_cleanup_free_ char *text = types_prototype(name, known);

	table_cell(table, "%s", text ? text : "?");
	table_cell(table, "%s", why ? why : "-");
}

static void target_json(struct json *j, const struct target *t, const char *typed)
{
	json_open(j, '{');
	json_set_str(j, "target", typed);
	json_set_str(j, "name", t->name);
	json_set_str(j, "kind", target_shown(t).kind);
	json_set_str(j, "library", t->object->path);
	json_add_types(j, t->known, t->known ? t->known->types_why : NULL);
	json_set_str(j, "refused", t->refused);
	json_close(j, '}');
}

static void show(const struct globals *g, const struct draft *draft, struct json *doc)
{
	static const struct table_column columns[] = { { "TARGET", TABLE_LEFT, true },
		{ "ARGUMENTS AND RESULT", TABLE_LEFT, true } };
	_cleanup_table_ struct table *table = table_new(columns, ARRAY_SIZE(columns));

	for (size_t i = 0; i < draft->target_cnt; i++) {
		const struct target *t = &draft->targets[i];
		_cleanup_free_ char *typed = target_typed(t);
		_cleanup_free_ char *text = types_prototype("", t->known);
		const char *why = t->known && !t->known->has_args && t->known->types_why
			? t->known->types_why
			: "";

		if (doc) {
			target_json(doc, t, typed);
			continue;
		}
		table_cell(table, "%s", typed ? typed : "?");
		if (t->refused)
			table_cell(table, "%s%srefused: %s", text ? text : "?",
				text && *text ? "; " : "", t->refused);
		else
			table_cell(table, "%s%s%s", text ? text : "?", *why && text && *text ? "; " : "",
				why);
	}
	if (!doc)
		table_print(table, g, stdout);
}

int list_targets(const struct globals *g, char *const *functions, size_t cnt)
{
	_cleanup_json_ struct json *doc = g->json ? json_array(g) : NULL;
	const struct draft_opts opts = { .name = "targets", .explain = true,
		.functions = (const char *const *)functions, .function_cnt = cnt };
	_cleanup_draft_ struct draft *draft = NULL;
	struct err err = {};

	if (!cnt)
		return cmd_usage(g, "'list targets' needs a FUNCTION: 's:*', 'k:vfs_*', LIB:glob");
	if (draft_new(&opts, &draft, &err))
		return cmd_fail(g, &err);
	if (!draft->target_cnt)
		return cmd_fail(g, &draft->failure);
	show(g, draft, doc);
	if (draft->failure.code)
		cmd_note(g, "%s", draft->failure.msg);
	return doc ? json_print(TAKE_PTR(doc)) : EXIT_DONE;
}
