// SPDX-License-Identifier: BSD-2-Clause
// Reads types from debug information, with one walk for DWARF and BTF.
#include <dwarf.h>

#include <bpf/btf.h>

#include "base/buffer.h"
#include "base/text.h"
#include "base/util.h"
#include "elf/dwarf.h"
#include "internal.h"
#include "target/kind.h"
#include "target/types.h"
#include "types_dwarf.h"

/* --- one walk for DWARF and BTF ------------------------------------------------------------ */

struct type_seen {
	uint64_t at;
	const struct preset_type *type;
};

/* --- names ---------------------------------------------------------------------------------- */

#define NAME_LEN 96 /* longer names of C++ templates are truncated */

/* Replaces control characters, because a hostile file's names reach a terminal. */
static const char *clean(const char *name, char buf[NAME_LEN + 1])
{
	size_t len = name ? strnlen(name, NAME_LEN) : 0;

	for (size_t i = 0; i < len; i++)
		buf[i] = name[i] >= 0x20 && name[i] < 0x7f ? name[i] : '?';
	buf[len] = '\0';
	return buf;
}

/* True if @name can be an argument's name. */
static bool is_ident(const char *name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
	size_t len = name ? strnlen(name, NAME_LEN) : 0;

	if (!len || len == NAME_LEN || !strchr(letters, *name))
		return false;
	return ALL_WHERE(len, i,
		strchr(letters, name[i]) || (name[i] >= '0' && name[i] <= '9'));
}

/* --- enumerations --------------------------------------------------------------------------- */

DEFINE_ORDER(compare_codes, struct preset_code, RISING(code))

/* Sorts the codes and removes duplicate values. */
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

/* Copies the names of an enumeration; names after the first TYPES_CODES are left out. */
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

/* Returns the same record for the same enumeration, so that its names are kept once. */
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

/* State of a walk over one type: its C notation and its value. */
struct walked {
	struct preset_value value;
	uint8_t member_size;
	char before[2 * NAME_LEN], behind[16]; /* the name */
	char stars[TYPES_DEPTH + 8];
	struct type_step end;
	bool named;    /* the notation is a typedef's name; the types after it are not added */
	bool is_call;  /* the type is a function */
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

/* Sets the name in the notation, if there is none yet: of a typedef or of the last step. */
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

/* Sets the value at the last step @s, after @pointers pointers. */
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
		else if (s->kind == STEP_FUNCTION)
			w->value = (struct preset_value) { .kind = TYPE_POINTER, .size = 8 };
		return;
	}
	w->value = (struct preset_value) { .kind = TYPE_POINTER, .size = 8 };
	/* Without const, the call writes the target, or it is not text yet. */
	if (pointers == 1 && s->is_char && is_const)
		w->value.kind = TYPE_STRING;
}

/*
 * Follows a type from the outside in: fills @w with its C notation and its value. Returns false if the
 * type is invalid or has more than TYPES_DEPTH steps.
 */
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
	return ANY_WHERE(p->func.arg_cnt, i, !strcmp(p->args[i].name, name));
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
		/* A returned string exists when the call returns. */
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

/* Builds the record; declarations in @said override it. */
static const struct preset_func *proto_done(struct proto *p, struct targets *targets,
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

/* A copy of @said with only @why added. */
static const struct preset_func *proto_none(
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
	return o.buf;
}

/* --- types of functions by BTF: the kernel's own ------------------------------------------- */

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

/* Reads type @id. Returns false if no value can have it. */
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

/* The kernel uses no floating point registers, so the size determines how a value is passed. */
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
	return targets_text(b->r.targets, b->text.buf);
}

/* Sets the declaration of the last argument. */
static void name_arg(struct btf_types *b, const struct btf_param *param, struct proto *p)
{
	struct preset_arg *arg = &p->args[p->func.arg_cnt - 1];

	arg->text = declaration(b, param->type, arg->name);
}

/* Returns -E2BIG for too many arguments or unknown types. */
static int read_proto(struct btf_types *b, const struct btf_type *type, struct proto *p)
{
	const struct btf_param *params = btf_params(type);
	struct type_step first;
	int rc = step_of(b, type->type, &first) ? proto_add(p, &b->r, NULL, &first) : -E2BIG;

	for (uint32_t i = 0; !rc && i < btf_vlen(type); i++) {
		const char *name = btf__name_by_offset(b->btf, params[i].name_off);

		/* The last parameter of a variadic function has neither name nor type. */
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

/* Type ids belong to one BTF, so the cache is for one BTF. */
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

/* --- functions of files, from their debug information --------------------------------------- */

/* --- functions ------------------------------------------------------------------------------ */

/* True for languages that pass arguments like C. */
static bool passes_like_c(int language)
{
	switch (language) {
	case DW_LANG_Haskell:
	case DW_LANG_OCaml:
	case DW_LANG_Swift:
		return false;
	default:
		return true;
	}
}

/* Rust passes numbers and pointers like C, but its convention for structures is unspecified. */
static bool has_structures(const struct proto *p)
{
	bool has = p->func.ret.kind == TYPE_STRUCT || p->func.ret.kind == TYPE_CLASS;

	for (size_t i = 0; i < p->func.arg_cnt; i++)
		has |= p->args[i].value.kind == TYPE_STRUCT || p->args[i].value.kind == TYPE_CLASS;
	return has;
}

/* Returns the reason why the declared arguments cannot be trusted, or NULL. */
static const char *not_to_trust(const struct target *t, struct elf_dwarf_func *f)
{
	uint64_t how = DW_CC_normal;

	if (f->language == DW_LANG_Mips_Assembler)
		return "it is written in assembler, which declares no arguments";
	if ((f->language == DW_LANG_Go) != (target_regs(t) == FSN_REGS_GO))
		return "assembly, or made by Go before 1.18: its arguments are on the stack";
	if (!passes_like_c(f->language))
		return "its language passes arguments in a way of its own";
	dwarf_attr_number(&f->die, DW_AT_calling_convention, &how);
	if (how != DW_CC_normal && how != DW_CC_program)
		return "the compiler passes its arguments in a way of its own";
	return NULL;
}

/* True if entry @of has an argument that comes from @arg of its origin. */
static bool has_param(Dwarf_Die *of, Dwarf_Die *arg)
{
	Dwarf_Die own, origin;

	if (!dwarf_first_tag(of, DW_TAG_formal_parameter, &own))
		return false;
	do {
		if (dwarf_attr_entry(&own, DW_AT_abstract_origin, &origin) && origin.addr == arg->addr)
			return true;
	} while (dwarf_next_tag(&own, DW_TAG_formal_parameter));
	return false;
}

/*
 * Reads the declared arguments. An inlined or cloned instance may lack some, which are passed
 * anyway. The exception is artificial arguments that a compiler adds only to some constructors; the
 * object itself is always passed.
 */
static int read_args(struct dwarf_reader *d, Dwarf_Die *func, struct proto *p)
{
	Dwarf_Die list = *func, arg;
	struct type_step first;
	bool has_origin = dwarf_attr_entry(func, DW_AT_abstract_origin, &list);
	int code = 0;

	if (dwarf_child(&list, &arg))
		return 0;
	for (bool more = true; !code && more; more = dwarf_next_sibling(&arg)) {
		const char *name = dwarf_attr_text(&arg, DW_AT_name);

		if (dwarf_tag(&arg) == DW_TAG_unspecified_parameters)
			p->func.is_variadic = true;
		if (dwarf_tag(&arg) != DW_TAG_formal_parameter)
			continue;
		if (has_origin && p->func.arg_cnt && dwarf_attr_flag(&arg, DW_AT_artificial) &&
			!has_param(func, &arg))
			continue;
		if (!dwarf_step_from(d, &arg, &first))
			return -E2BIG;
		code = proto_add(p, &d->r, name ? name : "", &first);
	}
	return code;
}

static int read_types(struct dwarf_reader *d, struct elf_dwarf_func *f, struct proto *p)
{
	struct type_step first;
	int code;

	if (f->language == DW_LANG_Go)
		return go_read_func(d, &f->die, p);
	code = dwarf_step_from(d, &f->die, &first) ? proto_add(p, &d->r, NULL, &first) : -E2BIG;
	return code ? code : read_args(d, &f->die, p);
}

static void read_func(struct dwarf_reader *d, struct target *t, struct elf_dwarf_func *f,
	const char *why)
{
	struct proto p = { .func = { .name = t->name, .symbol = t->symbol ? t->symbol : t->name } };
	const char *doubt = not_to_trust(t, f);

	d->language = f->language;
	if (!doubt) {
		if (read_types(d, f, &p))
			doubt = "its debug information is damaged, or says what is not understood";
		else if (f->language == DW_LANG_Rust && has_structures(&p))
			doubt = "Rust passes structures in ways of its own";
	}
	t->known = doubt ? proto_none(d->r.targets, t->known, t->name, doubt)
			 : proto_done(&p, d->r.targets, t->known, why);
}

/* --- the functions of a group --------------------------------------------------------------- */

static bool wants_types(const struct target *t)
{
	return t->func && !t->inside && t->object->elf &&
		!(t->known && (t->known->has_args || t->known->types_why));
}

DEFINE_ORDER(compare_funcs, struct elf_dwarf_func, RISING(addr))

static void read_object(struct targets *targets, const struct object *object)
{
	_cleanup_free_ struct elf_dwarf_func *funcs = xcalloc(targets->cnt + 1, sizeof(*funcs));
	struct dwarf_reader d;
	const char *why;
	size_t cnt = 0;

	dwarf_reader_init(&d, targets);
	for (size_t i = 0; i < targets->cnt; i++) {
		struct target *t = &targets->target[i];

		if (t->object == object && wants_types(t))
			funcs[cnt++] = (struct elf_dwarf_func) { .addr = t->addr,
				.symbol = t->symbol, .user = t };
	}
	qsort(funcs, cnt, sizeof(*funcs), compare_funcs);
	elf_dwarf_find(object->elf, funcs, cnt, &why);
	why = targets_text(targets, why);
	for (size_t i = 0; i < cnt; i++) {
		struct target *t = funcs[i].user;

		if (funcs[i].found)
			read_func(&d, t, &funcs[i], why);
		else
			t->known = proto_none(targets, t->known, t->name,
				strncmp(why, "DWARF", 5)
					? why
					: "the debug information has no such function");
	}
	free(d.r.seen);
}

/* Places the declared arguments of a Go function: declarations do not name registers. */
static void place_declared(struct targets *targets, struct target *t)
{
	struct preset_func *func = targets_keep(targets, sizeof(*func));
	struct preset_arg *args = targets_keep(targets, (t->known->arg_cnt + 1) * sizeof(*args));

	memcpy(args, t->known->args, t->known->arg_cnt * sizeof(*args));
	go_place_declared(args, t->known->arg_cnt);
	*func = *t->known;
	func->args = args;
	t->known = func;
}

/* Drops the function's arguments from a clone, because the compiler may have changed them. */
static void forget_declared(struct targets *targets, struct target *t)
{
	struct preset_func *known = targets_keep(targets, sizeof(*known));

	known->name = t->name;
	known->symbol = t->symbol;
	known->nothrow_why = t->known ? t->known->nothrow_why : NULL;
	known->types_why = "a clone: the compiler may have changed its arguments";
	t->known = known;
}

void types_of_files(struct targets *targets, bool wanted)
{
	size_t cnt = 0;

	for (size_t i = 0; i < targets->cnt; i++) {
		struct target *t = &targets->target[i];

		if (t->is_clone)
			forget_declared(targets, t);
		else if (t->known && t->known->arg_cnt && target_regs(t) == FSN_REGS_GO)
			place_declared(targets, t);
	}

	for (size_t i = 0; i < targets->cnt; i++)
		cnt += wants_types(&targets->target[i]);
	if (cnt > TYPES_USUAL && !wanted)
		return;
	for (size_t i = 0; i < targets->cnt; i++)
		if (wants_types(&targets->target[i]))
			read_object(targets, targets->target[i].object);
}
