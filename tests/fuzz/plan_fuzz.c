// SPDX-License-Identifier: BSD-2-Clause
/*
 * The planner over a hostile file: the input's first bytes choose architecture, rules and
 * the function, then come symbols and FDEs of any shape, and the rest is code.
 */
#include "code/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define TEXT_ADDR 0x10000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *data;
	size_t size;
};

static uint32_t take(struct input *in, size_t n)
{
	uint32_t v = 0;

	for (; n && in->size; n--, in->size--)
		v = v << 8 | *in->data++;
	return v;
}

/* An address in the code, mostly; now and then one that is nowhere near. */
static uint64_t take_addr(struct input *in)
{
	uint32_t v = take(in, 2);

	return v == 0xffff ? UINT64_MAX - 8 : TEXT_ADDR + v;
}

static int compare_addrs(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void check(bool good)
{
	if (!good)
		abort();
}

/* Any offset in a plan must be safe to probe, for any file. */
static void check_offset(
	const struct plan_image *img, const struct plan_rules *rules, uint64_t addr)
{
	const struct plan_text *t = img->texts;
	char why[PLAN_WHY_LEN];

	check(addr >= t->addr && addr - t->addr < t->size);
	check(!plan_insn_probe_ok(img->arch, t->bytes + (addr - t->addr),
		t->size - (addr - t->addr), rules, why, sizeof(why)));
}

static void check_plan(const struct plan_image *img, const struct plan_rules *rules,
	const struct plan *plan)
{
	check(memchr(plan->refused, 0, PLAN_WHY_LEN) &&
		memchr(plan->insn, 0, PLAN_INSN_LEN));
	check(memchr(plan->site_why, 0, PLAN_WHY_LEN) &&
		memchr(plan->exit_why, 0, PLAN_WHY_LEN));
	if (plan->refused[0]) {
		check(!plan->ends && !plan->ranges);
		return;
	}
	check(plan->site >= plan->addr && plan->site_why[0] && plan->exit_why[0]);
	check(plan->range_cnt && plan->ranges[0].start == plan->addr);
	check((plan->exit == PLAN_EXIT_RET) == (plan->end_cnt != 0));
	check_offset(img, rules, plan->site);
	for (size_t i = 0; i < plan->end_cnt; i++) {
		check(!i || plan->ends[i].addr > plan->ends[i - 1].addr);
		if (i < 4)
			check_offset(img, rules, plan->ends[i].addr);
	}
}

static struct plan_rules take_rules(struct input *in)
{
	uint32_t bits = take(in, 1);

	return (struct plan_rules) {
		.exit = bits & 3,
		.site_entry = bits & 4,
		.count_only = bits & 8,
		.nop5_unsafe = bits & 16,
		.multinop_emulated = bits & 32,
		.call_unsafe = bits & 64,
		.return_unsafe = bits & 128,
	};
}

static void plan_all(const struct plan_image *img, const struct plan_rules *rules,
	struct plan_request *req)
{
	struct planner *p = NULL;
	struct err err;

	check(!planner_new(img, rules, &p, &err));
	for (size_t i = 0; i <= img->start_cnt; i++) {
		struct plan plan;

		check(!planner_plan(p, req, &plan, &err));
		check_plan(img, rules, &plan);
		plan_done(&plan);
		if (i < img->start_cnt)
			req->addr = img->starts[i];
		req->size = 0;
	}
	planner_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	uint32_t head = take(&in, 1);
	struct plan_rules rules = take_rules(&in);
	struct plan_request req = { .addr = take_addr(&in), .size = take(&in, 2) };
	size_t start_cnt = take(&in, 1) % 8, fde_cnt = take(&in, 1) % 8;
	struct plan_fde fdes[8];
	uint64_t starts[8];
	struct plan_text text = { .addr = TEXT_ADDR };
	struct plan_image img = {
		.arch = head & 1 ? PLAN_ARM64 : PLAN_X86_64,
		.texts = &text,
		.text_cnt = 1,
		.starts = starts,
		.start_cnt = start_cnt,
		.fdes = fdes,
		.fde_cnt = fde_cnt,
		.segments = &text,
		.segment_cnt = 1,
	};

	req.return_why = head & 2 ? "vouched" : NULL;
	if (head & 4)
		req.size = UINT64_MAX - req.size;
	for (size_t i = 0; i < start_cnt; i++)
		starts[i] = take_addr(&in);
	for (size_t i = 0; i < fde_cnt; i++) {
		fdes[i].start = take_addr(&in);
		fdes[i].lsda = head & 16 ? take_addr(&in) : 0;
		fdes[i].end = head & 8 ? take_addr(&in) : fdes[i].start + take(&in, 1);
	}
	qsort(starts, start_cnt, sizeof(*starts), compare_addrs);
	qsort(fdes, fde_cnt, sizeof(*fdes), compare_addrs);
	/* a copy of its own, so that a byte read too many is noticed */
	text.size = in.size;
	text.bytes = malloc(in.size ? in.size : 1);
	memcpy((uint8_t *)text.bytes, in.data, in.size);
	plan_all(&img, &rules, &req);
	free((uint8_t *)text.bytes);
	return 0;
}
