/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kernels of GPUs that a file brings along: the CUDA compiler makes a host's function for each,
 * and code that tells the runtime which kernel that stands for, when the file is loaded.
 */
#ifndef FUNCSNOOP_CODE_KERNELS_H
#define FUNCSNOOP_CODE_KERNELS_H

#include "elf/elf_file.h"

struct kernel_name {
	uint64_t host;    /* address of the host's function */
	const char *name; /* as the compiler has it, mangled; the file's */
};

struct kernel_names {
	struct kernel_name *names; /* sorted by address, none twice */
	size_t cnt;
};

/*
 * All that calls of __cudaRegisterFunction() in @elf say, of which two that contradict each other
 * say nothing. None is no error. Free with kernel_names_done(), also after an error.
 */
_must_check_ int kernel_names_read(
	struct elf_file *elf, struct kernel_names *ret_names, struct err *err);
void kernel_names_done(struct kernel_names *k);

/* The kernel that the host's function at @host stands for, or NULL. */
const struct kernel_name *kernel_names_find(const struct kernel_names *k, uint64_t host);

/*
 * The kernel whose launch the code around @addr makes, known without symbols: that code is the
 * host's function, or takes the address of one and of no other. NULL: it can't be told.
 */
const struct kernel_name *kernel_names_around(
	struct elf_file *elf, const struct kernel_names *k, uint64_t addr);

/* Whether the call in front of @addr is one of the function around @callee. */
bool kernel_calls(struct elf_file *elf, uint64_t addr, uint64_t callee);

#endif
