// SPDX-License-Identifier: BSD-2-Clause
// From the JSON of a preset or a configuration file: functions, groups, the whole file.
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "internal.h"

/* --- From the JSON of a preset or a configuration file: single values, and types ----------------- */

struct json_object *obj_member(struct json_object *obj, const char *name)
{
	struct json_object *val;

	return json_object_object_get_ex(obj, name, &val) ? val : NULL;
}

/* --- small values ------------------------------------------------------------------ */

int reader_want(struct reader *r, struct json_object *val, const char *name,
	enum json_type type, const char *what)
{
	if (json_object_is_type(val, type))
		return 0;
	return json_err(
		&r->doc, val, JSON_AT_VALUE, r->err, "'%s' must be %s", name, what);
}

/* A string with something in it and no control characters, kept in the arena. */
int reader_text(
	struct reader *r, struct json_object *val, const char *name, const char **ret)
{
	const char *s;
	int rc = reader_want(r, val, name, json_type_string, "a string");

	if (rc)
		return rc;
	s = json_object_get_string(val);
	if (!*s)
		return json_err(
			&r->doc, val, JSON_AT_VALUE, r->err, "'%s' is empty", name);
	if (strlen(s) > CONFIG_NAME_MAX)
		return json_err(&r->doc, val, JSON_AT_VALUE, r->err,
			"'%s' is longer than %d bytes", name, CONFIG_NAME_MAX);
	for (const char *p = s; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return json_err(&r->doc, val, JSON_AT_VALUE, r->err,
				"'%s' has a control character", name);
	*ret = arena_strdup(&r->set->arena, s);
	return 0;
}

int reader_bool(struct reader *r, struct json_object *val, const char *name, bool *ret)
{
	int rc = reader_want(r, val, name, json_type_boolean, "true or false");

	if (!rc)
		*ret = json_object_get_boolean(val);
	return rc;
}

/* A string, or an array of them. */
int reader_texts(struct reader *r, struct json_object *val, const char *name,
	const char *const **ret, size_t *ret_cnt)
{
	bool many = json_object_is_type(val, json_type_array);
	size_t cnt = many ? json_object_array_length(val) : 1;
	const char **list;
	int rc;

	if (!cnt)
		return json_err(
			&r->doc, val, JSON_AT_VALUE, r->err, "'%s' is empty", name);
	list = arena_alloc(&r->set->arena, cnt * sizeof(*list));
	for (size_t i = 0; i < cnt; i++) {
		rc = reader_text(r, many ? json_object_array_get_idx(val, i) : val, name,
			&list[i]);
		if (rc)
			return rc;
	}
	*ret = list;
	*ret_cnt = cnt;
	return 0;
}

/* Fails with the unknown key, and suggests the nearest one of @keys. */
static int reader_unknown_key(struct reader *r, struct json_object *val, const char *key,
	const char *const *keys, const char *where)
{
	int rc = json_err(
		&r->doc, val, JSON_AT_KEY, r->err, "unknown key '%s' in %s", key, where);

	suggest_hint(r->err, key, keys);
	return rc;
}

static bool is_key(const char *key, const char *const *keys)
{
	for (; *keys; keys++)
		if (!strcmp(key, *keys))
			return true;
	return false;
}

int reader_keys(struct reader *r, struct json_object *obj, const char *const *keys,
	const char *where)
{
	struct json_object *val;
	const char *key;

	obj_foreach(obj, key, val) if (!is_key(key, keys)) return reader_unknown_key(
		r, val, key, keys, where);
	return 0;
}

/* --- judging return values --------------------------------------------------------- */

static int64_t sign_extend(uint64_t raw, unsigned int bits)
{
	return bits < 64 ? (int64_t)(raw << (64 - bits)) >> (64 - bits) : (int64_t)raw;
}

int reader_error(struct reader *r, struct json_object *val,
	const struct preset_value *value, struct preset_judge *judge)
{
	static const char *const names[] = { "none", "nonzero", "negative", "null", "zero",
		"not_positive", NULL };
	bool number = value->kind == TYPE_INT || value->kind == TYPE_BOOL;
	bool pointer = value->kind == TYPE_POINTER || value->kind == TYPE_STRING;
	const char *s;
	uint8_t kind;
	int rc = reader_want(r, val, "error", json_type_string, "a string");

	if (rc)
		return rc;
	s = json_object_get_string(val);
	for (kind = 0; names[kind] && strcmp(s, names[kind]); kind++)
		;
	if (!names[kind]) {
		rc = json_err(&r->doc, val, JSON_AT_VALUE, r->err,
			"'error' is none, nonzero, negative, null, zero or not_positive, not '%s'",
			s);
		suggest_hint(r->err, s, names);
		return rc;
	}
	if (kind != FSN_JUDGE_NONE && !(kind == FSN_JUDGE_NULL ? pointer : number))
		return json_err(&r->doc, val, JSON_AT_VALUE, r->err,
			"'error' can be '%s' only for %s", s,
			kind == FSN_JUDGE_NULL ? "a pointer" : "an integer");
	judge->kind = kind;
	judge->width = (uint8_t)(value->size * 8);
	return 0;
}

static int get_code(
	struct reader *r, struct json_object *val, const char *name, int64_t *ret)
{
	int rc = reader_want(r, val, name, json_type_int, "an array of whole numbers");

	if (rc)
		return rc;
	*ret = json_object_get_int64(val);
	/* json-c clamps numbers that are out of range. */
	if (*ret == INT64_MAX || *ret == INT64_MIN)
		return json_err(&r->doc, val, JSON_AT_VALUE, r->err,
			"'%s': number out of range", name);
	return 0;
}

int reader_no_error(struct reader *r, struct json_object *val, struct preset_judge *judge)
{
	int rc = reader_want(
		r, val, "no_error", json_type_array, "an array of whole numbers");
	int64_t code;

	if (rc)
		return rc;
	if (judge->kind == FSN_JUDGE_NONE || judge->kind == FSN_JUDGE_NULL ||
		judge->kind == FSN_JUDGE_ZERO)
		return json_err(&r->doc, val, JSON_AT_KEY, r->err,
			"'no_error' without 'error': no code is an error anyway");
	for (size_t i = 0; i < json_object_array_length(val); i++) {
		struct json_object *item = json_object_array_get_idx(val, i);

		rc = get_code(r, item, "no_error", &code);
		if (rc)
			return rc;
		if (judge->ok_cnt == FSN_OK_CODES)
			return json_err(&r->doc, item, JSON_AT_VALUE, r->err,
				"more than %d codes that are no error", FSN_OK_CODES);
		judge->ok[judge->ok_cnt++] = sign_extend((uint64_t)code, judge->width);
	}
	return 0;
}

/* --- types --------------------------------------------------------------------------- */

DEFINE_ORDER(code_cmp, struct preset_code, RISING(code))

static int read_codes(struct reader *r, struct json_object *obj, struct preset_type *type)
{
	const struct preset_value value = {
		.kind = type->kind,
		.size = type->size,
		.is_signed = type->is_signed,
	};
	struct preset_code *codes;
	struct json_object *val;
	const char *name;
	size_t n = 0;
	char *end;
	int rc = reader_want(
		r, obj, "codes", json_type_object, "an object of number and name");

	if (rc)
		return rc;
	if (type->kind != TYPE_INT)
		return json_err(&r->doc, obj, JSON_AT_KEY, r->err,
			"'codes' of a type that is no integer");
	codes = arena_alloc(
		&r->set->arena, (size_t)json_object_object_length(obj) * sizeof(*codes));
	obj_foreach(obj, name, val)
	{
		errno = 0;
		codes[n].code = strtoll(name, &end, 10);
		if (errno || *end || end == name || *name == ' ' || *name == '+')
			return json_err(&r->doc, val, JSON_AT_KEY, r->err,
				"'%s' is not a whole number", name);
		codes[n].code = preset_value_int(&value, (uint64_t)codes[n].code);
		rc = reader_text(r, val, name, &codes[n++].name);
		if (rc)
			return rc;
	}
	qsort(codes, n, sizeof(*codes), code_cmp);
	for (size_t i = 1; i < n; i++)
		if (codes[i].code == codes[i - 1].code)
			return json_err(&r->doc, obj, JSON_AT_KEY, r->err,
				"type '%s' has code %lld twice", type->name,
				(long long)codes[i].code);
	type->codes = codes;
	type->code_cnt = n;
	return 0;
}

static int read_base(struct reader *r, struct json_object *obj, struct preset_type *type)
{
	struct json_object *base = obj_member(obj, "base"),
			   *size = obj_member(obj, "size");
	struct declaration decl = { .value = { TYPE_INT, 4, true, NULL } };
	const char *text = "int", *why;
	int64_t bytes;
	int rc;

	if (base && (rc = reader_text(r, base, "base", &text)))
		return rc;
	if (!strcmp(text, "struct") || !strcmp(text, "class")) {
		decl.value = (struct preset_value) {
			.kind = *text == 's' ? TYPE_STRUCT : TYPE_CLASS,
		};
		if (!size && *text == 's')
			return json_err(&r->doc, base, JSON_AT_VALUE, r->err,
				"a struct needs its 'size' in bytes");
	} else if (declaration_parse(text, false, NULL, NULL, &decl, &why) ||
		decl.value.kind == TYPE_VOID) {
		return json_err(&r->doc, base, JSON_AT_VALUE, r->err,
			"'base' is a basic C type, a pointer, \"struct\" or \"class\", not '%s'",
			text);
	} else if (size) {
		return json_err(&r->doc, size, JSON_AT_KEY, r->err,
			"'size' is for a struct or class");
	}
	if (size) {
		rc = reader_want(r, size, "size", json_type_int, "a number of bytes");
		if (rc)
			return rc;
		bytes = json_object_get_int64(size);
		if (bytes < 1 || bytes > CONFIG_STRUCT_MAX)
			return json_err(&r->doc, size, JSON_AT_VALUE, r->err,
				"'size' must be 1 to %d bytes", CONFIG_STRUCT_MAX);
		decl.value.size = (uint32_t)bytes;
	}
	type->kind = decl.value.kind;
	type->size = decl.value.size;
	type->is_signed = decl.value.is_signed;
	return 0;
}

/* Reads the type of a struct's members if all are the same. */
static int read_members(
	struct reader *r, struct json_object *val, struct preset_type *type)
{
	struct declaration decl;
	const char *text, *why;
	int rc = reader_text(r, val, "members", &text);

	if (rc)
		return rc;
	if (type->kind != TYPE_STRUCT)
		return json_err(&r->doc, val, JSON_AT_KEY, r->err,
			"'members' of a type that is no struct");
	/* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): reader_text() has set it */
	if (declaration_parse(text, false, NULL, NULL, &decl, &why) ||
		decl.value.kind != TYPE_INT || decl.value.is_signed)
		return json_err(&r->doc, val, JSON_AT_VALUE, r->err,
			"'members' is an unsigned integer type, not '%s'", text);
	if (type->size % decl.value.size)
		return json_err(&r->doc, val, JSON_AT_VALUE, r->err,
			"'members' of %u bytes do not fill %u bytes", decl.value.size,
			type->size);
	type->member_size = (uint8_t)decl.value.size;
	return 0;
}

/* Reads the element sizes of each value of a type. */
static int read_sizes(struct reader *r, struct json_object *val, struct preset_type *type)
{
	const char *key;
	struct json_object *size;
	int rc = reader_want(r, val, "sizes", json_type_object, "an object");

	if (rc)
		return rc;
	obj_foreach(val, key, size)
	{
		unsigned long code = *key ? strtoul(key, NULL, 10) : PRESET_SIZES;
		int64_t bytes = json_object_get_int64(size);
		unsigned int log = 0;

		while (log < 14 && 1LL << log < bytes)
			log++;
		if (key[strspn(key, "0123456789")] || code >= PRESET_SIZES || 1LL << log != bytes)
			return json_err(&r->doc, size, JSON_AT_KEY, r->err,
				"'sizes' are of values below %d, a power of two of bytes up to 16384",
				PRESET_SIZES);
		type->sizes |= (uint64_t)(log + 1) << 4 * code;
	}
	return 0;
}

static int read_size_at(struct reader *r, struct json_object *val, struct preset_type *type)
{
	int rc = reader_want(r, val, "size_at", json_type_int, "a number of bytes");
	int64_t at;

	if (rc)
		return rc;
	at = json_object_get_int64(val);
	if (type->kind != TYPE_POINTER || at < 1 || at > UINT16_MAX)
		return json_err(&r->doc, val, JSON_AT_VALUE, r->err,
			"'size_at' is of a pointer, 1 to %d", UINT16_MAX);
	type->size_at = (uint16_t)at;
	return 0;
}

static int read_type(struct reader *r, const char *name, struct json_object *obj,
	struct preset_type *type)
{
	static const char *const keys[] = { "base", "size", "members", "error",
		"no_error", "codes", "sizes", "size_at", NULL };
	struct json_object *val;
	char where[96];
	int rc = reader_want(r, obj, name, json_type_object, "an object");

	if (rc)
		return rc;
	snprintf(where, sizeof(where), "type '%.64s'", name);
	rc = reader_keys(r, obj, keys, where);
	if (rc)
		return rc;
	type->name = arena_strdup(&r->set->arena, name);
	rc = read_base(r, obj, type);
	if (!rc && (val = obj_member(obj, "members")))
		rc = read_members(r, val, type);
	if (!rc && (val = obj_member(obj, "error")))
		rc = reader_error(r, val,
			&(struct preset_value) { .kind = type->kind, .size = type->size },
			&type->judge);
	if (!rc && (val = obj_member(obj, "no_error")))
		rc = reader_no_error(r, val, &type->judge);
	if (!rc && (val = obj_member(obj, "codes")))
		rc = read_codes(r, val, type);
	if (!rc && (val = obj_member(obj, "sizes")))
		rc = read_sizes(r, val, type);
	if (!rc && (val = obj_member(obj, "size_at")))
		rc = read_size_at(r, val, type);
	return rc;
}

DEFINE_ORDER(type_cmp, struct preset_type, strcmp(x->name, y->name))

/* "types" of the file, into r->set. */
static int reader_types(struct reader *r, struct json_object *obj)
{
	struct preset_type *types;
	struct json_object *val;
	const char *name;
	size_t n = 0;
	int rc = reader_want(r, obj, "types", json_type_object, "an object");

	if (rc)
		return rc;
	types = arena_alloc(
		&r->set->arena, (size_t)json_object_object_length(obj) * sizeof(*types));
	obj_foreach(obj, name, val)
	{
		struct declaration decl;
		const char *why;

		/* Known already, or nothing that a declaration could name. */
		if (!declaration_parse(name, false, NULL, NULL, &decl, &why) ||
			strcmp(decl.unknown, name))
			return json_err(&r->doc, val, JSON_AT_KEY, r->err,
				"'%s' can't be the name of a type", name);
		rc = read_type(r, name, val, &types[n++]);
		if (rc)
			return rc;
	}
	qsort(types, n, sizeof(*types), type_cmp);
	r->set->types = types;
	r->set->type_cnt = n;
	return 0;
}

DEFINE_ORDER(func_cmp, struct preset_func, strcmp(x->name, y->name))

DEFINE_ORDER(group_cmp, struct preset_group, strcmp(x->name, y->name))

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

/* A function with its location in the file. */
struct placed {
	const struct preset_func *func;
	struct json_object *val;
};

DEFINE_ORDER(placed_cmp, struct placed,
	strcmp(x->func->symbol, y->func->symbol) ?: RISING(func))

/* One symbol under two names would be one function that is shown under one of them. */
static int check_symbols(struct reader *r, struct placed *placed, size_t cnt)
{
	qsort(placed, cnt, sizeof(*placed), placed_cmp);
	for (size_t i = 1; i < cnt; i++) {
		const struct preset_func *a = placed[i - 1].func, *b = placed[i].func;

		if (!strcmp(a->symbol, b->symbol) && !a->lib_cnt && !b->lib_cnt)
			return json_err(&r->doc, placed[i].val, JSON_AT_KEY, r->err,
				"symbol '%.128s' is already declared, as '%.128s'",
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
	group->selection_of = r->selection_of;
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
					"group '%s' is already defined", groups[n].name);
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

static const char *const file_keys[] = { "description", "keys", "lib", "libs", "nothrow",
	"selection_of", "sums", "types", NULL };

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
	int rc = check_keys(r), len;

	len = snprintf(why, sizeof(why), "%s%.200s", r->preset ? "preset " : "",
		r->preset ? r->preset : r->doc.label);
	r->types_why = arena_strdup(&r->set->arena, why);
	snprintf(why + len, sizeof(why) - len, " declares nothrow");
	r->nothrow_text = arena_strdup(&r->set->arena, why);
	r->origin = arena_strdup(
		&r->set->arena, r->source == SOURCE_BUILTIN ? "built in" : r->doc.label);
	if (!rc && (val = obj_member(root, "description")))
		rc = reader_text(r, val, "description", &r->description);
	if (!rc && (val = obj_member(root, "selection_of")))
		rc = reader_text(r, val, "selection_of", &r->selection_of);
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
