/* SPDX-License-Identifier: BSD-2-Clause */
/* Unwind tables of files: .eh_frame as rows that BPF programs can search. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "elf/elf_file.h"
#include "shared/words.h"

struct unwind_rows {
	struct fsn_unwind_row *rows; /* sorted by offset, no two neighbours alike */
	size_t cnt;
};

/*
 * Reads the rows of all code of @f that .eh_frame describes, with FSN_UNWIND_NONE between them. On
 * architectures other than x86-64 there are none, because frame pointers are used. A hostile
 * .eh_frame results in arbitrary rows, within limits of memory and time.
 *
 * Returns 0, or -EFBIG beyond these limits. The caller frees the rows with
 * unwind_rows_done(), also after an error.
 */
_must_check_ int unwind_rows_read(
	struct elf_file *f, struct unwind_rows *ret_rows, struct err *err);
void unwind_rows_done(struct unwind_rows *r);
#define _cleanup_unwind_rows_ __cleanup(unwind_rows_done)
