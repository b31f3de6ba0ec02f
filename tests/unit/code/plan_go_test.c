// SPDX-License-Identifier: BSD-2-Clause
/* Functions of Go's compiler, whose entry is run again when their stack has grown. */
#include "plan_case.h"

#define LOOP                                                                          \
	"a loop begins at its entry (jump at +0x%llx): iterations would count as calls; " \
	"--probe site=entry does it anyway"

/* The parts of a function; what is NULL is left out. */
struct parts {
	const char *wraps; /* before a first jump, which skips the frame */
	const char *check; /* before the jump for a stack that is too small */
	const char *body;
		const char *grow; /* target of both jumps; followed by the jump to the entry */
};

/* Offsets from the entry. */
static struct {
	uint64_t behind, grow, jump;
} at;

static void put_jump(uint64_t addr, uint64_t target, uint8_t cc)
{
	int32_t rel;

	if (tc.img.arch == PLAN_ARM64) {
		uint32_t word = cc == 0xff ? 0x14000000 : 0x54000000 | cc;

		rel = (int32_t)(target - addr) / 4;
		word |= cc == 0xff ? (uint32_t)rel & 0x3ffffff
				   : ((uint32_t)rel & 0x7ffff) << 5;
		memcpy(tc.bytes + (addr - CASE_BASE), &word, 4);
		return;
	}
	rel = (int32_t)(target - addr - (cc == 0xff ? 5 : 6));
	code(addr, cc == 0xff ? "e9" : "0f");
	if (cc != 0xff)
		tc.bytes[addr + 1 - CASE_BASE] = 0x80 | cc;
	memcpy(tc.bytes + (addr - CASE_BASE) + (cc == 0xff ? 1 : 2), &rel, 4);
}

/* Puts it together at CASE_BASE and plans it. */
static const struct plan *plan_parts(
	enum plan_arch arch, const struct parts *p, const struct plan_rules *rules)
{
	bool a64 = arch == PLAN_ARM64;
	uint64_t (*put)(uint64_t, const char *) = a64 ? words : code;
	size_t jcc = a64 ? 4 : 6;
	uint64_t addr = CASE_BASE, wraps = 0, check;

	begin(arch);
	if (rules)
		tc.rules = *rules;
	if (p->wraps) {
		wraps = put(addr, p->wraps);
		addr = wraps + jcc;
	}
	check = put(addr, p->check);
	at.behind = check + jcc - CASE_BASE;
	at.grow = put(check + jcc, p->body) - CASE_BASE;
	if (wraps)
		put_jump(wraps, CASE_BASE + at.grow, a64 ? 3 : 2);
	put_jump(check, CASE_BASE + at.grow, a64 ? 9 : 6);
	addr = put(CASE_BASE + at.grow, p->grow);
	at.jump = addr - CASE_BASE;
	put_jump(addr, CASE_BASE, 0xff);
	symbol(CASE_BASE);
	return make_plan(CASE_BASE, addr + (a64 ? 4 : 5) - CASE_BASE);
}

/* The last instruction of the body is its only ret. */
static void is_timed(const char *what)
{
	char want[160];

	snprintf(want, sizeof(want), "site+%llu ret ret:+%llu", (unsigned long long)at.behind,
		(unsigned long long)at.grow - (tc.img.arch == PLAN_ARM64 ? 4 : 1));
	is_str(plan_text(&tc.plan), want, what);
	ok(tc.plan.goroutine, "%s: by goroutine", what);
}

static void is_loop(const char *what)
{
	char want[256];

	snprintf(want, sizeof(want), "refused: " LOOP, (unsigned long long)at.jump);
	is_str(plan_text(&tc.plan), want, what);
}

#define CMP  "49 3b 66 10"
#define LEA  "4c 8d 64 24 f0 4d 3b 66 10"
#define LEA4 "4c 8d a4 24 00 ff ff ff 4d 3b 66 10"
#define WRAP "49 89 e4 49 81 ec a8 1f 00 00"
#define CMPR "4d 3b 66 10"
#define FS   "64 4c 8b 34 25 f8 ff ff ff"
#define BODY "48 83 ec 10 48 83 c4 10 c3"
#define GROW "48 89 44 24 08 e8 00 02 00 00 48 8b 44 24 08"

static void test_checks(void)
{
	static const struct {
		const char *what;
		struct parts parts;
	} cases[] = {
		{ "a small frame", { NULL, CMP, BODY, GROW } },
		{ "a frame of some size", { NULL, LEA, BODY, GROW } },
		{ "a frame of more than 128 bytes", { NULL, LEA4, BODY, GROW } },
		{ "a frame that may wrap around", { WRAP, CMPR, BODY, GROW } },
		{ "g loaded first", { NULL, FS " " CMP, BODY, GROW } },
		{ "g loaded first, a large frame", { FS " " WRAP, CMPR, BODY, GROW } },
		{ "the system's stack", { NULL, "49 3b 66 18", BODY, GROW } },
		{ "nothing to spill", { NULL, CMP, BODY, "e8 00 02 00 00" } },
		{ "floating-point arguments spilled",
			{ NULL, CMP, BODY,
				"f2 0f 11 44 24 08 e8 00 02 00 00 f2 0f 10 44 24 08" } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		plan_parts(PLAN_X86_64, &cases[i].parts, NULL);
		is_timed(cases[i].what);
	}
}

static void test_site(void)
{
	struct parts p = { NULL, CMP, BODY, GROW };

	plan_parts(PLAN_X86_64, &p, NULL);
	is_str(tc.plan.site_why,
		"after Go's check of the stack, which runs again when the stack has grown: no later instruction is faster to probe",
		"the site's reason");
	p.body = "55 5d c3";
	plan_parts(PLAN_X86_64, &p, NULL);
	is_timed("a push behind the check");
	is_str(tc.plan.site_why,
		"after Go's check of the stack, which runs again when the stack has grown",
		"is taken at once");
	p.body = "31 c0 55 5d c3";
	plan_parts(PLAN_X86_64, &p, NULL);
	is_int(tc.plan.site, CASE_BASE + at.behind + 2, "or one instruction on");
	is_str(tc.plan.site_why,
		"after Go's check of the stack, which runs again when the stack has grown, and 1 instruction, the kernel emulates this one",
		"and that is said");
	/* a loop starts at the second instruction after the check: jmp -5 */
	p.body = "31 c0 55 5d eb fc c3";
	plan_parts(PLAN_X86_64, &p, NULL);
	is_timed("but not where a loop begins");
	/* vzeroupper: the kernel gets it wrong */
	p.body = "c5 f8 77 48 83 ec 10 c3";
	plan_parts(PLAN_X86_64, &p, NULL);
	ok(tc.plan.refused[0] && strstr(tc.plan.refused, "can't be probed"),
		"nothing that can be probed behind the check: %s", plan_text(&tc.plan));
}

static void test_rules(void)
{
	struct parts p = { NULL, CMP, BODY, GROW };
	struct plan_rules rules = { .multinop_emulated = true };

	rules.exit = PLAN_MODE_RET;
	plan_parts(PLAN_X86_64, &p, &rules);
	is_timed("--probe exit=ret");
	rules.exit = PLAN_MODE_RETURN;
	plan_parts(PLAN_X86_64, &p, &rules);
	is_str(tc.plan.exit_why, "Go moves a stack that grows: no return probe is safe",
		"--probe exit=return");
	rules.exit = PLAN_MODE_AUTO;
	rules.site_entry = true;
	plan_parts(PLAN_X86_64, &p, &rules);
	is_str(plan_text(&tc.plan),
		"site+0 none (with --probe site=entry, a call is counted again when Go's stack has grown)",
		"--probe site=entry");
	rules.site_entry = false;
	rules.count_only = true;
	plan_parts(PLAN_X86_64, &p, &rules);
	is_int(tc.plan.site, CASE_BASE + at.behind, "--count");
	is_str(tc.plan.exit_why, "--count", "and its reason");
}

static void test_ends(void)
{
	struct parts p = { NULL, CMP, "90 c3 e8 00 02 00 00 c3", GROW };

	plan_parts(PLAN_X86_64, &p, NULL);
	is_str(plan_text(&tc.plan), "site+10 ret ret:+11 ret:+17",
		"a ret after deferreturn, which only the runtime reaches");
	p.body = "e9 00 02 00 00";
	plan_parts(PLAN_X86_64, &p, NULL);
	is_str(tc.plan.exit_why, "at 0x100a: a jump leaves the function", "a tail call");
	ok(!tc.plan.goroutine, "is counted only");
	begin(PLAN_X86_64);
	tc.req.go = true;
	code(CASE_BASE, "48 83 ec 08 e8 00 02 00 00 48 83 c4 08 c3");
	symbol(CASE_BASE);
	make_plan(CASE_BASE, 14);
	ok(tc.plan.goroutine && tc.plan.exit == PLAN_EXIT_RET, "a callee's stack can grow");
	tc.req.go = false;
	tc.req.go_unknown = true;
	make_plan(CASE_BASE, 14);
	ok(!tc.plan.goroutine && tc.plan.exit == PLAN_EXIT_NONE,
		"in assembly, of which the register of the goroutine is not known");
	code(CASE_BASE, "48 83 ec 08 90 90 90 90 90 48 83 c4 08 c3");
	make_plan(CASE_BASE, 14);
	ok(!tc.plan.goroutine, "without calls, it cannot: %s", plan_text(&tc.plan));
}

/* Similar code that is not this prologue. */
static void test_others(void)
{
	static const struct {
		const char *what;
		struct parts parts;
	} cases[] = {
		{ "another register", { NULL, "49 3b 67 10", BODY, GROW } },
		{ "another word", { NULL, "49 3b 66 20", BODY, GROW } },
		{ "a check without its first part", { NULL, CMPR, BODY, GROW } },
		{ "nothing is called", { NULL, CMP, BODY, "90" } },
		{ "two are called",
			{ NULL, CMP, BODY, "e8 00 02 00 00 e8 00 02 00 00" } },
		{ "a call of its own code", { NULL, CMP, BODY, "e8 f8 ff ff ff" } },
		{ "a call through a register", { NULL, CMP, BODY, "ff d0" } },
		{ "a branch on the way", { NULL, CMP, BODY, "74 05 e8 00 02 00 00" } },
		{ "a loop behind the check", { NULL, CMP, "ff c8 75 fc c3", GROW } },
		{ "a loop into the check", { NULL, CMP, "ff c8 75 f6 c3", GROW } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		plan_parts(PLAN_X86_64, &cases[i].parts, NULL);
		is_loop(cases[i].what);
	}
}

static void test_more_jumps(void)
{
	struct parts p = { NULL, CMP, "ff c8 75 f2 c3", GROW };

	plan_parts(PLAN_X86_64, &p, NULL);
	at.jump = at.behind + 2;
	is_loop("another jump to the entry is a loop");
	/* jbe after the end of the frame, as in C: to its own ret */
	plan_code(PLAN_X86_64, CMP " 76 08 " BODY " e8 00 02 00 00 eb ea");
	is_str(plan_text(&tc.plan),
		"site+0 ret ret:+14",
		"the check leads to something else: nothing leads to what jumps back");
	/* jb to the call, jbe to the spill before it */
	plan_code(PLAN_X86_64,
		WRAP " 72 14 " CMPR " 76 09 " BODY
		     " 48 89 44 24 08 e8 00 02 00 00 eb d9");
	ok(strstr(tc.plan.refused, "a loop begins at its entry"),
		"two jumps to different places: %s", plan_text(&tc.plan));
	plan_code(PLAN_X86_64,
		WRAP " 72 0f " CMPR " 76 09 " BODY
		     " 48 89 44 24 08 e8 00 02 00 00 eb d9");
	is_str(plan_text(&tc.plan), "site+18 ret ret:+26", "two short jumps to one place");
	p = (struct parts) { NULL, CMP, BODY, "50 e8 00 02 00 00 5a" };
	plan_parts(PLAN_X86_64, &p, NULL);
	is_str(plan_text(&tc.plan), "site+0 ret ret:+18 rejmp:+26",
		"a jump back from another stack pointer is a call of itself");
	p = (struct parts) { NULL, CMP, BODY, GROW };
	plan_parts(PLAN_X86_64, &p, NULL);
	symbol(CASE_BASE + at.behind);
	make_plan(CASE_BASE, at.jump + 5);
	is_loop("a symbol behind the check");
	plan_parts(PLAN_X86_64, &p, NULL);
	make_plan(CASE_BASE, 5);
	ok(tc.plan.site == CASE_BASE, "a function cut off in its check");
}

#define A_LDR  "f9400b90"
#define A_BODY "f81e0ffe f84207fe d65f03c0"
#define A_GROW "f90007e0 aa1e03e3 94000100 f94007e0"

static void test_arm64(void)
{
	static const struct {
		const char *what;
		struct parts parts;
	} cases[] = {
		{ "arm64, a small frame", { NULL, A_LDR " eb3063ff", A_BODY, A_GROW } },
		{ "arm64, a frame of some size",
			{ NULL, A_LDR " d10043f1 eb10023f", A_BODY, A_GROW } },
		{ "arm64, a frame of many pages",
			{ NULL, A_LDR " d14043f1 eb10023f", A_BODY, A_GROW } },
		{ "arm64, a frame that may wrap around",
			{ A_LDR " f13e43f1", "eb10023f", A_BODY, A_GROW } },
		{ "arm64, its size in a register",
			{ A_LDR " d283f61b eb3b63f1", "eb10023f", A_BODY, A_GROW } },
		{ "arm64, its size in two instructions",
			{ A_LDR " d29ff21b f2a0003b eb3b63f1", "eb10023f", A_BODY,
				A_GROW } },
		{ "arm64, its size as a mask",
			{ A_LDR " b27303fb eb3b63f1", "eb10023f", A_BODY, A_GROW } },
		{ "arm64, the system's stack",
			{ NULL, "f9400f90 eb3063ff", A_BODY, A_GROW } },
	};
	struct parts p = { NULL, A_LDR " eb30603f", A_BODY, A_GROW };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		plan_parts(PLAN_ARM64, &cases[i].parts, NULL);
		is_timed(cases[i].what);
	}
	plan_parts(PLAN_ARM64, &p, NULL);
	is_loop("arm64, another register is compared");
	p = (struct parts) { NULL, A_LDR " eb3063ff", A_BODY, "d503201f" };
	plan_parts(PLAN_ARM64, &p, NULL);
	is_loop("arm64, nothing is called");
}

int main(void)
{
	case_exit = PLAN_MODE_RET;
	test_checks();
	test_site();
	test_rules();
	test_ends();
	test_others();
	test_more_jumps();
	test_arm64();
	plan_done(&tc.plan);
	return tap_done();
}
