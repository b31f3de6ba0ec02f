// SPDX-License-Identifier: BSD-2-Clause
// Code without a name: which of it is a cold part of a function that has one.
//
// Compilers move what is rarely run out of a function, to .text.unlikely. Stripped files
// keep no symbol for it, but an FDE. Who jumps to such code, and where it jumps to, is found
// in the bytes of the file (scan.c) when the first plan asks. What comes of bytes that
// are no instruction is weeded out by decoding before it decides anything that matters.
#include <errno.h>

#include "internal.h"

/* Bytes decoded to tell jumps from bytes that look like them, for all plans together. */
#define CONFIRM_BYTES (64u << 20)

static int cold_get(struct planner *p)
{
	return p->cold ? 0 : cold_new(&p->img, &p->cold);
}

static size_t jumps_below(const struct cold_index *c, uint64_t target)
{
	return FIRST_WHERE(c->jump_cnt, i, c->jumps[i].target >= target);
}

/* Decodes the nameless code of jump @j to see whether it is one. 0 or -ENOMEM. */
static int confirm_jump(struct func *f, struct jump *j)
{
	const struct plan_fde *fde = image_fde(&f->p->img, j->from);
	struct func other = { .p = f->p, .insn_cnt = f->insn_cnt };
	struct cold_index *c = f->p->cold;
	const struct insn *insn;
	int ret;

	if (j->kind != JUMP_LIKELY || !fde || c->confirm_bytes > CONFIRM_BYTES)
		return 0;
	c->confirm_bytes += fde->end - fde->start;
	/* its instructions lie behind those of @f, for a moment */
	ret = func_add_range(&other, fde->start, fde->end);
	if (ret)
		return ret == -E2BIG ? 0 : ret;
	insn = func_insn(&other, j->from);
	j->kind = insn && insn->has_target && insn->target == j->target ? JUMP_REAL
									: JUMP_FALSE;
	return 0;
}

int cold_first_jump(struct func *f, uint64_t from, uint64_t to, uint64_t *ret_addr)
{
	struct cold_index *c;
	int ret = cold_get(f->p);

	if (ret)
		return ret;
	c = f->p->cold;
	*ret_addr = to;
	for (size_t i = jumps_below(c, from + 1);
		i < c->jump_cnt && c->jumps[i].target < to; i++) {
		ret = confirm_jump(f, &c->jumps[i]);
		if (ret)
			return ret;
		if (c->jumps[i].kind == JUMP_FALSE)
			continue;
		*ret_addr = c->jumps[i].target;
		break;
	}
	return 0;
}

/* Adds FDE @fde; 1 when it was, 0 when it is code that can't be taken in. */
static int add_fde(struct func *f, const struct plan_fde *fde)
{
	int ret;

	if (func_range(f, fde->start) || func_range(f, fde->end - 1))
		return 0;
	ret = func_add_range(f, fde->start, fde->end);
	return ret == -E2BIG ? 0 : ret < 0 ? ret : 1;
}

/* Adds nameless code that jumps into the middle of @f. 1 when there was some, or -ENOMEM. */
static int add_jumpers(struct func *f)
{
	struct cold_index *c = f->p->cold;
	int ret, added = 0;

	for (uint32_t r = 0; r < f->range_cnt; r++) {
		uint64_t end = f->ranges[r].end;

		for (size_t i = jumps_below(c, f->ranges[r].start + 1);
			i < c->jump_cnt && c->jumps[i].target < end; i++) {
			struct jump *j = &c->jumps[i];

			if (func_range(f, j->from) || !func_insn(f, j->target))
				continue;
			ret = confirm_jump(f, j);
			if (!ret && j->kind == JUMP_REAL)
				ret = add_fde(f, image_fde(&f->p->img, j->from));
			if (ret < 0)
				return ret;
			added |= ret;
		}
	}
	return added;
}

/* The FDE at @i is entered by nothing but jumps of @f. */
static bool only_from(const struct func *f, uint32_t i)
{
	const struct cold_index *c = f->p->cold;

	return c->all_scanned && !(c->flags[i] & (FDE_CALLED | FDE_SHARED)) &&
		c->jumper[i] != NO_FDE &&
		func_range(f, f->p->img.fdes[c->jumper[i]].start);
}

/*
 * Whether the code to which @insn jumps is a part of @f that lies elsewhere. A jump in
 * mid-frame is no tail call; a tail call goes to a start, and a jump from a bare stack to
 * a start that others enter as well is one.
 */
static bool is_cold_target(const struct func *f, const struct insn *insn)
{
	const struct plan_image *img = &f->p->img;
	const struct flow_state *s = func_state(f, insn);
	uint32_t i = fde_index(img, insn->target);
	const uint8_t *code;
	size_t len;

	if (i == NO_FDE || !(f->p->cold->flags[i] & FDE_NAMELESS))
		return false;
	code = image_code(img, insn->target, &len);
	if (!code || insn_is_plt(img->arch, code, len))
		return false;
	if (f->p->cold->flags[i] & FDE_CALLED)
		return false;
	if (s->seen && s->depth_known && s->depth > 0)
		return true;
	return insn->target != img->fdes[i].start || only_from(f, i);
}

static int add_targets(struct func *f)
{
	uint32_t cnt = f->insn_cnt;
	int ret, added = 0;

	for (uint32_t i = 0; i < f->far_cnt; i++) {
		ret = add_fde(f, f->far[i]);
		if (ret < 0)
			return ret;
		added |= ret;
	}
	for (uint32_t i = 0; i < cnt; i++) {
		if (!f->p->states[i].seen)
			continue;
		/* the array moves when it grows */
		struct insn insn = f->p->insns[i];

		if (!insn_leaves(f, &insn) || !is_cold_target(f, &f->p->insns[i]))
			continue;
		ret = add_fde(f, image_fde(&f->p->img, insn.target));
		if (ret < 0)
			return ret;
		added |= ret;
	}
	return added;
}

int func_add_cold(struct func *f)
{
	int ret = cold_get(f->p);

	/* each round adds a range, of which there are few */
	while (!ret) {
		int targets = add_targets(f),
		    jumpers = targets < 0 ? targets : add_jumpers(f);

		if (jumpers < 0)
			return jumpers;
		if (!targets && !jumpers)
			break;
		flow_run(f);
	}
	return ret;
}
