/* SPDX-License-Identifier: BSD-2-Clause */
/* Private facts of the GPU's libraries: kernels of a file; NCCL's communicators. */
#pragma once

#include "base/err.h"
#include "elf/elf_file.h"

/*
 * GPU kernels in a file: for each kernel, the CUDA compiler generates a host function, and code
 * that registers the pair with the runtime when the file is loaded.
 */
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

/*
 * NCCL: struct ncclComm is private, and the members before the rank differ between releases. But
 * since 2.18, hash, rank, number of ranks and device are adjacent (src/include/comm.h), and three
 * public functions return the latter three.
 */

/* Offsets of members that a function may return. */
#define MEMBERS_MAX 32
struct members {
	uint32_t at[MEMBERS_MAX];
	size_t cnt;
};

/*
 * Finds the 32-bit members that the code in [@addr, @end) of @img loads and then stores unchanged
 * through another pointer. Keeps at most MEMBERS_MAX. Returns 0, or -ENOTSUP as insn_open().
 */
_must_check_ int members_handed_out(const struct plan_image *img, uint64_t addr, uint64_t end,
	struct members *ret_members, struct err *err);

/*
 * Finds the offset of the hash in a communicator of library @elf; rank, number of ranks and device
 * follow it. Returns 0, -ENOENT if @elf lacks one of the three functions, -EBADMSG if they
 * disagree, or an error of elf_file_image().
 */
_must_check_ int communicator_find(struct elf_file *elf, uint32_t *ret_at, struct err *err);
