// SPDX-License-Identifier: BSD-2-Clause
// Reads functions from symbol tables: sorts them, merges aliases, and hashes names.
#include <setjmp.h>

#include "base/util.h"
#include "elf/elf_file.h"
#include "internal.h"

/* --- demangling by libiberty, with limited output ------------------------------------------- */

#if __has_include(<libiberty/demangle.h>)
#include <libiberty/demangle.h>
#else
#include <demangle.h>
#endif

struct sink {
	char **buf;
	size_t *cap;
	size_t len;
	jmp_buf full;
};

/*
 * Gets pieces of the result. The demanglers cannot be stopped otherwise, but their callback
 * variants allocate nothing on the heap, so longjmp() is safe.
 */
static void sink_put(const char *piece, size_t size, void *opaque)
{
	struct sink *s = opaque;
	size_t need = s->len + size + 1;

	if (!size) /* @piece may be NULL */
		return;
	if (need > DEMANGLE_MAX_OUT)
		longjmp(s->full, 1);
	if (need > *s->cap) {
		size_t cap = need < 512 ? 512 : need * 2;

		*s->buf = xreallocarray(*s->buf, cap, 1);
		*s->cap = cap;
	}
	memcpy(*s->buf + s->len, piece, size);
	s->len += size;
	(*s->buf)[s->len] = '\0';
}

static bool run(struct sink *s, const char *symbol, int options)
{
	if (setjmp(s->full))
		return false;
	/* Rust's old scheme looks like C++, so it is tried first */
	if (rust_demangle_callback(symbol, options, sink_put, s))
		return true;
	s->len = 0;
	return symbol[0] == '_' && symbol[1] == 'Z' &&
		cplus_demangle_v3_callback(symbol, options, sink_put, s);
}

bool demangle_is_mangled(const char *name)
{
	return name[0] == '_' && (name[1] == 'Z' || name[1] == 'R');
}

size_t demangle_into(const char *symbol, enum demangle_form form, char **buf, size_t *cap)
{
	struct sink s = { .buf = buf, .cap = cap };
	int options = form == DEMANGLE_NAME ? 0 : DMGL_PARAMS | DMGL_ANSI;

	if (form == DEMANGLE_VERBOSE)
		options |= DMGL_VERBOSE;
	if (!demangle_is_mangled(symbol) ||
		strnlen(symbol, DEMANGLE_MAX_IN + 1) > DEMANGLE_MAX_IN)
		return 0;
	return run(&s, symbol, options) ? s.len : 0;
}

char *demangle(const char *symbol, enum demangle_form form)
{
	char *buf = NULL;
	size_t cap = 0;

	if (!demangle_into(symbol, form, &buf, &cap)) {
		free(buf);
		return NULL;
	}
	return buf;
}

/* --- one symbol table: versions, functions, imports ----------------------------------------- */

struct table {
	struct elf_file *f;
	const struct elf_mem *mem;
	enum elf_table which;
	struct elf_syms_at at;
	bool *code_section;
	size_t section_cnt;   /* 0: the file has none */
	uint64_t name_budget; /* bytes of names that may still be read */
};

static int damaged(const struct elf_file *f, struct err *err, const char *what)
{
	return err_set(err, -EBADMSG, "'%s' is damaged: %s", f->path, what);
}

/* Finds which sections hold code: a label in one of them is code. */
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

/* Returns the bytes of the first section of @type; NULL if it is missing or incomplete. */
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

/* Finds the table by its section header. t->at.syms is NULL without such a section. */
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

/* A missing table is not an error: *@ret_found is then false. */
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
	/* names may share suffixes; more than this would only waste time (hostile file) */
	t->name_budget = 16ull * t->at.strings_size + (1u << 20);
	return sections_read(t, err);
}

/* Stores the name of version @ndx, if it has none yet. */
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

/* Returns the first name of the definition at @at, or NULL if it is missing or not printable. */
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

/* Reads the names of versions. Terminates, because offsets to the next definition are positive. */
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
 * Returns the length of the function's own name in the name of a part or clone (".cold", ".isra.0")
 * that gcc or clang generated; 0 for other names.
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

/* Returns the name at @at; *@ret_len is 0 if it is unusable. -EBADMSG if all names are too long. */
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
		return damaged(t->f, err, "a symbol's name is outside the string table");
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

/* Returns a copy of the first @len bytes of @name; the file owns it. */
static char *name_copy(struct elf_file *f, const char *name, size_t len)
{
	return *array_add(f->copies, f->copy_cnt) = xstrndup(name, len);
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

/* True if the label is in a code section, or in a file without sections at a code address. */
static bool label_is_code(const struct table *t, const Elf64_Sym *sym)
{
	uint64_t offset;

	if (t->section_cnt)
		return sym->st_shndx < t->section_cnt && t->code_section[sym->st_shndx];
	return sym->st_shndx < SHN_LORESERVE &&
		elf_file_addr_to_offset(t->f, sym->st_value, &offset) == 0;
}

/* Finds the kind of code that a defined symbol names. False for data. */
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
		*array_add(raw->imports, raw->import_cnt) =
			(struct elf_import) { .name = s.name.name, .len = len };
		return 0;
	}
	if (!sym_kind(t, &sym, &s.kind))
		return 0;
	ret = name_at(t, sym.st_name, &s.name.name, &s.name.len, err);
	if (ret)
		return ret;
	/* skip the mapping symbols $x and $d of arm64 (ELF for AArch64) */
	if (s.kind == ELF_LABEL && s.name.name[0] == '$')
		return 0;
	if (!s.name.len) {
		*array_add(raw->nameless, raw->nameless_cnt) = sym.st_value;
		return 0;
	}
	s.addr = sym.st_value;
	s.size = sym.st_size;
	s.name.is_local = ELF64_ST_BIND(sym.st_info) == STB_LOCAL;
	s.name.is_weak = ELF64_ST_BIND(sym.st_info) == STB_WEAK;
	name_version(t, i, &s.name);
	name_piece(t->f, &s.name);
	*array_add(raw->syms, raw->cnt) = s;
	return 0;
}

static void table_done(struct table *t)
{
	free(t->code_section);
}

static int elf_table_read(struct elf_file *f, const struct elf_mem *mem, enum elf_table table,
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

static void elf_raw_done(struct elf_raw *raw)
{
	free(raw->syms);
	free(raw->nameless);
	free(raw->imports);
}

struct key {
	uint64_t addr;
	uint32_t ndx;
};

/* Stable radix sort by address, 11 bits a pass: half a million symbols in milliseconds. */
static void sort_keys(struct key *keys, struct key *spare, size_t cnt)
{
	uint64_t used = 0;
	struct key *from = keys, *to = spare, *t;

	for (size_t i = 0; i < cnt; i++)
		used |= keys[i].addr;
	for (unsigned int shift = 0; shift < 64 && used >> shift; shift += 11) {
		size_t at[2049] = { 0 };

		for (size_t i = 0; i < cnt; i++)
			at[(from[i].addr >> shift & 2047) + 1]++;
		for (size_t i = 0; i < 2047; i++)
			at[i + 1] += at[i];
		for (size_t i = 0; i < cnt; i++)
			to[at[from[i].addr >> shift & 2047]++] = from[i];
		t = from;
		from = to;
		to = t;
	}
	if (from != keys)
		memcpy(keys, from, cnt * sizeof(*keys));
}

/* Ranks a name of a function; smaller is better. */
static unsigned int name_rank(const struct elf_name *n)
{
	if (n->table == ELF_TABLE_DYNSYM)
		return n->is_default ? 0 : 1;
	if (!n->is_local)
		return 2;
	return n->piece ? 4 : 3;
}

#define SPELLING (memcmp(x->name, y->name, x->len < y->len ? x->len : y->len) ?: RISING(len))

DEFINE_ORDER(by_spelling, struct elf_name,
	SPELLING ?: strcmp(x->version ? x->version : "", y->version ? y->version : "") ?:
		RISING(table))

/* Best name first; then strong before weak, short before long, then alphabetically. */
DEFINE_ORDER(by_rank, struct elf_name,
	(int)name_rank(x) - (int)name_rank(y) ?: RISING(is_weak) ?: RISING(len) ?: by_spelling(a, b))

/* True if both have the same name. One of another table matters only if it has a version. */
static bool same_name(const struct elf_name *x, const struct elf_name *y)
{
	return x->len == y->len && memcmp(x->name, y->name, x->len) == 0 &&
		(!x->version || !y->version || strcmp(x->version, y->version) == 0);
}

/* Sorts @cnt names of one address and drops repeated ones. Returns the number left. */
static uint32_t fold_names(struct elf_name *names, uint32_t cnt)
{
	uint32_t kept = 0;

	if (cnt == 1)
		return 1;
	qsort(names, cnt, sizeof(*names), by_spelling);
	for (uint32_t i = 0; i < cnt; i++) {
		struct elf_name *last = kept ? &names[kept - 1] : NULL;

		if (last && same_name(last, &names[i])) {
			/* unversioned names sort first, in any table: keep the better one */
			if (name_rank(&names[i]) < name_rank(last) ||
				(names[i].version && !last->version))
				*last = names[i];
			continue;
		}
		names[kept++] = names[i];
	}
	qsort(names, kept, sizeof(*names), by_rank);
	return kept;
}

static void func_place(struct elf_file *f, struct elf_func *fn)
{
	uint64_t offset;

	fn->in_code = elf_file_addr_to_offset(f, fn->addr, &offset) == 0;
	if (fn->in_code)
		fn->offset = offset;
}

/* Makes one function from the symbols of one address. */
static void add_func(
	struct elf_file *f, const struct elf_raw *raw, const struct key *keys, size_t cnt)
{
	struct elf_func *fn = &f->funcs[f->func_cnt];
	struct elf_name *names = &f->names[f->name_cnt];

	*fn = (struct elf_func) {
		.addr = keys[0].addr, .kind = ELF_LABEL, .names = names
	};
	for (size_t i = 0; i < cnt; i++) {
		const struct elf_raw_sym *s = &raw->syms[keys[i].ndx];

		names[i] = s->name;
		names[i].func = f->func_cnt;
		if (s->size > fn->size)
			fn->size = s->size;
		if (s->name.table == ELF_TABLE_DYNSYM)
			fn->exported = true;
		if (s->kind == ELF_IFUNC || fn->kind == ELF_LABEL)
			fn->kind = s->kind;
	}
	fn->name_cnt = fold_names(names, cnt);
	func_place(f, fn);
	f->name_cnt += fn->name_cnt;
	f->func_cnt++;
}

static void fold_syms(struct elf_file *f, const struct elf_raw *raw)
{
	_cleanup_free_ struct key *keys = xmalloc((raw->cnt + 1) * sizeof(*keys));
	_cleanup_free_ struct key *spare = xmalloc((raw->cnt + 1) * sizeof(*keys));

	f->names = xmalloc((raw->cnt + 1) * sizeof(*f->names));
	f->funcs = xmalloc((raw->cnt + 1) * sizeof(*f->funcs));
	for (size_t i = 0; i < raw->cnt; i++)
		keys[i] = (struct key) { .addr = raw->syms[i].addr, .ndx = i };
	sort_keys(keys, spare, raw->cnt);
	for (size_t i = 0, n; i < raw->cnt; i += n) {
		for (n = 1; i + n < raw->cnt && keys[i + n].addr == keys[i].addr; n++)
			;
		add_func(f, raw, keys + i, n);
	}
}

DEFINE_ORDER(by_import, struct elf_import, SPELLING)

static int syms_read(struct elf_file *f, struct err *err)
{
	__cleanup(elf_raw_done) struct elf_raw raw = { 0 };
	const struct elf_mem *mem;
	enum elf_table table;
	int ret;

	ret = elf_table_read(f, &f->mem, ELF_TABLE_DYNSYM, &raw, err);
	if (ret)
		return ret;
	ret = elf_table_read(f, &f->mem, ELF_TABLE_SYMTAB, &raw, err);
	if (ret)
		return ret;
	if (!f->has_symtab && elf_debug_open(f, &table, &mem)) {
		size_t cnt = raw.cnt, nameless_cnt = raw.nameless_cnt;

		ret = elf_table_read(f, mem, table, &raw, err);
		if (ret) { /* separate debug files are optional */
			raw.cnt = cnt;
			raw.nameless_cnt = nameless_cnt;
		}
	}
	fold_syms(f, &raw);
	f->imports = TAKE_PTR(raw.imports);
	f->import_cnt = raw.import_cnt;
	f->nameless = TAKE_PTR(raw.nameless);
	f->nameless_cnt = raw.nameless_cnt;
	if (f->import_cnt)
		qsort(f->imports, f->import_cnt, sizeof(*f->imports), by_import);
	return 0;
}

/* Like FNV-1a, but over words of 8 bytes, because C++ names are long. */
static uint32_t hash_name(const char *name, size_t len)
{
	uint64_t h = 0xcbf29ce484222325ull ^ len, word;

	for (; len >= 8; name += 8, len -= 8) {
		memcpy(&word, name, 8);
		h = (h ^ word) * 0x100000001b3ull;
		h ^= h >> 29;
	}
	word = 0;
	memcpy(&word, name, len);
	h = (h ^ word) * 0x9e3779b97f4a7c15ull;
	return h >> 32;
}

/* Chains names by hash, better ones before worse ones. */
static void hash_build(struct elf_file *f)
{
	_cleanup_free_ uint32_t *hashes = xmalloc((f->name_cnt + 1) * sizeof(*hashes));
	size_t size = 16;

	while (size < f->name_cnt)
		size *= 2;
	f->buckets = xcalloc(size, sizeof(*f->buckets));
	f->bucket_mask = size - 1;
	for (size_t i = 0; i < f->name_cnt; i++)
		/* NOLINTNEXTLINE(clang-analyzer-core.*): fold_syms() has written all names */
		hashes[i] = hash_name(f->names[i].name, f->names[i].len);
	for (unsigned int rank = 5; rank--;) {
		for (size_t i = f->name_cnt; i--;) {
			uint32_t *b = &f->buckets[hashes[i] & f->bucket_mask];

			if (name_rank(&f->names[i]) != rank)
				continue;
			f->names[i].next = *b;
			*b = i + 1;
		}
	}
}

static const struct elf_name *chain_find(
	const struct elf_file *f, uint32_t at, const char *name, size_t len)
{
	for (; at; at = f->names[at - 1].next) {
		const struct elf_name *n = &f->names[at - 1];

		/* NOLINTNEXTLINE(clang-analyzer-core.*): fold_syms() has written all names */
		if (n->len == len && memcmp(n->name, name, len) == 0)
			return n;
	}
	return NULL;
}

static bool has_prefix(const char *name, size_t name_len, const char *prefix, size_t len)
{
	return name_len >= len && memcmp(name, prefix, len) == 0;
}

int elf_file_funcs(struct elf_file *f, const struct elf_func **ret_funcs, size_t *ret_cnt,
	struct err *err)
{
	int ret;

	if (!f->has_syms) {
		ret = syms_read(f, err);
		if (!ret)
			ret = elf_file_check(f, err);
		if (ret) {
			free(TAKE_PTR(f->names));
			free(TAKE_PTR(f->funcs));
			f->name_cnt = f->func_cnt = 0;
			return ret;
		}
		f->has_syms = true;
	}
	*ret_funcs = f->funcs;
	*ret_cnt = f->func_cnt;
	return 0;
}

/* Finds the variable at @addr in one table; a global name is preferred to a local one. */
static bool variable_read(struct elf_file *f, const struct elf_mem *mem, enum elf_table table,
	uint64_t addr, char **ret_name, uint64_t *ret_begin)
{
	__cleanup(table_done) struct table t = { .f = f, .mem = mem, .which = table };
	bool found;

	if (table_open(&t, &found, NULL) || !found)
		return false;
	for (size_t i = 1; i < t.at.cnt; i++) {
		const char *name;
		Elf64_Sym sym;
		uint32_t len;

		memcpy(&sym, t.at.syms + i * sizeof(sym), sizeof(sym));
		if (ELF64_ST_TYPE(sym.st_info) != STT_OBJECT || sym.st_shndx == SHN_UNDEF ||
			addr < sym.st_value || addr - sym.st_value >= sym.st_size ||
			(*ret_name && ELF64_ST_BIND(sym.st_info) == STB_LOCAL) ||
			name_at(&t, sym.st_name, &name, &len, NULL) || !len)
			continue;
		free(*ret_name);
		*ret_name = xstrndup(name, strcspn(name, "@"));
		*ret_begin = sym.st_value;
	}
	return *ret_name;
}

char *elf_file_variable_at(struct elf_file *f, uint64_t addr, uint64_t *ret_begin)
{
	const struct elf_mem *mem;
	enum elf_table table;
	char *name = NULL;

	if (variable_read(f, &f->mem, ELF_TABLE_SYMTAB, addr, &name, ret_begin) ||
		variable_read(f, &f->mem, ELF_TABLE_DYNSYM, addr, &name, ret_begin))
		return name;
	if (elf_debug_open(f, &table, &mem))
		variable_read(f, mem, table, addr, &name, ret_begin);
	return name;
}

bool elf_file_names_known(const struct elf_file *f)
{
	return f->info.is_static ? f->has_symtab : f->has_dynsym;
}

bool elf_file_is_stripped(const struct elf_file *f)
{
	return !f->has_symtab && !f->debug.bytes && !f->debugdata.bytes;
}

bool elf_file_has_clones(const struct elf_file *f)
{
	return f->has_clones;
}

const struct elf_name *elf_file_lookup(struct elf_file *f, const char *name, size_t len)
{
	if (!f->buckets)
		hash_build(f);
	return chain_find(
		f, f->buckets[hash_name(name, len) & f->bucket_mask], name, len);
}

const struct elf_name *elf_name_next(const struct elf_file *f, const struct elf_name *n)
{
	return chain_find(f, n->next, n->name, n->len);
}

const struct elf_func *elf_file_func_at(const struct elf_file *f, uint64_t addr)
{
	size_t above = FIRST_WHERE(f->func_cnt, i, f->funcs[i].addr > addr);

	/* a label or a smaller function may be inside a larger one: look back a little */
	for (size_t i = above, tries = 16; i-- && tries--;) {
		if (addr == f->funcs[i].addr ||
			addr - f->funcs[i].addr < f->funcs[i].size)
			return &f->funcs[i];
	}
	return NULL;
}

int elf_file_names_symbol(struct elf_file *f, const char *name, struct err *err)
{
	const struct elf_func *funcs;
	size_t cnt, len = strlen(name);
	bool prefix = len && name[len - 1] == '*';
	int ret;

	ret = elf_file_funcs(f, &funcs, &cnt, err);
	if (ret)
		return ret;
	if (!prefix)
		return elf_file_lookup(f, name, len) || elf_file_imports(f, name, len);
	for (size_t i = 0; i < f->name_cnt; i++) {
		/* NOLINTNEXTLINE(clang-analyzer-core.*): fold_syms() has written all names */
		if (has_prefix(f->names[i].name, f->names[i].len, name, len - 1))
			return 1;
	}
	for (size_t i = 0; i < f->import_cnt; i++) {
		if (has_prefix(f->imports[i].name, f->imports[i].len, name, len - 1))
			return 1;
	}
	return 0;
}

bool elf_file_imports(const struct elf_file *f, const char *name, size_t len)
{
	struct elf_import key = { .name = name, .len = len };

	return f->import_cnt &&
		bsearch(&key, f->imports, f->import_cnt, sizeof(key), by_import);
}

const char *elf_file_import(const struct elf_file *f, size_t ndx)
{
	return ndx < f->import_cnt ? f->imports[ndx].name : NULL;
}
