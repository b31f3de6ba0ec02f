// SPDX-License-Identifier: BSD-2-Clause
// Debug information: finds its file, and the entries of functions by address.
#include <dwarf.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <limits.h>
#include <lzma.h>
#include <sys/stat.h>

#include "base/util.h"
#include "elf/dwarf.h"
#include "proc/proc.h"
#include "internal.h"

/* --- Symbols kept elsewhere: separate debug files and .gnu_debugdata ----------------------------- */

#define DEBUG_DIR "/usr/lib/debug"

/* Opens @path below the file's root or that of this process. Returns -1 if it does not exist. */
static int open_at(const struct elf_file *f, bool own_root, const char *path)
{
	if (!own_root)
		return proc_open_regular(path, NULL);
	return proc_open_in_root(f->root_fd, path, 0, NULL);
}

/* True if the image is the debug file of @f: same machine, and no different build id. */
static bool belongs(const struct elf_file *f, const struct elf_mem *mem, bool need_id)
{
	char hex[2 * ELF_MAX_BUILD_ID + 1];
	bool go;

	if (memcmp(mem->bytes + offsetof(Elf64_Ehdr, e_machine),
		    f->mem.bytes + offsetof(Elf64_Ehdr, e_machine),
		    sizeof(Elf64_Half)) != 0)
		return false;
	elf_mem_notes(mem, hex, &go);
	if (!hex[0] || !f->build_id[0])
		return !need_id;
	return strcmp(hex, f->build_id) == 0;
}

static bool has_table(const struct elf_mem *mem)
{
	GElf_Shdr sh;

	return elf_mem_section(mem, SHT_SYMTAB, NULL, &sh) && elf_mem_bytes(mem, &sh);
}

/* The requirement on a debug file, and the result of the search. */
struct file_search {
	bool (*has)(const struct elf_mem *mem);
	int (*map)(int fd, const char *shown, struct elf_mem *ret_mem, struct err *err);
	struct elf_mem *to;
	char *path; /* of the file found; the caller frees it */
};

/* Opens @path as the debug file. With @crc, the checksum of the file must match. */
static bool try_file(struct elf_file *f, struct file_search *s, bool own_root, const char *path,
	const uint32_t *crc)
{
	_cleanup_close_ int fd = open_at(f, own_root, path);
	struct elf_mem mem;

	if (fd < 0 || s->map(fd, path, &mem, NULL))
		return false;
	if (!belongs(f, &mem, !crc) || !s->has(&mem) ||
		(crc && lzma_crc32(mem.bytes, mem.size, 0) != *crc)) {
		elf_mem_done(&mem);
		return false;
	}
	*s->to = mem;
	s->path = xstrdup(path);
	return true;
}

static bool by_build_id(struct elf_file *f, struct file_search *s, bool own_root)
{
	char path[sizeof(DEBUG_DIR) + 2 * ELF_MAX_BUILD_ID + 32];

	if (strlen(f->build_id) < 4)
		return false;
	snprintf(path, sizeof(path), DEBUG_DIR "/.build-id/%.2s/%s.debug", f->build_id,
		f->build_id + 2);
	return try_file(f, s, own_root, path, NULL);
}

/*
 * Searches the cache of debuginfod-find(1) for this user, where files are named only by build id
 * (debuginfod_find_debuginfo(3)).
 */
static bool by_debuginfod(struct elf_file *f, struct file_search *s)
{
	static const struct {
		const char *variable, *below;
	} caches[] = { { "DEBUGINFOD_CACHE_PATH", "" },
		{ "XDG_CACHE_HOME", "/debuginfod_client" },
		{ "HOME", "/.cache/debuginfod_client" } };
	char path[PATH_MAX];

	if (!f->build_id[0])
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(caches); i++) {
		const char *dir = secure_getenv(caches[i].variable);

		if (!dir || dir[0] != '/' ||
			snprintf(path, sizeof(path), "%s%s/%s/debuginfo", dir,
				caches[i].below, f->build_id) >= (int)sizeof(path))
			continue;
		if (try_file(f, s, false, path, NULL))
			return true;
	}
	return false;
}

/* Returns the file name in .gnu_debuglink, without a directory, and its checksum; NULL: none. */
static const char *debuglink(const struct elf_file *f, uint32_t *ret_crc)
{
	const char *name = dwelf_elf_gnu_debuglink(f->mem.elf, ret_crc);

	return name && name[0] && !strchr(name, '/') && strlen(name) <= NAME_MAX ? name
										 : NULL;
}

static bool by_debuglink(struct elf_file *f, struct file_search *s, bool own_root)
{
	static const char *const places[] = { "%s/%s", "%s/.debug/%s",
		DEBUG_DIR "%s/%s" };
	char path[PATH_MAX];
	const char *name;
	uint32_t crc;

	name = f->dir ? debuglink(f, &crc) : NULL;
	if (!name)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		int n = snprintf(path, sizeof(path), places[i], f->dir, name);
#pragma GCC diagnostic pop

		if (n > 0 && (size_t)n < sizeof(path) &&
			try_file(f, s, own_root, path, &crc))
			return true;
	}
	return false;
}

/* Decompresses xz data into at most ELF_MAX_DEBUGDATA bytes; NULL on failure. */
static uint8_t *unpack(const uint8_t *in, size_t in_size, size_t *ret_size)
{
	lzma_stream xz = LZMA_STREAM_INIT;
	_cleanup_free_ uint8_t *out = NULL;
	size_t cap = 0;
	lzma_ret ret;

	if (lzma_stream_decoder(&xz, ELF_MAX_DEBUGDATA, 0) != LZMA_OK)
		return NULL;
	xz.next_in = in;
	xz.avail_in = in_size;
	do {
		if (!xz.avail_out) {
			size_t room = cap ? cap : 1u << 20;
			uint8_t *grown = NULL;

			if (cap + room <= ELF_MAX_DEBUGDATA)
				grown = realloc(out, cap + room);
			if (!grown)
				break;
			out = grown;
			xz.next_out = out + cap;
			xz.avail_out = room;
			cap += room;
		}
		ret = lzma_code(&xz, LZMA_FINISH);
	} while (ret == LZMA_OK);
	*ret_size = xz.total_out;
	lzma_end(&xz);
	return cap && ret == LZMA_STREAM_END ? TAKE_PTR(out) : NULL;
}

static bool by_debugdata(struct elf_file *f)
{
	const uint8_t *in;
	uint8_t *out;
	GElf_Shdr sh;
	size_t size;

	if (!elf_mem_section(&f->mem, 0, ".gnu_debugdata", &sh))
		return false;
	in = elf_mem_bytes(&f->mem, &sh);
	out = in ? unpack(in, sh.sh_size, &size) : NULL;
	if (!out)
		return false;
	return elf_mem_take(out, size, f->path, &f->debugdata, NULL) == 0 &&
		has_table(&f->debugdata);
}

static bool find_debug_file(struct elf_file *f, struct file_search *s)
{
	if (f->root_fd >= 0 && (by_build_id(f, s, true) || by_debuglink(f, s, true)))
		return true;
	return by_build_id(f, s, false) || (f->root_fd < 0 && by_debuglink(f, s, false)) ||
		by_debuginfod(f, s);
}

bool elf_debug_open(
	struct elf_file *f, enum elf_table *ret_table, const struct elf_mem **ret_mem)
{
	struct file_search s = { .has = has_table, .map = elf_mem_map, .to = &f->debug };
	bool found = find_debug_file(f, &s);

	free(s.path);
	*ret_table = found ? ELF_TABLE_DEBUG : ELF_TABLE_DEBUGDATA;
	*ret_mem = found ? &f->debug : &f->debugdata;
	return found || by_debugdata(f);
}

/*
 * Finds the separate debug file that satisfies @has. Returns its path, which the caller frees, or
 * NULL. The caller frees *@ret_mem with elf_mem_done().
 */
static char *elf_debug_find(
	struct elf_file *f, bool (*has)(const struct elf_mem *mem), struct elf_mem *ret_mem)
{
	struct file_search s = { .has = has, .map = elf_mem_map_debug, .to = ret_mem };

	find_debug_file(f, &s);
	return s.path;
}

#define DWZ_DIR       "/usr/lib/debug/.dwz"
#define BUILD_ID_DIR  "/usr/lib/debug/.build-id"
#define INFLATED_MAX  (2048ull << 20) /* all compressed sections together, bytes */
#define INFLATED_TIMES 1032            /* maximum compression ratio of zlib (its FAQ) */

struct elf_dwarf {
	struct elf_mem mem; /* of the file or of its debug file */
	Dwarf *dwarf, *alt;
	int alt_fd;
	char *where; /* "DWARF of PATH", or NULL */
	const char *why;
};

/* --- choice of the file ---------------------------------------------------------------------- */

/* Returns the uncompressed size of the section; 0 if the header is implausible. */
static uint64_t inflated_size(const struct elf_mem *mem, Elf_Scn *scn, const GElf_Shdr *sh)
{
	GElf_Chdr ch;

	if (!(sh->sh_flags & SHF_COMPRESSED))
		return sh->sh_size;
	if (!gelf_getchdr(scn, &ch) || ch.ch_size / INFLATED_TIMES > sh->sh_size)
		return 0;
	return ch.ch_size;
}

/* True if there is debug information, and all of it would fit into memory. */
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

/*
 * Opens the file into which dwz moved the parts shared by several files. libdw would open any path,
 * so this is done here.
 */
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

static const char *text_of(Dwarf_Die *die, unsigned int name)
{
	Dwarf_Attribute attr;

	return dwarf_formstring(dwarf_attr_integrate(die, name, &attr));
}

const char *elf_dwarf_linkage_name(Dwarf_Die *die)
{
	const char *name = text_of(die, DW_AT_linkage_name);

	return name ? name : text_of(die, DW_AT_MIPS_linkage_name);
}

const char *elf_dwarf_name(Dwarf_Die *die)
{
	return text_of(die, DW_AT_name);
}

/* Returns the name of its symbol. */
static const char *symbol_name(Dwarf_Die *die)
{
	const char *name = elf_dwarf_linkage_name(die);

	return name ? name : elf_dwarf_name(die);
}

bool elf_dwarf_entry(Dwarf_Die *die, Dwarf_Addr *ret_addr)
{
	Dwarf_Addr base, end;

	return !dwarf_entrypc(die, ret_addr) || dwarf_ranges(die, 0, &base, ret_addr, &end) > 0;
}

/*
 * An address can have several entries, if the linker folded functions: prefer that of the symbol.
 */
static void visit(struct search *s, Dwarf_Die *die)
{
	struct elf_dwarf_func *func;
	const char *name = NULL;
	Dwarf_Addr addr;
	size_t at;
	bool named;

	if (!elf_dwarf_entry(die, &addr))
		return;
	at = FIRST_WHERE(s->cnt, i, s->funcs[i].addr >= addr);
	for (; at < s->cnt && s->funcs[at].addr == addr; at++) {
		func = &s->funcs[at];
		if (!name)
			name = symbol_name(die);
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

/* True if the unit contains code of one of the functions. */
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
 * Opens the half of a unit that is in a .dwo file. libdw opens any path in the file, so a path on
 * which open() would block is refused. Below another root, the path would refer to a different
 * file.
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

/* --- Source lines by address, and inlined functions ------------------------------------------ */

#define SCOPES_MAX 65536 /* of one function */
#define RANGES_MAX 4096  /* of one entry; those of a unit have no limit */

/* An inlined function, in one of the ranges of its code. */
struct scope {
	uint64_t start, end;
	unsigned int depth; /* number of inlined functions around it */
	Dwarf_Die die;
	char *name; /* from .die, read once */
	bool named;
};

/* A range of a function that is not inlined. */
struct func {
	uint64_t start, end;
	Dwarf_Die die;
	struct scope *scopes; /* an outer one precedes those that it contains */
	size_t scope_cnt;
	bool read;
};

struct unit {
	Dwarf_CU *cu;
	Dwarf_Die own, die; /* lines come from .own, entries from .die */
	bool shallow, deep; /* the entries that were read */
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
	uint64_t passed; /* bytes of entries read */
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
 * Calls @add for each code range of @die, at most @most times. Many entries can share one range
 * list, so the memory stored per range counts towards the limit as if it had been read.
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

	*array_add(u->ranges, u->range_cnt) = (struct range) { start, end, u->unit_cnt };
}

DEFINE_ORDER(compare_ranges, struct range, RISING(start))

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

	*array_add(a->unit->funcs, a->unit->func_cnt) = (struct func) { .start = start, .end = end, .die = a->die };
}

/* Reads functions nested in others, such as methods of local types, only if @deep. */
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

DEFINE_ORDER(compare_funcs, struct func, RISING(start))

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

/* Most functions are not nested: read the nested ones only if @addr is in none of the others. */
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

/* --- inlined functions ----------------------------------------------------------------------- */

struct nesting {
	struct func *func;
	Dwarf_Die die;
	unsigned int depth;
};

/* Adds only ranges that overlap the function's range. */
static void add_scope(void *arg, uint64_t start, uint64_t end)
{
	const struct nesting *n = arg;
	struct func *func = n->func;

	if (start >= func->end || end <= func->start || func->scope_cnt == SCOPES_MAX)
		return;
	*array_add(func->scopes, func->scope_cnt) = (struct scope) {
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

/* Returns the scopes that contain @addr, outermost first. */
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
	const char *name;

	if (s->named)
		return s->name;
	name = symbol_name(&s->die);
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

/* Paths are printed: reject control characters and invalid UTF-8. */
static const char *clean(const char *path)
{
	return path && elf_name_is_clean(path, strlen(path)) ? path : NULL;
}

/* Sets the call site of the inlined function @scope. */
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

/* Relative paths are relative to the compiler's working directory. */
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

/* --- addresses by line ---------------------------------------------------------------------- */

/* A row of the line table that is of the line. */
struct row {
	uint64_t addr;
	const void *scope; /* entry of the function or inlined copy around it; NULL: none */
	const void *copied; /* entry of the function of which that is a copy, or NULL */
	unsigned int line;
	size_t nth;
	bool begins;       /* a statement */
	bool follows;      /* a row of the same line */
};

struct line_search {
	struct elf_file *f;
	const char *source;
	struct row *rows; /* of lines from the one asked for on */
	size_t cnt;
	bool has_source;
};

static bool is_source(struct unit *unit, const char *path, const char *wanted)
{
	struct elf_line at = { .source = path };
	size_t tail = strlen(wanted);
	char full[PATH_MAX];
	int len;

	set_folder(unit, &at);
	len = snprintf(full, sizeof(full), "%s%s%s", at.folder ? at.folder : "",
		at.folder ? "/" : "", path);
	if (len >= (int)sizeof(full) || (size_t)len < tail || strcmp(full + len - tail, wanted) != 0)
		return false;
	return (size_t)len == tail || (wanted[0] != '/' && full[len - tail - 1] == '/');
}

/* Returns false if the row has no code in the file. */
static bool add_row(struct line_search *s, Dwarf_Line *row, unsigned int line, bool follows)
{
	struct row new = { .line = line, .nth = s->cnt, .follows = follows };
	uint64_t offset;

	if (dwarf_lineaddr(row, &new.addr) || dwarf_linebeginstatement(row, &new.begins) ||
		elf_file_addr_to_offset(s->f, new.addr, &offset))
		return false;
	*array_add(s->rows, s->cnt) = new;
	return true;
}

static void add_rows(struct line_search *s, struct unit *unit, int least)
{
	const char *last = NULL, *path;
	int last_line = 0, line;
	bool is = false, added = false, ends;
	Dwarf_Lines *lines;
	size_t cnt;

	if (dwarf_getsrclines(&unit->own, &lines, &cnt))
		return;
	s->f->units->passed += cnt * sizeof(struct row);
	for (size_t i = 0; i < cnt; i++) {
		Dwarf_Line *row = dwarf_onesrcline(lines, i);

		path = dwarf_linesrc(row, NULL, NULL);
		if (dwarf_lineno(row, &line) || dwarf_lineendsequence(row, &ends) || ends)
			line = 0;
		if (path != last)
			is = path && is_source(unit, path, s->source);
		s->has_source |= is;
		added = is && line >= least &&
			add_row(s, row, line, added && path == last && line == last_line);
		last = path;
		last_line = line;
	}
}

static void set_scope(struct elf_file *f, struct row *row)
{
	struct unit *unit = unit_at(f->units, row->addr);
	struct func *func = unit ? func_at(f, unit, row->addr) : NULL;
	struct scope *scopes[ELF_LINES_MAX];
	Dwarf_Attribute attr;
	Dwarf_Die origin;
	size_t cnt;

	if (!func)
		return;
	row->scope = func->die.addr;
	cnt = scopes_at(f->units, func, row->addr, scopes);
	if (!cnt)
		return;
	row->scope = scopes[cnt - 1]->die.addr;
	if (dwarf_formref_die(
		    dwarf_attr(&scopes[cnt - 1]->die, DW_AT_abstract_origin, &attr), &origin))
		row->copied = origin.addr;
}

DEFINE_ORDER(compare_addrs, uint64_t, (*x > *y) - (*x < *y))

/* Takes the first address that begins something, of each sequence of rows in one scope. */
static void take_addrs(
	struct elf_file *f, struct row *rows, size_t row_cnt, struct elf_line_code *ret)
{
	bool taken = false;
	size_t cnt = 0;

	ret->addrs = xcalloc(row_cnt + 1, sizeof(*ret->addrs));
	for (size_t i = 0; i < row_cnt; i++) {
		struct row *row = &rows[i];
		bool same = i && row->follows, next_copy;

		set_scope(f, row);
		/* clang marks no statement where one copy of a function follows another */
		next_copy = same && row->scope != row[-1].scope && row->copied &&
			row->copied == row[-1].copied;
		if (!same || row->scope != row[-1].scope)
			taken = false;
		if (taken || !row->scope || (!row->begins && !next_copy))
			continue;
		taken = true;
		ret->addrs[cnt++] = row->addr;
	}
	qsort(ret->addrs, cnt, sizeof(*ret->addrs), compare_addrs);
	for (size_t i = 0; i < cnt; i++)
		if (!i || ret->addrs[i] != ret->addrs[ret->cnt - 1])
			ret->addrs[ret->cnt++] = ret->addrs[i];
}

DEFINE_ORDER(compare_rows, struct row,
	x->line != y->line ? (x->line > y->line) - (x->line < y->line)
			   : (x->nth > y->nth) - (x->nth < y->nth))

/* Finds the rows of lines from @least on, by line. */
static struct line_search rows_find(struct elf_file *f, const char *source, unsigned int least)
{
	struct line_search s = { .f = f, .source = source };
	struct elf_units *u = f->units ? f->units : read_units(f);

	for (size_t i = 0; i < u->unit_cnt && u->passed < ELF_DWARF_MOST; i++)
		add_rows(&s, &u->units[i], (int)least);
	qsort(s.rows, s.cnt, sizeof(*s.rows), compare_rows);
	return s;
}

/*
 * Takes the next line, of the rows from *@at on, in which a statement begins. Rows before its first
 * statement belong to none. Returns false if there is no such line.
 */
static bool next_line(const struct line_search *s, size_t *at, struct elf_line_code *ret)
{
	size_t first = *at, end;

	while (first < s->cnt && !s->rows[first].begins)
		first++;
	for (end = first; end < s->cnt && s->rows[end].line == s->rows[first].line;)
		end++;
	*at = end;
	if (first == end)
		return false;
	*ret = (struct elf_line_code) { .line = s->rows[first].line };
	take_addrs(s->f, s->rows + first, end - first, ret);
	return true;
}

size_t elf_lines_find(struct elf_file *f, const char *source, struct elf_line_code **ret_lines)
{
	struct line_search s = rows_find(f, source, 1);
	struct elf_line_code code;
	size_t cnt = 0, at = 0;

	*ret_lines = NULL;
	while (next_line(&s, &at, &code)) {
		if (!code.cnt) {
			free(code.addrs);
			continue;
		}
		*array_add(*ret_lines, cnt) = code;
	}
	free(s.rows);
	return cnt;
}

void elf_line_find(struct elf_file *f, const char *source, unsigned int line,
	struct elf_line_code *ret)
{
	struct line_search s = rows_find(f, source, line);
	Dwarf *dwarf;
	size_t at = 0;

	if (!next_line(&s, &at, ret))
		*ret = (struct elf_line_code) { .line = s.has_source ? line : 0 };
	free(s.rows);
	elf_dwarf_open(f, &dwarf, &ret->why);
	if (dwarf)
		ret->why = s.has_source ? "no code at that line or after it"
					: "its debug information has no such source file";
}
