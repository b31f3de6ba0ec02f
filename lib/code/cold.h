/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What scan.c finds in the bytes of a file, and cold.c decides from: who enters
 * code without a name, and where that jumps to.
 */
#ifndef FUNCSNOOP_CODE_COLD_H
#define FUNCSNOOP_CODE_COLD_H

#include "internal.h"

#define FDE_NAMELESS 1 /* no symbol begins in it */
#define FDE_CALLED   2 /* a call of its start, or its start's address taken */
#define FDE_SHARED   4 /* jumps to its start from more than one FDE, or from none */

#define NO_FDE UINT32_MAX

enum jump_kind {
	JUMP_LIKELY, /* seen in bytes only */
	JUMP_REAL,
	JUMP_FALSE,
};

struct jump {
	uint64_t target, from;
	enum jump_kind kind;
};

struct cold_index {
	uint8_t *flags;   /* FDE_*, one byte an FDE */
	uint32_t *jumper; /* the FDE that jumps to this one's start */
	bool all_scanned; /* .jumper and FDE_CALLED are complete */
	/* from nameless code into the middle of other code, by target */
	struct jump *jumps;
	size_t jump_cnt;
	size_t confirm_bytes; /* decoded so far to tell jumps from their likes */
};

/* The number of the FDE that holds @addr, or NO_FDE. */
static inline uint32_t fde_index(const struct plan_image *img, uint64_t addr)
{
	const struct plan_fde *r = image_fde(img, addr);

	return r ? r - img->fdes : NO_FDE;
}

/* Goes over the bytes of @img. -ENOMEM. End with cold_free(). */
int cold_new(const struct plan_image *img, struct cold_index **ret_cold);

#endif
