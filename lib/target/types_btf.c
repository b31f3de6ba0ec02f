// SPDX-License-Identifier: BSD-2-Clause
// Types of functions by BTF: the kernel's own.
#include <bpf/btf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "target/types.h"

struct btf_reader {
	struct type_reader r; /* first: a reader is cast to this */
	const struct btf *btf;
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
static bool step_of(const struct btf_reader *b, uint32_t id, struct type_step *s)
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
	const struct btf_reader *b = (const struct btf_reader *)r;
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
	const struct btf_reader *b = (const struct btf_reader *)r;
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

/* -E2BIG: what is not understood, or too much of it. */
static int read_proto(struct btf_reader *b, const struct btf_type *type, struct proto *p)
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
	}
	return rc;
}

const struct preset_func *types_of_btf(struct targets *targets, const struct btf *btf, uint32_t id,
	const struct preset_func *said, const char *why, bool *ret_bad)
{
	struct btf_reader b = { .r = { .targets = targets, .next = next, .finish = finish,
					.code = code }, .btf = btf };
	const struct btf_type *type = btf__type_by_id(btf, id);
	struct proto p = { 0 };
	int rc;

	*ret_bad = false;
	if (type && btf_is_func(type)) {
		p.func.name = p.func.symbol = targets_text(targets,
			btf__name_by_offset(btf, type->name_off));
		type = btf__type_by_id(btf, type->type);
	}
	if (!type || !btf_is_func_proto(type)) {
		*ret_bad = true;
		return NULL;
	}
	rc = read_proto(&b, type, &p);
	free(b.r.seen);
	*ret_bad = rc && rc != -ENOMEM;
	return rc ? NULL : proto_done(&p, targets, said, why);
}
