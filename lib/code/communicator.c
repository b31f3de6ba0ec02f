// SPDX-License-Identifier: BSD-2-Clause
// Finds the rank in NCCL's communicators, from the code of the functions that return it.
#include <errno.h>
#include <string.h>

#include "code/communicator.h"
#include "internal.h"

#define NONE UINT64_MAX

/* Known register contents at one instruction; forgotten at each call. */
struct regs {
	uint64_t member[32]; /* offset that it was loaded from, or */
	uint64_t number[32]; /* a number, or */
	uint64_t beyond[32]; /* a pointer plus this offset */
};

static void forget(struct regs *r, unsigned int reg)
{
	r->member[reg] = r->number[reg] = r->beyond[reg] = NONE;
}

static void forget_all(struct regs *r)
{
	memset(r, 0xff, sizeof(*r));
}

static void hand_out(struct members *m, uint64_t at)
{
	if (at > INT32_MAX)
		return;
	for (size_t i = 0; i < m->cnt; i++)
		if (m->at[i] == at)
			return;
	if (m->cnt < MEMBERS_MAX)
		m->at[m->cnt++] = (uint32_t)at;
}

/* The displacement of a memory operand that has a base and no index. */
static bool x86_disp(const struct x86 *x, int32_t *ret_disp)
{
	const uint8_t *b = x->bytes + x->op_at + 2;
	uint8_t rm = x->modrm & 7, mod = x86_mod(x);
	size_t left = x->len - x->op_at - 2;

	if (mod == 3 || (mod == 0 && rm == 5) || x->op_at + 2u > x->len)
		return false;
	if (rm == 4) {
		if (!left || (*b & 0x38) != 0x20 || x->rex & 2 || (!mod && (*b & 7) == 5))
			return false;
		b++;
		left--;
	}
	if (left < (mod == 2 ? 4 : mod))
		return false;
	*ret_disp = mod == 1 ? (int8_t)*b : 0;
	if (mod == 2)
		memcpy(ret_disp, b, 4);
	return true;
}

static void x86_step(const struct insn *insn, const uint8_t *bytes, struct regs *r, struct members *m)
{
	struct insn_effect e;
	struct x86 x;
	int32_t disp;
	bool plain;

	if (!x86_split(bytes, insn->len, &x)) {
		forget_all(r);
		return;
	}
	plain = x.map == X86_MAP_1 && !(x.rex & 8) && !(x.prefix & ~X86_P_DS);
	if (plain && x.op == 0x89 && x86_disp(&x, &disp) && !disp)
		hand_out(m, r->member[x86_reg_no(&x)]);
	if (insn->flow != INSN_PLAIN || !x86_effect(&x, &e)) {
		forget_all(r);
		return;
	}
	for (unsigned int reg = 0; reg < 16; reg++)
		if (e.writes >> reg & 1)
			forget(r, reg);
	if (plain && x.op == 0x8b && x86_disp(&x, &disp) && disp >= 0)
		r->member[x86_reg_no(&x)] = (uint32_t)disp;
}

/* Offset of a 32-bit load: pointer plus immediate, or pointer plus register. */
static uint64_t a64_member(uint32_t word, const struct regs *r)
{
	unsigned int base = word >> 5 & 31, index = word >> 16 & 31;
	uint64_t beyond = r->beyond[base] == NONE ? 0 : r->beyond[base];

	if ((word & 0xffc00000) == 0xb9400000) /* ldr w, [x, #n] */
		return beyond + (word >> 10 & 0xfff) * 4;
	if ((word & 0xffe0fc00) == 0xb8606800) /* ldr w, [x, x] */
		return r->number[index] == NONE ? NONE : beyond + r->number[index];
	return NONE;
}

/* A number that is assembled from 16-bit pieces. */
static uint64_t a64_number(uint32_t word, const struct regs *r)
{
	unsigned int shift = (word >> 21 & 3) * 16;
	uint64_t piece = (uint64_t)(word >> 5 & 0xffff) << shift, was = r->number[word & 31];

	if ((word & 0x7f800000) == 0x52800000) /* movz */
		return piece;
	if ((word & 0x7f800000) == 0x72800000 && was != NONE) /* movk */
		return (was & ~(0xffffULL << shift)) | piece;
	return NONE;
}

static uint64_t a64_beyond(uint32_t word, const struct regs *r)
{
	if ((word & 0xff800000) == 0x91000000) /* add x, x, #n */
		return (uint64_t)(word >> 10 & 0xfff) << (word >> 22 & 1 ? 12 : 0);
	if ((word & 0xffe0fc00) == 0x8b000000) /* add x, x, x */
		return r->number[word >> 16 & 31];
	return NONE;
}

static void a64_step(const struct insn *insn, const uint8_t *bytes, struct regs *r, struct members *m)
{
	uint32_t word = a64_word(bytes), to = word & 31;
	uint64_t member, number, beyond;

	if ((word & 0xfffffc00) == 0xb9000000) { /* str w, [x] */
		hand_out(m, r->member[to]);
		return;
	}
	if (insn->flow != INSN_PLAIN) {
		forget_all(r);
		return;
	}
	member = a64_member(word, r);
	number = a64_number(word, r);
	beyond = a64_beyond(word, r);
	forget(r, to);
	r->member[to] = member;
	r->number[to] = number;
	r->beyond[to] = beyond;
}

int members_handed_out(const struct plan_image *img, uint64_t addr, uint64_t end,
	struct members *ret_members, struct err *err)
{
	struct insn_decoder *dec;
	struct insn insn;
	struct regs regs;
	int code = insn_open(img->arch, &dec, err);

	*ret_members = (struct members) {};
	if (code)
		return code;
	forget_all(&regs);
	while (addr < end) {
		size_t len = 0;
		const uint8_t *bytes = image_code(img, addr, &len);

		if (!bytes || !insn_decode(dec, bytes, len, addr, &insn))
			break;
		if (img->arch == PLAN_ARM64)
			a64_step(&insn, bytes, &regs, ret_members);
		else
			x86_step(&insn, bytes, &regs, ret_members);
		addr += insn.len;
	}
	insn_close(dec);
	return 0;
}

/* --- NCCL's --------------------------------------------------------------------------------- */

/* In the order of the members that they return. */
static const char *const accessors[] = { "ncclCommUserRank", "ncclCommCount", "ncclCommCuDevice" };

#define HASH_BYTES 8

static bool has_member(const struct members *m, uint64_t at)
{
	for (size_t i = 0; i < m->cnt; i++)
		if (m->at[i] == at)
			return true;
	return false;
}

/* Finds the offset on which all accessors agree. Returns the number of such offsets. */
static size_t agree(const struct members *m, uint32_t *ret_at)
{
	size_t cnt = 0;

	for (size_t i = 0; i < m[0].cnt; i++) {
		uint64_t at = m[0].at[i];

		if (at < HASH_BYTES || !has_member(&m[1], at + 4) || !has_member(&m[2], at + 8))
			continue;
		*ret_at = (uint32_t)at - HASH_BYTES;
		cnt++;
	}
	return cnt;
}

int communicator_find(struct elf_file *elf, uint32_t *ret_at, struct err *err)
{
	const char *path = elf_file_info(elf)->path;
	struct members members[ARRAY_SIZE(accessors)];
	const struct elf_func *funcs;
	struct plan_image img;
	size_t func_cnt;
	int code = elf_file_funcs(elf, &funcs, &func_cnt, err);

	if (!code)
		code = elf_file_image(elf, &img, err);
	for (size_t i = 0; !code && i < ARRAY_SIZE(accessors); i++) {
		const struct elf_name *name =
			elf_file_lookup(elf, accessors[i], strlen(accessors[i]));
		const struct elf_func *f = name ? &funcs[name->func] : NULL;

		if (!f || !f->in_code)
			return err_set(err, -ENOENT, "%s has no function '%s'", path, accessors[i]);
		code = members_handed_out(&img, f->addr,
			f->size ? f->addr + f->size : image_next_start(&img, f->addr),
			&members[i], err);
	}
	if (!code && agree(members, ret_at) != 1)
		return err_set(err, -EBADMSG,
			"cannot find the rank in communicators of %s: "
			"ncclCommUserRank, ncclCommCount and ncclCommCuDevice disagree", path);
	return code;
}
