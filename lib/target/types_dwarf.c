// SPDX-License-Identifier: BSD-2-Clause
// Reads types from DWARF, and determines how their values are passed.
#include <dwarf.h>

#include "base/util.h"
#include "elf/elf_file.h"
#include "target/kind.h"
#include "types_dwarf.h"

static bool dwarf_is_cxx(int language);

/* How structures are passed by value depends on their members and on C++ copy constructors. */

#define MEMBERS_MAX 512 /* in a structure of at most 64 bytes, including nested ones */

/* The members of a structure, classified per eight bytes and in total. */
struct layout {
	bool ints[8], floats[8], memory, unsure;
	unsigned int members;     /* examined so far */
	unsigned int leaf_cnt;    /* floating point numbers */
	uint32_t leaf_size;
	bool leaves_alone;        /* it has only floating point numbers */
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

/* True for T(const T &) and T(T &&). */
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

/* True if code copies the C++ object: it is then passed by its address. */
static bool has_own_copies(Dwarf_Die *die)
{
	const char *name = dwarf_attr_text(die, DW_AT_name), *of;
	uint64_t how = 0;
	Dwarf_Die member;

	/* Compilers state it since DWARF 5. */
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

/* sets how @s, a structure whose entry is @die, is passed by value. */
static void dwarf_pass(struct dwarf_reader *d, Dwarf_Die *die, struct type_step *s)
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

/*
 * Go functions: an argument uses one register per part (Go's src/cmd/compile/abi-internal.md). The
 * debug information lists results among the arguments.
 */

#ifdef __aarch64__
#define GO_INTS   16
#define GO_FLOATS 16
#else
#define GO_INTS   9
#define GO_FLOATS 15
#endif

#define GO_PARTS 64 /* parts of one value, including empty ones; more never fit in registers */

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

/* Registers in use, and the parts of a value in them. */
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

/* An array of one element is passed like the element, a longer array in memory. */
static bool assign_array(Dwarf_Die *type, struct go_regs *r, unsigned int depth)
{
	Dwarf_Word size = 0, one = 0;
	Dwarf_Die of;

	if (!dwarf_attr_entry(type, DW_AT_type, &of) || dwarf_aggregate_size(type, &size) ||
		dwarf_aggregate_size(&of, &one))
		return false;
	return !size || (size == one && assign(&of, r, depth + 1));
}

/* Assigns registers to a value. Returns false if it is passed in memory. */
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

/* Returns the location of the next value: it is completely in registers, or not at all. */
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

/* Adds the first result, if it is a single number or pointer. Other results are ignored. */
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

/* --- one type ------------------------------------------------------------------------------- */

static bool dwarf_is_cxx(int language)
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

/* Reads a text attribute; the name differs between declarations. */
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

/* Sets the value of a DW_TAG_base_type, whose .size is set. */
static void base_type(Dwarf_Die *die, struct type_step *s)
{
	struct preset_value *v = &s->value;
	uint64_t encoding = 0;

	dwarf_attr_number(die, DW_AT_encoding, &encoding);
	v->kind = TYPE_INT;
	switch (encoding) {
	case DW_ATE_boolean:
		v->kind = TYPE_BOOL;
		s->name = "bool"; /* instead of C's _Bool, which is rarely written */
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
	/* "signed char" and "unsigned char" are numbers, not text. */
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

/* Sets the sign from the underlying type, or to signed if an enumerator is negative. */
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

/* Reads the entry of a type. Returns false if no value can have it. */
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

/* Gets the type of an argument, a member or another type; without one it is void. */
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

/* Rejects a sibling that is not after @die, because that could loop forever. */
bool dwarf_next_sibling(Dwarf_Die *die)
{
	Dwarf_Off at = dwarf_dieoffset(die);

	return !dwarf_siblingof(die, die) && dwarf_dieoffset(die) > at;
}

/* Moves @die to the first entry with @tag among itself and its following siblings. */
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

/* Finds enumerator @i, starting from the previous one: callers ask for them in order. */
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
	/* Compilers use these two forms for negative values, and plain bytes for others. */
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
