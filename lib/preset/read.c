// SPDX-License-Identifier: BSD-2-Clause
/* From the JSON of a preset or a configuration file: functions, groups, the whole file. */
#include "internal.h"

#include <errno.h>
#include <string.h>

#include "base/text.h"

static int func_cmp(const void *a, const void *b)
{
	return strcmp(((const struct preset_func *)a)->name,
		((const struct preset_func *)b)->name);
}

static int group_cmp(const void *a, const void *b)
{
	return strcmp(((const struct preset_group *)a)->name,
		((const struct preset_group *)b)->name);
}

/* The length of the group's name in "NAME_func_sym" or "NAME_sym"; -1: another key. */
static ssize_t group_name_len(const char *key)
{
	static const char *const ends[] = { "_func_sym", "_sym" };
	size_t len = strlen(key);

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		size_t end = strlen(ends[i]);

		if (len >= end && !strcmp(key + len - end, ends[i]))
			return (ssize_t)(len - end);
	}
	return -1;
}

/* A function with where it stands in the file. */
struct placed {
	const struct preset_func *func;
	struct json_object *val;
};

static int placed_cmp(const void *a, const void *b)
{
	const struct placed *x = a, *y = b;
	int cmp = strcmp(x->func->symbol, y->func->symbol);

	return cmp ? cmp : x->func < y->func ? -1 : x->func > y->func;
}

/* One symbol under two names would be one function that is shown under one of them. */
static int check_symbols(struct reader *r, struct placed *placed, size_t cnt)
{
	qsort(placed, cnt, sizeof(*placed), placed_cmp);
	for (size_t i = 1; i < cnt; i++) {
		const struct preset_func *a = placed[i - 1].func, *b = placed[i].func;

		if (!strcmp(a->symbol, b->symbol) && !a->lib_cnt && !b->lib_cnt)
			return json_err(&r->doc, placed[i].val, JSON_AT_KEY, r->err,
				"symbol '%.128s' is there already, as '%.128s'",
				b->symbol, a->name);
	}
	return 0;
}

static int read_funcs(
	struct reader *r, struct json_object *obj, struct preset_group *group)
{
	_cleanup_free_ struct placed *placed = xcalloc(group->func_cnt, sizeof(*placed));
	struct preset_func *funcs;
	struct json_object *val;
	const char *name;
	size_t n = 0;
	int rc;

	funcs = arena_alloc(&r->set->arena, group->func_cnt * sizeof(*funcs));
	if (!funcs || !placed)
		return reader_no_memory(r);
	obj_foreach(obj, name, val)
	{
		placed[n] = (struct placed) { &funcs[n], val };
		rc = reader_func(r, name, val, &funcs[n++]);
		if (rc)
			return rc;
	}
	rc = check_symbols(r, placed, n);
	if (rc)
		return rc;
	qsort(funcs, n, sizeof(*funcs), func_cmp);
	group->funcs = funcs;
	return 0;
}

static int read_group(struct reader *r, const char *key, size_t name_len,
	struct json_object *obj, struct preset_group *group)
{
	struct err why = { 0 };
	struct json_object *val;
	int rc;

	group->name = arena_strndup(&r->set->arena, key, name_len);
	if (!group->name)
		return reader_no_memory(r);
	if (group_name_check(group->name, &why))
		return json_err(&r->doc, obj, JSON_AT_KEY, r->err, "%s", why.msg);
	rc = reader_want(r, obj, key, json_type_object, "an object of functions");
	if (!rc)
		rc = reader_parent(r, group->name);
	if (rc)
		return rc;
	val = obj_member(r->doc.root, "libs");
	r->own_libs = r->lib_cnt ||
		(json_object_is_type(val, json_type_object) &&
			obj_member(val, group->name));
	group->func_cnt = (size_t)json_object_object_length(obj);
	r->func_cnt += group->func_cnt;
	if (!group->func_cnt)
		return json_err(&r->doc, obj, JSON_AT_VALUE, r->err,
			"group '%s' has no functions", group->name);
	if (r->func_cnt > CONFIG_FUNCS_MAX)
		return json_err(&r->doc, obj, JSON_AT_VALUE, r->err,
			"more than %d functions", CONFIG_FUNCS_MAX);
	rc = read_funcs(r, obj, group);
	if (rc)
		return rc;
	group->origin = r->origin;
	group->description = r->description ? r->description
		: r->parent                 ? r->parent->description
					    : NULL;
	group->libs = r->lib_cnt ? r->libs : r->parent ? r->parent->libs : NULL;
	group->lib_cnt = r->lib_cnt ? r->lib_cnt : r->parent ? r->parent->lib_cnt : 0;
	group->keys = r->keys;
	group->key_cnt = r->key_cnt;
	group->sums = r->sums;
	group->sum_cnt = r->sum_cnt;
	return 0;
}

static int read_groups(struct reader *r)
{
	struct preset_group *groups;
	struct json_object *val;
	const char *key;
	size_t n = 0;
	int rc;

	groups = arena_alloc(&r->set->arena,
		(size_t)json_object_object_length(r->doc.root) * sizeof(*groups));
	if (!groups)
		return reader_no_memory(r);
	obj_foreach(r->doc.root, key, val)
	{
		ssize_t name_len = group_name_len(key);

		if (name_len < 0)
			continue;
		if (n == CONFIG_GROUPS_MAX)
			return json_err(&r->doc, val, JSON_AT_KEY, r->err,
				"more than %d groups", CONFIG_GROUPS_MAX);
		rc = read_group(r, key, (size_t)name_len, val, &groups[n]);
		if (rc)
			return rc;
		for (size_t i = 0; i < n; i++)
			if (!strcmp(groups[i].name, groups[n].name))
				return json_err(&r->doc, val, JSON_AT_KEY, r->err,
					"group '%s' is there already", groups[n].name);
		if (r->preset && strcmp(groups[n].name, r->preset))
			return json_err(&r->doc, val, JSON_AT_KEY, r->err,
				"preset '%s' can't define group '%s'", r->preset,
				groups[n].name);
		n++;
	}
	if (!n)
		return json_err(&r->doc, r->doc.root, JSON_AT_VALUE, r->err,
			"no group (a key that ends in _func_sym or _sym)");
	qsort(groups, n, sizeof(*groups), group_cmp);
	r->set->pub.groups = groups;
	r->set->pub.group_cnt = n;
	return 0;
}

/* "libs": { group: libraries }; comes after the groups, which it must name. */
static int read_libs(struct reader *r, struct json_object *obj)
{
	const char *names[64 + 1] = { NULL };
	struct json_object *val;
	const char *key;
	int rc = reader_want(
		r, obj, "libs", json_type_object, "an object of group and library");

	if (rc)
		return rc;
	obj_foreach(obj, key, val)
	{
		struct preset_group *group =
			(struct preset_group *)preset_set_group(&r->set->pub, key);

		if (!group) {
			for (size_t i = 0; i < r->set->pub.group_cnt && i < 64; i++)
				names[i] = r->set->pub.groups[i].name;
			rc = json_err(&r->doc, val, JSON_AT_KEY, r->err,
				"'libs' names group '%s', which isn't there", key);
			suggest_hint(r->err, key, names);
			return rc;
		}
		rc = reader_texts(r, val, key, &group->libs, &group->lib_cnt);
		if (rc)
			return rc;
	}
	return 0;
}

/* --- the file ------------------------------------------------------------------------- */

static const char *const file_keys[] = { "description", "keys", "lib", "libs", "nothrow", "sums",
	"types", NULL };

static int check_keys(struct reader *r)
{
	struct json_object *val;
	const char *key;
	int rc;

	obj_foreach(r->doc.root, key, val)
	{
		size_t i;

		for (i = 0; file_keys[i] && strcmp(key, file_keys[i]); i++)
			;
		if (file_keys[i] || group_name_len(key) >= 0)
			continue;
		rc = reader_unknown_key(r, val, key, file_keys, "the file");
		if (!suggest_hint(r->err, key, file_keys))
			err_hint(r->err, "the key of a group ends in _func_sym or _sym");
		return rc;
	}
	return 0;
}

static int read_file(struct reader *r)
{
	struct json_object *root = r->doc.root, *val;
	bool nothrow = false;
	char why[256];
	int rc = check_keys(r);

	snprintf(why, sizeof(why), "%s%.200s declares nothrow",
		r->preset ? "preset " : "", r->preset ? r->preset : r->doc.label);
	r->nothrow_text = arena_strdup(&r->set->arena, why);
	snprintf(why, sizeof(why), "%s%.200s", r->preset ? "preset " : "",
		r->preset ? r->preset : r->doc.label);
	r->types_why = arena_strdup(&r->set->arena, why);
	r->origin = arena_strdup(
		&r->set->arena, r->source == SOURCE_BUILTIN ? "built in" : r->doc.label);
	if (!r->nothrow_text || !r->types_why || !r->origin)
		return reader_no_memory(r);
	if (!rc && (val = obj_member(root, "description")))
		rc = reader_text(r, val, "description", &r->description);
	if (!rc && (val = obj_member(root, "nothrow")))
		rc = reader_bool(r, val, "nothrow", &nothrow);
	if (!rc && (val = obj_member(root, "lib")))
		rc = reader_texts(r, val, "lib", &r->libs, &r->lib_cnt);
	if (!rc && (val = obj_member(root, "keys")))
		rc = reader_texts(r, val, "keys", &r->keys, &r->key_cnt);
	if (!rc && (val = obj_member(root, "sums")))
		rc = reader_texts(r, val, "sums", &r->sums, &r->sum_cnt);
	if (!rc && (val = obj_member(root, "types")))
		rc = reader_types(r, val);
	r->nothrow_off = obj_member(root, "nothrow") && !nothrow;
	r->nothrow_why = nothrow ? r->nothrow_text : NULL;
	if (!rc)
		rc = read_groups(r);
	if (!rc && (val = obj_member(root, "libs")))
		rc = read_libs(r, val);
	return rc;
}

int source_read(enum source source, const char *preset, const char *label,
	const char *text, size_t len, struct preset_set **ret_set, struct err *err)
{
	struct reader r = { .source = source, .preset = preset, .err = err };
	struct preset_set *set;
	int rc;

	r.set = xcalloc(1, sizeof(*r.set));
	set = &r.set->pub;
	rc = json_doc_parse(&r.doc, label, text, len, err);
	if (!rc)
		rc = read_file(&r);
	json_doc_done(&r.doc);
	if (rc) {
		preset_set_free(set);
		return rc;
	}
	*ret_set = set;
	return 0;
}
