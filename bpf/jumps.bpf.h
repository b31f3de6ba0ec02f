/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Does the jump that is probed leave its function? What does a call find that ends early? Flags
 * and registers, evaluated.
 */
#ifndef FUNCSNOOP_JUMPS_BPF_H
#define FUNCSNOOP_JUMPS_BPF_H

#include "core.bpf.h"
#include "shared/layout.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fsn_jump);
} fsn_jumps SEC(".maps");

/* Conditions above the processor's own 16; lib/code/plan.h has the same numbers. */
#define COND_CXZ  16
#define COND_ECXZ 17
#define COND_CBZ  18
#define COND_CBNZ 19
#define COND_TBZ  20
#define COND_TBNZ 21
#define COND_B    32

#if defined(__TARGET_ARCH_x86)
#define FLAG(n) (flags >> (n) & 1)

/* The low 4 bits of a jcc's opcode: Intel SDM vol. 2, table "condition codes". */
static __always_inline bool jcc_taken(const struct pt_regs *ctx, __u64 cookie)
{
	__u64 cond = cookie >> FSN_COOKIE_COND_SHIFT & 63, flags = ctx->flags;
	bool cf = FLAG(0), pf = FLAG(2), zf = FLAG(6), sf = FLAG(7), of = FLAG(11), yes;

	if (cond == COND_CXZ)
		return ctx->cx == 0;
	if (cond == COND_ECXZ)
		return (__u32)ctx->cx == 0;
	switch (cond >> 1 & 7) {
	case 0:
		yes = of;
		break;
	case 1:
		yes = cf;
		break;
	case 2:
		yes = zf;
		break;
	case 3:
		yes = cf || zf;
		break;
	case 4:
		yes = sf;
		break;
	case 5:
		yes = pf;
		break;
	case 6:
		yes = sf != of;
		break;
	default:
		yes = zf || sf != of;
	}
	return yes != (cond & 1);
}

/* By the processor's numbers. */
static __always_inline __u64 reg_value(const struct pt_regs *ctx, __u32 reg)
{
	__u64 value = 0;

	PICK(0, ax);
	PICK(1, cx);
	PICK(2, dx);
	PICK(3, bx);
	PICK(4, sp);
	PICK(5, bp);
	PICK(6, si);
	PICK(7, di);
	PICK(8, r8);
	PICK(9, r9);
	PICK(10, r10);
	PICK(11, r11);
	PICK(12, r12);
	PICK(13, r13);
	PICK(14, r14);
	PICK(15, r15);
	return value;
}
#else
static __always_inline __u64 reg_value(const struct pt_regs *ctx, __u32 reg)
{
	__u64 value = 0; /* 31 is xzr */

#pragma unroll
	for (int i = 0; i < 31; i++)
		PICK(i, regs[i]);
	return value;
}

/* Arm ARM C1.2.4: conditions, on N Z C V in bits 31 to 28 of pstate. */
static __always_inline bool jcc_taken(const struct pt_regs *ctx, __u64 cookie)
{
	__u64 cond = cookie >> FSN_COOKIE_COND_SHIFT & 63, flags = ctx->pstate;
	bool v = flags >> 28 & 1, c = flags >> 29 & 1, z = flags >> 30 & 1, n = flags >> 31 & 1;
	__u64 reg = reg_value(ctx, cookie >> FSN_COOKIE_REG_SHIFT & 31);
	bool yes;

	if (cond == COND_CBZ || cond == COND_CBNZ) {
		if (!(cookie >> FSN_COOKIE_WIDE_SHIFT & 1))
			reg = (__u32)reg;
		return (reg == 0) == (cond == COND_CBZ);
	}
	if (cond == COND_TBZ || cond == COND_TBNZ)
		return (reg >> (cookie >> FSN_COOKIE_BIT_SHIFT & 63) & 1) == (cond == COND_TBNZ);
	switch (cond >> 1 & 7) {
	case 0:
		yes = z;
		break;
	case 1:
		yes = c;
		break;
	case 2:
		yes = n;
		break;
	case 3:
		yes = v;
		break;
	case 4:
		yes = c && !z;
		break;
	case 5:
		yes = n == v;
		break;
	case 6:
		yes = n == v && !z;
		break;
	default:
		return true; /* al, nv */
	}
	return yes != (cond & 1);
}
#endif

/*
 * Where a jump leads that leaves: what its cookie has from FSN_COOKIE_WAIT_SHIFT on; 0 if that is
 * not known. One through a word of the dynamic linker's leads to another file's function where
 * that has one of the same name, and through the linker before that has looked it up.
 */
static __always_inline __u64 jump_leads(const struct pt_regs *ctx, __u64 cookie)
{
	__u64 at = REG_IP(ctx), word = 0;
	__u32 i = cookie >> FSN_COOKIE_MORE_SHIFT;
	struct fsn_jump *jump;

	if (!(cookie >> FSN_COOKIE_WORD_SHIFT & 1))
		return cookie >> FSN_COOKIE_WAIT_SHIFT;
	jump = bpf_map_lookup_elem(&fsn_jumps, &i);
	if (!jump || bpf_probe_read_user(&word, sizeof(word), (void *)(at + jump->word)) ||
		word != at + jump->target)
		return 0;
	return jump->to;
}

static __always_inline bool jump_leaves(const struct pt_regs *ctx, __u64 cookie)
{
	__u32 i = cookie >> FSN_COOKIE_MORE_SHIFT;
	struct fsn_jump *jump = bpf_map_lookup_elem(&fsn_jumps, &i);
	__s64 away;

	if (!jump)
		return false;
	away = reg_value(ctx, cookie >> FSN_COOKIE_REG_SHIFT & 31) - REG_IP(ctx);
#pragma unroll
	for (int r = 0; r < FSN_JUMP_RANGES; r++)
		if (away >= jump->lo[r] && away < jump->hi[r])
			return false;
	return true;
}

/* Early ends: where the return address lies. */
static __always_inline __u64 early_sp(const struct pt_regs *ctx, __u64 cookie)
{
	__u64 sp = REG_SP(ctx), fp = REG_FP(ctx);

	asm volatile("" : "+r"(sp), "+r"(fp));
	return (cookie >> FSN_COOKIE_FP_SHIFT & 1 ? fp : sp) + ((__s64)cookie >> FSN_COOKIE_PLACE_SHIFT) * 8;
}

/* And what the result will be. */
static __always_inline __u64 early_result(const struct pt_regs *ctx, __u64 cookie)
{
	__u32 unused = (64 - (64 >> (cookie >> FSN_COOKIE_CUT_SHIFT & 3))) & 63;
	__u64 result;

	if (cookie >> FSN_COOKIE_NUMBER_SHIFT & 1)
		result = (__s64)(cookie << (58 - FSN_COOKIE_BIT_SHIFT)) >> 58;
	else
		result = reg_value(ctx, cookie >> FSN_COOKIE_REG_SHIFT & 31);
	return result << unused >> unused;
}

#endif
