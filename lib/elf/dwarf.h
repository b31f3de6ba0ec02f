/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Debug information of an ELF file: its own, or that of its debug file, with what other files
 * hold of it (.dwo, dwz). It may be hostile: what is read of it is bounded by ELF_DWARF_MOST.
 */
#ifndef FUNCSNOOP_ELF_DWARF_H
#define FUNCSNOOP_ELF_DWARF_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/elf_file.h"

/* Bytes of entries that are passed in one search: a big program's units have some megabytes. */
#define ELF_DWARF_MOST (768u << 20)

/* A function that is looked for, and its entry if it was found. */
struct elf_dwarf_func {
	uint64_t addr;      /* where it begins, in the file */
	const char *symbol; /* which of several there is meant; or NULL */
	bool found, named;  /* .named: by that symbol */
	Dwarf_Die die;      /* it lives as long as the file */
	int language;       /* DW_LANG_..., or 0 */
	void *user;
};

/*
 * Looks for @funcs, sorted by address. Only units that have one of them are gone through. Where
 * nothing can be found, *@ret_why says why, else it is where it was looked: "DWARF", "DWARF of
 * PATH". It lives as long as the file.
 */
void elf_dwarf_find(struct elf_file *f, struct elf_dwarf_func *funcs, size_t cnt,
	const char **ret_why);

/* A function at a place in code, or one that the compiler has put there in place of its call. */
struct elf_line {
	const char *function; /* as its source has it; NULL: that of the symbol */
	const char *source;   /* a path; NULL: it is not known; */
	const char *folder;   /* where that begins, if it does not at the root; or NULL */
	unsigned int line;    /* in that; 0: it is not known */
	bool inlined;         /* into the next one */
};

#define ELF_LINES_MAX 32

/*
 * What stands in the source where @addr lies, innermost first, at most ELF_LINES_MAX; 0: nothing
 * is known of it. The last one is the function whose code it is, the others are inlined. It
 * belongs to the file; units of it are gone through once, and a function when it is met first.
 */
size_t elf_lines_at(struct elf_file *f, uint64_t addr, struct elf_line *ret_lines);

#endif
