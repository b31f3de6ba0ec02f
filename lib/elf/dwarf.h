/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Debug information of an ELF file or its debug file, including .dwo and dwz files. The data may be
 * hostile: ELF_DWARF_MOST bounds the amount that is read.
 */
#pragma once

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

/* The code of a line of the source, and of the same line in other files with that name. */
struct elf_line_code {
	uint64_t *addrs; /* rising */
	size_t cnt;
	unsigned int line; /* the one asked for, or the next one that has code; 0: the debug
			      information does not have the file */
	const char *why;   /* why there is none; it lives as long as the file */
};

/*
 * Finds the code of a line: in each function and inlined copy, the first instruction of each piece
 * of the line that begins a statement. @source is a path or its last components. Reads the lines of
 * all units. The caller frees ret->addrs.
 */
void elf_line_find(struct elf_file *f, const char *source, unsigned int line,
	struct elf_line_code *ret);

/*
 * The same for every line of @source that has code, by line. Returns their number; the caller frees
 * *@ret_lines, and .addrs of each.
 */
size_t elf_lines_find(struct elf_file *f, const char *source, struct elf_line_code **ret_lines);

/* --- functions that the compiler has inlined -------------------------------------------------- */

/* The copies of a function in others. */
struct elf_inlined {
	uint64_t *into;   /* the starts of the functions that have them, sorted */
	uint64_t *copies; /* their first instructions */
	size_t into_cnt, copy_cnt;
	size_t split_cnt; /* of the copies: those with several ranges, which a compiler that unrolls
			     loops uses for several copies of one */
	bool copies_gone; /* there are copies, but they have no code */
};

/* Gets a mangled name, or one with its scopes ("(anonymous namespace)::f"), without arguments. */
typedef bool (*elf_name_fn)(void *arg, const char *name);

/*
 * Finds the inlined copies of all functions that @fits accepts. It is called only for those whose
 * name in the source is in @text. Reads all entries of the file, 2 to 4 ms a megabyte; beyond
 * ELF_DWARF_MOST nothing is found. The caller frees *@ret with elf_inlined_done().
 */
void elf_inlined_find(struct elf_file *f, const char *text, elf_name_fn fits, void *arg,
	struct elf_inlined *ret);
void elf_inlined_done(struct elf_inlined *inlined);

/* True if that takes at most some 30 ms: the file has debug information itself, and not too much. */
bool elf_inlined_is_quick(const struct elf_file *f);
