// SPDX-License-Identifier: BSD-2-Clause
/* Early exits: the instruction, and where it finds the return address and the result. */
#include "plan_case.h"

/* Each starts with push %rbp, where the entry probe is, and has a jump before its ret. */
static void test_ends(void)
{
	static const struct plan_line lines[] = {
		{ "a jump to the ret", "55 5d eb 01 cc c3", "site+0 early early:+2(0 r0/64)" },
		{ "a jump to what takes the frame down", 
			"55 41 54 48 83 ec 10 eb 01 cc 48 83 c4 10 41 5c 5d c3",
			"site+0 early early:+7(32 r0/64)" },
		{ "a test of the stack protector",
			"55 64 48 2b 04 25 28 00 00 00 75 02 5d c3 e8 e7 0f 00 00",
			"site+0 early earlyjcc4:+10(8 r0/64)" },
		{ "one that jumps to the ret", "55 85 ff 74 02 0f 0b 5d c3",
			"site+0 early earlyjcc4:+3(8 r0/64)" },
		{ "both sides of one, with one result", "55 85 ff 74 02 5d c3 5d c3",
			"site+0 early early:+3(8 r0/64)" },
		{ "a nop that the kernel emulates", "55 ff d0 90 5d c3",
			"site+0 early early:+3(8 r0/64)" },
		{ "a push", "55 ff d0 53 5b 5d c3", "site+0 early early:+3(8 r0/64)" },
		{ "the last of two on a way", "55 eb 00 eb 00 5d c3",
			"site+0 early early:+3(8 r0/64)" },
		{ "each ret has its own", "55 85 ff 74 04 ff d0 eb 02 5d c3 5d c3",
			"site+0 early earlyjcc4:+3(8 r0/64) early:+7(8 r0/64)" },
		{ "jumps that leave stay", "55 5d 85 ff 0f 85 00 10 00 00 eb 00 c3",
			"site+0 early jcc5:+4 early:+10(0 r0/64)" },
		{ "leave", "55 48 89 e5 53 eb 00 c9 c3", "site+0 early early:+5(fp+8 r0/64)" },
		{ "a frame of unknown size", "55 48 89 e5 48 29 c4 53 eb 00 48 8d 65 f8 5b 5d c3",
			"site+0 early early:+8(fp+8 r0/64)" },
		{ "ret of 8 bytes of arguments", "55 5d eb 00 c2 08 00",
			"site+0 early early:+2(0 r0/64)" },
	};

	check_plans(PLAN_X86_64, lines, ARRAY_SIZE(lines));
}

/* The value that becomes the result after the jump at +1. */
static void test_results(void)
{
	static const struct plan_line lines[] = {
		{ "mov %ebx,%eax", "55 eb 00 89 d8 5d c3", "site+0 early early:+1(8 r3/32)" },
		{ "mov %r12,%rax", "55 eb 00 4c 89 e0 5d c3",
			"site+0 early early:+1(8 r12/64)" },
		{ "the other mov of %rbx", "55 eb 00 48 8b c3 5d c3",
			"site+0 early early:+1(8 r3/64)" },
		{ "from one to the next", "55 eb 00 4c 89 e3 89 d8 5d c3",
			"site+0 early early:+1(8 r12/32)" },
		{ "movzbl %bl,%eax", "55 eb 00 0f b6 c3 5d c3", "site+0 early early:+1(8 r3/8)" },
		{ "movzwl %bx,%eax", "55 eb 00 0f b7 c3 5d c3",
			"site+0 early early:+1(8 r3/16)" },
		{ "xor %eax,%eax", "55 eb 00 31 c0 5d c3", "site+0 early early:+1(8 #0/64)" },
		{ "mov $-1,%eax", "55 eb 00 b8 ff ff ff ff 5d c3",
			"site+0 early early:+1(8 #-1/32)" },
		{ "mov $-1,%rax", "55 eb 00 48 c7 c0 ff ff ff ff 5d c3",
			"site+0 early early:+1(8 #-1/64)" },
		{ "or $-1,%rax", "55 eb 00 48 83 c8 ff 5d c3", "site+0 early early:+1(8 #-1/64)" },
		{ "$-2 by another register", "55 eb 00 be fe ff ff ff 48 89 f0 5d c3",
			"site+0 early early:+1(8 #-2/32)" },
		{ "another register is written", "55 eb 00 48 89 d9 5d c3",
			"site+0 early early:+1(8 r0/64)" },
		{ "the register is overwritten once it was copied", "55 53 eb 00 89 d8 5b 5d c3",
			"site+0 early early:+2(16 r3/32)" },
	};

	check_plans(PLAN_X86_64, lines, ARRAY_SIZE(lines));
}

/* Each keeps its ret. */
static void test_none(void)
{
	static const struct plan_line lines[] = {
		{ "straight code", "55 89 f8 5d c3", "site+0 ret ret:+4" },
		{ "a call in front of the ret", "55 eb 00 ff d0 5d c3", "site+0 ret ret:+6" },
		{ "one way of two comes behind a call", "55 85 ff 74 02 ff d0 5d c3",
			"site+0 ret ret:+8" },
		{ "a loop in front of the ret", "55 ff cf 75 fc 5d c3", "site+0 ret ret:+6" },
		{ "a loop around the test", "55 85 ff 74 04 ff cf eb f8 5d c3",
			"site+0 ret ret:+10" },
		{ "both sides of one, with two results", "55 85 ff 74 04 31 c0 5d c3 5d c3",
			"site+0 ret ret:+8 ret:+10" },
		{ "a result from memory", "55 eb 00 48 8b 03 5d c3", "site+0 ret ret:+7" },
		{ "a part of the result", "55 eb 00 88 d8 5d c3", "site+0 ret ret:+6" },
		{ "a high byte", "55 eb 00 0f b6 c7 5d c3", "site+0 ret ret:+7" },
		{ "a number of more bits", "55 eb 00 b8 20 00 00 00 5d c3", "site+0 ret ret:+9" },
		{ "the stack pointer's value", "55 eb 00 48 89 e0 5d c3", "site+0 ret ret:+7" },
		{ "a conditional mov", "55 eb 00 0f 44 c3 5d c3", "site+0 ret ret:+7" },
		{ "a system call in front of the ret", "55 eb 00 0f 05 5d c3",
			"site+0 ret ret:+6" },
		{ "what waits for others", "55 eb 00 f0 ff 07 5d c3", "site+0 ret ret:+7" },
		{ "what repeats", "55 eb 00 f3 aa 5d c3", "site+0 ret ret:+6" },
		{ "a stack from a register", "55 eb 00 48 89 c4 5d c3", "site+0 ret ret:+7" },
		{ "a nop of 5 bytes", "55 ff d0 0f 1f 44 00 00 5d c3", "site+0 ret ret:+9" },
		{ "jrcxz", "55 e3 02 0f 0b 5d c3", "site+0 ret ret:+6" },
		{ "the entry's own probe", "90 c3", "site+0 ret ret:+1" },
		{ "a test that is the entry's probe", "74 01 cc c3", "site+0 ret ret:+3" },
		{ "all but one ret have an end", "55 85 ff 74 04 5d eb 00 c3 ff d0 5d c3",
			"site+0 ret ret:+8 ret:+12" },
	};

	check_plans(PLAN_X86_64, lines, ARRAY_SIZE(lines));
	is_str(plan_text(plan_code(PLAN_ARM64, "d10043ff 14000001 910043ff d65f03c0")),
		"site+0 ret ret:+12", "arm64, whose ret is emulated");
}

/* The bytes of a jcc behind another, each to the same ret. */
static void test_many_tests(void)
{
	for (int cnt = 16; cnt <= 17; cnt++) {
		char buf[512] = "55";
		const struct plan *plan;

		for (int i = 0; i < cnt; i++)
			sprintf(buf + strlen(buf), " 74 %02x", 2 * (cnt - 1 - i) + 2);
		strcat(buf, " 0f 0b 5d c3");
		plan = plan_code(PLAN_X86_64, buf);
		ok(plan->exit == (cnt == 16 ? PLAN_EXIT_EARLY : PLAN_EXIT_RET),
			"%d jumps that a call may pass in vain: %s", cnt, plan_text(plan));
	}
}

static void test_modes(void)
{
	static const char jump[] = "55 eb 00 5d c3";
	uint64_t end;

	begin(PLAN_X86_64);
	end = code(CASE_BASE, jump);
	symbol(CASE_BASE);
	fde(CASE_BASE, end);
	is_str(make_plan(CASE_BASE, end - CASE_BASE)->exit_why,
		"no return probe is needed; 1 emulated before its ret, "
		"0 jumps that leave",
		"why");
	tc.rules.exit = PLAN_MODE_RET;
	is_str(plan_text(make_plan(CASE_BASE, end - CASE_BASE)), "site+0 ret ret:+4",
		"--exit ret means the ret");
	tc.rules.exit = PLAN_MODE_EARLY;
	tc.req.return_why = "vouched for";
	is_str(plan_text(make_plan(CASE_BASE, end - CASE_BASE)),
		"site+0 early early:+1(8 r0/64)", "--exit early, whoever vouches for return probes");
	is_str(tc.plan.exit_why, "--probe exit=early; 1 emulated before its ret, 0 jumps that leave",
		"and why");
	tc.rules.exit = PLAN_MODE_AUTO;
	is_str(plan_text(make_plan(CASE_BASE, end - CASE_BASE)), "site+0 return (vouched for)",
		"a return probe that is vouched for comes first");
	tc.rules = (struct plan_rules) { .exit = PLAN_MODE_EARLY };
	code(CASE_BASE, "55 ff d0 0f 1f 00 5d c3");
	tc.fdes[0].end = CASE_BASE + 8;
	is_str(plan_text(make_plan(CASE_BASE, 8)), "site+0 ret ret:+7",
		"a long nop where the kernel steps it");
}

int main(void)
{
	test_ends();
	test_results();
	test_none();
	test_many_tests();
	test_modes();
	plan_done(&tc.plan);
	return tap_done();
}
