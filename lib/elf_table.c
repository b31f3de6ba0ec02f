// SPDX-License-Identifier: BSD-2-Clause
// Reading one symbol table: versions, functions, imports.
#include <errno.h>

#include "elf_priv.h"

/* One table with all that belongs to it. */
struct table {
	struct elf_file *f;
	const struct elf_mem *mem;
	enum elf_table which;
	Elf_Data *syms;
	size_t cnt;
	const char *strings;
	size_t strings_size;
	Elf_Data *versym; /* or NULL */
	bool *code_section;
	size_t section_cnt;
	uint64_t name_budget; /* bytes of names that may still be looked at */
};

static int damaged(const struct elf_file *f, struct err *err, const char *what)
{
	return err_set(err, -EBADMSG, "'%s' is damaged: %s", f->path, what);
}

static int no_memory(const struct elf_file *f, struct err *err)
{
	return err_sys(err, -ENOMEM, "cannot read symbols of '%s'", f->path);
}

/* Whether sections hold code, by index: a label is one of code or of data by that. */
static int sections_read(struct table *t, struct err *err)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr sh;

	if (elf_getshdrnum(t->mem->elf, &t->section_cnt) < 0)
		return damaged(t->f, err, elf_errmsg(-1));
	t->code_section = calloc(t->section_cnt + 1, sizeof(*t->code_section));
	if (!t->code_section)
		return no_memory(t->f, err);
	while ((scn = elf_nextscn(t->mem->elf, scn))) {
		if (gelf_getshdr(scn, &sh) && (sh.sh_flags & SHF_EXECINSTR) &&
			elf_ndxscn(scn) < t->section_cnt)
			t->code_section[elf_ndxscn(scn)] = true;
	}
	return 0;
}

/* A section's data as libelf gives it (aligned), when all of it lies in the file. */
static Elf_Data *section_data(
	const struct elf_mem *mem, Elf_Scn *scn, const GElf_Shdr *sh)
{
	return elf_mem_bytes(mem, sh) ? elf_getdata(scn, NULL) : NULL;
}

/* *ret_found is false, with no error, when there is no such table. */
static int table_open(struct table *t, bool *ret_found, struct err *err)
{
	bool dynamic = t->which == ELF_TABLE_DYNSYM;
	GElf_Shdr sh, str_sh;
	Elf_Scn *scn, *str;

	*ret_found = false;
	scn = elf_mem_section(t->mem, dynamic ? SHT_DYNSYM : SHT_SYMTAB, NULL, &sh);
	if (!scn || !sh.sh_size || sh.sh_type == SHT_NOBITS)
		return 0;
	if (sh.sh_size / sizeof(Elf64_Sym) > ELF_MAX_SYMBOLS)
		return damaged(t->f, err, "too many symbols");
	if (sh.sh_entsize != sizeof(Elf64_Sym))
		return damaged(t->f, err, "symbols of an unknown size");
	str = elf_getscn(t->mem->elf, sh.sh_link);
	if (!str || !gelf_getshdr(str, &str_sh) || str_sh.sh_type != SHT_STRTAB)
		return damaged(t->f, err, "a symbol table without names");
	t->strings = (const char *)elf_mem_bytes(t->mem, &str_sh);
	t->strings_size = str_sh.sh_size;
	t->syms = section_data(t->mem, scn, &sh);
	if (!t->strings || !t->syms)
		return damaged(t->f, err, "a symbol table that is not all there");
	t->cnt = t->syms->d_size / sizeof(Elf64_Sym);
	/* names may share their ends; far more than that is an attack on our time */
	t->name_budget = 16ull * t->strings_size + (1u << 20);
	scn = dynamic ? elf_mem_section(t->mem, SHT_GNU_versym, NULL, &sh) : NULL;
	if (scn)
		t->versym = section_data(t->mem, scn, &sh);
	*ret_found = true;
	return sections_read(t, err);
}

/* Names of version indices, from the definitions (.gnu.version_d). */
static int versions_read(struct elf_file *f, const struct elf_mem *mem, struct err *err)
{
	GElf_Verdaux aux;
	GElf_Verdef def;
	GElf_Shdr sh;
	Elf_Scn *scn = elf_mem_section(mem, SHT_GNU_verdef, NULL, &sh);
	Elf_Data *data = scn ? section_data(mem, scn, &sh) : NULL;
	size_t at = 0, cap = 0;

	if (!data || data->d_size > INT32_MAX)
		return 0;
	for (size_t n = 0; n < sh.sh_info && gelf_getverdef(data, at, &def); n++) {
		size_t ndx = def.vd_ndx & 0x7fff;
		const char *name = NULL;

		if (def.vd_cnt && !(def.vd_flags & VER_FLG_BASE) &&
			def.vd_aux <= data->d_size - at &&
			gelf_getverdaux(data, at + def.vd_aux, &aux))
			name = elf_strptr(mem->elf, sh.sh_link, aux.vda_name);
		if (name && ndx >= cap) {
			char **grown = realloc(f->versions, (ndx + 64) * sizeof(*grown));

			if (!grown)
				return no_memory(f, err);
			memset(grown + cap, 0, (ndx + 64 - cap) * sizeof(*grown));
			f->versions = grown;
			f->version_cnt = cap = ndx + 64;
		}
		if (name && !f->versions[ndx] && elf_name_is_clean(name, strlen(name))) {
			f->versions[ndx] = strdup(name);
			if (!f->versions[ndx])
				return no_memory(f, err);
		}
		if (!def.vd_next || def.vd_next > data->d_size - at)
			break;
		at += def.vd_next;
	}
	return 0;
}

/* gcc's and clang's names for parts and changed copies of a function. */
static bool name_is_piece(const char *name, size_t len)
{
	static const char *const pieces[] = { "cold", "part", "isra", "constprop" };
	const char *end = name + len, *p = memchr(name, '.', len);

	for (; p; p = memchr(p, '.', end - p)) {
		p++;
		for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
			size_t n = strlen(pieces[i]);

			if ((size_t)(end - p) >= n && memcmp(p, pieces[i], n) == 0 &&
				(p + n == end || p[n] == '.'))
				return p - 1 > name;
		}
	}
	return false;
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
	if (at >= t->strings_size)
		return damaged(t->f, err, "a symbol's name lies outside the names");
	name = t->strings + at;
	max = t->strings_size - at;
	if (max > ELF_MAX_NAME)
		max = ELF_MAX_NAME;
	end = memchr(name, '\0', max);
	if (t->name_budget < (end ? (size_t)(end - name) : max))
		return damaged(t->f, err, "symbols' names are without end");
	t->name_budget -= end ? (size_t)(end - name) : max;
	if (!end) {
		if (max == t->strings_size - at)
			return damaged(t->f, err, "the last name has no end");
		return 0;
	}
	if (!elf_name_is_clean(name, end - name))
		return 0;
	*ret_name = name;
	*ret_len = end - name;
	return 0;
}

/* Cuts "@VERSION" or "@@VERSION" off a name of .symtab. */
static int name_split(struct elf_file *f, struct elf_name *n)
{
	const char *at = memchr(n->name, '@', n->len);
	char **grown, *copy;

	if (!at || at == n->name)
		return 0;
	grown = array_grow(f->copies, f->copy_cnt, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	f->copies = grown;
	copy = strndup(n->name, at - n->name);
	if (!copy)
		return -ENOMEM;
	f->copies[f->copy_cnt++] = copy;
	n->is_default = at[1] == '@';
	n->version = at + 1 + n->is_default;
	if (!*n->version)
		n->version = NULL;
	n->len = at - n->name;
	n->name = copy;
	return 0;
}

static int name_version(const struct table *t, size_t i, struct elf_name *n)
{
	GElf_Versym ver;

	n->is_default = true;
	if (t->which != ELF_TABLE_DYNSYM)
		return name_split(t->f, n);
	if (!t->versym || !gelf_getversym(t->versym, i, &ver))
		return 0;
	if ((ver & 0x7fff) < t->f->version_cnt)
		n->version = t->f->versions[ver & 0x7fff];
	n->is_default = !(ver & 0x8000) || !n->version;
	return 0;
}

static int add_import(struct elf_raw *raw, const char *name, uint32_t len)
{
	struct elf_import *grown;

	grown = array_grow(raw->imports, raw->import_cnt, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	raw->imports = grown;
	raw->imports[raw->import_cnt++] =
		(struct elf_import) { .name = name, .len = len };
	return 0;
}

static int add_nameless(struct elf_raw *raw, uint64_t addr)
{
	uint64_t *grown = array_grow(raw->nameless, raw->nameless_cnt, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	raw->nameless = grown;
	raw->nameless[raw->nameless_cnt++] = addr;
	return 0;
}

static int add_sym(struct elf_raw *raw, const struct elf_raw_sym *sym)
{
	struct elf_raw_sym *grown = array_grow(raw->syms, raw->cnt, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	raw->syms = grown;
	raw->syms[raw->cnt++] = *sym;
	return 0;
}

/* Whether a defined symbol names code, and which kind; false for data. */
static bool sym_kind(const struct table *t, const GElf_Sym *sym, uint8_t *ret_kind)
{
	switch (GELF_ST_TYPE(sym->st_info)) {
	case STT_FUNC:
		*ret_kind = ELF_FUNC;
		return true;
	case STT_GNU_IFUNC:
		*ret_kind = ELF_IFUNC;
		return true;
	case STT_NOTYPE:
		*ret_kind = ELF_LABEL;
		return sym->st_shndx < t->section_cnt && t->code_section[sym->st_shndx];
	default:
		return false;
	}
}

static int read_sym(struct table *t, struct elf_raw *raw, size_t i, struct err *err)
{
	struct elf_raw_sym s = { .name.table = t->which };
	uint32_t len;
	GElf_Sym sym;
	int ret;

	if (!gelf_getsym(t->syms, i, &sym))
		return damaged(t->f, err, elf_errmsg(-1));
	if (sym.st_shndx == SHN_UNDEF) {
		if (t->which != ELF_TABLE_DYNSYM)
			return 0;
		ret = name_at(t, sym.st_name, &s.name.name, &len, err);
		if (ret || !len)
			return ret;
		return add_import(raw, s.name.name, len) ? no_memory(t->f, err) : 0;
	}
	if (!sym_kind(t, &sym, &s.kind))
		return 0;
	ret = name_at(t, sym.st_name, &s.name.name, &s.name.len, err);
	if (ret)
		return ret;
	/* arm64 marks code and data by $x and $d, which begin nothing (ELF for AArch64) */
	if (s.kind == ELF_LABEL && s.name.name[0] == '$')
		return 0;
	if (!s.name.len)
		return add_nameless(raw, sym.st_value) ? no_memory(t->f, err) : 0;
	s.addr = sym.st_value;
	s.size = sym.st_size;
	s.name.is_local = GELF_ST_BIND(sym.st_info) == STB_LOCAL;
	s.name.is_weak = GELF_ST_BIND(sym.st_info) == STB_WEAK;
	if (name_version(t, i, &s.name))
		return no_memory(t->f, err);
	s.name.piece = name_is_piece(s.name.name, s.name.len);
	return add_sym(raw, &s) ? no_memory(t->f, err) : 0;
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
	if (table == ELF_TABLE_DYNSYM) {
		ret = versions_read(f, mem, err);
		if (ret)
			return ret;
	}
	for (size_t i = 1; i < t.cnt; i++) {
		ret = read_sym(&t, raw, i, err);
		if (ret)
			return ret;
	}
	if (table != ELF_TABLE_DYNSYM)
		f->has_symtab = true;
	return 0;
}

void elf_raw_done(struct elf_raw *raw)
{
	free(raw->syms);
	free(raw->nameless);
	free(raw->imports);
}
