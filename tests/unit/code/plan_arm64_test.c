// SPDX-License-Identifier: BSD-2-Clause
/* arm64: ends, sites, and what the kernel refuses. Words are as an assembler makes them. */
#include <errno.h>

#include "plan_case.h"

#define STP "a9bf7bfd " /* stp x29, x30, [sp, #-16]! */
#define LDP "a8c17bfd " /* ldp x29, x30, [sp], #16 */
#define RET "d65f03c0 "

static void test_ends(void)
{
	static const struct plan_line lines[] = {
		{ "ret is an end", STP LDP RET, "site+0 ret ret:+8" },
		{ "ret of another register is an end", STP LDP "d65f0220",
			"site+0 ret ret:+8" },
		{ "b out of the function is an end", STP LDP "14000100",
			"site+0 ret jmp:+8" },
		{ "b within it is none", STP LDP "14000001 " RET, "site+0 ret ret:+12" },
		{ "b.eq that leaves has its condition", STP LDP "54002000 " RET,
			"site+0 ret jcc32:+8 ret:+12" },
		{ "b.le that leaves has its condition", STP LDP "5400200d " RET,
			"site+0 ret jcc45:+8 ret:+12" },
		{ "br x16 behind the frame is compared when it runs", STP LDP "d61f0200",
			"site+0 ret reg16:+8" },
		{ "with the frame up it stays in the function",
			STP "54000040 d61f0200 " LDP RET, "site+0 ret ret:+16" },
		{ "a table of differences is a jump table",
			"54000080 b8617801 8b21c800 d61f0000 " RET,
			"site+0 ret ret:+16" },
		{ "so is one that is shifted", "54000080 b8a17801 8b010800 d61f0000 " RET,
			"site+0 ret ret:+16" },
		{ "a sum of another register is none", "54000060 8b21c802 d61f0000 " RET,
			"site+0 ret reg0:+8 ret:+12" },
		{ "retaa can't be probed", "d503233f " STP LDP "d65f0bff",
			"site+0 none (at 0x100c: a call ends here, but the kernel refuses to probe this kind of branch)" },
		{ "nor can retab", "d503237f " STP LDP "d65f0fff",
			"site+0 none (at 0x100c: a call ends here, but the kernel refuses to probe this kind of branch)" },
		{ "paciasp, autiasp and a plain ret can",
			"d503233f " STP LDP "d50323bf " RET, "site+0 ret ret:+16" },
		{ "braa can't be probed", STP LDP "d71f0a11",
			"site+0 none (at 0x1008: a call ends here, but the kernel refuses to probe this kind of branch)" },
		{ "brk ends it", STP "b4000060 " LDP RET "d4207d00",
			"site+0 ret ret:+12" },
		{ "code that runs over its end", STP LDP "b4000040 " RET "d2800000",
			"site+0 none (at 0x1014: its code continues after its end)" },
		{ "a call at the end is of a function that never returns",
			STP "b4000060 " LDP RET "94000100", "site+0 ret ret:+12" },
		{ "no instruction", STP LDP "54000040 " RET "03000000",
			"site+0 none (at 0x1010: an instruction that is not known)" },
		{ "eret", STP LDP "d69f03e0",
			"site+0 none (at 0x1008: a far jump or a return from an interrupt)" },
		{ "b out of the function with the frame up", STP "14000100",
			"site+0 none (at 0x1004: a jump leaves the function before its stack frame is removed)" },
		{ "atomics, vectors and what Capstone 4 does not know are no obstacle",
			"f8210020 04e00420 " RET, "site+0 ret ret:+8" },
	};

	check_plans(PLAN_ARM64, lines, ARRAY_SIZE(lines));
}

/* cbz, cbnz, tbz and tbnz that leave carry what they test. */
static void test_tests(void)
{
	static const struct {
		const char *code;
		uint8_t cond, reg, bit, width;
	} cases[] = {
		{ "34002005", PLAN_COND_CBZ, 5, 0, 32 },
		{ "b4002005", PLAN_COND_CBZ, 5, 0, 64 },
		{ "35002006", PLAN_COND_CBNZ, 6, 0, 32 },
		{ "b500201e", PLAN_COND_CBNZ, 30, 0, 64 },
		{ "36182001", PLAN_COND_TBZ, 1, 3, 0 },
		{ "b7f82002", PLAN_COND_TBNZ, 2, 63, 0 },
		{ "37002003", PLAN_COND_TBNZ, 3, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char buf[64];
		const struct plan_end *e;

		snprintf(buf, sizeof(buf), STP LDP "%s " RET, cases[i].code);
		plan_code(PLAN_ARM64, buf);
		e = tc.plan.ends;
		ok(tc.plan.end_cnt == 2 && e->kind == PLAN_END_JCC &&
				e->cond == cases[i].cond && e->reg == cases[i].reg &&
				e->bit == cases[i].bit && e->width == cases[i].width,
			"%s leaves on what it tests", cases[i].code);
	}
}

static void test_restarts(void)
{
	static const struct plan_line lines[] = {
		{ "b to the entry behind the frame is a call of itself",
			STP LDP "b4000040 17fffffd " RET,
			"site+0 ret rejmp:+12 ret:+16" },
		{ "a frame of sub and add counts", "d10083ff 910083ff 54ffffc1 " RET,
			"site+0 ret rejcc33:+8 ret:+12" },
		{ "a frame restored from x29 counts",
			STP "910003fd d10043ff 910003bf " LDP "54ffff61 " RET,
			"site+0 ret rejcc33:+20 ret:+24" },
		{ "b to the entry without a frame is a loop", "f1000400 54ffffe1 " RET,
			"refused: a loop begins at its entry (jump at +0x4): iterations would count as calls; --probe site=entry does it anyway" },
	};

	check_plans(PLAN_ARM64, lines, ARRAY_SIZE(lines));
}

static void test_entries(void)
{
	static const struct {
		const char *code;
		bool emulated;
		const char *refused;
	} cases[] = {
		{ "a9bf7bfd", false, NULL }, /* stp, pre-indexed */
		{ "d503245f", false, NULL }, /* bti c */
		{ "d503233f", false, NULL }, /* paciasp */
		{ "d503201f", false, NULL }, /* nop, emulated from 6.13 only */
		{ "14000001", true, NULL },  /* b */
		{ "94000100", true, NULL },  /* bl */
		{ "54000020", true, NULL },  /* b.eq */
		{ "b4000020", true, NULL },  /* cbz */
		{ "90000000", true, NULL },  /* adrp */
		{ "10000000", true, NULL },  /* adr */
		{ "d63f0000", true, NULL },  /* blr */
		{ "d53bd041", false, NULL }, /* mrs tpidr_el0 */
		{ "08dffc00", false, NULL }, /* ldarb */
		{ "d73f0a11", false, "this kind of branch" }, /* blraa */
		{ "d503203f", false, "this hint" },           /* yield */
		{ "d50323bf", false, "this hint" },           /* autiasp */
		{ "d4000001", false, "an exception" },        /* svc */
		{ "d51bd040", false, "a write of a system register" },
		{ "d50342df", false, "a write of a system register" }, /* msr daifset */
		{ "d53b4220", false, "a read of DAIF" },
		{ "58000040", false, "relative to itself" },  /* ldr x0, literal */
		{ "1c000040", false, "relative to itself" },  /* ldr s0, literal */
		{ "98000040", false, "relative to itself" },  /* ldrsw */
		{ "d8000040", false, "relative to itself" },  /* prfm */
		{ "c85f7c00", false, "exclusive" },           /* ldxr */
		{ "c8027c01", false, "exclusive" },           /* stxr */
		{ "54000030", false, "this kind of branch" }, /* bc.eq */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char buf[64];

		snprintf(buf, sizeof(buf), "%s " RET, cases[i].code);
		plan_code(PLAN_ARM64, buf);
		if (cases[i].refused)
			ok(strstr(tc.plan.refused, cases[i].refused), "%s is refused: %s",
				cases[i].code, tc.plan.refused);
		else
			ok(!tc.plan.refused[0] && tc.plan.site == CASE_BASE &&
					tc.plan.site_emulated == cases[i].emulated,
				"%s is probed at the entry, %s: %s", cases[i].code,
				cases[i].emulated ? "emulated" : "stepped", tc.plan.insn);
	}
	plan_code(PLAN_ARM64, "d503245f 14000100");
	is_int(tc.plan.site, CASE_BASE, "a forwarder behind bti is probed at the entry");
	begin(PLAN_ARM64);
	words(0x1000, RET RET);
	symbol(0x1000);
	make_plan(0x1002, 4);
	is_str(tc.plan.refused, "not aligned as instructions are",
		"half a word is no entry");
}

static void test_cold(void)
{
	begin(PLAN_ARM64);
	words(0x1000, STP "b40007e0 " LDP RET); /* cbz to 0x1100 */
	words(0x1100, LDP RET);
	symbol(0x1000);
	fde(0x1000, 0x1010);
	fde(0x1100, 0x1108);
	is_str(plan_text(make_plan(0x1000, 16)), "site+0 ret ret:+12 ret:+260",
		"a jump in mid-frame to nameless code enters a cold part");
	begin(PLAN_ARM64);
	words(0x1000, STP LDP RET);
	words(0x1100, "aa0003e0 17ffffc0"); /* b 0x1004 */
	symbol(0x1000);
	fde(0x1000, 0x100c);
	fde(0x1100, 0x1108);
	make_plan(0x1000, 12);
	is_int(tc.plan.range_cnt, 2, "nameless code that jumps back is a cold part");
	begin(PLAN_ARM64);
	words(0x1000, STP LDP "1400003e"); /* b 0x1100 */
	words(0x1100, "90000010 f9400211 91000210 d61f0220");
	symbol(0x1000);
	fde(0x1000, 0x100c);
	fde(0x1100, 0x1110);
	is_str(plan_text(make_plan(0x1000, 12)), "site+0 ret jmp:+8",
		"a stub of the linkage table is tail-called");
}

int main(void)
{
	test_ends();
	test_tests();
	test_restarts();
	test_entries();
	test_cold();
	plan_done(&tc.plan);
	return tap_done();
}
