// SPDX-License-Identifier: BSD-2-Clause
// Functions made by Go's compiler: at the entry they check the stack, and begin again when it
// has grown.
#include "internal.h"

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
	len = insn_go_check(f->p->img.arch, r->bytes, r->end - r->start, f->entry, &grow);
	behind = f->entry + len;
	if (!len || !func_insn(f, behind) || !falls_to(f, behind))
		return;
	jump = grow_jump(f, grow);
	if (!jump)
		return;
	f->go_behind = behind;
	f->go_jump = jump->addr;
}
