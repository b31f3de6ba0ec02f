// SPDX-License-Identifier: BSD-2-Clause
/* Which instructions are never probed, one by one. */
#include <errno.h>

#include "plan_case.h"

struct line {
	const char *code, *why; /* NULL: it may be probed */
};

static struct plan_rules rules;

static size_t bytes_of(const char *hex, uint8_t *bytes)
{
	size_t n = 0;
	char *end;

	for (; *hex; hex = end + strspn(end, " "))
		bytes[n++] = strtoul(hex, &end, 16);
	return n;
}

static void check(const char *hex, const char *want)
{
	char why[PLAN_WHY_LEN] = "";
	uint8_t bytes[16];
	size_t n = bytes_of(hex, bytes);
	int ret = plan_insn_probe_ok(PLAN_X86_64, bytes, n, &rules, why, sizeof(why));

	if (!want)
		ok(!ret, "%s may be probed%s%s", hex, why[0] ? ", but: " : "", why);
	else if (!ok(ret ==
					 (strcmp(want,
						  "an instruction that is not known")
							 ? -ENOTSUP
							 : -EILSEQ) &&
				 !strcmp(why, want),
			 "%s is never probed: %s", hex, want))
		printf("# got: %d %s\n", ret, why);
}

#define VECTOR  "the kernel emulates some VEX, EVEX and XOP instructions wrongly"
#define LOCK    "the kernel refuses to probe a lock prefix"
#define SEGMENT "the kernel refuses to probe a segment prefix"
#define OPCODE  "the kernel refuses to probe this opcode"
#define NONE    "an instruction that is not known"
#define SYSTEM  "a system or undefined instruction can't be single-stepped"
#define NOP5    "this kernel turns a probed 5-byte nop into a call"
#define CALL    "a probed call breaks shadow stacks on this kernel"

static void test_never(void)
{
	static const struct line lines[] = {
		{ "c5 f8 77", VECTOR },             /* vzeroupper */
		{ "c5 f9 ef c1", VECTOR },          /* vpxor */
		{ "c4 e2 7d 18 07", VECTOR },       /* vbroadcastss */
		{ "c4 e2 fb f6 c1", VECTOR },       /* mulx */
		{ "62 f1 7d 48 6f 07", VECTOR },    /* vmovdqa32 */
		{ "62 f3 75 48 25 c2 ff", VECTOR }, /* vpternlogd, new to old Capstone */
		{ "c4 e1 fb 92 c8", VECTOR },       /* kmovq */
		{ "8f e8 78 c0 c1 02", VECTOR },    /* vprotb, XOP */
		{ "8f 00", NULL },                  /* pop (%rax) */
		{ "8f c0", NULL },                  /* pop %rax, the long way */
		{ "41 90", "the kernel mistakes this xchg for a nop" },
		{ "49 90", "the kernel mistakes this xchg for a nop" },
		{ "90", NULL },
		{ "48 90", NULL },
		{ "f0 ff 07", LOCK },
		{ "66 f0 ff 07", LOCK },
		{ "2e 89 07", SEGMENT },
		{ "26 89 07", SEGMENT },
		{ "36 89 07", SEGMENT },
		{ "3e 89 07", SEGMENT },
		{ "3e ff e0", SEGMENT },
		{ "66 2e 0f 1f 84 00 00 00 00 00", SEGMENT },
		{ "64 89 07", NULL },
		{ "65 89 07", NULL },
		{ "cc", "a breakpoint is already there" },
		{ "cd 80", OPCODE },
		{ "f1", OPCODE },
		{ "f4", OPCODE },
		{ "fa", OPCODE },
		{ "fb", OPCODE },
		{ "6c", OPCODE },
		{ "e4 10", OPCODE },
		{ "ed", OPCODE },
		{ "cf", OPCODE },
		{ "8e d0", "the kernel refuses to probe a load of %ss" },
		{ "8e d8", NULL },
		{ "c7 f8 00 00 00 00", "a transaction can't be single-stepped" },
		{ "9c", "a single-stepped pushf pushes the step's trap flag" },
		{ "66 9c", "a single-stepped pushf pushes the step's trap flag" },
		{ "9d", NULL },
		{ "0f 05", SYSTEM },
		{ "0f 0b", SYSTEM },
		{ "0f 34", SYSTEM },
		{ "0f 07", SYSTEM },
		{ "0f 35", SYSTEM },
		{ "0f b9 c0", SYSTEM },
		{ "66 66 48 e8 00 00 00 01",
			"the kernel refuses to probe a branch with a 66 prefix" },
		{ "06", NONE },
		{ "82 c0 01", NONE },
		{ "ea 00 00 00 00 00 00", NONE },
		{ "48", NONE },
		{ "66 e9 00 00 00 00", NONE },
		{ "66 74 00", NONE },
		{ "48 66 90", NONE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		check(lines[i].code, lines[i].why);
}

static void test_ends(void)
{
	static const char *const may[] = { "c3", "c2 08 00", "f3 c3", "f2 c3",
		"f2 e9 00 00 00 01", "e9 00 00 00 01", "eb 10", "75 10",
		"0f 85 00 00 00 01", "e3 10", "ff e0", "41 ff e3", "ff 25 00 00 00 00",
		"ff 60 08", "f2 ff 25 00 00 00 00" };
	static const char *const sites[] = { "55", "41 57", "f3 0f 1e fa", "48 83 ec 08",
		"48 89 e5", "8b 05 00 01 00 00", "0f 1f 00", "66 0f 1f 44 00 00",
		"64 48 8b 04 25 28 00 00 00", "f3 48 0f 1e c8", "66 0f ef c0",
		"f3 0f 10 07", "0f 38 f9 07", "d9 ee" };

	for (size_t i = 0; i < ARRAY_SIZE(may); i++)
		check(may[i], NULL);
	for (size_t i = 0; i < ARRAY_SIZE(sites); i++)
		check(sites[i], NULL);
}

static void test_by_rules(void)
{
	static const char *const nops[] = { "0f 1f 44 00 00", "66 0f 1f 40 00",
		"66 66 66 66 90", "e9 00 00 00 00" };
	static const char *const other[] = { "0f 1f 40 00", "66 0f 1f 44 00 00", "66 90",
		"e9 00 00 00 01", "b8 00 00 00 00" };
	static const char *const calls[] = { "e8 00 00 00 01", "ff d0",
		"ff 15 00 00 00 00" };

	for (size_t i = 0; i < ARRAY_SIZE(nops); i++)
		check(nops[i], NULL);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		check(calls[i], NULL);
	rules.nop5_unsafe = true;
	for (size_t i = 0; i < ARRAY_SIZE(nops); i++)
		check(nops[i], NOP5);
	for (size_t i = 0; i < ARRAY_SIZE(other); i++)
		check(other[i], NULL);
	rules.call_unsafe = true;
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		check(calls[i], CALL);
	check("ff e0", NULL);
	rules = (struct plan_rules) { 0 };
}

/* An entry that can't be probed, with no other lawful site. */
static void test_refused(void)
{
	static const struct {
		const char *code, *why;
	} cases[] = {
		{ "c5 f8 77 c3", "its first instruction can't be probed: " VECTOR },
		{ "f0 ff 07 c3", "its first instruction can't be probed: " LOCK },
		{ "41 90 c3",
			"its first instruction can't be probed: the kernel mistakes this xchg for a nop" },
		{ "cc c3",
			"its first instruction can't be probed: a breakpoint is already there" },
		{ "06 c3", "its first instruction can't be disassembled" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct plan *plan = plan_code(PLAN_X86_64, cases[i].code);

		is_str(plan->refused, cases[i].why,
			"a function is refused with the reason");
		ok(!plan->ends && !plan->ranges && plan->exit == PLAN_EXIT_NONE,
			"and has nothing else");
	}
}

/* Nops as the kernel writes them are emulated, where it knows them at all. */
static void test_nops(void)
{
	static const struct {
		const char *code;
		bool emulated;
	} nops[] = {
		{ "0f 1f 00", true },
		{ "0f 1f 40 00", true },
		{ "0f 1f 44 00 00", true },
		{ "66 0f 1f 44 00 00", true },
		{ "0f 1f 80 00 00 00 00", true },
		{ "0f 1f 84 00 00 00 00 00", true },
		{ "66 0f 1f 00", false },
		{ "0f 1f 03", false },
		{ "66 0f 1f 84 00 00 00 00 00", false },
	};
	char buf[64];

	for (size_t i = 0; i < ARRAY_SIZE(nops); i++) {
		snprintf(buf, sizeof(buf), "%s c3", nops[i].code);
		plan_code(PLAN_X86_64, buf);
		ok(tc.plan.site_emulated == nops[i].emulated, "%s is %s", nops[i].code,
			nops[i].emulated ? "emulated" : "stepped");
		tc.rules.multinop_emulated = false;
		ok(!make_plan(CASE_BASE, (strlen(buf) + 1) / 3)->site_emulated,
			"and stepped by a kernel that knows none");
	}
}

/*
 * Instructions unknown to old releases of Capstone have a known length, so that code
 * after them is found.
 */
static void test_lengths(void)
{
	static const char *const unknown[] = {
		"f3 48 0f 1e c8",                   /* rdsspq */
		"62 f3 75 48 25 c2 ff",             /* vpternlogd with an immediate */
		"62 f2 fd 48 55 c1",                /* vpopcntq */
		"c4 e1 fb 92 c8",                   /* kmovq */
		"62 f1 fd 48 6f 84 24 40 00 00 00", /* vmovdqa64 from the stack */
		"62 f1 7d 48 70 05 00 01 00 00 1b", /* vpshufd from the code, and an immediate */
		"c4 e2 75 50 44 c8 08",             /* vpdpbusd, SIB and a byte */
		"66 0f 38 cf c1",                   /* gf2p8mulb */
		"66 0f 3a ce c1 05",                /* gf2p8affineqb */
		"0f 01 e8",                         /* serialize */
		"67 c4 e2 75 50 04 25 00 00 00 00", /* no base */
		"f3 48 0f ae e8",                   /* incsspq */
		"f3 0f c7 f8",                      /* rdpid */
		"0f 38 f9 07",                      /* movdiri */
		"c4 e2 73 5e c2",                   /* tdpbssd */
		"62 f5 74 48 58 c2",                /* vaddph, map 5 */
		"62 f1 7c 48 c2 c1 05", /* vcmpps, with an immediate in map 1 */
		"62 f1 7c 48 c6 c1 05", /* vshufps */
		"c5 fc 77",             /* vzeroall */
		"c5 f9 70 c1 1b",       /* vpshufd */
		"62 f2 7d 48 18 40 01", /* vbroadcastss, one byte of displacement */
	};
	char buf[80];

	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++) {
		const struct plan *plan;

		snprintf(buf, sizeof(buf), "53 5b %s c3", unknown[i]);
		plan = plan_code(PLAN_X86_64, buf);
		ok(plan->exit == PLAN_EXIT_RET && plan->end_cnt == 1 &&
				plan->ends[0].addr ==
					CASE_BASE + (strlen(buf) + 1) / 3 - 1,
			"the ret behind %s is found: %s", unknown[i], plan_text(plan));
	}
}

int main(void)
{
	test_never();
	test_ends();
	test_by_rules();
	test_refused();
	test_nops();
	test_lengths();
	plan_done(&tc.plan);
	return tap_done();
}
