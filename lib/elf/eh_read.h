/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads what .eh_frame and .gcc_except_table are made of (DWARF exception header encoding). */
#ifndef FUNCSNOOP_ELF_EH_READ_H
#define FUNCSNOOP_ELF_EH_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
