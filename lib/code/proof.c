// SPDX-License-Identifier: BSD-2-Clause
// Which functions may have return probes, though nothing declares them nothrow.
//
// A return probe replaces the return address of a call. That harms code which unwinds through the
// call, which leaves the stack before the address is used, or which reads the address: its own, or
// that of a caller, by a frame pointer. Whether a function or a callee does so is read from its
// instructions: no indirect calls, no callees outside of the file but those of the C library that
// only calculate, and no copy of the frame pointer or of an address at or above the return address.
//
// In an executable that needs only the C library, and whose file has no means to unwind or to switch
// stacks, unknown callees are allowed, unless a function of the file reads frames.
//
// The kernel tracks 64 nested calls with return probes, so recursive functions have none.
// Signal handlers are not in the code: fsn_session() and target/hazard.c deal with these.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* More functions in the call graph below one: it is not proven. */
#define MAX_CALLEES 4096

enum doubt {
	DOUBT_NONE,
	DOUBT_FRAME, /* reads return addresses of callers, or may */
	DOUBT_POINTER,
	DOUBT_REPLACED,
	DOUBT_IMPORT,
	DOUBT_STACK,
	DOUBT_KERNEL,
	DOUBT_CODE,
};

static const char *const doubt_texts[] = {
	[DOUBT_FRAME] = "reads or copies stack addresses of its callers",
	[DOUBT_POINTER] = "calls a function pointer",
	[DOUBT_REPLACED] = "calls a function that another file may replace",
	[DOUBT_STACK] = "switches stacks",
	[DOUBT_KERNEL] = "has a system call instruction",
	[DOUBT_CODE] = "has code that cannot be followed",
};

/* The facts about the function of an FDE. */
struct proof {
	bool known;
	bool own_return;    /* reads its own return address */
	uint8_t doubt;      /* enum doubt: the gravest */
	const char *import; /* of DOUBT_IMPORT */
	uint32_t *callees;  /* FDEs that it calls directly, each once; to be freed */
	uint32_t callee_cnt;
};

void proofs_free(struct planner *p)
{
	for (size_t i = 0; p->proofs && i < p->img.fde_cnt; i++)
		free(p->proofs[i].callees);
	free(p->proofs);
}

/* --- one function ------------------------------------------------------------------------- */

static void doubt(struct proof *proof, enum doubt doubt, const char *import)
{
	if (proof->doubt && proof->doubt <= doubt)
		return;
	proof->doubt = doubt;
	proof->import = import;
}

static int add_callee(struct proof *proof, uint32_t fde)
{
	uint32_t *more;

	for (uint32_t i = 0; i < proof->callee_cnt; i++)
		if (proof->callees[i] == fde)
			return 0;
	more = array_grow(proof->callees, proof->callee_cnt, sizeof(*more));
	if (!more)
		return -ENOMEM;
	proof->callees = more;
	more[proof->callee_cnt++] = fde;
	return 0;
}

/* Adds the callee of a call or of a tail call. -ENOMEM. */
static int look_at_callee(const struct func *f, const struct insn *insn, struct proof *proof)
{
	const struct plan_slot *slot = func_slot(f, insn);
	uint64_t target = slot ? slot->target : insn->has_target ? insn->target : 0;
	uint32_t fde;

	if (slot && slot->import) {
		if (!name_only_calculates(slot->import))
			doubt(proof, DOUBT_IMPORT, slot->import);
		return 0;
	}
	if (!target || (slot && !slot->sure)) {
		doubt(proof, target ? DOUBT_REPLACED : DOUBT_POINTER, NULL);
		return 0;
	}
	if (target != f->entry && func_range(f, target)) {
		doubt(proof, DOUBT_CODE, NULL);
		return 0;
	}
	fde = fde_index(&f->p->img, target);
	if (fde == NO_FDE || f->p->img.fdes[fde].start != target) {
		doubt(proof, DOUBT_CODE, NULL);
		return 0;
	}
	return add_callee(proof, fde);
}

/*
 * Whether the instruction copies the frame pointer, or an address at or above the return address, or
 * reads the caller's frame pointer from the stack. Addresses are offsets from the return address,
 * depth and fp being those of the stack pointer and the frame pointer below it.
 */
static bool reads_frame(const struct insn *insn, const struct flow_state *s, bool fp_set)
{
	int64_t at = insn->stack_at;
	bool linked = s->fp_known && s->fp == 8; /* the caller's frame pointer is there */

	if (insn->stack == INSN_STACK_FP && !s->fp_known)
		/* the caller's frame pointer, unless the function has put something else there */
		return !fp_set && insn->flow == INSN_PLAIN && insn->sp != INSN_SP_ADD;
	if (insn->stack == INSN_STACK_FP)
		at -= s->fp;
	else if (insn->stack == INSN_STACK_SP && s->depth_known)
		at -= s->depth;
	else
		return insn->stack == INSN_STACK_SP && !insn->stack_len && !s->fp_known;
	if (!insn->stack_len)
		return at >= (insn->stack == INSN_STACK_FP && linked ? -8 : 0);
	return linked && !insn->sets_fp && at < 0 && at + insn->stack_len > -8;
}

static int look_at_insn(
	const struct func *f, const struct insn *insn, bool fp_set, struct proof *proof)
{
	const struct flow_state *s = func_state(f, insn);
	const struct code_range *r = func_range(f, insn->addr);
	const uint8_t *bytes = func_bytes(f, insn);

	if (insn_switches_stack(f->p->img.arch, insn, bytes, r->end - insn->addr))
		doubt(proof, DOUBT_STACK, NULL);
	if (insn_is_system(bytes, insn->len))
		doubt(proof, DOUBT_KERNEL, NULL);
	if (reads_frame(insn, s, fp_set))
		doubt(proof, DOUBT_FRAME, NULL);
	switch (insn->flow) {
	case INSN_PLAIN:
	case INSN_TABLE: /* which was read */
	case INSN_STOP:
		return 0;
	case INSN_RET:
		if (!s->depth_known || s->depth)
			doubt(proof, DOUBT_CODE, NULL);
		return 0;
	case INSN_JMP:
	case INSN_JCC:
		return insn->target == f->entry || insn_leaves(f, insn)
			? look_at_callee(f, insn, proof)
			: 0;
	case INSN_CALL:
	case INSN_JMP_MEM:
		return look_at_callee(f, insn, proof);
	}
	doubt(proof, DOUBT_POINTER, NULL);
	return 0;
}

/* The register that is the frame pointer gets another value than by "mov %rsp,%rbp". */
static bool sets_fp(const struct func *f)
{
	for (uint32_t i = 0; i < f->insn_cnt; i++)
		if (f->p->insns[i].sets_fp && f->p->insns[i].sp != INSN_SP_TO_FP)
			return true;
	return false;
}

/* Examines the instructions of the function of an FDE, without those of callees. -ENOMEM. */
static int look(struct planner *p, uint32_t fde, const struct proof **ret_proof)
{
	const struct plan_request req = { .addr = p->img.fdes[fde].start };
	struct func f = { .p = p, .req = &req };
	struct proof *proof = &p->proofs[fde];
	struct plan plan = { 0 };
	bool fp_set;
	int ret = 0;

	*ret_proof = proof;
	if (proof->known)
		return 0;
	ret = func_plan(&f, &plan);
	if (ret)
		return ret;
	proof->known = true;
	if (plan.refused[0] || f.open || !f.bounded ||
		(plan.exit != PLAN_EXIT_RET && plan.exit != PLAN_EXIT_EARLY))
		doubt(proof, DOUBT_CODE, NULL);
	proof->own_return = f.insn_cnt && func_takes_return(&f);
	for (uint32_t i = 0; i < f.range_cnt; i++)
		if (f.ranges[i].bad)
			doubt(proof, DOUBT_CODE, NULL);
	fp_set = sets_fp(&f);
	for (uint32_t i = 0; !ret && i < f.insn_cnt; i++)
		if (p->states[i].seen)
			ret = look_at_insn(&f, &p->insns[i], fp_set, proof);
	plan_done(&plan);
	return ret;
}

/* --- a function and its callees ------------------------------------------------------------- */

struct closure {
	uint32_t fdes[MAX_CALLEES];
	uint32_t cnt;
	uint8_t *seen; /* one byte for each FDE */
	bool recursive, too_large, own_return;
	bool callee;              /* .doubt is a callee's */
	const struct proof *doubt; /* the gravest, or NULL */
};

static void closure_add(struct closure *c, uint32_t fde)
{
	if (fde == c->fdes[0] && c->cnt)
		c->recursive = true;
	if (c->seen[fde])
		return;
	if (c->cnt == MAX_CALLEES) {
		c->too_large = true;
		return;
	}
	c->seen[fde] = 1;
	c->fdes[c->cnt++] = fde;
}

/* -ENOMEM. */
static int closure_find(struct planner *p, uint32_t fde, struct closure *c)
{
	const struct proof *proof;
	int ret = 0;

	closure_add(c, fde);
	for (uint32_t i = 0; !ret && i < c->cnt; i++) {
		ret = look(p, c->fdes[i], &proof);
		for (uint32_t k = 0; !ret && k < proof->callee_cnt; k++)
			closure_add(c, proof->callees[k]);
		c->own_return |= !ret && proof->own_return;
		if (ret || !proof->doubt || (c->doubt && c->doubt->doubt <= proof->doubt))
			continue;
		c->doubt = proof;
		c->callee = i > 0;
	}
	return ret;
}

/* Whether a function of the file reads frames. -ENOMEM. */
static int file_reads_frames(struct planner *p, bool *ret_reads)
{
	int ret = 0;

	for (uint32_t i = 0; !ret && !p->frames_known && i < p->img.fde_cnt; i++) {
		const struct proof *proof;

		ret = look(p, i, &proof);
		if (!ret && proof->doubt == DOUBT_FRAME && p->img.fdes[i].start != p->img.entry)
			p->reads_frames = true;
	}
	p->frames_known |= !ret;
	*ret_reads = p->reads_frames;
	return ret;
}

/* Why a function has no return probe to @why, or "". -ENOMEM. */
static int find_doubt(struct planner *p, const struct plan_request *req, char *why, size_t size)
{
	struct closure *c;
	uint32_t fde = fde_index(&p->img, req->addr);
	const char *who;
	bool reads = false;
	int ret = 0;

	why[0] = '\0';
	if (fde == NO_FDE || p->img.fdes[fde].start != req->addr) {
		snprintf(why, size, "it has no unwind information");
		return 0;
	}
	c = calloc(1, sizeof(*c));
	if (c)
		c->seen = calloc(p->img.fde_cnt, 1);
	if (!c || !c->seen) {
		free(c);
		return -ENOMEM;
	}
	ret = closure_find(p, fde, c);
	who = c->callee ? "a callee" : "it";
	if (!ret && (req->alone_why ? p->proofs[fde].own_return : c->own_return)) {
		snprintf(why, size, "%s reads its own return address",
			p->proofs[fde].own_return ? "it" : "a callee");
	} else if (!ret && c->doubt && c->doubt->doubt > DOUBT_FRAME && req->alone_why) {
		ret = file_reads_frames(p, &reads);
		if (reads)
			snprintf(why, size, "a function of the program %s",
				doubt_texts[DOUBT_FRAME]);
	} else if (!ret && c->doubt && c->doubt->doubt == DOUBT_IMPORT) {
		snprintf(why, size, "%s calls '%.40s', which may unwind or call back", who,
			c->doubt->import);
	} else if (!ret && c->doubt) {
		snprintf(why, size, "%s %s", who, doubt_texts[c->doubt->doubt]);
	}
	if (!ret && !why[0] && c->recursive)
		snprintf(why, size, "it is recursive");
	if (!ret && !why[0] && c->too_large)
		snprintf(why, size, "it has more than %d callees", MAX_CALLEES);
	free(c->seen);
	free(c);
	return ret;
}

/* --- the plan ------------------------------------------------------------------------------- */

static const char proven[] =
	"proven safe: neither it nor a callee unwinds, switches stacks or reads frames";

/* As the plan for @req was, but for a return probe, at whose entry nothing is on the stack yet. */
static int plan_for_return(
	struct planner *p, const struct plan_request *req, const char *why, struct plan *plan)
{
	struct plan_request vouched = *req;
	struct func f = { .p = p, .req = &vouched };

	vouched.return_why = why;
	plan_done(plan);
	return func_plan(&f, plan);
}

int planner_prove(struct planner *p, const struct plan_request *req, struct plan *plan)
{
	const struct plan_rules *rules = &p->rules;
	const char *why = req->alone_why ? req->alone_why : proven;
	char doubt[PLAN_WHY_LEN - 64], text[PLAN_WHY_LEN];
	struct func f = { .ret_why = text };
	int ret;

	if (plan->refused[0] || plan->exit != PLAN_EXIT_RET || plan->site_is_end ||
		(!rules->prove && !req->alone_why) || rules->return_unsafe ||
		rules->exit != PLAN_MODE_AUTO || p->img.arch != PLAN_X86_64 || req->return_why ||
		req->no_return_why)
		return 0;
	if (!p->proofs)
		p->proofs = calloc(p->img.fde_cnt + 1, sizeof(*p->proofs));
	ret = p->proofs ? find_doubt(p, req, doubt, sizeof(doubt)) : -ENOMEM;
	if (ret)
		return ret;
	if (doubt[0]) {
		snprintf(text, sizeof(text), "no return probe: %s", doubt);
		func_say_ends(&f, plan);
		return 0;
	}
	if (plan->site_depth)
		return plan_for_return(p, req, why, plan);
	free(plan->ends);
	plan->ends = NULL;
	plan->end_cnt = 0;
	plan->exit = PLAN_EXIT_RETURN;
	snprintf(plan->exit_why, sizeof(plan->exit_why), "%s", why);
	return 0;
}
