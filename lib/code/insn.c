// SPDX-License-Identifier: BSD-2-Clause
// Decodes instructions with Capstone: lengths, texts, and instructions that a probe can be moved
// past.
#include <capstone/capstone.h>

#include "base/util.h"
#include "internal.h"

/* Finds the address that an instruction reads or takes, and the table of a jump. */

#define RSP 4
#define RBP 5

/* One bit an opcode, 1 where a ModRM byte follows (Intel SDM vol. 2, appendix A). */
static const uint16_t modrm_1[16] = {
	[0x0] = 0x0f0f,
	[0x1] = 0x0f0f,
	[0x2] = 0x0f0f,
	[0x3] = 0x0f0f,
	[0x6] = 0x0a08,
	[0x8] = 0xffff,
	[0xc] = 0x00c3,
	[0xd] = 0xff0f,
	[0xf] = 0xc0c0,
};
static const uint16_t no_modrm_0f[16] = {
	[0x0] = 0x4be0, /* syscall, clts, sysret, invd, wbinvd, ud2, femms */
	[0x3] = 0x00ff, /* wrmsr to getsec */
	[0x7] = 0x0080, /* emms */
	[0x8] = 0xffff, /* jcc */
	[0xa] = 0x0707, /* push, pop, cpuid, rsm */
	[0xc] = 0xff00, /* bswap */
};

/* The offset of the ModRM byte, or 0. */
static size_t modrm_at(const struct x86 *x)
{
	bool has = true;
	size_t at = x->op_at + 1u;

	if (x->map == X86_MAP_1)
		has = modrm_1[x->op >> 4] >> (x->op & 15) & 1;
	else if (x->map == X86_MAP_0F)
		has = !(no_modrm_0f[x->op >> 4] >> (x->op & 15) & 1);
	else if (x->map == X86_MAP_VEC) /* after 1, 2 or 3 bytes and the opcode */
		at += x->op == 0xc5 ? 2 : x->op == 0x62 ? 4 : 3;
	return has && at < x->len ? at : 0;
}

static int32_t disp32(const uint8_t *b)
{
	int32_t v;

	memcpy(&v, b, 4);
	return v;
}

void x86_find_data(const struct x86 *x, struct insn *insn)
{
	size_t at = modrm_at(x);
	const uint8_t *b = x->bytes + at;

	if (!at || b[0] >> 6 || at + 5 > x->len)
		return;
	if ((b[0] & 7) == RBP)
		insn->data = insn->addr + insn->len + (int64_t)disp32(b + 1);
	else if ((b[0] & 7) == RSP && (b[1] & 7) == RBP && at + 6 <= x->len)
		insn->data = (int64_t)disp32(b + 2); /* table(,%reg,8) */
	else
		return;
	insn->has_data = true;
	insn->takes_addr = (x->map == X86_MAP_1 && x->op == 0x8d) || x86_is_nop(x);
}

/* Opcodes of one byte whose reg operand, a general register of 16 bits or more, is only read. */
static bool reads_reg_1(uint8_t op)
{
	return (op < 0x38 && (op & 7) == 1) || op == 0x87 || op == 0x89;
}

/* The same for the other operand, if it is a register. */
static bool reads_rm_1(const struct x86 *x)
{
	uint8_t op = x->op;

	return (op < 0x38 && (op & 7) == 3) || op == 0x63 || op == 0x69 || op == 0x6b ||
		op == 0x87 || op == 0x8b || (op == 0xff && x86_digit(x) == 6);
}

/* The same for two-byte opcodes. */
static bool reads_reg_0f(uint8_t op)
{
	return op == 0xa3 || op == 0xa4 || op == 0xa5 || op == 0xab || op == 0xac || op == 0xad ||
		op == 0xb1 || op == 0xb3 || op == 0xbb || op == 0xc1 || op == 0xc3;
}

static bool reads_rm_0f(uint8_t op)
{
	return (op & 0xf0) == 0x40 || op == 0x2a || op == 0x6e || op == 0xaf || op == 0xb7 ||
		op == 0xb8 || op == 0xbc || op == 0xbd || op == 0xbf;
}

/* The register that the instruction writes, of those that may point into the stack, or 0. */
static uint8_t written_pointer(const struct x86 *x)
{
	uint8_t reg = 0;

	if (x->map == X86_MAP_0F)
		reg = reads_rm_0f(x->op) && x->op != 0x2a && x->op != 0x6e ? x86_reg_no(x) : 0;
	else if (x->map != X86_MAP_1)
		return 0;
	else if ((x->op < 0x38 && (x->op & 7) == 3) || x->op == 0x63 || x->op == 0x69 ||
		x->op == 0x6b || x->op == 0x8b || x->op == 0x8d)
		reg = x86_reg_no(x);
	else if (x86_mod(x) == 3 && (reads_reg_1(x->op) || x->op == 0xc7))
		reg = x86_rm_no(x);
	else if ((x->op & 0xf8) == 0xb8)
		reg = (x->op & 7) | (x->rex & 1 ? 8 : 0);
	return reg == RSP || reg == RBP ? reg : 0;
}

/* True if the instruction copies register @reg to another one or to memory. */
static bool copies_reg(const struct x86 *x, size_t at, uint8_t reg)
{
	uint8_t low = (x->op & 7) | (x->rex & 1 ? 8 : 0);
	bool in_reg, in_rm;

	if (x->map == X86_MAP_1 && (x->op & 0xf8) == 0x50)
		return low == reg;
	if (!at || written_pointer(x))
		return false;
	in_reg = x86_reg_no(x) == reg;
	in_rm = x86_mod(x) == 3 && x86_rm_no(x) == reg;
	if (x->map == X86_MAP_1)
		return (in_reg && reads_reg_1(x->op)) || (in_rm && reads_rm_1(x));
	return x->map == X86_MAP_0F &&
		((in_reg && reads_reg_0f(x->op)) || (in_rm && reads_rm_0f(x->op)));
}

/* Bytes of the memory operand of an x87 instruction, by opcode from d8 on and ModRM's digit. */
static const uint8_t x87_len[8][8] = {
	{ 4, 4, 4, 4, 4, 4, 4, 4 },
	{ 4, 4, 4, 4, 28, 2, 28, 2 }, /* fldenv, fldcw, fnstenv, fnstcw */
	{ 4, 4, 4, 4, 4, 4, 4, 4 },
	{ 4, 4, 4, 4, 4, 10, 4, 10 },
	{ 8, 8, 8, 8, 8, 8, 8, 8 },
	{ 8, 8, 8, 8, 108, 108, 108, 2 }, /* frstor, fnsave, fnstsw */
	{ 2, 2, 2, 2, 2, 2, 2, 2 },
	{ 2, 2, 2, 2, 10, 8, 10, 8 },
};

/* The same for one-byte opcodes. */
static uint16_t access_len_1(const struct x86 *x)
{
	uint8_t op = x->op;

	if (op == 0x8d)
		return 0;
	if (op >= 0xd8 && op <= 0xdf)
		return x87_len[op - 0xd8][x86_digit(x)];
	if (op == 0x8f || (op == 0xff && x86_digit(x) >= 2))
		return 8;
	if (!(op & 1) && (op < 0x40 || op >= 0x80) && op != 0x8c && op != 0x8e)
		return 1;
	if (x->rex & 8 && op != 0x63)
		return 8;
	return x->prefix & X86_P_66 ? 2 : 4;
}

/* Returns the maximum number of bytes accessed in memory. */
static uint16_t access_len(const struct x86 *x)
{
	const uint8_t *b = x->bytes + x->op_at;

	switch (x->map) {
	case X86_MAP_1:
		return access_len_1(x);
	case X86_MAP_VEC:
		return b[0] == 0xc5 ? 16 << (b[1] >> 2 & 1) : b[0] == 0xc4 ? 16 << (b[2] >> 2 & 1)
									   : 64;
	default:
		return x->map == X86_MAP_0F && x->op == 0xae ? 4096 : 16;
	}
}

/* A memory operand relative to the stack pointer or the frame pointer, with an index or without. */
static void find_stack_operand(const struct x86 *x, size_t at, struct insn *insn)
{
	const uint8_t *b = x->bytes + at;
	uint8_t mod = b[0] >> 6, base = b[0] & 7, rex = x->rex;

	if (mod == 3)
		return;
	if (x->map == X86_MAP_VEC) /* X and B, inverted, in VEX of three bytes and in EVEX */
		rex = x->op == 0xc5 ? 0 : ~x->bytes[x->op_at + 1] >> 5 & 3;
	b++;
	if (base == RSP) {
		base = b[0] & 7;
		if ((b[0] >> 3 & 7) == RBP && !(rex & 2)) { /* as an index */
			insn->stack = INSN_STACK_FP;
			return;
		}
		b++;
	}
	if (rex & 1 || (base != RSP && (base != RBP || mod == 0)))
		return;
	insn->stack = base == RSP ? INSN_STACK_SP : INSN_STACK_FP;
	insn->stack_at = mod == 0 ? 0 : mod == 1 ? (int8_t)b[0] : disp32(b);
	insn->stack_len = access_len(x);
}

void x86_find_stack(const struct x86 *x, struct insn *insn)
{
	size_t at = modrm_at(x);

	insn->sets_fp = written_pointer(x) == RBP;
	if (x86_is_nop(x))
		return;
	if (copies_reg(x, at, RBP))
		insn->stack = INSN_STACK_FP;
	else if (copies_reg(x, at, RSP))
		insn->stack = INSN_STACK_SP;
	else if (at && !(x->op == 0x8d && x->map == X86_MAP_1 && written_pointer(x)))
		find_stack_operand(x, at, insn);
}

/* --- jump tables ------------------------------------------------------------------- */

/* A memory operand with an index: its base goes to @ret_base, 255 when it has none. */
static bool indexed(const struct x86 *x, uint8_t *ret_base)
{
	uint8_t sib = x->bytes[x->op_at + 2];

	if (x86_mod(x) == 3 || (x->modrm & 7) != RSP || x->op_at + 2u >= x->len)
		return false;
	*ret_base = (sib & 7) | (x->rex & 1 ? 8 : 0);
	if (x86_mod(x) == 0 && (sib & 7) == RBP)
		*ret_base = 255;
	return (sib >> 3 & 7) != RSP || x->rex & 2;
}

/* jmp *table(,%r,8), jmp *(%base,%r,8), and the same by a mov to the register. */
static bool take_array(const struct insn *insn, const struct x86 *x, struct insn_table *t)
{
	if (!indexed(x, &t->base_reg) || x->bytes[x->op_at + 2] >> 6 != 3)
		return false;
	t->form = INSN_TABLE_ABS64;
	t->base = t->base_reg == 255 && insn->has_data ? insn->data : 0;
	return t->base || t->base_reg != 255;
}

static bool writes_reg(const struct x86 *x, uint8_t op, uint8_t reg)
{
	return x->map == X86_MAP_1 && x->op == op && x->rex & 8 && x86_reg_no(x) == reg;
}

static bool x86_table(
	const struct insn *insn, size_t prev, const uint8_t *bytes, struct insn_table *t)
{
	size_t max = prev < INSN_TABLE_LOOK ? prev : INSN_TABLE_LOOK;
	uint8_t reg, other = 255, base;
	struct x86 x;

	*t = (struct insn_table) { 0 };
	if (!x86_split(bytes, insn->len, &x))
		return false;
	if (x86_mod(&x) != 3)
		return take_array(insn, &x, t);
	reg = x86_rm_no(&x);
	for (size_t i = 1; i <= max; i++) {
		const struct insn *p = insn - i;

		if (p->flow == INSN_CALL || p->flow == INSN_BAD ||
			!x86_split(bytes - (insn->addr - p->addr), p->len, &x))
			return false;
		if (x.map != X86_MAP_1 || !(x.rex & 8))
			continue;
		if (x.op == 0x01 && x86_mod(&x) == 3 && x86_rm_no(&x) == reg)
			other = x86_reg_no(&x);
		else if (writes_reg(&x, 0x03, reg) && x86_mod(&x) == 3)
			other = x86_rm_no(&x);
		else if (other == 255 && writes_reg(&x, 0x8b, reg))
			return take_array(p, &x, t);
		else if (other != 255 && x.op == 0x63 && indexed(&x, &base) &&
			(x86_reg_no(&x) == reg || x86_reg_no(&x) == other)) {
			t->form = INSN_TABLE_REL32;
			t->base_reg = base;
			/* what is added is the table's own address, not another */
			return base == (x86_reg_no(&x) == reg ? other : reg);
		}
	}
	return false;
}

bool x86_loads_addr(const struct insn *insn, const uint8_t *bytes, uint8_t reg)
{
	struct x86 x;

	return insn->has_data && insn->takes_addr && !insn->nop &&
		x86_split(bytes, insn->len, &x) && writes_reg(&x, 0x8d, reg);
}

/* cmp $imm or and $imm: the largest remaining index; a cmp needs the jump after it. */
static bool x86_index_bound(const struct insn *insn, const uint8_t *bytes,
	const struct insn *jcc, uint64_t *ret_cnt)
{
	struct x86 x;
	int64_t imm;

	if (!x86_split(bytes, insn->len, &x) || x.map != X86_MAP_1)
		return false;
	if (x.op == 0x3d || x.op == 0x81)
		imm = disp32(bytes + insn->len - 4);
	else if (x.op == 0x3c || x.op == 0x80 || x.op == 0x83)
		imm = (int8_t)bytes[insn->len - 1];
	else
		return false;
	if (x.op == 0x3c || x.op == 0x80)
		imm &= 0xff;
	if (imm < 0)
		return false;
	if ((x.op & 0xfc) == 0x80 && x86_digit(&x) == 4) {
		*ret_cnt = imm + 1; /* and */
		return true;
	}
	if ((x.op & 0xfc) == 0x80 && x86_digit(&x) != 7)
		return false;
	if (!jcc || jcc->cond < 2 || jcc->cond > 7 || jcc->cond == 4 || jcc->cond == 5)
		return false;
	*ret_cnt = imm + (jcc->cond >= 6); /* jb jae, or jbe ja */
	return true;
}

/*
 * lea -8(%r10),%rsp; ret: undoes the alignment of a frame. Also with %r13, or another multiple of
 * 8.
 */
static bool is_realign_end(const struct x86 *x, const uint8_t *bytes, size_t left)
{
	uint8_t base = x86_rm_no(x);
	int8_t disp = x->bytes[x->op_at + 2];

	return x86_mod(x) == 1 && (base == 10 || base == 13) && disp < 0 && disp >= -16 &&
		left > x->len && bytes[x->len] == 0xc3;
}

static bool x86_switches_stack(const struct insn *insn, const uint8_t *bytes, size_t left)
{
	struct x86 x;

	if (insn->flow == INSN_FAR)
		return true;
	if (insn->sp != INSN_SP_LOST && bytes[0] != 0x8f && (bytes[0] & 0xf0) != 0x40)
		return false;
	if (!x86_split(bytes, insn->len, &x) || x.map != X86_MAP_1)
		return false;
	if (x.op == 0x8f)
		return x86_mod(&x) == 3 && x86_rm_no(&x) == RSP;
	if (insn->sp != INSN_SP_LOST)
		return false;
	switch (x.op) {
	case 0x81:
	case 0x83: /* and $-16,%rsp */
		return x86_digit(&x) != 4;
	case 0x29:
	case 0x2b: /* sub %rax,%rsp: alloca */
	case 0xc8: /* enter */
		return false;
	case 0x8d:
		return !is_realign_end(&x, bytes, left);
	}
	return !(x.op >= 0x50 && x.op <= 0x5f &&
		x.op != 0x5c); /* push and pop of 16 bits */
}

/* Opcodes of in, out, hlt, cli, sti and similar: 0 for one byte, 0f before the other. */
static bool is_privileged(const struct x86 *x)
{
	if (x->map == X86_MAP_0F)
		return x->op <= 0x0a || (x->op >= 0x20 && x->op <= 0x23) ||
			x->op == 0x30 || x->op == 0x32;
	return x->map == X86_MAP_1 &&
		((x->op >= 0x6c && x->op <= 0x6f) || (x->op >= 0xe4 && x->op <= 0xe7) ||
			(x->op >= 0xec && x->op <= 0xef) || x->op == 0xf4 ||
			x->op == 0xfa || x->op == 0xfb);
}

/* jcc, setcc, cmovcc, adc, sbb of two registers, cmc. */
static bool reads_flags(const struct x86 *x)
{
	if (x->map == X86_MAP_0F)
		return (x->op & 0xf0) == 0x40 || (x->op & 0xf0) == 0x80 ||
			(x->op & 0xf0) == 0x90;
	if (x->map != X86_MAP_1)
		return false;
	if (x->op >= 0x10 && x->op <= 0x1d && (x->op & 7) < 6)
		return !(x->op >= 0x18 && x86_mod(x) == 3 &&
			x86_reg_no(x) == x86_rm_no(x));
	return (x->op & 0xf0) == 0x70 || x->op == 0xf5;
}

static bool x86_can_begin(const struct insn *insn, const uint8_t *bytes)
{
	struct x86 x;

	if (!x86_split(bytes, insn->len, &x))
		return false;
	/* add %al,(%rax) is two zeros */
	if (x.map == X86_MAP_1 && x.op == 0 && x86_mod(&x) != 3)
		return false;
	return !is_privileged(&x) && !reads_flags(&x);
}

#define CACHE_CNT 4096
#define NO_INSN   255

struct insn_decoder {
	enum plan_arch arch;
	csh fast; /* for lengths */
	csh text; /* for people */
	cs_insn *fast_insn;
	cs_insn *text_insn;
	struct remembered {
		uint32_t key;
		uint8_t tail; /* bytes after the opcode, or NO_INSN */
	} cache[CACHE_CNT];
};

void insn_close(struct insn_decoder *dec)
{
	if (!dec)
		return;
	if (dec->fast_insn)
		cs_free(dec->fast_insn, 1);
	if (dec->text_insn)
		cs_free(dec->text_insn, 1);
	if (dec->fast)
		cs_close(&dec->fast);
	if (dec->text)
		cs_close(&dec->text);
	free(dec);
}

static void cleanup_dec(struct insn_decoder **dec)
{
	insn_close(*dec);
}

static size_t ask_capstone(struct insn_decoder *dec, const uint8_t *bytes, size_t len)
{
	const uint8_t *p = bytes;
	uint64_t addr = 0;

	if (insn_is_endbr(bytes, len))
		return 4;
	if (cs_disasm_iter(dec->fast, &p, &len, &addr, dec->fast_insn))
		return p - bytes;
	return x86_length(bytes, len);
}

/*
 * The inputs of the length after the opcode: prefixes, opcode, ModRM, and whether SIB requires a
 * displacement. Never 0.
 */
static uint32_t length_key(const struct x86 *x)
{
	uint8_t sib = x->bytes[x->op_at + 2];
	uint32_t key = x->op | x->modrm << 8 | (uint32_t)x->prefix << 16 | 1u << 31;

	if ((x->modrm & 0xc7) == 4 && (sib & 7) == 5)
		key |= 1u << 24;
	if (x->rex)
		key |= x->rex & 8 ? 3u << 25 : 1u << 25;
	return key | (uint32_t)x->map << 27;
}

/*
 * Returns the length of the instruction at @bytes, or 0 if it is invalid. Answers are cached,
 * because Capstone also prints each instruction, which takes most of the time of a plan.
 */
static size_t x86_decode_length(struct insn_decoder *dec, const struct x86 *x)
{
	uint32_t key, slot;
	size_t len;

	if (x->map == X86_MAP_VEC || x->op_at + 11u > x->len)
		return ask_capstone(dec, x->bytes, x->len);
	key = length_key(x);
	slot = (key ^ key >> 12) * 0x9e3779b1u >> 20;
	if (dec->cache[slot].key == key)
		return dec->cache[slot].tail == NO_INSN
			? 0
			: x->op_at + 1u + dec->cache[slot].tail;
	len = ask_capstone(dec, x->bytes, x->len);
	dec->cache[slot] = (struct remembered) {
		.key = key,
		.tail = len ? len - x->op_at - 1 : NO_INSN,
	};
	return len;
}

bool insn_decode(struct insn_decoder *dec, const uint8_t *bytes, size_t len,
	uint64_t addr, struct insn *ret_insn)
{
	struct insn insn = { 0 };
	struct x86 x;

	if (dec->arch == PLAN_ARM64) {
		if (len < 4 || !a64_classify(a64_word(bytes), addr, &insn))
			return false;
	} else {
		if (!x86_split(bytes, len < 15 ? len : 15, &x))
			return false;
		x.len = x86_decode_length(dec, &x);
		if (!x.len || !x86_classify(&x, addr, &insn))
			return false;
	}
	*ret_insn = insn;
	return true;
}

bool insn_is_dispatch(
	enum plan_arch arch, const struct insn *insn, size_t prev, const uint8_t *bytes)
{
	if (arch == PLAN_ARM64)
		return a64_is_dispatch(insn, prev, bytes);
	return x86_is_dispatch(insn, prev, bytes);
}

bool insn_table(enum plan_arch arch, const struct insn *insn, size_t prev,
	const uint8_t *bytes, struct insn_table *ret_table)
{
	return arch == PLAN_ARM64 ? a64_table(insn, prev, bytes, ret_table)
				  : x86_table(insn, prev, bytes, ret_table);
}

bool insn_switches_stack(
	enum plan_arch arch, const struct insn *insn, const uint8_t *bytes, size_t left)
{
	return arch == PLAN_ARM64 ? a64_switches_stack(insn, a64_word(bytes))
				  : x86_switches_stack(insn, bytes, left);
}

bool insn_can_begin(enum plan_arch arch, const struct insn *insn, const uint8_t *bytes)
{
	if (insn->flow == INSN_BAD || insn->flow == INSN_FAR)
		return false;
	if (arch == PLAN_ARM64) /* udf, b.cond */
		return a64_word(bytes) >> 16 &&
			!(insn->flow == INSN_JCC && insn->cond >= PLAN_COND_B);
	return x86_can_begin(insn, bytes);
}

bool insn_index_bound(enum plan_arch arch, const struct insn *insn, const uint8_t *bytes,
	const struct insn *jcc, uint64_t *ret_cnt)
{
	return arch == PLAN_ARM64 ? a64_index_bound(insn, bytes, jcc, ret_cnt)
				  : x86_index_bound(insn, bytes, jcc, ret_cnt);
}

bool insn_probe_ok(enum plan_arch arch, const uint8_t *bytes, size_t len,
	const struct plan_rules *rules, char *why, size_t size)
{
	if (arch == PLAN_X86_64)
		return x86_probe_ok(bytes, len, rules, why, size);
	if (len < 4) {
		snprintf(why, size, "not an instruction");
		return false;
	}
	return a64_probe_ok(a64_word(bytes), why, size);
}

bool insn_emulated(enum plan_arch arch, const uint8_t *bytes, size_t len,
	const struct plan_rules *rules)
{
	struct x86 x;

	if (arch == PLAN_ARM64)
		return len >= 4 && a64_emulated(a64_word(bytes));
	return x86_split(bytes, len, &x) && x86_emulated(&x, rules);
}

bool insn_is_endbr(const uint8_t *bytes, size_t len)
{
	static const uint8_t endbr64[4] = { 0xf3, 0x0f, 0x1e, 0xfa };

	return len >= 4 && memcmp(bytes, endbr64, 4) == 0;
}

bool insn_step_over(const uint8_t *bytes, size_t len, bool write_args, int32_t frame)
{
	struct x86 x;

	if (insn_is_endbr(bytes, len))
		return true;
	return x86_split(bytes, len, &x) &&
		(x86_is_nop(&x) || x86_step_over(&x, write_args, frame));
}

bool insn_effect(const uint8_t *bytes, size_t len, struct insn_effect *ret_effect)
{
	struct x86 x;

	return x86_split(bytes, len, &x) && x86_effect(&x, ret_effect);
}

enum insn_landing insn_landing(const uint8_t *bytes, size_t len)
{
	struct x86 x;

	if (!x86_split(bytes, len, &x))
		return INSN_LAND_NO;
	if (x86_is_nop(&x))
		return INSN_LAND_YES;
	if (x.map == X86_MAP_0F)
		return (x.op & 0xf0) == 0x80 ? INSN_LAND_BRANCH : INSN_LAND_NO;
	if (x.map != X86_MAP_1)
		return INSN_LAND_NO;
	if ((x.op & 0xf0) == 0x70 || x.op == 0xe9 || x.op == 0xeb)
		return INSN_LAND_BRANCH;
	return (x.op >= 0x50 && x.op <= 0x57) || x.op == 0xe8 ? INSN_LAND_YES
							      : INSN_LAND_NO;
}

bool insn_is_plt(enum plan_arch arch, const uint8_t *bytes, size_t len)
{
	struct x86 x;

	if (arch == PLAN_ARM64)
		return a64_is_plt(bytes, len);
	if (insn_is_endbr(bytes, len)) {
		bytes += 4;
		len -= 4;
	}
	return x86_split(bytes, len, &x) && x.map == X86_MAP_1 && x.op == 0xff &&
		x.modrm == 0x25;
}

bool insn_plt_word(struct insn_decoder *dec, enum plan_arch arch, const uint8_t *bytes,
	size_t len, uint64_t addr, uint64_t *ret_word)
{
	struct insn insn;

	if (!insn_is_plt(arch, bytes, len))
		return false;
	if (arch == PLAN_ARM64) {
		*ret_word = a64_plt_word(bytes, addr);
		return true;
	}
	if (insn_is_endbr(bytes, len)) {
		bytes += 4;
		len -= 4;
		addr += 4;
	}
	if (!insn_decode(dec, bytes, len, addr, &insn) || !insn.has_data)
		return false;
	*ret_word = insn.data;
	return true;
}

/* Tabs and runs of blanks to one blank, so that texts of Capstone's releases agree. */
static void squeeze(char *s)
{
	char *to = s;

	for (; *s; s++)
		if (*s != ' ' || (to[-1] != ' ' && to[-1] != ','))
			*to++ = *s;
	*to = '\0';
}

void insn_text(struct insn_decoder *dec, const uint8_t *bytes, size_t len, uint64_t addr,
	char *buf, size_t size)
{
	snprintf(buf, size, "(bad)");
	if (insn_is_endbr(bytes, len)) {
		snprintf(buf, size, "endbr64");
		return;
	}
	if (!cs_disasm_iter(dec->text, &bytes, &len, &addr, dec->text_insn))
		return;
	snprintf(buf, size, "%s%s%s", dec->text_insn->mnemonic,
		dec->text_insn->op_str[0] ? " " : "", dec->text_insn->op_str);
	squeeze(buf + 1);
}

static int decoder_open(struct insn_decoder *dec)
{
	cs_err e;
	csh *handles[] = { &dec->fast, &dec->text };
	cs_insn **insns[] = { &dec->fast_insn, &dec->text_insn };

	for (size_t i = 0; i < ARRAY_SIZE(handles); i++) {
		if (dec->arch == PLAN_X86_64)
			e = cs_open(CS_ARCH_X86, CS_MODE_64, handles[i]);
		else
			e = cs_open(CS_ARCH_ARM64, CS_MODE_LITTLE_ENDIAN, handles[i]);
		if (e != CS_ERR_OK) {
			*handles[i] = 0;
			if (e == CS_ERR_MEM)
				alloc_failed();
			return -ENOTSUP;
		}
		*insns[i] = cs_malloc(*handles[i]);
		if (!*insns[i])
			alloc_failed();
	}
	/* Capstone prints all that it decodes; MASM is what it prints fastest. */
	if (dec->arch == PLAN_X86_64) {
		cs_option(dec->fast, CS_OPT_SYNTAX, CS_OPT_SYNTAX_MASM);
		cs_option(dec->text, CS_OPT_SYNTAX, CS_OPT_SYNTAX_ATT);
	}
	return 0;
}

int insn_open(enum plan_arch arch, struct insn_decoder **ret_dec, struct err *err)
{
	struct insn_decoder *dec __cleanup(cleanup_dec) = xcalloc(1, sizeof(*dec));
	int ret;

	dec->arch = arch;
	ret = decoder_open(dec);
	if (ret)
		return err_sys(err, ret, "cannot open the disassembler for %s",
			arch == PLAN_X86_64 ? "x86-64" : "arm64");
	*ret_dec = TAKE_PTR(dec);
	return 0;
}
