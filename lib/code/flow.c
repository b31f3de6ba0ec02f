// SPDX-License-Identifier: BSD-2-Clause
// A function's instructions, and what each of them finds on the stack.
#include <errno.h>
#include <string.h>

#include "internal.h"

static void make_room(struct planner *p, uint32_t cnt)
{
	uint32_t cap = p->cap ? p->cap : 1024;

	if (cnt < p->cap)
		return;
	while (cap <= cnt)
		cap *= 2;
	p->insns = xreallocarray(p->insns, cap, sizeof(*p->insns));
	p->states = xreallocarray(p->states, cap, sizeof(*p->states));
	for (size_t i = 0; i < ARRAY_SIZE(p->queue); i++)
		p->queue[i] = xreallocarray(p->queue[i], cap, sizeof(*p->queue[i]));
	p->cap = cap;
}

int func_add_range(struct func *f, uint64_t start, uint64_t end)
{
	struct code_range *r = &f->ranges[f->range_cnt];
	struct planner *p = f->p;
	uint64_t addr = start;
	size_t len;

	if (f->range_cnt == FSN_JUMP_RANGES || end - start > PLAN_MAX_BYTES - f->byte_cnt)
		return -E2BIG;
	*r = (struct code_range) { .start = start, .end = end, .first = f->insn_cnt };
	r->bytes = image_code(&p->img, start, &len);
	if (!r->bytes || len < end - start)
		return -E2BIG;
	while (addr < end) {
		struct insn *insn;

		make_room(p, r->first + r->cnt + 1);
		insn = &p->insns[r->first + r->cnt];
		if (!insn_decode(
			    p->dec, r->bytes + (addr - start), end - addr, addr, insn)) {
			*insn = (struct insn) { .addr = addr, .flow = INSN_BAD };
			insn->len = p->img.arch == PLAN_ARM64 && end - addr >= 4 ? 4 : 1;
			if (!r->bad)
				r->bad_addr = addr;
			r->bad = true;
		}
		if (insn->flow == INSN_JMP_REG &&
			insn_is_dispatch(
				p->img.arch, insn, r->cnt, r->bytes + (addr - start)))
			insn->flow = INSN_TABLE;
		addr += insn->len;
		r->cnt++;
	}
	f->range_cnt++;
	f->insn_cnt += r->cnt;
	f->byte_cnt += end - start;
	return 0;
}

void func_drop_range(struct func *f)
{
	struct code_range *r = &f->ranges[--f->range_cnt];

	f->insn_cnt -= r->cnt;
	f->byte_cnt -= r->end - r->start;
}

const struct code_range *func_range(const struct func *f, uint64_t addr)
{
	for (uint32_t i = 0; i < f->range_cnt; i++)
		if (addr >= f->ranges[i].start && addr < f->ranges[i].end)
			return &f->ranges[i];
	return NULL;
}

struct insn *func_insn_over(const struct func *f, uint64_t addr)
{
	const struct code_range *r = func_range(f, addr);
	struct insn *base;
	size_t behind;

	if (!r)
		return NULL;
	base = f->p->insns + r->first;
	behind = FIRST_WHERE(r->cnt, i, base[i].addr > addr);
	return behind ? base + behind - 1 : NULL;
}

struct insn *func_insn(const struct func *f, uint64_t addr)
{
	struct insn *insn = func_insn_over(f, addr);

	return insn && insn->addr == addr ? insn : NULL;
}

const uint8_t *func_bytes(const struct func *f, const struct insn *insn)
{
	const struct code_range *r = func_range(f, insn->addr);

	return r->bytes + (insn->addr - r->start);
}

struct flow_state *func_state(const struct func *f, const struct insn *insn)
{
	return &f->p->states[insn - f->p->insns];
}

bool insn_leaves(const struct func *f, const struct insn *insn)
{
	return (insn->flow == INSN_JMP || insn->flow == INSN_JCC) &&
		!func_range(f, insn->target);
}

/* --- the states ------------------------------------------------------------- */

struct walk {
	struct func *f;
	uint32_t queued
		[2]; /* [0]: reached for sure; [1]: behind calls, taken when [0] is empty */
	uint8_t floor; /* no edge is surer than this */
	const struct flow_state
		*table; /* what the targets of jump tables find, or NULL */
};

/* What the instruction leaves behind of what it found. */
static struct flow_state apply(const struct insn *insn, const struct flow_state *in)
{
	struct flow_state s = *in;
	int64_t depth = s.depth;

	switch (insn->sp) {
	case INSN_SP_KEEP:
		return s;
	case INSN_SP_ADD:
		depth -= insn->sp_arg;
		break;
	case INSN_SP_TO_FP:
		depth -= insn->sp_arg;
		s.fp_known = s.depth_known && depth == (int32_t)depth;
		s.fp = (int32_t)depth;
		return s;
	case INSN_SP_FROM_FP:
		s.depth_known = s.fp_known;
		depth = (int64_t)s.fp - insn->sp_arg;
		break;
	case INSN_SP_LOST:
		s.depth_known = false;
		break;
	}
	if (depth != (int32_t)depth)
		s.depth_known = false;
	s.depth = s.depth_known ? (int32_t)depth : 0;
	s.moved = true;
	return s;
}

/* Takes @in into what instruction @to finds; true when that changed. */
static bool join(struct walk *w, uint32_t to, const struct flow_state *in, uint8_t level)
{
	struct flow_state *s = &w->f->p->states[to];
	bool queued = s->queued;
	struct flow_state old = *s;
	bool behind_call = level == FLOW_CALL && (!s->seen || s->behind_call);

	if (level < w->floor)
		level = w->floor;
	if (!s->seen || level < s->level) {
		*s = *in;
		s->seen = true;
		s->level = level;
		s->queued = queued;
		s->behind_call = behind_call;
		return true;
	}
	s->behind_call = behind_call;
	if (level > s->level)
		return false;
	if (s->depth_known && (!in->depth_known || in->depth != s->depth))
		s->depth_known = false;
	if (s->fp_known && (!in->fp_known || in->fp != s->fp))
		s->fp_known = false;
	if (!in->moved)
		s->moved = false;
	return s->behind_call != old.behind_call || s->depth_known != old.depth_known ||
		s->fp_known != old.fp_known || s->moved != old.moved;
}

static void enqueue(struct walk *w, uint32_t idx, int which)
{
	struct planner *p = w->f->p;

	if (p->states[idx].queued)
		return;
	p->states[idx].queued = true;
	p->queue[which][w->queued[which]++] = idx;
}

static void take_jump(struct walk *w, uint64_t target, const struct flow_state *s)
{
	struct insn *to = func_insn(w->f, target);
	uint32_t idx;

	/* a jump to the entry begins another call, or another round of a loop */
	if (!to || target == w->f->entry)
		return;
	idx = to - w->f->p->insns;
	if (join(w, idx, s, FLOW_SURE))
		enqueue(w, idx, 0);
}

/* A call into the function itself, behind its entry: a subroutine written by hand. */
static void take_call(struct walk *w, const struct insn *insn, const struct flow_state *s)
{
	struct flow_state in = *s;

	if (insn->target == w->f->entry || s->depth > INT32_MAX - 8)
		return;
	if (w->f->p->img.arch == PLAN_X86_64)
		in.depth += 8;
	in.moved = true;
	take_jump(w, insn->target, &in);
}

/*
 * Behind a call. One that never returns may stand in front of a jump table's target, which
 * finds another depth then: where the two differ, nothing is known.
 */
static void step_behind_call(struct walk *w, uint32_t idx, const struct flow_state *s)
{
	struct flow_state in = *s;

	if (w->table && w->table->depth_known && w->table->depth != in.depth)
		in.depth_known = false;
	if (join(w, idx, &in, FLOW_CALL))
		enqueue(w, idx, 1);
}

/* A call of the very next code, which takes the return address for the address of data. */
static bool takes_return(const struct walk *w, const struct insn *call)
{
	const struct insn *to = call->has_target ? func_insn(w->f, call->target) : NULL;

	return to && call->target != w->f->entry && to->sp == INSN_SP_ADD &&
		to->sp_arg > 0 && w->f->p->img.arch == PLAN_X86_64;
}

static bool falls_through(const struct insn *insn)
{
	return insn->flow == INSN_PLAIN || insn->flow == INSN_JCC ||
		insn->flow == INSN_CALL;
}

/* Walks straight on from @idx until nothing changes. */
static void walk_from(struct walk *w, uint32_t idx)
{
	struct planner *p = w->f->p;

	for (;;) {
		const struct insn *insn = &p->insns[idx];
		struct flow_state s = apply(insn, &p->states[idx]);
		uint8_t through = insn->nop && s.behind_call ? FLOW_CALL : FLOW_SURE;

		if (insn->has_target && insn->flow == INSN_CALL)
			take_call(w, insn, &s);
		else if (insn->has_target)
			take_jump(w, insn->target, &s);
		if (!falls_through(insn) ||
			(insn->flow == INSN_CALL && takes_return(w, insn)))
			return;
		if (idx + 1 >= w->f->insn_cnt ||
			p->insns[idx + 1].addr != insn->addr + insn->len) {
			take_jump(w, insn->addr + insn->len,
				&s); /* of another range, perhaps */
			return;
		}
		idx++;
		if (insn->flow == INSN_CALL) {
			step_behind_call(w, idx, &s);
			return;
		}
		if (!join(w, idx, &s, through))
			return;
	}
}

static void drain(struct walk *w)
{
	struct planner *p = w->f->p;

	while (w->queued[0] || w->queued[1]) {
		int which = w->queued[0] ? 0 : 1;
		uint32_t idx = p->queue[which][--w->queued[which]];

		p->states[idx].queued = false;
		walk_from(w, idx);
	}
}

/* Jumps through tables are made at one depth, which their targets find: that, if known. */
static struct flow_state table_state(const struct func *f)
{
	struct flow_state found = { 0 };

	for (uint32_t i = 0; i < f->insn_cnt; i++) {
		const struct insn *insn = &f->p->insns[i];
		const struct flow_state *s = &f->p->states[i];

		if (insn->flow != INSN_TABLE && insn->flow != INSN_JMP_REG &&
			insn->flow != INSN_JMP_MEM)
			continue;
		if (!s->seen || !s->depth_known ||
			(!s->depth && insn->flow != INSN_TABLE))
			continue;
		if (found.depth_known && found.depth != s->depth)
			return (struct flow_state) { 0 };
		found.depth = s->depth;
		found.depth_known = true;
		found.moved = s->moved;
	}
	return found;
}

static void follow_entry(struct func *f, const struct flow_state *table)
{
	struct walk w = { .f = f, .table = table };
	struct flow_state start = { .depth_known = true };

	memset(f->p->states, 0, f->insn_cnt * sizeof(*f->p->states));
	join(&w, 0, &start, FLOW_SURE);
	enqueue(&w, 0, 0);
	drain(&w);
}

/* What the entry alone does not reach: the targets of jump tables, and the unwinder's. */
static void follow_landings(struct func *f, const struct flow_state *table)
{
	struct walk w = { .f = f, .table = table, .floor = FLOW_LAND };

	func_forget_landings(f);
	do {
		for (uint32_t i = 0; i < f->insn_cnt; i++) {
			if (!f->p->insns[i].lands || f->p->states[i].seen)
				continue;
			join(&w, i, table, FLOW_LAND);
			enqueue(&w, i, 0);
			drain(&w);
		}
	} while (func_find_landings(f));
}

void flow_run(struct func *f)
{
	static const struct flow_state unknown;
	struct flow_state table, again;

	if (!f->insn_cnt)
		return;
	follow_entry(f, NULL);
	if (!f->bounded)
		return;
	table = table_state(f);
	if (table.depth_known)
		follow_entry(f, &table);
	follow_landings(f, &table);
	again = table_state(f);
	if (!table.depth_known || (again.depth_known && again.depth == table.depth))
		return;
	/* behind one table another is used, at another depth */
	follow_entry(f, NULL);
	follow_landings(f, &unknown);
}
