/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the offset of the rank in NCCL's communicators. struct ncclComm is private, and the members
 * before the rank differ between releases. But since 2.18, hash, rank, number of ranks and device
 * are adjacent (src/include/comm.h), and three public functions return the latter three.
 */
#ifndef FUNCSNOOP_CODE_COMMUNICATOR_H
#define FUNCSNOOP_CODE_COMMUNICATOR_H

#include "base/err.h"
#include "elf/elf_file.h"

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

#endif
