/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Debug information of an ELF file or its debug file, including .dwo and dwz files. The data may be
 * hostile: ELF_DWARF_MOST bounds the amount that is read.
 */
#ifndef FUNCSNOOP_ELF_DWARF_H
#define FUNCSNOOP_ELF_DWARF_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/elf_file.h"

/*
 * Maximum size of entries read in one search, in bytes; a unit of a large program has some
 * megabytes.
 */
#define ELF_DWARF_MOST (768u << 20)

/* A function to look up, and its entry if found. */
struct elf_dwarf_func {
	uint64_t addr;      /* start address in the file */
	const char *symbol; /* selects one of several at .addr; or NULL */
	bool found, named;  /* .named: by that symbol */
	Dwarf_Die die;      /* lives as long as the file */
	int language;       /* DW_LANG_..., or 0 */
	void *user;
};

/*
 * Looks up @funcs, sorted by address. Reads only units that contain one of them. *@ret_why is the
 * reason if nothing can be found, otherwise the place that was searched: "DWARF", "DWARF of PATH".
 * It lives as long as the file.
 */
void elf_dwarf_find(struct elf_file *f, struct elf_dwarf_func *funcs, size_t cnt,
	const char **ret_why);

/* A function at an address, or one that the compiler has inlined there. */
struct elf_line {
	const char *function; /* name in the source; NULL: use that of the symbol */
	const char *source;   /* a path; NULL: not known */
	const char *folder;   /* base directory of a relative path, or NULL */
	unsigned int line;    /* in .source; 0: not known */
	bool inlined;         /* into the next one in the array */
};

#define ELF_LINES_MAX 32

/*
 * Returns the source locations of @addr, innermost first, at most ELF_LINES_MAX; 0 if none is
 * known. The last one is the function that contains the code; the others are inlined. They belong
 * to the file. A unit is read once, and a function on first use.
 */
size_t elf_lines_at(struct elf_file *f, uint64_t addr, struct elf_line *ret_lines);

#endif
