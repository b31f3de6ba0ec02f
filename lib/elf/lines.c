// SPDX-License-Identifier: BSD-2-Clause
// Lines of the source by address, and the functions that the compiler has put into others.
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "elf/dwarf.h"
#include "internal.h"

#define SCOPES_MAX 65536 /* of one function */
#define RANGES_MAX 4096  /* of one entry; those of units are as many as there are */

/* A function in the place of its call, in one of the ranges that its code has. */
struct scope {
	uint64_t start, end;
	unsigned int depth; /* under so many others that are inlined */
	Dwarf_Die die;
	char *name; /* asked of .die once */
	bool named;
};

/* One of the ranges of a function that is not inlined. */
struct func {
	uint64_t start, end;
	Dwarf_Die die;
	struct scope *scopes; /* what is in another is behind it */
	size_t scope_cnt;
	bool read;
};

struct unit {
	Dwarf_CU *cu;
	Dwarf_Die own, die; /* lines are the first one's, entries the other's */
	bool shallow, deep; /* which entries were gone through */
	bool whole;         /* .die has entries */
	struct func *funcs; /* by address */
	size_t func_cnt;
};

struct range {
	uint64_t start, end;
	size_t unit;
};

struct elf_units {
	struct unit *units;
	struct range *ranges; /* by address */
	size_t unit_cnt, range_cnt;
	uint64_t passed; /* bytes of entries */
};

static void func_done(struct func *func)
{
	for (size_t i = 0; i < func->scope_cnt; i++)
		free(func->scopes[i].name);
	free(func->scopes);
}

static void unit_forget(struct unit *unit)
{
	for (size_t i = 0; i < unit->func_cnt; i++)
		func_done(&unit->funcs[i]);
	free(unit->funcs);
	unit->funcs = NULL;
	unit->func_cnt = 0;
}

void elf_lines_done(struct elf_file *f)
{
	struct elf_units *u = f->units;

	if (!u)
		return;
	for (size_t i = 0; i < u->unit_cnt; i++)
		unit_forget(&u->units[i]);
	free(u->units);
	free(u->ranges);
	free(u);
}

/* --- units ---------------------------------------------------------------------------------- */

/*
 * Calls @add for each range of code of @die, at most @most. Many entries may share a list: what is
 * kept of each range counts as if it were read.
 */
static void each_range(struct elf_units *u, Dwarf_Die *die, unsigned int most,
	void (*add)(void *arg, uint64_t start, uint64_t end), void *arg)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;

	for (unsigned int i = 0; i < most && u->passed < ELF_DWARF_MOST; i++) {
		at = dwarf_ranges(die, at, &base, &start, &end);
		if (at <= 0)
			return;
		u->passed += sizeof(struct func);
		if (start < end)
			add(arg, start, end);
	}
}

static void add_unit_range(void *arg, uint64_t start, uint64_t end)
{
	struct elf_units *u = arg;

	u->ranges = array_grow(u->ranges, u->range_cnt, sizeof(*u->ranges));
	u->ranges[u->range_cnt++] = (struct range) { start, end, u->unit_cnt };
}

static int compare_ranges(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static struct elf_units *read_units(struct elf_file *f)
{
	struct elf_units *u = f->units = xcalloc(1, sizeof(*u));
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;
	const char *why;
	Dwarf *dwarf;

	elf_dwarf_open(f, &dwarf, &why);
	for (unsigned int i = 0; dwarf && i < ELF_UNITS_MAX; i++) {
		if (dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &unit, NULL))
			break;
		u->units = array_grow(u->units, u->unit_cnt, sizeof(*u->units));
		u->units[u->unit_cnt] = (struct unit) { .cu = cu, .own = unit, .die = unit };
		each_range(u, &unit, ELF_UNITS_MAX, add_unit_range, u);
		u->unit_cnt++;
	}
	if (u->range_cnt)
		qsort(u->ranges, u->range_cnt, sizeof(*u->ranges), compare_ranges);
	return u;
}

static struct unit *unit_at(struct elf_units *u, uint64_t addr)
{
	size_t at = FIRST_WHERE(u->range_cnt, i, u->ranges[i].start > addr);

	return at && addr < u->ranges[at - 1].end ? &u->units[u->ranges[at - 1].unit] : NULL;
}

/* --- functions of a unit ---------------------------------------------------------------------- */

struct adding {
	struct unit *unit;
	Dwarf_Die die;
};

static void add_func_range(void *arg, uint64_t start, uint64_t end)
{
	const struct adding *a = arg;

	a->unit->funcs = array_grow(a->unit->funcs, a->unit->func_cnt, sizeof(*a->unit->funcs));
	a->unit->funcs[a->unit->func_cnt++] = (struct func) { .start = start, .end = end, .die = a->die };
}

/* Functions within others, as those of their types, only where it is @deep. */
static void add_funcs(struct elf_units *u, struct unit *unit, Dwarf_Die *parent, bool deep,
	unsigned int nesting)
{
	struct adding a = { .unit = unit };

	if (nesting > ELF_NESTING_MAX || dwarf_child(parent, &a.die))
		return;
	do {
		int tag = dwarf_tag(&a.die);

		if (tag == DW_TAG_subprogram)
			each_range(u, &a.die, RANGES_MAX, add_func_range, &a);
		if (deep || tag == DW_TAG_namespace || tag == DW_TAG_module)
			add_funcs(u, unit, &a.die, deep, nesting + 1);
	} while (elf_dwarf_next(&a.die, &u->passed));
}

static int compare_funcs(const void *a, const void *b)
{
	const struct func *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static void read_funcs(struct elf_file *f, struct unit *unit, bool deep)
{
	if (!unit->shallow)
		unit->whole = elf_dwarf_unit(f, unit->cu, &unit->die);
	unit->shallow = true;
	unit->deep = deep;
	unit_forget(unit);
	if (unit->whole)
		add_funcs(f->units, unit, &unit->die, deep, 0);
	if (unit->func_cnt)
		qsort(unit->funcs, unit->func_cnt, sizeof(*unit->funcs), compare_funcs);
}

static struct func *func_in(struct unit *unit, uint64_t addr)
{
	size_t at = FIRST_WHERE(unit->func_cnt, i, unit->funcs[i].start > addr);

	return at && addr < unit->funcs[at - 1].end ? &unit->funcs[at - 1] : NULL;
}

/* Most are no part of others: these are looked for where @addr is in none. */
static struct func *func_at(struct elf_file *f, struct unit *unit, uint64_t addr)
{
	struct func *func;

	if (!unit->shallow)
		read_funcs(f, unit, false);
	func = func_in(unit, addr);
	if (func || unit->deep)
		return func;
	read_funcs(f, unit, true);
	return func_in(unit, addr);
}

/* --- what is inlined into a function ------------------------------------------------------------ */

struct nesting {
	struct func *func;
	Dwarf_Die die;
	unsigned int depth;
};

/* Only those that the function's range has a part of. */
static void add_scope(void *arg, uint64_t start, uint64_t end)
{
	const struct nesting *n = arg;
	struct func *func = n->func;

	if (start >= func->end || end <= func->start || func->scope_cnt == SCOPES_MAX)
		return;
	func->scopes = array_grow(func->scopes, func->scope_cnt, sizeof(*func->scopes));
	func->scopes[func->scope_cnt++] = (struct scope) {
		.start = start, .end = end, .depth = n->depth, .die = n->die
	};
}

static void add_scopes(struct elf_units *u, struct func *func, Dwarf_Die *parent,
	unsigned int depth, unsigned int nesting)
{
	struct nesting n = { .func = func, .depth = depth };

	if (nesting > 2 * ELF_LINES_MAX || dwarf_child(parent, &n.die))
		return;
	do {
		int tag = dwarf_tag(&n.die);

		if (tag == DW_TAG_inlined_subroutine)
			each_range(u, &n.die, RANGES_MAX, add_scope, &n);
		if (tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block ||
			tag == DW_TAG_try_block || tag == DW_TAG_catch_block)
			add_scopes(u, func, &n.die, depth + (tag == DW_TAG_inlined_subroutine),
				nesting + 1);
	} while (elf_dwarf_next(&n.die, &u->passed));
}

/* Those that @addr lies in, outermost first. */
static size_t scopes_at(struct elf_units *u, struct func *func, uint64_t addr,
	struct scope *ret_scopes[ELF_LINES_MAX])
{
	size_t cnt = 0;

	if (!func->read)
		add_scopes(u, func, &func->die, 0, 0);
	func->read = true;
	for (size_t i = 0; i < func->scope_cnt; i++) {
		struct scope *s = &func->scopes[i];

		if (addr < s->start || addr >= s->end || s->depth > cnt ||
			s->depth >= ELF_LINES_MAX - 1)
			continue;
		ret_scopes[s->depth] = s;
		cnt = s->depth + 1;
	}
	return cnt;
}

static const char *scope_name(struct scope *s)
{
	static const unsigned int names[] = {
		DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_name
	};
	Dwarf_Attribute attr;
	const char *name = NULL;

	if (s->named)
		return s->name;
	for (size_t i = 0; !name && i < ARRAY_SIZE(names); i++)
		name = dwarf_formstring(dwarf_attr_integrate(&s->die, names[i], &attr));
	s->named = true;
	if (name && demangle_is_mangled(name))
		s->name = demangle(name, DEMANGLE_NAME);
	if (!s->name && name && elf_name_is_clean(name, strlen(name)))
		s->name = xstrdup(name);
	return s->name;
}

/* --- lines -------------------------------------------------------------------------------------- */

static unsigned int number_of(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attr;
	Dwarf_Word n;

	return dwarf_formudata(dwarf_attr(die, name, &attr), &n) || n > UINT32_MAX ? 0
										 : (unsigned int)n;
}

/* A path is for people. */
static const char *clean(const char *path)
{
	return path && elf_name_is_clean(path, strlen(path)) ? path : NULL;
}

/* Where what @scope is has been called. */
static void set_call(struct unit *unit, struct scope *scope, struct elf_line *ret)
{
	unsigned int file = number_of(&scope->die, DW_AT_call_file);
	Dwarf_Files *files;
	size_t cnt;

	ret->line = number_of(&scope->die, DW_AT_call_line);
	if (ret->line && !dwarf_getsrcfiles(&unit->own, &files, &cnt) && file < cnt)
		ret->source = clean(dwarf_filesrc(files, file, NULL, NULL));
	if (!ret->source)
		ret->line = 0;
}

/* Compilers are started somewhere, and write what they were given. */
static void set_folder(struct unit *unit, struct elf_line *ret)
{
	Dwarf_Attribute attr;

	if (ret->source && ret->source[0] != '/')
		ret->folder = clean(
			dwarf_formstring(dwarf_attr(&unit->own, DW_AT_comp_dir, &attr)));
}

static void set_line(struct unit *unit, uint64_t addr, struct elf_line *ret)
{
	Dwarf_Line *line = dwarf_getsrc_die(&unit->own, addr);
	int n = 0;

	if (!line || dwarf_lineno(line, &n) || n <= 0)
		return;
	ret->source = clean(dwarf_linesrc(line, NULL, NULL));
	ret->line = ret->source ? (unsigned int)n : 0;
}

size_t elf_lines_at(struct elf_file *f, uint64_t addr, struct elf_line *ret_lines)
{
	struct elf_units *u = f->units ? f->units : read_units(f);
	struct unit *unit = u ? unit_at(u, addr) : NULL;
	struct scope *scopes[ELF_LINES_MAX];
	struct func *func;
	size_t cnt = 0, n = 0;

	if (!unit)
		return 0;
	func = func_at(f, unit, addr);
	if (func)
		cnt = scopes_at(u, func, addr, scopes);
	memset(ret_lines, 0, (cnt + 1) * sizeof(*ret_lines));
	set_line(unit, addr, &ret_lines[0]);
	set_folder(unit, &ret_lines[0]);
	while (cnt--) {
		ret_lines[n].function = scope_name(scopes[cnt]);
		ret_lines[n].inlined = true;
		if (!ret_lines[n].function)
			ret_lines[n].function = "?";
		set_call(unit, scopes[cnt], &ret_lines[++n]);
		set_folder(unit, &ret_lines[n]);
	}
	return n || ret_lines[0].line ? n + 1 : 0;
}
