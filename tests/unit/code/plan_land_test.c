// SPDX-License-Identifier: BSD-2-Clause
/*
 * Known targets of control flow. Data after the code of a function, which looks like
 * instructions, gets no probe. Targets of jump tables and landing pads are code.
 */
#include "plan_case.h"

static void put(uint64_t at, const void *bytes, size_t size)
{
	memcpy(tc.bytes + (at - CASE_BASE), bytes, size);
}

/* The function at CASE_BASE of @hex, planned with the tables that were written before. */
static const char *plan_again(const char *hex)
{
	return plan_text(make_plan(CASE_BASE, (strlen(hex) + 1) / 3));
}

static void test_data(void)
{
	static const struct plan_line lines[] = {
		{ "a table of rets behind the code is none, when lea takes its address",
			"53 48 8d 0d 06 00 00 00 0f b6 04 39 5b c3 c3 c3 c3",
			"site+0 ret ret:+13" },
		{ "nor when it is read directly",
			"53 8b 05 02 00 00 00 5b c3 c3 e9 c3 c3", "site+0 ret ret:+8" },
		{ "nor when nothing names it", "53 5b c3 c3 e9 00 01 00 00 c3",
			"site+0 ret ret:+2" },
		{ "nor between code and a jump over it", "53 eb 04 c3 c3 c3 c3 5b c3",
			"site+0 ret ret:+8" },
		{ "a jump to the entry in a table is no loop", "53 5b c3 eb fb",
			"site+0 ret ret:+2" },
		{ "what is no instruction in a table is no obstacle", "53 5b c3 06 06",
			"site+0 ret ret:+2" },
		{ "a word that is read where code runs is left alone",
			"53 8b 05 00 00 00 00 5b c3",
			"site+0 none (at 0x1001: it reads its own code)" },
		{ "a table behind a call that may not return is left alone",
			"53 48 8d 0d 09 00 00 00 74 0c e8 00 02 00 00 ff 5b c3 c3 00 00 00 5b c3",
			"site+0 none (at 0x1011: the bytes after a call may be code or data)" },
		{ "a string behind a call that only takes its address is no code",
			"53 e8 03 00 00 00 c3 c3 c3 5e 5b c3", "site+0 ret ret:+11" },
		{ "beside a jump to anywhere, a ret that nothing leads to is given up",
			"53 74 02 ff e0 5b c3 c3",
			"site+0 none (at 0x1003: a jump whose targets are not known, and 0x1007 may be code or data)" },
	};

	check_plans(PLAN_X86_64, lines, ARRAY_SIZE(lines));
	is_str(plan_text(plan_code(PLAN_ARM64, "d503201f 18000049 d65f03c0 d65f03c0")),
		"site+0 ret ret:+8", "arm64: a word in a literal pool is none");
	is_str(plan_text(plan_code(
		       PLAN_ARM64, "a9bf7bfd 14000002 d65f03c0 a8c17bfd d65f03c0")),
		"site+0 ret ret:+16", "nor in the middle of the code");
}

/* --- tables ------------------------------------------------------------------------- */

/* cmp $2,%edi; ja; lea 0x2000(%rip),%rcx; movslq (%rcx,%rdi,4),%rax; add; jmp *%rax */
#define BOUND  "83 ff 02 77 15 "
#define SWITCH "48 8d 0d f4 0f 00 00 48 63 04 b9 48 01 c8 ff e0 "
#define CASES  "31 c0 c3 b0 01 c3 90 c3 c3 5b c3 "

static void differences(uint64_t base, const int32_t *targets, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		int32_t v = CASE_BASE + targets[i] - base;

		put(base + 4 * i, &v, 4);
	}
}

static const char whole[] = BOUND SWITCH CASES;

static void test_differences(void)
{
	static const int32_t three[] = { 21, 24, 27, 0x2000 },
			     short_one[] = { 21, 24, 0x2000 },
			     longer[] = { 21, 24, 27, 30, 0x2000 },
			     middle[] = { 21, 25, 24, 0x2000 };

	plan_code(PLAN_X86_64, whole);
	differences(0x2000, three, 4);
	is_str(plan_again(whole), "site+0 ret ret:+23 ret:+26 ret:+28",
		"what a table of differences leads to is code, and nothing else");
	differences(0x2000, short_one, 3);
	is_str(plan_again(whole),
		"site+0 none (at 0x1013: a jump whose targets are not known, and 0x101c may be code or data)",
		"a table that is shorter than its bound is not believed");
	differences(0x2000, longer, 5);
	is_str(plan_again(whole),
		"site+0 none (at 0x1013: a jump whose targets are not known, and 0x101d may be code or data)",
		"nor one that is longer");
	differences(0x2000, middle, 4);
	is_str(plan_again(whole),
		"site+0 none (at 0x1013: a jump whose targets are not known, and 0x1018 may be code or data)",
		"nor one that leads into the middle of an instruction");
}

/*
 * As clang emits it if all cases are known: entries that are never taken lead past the
 * function.
 */
static void test_behind(void)
{
	static const int32_t behind[] = { 21, 27, 24, 32 };
	static const char cases[] =
		"83 e7 03 90 90 " SWITCH "31 c0 c3 b0 01 c3 90 c3 5b 5b 5b";

	plan_code(PLAN_X86_64, cases);
	differences(0x2000, behind, 4);
	is_str(plan_again(cases), "site+0 ret ret:+23 ret:+26 ret:+28",
		"an entry may lead behind the function, which is never taken");
}

/* A case in code without a symbol. */
static void test_far_case(void)
{
	static const int32_t far[] = { 0x800, 24, 27 };
	static const char cases[] = BOUND SWITCH "31 c0 c3 b0 01 c3 90 c3";

	plan_code(PLAN_X86_64, cases);
	code(0x1800, "31 c0 5b c3");
	fde(0x1800, 0x1804);
	differences(0x2000, far, 3);
	is_str(plan_again(cases), "site+0 ret ret:+26 ret:+28 ret:+2051",
		"a table leads to a part that lies elsewhere");
}

/* ldrh w1, [table, x0]; adr x2, anchor; add x1, x2, w1, sxth #2; br x1 */
static void test_arm64(void)
{
	static const char cases[] =
		"7100081f 54000148 b0000001 91000021 78607821 10000062 8b21a841 d61f0020 "
		"d65f03c0 52800000 d65f03c0 d65f03c0 d65f03c0";
	static const int16_t words[] = { 0, 1, -1, 0x4000 };

	plan_code(PLAN_ARM64, cases);
	put(0x2000, words, sizeof(words));
	is_str(plan_text(make_plan(CASE_BASE, sizeof(cases) / 9 * 4)),
		"site+0 ret ret:+32 ret:+40 ret:+44",
		"arm64: a table of differences in words, from an anchor of its own");
}

/* --- landing pads ----------------------------------------------------------------------- */

static void test_pads(void)
{
	/* no start of its own, no types, numbers in LEB128: [1, 5) to +8, [6, 7) to none */
	static const uint8_t lsda[] = { 0xff, 0xff, 0x01, 8, 1, 4, 8, 0, 6, 1, 0, 0 };
	static const uint8_t middle[] = { 0xff, 0xff, 0x01, 4, 1, 4, 9, 0 };
	static const uint8_t cut[] = { 0xff, 0xff, 0x01, 200, 1, 1, 4, 8, 0 };
	static const char body[] = "53 e8 00 02 00 00 5b c3 31 c0 5b c3 c3 c3";

	plan_code(PLAN_X86_64, body);
	tc.fdes[0].lsda = 0x3000;
	put(0x3000, lsda, sizeof(lsda));
	is_str(plan_again(body), "site+0 ret ret:+7 ret:+11",
		"a landing pad is code, what lies behind it is not");
	put(0x3000, middle, sizeof(middle));
	is_str(plan_again(body),
		"site+0 none (at 0x1000: its exception handlers (landing pads) cannot be read, and 0x1008 may be code or data)",
		"a landing pad in the middle of an instruction is none");
	put(0x3000, cut, sizeof(cut));
	tc.text.size = 0x2008;
	is_str(plan_again(body),
		"site+0 none (at 0x1000: its exception handlers (landing pads) cannot be read, and 0x100b may be code or data)",
		"a table of them that is cut short");
	tc.fdes[0].lsda = PLAN_LSDA_UNREADABLE;
	is_str(plan_again(body),
		"site+0 none (at 0x1000: its exception handlers (landing pads) cannot be read, and 0x100b may be code or data)",
		"one that lies nobody knows where");
}

/* --- entries --------------------------------------------------------------------------- */

static void test_entries(void)
{
	static const char refused[] =
		"refused: no code calls it, and its bytes cannot begin a function: they are data";
	static const struct {
		const char *what, *code;
		enum plan_arch arch;
	} lines[] = {
		{ "zeros", "00 00 00 00", PLAN_X86_64 },
		{ "what is no instruction", "06 00 00 00", PLAN_X86_64 },
		{ "out", "e7 10 c3", PLAN_X86_64 },
		{ "hlt", "f4 c3", PLAN_X86_64 },
		{ "a return from an interrupt", "48 cf", PLAN_X86_64 },
		{ "a condition that nobody made", "74 01 53 5b c3", PLAN_X86_64 },
		{ "setcc", "0f 94 c0 c3", PLAN_X86_64 },
		{ "adc", "48 11 f8 c3", PLAN_X86_64 },
		{ "arm64: zeros", "00000000 d65f03c0", PLAN_ARM64 },
		{ "arm64: b.eq", "54000040 d65f03c0 d65f03c0", PLAN_ARM64 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		size_t size = strlen(lines[i].code) / 3 + 1;

		plan_code(lines[i].arch, lines[i].code);
		ok(strcmp(plan_text(&tc.plan), refused) != 0,
			"believed where a frame is described: %s", plan_text(&tc.plan));
		tc.img.fde_cnt = 0;
		make_plan(CASE_BASE, size);
		is_str(plan_text(&tc.plan), refused, lines[i].what);
		if (lines[i].arch == PLAN_ARM64)
			words(0x1100, "97ffffc0"); /* bl */
		else
			code(0x1100, "e8 fb fe ff ff"); /* call */
		make_plan(CASE_BASE, size);
		ok(strcmp(plan_text(&tc.plan), refused) != 0,
			"and where something calls it: %s", plan_text(&tc.plan));
	}
	is_str(plan_text(plan_code(PLAN_X86_64, "19 c0 c3")), "site+0 ret ret:+2",
		"sbb %%eax,%%eax may begin one");
}

int main(void)
{
	case_exit = PLAN_MODE_RET;
	test_data();
	test_differences();
	test_behind();
	test_far_case();
	test_arm64();
	test_pads();
	test_entries();
	plan_done(&tc.plan);
	return tap_done();
}
