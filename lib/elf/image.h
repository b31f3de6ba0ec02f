/* SPDX-License-Identifier: BSD-2-Clause */
/* The code of one file as it is planned for: bytes, where code begins, its frames. */
#ifndef FUNCSNOOP_ELF_IMAGE_H
#define FUNCSNOOP_ELF_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum plan_arch { PLAN_X86_64, PLAN_ARM64 };

struct plan_range {
	uint64_t start, end; /* [start, end), virtual addresses of the file */
};

/* A range that an FDE of .eh_frame describes. */
struct plan_fde {
	uint64_t start, end;
	uint64_t lsda; /* where its table of landing pads lies; 0: it has none */
};

#define PLAN_LSDA_UNREADABLE UINT64_MAX /* it has one, nobody knows where */

/*
 * A word that the dynamic linker fills with the address of a function of this very file, as
 * stubs of the linkage table jump through: unless @sure, another file may have put its own
 * function in the place of this one. Those that programs replace (operators new and delete,
 * malloc) are left out.
 */
struct plan_slot {
	uint64_t addr, target;
	bool sure;
};

struct plan_text {
	uint64_t addr; /* virtual address of bytes[0] */
	const uint8_t *bytes;
	size_t size;
};

/* What the planner sees of one file. The caller keeps all of it alive. */
struct plan_image {
	enum plan_arch arch;
	const struct plan_text *texts; /* executable segments, sorted, not overlapping */
	size_t text_cnt;
	const uint64_t
		*starts; /* addresses at which code symbols begin (all tables), without
				   those that plan_name_is_cold() tells; sorted, unique */
	size_t start_cnt;
	const struct plan_fde *fdes; /* .eh_frame, sorted by start; 0 may be left out */
	size_t fde_cnt;
	const struct plan_slot *slots; /* sorted by address */
	size_t slot_cnt;
	const struct plan_text *segments; /* all that is loaded: jump tables and landing
					     pads are read there; in any order */
	size_t segment_cnt;
};

/*
 * Whether a symbol is a compiler's name for a cold part of a function (NAME.cold,
 * NAME.cold.N, NAME.__part.N): such a symbol begins no function.
 */
bool plan_name_is_cold(const char *name);

/* --- frame.c: what .eh_frame and .gcc_except_table are made of --------------------------------- */

/* Pointer encodings (Linux Standard Base, "DWARF Extensions"). */
#define PE_ABSPTR   0x00
#define PE_ULEB128  0x01
#define PE_UDATA2   0x02
#define PE_UDATA4   0x03
#define PE_UDATA8   0x04
#define PE_SLEB128  0x09
#define PE_SDATA2   0x0a
#define PE_SDATA4   0x0b
#define PE_SDATA8   0x0c
#define PE_PCREL    0x10
#define PE_INDIRECT 0x80
#define PE_OMIT     0xff

/* A cursor over bytes whose first has a known address; .bad once it ran over the end. */
struct eh_reader {
	const uint8_t *p, *end;
	const uint8_t *base;
	uint64_t addr; /* of base */
	bool bad;
};

/* A number of @n bytes, at most 8. */
uint64_t eh_read_bytes(struct eh_reader *r, size_t n);
uint64_t eh_read_leb(struct eh_reader *r, bool is_signed);
/* A number of the form that the low 4 bits of an encoding tell. */
uint64_t eh_read_value(struct eh_reader *r, uint8_t format);
/* An address: absolute or relative to its own place; others make the reader bad. */
uint64_t eh_read_pointer(struct eh_reader *r, uint8_t encoding);

#endif
