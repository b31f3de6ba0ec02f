/* SPDX-License-Identifier: BSD-2-Clause */
/* bpf/cfi.bpf.h in user space, on a file in memory of which some pages may be missing. */
#ifndef FUNCSNOOP_TESTS_CFI_H
#define FUNCSNOOP_TESTS_CFI_H

#include <linux/types.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef __noinline
#define __noinline __attribute__((noinline, unused)) static
#endif
#undef __always_inline
#define __always_inline inline __attribute__((always_inline, unused))

#define fsn_cfi true

struct file_pages {
	const uint8_t *file;
	uint64_t size;
	const uint8_t *missing_map; /* a byte for each page, 1: not in memory; or NULL */
	uint64_t missing;           /* offset that was not there */
	uint64_t copies;
};

/* The page cache has zeros after the end of the file in its last page. */
static inline int pages_copy(struct file_pages *p, uint64_t off, void *to, uint64_t n)
{
	uint64_t there;

	p->copies++;
	if ((off & 4095) + n > 4096)
		abort();
	if (off >= p->size || (p->missing_map && p->missing_map[off >> 12])) {
		p->missing = off;
		return -1;
	}
	there = n < p->size - off ? n : p->size - off;
	memset(to, 0, n);
	memcpy(to, p->file + off, there);
	return 0;
}

#include "../bpf/cfi.bpf.h"

#define CFI_STEPS_MAX 1024 /* of one row, in any file */

/*
 * The row of @off as a word, as bpf/unwind.bpf.h makes it: CFI_OK, or why there is none. Aborts on
 * a loop without an end. .pages of @c is set; .file is kept for the next.
 */
static inline enum cfi_why cfi_row_at(struct cfi *c, uint64_t off, uint64_t *ret_row)
{
	bool known = c->file.state == CFI_FILE_READ && off - c->file.start < c->file.end - c->file.start;

	c->off = off;
	c->why = CFI_OK;
	c->step = known ? CFI_SEARCHES : CFI_ELF;
	for (int i = 0; c->step != CFI_MADE && c->step != CFI_FAILED; i++) {
		if (i == CFI_STEPS_MAX || c->step == CFI_IDLE)
			abort();
		cfi_run(c);
		cfi_step(c);
	}
	*ret_row = c->step == CFI_MADE ? c->row : 0;
	return c->step == CFI_MADE ? CFI_OK : c->why;
}

#endif
