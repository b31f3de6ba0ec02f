// SPDX-License-Identifier: BSD-2-Clause
// Types by DWARF: what an entry is, and how a value of it is passed.
#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "types_dwarf.h"

/* --- one type ------------------------------------------------------------------------------- */

bool dwarf_is_cxx(int language)
{
	return language == DW_LANG_C_plus_plus || language == DW_LANG_C_plus_plus_03 ||
		language == DW_LANG_C_plus_plus_11 || language == DW_LANG_C_plus_plus_14 ||
		language == 0x002b /* C++17 */ || language == 0x002c /* C++20 */;
}

bool dwarf_attr_number(Dwarf_Die *die, unsigned int name, uint64_t *ret)
{
	Dwarf_Attribute attr;
	Dwarf_Word word;

	if (dwarf_formudata(dwarf_attr_integrate(die, name, &attr), &word))
		return false;
	*ret = word;
	return true;
}

bool dwarf_attr_flag(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attr;
	bool flag = false;

	return !dwarf_formflag(dwarf_attr_integrate(die, name, &attr), &flag) && flag;
}

/* Of a name that is a different one in each declaration. */
const char *dwarf_attr_text(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attr;

	return dwarf_formstring(dwarf_attr_integrate(die, name, &attr));
}

bool dwarf_attr_entry(Dwarf_Die *die, unsigned int name, Dwarf_Die *ret)
{
	Dwarf_Attribute attr;

	return dwarf_formref_die(dwarf_attr_integrate(die, name, &attr), ret) != NULL;
}

Dwarf_Die *dwarf_entry_of(const struct type_step *s, Dwarf_Die *ret)
{
	_Static_assert(sizeof(s->entry) >= sizeof(*ret), "an entry has room");
	memcpy(ret, s->entry, sizeof(*ret));
	return ret;
}

static void base_type(Dwarf_Die *die, struct type_step *s)
{
	struct preset_value *v = &s->value;
	uint64_t encoding = 0;

	dwarf_attr_number(die, DW_AT_encoding, &encoding);
	v->kind = TYPE_INT;
	switch (encoding) {
	case DW_ATE_boolean:
		v->kind = TYPE_BOOL;
		s->name = "bool"; /* C's is _Bool, which nobody writes */
		break;
	case DW_ATE_signed:
	case DW_ATE_signed_fixed:
	case DW_ATE_signed_char:
		v->is_signed = true;
		break;
	case DW_ATE_float:
		v->kind = TYPE_FLOAT;
		v->is_signed = true;
		break;
	case DW_ATE_complex_float:
		v->kind = TYPE_COMPLEX;
		v->is_signed = true;
		break;
	default:
		break;
	}
	/* The others hold data. */
	s->is_char = v->size == 1 && s->name && !strcmp(s->name, "char");
	if (v->kind == TYPE_INT && v->size > 8) {
		v->kind = TYPE_STRUCT; /* __int128: two words */
		v->is_even = v->size == 16;
	} else if (v->kind == TYPE_COMPLEX && v->size > 16) {
		v->kind = TYPE_STRUCT;
		v->passing = PRESET_ABI_HOST == PRESET_ABI_ARM64 ? PASS_FLOATS : PASS_STACK;
		v->floats = 2;
	}
}

/* By the type beneath, or by whether one of its values is below 0. */
static void enum_sign(struct type_reader *r, Dwarf_Die *die, struct type_step *s)
{
	uint64_t encoding;
	Dwarf_Die base;
	int64_t code;

	if (dwarf_attr_entry(die, DW_AT_type, &base)) {
		for (unsigned int i = 0; i < TYPES_DEPTH && dwarf_tag(&base) == DW_TAG_typedef; i++)
			if (!dwarf_attr_entry(&base, DW_AT_type, &base))
				break;
		if (dwarf_attr_number(&base, DW_AT_encoding, &encoding)) {
			s->value.is_signed = encoding == DW_ATE_signed ||
				encoding == DW_ATE_signed_char;
			return;
		}
	}
	for (size_t i = 0; i < TYPES_CODES && r->code(r, s, i, &code); i++)
		s->value.is_signed |= code < 0;
}

static void structure(const struct dwarf_reader *d, struct type_step *s, const char *word)
{
	s->before = dwarf_is_cxx(d->language) || d->language == DW_LANG_Go ? "" : word;
	s->value.kind = TYPE_STRUCT;
}

static void vector(Dwarf_Die *die, struct type_step *s)
{
	Dwarf_Word size = 0;

	s->kind = STEP_VALUE;
	s->name = "vector";
	dwarf_aggregate_size(die, &size);
	s->value = (struct preset_value) { .kind = TYPE_STRUCT, .size = (uint32_t)size,
		.passing = PASS_FLOATS, .floats = 1 };
}

static void member_pointer(Dwarf_Die *die, struct type_step *s)
{
	Dwarf_Die to;

	s->kind = STEP_VALUE;
	s->name = "(member pointer)";
	s->value = (struct preset_value) { .kind = TYPE_INT, .size = 8, .is_signed = true };
	if (dwarf_attr_entry(die, DW_AT_type, &to) && dwarf_tag(&to) == DW_TAG_subroutine_type)
		s->value = (struct preset_value) { .kind = TYPE_STRUCT, .size = 16 };
}

/* What the entry of a type is; false: nothing that a value can have. */
static bool step_of(struct dwarf_reader *d, Dwarf_Die *die, struct type_step *s)
{
	uint64_t size = 0;

	*s = (struct type_step) { .kind = STEP_VALUE, .at = (uint64_t)(uintptr_t)die->addr,
		.name = dwarf_attr_text(die, DW_AT_name), .before = "" };
	memcpy(s->entry, die, sizeof(*die));
	dwarf_attr_number(die, DW_AT_byte_size, &size);
	s->value.size = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
	switch (dwarf_tag(die)) {
	case DW_TAG_base_type:
		base_type(die, s);
		return true;
	case DW_TAG_pointer_type:
	case DW_TAG_string_type:
		s->kind = STEP_POINTER;
		return true;
	case DW_TAG_reference_type:
	case DW_TAG_rvalue_reference_type:
		s->kind = STEP_REFERENCE;
		return true;
	case DW_TAG_const_type:
		s->kind = STEP_CONST;
		return true;
	case DW_TAG_volatile_type:
	case DW_TAG_restrict_type:
	case DW_TAG_atomic_type:
	case DW_TAG_immutable_type:
	case DW_TAG_packed_type:
	case DW_TAG_subrange_type:
		s->kind = STEP_QUALIFIER;
		return true;
	case DW_TAG_typedef:
	case DW_TAG_template_alias:
		s->kind = STEP_NAME;
		return true;
	case DW_TAG_enumeration_type:
		s->before = dwarf_is_cxx(d->language) ? "" : "enum ";
		s->value.kind = TYPE_INT;
		return true;
	case DW_TAG_structure_type:
		structure(d, s, "struct ");
		return true;
	case DW_TAG_union_type:
		structure(d, s, "union ");
		return true;
	case DW_TAG_class_type:
	case DW_TAG_interface_type:
		structure(d, s, "");
		return true;
	case DW_TAG_array_type:
		if (dwarf_attr_flag(die, DW_AT_GNU_vector))
			vector(die, s);
		else
			s->kind = STEP_ARRAY;
		return true;
	case DW_TAG_subroutine_type:
		s->kind = STEP_FUNCTION;
		return true;
	case DW_TAG_ptr_to_member_type:
		member_pointer(die, s);
		return true;
	case DW_TAG_unspecified_type: /* decltype(nullptr) */
		s->value = (struct preset_value) { .kind = TYPE_POINTER, .size = 8 };
		return true;
	default:
		return false;
	}
}

/* The type that an argument, a member or another type names; none is void. */
bool dwarf_step_from(struct dwarf_reader *d, Dwarf_Die *die, struct type_step *ret)
{
	Dwarf_Attribute attr;
	Dwarf_Die type;

	if (!dwarf_attr_integrate(die, DW_AT_type, &attr)) {
		*ret = (struct type_step) { .kind = STEP_VOID };
		return true;
	}
	return dwarf_formref_die(&attr, &type) && step_of(d, &type, ret);
}

static bool next(struct type_reader *r, const struct type_step *from, struct type_step *ret)
{
	struct dwarf_reader *d = (struct dwarf_reader *)r;
	Dwarf_Die die;

	return dwarf_step_from(d, dwarf_entry_of(from, &die), ret);
}

/* --- enumerations --------------------------------------------------------------------------- */

/* A next one that lies before would have no end. */
bool dwarf_next_sibling(Dwarf_Die *die)
{
	Dwarf_Off at = dwarf_dieoffset(die);

	return !dwarf_siblingof(die, die) && dwarf_dieoffset(die) > at;
}

/* The next of @die's siblings that is a @tag, from itself on. */
static bool seek_tag(Dwarf_Die *die, int tag)
{
	while (dwarf_tag(die) != tag)
		if (!dwarf_next_sibling(die))
			return false;
	return true;
}

bool dwarf_next_tag(Dwarf_Die *die, int tag)
{
	return dwarf_next_sibling(die) && seek_tag(die, tag);
}

bool dwarf_first_tag(Dwarf_Die *parent, int tag, Dwarf_Die *ret)
{
	return !dwarf_child(parent, ret) && seek_tag(ret, tag);
}

/* Asked for one after the other, each is found from the one before. */
static bool code_seek(struct dwarf_reader *d, const struct type_step *step, size_t i)
{
	Dwarf_Die die;

	if (d->code_of != step->at || d->code_at > i) {
		d->code_of = step->at;
		d->code_at = 0;
		if (!dwarf_first_tag(dwarf_entry_of(step, &die), DW_TAG_enumerator, &d->code)) {
			d->code_of = 0;
			return false;
		}
	}
	while (d->code_at < i) {
		die = d->code;
		if (!dwarf_next_tag(&die, DW_TAG_enumerator))
			return false;
		d->code = die;
		d->code_at++;
	}
	return true;
}

static const char *code(struct type_reader *r, const struct type_step *step, size_t i,
	int64_t *ret_code)
{
	struct dwarf_reader *d = (struct dwarf_reader *)r;
	Dwarf_Attribute attr;
	Dwarf_Die die;
	Dwarf_Word word = 0;
	Dwarf_Sword number = 0;
	const char *name;

	if (dwarf_tag(dwarf_entry_of(step, &die)) != DW_TAG_enumeration_type || !code_seek(d, step, i) ||
		!dwarf_attr(&d->code, DW_AT_const_value, &attr))
		return NULL;
	/* Compilers write those below 0 so, and the others as plain bytes. */
	if (dwarf_whatform(&attr) == DW_FORM_sdata ||
		dwarf_whatform(&attr) == DW_FORM_implicit_const) {
		dwarf_formsdata(&attr, &number);
		*ret_code = number;
	} else {
		dwarf_formudata(&attr, &word);
		*ret_code = (int64_t)word;
	}
	name = dwarf_attr_text(&d->code, DW_AT_name);
	return name ? name : "?";
}

static void finish(struct type_reader *r, struct type_step *s)
{
	struct dwarf_reader *d = (struct dwarf_reader *)r;
	Dwarf_Die die;
	int tag = dwarf_tag(dwarf_entry_of(s, &die));

	if (tag == DW_TAG_enumeration_type)
		enum_sign(r, &die, s);
	if (s->value.kind == TYPE_STRUCT && tag != DW_TAG_base_type &&
		tag != DW_TAG_array_type && tag != DW_TAG_ptr_to_member_type)
		dwarf_pass(d, &die, s);
}

void dwarf_reader_init(struct dwarf_reader *d, struct targets *targets)
{
	*d = (struct dwarf_reader) { .r = { .targets = targets, .next = next, .finish = finish,
					    .code = code } };
}
