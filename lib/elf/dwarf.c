// SPDX-License-Identifier: BSD-2-Clause
// Debug information: which file has it, and the entries of functions by their addresses.
#include <dwarf.h>
#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "elf/dwarf.h"
#include "proc/proc.h"
#include "internal.h"

#define DWZ_DIR       "/usr/lib/debug/.dwz"
#define BUILD_ID_DIR  "/usr/lib/debug/.build-id"
#define INFLATED_MAX  (2048ull << 20) /* of compressed sections, all together */
#define INFLATED_TIMES 1032            /* zlib can't do better (its own FAQ) */

struct elf_dwarf {
	struct elf_mem mem; /* of the file or of its debug file */
	Dwarf *dwarf, *alt;
	int alt_fd;
	char *where; /* "DWARF of PATH", or NULL */
	const char *why;
};

/* --- which file ----------------------------------------------------------------------------- */

/* How large the section is when it is not compressed; 0 when it says what can't be. */
static uint64_t inflated_size(const struct elf_mem *mem, Elf_Scn *scn, const GElf_Shdr *sh)
{
	GElf_Chdr ch;

	if (!(sh->sh_flags & SHF_COMPRESSED))
		return sh->sh_size;
	if (!gelf_getchdr(scn, &ch) || ch.ch_size / INFLATED_TIMES > sh->sh_size)
		return 0;
	return ch.ch_size;
}

/* Whether there is debug information, and all of it would fit into memory. */
static bool has_dwarf(const struct elf_mem *mem)
{
	static const char *const names[] = { ".debug_info", ".debug_abbrev", ".debug_str",
		".debug_line_str", ".debug_str_offsets", ".debug_addr", ".debug_rnglists",
		".debug_ranges", ".debug_types", ".debug_line", ".debug_loclists", ".debug_loc" };
	uint64_t total = 0;
	GElf_Shdr sh;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		Elf_Scn *scn = elf_mem_section(mem, 0, names[i], &sh);
		uint64_t size = scn ? inflated_size(mem, scn, &sh) : 0;

		if (!scn && i)
			continue;
		if (!scn || !elf_mem_bytes(mem, &sh) || !size || size > INFLATED_MAX)
			return false;
		total += (sh.sh_flags & SHF_COMPRESSED) ? size : 0;
	}
	return total <= INFLATED_MAX;
}

/* What dwz has taken out of several files. libdw would open any path: it is done here. */
static int open_alt(struct elf_dwarf *d, const char *dir)
{
	char paths[3][PATH_MAX] = {};
	const unsigned char *id;
	const char *name, *base;
	const void *id_bytes;
	ssize_t len = dwelf_dwarf_gnu_debugaltlink(d->dwarf, &name, &id_bytes);

	if (len <= 0 || len > (ssize_t)ELF_MAX_BUILD_ID || !*name)
		return len < 0 ? -ENOENT : len ? -ENOENT : 0;
	id = id_bytes;
	base = strrchr(name, '/');
	base = base ? base + 1 : name;
	snprintf(paths[0], PATH_MAX, "%s/%02x/", BUILD_ID_DIR, id[0]);
	for (ssize_t i = 1; i < len; i++)
		sprintf(paths[0] + strlen(paths[0]), "%02x", id[i]);
	strcat(paths[0], ".debug");
	snprintf(paths[1], PATH_MAX, "%s/%.255s", DWZ_DIR, base);
	snprintf(paths[2], PATH_MAX, "%s/%.255s", dir ? dir : "/", base);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		const void *has = NULL;

		d->alt_fd = proc_open_regular(paths[i], NULL);
		if (d->alt_fd < 0)
			continue;
		d->alt = dwarf_begin(d->alt_fd, DWARF_C_READ);
		if (d->alt && dwelf_elf_gnu_build_id(dwarf_getelf(d->alt), &has) == len &&
			!memcmp(has, id, (size_t)len)) {
			dwarf_setalt(d->dwarf, d->alt);
			return 0;
		}
		dwarf_end(d->alt);
		d->alt = NULL;
		close_fd(d->alt_fd);
		d->alt_fd = -1;
	}
	return -ENOENT;
}

static void begin(struct elf_file *f, struct elf_dwarf *d)
{
	_cleanup_free_ char *path = NULL;

	if (!has_dwarf(&f->mem)) {
		path = elf_debug_find(f, has_dwarf, &d->mem);
		if (!path) {
			d->why = "no debug information in the file, and no debug file of it";
			return;
		}
	}
	if (path || !elf_mem_map_debug(f->fd, f->path, &d->mem, NULL))
		d->dwarf = dwarf_begin_elf(d->mem.elf, DWARF_C_READ, NULL);
	if (!d->dwarf) {
		d->why = "its debug information can't be read";
		return;
	}
	if (open_alt(d, f->dir)) {
		dwarf_end(d->dwarf);
		d->dwarf = NULL;
		d->why = "its debug information is in a dwz file that is not there";
		return;
	}
	d->why = "DWARF";
	if (!path)
		return;
	d->where = xasprintf("DWARF of %s", path);
	d->why = d->where;
}

void elf_dwarf_done(struct elf_file *f)
{
	struct elf_dwarf *d = f->dwarf;

	if (!d)
		return;
	dwarf_end(d->dwarf);
	dwarf_end(d->alt);
	close_fd(d->alt_fd);
	elf_mem_done(&d->mem);
	free(d->where);
	free(d);
}

/* --- functions ------------------------------------------------------------------------------ */

struct search {
	struct elf_dwarf_func *funcs;
	size_t cnt, found;
	int language;
	uint64_t passed; /* bytes of entries */
};

bool elf_dwarf_next(Dwarf_Die *die, uint64_t *passed)
{
	Dwarf_Off at = dwarf_dieoffset(die), to;

	if (dwarf_siblingof(die, die))
		return false;
	to = dwarf_dieoffset(die);
	if (to <= at)
		return false;
	*passed += to - at;
	return *passed < ELF_DWARF_MOST;
}

static const char *linkage_name(Dwarf_Die *die)
{
	static const unsigned int names[] = { DW_AT_linkage_name, DW_AT_MIPS_linkage_name,
		DW_AT_name };
	Dwarf_Attribute attr;
	const char *name;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		name = dwarf_formstring(dwarf_attr_integrate(die, names[i], &attr));
		if (name)
			return name;
	}
	return NULL;
}

/* Of several entries of one address, as of functions folded by a linker, the symbol's counts. */
static void visit(struct search *s, Dwarf_Die *die)
{
	struct elf_dwarf_func *func;
	const char *name = NULL;
	Dwarf_Addr addr;
	size_t at;
	bool named;

	if (dwarf_entrypc(die, &addr))
		return;
	at = FIRST_WHERE(s->cnt, i, s->funcs[i].addr >= addr);
	for (; at < s->cnt && s->funcs[at].addr == addr; at++) {
		func = &s->funcs[at];
		if (!name)
			name = linkage_name(die);
		named = name && func->symbol && !strcmp(name, func->symbol);
		if (func->found && (func->named || !named))
			continue;
		s->found += !func->found;
		func->found = true;
		func->named = named;
		func->die = *die;
		func->language = s->language;
	}
}

static void walk(struct search *s, Dwarf_Die *parent, unsigned int depth)
{
	Dwarf_Die die;

	if (depth > ELF_NESTING_MAX || dwarf_child(parent, &die))
		return;
	do {
		int tag = dwarf_tag(&die);

		if (tag == DW_TAG_subprogram)
			visit(s, &die);
		else if (tag == DW_TAG_namespace || tag == DW_TAG_module)
			walk(s, &die, depth + 1);
	} while (elf_dwarf_next(&die, &s->passed));
}

/* Whether the unit has code of any that are looked for. */
static bool unit_has(const struct search *s, Dwarf_Die *unit)
{
	Dwarf_Addr base, start, end;
	ptrdiff_t at = 0;

	for (unsigned int i = 0; i < ELF_UNITS_MAX; i++) {
		size_t first;

		at = dwarf_ranges(unit, at, &base, &start, &end);
		if (at <= 0)
			return false;
		first = FIRST_WHERE(s->cnt, n, s->funcs[n].addr >= start);
		if (first < s->cnt && s->funcs[first].addr < end)
			return true;
	}
	return false;
}

/*
 * The half of a unit that is in a .dwo file. libdw opens whatever path the file says: not one
 * that would keep us waiting. Below another root paths mean other files.
 */
static bool may_split(const struct elf_file *f, Dwarf_Die *unit)
{
	char path[PATH_MAX];
	const char *dir, *name;
	Dwarf_Attribute attr;
	struct stat st;

	name = dwarf_formstring(dwarf_attr(unit, DW_AT_dwo_name, &attr));
	if (!name)
		name = dwarf_formstring(dwarf_attr(unit, DW_AT_GNU_dwo_name, &attr));
	dir = dwarf_formstring(dwarf_attr(unit, DW_AT_comp_dir, &attr));
	if (!name || (name[0] != '/' && (!dir || dir[0] != '/')) || f->root_fd >= 0)
		return false;
	if (snprintf(path, sizeof(path), "%s%s%s", name[0] == '/' ? "" : dir,
		    name[0] == '/' ? "" : "/", name) >= (int)sizeof(path))
		return false;
	return !stat(path, &st) && S_ISREG(st.st_mode);
}

bool elf_dwarf_unit(const struct elf_file *f, Dwarf_CU *cu, Dwarf_Die *unit)
{
	Dwarf_Die half = {};
	uint8_t type = 0;

	dwarf_cu_info(cu, NULL, &type, NULL, NULL, NULL, NULL, NULL);
	if (type != DW_UT_skeleton)
		return true;
	if (!may_split(f, unit) ||
		dwarf_cu_info(cu, NULL, NULL, NULL, &half, NULL, NULL, NULL) ||
		dwarf_tag(&half) != DW_TAG_compile_unit)
		return false;
	*unit = half;
	return true;
}

static void search_unit(const struct elf_file *f, struct search *s, Dwarf_CU *cu, Dwarf_Die *unit)
{
	if (!unit_has(s, unit) || !elf_dwarf_unit(f, cu, unit))
		return;
	s->language = dwarf_srclang(unit);
	walk(s, unit, 0);
}

void elf_dwarf_open(struct elf_file *f, Dwarf **ret_dwarf, const char **ret_why)
{
	if (!f->dwarf) {
		f->dwarf = xcalloc(1, sizeof(*f->dwarf));
		f->dwarf->alt_fd = -1;
		begin(f, f->dwarf);
	}
	*ret_dwarf = f->dwarf->dwarf;
	*ret_why = f->dwarf->why;
}

void elf_dwarf_find(struct elf_file *f, struct elf_dwarf_func *funcs, size_t cnt,
	const char **ret_why)
{
	struct search s = { .funcs = funcs, .cnt = cnt };
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit;
	Dwarf *dwarf;

	elf_dwarf_open(f, &dwarf, ret_why);
	for (unsigned int i = 0; dwarf && s.found < cnt && i < ELF_UNITS_MAX; i++) {
		if (dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &unit, NULL))
			break;
		search_unit(f, &s, cu, &unit);
		if (s.passed >= ELF_DWARF_MOST)
			break;
	}
}
