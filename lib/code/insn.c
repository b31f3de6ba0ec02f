// SPDX-License-Identifier: BSD-2-Clause
// Instructions by Capstone: lengths, texts, and what may be stepped over.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <capstone/capstone.h>

#include "base/util.h"
#include "internal.h"

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
		uint8_t tail; /* bytes behind the opcode, or NO_INSN */
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
 * All that decides about the length behind the opcode: prefixes, opcode, ModRM, and of SIB
 * whether a displacement follows. Never 0.
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
 * The length of the instruction at @bytes, 0 when there is none. Capstone also prints what
 * it decodes, which takes most of a plan's time, so its answers are remembered.
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
