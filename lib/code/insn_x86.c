// SPDX-License-Identifier: BSD-2-Clause
// x86-64: what instructions are and do, and which the kernel can probe, refuses to probe, executes
// incorrectly, and emulates.
#include <stdio.h>
#include <string.h>

#include "internal.h"

#define RSP 4
#define RBP 5

static uint8_t prefix_bit(uint8_t byte)
{
	switch (byte) {
	case 0x66:
		return X86_P_66;
	case 0x67:
		return X86_P_67;
	case 0xf2:
		return X86_P_F2;
	case 0xf3:
		return X86_P_F3;
	case 0xf0:
		return X86_P_LOCK;
	case 0x3e:
		return X86_P_DS;
	case 0x2e:
	case 0x26:
	case 0x36:
		return X86_P_CS;
	case 0x64:
	case 0x65:
		return X86_P_FS_GS;
	}
	return 0;
}

/* 8f is XOP when the low five bits of the next byte, its map, are 8 or more; else pop. */
static bool is_vector(const uint8_t *b, size_t len)
{
	switch (b[0]) {
	case 0xc4:
	case 0xc5:
	case 0x62:
	case 0xd5:
		return true;
	case 0x8f:
		return len > 1 && (b[1] & 0x1f) >= 8;
	}
	return false;
}

bool x86_split(const uint8_t *bytes, size_t len, struct x86 *x)
{
	size_t i = 0;

	*x = (struct x86) { .bytes = bytes, .len = len };
	while (i < len && prefix_bit(bytes[i]))
		x->prefix |= prefix_bit(bytes[i++]);
	if (i < len && (bytes[i] & 0xf0) == 0x40)
		x->rex = bytes[i++];
	if (i >= len || i > 14)
		return false;
	if (x->rex && (prefix_bit(bytes[i]) || (bytes[i] & 0xf0) == 0x40))
		return false; /* a REX that counts for nothing: no compiler writes it */
	if (is_vector(bytes + i, len - i)) {
		x->map = X86_MAP_VEC;
	} else if (bytes[i] == 0x0f) {
		x->map = X86_MAP_0F;
		if (++i < len && (bytes[i] == 0x38 || bytes[i] == 0x3a)) {
			x->map = bytes[i] == 0x38 ? X86_MAP_0F38 : X86_MAP_0F3A;
			i++;
		}
	}
	if (i >= len)
		return false;
	x->op = bytes[i];
	x->op_at = i;
	x->modrm = i + 1 < len ? bytes[i + 1] : 0;
	return true;
}

/* ModRM at @b, with its SIB byte and displacement; 0 when cut short. */
static size_t modrm_length(const uint8_t *b, size_t len)
{
	size_t n = 1;
	uint8_t mod, rm;

	if (len < 1)
		return 0;
	mod = b[0] >> 6;
	rm = b[0] & 7;
	if (mod == 3)
		return 1;
	if (rm == RSP) {
		if (len < 2)
			return 0;
		n = 2;
		if (mod == 0 && (b[1] & 7) == RBP)
			n += 4;
	} else if (mod == 0 && rm == RBP) {
		n += 4;
	}
	n += mod == 1 ? 1 : mod == 2 ? 4 : 0;
	return n <= len ? n : 0;
}

/* VEX and EVEX: an immediate follows in map 3, and in map 1 for the old shuffles. */
static size_t vector_length(const uint8_t *b, size_t len)
{
	static const uint8_t payload[] = { [0xc5 - 0xc4] = 1, [0xc4 - 0xc4] = 2 };
	size_t n = b[0] == 0x62                ? 3
		: b[0] == 0xc4 || b[0] == 0xc5 ? payload[b[0] - 0xc4]
					       : 0;
	uint8_t map, op;
	size_t m;

	if (!n || len < n + 2)
		return 0;
	map = b[0] == 0xc5 ? 1 : b[0] == 0xc4 ? b[1] & 0x1f : b[1] & 7;
	if (map == 0 || map == 4 || map > 6)
		return 0;
	op = b[n + 1];
	n += 2;
	if (b[0] != 0x62 && map == 1 && op == 0x77)
		return n;
	m = modrm_length(b + n, len - n);
	if (!m)
		return 0;
	n += m;
	if (map == 3 ||
		(map == 1 &&
			((op >= 0x70 && op <= 0x73) || op == 0xc2 ||
				(op >= 0xc4 && op <= 0xc6))))
		n++;
	return n;
}

/*
 * Capstone 4.0.2 lacks AVX-512 beyond its first forms, shadow stack instructions, GFNI and others:
 * complete classes with a regular length. It knows all one-byte opcodes.
 */
size_t x86_length(const uint8_t *bytes, size_t len)
{
	struct x86 x;
	size_t n, m;

	if (!x86_split(bytes, len, &x) || x.prefix & X86_P_LOCK)
		return 0;
	if (x.map == X86_MAP_VEC) {
		if (x.rex || x.prefix & ~(X86_P_67 | X86_P_FS_GS))
			return 0;
		m = vector_length(bytes + x.op_at, len - x.op_at);
		n = x.op_at + m;
	} else {
		n = x.op_at + 1;
		m = modrm_length(bytes + n, len - n);
		n += m;
		if (x.map == X86_MAP_0F3A)
			n++;
		else if (x.map == X86_MAP_0F && x.op != 0x01 && x.op != 0x1e &&
			x.op != 0xae && x.op != 0xc7)
			return 0;
		else if (x.map == X86_MAP_1)
			return 0;
	}
	return m && n <= len && n <= 15 ? n : 0;
}

bool x86_is_nop(const struct x86 *x)
{
	if (x->map == X86_MAP_1)
		return x->op == 0x90 && !(x->rex & 1) && !(x->prefix & X86_P_F3);
	return x->map == X86_MAP_0F && x->op == 0x1f && x86_digit(x) == 0;
}

static int32_t imm8(const struct x86 *x)
{
	return (int8_t)x->bytes[x->len - 1];
}

static int32_t imm32(const struct x86 *x)
{
	int32_t v;

	memcpy(&v, x->bytes + x->len - 4, 4);
	return v;
}

/* Reads the displacement of a ModRM operand whose only base is @base. False for other forms. */
static bool x86_base_disp(const struct x86 *x, uint8_t base, int32_t *ret_disp)
{
	const uint8_t *b = x->bytes + x->op_at + 2;

	if (x86_mod(x) == 3 || (x86_mod(x) == 0 && base == RBP) || x->rex & 3)
		return false;
	if ((x->modrm & 7) != base)
		return false;
	if (base == RSP && *b++ != 0x24)
		return false;
	if (x86_mod(x) == 0)
		*ret_disp = 0;
	else if (x86_mod(x) == 1)
		*ret_disp = (int8_t)*b;
	else
		memcpy(ret_disp, b, 4);
	return true;
}

static void set_sp(struct insn *insn, enum insn_sp sp, int32_t arg)
{
	insn->sp = sp;
	insn->sp_arg = arg;
}

/* mov, lea and arithmetic: only those with the stack pointer as destination matter. */
static void classify_sp_op(const struct x86 *x, struct insn *insn)
{
	bool rm_sp = x86_mod(x) == 3 && x86_rm_no(x) == RSP;
	bool wide = x->rex & 8;
	int32_t disp;

	switch (x->op) {
	case 0x81:
	case 0x83:
		if (!rm_sp || x86_digit(x) == 7)
			return;
		disp = x->op == 0x83 ? imm8(x) : imm32(x);
		if (wide && x86_digit(x) == 0)
			set_sp(insn, INSN_SP_ADD, disp);
		else if (wide && x86_digit(x) == 5)
			set_sp(insn, INSN_SP_ADD, disp == INT32_MIN ? 0 : -disp);
		else
			set_sp(insn, INSN_SP_LOST, 0);
		return;
	case 0x89:
		if (rm_sp)
			set_sp(insn,
				wide && x86_reg_no(x) == RBP ? INSN_SP_FROM_FP
							     : INSN_SP_LOST,
				0);
		else if (wide && x86_mod(x) == 3 && x86_rm_no(x) == RBP &&
			x86_reg_no(x) == RSP)
			set_sp(insn, INSN_SP_TO_FP, 0);
		return;
	case 0x8b:
		if (x86_reg_no(x) == RSP)
			set_sp(insn,
				wide && x86_mod(x) == 3 && x86_rm_no(x) == RBP
					? INSN_SP_FROM_FP
					: INSN_SP_LOST,
				0);
		else if (wide && x86_reg_no(x) == RBP && x86_mod(x) == 3 &&
			x86_rm_no(x) == RSP)
			set_sp(insn, INSN_SP_TO_FP, 0);
		return;
	case 0x8d:
		if (x86_reg_no(x) == RSP) {
			if (wide && x86_base_disp(x, RSP, &disp))
				set_sp(insn, INSN_SP_ADD, disp);
			else if (wide && x86_base_disp(x, RBP, &disp))
				set_sp(insn, INSN_SP_FROM_FP, disp);
			else
				set_sp(insn, INSN_SP_LOST, 0);
		} else if (wide && x86_reg_no(x) == RBP && x86_base_disp(x, RSP, &disp)) {
			set_sp(insn, INSN_SP_TO_FP, disp);
		}
		return;
	case 0x87:
		if (x86_reg_no(x) == RSP || rm_sp)
			set_sp(insn, INSN_SP_LOST, 0);
		return;
	case 0xc7:
		if (rm_sp)
			set_sp(insn, INSN_SP_LOST, 0);
		return;
	}
	/* add to xor between registers, cmp left out */
	if (x->op < 0x38 &&
		((x->op & 7) == 1 ? rm_sp : (x->op & 7) == 3 && x86_reg_no(x) == RSP))
		set_sp(insn, INSN_SP_LOST, 0);
}

static void classify_sp(const struct x86 *x, struct insn *insn)
{
	uint8_t low = (x->op & 7) | (x->rex & 1 ? 8 : 0);

	if (x->op >= 0x50 && x->op <= 0x5f) {
		if (x->prefix & X86_P_66 || (x->op >= 0x58 && low == RSP))
			set_sp(insn, INSN_SP_LOST, 0);
		else
			set_sp(insn, INSN_SP_ADD, x->op < 0x58 ? -8 : 8);
	} else if ((x->op == 0xbc || x->op == 0x94) && !(x->rex & 1)) {
		set_sp(insn, INSN_SP_LOST, 0); /* mov $imm, xchg %rax */
	} else if (x->op == 0x68 || x->op == 0x6a || x->op == 0x9c ||
		(x->op == 0xff && x86_digit(x) == 6)) {
		set_sp(insn, INSN_SP_ADD, -8);
	} else if (x->op == 0x9d || x->op == 0x8f) {
		set_sp(insn, INSN_SP_ADD, 8);
	} else if (x->op == 0xc9) {
		set_sp(insn, INSN_SP_FROM_FP, 8);
	} else if (x->op == 0xc8) {
		set_sp(insn, INSN_SP_LOST, 0);
	} else {
		classify_sp_op(x, insn);
	}
}

static void set_jump(struct insn *insn, enum insn_flow flow, int32_t rel)
{
	insn->flow = flow;
	insn->has_target = true;
	insn->target = insn->addr + insn->len + (int64_t)rel;
}

/* ff /2 to /5: calls and jumps through a register or memory. */
static void classify_indirect(const struct x86 *x, struct insn *insn)
{
	uint8_t sib = x->op_at + 2u < x->len ? x->bytes[x->op_at + 2] : 0;
	bool has_sib = x86_mod(x) != 3 && (x->modrm & 7) == RSP;

	switch (x86_digit(x)) {
	case 2:
		insn->flow = INSN_CALL;
		break;
	case 4:
		if (x->prefix & X86_P_DS) {
			insn->flow = INSN_TABLE;
		} else if (x86_mod(x) == 3) {
			insn->flow = INSN_JMP_REG;
			insn->reg = x86_rm_no(x);
		} else {
			insn->flow = INSN_JMP_MEM;
			insn->indexed = has_sib && ((sib >> 3 & 7) != RSP || x->rex & 2);
			/* table(,%reg,8): a displacement and an index, no base */
			if (insn->indexed && x86_mod(x) == 0 && (sib & 7) == RBP)
				insn->flow = INSN_TABLE;
		}
		break;
	case 3:
	case 5:
		insn->flow = INSN_FAR;
	}
}

static bool classify_one_byte(const struct x86 *x, struct insn *insn)
{
	/* Intel takes a jump with 66 for the plain one, AMD for one of 16 bits. */
	bool odd = x->prefix & X86_P_66 && !(x->rex & 8);

	if (x->op >= 0x70 && x->op <= 0x7f) {
		insn->cond = x->op & 15;
		set_jump(insn, INSN_JCC, imm8(x));
		return !odd;
	}
	switch (x->op) {
	case 0xe0:
	case 0xe1:
	case 0xe2:
	case 0xe3:
		insn->cond = INSN_COND_NONE;
		if (x->op == 0xe3)
			insn->cond =
				x->prefix & X86_P_67 ? PLAN_COND_ECXZ : PLAN_COND_CXZ;
		set_jump(insn, INSN_JCC, imm8(x));
		return !odd;
	case 0xeb:
		set_jump(insn, INSN_JMP, imm8(x));
		return !odd;
	case 0xe9:
	case 0xe8:
		set_jump(insn, x->op == 0xe9 ? INSN_JMP : INSN_CALL, imm32(x));
		return !odd;
	case 0xc2:
	case 0xc3:
		insn->flow = INSN_RET;
		return !odd;
	case 0xca:
	case 0xcb:
	case 0xcf:
		insn->flow = INSN_FAR;
		break;
	case 0xcc:
	case 0xf1:
	case 0xf4:
		insn->flow = INSN_STOP;
		break;
	case 0xc7:
		if (x->modrm == 0xf8) { /* xbegin */
			insn->cond = INSN_COND_NONE;
			set_jump(insn, INSN_JCC, imm32(x));
			return !odd;
		}
		break;
	case 0xff:
		classify_indirect(x, insn);
		break;
	}
	classify_sp(x, insn);
	return true;
}

bool x86_classify(const struct x86 *x, uint64_t addr, struct insn *insn)
{
	insn->addr = addr;
	insn->len = x->len;
	insn->nop = x86_is_nop(x) || (x->len == 2 && !x->bytes[0] && !x->bytes[1]);
	insn->lock = x->bytes[0] == 0xf0;
	x86_find_data(x, insn);
	x86_find_stack(x, insn);
	if (x->map == X86_MAP_1)
		return classify_one_byte(x, insn);
	if (x->map != X86_MAP_0F)
		return true;
	if ((x->op & 0xf0) == 0x80) {
		insn->cond = x->op & 15;
		set_jump(insn, INSN_JCC, imm32(x));
		return !(x->prefix & X86_P_66) || x->rex & 8;
	}
	if (x->op == 0x0b || x->op == 0xb9 || x->op == 0xff)
		insn->flow = INSN_STOP;
	else if (x->op == 0x07 || x->op == 0x34 || x->op == 0x35)
		insn->flow = INSN_FAR;
	return true;
}

/*
 * A compiler's jump table of 32-bit differences: movslq (table,index,4),%a; add %b,%a; jmp *%a.
 * Other instructions may be between them if the sum is the last write.
 */
bool x86_is_dispatch(const struct insn *insn, size_t prev, const uint8_t *bytes)
{
	size_t max = prev < 12 ? prev : 12;
	uint8_t other = 0xff;
	bool sum = false;

	for (size_t i = 1; i <= max; i++) {
		const struct insn *p = insn - i;
		const uint8_t *b = bytes - (insn->addr - p->addr);
		struct x86 x;

		if (p->flow != INSN_PLAIN || !x86_split(b, p->len, &x))
			return false;
		if (x.map != X86_MAP_1)
			continue;
		if (!sum) {
			if (!(x.rex & 8) || x86_mod(&x) != 3)
				continue;
			if (x.op == 0x01 && x86_rm_no(&x) == insn->reg)
				other = x86_reg_no(&x);
			else if (x.op == 0x03 && x86_reg_no(&x) == insn->reg)
				other = x86_rm_no(&x);
			else
				continue;
			sum = true;
		} else if (x.op == 0x63 && x.rex & 8 && x86_mod(&x) != 3 &&
			(x.modrm & 7) == RSP &&
			(x86_reg_no(&x) == insn->reg || x86_reg_no(&x) == other)) {
			return true;
		}
	}
	return false;
}

/* --- probes --------------------------------------------------------------------------------- */

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
 * register: one bit per opcode. is_vector_only() distinguishes movq from movd (7e).
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

static bool is_vector_only(const struct x86 *x)
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
	if (stack_effect(x, &e.writes) || is_vector_only(x) || x86_is_nop(x) ||
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
