// SPDX-License-Identifier: BSD-2-Clause
// Texts of Python's code, as processes may have them; files with more of the interpreter than there is.
#include "unwind/python.h"

#include <stdlib.h>
#include <string.h>

#include "scratch.h"
#include "tap.h"

static void is(const void *chars, size_t len, unsigned int kind, const char *wanted, const char *what)
{
	char *text = python_text(chars, len, kind);

	ok(text && !strcmp(text, wanted), "%s", what);
	free(text);
}

static void is_cut(const void *bytes, size_t room, size_t len, unsigned int kind, bool is_end,
	const char *wanted, const char *what)
{
	char *text = python_text_cut(bytes, room, len, kind, is_end);

	is_str(text, wanted, what);
	free(text);
}

#define ROWS 400000

/* 20,000 functions named like parts of the interpreter, followed by rows. */
static const char parts[] = ".altmacro\n.macro part n\n.globl " PYTHON_EVAL ".\\n\n"
			    ".type " PYTHON_EVAL ".\\n, %function\n" PYTHON_EVAL ".\\n: ret\n"
			    ".size " PYTHON_EVAL ".\\n, . - " PYTHON_EVAL ".\\n\n.endm\n"
			    ".set i, 0\n.rept 20000\npart %i\n.set i, i + 1\n.endr\n"
			    ".globl main\nmain: ret\n";

static void check_parts(void)
{
	struct unwind_rows rows = { .rows = calloc(1 << 19, sizeof(*rows.rows)), .cnt = ROWS };
	struct elf_file *elf = NULL;
	int code;

	scratch_file("parts.s", parts, strlen(parts));
	scratch_run("cc -shared -Wl,-znoexecstack parts.s -o parts");
	code = elf_file_open(scratch("parts"), &elf, NULL);
	for (unsigned int i = 0; rows.rows && i < ROWS; i++)
		rows.rows[i].offset = (1U << 26) + i;
	if (!code && rows.rows)
		python_rows_mark(elf, &rows);
	ok(!code && rows.cnt > ROWS && rows.cnt < ROWS + 1000,
		"of 20,000 parts of the interpreter's function no more are marked than it may have");
	unwind_rows_done(&rows);
	elf_file_free(elf);
}

#if defined(__x86_64__)
/* The interpreter's function, then its cold part and that of another function. */
static const char cold[] =
	".globl " PYTHON_EVAL "\n.type " PYTHON_EVAL ", %function\n" PYTHON_EVAL ": .cfi_startproc\n"
	"sub $0x100,%rsp\n.cfi_adjust_cfa_offset 0x100\n.byte 0x0f, 0x82\n.long 1f - . - 4\n"
	".skip 64,0x90\n.cfi_endproc\n"
	".size " PYTHON_EVAL ", . - " PYTHON_EVAL "\n"
	".cfi_startproc\n.cfi_def_cfa_offset 0x108\n.skip 32,0x90\n1: nop\n.cfi_endproc\n"
	".cfi_startproc\n.cfi_def_cfa_offset 0x108\n.skip 16,0x90\n.cfi_endproc\n";

static void check_cold(void)
{
	_cleanup_unwind_rows_ struct unwind_rows rows = {};
	struct elf_file *elf = NULL;
	uint64_t bytes = 0;
	int code;

	scratch_file("cold.s", cold, strlen(cold));
	scratch_run("cc -shared -nostdlib -Wl,-znoexecstack cold.s -o cold && strip cold");
	code = elf_file_open(scratch("cold"), &elf, NULL);
	if (!code)
		code = unwind_rows_read(elf, &rows, NULL);
	if (!code)
		python_rows_mark(elf, &rows);
	for (size_t i = 0; i + 1 < rows.cnt; i++)
		if (rows.rows[i].how & FSN_UNWIND_PYTHON)
			bytes += rows.rows[i + 1].offset - rows.rows[i].offset;
	/* two instructions have 7 and 6 bytes, and the row before the first has another frame */
	ok(!code && bytes == 7 + 6 + 64 + 33, "in a stripped file, the function's cold part is marked");
	elf_file_free(elf);
}
#else
static void check_cold(void) { }
#endif

/* Of 3.8: two lines after 6 bytes, then 300 after 200, and 10 back after 4. */
static const uint8_t lines[] = { 6, 2, 200, 127, 0, 127, 0, 46, 4, (uint8_t)-10 };

static void check_lines(void)
{
	static const struct {
		uint64_t at;
		unsigned int line;
	} wanted[] = { { UINT64_MAX, 5 }, { 0, 5 }, { 4, 5 }, { 6, 7 }, { 204, 7 }, { 206, 307 },
		{ 208, 307 }, { 210, 297 }, { 4000, 297 } };
	size_t right = 0, cnt = sizeof(wanted) / sizeof(*wanted);

	for (size_t i = 0; i < cnt; i++)
		right += python_line(9, lines, sizeof(lines), 5, wanted[i].at) == wanted[i].line;
	ok(right == cnt, "lines of 3.8 and 3.9 are Python's");
	ok(!python_line(8, (const uint8_t *)"\x02\x9c", 2, 5, 4) && python_line(8, NULL, 0, 5, 4) == 5,
		"no line is negative, and without a table it is the first");
}

int main(void)
{
	scratch_begin();
	static const uint16_t two[] = { 'a', 0x20ac, 0 };
	static const uint32_t four[] = { 0x1f600, 0x10ffff, 0x110000, 0xffffffff };

	is("caf\xe9", 4, 1, "caf\xc3\xa9", "Latin-1 is UTF-8");
	is("\0ab\0", 4, 1, "\xef\xbf\xbd" "ab\xef\xbf\xbd", "a zero ends no text");
	is(two, 3, 2, "a\xe2\x82\xac\xef\xbf\xbd", "nor one of two bytes");
	is(four, 4, 4, "\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf\xef\xbf\xbd\xef\xbf\xbd",
		"what is beyond Unicode is no character");
	is("", 0, 1, "", "no characters are an empty text");
	is_cut("abcdef", 8, 6, 1, false, "abcdef", "a text that fits is whole");
	is_cut("abcd", 4, 6, 1, false, "abcd...", "three dots mark the first part of a longer text");
	is_cut("cdef", 4, 6, 1, true, "...cdef", "and the last part");
	is_cut(two, 5, 3, 2, false, "a\xe2\x82\xac...", "a character is not divided");
	is_cut("abcd", 4, 4, 3, false, NULL, "no characters have three bytes");
	check_parts();
	check_cold();
	check_lines();
	return tap_done();
}
