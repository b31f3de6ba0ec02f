// SPDX-License-Identifier: BSD-2-Clause
// Functions made by Go's compiler: at the entry they check the stack, and begin again when it
// has grown.
//
// The forms of the check are those of stacksplit() in Go's cmd/internal/obj/x86/obj6.go and
// arm64/obj7.go, from 1.17 on: the stack pointer less the frame is compared with
// g.stackguard0 or, in functions that run on the system's stack only, g.stackguard1: 16 and
// 24 bytes into what %r14 or x28 points at.
#include <string.h>

#include "internal.h"

/* --- the check -------------------------------------------------------------------------------- */

/* A place in the bytes that are looked at; .at moves when what was asked for is there. */
struct cursor {
	const uint8_t *bytes;
	size_t len, at;
	uint64_t addr; /* of bytes[0] */
};

static bool take(struct cursor *c, const char *bytes, size_t cnt, size_t operand)
{
	if (c->len - c->at < cnt + operand || memcmp(c->bytes + c->at, bytes, cnt) != 0)
		return false;
	c->at += cnt + operand;
	return true;
}

#define TAKE(c, bytes, operand) take(c, bytes, sizeof(bytes) - 1, operand)

/* Condition @cc of a jump, and where it leads. */
static bool take_jcc(struct cursor *c, uint8_t cc, uint64_t *ret_to)
{
	const uint8_t *b = c->bytes + c->at;
	size_t left = c->len - c->at;
	int32_t rel;

	if (left >= 2 && b[0] == (0x70 | cc)) {
		c->at += 2;
		*ret_to = c->addr + c->at + (int8_t)b[1];
		return true;
	}
	if (left < 6 || b[0] != 0x0f || b[1] != (0x80 | cc))
		return false;
	memcpy(&rel, b + 2, 4);
	c->at += 6;
	*ret_to = c->addr + c->at + rel;
	return true;
}

/* cmp 0x10(%r14) or 0x18(%r14) with a register that @rex tells: %rsp or %r12 */
static bool take_guard(struct cursor *c, uint8_t rex)
{
	const uint8_t *b = c->bytes + c->at;

	if (c->len - c->at < 4 || b[0] != rex || b[1] != 0x3b || b[2] != 0x66 ||
		(b[3] != 0x10 && b[3] != 0x18))
		return false;
	c->at += 4;
	return true;
}

static bool x86_go_check(struct cursor *c, uint64_t *ret_grow)
{
	uint64_t wraps;

	/* functions that others than Go's call load g: mov %fs:-8,%r14 */
	(void)TAKE(c, "\x64\x4c\x8b\x34\x25\xf8\xff\xff\xff", 0);
	/* cmp 0x10(%r14),%rsp; jbe */
	if (take_guard(c, 0x49))
		return take_jcc(c, 6, ret_grow);
	/* lea -N(%rsp),%r12; cmp 0x10(%r14),%r12; jbe */
	if (TAKE(c, "\x4c\x8d\x64\x24", 1) || TAKE(c, "\x4c\x8d\xa4\x24", 4))
		return take_guard(c, 0x4d) && take_jcc(c, 6, ret_grow);
	/* mov %rsp,%r12; sub $N,%r12; jb; cmp 0x10(%r14),%r12; jbe */
	return TAKE(c, "\x49\x89\xe4", 0) && TAKE(c, "\x49\x81\xec", 4) &&
		take_jcc(c, 2, &wraps) && take_guard(c, 0x4d) &&
		take_jcc(c, 6, ret_grow) && wraps == *ret_grow;
}

static bool take_word(struct cursor *c, uint32_t mask, uint32_t word)
{
	if (c->len - c->at < 4 || (a64_word(c->bytes + c->at) & mask) != word)
		return false;
	c->at += 4;
	return true;
}

static bool take_b_cond(struct cursor *c, uint32_t cond, uint64_t *ret_to)
{
	struct insn insn = { 0 };

	if (!take_word(c, 0xff00001f, 0x54000000 | cond) ||
		!a64_classify(a64_word(c->bytes + c->at - 4), c->addr + c->at - 4, &insn))
		return false;
	*ret_to = insn.target;
	return true;
}

static bool a64_go_check(struct cursor *c, uint64_t *ret_grow)
{
	uint64_t wraps;

	if (!take_word(c, ~0x400u, 0xf9400b90)) /* ldr x16,[x28,#16] or #24 */
		return false;
	if (take_word(c, ~0u, 0xeb3063ff)) /* cmp sp,x16; b.ls */
		return take_b_cond(c, 9, ret_grow);
	/* sub x17,sp,#N; cmp x17,x16; b.ls */
	if (take_word(c, 0xff8003ff, 0xd10003f1))
		return take_word(c, ~0u, 0xeb10023f) && take_b_cond(c, 9, ret_grow);
	/* subs x17,sp,#N, or of x27 that was loaded with N; b.lo; cmp x17,x16; b.ls */
	while (take_word(c, 0x1f80001f, 0x1280001b) ||
		take_word(c, 0xff8003ff, 0xb20003fb))
		;
	if (!take_word(c, 0xff8003ff, 0xf10003f1) && !take_word(c, ~0u, 0xeb3b63f1))
		return false;
	return take_b_cond(c, 3, &wraps) && take_word(c, ~0u, 0xeb10023f) &&
		take_b_cond(c, 9, ret_grow) && wraps == *ret_grow;
}

/*
 * The length of the instructions by which a Go function checks its stack, when @bytes, of
 * which @len follow and which lie at @addr, begin with them; else 0. Where they jump to when
 * the stack is too small goes to @ret_grow.
 */
static size_t check_len(enum plan_arch arch, const uint8_t *bytes, size_t len,
	uint64_t addr, uint64_t *ret_grow)
{
	struct cursor c = { .bytes = bytes, .len = len, .addr = addr };
	uint64_t grow;

	if (!(arch == PLAN_ARM64 ? a64_go_check(&c, &grow) : x86_go_check(&c, &grow)))
		return 0;
	*ret_grow = grow;
	return c.at;
}

/* --- what follows it ---------------------------------------------------------------------------- */

/* Registers spilled and reloaded around the call that grows the stack: 24 and some. */
#define MAX_GROW_INSNS 80

/*
 * The jump back to the entry that ends the code at @grow, which spills registers, calls what
 * makes the stack larger, and reloads them; or NULL when that isn't what it does.
 */
static const struct insn *grow_jump(const struct func *f, uint64_t grow)
{
	const struct insn *insn = func_insn(f, grow);
	const struct insn *end = f->p->insns + f->ranges[0].cnt;
	size_t calls = 0;

	for (size_t i = 0; insn && insn < end && i < MAX_GROW_INSNS; i++, insn++) {
		if (insn->flow == INSN_JMP)
			return calls == 1 && insn->target == f->entry ? insn : NULL;
		if (insn->sp != INSN_SP_KEEP)
			return NULL;
		if (insn->flow == INSN_CALL && insn->has_target &&
			!func_range(f, insn->target))
			calls++;
		else if (insn->flow != INSN_PLAIN)
			return NULL;
	}
	return NULL;
}

/* Control gets from the entry to @addr only through what lies between, which has no loop. */
static bool falls_to(const struct func *f, uint64_t addr)
{
	if (image_next_start(&f->p->img, f->entry) <= addr)
		return false;
	for (uint32_t i = 0; i < f->insn_cnt; i++) {
		const struct insn *insn = &f->p->insns[i];

		if (insn->has_target && insn->target > f->entry && insn->target <= addr)
			return false;
	}
	return true;
}

void func_find_go(struct func *f)
{
	const struct code_range *r = &f->ranges[0];
	const struct insn *jump;
	uint64_t behind, grow = 0;
	size_t len;

	if (!f->at_start || !r->cnt)
		return;
	len = check_len(f->p->img.arch, r->bytes, r->end - r->start, f->entry, &grow);
	behind = f->entry + len;
	if (!len || !func_insn(f, behind) || !falls_to(f, behind))
		return;
	jump = grow_jump(f, grow);
	if (!jump)
		return;
	f->go_behind = behind;
	f->go_jump = jump->addr;
}
