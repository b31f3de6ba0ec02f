// SPDX-License-Identifier: BSD-2-Clause
// Finds the site of the entry probe: the entry, or a few harmless instructions later.
#include <stdio.h>
#include <string.h>

#include "elf/elf_file.h"
#include "internal.h"

/*
 * Finds landings: where control enters a function other than by its own direct jumps. These are
 * targets of jump tables, landing pads of the unwinder, and the starts of its cold parts.
 *
 * Only targets that are read from the file are trusted. If there may be others, the function is
 * marked as open.
 */

#define MAX_ENTRIES 65536 /* of one table */
#define BEHIND      64    /* bytes of alignment after a function */

/* Limit of visited instructions and table entries in one function, against hostile files. */
#define MAX_WORK (8u << 20)

static void set_open(struct func *f, uint64_t at, const char *why)
{
	if (f->open)
		return;
	f->open = why;
	f->open_at = at;
}

static bool work_left(struct func *f, uint64_t n)
{
	if (f->work + n <= MAX_WORK) {
		f->work += n;
		return true;
	}
	set_open(f, f->entry, "too many jump tables to read");
	return false;
}

/*
 * Returns the loaded bytes at @addr, or NULL if there are none. *@ret_len is the number of bytes
 * that follow.
 */
static const uint8_t *image_loaded(
	const struct plan_image *img, uint64_t addr, size_t *ret_len)
{
	for (size_t i = 0; i < img->segment_cnt; i++) {
		const struct plan_text *t = &img->segments[i];

		if (addr < t->addr || addr - t->addr >= t->size)
			continue;
		*ret_len = t->size - (addr - t->addr);
		return t->bytes + (addr - t->addr);
	}
	return NULL;
}

static size_t land(struct insn *insn)
{
	if (!insn || insn->lands)
		return 0;
	insn->lands = true;
	return 1;
}

static void go_astray(struct func *f, uint64_t target)
{
	struct insn *insn = func_insn_over(f, target);

	if (insn)
		insn->astray = true;
}

/* Compilers use an address right after the function for entries that are never reached. */
static bool is_behind(const struct func *f, uint64_t target)
{
	return target >= f->ranges[0].end && target - f->ranges[0].end < BEHIND;
}

/* Returns the nameless FDE that contains @target, a cold part of the function; or NULL. */
static const struct plan_fde *part_at(const struct func *f, uint64_t target)
{
	const struct plan_fde *fde = image_fde(&f->p->img, target);

	return fde && !image_has_start(&f->p->img, fde->start, fde->end) ? fde : NULL;
}

/* Handles @target outside all ranges. Returns false if it is implausible. */
static bool land_far(struct func *f, uint64_t target)
{
	const struct plan_fde *fde = part_at(f, target);

	if (is_behind(f, target))
		return true;
	if (!fde)
		return false;
	for (uint32_t i = 0; i < f->far_cnt; i++)
		if (f->far[i] == fde)
			return true;
	if (f->far_cnt == ARRAY_SIZE(f->far))
		return false;
	f->far[f->far_cnt++] = fde;
	return true;
}

/* --- landing pads ------------------------------------------------------------------- */

/* Reads the header of the LSDA at @r, which has the base address of its landing pads. */
static bool lsda_head(struct eh_reader *r, const struct plan_fde *fde, uint64_t *ret_base,
	uint8_t *ret_encoding)
{
	uint8_t encoding = eh_read_bytes(r, 1);
	uint64_t len;

	*ret_base = encoding == PE_OMIT ? fde->start : eh_read_pointer(r, encoding);
	if (eh_read_bytes(r, 1) != PE_OMIT)
		eh_read_leb(r, false); /* offset of the type table */
	*ret_encoding = eh_read_bytes(r, 1);
	len = eh_read_leb(r, false);
	if (r->bad || len > (uint64_t)(r->end - r->p))
		return false;
	r->end = r->p + len;
	return true;
}

/* Each call site has a start, a length, a landing pad or 0, and an action. */
static bool lsda_pads(
	struct func *f, const struct plan_fde *fde, struct eh_reader r, size_t *found)
{
	uint8_t encoding;
	uint64_t base;

	if (!lsda_head(&r, fde, &base, &encoding))
		return false;
	while (r.p < r.end && work_left(f, 1)) {
		uint64_t pad;

		eh_read_pointer(&r, encoding);
		eh_read_value(&r, encoding & 0x0f);
		pad = eh_read_pointer(&r, encoding);
		eh_read_leb(&r, false);
		if (r.bad)
			return false;
		if (!pad)
			continue;
		pad += base;
		if (!func_insn(f, pad) && (func_range(f, pad) || !land_far(f, pad))) {
			go_astray(f, pad);
			return false;
		}
		*found += land(func_insn(f, pad));
	}
	return true;
}

static size_t find_pads(struct func *f, const struct code_range *range)
{
	const struct plan_image *img = &f->p->img;
	const struct plan_fde *fde = image_fde(img, range->start);
	struct eh_reader r = { 0 };
	size_t found = 0, len;

	if (!fde)
		return 0;
	for (; fde < img->fdes + img->fde_cnt && fde->start < range->end; fde++) {
		if (!fde->lsda || !work_left(f, 1))
			continue;
		r.base = r.p = image_loaded(img, fde->lsda, &len);
		r.addr = fde->lsda;
		r.bad = false;
		if (r.p)
			r.end = r.p + len;
		if (!r.p || !lsda_pads(f, fde, r, &found))
			set_open(f, fde->start, "its exception handlers (landing pads) cannot be read");
	}
	return found;
}

/* --- jump tables ---------------------------------------------------------------------- */

/* Returns the target of entry @i, or 0 if it is not in the file. */
static uint64_t table_entry(const struct func *f, const struct insn_table *t, size_t i)
{
	size_t width = t->form == INSN_TABLE_ABS64 ? 8
		: t->form == INSN_TABLE_REL32      ? 4
						   : t->width;
	const uint8_t *b;
	uint64_t v = 0;
	size_t len;

	b = image_loaded(&f->p->img, t->base + i * width, &len);
	if (!b || len < width)
		return 0;
	memcpy(&v, b, width);
	if (t->form == INSN_TABLE_ABS64)
		return v;
	if (t->form == INSN_TABLE_REL32)
		return t->base + (int32_t)v;
	if (t->is_signed && width < 8 && v >> (8 * width - 1))
		v |= ~0ull << (8 * width);
	return t->anchor + v * t->scale;
}

/* True if the first entries lead to parts of the function, and one into the function itself. */
static bool is_table(const struct func *f, const struct insn_table *t)
{
	for (size_t i = 0; i < 8; i++) {
		uint64_t target = table_entry(f, t, i);

		if (func_insn(f, target))
			return true;
		if (!is_behind(f, target) && !part_at(f, target))
			return false;
	}
	return false;
}

/*
 * Finds the table by its base register: the nearest lea to that register whose address holds a
 * plausible table. Compilers hoist it out of loops, so it may be far away.
 */
static bool find_base(struct func *f, const struct insn *jump, struct insn_table *t)
{
	const struct code_range *r = func_range(f, jump->addr);
	const struct insn *base = f->p->insns + r->first;
	uint32_t at = jump - base;

	for (uint32_t i = 1; i <= at || at + i < r->cnt; i++) {
		if (!work_left(f, 2))
			return false;
		for (int side = 0; side < 2; side++) {
			const struct insn *insn = side ? jump + i : jump - i;

			if (side ? at + i >= r->cnt : i > at)
				continue;
			if (!x86_loads_addr(insn, func_bytes(f, insn), t->base_reg))
				continue;
			t->base = insn->data;
			if (is_table(f, t))
				return true;
		}
	}
	t->base = 0;
	return false;
}

/* Returns the number of entries that the code before @jump allows; 0: not known. */
static uint64_t index_bound(const struct func *f, const struct insn *jump)
{
	const struct code_range *r = func_range(f, jump->addr);
	const struct insn *first = f->p->insns + r->first, *jcc = NULL;
	uint64_t cnt;

	for (size_t i = 1; i <= INSN_TABLE_LOOK && jump - i >= first; i++) {
		const struct insn *insn = jump - i;

		if (insn->flow == INSN_JCC)
			jcc = insn;
		else if (insn_index_bound(
				 f->p->img.arch, insn, func_bytes(f, insn), jcc, &cnt))
			return cnt;
	}
	return 0;
}

/*
 * Returns the number of leading entries with a plausible target, at most @max. With @far, targets
 * in cold parts count also.
 */
static uint64_t table_length(
	struct func *f, const struct insn_table *t, uint64_t max, bool far)
{
	uint64_t n = 0;

	for (; n < max && n < MAX_ENTRIES && work_left(f, 1); n++) {
		uint64_t target = table_entry(f, t, n);

		if (func_insn(f, target) || is_behind(f, target))
			continue;
		if (!far || func_range(f, target) || !part_at(f, target))
			break;
	}
	return n;
}

static size_t read_table(struct func *f, const struct insn *jump)
{
	const struct code_range *r = func_range(f, jump->addr);
	static const char unknown[] = "a jump whose targets are not known";
	struct insn_table t;
	uint64_t bound, cnt;
	size_t found = 0;

	if (!insn_table(f->p->img.arch, jump, jump - f->p->insns - r->first,
		    func_bytes(f, jump), &t) ||
		(!t.base && !find_base(f, jump, &t))) {
		set_open(f, jump->addr, unknown);
		return 0;
	}
	bound = index_bound(f, jump);
	cnt = table_length(f, &t, bound, true);
	/* possibly another bound: then use all leading entries that lead into the function */
	if (!bound || cnt < bound || func_insn(f, table_entry(f, &t, cnt))) {
		if (cnt < bound)
			go_astray(f, table_entry(f, &t, cnt));
		cnt = table_length(f, &t, MAX_ENTRIES, false);
		set_open(f, jump->addr, unknown);
	}
	for (uint64_t i = 0; i < cnt && work_left(f, 1); i++) {
		uint64_t target = table_entry(f, &t, i);
		struct insn *to = func_insn(f, target);

		if (to)
			found += land(to);
		else
			land_far(f, target);
	}
	return found;
}

/*
 * A jump with the frame in place is not a tail call. Without a frame, the register of a jump may
 * hold any address.
 */
static bool may_stay(const struct insn *insn, const struct flow_state *s)
{
	switch (insn->flow) {
	case INSN_TABLE:
	case INSN_JMP_REG:
		return true;
	case INSN_JMP_MEM:
		return insn->indexed || (s->depth_known && s->depth > 0);
	}
	return false;
}

void func_forget_landings(struct func *f)
{
	f->open = NULL;
	f->work = f->far_cnt = 0;
	for (uint32_t i = 0; i < f->insn_cnt; i++)
		f->p->insns[i].lands = f->p->insns[i].table_read = f->p->insns[i].astray =
			false;
	for (uint32_t i = 0; i < f->range_cnt; i++) {
		if (i && f->ranges[i].cnt)
			land(&f->p->insns[f->ranges[i].first]);
		find_pads(f, &f->ranges[i]);
	}
}

bool func_find_landings(struct func *f)
{
	size_t found = 0;

	if (!work_left(f, f->insn_cnt / 16))
		return false;
	for (uint32_t i = 0; i < f->insn_cnt; i++) {
		struct insn *insn = &f->p->insns[i];
		const struct flow_state *s = &f->p->states[i];

		if (!s->seen || insn->table_read || !may_stay(insn, s))
			continue;
		insn->table_read = true;
		found += read_table(f, insn);
	}
	return found;
}

/*
 * Limits of the instructions that a probe is moved past, and of the stack bytes that they allocate.
 */
#define MAX_STEPS 16
#define MAX_DEPTH (1 << 17)

struct site {
	struct func *f;
	struct plan *plan;
	uint32_t first; /* the first instruction that runs exactly once per call: the entry, or
			   the one after Go's stack check */
	uint64_t limit; /* the site must be lower */
	const char *limit_why;
	bool endbr_only; /* an unresolved jump may lead anywhere */
	bool own_frame;  /* the stack pointer may differ from the entry's */
};

static bool may_probe(
	const struct site *s, const struct insn *insn, char *why, size_t size)
{
	struct func *f = s->f;

	return insn_probe_ok(
		f->p->img.arch, func_bytes(f, insn), insn->len, &f->p->rules, why, size);
}

static void lower_limit(struct site *s, uint64_t addr, const char *why)
{
	if (addr > s->f->entry && addr < s->limit) {
		s->limit = addr;
		s->limit_why = why;
	}
}

static bool is_unresolved(const struct func *f, const struct insn *insn)
{
	const struct flow_state *s = func_state(f, insn);

	switch (insn->flow) {
	case INSN_TABLE:
	case INSN_JMP_REG:
		return true;
	case INSN_JMP_MEM:
		return insn->indexed || (s->seen && s->depth_known && s->depth > 0);
	}
	return false;
}

/* Finds the limit of the code that is reached only through the entry. */
static void find_limit(struct site *s)
{
	struct func *f = s->f;

	s->limit = f->ranges[0].end;
	s->limit_why = "its code ends";
	lower_limit(s, image_next_start(&f->p->img, f->entry),
		"another symbol starts after the entry");
	for (uint32_t i = 0; i < f->insn_cnt; i++) {
		const struct insn *insn = &f->p->insns[i];

		if (insn->has_target)
			lower_limit(s, insn->target, "a jump leads to an instruction after the entry");
		if (is_unresolved(f, insn))
			s->endbr_only = true;
	}
	for (uint32_t i = 0; i < f->range_cnt; i++)
		if (f->ranges[i].bad || f->too_big)
			lower_limit(s, f->entry + 1, "its code can't be disassembled");
	lower_limit(s, cold_first_jump(f, f->entry, s->limit),
		"other code jumps to an instruction after the entry");
}

/* True if a probe here would serve both the entry and a conditional end. */
static bool is_conditional_end(const struct plan *plan, uint64_t addr)
{
	for (size_t i = 0; i < plan->end_cnt; i++)
		if (plan->ends[i].addr == addr)
			return plan->ends[i].kind == PLAN_END_JCC ||
				plan->ends[i].kind == PLAN_END_JMP_REG;
	return false;
}

static bool is_fast_landing(const struct site *s, const struct insn *insn)
{
	const uint8_t *bytes = func_bytes(s->f, insn);

	if (!insn_landing(bytes, insn->len) ||
		!insn_emulated(PLAN_X86_64, bytes, insn->len, &s->f->p->rules))
		return false;
	return !is_conditional_end(s->plan, insn->addr);
}

static bool steps_over(const struct site *s, const struct insn *insn, bool write_args)
{
	return insn_step_over(func_bytes(s->f, insn), insn->len, write_args,
		s->own_frame ? func_state(s->f, insn)->depth : -1);
}

/*
 * Walks from the start of a call. Returns the instruction for the probe: a fast one, otherwise, if
 * the first one cannot be probed, the next that can. Returns NULL if there is none; *@ret_why is
 * what stopped the walk.
 */
static const struct insn *find_landing(
	const struct site *s, bool entry_ok, const char **ret_why)
{
	struct func *f = s->f;
	const struct insn *insn = f->p->insns + s->first, *second = NULL;
	const struct insn *end = f->p->insns + f->ranges[0].cnt;
	char why[PLAN_WHY_LEN];

	*ret_why = "no later instruction is faster to probe";
	for (uint32_t i = 0; i < MAX_STEPS && insn < end; i++, insn++) {
		int32_t depth = func_state(f, insn)->depth;
		bool ok = may_probe(s, insn, why, sizeof(why)) && depth % 8 == 0 &&
			depth < MAX_DEPTH;

		if (insn->addr >= s->limit) {
			*ret_why = s->limit_why;
			break;
		}
		if (ok && is_fast_landing(s, insn))
			return insn;
		if (ok && !second)
			second = insn;
		if (!steps_over(s, insn, f->p->rules.count_only && !f->p->rules.keep_args))
			break;
		if (s->endbr_only && !insn_is_endbr(func_bytes(f, insn), insn->len)) {
			*ret_why = "a jump with an unknown target may lead past it";
			break;
		}
	}
	return entry_ok ? NULL : second;
}

static const char behind_go[] =
	"after Go's check of the stack, which runs again when the stack has grown";

static void set_site(struct site *s, const struct insn *insn, const char *why)
{
	struct plan *plan = s->plan;
	struct func *f = s->f;
	ptrdiff_t steps = insn - f->p->insns - s->first;

	plan->site = insn->addr;
	plan->site_depth = func_state(f, insn)->depth;
	for (const struct insn *i = f->p->insns + s->first; i < insn; i++)
		plan->args_written |= !steps_over(s, i, false);
	plan->site_emulated = insn_emulated(
		f->p->img.arch, func_bytes(f, insn), insn->len, &f->p->rules);
	insn_text(f->p->dec, func_bytes(f, insn), insn->len, insn->addr, plan->insn,
		sizeof(plan->insn));
	if (insn == f->p->insns)
		snprintf(plan->site_why, sizeof(plan->site_why), "entry%s%s",
			why ? ": " : "", why ? why : "");
	else if (steps == 0)
		snprintf(plan->site_why, sizeof(plan->site_why), "%s%s%s", behind_go,
			why ? ": " : "", why ? why : "");
	else
		snprintf(plan->site_why, sizeof(plan->site_why),
			"%s%s%td instruction%s%s", s->first ? behind_go : "behind ",
			s->first ? ", and " : "", steps, steps > 1 ? "s" : "", why);
}

static void refuse(struct plan *plan, const char *what, const char *why)
{
	snprintf(plan->refused, sizeof(plan->refused), "%s%s", what, why);
}

static void choose_site(struct site *s)
{
	struct func *f = s->f;
	const struct insn *first = f->p->insns + s->first, *insn;
	bool fixed =
		f->p->img.arch == PLAN_ARM64 || f->p->rules.site_entry || !f->at_start;
	char why[PLAN_WHY_LEN] = "";
	bool ok = may_probe(s, first, why, sizeof(why));
	const char *stay;

	if (fixed || (ok && is_fast_landing(s, first))) {
		if (ok)
			set_site(s, first, NULL);
		else
			refuse(s->plan, "its first instruction can't be probed: ", why);
		return;
	}
	find_limit(s);
	first = f->p->insns + s->first; /* the array may have moved */
	insn = find_landing(s, ok, &stay);
	if (insn && insn != first)
		set_site(s, insn,
			ok ? ", the kernel emulates this one"
			   : ", the entry can't be probed");
	else if (ok)
		set_site(s, first, stay);
	else
		refuse(s->plan, "its first instruction can't be probed: ", why);
}

void func_site(struct func *f, struct plan *plan)
{
	struct site s = { .f = f, .plan = plan };
	const struct insn *loop;

	if (!f->ranges[0].cnt || f->p->insns[0].flow == INSN_BAD) {
		refuse(plan, "its first instruction can't be disassembled", "");
		return;
	}
	if (f->go_behind && !f->p->rules.site_entry)
		s.first = func_insn(f, f->go_behind) - f->p->insns;
	s.own_frame = plan->exit != PLAN_EXIT_RETURN && !f->p->rules.keep_args && !f->req->stack_args;
	loop = func_loop_to_entry(f);
	if (loop && f->at_start && !f->p->rules.site_entry) {
		snprintf(plan->refused, sizeof(plan->refused),
			"a loop begins at its entry (jump at +0x%llx): iterations would count as calls; --probe site=entry does it anyway",
			(unsigned long long)(loop->addr - f->entry));
		return;
	}
	choose_site(&s);
}
