// SPDX-License-Identifier: BSD-2-Clause
// Finds the functions into which the compiler has inlined others, in debug information.
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "elf/dwarf.h"
#include "internal.h"

#define NAME_LEN    1024 /* of a name with its scopes */
#define QUICK_MOST  (8u << 20) /* bytes */
#define NESTING_MAX (2 * ELF_LINES_MAX)

/* An inlined copy, by its first instruction, and the start of the function that contains it. */
struct copy {
	uint64_t addr, into;
	bool split; /* its code has several ranges */
};

struct search {
	struct elf_file *f;
	const char *text;
	elf_name_fn fits;
	void *arg;
	const void **origins; /* the entries in memory that copies refer to, sorted */
	struct copy *copies;
	size_t origin_cnt, copy_cnt;
	bool inlined; /* some origin is, according to its entry */
	Dwarf_Die unit;
	uint64_t passed; /* bytes of entries */
};

/* Visits a function or an inlined copy in the function at @func, 0 if none. True: go into it. */
typedef bool (*visit_fn)(struct search *s, Dwarf_Die *die, uint64_t func);

static void walk(struct search *s, Dwarf_Die *parent, uint64_t func, visit_fn visit,
	unsigned int nesting)
{
	Dwarf_Die die;

	if (nesting > NESTING_MAX || dwarf_child(parent, &die))
		return;
	do {
		uint64_t around = func;

		switch (dwarf_tag(&die)) {
		case DW_TAG_subprogram:
			if (!elf_dwarf_entry(&die, &around))
				around = 0;
			/* fall through */
		case DW_TAG_inlined_subroutine:
			if (!visit(s, &die, around))
				continue;
			break;
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_lexical_block:
		case DW_TAG_try_block:
		case DW_TAG_catch_block:
			break;
		default:
			continue;
		}
		walk(s, &die, around, visit, nesting + 1);
	} while (elf_dwarf_next(&die, &s->passed));
}

static void each_unit(struct search *s, Dwarf *dwarf, visit_fn visit)
{
	Dwarf_CU *cu = NULL;

	for (unsigned int i = 0; i < ELF_UNITS_MAX && s->passed < ELF_DWARF_MOST; i++) {
		if (dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &s->unit, NULL))
			return;
		if (elf_dwarf_unit(s->f, cu, &s->unit))
			walk(s, &s->unit, 0, visit, 0);
	}
}

/* --- functions that are inlined somewhere --------------------------------------------------- */

/* Moves @at, whose entries contain the one at @to, to the child that contains it or is it. */
static bool step_towards(struct search *s, Dwarf_Die *at, Dwarf_Off to)
{
	Dwarf_Die die;

	if (dwarf_child(at, &die) || dwarf_dieoffset(&die) > to)
		return false;
	do
		*at = die;
	while (elf_dwarf_next(&die, &s->passed) && dwarf_dieoffset(&die) <= to);
	return true;
}

/*
 * Writes the name with its scopes, as in demangled names, of a function without a linkage name:
 * functions of C, and those that other files cannot call.
 */
static bool name_in_scopes(struct search *s, Dwarf_Die *die, char *buf, size_t size)
{
	Dwarf_Die at = s->unit, decl = *die;
	Dwarf_Attribute attr;
	size_t len = 0;

	if (dwarf_attr(die, DW_AT_specification, &attr) && !dwarf_formref_die(&attr, &decl))
		return false;
	for (unsigned int i = 0; i < ELF_NESTING_MAX && len < size; i++) {
		const char *name;

		if (!step_towards(s, &at, dwarf_dieoffset(&decl)))
			return false;
		name = elf_dwarf_name(&at);
		if (at.addr == decl.addr)
			return name && len + snprintf(buf + len, size - len, "%s", name) < size;
		len += snprintf(buf + len, size - len, "%s::",
			name ? name : "(anonymous namespace)");
	}
	return false;
}

/* True if the name without template arguments is in the text. */
static bool may_fit(const char *text, const char *name)
{
	size_t len = strcspn(name, "<");

	return !len || memmem(text, strlen(text), name, len);
}

/* With link time optimisation the entry does not say that it is inlined. */
static bool find_origin(struct search *s, Dwarf_Die *die, uint64_t func)
{
	const char *name = elf_dwarf_name(die);
	char buf[NAME_LEN];

	(void)func;
	if (!name || !may_fit(s->text, name))
		return false;
	name = elf_dwarf_linkage_name(die);
	if (!name)
		name = name_in_scopes(s, die, buf, sizeof(buf)) ? buf : NULL;
	if (!name || !s->fits(s->arg, name))
		return false;
	*array_add(s->origins, s->origin_cnt) = die->addr;
	s->inlined |= dwarf_hasattr(die, DW_AT_inline);
	return false;
}

DEFINE_ORDER(compare_places, char *const, (*x > *y) - (*x < *y))

/* --- copies --------------------------------------------------------------------------------- */

static bool find_copy(struct search *s, Dwarf_Die *die, uint64_t func)
{
	struct copy copy = { .into = func };
	Dwarf_Addr base, start, end;
	Dwarf_Attribute attr;
	Dwarf_Die origin;
	uint64_t offset;
	ptrdiff_t next;

	if (!func || dwarf_tag(die) == DW_TAG_subprogram)
		return func;
	if (dwarf_formref_die(dwarf_attr(die, DW_AT_abstract_origin, &attr), &origin) &&
		bsearch(&origin.addr, s->origins, s->origin_cnt, sizeof(*s->origins),
			compare_places) &&
		elf_dwarf_entry(die, &copy.addr) &&
		!elf_file_addr_to_offset(s->f, copy.addr, &offset)) {
		next = dwarf_ranges(die, 0, &base, &start, &end);
		copy.split = next > 0 && dwarf_ranges(die, next, &base, &start, &end) > 0;
		*array_add(s->copies, s->copy_cnt) = copy;
		s->passed += sizeof(copy); /* a limit of memory as well */
	}
	return true;
}

DEFINE_ORDER(compare_copies, struct copy, RISING(into) ?: RISING(addr))

/* Several units have the copies in a function that the linker has kept once. */
static void fill(struct search *s, struct elf_inlined *ret)
{
	const struct copy *c = s->copies;

	qsort(s->copies, s->copy_cnt, sizeof(*s->copies), compare_copies);
	ret->into = xcalloc(s->copy_cnt, sizeof(*ret->into));
	ret->copies = xcalloc(s->copy_cnt, sizeof(*ret->copies));
	for (size_t i = 0; i < s->copy_cnt; i++) {
		if (i && !compare_copies(&c[i - 1], &c[i]))
			continue;
		ret->copies[ret->copy_cnt++] = c[i].addr;
		ret->split_cnt += c[i].split;
		if (!i || c[i - 1].into != c[i].into)
			ret->into[ret->into_cnt++] = c[i].into;
	}
}

void elf_inlined_find(struct elf_file *f, const char *text, elf_name_fn fits, void *arg,
	struct elf_inlined *ret)
{
	struct search s = { .f = f, .text = text, .fits = fits, .arg = arg };
	const char *why;
	Dwarf *dwarf;

	*ret = (struct elf_inlined) {};
	elf_dwarf_open(f, &dwarf, &why);
	if (dwarf)
		each_unit(&s, dwarf, find_origin);
	if (s.origin_cnt && s.passed < ELF_DWARF_MOST) {
		qsort(s.origins, s.origin_cnt, sizeof(*s.origins), compare_places);
		s.passed = 0;
		each_unit(&s, dwarf, find_copy);
	}
	if (s.passed < ELF_DWARF_MOST) {
		ret->copies_gone = s.inlined && !s.copy_cnt;
		if (s.copy_cnt)
			fill(&s, ret);
	}
	free(s.origins);
	free(s.copies);
}

bool elf_inlined_is_quick(const struct elf_file *f)
{
	GElf_Shdr sh;

	return elf_mem_section(&f->mem, 0, ".debug_info", &sh) &&
		!(sh.sh_flags & SHF_COMPRESSED) && sh.sh_size <= QUICK_MOST;
}

void elf_inlined_done(struct elf_inlined *inlined)
{
	free(inlined->into);
	free(inlined->copies);
}
