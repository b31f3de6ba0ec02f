/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames of Python, which its interpreter keeps: CPython 3.10 to 3.14. */
#ifndef FUNCSNOOP_UNWIND_PYTHON_H
#define FUNCSNOOP_UNWIND_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/util.h"
#include "elf/elf_file.h"
#include "shared/python.h"
#include "unwind/unwind.h"

/* The function of the interpreter whose calls these frames are in. */
#define PYTHON_EVAL "_PyEval_EvalFrameDefault"

/* Whether @name is that function's, or of a part of it. */
bool python_is_eval(const char *name);

/*
 * Where an interpreter of file @elf keeps frames; .runtime and .code_type are addresses of that file.
 * -ENOENT where it has none of these versions, -EPROTO where it says what can't be.
 */
_must_check_ int python_layout_read(const struct elf_file *elf, struct fsn_python *ret_layout);

/* Marks the rows of @elf that are of PYTHON_EVAL with FSN_UNWIND_PYTHON. -ENOMEM. */
_must_check_ int python_rows_mark(struct elf_file *elf, struct unwind_rows *rows);

/*
 * Text of @len characters of @kind bytes, to be freed; NULL only when memory is out. What can be no
 * character of a name, zero among it, is U+FFFD.
 */
char *python_text(const uint8_t *bytes, size_t len, unsigned int kind);

/*
 * The same of text of @len characters, of which @bytes holds the begin, or with @is_end the end, in
 * @room bytes; "..." replaces the others. NULL also for an empty text or another @kind than 1, 2, 4.
 */
char *python_text_cut(const void *bytes, size_t room, size_t len, unsigned int kind, bool is_end);

/*
 * On which line byte @at of the code's instructions is, by its table of lines; @first is the line of its
 * first one, which it is on before it begins. 0: on none.
 */
unsigned int python_line(
	unsigned int minor, const uint8_t *table, size_t size, int64_t first, uint64_t at);

struct python_frame {
	char *name; /* as Python has it ("Loader.next"), NULL: of a call that is in none yet */
	char *file; /* as the code has it */
	unsigned int line;
	bool first; /* no frame further out is of the same call of PYTHON_EVAL */
};

struct python_stack {
	struct python_frame *frames; /* innermost first */
	size_t cnt;
};

/*
 * The frames that thread @tid of process @pid is in, by the memory of the process: good only while
 * the thread sleeps, which the caller sees to. @elf has the interpreter's code and is mapped
 * @bias above its own addresses. -ENOENT where that is no CPython of these versions or does
 * not know the thread, -EPROTO where what is read is no such thing, -ENOMEM. Empty the result with
 * python_stack_done(), also after an error.
 */
_must_check_ int python_stack_read(pid_t pid, pid_t tid, const struct elf_file *elf,
	uint64_t bias, struct python_stack *ret_stack);
void python_stack_done(struct python_stack *s);
#define _cleanup_python_stack_ __cleanup(python_stack_done)

#endif
