// SPDX-License-Identifier: BSD-2-Clause
/* Where a function begins and ends, and which code without a name is a part of it. */
#include "plan_case.h"

static const char *ranges_text(void)
{
	static char buf[256];
	size_t n = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < tc.plan.range_cnt && n < sizeof(buf); i++)
		n += snprintf(buf + n, sizeof(buf) - n, "%s%llx-%llx", i ? " " : "",
			(unsigned long long)tc.plan.ranges[i].start,
			(unsigned long long)tc.plan.ranges[i].end);
	return buf;
}

/* A function at 0x1000 that jumps to 0x2000, where code without a name lies. */
static void begin_cold(const char *hot, const char *cold)
{
	uint64_t hot_end, cold_end;

	begin(PLAN_X86_64);
	hot_end = code(0x1000, hot);
	cold_end = code(0x2000, cold);
	symbol(0x1000);
	fde(0x1000, hot_end);
	fde(0x2000, cold_end);
}

static void plan_cold(const char *hot, const char *cold)
{
	begin_cold(hot, cold);
	make_plan(0x1000, tc.fdes[0].end - 0x1000);
}

static void is_plan(const char *plan, const char *ranges, const char *what)
{
	is_str(plan_text(&tc.plan), plan, what);
	is_str(ranges_text(), ranges, "and the ranges");
}

static void test_cold_parts(void)
{
	plan_cold("53 85 ff 0f 84 f7 0f 00 00 5b c3", "5b c3");
	is_plan("site+0 ret ret:+10 ret:+4097", "1000-100b 2000-2002",
		"a jump in mid-frame to nameless code enters a cold part");
	plan_cold("85 ff 0f 84 f8 0f 00 00 c3", "31 c0 e9 01 f0 ff ff");
	is_plan("site+2 ret ret:+8", "1000-1009 2000-2007",
		"code that jumps back into the function is its cold part");
	plan_cold("85 ff 0f 84 f8 0f 00 00 c3", "31 c0 c3");
	is_plan("site+2 ret ret:+8 ret:+4098", "1000-1009 2000-2003",
		"code that only this function enters is its cold part");
	plan_cold("55 5d c3", "5d 90 e9 fa ef ff ff");
	is_plan("site+0 ret ret:+2", "1000-1003 2000-2007",
		"so is a landing pad that only the unwinder enters");
	plan_cold("55 5d c3", "85 c0 75 02 5d c3 e9 f6 ef ff ff");
	is_plan("site+0 ret ret:+2 ret:+4101", "1000-1003 2000-200b",
		"its own ends are the function's");
	plan_cold("53 0f 84 fb 0f 00 00 5b c3", "90 90 5b c3");
	is_plan("site+0 ret ret:+8 ret:+4099", "1000-1009 2000-2004",
		"a cold part may be entered behind its start");
	plan_cold("53 0f 84 f9 0f 00 00 5b c3", "5b 06");
	is_plan("site+0 none (at 0x2001: an instruction that is not known)",
		"1000-1009 2000-2002", "a cold part that can't be disassembled");
	plan_cold("53 0f 84 f9 0f 00 00 5b c3", "5b 31 c0");
	is_plan("site+0 none (at 0x2003: its code continues after its end)",
		"1000-1009 2000-2003", "a cold part that runs over its end");
}

static void test_tail_calls(void)
{
	begin_cold("55 90 5d c3", "31 c0 e9 fa ef ff ff"); /* jmp 0x1001 */
	symbol(0x1001);
	make_plan(0x1000, 4);
	is_plan("site+0 ret ret:+3", "1000-1004",
		"code that jumps to a name within the function is another's");
	begin_cold("85 ff 0f 84 f8 0f 00 00 c3", "31 c0 c3");
	symbol(0x2000);
	make_plan(0x1000, 9);
	is_plan("site+0 ret jcc4:+2 ret:+8", "1000-1009",
		"code with a name of its own is tail-called");
	begin_cold("85 ff 0f 84 f8 0f 00 00 c3", "31 c0 c3");
	code(0x1800, "e9 fb 07 00 00"); /* jmp 0x2000 */
	symbol(0x1800);
	make_plan(0x1000, 9);
	is_plan("site+0 ret jcc4:+2 ret:+8", "1000-1009",
		"code that others enter as well is tail-called");
	begin_cold("53 0f 84 f9 0f 00 00 5b c3", "31 c0 c3");
	code(0x1800, "e8 fb 07 00 00"); /* call 0x2000 */
	make_plan(0x1000, 9);
	is_str(ranges_text(), "1000-1009", "code that is called is no cold part");
	begin_cold("85 ff 0f 84 f8 0f 00 00 c3", "31 c0 c3");
	code(0x1800, "48 8d 05 f9 07 00 00"); /* lea 0x2000(%rip),%rax */
	make_plan(0x1000, 9);
	is_plan("site+0 ret jcc4:+2 ret:+8", "1000-1009",
		"code whose address is taken is no cold part");
	plan_cold("53 5b e9 f9 0f 00 00", "ff 25 00 10 00 00 66 90");
	is_plan("site+0 ret jmp:+2", "1000-1007",
		"a stub of the linkage table is tail-called, by whom ever");
	plan_cold("53 5b e9 01 10 00 00",
		"ff 25 00 10 00 00 66 90 ff 25 00 10 00 00 66 90");
	is_plan("site+0 ret jmp:+2", "1000-1007",
		"so is the second stub in their one FDE");
	begin(PLAN_X86_64);
	code(0x1000, "53 5b e9 f9 0f 00 00");
	symbol(0x1000);
	fde(0x1000, 0x1007);
	make_plan(0x1000, 7);
	is_plan("site+0 ret jmp:+2", "1000-1007", "code without an FDE is tail-called");
	plan_cold("53 5b e9 f9 0f 00 00", "f3 0f 1e fa f2 ff 25 00 10 00 00");
	is_plan("site+0 ret jmp:+2", "1000-1007", "a stub behind endbr64 is one, too");
	begin_cold("85 ff 0f 84 f8 0f 00 00 c3", "31 c0 c3");
	code(0x1800, "74 00 0f 84 f8 07 00 00"); /* je 0x2000 */
	make_plan(0x1000, 9);
	is_plan("site+0 ret jcc4:+2 ret:+8", "1000-1009",
		"code that unknown code enters as well is tail-called");
	begin_cold("85 ff 0f 84 f8 0f 00 00 c3", "31 c0 74 fe e8 f7 ff ff ff c3");
	make_plan(0x1000, 9);
	is_plan("site+2 ret ret:+8 ret:+4105", "1000-1009 2000-200a",
		"that it calls itself does not count");
}

/* Two functions may share one cold part, when a linker folds what is alike. */
static void test_shared(void)
{
	begin_cold("53 0f 84 f9 0f 00 00 5b c3", "5b c3");
	code(0x1800, "0f 84 fa 07 00 00"); /* je 0x2000 */
	symbol(0x1800);
	make_plan(0x1000, 9);
	is_plan("site+0 ret ret:+8 ret:+4097", "1000-1009 2000-2002",
		"a jump in mid-frame enters a cold part, whoever enters it as well");
}

/* One cold part leads to the next. */
static void test_chain(void)
{
	begin_cold("53 0f 84 f9 0f 00 00 5b c3", "0f 84 fa 0f 00 00 5b c3");
	code(0x3000, "90 5b c3");
	fde(0x3000, 0x3003);
	make_plan(0x1000, 9);
	is_plan("site+0 ret ret:+8 ret:+4103 ret:+8194", "1000-1009 2000-2008 3000-3003",
		"a cold part of a cold part belongs to the function");
}

static void test_bounds(void)
{
	begin(PLAN_X86_64);
	code(0x1000, "55 5d c3 90 55 5d c3");
	symbol(0x1000);
	fde(0x1000, 0x1003);
	make_plan(0x1000, 0);
	is_plan("site+0 ret ret:+2", "1000-1003",
		"a symbol without size ends with its FDE");
	begin(PLAN_X86_64);
	code(0x1000, "55 5d c3 90 55 5d c3");
	symbol(0x1000);
	symbol(0x1004);
	make_plan(0x1000, 0);
	is_plan("site+0 ret ret:+2", "1000-1004", "or with the next symbol");
	begin(PLAN_X86_64);
	code(0x1000, "55 5d c3 90 55 5d c3");
	symbol(0x1000);
	make_plan(0x1000, 0);
	is_str(plan_text(&tc.plan), "site+0 ret ret:+2",
		"or else what is reached is taken, and no more");
	code(0x1000, "55 5d ff e0");
	make_plan(0x1000, 0);
	is_str(plan_text(&tc.plan),
		"site+0 none (at 0x1002: its size is not known, and a jump may stay inside or leave)",
		"unless a jump may lead on");
	begin(PLAN_X86_64);
	code(0x1000, "55 74 02 5d c3 5d c3");
	symbol(0x1000);
	fde(0x1000, 0x1007);
	make_plan(0x1000, 5);
	is_plan("site+0 ret ret:+4 ret:+6", "1000-1007",
		"an FDE that reaches further is believed");
	symbol(0x1005);
	make_plan(0x1000, 5);
	is_str(ranges_text(), "1000-1005", "but not when a symbol begins there");
	begin(PLAN_X86_64);
	make_plan(0x9000, 8);
	is_str(tc.plan.refused, "not in the file's executable code",
		"an address outside");
	begin(PLAN_X86_64);
	code(0x4ffe, "90 c3");
	symbol(0x4ffe);
	make_plan(0x4ffe, 100);
	is_plan("site+0 ret ret:+1", "4ffe-5000", "a size beyond the code is cut");
}

static void test_offsets_within(void)
{
	begin(PLAN_X86_64);
	code(0x1000, "55 b8 01 00 00 00 5d c3");
	symbol(0x1000);
	make_plan(0x1001, 0);
	is_str(plan_text(&tc.plan), "site+0 none (not the start of a function)",
		"an offset within a function is counted there");
	make_plan(0x1003, 0);
	is_str(plan_text(&tc.plan), "refused: in the middle of an instruction",
		"but not in the middle of an instruction");
	code(0x1000, "06 b8 01 00 00 00 5d c3");
	make_plan(0x1001, 0);
	is_str(plan_text(&tc.plan), "refused: the code before it can't be disassembled",
		"nor where nothing tells");
	begin(PLAN_X86_64);
	code(0x1000, "55 b8 01 00 00 00 5d c3");
	make_plan(0x1001, 0);
	is_str(plan_text(&tc.plan),
		"refused: no symbol and no unwind table says where its instructions start",
		"nor in a file without symbols and FDEs");
	symbol(0x1003);
	fde(0x1000, 0x1008);
	make_plan(0x1003, 0);
	is_str(plan_text(&tc.plan), "refused: in the middle of an instruction",
		"not even a symbol makes a probe in mid-instruction right");
}

static void test_names(void)
{
	static const struct {
		const char *name;
		bool cold;
	} cases[] = {
		{ "main.cold", true },
		{ "main.cold.12", true },
		{ "_ZN3fooEv.cold.1.2", true },
		{ "f.__part.3", true },
		{ "f.part.0.cold", true },
		{ "main", false },
		{ "f.part.0", false },
		{ "f.isra.0", false },
		{ "f.cold_start", false },
		{ "f.cold.", false },
		{ "f.coldest.cold", true },
		{ "cold", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		ok(plan_name_is_cold(cases[i].name) == cases[i].cold,
			"%s is %sa cold part", cases[i].name,
			cases[i].cold ? "" : "not ");
}

/* A cold part before its function, as linkers place them. */
static void test_order(void)
{
	begin(PLAN_X86_64);
	code(0x1000, "5b c3");
	code(0x2000, "53 0f 84 f9 ef ff ff 5b c3"); /* je 0x1000 */
	symbol(0x2000);
	fde(0x1000, 0x1002);
	fde(0x2000, 0x2009);
	make_plan(0x2000, 9);
	is_plan("site+0 ret ret:-4095 ret:+8", "2000-2009 1000-1002",
		"ends come in the order of addresses, the function's own range first");
}

/* The nameless code at @off jumps back to 0x1001, in a file of @size bytes of code. */
static size_t ranges_of_big(uint8_t *bytes, size_t size, uint64_t off, uint64_t neighbour)
{
	int32_t rel = 0x1001 - (int32_t)(off + 5);

	begin(PLAN_X86_64);
	tc.text = (struct plan_text) { 0, bytes, size };
	memcpy(bytes + 0x1000, "\x55\x5d\xc3", 3);
	bytes[off] = 0xe9;
	memcpy(bytes + off + 1, &rel, 4);
	symbol(0x1000);
	fde(0x1000, 0x1003);
	fde(off, off + 5);
	fde(neighbour, neighbour + 8);
	return make_plan(0x1000, 3)->range_cnt;
}

/* A file so large that only sections named like .text.unlikely are searched for jumps. */
static void test_big_files(void)
{
	size_t size = 65 << 20;
	_cleanup_free_ uint8_t *bytes = calloc(1, size);

	is_int(ranges_of_big(bytes, size, 0x20001, 0x20010), 2,
		"in a big file, cold parts that are not aligned are found");
	is_int(ranges_of_big(bytes, size, 0x20010, 0x20021), 2,
		"and those with a neighbour that is not");
	is_int(ranges_of_big(bytes, size, 0x20010, 0x20020), 1,
		"what looks like any function is not searched");
	is_int(ranges_of_big(bytes, size - (2 << 20), 0x20010, 0x20020), 2,
		"in a smaller file it is");
	begin(PLAN_X86_64);
	tc.text = (struct plan_text) { 0, bytes, size };
	memcpy(bytes + 0x1000, "\x85\xff\x0f\x84\xf8\x0f\x00\x00\xc3", 9);
	memcpy(bytes + 0x2000, "\x31\xc0\xc3", 3);
	symbol(0x1000);
	fde(0x1000, 0x1009);
	fde(0x2000, 0x2003);
	make_plan(0x1000, 9);
	is_plan("site+0 ret jcc4:+2 ret:+8", "1000-1009",
		"who else enters nameless code is not known there: it is tail-called");
}

/* More code than is ever decoded; the text must be larger for that. */
static void test_too_big(void)
{
	size_t size = 600 * 1024;
	_cleanup_free_ uint8_t *bytes = malloc(size);

	memset(bytes, 0x90, size);
	begin(PLAN_X86_64);
	tc.text = (struct plan_text) { 0x10000, bytes, size };
	symbol(0x10000);
	make_plan(0x10000, size);
	is_str(plan_text(&tc.plan), "site+0 none (more than 512 kB of code)",
		"a giant is only counted");
}

int main(void)
{
	case_exit = PLAN_MODE_RET;
	test_cold_parts();
	test_tail_calls();
	test_shared();
	test_chain();
	test_bounds();
	test_offsets_within();
	test_names();
	test_order();
	test_big_files();
	test_too_big();
	plan_done(&tc.plan);
	return tap_done();
}
