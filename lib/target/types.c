// SPDX-License-Identifier: BSD-2-Clause
// Types from debug information: one walk over what DWARF and BTF have in common.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/text.h"
#include "target/types.h"

struct type_seen {
	uint64_t at;
	const struct preset_type *type;
};

/* --- names ---------------------------------------------------------------------------------- */

#define NAME_LEN 96 /* of C++ templates more is of no use */

/* As it may be shown: what a hostile file says goes to a terminal. */
static const char *clean(const char *name, char buf[NAME_LEN + 1])
{
	size_t len = name ? strnlen(name, NAME_LEN) : 0;

	for (size_t i = 0; i < len; i++)
		buf[i] = name[i] >= 0x20 && name[i] < 0x7f ? name[i] : '?';
	buf[len] = '\0';
	return buf;
}

/* Arguments are called by such. */
static bool is_ident(const char *name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
	size_t len = name ? strnlen(name, NAME_LEN) : 0;

	if (!len || len == NAME_LEN || !strchr(letters, *name))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!strchr(letters, name[i]) && !(name[i] >= '0' && name[i] <= '9'))
			return false;
	return true;
}

/* --- enumerations --------------------------------------------------------------------------- */

static int compare_codes(const void *a, const void *b)
{
	const struct preset_code *x = a, *y = b;

	return (x->code > y->code) - (x->code < y->code);
}

/* Sorted, each value once, as the record has them. */
static size_t codes_order(struct preset_code *codes, size_t cnt)
{
	size_t kept = 0;

	if (cnt)
		qsort(codes, cnt, sizeof(*codes), compare_codes);
	for (size_t i = 0; i < cnt; i++)
		if (!kept || codes[kept - 1].code != codes[i].code)
			codes[kept++] = codes[i];
	return kept;
}

static const struct preset_type *enum_new(struct type_reader *r, const struct type_step *step)
{
	struct preset_type *type = targets_keep(r->targets, sizeof(*type));
	struct preset_code *codes;
	char buf[NAME_LEN + 1];
	size_t cnt = 0;
	int64_t code;

	while (cnt < TYPES_CODES && r->code(r, step, cnt, &code))
		cnt++;
	codes = targets_keep(r->targets, (cnt + 1) * sizeof(*codes));
	for (size_t i = 0; i < cnt; i++) {
		const char *name = r->code(r, step, i, &codes[i].code);

		codes[i].name = targets_text(r->targets, clean(name, buf));
	}
	*type = (struct preset_type) {
		.name = targets_text(r->targets, clean(step->name, buf)),
		.kind = TYPE_INT,
		.size = step->value.size,
		.is_signed = step->value.is_signed,
		.codes = codes,
		.code_cnt = codes_order(codes, cnt),
	};
	return type;
}

/* The same for the same: names are kept once however many functions have them. */
static const struct preset_type *enum_of(struct type_reader *r, const struct type_step *step)
{
	for (size_t i = 0; i < r->seen_cnt; i++)
		if (r->seen[i].at == step->at)
			return r->seen[i].type;
	r->seen = array_grow(r->seen, r->seen_cnt, sizeof(*r->seen));
	r->seen[r->seen_cnt] = (struct type_seen) { step->at, enum_new(r, step) };
	return r->seen[r->seen_cnt++].type;
}

/* --- one type ------------------------------------------------------------------------------- */

/* What is known of a type while it is walked: how it is written, and what it is. */
struct walked {
	struct preset_value value;
	uint8_t member_size;
	char before[2 * NAME_LEN], behind[16]; /* the name */
	char stars[TYPES_DEPTH + 8];
	struct type_step end;
	bool named;    /* what is written is a typedef's name: all behind it is not */
	bool is_call;  /* of a function */
	bool is_enum;
};

static void add_star(struct walked *w, const char *star)
{
	size_t len = strlen(w->stars), more = strlen(star);

	/* Found from the outside in. */
	if (w->named || len + more >= sizeof(w->stars))
		return;
	memmove(w->stars + more, w->stars, len + 1);
	memcpy(w->stars, star, more);
}

/* The last step that is shown, and before it whether it is const. */
static void add_name(struct walked *w, const struct type_step *s, bool is_const)
{
	char buf[NAME_LEN + 1];

	if (w->named)
		return;
	w->named = true;
	if (s->kind == STEP_FUNCTION) {
		w->is_call = true;
		snprintf(w->before, sizeof(w->before), "(");
		snprintf(w->behind, sizeof(w->behind), ")()");
		return;
	}
	snprintf(w->before, sizeof(w->before), "%s%s%s", is_const ? "const " : "",
		s->before ? s->before : "",
		s->kind == STEP_VOID ? "void"
			: s->name    ? clean(s->name, buf)
				     : "(nameless)");
}

static void walk_end(struct type_reader *r, struct walked *w, unsigned int pointers,
	bool is_const, struct type_step *s)
{
	int64_t code;

	if (!pointers && s->kind == STEP_VALUE) {
		r->finish(r, s);
		w->is_enum = r->code(r, s, 0, &code);
	}
	w->end = *s;
	if (!pointers) {
		w->value = s->value;
		w->member_size = s->member_size;
		if (s->kind == STEP_VOID)
			w->value.kind = TYPE_VOID;
		else if (s->kind == STEP_ARRAY || s->kind == STEP_FUNCTION)
			w->value = (struct preset_value) { .kind = TYPE_POINTER, .size = 8 };
		return;
	}
	w->value = (struct preset_value) { .kind = TYPE_POINTER, .size = 8 };
	/* What a pointer without const leads to is written by the call, or not yet text. */
	if (pointers == 1 && s->is_char && is_const)
		w->value.kind = TYPE_STRING;
}

/* False when the type is damaged, or without end. */
static bool type_walk(struct type_reader *r, const struct type_step *first, struct walked *w)
{
	struct type_step s = *first, to;
	unsigned int pointers = 0;
	bool is_const = false;

	memset(w, 0, sizeof(*w));
	for (unsigned int i = 0; i < TYPES_DEPTH; i++) {
		switch (s.kind) {
		case STEP_POINTER:
		case STEP_REFERENCE:
			if (is_const)
				add_star(w, "const ");
			add_star(w, s.kind == STEP_POINTER ? "*" : "&");
			pointers++;
			is_const = false;
			break;
		case STEP_CONST:
			is_const = true;
			break;
		case STEP_QUALIFIER:
			break;
		case STEP_ARRAY:
			if (pointers && !w->named && !w->behind[0])
				snprintf(w->behind, sizeof(w->behind), ")[]");
			break;
		case STEP_NAME:
			add_name(w, &s, is_const);
			break;
		default:
			add_name(w, &s, is_const);
			walk_end(r, w, pointers, is_const, &s);
			return true;
		}
		if (!r->next(r, &s, &to))
			return false;
		s = to;
	}
	return false;
}

/* "const char *text", "int (*rows)[]", "(*callback)()" */
static const char *declare(struct targets *targets, const struct walked *w, const char *name)
{
	size_t len = strlen(w->stars);
	char text[4 * NAME_LEN + TYPES_DEPTH];
	bool spaced = (len || *name) && !w->is_call;

	snprintf(text, sizeof(text), "%s%s%s%s%s", w->before,
		w->behind[0] && !w->is_call ? " (" : spaced ? " " : "", w->stars, name,
		w->behind);
	return targets_text(targets, text);
}

/* --- one function --------------------------------------------------------------------------- */

static bool has_name(const struct proto *p, const char *name)
{
	for (size_t i = 0; i < p->func.arg_cnt; i++)
		if (!strcmp(p->args[i].name, name))
			return true;
	return false;
}

int proto_add(struct proto *p, struct type_reader *r, const char *name,
	const struct type_step *first)
{
	struct preset_arg *a = &p->args[p->func.arg_cnt];
	struct walked w;

	if (name && p->func.arg_cnt == TYPES_ARGS)
		return -E2BIG;
	if (!type_walk(r, first, &w))
		return -E2BIG;
	if (!preset_value_fits_word(&w.value))
		return -E2BIG;
	if (w.is_enum && !w.value.type)
		w.value.type = enum_of(r, &w.end);
	if (!name) {
		p->func.ret = w.value;
		/* What a call gives back is there. */
		if (w.value.kind == TYPE_POINTER && w.end.is_char && !strcmp(w.stars, "*"))
			p->func.ret.kind = TYPE_STRING;
		p->func.ret_text = declare(r->targets, &w, "");
		return 0;
	}
	if (w.value.kind == TYPE_VOID)
		return -E2BIG;
	if (!is_ident(name) || has_name(p, name))
		name = "";
	a->value = w.value;
	a->member_size = w.member_size;
	a->name = targets_text(r->targets, name);
	a->text = declare(r->targets, &w, name);
	p->func.arg_cnt++;
	return 0;
}

const struct preset_func *proto_done(struct proto *p, struct targets *targets,
	const struct preset_func *said, const char *why)
{
	struct preset_func *func = targets_keep(targets, sizeof(*func));
	struct preset_arg *args =
		targets_keep(targets, (p->func.arg_cnt + 1) * sizeof(*args));

	memcpy(args, p->args, p->func.arg_cnt * sizeof(*args));
	if (!p->is_placed)
		args_place(args, p->func.arg_cnt, &p->func.ret, PRESET_ABI_HOST);
	*func = said ? *said : (struct preset_func) { .name = p->func.name,
			       .symbol = p->func.symbol };
	func->types_why = why;
	if (!func->has_args) {
		func->has_args = true;
		func->args = args;
		func->arg_cnt = p->func.arg_cnt;
		func->is_variadic = p->func.is_variadic;
	}
	if (!func->ret_text) {
		func->ret_text = p->func.ret_text;
		func->ret = p->func.ret;
	}
	return func;
}

const struct preset_func *proto_none(
	struct targets *targets, const struct preset_func *said, const char *name, const char *why)
{
	struct preset_func *func = targets_keep(targets, sizeof(*func));

	*func = said ? *said : (struct preset_func) { .name = name, .symbol = name };
	if (!func->types_why)
		func->types_why = why;
	return func;
}

char *types_prototype(const char *name, const struct preset_func *known)
{
	struct out o = {};

	out_str(&o, name);
	if (known && known->has_args) {
		out_char(&o, '(');
		for (size_t i = 0; i < known->arg_cnt; i++) {
			out_str(&o, i ? ", " : "");
			out_str(&o, known->args[i].text);
		}
		if (known->is_variadic)
			out_str(&o, known->arg_cnt ? ", ..." : "...");
		out_char(&o, ')');
	}
	if (known && known->ret_text) {
		out_str(&o, " -> ");
		out_str(&o, known->ret_text);
	}
	out_char(&o, '\0');
	if (o.failed) {
		out_done(&o);
		return NULL;
	}
	return o.buf;
}
