/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames of Python, which its interpreter keeps: CPython 3.10 to 3.13. */
#ifndef FUNCSNOOP_UNWIND_PYTHON_H
#define FUNCSNOOP_UNWIND_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/util.h"
#include "elf/elf_file.h"

/* The function of the interpreter whose calls these frames are in. */
#define PYTHON_EVAL "_PyEval_EvalFrameDefault"

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
