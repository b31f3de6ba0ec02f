// SPDX-License-Identifier: BSD-2-Clause
// Frames of Python: read from the memory of a process whose thread sleeps.
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

struct python {
	pid_t pid;
	struct fsn_python l; /* .runtime and .code_type as the process has them */
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
	bytes = xmalloc(size);
	if (!bytes || !read_at(py, table + 32, bytes, size))
		return 0;
	at = word_at(py, frame + py->l.at) - (code + py->l.instructions);
	if (py->l.how == FSN_PYTHON_EACH)
		at = read_at(py, frame + py->l.at, &instruction, sizeof(instruction))
			? 2 * (uint64_t)instruction
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

/* What the interpreter knows of the thread, or 0. */
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

/* The end of what is of one call. */
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
	/* Since 3.14 the lowest bits say who holds it. */
	uint64_t code = word_at(py, frame + py->l.code) & ~7ULL;
	uint8_t owner = 0;

	if (py->l.owner && !read_at(py, frame + py->l.owner, &owner, sizeof(owner)))
		return -EPROTO;
	if (py->l.how == FSN_PYTHON_SHIM && owner == py->l.shim) {
		add_first(s);
		return 0;
	}
	/* 3.11 has there whether it is one's first, before that each is. */
	return add_code(
		py, s, frame, code,
		py->l.how == FSN_PYTHON_ENTRY ? owner == 1 : py->l.how == FSN_PYTHON_EACH);
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
