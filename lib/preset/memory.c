// SPDX-License-Identifier: BSD-2-Clause
// "allocates" and "frees" of a function: which memory its calls hand out and take back.
#include "internal.h"

#include <string.h>

static const struct preset_arg *arg_at(const struct preset_func *func, uint8_t arg)
{
	return &func->args[arg - 1];
}

/* "ARG", or "*ARG": what that points to. */
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
			"'%s': argument '%.128s' is no pointer", key, text);
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
			"'size': argument '%.128s' is no number", arg_at(func, part->arg)->name);
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

int reader_allocates(struct reader *r, struct json_object *val, struct preset_func *func)
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

int reader_frees(struct reader *r, struct json_object *val, struct preset_func *func)
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
