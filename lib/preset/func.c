// SPDX-License-Identifier: BSD-2-Clause
// Reads one function of a preset or configuration file, and the declaration that it inherits.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "internal.h"

/*
 * --- "allocates" and "frees" of a function: memory that its calls allocate and free -------------
 */

static const struct preset_arg *arg_at(const struct preset_func *func, uint8_t arg)
{
	return &func->args[arg - 1];
}

/* Reads "ARG", or "*ARG" for the value that it points to. */
static int read_part(struct reader *r, struct json_object *val, const char *key,
	const struct preset_func *func, struct preset_part *ret)
{
	const char *text;
	int rc = reader_text(r, val, key, &text);

	if (rc)
		return rc;
	ret->is_pointed = *text == '*';
	text += ret->is_pointed;
	for (size_t i = 0; i < func->arg_cnt; i++)
		if (*text && !strcmp(func->args[i].name, text))
			ret->arg = (uint8_t)(i + 1);
	if (!ret->arg)
		return json_err(&r->doc, val, JSON_AT_VALUE, r->err,
			"'%s': there is no argument '%.128s'", key, text);
	if (ret->is_pointed && arg_at(func, ret->arg)->value.kind != TYPE_POINTER)
		return json_err(&r->doc, val, JSON_AT_VALUE, r->err,
			"'%s': argument '%.128s' is not a pointer", key, text);
	return 0;
}

static bool is_address(const struct preset_value *v)
{
	return v->kind == TYPE_POINTER || v->kind == TYPE_STRING ||
		(v->kind == TYPE_INT && v->size == 8);
}

static int read_pointer(struct reader *r, struct json_object *val, struct preset_func *func)
{
	const char *text;
	int rc = reader_text(r, val, "pointer", &text);

	if (rc)
		return rc;
	if (!strcmp(text, "result") && is_address(&func->ret))
		return 0;
	if (!strcmp(text, "result"))
		return json_err(&r->doc, val, JSON_AT_VALUE, r->err,
			"'pointer': the result is not declared as a pointer");
	if (*text != '*')
		return json_err(&r->doc, val, JSON_AT_VALUE, r->err,
			"'pointer' is \"result\", or \"*ARGUMENT\" where one is stored");
	return read_part(r, val, "pointer", func, &func->memory.pointer);
}

static int read_size(struct reader *r, struct json_object *val, struct preset_func *func)
{
	struct preset_part *part = &func->memory.size[func->memory.size_cnt];
	const struct preset_value *v;
	int rc;

	if (func->memory.size_cnt == PRESET_FACTORS)
		return json_err(&r->doc, val, JSON_AT_VALUE, r->err,
			"'size' has more than %d factors", PRESET_FACTORS);
	rc = read_part(r, val, "size", func, part);
	if (rc)
		return rc;
	v = &arg_at(func, part->arg)->value;
	if (!part->is_pointed && v->kind != TYPE_INT &&
		!(v->kind == TYPE_STRUCT && arg_at(func, part->arg)->member_size == 8))
		return json_err(&r->doc, val, JSON_AT_VALUE, r->err,
			"'size': argument '%.128s' is not a number", arg_at(func, part->arg)->name);
	func->memory.size_cnt++;
	return 0;
}

static int read_sizes(struct reader *r, struct json_object *val, struct preset_func *func)
{
	int rc = 0;

	if (!json_object_is_type(val, json_type_array))
		return read_size(r, val, func);
	if (!json_object_array_length(val))
		return json_err(&r->doc, val, JSON_AT_VALUE, r->err, "'size' is empty");
	for (size_t i = 0; !rc && i < json_object_array_length(val); i++)
		rc = read_size(r, json_object_array_get_idx(val, i), func);
	return rc;
}

static int reader_allocates(struct reader *r, struct json_object *val, struct preset_func *func)
{
	static const char *const keys[] = { "pointer", "size", NULL };
	struct json_object *part;
	int rc = reader_want(r, val, "allocates", json_type_object, "an object");

	func->memory.allocates = true;
	func->memory.pointer = (struct preset_part) {};
	func->memory.size_cnt = 0;
	memset(func->memory.size, 0, sizeof(func->memory.size));
	if (!rc)
		rc = reader_keys(r, val, keys, "'allocates'");
	if (rc)
		return rc;
	part = obj_member(val, "pointer");
	if (!part)
		return json_err(&r->doc, val, JSON_AT_VALUE, r->err,
			"'allocates' does not say which 'pointer'");
	rc = read_pointer(r, part, func);
	part = obj_member(val, "size");
	return !rc && part ? read_sizes(r, part, func) : rc;
}

/* Reads "allocates" and "frees", after the arguments and the result. */
static int reader_frees(struct reader *r, struct json_object *val, struct preset_func *func)
{
	struct preset_part part = {};
	int rc = read_part(r, val, "frees", func, &part);

	if (rc)
		return rc;
	if (part.is_pointed || !is_address(&arg_at(func, part.arg)->value))
		return json_err(&r->doc, val, JSON_AT_VALUE, r->err,
			"'frees': an argument that is the pointer itself");
	func->memory.frees = part.arg;
	return 0;
}

/* --- types by name ------------------------------------------------------------------- */

static const struct preset_type *set_type(const struct preset_set *set, const char *name)
{
	const struct set_impl *impl = (const struct set_impl *)set;
	size_t at = FIRST_WHERE(
		impl->type_cnt, i, strcmp(impl->types[i].name, name) >= 0);

	return at < impl->type_cnt && !strcmp(impl->types[at].name, name)
		? &impl->types[at]
		: NULL;
}

static void add_parent(struct reader *r, struct preset_set *parent)
{
	struct set_impl *set = r->set;

	*array_add(set->parents, set->parent_cnt) = parent;
}

/*
 * A type of the file, else of the presets that its groups are named after, else of any
 * built-in preset: "ret": "cudaError_t" works in every file.
 */
static const struct preset_type *reader_type(void *ctx, const char *name)
{
	struct reader *r = ctx;
	const struct preset_type *type = set_type(&r->set->pub, name);
	const char *preset;

	for (size_t i = 0; !type && i < r->set->parent_cnt; i++)
		type = set_type(r->set->parents[i], name);
	if (type || r->source == SOURCE_BUILTIN || r->builtin_tried)
		return type;
	r->builtin_tried = true;
	for (size_t i = 0; (preset = builtin_name(i)); i++) {
		struct preset_set *set;

		if (builtin_find(preset, &set, NULL))
			continue;
		add_parent(r, set);
		if (!type)
			type = set_type(set, name);
	}
	return type;
}

/* --- functions ----------------------------------------------------------------------- */

static int declaration_err(struct reader *r, struct json_object *val, const char *text,
	const struct declaration *decl, const char *why)
{
	int rc;

	if (why)
		return json_err(
			&r->doc, val, JSON_AT_VALUE, r->err, "'%s': %s", text, why);
	rc = json_err(&r->doc, val, JSON_AT_VALUE, r->err, "'%s': unknown type '%s'",
		text, decl->unknown);
	err_hint(r->err,
		"declare it: \"types\": { \"%s\": { \"base\": \"unsigned int\" } }",
		decl->unknown);
	return rc;
}

/* Names are the keys of a call's arguments in JSON. */
static bool is_named_before(const struct preset_arg *args, size_t n)
{
	for (size_t i = 0; *args[n].name && i < n; i++)
		if (!strcmp(args[i].name, args[n].name))
			return true;
	return false;
}

static int read_args(struct reader *r, struct json_object *val, struct preset_func *func)
{
	size_t cnt, n = 0;
	struct preset_arg *args;
	int rc = reader_want(r, val, "args", json_type_array, "an array of strings");

	if (rc)
		return rc;
	cnt = json_object_array_length(val);
	if (cnt > CONFIG_ARGS_MAX)
		return json_err(&r->doc, val, JSON_AT_VALUE, r->err,
			"'%s' has more than %d arguments", func->name, CONFIG_ARGS_MAX);
	args = arena_alloc(&r->set->arena, cnt * sizeof(*args));
	for (size_t i = 0; i < cnt; i++) {
		struct json_object *item = json_object_array_get_idx(val, i);
		struct declaration decl;
		const char *why;

		rc = reader_text(r, item, "args", &args[n].text);
		if (rc)
			return rc;
		func->is_variadic = i + 1 == cnt && !strcmp(args[n].text, "...");
		if (func->is_variadic)
			break;
		if (declaration_parse(args[n].text, true, reader_type, r, &decl, &why))
			return declaration_err(r, item, args[n].text, &decl, why);
		if (decl.value.kind == TYPE_VOID)
			return json_err(&r->doc, item, JSON_AT_VALUE, r->err,
				"an argument can't be void; no arguments are []");
		args[n].value = decl.value;
		if (decl.value.type)
			args[n].member_size = decl.value.type->member_size;
		args[n].name = arena_strndup(
			&r->set->arena, decl.name ? decl.name : "", decl.name_len);
		if (is_named_before(args, n))
			return json_err(&r->doc, item, JSON_AT_VALUE, r->err,
				"two arguments are called '%s'", args[n].name);
		n++;
	}
	func->args = args;
	func->arg_cnt = n;
	func->has_args = true;
	return 0;
}

static int read_ret(struct reader *r, struct json_object *val, struct preset_func *func)
{
	struct declaration decl;
	const char *why;
	int rc = reader_text(r, val, "ret", &func->ret_text);

	if (rc)
		return rc;
	if (declaration_parse(func->ret_text, false, reader_type, r, &decl, &why))
		return declaration_err(r, val, func->ret_text, &decl, why);
	func->ret = decl.value;
	func->judge =
		decl.value.type ? decl.value.type->judge : (struct preset_judge) { 0 };
	return 0;
}

static int read_slow(struct reader *r, struct json_object *val, struct preset_func *func)
{
	struct err why = { 0 };
	const char *text;
	int rc = reader_text(r, val, "slow", &text);

	if (rc)
		return rc;
	if (duration_parse(text, &func->slow_ns, &why))
		return json_err(
			&r->doc, val, JSON_AT_VALUE, r->err, "'slow': %s", why.msg);
	func->has_slow = true;
	return 0;
}

/* Reads "ret", "error", "no_error" and "args". */
static int read_signature(
	struct reader *r, struct json_object *obj, struct preset_func *func)
{
	struct preset_arg *args;
	struct json_object *val;
	int rc = 0;

	if (obj_member(obj, "ret") || obj_member(obj, "args"))
		func->types_why = r->types_why;
	if ((val = obj_member(obj, "ret")))
		rc = read_ret(r, val, func);
	if (!rc && (val = obj_member(obj, "error"))) {
		func->judge = (struct preset_judge) { 0 };
		rc = reader_error(r, val, &func->ret, &func->judge);
	}
	if (!rc && (val = obj_member(obj, "no_error")))
		rc = reader_no_error(r, val, &func->judge);
	if (!rc && (val = obj_member(obj, "args"))) {
		/* The parent's rules refer to other arguments. */
		func->memory = (struct preset_memory) {};
		rc = read_args(r, val, func);
	}
	if (rc || !func->has_args || (!val && !obj_member(obj, "ret")))
		return rc;
	/* The parent's arguments may be elsewhere if the return type differs. */
	args = arena_alloc(&r->set->arena, func->arg_cnt * sizeof(*args));
	for (size_t i = 0; i < func->arg_cnt; i++)
		args[i] = func->args[i];
	args_place(args, func->arg_cnt, &func->ret, PRESET_ABI_HOST);
	func->args = args;
	return 0;
}

/* One of the arguments, which have been read: 1 + its number. */
static int read_arg_name(struct reader *r, struct json_object *val, const char *key,
	const struct preset_func *func, uint8_t *ret_arg)
{
	const char *name;
	int rc = reader_text(r, val, key, &name);

	if (rc)
		return rc;
	for (size_t i = 0; i < func->arg_cnt; i++)
		if (*name && !strcmp(func->args[i].name, name)) {
			*ret_arg = (uint8_t)(i + 1);
			return 0;
		}
	return json_err(&r->doc, val, JSON_AT_VALUE, r->err, "'%s': there is no argument '%.128s'",
		key, name);
}

static const char name_chars[] = "abcdefghijklmnopqrstuvwxyz"
				 "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

/* Parses "ARG" or "ARG@OFFSET" and trailing blanks. Returns 1 + the argument's number, or 0. */
static uint8_t parse_factor(
	const struct preset_func *func, const char **text, bool *ret_behind, uint16_t *ret_at)
{
	size_t len = strspn(*text, name_chars);
	unsigned long at = 0;
	uint8_t arg = 0;
	char *end;

	for (size_t i = 0; len && i < func->arg_cnt; i++)
		if (!strncmp(func->args[i].name, *text, len) && !func->args[i].name[len])
			arg = (uint8_t)(i + 1);
	*text += len;
	*ret_behind = **text == '@';
	if (*ret_behind) {
		at = (*text)[1] >= '0' && (*text)[1] <= '9' ? strtoul(*text + 1, &end, 10) : 65535;
		*text = at < 65535 ? end : *text;
		arg = at < 65535 ? arg : 0;
	}
	*ret_at = (uint16_t)at;
	*text += strspn(*text, " ");
	return arg;
}

/* Parses a product. Returns false if it is invalid. */
static bool parse_product(
	const struct preset_func *func, const char *text, struct preset_product *p)
{
	bool behind;
	size_t i = 0;

	do {
		text += i ? 1 : 0;
		text += strspn(text, " ");
		p->arg[i] = parse_factor(func, &text, &behind, &p->at[i]);
		if (!p->arg[i] || (i && (behind != p->behind || (behind && p->arg[i] != p->arg[0]))))
			return false;
		p->behind = behind;
	} while (++i < PRESET_PRODUCT && *text == '*');
	if (strncmp(text, "unless ", 7))
		return !*text;
	text += 6;
	do {
		text++;
		text += strspn(text, " ");
		if (parse_factor(func, &text, &behind, &p->absent[p->absent_cnt++]) != p->arg[0] ||
			!behind || !p->behind)
			return false;
	} while (p->absent_cnt < PRESET_ABSENTS && *text == ',');
	return !*text;
}

/* Parses the text after "NAME = ". Returns false if it is invalid. */
static bool parse_sum(const struct preset_func *func, const char *text, struct preset_product *p)
{
	p->is_result = !strcmp(text, "result");
	p->is_pointed = *text == '*';
	return p->is_result || (parse_product(func, text + p->is_pointed, p) &&
		(!p->is_pointed || (!p->behind && !p->arg[1] &&
			arg_at(func, p->arg[0])->value.kind == TYPE_POINTER)));
}

static int read_product(struct reader *r, struct json_object *val, struct preset_func *func)
{
	struct preset_product *p = arena_alloc(&r->set->arena, sizeof(*p));
	const char *text;
	size_t len;
	int rc = reader_text(r, val, "sum", &text);

	if (rc)
		return rc;
	*p = (struct preset_product) {};
	len = strspn(text, name_chars);
	p->name = arena_strndup(&r->set->arena, text, len);
	if (!len || strncmp(text + len, " = ", 3) || !parse_sum(func, text + len + 3, p))
		return json_err(&r->doc, val, JSON_AT_VALUE, r->err,
			"'sum' is NAME = ARG * ARG, NAME = ARG@OFFSET * ARG@OFFSET unless ARG@OFFSET, "
			"NAME = result or NAME = *ARG");
	func->product = p;
	return 0;
}

DEFINE_ORDER(symbol_cmp, struct preset_func *const, strcmp((*x)->symbol, (*y)->symbol))

/* Initializes @func from the same symbol in the preset of the group's name. */
static void inherit(struct reader *r, struct preset_func *func)
{
	const struct preset_func *key = func, **found;
	const char *name = func->name, *symbol = func->symbol;

	found = r->parent ? bsearch(&key, r->symbols, r->parent->func_cnt,
				    sizeof(*r->symbols), symbol_cmp)
			  : NULL;
	if (!found)
		return;
	*func = **found; /* also for a target, whose kind is in the symbol */
	func->name = name;
	func->symbol = symbol;
	if (r->nothrow_off)
		func->nothrow_why = NULL;
	if (r->own_libs) {
		func->libs = NULL;
		func->lib_cnt = 0;
	}
}

static int read_func_object(
	struct reader *r, struct json_object *obj, struct preset_func *func)
{
	static const char *const keys[] = { "symbol", "lib", "slow", "ret", "args",
		"error", "no_error", "nothrow", "optional", "target", "kernel", "named",
		"allocates", "frees", "frees_all", "sum", NULL };
	struct json_object *val;
	bool nothrow = false;
	char where[160];
	int rc;

	snprintf(where, sizeof(where), "function '%.128s'", func->name);
	rc = reader_keys(r, obj, keys, where);
	if (!rc && (val = obj_member(obj, "symbol")))
		rc = reader_text(r, val, "symbol", &func->symbol);
	if (!rc && val && obj_member(obj, "target"))
		return json_err(&r->doc, val, JSON_AT_KEY, r->err,
			"%s has a symbol and a target", where);
	if (!rc && (val = obj_member(obj, "target"))) {
		rc = reader_text(r, val, "target", &func->symbol);
		func->is_target = true;
	}
	if (rc)
		return rc;
	inherit(r, func);
	if ((val = obj_member(obj, "lib")))
		rc = reader_texts(r, val, "lib", &func->libs, &func->lib_cnt);
	if (!rc && (val = obj_member(obj, "slow")))
		rc = read_slow(r, val, func);
	if (!rc && (val = obj_member(obj, "optional")))
		rc = reader_bool(r, val, "optional", &func->optional);
	if (!rc && (val = obj_member(obj, "nothrow"))) {
		rc = reader_bool(r, val, "nothrow", &nothrow);
		func->nothrow_why = nothrow ? r->nothrow_text : NULL;
	}
	if (!rc)
		rc = read_signature(r, obj, func);
	if (!rc && (val = obj_member(obj, "kernel")))
		rc = read_arg_name(r, val, "kernel", func, &func->kernel);
	if (!rc && (val = obj_member(obj, "named")))
		rc = read_arg_name(r, val, "named", func, &func->named);
	if (!rc && obj_member(obj, "sum"))
		rc = read_product(r, obj_member(obj, "sum"), func);
	if (!rc && val && !func->kernel)
		return json_err(&r->doc, val, JSON_AT_KEY, r->err,
			"%s: 'named' says nothing without 'kernel'", where);
	if (!rc && (val = obj_member(obj, "allocates")))
		rc = reader_allocates(r, val, func);
	if (!rc && (val = obj_member(obj, "frees")))
		rc = reader_frees(r, val, func);
	if (!rc && (val = obj_member(obj, "frees_all")))
		rc = reader_bool(r, val, "frees_all", &func->memory.frees_all);
	return rc;
}

int reader_func(struct reader *r, const char *name, struct json_object *val,
	struct preset_func *func)
{
	int rc;

	if (!*name || strlen(name) > CONFIG_NAME_MAX)
		return json_err(&r->doc, val, JSON_AT_KEY, r->err,
			"a function's name has 1 to %d bytes", CONFIG_NAME_MAX);
	for (const char *p = name; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return json_err(&r->doc, val, JSON_AT_KEY, r->err,
				"a function's name has a control character");
	func->name = arena_strdup(&r->set->arena, name);
	func->symbol = func->name;
	func->nothrow_why = r->nothrow_why;
	if (json_object_is_type(val, json_type_object))
		return read_func_object(r, val, func);
	if (!json_object_is_type(val, json_type_string))
		return json_err(&r->doc, val, JSON_AT_VALUE, r->err,
			"function '%.128s' must be a symbol or an object", name);
	rc = reader_text(r, val, "symbol", &func->symbol);
	if (!rc)
		inherit(r, func);
	return rc;
}

bool preset_func_uses_stack(const struct preset_func *func)
{
	return ANY_WHERE(func->arg_cnt, i, func->args[i].place.where == PLACE_STACK);
}

/* The preset of a configuration group's name, if there is one. */
int reader_parent(struct reader *r, const char *name)
{
	struct err why = { 0 };
	struct preset_set *set;
	int rc;

	r->parent = NULL;
	r->symbols = NULL;
	if (r->source != SOURCE_CONFIG)
		return 0;
	rc = preset_find(name, &set, &why);
	if (rc == -ENOENT)
		return 0;
	if (rc) {
		err_set(r->err, rc, "%s", why.msg);
		err_hint(r->err,
			"group '%s' of %s inherits the declarations of that preset",
			name, r->doc.label);
		return rc;
	}
	add_parent(r, set);
	r->parent = &set->groups[0];
	r->symbols =
		arena_alloc(&r->set->arena, r->parent->func_cnt * sizeof(*r->symbols));
	for (size_t i = 0; i < r->parent->func_cnt; i++)
		r->symbols[i] = &r->parent->funcs[i];
	qsort(r->symbols, r->parent->func_cnt, sizeof(*r->symbols), symbol_cmp);
	return 0;
}
