// SPDX-License-Identifier: BSD-2-Clause
// Functions that are left by their own returns alone: a return probe does them no harm.
//
// A return probe replaces the return address of a call. It harms who unwinds through that, who
// goes to another stack before it is used, and who looks at it. A function does none of this
// that is known to its last instruction, stays on its stack, and calls or jumps to nothing but
// functions of its file that are proved, too, which no other can replace, and the C library's
// that only calculate. One that comes to be called by itself is left out: no more than 64 nested
// calls are seen by return probes.
//
// What interrupts it is not in its code: a signal's handler. One on another stack is known where
// calls begin (fsn_session); none must unwind through what it has interrupted.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

/* Different functions that one calls. */
#define MAX_CALLEES 64

/* Calls in calls: more are as good as recursion. */
#define MAX_LEVELS 32

/* What is known of the function of an FDE; of none at first. */
enum verdict { UNKNOWN, BEGUN, PROVED, UNPROVED };

struct callees {
	uint64_t addr[MAX_CALLEES];
	size_t cnt;
};

static int add_callee(struct callees *c, uint64_t addr)
{
	for (size_t i = 0; i < c->cnt; i++)
		if (c->addr[i] == addr)
			return 0;
	if (c->cnt == ARRAY_SIZE(c->addr))
		return 1;
	c->addr[c->cnt++] = addr;
	return 0;
}

/* What a call, or a jump that leaves, leads to. 1: it is not known, or not harmless. */
static int check_lead(const struct func *f, const struct insn *insn, struct callees *c)
{
	const struct plan_slot *slot = func_slot(f, insn);
	uint64_t target = slot ? slot->target : insn->has_target ? insn->target : 0;

	if (slot && slot->import)
		return name_only_calculates(slot->import) ? 0 : 1;
	if (slot && !slot->sure)
		return 1;
	if (!target || func_range(f, target))
		return 1;
	return add_callee(c, target);
}

/* The word under the frame pointer leads to the caller's frame. */
static bool walks_stack(const struct insn *insn, const struct flow_state *s)
{
	return (insn->stack == INSN_STACK_FP && s->fp_known && insn->stack_at == s->fp - 8) ||
		(insn->stack == INSN_STACK_SP && s->depth_known && s->fp_known &&
			insn->stack_at == s->depth - s->fp);
}

static int check_insn(const struct func *f, const struct insn *insn, struct callees *c)
{
	const struct flow_state *s = func_state(f, insn);
	const struct code_range *r = func_range(f, insn->addr);
	const uint8_t *bytes = func_bytes(f, insn);

	if (insn_switches_stack(f->p->img.arch, insn, bytes, r->end - insn->addr) ||
		insn_is_system(bytes, insn->len) || walks_stack(insn, s))
		return 1;
	switch (insn->flow) {
	case INSN_CALL:
	case INSN_JMP_MEM:
		return check_lead(f, insn, c);
	case INSN_JMP:
	case INSN_JCC:
		return insn->target == f->entry     ? 1
			: insn_leaves(f, insn) ? check_lead(f, insn, c)
					       : 0;
	case INSN_RET:
		return !s->depth_known || s->depth;
	case INSN_PLAIN:
	case INSN_TABLE: /* which was read */
	case INSN_STOP:
		return 0;
	}
	return 1;
}

/* What the function at @addr calls. 1: its own code leaves it unproved. */
static int find_callees(struct planner *p, const struct plan_request *req, struct callees *c)
{
	struct func f = { .p = p, .req = req };
	struct plan plan = { 0 };
	int ret = func_plan(&f, &plan);

	if (!ret)
		ret = plan.refused[0] || f.open || !f.bounded || func_takes_return(&f) ||
			(plan.exit != PLAN_EXIT_RET && plan.exit != PLAN_EXIT_EARLY);
	for (uint32_t i = 0; !ret && i < f.range_cnt; i++)
		ret = f.ranges[i].bad;
	for (uint32_t i = 0; !ret && i < f.insn_cnt; i++)
		if (p->states[i].seen)
			ret = check_insn(&f, &p->insns[i], c);
	plan_done(&plan);
	return ret;
}

/* 1: it is not proved. */
static int prove(struct planner *p, const struct plan_request *req, int level)
{
	const struct plan_fde *fde = image_fde(&p->img, req->addr);
	struct callees c = { .cnt = 0 };
	uint8_t *verdict;
	int ret;

	if (!fde || fde->start != req->addr)
		return 1;
	verdict = &p->proofs[fde - p->img.fdes];
	if (*verdict != UNKNOWN)
		return *verdict != PROVED;
	*verdict = BEGUN;
	ret = level == MAX_LEVELS ? 1 : find_callees(p, req, &c);
	for (size_t i = 0; !ret && i < c.cnt; i++)
		ret = prove(p, &(struct plan_request) { .addr = c.addr[i] }, level + 1);
	*verdict = ret ? UNPROVED : PROVED;
	return ret;
}

static const char proved[] =
	"proved: neither it nor what it calls unwinds, leaves its stack or is unknown";

/* As the plan for @req was, but for a return probe, at whose entry nothing is on the stack yet. */
static int plan_for_return(struct planner *p, const struct plan_request *req, struct plan *plan)
{
	struct plan_request vouched = *req;
	struct func f = { .p = p, .req = &vouched };

	vouched.return_why = proved;
	plan_done(plan);
	return func_plan(&f, plan);
}

int planner_prove(struct planner *p, const struct plan_request *req, struct plan *plan)
{
	const struct plan_rules *rules = &p->rules;
	int ret;

	if (plan->refused[0] || plan->exit != PLAN_EXIT_RET || plan->site_is_end ||
		!rules->prove || rules->return_unsafe || rules->exit != PLAN_MODE_AUTO ||
		p->img.arch != PLAN_X86_64)
		return 0;
	if (!p->proofs)
		p->proofs = calloc(p->img.fde_cnt + 1, sizeof(*p->proofs));
	ret = p->proofs ? prove(p, req, 0) : -ENOMEM;
	if (ret)
		return ret < 0 ? ret : 0;
	if (plan->site_depth)
		return plan_for_return(p, req, plan);
	free(plan->ends);
	plan->ends = NULL;
	plan->end_cnt = 0;
	plan->exit = PLAN_EXIT_RETURN;
	snprintf(plan->exit_why, sizeof(plan->exit_why), "%s", proved);
	return 0;
}
