// SPDX-License-Identifier: BSD-2-Clause
// Where the entry probe goes: on the entry, or a few harmless instructions behind it.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

/* Longest run of instructions that a probe is moved over, and most that they take of the stack. */
#define MAX_STEPS 16
#define MAX_DEPTH (1 << 17)

struct site {
	struct func *f;
	struct plan *plan;
	uint32_t first; /* the instruction that runs once a call: the entry, or behind
			   Go's check of the stack */
	uint64_t limit; /* the site must lie below */
	const char *limit_why;
	bool endbr_only; /* a jump that is not resolved may lead anywhere */
	bool own_frame;  /* the stack pointer need not be the entry's */
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

/* How far behind the entry nothing but the entry leads. */
static int find_limit(struct site *s)
{
	struct func *f = s->f;
	uint64_t addr;
	int ret;

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
	ret = cold_first_jump(f, f->entry, s->limit, &addr);
	if (ret)
		return ret;
	lower_limit(s, addr, "other code jumps to an instruction after the entry");
	return 0;
}

/* Would a probe here be both the entry's and that of an end which may not be taken? */
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
 * Walks from where a call begins. Returns the instruction to land on: a fast one, or else,
 * when that one can't be probed itself, the first that can. NULL: none, and @ret_why says what
 * ended the walk.
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

static int choose_site(struct site *s)
{
	struct func *f = s->f;
	const struct insn *first = f->p->insns + s->first, *insn;
	bool fixed =
		f->p->img.arch == PLAN_ARM64 || f->p->rules.site_entry || !f->at_start;
	char why[PLAN_WHY_LEN] = "";
	bool ok = may_probe(s, first, why, sizeof(why));
	const char *stay;
	int ret;

	if (fixed || (ok && is_fast_landing(s, first))) {
		if (ok)
			set_site(s, first, NULL);
		else
			refuse(s->plan, "its first instruction can't be probed: ", why);
		return 0;
	}
	ret = find_limit(s);
	if (ret)
		return ret;
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
	return 0;
}

int func_site(struct func *f, struct plan *plan)
{
	struct site s = { .f = f, .plan = plan };
	const struct insn *loop;

	if (!f->ranges[0].cnt || f->p->insns[0].flow == INSN_BAD) {
		refuse(plan, "its first instruction can't be disassembled", "");
		return 0;
	}
	if (f->go_behind && !f->p->rules.site_entry)
		s.first = func_insn(f, f->go_behind) - f->p->insns;
	s.own_frame = plan->exit != PLAN_EXIT_RETURN && !f->p->rules.keep_args && !f->req->stack_args;
	loop = func_loop_to_entry(f);
	if (loop && f->at_start && !f->p->rules.site_entry) {
		snprintf(plan->refused, sizeof(plan->refused),
			"a loop begins at its entry (jump at +0x%llx): iterations would count as calls; --site entry does it anyway",
			(unsigned long long)(loop->addr - f->entry));
		return 0;
	}
	return choose_site(&s);
}
