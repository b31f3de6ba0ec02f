// SPDX-License-Identifier: BSD-2-Clause
// The data for the dynamic linker: names, needed libraries, the symbol table.
#include <limits.h>

#include "internal.h"

/* Entries of PT_DYNAMIC. Addresses are virtual; 0: no such entry. */
struct dynamic_facts {
	uint64_t strings, strings_size;
	uint64_t syms, hash, gnu_hash, versym, verdef, verdef_cnt;
	uint64_t rela, rela_size, plt_rela, plt_rela_size;
	uint64_t soname, rpath, runpath;
	uint64_t interp, interp_size; /* in the file */
	bool has_soname, pie, symbolic;
	uint64_t needed[ELF_MAX_NEEDED];
	size_t needed_cnt;
};

/* Tags whose value is stored unchanged. */
static const struct {
	int64_t tag;
	size_t member;
} plain_tags[] = {
	{ DT_STRTAB, offsetof(struct dynamic_facts, strings) },
	{ DT_STRSZ, offsetof(struct dynamic_facts, strings_size) },
	{ DT_SYMTAB, offsetof(struct dynamic_facts, syms) },
	{ DT_HASH, offsetof(struct dynamic_facts, hash) },
	{ DT_GNU_HASH, offsetof(struct dynamic_facts, gnu_hash) },
	{ DT_VERSYM, offsetof(struct dynamic_facts, versym) },
	{ DT_VERDEF, offsetof(struct dynamic_facts, verdef) },
	{ DT_VERDEFNUM, offsetof(struct dynamic_facts, verdef_cnt) },
	{ DT_RELA, offsetof(struct dynamic_facts, rela) },
	{ DT_RELASZ, offsetof(struct dynamic_facts, rela_size) },
	{ DT_JMPREL, offsetof(struct dynamic_facts, plt_rela) },
	{ DT_PLTRELSZ, offsetof(struct dynamic_facts, plt_rela_size) },
	{ DT_RPATH, offsetof(struct dynamic_facts, rpath) },
	{ DT_RUNPATH, offsetof(struct dynamic_facts, runpath) },
};

static void dynamic_entry(struct dynamic_facts *d, const Elf64_Dyn *dyn)
{
	uint64_t value = dyn->d_un.d_val;

	for (size_t i = 0; i < ARRAY_SIZE(plain_tags); i++)
		if (plain_tags[i].tag == dyn->d_tag)
			memcpy((char *)d + plain_tags[i].member, &value, sizeof(value));
	switch (dyn->d_tag) {
	case DT_SONAME:
		d->soname = value;
		d->has_soname = true;
		break;
	case DT_NEEDED:
		if (d->needed_cnt < ELF_MAX_NEEDED)
			d->needed[d->needed_cnt++] = value;
		break;
	case DT_SYMBOLIC:
		d->symbolic = true;
		break;
	case DT_FLAGS:
		d->symbolic |= value & DF_SYMBOLIC;
		break;
	case DT_FLAGS_1:
		d->pie = value & DF_1_PIE;
		break;
	default:
		break;
	}
}

/* By program headers, not by sections. */
static void dynamic_scan(const struct elf_file *f, struct dynamic_facts *d)
{
	size_t cnt = 0;
	Elf64_Dyn dyn;
	GElf_Phdr ph;

	elf_getphdrnum(f->mem.elf, &cnt);
	for (size_t i = 0; i < cnt; i++) {
		if (!gelf_getphdr(f->mem.elf, i, &ph))
			continue;
		if (ph.p_offset > f->mem.size || ph.p_filesz > f->mem.size - ph.p_offset)
			continue;
		if (ph.p_type == PT_INTERP) {
			d->interp = ph.p_offset;
			d->interp_size = ph.p_filesz;
		}
		if (ph.p_type != PT_DYNAMIC)
			continue;
		for (uint64_t at = 0; ph.p_filesz - at >= sizeof(dyn);
			at += sizeof(dyn)) {
			memcpy(&dyn, f->mem.bytes + ph.p_offset + at, sizeof(dyn));
			if (dyn.d_tag == DT_NULL)
				break;
			dynamic_entry(d, &dyn);
		}
	}
}

/* Returns the bytes of a table. Address 0 means no table, even if it is inside a segment. */
static const uint8_t *table_bytes(
	const struct elf_file *f, uint64_t addr, size_t *ret_size)
{
	return addr ? elf_file_bytes(f, addr, ret_size) : NULL;
}

/* Returns the part of the string table that is in the file, or NULL. */
static const char *dynamic_strings(
	const struct elf_file *f, const struct dynamic_facts *d, size_t *ret_size)
{
	size_t left;
	const char *bytes = (const char *)table_bytes(f, d->strings, &left);

	if (!bytes)
		return NULL;
	*ret_size = left < d->strings_size ? left : d->strings_size;
	return bytes;
}

/* Returns a copy of the string in the @left bytes at @bytes; NULL if it is not terminated. */
static char *clean_string(const char *bytes, size_t left)
{
	const char *end = memchr(bytes, '\0', left < PATH_MAX ? left : PATH_MAX);

	return end && elf_name_is_clean(bytes, end - bytes) ? xstrdup(bytes) : NULL;
}

/* Returns a copy of one string, or NULL if it is missing or not printable. */
static char *dynamic_string(
	const struct elf_file *f, const struct dynamic_facts *d, uint64_t at)
{
	const char *bytes;
	size_t left;

	bytes = dynamic_strings(f, d, &left);
	return bytes && at < left ? clean_string(bytes + at, left - at) : NULL;
}

/* --- the number of symbols ------------------------------------------------------------ */

/*
 * .dynamic does not contain the number of symbols. DT_HASH has one chain entry per symbol (gABI,
 * "Hash Table"), and DT_GNU_HASH leads to the last exported symbol. Imported symbols may follow
 * that one, but a relocation refers to them.
 */

static uint32_t word_at(const uint8_t *bytes, size_t ndx)
{
	uint32_t v;

	memcpy(&v, bytes + ndx * sizeof(v), sizeof(v));
	return v;
}

static uint64_t count_hash(const struct elf_file *f, uint64_t addr)
{
	size_t left;
	const uint8_t *b = table_bytes(f, addr, &left);

	/* nbucket, nchain */
	return b && left >= 2 * sizeof(uint32_t) ? word_at(b, 1) : 0;
}

/* Header, Bloom filter, buckets, chains whose last word is odd (glibc's dl-lookup.c). */
static uint64_t count_gnu_hash(const struct elf_file *f, uint64_t addr)
{
	size_t left, words;
	const uint8_t *b = table_bytes(f, addr, &left);
	uint64_t buckets, base, last = 0, chains, at;

	words = b ? left / sizeof(uint32_t) : 0;
	if (words < 4)
		return 0;
	buckets = 4 + 2ull * word_at(b, 2);
	base = word_at(b, 1);
	chains = buckets + word_at(b, 0);
	if (chains > words)
		return 0;
	for (at = buckets; at < chains; at++)
		last = word_at(b, at) > last ? word_at(b, at) : last;
	if (last < base || !last)
		return base;
	for (at = chains + (last - base); at < words; at++, last++)
		if (word_at(b, at) & 1)
			return last + 1;
	return 0;
}

static uint64_t count_rela(const struct elf_file *f, uint64_t addr, uint64_t size)
{
	size_t left;
	const uint8_t *b = table_bytes(f, addr, &left);
	uint64_t cnt = 0;

	if (!b)
		return 0;
	if (left > size)
		left = size;
	for (; left >= sizeof(Elf64_Rela);
		b += sizeof(Elf64_Rela), left -= sizeof(Elf64_Rela)) {
		Elf64_Rela r;

		memcpy(&r, b, sizeof(r));
		if (ELF64_R_SYM(r.r_info) >= cnt)
			cnt = ELF64_R_SYM(r.r_info) + 1ull;
	}
	return cnt;
}

static uint64_t count_syms(const struct elf_file *f, const struct dynamic_facts *d)
{
	const uint64_t counts[] = { count_hash(f, d->hash),
		count_gnu_hash(f, d->gnu_hash), count_rela(f, d->rela, d->rela_size),
		count_rela(f, d->plt_rela, d->plt_rela_size) };
	uint64_t most = 0;

	for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
		most = counts[i] > most ? counts[i] : most;
	return most;
}

/* --- words filled with functions ------------------------------------------------------- */

/* True for functions of libraries that programs replace by their own. */
static bool is_replaced(const char *name)
{
	static const char *const names[] = { "malloc", "calloc", "realloc", "reallocarray",
		"free", "cfree", "memalign", "aligned_alloc", "posix_memalign", "valloc",
		"pvalloc", "malloc_usable_size" };

	if (strncmp(name, "_Zn", 3) == 0 || strncmp(name, "_Zd", 3) == 0)
		return true;
	return ANY_WHERE(ARRAY_SIZE(names), i, strcmp(name, names[i]) == 0);
}

static bool is_slot(const struct elf_file *f, uint32_t type)
{
	if (f->info.arch == PLAN_ARM64)
		return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT;
	return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT;
}

/* True if the linker binds @sym to the function of this file, regardless of other files. */
static bool is_sure(const struct elf_file *f, const struct dynamic_facts *d, const Elf64_Sym *sym)
{
	return d->symbolic || f->info.executable || ELF64_ST_BIND(sym->st_info) == STB_LOCAL ||
		ELF64_ST_VISIBILITY(sym->st_other) != STV_DEFAULT;
}

static void add_slot(struct elf_file *f, const struct dynamic_facts *d,
	const struct elf_syms_at *at, const Elf64_Rela *r)
{
	uint32_t ndx = ELF64_R_SYM(r->r_info);
	struct plan_slot slot = { .addr = r->r_offset };
	const char *name;
	Elf64_Sym sym;

	if (!is_slot(f, ELF64_R_TYPE(r->r_info)) || ndx >= at->cnt)
		return;
	memcpy(&sym, at->syms + ndx * sizeof(sym), sizeof(sym));
	name = at->strings + sym.st_name;
	if (sym.st_name >= at->strings_size ||
		!memchr(name, '\0', at->strings_size - sym.st_name))
		return;
	if (sym.st_shndx == SHN_UNDEF) {
		slot.import = name;
	} else {
		if (ELF64_ST_TYPE(sym.st_info) != STT_FUNC || is_replaced(name))
			return;
		slot.target = sym.st_value;
		slot.sure = is_sure(f, d, &sym);
	}
	f->slots[f->slot_cnt++] = slot;
}

static void add_slots(struct elf_file *f, const struct dynamic_facts *d,
	const struct elf_syms_at *at, uint64_t addr, uint64_t size)
{
	size_t left = 0, cnt;
	const uint8_t *b = table_bytes(f, addr, &left);

	cnt = b ? (left < size ? left : size) / sizeof(Elf64_Rela) : 0;
	f->slots = xreallocarray(f->slots, f->slot_cnt + cnt + 1, sizeof(*f->slots));
	for (; cnt; cnt--, b += sizeof(Elf64_Rela)) {
		Elf64_Rela r;

		memcpy(&r, b, sizeof(r));
		add_slot(f, d, at, &r);
	}
}

DEFINE_ORDER(compare_slots, struct plan_slot, RISING(addr))

void elf_dynamic_slots(struct elf_file *f)
{
	_cleanup_free_ struct dynamic_facts *d = xcalloc(1, sizeof(*d));
	struct elf_syms_at at;

	elf_dynamic_syms(f, &at);
	if (!at.syms)
		return;
	dynamic_scan(f, d);
	add_slots(f, d, &at, d->rela, d->rela_size);
	add_slots(f, d, &at, d->plt_rela, d->plt_rela_size);
	qsort(f->slots, f->slot_cnt, sizeof(*f->slots), compare_slots);
}

/* --- for the other files -------------------------------------------------------------- */

void elf_dynamic_read(struct elf_file *f)
{
	_cleanup_free_ struct dynamic_facts *d = xcalloc(1, sizeof(*d));
	Elf64_Ehdr eh;

	dynamic_scan(f, d);
	if (d->has_soname)
		f->soname = dynamic_string(f, d, d->soname);
	f->info.soname = f->soname ? f->soname : "";
	/* offset 0 of the names is the empty one (gABI, "String Table") */
	if (d->runpath || d->rpath)
		f->runpath = dynamic_string(f, d, d->runpath ? d->runpath : d->rpath);
	f->info.runpath = f->runpath ? f->runpath : "";
	if (d->interp_size)
		f->interp = clean_string(
			(const char *)f->mem.bytes + d->interp, d->interp_size);
	f->info.interp = f->interp ? f->interp : "";
	f->needed = xcalloc(d->needed_cnt ? d->needed_cnt : 1, sizeof(*f->needed));
	for (size_t i = 0; i < d->needed_cnt; i++) {
		char *s = dynamic_string(f, d, d->needed[i]);

		if (s)
			f->needed[f->info.needed_cnt++] = s;
	}
	f->info.needed = (const char *const *)f->needed;
	memcpy(&eh, f->mem.bytes, sizeof(eh));
	f->info.entry = eh.e_entry;
	f->info.arch = eh.e_machine == EM_AARCH64 ? PLAN_ARM64 : PLAN_X86_64;
	/* libc.so.6 has an interpreter, too, so that it can be run: it is a library */
	f->info.executable = eh.e_type == ET_EXEC || d->pie || (d->interp_size && !d->has_soname);
	f->info.is_static = f->info.executable && !d->interp_size && !d->needed_cnt;
}

void elf_dynamic_syms(const struct elf_file *f, struct elf_syms_at *ret_at)
{
	_cleanup_free_ struct dynamic_facts *d = xcalloc(1, sizeof(*d));
	struct elf_syms_at at = { 0 };
	size_t left;

	dynamic_scan(f, d);
	at.strings = dynamic_strings(f, d, &at.strings_size);
	at.syms = table_bytes(f, d->syms, &left);
	at.cnt = count_syms(f, d);
	if (!at.syms || !at.strings || !at.cnt) {
		*ret_at = (struct elf_syms_at) { 0 };
		return;
	}
	if (at.cnt > left / sizeof(Elf64_Sym))
		at.cnt = left / sizeof(Elf64_Sym);
	at.versym = table_bytes(f, d->versym, &at.versym_size);
	at.verdef = table_bytes(f, d->verdef, &at.verdef_size);
	at.verdef_cnt = d->verdef_cnt;
	*ret_at = at;
}

bool elf_file_mentions(const struct elf_file *f, const char *name)
{
	struct dynamic_facts d = {};
	size_t len = strlen(name) + 1, size = 0;
	const char *strings, *at;

	if (f->info.is_static)
		return true;
	dynamic_scan(f, &d);
	strings = dynamic_strings(f, &d, &size);
	for (at = strings; at; at++, size--) {
		const char *found = memmem(at, size, name, len);

		if (!found)
			return false;
		if (found == strings || !found[-1])
			return true;
		size -= found - at;
		at = found;
	}
	return false;
}

uint64_t elf_file_code_size(const struct elf_file *f)
{
	uint64_t size = 0;

	for (size_t i = 0; i < f->segment_cnt; i++)
		size += f->segments[i].exec ? f->segments[i].size : 0;
	return size;
}

uint64_t elf_file_dynamic_addr(const struct elf_file *f, const char *name)
{
	const size_t size = strlen(name) + 1;
	struct elf_syms_at at;
	Elf64_Sym sym;

	elf_dynamic_syms(f, &at);
	if (!at.syms)
		return 0;
	for (size_t i = 0; i < at.cnt; i++) {
		memcpy(&sym, at.syms + i * sizeof(sym), sizeof(sym));
		if (sym.st_shndx != SHN_UNDEF && sym.st_name < at.strings_size &&
			size <= at.strings_size - sym.st_name &&
			!memcmp(at.strings + sym.st_name, name, size))
			return sym.st_value;
	}
	return 0;
}
