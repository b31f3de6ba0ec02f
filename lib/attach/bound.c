// SPDX-License-Identifier: BSD-2-Clause
// Keeping what a group costs within its bound, before it is attached.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "attach/attach.h"
#include "internal.h"
#include "target/kind.h"

/* A function that the user has named is kept at any cost; one that a preset names is not. */
bool budget_is_exact(const struct draft *draft, const struct target *t)
{
	return !t->kind->in_files || t->kind->is_event || (!draft->from_preset && !t->from_pattern);
}

bool bound_can_limit(const struct draft *draft)
{
	for (size_t i = 0; i < draft->probed_cnt; i++)
		if (!budget_is_exact(draft, &draft->targets[i]))
			return true;
	return false;
}

static void list_funcs(const struct draft *draft, const struct attach_opts *opts,
	const struct price *price, bool sessions, struct budget_func *funcs)
{
	for (size_t i = 0; i < draft->probed_cnt; i++) {
		const struct target *t = &draft->targets[i];
		struct group_func shown = target_shown(t);

		funcs[i] = (struct budget_func) {
			.whole_ns = price->whole_ns[shown.site][shown.end],
			.entry_ns = price->whole_ns[shown.site][PRICE_COUNT],
			/*
			 * With other links the return of each call costs as much. The calls inside
			 * a call that is not timed would count as its caller's.
			 */
			.can_sample = shown.end == PRICE_RETURN && sessions && !opts->nesting &&
				opts->sample <= 1,
			.exact = budget_is_exact(draft, t),
		};
		if (!funcs[i].entry_ns)
			funcs[i].entry_ns = 1;
	}
}

static int cut_draft(struct draft *draft, const struct draft_opts *how,
	const struct budget_func *funcs, struct err *err)
{
	size_t limited = 0;

	for (size_t i = 0; i < draft->probed_cnt; i++) {
		struct target *t = &draft->targets[i];

		t->limit = funcs[i].limit;
		t->sample = funcs[i].sample;
		t->calls_per_s = funcs[i].calls_per_s;
		t->cost_ns = budget_whole(&funcs[i]);
		limited += t->limit != LIMIT_NONE;
	}
	return limited ? draft_limit(draft, how, err) : 0;
}

int budget_try(struct draft *draft, const struct draft_opts *how, struct attach_opts *opts,
	struct bpffs *fs, struct err *err)
{
	_cleanup_free_ struct budget_func *funcs = NULL;
	uint64_t start = clock_ns(CLOCK_MONOTONIC);
	struct attach_opts chosen = *opts;
	struct calibration c = {};
	int code;

	if (!opts->budget.share || !opts->budget.trims || opts->unborn || !bound_can_limit(draft))
		return 0;
	code = attach_choose_link(&chosen, err);
	/* Perf events go one at a time, a tenth of a second each. */
	if (code || chosen.link == LINK_PERF)
		return code;
	code = bpffs_lock(fs, err);
	if (!code && !opts->replace)
		code = attach_check_absent(fs, draft->name, err);
	if (!code && !calibration_read(chosen.link, &c))
		code = calibrate(fs, chosen.link, &c, err);
	if (code)
		return code;
	funcs = xcalloc(draft->probed_cnt + 1, sizeof(*funcs));
	list_funcs(draft, opts, &c.price, chosen.link == LINK_SESSION, funcs);
	code = stage_count(draft, opts, fs, chosen.link, funcs, err);
	if (code)
		return code;
	budget_fit(funcs, draft->probed_cnt, opts->budget.share);
	opts->budget.tried_ns = clock_ns(CLOCK_MONOTONIC) - start;
	opts->budget.cost_ns = budget_cost(funcs, draft->probed_cnt);
	return cut_draft(draft, how, funcs, err);
}
