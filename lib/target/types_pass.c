// SPDX-License-Identifier: BSD-2-Clause
// How structures are passed by value: by what lies in them, and what C++ does to copy them.
#include <dwarf.h>
#include <string.h>

#include "types_dwarf.h"

#define MEMBERS_MAX 512 /* of a structure of at most 64 bytes, with what is in it */

/* What members lie in each eight bytes of a structure, and of what kind all of them are. */
struct layout {
	bool ints[8], floats[8], memory, unsure;
	unsigned int members;     /* looked at */
	unsigned int leaf_cnt;    /* floating point numbers */
	uint32_t leaf_size;
	bool leaves_alone;        /* and nothing else */
	uint32_t word_size;       /* of each unsigned integer */
	bool words_alone;
};

static void lay_value(struct layout *l, uint64_t at, const struct preset_value *v)
{
	uint64_t last = at + (v->size ? v->size - 1 : 0);
	bool real = v->kind == TYPE_FLOAT || v->kind == TYPE_COMPLEX;
	uint32_t leaf = v->kind == TYPE_COMPLEX ? v->size / 2 : v->size;

	if (last >= 64) {
		l->unsure = true;
		return;
	}
	l->memory |= v->kind == TYPE_FLOAT && v->size == 16;
	for (uint64_t i = at / 8; i <= last / 8; i++)
		*(real ? &l->floats[i] : &l->ints[i]) = true;
	l->leaves_alone &= real && (!l->leaf_cnt || l->leaf_size == leaf);
	l->leaf_size = leaf;
	l->leaf_cnt += v->kind == TYPE_COMPLEX ? 2 : 1;
	l->words_alone &= v->kind == TYPE_INT && !v->is_signed && !v->type &&
		(!l->word_size || l->word_size == v->size);
	l->word_size = v->size;
}

static void lay_members(struct dwarf_reader *d, Dwarf_Die *die, uint64_t at, struct layout *l,
	unsigned int depth);

static void lay_step(struct dwarf_reader *d, const struct type_step *first, uint64_t at,
	struct layout *l, unsigned int depth);

static void lay_array(struct dwarf_reader *d, Dwarf_Die *die, uint64_t at, struct layout *l,
	unsigned int depth)
{
	struct type_step of;
	Dwarf_Word size = 0, one = 0;
	Dwarf_Die type;

	if (dwarf_aggregate_size(die, &size) || !dwarf_step_from(d, die, &of) ||
		!dwarf_attr_entry(die, DW_AT_type, &type) || dwarf_aggregate_size(&type, &one) || !one) {
		l->unsure |= size != 0;
		return;
	}
	for (uint64_t n = 0; n < size / one && !l->unsure; n++)
		lay_step(d, &of, at + n * one, l, depth + 1);
}

static void lay_step(struct dwarf_reader *d, const struct type_step *first, uint64_t at,
	struct layout *l, unsigned int depth)
{
	static const struct preset_value word = { .kind = TYPE_POINTER, .size = 8 };
	struct type_step s = *first, to;
	Dwarf_Die die;

	if (depth > TYPES_DEPTH || ++l->members > MEMBERS_MAX) {
		l->unsure = true;
		return;
	}
	for (unsigned int i = 0; i < TYPES_DEPTH; i++) {
		switch (s.kind) {
		case STEP_POINTER:
		case STEP_REFERENCE:
			lay_value(l, at, &word);
			return;
		case STEP_ARRAY:
			lay_array(d, dwarf_entry_of(&s, &die), at, l, depth);
			return;
		case STEP_VALUE:
			if (s.value.kind == TYPE_STRUCT &&
				dwarf_tag(dwarf_entry_of(&s, &die)) != DW_TAG_base_type)
				lay_members(d, dwarf_entry_of(&s, &die), at, l, depth + 1);
			else
				lay_value(l, at, &s.value);
			return;
		default:
			break;
		}
		if (!d->r.next(&d->r, &s, &to))
			break;
		s = to;
	}
	l->unsure = true;
}

static void lay_members(struct dwarf_reader *d, Dwarf_Die *die, uint64_t at, struct layout *l,
	unsigned int depth)
{
	Dwarf_Die member;

	if (dwarf_child(die, &member))
		return;
	do {
		uint64_t where = 0, bits;
		struct type_step of;
		int tag = dwarf_tag(&member);

		if ((tag != DW_TAG_member && tag != DW_TAG_inheritance) ||
			dwarf_attr_flag(&member, DW_AT_external) || dwarf_attr_flag(&member, DW_AT_declaration))
			continue;
		if (!dwarf_attr_number(&member, DW_AT_data_member_location, &where) &&
			dwarf_attr_number(&member, DW_AT_data_bit_offset, &bits))
			where = bits / 8;
		if (where >= 64 || l->unsure || !dwarf_step_from(d, &member, &of)) {
			l->unsure = true;
			return;
		}
		lay_step(d, &of, at + where, l, depth);
	} while (dwarf_next_sibling(&member));
}

/* T(const T &), T(T &&) */
static bool takes_own(Dwarf_Die *func, Dwarf_Die *own)
{
	Dwarf_Die arg, type;

	if (!dwarf_first_tag(func, DW_TAG_formal_parameter, &arg))
		return false;
	if (dwarf_attr_flag(&arg, DW_AT_artificial) && !dwarf_next_tag(&arg, DW_TAG_formal_parameter))
		return false;
	if (!dwarf_attr_entry(&arg, DW_AT_type, &type) ||
		(dwarf_tag(&type) != DW_TAG_reference_type &&
			dwarf_tag(&type) != DW_TAG_rvalue_reference_type) ||
		!dwarf_attr_entry(&type, DW_AT_type, &type))
		return false;
	if (dwarf_tag(&type) == DW_TAG_const_type && !dwarf_attr_entry(&type, DW_AT_type, &type))
		return false;
	return type.addr == own->addr;
}

/* Whether copies of a C++ object are made by code: such are passed by their address. */
static bool has_own_copies(Dwarf_Die *die)
{
	const char *name = dwarf_attr_text(die, DW_AT_name), *of;
	uint64_t how = 0;
	Dwarf_Die member;

	/* Compilers say it since DWARF 5. */
	if (dwarf_attr_number(die, DW_AT_calling_convention, &how))
		return how == DW_CC_pass_by_reference;
	if (dwarf_child(die, &member))
		return false;
	do {
		of = dwarf_attr_text(&member, DW_AT_name);
		if (of && (of[0] == '~' || !strncmp(of, "_vptr", 5)))
			return true;
		if (of && name && !strcmp(of, name) && dwarf_tag(&member) == DW_TAG_subprogram &&
			takes_own(&member, die))
			return true;
	} while (dwarf_next_sibling(&member));
	return false;
}

static void pass_x86_64(const struct layout *l, struct preset_value *v)
{
	for (size_t i = 0; i < 2; i++) {
		v->words += l->ints[i];
		v->floats += l->floats[i] && !l->ints[i];
	}
	if (v->size > 16)
		v->passing = PASS_USUAL;
	else if (!v->words && !v->floats)
		v->passing = PASS_NOT;
	else if (l->memory)
		v->passing = PASS_STACK;
	else if (v->floats)
		v->passing = PASS_FLOATS;
}

static void pass_arm64(const struct layout *l, struct preset_value *v)
{
	if (!v->size)
		v->passing = PASS_NOT;
	if (!l->leaves_alone || !l->leaf_cnt || l->leaf_cnt > 4 ||
		l->leaf_cnt * l->leaf_size != v->size)
		return;
	v->passing = PASS_FLOATS;
	v->floats = (uint8_t)l->leaf_cnt;
}

void dwarf_pass(struct dwarf_reader *d, Dwarf_Die *die, struct type_step *s)
{
	struct layout l = { .leaves_alone = true, .words_alone = true };
	uint64_t align = 0;

	if (dwarf_is_cxx(d->language) && has_own_copies(die)) {
		s->value.kind = TYPE_CLASS;
		return;
	}
	dwarf_attr_number(die, DW_AT_alignment, &align);
	s->value.is_even = align == 16;
	if (s->value.size > 64)
		return;
	lay_members(d, die, 0, &l, 0);
	if (PRESET_ABI_HOST == PRESET_ABI_ARM64)
		pass_arm64(&l, &s->value);
	else
		pass_x86_64(&l, &s->value);
	if (l.words_alone && l.word_size && !l.unsure &&
		(uint64_t)l.leaf_cnt * l.word_size == s->value.size)
		s->member_size = (uint8_t)l.word_size;
}
