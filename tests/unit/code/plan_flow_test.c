// SPDX-License-Identifier: BSD-2-Clause
/*
 * State of the stack pointer. A jump out of a function is a tail call if no frame is set
 * up or the state is unknown; it is not one if a frame certainly is.
 */
#include "plan_case.h"

static const char ended[] = "an end", frame_up[] = "frame up", popped[] = "popped";

/* How a jump out of the function after code @hex is classified. */
static const char *leave(enum plan_arch arch, const char *hex)
{
	char buf[256];
	const struct plan *plan;

	snprintf(buf, sizeof(buf), "%s %s", hex,
		arch == PLAN_ARM64 ? "14000400" : "e9 00 10 00 00");
	plan = plan_code(arch, buf);
	if (plan->exit == PLAN_EXIT_RET)
		return ended;
	if (strstr(plan->exit_why, "before its stack frame is removed"))
		return frame_up;
	return strstr(plan->exit_why, "removes from the stack") ? popped : plan->exit_why;
}

struct line {
	const char *what, *code;
};

/* Each moves the stack pointer and puts it back, and that is known. */
static void test_balanced(void)
{
	static const struct line lines[] = {
		{ "push and pop", "55 5d" },
		{ "push and pop of new registers", "41 54 41 5c" },
		{ "push and pop %r12, which is no stack pointer", "41 54 41 5c" },
		{ "push and pop %rdi, the last of them", "57 5f" },
		{ "push $1", "6a 01 58" },
		{ "push $0x100", "68 00 01 00 00 58" },
		{ "push (%rdi)", "ff 37 5b" },
		{ "pop (%rdi)", "53 8f 07" },
		{ "pushf and popf", "50 9c 9d 58" },
		{ "sub and add of a byte", "48 83 ec 18 48 83 c4 18" },
		{ "add and sub of a byte", "48 83 c4 80 48 83 ec 80" },
		{ "sub and add of 4 bytes", "48 81 ec 00 01 00 00 48 81 c4 00 01 00 00" },
		{ "lea of a byte", "48 8d 64 24 f8 48 8d 64 24 08" },
		{ "lea of 4 bytes", "48 8d a4 24 00 ff ff ff 48 8d a4 24 00 01 00 00" },
		{ "leave", "55 48 89 e5 53 c9" },
		{ "leave, with the other mov", "55 48 8b ec 53 c9" },
		{ "mov %rbp,%rsp", "55 48 89 e5 53 53 48 89 ec 5d" },
		{ "the other mov %rbp,%rsp", "55 48 89 e5 53 53 48 8b e5 5d" },
		{ "lea -8(%rbp),%rsp", "55 48 89 e5 53 50 50 48 8d 65 f8 5b 5d" },
		{ "lea -0x100(%rbp),%rsp",
			"55 48 89 e5 48 8d a5 00 ff ff ff 48 81 c4 00 01 00 00 5d" },
		{ "lea 16(%rsp),%rbp", "55 48 8d 6c 24 10 53 48 8d 65 f0 5d" },
		{ "leave behind an aligned stack", "55 48 89 e5 48 83 e4 f0 53 c9" },
		{ "leave behind alloca", "55 48 89 e5 48 29 c4 53 c9" },
		{ "two ways of the same depth", "53 74 01 90 5b" },
		{ "cmp of the stack pointer leaves it",
			"48 83 fc 08 48 39 c4 48 81 fc 00 01 00 00" },
		{ "a store through it leaves it",
			"48 89 04 24 48 89 44 24 08 c7 04 24 00 00 00 00" },
		{ "a mov to %r12 leaves it",
			"49 89 c4 4c 8b e0 4d 8d 64 24 08 49 83 c4 08" },
		{ "an add to a register leaves it", "48 83 c0 08 48 01 c0" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		char buf[256];

		is_str(leave(PLAN_X86_64, lines[i].code), ended, lines[i].what);
		snprintf(buf, sizeof(buf), "%s 53", lines[i].code);
		is_str(leave(PLAN_X86_64, buf), frame_up, "and that is known");
	}
}

/* Each leaves the stack pointer unknown. */
static void test_lost(void)
{
	static const struct line lines[] = {
		{ "mov %rax,%rsp", "48 89 c4" },
		{ "mov %rax,%rsp the other way", "48 8b e0" },
		{ "mov (%rdi),%rsp", "48 8b 27" },
		{ "mov %eax,%esp", "89 c4" },
		{ "lea -8(%r10),%rsp", "49 8d 62 f8" },
		{ "lea (%rsp,%rax,8),%rsp", "48 8d 24 c4" },
		{ "and $-16,%rsp", "48 83 e4 f0" },
		{ "sub %rax,%rsp", "48 29 c4" },
		{ "add (%rdi),%rsp", "48 03 27" },
		{ "xchg %rax,%rsp", "48 87 c4" },
		{ "xchg %rax,%rsp in two bytes", "48 94" },
		{ "xchg %rsp,(%rdi)", "48 87 27" },
		{ "pop %rsp", "53 5c" },
		{ "mov $0,%rsp", "48 c7 c4 00 00 00 00" },
		{ "mov $0,%esp", "bc 00 00 00 00" },
		{ "enter", "c8 10 00 00" },
		{ "push %ax", "66 50" },
		{ "add $8,%esp", "83 c4 08" },
		{ "two ways of different depth", "74 01 53" },
		{ "frame pointers of two ways",
			"55 74 05 48 89 e5 eb 07 50 48 89 e5 90 90 90 c9" },
	};
	/* It may be the caller's frame that is left. */
	static const struct line callers[] = {
		{ "leave without a frame pointer", "c9" },
		{ "lea 8(%rbp),%rsp without a frame pointer", "48 8d 65 08" },
		{ "leave, when the frame pointer was not set from it", "55 48 89 e0 c9" },
		{ "nor the other way", "55 48 8b c4 c9" },
		{ "nor from another register", "55 48 89 c5 c9" },
		{ "nor by half", "55 89 e5 c9" },
		{ "nor in memory", "55 48 89 65 00 c9" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		char buf[256];

		snprintf(buf, sizeof(buf), "%s 53", lines[i].code);
		is_str(leave(PLAN_X86_64, buf), ended, lines[i].what);
	}
	for (size_t i = 0; i < ARRAY_SIZE(callers); i++)
		is_str(leave(PLAN_X86_64, callers[i].code), popped, callers[i].what);
	is_str(leave(PLAN_X86_64, "58"), popped, "pop of the return address");
	is_str(leave(PLAN_X86_64, "48 83 c4 08"), popped, "add over the return address");
}

static void test_arm64(void)
{
	static const struct line balanced[] = {
		{ "stp and ldp", "a9bf7bfd a8c17bfd" },
		{ "stp of 32 bits", "29bf03e0 28c103e0" },
		{ "stp of vectors", "adbf03e0 acc103e0" },
		{ "stp d8, d9", "6dbf27e8 6cc127e8" },
		{ "str and ldr", "f81f0ffe f84107fe" },
		{ "str q0", "3c9f0fe0 3cc107e0" },
		{ "sub and add", "d10083ff 910083ff" },
		{ "sub and add of pages", "d14007ff 914007ff" },
		{ "add sp, x29, #0", "a9bf7bfd 910003fd d10043ff 910003bf a8c17bfd" },
		{ "sub sp, x29, #16",
			"a9bf7bfd 910003fd d10083ff d10043bf 910043ff a8c17bfd" },
		{ "stores below it leave it", "f81f83e0 a90103e0 f90003e0" },
	};
	static const struct line lost[] = {
		{ "sub sp, sp, x0", "cb2063ff" },
		{ "and sp, x0, #-16", "927cec1f" },
		{ "add sp, x0, #0", "9100001f" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(balanced); i++) {
		char buf[256];

		is_str(leave(PLAN_ARM64, balanced[i].code), ended, balanced[i].what);
		snprintf(buf, sizeof(buf), "%s d10043ff", balanced[i].code);
		is_str(leave(PLAN_ARM64, buf), frame_up, "and that is known");
	}
	for (size_t i = 0; i < ARRAY_SIZE(lost); i++) {
		char buf[256];

		snprintf(buf, sizeof(buf), "%s d10043ff", lost[i].code);
		is_str(leave(PLAN_ARM64, buf), ended, lost[i].what);
	}
	is_str(leave(PLAN_ARM64, "910043ff"), popped, "add sp, sp, #16");
	is_str(leave(PLAN_ARM64, "910003bf"), popped, "add sp, x29, #0 without a frame pointer");
}

/* Through the table at 0x2000 or 0x2100, which has one entry or two. */
#define TABLE1  "83 e0 00 ff 24 c5 00 20 00 00 "
#define TABLE2  "83 e0 01 ff 24 c5 00 20 00 00 "
#define SECOND2 "83 e0 01 ff 24 c5 00 21 00 00 "

static void write_entry(uint64_t at, uint64_t offset)
{
	uint64_t target = offset ? CASE_BASE + offset : 0;

	memcpy(tc.bytes + (at - CASE_BASE), &target, 8);
}

/* Code that is not reachable from the entry. */
static void test_tables(void)
{
	static const struct {
		const char *what, *code;
		uint16_t first[2], second[2]; /* offsets in the tables */
		const char *plan;
	} lines[] = {
		{ "the targets of a jump table find its frame: no computed goto is an end",
			"53 " TABLE2 "31 c0 ff e0 5b c3", { 11, 15 }, { 0 },
			"site+0 ret ret:+16" },
		{ "a table without a frame: jmp *%rax may be a tail call",
			TABLE2 "31 c0 ff e0 c3", { 10, 14 }, { 0 },
			"site+0 ret reg0:+12 ret:+14" },
		{ "two tables of different depth: nothing is known",
			"53 " TABLE1 "5b " SECOND2 "53 ff e0 c3", { 11 }, { 22, 25 },
			"site+0 ret reg0:+23 ret:+25" },
		{ "a call that never returns does not spoil a table's next target",
			TABLE2 "48 83 ec 08 e8 00 02 00 00 ff 25 00 10 00 00", { 10, 19 },
			{ 0 }, "site+0 ret jmp:+19" },
		{ "code behind a call keeps its depth otherwise",
			"53 e8 00 02 00 00 74 04 31 c0 ff e0 5b c3", { 0 }, { 0 },
			"site+0 ret ret:+13" },
		{ "code that is reached surely does not mind a call in front of it",
			"53 74 07 50 50 e8 00 02 00 00 5b 53 74 02 ff e0 5b c3", { 0 },
			{ 0 }, "site+0 ret ret:+17" },
		{ "padding in front of it does no harm either",
			"53 74 04 5b c3 66 90 74 02 ff e0 5b c3", { 0 }, { 0 },
			"site+0 ret ret:+4 ret:+12" },
		{ "a subroutine within the function has a frame of its own",
			"53 e8 02 00 00 00 5b c3 74 02 ff e0 5b c3", { 0 }, { 0 },
			"site+0 ret ret:+7 ret:+13" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		size_t size = (strlen(lines[i].code) + 1) / 3;

		plan_code(PLAN_X86_64, lines[i].code);
		for (size_t k = 0; k < 2; k++) {
			write_entry(0x2000 + 8 * k, lines[i].first[k]);
			write_entry(0x2100 + 8 * k, lines[i].second[k]);
		}
		is_str(plan_text(make_plan(CASE_BASE, size)), lines[i].plan,
			lines[i].what);
	}
}

int main(void)
{
	test_balanced();
	test_lost();
	test_arm64();
	test_tables();
	plan_done(&tc.plan);
	return tap_done();
}
