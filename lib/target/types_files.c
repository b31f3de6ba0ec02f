// SPDX-License-Identifier: BSD-2-Clause
// Types of the functions of files: looked for in their debug information, and whether to trust it.
#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/dwarf.h"
#include "internal.h"
#include "target/kind.h"
#include "types_dwarf.h"

/* --- functions ------------------------------------------------------------------------------ */

/* Languages that pass arguments as C does. */
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

/* Rust passes numbers and pointers as C does, and structures as it likes. */
static bool has_structures(const struct proto *p)
{
	bool has = p->func.ret.kind == TYPE_STRUCT || p->func.ret.kind == TYPE_CLASS;

	for (size_t i = 0; i < p->func.arg_cnt; i++)
		has |= p->args[i].value.kind == TYPE_STRUCT || p->args[i].value.kind == TYPE_CLASS;
	return has;
}

/* Why what an entry says of arguments can't be relied on, or NULL. */
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

/* Whether entry @of has an argument that comes from @arg of its origin. */
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
 * Arguments as they are declared. An instance may lack some, which are passed all the same, but
 * for those that a compiler adds to some constructors only; the object is always there.
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

static int compare_funcs(const void *a, const void *b)
{
	const struct elf_dwarf_func *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

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
	if (elf_dwarf_find(object->elf, funcs, cnt, &why))
		alloc_failed();
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
