// SPDX-License-Identifier: BSD-2-Clause
// x86-64: instructions that the kernel can probe, refuses to probe, executes incorrectly, and
// emulates; and the registers written by instructions that a probe can be moved past, or that occur
// before a ret.
#include <stdio.h>
#include <string.h>

#include "internal.h"

/*
 * One bit an opcode, 1 where arch/x86/kernel/uprobes.c lets a 64-bit program be probed
 * (good_insns_64). Two-byte opcodes are all let through there.
 */
static const uint16_t probed[16] = {
	[0x0] = 0xbf3f,
	[0x1] = 0x3f3f,
	[0x2] = 0x7f7f,
	[0x3] = 0x7f7f,
	[0x4] = 0xffff,
	[0x5] = 0xffff,
	[0x6] = 0x0ff8,
	[0x7] = 0xffff,
	[0x8] = 0xfffb,
	[0x9] = 0xfbff,
	[0xa] = 0xffff,
	[0xb] = 0xffff,
	[0xc] = 0x0fff,
	[0xd] = 0xff8f,
	[0xe] = 0x0b0f,
	[0xf] = 0xf3ed,
};

/*
 * Two-byte opcodes that change control or privilege in a way that a single step elsewhere
 * than in its place can't follow: syscall (clone and execve return into the step's slot),
 * ud2, sysret, sysenter, sysexit, rsm, ud1, ud0.
 */
static const uint8_t never_0f[] = { 0x05, 0x07, 0x0b, 0x34, 0x35, 0xaa, 0xb9, 0xff };

static bool refuse(char *why, size_t size, const char *text)
{
	snprintf(why, size, "%s", text);
	return false;
}

static bool is_branch(const struct x86 *x)
{
	if (x->map == X86_MAP_0F)
		return (x->op & 0xf0) == 0x80;
	return x->map == X86_MAP_1 &&
		((x->op & 0xf0) == 0x70 || x->op == 0xe8 || x->op == 0xe9 ||
			x->op == 0xeb);
}

static bool is_call(const struct x86 *x)
{
	return x->map == X86_MAP_1 &&
		(x->op == 0xe8 ||
			(x->op == 0xff && (x86_digit(x) == 2 || x86_digit(x) == 3)));
}

/*
 * True for a 5-byte nop according to Linux 6.18 and later: any encoding of that length, and (since
 * insn_is_nop() was unified) a jump to the next instruction.
 */
static bool is_nop5(const struct x86 *x)
{
	static const uint8_t jmp_next[5] = { 0xe9 };

	return x->len == 5 && (x86_is_nop(x) || memcmp(x->bytes, jmp_next, 5) == 0);
}

static bool opcode_ok(const struct x86 *x, char *why, size_t size)
{
	if (x->map == X86_MAP_0F && memchr(never_0f, x->op, sizeof(never_0f)))
		return refuse(why, size,
			"a system or undefined instruction can't be single-stepped");
	if (x->map != X86_MAP_1)
		return true;
	if (x->op == 0xcc)
		return refuse(why, size, "a breakpoint is already there");
	if (!(probed[x->op >> 4] >> (x->op & 15) & 1))
		return refuse(why, size, "the kernel refuses to probe this opcode");
	if (x->op == 0x8e && x86_digit(x) == 2)
		return refuse(why, size, "the kernel refuses to probe a load of %ss");
	if ((x->op == 0xc7 || x->op == 0xc6) && x->modrm == 0xf8)
		return refuse(why, size, "a transaction can't be single-stepped");
	if (x->op == 0x9c) /* popf would set it */
		return refuse(why, size, "a single-stepped pushf pushes the step's trap flag");
	if (x->op == 0x90 && x->rex & 1)
		return refuse(why, size, "the kernel mistakes this xchg for a nop");
	return true;
}

bool insn_is_system(const uint8_t *bytes, size_t len)
{
	struct x86 x;

	if (!x86_split(bytes, len, &x))
		return true;
	return (x.map == X86_MAP_1 && x.op == 0xcd) ||
		(x.map == X86_MAP_0F && (x.op == 0x05 || x.op == 0x34));
}

bool x86_probe_ok(const uint8_t *bytes, size_t len, const struct plan_rules *rules,
	char *why, size_t size)
{
	struct x86 x;

	if (!x86_split(bytes, len, &x))
		return refuse(why, size, "not an instruction");
	if (x.map == X86_MAP_VEC)
		return refuse(why, size,
			"the kernel emulates some VEX, EVEX and XOP instructions wrongly");
	if (x.prefix & X86_P_LOCK)
		return refuse(why, size, "the kernel refuses to probe a lock prefix");
	if (x.prefix & (X86_P_CS | X86_P_DS))
		return refuse(why, size, "the kernel refuses to probe a segment prefix");
	if (x.prefix & X86_P_66 && is_branch(&x))
		return refuse(why, size,
			"the kernel refuses to probe a branch with a 66 prefix");
	if (rules->nop5_unsafe && is_nop5(&x))
		return refuse(
			why, size, "this kernel turns a probed 5-byte nop into a call");
	if (rules->call_unsafe && is_call(&x))
		return refuse(
			why, size, "a probed call breaks shadow stacks on this kernel");
	return opcode_ok(&x, why, size);
}

/* The kernel's own nops (x86_nops[]) of 2 bytes and more, the only ones that it knows. */
static bool is_kernel_nop(const uint8_t *b, size_t len)
{
	static const uint8_t nops[][8] = {
		{ 0x0f, 0x1f, 0x00 },
		{ 0x0f, 0x1f, 0x40 },
		{ 0x0f, 0x1f, 0x44 },
		{ 0x66, 0x0f, 0x1f, 0x44 },
		{ 0x0f, 0x1f, 0x80 },
		{ 0x0f, 0x1f, 0x84 },
	};

	return len >= 3 && len <= 8 && memcmp(b, nops[len - 3], len) == 0;
}

bool x86_emulated(const struct x86 *x, const struct plan_rules *rules)
{
	if (x->map == X86_MAP_VEC)
		return false;
	if (is_branch(x))
		return !(x->prefix & X86_P_66);
	if (x->map == X86_MAP_0F)
		return rules->multinop_emulated && is_kernel_nop(x->bytes, x->len);
	if (x->map != X86_MAP_1)
		return false;
	if (x->op == 0x90)
		return !(x->rex & 1);
	return x->op >= 0x50 && x->op <= 0x57 &&
		(x->len == 1 || (x->len == 2 && x->rex == 0x41));
}

/* rcx rdx rsi rdi r8 r9, by number */
static bool carries_argument(uint8_t reg)
{
	return 0x3c6 >> reg & 1;
}

/* Minimum bytes of stack above the stack pointer: frames of callers, or a thread's first words. */
#define STACK_NEAR 512

/* Destination of an instruction that a probe can be moved past. */
enum dest { NOT_LISTED, DEST_NONE, DEST_RM, DEST_REG, DEST_LOW, DEST_ACC };

static enum dest group_dest(const struct x86 *x)
{
	uint8_t digit = x86_digit(x);

	switch (x->op) {
	case 0x80:
	case 0x81:
	case 0x83: /* add or adc sbb and sub xor cmp */
		return digit == 7                  ? DEST_NONE
			: digit == 2 || digit == 3 ? NOT_LISTED
						   : DEST_RM;
	case 0xc0:
	case 0xc1:
	case 0xd0:
	case 0xd1:
	case 0xd2:
	case 0xd3: /* shl shr sar */
		return digit == 4 || digit == 5 || digit == 7 ? DEST_RM : NOT_LISTED;
	case 0xf6:
	case 0xf7: /* test not neg */
		return digit == 0                  ? DEST_NONE
			: digit == 2 || digit == 3 ? DEST_RM
						   : NOT_LISTED;
	case 0xfe:
	case 0xff: /* inc dec */
		return digit < 2 ? DEST_RM : NOT_LISTED;
	case 0xc6:
	case 0xc7: /* mov */
		return digit == 0 ? DEST_RM : NOT_LISTED;
	}
	return NOT_LISTED;
}

static enum dest one_byte_dest(const struct x86 *x)
{
	static const uint8_t forms[] = { DEST_RM, DEST_RM, DEST_REG, DEST_REG, DEST_ACC,
		DEST_ACC };
	uint8_t op = x->op;

	if (op < 0x40) { /* add or adc sbb and sub xor cmp */
		if ((op & 7) > 5 || op >> 3 == 2 || op >> 3 == 3)
			return NOT_LISTED;
		if (op >> 3 == 7)
			return DEST_NONE;
		return forms[op & 7];
	}
	if (op >= 0xb0 && op <= 0xbf)
		return DEST_LOW; /* mov, movabs */
	switch (op) {
	case 0x63: /* movslq */
	case 0x8a:
	case 0x8b:
	case 0x8d: /* lea */
		return DEST_REG;
	case 0x88:
	case 0x89:
		return DEST_RM;
	case 0x84:
	case 0x85: /* test */
	case 0xa8:
	case 0xa9:
		return DEST_NONE;
	}
	return group_dest(x);
}

static enum dest dest_of(const struct x86 *x)
{
	if (x->map == X86_MAP_1)
		return one_byte_dest(x);
	if (x->map != X86_MAP_0F)
		return NOT_LISTED;
	if ((x->op & 0xf0) == 0x40) /* cmov */
		return DEST_REG;
	if ((x->op & 0xf0) == 0x90) /* setcc */
		return DEST_RM;
	/* movzx movsx */
	return (x->op & 0xf6) == 0xb6 ? DEST_REG : NOT_LISTED;
}

static bool has_modrm(const struct x86 *x)
{
	return !(x->map == X86_MAP_1 &&
		((x->op < 0x40 && (x->op & 7) > 3) || (x->op >= 0xb0 && x->op <= 0xbf) ||
			x->op == 0xa8 || x->op == 0xa9));
}

/* The second operand is a register of its own, no digit of the opcode. */
static bool has_reg(const struct x86 *x)
{
	return has_modrm(x) && !(x->map == X86_MAP_1 && group_dest(x) != NOT_LISTED) &&
		!(x->map == X86_MAP_0F && (x->op & 0xf0) == 0x90);
}

/* Registers of 8 bits: without REX, 4 to 7 are ah ch dh bh. @rm: the operand in ModRM.rm. */
static uint8_t real_reg(const struct x86 *x, uint8_t reg, bool rm)
{
	bool byte =
		x->map == X86_MAP_1 ? !(x->op & 1) && x->op != 0x8d : rm && !(x->op & 1);

	if (x->map == X86_MAP_1 && x->op >= 0xb0 && x->op <= 0xbf)
		byte = x->op < 0xb8;
	if (x->map == X86_MAP_0F)
		byte = rm && ((x->op & 0xf0) == 0x90 || x->op == 0xb6 || x->op == 0xbe);
	return byte && !x->rex && reg >= 4 ? reg - 4 : reg;
}

/* True for sub $imm,%rsp. */
static bool takes_room(const struct x86 *x)
{
	return x->map == X86_MAP_1 && (x->op == 0x81 || x->op == 0x83) && !x->prefix &&
		x->rex == 0x48 && x->modrm == 0xec;
}

/* mov %fs:x,%reg: the stack protector's word, or a thread's own variable. */
static bool reads_thread(const struct x86 *x)
{
	return x->map == X86_MAP_1 && x->op == 0x8b && x->prefix == X86_P_FS_GS &&
		x->bytes[0] == 0x64 && (x->modrm & 0xc7) == 0x04 &&
		x->bytes[x->op_at + 2] == 0x25;
}

/* True if the memory operand is certainly mapped and, if written to, is the function's own. */
static bool is_own_memory(const struct x86 *x, bool written, int32_t frame)
{
	int32_t disp;

	if ((x->modrm & 0xc7) == 0x05) /* x(%rip) */
		return !written;
	if (!x86_base_disp(x, 4, &disp) || disp < 0)
		return false;
	return written ? disp + 8 <= frame : disp < STACK_NEAR;
}

bool x86_step_over(const struct x86 *x, bool write_args, int32_t frame)
{
	enum dest dest = dest_of(x);
	bool lea = x->map == X86_MAP_1 && x->op == 0x8d, memory;
	uint8_t reg = 0, rm = 0, low, written;

	if (takes_room(x))
		return frame >= 0;
	if (dest == NOT_LISTED || (x->prefix & ~X86_P_66 && !reads_thread(x)))
		return false;
	memory = has_modrm(x) && x86_mod(x) != 3 && !lea;
	low = real_reg(x, (x->op & 7) | (x->rex & 1 ? 8 : 0), false);
	if (has_reg(x))
		reg = real_reg(x, x86_reg_no(x), false);
	if (memory && !reads_thread(x) && !is_own_memory(x, dest == DEST_RM, frame))
		return false;
	if (has_modrm(x) && !memory) {
		if (lea && x86_mod(x) == 3)
			return false;
		rm = real_reg(x, x86_rm_no(x), true);
		if (lea && rm == 4) /* a base in the SIB byte */
			rm = (x->bytes[x->op_at + 2] & 7) | (x->rex & 1 ? 8 : 0);
	}
	if (reg == 4 || rm == 4 || (dest == DEST_LOW && low == 4))
		return false;
	if (dest == DEST_NONE || (memory && dest == DEST_RM))
		return true;
	written = dest == DEST_RM  ? rm
		: dest == DEST_REG ? reg
		: dest == DEST_LOW ? low
				   : 0;
	return write_args || !carries_argument(written);
}

/* --- before a ret ----------------------------------------------------------------------------- */

/*
 * Two-byte opcodes on vector registers that move, compare or compute, and write no general
 * register: one bit per opcode. is_vector() distinguishes movq from movd (7e).
 */
static const uint16_t vector[16] = {
	[0x1] = 0x00ff,
	[0x2] = 0xc700,
	[0x5] = 0xfffe,
	[0x6] = 0xffff,
	[0x7] = 0xb0f1,
	[0xc] = 0x0054,
	[0xd] = 0xff7e,
	[0xe] = 0xffff,
	[0xf] = 0x7f7e,
};

static bool is_vector(const struct x86 *x)
{
	static const uint8_t vzeroupper[3] = { 0xc5, 0xf8, 0x77 };

	if (x->map == X86_MAP_VEC)
		return x->len == 3 && memcmp(x->bytes, vzeroupper, 3) == 0;
	return x->map == X86_MAP_0F &&
		(vector[x->op >> 4] >> (x->op & 15) & 1 ||
			(x->op == 0x7e && x->prefix & X86_P_F3));
}

/* Instructions that move the stack pointer, and what is extended in its own register. */
static bool stack_effect(const struct x86 *x, uint16_t *ret_writes)
{
	uint8_t low = (x->op & 7) | (x->rex & 1 ? 8 : 0);

	if (x->map != X86_MAP_1 || x->prefix)
		return false;
	if (x->op >= 0x50 && x->op <= 0x5f)
		*ret_writes = x->op >= 0x58 ? 1u << low : 0;
	else if (x->op == 0xc9) /* leave */
		*ret_writes = 1u << 5;
	else if (x->op == 0x98 || x->op == 0x99) /* cltq, cltd */
		*ret_writes = x->op == 0x98 ? 1u << 0 : 1u << 2;
	else
		return false;
	return true;
}

static uint64_t imm_of(const struct x86 *x, size_t n)
{
	const uint8_t *from = x->bytes + x->len - n;
	int32_t narrow;
	uint64_t wide;

	if (n == 1)
		return (int8_t)*from;
	if (n == 8) {
		memcpy(&wide, from, 8);
		return wide;
	}
	memcpy(&narrow, from, 4);
	return narrow;
}

static void set_number(const struct x86 *x, uint64_t number, struct insn_effect *e)
{
	e->how = INSN_WRITES_NUMBER;
	e->number = x->rex & 8 ? number : (uint32_t)number;
}

static void set_copy(uint8_t from, uint8_t bits, struct insn_effect *e)
{
	e->how = INSN_WRITES_COPY;
	e->from = from;
	e->bits = bits;
}

/* Finds whether the written value is a copy of another register, or a number. */
static void value_effect(const struct x86 *x, struct insn_effect *e)
{
	bool regs = x86_mod(x) == 3;
	uint8_t reg = x86_reg_no(x), rm = x86_rm_no(x), wide = x->rex & 8 ? 64 : 32;

	if (x->prefix)
		return;
	if (x->map == X86_MAP_0F && regs) {
		if (x->op == 0xb7 || (x->op == 0xb6 && (x->rex || rm < 4)))
			set_copy(rm, x->op == 0xb7 ? 16 : 8, e);
		return;
	}
	if (x->map != X86_MAP_1)
		return;
	if (x->op >= 0xb8 && x->op <= 0xbf)
		set_number(x, imm_of(x, x->rex & 8 ? 8 : 4), e);
	else if (!regs)
		return;
	else if (x->op == 0x89)
		set_copy(reg, wide, e);
	else if (x->op == 0x8b)
		set_copy(rm, wide, e);
	else if ((x->op == 0x31 || x->op == 0x33 || x->op == 0x29 || x->op == 0x2b) && reg == rm)
		set_number(x, 0, e);
	else if (x->op == 0xc7)
		set_number(x, imm_of(x, 4), e);
	else if (x->op == 0x83 && x86_digit(x) == 1 && imm_of(x, 1) == UINT64_MAX)
		set_number(x, UINT64_MAX, e);
}

bool x86_effect(const struct x86 *x, struct insn_effect *ret_effect)
{
	struct insn_effect e = { 0 };
	enum dest dest = dest_of(x);
	bool memory = has_modrm(x) && x86_mod(x) != 3;

	if (x->prefix & X86_P_LOCK)
		return false;
	if (stack_effect(x, &e.writes) || is_vector(x) || x86_is_nop(x) ||
		insn_is_endbr(x->bytes, x->len)) {
		*ret_effect = e;
		return true;
	}
	if (dest == NOT_LISTED)
		return false;
	if (dest == DEST_REG)
		e.writes = 1u << real_reg(x, x86_reg_no(x), false);
	else if (dest == DEST_RM && !memory)
		e.writes = 1u << real_reg(x, x86_rm_no(x), true);
	else if (dest == DEST_LOW)
		e.writes = 1u << real_reg(x, (x->op & 7) | (x->rex & 1 ? 8 : 0), false);
	else if (dest == DEST_ACC)
		e.writes = 1u << 0;
	if (e.writes)
		value_effect(x, &e);
	*ret_effect = e;
	return true;
}
