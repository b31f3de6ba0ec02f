/* SPDX-License-Identifier: BSD-2-Clause */
/* Who vouches that a return probe can't harm the functions of a file. */
#ifndef FUNCSNOOP_TARGET_SAFE_H
#define FUNCSNOOP_TARGET_SAFE_H

#include "base/err.h"
#include "elf/elf_file.h"

/*
 * Why return probes are safe on every function of @elf, as a sentence in static storage,
 * or NULL when nothing says so. Safe is an executable that needs only the C library family,
 * names nothing that unwinds, switches stacks or loads further code, and has no code of its
 * own that goes to another stack: then no exception, fiber, alternate signal stack or
 * cancellation can pass a frame of it. One with more than 2 MB of code is not looked through.
 * Never a library: who uses it is not known.
 * Fails only as elf_file_image() does.
 */
int safe_return_why(struct elf_file *elf, const char **ret_why, struct err *err);

/*
 * Why no function of @elf may be probed at all, as a sentence in static storage, or NULL:
 * a breakpoint would change what it checks of itself. Fails as elf_file_funcs() does.
 */
int safe_refused_why(struct elf_file *elf, const char **ret_why, struct err *err);

#endif
