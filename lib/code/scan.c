// SPDX-License-Identifier: BSD-2-Clause
// One pass over the bytes of a file: direct jumps and calls that concern nameless code.
//
// Every place that reads like a direct jump or call is taken for one: a file is too large
// to be decoded for a few functions.
#include <errno.h>
#include <string.h>

#include "internal.h"

/* Files with more code than this get an index of jumps from .text.unlikely only. */
#define SCAN_ALL_BYTES  (64u << 20)
#define SCAN_COLD_BYTES (64u << 20)
#define MAX_JUMPS       (1u << 20)

/* Bytes of the text for which one bit tells whether a nameless FDE begins there. */
#define GRAIN 16

static void cleanup_cold(struct cold_index **c)
{
	cold_free(*c);
}

struct scan {
	const struct plan_image *img;
	struct cold_index *c;
	const struct plan_text *text;
	uint64_t *nameless; /* a bit a grain of the text: a nameless FDE begins in it */
	uint32_t fde;       /* that holds the place being looked at, or NO_FDE */
};

static bool may_be_nameless(const struct scan *s, size_t off)
{
	off /= GRAIN;
	return s->nameless[off / 64] >> (off % 64) & 1;
}

static void mark_nameless(const struct scan *s, uint64_t addr)
{
	uint64_t off = addr - s->text->addr;

	if (addr < s->text->addr || off >= s->text->size)
		return;
	off /= GRAIN;
	s->nameless[off / 64] |= 1ull << (off % 64);
}

/*
 * Something refers to @target: by a call, its address, or a jump. True when a nameless FDE
 * begins there.
 */
static bool note_start(struct scan *s, uint64_t target, bool jump)
{
	uint32_t i = fde_index(s->img, target);

	if (i == NO_FDE || s->img->fdes[i].start != target ||
		!(s->c->flags[i] & FDE_NAMELESS))
		return false;
	if (i == s->fde)
		return true;
	if (!jump)
		s->c->flags[i] |= FDE_CALLED;
	else if (s->fde == NO_FDE ||
		(s->c->jumper[i] != NO_FDE && s->c->jumper[i] != s->fde))
		s->c->flags[i] |= FDE_SHARED;
	else
		s->c->jumper[i] = s->fde;
	return true;
}

static bool in_fde(const struct scan *s, uint64_t addr)
{
	const struct plan_fde *r = &s->img->fdes[s->fde];

	return addr >= r->start && addr < r->end;
}

/* A jump, or else a call or the like, from one offset of the text to another. */
static void note(struct scan *s, size_t from, uint64_t to, bool jump)
{
	uint64_t base = s->text->addr;

	if (to >= s->text->size)
		return;
	if (may_be_nameless(s, to) && note_start(s, base + to, jump))
		return;
	if (!jump || s->fde == NO_FDE || !(s->c->flags[s->fde] & FDE_NAMELESS) ||
		in_fde(s, base + to) || s->c->jump_cnt == MAX_JUMPS ||
		image_is_start(s->img, base + to))
		return;
	s->c->jumps = array_grow(s->c->jumps, s->c->jump_cnt, sizeof(*s->c->jumps));
	s->c->jumps[s->c->jump_cnt++] =
		(struct jump) { .target = base + to, .from = base + from };
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

static void scan_near(struct scan *s, size_t off, size_t end)
{
	static const bool begins_one[256] = {
		[0xe8] = true,
		[0xe9] = true,
		[0x0f] = true,
		[0x8d] = true,
	};
	const uint8_t *b = s->text->bytes;
	size_t size = s->text->size, len, target;

	for (; off < end && off + 5 <= size; off++) {
		if (!begins_one[b[off]])
			continue;
		len = looks_direct(b + off);
		if (!len || off + len > size)
			continue;
		target = off + len + rel32(b + off + len - 4);
		if (target < size)
			note(s, off, target, b[off] == 0xe9 || b[off] == 0x0f);
	}
}

static void scan_short(struct scan *s, size_t off, size_t end)
{
	const uint8_t *b = s->text->bytes;
	size_t target;

	for (; off + 2 <= end; off++) {
		if ((b[off] & 0xf0) != 0x70 && b[off] != 0xeb && b[off] != 0xe3)
			continue;
		target = off + 2 + (int8_t)b[off + 1];
		if (target < s->text->size)
			note(s, off, target, true);
	}
}

static void scan_x86(struct scan *s, size_t off, size_t end)
{
	scan_near(s, off, end);
	/* short jumps leave nameless code only near its ends */
	if (s->fde == NO_FDE || !(s->c->flags[s->fde] & FDE_NAMELESS))
		return;
	if (end - off <= 260) {
		scan_short(s, off, end);
		return;
	}
	scan_short(s, off, off + 130);
	scan_short(s, end - 130, end);
}

static void scan_a64_range(struct scan *s, size_t off, size_t end)
{
	struct insn insn;

	off = (off + 3) & ~(size_t)3;
	for (; off + 4 <= end; off += 4) {
		const uint8_t *b = s->text->bytes + off;

		/* of the branches only those with a target, bits 30 and 28 to 26 tell */
		if ((b[3] & 0x1c) != 0x14)
			continue;
		insn = (struct insn) { 0 };
		if (a64_classify(a64_word(b), s->text->addr + off, &insn) &&
			insn.has_target)
			note(s, off, insn.target - s->text->addr,
				insn.flow != INSN_CALL);
	}
}

static void scan_part(struct scan *s, uint64_t from, uint64_t to)
{
	size_t off = from - s->text->addr, end = to - s->text->addr;

	if (s->img->arch == PLAN_ARM64)
		scan_a64_range(s, off, end);
	else
		scan_x86(s, off, end);
}

/*
 * Whether FDE @i looks like one of .text.unlikely: what lies there is not aligned, and
 * neither are its neighbours.
 */
static bool looks_cold(const struct scan *s, size_t i)
{
	const struct plan_fde *f = s->img->fdes;

	if (!(s->c->flags[i] & FDE_NAMELESS))
		return false;
	return f[i].start % 16 || (i && f[i - 1].start % 16) ||
		(i + 1 < s->img->fde_cnt && f[i + 1].start % 16);
}

static void scan_text(struct scan *s)
{
	const struct plan_fde *f = s->img->fdes;
	uint64_t at = s->text->addr, end = at + s->text->size;
	size_t cold_bytes = 0;

	for (size_t i = 0; i < s->img->fde_cnt && at < end; i++) {
		uint64_t to = f[i].end < end ? f[i].end : end;

		if (f[i].end <= f[i].start || to <= at || f[i].start >= end)
			continue;
		if (f[i].start > at) {
			s->fde = NO_FDE;
			if (s->c->all_scanned)
				scan_part(s, at, f[i].start);
			at = f[i].start;
		}
		s->fde = i;
		if (s->c->all_scanned ||
			(looks_cold(s, i) && (cold_bytes += to - at) <= SCAN_COLD_BYTES))
			scan_part(s, at, to);
		at = to;
	}
	s->fde = NO_FDE;
	if (at < end && s->c->all_scanned)
		scan_part(s, at, end);
}

static void scan_marked(struct scan *s)
{
	_cleanup_free_ uint64_t *bits =
		xcalloc(s->text->size / (64 * GRAIN) + 1, sizeof(*bits));

	s->nameless = bits;
	for (size_t i = 0; i < s->img->fde_cnt; i++)
		if (s->c->flags[i] & FDE_NAMELESS)
			mark_nameless(s, s->img->fdes[i].start);
	scan_text(s);
}

static void flag_nameless(const struct plan_image *img, struct cold_index *c)
{
	size_t at = 0; /* the first symbol that begins no lower than the FDE */

	for (size_t i = 0; i < img->fde_cnt; i++) {
		const struct plan_fde *fde = &img->fdes[i];

		c->jumper[i] = NO_FDE;
		while (at < img->start_cnt && img->starts[at] < fde->start)
			at++;
		if (at == img->start_cnt || img->starts[at] >= fde->end)
			c->flags[i] = FDE_NAMELESS;
	}
}

static int compare_jumps(const void *a, const void *b)
{
	const struct jump *x = a, *y = b;

	if (x->target != y->target)
		return x->target < y->target ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

void cold_free(struct cold_index *c)
{
	if (!c)
		return;
	free(c->flags);
	free(c->jumper);
	free(c->jumps);
	free(c);
}

struct cold_index *cold_new(const struct plan_image *img)
{
	struct cold_index *c = xcalloc(1, sizeof(*c));
	struct scan s = { .img = img, .fde = NO_FDE };
	uint64_t bytes = 0;

	c->flags = xcalloc(img->fde_cnt + 1, sizeof(*c->flags));
	c->jumper = xcalloc(img->fde_cnt + 1, sizeof(*c->jumper));
	flag_nameless(img, c);
	for (size_t i = 0; i < img->text_cnt; i++)
		bytes += img->texts[i].size;
	c->all_scanned = bytes <= SCAN_ALL_BYTES;
	s.c = c;
	for (size_t i = 0; img->fde_cnt && i < img->text_cnt; i++) {
		s.text = &img->texts[i];
		scan_marked(&s);
	}
	if (c->jump_cnt)
		qsort(c->jumps, c->jump_cnt, sizeof(*c->jumps), compare_jumps);
	return c;
}
