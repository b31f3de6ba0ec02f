// SPDX-License-Identifier: BSD-2-Clause
// Which functions of a file Go's compiler made, by the table that its runtime walks stacks with.
//
// The table is .gopclntab: struct pcHeader of Go's src/runtime/symtab.go, then, at its
// .pclnOffset, pairs of 32-bit numbers sorted by the first: where a function begins, from the
// start of the text on, and where its struct _func lies, from .pclnOffset on.
#include <string.h>

#include "internal.h"

/* The first word of the table by the version of Go (cmd/internal/goobj, internal/abi). */
#define MAGIC_1_18 0xfffffff0U
#define MAGIC_1_20 0xfffffff1U

#define HEADER_SIZE    72
#define FUNC_CNT_AT    8  /* 64 bits each */
#define TEXT_START_AT  24
#define PCLN_OFFSET_AT 64
#define FUNC_FLAG_1_18 37 /* of struct _func: a byte behind .funcID */
#define FUNC_FLAG_1_20 41 /* .startLine is new */
#define FLAG_ASM       4

static uint64_t word_at(const uint8_t *bytes)
{
	uint64_t word;

	memcpy(&word, bytes, sizeof(word));
	return word;
}

static uint32_t half_at(const uint8_t *bytes)
{
	uint32_t half;

	memcpy(&half, bytes, sizeof(half));
	return half;
}

/* Where the text starts: the linker's symbol says it also where the table's word is filled later. */
static uint64_t text_start(struct elf_file *f, const uint8_t *bytes)
{
	static const char symbol[] = "runtime.text";
	const struct elf_func *funcs;
	const struct elf_name *name;
	size_t cnt;

	if (!elf_file_funcs(f, &funcs, &cnt, NULL)) {
		name = elf_file_lookup(f, symbol, strlen(symbol));
		if (name)
			return funcs[name->func].addr;
	}
	return word_at(bytes + TEXT_START_AT);
}

/* Leaves @t without bytes if its version's form is not known, or it is damaged. */
static void table_read(struct elf_file *f, const uint8_t *bytes, uint64_t size, struct elf_go_table *t)
{
	if (size < HEADER_SIZE)
		return;
	if (half_at(bytes) != MAGIC_1_18 && half_at(bytes) != MAGIC_1_20)
		return;
	t->size = size;
	t->flag_at = half_at(bytes) == MAGIC_1_18 ? FUNC_FLAG_1_18 : FUNC_FLAG_1_20;
	t->cnt = word_at(bytes + FUNC_CNT_AT);
	t->pairs_at = word_at(bytes + PCLN_OFFSET_AT);
	t->text = text_start(f, bytes);
	if (t->text && t->pairs_at <= size && t->cnt <= (size - t->pairs_at) / 8)
		t->bytes = bytes;
}

static const struct elf_go_table *table_of(struct elf_file *f)
{
	static const char *const sections[] = { ".gopclntab", ".data.rel.ro.gopclntab" };
	const uint8_t *bytes = NULL;
	GElf_Shdr sh;

	if (f->go.is_read)
		return &f->go;
	f->go.is_read = true;
	for (size_t i = 0; i < ARRAY_SIZE(sections) && !bytes; i++)
		if (elf_mem_section(&f->mem, 0, sections[i], &sh))
			bytes = elf_mem_bytes(&f->mem, &sh);
	if (bytes)
		table_read(f, bytes, sh.sh_size, &f->go);
	return &f->go;
}

/* The flags of the function that begins at @addr; false: the table has none there. */
static bool table_flags(const struct elf_go_table *t, uint64_t addr, uint8_t *ret_flags)
{
	const uint8_t *pairs = t->bytes + t->pairs_at;
	size_t i = FIRST_WHERE(t->cnt, k, t->text + half_at(pairs + 8 * k) >= addr);
	uint64_t at;

	if (i == t->cnt || t->text + half_at(pairs + 8 * i) != addr)
		return false;
	at = t->pairs_at + half_at(pairs + 8 * i + 4) + t->flag_at;
	if (at >= t->size)
		return false;
	*ret_flags = t->bytes[at];
	return true;
}

/* Wrappers for callers that pass arguments on the stack, as assembly does, are called so. */
static bool is_abi0(struct elf_file *f, uint64_t addr)
{
	static const char suffix[] = ".abi0";
	const struct elf_func *func = elf_file_func_at(f, addr);

	for (uint32_t i = 0; func && func->addr == addr && i < func->name_cnt; i++) {
		const struct elf_name *n = &func->names[i];

		if (n->len > sizeof(suffix) - 1 &&
			!strcmp(n->name + n->len - (sizeof(suffix) - 1), suffix))
			return true;
	}
	return false;
}

enum elf_go elf_file_go(struct elf_file *f, uint64_t addr)
{
	const struct elf_go_table *t;
	uint8_t flags;

	if (!f->info.go)
		return ELF_GO_NOT;
	t = table_of(f);
	if (!t->bytes)
		return ELF_GO_STACK;
	if (!table_flags(t, addr, &flags))
		return ELF_GO_NOT;
	return flags & FLAG_ASM || is_abi0(f, addr) ? ELF_GO_STACK : ELF_GO_REGS;
}
