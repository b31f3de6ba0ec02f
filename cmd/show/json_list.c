// SPDX-License-Identifier: BSD-2-Clause
// attach and list as JSON. Keys only ever grow: scripts depend on them (funcsnoop-json(5)).
#include <string.h>

#include "kernel/link.h"
#include "show/json.h"
#include "show/json_set.h"
#include "show/text.h"

/* --- functions ------------------------------------------------------------------------------ */

static void add_function(
	struct json_object *list, const struct group_func *f, const char *refused)
{
	struct json_object *obj = json_new();

	json_set_str(obj, "name", f->name);
	json_set_str(obj, "symbol", f->symbol);
	json_set_str(obj, "demangled", f->demangled);
	json_set_str(obj, "library", f->library);
	json_set_str(obj, "build_id", f->build_id && *f->build_id ? f->build_id : NULL);
	json_set_u64(obj, "offset", f->offset);
	json_set_u64_if(obj, "site_offset", !refused, f->site_offset);
	json_set_str(obj, "site_why", refused ? NULL : f->site_why);
	json_set_str(obj, "instruction", refused ? NULL : f->insn);
	json_set_str(obj, "exit", refused ? NULL : text_exit(f->exit));
	json_set_str(obj, "exit_why", refused ? NULL : f->exit_why);
	json_set_str(obj, "refused", refused);
	json_add(list, obj);
}

/* A group and its functions, of which those with other names come into the second array. */
static void add_group(struct json_object *doc, const char *name,
	struct json_object **ret_functions, struct json_object **ret_aliases)
{
	struct json_object *obj = json_new();

	*ret_functions = json_array();
	*ret_aliases = json_array();
	json_set_str(obj, "group", name);
	json_set(obj, "functions", *ret_functions);
	json_set(obj, "aliases", *ret_aliases);
	json_add(doc, obj);
}

static struct json_object *add_also(struct json_object *aliases, const char *name)
{
	struct json_object *obj = json_new(), *also = json_array();

	json_set_str(obj, "name", name);
	json_set(obj, "also", also);
	json_add(aliases, obj);
	return also;
}

void json_add_target(struct json_object *doc, const struct target *t)
{
	struct json_object *functions, *aliases, *also;

	add_group(doc, t->name, &functions, &aliases);
	for (size_t i = 0; i < t->func_cnt; i++) {
		const struct target_func *f = &t->funcs[i];
		struct group_func shown = target_func_shown(f);
		const char *alias;

		add_function(functions, &shown, f->refused);
		if (!target_func_alias(f, 0))
			continue;
		also = add_also(aliases, f->name);
		for (size_t k = 0; (alias = target_func_alias(f, k)); k++)
			json_add(also, json_str(alias));
	}
}

/* What of the look-ups is not among the functions. */
static void explain_libraries(struct json_object *list, const struct target *t)
{
	const struct lib_seen *seen;
	struct json_object *obj;
	size_t cnt;

	for (size_t i = 0; i < t->looked_cnt; i++) {
		const struct lib_file *lib = t->looked[i];

		obj = json_new();
		json_set_str(obj, "path", lib->path);
		json_set_str(obj, "found", lib->found_how);
		json_set_u64(obj, "functions", target_lib_funcs(t, lib));
		json_set_str(obj, "same_as", NULL);
		json_set_str(obj, "refused", NULL);
		json_add(list, obj);
	}
	seen = libfind_seen(t->finder, &cnt);
	for (size_t i = 0; i < cnt; i++) {
		obj = json_new();
		json_set_str(obj, "path", seen[i].path);
		json_set_str(obj, "found", NULL);
		json_set_u64(obj, "functions", 0);
		json_set_str(obj, "same_as", seen[i].file ? seen[i].file->path : NULL);
		json_set_str(obj, "refused", seen[i].why);
		json_add(list, obj);
	}
}

void json_explain_target(struct json_object *doc, const struct target *t)
{
	struct json_object *libraries = json_array();
	struct json_object *missing = json_array(), *obj;

	json_add_target(doc, t);
	obj = json_object_array_get_idx(doc, json_object_array_length(doc) - 1);
	explain_libraries(libraries, t);
	for (size_t i = 0; i < t->missing_cnt; i++)
		json_add(missing, json_str(t->missing[i]));
	json_set(obj, "libraries", libraries);
	json_set(obj, "missing", missing);
}

/* @names has a newline behind each. */
static void add_names(struct json_object *array, const char *names)
{
	while (*names) {
		size_t len = strcspn(names, "\n");

		json_add(array, json_str_len(names, len));
		names += names[len] ? len + 1 : len;
	}
}

void json_add_functions(struct json_object *doc, const struct group *group)
{
	struct json_object *functions, *aliases;
	struct group_info info = group_info(group);

	add_group(doc, info.name, &functions, &aliases);
	for (uint32_t i = 0; i < info.fn_cnt; i++) {
		struct group_func f = group_func(group, i);

		add_function(functions, &f, NULL);
		if (!f.aliases)
			continue;
		add_names(add_also(aliases, f.name), f.aliases);
	}
}

/* --- list ----------------------------------------------------------------------------------- */

void json_add_list(struct json_object *doc, const struct json_list_row *row)
{
	struct json_object *obj = json_new(), *libs = json_array();
	struct group_info info = group_info(row->group);
	char exits[64];

	for (uint32_t i = 0; !row->error && i < info.lib_cnt; i++)
		json_add(libs, json_str(group_lib(row->group, i)));
	json_set_str(obj, "name", info.name);
	json_set(obj, "libraries", libs);
	json_set_u64_if(obj, "functions", !row->error, info.fn_cnt);
	json_set_str(obj, "link", row->error ? NULL : link_mode_name(info.links));
	json_set_str(obj, "exits",
		row->error ? NULL : text_exits(info.exits, exits, sizeof(exits)));
	if (row->error) {
		json_set_str(obj, "attached_at", NULL);
		json_set_str(obj, "since", NULL);
	} else {
		json_set_time(obj, "attached_at", info.attached_ns);
		json_set_time(obj, "since", row->since_ns);
	}
	json_set_u64_if(obj, "calls", !row->error, row->calls);
	json_set_cost(obj, &row->cost);
	json_set_u64_if(obj, "memory_bytes", row->memory_bytes, row->memory_bytes);
	json_set(obj, "stale", row->error ? NULL : json_flag(row->stale));
	if (row->error)
		json_set_str(obj, "error", row->error);
	json_add(doc, obj);
}

void json_add_call(
	struct json_object *doc, const struct group *group, const struct slot_call *call)
{
	struct json_object *obj = json_new();

	json_set_str(obj, "group", group_info(group).name);
	json_set_str(obj, "function", group_func_name(group, call->fn));
	json_set_u64(obj, "pid", call->pid);
	json_set_u64(obj, "tid", call->tid);
	json_set_str(obj, "comm", call->comm);
	json_set_u64(obj, "age_ns", call->age_ns);
	json_set_bool(obj, "stale", call->stale);
	json_add(doc, obj);
}

void json_add_preset(struct json_object *doc, const struct preset_entry *preset)
{
	struct json_object *obj = json_new();

	json_set_str(obj, "name", preset->name);
	json_set_str(obj, "description", preset->description);
	json_set_str(obj, "origin", preset->origin);
	json_set_u64_if(obj, "functions", !preset->error, preset->func_cnt);
	json_set_str(obj, "error", preset->error);
	json_add(doc, obj);
}
