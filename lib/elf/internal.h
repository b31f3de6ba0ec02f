/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of the ELF reader only. */
#pragma once

#include <elfutils/libdw.h>
#include <gelf.h>
#include <signal.h>
#include <string.h>

#include "elf/elf_file.h"

/*
 * Limits for hostile files. The largest known symbol tables (browsers with debug symbols) have two
 * million symbols; names of C++ templates reach tens of kilobytes.
 */
#define ELF_MAX_SECTIONS  (1u << 17)
#define ELF_MAX_SEGMENTS  256u
#define ELF_MAX_SYMBOLS   (8u << 20)
#define ELF_MAX_NAME      (64u << 10)
#define ELF_MAX_NEEDED    4096u
#define ELF_MAX_FDES      (8u << 20)
#define ELF_MAX_BUILD_ID  64u /* bytes */
#define ELF_MAX_NOTES     (32u << 20) /* bytes, in all sections and segments */
#define ELF_MAX_DEBUGDATA (128u << 20)

/* A mapped file that may be truncated: missing pages are then read as zeros, and .cut is set. */
struct elf_watch {
	const uint8_t *bytes;
	size_t size;
	volatile sig_atomic_t cut;
	struct elf_watch *next;
};

/* An ELF image in memory: a mapped file or an unpacked .gnu_debugdata. */
struct elf_mem {
	const uint8_t *bytes;
	size_t size;
	struct elf_watch *watch; /* mapped: munmap, not free */
	Elf *elf;
};

struct elf_segment {
	uint64_t addr, offset, size; /* size: bytes in the file, */
	uint64_t memory;             /* and with those that begin as zeros */
	bool exec, write;
};

/* A symbol while the tables are being read. */
struct elf_raw_sym {
	uint64_t addr, size;
	struct elf_name name; /* .func and .next unset */
	uint8_t kind;
};

struct elf_import {
	const char *name;
	uint32_t len;
};

/* The table with which Go's runtime walks stacks; .bytes is NULL if it is missing or unreadable. */
struct elf_go_table {
	bool is_read;
	const uint8_t *bytes;
	uint64_t size, pairs_at, cnt, text;
	uint32_t flag_at;
};

struct elf_file {
	struct elf_info info;
	int fd;
	int root_fd;
	char *path, *dir, *soname, *runpath, *interp, *build_id;
	char **needed;
	struct elf_mem mem;
	struct elf_segment *segments; /* PT_LOAD, in the file's order */
	size_t segment_cnt;
	uint64_t eh_frame_hdr, eh_frame_hdr_size; /* file offset; size 0: none */

	bool has_syms, has_dynsym, has_symtab;
	struct elf_mem debug, debugdata;
	char **versions; /* by version index */
	size_t version_cnt;
	char **copies; /* names without their version or compiler suffix */
	size_t copy_cnt;
	bool has_clones; /* some name has .base */
	struct elf_go_table go; /* image.c; .is_read: searched for, even if not found */
	struct elf_func *funcs; /* sorted by address */
	size_t func_cnt;
	struct elf_name *names; /* in the order of functions */
	size_t name_cnt;
	struct elf_import *imports; /* sorted by name */
	size_t import_cnt;
	uint64_t *nameless; /* starts of code symbols whose names are unusable */
	size_t nameless_cnt;
	uint32_t *buckets; /* index + 1 of the first name, 0 none */
	uint32_t bucket_mask;

	bool has_image;
	struct plan_text *texts;
	size_t text_cnt;
	uint64_t *starts;
	size_t start_cnt;
	struct plan_fde *fdes;
	size_t fde_cnt;
	struct plan_slot *slots;
	size_t slot_cnt;
	struct plan_text *loaded; /* the segments, for the planner */

	struct elf_dwarf *dwarf; /* NULL: not searched for yet */
	struct elf_units *units; /* units whose lines have been read, or NULL */
};

/* elf_file.c: images, sections, notes. */

/* Maps the file at @fd (kept by the caller), checks its header; errors name @shown. */
int elf_mem_map(int fd, const char *shown, struct elf_mem *ret_mem, struct err *err);
/* Same for libdw, which writes to the headers of sections that it decompresses. */
int elf_mem_map_debug(int fd, const char *shown, struct elf_mem *ret_mem, struct err *err);
/* Same for bytes in memory, which the function always takes over. */
int elf_mem_take(uint8_t *bytes, size_t size, const char *shown, struct elf_mem *ret_mem,
	struct err *err);
void elf_mem_done(struct elf_mem *mem);

/* Returns the first section of @type (0: any) and @name (NULL: any), or NULL. */
Elf_Scn *elf_mem_section(
	const struct elf_mem *mem, uint32_t type, const char *name, GElf_Shdr *ret_shdr);
/* Returns the bytes of a section in the file; NULL if it has none or is truncated. */
const uint8_t *elf_mem_bytes(const struct elf_mem *mem, const GElf_Shdr *shdr);

/* Writes the build id to @hex in lower case, "" if there is none. *@ret_go: it is Go's. */
void elf_mem_notes(
	const struct elf_mem *mem, char hex[2 * ELF_MAX_BUILD_ID + 1], bool *ret_go);

/* True if @len bytes are UTF-8 without control characters. */
bool elf_name_is_clean(const char *name, size_t len);

/*
 * A symbol table and the sections that belong to it, as bytes of an untrusted image. .syms is NULL
 * without a symbol table, .versym and .verdef without versions.
 */
struct elf_syms_at {
	const uint8_t *syms; /* Elf64_Sym, unaligned */
	size_t cnt;
	const char *strings;
	size_t strings_size;
	const uint8_t *versym, *verdef;
	size_t versym_size, verdef_size;
	uint64_t verdef_cnt;
};

/* dynamic.c: names, needed libraries, kind of file into f->info. */
void elf_dynamic_read(struct elf_file *f);
/* Finds the dynamic symbol table like the dynamic linker, without sections. */
void elf_dynamic_syms(const struct elf_file *f, struct elf_syms_at *ret_at);

/* Reads words that are filled with addresses of functions into f->slots. */
void elf_dynamic_slots(struct elf_file *f);

/* symbols.c: raw symbols, read from the symbol tables. */
struct elf_raw {
	struct elf_raw_sym *syms;
	size_t cnt;
	uint64_t *nameless;
	size_t nameless_cnt;
	struct elf_import *imports;
	size_t import_cnt;
};

/* dwarf.c: finds the separate debug file or .gnu_debugdata. False if there is none. */
bool elf_debug_open(
	struct elf_file *f, enum elf_table *ret_table, const struct elf_mem **ret_mem);

/* dwarf.c: frees the debug information. */
void elf_dwarf_done(struct elf_file *f);

#define ELF_UNITS_MAX   (1u << 20)
#define ELF_NESTING_MAX 24

/* dwarf.c: opens it once; *@ret_dwarf is NULL if there is none, for the reason *@ret_why. */
void elf_dwarf_open(struct elf_file *f, Dwarf **ret_dwarf, const char **ret_why);
/*
 * Finds the entry with the content of unit @cu, whose own entry is @unit. Returns false if it is
 * missing.
 */
bool elf_dwarf_unit(const struct elf_file *f, Dwarf_CU *cu, Dwarf_Die *unit);
/*
 * Moves to the next sibling and adds the size of the skipped entry to *@passed. Returns false after
 * the last sibling, on a reference backwards (an endless loop), and after ELF_DWARF_MOST bytes.
 */
bool elf_dwarf_next(Dwarf_Die *die, uint64_t *passed);
/*
 * Finds the first instruction of @die. One with code in several places has ranges, and begins with
 * the first (DWARF 5, 2.17).
 */
bool elf_dwarf_entry(Dwarf_Die *die, Dwarf_Addr *ret_addr);
/* Return names, also those of the declaration or of the function that was inlined; or NULL. */
const char *elf_dwarf_linkage_name(Dwarf_Die *die);
const char *elf_dwarf_name(Dwarf_Die *die);

/* dwarf.c: frees the data of elf_lines_at(). */
void elf_lines_done(struct elf_file *f);
