/* SPDX-License-Identifier: BSD-2-Clause */
/* How stacks are followed through a file's code: .eh_frame as rows that programs can search. */
#ifndef FUNCSNOOP_UNWIND_UNWIND_H
#define FUNCSNOOP_UNWIND_UNWIND_H

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
 * Rows of all code of @f that .eh_frame describes, FSN_UNWIND_NONE between. Of a file of another
 * machine than x86-64, whose frames are found by frame pointers, none. A hostile .eh_frame gives
 * any rows at all, within bounds of memory and time: -EFBIG beyond them, -ENOMEM. End with
 * unwind_rows_done(), also after an error.
 */
_must_check_ int unwind_rows_read(
	struct elf_file *f, struct unwind_rows *ret_rows, struct err *err);
void unwind_rows_done(struct unwind_rows *r);
#define _cleanup_unwind_rows_ __cleanup(unwind_rows_done)

#endif
