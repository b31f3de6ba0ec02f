/* SPDX-License-Identifier: BSD-2-Clause */
/* Entries of debug information as types are read from them; bounded, as a file may be hostile. */
#pragma once

#include <elfutils/libdw.h>

#include "target/types.h"

struct dwarf_reader {
	struct type_reader r; /* first: a reader is cast to this */
	int language;         /* of the function that is read: DW_LANG_... */
	Dwarf_Die code;       /* the last requested name of an enumeration */
	uint64_t code_of;
	size_t code_at;
};

void dwarf_reader_init(struct dwarf_reader *d, struct targets *targets);

/* Gets the type of an argument, a member or another type; without one it is void. */
bool dwarf_step_from(struct dwarf_reader *d, Dwarf_Die *die, struct type_step *ret);

/*
 * Reads arguments and the first result of @func, which Go passes in registers. Errors
 * as of proto_add().
 */
_must_check_ int go_read_func(struct dwarf_reader *d, Dwarf_Die *func, struct proto *p);

/* The entry that a step was made of; returns @ret. */
Dwarf_Die *dwarf_entry_of(const struct type_step *s, Dwarf_Die *ret);

/* Reads an attribute of an entry or of its origin. Returns false or NULL if there is none. */
bool dwarf_attr_number(Dwarf_Die *die, unsigned int name, uint64_t *ret);
bool dwarf_attr_flag(Dwarf_Die *die, unsigned int name);
const char *dwarf_attr_text(Dwarf_Die *die, unsigned int name);
bool dwarf_attr_entry(Dwarf_Die *die, unsigned int name, Dwarf_Die *ret);

/* The next entry of the same parent, the next that is a @tag, the first of @parent. */
bool dwarf_next_sibling(Dwarf_Die *die);
bool dwarf_next_tag(Dwarf_Die *die, int tag);
bool dwarf_first_tag(Dwarf_Die *parent, int tag, Dwarf_Die *ret);
