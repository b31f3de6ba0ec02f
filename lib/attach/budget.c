// SPDX-License-Identifier: BSD-2-Clause
// Which functions to sample, only count or leave out, so that their probes stay within the bound. Pure.
#include "internal.h"

#define S_NS       1000000000ULL
#define BLURRED_PART 16 /* of the cost is kept when the program was slowed down much */
#define ENTRY_PART 16 /* the sampled returns cost at most this part of what the entries cost */
#define SPARSE     20 /* a slowed program has a part of its CPU time for itself, at least */
#define IDLE       10 /* a program that uses less than this part of a CPU counts as so busy */

static uint64_t granted_ns(uint32_t share)
{
	return share * (S_NS / FSN_SHARE_ALL);
}

static uint64_t call_ns(const struct budget_func *f)
{
	uint32_t ends_ns = f->whole_ns > f->entry_ns ? f->whole_ns - f->entry_ns : 0;

	switch (f->limit) {
	case LIMIT_NONE:
		return f->entry_ns + ends_ns;
	case LIMIT_SAMPLED:
		return f->entry_ns + (f->sample ? ends_ns / f->sample : 0);
	case LIMIT_COUNTED:
		return f->entry_ns;
	default:
		return 0;
	}
}

static uint64_t per_second(uint64_t n, uint64_t own_ns)
{
	return own_ns ? (__uint128_t)n * S_NS / own_ns : n ? UINT64_MAX : 0;
}

static uint64_t cost_ns(const struct budget_func *f)
{
	return per_second(f->calls * call_ns(f), f->own_ns);
}

uint64_t budget_whole(const struct budget_func *f)
{
	return per_second(f->calls * f->whole_ns, f->own_ns);
}

uint64_t budget_cost(const struct budget_func *funcs, size_t cnt)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < cnt; i++) {
		uint64_t ns = funcs[i].exact ? 0 : cost_ns(&funcs[i]);

		sum = sum + ns < sum ? UINT64_MAX : sum + ns;
	}
	return sum;
}

static uint64_t entries_ns(const struct budget_func *f)
{
	return f->limit == LIMIT_LEFT_OUT ? 0 : per_second(f->calls * f->entry_ns, f->own_ns);
}

void budget_own(struct budget_span *span)
{
	uint64_t own = span->used_ns > span->cost_ns ? span->used_ns - span->cost_ns : 0;

	if (own < span->used_ns / SPARSE)
		own = span->used_ns / SPARSE;
	if (own + span->cost_ns < span->wall_ns / IDLE)
		own = span->wall_ns / IDLE - span->cost_ns;
	span->own_ns = own ? own : 1;
}

bool budget_is_over(const struct budget_span *span, uint32_t share)
{
	return (__uint128_t)span->cost_ns * FSN_SHARE_ALL > (__uint128_t)span->own_ns * share;
}

uint64_t budget_blurred_own(const struct budget_span *span, uint32_t share)
{
	uint64_t least = (__uint128_t)span->cost_ns * FSN_SHARE_ALL / share / BLURRED_PART;

	return span->own_ns > least ? span->own_ns : least;
}

static struct budget_func *dearest_entries(struct budget_func *funcs, size_t cnt)
{
	struct budget_func *dearest = NULL;

	for (size_t i = 0; i < cnt; i++)
		if (!funcs[i].exact && entries_ns(&funcs[i]) &&
			(!dearest || entries_ns(&funcs[i]) > entries_ns(dearest)))
			dearest = &funcs[i];
	return dearest;
}

size_t budget_leave_out(struct budget_func *funcs, size_t cnt, uint32_t share)
{
	struct budget_func *dearest;
	__uint128_t ns = 0;
	size_t out = 0;

	for (size_t i = 0; i < cnt; i++)
		ns += funcs[i].exact ? 0 : entries_ns(&funcs[i]);
	for (; ns > granted_ns(share) && (dearest = dearest_entries(funcs, cnt)); out++) {
		ns -= entries_ns(dearest);
		dearest->limit = LIMIT_LEFT_OUT;
	}
	return out;
}

/* A little less of it; false where nothing is left but to leave it out. */
static bool lower(struct budget_func *f)
{
	uint32_t ends_ns = f->whole_ns > f->entry_ns ? f->whole_ns - f->entry_ns : 0;

	if (f->limit == LIMIT_NONE && f->can_sample && ends_ns) {
		f->sample = ENTRY_PART;
		while (f->sample < (uint64_t)ENTRY_PART * ends_ns / f->entry_ns)
			f->sample *= 2;
		f->limit = LIMIT_SAMPLED;
	} else if (f->limit < LIMIT_COUNTED && ends_ns) {
		f->limit = LIMIT_COUNTED;
	} else {
		return false;
	}
	return true;
}

static bool can_lower(const struct budget_func *f)
{
	return !f->exact && f->calls && f->limit < LIMIT_COUNTED && f->whole_ns > f->entry_ns;
}

void budget_fit(struct budget_func *funcs, size_t cnt, uint32_t share)
{
	while (budget_cost(funcs, cnt) > granted_ns(share)) {
		struct budget_func *dearest = NULL;

		for (size_t i = 0; i < cnt; i++)
			if (can_lower(&funcs[i]) &&
				(!dearest || cost_ns(&funcs[i]) > cost_ns(dearest)))
				dearest = &funcs[i];
		if (!dearest || !lower(dearest))
			break;
	}
	budget_leave_out(funcs, cnt, share);
}
