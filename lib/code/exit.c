// SPDX-License-Identifier: BSD-2-Clause
// Finds where calls of a function return, and decides how returns are traced.
#include <stdarg.h>

#include "internal.h"
#include "base/util.h"

/* The reason why the ends cannot be probed, or "". */
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

/* True if a frame has been removed: a jump to the entry is then a new call, not a loop. */
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

/* Resolves the target of a jump. */
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

	end = array_add(plan->ends, plan->end_cnt);
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

/* A branch target is the start of an instruction, or the byte after its lock prefix. */
static bool is_boundary(const struct func *f, uint64_t addr)
{
	const struct insn *insn = func_insn(f, addr);

	if (insn)
		return true;
	insn = func_insn(f, addr - 1);
	return insn && insn->lock;
}

/* Checks that a direct jump inside the function leads to the start of an instruction. */
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

	/* a tail call needs the frame removed: this is a jump table or a computed goto */
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

/* True if control falls through the end of range @r. */
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

/* True if @insn would be an end, or hide one, if it were reached. */
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

/* Checks an unreached @insn: it is either data, or code reached by an unresolved jump. */
static void check_unreached(struct func *f, const struct insn *insn, struct trouble *t)
{
	if (f->open && (insn->astray || is_way_out(f, insn)))
		trouble(t, f->open_at, "%s, and 0x%llx may be code or data", f->open,
			(unsigned long long)insn->addr);
}

/* Checks for reached bytes that the function reads as data, or whose address it takes. */
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

DEFINE_ORDER(compare_ends, struct plan_end, RISING(addr))

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

/*
 * Functions compiled by Go have no data in their code, so that each ret is an end, also that after
 * the call of deferreturn, to which only the runtime jumps when a panic is recovered.
 */
static void collect_go_ends(struct func *f, struct plan *plan, struct trouble *t)
{
	for (uint32_t i = 0; i < f->insn_cnt; i++) {
		const struct insn *insn = &f->p->insns[i];

		if (insn->flow == INSN_RET)
			add_end(f, plan, insn, PLAN_END_RET, t);
		else if (insn->flow == INSN_BAD)
			trouble(t, insn->addr, "an instruction that is not known");
		else if (insn_leaves(f, insn))
			trouble(t, insn->addr, "a jump leaves the function");
	}
	if (!plan->end_cnt && !t->text[0])
		snprintf(t->text, sizeof(t->text), "it never returns: it has no ret");
}

/*
 * True if calls may be of goroutines: Go can continue one in another thread at any instruction, and
 * move its stack when it grows in a callee or in the function itself, which then has Go's check.
 */
static bool of_goroutine(const struct func *f)
{
	if (f->go_behind || f->req->go)
		return true;
	for (uint32_t i = 0; f->req->go_unknown && i < f->insn_cnt; i++)
		if (f->p->insns[i].flow == INSN_CALL)
			return true;
	return false;
}

/* --- the decision ---------------------------------------------------------------- */

static const char forced[] =
	"--probe exit=return: an exception, a cancelled thread or a switch of stacks during a call "
	"can end the process";
static const char forced_unsafe[] =
	"--probe exit=return: return probes are unsafe on this kernel, and a call can end the process";

static const char go_stack[] = "Go moves a stack that grows";

static const char unproven[] = "no return probe: not proven safe";

static const char own_address[] =
	"it reads its own return address, which a return probe replaces";

/*
 * True if it pops its caller's stack: by its own pops, or with the caller's frame pointer if it has
 * not set one up.
 */
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

/* True if the instruction accesses the return address. */
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
	return ANY_WHERE(f->insn_cnt, i, f->p->states[i].seen &&
		takes_return(&f->p->insns[i], &f->p->states[i]));
}

__attribute__((format(printf, 3, 4))) static void decide(
	struct plan *plan, enum plan_exit exit, const char *fmt, ...)
{
	va_list ap;

	free(plan->ends);
	plan->ends = NULL;
	plan->end_cnt = 0;
	plan->exit = exit;
	plan->goroutine = false;
	va_start(ap, fmt);
	vsnprintf(plan->exit_why, sizeof(plan->exit_why), fmt, ap);
	va_end(ap);
}

static bool is_go(const struct func *f)
{
	return f->go_behind || f->req->go;
}

static const char *why_ret(const struct func *f)
{
	const struct plan_rules *rules = &f->p->rules;

	if (rules->exit == PLAN_MODE_RET)
		return "--probe exit=ret";
	if (rules->exit == PLAN_MODE_EARLY)
		return "--probe exit=early";
	if (is_go(f))
		return go_stack;
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

static void decide_ret(struct func *f, struct plan *plan)
{
	struct trouble t = { "" };

	if (f->too_big) {
		decide(plan, PLAN_EXIT_NONE, "more than %u kB of code", PLAN_MAX_BYTES / 1024);
		return;
	}
	plan->goroutine = of_goroutine(f);
	if (plan->goroutine)
		collect_go_ends(f, plan, &t);
	else
		collect_ends(f, plan, &t);
	if (t.text[0]) {
		decide(plan, PLAN_EXIT_NONE, "%s", t.text);
		return;
	}
	plan->exit = PLAN_EXIT_RET;
	f->ret_why = why_ret(f);
	func_say_ends(f, plan);
}

/*
 * Decides how returns are traced without a search for ends. Returns the reason, or NULL.
 *
 * If the function pops a word of its caller's stack, the return address is not where calls are
 * matched, and a return probe would overwrite another word.
 */
static const char *settled(const struct func *f, enum plan_exit *ret_exit)
{
	const struct plan_rules *rules = &f->p->rules;
	const char *why = name_not_followed(f->req->name);

	*ret_exit = PLAN_EXIT_NONE;
	if (rules->count_only)
		return "--count";
	if (rules->exit == PLAN_MODE_NONE)
		return "--probe exit=none";
	if (why)
		return why;
	if (!f->at_start)
		return "not the start of a function";
	if (f->req->go_unknown && of_goroutine(f))
		return "Go moves a stack that grows, and the function is not known to keep the "
			"goroutine in a register";
	if (f->go_behind && rules->site_entry)
		return "with --probe site=entry, a call is counted again when Go's stack has grown";
	if (is_go(f) && rules->exit == PLAN_MODE_RETURN)
		return "Go moves a stack that grows: no return probe is safe";
	if (pops_caller(f))
		return "it removes from the stack what its caller put there";
	if (rules->exit == PLAN_MODE_RETURN && func_takes_return(f))
		return own_address;
	*ret_exit = PLAN_EXIT_RETURN;
	if (rules->exit == PLAN_MODE_RETURN)
		return rules->return_unsafe ? forced_unsafe : forced;
	if (rules->exit == PLAN_MODE_AUTO && !rules->return_unsafe && f->req->return_why &&
		!f->req->no_return_why && !is_go(f))
		return func_takes_return(f) ? NULL : f->req->return_why;
	return NULL;
}

bool func_wants_ends(const struct func *f)
{
	enum plan_exit exit;

	return !settled(f, &exit);
}

void func_exit(struct func *f, struct plan *plan)
{
	enum plan_exit exit;
	const char *why = settled(f, &exit);

	if (why)
		decide(plan, exit, "%s", why);
	else
		decide_ret(f, plan);
}

/*
 * Cheaper ends than a probed ret, which the kernel single-steps on x86-64.
 *
 * Instructions between the last branch and a ret only restore registers, so every call that reaches
 * them returns. Walk back from each ret, on all paths, to the last instruction that the kernel
 * emulates: a jump, one side of a conditional jump, a nop, a push. Each call executes exactly one
 * of these ends, once, and none after it.
 *
 * The walk tracks the location of the return address and the register that becomes the result. If a
 * ret is reached on another path, or its result is not known, all rets of the function stay probed.
 */

#define RSP 4
#define RBP 5

/*
 * Limits of instructions after an end, and of conditional ends that a call can pass without
 * returning: a single step costs more than these.
 */
#define MAX_TAIL  48
#define MAX_TESTS 16

/* Limit of instructions visited by all loop searches of one function. */
#define MAX_WORK (1u << 20)

struct edge {
	uint32_t to, from; /* instructions, by number */
};

/*
 * State of the backward walk: the location of the return address and the result at instruction idx.
 */
struct tail {
	uint32_t idx, len;
	struct plan_place place;
	struct plan_value value;
	bool value_known;
};

struct early {
	struct func *f;
	const struct plan *plan;
	struct edge *edges; /* by jumps, sorted */
	size_t edge_cnt;
	struct plan_end *ends;
	size_t end_cnt, test_cnt;
	uint8_t *seen; /* of one search: reached instructions */
	uint32_t *todo;
	uint32_t work;
};

static void early_done(struct early *e)
{
	free(e->edges);
	free(e->ends);
	free(e->seen);
	free(e->todo);
}

/* --- control flow -------------------------------------------------------------------------- */

DEFINE_ORDER(compare_edges, struct edge, RISING(to) ?: RISING(from))

static bool is_seen(const struct func *f, uint32_t idx)
{
	return f->p->states[idx].seen;
}

static bool goes_on(const struct insn *insn)
{
	return insn->flow == INSN_PLAIN || insn->flow == INSN_JCC || insn->flow == INSN_CALL;
}

/* Returns the instruction after @idx, also in another range, or -1. */
static int64_t behind(const struct func *f, uint32_t idx)
{
	const struct insn *insn = &f->p->insns[idx];
	const struct insn *next = func_insn(f, insn->addr + insn->len);

	return next ? next - f->p->insns : -1;
}

/* Collects edges by jumps and between ranges. Returns 1 if some cannot be followed. */
static int find_edges(struct early *e)
{
	const struct func *f = e->f;

	for (uint32_t i = 0; i < f->insn_cnt; i++) {
		const struct insn *insn = &f->p->insns[i];
		int64_t next = -1;

		if (insn->has_target && insn->target != f->entry) {
			const struct insn *to = func_insn(f, insn->target);

			/* an internal subroutine: its ret is not the function's */
			if (to && insn->flow == INSN_CALL && is_seen(f, i))
				return 1;
			next = to ? to - f->p->insns : -1;
		}
		for (int side = 0; side < 2; side++) {
			if (side == 1)
				next = goes_on(insn) ? behind(f, i) : -1;
			if (next < 0 || (side == 1 && next == i + 1))
				continue;
			*array_add(e->edges, e->edge_cnt) = (struct edge) { next, i };
		}
	}
	if (e->edge_cnt)
		qsort(e->edges, e->edge_cnt, sizeof(*e->edges), compare_edges);
	return 0;
}

/* The first edge to @idx or a later instruction. */
static size_t first_edge(const struct early *e, uint32_t idx)
{
	return FIRST_WHERE(e->edge_cnt, i, e->edges[i].to >= idx);
}

/* --- loops ---------------------------------------------------------------------------------- */

static void reach(struct early *e, int64_t idx, uint32_t *cnt)
{
	if (idx < 0 || e->seen[idx])
		return;
	e->seen[idx] = 1;
	e->todo[(*cnt)++] = idx;
}

/* Adds all possible targets of an indirect jump. */
static void reach_landings(struct early *e, uint32_t *cnt)
{
	for (uint32_t i = 0; i < e->f->insn_cnt; i++)
		if (e->f->p->insns[i].lands)
			reach(e, i, cnt);
}

/* True if control can reach jump @from again after it continued at @start. */
static bool is_in_loop(struct early *e, uint32_t from, int64_t start)
{
	const struct func *f = e->f;
	uint32_t cnt = 0;
	bool landed = false;

	memset(e->seen, 0, f->insn_cnt);
	reach(e, start, &cnt);
	while (cnt && !e->seen[from] && e->work < MAX_WORK) {
		uint32_t idx = e->todo[--cnt];
		const struct insn *insn = &f->p->insns[idx], *to = NULL;

		e->work++;
		if (insn->has_target && insn->flow != INSN_CALL && insn->target != f->entry)
			to = func_insn(f, insn->target);
		if (to)
			reach(e, to - f->p->insns, &cnt);
		if (goes_on(insn))
			reach(e, behind(f, idx), &cnt);
		if (!landed && (insn->flow == INSN_TABLE || insn->flow == INSN_JMP_REG ||
				       insn->flow == INSN_JMP_MEM)) {
			landed = true;
			reach_landings(e, &cnt);
		}
	}
	return e->seen[from] || e->work >= MAX_WORK;
}

/* --- the ends ------------------------------------------------------------------------------- */

static bool same_place(const struct plan_place *a, const struct plan_place *b)
{
	return a->offset == b->offset && a->from_fp == b->from_fp;
}

static bool same_value(const struct plan_value *a, const struct plan_value *b)
{
	return a->is_number == b->is_number && a->number == b->number && a->reg == b->reg &&
		a->cut == b->cut;
}

/* True if the kernel emulates a probe on @insn, and @insn is not the entry's probe site. */
static bool may_end_at(const struct early *e, const struct insn *insn)
{
	const struct planner *p = e->f->p;
	const uint8_t *bytes = func_bytes(e->f, insn);
	char why[PLAN_WHY_LEN];

	/* some kernels turn a probed 5-byte nop into a call; avoid it on all */
	if (insn->nop && insn->len == 5)
		return false;
	return insn->addr != e->plan->site &&
		insn_emulated(p->img.arch, bytes, insn->len, &p->rules) &&
		insn_probe_ok(p->img.arch, bytes, insn->len, &p->rules, why, sizeof(why));
}

/* True if the forward analysis agrees or does not know. */
static bool is_plausible(const struct flow_state *s, const struct plan_place *place)
{
	if (place->offset % 8 || place->offset < -(1 << 17) || place->offset >= 1 << 17)
		return false;
	if (s->level > FLOW_CALL)
		return true;
	if (place->from_fp)
		return !s->fp_known || s->fp == place->offset;
	return !s->depth_known || s->depth == place->offset;
}

static struct plan_end *find_end(const struct early *e, uint64_t addr)
{
	return FIND_WHERE(e->ends, e->end_cnt, i, e->ends[i].addr == addr);
}

/* Makes @idx an end: calls continue with tail @t. Returns 1 if it cannot be one. */
static int early_add_end(struct early *e, uint32_t idx, const struct tail *t,
	enum plan_exit_kind kind, uint8_t cond)
{
	const struct insn *insn = &e->f->p->insns[idx];
	struct plan_end *end = find_end(e, insn->addr);

	if (!t->value_known || !is_plausible(&e->f->p->states[idx], &t->place) ||
		!may_end_at(e, insn))
		return 1;
	if (end) { /* the other side of a conditional jump */
		if (!same_place(&end->place, &t->place) || !same_value(&end->value, &t->value))
			return 1;
		end->kind = PLAN_END_EARLY;
		return 0;
	}
	*array_add(e->ends, e->end_cnt) = (struct plan_end) {
		.addr = insn->addr,
		.kind = kind,
		.cond = cond,
		.place = t->place,
		.value = t->value,
	};
	return 0;
}

/*
 * Makes a conditional jump an end; the tail is on its side @taken. Returns 1 if it cannot be one.
 */
static int add_test(struct early *e, uint32_t idx, const struct tail *t, bool taken)
{
	const struct insn *insn = &e->f->p->insns[idx];
	const struct insn *to = func_insn(e->f, insn->target);
	int64_t other = taken ? behind(e->f, idx) : to ? to - e->f->p->insns : -1;

	if (insn->cond > 15 || ++e->test_cnt > MAX_TESTS || is_in_loop(e, idx, other))
		return 1;
	return early_add_end(e, idx, t, PLAN_END_EARLY_JCC, insn->cond ^ (taken ? 0 : 1));
}

/* --- back from a ret ------------------------------------------------------------------------ */

static bool value_back(const struct insn_effect *e, struct plan_value *v)
{
	uint64_t number = e->number;
	uint8_t cut = e->bits == 64 ? 0 : e->bits == 32 ? 1 : e->bits == 16 ? 2 : 3;

	if (e->how == INSN_WRITES_COPY && e->from != RSP) {
		v->reg = e->from;
		v->cut = v->cut > cut ? v->cut : cut;
		return true;
	}
	if (e->how != INSN_WRITES_NUMBER || v->cut > 1)
		return false;
	if (v->cut == 1)
		number = (uint32_t)number;
	*v = (struct plan_value) { .is_number = true };
	for (int n = PLAN_NUMBER_MIN; n <= PLAN_NUMBER_MAX; n++) {
		v->number = n;
		v->cut = number != (uint64_t)n;
		if (number == (uint64_t)n || number == (uint32_t)n)
			return true;
	}
	return false;
}

static bool place_back(const struct insn *insn, uint16_t writes, struct plan_place *place)
{
	int64_t offset = place->offset;

	if (place->from_fp)
		return !(writes >> RBP & 1) && insn->sp != INSN_SP_TO_FP;
	switch (insn->sp) {
	case INSN_SP_ADD:
		offset += insn->sp_arg;
		break;
	case INSN_SP_FROM_FP:
		offset += insn->sp_arg;
		place->from_fp = true;
		break;
	case INSN_SP_LOST:
		return false;
	}
	place->offset = offset;
	return place->offset == offset;
}

/* Moves @t back over @insn, which only leads to it. Returns false if the state is not known. */
static bool step_back(const struct func *f, const struct insn *insn, struct tail *t)
{
	struct insn_effect effect;

	if (!insn_effect(func_bytes(f, insn), insn->len, &effect) ||
		!place_back(insn, effect.writes, &t->place) || ++t->len > MAX_TAIL)
		return false;
	if (!t->value.is_number && effect.writes >> t->value.reg & 1)
		t->value_known = t->value_known && value_back(&effect, &t->value);
	return true;
}

/* Follows the fall-through path into @t: @idx becomes an end, or is added to the tail. */
static int come_from(struct early *e, uint32_t idx, struct tail *t, bool *ret_more)
{
	const struct insn *insn = &e->f->p->insns[idx];

	if (insn->flow == INSN_JCC)
		return add_test(e, idx, t, false);
	if (insn->flow != INSN_PLAIN)
		return 1;
	if (!step_back(e->f, insn, t))
		return 1;
	t->idx = idx;
	*ret_more = !may_end_at(e, insn) || !t->value_known || insn->addr <= e->plan->site;
	return *ret_more ? 0 : early_add_end(e, idx, t, PLAN_END_EARLY, 0);
}

/* Follows all paths into @t. Sets *@ret_more if one falls through, and moves @t there. */
static int ways_back(struct early *e, struct tail *t, bool *ret_more)
{
	const struct func *f = e->f;
	const struct insn *insn = &f->p->insns[t->idx];
	struct tail here = *t;
	uint32_t idx = t->idx;
	int ret = 0;

	*ret_more = false;
	if (insn->lands || insn->addr == f->entry)
		return 1;
	if (idx && is_seen(f, idx - 1) && goes_on(insn - 1) &&
		insn[-1].addr + insn[-1].len == insn->addr)
		ret = come_from(e, idx - 1, t, ret_more);
	for (size_t i = first_edge(e, idx); !ret && i < e->edge_cnt && e->edges[i].to == idx;
		i++) {
		uint32_t from = e->edges[i].from;
		const struct insn *jump = &f->p->insns[from];

		if (!is_seen(f, from)) /* an unreached jump into reached code: the analysis is
					  incomplete */
			ret = 1;
		else if (jump->flow == INSN_JMP)
			ret = early_add_end(e, from, &here, PLAN_END_EARLY, 0);
		else if (jump->flow == INSN_JCC && jump->target == insn->addr)
			ret = add_test(e, from, &here, true);
		else
			ret = 1;
	}
	return ret;
}

/* Finds ends that replace the ret at @addr. Returns 1 if there are none. */
static int replace_ret(struct early *e, uint64_t addr)
{
	struct tail t = { .value_known = true };
	bool more = true;
	int ret = 0;

	t.idx = func_insn(e->f, addr) - e->f->p->insns;
	while (!ret && more)
		ret = ways_back(e, &t, &more);
	return ret;
}

/* Replaces the ends of @plan; its tail calls are kept. */
static void take_over(struct early *e, struct plan *plan)
{
	for (size_t i = 0; i < plan->end_cnt; i++) {
		if (plan->ends[i].kind == PLAN_END_RET)
			continue;
		if (find_end(e, plan->ends[i].addr))
			return;
		*array_add(e->ends, e->end_cnt) = plan->ends[i];
	}
	if (e->end_cnt)
		qsort(e->ends, e->end_cnt, sizeof(*e->ends), compare_ends);
	free(plan->ends);
	plan->ends = TAKE_PTR(e->ends);
	plan->end_cnt = e->end_cnt;
	plan->exit = PLAN_EXIT_EARLY;
	func_say_ends(e->f, plan);
}

void func_early(struct func *f, struct plan *plan)
{
	__cleanup(early_done) struct early e = { .f = f, .plan = plan };
	enum plan_exit_mode mode = f->p->rules.exit;
	size_t rets = 0;
	int ret;

	if (plan->exit != PLAN_EXIT_RET || plan->goroutine ||
		f->p->img.arch != PLAN_X86_64 || f->open || !f->bounded ||
		(mode != PLAN_MODE_AUTO && mode != PLAN_MODE_EARLY))
		return;
	for (size_t i = 0; i < plan->end_cnt; i++)
		rets += plan->ends[i].kind == PLAN_END_RET;
	if (!rets)
		return;
	e.seen = xmalloc(f->insn_cnt);
	e.todo = xreallocarray(NULL, f->insn_cnt, sizeof(*e.todo));
	ret = find_edges(&e);
	for (size_t i = 0; !ret && i < plan->end_cnt; i++)
		if (plan->ends[i].kind == PLAN_END_RET)
			ret = replace_ret(&e, plan->ends[i].addr);
	if (!ret)
		take_over(&e, plan);
}
