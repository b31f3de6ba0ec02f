// SPDX-License-Identifier: BSD-2-Clause
// Frames of Python: read from the memory of a process whose thread sleeps.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "proc/proc.h"
#include "unwind/python.h"

/*
 * Locations of frames in a CPython interpreter, from its file. Before 3.13 they follow from the
 * version (offsetof() in its own headers, which are equal on 64-bit machines). Since 3.13 the
 * interpreter exports them (_Py_DebugOffsets). Also decodes texts and line tables of code objects.
 */

/* --- where things are ---------------------------------------------------------------------------- */

/*
 * .owner of the frame without code that is the first of an interpreter call. Since 3.14 it is
 * FRAME_OWNED_BY_INTERPRETER, which has the same number.
 */
#define OWNED_BY_CSTACK 3

static const struct fsn_python python_3_10 = { .interpreters = 32,
	.threads = 8,
	.next_thread = 8,
	.thread = 176,
	.frame = 24,
	.in_cframe = -1,
	.cframe = 48,
	.outer_cframe = 8,
	.root_cframe = 264,
	.code = 32,
	.previous = 24,
	.at = 96,
	.file = 104,
	.name = 112,
	.lines = 120,
	.first_line = 40,
	.type = 8,
	.ascii = 48,
	.compact = 72 };
/* The same is true of 3.9. */
static const struct fsn_python python_3_8 = { .interpreters = 32,
	.threads = 8,
	.next_thread = 8,
	.thread = 176,
	.frame = 24,
	.in_cframe = -1,
	.how = FSN_PYTHON_COUNT,
	.code = 32,
	.previous = 24,
	.at = 104,
	.file = 104,
	.name = 112,
	.lines = 120,
	.first_line = 40,
	.type = 8,
	.ascii = 48,
	.compact = 72 };
static const struct fsn_python python_3_11 = { .interpreters = 40,
	.threads = 16,
	.next_thread = 8,
	.thread = 152,
	.number = 160,
	.frame = 56,
	.in_cframe = 8,
	.cframe = 56,
	.outer_cframe = 16,
	.how = FSN_PYTHON_ENTRY,
	.code = 32,
	.previous = 48,
	.at = 56,
	.owner = 68,
	.file = 112,
	.name = 128,
	.lines = 136,
	.first_line = 72,
	.instructions = 184,
	.type = 8,
	.ascii = 48,
	.compact = 72 };
static const struct fsn_python python_3_12 = { .interpreters = 40,
	.threads = 72,
	.next_thread = 8,
	.thread = 136,
	.number = 144,
	.frame = 56,
	.in_cframe = 0,
	.how = FSN_PYTHON_SHIM,
	.shim = OWNED_BY_CSTACK,
	.code = 0,
	.previous = 8,
	.at = 56,
	.owner = 70,
	.file = 112,
	.name = 128,
	.lines = 136,
	.first_line = 68,
	.instructions = 192,
	.type = 8,
	.ascii = 40,
	.compact = 56 };

/* Used members of _Py_DebugOffsets, after its cookie, version and free-threading flag. */
enum {
	OFFSET_INTERPRETERS,
	OFFSET_NEXT_INTERPRETER,
	OFFSET_THREADS,
	OFFSET_NEXT_THREAD,
	OFFSET_FRAME,
	OFFSET_THREAD,
	OFFSET_NUMBER,
	OFFSET_PREVIOUS,
	OFFSET_CODE,
	OFFSET_AT,
	OFFSET_OWNER,
	OFFSET_FILE,
	OFFSET_NAME,
	OFFSET_LINES,
	OFFSET_FIRST_LINE,
	OFFSET_INSTRUCTIONS,
	OFFSET_TYPE,
	OFFSET_BYTES_LEN,
	OFFSET_BYTES,
	OFFSET_TEXT_STATE,
	OFFSET_TEXT_LEN,
	OFFSET_ASCII,
	OFFSET_CNT
};

#define OFFSET_WORDS 81

/* Word indices of these members in 3.13 (Include/internal/pycore_runtime.h), ... */
static const uint8_t words_3_13[OFFSET_CNT] = { 5, 8, 9, 21, 23, 24, 25, 29, 30, 31, 33, 35,
	37, 38, 39, 43, 45, 65, 66, 68, 69, 70 };
/* ... and in 3.14 (pycore_debug_offsets.h). */
static const uint8_t words_3_14[OFFSET_CNT] = { 5, 8, 9, 24, 26, 27, 28, 32, 33, 34, 36, 40,
	42, 43, 44, 48, 51, 75, 76, 78, 79, 80 };

/* Reads @size bytes of the file at @addr; false if there are fewer. */
static bool read_file(const struct elf_file *elf, uint64_t addr, void *ret, size_t size)
{
	const uint8_t *bytes;
	size_t left;

	bytes = addr ? elf_file_bytes(elf, addr, &left) : NULL;
	if (!bytes || left < size)
		return false;
	memcpy(ret, bytes, size);
	return true;
}

/*
 * Free-threaded interpreters have other layouts of objects, texts and code, and are not supported.
 */
static bool is_known(const uint64_t words[OFFSET_WORDS], unsigned int minor)
{
	return !memcmp(words, "xdebugpy", 8) && words[1] >> 16 == (0x0300 | minor) &&
		!words[2];
}

/*
 * Reads the _Py_DebugOffsets of Python 3.@minor at the start of @runtime. Returns -ENOENT if they are
 * of another build, or -EPROTO if an offset does not fit or differs from a constant of the BPF
 * programs.
 */
static int layout_from_debug_offsets(const struct elf_file *elf, uint64_t runtime,
	unsigned int minor, struct fsn_python *l)
{
	const uint8_t *where = minor == 13 ? words_3_13 : words_3_14;
	uint64_t words[OFFSET_WORDS], offset[OFFSET_CNT];

	if (!read_file(elf, runtime, words, sizeof(words)) || !is_known(words, minor))
		return -ENOENT;
	for (size_t i = 0; i < OFFSET_CNT; i++) {
		offset[i] = words[where[i]];
		if (offset[i] > INT16_MAX)
			return -EPROTO;
	}
	if (offset[OFFSET_BYTES_LEN] != FSN_PYTHON_BYTES_LEN ||
		offset[OFFSET_BYTES] != FSN_PYTHON_BYTES ||
		offset[OFFSET_TEXT_LEN] != FSN_PYTHON_TEXT_LEN ||
		offset[OFFSET_TEXT_STATE] != FSN_PYTHON_TEXT_STATE)
		return -EPROTO;
	*l = (struct fsn_python) {
		.interpreters = (uint16_t)offset[OFFSET_INTERPRETERS],
		.next_interpreter = (uint16_t)offset[OFFSET_NEXT_INTERPRETER],
		.threads = (uint16_t)offset[OFFSET_THREADS],
		.next_thread = (uint16_t)offset[OFFSET_NEXT_THREAD],
		.thread = (uint16_t)offset[OFFSET_THREAD],
		.number = (uint16_t)offset[OFFSET_NUMBER],
		.frame = (uint16_t)offset[OFFSET_FRAME],
		.in_cframe = -1,
		.how = FSN_PYTHON_SHIM,
		.shim = OWNED_BY_CSTACK,
		.code = (uint16_t)offset[OFFSET_CODE],
		.previous = (uint16_t)offset[OFFSET_PREVIOUS],
		.at = (uint16_t)offset[OFFSET_AT],
		.owner = (uint16_t)offset[OFFSET_OWNER],
		.file = (uint16_t)offset[OFFSET_FILE],
		.name = (uint16_t)offset[OFFSET_NAME],
		.lines = (uint16_t)offset[OFFSET_LINES],
		.first_line = (uint16_t)offset[OFFSET_FIRST_LINE],
		.instructions = (uint16_t)offset[OFFSET_INSTRUCTIONS],
		.type = (uint16_t)offset[OFFSET_TYPE],
		.ascii = (uint16_t)offset[OFFSET_ASCII],
		.compact = (uint16_t)(offset[OFFSET_ASCII] + 16),
	};
	return 0;
}

/* Up to 3.10 the version is only in the name: "python3.10", "libpython3.10.so.1.0". */
static unsigned int named_minor(const struct elf_file *elf)
{
	const struct elf_info *info = elf_file_info(elf);
	const char *slash = strrchr(info->path, '/'), *name;
	unsigned long minor = 0;

	name = strstr(*info->soname ? info->soname
			: slash     ? slash
				    : info->path,
		"python3.");
	if (name)
		minor = strtoul(name + strlen("python3."), NULL, 10);
	return minor <= 10 ? (unsigned int)minor : 0;
}

static unsigned int minor_of(const struct elf_file *elf)
{
	unsigned long version;

	if (!read_file(elf, elf_file_dynamic_addr(elf, "Py_Version"), &version,
		    sizeof(version)))
		return named_minor(elf);
	return version >> 24 == 3 ? version >> 16 & 255 : 0;
}

/* Computes the sizes of the parts of frame and code that contain all members used. */
static int set_sizes(struct fsn_python *l)
{
	const uint16_t code[] = { l->file, l->name, l->lines, l->first_line, l->type };
	const uint16_t frame[] = { l->code, l->previous, l->at };

	for (size_t i = 0; i < ARRAY_SIZE(code); i++)
		if (code[i] + 8 > l->code_bytes)
			l->code_bytes = (unsigned short)(code[i] + 8);
	l->frame_bytes = (unsigned short)(l->owner + 1);
	for (size_t i = 0; i < ARRAY_SIZE(frame); i++)
		if (frame[i] + 8 > l->frame_bytes)
			l->frame_bytes = (unsigned short)(frame[i] + 8);
	return l->code_bytes > FSN_PYTHON_CODE_BYTES ||
			l->frame_bytes > FSN_PYTHON_FRAME_BYTES
		? -EPROTO
		: 0;
}

int python_layout_read(const struct elf_file *elf, struct fsn_python *ret_layout)
{
	uint64_t runtime = elf_file_dynamic_addr(elf, "_PyRuntime"),
		 code_type = elf_file_dynamic_addr(elf, "PyCode_Type");
	unsigned int minor = runtime && code_type ? minor_of(elf) : 0;
	struct fsn_python l;
	int code = 0;

	switch (minor) {
	case 8:
	case 9:
		l = python_3_8;
		break;
	case 10:
		l = python_3_10;
		break;
	case 11:
		l = python_3_11;
		break;
	case 12:
		l = python_3_12;
		break;
	case 13:
	case 14:
		code = layout_from_debug_offsets(elf, runtime, minor, &l);
		break;
	default:
		return -ENOENT;
	}
	if (code)
		return code;
	l.runtime = runtime;
	l.code_type = code_type;
	l.minor = (unsigned char)minor;
	code = set_sizes(&l);
	if (!code)
		*ret_layout = l;
	return code;
}

/* --- calls of the interpreter ---------------------------------------------------------------- */

#define EVALS_MAX 64 /* parts of that function */

bool python_is_eval(const char *name)
{
	const size_t len = strlen(PYTHON_EVAL);

	return !strncmp(name, PYTHON_EVAL, len) && (!name[len] || name[len] == '.');
}

/* Starts a row at @offset with the values that apply there. Returns its index. */
static size_t row_split(struct unwind_rows *r, uint64_t offset)
{
	struct fsn_unwind_row row = {};
	size_t i = 0;

	while (i < r->cnt && r->rows[i].offset < offset)
		i++;
	if (i < r->cnt && r->rows[i].offset == offset)
		return i;
	if (i)
		row = r->rows[i - 1];
	row.offset = (unsigned int)offset;
	r->rows = array_grow(r->rows, r->cnt, sizeof(*r->rows));
	memmove(&r->rows[i + 1], &r->rows[i], (r->cnt - i) * sizeof(*r->rows));
	r->rows[i] = row;
	r->cnt++;
	return i;
}

static void mark(struct unwind_rows *r, uint64_t from, uint64_t to)
{
	size_t first = row_split(r, from), end = row_split(r, to);

	for (size_t i = first; i < end; i++)
		r->rows[i].how |= FSN_UNWIND_PYTHON;
}

/* Returns the values that apply in the largest part of [from, to). */
static struct fsn_unwind_row main_row(const struct unwind_rows *r, uint64_t from, uint64_t to)
{
	struct fsn_unwind_row most = {};
	uint64_t bytes = 0;

	for (size_t i = 0; i < r->cnt && r->rows[i].offset < to; i++) {
		uint64_t end = i + 1 < r->cnt && r->rows[i + 1].offset < to
			? r->rows[i + 1].offset
			: to;
		uint64_t begin = r->rows[i].offset < from ? from : r->rows[i].offset;

		if (end <= begin || end - begin <= bytes)
			continue;
		bytes = end - begin;
		most = r->rows[i];
	}
	return most;
}

static bool is_alike(const struct fsn_unwind_row *a, const struct fsn_unwind_row *b)
{
	return (a->how & FSN_UNWIND_HOW) == (b->how & FSN_UNWIND_HOW) && a->fp == b->fp &&
		a->cfa == b->cfa;
}

/* True if a jump with 32 bits, as compilers use to cold parts, of @func goes to [from, to). */
static bool jumps_to(
	const struct elf_file *elf, const struct elf_func *func, uint64_t from, uint64_t to)
{
	size_t left;
	const uint8_t *code = elf_file_bytes(elf, func->addr, &left);

	for (size_t i = 0; code && i + 6 <= left && i + 6 <= func->size; i++) {
		size_t at = i + 1 + (code[i] == 0x0f);
		int32_t by;

		if (code[i] != 0xe9 && (code[i] != 0x0f || code[i + 1] >> 4 != 8))
			continue;
		memcpy(&by, &code[at], sizeof(by));
		if (func->addr + at + 4 + (uint64_t)(int64_t)by - from < to - from)
			return true;
	}
	return false;
}

/* In a stripped file, the cold part of @func has no name, but the same frame at its start. */
static void mark_nameless(
	struct elf_file *elf, struct unwind_rows *rows, const struct elf_func *func)
{
	struct fsn_unwind_row frame = main_row(rows, func->offset, func->offset + func->size);
	struct plan_image image;
	unsigned int alike = 0;
	size_t row = 0;
	uint64_t from;

	if (!frame.how || elf_file_image(elf, &image, NULL))
		return;
	for (size_t i = 0; i < image.fde_cnt && alike < EVALS_MAX; i++) {
		const struct plan_fde *fde = &image.fdes[i];

		if (!fde->framed || elf_file_func_at(elf, fde->start) ||
			elf_file_addr_to_offset(elf, fde->start, &from))
			continue;
		/* Both are sorted. */
		while (row + 1 < rows->cnt && rows->rows[row + 1].offset <= from)
			row++;
		if (!is_alike(&rows->rows[row], &frame))
			continue;
		alike++;
		if (jumps_to(elf, func, fde->start, fde->end))
			mark(rows, from, from + fde->end - fde->start);
	}
}

void python_rows_mark(struct elf_file *elf, struct unwind_rows *rows)
{
	const struct elf_func *funcs, *first = NULL;
	size_t cnt, marked = 0;

	if (elf_file_funcs(elf, &funcs, &cnt, NULL))
		return;
	/* Each call moves the rows after it. */
	for (size_t i = 0; i < cnt && marked < EVALS_MAX; i++)
		if (funcs[i].in_code && funcs[i].size &&
			python_is_eval(funcs[i].names[0].name)) {
			mark(rows, funcs[i].offset, funcs[i].offset + funcs[i].size);
			if (!marked++)
				first = &funcs[i];
		}
	if (first)
		mark_nameless(elf, rows, first);
}

/* --- texts --------------------------------------------------------------------------------------- */

#define UNICODE_LAST     0x10ffff
#define UNICODE_REPLACED 0xfffd

static uint64_t utf8_put(char *to, uint32_t c)
{
	if (c < 0x80) {
		to[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		to[0] = (char)(0xc0 | c >> 6);
		to[1] = (char)(0x80 | (c & 63));
		return 2;
	}
	if (c < 0x10000) {
		to[0] = (char)(0xe0 | c >> 12);
		to[1] = (char)(0x80 | (c >> 6 & 63));
		to[2] = (char)(0x80 | (c & 63));
		return 3;
	}
	to[0] = (char)(0xf0 | (c >> 18 & 7));
	to[1] = (char)(0x80 | (c >> 12 & 63));
	to[2] = (char)(0x80 | (c >> 6 & 63));
	to[3] = (char)(0x80 | (c & 63));
	return 4;
}

char *python_text(const uint8_t *bytes, size_t len, unsigned int kind)
{
	char *text = xmalloc(4 * len + 1);
	size_t at = 0;

	for (size_t i = 0; text && i < len; i++) {
		uint32_t c = 0;

		memcpy(&c, bytes + i * kind, kind);
		/* It would terminate the text, or is not valid in UTF-8. */
		if (!c || c > UNICODE_LAST)
			c = UNICODE_REPLACED;
		at += utf8_put(text + at, c);
	}
	if (text)
		text[at] = '\0';
	return text;
}

char *python_text_cut(const void *bytes, size_t room, size_t len, unsigned int kind, bool is_end)
{
	_cleanup_free_ char *text = NULL;
	size_t fits = kind ? room / kind : 0;
	char *cut;

	if (!len || (kind != 1 && kind != 2 && kind != 4))
		return NULL;
	text = python_text(bytes, len < fits ? len : fits, kind);
	if (!text || len <= fits)
		return TAKE_PTR(text);
	return asprintf(&cut, is_end ? "...%s" : "%s...", text) < 0 ? NULL : cut;
}

/* --- lines -------------------------------------------------------------------------------------- */

/* Reads a signed number in groups of six bits (Objects/locations.md). */
static int32_t svarint(const uint8_t *at, const uint8_t *end)
{
	uint32_t v = 0;

	for (unsigned int shift = 0; at < end && shift < 30; at++, shift += 6) {
		v |= (uint32_t)(*at & 63) << shift;
		if (!(*at & 64))
			break;
	}
	return v & 1 ? -(int32_t)(v >> 1) : (int32_t)(v >> 1);
}

/* By the location table of 3.11 and later, at @offset of the instructions. */
static unsigned int line_of(const uint8_t *t, size_t size, int64_t line, uint64_t offset)
{
	const uint8_t *end = t + size;
	uint64_t behind = 0;

	while (t < end && *t & 0x80) {
		unsigned int how = *t >> 3 & 15;

		behind += 2ULL * ((*t & 7) + 1);
		t++;
		if (how == 13 || how == 14)
			line += svarint(t, end);
		else if (how >= 10 && how <= 12)
			line += how - 10;
		if (offset < behind)
			return how == 15 || line < 0 ? 0 : (unsigned int)line;
		while (t < end && !(*t & 0x80))
			t++;
	}
	return 0;
}

/* By the table of 3.8 and 3.9 (Objects/lnotab_notes.txt). */
static unsigned int line_of_3_8(
	const uint8_t *t, size_t size, int64_t line, uint64_t offset)
{
	uint64_t from = 0;

	for (size_t i = 0; i + 1 < size; i += 2) {
		from += t[i];
		if (offset < from)
			break;
		line += (int8_t)t[i + 1];
	}
	return line < 0 ? 0 : (unsigned int)line;
}

/* By the table of 3.10 (Objects/lnotab_notes.txt). */
static unsigned int line_of_3_10(
	const uint8_t *t, size_t size, int64_t line, uint64_t offset)
{
	uint64_t behind = 0;

	for (size_t i = 0; i + 1 < size; i += 2) {
		int8_t more = (int8_t)t[i + 1];

		behind += t[i];
		if (more != -128)
			line += more;
		if (offset < behind)
			return more == -128 || line < 0 ? 0 : (unsigned int)line;
	}
	return 0;
}

unsigned int python_line(
	unsigned int minor, const uint8_t *table, size_t size, int64_t first, uint64_t at)
{
	/* Before the first instruction. */
	if (at >= 2ULL * FSN_PYTHON_AT_NONE)
		return (unsigned int)first;
	if (minor < 10)
		return line_of_3_8(table, size, first, at);
	return minor == 10 ? line_of_3_10(table, size, first, at)
			   : line_of(table, size, first, at);
}

/* Limits for data that is not a valid list. */
#define INTERPRETERS_MAX 64
#define THREADS_MAX      (1U << 14) /* of all of them */
#define FRAMES_MAX       1024 /* twice sys.getrecursionlimit() would be nearly that */
#define TEXT_MAX         4096
#define LINES_MAX        (1U << 20) /* bytes of a table of lines */

struct python {
	pid_t pid;
	struct fsn_python l; /* .runtime and .code_type as the process has them */
	struct page *pages;  /* PAGES of them: those that were read for this stack */
};

#define PAGE_SIZE_READ 4096U
#define PAGES	       64

struct page {
	uint64_t tag; /* its address + 1; 0: none */
	char bytes[PAGE_SIZE_READ];
};

/* --- what is in the process --------------------------------------------------------------------- */

/* Reads whole pages: a stack has thousands of words on a few of them. */
static const struct page *page_at(const struct python *py, uint64_t at)
{
	struct page *page = &py->pages[at / PAGE_SIZE_READ % PAGES];
	struct iovec to = { page->bytes, sizeof(page->bytes) };
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): it is another process's */
	struct iovec from = { (void *)at, sizeof(page->bytes) };

	if (page->tag == at + 1)
		return page;
	page->tag = process_vm_readv(py->pid, &to, 1, &from, 1, 0) == sizeof(page->bytes) ? at + 1 : 0;
	return page->tag ? page : NULL;
}

static bool read_at(const struct python *py, uint64_t addr, void *ret, size_t size)
{
	char *to = ret;

	if (!addr)
		return false;
	while (size) {
		size_t offset = addr % PAGE_SIZE_READ, n = PAGE_SIZE_READ - offset;
		const struct page *page = page_at(py, addr - offset);

		if (!page)
			return false;
		n = n < size ? n : size;
		memcpy(to, page->bytes + offset, n);
		to += n;
		addr += n;
		size -= n;
	}
	return true;
}

/* Reads a pointer or a size; 0 also if it cannot be read. */
static uint64_t word_at(const struct python *py, uint64_t addr)
{
	uint64_t word;

	return read_at(py, addr, &word, sizeof(word)) ? word : 0;
}

/*
 * Reads the text @addr, at most @room bytes of its begin or its end, as the BPF programs keep them.
 * The caller frees it. -EPROTO for any other object.
 */
static int text_at(const struct python *py, uint64_t addr, size_t room, bool is_end, char **ret)
{
	uint64_t len = word_at(py, addr + FSN_PYTHON_TEXT_LEN), size;
	_cleanup_free_ uint8_t *bytes = xmalloc(room);
	unsigned int kind;
	uint32_t state;

	if (!len || len > TEXT_MAX ||
		!read_at(py, addr + FSN_PYTHON_TEXT_STATE, &state, sizeof(state)))
		return -EPROTO;
	kind = state >> 2 & 7;
	if ((kind != 1 && kind != 2 && kind != 4) || !(state >> 5 & 1))
		return -EPROTO;
	addr += state >> 6 & 1 ? py->l.ascii : py->l.compact;
	size = len * kind;
	if (size > room) {
		addr += is_end ? size - room : 0;
		size = room;
	}
	if (!read_at(py, addr, bytes, size))
		return -EPROTO;
	*ret = python_text_cut(bytes, room, len, kind, is_end);
	return 0;
}

/* --- lines -------------------------------------------------------------------------------------- */

/* Returns the line of @frame in @code; 0: none. */
static unsigned int line_at(const struct python *py, uint64_t frame, uint64_t code)
{
	uint64_t table = word_at(py, code + py->l.lines), size = word_at(py, table + 16),
		 at;
	_cleanup_free_ uint8_t *bytes = NULL;
	int32_t first, instruction;

	if (!table || !size || size > LINES_MAX ||
		!read_at(py, code + py->l.first_line, &first, sizeof(first)))
		return 0;
	bytes = xmalloc(size);
	if (!read_at(py, table + 32, bytes, size))
		return 0;
	at = word_at(py, frame + py->l.at) - (code + py->l.instructions);
	if (py->l.minor <= 10)
		at = read_at(py, frame + py->l.at, &instruction, sizeof(instruction))
			? (py->l.minor == 10 ? 2 : 1) * (uint64_t)instruction
			: UINT64_MAX;
	return python_line(py->l.minor, bytes, size, first, at);
}

/* --- the interpreter ------------------------------------------------------------------------------ */

static int python_open(const struct elf_file *elf, uint64_t bias, struct python *py)
{
	int code = python_layout_read(elf, &py->l);

	py->l.runtime += bias;
	py->l.code_type += bias;
	return code;
}

/* Where glibc's struct pthread has the thread's number, that fork() keeps right. */
#if defined(__x86_64__)
#define PTHREAD_NUMBER 720
#else
#define PTHREAD_NUMBER 208
#endif

static bool is_thread(const struct python *py, uint64_t state, int32_t own)
{
	uint64_t thread = word_at(py, state + py->l.thread);
	int32_t number;

	if (py->l.number && word_at(py, state + py->l.number) == (uint64_t)own)
		return true;
	return thread && read_at(py, thread + PTHREAD_NUMBER, &number, sizeof(number)) &&
		number == own;
}

/* Returns the interpreter's state of the thread, or 0. */
static uint64_t thread_state(const struct python *py, pid_t own)
{
	uint64_t interpreter = word_at(py, py->l.runtime + py->l.interpreters), state;
	unsigned int n = 0;

	for (unsigned int i = 0; interpreter && i < INTERPRETERS_MAX; i++) {
		state = word_at(py, interpreter + py->l.threads);
		for (; state && n < THREADS_MAX; n++) {
			if (is_thread(py, state, own))
				return state;
			state = word_at(py, state + py->l.next_thread);
		}
		interpreter = word_at(py, interpreter + py->l.next_interpreter);
	}
	return 0;
}

/* --- frames --------------------------------------------------------------------------------------- */

static struct python_frame *add_frame(struct python_stack *s)
{
	s->frames = array_grow(s->frames, s->cnt, sizeof(*s->frames));
	s->frames[s->cnt] = (struct python_frame) {};
	return &s->frames[s->cnt++];
}

/* Marks the last frame of one call. */
static void add_first(struct python_stack *s)
{
	struct python_frame *f = s->cnt ? &s->frames[s->cnt - 1] : NULL;

	if (!f || f->first)
		f = add_frame(s);
	f->first = true;
}

static int add_code(const struct python *py, struct python_stack *s, uint64_t frame,
	uint64_t code, bool first)
{
	struct python_frame *f;
	int ret;

	if (word_at(py, code + py->l.type) != py->l.code_type)
		return -EPROTO;
	f = add_frame(s);
	ret = text_at(py, word_at(py, code + py->l.name), FSN_PYTHON_NAME, false, &f->name);
	if (!ret)
		ret = text_at(
			py, word_at(py, code + py->l.file), FSN_PYTHON_FILE, true, &f->file);
	f->line = ret ? 0 : line_at(py, frame, code);
	f->first = first;
	return ret;
}

static int add(const struct python *py, struct python_stack *s, uint64_t frame)
{
	/* Since 3.14 the lowest bits hold the kind of reference. */
	uint64_t code = word_at(py, frame + py->l.code) & ~7ULL;
	uint8_t owner = 0;

	if (py->l.owner && !read_at(py, frame + py->l.owner, &owner, sizeof(owner)))
		return -EPROTO;
	if (py->l.how == FSN_PYTHON_SHIM && owner == py->l.shim) {
		add_first(s);
		return 0;
	}
	/* In 3.11 the field says whether it is the first frame; before 3.11, each frame is. */
	return add_code(py, s, frame, code,
		py->l.how == FSN_PYTHON_ENTRY ? owner == 1 : py->l.minor <= 10);
}

int python_stack_read(pid_t pid, pid_t tid, const struct elf_file *elf, uint64_t bias,
	struct python_stack *ret_stack)
{
	_cleanup_free_ struct page *pages = xcalloc(PAGES, sizeof(*pages));
	struct python py = { .pid = pid, .pages = pages };
	uint64_t state, frame;
	int ret;

	ret = python_open(elf, bias, &py);
	*ret_stack = (struct python_stack) { .counted = py.l.how == FSN_PYTHON_COUNT };
	if (ret)
		return ret;
	state = thread_state(&py, proc_own_number("/proc", pid, tid));
	if (!state)
		return -ENOENT;
	frame = word_at(&py, state + py.l.frame);
	if (frame && py.l.in_cframe >= 0)
		frame = word_at(&py, frame + (uint64_t)py.l.in_cframe);
	for (; !ret && frame; frame = word_at(&py, frame + py.l.previous))
		ret = ret_stack->cnt == FRAMES_MAX ? -EPROTO : add(&py, ret_stack, frame);
	return ret;
}

void python_stack_done(struct python_stack *s)
{
	for (size_t i = 0; i < s->cnt; i++) {
		free(s->frames[i].name);
		free(s->frames[i].file);
	}
	free(s->frames);
	*s = (struct python_stack) {};
}
