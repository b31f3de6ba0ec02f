// SPDX-License-Identifier: BSD-2-Clause
/* Which functions are proven safe for return probes, and what keeps them from it. */
#include "plan_case.h"

#define AT(n) (CASE_BASE + (n) * 0x100)

/* In function 0, at +1: of function 1, and of itself. In function 1 of function 0. */
#define CALL_1    "53 e8 fa 00 00 00 5b c3"
#define CALL_SELF "53 e8 fa ff ff ff 5b c3"
#define CALL_BACK "53 e8 fa fe ff ff 5b c3"
#define CALL_SELF_1 CALL_SELF
#define JMP_1     "53 5b e9 f9 00 00 00"
#define LEAF      "89 f8 c3"

static void function(int n, const char *hex)
{
	symbol(AT(n));
	fde(AT(n), code(AT(n), hex));
}

static void start(const char *first, const char *second)
{
	begin(PLAN_X86_64);
	tc.rules.prove = true;
	function(0, first);
	if (second)
		function(1, second);
}

static void is_exit(const char *want, const char *what)
{
	is_str(plan_exit_text(make_plan(AT(0), tc.fdes[0].end - AT(0))->exit), want, what);
}

static void test_code(void)
{
	static const struct {
		const char *what, *first, *second, *exit;
	} cases[] = {
		{ "a leaf is proved", LEAF, NULL, "return" },
		{ "one that calls a leaf", CALL_1, LEAF, "return" },
		{ "one that jumps to a leaf", JMP_1, LEAF, "return" },
		{ "on a condition, too", "85 ff 0f 84 f8 00 00 00 89 f8 c3", LEAF, "return" },
		{ "what ends emulated keeps that", "55 eb 00 5d c3", NULL, "early" },
		{ "not one that calls through a register", "53 ff d0 5b c3", NULL, "ret" },
		{ "or through memory", "53 ff 17 5b c3", NULL, "ret" },
		{ "or jumps so", "85 ff 74 02 ff e0 89 f8 c3", NULL, "ret" },
		{ "or calls one that does", CALL_1, "53 ff d0 5b c3", "ret" },
		{ "or jumps to one that does", JMP_1, "53 ff d0 5b c3", "ret" },
		{ "or enters the kernel", "89 f8 0f 05 c3", NULL, "ret" },
		{ "by an interrupt", "89 f8 cd 80 c3", NULL, "ret" },
		{ "or calls itself", CALL_SELF, NULL, "ret" },
		{ "or one that calls it", CALL_1, CALL_BACK, "ret" },
		{ "or one that never returns", CALL_1, "0f 0b", "ret" },
		{ "or looks at its return address", "48 8b 04 24 89 f8 c3", NULL, "ret" },
		{ "or at its caller's frame", "55 48 89 e5 48 8b 45 00 48 8b 40 08 5d c3", NULL,
			"ret" },
		{ "or has something else on the stack at its ret", "50 c3", NULL, "ret" },
		{ "or goes to another stack", "48 89 fc 89 f8 c3", NULL, "ret" },
		{ "or comes back from one", "55 48 89 e5 48 8b 27 48 89 ec 5d c3", NULL, "ret" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		start(cases[i].first, cases[i].second);
		is_exit(cases[i].exit, cases[i].what);
	}
	start(CALL_1, LEAF);
	tc.img.fde_cnt = 1;
	is_exit("ret", "or calls what no FDE describes");
	start(LEAF, NULL);
	ok(strncmp(make_plan(AT(0), 3)->exit_why, "proven safe: ", 13) == 0, "it is said: %s",
		tc.plan.exit_why);
}

#define PUSH_FP "55 48 89 e5 " /* push %rbp; mov %rsp,%rbp */
#define FRAME   "reads or copies stack addresses of its callers"

/* Uses of stack addresses: alone, and called by function 0. */
static void test_frames(void)
{
	static const struct {
		const char *what, *code, *why; /* .why NULL: a return probe */
	} cases[] = {
		{ "the frame pointer copied", PUSH_FP "48 89 e8 5d c3", FRAME },
		{ "the other way to write it", PUSH_FP "48 8b c5 5d c3", FRAME },
		{ "stored", PUSH_FP "48 89 2f 5d c3", FRAME },
		{ "added", PUSH_FP "48 01 e8 5d c3", FRAME },
		{ "as an index", PUSH_FP "48 8d 04 28 5d c3", FRAME },
		{ "pushed", PUSH_FP "55 58 5d c3", FRAME },
		{ "to a vector register", PUSH_FP "66 48 0f 6e c5 5d c3", FRAME },
		{ "what it points to", PUSH_FP "48 8b 45 00 5d c3", FRAME },
		{ "by the stack pointer", PUSH_FP "48 8b 04 24 5d c3", FRAME },
		{ "the word above a local variable", PUSH_FP "8b 45 fc 5d c3", NULL },
		{ "a wide one that reaches into it", PUSH_FP "48 8b 45 fc 5d c3", FRAME },
		{ "a vector of it", PUSH_FP "0f 10 45 f8 5d c3", FRAME },
		{ "a vector below it", PUSH_FP "0f 10 45 f0 5d c3", NULL },
		{ "the caller's frame pointer", "48 89 e8 c3", FRAME },
		{ "what the caller's points to", "48 8b 45 08 c3", FRAME },
		{ "the register used for something else", "55 48 89 fd 48 8b 45 08 5d c3", NULL },
		{ "the address of the return address", "48 8d 04 24 c3", FRAME },
		{ "by a copy of the stack pointer", "48 89 e0 c3", FRAME },
		{ "that of an argument", "53 48 8d 44 24 10 5b c3", FRAME },
		{ "by the frame pointer", PUSH_FP "48 8d 45 10 5d c3", FRAME },
		{ "of a local variable", "53 48 8d 04 24 5b c3", NULL },
		{ "by the frame pointer", PUSH_FP "50 48 8d 45 f8 58 5d c3", NULL },
		{ "in a frame with room below", "48 83 ec 18 48 8d 44 24 08 48 83 c4 18 c3", NULL },
		{ "an argument itself", "48 8b 44 24 08 c3", NULL },
		{ "the return address compared", "48 39 3c 24 c3", "reads its own return address" },
		{ "a vector that has it", "0f 10 04 24 c3", "reads its own return address" },
		{ "one below it", "0f 10 44 24 f0 c3", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		bool safe = !cases[i].why;
		char why[PLAN_WHY_LEN];

		start(cases[i].code, NULL);
		is_exit(safe ? "return" : "ret", cases[i].what);
		snprintf(why, sizeof(why), safe ? "proven safe" : "no return probe: it %s",
			cases[i].why);
		ok(!strncmp(tc.plan.exit_why, why, strlen(why)), "the reason: %s",
			tc.plan.exit_why);
		start(CALL_1, cases[i].code);
		is_exit(safe ? "return" : "ret", "the same of a callee");
	}
}

/* An executable that needs only the C library, by functions 0 and, where it calls that, 1. */
static void alone(const char *first, const char *second, const char *exit, const char *what)
{
	start(first, second);
	tc.rules.prove = false;
	tc.req.alone_why = "alone";
	is_exit(exit, what);
}

static void test_executables(void)
{
	alone("53 ff d0 5b c3", NULL, "return", "an executable may call function pointers");
	is_str(tc.plan.exit_why, "alone", "for the reason that it has");
	alone("53 ff d0 5b c3", PUSH_FP "48 89 e8 5d c3", "ret",
		"not if some function of it reads frames");
	ok(strstr(tc.plan.exit_why, "a function of the program reads"), "which is said: %s",
		tc.plan.exit_why);
	alone(LEAF, PUSH_FP "48 89 e8 5d c3", "return", "one that meets no such function may");
	alone(CALL_1, PUSH_FP "48 89 e8 5d c3", "ret", "one that calls it may not");
	alone(CALL_SELF, NULL, "ret", "nor one that is recursive");
	is_str(tc.plan.exit_why, "no return probe: it is recursive; 1 ret, 0 jumps that leave",
		"which is said");
	alone(CALL_1, CALL_BACK, "ret", "by another, too");
	alone(CALL_1, CALL_SELF_1, "return", "one that calls a recursive one may");
	alone("48 8b 04 24 53 ff d0 5b c3", NULL, "ret", "not one that reads its return address");
	alone("53 ff d0 5b c3", "48 8b 04 24 c3", "return", "other functions may do that");
	start("53 ff d0 5b c3", PUSH_FP "48 89 e8 5d c3");
	tc.req.alone_why = "alone";
	tc.img.entry = AT(1);
	is_exit("return", "and where the program begins, addresses of the stack are read");
}

/* Function 0 calls function 1, which is jmp *0x1000(%rip); its word leads to @slot. */
static void through(struct plan_slot slot, const char *want, const char *what)
{
	start(CALL_1, "ff 25 00 10 00 00");
	function(2, LEAF);
	slot.addr = AT(1) + 6 + 0x1000;
	tc.img.slots = &slot;
	tc.img.slot_cnt = 1;
	is_exit(want, what);
	start("53 ff 15 ff 10 00 00 5b c3", NULL);
	function(2, LEAF);
	tc.img.slots = &slot;
	tc.img.slot_cnt = 1;
	is_exit(want, "and the same without a stub");
}

static void test_linkage(void)
{
	through((struct plan_slot) { .target = AT(2), .sure = true }, "return",
		"a call through the linkage table of what no file replaces is proved");
	through((struct plan_slot) { .target = AT(2) }, "ret", "not of what one may replace");
	through((struct plan_slot) { .import = "memcpy" }, "return",
		"that of another file's which only calculates");
	through((struct plan_slot) { .import = "qsort" }, "ret", "not of one that calls back");
	through((struct plan_slot) { .import = "mem" }, "ret", "or is not known");
	through((struct plan_slot) { .import = "__stack_chk_fail" }, "return",
		"and of what ends the program");
}

static void test_rules(void)
{
	start(LEAF, NULL);
	tc.rules.prove = false;
	is_exit("ret", "nothing is proved where handlers on other stacks are not known");
	start(LEAF, NULL);
	tc.rules.return_unsafe = true;
	is_exit("ret", "or return probes are unsafe");
	start(LEAF, NULL);
	tc.rules.exit = PLAN_MODE_EARLY;
	is_exit("ret", "or with --exit early");
	start(LEAF, NULL);
	tc.rules.exit = PLAN_MODE_RET;
	is_exit("ret", "or with --exit ret");
	begin(PLAN_ARM64);
	tc.rules.prove = true;
	symbol(AT(0));
	fde(AT(0), words(AT(0), "8b010000 d65f03c0"));
	is_exit("ret", "on arm64 a ret costs no more");
}

int main(void)
{
	test_code();
	test_frames();
	test_executables();
	test_linkage();
	test_rules();
	plan_done(&tc.plan);
	return tap_done();
}
