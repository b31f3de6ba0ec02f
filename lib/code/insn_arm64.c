// SPDX-License-Identifier: BSD-2-Clause
// Decodes arm64 instructions: targets, effects on the stack pointer, and how the kernel handles a
// probe on them (arch/arm64/kernel/probes/decode-insn.c).
#include <stdio.h>

#include "internal.h"

#define SP 31
#define FP 29

/* Number of words before a jump that are searched for its table's address. */
#define A64_TABLE_LOOK 64

static bool is(uint32_t w, uint32_t mask, uint32_t value)
{
	return (w & mask) == value;
}

/* @bits wide at @lsb, signed, in words. */
static int64_t offset(uint32_t w, unsigned int lsb, unsigned int bits)
{
	uint32_t v = w << (32 - lsb - bits);

	return (int64_t)((int32_t)v >> (32 - bits)) * 4;
}

static uint8_t field(uint32_t w, unsigned int lsb)
{
	return w >> lsb & 31;
}

static void set_jump(struct insn *insn, enum insn_flow flow, int64_t rel)
{
	insn->flow = flow;
	insn->has_target = true;
	insn->target = insn->addr + rel;
}

static void set_sp(struct insn *insn, enum insn_sp sp, int32_t arg)
{
	insn->sp = sp;
	insn->sp_arg = arg;
}

/* b.cond, bc.cond, cbz, cbnz, tbz, tbnz. */
static bool classify_conditional(uint32_t w, struct insn *insn)
{
	if (is(w, 0xff000000, 0x54000000)) {
		insn->cond = PLAN_COND_B + (w & 15);
		set_jump(insn, INSN_JCC, offset(w, 5, 19));
		return true;
	}
	insn->reg = field(w, 0);
	if (is(w, 0x7e000000, 0x34000000)) {
		insn->cond = w >> 24 & 1 ? PLAN_COND_CBNZ : PLAN_COND_CBZ;
		insn->width = w >> 31 ? 64 : 32;
		set_jump(insn, INSN_JCC, offset(w, 5, 19));
		return true;
	}
	if (is(w, 0x7e000000, 0x36000000)) {
		insn->cond = w >> 24 & 1 ? PLAN_COND_TBNZ : PLAN_COND_TBZ;
		insn->bit = (w >> 31) << 5 | field(w, 19);
		set_jump(insn, INSN_JCC, offset(w, 5, 14));
		return true;
	}
	/* FEAT_CMPBR compares two registers or a register and a number in one word */
	if (is(w, 0x7f000000, 0x74000000) || is(w, 0x7f000000, 0x75000000)) {
		insn->cond = INSN_COND_NONE;
		set_jump(insn, INSN_JCC, offset(w, 5, 9));
		return true;
	}
	return false;
}

static bool is_ret_auth(uint32_t w)
{
	/* the second form, with an immediate, came with FEAT_PAuth_LR */
	return is(w, 0xfffffbff, 0xd65f0bff) || is(w, 0xffc0001f, 0x5500001f);
}

static bool classify_branch(uint32_t w, struct insn *insn)
{
	if (is(w, 0x7c000000, 0x14000000)) {
		set_jump(insn, w >> 31 ? INSN_CALL : INSN_JMP, offset(w, 0, 26));
	} else if (is(w, 0xfffffc1f, 0xd65f0000)) {
		insn->flow = INSN_RET;
	} else if (is_ret_auth(w)) {
		insn->flow = INSN_RET_AUTH;
	} else if (is(w, 0xfffffc1f, 0xd61f0000) || is(w, 0xfefff800, 0xd61f0800)) {
		insn->flow = INSN_JMP_REG; /* br, braa and the like */
		insn->reg = field(w, 5);
	} else if (is(w, 0xfffffc1f, 0xd63f0000) || is(w, 0xfefff800, 0xd63f0800)) {
		insn->flow = INSN_CALL;
	} else if (is(w, 0xffe0001f, 0xd4200000) || is(w, 0xffe0001f, 0xd4400000) ||
		is(w, 0xffff0000, 0x00000000)) {
		insn->flow = INSN_STOP; /* brk, hlt, udf */
	} else if (is(w, 0xfffffbff, 0xd69f03e0) || is(w, 0xfffffbff, 0xd69f0bff)) {
		insn->flow = INSN_FAR; /* eret */
	} else {
		return classify_conditional(w, insn);
	}
	return true;
}

/* Loads and stores that write the address back into the stack pointer. */
static bool classify_writeback(uint32_t w, struct insn *insn)
{
	int32_t scale;

	if (field(w, 5) != SP)
		return false;
	/* stp and ldp, pre- and post-indexed; bit 26: vector registers */
	if (is(w, 0x3a800000, 0x28800000)) {
		scale = w >> 26 & 1 ? 2 + (w >> 30) : 2 + (w >> 31);
		set_sp(insn, INSN_SP_ADD, (offset(w, 15, 7) / 4) * (1 << scale));
		return true;
	}
	/* str and ldr, pre- and post-indexed by 9 bits */
	if (is(w, 0x3b200400, 0x38000400)) {
		set_sp(insn, INSN_SP_ADD, offset(w, 12, 9) / 4);
		return true;
	}
	return false;
}

static void classify_sp(uint32_t w, struct insn *insn)
{
	int32_t imm = (w >> 10 & 0xfff) << (w >> 22 & 1 ? 12 : 0);
	uint8_t rd = field(w, 0), rn = field(w, 5);

	if (classify_writeback(w, insn))
		return;
	if (is(w, 0xbf800000, 0x91000000)) {
		/* add or sub (immediate) of 64 bits, flags left alone */
		if (w >> 30 & 1)
			imm = -imm;
		if (rd == SP && rn == SP)
			set_sp(insn, INSN_SP_ADD, imm);
		else if (rd == SP && rn == FP)
			set_sp(insn, INSN_SP_FROM_FP, imm);
		else if (rd == FP && rn == SP)
			set_sp(insn, INSN_SP_TO_FP, imm);
		else if (rd == SP)
			set_sp(insn, INSN_SP_LOST, 0);
		return;
	}
	/* add or sub (extended register), and or orr eor (immediate), addvl and addpl */
	if (rd == SP &&
		(is(w, 0x3fe00000, 0x0b200000) ||
			(is(w, 0x1f800000, 0x12000000) && (w >> 29 & 3) != 3) ||
			is(w, 0xffa0f800, 0x04205000)))
		set_sp(insn, INSN_SP_LOST, 0);
}

/* str or stp of x30 to where another register than sp and the frame pointer points. */
static void find_stack(uint32_t w, struct insn *insn)
{
	bool pair = is(w, 0xfe400000, 0xa8000000);
	bool one = is(w, 0xffc00000, 0xf9000000) || is(w, 0xffe00000, 0xf8000000);

	if ((one && field(w, 0) == 30) ||
		(pair && (field(w, 0) == 30 || field(w, 10) == 30)))
		if (field(w, 5) != SP && field(w, 5) != FP)
			insn->stack = INSN_STACK_SAVES_LR;
}

/* ldr (literal), of vector registers, too, and adr. */
static void find_data(uint32_t w, struct insn *insn)
{
	if (is(w, 0x3b000000, 0x18000000)) {
		insn->has_data = true;
		insn->data = insn->addr + offset(w, 5, 19);
	} else if (is(w, 0x9f000000, 0x10000000)) {
		insn->has_data = insn->takes_addr = true;
		insn->data = insn->addr + offset(w, 5, 19) + (w >> 29 & 3);
	}
}

bool a64_classify(uint32_t w, uint64_t addr, struct insn *insn)
{
	uint32_t op0 = w >> 25 & 15;

	insn->addr = addr;
	insn->len = 4;
	insn->nop = w == 0xd503201f || w == 0;
	/* Main encoding groups: 1 and 3 are unallocated, 0 is udf or SME. */
	if (op0 == 1 || op0 == 3 || (op0 == 0 && !(w >> 31) && w >> 16))
		return false;
	if (!classify_branch(w, insn))
		classify_sp(w, insn);
	find_data(w, insn);
	find_stack(w, insn);
	return true;
}

static bool refuse(char *why, size_t size, const char *text)
{
	snprintf(why, size, "%s", text);
	return false;
}

/* Hints that the kernel single-steps: nop, bti, and instructions that sign but do not check. */
static bool is_stepped_hint(uint32_t w)
{
	switch (w >> 5 & 0x7f) {
	case 0:  /* nop */
	case 7:  /* xpaclri */
	case 8:  /* pacia1716 */
	case 10: /* pacib1716 */
	case 24: /* paciaz */
	case 25: /* paciasp */
	case 26: /* pacibz */
	case 27: /* pacibsp */
	case 32: /* bti */
	case 34: /* bti c */
	case 36: /* bti j */
	case 38: /* bti jc */
		return true;
	}
	return false;
}

static bool is_branch(uint32_t w)
{
	struct insn insn = { 0 };

	return classify_branch(w, &insn) || is(w, 0xfe000000, 0xd6000000);
}

bool a64_emulated(uint32_t w)
{
	return is(w, 0x7c000000, 0x14000000) ||  /* b, bl */
		is(w, 0xff000010, 0x54000000) || /* b.cond */
		is(w, 0x7c000000, 0x34000000) || /* cbz, cbnz, tbz, tbnz */
		is(w, 0x1f000000, 0x10000000) || /* adr, adrp */
		is(w, 0xff9ffc1f, 0xd61f0000);   /* br, blr, ret */
}

bool a64_probe_ok(uint32_t w, char *why, size_t size)
{
	if (a64_emulated(w))
		return true;
	if (is_branch(w))
		return refuse(
			why, size, "the kernel refuses to probe this kind of branch");
	if (is(w, 0xfffff01f, 0xd503201f) && !is_stepped_hint(w))
		return refuse(why, size, "the kernel refuses to probe this hint");
	if (is(w, 0xff000000, 0xd4000000))
		return refuse(why, size, "the kernel refuses to probe an exception");
	if (is(w, 0xfff00000, 0xd5100000) || is(w, 0xfff8f01f, 0xd500401f))
		return refuse(why, size,
			"the kernel refuses to probe a write of a system register");
	if (is(w, 0xffffffe0, 0xd53b4220))
		return refuse(why, size, "the kernel refuses to probe a read of DAIF");
	/* vector forms are let through by the kernel, and would load from the wrong place */
	if (is(w, 0x3b000000, 0x18000000))
		return refuse(
			why, size, "a load relative to itself can't be single-stepped");
	if (is(w, 0x3f800000, 0x08000000))
		return refuse(why, size, "an exclusive access fails when single-stepped");
	if (is(w, 0x3b200c00, 0x19000400))
		return refuse(why, size,
			"the kernel refuses to probe a memory copy instruction");
	return true;
}

/* add Xt, Xbase, Wdiff, sxt #2 directly before br Xt: a table of differences. */
bool a64_is_dispatch(const struct insn *insn, size_t prev, const uint8_t *bytes)
{
	for (size_t i = 1; i <= prev && i <= 4; i++) {
		uint32_t w = a64_word(bytes - 4 * i);

		if (insn[-(ptrdiff_t)i].flow != INSN_PLAIN)
			return false;
		if (field(w, 0) != insn->reg)
			continue;
		/* extended: sxtb, sxth or sxtw; shifted by 2: after ldrsw */
		return (is(w, 0xffe00000, 0x8b200000) && (w >> 13 & 7) >= 4) ||
			is(w, 0xffe0fc00, 0x8b000800);
	}
	return false;
}

/* The word that last wrote @reg, among @max before @bytes; its distance, or 0. */
static size_t last_write(const uint8_t *bytes, size_t from, size_t max, uint8_t reg)
{
	for (size_t i = from; i <= max; i++) {
		uint32_t w = a64_word(bytes - 4 * i);

		/* loads, and data processing by immediates and registers, write bits 0-4 */
		if (field(w, 0) == reg && ((w >> 25 & 5) == 4 || (w >> 26 & 7) == 4 ||
						  (w >> 25 & 7) == 5))
			return i;
	}
	return 0;
}

/* adrp and add, or adr, whose sum the instruction at distance @i leaves. */
static bool address_of(const struct insn *insn, size_t i, size_t max, const uint8_t *bytes,
	uint64_t *ret_addr)
{
	uint32_t w = a64_word(bytes - 4 * i), page;
	size_t k;

	if (insn[-(ptrdiff_t)i].has_data && insn[-(ptrdiff_t)i].takes_addr) {
		*ret_addr = insn[-(ptrdiff_t)i].data;
		return true;
	}
	if (!is(w, 0xff800000, 0x91000000))
		return false;
	k = last_write(bytes, i + 1, max, field(w, 5));
	page = k ? a64_word(bytes - 4 * k) : 0;
	if (!is(page, 0x9f000000, 0x90000000))
		return false;
	*ret_addr = ((insn->addr - 4 * k) & ~0xfffull) +
		(offset(page, 5, 19) + (page >> 29 & 3)) * 4096 +
		((w >> 10 & 0xfff) << (w >> 22 & 1 ? 12 : 0));
	return true;
}

/* Loads with an index: ldrb ldrh ldrsb ldrsh of 32 bits, ldrsw, ldr. */
static bool load_form(uint32_t w, struct insn_table *t)
{
	if ((w & 0x3f200c00) != 0x38200800)
		return false;
	t->width = 1 << (w >> 30);
	t->is_signed = w >> 23 & 1;
	return (w >> 22 & 3) != 0;
}

/*
 * Loads a difference from an array and adds an address: br Xsum; add Xsum, Xanchor, Xdiff; ldr
 * Xdiff, [Xtable, Xindex].
 */
bool a64_table(const struct insn *insn, size_t prev, const uint8_t *bytes,
	struct insn_table *t)
{
	size_t max = prev < A64_TABLE_LOOK ? prev : A64_TABLE_LOOK;
	size_t add = last_write(bytes, 1, max, insn->reg), load, base, anchor;
	uint32_t w = add ? a64_word(bytes - 4 * add) : 0;
	bool extended = is(w, 0xffe00000, 0x8b200000);

	*t = (struct insn_table) { .form = INSN_TABLE_REL };
	if (!extended && !is(w, 0xff200000, 0x8b000000))
		return false;
	t->scale = 1 << (w >> 10 & (extended ? 7 : 63));
	load = last_write(bytes, add + 1, max, field(w, 16));
	anchor = last_write(bytes, add + 1, max, field(w, 5));
	if (!load || !anchor || !load_form(a64_word(bytes - 4 * load), t))
		return false;
	/* the extension of the sum defines the sign of a value loaded without one */
	if (extended)
		t->is_signed |= (w >> 13 & 7) >= 4 && 1 << (w >> 13 & 3) == t->width;
	base = last_write(bytes, load + 1, max, field(a64_word(bytes - 4 * load), 5));
	return base && address_of(insn, base, max, bytes, &t->base) &&
		address_of(insn, anchor, max, bytes, &t->anchor);
}

/* cmp Wn, #imm; b.hi or its like. */
bool a64_index_bound(const struct insn *insn, const uint8_t *bytes, const struct insn *jcc,
	uint64_t *ret_cnt)
{
	uint32_t w = a64_word(bytes);
	uint8_t cond = jcc ? jcc->cond - PLAN_COND_B : 0;

	(void)insn;
	if (!is(w, 0x7f80001f, 0x7100001f) || !jcc)
		return false;
	if (jcc->cond < PLAN_COND_B || (cond != 2 && cond != 3 && cond != 8 && cond != 9))
		return false;
	*ret_cnt = ((w >> 10 & 0xfff) << (w >> 22 & 1 ? 12 : 0)) + (cond >= 8);
	return true;
}

/* mov sp, Xn is add sp, Xn, #0: of the frame pointer it is known; and sp, ... aligns. */
bool a64_switches_stack(const struct insn *insn, uint32_t word)
{
	if (insn->flow == INSN_FAR)
		return true;
	return insn->sp == INSN_SP_LOST && !is(word, 0x1f800000, 0x12000000) &&
		!(is(word, 0x7fe00000, 0x4b200000) && field(word, 5) == SP);
}

/* adrp x16; ldr x17, [x16, ...]; add x16, x16, ...; br x17; possibly after a bti c. */
bool a64_is_plt(const uint8_t *bytes, size_t len)
{
	if (len >= 4 && a64_word(bytes) == 0xd503245f) {
		bytes += 4;
		len -= 4;
	}
	return len >= 16 && is(a64_word(bytes), 0x9f00001f, 0x90000010) &&
		is(a64_word(bytes + 4), 0xffc003ff, 0xf9400211);
}

uint64_t a64_plt_word(const uint8_t *bytes, uint64_t addr)
{
	uint32_t adrp, ldr;
	int64_t page;

	if (a64_word(bytes) == 0xd503245f) {
		bytes += 4;
		addr += 4;
	}
	adrp = a64_word(bytes);
	ldr = a64_word(bytes + 4);
	page = (int64_t)((uint64_t)((adrp >> 5 & 0x7ffff) << 2 | (adrp >> 29 & 3)) << 43) >> 31;
	return (addr & ~0xfffULL) + page + (ldr >> 10 & 0xfff) * 8;
}
