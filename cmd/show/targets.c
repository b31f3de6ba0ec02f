// SPDX-License-Identifier: BSD-2-Clause
// What could be probed, with types: found as attach finds it, and never attached.
#include <stdlib.h>

#include "attach/attach.h"
#include "base/buffer.h"
#include "base/util.h"
#include "show/list.h"
#include "show/text.h"
#include "target/draft.h"

/* "(int dfd, const char *filename) long", as far as it is known. */
static void declaration_write(struct out *o, const struct preset_func *known)
{
	if (known && known->has_args) {
		out_char(o, '(');
		for (size_t i = 0; i < known->arg_cnt; i++) {
			out_str(o, i ? ", " : "");
			out_str(o, known->args[i].text);
		}
		out_char(o, ')');
	}
	if (known && known->ret_text) {
		out_str(o, known->has_args ? " " : "");
		out_str(o, known->ret_text);
	}
	out_char(o, '\0');
}

static void target_json(struct json *j, const struct target *t, const char *typed)
{
	const struct preset_func *known = t->known;

	json_open(j, '{');
	json_set_str(j, "target", typed);
	json_set_str(j, "name", t->name);
	json_set_str(j, "kind", target_shown(t).kind);
	json_set_str(j, "library", t->object->path);
	json_set_open(j, "args", '[');
	for (size_t i = 0; known && known->has_args && i < known->arg_cnt; i++)
		json_str(j, known->args[i].text);
	json_close(j, ']');
	json_set_bool(j, "declared", known && known->has_args);
	json_set_str(j, "ret", known ? known->ret_text : NULL);
	json_set_str(j, "refused", t->refused);
	json_close(j, '}');
}

static void show(const struct globals *g, const struct draft *draft, struct json *doc)
{
	static const struct table_column columns[] = { { "TARGET", TABLE_LEFT, true },
		{ "ARGUMENTS AND RESULT", TABLE_LEFT, true } };
	_cleanup_table_ struct table *table = table_new(columns, ARRAY_SIZE(columns));
	struct out text = {};

	for (size_t i = 0; i < draft->target_cnt; i++) {
		const struct target *t = &draft->targets[i];
		_cleanup_free_ char *typed = target_typed(t);

		if (doc) {
			target_json(doc, t, typed);
			continue;
		}
		text.len = 0;
		declaration_write(&text, t->known);
		table_cell(table, "%s", typed ? typed : "?");
		if (t->refused)
			table_cell(table, "%s%srefused: %s", text.failed ? "?" : text.buf,
				text.len > 1 ? "; " : "", t->refused);
		else
			table_cell(table, "%s", text.failed ? "?" : text.buf);
	}
	if (!doc)
		table_print(table, g, stdout);
	out_done(&text);
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
