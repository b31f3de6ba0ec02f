/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where NCCL's communicators have their rank. struct ncclComm is private, and what stands before
 * it differs from release to release; but since 2.18 hash, rank, number of ranks and device lie
 * side by side (src/include/comm.h), and three public functions hand out the latter three.
 */
#ifndef FUNCSNOOP_CODE_COMMUNICATOR_H
#define FUNCSNOOP_CODE_COMMUNICATOR_H

#include "base/err.h"
#include "elf/elf_file.h"

/* Members that a function may hand out, as displacements from a pointer. */
#define MEMBERS_MAX 32
struct members {
	uint32_t at[MEMBERS_MAX];
	size_t cnt;
};

/*
 * Which 32-bit members the code in [@addr, @end) of @img loads and then stores, as they are, to
 * where another pointer points. What is more than there is room for is left out. -ENOMEM,
 * -ENOTSUP as insn_open().
 */
_must_check_ int members_handed_out(const struct plan_image *img, uint64_t addr, uint64_t end,
	struct members *ret_members, struct err *err);

/*
 * Where in a communicator of the library @elf its hash begins, with rank, ranks and device behind
 * it. -ENOENT when @elf has not all of the functions that tell, -EBADMSG when they disagree;
 * errors as of elf_file_image().
 */
_must_check_ int communicator_find(struct elf_file *elf, uint32_t *ret_at, struct err *err);

#endif
