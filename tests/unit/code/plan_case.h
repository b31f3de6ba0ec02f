/* SPDX-License-Identifier: BSD-2-Clause */
/* A file made by hand for the planner: bytes, symbols and FDEs at chosen addresses. */
#ifndef FUNCSNOOP_PLAN_CASE_H
#define FUNCSNOOP_PLAN_CASE_H

#include <stdlib.h>

#include "base/util.h"
#include "code/plan.h"
#include "tap.h"

#define CASE_BASE 0x1000
#define CASE_SIZE 0x4000

/* --exit of all cases: RET where it matters which rets there are. */
static enum plan_exit_mode case_exit;

/* One case at a time: what is planned next. */
static struct {
	uint8_t bytes[CASE_SIZE];
	struct plan_text text;
	uint64_t starts[16];
	struct plan_fde fdes[16];
	struct plan_image img;
	struct plan_rules rules;
	struct plan_request req;
	struct plan plan;
} tc;

/* Resets the case: no code (int3 everywhere), no symbols, rules of a recent kernel. */
__attribute__((unused)) static void begin(enum plan_arch arch)
{
	plan_done(&tc.plan);
	memset(&tc, 0, sizeof(tc));
	memset(tc.bytes, 0xcc, sizeof(tc.bytes));
	tc.text = (struct plan_text) { CASE_BASE, tc.bytes, sizeof(tc.bytes) };
	tc.img = (struct plan_image) {
		.arch = arch,
		.texts = &tc.text,
		.text_cnt = 1,
		.starts = tc.starts,
		.fdes = tc.fdes,
		.segments = &tc.text,
		.segment_cnt = 1,
	};
	tc.rules.multinop_emulated = true;
	tc.rules.exit = case_exit;
}

/* Writes bytes, in hexadecimal with blanks, to @addr. Returns the address after them. */
__attribute__((unused)) static uint64_t code(uint64_t addr, const char *hex)
{
	char *end;

	while (*hex) {
		tc.bytes[addr++ - CASE_BASE] = strtoul(hex, &end, 16);
		hex = end + strspn(end, " ");
	}
	return addr;
}

/* Words of arm64, in hexadecimal, to @addr. */
__attribute__((unused)) static uint64_t words(uint64_t addr, const char *hex)
{
	char *end;

	while (*hex) {
		uint32_t w = strtoul(hex, &end, 16);

		memcpy(tc.bytes + (addr - CASE_BASE), &w, 4);
		addr += 4;
		hex = end + strspn(end, " ");
	}
	return addr;
}

/* In ascending order, both. */
__attribute__((unused)) static void symbol(uint64_t addr)
{
	tc.starts[tc.img.start_cnt++] = addr;
}

__attribute__((unused)) static void fde(uint64_t start, uint64_t end)
{
	tc.fdes[tc.img.fde_cnt++] = (struct plan_fde) { .start = start, .end = end };
}

/* Plans the function of @size bytes at @addr in the current case. */
__attribute__((unused)) static const struct plan *make_plan(uint64_t addr, uint64_t size)
{
	struct planner *p = NULL;
	struct err err = { 0 };
	int ret;

	plan_done(&tc.plan);
	tc.req.addr = addr;
	tc.req.size = size;
	ret = planner_new(&tc.img, &tc.rules, &p, &err);
	if (!ret)
		ret = planner_plan(p, &tc.req, &tc.plan, &err);
	if (!ret)
		ret = planner_prove(p, &tc.req, &tc.plan);
	planner_free(p);
	if (ret) {
		ok(false, "a plan is made: %s", err.msg);
		exit(1);
	}
	return &tc.plan;
}

/* The function alone in its file, at CASE_BASE, with an FDE. */
__attribute__((unused)) static const struct plan *plan_code(
	enum plan_arch arch, const char *hex)
{
	uint64_t end;

	begin(arch);
	end = arch == PLAN_ARM64 ? words(CASE_BASE, hex) : code(CASE_BASE, hex);
	symbol(CASE_BASE);
	fde(CASE_BASE, end);
	return make_plan(CASE_BASE, end - CASE_BASE);
}

/* "(24 r3/32)", "(fp+8 #-1/32)": where an early end finds return address and result. */
__attribute__((unused)) static size_t early_text(
	const struct plan_end *e, char *buf, size_t size)
{
	const struct plan_value *v = &e->value;

	return snprintf(buf, size, v->is_number ? "(%s%d #%d/%d)" : "(%s%d r%d/%d)",
		e->place.from_fp ? "fp+" : "", e->place.offset,
		v->is_number ? v->number : v->reg, 64 >> v->cut);
}

/*
 * "ret:+4 jcc4:+9 restart:+12 early:+20(24 r0/64)": the ends, by offset from the entry; of
 * early ones where they find return address and result.
 */
__attribute__((unused)) static const char *ends_text(const struct plan *plan)
{
	static const char *const kinds[] = { "ret", "jmp", "jcc", "reg", "early",
		"earlyjcc" };
	static char buf[512];
	size_t n = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < plan->end_cnt && n < sizeof(buf); i++) {
		const struct plan_end *e = &plan->ends[i];

		n += snprintf(buf + n, sizeof(buf) - n, "%s%s%s", i ? " " : "",
			e->restart ? "re" : "", kinds[e->kind]);
		if ((e->kind == PLAN_END_JCC || e->kind == PLAN_END_EARLY_JCC) &&
			n < sizeof(buf))
			n += snprintf(buf + n, sizeof(buf) - n, "%u", e->cond);
		if (e->kind == PLAN_END_JMP_REG && n < sizeof(buf))
			n += snprintf(buf + n, sizeof(buf) - n, "%u", e->reg);
		if (n < sizeof(buf))
			n += snprintf(buf + n, sizeof(buf) - n, ":%+lld",
				(long long)(e->addr - plan->addr));
		if (e->kind >= PLAN_END_EARLY && n < sizeof(buf))
			n += early_text(e, buf + n, sizeof(buf) - n);
	}
	return buf;
}

/* The plan in one line: "site+4 ret ret:+9", "refused: ...", "site+0 none (why)". */
__attribute__((unused)) static const char *plan_text(const struct plan *plan)
{
	static char buf[1024];

	if (plan->refused[0])
		snprintf(buf, sizeof(buf), "refused: %s", plan->refused);
	else if (plan->exit == PLAN_EXIT_RET || plan->exit == PLAN_EXIT_EARLY)
		snprintf(buf, sizeof(buf), "site+%lld %s %s%s",
			(long long)(plan->site - plan->addr), plan_exit_text(plan->exit),
			ends_text(plan), plan->site_is_end ? " forwarder" : "");
	else
		snprintf(buf, sizeof(buf), "site+%lld %s (%s)",
			(long long)(plan->site - plan->addr), plan_exit_text(plan->exit),
			plan->exit_why);
	return buf;
}

/* A function alone in its file, and what is planned for it: plan_text(). */
struct plan_line {
	const char *what, *code, *plan;
};

__attribute__((unused)) static void check_plans(
	enum plan_arch arch, const struct plan_line *lines, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++)
		is_str(plan_text(plan_code(arch, lines[i].code)), lines[i].plan,
			lines[i].what);
}

#endif
