/* SPDX-License-Identifier: BSD-2-Clause */
/* The code of one file as it is planned for: bytes, where code begins, its frames. */
#ifndef FUNCSNOOP_ELF_IMAGE_H
#define FUNCSNOOP_ELF_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum plan_arch { PLAN_X86_64, PLAN_ARM64 };

struct plan_range {
	uint64_t start, end; /* [start, end), virtual addresses of the file */
};

/* A range that an FDE of .eh_frame describes. */
struct plan_fde {
	uint64_t start, end;
	uint64_t lsda; /* where its table of landing pads lies; 0: it has none */
};

#define PLAN_LSDA_UNREADABLE UINT64_MAX /* it has one, nobody knows where */

struct plan_text {
	uint64_t addr; /* virtual address of bytes[0] */
	const uint8_t *bytes;
	size_t size;
};

/* What the planner sees of one file. The caller keeps all of it alive. */
struct plan_image {
	enum plan_arch arch;
	const struct plan_text *texts; /* executable segments, sorted, not overlapping */
	size_t text_cnt;
	const uint64_t
		*starts; /* addresses at which code symbols begin (all tables), without
				   those that plan_name_is_cold() tells; sorted, unique */
	size_t start_cnt;
	const struct plan_fde *fdes; /* .eh_frame, sorted by start; 0 may be left out */
	size_t fde_cnt;
	const struct plan_text *segments; /* all that is loaded: jump tables and landing
					     pads are read there; in any order */
	size_t segment_cnt;
};

/*
 * Whether a symbol is a compiler's name for a cold part of a function (NAME.cold,
 * NAME.cold.N, NAME.__part.N): such a symbol begins no function.
 */
bool plan_name_is_cold(const char *name);

#endif
