// SPDX-License-Identifier: BSD-2-Clause
// Where calls of a function end, and how that is seen.
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Why the ends can't be probed, or "". */
struct trouble {
	char text[PLAN_WHY_LEN];
};

__attribute__((format(printf, 3, 4))) static void trouble(
	struct trouble *t, uint64_t addr, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (t->text[0])
		return;
	n = snprintf(t->text, sizeof(t->text), "at 0x%llx: ", (unsigned long long)addr);
	va_start(ap, fmt);
	vsnprintf(t->text + n, sizeof(t->text) - n, fmt, ap);
	va_end(ap);
}

/* --- jumps to the function's own entry ---------------------------------------- */

/* A frame was taken down before: what follows is a call of the function by itself. */
static bool is_restart(const struct flow_state *s)
{
	return s->seen && s->moved && (!s->depth_known || s->depth == 0);
}

const struct insn *func_loop_to_entry(const struct func *f)
{
	for (uint32_t i = 0; i < f->insn_cnt; i++) {
		const struct insn *insn = &f->p->insns[i];

		if ((insn->flow == INSN_JMP || insn->flow == INSN_JCC) &&
			insn->target == f->entry && insn->addr != f->go_jump &&
			(f->open || f->p->states[i].seen) &&
			!is_restart(&f->p->states[i]))
			return insn;
	}
	return NULL;
}

/* --- the ends ------------------------------------------------------------------ */

static const struct plan_slot *find_slot(const struct plan_image *img, uint64_t addr)
{
	size_t at = FIRST_WHERE(img->slot_cnt, i, img->slots[i].addr >= addr);

	return at < img->slot_cnt && img->slots[at].addr == addr ? &img->slots[at] : NULL;
}

const struct plan_slot *func_slot(const struct func *f, const struct insn *insn)
{
	const struct plan_image *img = &f->p->img;
	const uint8_t *code;
	uint64_t word;
	size_t len;

	code = insn->has_target ? image_code(img, insn->target, &len) : NULL;
	if (code && insn_plt_word(f->p->dec, img->arch, code, len, insn->target, &word))
		return find_slot(img, word);
	if (!insn->has_target && insn->has_data && !insn->indexed)
		return find_slot(img, insn->data);
	return NULL;
}

/* Where a jump leads in the end. */
static void set_target(const struct func *f, const struct insn *insn, struct plan_end *end)
{
	const struct plan_slot *slot = func_slot(f, insn);

	end->target = slot ? slot->target : insn->has_target ? insn->target : 0;
	end->word = slot && slot->target && !slot->sure ? slot->addr : 0;
}

static void add_end(struct func *f, struct plan *plan, const struct insn *insn,
	enum plan_exit_kind kind, struct trouble *t)
{
	char why[PLAN_WHY_LEN];

	struct plan_end *end;

	plan->ends = array_grow(plan->ends, plan->end_cnt, sizeof(*plan->ends));
	end = &plan->ends[plan->end_cnt++];
	*end = (struct plan_end) {
		.addr = insn->addr,
		.kind = kind,
		.cond = insn->cond,
		.reg = insn->reg,
		.bit = insn->bit,
		.width = insn->width,
		.stepped = !insn_emulated(f->p->img.arch, func_bytes(f, insn), insn->len,
			&f->p->rules),
		.restart = insn->has_target && insn->target == f->entry,
	};
	set_target(f, insn, end);
	if (!insn_probe_ok(f->p->img.arch, func_bytes(f, insn), insn->len, &f->p->rules,
		    why, sizeof(why)))
		trouble(t, insn->addr, "a call ends here, but %s", why);
}

/* A branch may lead behind the lock prefix of the instruction there, and nowhere else. */
static bool is_boundary(const struct func *f, uint64_t addr)
{
	const struct insn *insn = func_insn(f, addr);

	if (insn)
		return true;
	insn = func_insn(f, addr - 1);
	return insn && insn->lock;
}

/* A direct jump that stays: does it stay in what was decoded? */
static void check_inner(struct func *f, const struct insn *insn, struct trouble *t)
{
	if (func_range(f, insn->target) && !is_boundary(f, insn->target))
		trouble(t, insn->addr, "a jump into the middle of an instruction");
}

static void direct_end(
	struct func *f, struct plan *plan, const struct insn *insn, struct trouble *t)
{
	const struct flow_state *s = func_state(f, insn);
	uint64_t at = insn->addr;
	size_t len;

	if (insn->target != f->entry) {
		if (func_range(f, insn->target)) {
			check_inner(f, insn, t);
			return;
		}
		if (!image_code(&f->p->img, insn->target, &len)) {
			trouble(t, at, "a jump to where no code is: these bytes are data");
			return;
		}
		if (s->seen && s->level == FLOW_SURE && s->depth_known && s->depth)
			trouble(t, at,
				"a jump leaves the function before its stack frame is removed");
	}
	if (insn->cond == INSN_COND_NONE)
		trouble(t, at,
			"a jump leaves on a condition that cannot be evaluated");
	add_end(
		f, plan, insn, insn->flow == INSN_JMP ? PLAN_END_JMP : PLAN_END_JCC, t);
}

static void indirect_end(
	struct func *f, struct plan *plan, const struct insn *insn, struct trouble *t)
{
	const struct flow_state *s = func_state(f, insn);

	/* with the frame up it is no tail call: a jump table or a computed goto */
	if (s->seen && s->depth_known && s->depth > 0)
		return;
	if (insn->flow == INSN_JMP_REG) {
		add_end(f, plan, insn, PLAN_END_JMP_REG, t);
		return;
	}
	if (insn->indexed)
		trouble(t, insn->addr,
			"a jump through an array may be a jump table or a tail call");
	add_end(f, plan, insn, PLAN_END_JMP, t);
}

static void insn_end(
	struct func *f, struct plan *plan, const struct insn *insn, struct trouble *t)
{
	uint64_t at = insn->addr;
	size_t len;

	switch (insn->flow) {
	case INSN_JMP:
	case INSN_JCC:
		direct_end(f, plan, insn, t);
		return;
	case INSN_JMP_REG:
	case INSN_JMP_MEM:
		if (!f->bounded)
			trouble(t, at, "its size is not known, and a jump may stay inside or leave");
		indirect_end(f, plan, insn, t);
		return;
	case INSN_TABLE:
		if (!f->bounded)
			trouble(t, at, "its size is not known, and it has a jump table");
		return;
	case INSN_RET:
	case INSN_RET_AUTH:
		add_end(f, plan, insn, PLAN_END_RET, t);
		return;
	case INSN_BAD:
		trouble(t, at, "an instruction that is not known");
		return;
	case INSN_FAR:
		trouble(t, at, "a far jump or a return from an interrupt");
		return;
	case INSN_CALL:
		if (insn->has_target && !image_code(&f->p->img, insn->target, &len))
			trouble(t, at, "a call to where no code is: these bytes are data");
		else if (insn->has_target && insn->target != f->entry &&
			func_range(f, insn->target))
			check_inner(f, insn, t);
		return;
	}
}

/* Control runs over the end of range @r: its last instruction goes on behind itself. */
static bool runs_over(const struct func *f, const struct code_range *r)
{
	const struct insn *insn = f->p->insns + r->first + r->cnt;
	const struct flow_state *s = f->p->states + r->first + r->cnt;
	uint64_t behind = r->end;

	for (uint32_t i = 0; i < r->cnt; i++) {
		insn--;
		s--;
		if (insn->addr + insn->len != behind || func_range(f, r->end))
			return false;
		behind = insn->addr;
		if (insn->nop && !(s->seen && s->level == FLOW_SURE))
			continue; /* padding */
		return s->seen && (insn->flow == INSN_PLAIN || insn->flow == INSN_JCC);
	}
	return false;
}

/* What would be an end if control came there, or hides what would be one. */
static bool is_way_out(const struct func *f, const struct insn *insn)
{
	switch (insn->flow) {
	case INSN_PLAIN:
	case INSN_CALL:
	case INSN_STOP:
		return false;
	}
	return !insn->has_target || insn->target == f->entry || insn_leaves(f, insn);
}

/* Nothing leads to @insn: it is data, or the function is one that can't be followed. */
static void check_unreached(struct func *f, const struct insn *insn, struct trouble *t)
{
	if (f->open && (insn->astray || is_way_out(f, insn)))
		trouble(t, f->open_at, "%s, and 0x%llx may be code or data", f->open,
			(unsigned long long)insn->addr);
}

/* Control comes to bytes that the function itself takes for data, or for neither. */
static void check_data(struct func *f, const struct insn *insn, struct trouble *t)
{
	const struct insn *at;
	const struct flow_state *s;

	if (!insn->has_data || insn->data == f->entry || insn->nop)
		return;
	at = func_insn_over(f, insn->data);
	s = at ? func_state(f, at) : NULL;
	if (!s || !s->seen)
		return;
	if (!insn->takes_addr)
		trouble(t, insn->addr, "it reads its own code");
	else if (s->behind_call || at->addr != insn->data)
		trouble(t, insn->data, "the bytes after a call may be code or data");
}

static int compare_ends(const void *a, const void *b)
{
	const struct plan_end *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static void collect_ends(struct func *f, struct plan *plan, struct trouble *t)
{

	for (uint32_t i = 0; i < f->range_cnt; i++)
		if (runs_over(f, &f->ranges[i]))
			trouble(t, f->ranges[i].end, "its code continues after its end");
	for (uint32_t i = 0; i < f->insn_cnt; i++) {
		const struct insn *insn = &f->p->insns[i];

		if (!f->p->states[i].seen) {
			check_unreached(f, insn, t);
			continue;
		}
		check_data(f, insn, t);
		insn_end(f, plan, insn, t);
	}
	if (plan->end_cnt)
		qsort(plan->ends, plan->end_cnt, sizeof(*plan->ends), compare_ends);
	else if (!t->text[0])
		snprintf(t->text, sizeof(t->text),
			"it never returns: it has no ret and no jump to another function");
}

/* --- the decision ---------------------------------------------------------------- */

static const char forced[] =
	"--exit return: an exception, a cancelled thread or a switch of stacks during a call "
	"can end the process";
static const char forced_unsafe[] =
	"--exit return: return probes are unsafe on this kernel, and a call can end the process";

static const char unproven[] = "no return probe: not proven safe";

static const char own_address[] =
	"it reads its own return address, which a return probe replaces";

/* By its own pops, or with the frame pointer of its caller, when it has made none. */
static bool pops_caller(const struct func *f)
{
	bool makes_fp = false, goes_to_fp = false;

	for (uint32_t i = 0; i < f->insn_cnt; i++) {
		const struct flow_state *s = &f->p->states[i];

		if (s->seen && s->level == FLOW_SURE && s->depth_known && s->depth < 0)
			return true;
		makes_fp |= f->p->insns[i].sp == INSN_SP_TO_FP;
		goes_to_fp |= s->seen && f->p->insns[i].sp == INSN_SP_FROM_FP;
	}
	return goes_to_fp && !makes_fp;
}

/* The instruction accesses a byte of the word at which the return address lies. */
static bool takes_return(const struct insn *insn, const struct flow_state *s)
{
	int64_t at = insn->stack_at;

	if (insn->stack == INSN_STACK_SP && s->depth_known)
		at -= s->depth;
	else if (insn->stack == INSN_STACK_FP && s->fp_known)
		at -= s->fp;
	else
		return insn->stack == INSN_STACK_SAVES_LR;
	return at < 8 && at + insn->stack_len > 0;
}

bool func_takes_return(const struct func *f)
{
	for (uint32_t i = 0; i < f->insn_cnt; i++)
		if (f->p->states[i].seen && takes_return(&f->p->insns[i], &f->p->states[i]))
			return true;
	return false;
}

__attribute__((format(printf, 3, 4))) static int decide(
	struct plan *plan, enum plan_exit exit, const char *fmt, ...)
{
	va_list ap;

	free(plan->ends);
	plan->ends = NULL;
	plan->end_cnt = 0;
	plan->exit = exit;
	va_start(ap, fmt);
	vsnprintf(plan->exit_why, sizeof(plan->exit_why), fmt, ap);
	va_end(ap);
	return 0;
}

static const char *why_ret(const struct func *f)
{
	const struct plan_rules *rules = &f->p->rules;

	if (rules->exit == PLAN_MODE_RET)
		return "--exit ret";
	if (rules->exit == PLAN_MODE_EARLY)
		return "--exit early";
	if (f->req->no_return_why)
		return f->req->no_return_why;
	if (f->req->return_why)
		return rules->return_unsafe ? "return probes are unsafe on this kernel"
					    : own_address;
	return unproven;
}

void func_say_ends(const struct func *f, struct plan *plan)
{
	size_t rets = 0, early = 0, jumps;

	for (size_t i = 0; i < plan->end_cnt; i++) {
		rets += plan->ends[i].kind == PLAN_END_RET;
		early += plan->ends[i].kind >= PLAN_END_EARLY;
	}
	jumps = plan->end_cnt - rets - early;
	snprintf(plan->exit_why, sizeof(plan->exit_why), "%s; %zu %s, %zu jump%s that leave%s",
		plan->exit == PLAN_EXIT_EARLY && f->ret_why == unproven
			? "no return probe is needed"
			: f->ret_why,
		plan->exit == PLAN_EXIT_EARLY ? early : rets,
		plan->exit == PLAN_EXIT_EARLY ? "emulated before its ret" : "ret", jumps,
		jumps == 1 ? "" : "s", jumps == 1 ? "s" : "");
}

static int decide_ret(struct func *f, struct plan *plan)
{
	struct trouble t = { "" };

	if (f->too_big)
		return decide(plan, PLAN_EXIT_NONE, "more than %u kB of code",
			PLAN_MAX_BYTES / 1024);
	collect_ends(f, plan, &t);
	if (t.text[0])
		return decide(plan, PLAN_EXIT_NONE, "%s", t.text);
	plan->exit = PLAN_EXIT_RET;
	f->ret_why = why_ret(f);
	func_say_ends(f, plan);
	return 0;
}

/*
 * What settles the exit before the ends are looked for. Returns the reason, or NULL. A word
 * taken off the stack that the caller put there: no return address lies where calls are told
 * apart, and a return probe would overwrite what is no such address.
 */
static const char *settled(const struct func *f, enum plan_exit *ret_exit)
{
	const struct plan_rules *rules = &f->p->rules;
	const char *why = name_not_followed(f->req->name);

	*ret_exit = PLAN_EXIT_NONE;
	if (rules->count_only)
		return "--count";
	if (rules->exit == PLAN_MODE_NONE)
		return "--exit none";
	if (why)
		return why;
	if (!f->at_start)
		return "not the start of a function";
	/* where a call is known by its place on the stack, and returns to where it was */
	if (f->go_behind)
		return "Go moves a stack that grows: returns cannot be matched with calls";
	if (pops_caller(f))
		return "it removes from the stack what its caller put there";
	if (rules->exit == PLAN_MODE_RETURN && func_takes_return(f))
		return own_address;
	*ret_exit = PLAN_EXIT_RETURN;
	if (rules->exit == PLAN_MODE_RETURN)
		return rules->return_unsafe ? forced_unsafe : forced;
	if (rules->exit == PLAN_MODE_AUTO && !rules->return_unsafe && f->req->return_why &&
		!f->req->no_return_why)
		return func_takes_return(f) ? NULL : f->req->return_why;
	return NULL;
}

bool func_wants_ends(const struct func *f)
{
	enum plan_exit exit;

	return !settled(f, &exit);
}

int func_exit(struct func *f, struct plan *plan)
{
	enum plan_exit exit;
	const char *why = settled(f, &exit);

	return why ? decide(plan, exit, "%s", why) : decide_ret(f, plan);
}
