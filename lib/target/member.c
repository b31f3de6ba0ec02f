// SPDX-License-Identifier: BSD-2-Clause
// Finds members of the data that an argument points to, with debug information.
#include <ctype.h>
#include <dwarf.h>

#include "base/util.h"
#include "elf/dwarf.h"
#include "target/kind.h"
#include "types_dwarf.h"

#define MEMBER_AT_MOST (1U << 30) /* bytes after the pointer */
#define DEPTH_MOST     16         /* nested unnamed structures and base classes */
#define DIMS_MOST      8
#define VISITS_MOST    100000 /* members visited: unnamed ones of a hostile file may form a loop */

#define NOT_FOLLOWED "is described in a way that is not followed"
#define NO_NUMBER    "is not a number of up to 8 bytes"

struct walk {
	struct dwarf_reader d;
	struct type_step at;
	uint64_t offset;
	const char *rest; /* of the path */
	const char *why;
	unsigned int visits;
};

static bool fails(struct walk *w, const char *why)
{
	w->why = why;
	return false;
}

/* Skips typedefs and qualifiers. */
static bool strip(struct walk *w)
{
	for (unsigned int i = 0; i < TYPES_DEPTH; i++) {
		if (w->at.kind != STEP_NAME && w->at.kind != STEP_CONST &&
			w->at.kind != STEP_QUALIFIER)
			return true;
		if (!w->d.r.next(&w->d.r, &w->at, &w->at))
			break;
	}
	return fails(w, NOT_FOLLOWED);
}

/* Steps to the type of @die, a member or an argument. */
static bool step_into(struct walk *w, Dwarf_Die *die)
{
	return dwarf_step_from(&w->d, die, &w->at) ? strip(w) : fails(w, NOT_FOLLOWED);
}

static bool member_offset(Dwarf_Die *die, uint64_t *ret)
{
	Dwarf_Attribute attr;

	*ret = 0; /* union members have no location */
	return !dwarf_attr(die, DW_AT_data_member_location, &attr) ||
		dwarf_attr_number(die, DW_AT_data_member_location, ret);
}

static bool is_named(Dwarf_Die *die, const char *name, size_t len)
{
	const char *has = dwarf_attr_text(die, DW_AT_name);

	return has && !strncmp(has, name, len) && !has[len];
}

/* Finds a member of @of, also in its unnamed members and base classes. */
static bool find_member(struct walk *w, Dwarf_Die *of, const char *name, size_t len,
	unsigned int depth, Dwarf_Die *ret)
{
	uint64_t before = w->offset, at;
	Dwarf_Die die, type;

	if (depth == DEPTH_MOST || dwarf_child(of, &die))
		return false;
	do {
		bool is_base = dwarf_tag(&die) == DW_TAG_inheritance;

		if (++w->visits > VISITS_MOST)
			return false;
		if ((dwarf_tag(&die) != DW_TAG_member && !is_base) || !member_offset(&die, &at))
			continue;
		w->offset = before + at;
		*ret = die;
		if (!is_base && is_named(&die, name, len))
			return true;
		if ((is_base || !dwarf_attr_text(&die, DW_AT_name)) && step_into(w, &die) &&
			w->at.kind == STEP_VALUE &&
			find_member(w, dwarf_entry_of(&w->at, &type), name, len, depth + 1, ret))
			return true;
	} while (dwarf_next_sibling(&die));
	w->offset = before;
	return false;
}

/* Returns the number of elements of a dimension; 0: not declared. */
static uint64_t dimension(Dwarf_Die *die)
{
	uint64_t n;

	if (dwarf_attr_number(die, DW_AT_count, &n))
		return n;
	return dwarf_attr_number(die, DW_AT_upper_bound, &n) ? n + 1 : 0;
}

static bool read_index(struct walk *w, uint64_t *ret)
{
	char *end;

	if (*w->rest != '[')
		return fails(w, "is an array: add an index, such as [0]");
	if (!isdigit((unsigned char)w->rest[1]))
		return fails(w, "has an index that is not a number");
	*ret = strtoull(w->rest + 1, &end, 10);
	if (*end != ']')
		return fails(w, "has an index that is not a number");
	w->rest = end + 1;
	return true;
}

/* Steps to an element of an array; the path must have an index for each dimension. */
static bool step_element(struct walk *w)
{
	Dwarf_Die array, die;
	uint64_t index = 0, n, cnt;
	unsigned int dims = 0;
	Dwarf_Word size;

	if (!dwarf_first_tag(dwarf_entry_of(&w->at, &array), DW_TAG_subrange_type, &die))
		return fails(w, NOT_FOLLOWED);
	do {
		cnt = dimension(&die);
		if (!read_index(w, &n))
			return false;
		if ((cnt && n >= cnt) || (!cnt && dims) || n > MEMBER_AT_MOST ||
			index > MEMBER_AT_MOST || cnt > MEMBER_AT_MOST)
			return fails(w, "is outside of its array");
		index = dims ? index * cnt + n : n;
	} while (++dims < DIMS_MOST && dwarf_next_tag(&die, DW_TAG_subrange_type));
	if (!w->d.r.next(&w->d.r, &w->at, &w->at) ||
		dwarf_aggregate_size(dwarf_entry_of(&w->at, &die), &size))
		return fails(w, NOT_FOLLOWED);
	if (size > MEMBER_AT_MOST || index * size > MEMBER_AT_MOST)
		return fails(w, "is outside of its array");
	w->offset += index * size;
	return strip(w);
}

static bool step_member(struct walk *w)
{
	size_t len = strspn(w->rest, "abcdefghijklmnopqrstuvwxyz"
				     "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
	Dwarf_Die of, die;

	if (w->at.kind == STEP_POINTER)
		return fails(w, "is reached through a second pointer, and only one is followed");
	if (w->at.kind != STEP_VALUE || w->at.value.kind != TYPE_STRUCT)
		return fails(w, "is not a member: there is no structure");
	dwarf_entry_of(&w->at, &of);
	if (dwarf_attr_flag(&of, DW_AT_declaration))
		return fails(w, "is in a structure that is only declared");
	if (!len || !find_member(w, &of, w->rest, len, 0, &die))
		return fails(w, "is not a member of the structure");
	w->rest += len;
	if (dwarf_hasattr_integrate(&die, DW_AT_bit_size))
		return fails(w, "is a bit field, which can't be read alone");
	if (!step_into(w, &die))
		return false;
	while (w->at.kind == STEP_ARRAY)
		if (!step_element(w))
			return false;
	return true;
}

static bool walk_path(struct walk *w)
{
	if (w->at.kind != STEP_POINTER && w->at.kind != STEP_REFERENCE)
		return fails(w, "is behind no pointer");
	if (!w->d.r.next(&w->d.r, &w->at, &w->at))
		return fails(w, NOT_FOLLOWED);
	if (!strip(w))
		return false;
	do {
		if (!step_member(w))
			return false;
		if (!strncmp(w->rest, "->", 2))
			return fails(w, "is reached through a second pointer, and only one is followed");
	} while (*w->rest == '.' && w->rest++);
	return *w->rest ? fails(w, "is not ARG->MEMBER, optionally followed by .MEMBER or [N]") : true;
}

static bool member_of(struct walk *w, struct member_at *ret)
{
	struct preset_value *v = &w->at.value;

	ret->is_address = w->at.kind == STEP_POINTER;
	if (!ret->is_address && w->at.kind == STEP_VALUE && v->kind == TYPE_INT)
		w->d.r.finish(&w->d.r, &w->at);
	if (!ret->is_address && (w->at.kind != STEP_VALUE ||
					(v->kind != TYPE_INT && v->kind != TYPE_BOOL)))
		return fails(w, NO_NUMBER);
	ret->bytes = ret->is_address ? sizeof(void *) : v->size;
	ret->is_signed = !ret->is_address && v->kind == TYPE_INT && v->is_signed;
	ret->at = (uint32_t)w->offset;
	if (!ret->bytes || ret->bytes > 8 || ret->bytes & (ret->bytes - 1))
		return fails(w, NO_NUMBER);
	return w->offset > MEMBER_AT_MOST ? fails(w, NOT_FOLLOWED) : true;
}

static bool nth_argument(struct elf_dwarf_func *f, size_t nth, Dwarf_Die *ret)
{
	Dwarf_Die list = f->die;

	(void)dwarf_attr_entry(&f->die, DW_AT_abstract_origin, &list);
	if (!dwarf_first_tag(&list, DW_TAG_formal_parameter, ret))
		return false;
	while (nth--)
		if (!dwarf_next_tag(ret, DW_TAG_formal_parameter))
			return false;
	return true;
}

static int member_at(struct elf_file *elf, struct elf_dwarf_func *f, size_t nth, const char *path,
	struct member_at *ret, const char **ret_why)
{
	struct walk w = { .rest = path };
	struct member_at m = {};
	Dwarf_Die arg;

	*ret_why = "needs debug information, of which there is none";
	if (elf && f->addr)
		elf_dwarf_find(elf, f, 1, &w.why);
	if (!f->found)
		return -EINVAL;
	dwarf_reader_init(&w.d, NULL);
	w.d.language = f->language;
	w.why = NOT_FOLLOWED;
	if (!nth_argument(f, nth, &arg) || !step_into(&w, &arg) || !walk_path(&w) ||
		!member_of(&w, &m)) {
		*ret_why = w.why;
		return -EINVAL;
	}
	*ret = m;
	return 0;
}

int types_member(const struct target *t, size_t nth, const char *path, struct member_at *ret,
	const char **ret_why)
{
	struct elf_dwarf_func f = { .addr = t->func ? t->addr : 0, .symbol = t->symbol };

	return member_at(t->object->elf, &f, nth, path, ret, ret_why);
}

/* A function of all versions of Go: execute(gp *g, inheritTime bool). */
#define GO_EXECUTE "runtime.execute"

int types_goroutine(const struct target *t, struct member_at *ret, const char **ret_why)
{
	struct elf_dwarf_func f = { .symbol = GO_EXECUTE };
	const struct elf_func *funcs;
	size_t cnt;

	if (elf_file_funcs(t->object->elf, &funcs, &cnt, NULL))
		cnt = 0;
	for (size_t i = 0; i < cnt; i++)
		if (!strcmp(funcs[i].names[0].name, GO_EXECUTE))
			f.addr = funcs[i].addr;
	return member_at(t->object->elf, &f, 0, "goid", ret, ret_why);
}
