// SPDX-License-Identifier: BSD-2-Clause
// The planner: one function at a time, from its bounds to its probes.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static void cleanup_planner(struct planner **p)
{
	planner_free(*p);
}

static void cleanup_plan(struct plan *plan)
{
	plan_done(plan);
}

static void cleanup_decoder(struct insn_decoder **dec)
{
	insn_close(*dec);
}

/* What a refused function has not. */
static void strip_refused(struct plan *plan)
{
	free(plan->ends);
	free(plan->ranges);
	plan->ends = NULL;
	plan->ranges = NULL;
	plan->end_cnt = plan->range_cnt = 0;
	plan->exit = PLAN_EXIT_NONE;
	plan->exit_why[0] = '\0';
}

static void fill_ranges(const struct func *f, struct plan *plan)
{
	plan->ranges = xcalloc(f->range_cnt, sizeof(*plan->ranges));
	for (uint32_t i = 0; i < f->range_cnt; i++)
		plan->ranges[i] =
			(struct plan_range) { f->ranges[i].start, f->ranges[i].end };
	plan->range_cnt = f->range_cnt;
	if (f->too_big)
		plan->ranges[0].end = plan->addr + plan->size;
}

/* An end at the very place of the entry probe. */
static void check_forwarder(const struct func *f, struct plan *plan)
{
	for (size_t i = 0; i < plan->end_cnt; i++) {
		if (plan->ends[i].addr != plan->site)
			continue;
		plan->site_is_end = true;
		if (plan->ends[i].kind == PLAN_END_RET ||
			plan->ends[i].kind == PLAN_END_JMP)
			continue;
		plan->site_is_end = false;
		plan->exit = PLAN_EXIT_NONE;
		snprintf(plan->exit_why, sizeof(plan->exit_why),
			"its first instruction is a jump that may or may not leave the function");
		free(plan->ends);
		plan->ends = NULL;
		plan->end_cnt = 0;
	}
}

int func_plan(struct func *f, struct plan *plan)
{
	int ret = func_bounds(f, plan);

	if (ret || plan->refused[0])
		return ret;
	if (func_is_data(f)) {
		snprintf(plan->refused, sizeof(plan->refused),
			"no code calls it, and its bytes cannot begin a function: they are data");
		return 0;
	}
	func_find_go(f);
	flow_run(f);
	if (func_wants_ends(f))
		ret = func_add_cold(f);
	if (!ret)
		fill_ranges(f, plan);
	if (!ret)
		ret = func_exit(f, plan);
	if (!ret)
		ret = func_site(f, plan);
	if (!ret && !plan->refused[0])
		ret = func_early(f, plan);
	if (!ret && !plan->refused[0])
		check_forwarder(f, plan);
	return ret;
}

const char *plan_exit_text(enum plan_exit exit)
{
	static const char *const texts[] = {
		[PLAN_EXIT_NONE] = "none",
		[PLAN_EXIT_RETURN] = "return",
		[PLAN_EXIT_RET] = "ret",
		[PLAN_EXIT_EARLY] = "early",
	};

	return texts[exit];
}

int plan_insn_probe_ok(enum plan_arch arch, const uint8_t *bytes, size_t len,
	const struct plan_rules *rules, char *why, size_t size)
{
	struct insn_decoder *dec __cleanup(cleanup_decoder) = NULL;
	struct err err;
	struct insn insn;
	int ret = insn_open(arch, &dec, &err);

	if (ret) {
		snprintf(why, size, "%s", err.msg);
		return ret;
	}
	if (!insn_decode(dec, bytes, len, 0, &insn)) {
		snprintf(why, size, "an instruction that is not known");
		return -EILSEQ;
	}
	return insn_probe_ok(arch, bytes, insn.len, rules, why, size) ? 0 : -ENOTSUP;
}

void plan_done(struct plan *plan)
{
	if (!plan)
		return;
	free(plan->ranges);
	free(plan->ends);
	*plan = (struct plan) { 0 };
}

int planner_plan(struct planner *p, const struct plan_request *req, struct plan *ret_plan,
	struct err *err)
{
	struct plan plan __cleanup(cleanup_plan) = { 0 };
	struct func f = { .p = p, .req = req };
	int ret = func_plan(&f, &plan);

	if (ret)
		return err_sys(err, ret, "cannot plan probes of '%s'",
			req->name ? req->name : "?");
	if (plan.refused[0])
		strip_refused(&plan);
	*ret_plan = plan;
	plan = (struct plan) { 0 };
	return 0;
}

void planner_free(struct planner *p)
{
	if (!p)
		return;
	insn_close(p->dec);
	cold_free(p->cold);
	proofs_free(p);
	free(p->insns);
	free(p->states);
	for (size_t i = 0; i < ARRAY_SIZE(p->queue); i++)
		free(p->queue[i]);
	free(p);
}

int planner_new(const struct plan_image *img, const struct plan_rules *rules,
	struct planner **ret_planner, struct err *err)
{
	struct planner *p __cleanup(cleanup_planner) = xcalloc(1, sizeof(*p));
	int ret;

	p->img = *img;
	p->rules = *rules;
	ret = insn_open(img->arch, &p->dec, err);
	if (ret)
		return ret;
	*ret_planner = TAKE_PTR(p);
	return 0;
}
