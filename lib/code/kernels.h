/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GPU kernels in a file: for each kernel, the CUDA compiler generates a host function, and code
 * that registers the pair with the runtime when the file is loaded.
 */
#ifndef FUNCSNOOP_CODE_KERNELS_H
#define FUNCSNOOP_CODE_KERNELS_H

#include "elf/elf_file.h"

struct kernel_name {
	uint64_t host;    /* address of the host function */
	const char *name; /* mangled, as emitted by the compiler; owned by the file */
};

struct kernel_names {
	struct kernel_name *names; /* sorted by address, unique */
	size_t cnt;
};

/*
 * Reads the kernels that @elf registers with __cudaRegisterFunction(). Contradicting registrations
 * of one host function are dropped. Returns 0 also if there are none. The caller frees *ret_names
 * with kernel_names_done(), also after an error.
 */
_must_check_ int kernel_names_read(
	struct elf_file *elf, struct kernel_names *ret_names, struct err *err);
void kernel_names_done(struct kernel_names *k);

/* Returns the kernel of the host function at @host, or NULL. */
const struct kernel_name *kernel_names_find(const struct kernel_names *k, uint64_t host);

/*
 * Returns the kernel that the code around @addr launches, without using symbols: that code is the
 * host function, or takes the address of exactly one. Returns NULL if it is not known.
 */
const struct kernel_name *kernel_names_around(
	struct elf_file *elf, const struct kernel_names *k, uint64_t addr);

/* True if the call before @addr is a call of the function around @callee. */
bool kernel_calls(struct elf_file *elf, uint64_t addr, uint64_t callee);

#endif
