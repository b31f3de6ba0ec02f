// SPDX-License-Identifier: BSD-2-Clause
// Fuzzing what is made of .eh_frame: hostile files must end in rows that a program can search.
#include "unwind/unwind.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int make_file(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	return TAKE_FD(fd);
}

/* Sorted, each place once, no two neighbours alike, and nothing said that is not understood. */
static void check_rows(const struct unwind_rows *r)
{
	for (size_t i = 0; i < r->cnt; i++) {
		const struct fsn_unwind_row *row = &r->rows[i];

		if (row->how > FSN_UNWIND_LOST)
			abort();
		if (row->how != FSN_UNWIND_SP && row->how != FSN_UNWIND_FP && row->fp)
			abort();
		if (i && (row->offset <= row[-1].offset ||
				 (row->how == row[-1].how && row->fp == row[-1].fp &&
					 row->cfa == row[-1].cfa)))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_unwind_rows_ struct unwind_rows rows = {};
	_cleanup_elf_file_ struct elf_file *f = NULL;

	if (elf_file_open_fd(make_file(data, size), "fuzz", -1, "/nowhere", &f, NULL))
		return 0;
	if (!unwind_rows_read(f, &rows, NULL))
		check_rows(&rows);
	return 0;
}
