/* SPDX-License-Identifier: BSD-2-Clause */
/* Python frames, from the interpreter: CPython 3.8 to 3.14. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/util.h"
#include "elf/elf_file.h"
#include "shared/python.h"
#include "unwind/unwind.h"

/* The interpreter function in whose calls these frames are. */
#define PYTHON_EVAL "_PyEval_EvalFrameDefault"

/* True if @name is that function, or a part of it. */
bool python_is_eval(const char *name);

/*
 * Finds the locations of frames in an interpreter of file @elf; .runtime and .code_type are
 * addresses in that file. Returns 0, -ENOENT if it is none of these versions, or -EPROTO if its
 * data is implausible.
 */
_must_check_ int python_layout_read(const struct elf_file *elf, struct fsn_python *ret_layout);

/* Marks the rows of PYTHON_EVAL in @elf with FSN_UNWIND_PYTHON. */
void python_rows_mark(struct elf_file *elf, struct unwind_rows *rows);

/*
 * Converts @len characters of @kind bytes to UTF-8. The caller frees the result; NULL only if out
 * of memory. Invalid characters, including zero, become U+FFFD.
 */
char *python_text(const uint8_t *bytes, size_t len, unsigned int kind);

/*
 * Same for a text of @len characters of which @bytes holds the start, or with @is_end the end, in
 * @room bytes; "..." replaces the rest. Also returns NULL for an empty text or a @kind other than
 * 1, 2, 4.
 */
char *python_text_cut(const void *bytes, size_t room, size_t len, unsigned int kind, bool is_end);

/*
 * Returns the line of byte @at of the code's instructions, by its line table; 0: none. @first is
 * the line of the first instruction, which also applies before it.
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
	bool counted; /* they are of the native calls only if there are as many of these */
};

/*
 * Reads the Python frames of thread @tid of process @pid from its memory. The caller ensures that
 * the thread sleeps meanwhile. @elf contains the interpreter's code and is mapped @bias above its
 * own addresses.
 *
 * Returns 0, -ENOENT if that is not a supported CPython or does not know the thread, or -EPROTO if
 * the data is implausible. The caller frees the result with python_stack_done(), also after
 * an error.
 */
_must_check_ int python_stack_read(pid_t pid, pid_t tid, const struct elf_file *elf,
	uint64_t bias, struct python_stack *ret_stack);
void python_stack_done(struct python_stack *s);
#define _cleanup_python_stack_ __cleanup(python_stack_done)
