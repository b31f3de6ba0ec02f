// SPDX-License-Identifier: BSD-2-Clause
/* Members that accessors return, and the offset of a communicator's rank. */
#include "code/cuda.h"
#include "plan_case.h"

static void check(enum plan_arch arch, const char *what, const char *hex, const char *want)
{
	struct members m = {};
	char got[128] = "";
	uint64_t end;

	begin(arch);
	end = code(CASE_BASE, hex);
	ok(!members_handed_out(&tc.img, CASE_BASE, end, &m, NULL), "%s: it is read", what);
	for (size_t i = 0; i < m.cnt; i++)
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%#x", i ? " " : "",
			m.at[i]);
	ok(!strcmp(got, want), "%s: '%s' is handed out", what, want);
	if (strcmp(got, want))
		printf("# got: '%s'\n", got);
}

static void test_x86(void)
{
	check(PLAN_X86_64, "loaded and stored", "8b 87 d0 44 10 00 89 06 31 c0 c3", "0x1044d0");
	check(PLAN_X86_64, "with something between",
		"41 8b 85 d0 44 10 00 31 db 41 89 06 c3", "0x1044d0");
	check(PLAN_X86_64, "from %r12", "41 8b 84 24 d0 44 10 00 89 06 c3", "0x1044d0");
	check(PLAN_X86_64, "to %r13", "8b 47 08 41 89 45 00 c3", "0x8");
	check(PLAN_X86_64, "not optimised",
		"48 8b 45 f8 8b 90 88 00 00 00 48 8b 45 f0 89 10 c3", "0x88");
	check(PLAN_X86_64, "two of them", "8b 47 08 89 06 8b 47 0c 89 02 c3", "0x8 0xc");
	check(PLAN_X86_64, "64 bits", "48 8b 47 08 48 89 06 c3", "");
	check(PLAN_X86_64, "changed", "8b 47 08 ff c0 89 06 c3", "");
	check(PLAN_X86_64, "over a call", "8b 47 08 e8 00 00 00 00 89 06 c3", "");
	check(PLAN_X86_64, "into a member", "8b 47 08 89 46 04 c3", "");
	check(PLAN_X86_64, "with an index", "8b 44 b7 08 89 06 c3", "");
	check(PLAN_X86_64, "cut short", "8b 47 08 89", "");
}

static void test_arm64(void)
{
	/* mov x2, #0x44d0; movk x2, #0x10, lsl 16; ldr w0, [x0, x2]; str w0, [x1] */
	check(PLAN_ARM64, "by a number in a register",
		"02 9a 88 d2 02 02 a0 f2 00 68 62 b8 20 00 00 b9 c0 03 5f d6", "0x1044d0");
	/* add x0, x0, #0x104, lsl 12; ldr w0, [x0, #0x4d0]; str w0, [x1] */
	check(PLAN_ARM64, "by a moved pointer",
		"00 10 44 91 00 d0 44 b9 20 00 00 b9 c0 03 5f d6", "0x1044d0");
	/* ldr w0, [x0, #0x88]; str w0, [x1] */
	check(PLAN_ARM64, "by a small one", "00 88 40 b9 20 00 00 b9 c0 03 5f d6", "0x88");
	/* ldr w0, [x0, #0x88]; bl; str w0, [x1] */
	check(PLAN_ARM64, "over a call", "00 88 40 b9 00 00 00 94 20 00 00 b9", "");
	/* ldr w0, [x0, #0x88]; add w0, w0, #1; str w0, [x1] */
	check(PLAN_ARM64, "changed", "00 88 40 b9 00 04 00 11 20 00 00 b9", "");
}

int main(void)
{
	test_x86();
	test_arm64();
	plan_done(&tc.plan);
	return tap_done();
}
