// SPDX-License-Identifier: BSD-2-Clause
/* Targets of tracked tail calls, and the tail calls that are not tracked. */
#include "code/plan.h"
#include "plan_case.h"

#define AT(n) (CASE_BASE + (uint64_t)(n)*0x100)

static struct planner *planner;
static struct plan plans[8];
static struct follow_func funcs[8];
static struct follow follow;

/* Function @n of the file, at AT(@n), of @size bytes. In ascending order. */
static void function(int n, const char *hex)
{
	uint64_t end = code(AT(n), hex);

	symbol(AT(n));
	fde(AT(n), end);
}

static void ask(void *arg, struct plan_request *req)
{
	(void)arg;
	req->name = "place";
}

/* Plans the first @cnt functions, as those of a group, and follows their jumps. */
static void find(size_t cnt)
{
	struct err err = { 0 };
	int ret = planner_new(&tc.img, &tc.rules, &planner, &err);

	follow = (struct follow) { funcs, cnt, NULL, 0, 0 };
	for (size_t i = 0; !ret && i < cnt; i++) {
		struct plan_request req = { .addr = AT(i) };

		ret = planner_plan(planner, &req, &plans[i], &err);
		funcs[i] = (struct follow_func) { &plans[i], i, false };
	}
	if (!ret)
		ret = follow_find(&follow, planner, ask, NULL, &err);
	if (ret) {
		ok(false, "jumps are followed: %s", err.msg);
		exit(1);
	}
	follow_number(&follow, cnt);
}

static void done(void)
{
	follow_done(&follow);
	for (size_t i = 0; i < ARRAY_SIZE(plans); i++)
		plan_done(&plans[i]);
	planner_free(planner);
	planner = NULL;
}

/* The number of where the first jump of function @n leads, or -1. */
static int leads(int n)
{
	struct follow_to to;

	for (size_t i = 0; i < plans[n].end_cnt; i++)
		if (plans[n].ends[i].kind != PLAN_END_RET)
			return follow_end(&follow, &plans[n], &plans[n].ends[i], &to) ? (int)to.no
									   : -1;
	return -1;
}

#define JMP_1 "53 5b e9 f9 00 00 00" /* to the function behind */
#define RET   "53 5b c3"

static void test_functions(void)
{
	begin(PLAN_X86_64);
	function(0, JMP_1);
	function(1, RET);
	find(2);
	is_int(leads(0), 1, "a jump to another function of the group is followed");
	is_int(follow.place_cnt, 0, "without a place for it");
	ok(follow_leads_to(&follow, &plans[1]) && !follow_leads_to(&follow, &plans[0]),
		"which function calls are followed to is known");
	is_int(follow_lost(&follow, &plans[0]), 0, "no jump is lost");
	done();
	begin(PLAN_X86_64);
	function(0, "53 5b 85 ff 75 fa c3");
	find(1);
	is_int(leads(0), 0, "a jump to the function's own entry is followed");
	done();
}

/* A function that jumps to a stub, called directly once. */
static void test_calls(void)
{
	struct follow_to to = {};

	begin(PLAN_X86_64);
	function(0, JMP_1);
	function(1, "ff 25 00 10 00 00");
	function(2, "50 e8 fa fd ff ff 48 89 c3 58 c3");
	function(3, "48 b8 e8 f9 fc ff ff 00 00 00 c3"); /* a call within a number */
	find(1);
	ok(follow_end(&follow, &plans[0], &plans[0].ends[0], &to) && to.behind && to.behind->end_cnt == 1,
		"a jump to another file is followed to the call of the function");
	is_int(follow_lost(&follow, &plans[0]), 0, "no jump is lost");
	if (to.behind) {
		const struct plan_end *end = &to.behind->ends[0];

		ok(end->addr == AT(2) + 6 && end->kind == PLAN_END_EARLY && end->place.offset == -8,
			"the next instruction is probed, where the return address is below the stack pointer");
	}
	done();
	begin(PLAN_X86_64);
	function(0, JMP_1);
	function(1, "ff 25 00 10 00 00");
	function(2, "50 e8 fa fd ff ff c3");
	find(1);
	ok(follow_end(&follow, &plans[0], &plans[0].ends[0], &to), "also a ret, of a function that is not probed");
	done();
	begin(PLAN_X86_64);
	function(0, JMP_1);
	function(1, "ff 25 00 10 00 00");
	function(2, "50 e8 fa fd ff ff c3");
	find(3);
	ok(!follow_end(&follow, &plans[0], &plans[0].ends[0], &to), "but not one that is probed itself");
	is_int(follow_lost(&follow, &plans[0]), 1, "the jump is lost");
	done();
}

static void test_places(void)
{
	struct follow_to to;

	begin(PLAN_X86_64);
	function(0, JMP_1);
	function(1, RET);
	find(1);
	is_int(leads(0), 1, "a jump to a function that is not asked for is followed");
	ok(follow_end(&follow, &plans[0], &plans[0].ends[0], &to) && to.entry,
		"whose entry is probed, as that is emulated");
	done();
	begin(PLAN_X86_64);
	function(0, JMP_1);
	function(1, "31 c0 c3");
	find(1);
	ok(follow_end(&follow, &plans[0], &plans[0].ends[0], &to) && !to.entry,
		"and is not where it is stepped");
	done();
	begin(PLAN_X86_64);
	function(0, JMP_1);
	function(1, "ff 25 00 10 00 00");
	find(1);
	is_int(leads(0), -1, "a stub of the linkage table is no place");
	is_int(follow_lost(&follow, &plans[0]), 1, "the jump is lost");
	done();
	begin(PLAN_X86_64);
	function(0, "53 5b e9 fa 00 00 00");
	function(1, "53 5b 90 c3");
	find(1);
	is_int(leads(0), -1, "nor is the middle of a function");
	done();
	begin(PLAN_X86_64);
	function(0, JMP_1);
	function(1, "53 5b ff e0");
	find(1);
	is_int(leads(0), 1,
		"one that leaves through a register is: calls end there untimed");
	done();
	begin(PLAN_X86_64);
	function(0, JMP_1);
	function(1, "53 5b 0f 0b");
	find(1);
	is_int(leads(0), -1, "one that never returns is none");
	done();
}

/* jmp *0x1000(%rip) at AT(1): the word is what a stub of the linkage table jumps through. */
static void stub(const char *place, bool sure)
{
	static struct plan_slot slot;

	begin(PLAN_X86_64);
	function(0, JMP_1);
	function(1, "ff 25 00 10 00 00");
	function(2, place);
	slot = (struct plan_slot) { AT(1) + 6 + 0x1000, AT(2), sure, NULL };
	tc.img.slots = &slot;
	tc.img.slot_cnt = 1;
}

static void test_linkage(void)
{
	stub(RET, true);
	find(1);
	is_int(leads(0), 1,
		"through a stub to the file's own function a jump is followed");
	done();
	stub("31 c0 c3", true);
	find(1);
	is_int(leads(0), 1, "also where that has no probe on its entry");
	done();
	stub(RET, false);
	find(1);
	is_int(leads(0), 1, "if another's may be called it is, too");
	is_int(plans[0].ends[0].word, AT(1) + 6 + 0x1000, "and the word that tells is known");
	done();
	stub(RET, true);
	code(AT(0), "53 5b ff 25 fe 10 00 00");
	tc.fdes[0].end = AT(0) + 8;
	find(1);
	is_int(leads(0), 1, "a jump through the word itself is followed like a stub");
	done();
}

/* A stub of arm64: adrp x16, PAGE; ldr x17, [x16, #24]; add x16, x16, #24; br x17. */
static void test_arm64(void)
{
	static const struct {
		const char *what, *adrp;
		uint64_t word;
	} cases[] = {
		{ "an arm64 stub's word is found, two pages on", "d0000010 ", 0x3018 },
		{ "and one page back", "f0fffff0 ", 0x18 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct plan_slot slot = { cases[i].word, AT(2), true, NULL };
		static const char *const code[] = { "14000040", NULL, "d503201f d65f03c0" };

		begin(PLAN_ARM64);
		for (int n = 0; n < 3; n++) {
			uint64_t at = AT(n);

			symbol(at);
			if (n == 1)
				at = words(at, cases[i].adrp);
			fde(AT(n), words(at, code[n] ?: "f9400e11 91006210 d61f0220"));
		}
		tc.img.slots = &slot;
		tc.img.slot_cnt = 1;
		find(1);
		is_int(leads(0), 1, cases[i].what);
		done();
	}
}

static void test_levels(void)
{
	begin(PLAN_X86_64);
	for (int i = 0; i < 6; i++)
		function(i, JMP_1);
	function(6, RET);
	find(1);
	is_int(follow.place_cnt, FOLLOW_LEVELS, "jumps are followed so many times");
	done();
}

static void test_too_many(void)
{
	char many[FOLLOW_RETS_MAX * 16 + 32] = "53 85 ff ";

	/* jne +2; pop, ret: a ret each */
	for (int i = 0; i <= FOLLOW_RETS_MAX; i++)
		strcat(many, "75 02 5b c3 ");
	strcat(many, "5b c3");
	begin(PLAN_X86_64);
	function(0, JMP_1);
	function(1, many);
	find(1);
	is_int(leads(0), -1, "what has too many ret is left alone");
	done();
}

static void test_forwarders(void)
{
	begin(PLAN_X86_64);
	function(0, "e9 fb 00 00 00");
	function(1, RET);
	find(2);
	ok(follow_forwards(&follow, &plans[0]), "a function that is one jump forwards");
	done();
	begin(PLAN_X86_64);
	function(0, "e9 fb 00 00 00");
	function(1, "e9 fb fe ff ff");
	find(2);
	ok(!follow_forwards(&follow, &plans[0]), "two that jump to each other don't");
	done();
	begin(PLAN_X86_64);
	function(0, "eb 00 c3");
	find(1);
	ok(!follow_forwards(&follow, &plans[0]), "nor does one whose jump stays");
	done();
}

static const char *explained(int n)
{
	follow_explain(&follow, &plans[n]);
	return strrchr(plans[n].exit_why, ';');
}

static void test_said(void)
{
	begin(PLAN_X86_64);
	function(0, JMP_1);
	function(1, "85 ff 74 02 ff e0 c3");
	function(2, "31 c0 ff e0");
	function(3, "85 ff 74 05 e9 f7 00 00 00 ff e0");
	function(4, RET);
	find(5);
	is_str(explained(0), "; 0 ret, 1 jump that leaves: followed",
		"that it is followed");
	is_str(explained(1),
		"; 1 ret, 1 jump that leaves: calls that take one are not timed",
		"that some calls are not timed");
	is_str(explained(2), "; 0 ret, 1 jump that leaves: its calls are not timed",
		"that none is");
	is_str(explained(3),
		"; 0 ret, 2 jumps that leave: 1 followed, calls that take another are not timed",
		"that it depends");
	is_str(explained(4), "; 1 ret, 0 jumps that leave", "without jumps nothing");
	done();
}

int main(void)
{
	test_functions();
	test_calls();
	test_places();
	test_linkage();
	test_arm64();
	test_levels();
	test_too_many();
	test_forwarders();
	test_said();
	plan_done(&tc.plan);
	return tap_done();
}
