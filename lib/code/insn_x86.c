// SPDX-License-Identifier: BSD-2-Clause
// Decodes x86-64 instructions: their parts, targets and effects on the stack pointer.
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

/* The displacement of a ModRM whose base is @base alone; false when it is another form. */
bool x86_base_disp(const struct x86 *x, uint8_t base, int32_t *ret_disp)
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
