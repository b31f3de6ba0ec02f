// SPDX-License-Identifier: BSD-2-Clause
// Types of functions by BTF: the kernel's own.
#include <bpf/btf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/util.h"
#include "target/types.h"

struct btf_types {
	struct type_reader r; /* first: a reader is cast to this */
	const struct btf *btf;
	struct btf_dump *dump; /* of it: writes whole declarations */
	struct out text;       /* to this */
};

static void int_of(const struct btf_type *type, struct type_step *s)
{
	uint8_t encoding = btf_int_encoding(type);

	s->value.kind = (encoding & BTF_INT_BOOL) ? TYPE_BOOL : TYPE_INT;
	s->value.is_signed = encoding & BTF_INT_SIGNED;
	s->is_char = s->value.size == 1 && s->name && !strcmp(s->name, "char");
	if (s->value.size > 8) {
		s->value.kind = TYPE_STRUCT; /* __int128: two words */
		s->value.is_even = true;
	}
}

/* What type @id is; false: nothing that a value can have. */
static bool step_of(const struct btf_types *b, uint32_t id, struct type_step *s)
{
	const struct btf_type *type = id ? btf__type_by_id(b->btf, id) : NULL;

	*s = (struct type_step) { .kind = STEP_VOID, .at = id };
	if (!id)
		return true;
	if (!type)
		return false;
	s->kind = STEP_VALUE;
	s->name = type->name_off ? btf__name_by_offset(b->btf, type->name_off) : NULL;
	switch (btf_kind(type)) {
	case BTF_KIND_INT:
		s->value.size = type->size;
		int_of(type, s);
		return true;
	case BTF_KIND_FLOAT:
		s->value = (struct preset_value) { .kind = TYPE_FLOAT, .size = type->size,
			.is_signed = true };
		return true;
	case BTF_KIND_ENUM:
	case BTF_KIND_ENUM64:
		s->before = "enum ";
		s->value = (struct preset_value) { .kind = TYPE_INT, .size = type->size,
			.is_signed = btf_kflag(type) };
		return true;
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		s->before = btf_kind(type) == BTF_KIND_UNION ? "union " : "struct ";
		s->value = (struct preset_value) { .kind = TYPE_STRUCT, .size = type->size };
		return true;
	case BTF_KIND_FWD:
		s->before = btf_kflag(type) ? "union " : "struct ";
		s->value = (struct preset_value) { .kind = TYPE_STRUCT };
		return true;
	case BTF_KIND_PTR:
		s->kind = STEP_POINTER;
		return true;
	case BTF_KIND_ARRAY:
		s->kind = STEP_ARRAY;
		return true;
	case BTF_KIND_FUNC_PROTO:
		s->kind = STEP_FUNCTION;
		return true;
	case BTF_KIND_CONST:
		s->kind = STEP_CONST;
		return true;
	case BTF_KIND_TYPEDEF:
		s->kind = STEP_NAME;
		return true;
	case BTF_KIND_VOLATILE:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_TYPE_TAG:
		s->kind = STEP_QUALIFIER;
		return true;
	default:
		return false;
	}
}

static bool next(struct type_reader *r, const struct type_step *from, struct type_step *ret)
{
	const struct btf_types *b = (const struct btf_types *)r;
	const struct btf_type *type = btf__type_by_id(b->btf, (uint32_t)from->at);

	return type && step_of(b, btf_is_array(type) ? btf_array(type)->type : type->type, ret);
}

/* In kernels nothing goes by floating point registers: size alone says how it is passed. */
static void finish(struct type_reader *r, struct type_step *s)
{
	(void)r;
	if (s->value.kind == TYPE_STRUCT && !s->value.size)
		s->value.passing = PASS_NOT;
}

static const char *code(struct type_reader *r, const struct type_step *step, size_t i,
	int64_t *ret_code)
{
	const struct btf_types *b = (const struct btf_types *)r;
	const struct btf_type *type = btf__type_by_id(b->btf, (uint32_t)step->at);

	if (!type || i >= btf_vlen(type))
		return NULL;
	if (btf_is_enum(type)) {
		const struct btf_enum *e = &btf_enum(type)[i];

		*ret_code = btf_kflag(type) ? (int64_t)e->val : (int64_t)(uint32_t)e->val;
		return btf__name_by_offset(b->btf, e->name_off);
	}
	if (btf_is_enum64(type)) {
		const struct btf_enum64 *e = &btf_enum64(type)[i];

		*ret_code = (int64_t)btf_enum64_value(e);
		return btf__name_by_offset(b->btf, e->name_off);
	}
	return NULL;
}

static void on_text(void *ctx, const char *format, va_list args)
{
	struct btf_types *b = ctx;
	char buf[512];

	vsnprintf(buf, sizeof(buf), format, args);
	out_str(&b->text, buf);
}

/* "int (*compare)(const void *, const void *)" */
static const char *declaration(struct btf_types *b, uint32_t type, const char *name)
{
	LIBBPF_OPTS(btf_dump_emit_type_decl_opts, opts, .field_name = name);

	b->text.len = 0;
	if (btf_dump__emit_type_decl(b->dump, type, &opts))
		out_str(&b->text, "?");
	out_char(&b->text, '\0');
	return b->text.failed ? NULL : targets_text(b->r.targets, b->text.buf);
}

/* Of the argument that was read last. */
static void name_arg(struct btf_types *b, const struct btf_param *param, struct proto *p)
{
	struct preset_arg *arg = &p->args[p->func.arg_cnt - 1];

	arg->text = declaration(b, param->type, arg->name);
}

/* -E2BIG: what is not understood, or too much of it. */
static int read_proto(struct btf_types *b, const struct btf_type *type, struct proto *p)
{
	const struct btf_param *params = btf_params(type);
	struct type_step first;
	int rc = step_of(b, type->type, &first) ? proto_add(p, &b->r, NULL, &first) : -E2BIG;

	for (uint32_t i = 0; !rc && i < btf_vlen(type); i++) {
		const char *name = btf__name_by_offset(b->btf, params[i].name_off);

		/* The last of a function that takes more has neither name nor type. */
		if (!params[i].type && i + 1 == btf_vlen(type)) {
			p->func.is_variadic = true;
			break;
		}
		rc = step_of(b, params[i].type, &first)
			? proto_add(p, &b->r, name ? name : "", &first)
			: -E2BIG;
		if (!rc)
			name_arg(b, &params[i], p);
	}
	if (!rc)
		p->func.ret_text = declaration(b, type->type, "");
	return rc;
}

struct btf_types *btf_types_new(struct targets *targets)
{
	struct btf_types *b = xcalloc(1, sizeof(*b));

	b->r = (struct type_reader) { .targets = targets, .next = next, .finish = finish,
		.code = code };
	return b;
}

void btf_types_free(struct btf_types *b)
{
	if (!b)
		return;
	btf_dump__free(b->dump);
	out_done(&b->text);
	free(b->r.seen);
	free(b);
}

/* Numbers of types are those of one BTF. */
static void read_from(struct btf_types *b, const struct btf *btf)
{
	if (b->btf == btf)
		return;
	btf_dump__free(b->dump);
	b->btf = NULL;
	b->r.seen_cnt = 0;
	b->dump = btf_dump__new(btf, on_text, b, NULL);
	if (!b->dump)
		alloc_failed();
	b->btf = btf;
}

const struct preset_func *types_of_btf(struct btf_types *b, const struct btf *btf, uint32_t id)
{
	const struct btf_type *func = btf__type_by_id(btf, id), *type;
	_cleanup_free_ struct proto *p = xcalloc(1, sizeof(*p));
	const char *name;
	int rc;

	read_from(b, btf);
	if (!func || !btf_is_func(func))
		return proto_none(b->r.targets, NULL, "", NULL);
	name = targets_text(b->r.targets, btf__name_by_offset(btf, func->name_off));
	type = btf__type_by_id(btf, func->type);
	p->func.name = p->func.symbol = name;
	rc = type && btf_is_func_proto(type) ? read_proto(b, type, p) : -E2BIG;
	return rc ? proto_none(b->r.targets, NULL, name, NULL)
		  : proto_done(p, b->r.targets, NULL, NULL);
}
