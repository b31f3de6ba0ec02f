// SPDX-License-Identifier: BSD-2-Clause
// Where calls of a draft's functions go on that leave by a jump.
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

static int compare_funcs(const void *a, const void *b)
{
	const struct follow_func *x = a, *y = b;

	return x->plan->addr < y->plan->addr ? -1 : x->plan->addr > y->plan->addr;
}

/* The functions of its object, with the numbers that they have now. */
static void list_funcs(const struct draft *draft, struct draft_jumps *j)
{
	size_t cnt = 0;

	free(j->follow.funcs);
	j->follow.funcs = xcalloc(draft->target_cnt + 1, sizeof(*j->follow.funcs));
	for (size_t i = 0; i < draft->target_cnt; i++)
		if (draft->targets[i].object == j->object && !draft->targets[i].refused)
			j->follow.funcs[cnt++] =
				(struct follow_func) { &draft->targets[i].plan, i,
					false };
	j->follow.func_cnt = cnt;
	qsort(j->follow.funcs, cnt, sizeof(*j->follow.funcs), compare_funcs);
}

static void ask_elf(void *arg, struct plan_request *req)
{
	const struct elf_func *func = elf_file_func_at(arg, req->addr);

	if (!func || func->addr != req->addr)
		return;
	req->name = func->names[0].name;
	req->size = func->size;
}

static bool has_jumps(const struct follow *f)
{
	for (size_t i = 0; i < f->func_cnt; i++)
		if (follow_lost(f, f->funcs[i].plan))
			return true;
	return false;
}

int jumps_find(struct draft *draft, const struct object *object, struct planner *planner,
	const struct plan_rules *rules, struct err *err)
{
	struct draft_jumps *j;
	int code = 0;

	draft->jumps = array_grow(draft->jumps, draft->jumps_cnt, sizeof(*draft->jumps));
	j = &draft->jumps[draft->jumps_cnt++];
	*j = (struct draft_jumps) { .object = object };
	list_funcs(draft, j);
	if (!rules->leave_jumps && has_jumps(&j->follow))
		code = follow_find(&j->follow, planner, ask_elf, object->elf, err);
	for (size_t i = 0; !code && i < draft->target_cnt; i++) {
		struct target *f = &draft->targets[i];

		if (f->object != object || f->refused)
			continue;
		follow_explain(&j->follow, &f->plan);
		f->lost_jumps = follow_lost(&j->follow, &f->plan);
		f->forwards = follow_forwards(&j->follow, &f->plan);
	}
	return code;
}

void jumps_number(struct draft *draft)
{
	uint32_t first = draft->probed_cnt;

	for (size_t i = 0; i < draft->jumps_cnt; i++) {
		struct draft_jumps *j = &draft->jumps[i];

		list_funcs(draft, j);
		follow_number(&j->follow, first);
		first += j->follow.place_cnt;
	}
	draft->place_cnt = first - draft->probed_cnt;
}

const struct follow *jumps_of(const struct draft *draft, const struct object *object)
{
	static const struct follow none;

	for (size_t i = 0; i < draft->jumps_cnt; i++)
		if (draft->jumps[i].object == object)
			return &draft->jumps[i].follow;
	return &none;
}

void jumps_done(struct draft *draft)
{
	for (size_t i = 0; i < draft->jumps_cnt; i++) {
		follow_done(&draft->jumps[i].follow);
		free(draft->jumps[i].follow.funcs);
	}
	free(draft->jumps);
}
