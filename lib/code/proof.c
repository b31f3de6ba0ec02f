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

struct callee {
	uint32_t fde;
	bool tail; /* it returns to where its caller returns */
};

/* The facts about the function of an FDE. */
struct proof {
	bool known;
	bool own_return;    /* reads its own return address */
	bool unknown_tail;  /* ends by a tail call of an unknown function */
	uint8_t doubt;      /* enum doubt: the gravest */
	const char *import; /* of DOUBT_IMPORT */
	struct callee *callees; /* the direct ones, each once; to be freed */
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

static void add_callee(struct proof *proof, uint32_t fde, bool tail)
{
	for (uint32_t i = 0; i < proof->callee_cnt; i++)
		if (proof->callees[i].fde == fde) {
			proof->callees[i].tail |= tail;
			return;
		}
	proof->callees = array_grow(proof->callees, proof->callee_cnt, sizeof(*proof->callees));
	proof->callees[proof->callee_cnt++] = (struct callee) { fde, tail };
}

/* Adds the callee of a call or of a tail call. -ENOMEM. */
static void look_at_callee(const struct func *f, const struct insn *insn, struct proof *proof)
{
	const struct plan_slot *slot = func_slot(f, insn);
	uint64_t target = slot ? slot->target : insn->has_target ? insn->target : 0;
	bool tail = insn->flow != INSN_CALL;
	uint32_t fde;

	if (slot && slot->import) {
		if (!name_only_calculates(slot->import))
			doubt(proof, DOUBT_IMPORT, slot->import);
		return;
	}
	if (!target || (slot && !slot->sure)) {
		doubt(proof, target ? DOUBT_REPLACED : DOUBT_POINTER, NULL);
		proof->unknown_tail |= tail;
		return;
	}
	if (target != f->entry && func_range(f, target)) {
		doubt(proof, DOUBT_CODE, NULL);
		return;
	}
	fde = fde_index(&f->p->img, target);
	if (fde == NO_FDE || f->p->img.fdes[fde].start != target) {
		doubt(proof, DOUBT_CODE, NULL);
		proof->unknown_tail |= tail;
		return;
	}
	add_callee(proof, fde, tail);
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

static void look_at_insn(
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
		return;
	case INSN_RET:
		if (!s->depth_known || s->depth)
			doubt(proof, DOUBT_CODE, NULL);
		return;
	case INSN_JMP:
	case INSN_JCC:
		if (insn->target == f->entry || insn_leaves(f, insn))
			look_at_callee(f, insn, proof);
		return;
	case INSN_CALL:
	case INSN_JMP_MEM:
		look_at_callee(f, insn, proof);
		return;
	}
	doubt(proof, DOUBT_POINTER, NULL);
	proof->unknown_tail = true;
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
	int ret;

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
	for (uint32_t i = 0; i < f.insn_cnt; i++)
		if (p->states[i].seen)
			look_at_insn(&f, &p->insns[i], fp_set, proof);
	plan_done(&plan);
	return 0;
}

/* --- a function and its callees ------------------------------------------------------------- */

struct closure {
	uint32_t fdes[MAX_CALLEES];
	uint32_t cnt;
	uint8_t *seen; /* one byte for each FDE */
	bool tails; /* only of tail calls */
	bool recursive, too_large, own_return, unknown_tail;
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
			if (!c->tails || proof->callees[k].tail)
				closure_add(c, proof->callees[k].fde);
		c->own_return |= !ret && proof->own_return;
		c->unknown_tail |= !ret && proof->unknown_tail;
		if (ret || !proof->doubt || (c->doubt && c->doubt->doubt <= proof->doubt))
			continue;
		c->doubt = proof;
		c->callee = i > 0;
	}
	return ret;
}

static void closure_free(struct closure *c)
{
	if (c)
		free(c->seen);
	free(c);
}

/* @tails: only of tail calls. -ENOMEM. */
static int closure_new(struct planner *p, uint32_t fde, bool tails, struct closure **ret_c)
{
	struct closure *c = xcalloc(1, sizeof(*c));
	int ret;

	*ret_c = NULL;
	c->seen = xcalloc(p->img.fde_cnt, 1);
	c->tails = tails;
	ret = closure_find(p, fde, c);
	if (ret)
		closure_free(c);
	else
		*ret_c = c;
	return ret;
}

/* Finds whether functions of the file read frames, and their own return addresses. -ENOMEM. */
static int look_at_file(struct planner *p)
{
	int ret = 0;

	for (uint32_t i = 0; !ret && !p->file_known && i < p->img.fde_cnt; i++) {
		const struct proof *proof;

		ret = look(p, i, &proof);
		if (ret || p->img.fdes[i].start == p->img.entry)
			continue;
		p->reads_frames |= proof->doubt == DOUBT_FRAME;
		p->reads_returns |= proof->own_return;
	}
	p->file_known |= !ret;
	return ret;
}

/*
 * Whether the function or a function that it jumps to reads its return address, which is the
 * same. -ENOMEM.
 */
static int reads_return(struct planner *p, uint32_t fde, bool *ret_reads)
{
	struct closure *tails;
	int ret = closure_new(p, fde, true, &tails);

	if (!ret && tails->unknown_tail)
		ret = look_at_file(p);
	if (!ret)
		*ret_reads = tails->own_return || (tails->unknown_tail && p->reads_returns);
	closure_free(tails);
	return ret;
}

/* As find_doubt(), for a function of a program whose unknown callees are harmless. */
static int find_doubt_alone(
	struct planner *p, uint32_t fde, const struct closure *c, char *why, size_t size)
{
	bool reads = false;
	int ret = reads_return(p, fde, &reads);

	if (!ret && reads) {
		snprintf(why, size, "%s reads its own return address",
			p->proofs[fde].own_return ? "it" : "a function that it jumps to");
	} else if (!ret && c->doubt && c->doubt->doubt > DOUBT_FRAME) {
		ret = look_at_file(p);
		if (p->reads_frames)
			snprintf(why, size, "a function of the program %s",
				doubt_texts[DOUBT_FRAME]);
	} else if (!ret && c->doubt) {
		snprintf(why, size, "%s %s", c->callee ? "a callee" : "it",
			doubt_texts[DOUBT_FRAME]);
	}
	return ret;
}

/* As find_doubt(), for a function all of whose callees must be known. */
static void find_doubt_of_all(
	const struct proof *proof, const struct closure *c, char *why, size_t size)
{
	const char *who = c->callee ? "a callee" : "it";

	if (c->own_return)
		snprintf(why, size, "%s reads its own return address",
			proof->own_return ? "it" : "a callee");
	else if (c->doubt && c->doubt->doubt == DOUBT_IMPORT)
		snprintf(why, size, "%s calls '%.40s', which may unwind or call back", who,
			c->doubt->import);
	else if (c->doubt)
		snprintf(why, size, "%s %s", who, doubt_texts[c->doubt->doubt]);
}

/* Why a function has no return probe to @why, or "". -ENOMEM. */
static int find_doubt(struct planner *p, const struct plan_request *req, char *why, size_t size)
{
	struct closure *c;
	uint32_t fde = fde_index(&p->img, req->addr);
	int ret;

	why[0] = '\0';
	if (fde == NO_FDE || p->img.fdes[fde].start != req->addr) {
		snprintf(why, size, "it has no unwind information");
		return 0;
	}
	ret = closure_new(p, fde, false, &c);
	if (!ret && req->alone_why)
		ret = find_doubt_alone(p, fde, c, why, size);
	else if (!ret)
		find_doubt_of_all(&p->proofs[fde], c, why, size);
	if (!ret && !why[0] && c->recursive)
		snprintf(why, size, "it is recursive");
	if (!ret && !why[0] && c->too_large)
		snprintf(why, size, "it has more than %d callees", MAX_CALLEES);
	closure_free(c);
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
		p->proofs = xcalloc(p->img.fde_cnt + 1, sizeof(*p->proofs));
	ret = find_doubt(p, req, doubt, sizeof(doubt));
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
