// SPDX-License-Identifier: BSD-2-Clause
/* How returns are traced on x86-64: every kind of exit, and every reason for none. */
#include "plan_case.h"

static void test_returns(void)
{
	static const struct plan_line lines[] = {
		{ "c3 is an end", "55 5d c3", "site+0 ret ret:+2" },
		{ "c2 is an end", "55 5d c2 08 00", "site+0 ret ret:+2" },
		{ "f3 c3 is an end", "55 5d f3 c3", "site+0 ret ret:+2" },
		{ "f2 c3 is an end", "55 5d f2 c3", "site+0 ret ret:+2" },
		{ "every ret is an end, those behind a branch too",
			"55 85 ff 74 04 31 c0 5d c3 5d f3 c3",
			"site+0 ret ret:+8 ret:+10" },
		{ "a function that is one ret is a forwarder", "c3",
			"site+0 ret ret:+0 forwarder" },
		{ "code behind a jump table is searched", "55 89 f8 74 03 3e ff e0 5d c3",
			"site+0 ret ret:+9" },
		{ "a ret of 16 bits is none that can be told", "55 5d 66 c3",
			"site+0 none (at 0x1002: an instruction that is not known)" },
	};

	check_plans(PLAN_X86_64, lines, ARRAY_SIZE(lines));
}

static void test_direct_jumps(void)
{
	static const struct plan_line lines[] = {
		{ "jmp rel8 out of the function is an end", "53 5b eb 70",
			"site+0 ret jmp:+2" },
		{ "jmp rel32 out of the function is an end", "53 5b e9 00 02 00 00",
			"site+0 ret jmp:+2" },
		{ "a bnd jmp out of the function is an end", "53 5b f2 e9 00 02 00 00",
			"site+0 ret jmp:+2" },
		{ "a jump within the function is none", "53 5b eb 00 c3",
			"site+0 ret ret:+4" },
		{ "jcc rel8 that leaves has its condition", "53 5b 75 70 c3",
			"site+0 ret jcc5:+2 ret:+4" },
		{ "jcc rel32 that leaves has its condition", "53 5b 0f 8f 00 02 00 00 c3",
			"site+0 ret jcc15:+2 ret:+8" },
		{ "the first condition is 0", "53 5b 70 70 c3",
			"site+0 ret jcc0:+2 ret:+4" },
		{ "jrcxz leaves on rcx", "53 5b e3 70 c3", "site+0 ret jcc16:+2 ret:+4" },
		{ "jecxz leaves on ecx", "53 5b 67 e3 70 c3",
			"site+0 ret jcc17:+2 ret:+5" },
		{ "loop that leaves can't be evaluated", "53 5b e2 70 c3",
			"site+0 none (at 0x1002: a jump leaves on a condition that cannot be evaluated)" },
		{ "loop within the function does no harm", "53 5b e2 fe c3",
			"site+0 ret ret:+4" },
		{ "a leaving jump with the frame up is given up", "53 e9 00 02 00 00",
			"site+0 none (at 0x1001: a jump leaves the function before its stack frame is removed)" },
		{ "behind a call, which may not return, it is believed",
			"53 e8 00 02 00 00 e9 00 02 00 00", "site+0 ret jmp:+6" },
		{ "a jump out of all code shows that this is data",
			"53 5b e9 00 00 00 70",
			"site+0 none (at 0x1002: a jump to where no code is: these bytes are data)" },
		{ "so does a call out of all code", "53 e8 00 00 00 70 5b c3",
			"site+0 none (at 0x1001: a call to where no code is: these bytes are data)" },
		{ "a jump of 16 bits is none that can be told", "53 5b 66 e9 10 00 00 00",
			"site+0 none (at 0x1002: an instruction that is not known)" },
	};

	check_plans(PLAN_X86_64, lines, ARRAY_SIZE(lines));
}

static void test_indirect_jumps(void)
{
	static const struct plan_line lines[] = {
		{ "jmp *disp(%rip) is a tail call", "53 5b ff 25 00 10 00 00",
			"site+0 ret jmp:+2" },
		{ "jmp *disp(%rax) is a tail call", "53 5b ff 60 10",
			"site+0 ret jmp:+2" },
		{ "jmp *(%r12) has no index and is a tail call", "53 5b 41 ff 24 24",
			"site+0 ret jmp:+2" },
		{ "jmp *%rax is compared when it runs", "53 5b ff e0",
			"site+0 ret reg0:+2" },
		{ "jmp *%r11 names its register", "53 5b 41 ff e3",
			"site+0 ret reg11:+2" },
		{ "with the frame up, jmp *%rax stays in the function",
			"53 74 02 ff e0 5b c3", "site+0 ret ret:+6" },
		{ "with the frame up, jmp *disp(%rax) stays in the function",
			"53 74 03 ff 60 10 5b c3", "site+0 ret ret:+7" },
		{ "notrack jmp *%rax is a jump table", "89 f8 74 03 3e ff e0 c3",
			"site+0 ret ret:+7" },
		{ "jmp *table(,%rax,8) is a jump table",
			"89 f8 74 07 ff 24 c5 00 20 00 00 c3", "site+0 ret ret:+11" },
		{ "the sum of a base and a loaded difference is a jump table",
			"74 09 48 63 04 87 48 01 f8 ff e0 c3", "site+0 ret ret:+11" },
		{ "so with the sum the other way round",
			"74 09 48 63 04 87 48 03 c7 ff e0 c3", "site+0 ret ret:+11" },
		{ "a sum without a loaded difference is none", "74 05 48 01 f8 ff e0 c3",
			"site+0 ret reg0:+5 ret:+7" },
		{ "a difference that is not added is none", "74 06 48 63 04 87 ff e0 c3",
			"site+0 ret reg0:+6 ret:+8" },
		{ "an array of pointers without a frame is left alone",
			"89 f8 ff 24 c7 c3",
			"site+0 none (at 0x1002: a jump through an array may be a jump table or a tail call)" },
		{ "an array of pointers with the frame up is a computed goto",
			"53 89 f8 74 03 ff 24 c7 5b c3", "site+0 ret ret:+9" },
		{ "a far jump is not followed", "53 5b ff 28",
			"site+0 none (at 0x1002: a far jump or a return from an interrupt)" },
	};

	check_plans(PLAN_X86_64, lines, ARRAY_SIZE(lines));
}

/* Where a jump leads is known of direct ones, a jump back to the entry among them. */
static void test_targets(void)
{
	static const struct {
		const char *what, *code;
		uint64_t target[2];
	} lines[] = {
		{ "a jmp has its target", "53 5b e9 00 02 00 00", { CASE_BASE + 0x207 } },
		{ "a jcc has, a ret has none", "53 5b 75 70 c3", { CASE_BASE + 0x74, 0 } },
		{ "a restart has the entry", "53 5b 85 ff 75 fa c3", { CASE_BASE, 0 } },
		{ "jmp *disp(%rip) has none", "53 5b ff 25 00 10 00 00", { 0 } },
		{ "jmp *%rax has none", "53 5b ff e0", { 0 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		const struct plan *plan = plan_code(PLAN_X86_64, lines[i].code);
		bool same = plan->end_cnt > 0;

		for (size_t k = 0; k < plan->end_cnt; k++)
			same = same && plan->ends[k].target == lines[i].target[k];
		ok(same, "%s", lines[i].what);
	}
}

static void test_forwarders(void)
{
	static const struct plan_line lines[] = {
		{ "a function that is one jump is a forwarder", "e9 00 02 00 00",
			"site+0 ret jmp:+0 forwarder" },
		{ "behind endbr64, too", "f3 0f 1e fa e9 00 02 00 00",
			"site+4 ret jmp:+4 forwarder" },
		{ "a ret behind the site is no forwarder", "90 c3", "site+0 ret ret:+1" },
		{ "a first jcc that leaves is one probe for two things", "74 7e c3",
			"site+0 none (its first instruction is a jump that may or may not leave the function)" },
		{ "so is a first jmp *%rax", "ff e0",
			"site+0 none (its first instruction is a jump that may or may not leave the function)" },
	};

	check_plans(PLAN_X86_64, lines, ARRAY_SIZE(lines));
}

/* Jumps to the function's own entry. */
static void test_restarts(void)
{
	static const struct plan_line lines[] = {
		{ "a jump to the entry behind the frame is a call of itself",
			"53 85 ff 74 04 5b eb f8 90 5b c3",
			"site+0 ret rejmp:+6 ret:+10" },
		{ "a conditional one, too", "53 5b 85 ff 75 fa c3",
			"site+0 ret rejcc5:+4 ret:+6" },
		{ "a frame of sub and add counts", "48 83 ec 08 48 83 c4 08 75 f6 c3",
			"site+0 ret rejcc5:+8 ret:+10" },
		{ "a frame pointer's leave counts", "55 48 89 e5 c9 75 f9 c3",
			"site+0 ret rejcc5:+5 ret:+7" },
		{ "a jump to the entry without a frame is a loop", "ff cf 75 fc c3",
			"refused: a loop begins at its entry (jump at +0x2): iterations would count as calls; --probe site=entry does it anyway" },
		{ "a frame on one of two ways is not enough",
			"85 ff 74 02 53 5b 75 f8 c3",
			"refused: a loop begins at its entry (jump at +0x6): iterations would count as calls; --probe site=entry does it anyway" },
		{ "a jump to the entry in mid-frame is a loop", "53 75 fd 5b c3",
			"refused: a loop begins at its entry (jump at +0x1): iterations would count as calls; --probe site=entry does it anyway" },
		{ "a call of itself is no loop", "53 e8 fa ff ff ff 5b c3",
			"site+0 ret ret:+7" },
	};

	check_plans(PLAN_X86_64, lines, ARRAY_SIZE(lines));
	begin(PLAN_X86_64);
	code(0x1000, "ff cf 75 fc c3");
	symbol(0x1000);
	tc.rules.site_entry = true;
	is_str(plan_text(make_plan(0x1000, 5)), "site+0 ret rejcc5:+2 ret:+4",
		"--site entry takes a loop's entry, and ends each round");
}

static void test_running_over(void)
{
	static const struct plan_line lines[] = {
		{ "code that falls off its end", "53 74 01 c3 31 c0",
			"site+0 none (at 0x1006: its code continues after its end)" },
		{ "a conditional jump at the end falls off, too", "53 5b 74 01 c3 75 fd",
			"site+0 none (at 0x1007: its code continues after its end)" },
		{ "a call at the end is of a function that never returns",
			"53 5b 74 01 c3 53 e8 00 02 00 00", "site+0 ret ret:+4" },
		{ "padding behind a ret is no code", "53 5b c3 0f 1f 00",
			"site+0 ret ret:+2" },
		{ "padding behind a last call is no code",
			"53 74 02 5b c3 e8 00 02 00 00 90", "site+0 ret ret:+4" },
		{ "padding that is reached falls off", "53 5b 74 01 c3 90",
			"site+0 none (at 0x1006: its code continues after its end)" },
		{ "ud2 ends it", "53 5b 74 01 c3 0f 0b", "site+0 ret ret:+4" },
		{ "hlt ends it", "53 5b 74 01 c3 f4", "site+0 ret ret:+4" },
		{ "int3 ends it", "53 5b 74 01 c3 cc", "site+0 ret ret:+4" },
	};

	check_plans(PLAN_X86_64, lines, ARRAY_SIZE(lines));
}

static void test_what_is_not_followed(void)
{
	static const struct plan_line lines[] = {
		{ "a function without any end", "53 e8 00 02 00 00",
			"site+0 none (it never returns: it has no ret and no jump to another function)" },
		{ "what is no instruction", "53 5b 74 01 c3 06",
			"site+0 none (at 0x1005: an instruction that is not known)" },
		{ "a jump into the middle of an instruction",
			"53 5b 74 01 b8 00 00 00 00 c3",
			"site+0 none (at 0x1002: a jump into the middle of an instruction)" },
		{ "but a jump over a lock prefix is common", "53 5b 74 01 f0 ff 07 c3",
			"site+0 ret ret:+7" },
		{ "a function that pops what its caller pushed", "5e c3",
			"site+0 none (it removes from the stack what its caller put there)" },
		{ "a return from its caller's frame, of which it has none", "53 48 89 ec 5d c3",
			"site+0 none (it removes from the stack what its caller put there)" },
		{ "a frame of its own", "55 48 89 e5 53 48 89 ec 5d c3", "site+0 ret ret:+9" },
		{ "a return by popping and jumping", "59 ff e1",
			"site+0 none (it removes from the stack what its caller put there)" },
		{ "iret", "53 5b 48 cf",
			"site+0 none (at 0x1002: a far jump or a return from an interrupt)" },
		{ "a ret with a segment prefix", "53 5b 2e c3",
			"site+0 none (at 0x1002: a call ends here, but the kernel refuses to probe a segment prefix)" },
	};

	check_plans(PLAN_X86_64, lines, ARRAY_SIZE(lines));
}

static void test_names(void)
{
	static const char *const never[] = { "_Unwind_RaiseException", "_Unwind_Resume",
		"__gxx_personality_v0", "__gcc_personality_v0", "setjmp", "_setjmp",
		"__sigsetjmp", "longjmp", "siglongjmp", "vfork", "__vfork", "swapcontext",
		"setcontext", "getcontext", "makecontext", "jump_fcontext",
		"boost_jump_fcontext", "_start", "_dl_runtime_resolve_xsavec" };
	static const char *const followed[] = { "malloc", "fork", "unwind", "setjmper",
		"my_setjmp_wrapper", "main", "_Unwind" };

	for (size_t i = 0; i < ARRAY_SIZE(never); i++) {
		plan_code(PLAN_X86_64, "55 5d c3");
		tc.req.name = never[i];
		tc.req.return_why = "somebody vouches";
		make_plan(CASE_BASE, 3);
		ok(tc.plan.exit == PLAN_EXIT_NONE && tc.plan.exit_why[0] &&
				!tc.plan.refused[0],
			"%s is counted, never followed", never[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(followed); i++) {
		plan_code(PLAN_X86_64, "55 5d c3");
		tc.req.name = followed[i];
		ok(make_plan(CASE_BASE, 3)->exit == PLAN_EXIT_RET, "%s is followed",
			followed[i]);
	}
}

static void test_modes(void)
{
	static const struct {
		const char *what, *why, *plan;
		enum plan_exit_mode mode;
		bool unsafe, count;
	} cases[] = {
		{ "auto follows by ret when nobody vouches", NULL,
			"no return probe: not proven safe; 1 ret, 0 jumps that leave",
			PLAN_MODE_AUTO, false, false },
		{ "auto takes return probes where somebody vouches",
			"preset cuda declares nothrow", "preset cuda declares nothrow",
			PLAN_MODE_AUTO, false, false },
		{ "but not on a kernel where they are unsafe",
			"preset cuda declares nothrow",
			"return probes are unsafe on this kernel; 1 ret, 0 jumps that leave",
			PLAN_MODE_AUTO, true, false },
		{ "--exit return says what can happen", NULL,
			"--probe exit=return: an exception, a cancelled thread or a switch of stacks during a call can end the process",
			PLAN_MODE_RETURN, false, false },
		{ "and so on a kernel where it is unsafe", NULL,
			"--probe exit=return: return probes are unsafe on this kernel, and a call can end the process",
			PLAN_MODE_RETURN, true, false },
		{ "--exit ret goes before a voucher", "preset cuda declares nothrow",
			"--probe exit=ret; 1 ret, 0 jumps that leave", PLAN_MODE_RET, false,
			false },
		{ "--probe exit=none", "preset cuda declares nothrow", "--probe exit=none",
			PLAN_MODE_NONE, false, false },
		{ "--count", "preset cuda declares nothrow", "--count", PLAN_MODE_AUTO,
			false, true },
	};
	static const enum plan_exit exits[] = { PLAN_EXIT_RET, PLAN_EXIT_RETURN,
		PLAN_EXIT_RET, PLAN_EXIT_RETURN, PLAN_EXIT_RETURN, PLAN_EXIT_RET,
		PLAN_EXIT_NONE, PLAN_EXIT_NONE };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		plan_code(PLAN_X86_64, "55 5d c3");
		tc.rules.exit = cases[i].mode;
		tc.rules.return_unsafe = cases[i].unsafe;
		tc.rules.count_only = cases[i].count;
		tc.req.return_why = cases[i].why;
		make_plan(CASE_BASE, 3);
		is_str(tc.plan.exit_why, cases[i].plan, cases[i].what);
		is_int(tc.plan.exit, exits[i], "and its kind");
		is_int(tc.plan.end_cnt, exits[i] == PLAN_EXIT_RET, "and its ends");
	}
}

static void test_jumps_said(void)
{
	static const struct {
		const char *code, *why;
		size_t size;
	} cases[] = {
		{ "31 c0 ff e0",
			"no return probe: not proven safe; 0 ret, 1 jump that leaves",
			4 },
		{ "85 ff 74 02 ff e0 ff e1",
			"no return probe: not proven safe; 0 ret, 2 jumps that leave",
			8 },
		{ "85 ff 74 02 ff e0 c3",
			"no return probe: not proven safe; 1 ret, 1 jump that leaves",
			7 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		plan_code(PLAN_X86_64, cases[i].code);
		make_plan(CASE_BASE, cases[i].size);
		is_str(tc.plan.exit_why, cases[i].why,
			"ways out are said");
	}
}

/* A return probe needs no ends, but a return address where it looks for one. */
static void test_return_probes(void)
{
	static const struct {
		const char *what, *code;
		size_t size;
		enum plan_arch arch;
	} own[] = {
		{ "mov (%rsp),%rax", "48 8b 04 24 48 89 07 c3", 8, PLAN_X86_64 },
		{ "mov 8(%rsp),%rdx behind a push", "53 48 8b 54 24 08 5b c3", 8,
			PLAN_X86_64 },
		{ "mov 8(%rbp),%rdx", "55 48 89 e5 53 48 8b 55 08 5b 5d c3", 12,
			PLAN_X86_64 },
		{ "push (%rsp)", "ff 34 24 5b c3", 5, PLAN_X86_64 },
		{ "stp x29, x30, [x0]", "a9007c1d a900781d d65f03c0", 12, PLAN_ARM64 },
		{ "str x30, [x1, #8]", "f900043e d65f03c0", 8, PLAN_ARM64 },
	};

	plan_code(PLAN_X86_64, "55 5d c3 06");
	tc.req.return_why = "vouched";
	is_str(plan_text(make_plan(CASE_BASE, 4)), "site+0 return (vouched)",
		"code that can't be disassembled can still be followed by a return probe");
	plan_code(PLAN_X86_64, "5e 55 5d c3");
	tc.rules.exit = PLAN_MODE_RETURN;
	is_str(plan_text(make_plan(CASE_BASE, 4)),
		"site+0 none (it removes from the stack what its caller put there)",
		"a return probe is not forced on code that has no return address");
	for (size_t i = 0; i < ARRAY_SIZE(own); i++) {
		plan_code(own[i].arch, own[i].code);
		tc.req.return_why = "vouched";
		make_plan(CASE_BASE, own[i].size);
		ok(strstr(tc.plan.exit_why, "its own return address") &&
				tc.plan.exit >= PLAN_EXIT_RET,
			"%s: no return probe: %s", own[i].what, plan_text(&tc.plan));
		tc.rules.exit = PLAN_MODE_RETURN;
		make_plan(CASE_BASE, own[i].size);
		ok(strstr(tc.plan.exit_why, "its own return address") &&
				tc.plan.exit == PLAN_EXIT_NONE,
			"nor when one is forced: %s", plan_text(&tc.plan));
	}
	plan_code(PLAN_X86_64, "53 48 8b 04 24 5b c3");
	tc.req.return_why = "vouched";
	is_str(plan_text(make_plan(CASE_BASE, 7)), "site+0 return (vouched)",
		"what it pushed itself it may look at");
	is_str(plan_exit_text(PLAN_EXIT_RETURN), "return", "the word for return");
	is_str(plan_exit_text(PLAN_EXIT_RET), "ret", "the word for ret");
	is_str(plan_exit_text(PLAN_EXIT_NONE), "none", "the word for none");
}

int main(void)
{
	case_exit = PLAN_MODE_RET;
	test_returns();
	test_direct_jumps();
	test_indirect_jumps();
	test_targets();
	test_forwarders();
	test_restarts();
	test_running_over();
	test_what_is_not_followed();
	case_exit = PLAN_MODE_AUTO;
	test_names();
	test_modes();
	test_jumps_said();
	test_return_probes();
	plan_done(&tc.plan);
	return tap_done();
}
