// SPDX-License-Identifier: BSD-2-Clause
// Finds the bounds of a function from symbols and FDEs, and checks that it is code: data tables in
// assembly files are often marked as functions.
#include <stdio.h>
#include <string.h>

#include "internal.h"

/*
 * Scans the bytes of a file once for direct jumps and calls that concern nameless code.
 *
 * All bytes that match a direct jump or call are taken for one, because a file is too large to be
 * decoded for a few functions.
 */

/* In files with more code than this, only jumps from .text.unlikely are indexed. */
#define SCAN_ALL_BYTES  (64u << 20)
#define SCAN_COLD_BYTES (64u << 20)
#define MAX_JUMPS       (1u << 20)

/* Bytes of text per bit of scan.nameless. */
#define GRAIN 16

struct scan {
	const struct plan_image *img;
	struct cold_index *c;
	const struct plan_text *text;
	uint64_t *nameless; /* one bit per GRAIN of text: a nameless FDE starts in it */
	uint32_t fde;       /* the FDE at the current position, or NO_FDE */
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
 * Records a reference to @target: a call, its address, or a jump. Returns true if a nameless FDE
 * starts there.
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

/* Records a jump, or a call or address if not @jump, between two offsets of the text. */
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
	*array_add(s->c->jumps, s->c->jump_cnt) =
		(struct jump) { .target = base + to, .from = base + from };
}

static int32_t rel32(const uint8_t *b)
{
	int32_t v;

	memcpy(&v, b, 4);
	return v;
}

/* Returns the length of a direct jump, call or lea that matches at @b, or 0. */
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
 * True if FDE @i looks like one of .text.unlikely, which is not aligned, and neither are its
 * neighbours.
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

DEFINE_ORDER(compare_jumps, struct jump, RISING(target) ?: RISING(from))

void cold_free(struct cold_index *c)
{
	if (!c)
		return;
	free(c->flags);
	free(c->jumper);
	free(c->jumps);
	free(c);
}

static struct cold_index *cold_new(const struct plan_image *img)
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

const uint8_t *image_code(const struct plan_image *img, uint64_t addr, size_t *ret_len)
{
	for (size_t i = 0; i < img->text_cnt; i++) {
		const struct plan_text *t = &img->texts[i];

		if (addr >= t->addr && addr - t->addr < t->size) {
			*ret_len = t->size - (addr - t->addr);
			return t->bytes + (addr - t->addr);
		}
	}
	return NULL;
}

/* Returns the number of starts below @addr. */
static size_t starts_below(const struct plan_image *img, uint64_t addr)
{
	return FIRST_WHERE(img->start_cnt, i, img->starts[i] >= addr);
}

/* Returns the number of FDEs that start at or below @addr. */
static size_t fdes_upto(const struct plan_image *img, uint64_t addr)
{
	return FIRST_WHERE(img->fde_cnt, i, img->fdes[i].start > addr);
}

bool image_has_start(const struct plan_image *img, uint64_t from, uint64_t to)
{
	size_t i = starts_below(img, from);

	return i < img->start_cnt && img->starts[i] < to;
}

const struct plan_fde *image_fde(const struct plan_image *img, uint64_t addr)
{
	size_t n = fdes_upto(img, addr);

	return n && addr < img->fdes[n - 1].end ? &img->fdes[n - 1] : NULL;
}

uint64_t image_next_start(const struct plan_image *img, uint64_t addr)
{
	size_t s, f = fdes_upto(img, addr);
	uint64_t next = UINT64_MAX;

	if (addr == UINT64_MAX)
		return next;
	s = starts_below(img, addr + 1);
	if (s < img->start_cnt)
		next = img->starts[s];
	if (f < img->fde_cnt && img->fdes[f].start < next)
		next = img->fdes[f].start;
	return next;
}

bool image_is_start(const struct plan_image *img, uint64_t addr)
{
	size_t s = starts_below(img, addr), n = fdes_upto(img, addr);

	return (s < img->start_cnt && img->starts[s] == addr) ||
		(n && img->fdes[n - 1].start == addr);
}

static void refuse(struct plan *plan, const char *why)
{
	snprintf(plan->refused, sizeof(plan->refused), "%s", why);
}

/*
 * Checks that an instruction starts at the entry by decoding from the start of the surrounding
 * code. If that code cannot be decoded up to the entry, only a symbol or an FDE is trusted. @len
 * bytes of code follow the entry.
 */
static int check_boundary(struct func *f, size_t len, struct plan *plan)
{
	const struct plan_image *img = &f->p->img;
	const struct plan_fde *fde = image_fde(img, f->entry);
	size_t s = starts_below(img, f->entry);
	uint64_t base = fde ? fde->start : 0;
	bool found, bad;
	int ret;

	if (!f->at_start && s && img->starts[s - 1] > base)
		base = img->starts[s - 1];
	if (base == f->entry)
		return 0;
	if (!base || f->entry - base > PLAN_MAX_BYTES - 16) {
		if (!f->at_start)
			refuse(plan, base ? "too far from the start of its function"
				: "no symbol and no unwind table says where its instructions start");
		return 0;
	}
	ret = func_add_range(f, base, f->entry + (len < 16 ? len : 16));
	if (ret)
		return ret;
	found = func_insn(f, f->entry);
	bad = f->ranges[0].bad && f->ranges[0].bad_addr <= f->entry;
	func_drop_range(f);
	if ((found && !bad) || (bad && f->at_start))
		return 0;
	refuse(plan,
		bad ? "the code before it can't be disassembled"
		    : "in the middle of an instruction");
	return 0;
}

/* Finds the end of @f, at most @limit. */
static uint64_t find_end(struct func *f, uint64_t limit)
{
	const struct plan_image *img = &f->p->img;
	const struct plan_fde *fde = image_fde(img, f->entry);
	uint64_t end = f->entry + f->req->size, next;

	f->bounded = true;
	if (fde && fde->end > limit)
		fde = NULL;
	if (f->req->size && end > f->entry && end <= limit) {
		/* a hand-written size may exclude the last instructions */
		if (fde && fde->start == f->entry && fde->end > end &&
			!image_has_start(img, end, fde->end))
			end = fde->end;
		return end;
	}
	if (fde)
		return fde->end;
	f->bounded = false;
	next = image_next_start(img, f->entry);
	return next < limit ? next : limit;
}

int func_bounds(struct func *f, struct plan *plan)
{
	const struct plan_image *img = &f->p->img;
	uint64_t end;
	size_t len;
	int ret;

	f->entry = plan->addr = f->req->addr;
	f->at_start = image_is_start(img, f->entry);
	if (!image_code(img, f->entry, &len)) {
		refuse(plan, "not in the file's executable code");
		return 0;
	}
	if (img->arch == PLAN_ARM64 && f->entry & 3) {
		refuse(plan, "not aligned as instructions are");
		return 0;
	}
	ret = check_boundary(f, len, plan);
	if (ret || plan->refused[0])
		return ret;
	f->at_start &= !f->req->place;
	end = find_end(f, f->entry + len);
	plan->size = end - f->entry;
	if (plan->size > PLAN_MAX_BYTES) {
		f->too_big = true;
		end = f->entry + (len < 16 ? len : 16);
	}
	return func_add_range(f, f->entry, end);
}

/* --- direct calls ------------------------------------------------------------------------------ */

void addrs_sort(struct addrs *a)
{
	if (a->cnt)
		qsort(a->addr, a->cnt, sizeof(*a->addr), compare_u64);
}

bool addrs_have(const struct addrs *a, uint64_t addr)
{
	return a->cnt && bsearch(&addr, a->addr, a->cnt, sizeof(*a->addr), compare_u64);
}

/* Returns the target of the call or with @jumps the jump at @bytes, or 0. */
static uint64_t call_target(enum plan_arch arch, bool jumps, const uint8_t *bytes, uint64_t addr)
{
	int32_t rel;

	if (arch == PLAN_X86_64 && (bytes[0] == 0xe8 || (jumps && bytes[0] == 0xe9))) {
		memcpy(&rel, bytes + 1, 4);
		return addr + 5 + (int64_t)rel;
	}
	if (arch == PLAN_ARM64 && a64_word(bytes) >> 26 == 0x25) /* bl */
		return addr + ((int64_t)((uint64_t)a64_word(bytes) << 38) >> 36);
	return 0;
}

void image_find_calls(const struct plan_image *img, bool jumps, const struct addrs *targets,
	direct_call_fn found, void *arg)
{
	const size_t len = img->arch == PLAN_X86_64 ? 5 : 4, step = img->arch == PLAN_X86_64 ? 1 : 4;

	for (size_t i = 0; i < img->text_cnt && targets->cnt; i++) {
		const struct plan_text *t = &img->texts[i];

		for (size_t k = 0; k + len <= t->size; k += step) {
			uint64_t to = call_target(img->arch, jumps, t->bytes + k, t->addr + k);

			if (to >= targets->addr[0] && to <= targets->addr[targets->cnt - 1] &&
				addrs_have(targets, to))
				found(arg, t->addr + k, to);
		}
	}
}

/*
 * --- code or data ------------------------------------------------------------------------------
 */

/* Limit of bytes searched for callers, by all plans of a file; past it, no callers are assumed. */
#define CALLER_BYTES (1ull << 30)

/*
 * True if the 4 bytes at @b, at @addr, are the operand of a direct call, jump or conditional jump
 * to @target.
 */
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

	/* data has no FDE */
	if (!f->at_start || !f->ranges[0].cnt || image_fde(&f->p->img, f->entry))
		return false;
	return !insn_can_begin(f->p->img.arch, first, func_bytes(f, first)) &&
		!is_called(f->p, f->entry);
}

/* --- cold parts ----------------------------------------------------------------------------- */

/*
 * Finds the cold parts of a function in nameless code.
 *
 * Compilers move rarely executed code of a function to .text.unlikely. Stripped files have no
 * symbol for it, but an FDE. The first plan that needs jumps to and from such code scans the bytes
 * of the file. Matches in bytes that are not instructions are discarded by decoding before they
 * decide anything important.
 */

/* Limit of bytes decoded to verify jumps, for all plans together. */
#define CONFIRM_BYTES (64u << 20)

static void cold_get(struct planner *p)
{
	if (!p->cold)
		p->cold = cold_new(&p->img);
}

static size_t jumps_below(const struct cold_index *c, uint64_t target)
{
	return FIRST_WHERE(c->jump_cnt, i, c->jumps[i].target >= target);
}

/* Decodes the nameless code that contains jump @j to verify it. */
static void confirm_jump(struct func *f, struct jump *j)
{
	const struct plan_fde *fde = image_fde(&f->p->img, j->from);
	struct func other = { .p = f->p, .insn_cnt = f->insn_cnt, .byte_cnt = f->byte_cnt };
	struct cold_index *c = f->p->cold;
	const struct insn *insn;

	if (j->kind != JUMP_LIKELY || !fde || c->confirm_bytes > CONFIRM_BYTES)
		return;
	c->confirm_bytes += fde->end - fde->start;
	/* its instructions temporarily follow those of @f in the arrays */
	if (func_add_range(&other, fde->start, fde->end))
		return;
	insn = func_insn(&other, j->from);
	j->kind = insn && insn->has_target && insn->target == j->target ? JUMP_REAL
									: JUMP_FALSE;
}

uint64_t cold_first_jump(struct func *f, uint64_t from, uint64_t to)
{
	struct cold_index *c;

	cold_get(f->p);
	c = f->p->cold;
	for (size_t i = jumps_below(c, from + 1);
		i < c->jump_cnt && c->jumps[i].target < to; i++) {
		confirm_jump(f, &c->jumps[i]);
		if (c->jumps[i].kind != JUMP_FALSE)
			return c->jumps[i].target;
	}
	return to;
}

/* Adds FDE @fde. Returns false if it is already there or cannot be added. */
static bool add_fde(struct func *f, const struct plan_fde *fde)
{
	return !func_range(f, fde->start) && !func_range(f, fde->end - 1) &&
		!func_add_range(f, fde->start, fde->end);
}

/* Adds nameless code that jumps into the middle of @f. Returns true if there was any. */
static bool add_jumpers(struct func *f)
{
	struct cold_index *c = f->p->cold;
	bool added = false;

	for (uint32_t r = 0; r < f->range_cnt; r++) {
		uint64_t end = f->ranges[r].end;

		for (size_t i = jumps_below(c, f->ranges[r].start + 1);
			i < c->jump_cnt && c->jumps[i].target < end; i++) {
			struct jump *j = &c->jumps[i];

			if (func_range(f, j->from) || !func_insn(f, j->target))
				continue;
			confirm_jump(f, j);
			if (j->kind == JUMP_REAL)
				added |= add_fde(f, image_fde(&f->p->img, j->from));
		}
	}
	return added;
}

/* True if the FDE at @i is entered only by jumps of @f. */
static bool only_from(const struct func *f, uint32_t i)
{
	const struct cold_index *c = f->p->cold;

	return c->all_scanned && !(c->flags[i] & (FDE_CALLED | FDE_SHARED)) &&
		c->jumper[i] != NO_FDE &&
		func_range(f, f->p->img.fdes[c->jumper[i]].start);
}

/*
 * True if @insn jumps to a cold part of @f. A jump with the frame in place is not a tail call. Tail
 * calls lead to a start; without a frame, a jump to a start that has other callers is one.
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

static bool add_targets(struct func *f)
{
	uint32_t cnt = f->insn_cnt;
	bool added = false;

	for (uint32_t i = 0; i < f->far_cnt; i++)
		added |= add_fde(f, f->far[i]);
	for (uint32_t i = 0; i < cnt; i++) {
		if (!f->p->states[i].seen)
			continue;
		/* the array moves when it grows */
		struct insn insn = f->p->insns[i];

		if (!insn_leaves(f, &insn) || !is_cold_target(f, &f->p->insns[i]))
			continue;
		added |= add_fde(f, image_fde(&f->p->img, insn.target));
	}
	return added;
}

void func_add_cold(struct func *f)
{
	cold_get(f->p);
	/* terminates: each round adds a range, and their number is limited */
	for (bool more = true; more;) {
		more = add_targets(f);
		more |= add_jumpers(f);
		if (more)
			flow_run(f);
	}
}
