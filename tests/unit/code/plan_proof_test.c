// SPDX-License-Identifier: BSD-2-Clause
/* Which functions are proved to be safe for return probes, and what keeps them from it. */
#include "plan_case.h"

#define AT(n) (CASE_BASE + (n) * 0x100)

/* In function 0, at +1: of function 1, and of itself. In function 1 of function 0. */
#define CALL_1    "53 e8 fa 00 00 00 5b c3"
#define CALL_SELF "53 e8 fa ff ff ff 5b c3"
#define CALL_BACK "53 e8 fa fe ff ff 5b c3"
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
	ok(strncmp(make_plan(AT(0), 3)->exit_why, "proved: ", 8) == 0, "it is said: %s",
		tc.plan.exit_why);
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
	test_linkage();
	test_rules();
	plan_done(&tc.plan);
	return tap_done();
}
