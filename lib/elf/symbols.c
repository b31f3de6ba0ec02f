// SPDX-License-Identifier: BSD-2-Clause
// Functions out of symbol tables: sorted, aliases folded, names hashed.
#include <errno.h>

#include "internal.h"

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

/* How good a name is for a function; smaller is better. */
static unsigned int name_rank(const struct elf_name *n)
{
	if (n->table == ELF_TABLE_DYNSYM)
		return n->is_default ? 0 : 1;
	if (!n->is_local)
		return 2;
	return n->piece ? 4 : 3;
}

static int by_spelling(const void *a, const void *b)
{
	const struct elf_name *x = a, *y = b;
	uint32_t len = x->len < y->len ? x->len : y->len;
	int ret = memcmp(x->name, y->name, len);

	if (ret)
		return ret;
	if (x->len != y->len)
		return x->len < y->len ? -1 : 1;
	ret = strcmp(x->version ? x->version : "", y->version ? y->version : "");
	return ret ? ret : (int)x->table - y->table;
}

/* The best name first; among equals the strong, the short, the first by letters. */
static int by_rank(const void *a, const void *b)
{
	const struct elf_name *x = a, *y = b;
	unsigned int p = name_rank(x), q = name_rank(y);

	if (p != q)
		return p < q ? -1 : 1;
	if (x->is_weak != y->is_weak)
		return x->is_weak ? 1 : -1;
	if (x->len != y->len)
		return x->len < y->len ? -1 : 1;
	return by_spelling(a, b);
}

/* The same name from another table says nothing new, unless it brings the version. */
static bool same_name(const struct elf_name *x, const struct elf_name *y)
{
	return x->len == y->len && memcmp(x->name, y->name, x->len) == 0 &&
		(!x->version || !y->version || strcmp(x->version, y->version) == 0);
}

/* Sorts @cnt names of one address, drops repeated ones; the number left. */
static uint32_t fold_names(struct elf_name *names, uint32_t cnt)
{
	uint32_t kept = 0;

	if (cnt == 1)
		return 1;
	qsort(names, cnt, sizeof(*names), by_spelling);
	for (uint32_t i = 0; i < cnt; i++) {
		struct elf_name *last = kept ? &names[kept - 1] : NULL;

		if (last && same_name(last, &names[i])) {
			/* unversioned sorts first, from whatever table: keep the better */
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

/* One function out of the symbols of one address. */
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

static int by_import(const void *a, const void *b)
{
	const struct elf_import *x = a, *y = b;
	int ret = memcmp(x->name, y->name, x->len < y->len ? x->len : y->len);

	if (ret)
		return ret;
	return x->len < y->len ? -1 : x->len > y->len;
}

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
		if (ret) { /* help from outside is welcome, and no duty */
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

/* FNV-1a's step, over words of 8 bytes: names of C++ are long. */
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

	/* a label or a smaller function may lie inside a larger one: look back a little */
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
