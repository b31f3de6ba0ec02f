// SPDX-License-Identifier: BSD-2-Clause
// Arguments of functions of Go: each in as many registers as it has parts (Go's
// src/cmd/compile/abi-internal.md), results among them in the debug information.
#include <dwarf.h>
#include <errno.h>
#include <string.h>

#include "elf/elf_file.h"
#include "target/kind.h"
#include "types_dwarf.h"

#ifdef __aarch64__
#define GO_INTS   16
#define GO_FLOATS 16
#else
#define GO_INTS   9
#define GO_FLOATS 15
#endif

#define GO_PARTS 64 /* of one value, empty ones included: more do not fit in registers */

enum fsn_regs target_regs(const struct target *t)
{
	if (!t->kind->in_files || t->kind->is_event || !t->object->elf)
		return FSN_REGS_C;
	switch (elf_file_go(t->object->elf, t->func ? t->func->addr : t->addr)) {
	case ELF_GO_REGS:
		return FSN_REGS_GO;
	case ELF_GO_STACK:
		return FSN_REGS_UNKNOWN;
	default:
		return FSN_REGS_C;
	}
}

/* Registers that are taken, and what of a value is in them. */
struct go_regs {
	unsigned int ints, floats, parts;
	bool small; /* some part has less than 8 bytes */
};

static bool assign(Dwarf_Die *type, struct go_regs *r, unsigned int depth);

static bool assign_number(Dwarf_Die *type, struct go_regs *r)
{
	uint64_t encoding = 0, size = 0;

	dwarf_attr_number(type, DW_AT_encoding, &encoding);
	dwarf_attr_number(type, DW_AT_byte_size, &size);
	r->small |= size < 8;
	if (encoding == DW_ATE_complex_float)
		r->floats += 2;
	else if (encoding == DW_ATE_float)
		r->floats++;
	else if (size >= 1 && size <= 8)
		r->ints++;
	else
		return false;
	return true;
}

static bool assign_members(Dwarf_Die *type, struct go_regs *r, unsigned int depth)
{
	Dwarf_Die member, of;

	if (!dwarf_first_tag(type, DW_TAG_member, &member))
		return true;
	do {
		if (!dwarf_attr_entry(&member, DW_AT_type, &of) || !assign(&of, r, depth + 1))
			return false;
	} while (dwarf_next_tag(&member, DW_TAG_member));
	return true;
}

/* An array of one is passed as that one, and a longer one in memory. */
static bool assign_array(Dwarf_Die *type, struct go_regs *r, unsigned int depth)
{
	Dwarf_Word size = 0, one = 0;
	Dwarf_Die of;

	if (!dwarf_attr_entry(type, DW_AT_type, &of) || dwarf_aggregate_size(type, &size) ||
		dwarf_aggregate_size(&of, &one))
		return false;
	return !size || (size == one && assign(&of, r, depth + 1));
}

/* False: it is not passed in registers. */
static bool assign(Dwarf_Die *type, struct go_regs *r, unsigned int depth)
{
	Dwarf_Die of;

	if (depth > TYPES_DEPTH || ++r->parts > GO_PARTS)
		return false;
	switch (dwarf_tag(type)) {
	case DW_TAG_typedef:
		return dwarf_attr_entry(type, DW_AT_type, &of) && assign(&of, r, depth + 1);
	case DW_TAG_base_type:
		return assign_number(type, r);
	case DW_TAG_pointer_type:
	case DW_TAG_subroutine_type:
		r->ints++;
		return true;
	case DW_TAG_structure_type:
		return assign_members(type, r, depth);
	case DW_TAG_array_type:
		return assign_array(type, r, depth);
	default:
		return false;
	}
}

/* Where the next value lies: it is in registers as a whole, or not at all. */
static struct preset_place place_next(Dwarf_Die *type, struct go_regs *taken, uint32_t size)
{
	struct go_regs r = { .ints = taken->ints, .floats = taken->floats };
	struct preset_place place = { .where = PLACE_NOWHERE, .index = taken->ints };

	if (!assign(type, &r, 0) || r.ints > GO_INTS || r.floats > GO_FLOATS)
		return place;
	place.words = r.ints - taken->ints;
	/* Registers hold the words of a value in order, if each part has a word of its own. */
	if (place.words && r.floats == taken->floats &&
		(place.words == 1 || (!r.small && place.words * 8 == size)))
		place.where = PLACE_GO;
	*taken = r;
	return place;
}

/* A string: its address and its length. */
static bool is_string(Dwarf_Die *type)
{
	Dwarf_Die t = *type, member;
	const char *name;

	for (unsigned int i = 0; i < TYPES_DEPTH && dwarf_tag(&t) == DW_TAG_typedef; i++)
		if (!dwarf_attr_entry(&t, DW_AT_type, &t))
			return false;
	if (dwarf_tag(&t) != DW_TAG_structure_type ||
		!dwarf_first_tag(&t, DW_TAG_member, &member))
		return false;
	name = dwarf_attr_text(&member, DW_AT_name);
	if (!name || strcmp(name, "str") || !dwarf_next_tag(&member, DW_TAG_member))
		return false;
	name = dwarf_attr_text(&member, DW_AT_name);
	return name && !strcmp(name, "len") && !dwarf_next_tag(&member, DW_TAG_member);
}

static int add_param(struct dwarf_reader *d, Dwarf_Die *param, struct go_regs *taken,
	struct proto *p)
{
	const char *name = dwarf_attr_text(param, DW_AT_name);
	struct preset_arg *arg = &p->args[p->func.arg_cnt];
	struct type_step first;
	Dwarf_Die type;
	int code;

	if (!dwarf_step_from(d, param, &first) || !dwarf_attr_entry(param, DW_AT_type, &type))
		return -E2BIG;
	code = proto_add(p, &d->r, name ? name : "", &first);
	if (code)
		return code;
	arg->place = place_next(&type, taken, arg->value.size);
	if (arg->place.where == PLACE_GO && arg->place.words == 2 && is_string(&type))
		arg->value.kind = TYPE_STRING;
	return 0;
}

/* The first result, if it is one number or pointer: what more there is is not kept. */
static int add_result(struct dwarf_reader *d, Dwarf_Die *param, struct proto *p)
{
	struct go_regs none = { 0 };
	struct type_step first;
	Dwarf_Die type;
	int code;

	if (!dwarf_step_from(d, param, &first) || !dwarf_attr_entry(param, DW_AT_type, &type))
		return -E2BIG;
	code = proto_add(p, &d->r, NULL, &first);
	if (!code && (place_next(&type, &none, p->func.ret.size).where != PLACE_GO || none.ints > 1))
		p->func.ret.kind = TYPE_STRUCT;
	return code;
}

int go_read_func(struct dwarf_reader *d, Dwarf_Die *func, struct proto *p)
{
	const struct type_step none = { .kind = STEP_VOID };
	struct go_regs taken = { 0 };
	Dwarf_Die list = *func, param;
	int code = proto_add(p, &d->r, NULL, &none);
	bool has_result = false;

	p->is_placed = true;
	dwarf_attr_entry(func, DW_AT_abstract_origin, &list);
	if (code || !dwarf_first_tag(&list, DW_TAG_formal_parameter, &param))
		return code;
	do {
		bool result = dwarf_attr_flag(&param, DW_AT_variable_parameter);

		if (!result)
			code = add_param(d, &param, &taken, p);
		else if (!has_result)
			code = add_result(d, &param, p);
		has_result |= result;
	} while (!code && dwarf_next_tag(&param, DW_TAG_formal_parameter));
	return code;
}

void go_place_declared(struct preset_arg *args, size_t cnt)
{
	unsigned int reg = 0;
	bool known = true;

	for (size_t i = 0; i < cnt; i++) {
		const struct preset_value *v = &args[i].value;

		args[i].place = (struct preset_place) { .where = PLACE_NOWHERE };
		known &= v->kind != TYPE_STRUCT && v->kind != TYPE_CLASS;
		if (v->kind == TYPE_FLOAT || v->kind == TYPE_COMPLEX || !known || reg == GO_INTS)
			continue;
		args[i].place = (struct preset_place) { PLACE_GO, reg++, 1, false };
	}
}
