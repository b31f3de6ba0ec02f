/* SPDX-License-Identifier: BSD-2-Clause */
/* What insn.c asks of the two architectures. */
#ifndef FUNCSNOOP_CODE_INSN_ARCH_H
#define FUNCSNOOP_CODE_INSN_ARCH_H

#include "code/insn.h"

#define X86_P_66    0x01 /* prefixes */
#define X86_P_67    0x02
#define X86_P_F2    0x04
#define X86_P_F3    0x08
#define X86_P_LOCK  0x10
#define X86_P_DS    0x20 /* 3e, notrack on an indirect jump */
#define X86_P_CS    0x40 /* 2e 26 36 */
#define X86_P_FS_GS 0x80

enum x86_map { X86_MAP_1, X86_MAP_0F, X86_MAP_0F38, X86_MAP_0F3A, X86_MAP_VEC };

/* The parts of an x86-64 instruction. */
struct x86 {
	const uint8_t *bytes;
	size_t len;     /* of the whole instruction, or of what is there */
	uint8_t prefix; /* X86_P_* */
	uint8_t rex;    /* or 0 */
	uint8_t map; /* enum x86_map; VEC: VEX, EVEX, XOP or REX2, .op is its first byte */
	uint8_t op;  /* opcode, last byte */
	uint8_t op_at; /* its offset */
	uint8_t modrm; /* the byte behind the opcode, 0 when none */
};

/* Splits; false when the bytes end before the opcode. */
bool x86_split(const uint8_t *bytes, size_t len, struct x86 *ret_x);
static inline uint8_t x86_mod(const struct x86 *x)
{
	return x->modrm >> 6;
}
static inline uint8_t x86_digit(const struct x86 *x)
{
	return x->modrm >> 3 & 7;
}
/* Registers by number, the REX bits in. */
static inline uint8_t x86_reg_no(const struct x86 *x)
{
	return x86_digit(x) | (x->rex & 4 ? 8 : 0);
}
static inline uint8_t x86_rm_no(const struct x86 *x)
{
	return (x->modrm & 7) | (x->rex & 1 ? 8 : 0);
}

/* The length of an instruction that Capstone does not know, or 0. */
size_t x86_length(const uint8_t *bytes, size_t len);
bool x86_is_nop(const struct x86 *x); /* 90, 66 90, 0f 1f /0 with any prefix but f3 90 */
bool x86_classify(const struct x86 *x, uint64_t addr, struct insn *insn);
bool x86_probe_ok(const uint8_t *bytes, size_t len, const struct plan_rules *rules,
	char *why, size_t size);
bool x86_emulated(const struct x86 *x, const struct plan_rules *rules);
bool x86_step_over(const struct x86 *x, bool write_args);
bool x86_is_dispatch(const struct insn *insn, size_t prev, const uint8_t *bytes);

/* The displacement of a ModRM whose base is @base alone; false when it is another form. */
bool x86_base_disp(const struct x86 *x, uint8_t base, int32_t *ret_disp);
void x86_find_data(const struct x86 *x, struct insn *insn);
void x86_find_stack(const struct x86 *x, struct insn *insn);
bool x86_table(const struct insn *insn, size_t prev, const uint8_t *bytes,
	struct insn_table *t);
bool x86_switches_stack(const struct insn *insn, const uint8_t *bytes, size_t left);
bool a64_switches_stack(const struct insn *insn, uint32_t word);
bool x86_can_begin(const struct insn *insn, const uint8_t *bytes);
bool x86_index_bound(const struct insn *insn, const uint8_t *bytes, const struct insn *jcc,
	uint64_t *ret_cnt);

bool a64_table(const struct insn *insn, size_t prev, const uint8_t *bytes,
	struct insn_table *t);
bool a64_index_bound(const struct insn *insn, const uint8_t *bytes, const struct insn *jcc,
	uint64_t *ret_cnt);
bool a64_classify(uint32_t word, uint64_t addr, struct insn *insn);
bool a64_probe_ok(uint32_t word, char *why, size_t size);
bool a64_emulated(uint32_t word);
bool a64_is_dispatch(const struct insn *insn, size_t prev, const uint8_t *bytes);
bool a64_is_plt(const uint8_t *bytes, size_t len);

static inline uint32_t a64_word(const uint8_t *bytes)
{
	return bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

#endif
