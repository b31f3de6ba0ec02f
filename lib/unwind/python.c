// SPDX-License-Identifier: BSD-2-Clause
// Frames of Python: read from the memory of a process whose thread sleeps, by where CPython keeps
// them. Before 3.13 that is known by its version (offsetof() in its own headers, which are the same
// on 64-bit machines); since then the interpreter says it itself (_Py_DebugOffsets).
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "proc/proc.h"
#include "unwind/python.h"

/* Bounds against what is no such list. */
#define INTERPRETERS_MAX 64
#define THREADS_MAX      (1U << 14) /* of all of them */
#define FRAMES_MAX       1024 /* twice sys.getrecursionlimit() would be nearly that */
#define TEXT_MAX         4096
#define LINES_MAX        (1U << 20) /* bytes of a table of lines */

/* Where things are, from the start of what has them. */
struct layout {
	uint16_t interpreters;              /* in _PyRuntime: the first one */
	uint16_t next_interpreter, threads; /* in PyInterpreterState */
	uint16_t next_thread, thread,
		number;    /* in PyThreadState; .number 0: it has none */
	uint16_t frame;    /* there, the innermost, */
	int16_t in_cframe; /* or in what .frame points to; -1: it is the frame */
	uint16_t code, previous, at, owner;                   /* in a frame */
	uint16_t file, name, lines, first_line, instructions; /* in PyCodeObject */
	uint16_t type;                                        /* in any object */
	uint16_t ascii, compact;                              /* sizes of texts' heads */
};

static const struct layout python_3_10 = { .interpreters = 32,
	.threads = 8,
	.next_thread = 8,
	.thread = 176,
	.frame = 24,
	.in_cframe = -1,
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
static const struct layout python_3_11 = { .interpreters = 40,
	.threads = 16,
	.next_thread = 8,
	.thread = 152,
	.number = 160,
	.frame = 56,
	.in_cframe = 8,
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
static const struct layout python_3_12 = { .interpreters = 40,
	.threads = 72,
	.next_thread = 8,
	.thread = 136,
	.number = 144,
	.frame = 56,
	.in_cframe = 0,
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

/* Words of _Py_DebugOffsets of 3.13 (Include/internal/pycore_runtime.h), behind its cookie. */
enum {
	SAID_VERSION = 1,
	SAID_INTERPRETERS = 5,
	SAID_NEXT_INTERPRETER = 8,
	SAID_THREADS = 9,
	SAID_NEXT_THREAD = 21,
	SAID_FRAME = 23,
	SAID_THREAD = 24,
	SAID_NUMBER = 25,
	SAID_PREVIOUS = 29,
	SAID_CODE = 30,
	SAID_AT = 31,
	SAID_OWNER = 33,
	SAID_FILE = 35,
	SAID_NAME = 37,
	SAID_LINES = 38,
	SAID_FIRST_LINE = 39,
	SAID_INSTRUCTIONS = 43,
	SAID_TYPE = 45,
	SAID_ASCII = 70,
	SAID_CNT = 71,
};

struct python {
	pid_t pid;
	unsigned int minor; /* of 3.x */
	struct layout l;
	uint64_t runtime, code_type; /* 0: not known */
};

/* --- what is in the process --------------------------------------------------------------------- */

static bool read_at(const struct python *py, uint64_t addr, void *ret, size_t size)
{
	struct iovec to = { ret, size };
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): it is another process's */
	struct iovec from = { (void *)addr, size };

	return addr && process_vm_readv(py->pid, &to, 1, &from, 1, 0) == (ssize_t)size;
}

/* A pointer or a size there; 0 where there is none, too. */
static uint64_t word_at(const struct python *py, uint64_t addr)
{
	uint64_t word;

	return read_at(py, addr, &word, sizeof(word)) ? word : 0;
}

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

/* Text of @kind bytes a character; NULL only when memory is out. */
static char *utf8_of(const uint8_t *bytes, size_t len, unsigned int kind)
{
	char *text = malloc(4 * len + 1);
	size_t at = 0;

	for (size_t i = 0; text && i < len; i++) {
		uint32_t c = 0;

		memcpy(&c, bytes + i * kind, kind);
		at += utf8_put(text + at, c);
	}
	if (text)
		text[at] = '\0';
	return text;
}

/* PyUnicode_KIND() and its neighbours: bits 2 to 4, 5 and 6 of .state since 3.3. */
#define TEXT_LEN   16
#define TEXT_STATE 32

/* The text @addr, to be freed; -EPROTO when it is none. */
static int text_at(const struct python *py, uint64_t addr, char **ret)
{
	_cleanup_free_ uint8_t *bytes = NULL;
	uint64_t len = word_at(py, addr + TEXT_LEN);
	unsigned int kind;
	uint32_t state;

	if (!len || len > TEXT_MAX ||
		!read_at(py, addr + TEXT_STATE, &state, sizeof(state)))
		return -EPROTO;
	kind = state >> 2 & 7;
	if ((kind != 1 && kind != 2 && kind != 4) || !(state >> 5 & 1))
		return -EPROTO;
	bytes = malloc(len * kind);
	if (!bytes)
		return -ENOMEM;
	if (!read_at(py, addr + (state >> 6 & 1 ? py->l.ascii : py->l.compact), bytes,
		    len * kind))
		return -EPROTO;
	*ret = utf8_of(bytes, len, kind);
	return *ret ? 0 : -ENOMEM;
}

/* --- lines -------------------------------------------------------------------------------------- */

/* A signed number in sixes of bits (Objects/locations.md). */
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

/* By the table of locations of 3.11 and later, at @offset of the instructions. */
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

/* By that of 3.10 (Objects/lnotab_notes.txt). */
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

/* Where @frame of @code is; 0: on no line. */
static unsigned int line_at(const struct python *py, uint64_t frame, uint64_t code)
{
	uint64_t table = word_at(py, code + py->l.lines), size = word_at(py, table + 16),
		 at;
	_cleanup_free_ uint8_t *bytes = NULL;
	int32_t first, instruction;

	if (!table || !size || size > LINES_MAX ||
		!read_at(py, code + py->l.first_line, &first, sizeof(first)))
		return 0;
	bytes = malloc(size);
	if (!bytes || !read_at(py, table + 32, bytes, size))
		return 0;
	if (py->minor == 10)
		return read_at(py, frame + py->l.at, &instruction, sizeof(instruction)) &&
				instruction >= 0
			? line_of_3_10(bytes, size, first, 2ULL * (uint32_t)instruction)
			: 0;
	at = word_at(py, frame + py->l.at) - (code + py->l.instructions);
	/* Before the first instruction. */
	return at > LINES_MAX * 8ULL ? (unsigned int)first
				     : line_of(bytes, size, first, at);
}

/* --- the interpreter ------------------------------------------------------------------------------ */

static int layout_said(struct python *py)
{
	static const uint8_t used[] = { SAID_INTERPRETERS, SAID_NEXT_INTERPRETER,
		SAID_THREADS, SAID_NEXT_THREAD, SAID_FRAME, SAID_THREAD, SAID_NUMBER,
		SAID_PREVIOUS, SAID_CODE, SAID_AT, SAID_OWNER, SAID_FILE, SAID_NAME,
		SAID_LINES, SAID_FIRST_LINE, SAID_INSTRUCTIONS, SAID_TYPE, SAID_ASCII };
	uint64_t said[SAID_CNT];

	if (!read_at(py, py->runtime, said, sizeof(said)) ||
		memcmp(said, "xdebugpy", 8) || said[SAID_VERSION] >> 16 != 0x030d)
		return -ENOENT;
	for (size_t i = 0; i < ARRAY_SIZE(used); i++)
		if (said[used[i]] > INT16_MAX)
			return -EPROTO;
	py->l = (struct layout) {
		.interpreters = (uint16_t)said[SAID_INTERPRETERS],
		.next_interpreter = (uint16_t)said[SAID_NEXT_INTERPRETER],
		.threads = (uint16_t)said[SAID_THREADS],
		.next_thread = (uint16_t)said[SAID_NEXT_THREAD],
		.thread = (uint16_t)said[SAID_THREAD],
		.number = (uint16_t)said[SAID_NUMBER],
		.frame = (uint16_t)said[SAID_FRAME],
		.in_cframe = -1,
		.code = (uint16_t)said[SAID_CODE],
		.previous = (uint16_t)said[SAID_PREVIOUS],
		.at = (uint16_t)said[SAID_AT],
		.owner = (uint16_t)said[SAID_OWNER],
		.file = (uint16_t)said[SAID_FILE],
		.name = (uint16_t)said[SAID_NAME],
		.lines = (uint16_t)said[SAID_LINES],
		.first_line = (uint16_t)said[SAID_FIRST_LINE],
		.instructions = (uint16_t)said[SAID_INSTRUCTIONS],
		.type = (uint16_t)said[SAID_TYPE],
		.ascii = (uint16_t)said[SAID_ASCII],
		.compact = (uint16_t)(said[SAID_ASCII] + 16),
	};
	return 0;
}

/* 3.10 says its version nowhere but in its name: "python3.10", "libpython3.10.so.1.0". */
static bool is_3_10(const struct elf_file *elf)
{
	const struct elf_info *info = elf_file_info(elf);
	const char *slash = strrchr(info->path, '/');

	return strstr(*info->soname ? info->soname
			: slash     ? slash
				    : info->path,
		"python3.10");
}

static int python_open(const struct elf_file *elf, uint64_t bias, struct python *py)
{
	uint64_t runtime = elf_file_dynamic_addr(elf, "_PyRuntime"),
		 version = elf_file_dynamic_addr(elf, "Py_Version"),
		 code_type = elf_file_dynamic_addr(elf, "PyCode_Type");

	if (!runtime || !code_type)
		return -ENOENT;
	py->runtime = runtime + bias;
	py->code_type = code_type + bias;
	version = version ? word_at(py, version + bias) : is_3_10(elf) ? 0x030a0000 : 0;
	py->minor = version >> 24 == 3 ? version >> 16 & 255 : 0;
	switch (py->minor) {
	case 10:
		py->l = python_3_10;
		return 0;
	case 11:
		py->l = python_3_11;
		return 0;
	case 12:
		py->l = python_3_12;
		return 0;
	case 13:
		return layout_said(py);
	default:
		return -ENOENT;
	}
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

/* What the interpreter knows of the thread, or 0. */
static uint64_t thread_state(const struct python *py, pid_t own)
{
	uint64_t interpreter = word_at(py, py->runtime + py->l.interpreters), state;
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

#define OWNED_BY_CSTACK \
	3 /* since 3.12: of no code, the first of a call of the interpreter */

static struct python_frame *add_frame(struct python_stack *s)
{
	struct python_frame *grown = array_grow(s->frames, s->cnt, sizeof(*grown));

	if (!grown)
		return NULL;
	s->frames = grown;
	grown[s->cnt] = (struct python_frame) {};
	return &grown[s->cnt++];
}

/* The end of what is of one call. */
static int add_first(struct python_stack *s)
{
	struct python_frame *f = s->cnt ? &s->frames[s->cnt - 1] : NULL;

	if (!f || f->first)
		f = add_frame(s);
	if (!f)
		return -ENOMEM;
	f->first = true;
	return 0;
}

static int add_code(const struct python *py, struct python_stack *s, uint64_t frame,
	uint64_t code, bool first)
{
	struct python_frame *f;
	int ret;

	if (word_at(py, code + py->l.type) != py->code_type)
		return -EPROTO;
	f = add_frame(s);
	if (!f)
		return -ENOMEM;
	ret = text_at(py, word_at(py, code + py->l.name), &f->name);
	if (!ret)
		ret = text_at(py, word_at(py, code + py->l.file), &f->file);
	f->line = ret ? 0 : line_at(py, frame, code);
	f->first = first;
	return ret;
}

static int add(const struct python *py, struct python_stack *s, uint64_t frame)
{
	uint64_t code = word_at(py, frame + py->l.code);
	uint8_t owner = 0;

	if (py->l.owner && !read_at(py, frame + py->l.owner, &owner, sizeof(owner)))
		return -EPROTO;
	if (py->minor >= 12 && owner == OWNED_BY_CSTACK)
		return add_first(s);
	/* 3.11 has there whether it is one's first, before that each is. */
	return add_code(
		py, s, frame, code, py->minor == 11 ? owner == 1 : py->minor == 10);
}

int python_stack_read(pid_t pid, pid_t tid, const struct elf_file *elf, uint64_t bias,
	struct python_stack *ret_stack)
{
	struct python py = { .pid = pid };
	int ret = python_open(elf, bias, &py);
	uint64_t state, frame;

	*ret_stack = (struct python_stack) {};
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
