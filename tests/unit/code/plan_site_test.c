// SPDX-License-Identifier: BSD-2-Clause
/* Where the entry probe goes on x86-64, rule by rule. */
#include "plan_case.h"

/* The site of a function of its own, followed by nothing. */
static const char *site_text(void)
{
	static char buf[512];

	if (tc.plan.refused[0])
		snprintf(buf, sizeof(buf), "refused: %s", tc.plan.refused);
	else
		snprintf(buf, sizeof(buf), "+%lld %s%s: %s",
			(long long)(tc.plan.site - tc.plan.addr), tc.plan.insn,
			tc.plan.site_emulated ? "" : " (stepped)", tc.plan.site_why);
	return buf;
}

struct line {
	const char *what, *code, *site;
};

static void check_lines(const struct line *lines, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		plan_code(PLAN_X86_64, lines[i].code);
		is_str(site_text(), lines[i].site, lines[i].what);
	}
}

#define MOVED(n) ": behind " n ", the kernel emulates this one"

static void test_fast_entries(void)
{
	static const struct line lines[] = {
		{ "push", "55 5d c3", "+0 pushq %rbp: entry" },
		{ "push of a new register", "41 57 41 5f c3", "+0 pushq %r15: entry" },
		{ "nop", "90 c3", "+0 nop: entry" },
		{ "a nop of 2 bytes", "66 90 c3", "+0 nop: entry" },
		{ "jmp rel8", "eb 00 c3", "+0 jmp 0x1002: entry" },
		{ "jcc rel8", "74 00 c3", "+0 je 0x1002: entry" },
		{ "jcc rel32", "0f 84 00 00 00 00 c3", "+0 je 0x1006: entry" },
		{ "call", "e8 00 02 00 00 c3", "+0 callq 0x1205: entry" },
		{ "a nop of 4 bytes", "0f 1f 40 00 c3", "+0 nopl (%rax): entry" },
	};

	check_lines(lines, ARRAY_SIZE(lines));
}

/* Instructions that the walk can step over, each before a push. */
static void test_stepping_over(void)
{
	static const char *const over[] = {
		"f3 0f 1e fa",                   /* endbr64 */
		"89 c0",                         /* mov %eax,%eax */
		"8b c3",                         /* mov %ebx,%eax */
		"b0 01",                         /* mov $1,%al */
		"b4 01",                         /* mov $1,%ah */
		"b8 01 00 00 00",                /* mov $1,%eax */
		"48 c7 c0 01 00 00 00",          /* mov $1,%rax */
		"c6 c0 01",                      /* mov $1,%al */
		"48 b8 01 02 03 04 05 06 07 08", /* movabs */
		"0f b6 c7",                      /* movzx %bh,%eax */
		"0f b7 c7",                      /* movzx %di,%eax */
		"0f be c7",                      /* movsx */
		"48 0f bf c7",                   /* movswq */
		"48 63 c7",                      /* movslq %edi,%rax */
		"48 8d 47 08",                   /* lea 8(%rdi),%rax */
		"48 8d 04 87",                   /* lea (%rdi,%rax,4),%rax */
		"4a 8d 44 a0 08",                /* lea 8(%rax,%r12,4),%rax */
		"49 8d 04 24",                   /* lea (%r12),%rax */
		"48 8d 05 00 01 00 00",          /* lea x(%rip),%rax */
		"31 c0",                         /* xor */
		"48 09 f8",                      /* or %rdi,%rax */
		"21 f8",                         /* and */
		"01 f8",                         /* add */
		"29 f8",                         /* sub */
		"48 83 c0 01",                   /* add $1,%rax */
		"48 81 e8 00 01 00 00",          /* sub $0x100,%rax */
		"04 01",                         /* add $1,%al */
		"48 05 01 00 00 00",             /* add $1,%rax */
		"ff c0",                         /* inc */
		"fe c8",                         /* dec %al */
		"f7 d8",                         /* neg */
		"f7 d0",                         /* not */
		"c1 e0 02",                      /* shl $2 */
		"d1 e8",                         /* shr */
		"d3 f8",                         /* sar %cl */
		"85 ff",                         /* test %edi,%edi */
		"40 f6 c7 01",                   /* test $1,%dil */
		"a8 01",                         /* test $1,%al */
		"39 f7",                         /* cmp %esi,%edi */
		"83 ff 05",                      /* cmp $5,%edi */
		"48 3b fe",                      /* cmp %rsi,%rdi */
		"3c 05",                         /* cmp $5,%al */
		"0f 44 c7",                      /* cmove %edi,%eax */
		"0f 94 c0",                      /* sete %al */
		"0f 94 c4",                      /* sete %ah */
		"4d 89 d3",                      /* mov %r10,%r11 */
		"41 89 f4",                      /* mov %esi,%r12d */
		"66 2e 0f 1f 84 00 00 00 00 00", /* a nop of 10 bytes */
		"48 8b 05 00 01 00 00",          /* mov x(%rip),%rax */
		"80 3d 00 01 00 00 00",          /* cmpb $0,x(%rip) */
		"64 48 8b 04 25 28 00 00 00",    /* mov %fs:0x28,%rax */
		"48 8b 44 24 08",                /* mov 8(%rsp),%rax */
	};
	char buf[80];

	for (size_t i = 0; i < ARRAY_SIZE(over); i++) {
		snprintf(buf, sizeof(buf), "%s 55 5d c3", over[i]);
		plan_code(PLAN_X86_64, buf);
		ok(tc.plan.site_emulated &&
				tc.plan.site == CASE_BASE + (strlen(over[i]) + 1) / 3,
			"a probe moves over %s: %s", over[i], site_text());
	}
}

/* Instructions that end the walk, each before a push. */
static void test_not_stepping_over(void)
{
	static const struct {
		const char *code;
		bool counted; /* passed with --count, which needs no arguments */
	} stay[] = {
		{ "89 c7", true },                       /* mov %eax,%edi */
		{ "8b f0", true },                       /* mov %eax,%esi */
		{ "ba 01 00 00 00", true },              /* mov $1,%edx */
		{ "b1 01", true },                       /* mov $1,%cl */
		{ "b5 01", true },                       /* mov $1,%ch */
		{ "b6 01", true },                       /* mov $1,%dh */
		{ "45 31 c0", true },                    /* xor %r8d,%r8d */
		{ "41 b9 01 00 00 00", true },           /* mov $1,%r9d */
		{ "48 8d 77 08", true },                 /* lea 8(%rdi),%rsi */
		{ "48 ff c7", true },                    /* inc %rdi */
		{ "0f 44 f8", true },                    /* cmove %eax,%edi */
		{ "0f 94 c1", true },                    /* sete %cl */
		{ "40 0f 94 c7", true },                 /* sete %dil */
		{ "0f b6 ff", true },                    /* movzx %bh,%edi */
		{ "48 89 e0", false },                   /* mov %rsp,%rax */
		{ "48 8d 44 24 08", false },             /* lea 8(%rsp),%rax */
		{ "48 83 e4 f0", false },                /* and $-16,%rsp */
		{ "48 39 e0", false },                   /* cmp %rsp,%rax */
		{ "40 b4 01", false },                   /* mov $1,%spl */
		{ "bc 01 00 00 00", false },             /* mov $1,%esp */
		{ "8b 07", false },                      /* mov (%rdi),%eax */
		{ "48 8b 3d 00 01 00 00", true },        /* mov x(%rip),%rdi */
		{ "48 89 05 00 01 00 00", false },       /* mov %rax,x(%rip) */
		{ "89 07", false },                      /* mov %eax,(%rdi) */
		{ "83 3f 05", false },                   /* cmpl $5,(%rdi) */
		{ "0f b6 07", false },                   /* movzbl (%rdi),%eax */
		{ "64 48 8b 3c 25 28 00 00 00", true },  /* mov %fs:0x28,%rdi */
		{ "65 48 8b 04 25 28 00 00 00", false }, /* mov %gs:0x28,%rax */
		{ "64 48 8b 00", false },                /* mov %fs:(%rax),%rax */
		{ "48 89 04 24", false },                /* mov %rax,(%rsp): not its own */
		{ "11 f8", false },                      /* adc */
		{ "19 f8", false },                      /* sbb */
		{ "83 d0 01", false },                   /* adc $1,%eax */
		{ "c1 c0 02", false },                   /* rol */
		{ "f7 e7", false },                      /* mul */
		{ "0f af c7", false },                   /* imul */
		{ "87 c3", false },                      /* xchg */
		{ "0f c8", false },                      /* bswap */
		{ "8c d8", false },                      /* mov %ds,%eax */
		{ "0f 05", false },                      /* syscall */
		{ "66 0f ef c0", false },                /* pxor */
		{ "c5 f8 77", false },    /* vzeroupper: and can't be probed */
		{ "f3 90", false },       /* pause */
		{ "f3 0f 1e fb", false }, /* endbr32 */
	};
	char buf[80];

	for (size_t i = 0; i < ARRAY_SIZE(stay); i++) {
		snprintf(buf, sizeof(buf), "31 c0 %s 53 5b c3", stay[i].code);
		plan_code(PLAN_X86_64, buf);
		ok(tc.plan.site == CASE_BASE && !tc.plan.refused[0],
			"a probe does not move over %s: %s", stay[i].code, site_text());
		tc.rules.count_only = true;
		make_plan(CASE_BASE, (strlen(buf) + 1) / 3);
		ok((tc.plan.site != CASE_BASE) == stay[i].counted,
			"with --count it does%s: %s",
			stay[i].counted ? "" : " not either", site_text());
	}
}

/* The stack pointer is moved before the probe, or it is not: "+4 callq 0x1204, 8 bytes deep". */
static const char *depth_text(void)
{
	static char buf[128];

	snprintf(buf, sizeof(buf), "+%lld %s, %d bytes deep",
		(long long)(tc.plan.site - tc.plan.addr), tc.plan.insn, tc.plan.site_depth);
	return buf;
}

static void test_own_frame(void)
{
	static const struct line lines[] = {
		{ "a call in a frame", "48 83 ec 08 e8 00 02 00 00 48 83 c4 08 c3",
			"+4 callq 0x1209, 8 bytes deep" },
		{ "of many bytes", "48 81 ec 00 02 00 00 e8 00 02 00 00 48 81 c4 00 02 00 00 c3",
			"+7 callq 0x120c, 512 bytes deep" },
		{ "what is written into it",
			"48 83 ec 18 64 48 8b 04 25 28 00 00 00 48 89 44 24 08 31 c0 85 d2 78 00 48 83 c4 18 c3",
			"+22 js 0x1018, 24 bytes deep" },
		{ "its last word", "48 83 ec 18 48 89 44 24 10 eb 00 48 83 c4 18 c3",
			"+9 jmp 0x100b, 24 bytes deep" },
		{ "not behind what is written above it",
			"48 83 ec 18 48 89 44 24 18 eb 00 48 83 c4 18 c3",
			"+0 subq $0x18,%rsp, 0 bytes deep" },
		{ "nor below it", "48 83 ec 18 48 89 44 24 f8 eb 00 48 83 c4 18 c3",
			"+0 subq $0x18,%rsp, 0 bytes deep" },
		{ "nor with an index", "48 83 ec 18 48 89 04 04 eb 00 48 83 c4 18 c3",
			"+0 subq $0x18,%rsp, 0 bytes deep" },
		{ "nor where a frame is given back", "48 83 ec 08 48 83 c4 08 eb 00 c3",
			"+0 subq $8,%rsp, 0 bytes deep" },
		{ "a push needs none", "31 c0 55 5d c3", "+2 pushq %rbp, 0 bytes deep" },
	};
	static const char call[] = "48 83 ec 08 e8 00 02 00 00 48 83 c4 08 c3";

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		plan_code(PLAN_X86_64, lines[i].code);
		is_str(depth_text(), lines[i].site, lines[i].what);
	}
	plan_code(PLAN_X86_64, call);
	tc.rules.keep_args = true;
	make_plan(CASE_BASE, 14);
	is_str(depth_text(), "+0 subq $8,%rsp, 0 bytes deep",
		"not where what lies above the stack pointer is looked at");
	tc.rules.keep_args = false;
	tc.req.stack_args = true;
	make_plan(CASE_BASE, 14);
	is_str(depth_text(), "+0 subq $8,%rsp, 0 bytes deep", "nor where arguments lie there");
	tc.req.stack_args = false;
	tc.req.return_why = "vouched";
	make_plan(CASE_BASE, 14);
	is_str(depth_text(), "+0 subq $8,%rsp, 0 bytes deep",
		"nor by a return probe, which takes the address that it points to");
	plan_code(PLAN_X86_64, "48 83 ec 08 eb 00 8b 07 48 83 c4 08 c3");
	tc.rules.prove = true;
	make_plan(CASE_BASE, 13);
	is_str(depth_text(), "+0 subq $8,%rsp, 0 bytes deep", "nor by one that is proved safe");
	ok(tc.plan.exit == PLAN_EXIT_RETURN, "which it is: %s", tc.plan.exit_why);
}

static void test_landings(void)
{
	static const struct line lines[] = {
		{ "on push behind endbr64", "f3 0f 1e fa 55 5d c3",
			"+4 pushq %rbp" MOVED("1 instruction") },
		{ "on jcc behind a comparison", "31 c0 48 85 ff 74 01 c3 c3",
			"+5 je 0x1008" MOVED("2 instructions") },
		{ "on jmp", "31 c0 eb 00 c3", "+2 jmp 0x1004" MOVED("1 instruction") },
		{ "on call", "31 c0 e8 00 02 00 00 c3",
			"+2 callq 0x1207" MOVED("1 instruction") },
		{ "on a nop of 5 bytes", "31 c0 0f 1f 44 00 00 c3",
			"+2 nopl (%rax,%rax)" MOVED("1 instruction") },
		{ "not on a ret", "31 c0 c3",
			"+0 xorl %eax,%eax (stepped): entry: no later instruction is faster to probe" },
		{ "not on a jump through memory", "31 c0 ff 25 00 01 00 00",
			"+0 xorl %eax,%eax (stepped): entry: no later instruction is faster to probe" },
		{ "not on jrcxz, which is stepped", "31 c0 e3 00 c3",
			"+0 xorl %eax,%eax (stepped): entry: no later instruction is faster to probe" },
		{ "not on push $1, which is stepped", "31 c0 6a 01 5b c3",
			"+0 xorl %eax,%eax (stepped): entry: no later instruction is faster to probe" },
		{ "not on a push with an idle prefix, which is stepped",
			"31 c0 48 53 5b c3",
			"+0 xorl %eax,%eax (stepped): entry: no later instruction is faster to probe" },
		{ "not on a jcc that is an end, as it may not be taken",
			"85 ff 0f 84 00 02 00 00 c3",
			"+0 testl %edi,%edi (stepped): entry: no later instruction is faster to probe" },
		{ "not beyond the function's end", "31 c0 89 c0",
			"+0 xorl %eax,%eax (stepped): entry: no later instruction is faster to probe" },
	};

	check_lines(lines, ARRAY_SIZE(lines));
	plan_code(PLAN_X86_64, "31 c0 e8 00 02 00 00 c3");
	tc.rules.call_unsafe = true;
	make_plan(CASE_BASE, 8);
	is_str(site_text(),
		"+0 xorl %eax,%eax (stepped): entry: no later instruction is faster to probe",
		"not on a call where shadow stacks can be in use");
	plan_code(PLAN_X86_64, "31 c0 0f 1f 40 00 55 5d c3");
	tc.rules.multinop_emulated = false;
	make_plan(CASE_BASE, 9);
	is_str(site_text(), "+6 pushq %rbp" MOVED("2 instructions"),
		"over a long nop, where the kernel steps it");
	plan_code(PLAN_X86_64, "f3 0f 1e fa 0f 1f 40 00 c3");
	tc.rules.multinop_emulated = false;
	make_plan(CASE_BASE, 9);
	is_str(site_text(), "+0 endbr64 (stepped): entry: no later instruction is faster to probe",
		"a long nop that the kernel steps is no better than the entry");
	plan_code(PLAN_X86_64, "f3 0f 1e fa 55 5d c3");
	tc.rules.site_entry = true;
	make_plan(CASE_BASE, 7);
	is_str(site_text(), "+0 endbr64 (stepped): entry",
		"--site entry stays on the entry");
}

static void test_nop5(void)
{
	static const struct line lines[] = {
		{ "a 5-byte nop that must not be probed: on the push behind it",
			"0f 1f 44 00 00 55 5d c3",
			"+5 pushq %rbp: behind 1 instruction, the entry can't be probed" },
		{ "on whatever stands behind it",
			"0f 1f 44 00 00 48 83 ec 08 48 83 c4 08 c3",
			"+5 subq $8,%rsp (stepped): behind 1 instruction, the entry can't be probed" },
		{ "a fast one further on is better", "0f 1f 44 00 00 31 c0 55 5d c3",
			"+7 pushq %rbp: behind 2 instructions, the entry can't be probed" },
		{ "not on the second one of two", "f3 0f 1e fa 0f 1f 44 00 00 31 c0 c3",
			"+0 endbr64 (stepped): entry: no later instruction is faster to probe" },
		{ "none where a jump leads behind it", "0f 1f 44 00 00 55 5d 75 fc c3",
			"refused: its first instruction can't be probed: this kernel turns a probed 5-byte nop into a call" },
		{ "none at the function's end", "0f 1f 44 00 00",
			"refused: its first instruction can't be probed: this kernel turns a probed 5-byte nop into a call" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		plan_code(PLAN_X86_64, lines[i].code);
		tc.rules.nop5_unsafe = true;
		make_plan(CASE_BASE, (strlen(lines[i].code) + 1) / 3);
		is_str(site_text(), lines[i].site, lines[i].what);
	}
}

#define STAY "+0 xorl %eax,%eax (stepped): entry: "

static void test_limits(void)
{
	static const struct line lines[] = {
		{ "a branch onto the landing keeps the probe on the entry",
			"31 c0 53 5b 75 fc c3", STAY "a jump leads to an instruction after the entry" },
		{ "a branch between entry and landing, too", "31 c0 89 c0 53 5b 75 fa c3",
			STAY "a jump leads to an instruction after the entry" },
		{ "a call of the landing, too", "31 c0 53 e8 fa ff ff ff 5b c3",
			STAY "a jump leads to an instruction after the entry" },
		{ "a branch behind the landing does no harm", "31 c0 53 5b 75 fd c3",
			"+2 pushq %rbx" MOVED("1 instruction") },
		{ "with a jump table only endbr64 is passed", "31 c0 53 3e ff e0 5b c3",
			STAY "a jump with an unknown target may lead past it" },
		{ "endbr64 is passed with a jump table, too",
			"f3 0f 1e fa 53 3e ff e0 5b c3",
			"+4 pushq %rbx" MOVED("1 instruction") },
		{ "jmp *%rax is such a jump", "31 c0 53 5b ff e0 c3",
			STAY "a jump with an unknown target may lead past it" },
		{ "a tail call through memory is none", "31 c0 53 5b ff 60 08",
			"+2 pushq %rbx" MOVED("1 instruction") },
		{ "nothing is known of code that can't be disassembled",
			"31 c0 53 5b c3 06", STAY "its code can't be disassembled" },
	};

	check_lines(lines, ARRAY_SIZE(lines));
	begin(PLAN_X86_64);
	code(0x1000, "31 c0 53 5b c3");
	symbol(0x1000);
	symbol(0x1002);
	make_plan(0x1000, 5);
	is_str(site_text(), STAY "another symbol starts after the entry",
		"a symbol on the landing keeps the probe on the entry");
	begin(PLAN_X86_64);
	code(0x1000, "31 c0 53 5b c3");
	symbol(0x1000);
	symbol(0x1003);
	make_plan(0x1000, 5);
	is_str(site_text(), "+2 pushq %rbx" MOVED("1 instruction"),
		"a symbol behind the landing does no harm");
	begin(PLAN_X86_64);
	code(0x1000, "31 c0 53 5b c3");
	symbol(0x1000);
	fde(0x1002, 0x1005);
	make_plan(0x1000, 5);
	is_str(site_text(), STAY "another symbol starts after the entry",
		"so does an FDE that begins there");
}

/* Code without a symbol that jumps back to after the entry. */
static void test_limits_elsewhere(void)
{
	begin(PLAN_X86_64);
	code(0x1000, "31 c0 53 5b c3");
	code(0x2000, "90 e9 fc ef ff ff"); /* jmp 0x1002 */
	symbol(0x1000);
	fde(0x1000, 0x1005);
	fde(0x2000, 0x2006);
	tc.req.return_why = "vouched";
	make_plan(0x1000, 5);
	is_str(site_text(), STAY "other code jumps to an instruction after the entry",
		"nameless code that jumps to the landing keeps the probe on the entry");
	symbol(0x2000);
	make_plan(0x1000, 5);
	is_str(site_text(), "+2 pushq %rbx" MOVED("1 instruction"),
		"code with a name of its own is not asked");
	begin(PLAN_X86_64);
	code(0x1000, "31 c0 53 5b c3");
	/* movabs: its number reads like jmp 0x1002 */
	code(0x2000, "48 b8 e9 fb ef ff ff 00 00 00 c3");
	symbol(0x1000);
	fde(0x1000, 0x1005);
	fde(0x2000, 0x200b);
	make_plan(0x1000, 5);
	is_str(site_text(), "+2 pushq %rbx" MOVED("1 instruction"),
		"bytes that only look like a jump do no harm");
	begin(PLAN_X86_64);
	code(0x1000, "31 c0 53 5b c3");
	code(0x1020, "eb e0"); /* jmp 0x1002 */
	symbol(0x1000);
	fde(0x1000, 0x1005);
	fde(0x1020, 0x1022);
	tc.req.return_why = "vouched";
	make_plan(0x1000, 5);
	is_str(site_text(), STAY "other code jumps to an instruction after the entry",
		"a short jump of nameless code counts as well");
}

int main(void)
{
	test_fast_entries();
	test_stepping_over();
	test_not_stepping_over();
	test_own_frame();
	test_landings();
	test_nop5();
	test_limits();
	test_limits_elsewhere();
	plan_done(&tc.plan);
	return tap_done();
}
