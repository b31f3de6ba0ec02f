// SPDX-License-Identifier: BSD-2-Clause
// Reading one symbol table: versions, functions, imports.
#include <errno.h>

#include "internal.h"

/* One table with all that belongs to it. */
struct table {
	struct elf_file *f;
	const struct elf_mem *mem;
	enum elf_table which;
	struct elf_syms_at at;
	bool *code_section;
	size_t section_cnt;   /* 0: the file has none */
	uint64_t name_budget; /* bytes of names that may still be looked at */
};

static int damaged(const struct elf_file *f, struct err *err, const char *what)
{
	return err_set(err, -EBADMSG, "'%s' is damaged: %s", f->path, what);
}

/* Whether sections hold code, by index: a label is one of code or of data by that. */
static int sections_read(struct table *t, struct err *err)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;

	if (elf_getshdrnum(t->mem->elf, &t->section_cnt) < 0)
		return damaged(t->f, err, elf_errmsg(-1));
	t->code_section = xcalloc(t->section_cnt + 1, sizeof(*t->code_section));
	while ((scn = elf_nextscn(t->mem->elf, scn))) {
		if (gelf_getshdr(scn, &sh) && (sh.sh_flags & SHF_EXECINSTR) &&
			elf_ndxscn(scn) < t->section_cnt)
			t->code_section[elf_ndxscn(scn)] = true;
	}
	return 0;
}

/* What lies in the first section of @type; NULL when there is none, or not all of it. */
static const uint8_t *section_bytes(
	const struct elf_mem *mem, uint32_t type, size_t *ret_size, uint64_t *ret_info)
{
	GElf_Shdr sh;

	if (!elf_mem_section(mem, type, NULL, &sh))
		return NULL;
	*ret_size = sh.sh_size;
	*ret_info = sh.sh_info;
	return elf_mem_bytes(mem, &sh);
}

/* A table as its section header has it; t->at.syms is NULL when there is no such section. */
static int table_by_section(struct table *t, struct err *err)
{
	bool dynamic = t->which == ELF_TABLE_DYNSYM;
	GElf_Shdr sh, str_sh;
	uint64_t unused;
	Elf_Scn *str;

	if (!elf_mem_section(t->mem, dynamic ? SHT_DYNSYM : SHT_SYMTAB, NULL, &sh) ||
		!sh.sh_size)
		return 0;
	if (sh.sh_entsize != sizeof(Elf64_Sym))
		return damaged(t->f, err, "symbols of an unknown size");
	str = elf_getscn(t->mem->elf, sh.sh_link);
	if (!str || !gelf_getshdr(str, &str_sh) || str_sh.sh_type != SHT_STRTAB)
		return damaged(t->f, err, "a symbol table without names");
	t->at.strings = (const char *)elf_mem_bytes(t->mem, &str_sh);
	t->at.strings_size = str_sh.sh_size;
	t->at.syms = elf_mem_bytes(t->mem, &sh);
	if (!t->at.strings || !t->at.syms)
		return damaged(t->f, err, "a symbol table that is not all there");
	t->at.cnt = sh.sh_size / sizeof(Elf64_Sym);
	if (!dynamic)
		return 0;
	t->at.versym = section_bytes(t->mem, SHT_GNU_versym, &t->at.versym_size, &unused);
	t->at.verdef = section_bytes(
		t->mem, SHT_GNU_verdef, &t->at.verdef_size, &t->at.verdef_cnt);
	return 0;
}

/* *ret_found is false, with no error, when there is no such table. */
static int table_open(struct table *t, bool *ret_found, struct err *err)
{
	int ret = table_by_section(t, err);

	if (!ret && !t->at.syms && t->which == ELF_TABLE_DYNSYM)
		elf_dynamic_syms(t->f, &t->at);
	*ret_found = t->at.syms;
	if (ret || !t->at.syms)
		return ret;
	if (t->at.cnt > ELF_MAX_SYMBOLS)
		return damaged(t->f, err, "too many symbols");
	/* names may share their ends; far more than that is an attack on our time */
	t->name_budget = 16ull * t->at.strings_size + (1u << 20);
	return sections_read(t, err);
}

/* The name of version @ndx, unless it has one. */
static void version_add(struct elf_file *f, size_t ndx, const char *name)
{
	if (ndx >= f->version_cnt) {
		f->versions = xreallocarray(f->versions, ndx + 64, sizeof(*f->versions));
		memset(f->versions + f->version_cnt, 0,
			(ndx + 64 - f->version_cnt) * sizeof(*f->versions));
		f->version_cnt = ndx + 64;
	}
	if (!f->versions[ndx])
		f->versions[ndx] = xstrdup(name);
}

/* The first name of the definition at @at; NULL when there is none that can be shown. */
static const char *version_name(
	const struct elf_syms_at *t, size_t at, const Elf64_Verdef *def)
{
	const char *name;
	Elf64_Verdaux aux;

	if (!def->vd_cnt || (def->vd_flags & VER_FLG_BASE) ||
		t->verdef_size - at < sizeof(aux) ||
		def->vd_aux > t->verdef_size - at - sizeof(aux))
		return NULL;
	memcpy(&aux, t->verdef + at + def->vd_aux, sizeof(aux));
	if (aux.vda_name >= t->strings_size)
		return NULL;
	name = t->strings + aux.vda_name;
	if (!memchr(name, '\0', t->strings_size - aux.vda_name) ||
		!elf_name_is_clean(name, strlen(name)))
		return NULL;
	return name;
}

/* Names of version indices, from the definitions. They only lead forwards, so this ends. */
static void versions_read(struct table *t)
{
	const struct elf_syms_at *v = &t->at;
	Elf64_Verdef def;
	size_t at = 0;

	for (uint64_t n = 0; v->verdef && n < v->verdef_cnt; n++) {
		const char *name;

		if (v->verdef_size - at < sizeof(def))
			break;
		memcpy(&def, v->verdef + at, sizeof(def));
		name = version_name(v, at, &def);
		if (name)
			version_add(t->f, def.vd_ndx & 0x7fff, name);
		if (!def.vd_next || def.vd_next > v->verdef_size - at)
			break;
		at += def.vd_next;
	}
}

/*
 * gcc's and clang's names for parts and changed copies of a function: how long the function's
 * own name is before what they add; 0 for all other names.
 */
static size_t piece_base_len(const char *name, size_t len)
{
	static const char *const pieces[] = { "cold", "part", "isra", "constprop" };
	const char *end = name + len, *p = memchr(name, '.', len);

	for (; p; p = memchr(p, '.', end - p)) {
		p++;
		for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
			size_t n = strlen(pieces[i]);

			if ((size_t)(end - p) >= n && memcmp(p, pieces[i], n) == 0 &&
				(p + n == end || p[n] == '.'))
				return p - 1 - name;
		}
	}
	return 0;
}

/* The name at @at; *ret_len is 0 for an unusable one. -EBADMSG when all are too long. */
static int name_at(struct table *t, uint32_t at, const char **ret_name, uint32_t *ret_len,
	struct err *err)
{
	const char *name, *end;
	size_t max;

	*ret_len = 0;
	*ret_name = "";
	if (!at)
		return 0;
	if (at >= t->at.strings_size)
		return damaged(t->f, err, "a symbol's name lies outside the names");
	name = t->at.strings + at;
	max = t->at.strings_size - at;
	if (max > ELF_MAX_NAME)
		max = ELF_MAX_NAME;
	end = memchr(name, '\0', max);
	if (t->name_budget < (end ? (size_t)(end - name) : max))
		return damaged(t->f, err, "symbols' names are without end");
	t->name_budget -= end ? (size_t)(end - name) : max;
	if (!end) {
		if (max == t->at.strings_size - at)
			return damaged(t->f, err, "the last name has no end");
		return 0;
	}
	if (!elf_name_is_clean(name, end - name))
		return 0;
	*ret_name = name;
	*ret_len = end - name;
	return 0;
}

/* The first @len bytes of @name, which the file keeps. */
static char *name_copy(struct elf_file *f, const char *name, size_t len)
{
	f->copies = array_grow(f->copies, f->copy_cnt, sizeof(*f->copies));
	return f->copies[f->copy_cnt++] = xstrndup(name, len);
}

static void name_piece(struct elf_file *f, struct elf_name *n)
{
	size_t len = piece_base_len(n->name, n->len);

	n->piece = len;
	if (!len || strstr(n->name + len, ".cold"))
		return;
	n->base = name_copy(f, n->name, len);
	f->has_clones = true;
}

/* Cuts "@VERSION" or "@@VERSION" off a name of .symtab. */
static void name_split(struct elf_file *f, struct elf_name *n)
{
	const char *at = memchr(n->name, '@', n->len), *copy;

	if (!at || at == n->name)
		return;
	copy = name_copy(f, n->name, at - n->name);
	n->is_default = at[1] == '@';
	n->version = at + 1 + n->is_default;
	if (!*n->version)
		n->version = NULL;
	n->len = at - n->name;
	n->name = copy;
}

static void name_version(const struct table *t, size_t i, struct elf_name *n)
{
	uint16_t ver;

	n->is_default = true;
	if (t->which != ELF_TABLE_DYNSYM) {
		name_split(t->f, n);
		return;
	}
	if (!t->at.versym || i >= t->at.versym_size / sizeof(ver))
		return;
	memcpy(&ver, t->at.versym + i * sizeof(ver), sizeof(ver));
	if ((ver & 0x7fff) < t->f->version_cnt)
		n->version = t->f->versions[ver & 0x7fff];
	n->is_default = !(ver & 0x8000) || !n->version;
}

static void add_import(struct elf_raw *raw, const char *name, uint32_t len)
{
	raw->imports = array_grow(raw->imports, raw->import_cnt, sizeof(*raw->imports));
	raw->imports[raw->import_cnt++] =
		(struct elf_import) { .name = name, .len = len };
}

static void add_nameless(struct elf_raw *raw, uint64_t addr)
{
	raw->nameless = array_grow(raw->nameless, raw->nameless_cnt, sizeof(*raw->nameless));
	raw->nameless[raw->nameless_cnt++] = addr;
}

static void add_sym(struct elf_raw *raw, const struct elf_raw_sym *sym)
{
	raw->syms = array_grow(raw->syms, raw->cnt, sizeof(*raw->syms));
	raw->syms[raw->cnt++] = *sym;
}

/* By its section, or where there are none by its address. */
static bool label_is_code(const struct table *t, const Elf64_Sym *sym)
{
	uint64_t offset;

	if (t->section_cnt)
		return sym->st_shndx < t->section_cnt && t->code_section[sym->st_shndx];
	return sym->st_shndx < SHN_LORESERVE &&
		elf_file_addr_to_offset(t->f, sym->st_value, &offset) == 0;
}

/* Whether a defined symbol names code, and which kind; false for data. */
static bool sym_kind(const struct table *t, const Elf64_Sym *sym, uint8_t *ret_kind)
{
	switch (ELF64_ST_TYPE(sym->st_info)) {
	case STT_FUNC:
		*ret_kind = ELF_FUNC;
		return true;
	case STT_GNU_IFUNC:
		*ret_kind = ELF_IFUNC;
		return true;
	case STT_NOTYPE:
		*ret_kind = ELF_LABEL;
		return label_is_code(t, sym);
	default:
		return false;
	}
}

static int read_sym(struct table *t, struct elf_raw *raw, size_t i, struct err *err)
{
	struct elf_raw_sym s = { .name.table = t->which };
	uint32_t len;
	Elf64_Sym sym;
	int ret;

	memcpy(&sym, t->at.syms + i * sizeof(sym), sizeof(sym));
	if (sym.st_shndx == SHN_UNDEF) {
		if (t->which != ELF_TABLE_DYNSYM)
			return 0;
		ret = name_at(t, sym.st_name, &s.name.name, &len, err);
		if (ret || !len)
			return ret;
		add_import(raw, s.name.name, len);
		return 0;
	}
	if (!sym_kind(t, &sym, &s.kind))
		return 0;
	ret = name_at(t, sym.st_name, &s.name.name, &s.name.len, err);
	if (ret)
		return ret;
	/* arm64 marks code and data by $x and $d, which begin nothing (ELF for AArch64) */
	if (s.kind == ELF_LABEL && s.name.name[0] == '$')
		return 0;
	if (!s.name.len) {
		add_nameless(raw, sym.st_value);
		return 0;
	}
	s.addr = sym.st_value;
	s.size = sym.st_size;
	s.name.is_local = ELF64_ST_BIND(sym.st_info) == STB_LOCAL;
	s.name.is_weak = ELF64_ST_BIND(sym.st_info) == STB_WEAK;
	name_version(t, i, &s.name);
	name_piece(t->f, &s.name);
	add_sym(raw, &s);
	return 0;
}

static void table_done(struct table *t)
{
	free(t->code_section);
}

int elf_table_read(struct elf_file *f, const struct elf_mem *mem, enum elf_table table,
	struct elf_raw *raw, struct err *err)
{
	__cleanup(table_done) struct table t = { .f = f, .mem = mem, .which = table };
	bool found;
	int ret;

	ret = table_open(&t, &found, err);
	if (ret || !found)
		return ret;
	if (table == ELF_TABLE_DYNSYM)
		versions_read(&t);
	for (size_t i = 1; i < t.at.cnt; i++) {
		ret = read_sym(&t, raw, i, err);
		if (ret)
			return ret;
	}
	if (table == ELF_TABLE_DYNSYM)
		f->has_dynsym = true;
	else
		f->has_symtab = true;
	return 0;
}

void elf_raw_done(struct elf_raw *raw)
{
	free(raw->syms);
	free(raw->nameless);
	free(raw->imports);
}
