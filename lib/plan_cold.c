// SPDX-License-Identifier: BSD-2-Clause
// Code without a name: which of it is a cold part of a function that has one.
//
// Compilers move what is rarely run out of a function, to .text.unlikely. Stripped files
// keep no symbol for it, but an FDE. Who jumps to such code, and where it jumps to, is found
// by one pass over the bytes of the file, made when the first plan asks: every place that
// reads like a direct jump or call is taken for one. What comes of bytes that are no
// instruction is weeded out by decoding before it decides anything that matters.
#include <errno.h>
#include <string.h>

#include "insn_arch.h"
#include "plan_impl.h"

/* Files with more code than this get an index of jumps from .text.unlikely only. */
#define SCAN_ALL_BYTES  (64u << 20)
#define SCAN_COLD_BYTES (64u << 20)
#define MAX_JUMPS       (1u << 20)

#define FDE_NAMELESS 1 /* no symbol begins in it */
#define FDE_CALLED   2 /* a call of its start, or its start's address taken */
#define FDE_SHARED   4 /* jumps to its start from more than one FDE, or from none */

#define NO_FDE UINT32_MAX

/* Bytes decoded to tell jumps from bytes that look like them, for all plans together. */
#define CONFIRM_BYTES (64u << 20)

enum jump_kind {
	JUMP_LIKELY, /* seen in bytes only */
	JUMP_REAL,
	JUMP_FALSE,
};

struct jump {
	uint64_t target, from;
	enum jump_kind kind;
};

struct cold_index {
	uint8_t *flags;   /* FDE_*, one byte an FDE */
	uint32_t *jumper; /* the FDE that jumps to this one's start */
	bool all_scanned; /* .jumper and FDE_CALLED are complete */
	struct jump
		*jumps; /* from nameless code into the middle of other code, by target */
	size_t jump_cnt;
	size_t confirm_bytes; /* spent of CONFIRM_BYTES */
};

void cold_free(struct cold_index *c)
{
	if (!c)
		return;
	free(c->flags);
	free(c->jumper);
	free(c->jumps);
	free(c);
}

static void cleanup_cold(struct cold_index **c)
{
	cold_free(*c);
}

/* --- the pass over the bytes ------------------------------------------------- */

struct scan {
	const struct plan_image *img;
	struct cold_index *c;
	const struct plan_text *text;
	/* a bit a byte of the text: an FDE or a symbol begins here; a nameless FDE does */
	uint64_t *begins, *nameless;
	uint32_t fde; /* that holds the place being looked at, or NO_FDE */
};

static uint32_t fde_index(const struct plan_image *img, uint64_t addr)
{
	const struct plan_range *r = image_fde(img, addr);

	return r ? r - img->fdes : NO_FDE;
}

static bool get_bit(const uint64_t *bits, size_t i)
{
	return bits[i / 64] >> (i % 64) & 1;
}

static void mark(const struct scan *s, uint64_t *bits, uint64_t addr)
{
	uint64_t off = addr - s->text->addr;

	if (addr >= s->text->addr && off < s->text->size)
		bits[off / 64] |= 1ull << (off % 64);
}

/* Something refers to the start of an FDE: by a call, its address, or a jump. */
static void note_start(struct scan *s, uint64_t target, bool jump)
{
	uint32_t i = fde_index(s->img, target);

	if (i == NO_FDE || s->img->fdes[i].start != target || i == s->fde)
		return;
	if (!jump)
		s->c->flags[i] |= FDE_CALLED;
	else if (s->fde == NO_FDE ||
		(s->c->jumper[i] != NO_FDE && s->c->jumper[i] != s->fde))
		s->c->flags[i] |= FDE_SHARED;
	else
		s->c->jumper[i] = s->fde;
}

static bool in_fde(const struct scan *s, uint64_t addr)
{
	const struct plan_range *r = &s->img->fdes[s->fde];

	return addr >= r->start && addr < r->end;
}

/* A jump, or else a call or the like, from one offset of the text to another. */
static int note(struct scan *s, size_t from, uint64_t to, bool jump)
{
	uint64_t base = s->text->addr;
	struct jump *mem;

	if (to >= s->text->size)
		return 0;
	if (get_bit(s->begins, to)) {
		if (get_bit(s->nameless, to))
			note_start(s, base + to, jump);
		return 0;
	}
	if (!jump || s->fde == NO_FDE || !(s->c->flags[s->fde] & FDE_NAMELESS) ||
		in_fde(s, base + to) || s->c->jump_cnt == MAX_JUMPS)
		return 0;
	mem = array_grow(s->c->jumps, s->c->jump_cnt, sizeof(*mem));
	if (!mem)
		return -ENOMEM;
	s->c->jumps = mem;
	mem[s->c->jump_cnt++] =
		(struct jump) { .target = base + to, .from = base + from };
	return 0;
}

static int32_t rel32(const uint8_t *b)
{
	int32_t v;

	memcpy(&v, b, 4);
	return v;
}

/* What reads like a direct jump, call or lea of an address at @b: its length, or 0. */
static inline size_t looks_direct(const uint8_t *b)
{
	switch (b[0]) {
	case 0xe8:
	case 0xe9:
		return 5;
	case 0x0f:
		return (b[1] & 0xf0) == 0x80 ? 6 : 0;
	case 0x8d:
		return (b[1] & 0xc7) == 0x05 ? 6 : 0;
	}
	return 0;
}

static int scan_near(struct scan *s, size_t off, size_t end)
{
	static const bool begins_one[256] = {
		[0xe8] = true,
		[0xe9] = true,
		[0x0f] = true,
		[0x8d] = true,
	};
	const uint8_t *b = s->text->bytes;
	size_t size = s->text->size, len, target;
	int ret = 0;

	for (; off < end && off + 5 <= size && !ret; off++) {
		if (!begins_one[b[off]])
			continue;
		len = looks_direct(b + off);
		if (!len || off + len > size)
			continue;
		target = off + len + rel32(b + off + len - 4);
		if (target < size)
			ret = note(s, off, target, b[off] == 0xe9 || b[off] == 0x0f);
	}
	return ret;
}

static int scan_short(struct scan *s, size_t off, size_t end)
{
	const uint8_t *b = s->text->bytes;
	size_t target;
	int ret = 0;

	for (; off + 2 <= end && !ret; off++) {
		if ((b[off] & 0xf0) != 0x70 && b[off] != 0xeb && b[off] != 0xe3)
			continue;
		target = off + 2 + (int8_t)b[off + 1];
		if (target < s->text->size)
			ret = note(s, off, target, true);
	}
	return ret;
}

static int scan_x86(struct scan *s, size_t off, size_t end)
{
	int ret = scan_near(s, off, end);

	/* short jumps leave nameless code only near its ends */
	if (ret || s->fde == NO_FDE || !(s->c->flags[s->fde] & FDE_NAMELESS))
		return ret;
	if (end - off <= 260)
		return scan_short(s, off, end);
	ret = scan_short(s, off, off + 130);
	return ret ? ret : scan_short(s, end - 130, end);
}

static int scan_a64_range(struct scan *s, size_t off, size_t end)
{
	struct insn insn;
	int ret = 0;

	off = (off + 3) & ~(size_t)3;
	for (; off + 4 <= end && !ret; off += 4) {
		const uint8_t *b = s->text->bytes + off;

		/* of the branches only those with a target, bits 30 and 28 to 26 tell */
		if ((b[3] & 0x1c) != 0x14)
			continue;
		insn = (struct insn) { 0 };
		if (a64_classify(a64_word(b), s->text->addr + off, &insn) &&
			insn.has_target)
			ret = note(s, off, insn.target - s->text->addr,
				insn.flow != INSN_CALL);
	}
	return ret;
}

static int scan_part(struct scan *s, uint64_t from, uint64_t to)
{
	size_t off = from - s->text->addr, end = to - s->text->addr;

	if (s->img->arch == PLAN_ARM64)
		return scan_a64_range(s, off, end);
	return scan_x86(s, off, end);
}

/*
 * Whether FDE @i looks like one of .text.unlikely: what lies there is not aligned, and
 * neither are its neighbours.
 */
static bool looks_cold(const struct scan *s, size_t i)
{
	const struct plan_range *f = s->img->fdes;

	if (!(s->c->flags[i] & FDE_NAMELESS))
		return false;
	return f[i].start % 16 || (i && f[i - 1].start % 16) ||
		(i + 1 < s->img->fde_cnt && f[i + 1].start % 16);
}

static int scan_text(struct scan *s)
{
	const struct plan_range *f = s->img->fdes;
	uint64_t at = s->text->addr, end = at + s->text->size;
	size_t cold_bytes = 0;
	int ret = 0;

	for (size_t i = 0; i < s->img->fde_cnt && at < end && !ret; i++) {
		uint64_t to = f[i].end < end ? f[i].end : end;

		if (f[i].end <= f[i].start || to <= at || f[i].start >= end)
			continue;
		if (f[i].start > at) {
			s->fde = NO_FDE;
			if (s->c->all_scanned)
				ret = scan_part(s, at, f[i].start);
			at = f[i].start;
		}
		s->fde = i;
		if (!ret &&
			(s->c->all_scanned ||
				(looks_cold(s, i) &&
					(cold_bytes += to - at) <= SCAN_COLD_BYTES)))
			ret = scan_part(s, at, to);
		at = to;
	}
	s->fde = NO_FDE;
	if (!ret && at < end && s->c->all_scanned)
		ret = scan_part(s, at, end);
	return ret;
}

static int scan_marked(struct scan *s)
{
	size_t words = s->text->size / 64 + 1;
	_cleanup_free_ uint64_t *bits = calloc(words, 2 * sizeof(*bits));

	if (!bits)
		return -ENOMEM;
	s->begins = bits;
	s->nameless = bits + words;
	for (size_t i = 0; i < s->img->fde_cnt; i++) {
		mark(s, s->begins, s->img->fdes[i].start);
		if (s->c->flags[i] & FDE_NAMELESS)
			mark(s, s->nameless, s->img->fdes[i].start);
	}
	for (size_t i = 0; i < s->img->start_cnt; i++)
		mark(s, s->begins, s->img->starts[i]);
	return scan_text(s);
}

static int compare_jumps(const void *a, const void *b)
{
	const struct jump *x = a, *y = b;

	if (x->target != y->target)
		return x->target < y->target ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

static int cold_new(const struct plan_image *img, struct cold_index **ret_cold)
{
	struct cold_index *c __cleanup(cleanup_cold) = calloc(1, sizeof(*c));
	struct scan s = { .img = img, .fde = NO_FDE };
	uint64_t bytes = 0;
	int ret;

	if (!c)
		return -ENOMEM;
	c->flags = calloc(img->fde_cnt + 1, sizeof(*c->flags));
	c->jumper = calloc(img->fde_cnt + 1, sizeof(*c->jumper));
	if (!c->flags || !c->jumper)
		return -ENOMEM;
	for (size_t i = 0; i < img->fde_cnt; i++) {
		c->jumper[i] = NO_FDE;
		if (!image_has_start(img, img->fdes[i].start, img->fdes[i].end))
			c->flags[i] = FDE_NAMELESS;
	}
	for (size_t i = 0; i < img->text_cnt; i++)
		bytes += img->texts[i].size;
	c->all_scanned = bytes <= SCAN_ALL_BYTES;
	s.c = c;
	for (size_t i = 0; img->fde_cnt && i < img->text_cnt; i++) {
		s.text = &img->texts[i];
		ret = scan_marked(&s);
		if (ret)
			return ret;
	}
	if (c->jump_cnt)
		qsort(c->jumps, c->jump_cnt, sizeof(*c->jumps), compare_jumps);
	*ret_cold = TAKE_PTR(c);
	return 0;
}

static int cold_get(struct planner *p)
{
	return p->cold ? 0 : cold_new(&p->img, &p->cold);
}

/* --- whose part is it? -------------------------------------------------------- */

static size_t jumps_below(const struct cold_index *c, uint64_t target)
{
	size_t lo = 0, hi = c->jump_cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (c->jumps[mid].target < target)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Decodes the nameless code of jump @j to see whether it is one. 0 or -ENOMEM. */
static int confirm_jump(struct func *f, struct jump *j)
{
	const struct plan_range *fde = image_fde(&f->p->img, j->from);
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
static int add_fde(struct func *f, const struct plan_range *fde)
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

	for (uint32_t i = 0; i < cnt; i++) {
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
