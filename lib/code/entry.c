// SPDX-License-Identifier: BSD-2-Clause
// Whether code begins where a symbol says so: assemblers' tables call themselves functions, too.
#include <string.h>

#include "insn_arch.h"
#include "internal.h"

/* Bytes looked through for callers, for all plans of a file; past that none are believed in. */
#define CALLER_BYTES (1ull << 30)

/* A direct call, jump or conditional jump to @target ends in the 4 bytes at @b, at @addr. */
static bool leads_to(const uint8_t *b, uint64_t addr, uint64_t target)
{
	int32_t rel;

	memcpy(&rel, b, 4);
	return addr + 4 + (int64_t)rel == target &&
		(b[-1] == 0xe8 || b[-1] == 0xe9 || (b[-1] & 0xf0) == 0x80);
}

static bool called_x86(const struct plan_text *t, uint64_t target)
{
	for (size_t i = 1; i + 4 <= t->size; i++)
		if (leads_to(t->bytes + i, t->addr + i, target))
			return true;
	return false;
}

static bool called_arm64(const struct plan_text *t, uint64_t target)
{
	for (size_t i = 0; i + 4 <= t->size; i += 4) {
		uint32_t w = a64_word(t->bytes + i);
		struct insn insn = { 0 };

		/* of the branches only those with a target, bits 30 and 28 to 26 tell */
		if ((w >> 26 & 7) == 5 && a64_classify(w, t->addr + i, &insn) &&
			insn.has_target && insn.target == target)
			return true;
	}
	return false;
}

static bool is_called(struct planner *p, uint64_t target)
{
	for (size_t i = 0; i < p->img.text_cnt; i++) {
		const struct plan_text *t = &p->img.texts[i];

		if (p->caller_bytes > CALLER_BYTES)
			return false;
		p->caller_bytes += t->size;
		if (p->img.arch == PLAN_ARM64 ? called_arm64(t, target)
					      : called_x86(t, target))
			return true;
	}
	return false;
}

bool func_is_data(struct func *f)
{
	const struct insn *first = f->p->insns;

	/* nobody describes frames of data */
	if (!f->at_start || !f->ranges[0].cnt || image_fde(&f->p->img, f->entry))
		return false;
	return !insn_can_begin(f->p->img.arch, first, func_bytes(f, first)) &&
		!is_called(f->p, f->entry);
}
