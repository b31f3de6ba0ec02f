// SPDX-License-Identifier: BSD-2-Clause
// Unwind rows of many files read at once equal those of each file, and progress is reported.
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "attach/internal.h"

#include "tap.h"

#define FILES_MAX 64

struct files {
	struct stack_file file[FILES_MAX];
	size_t cnt;
	uint64_t bytes;
};

static int add_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct files *f = arg;
	struct stack_file *file = &f->file[f->cnt];

	if (info->dlpi_name[0] != '/' || f->cnt == FILES_MAX ||
		elf_file_open(info->dlpi_name, &file->owned, NULL))
		return 0;
	file->elf = file->owned;
	file->path = strdup(info->dlpi_name);
	file->known = true;
	f->bytes += elf_file_info(file->elf)->size;
	f->cnt++;
	return 0;
}

struct told {
	uint64_t bytes, total;
	bool backwards;
};

static void on_read(uint64_t bytes, uint64_t total, void *arg)
{
	struct told *t = arg;

	t->backwards |= bytes < t->bytes || bytes > total;
	t->bytes = bytes;
	t->total = total;
}

static bool as_alone(const struct stack_file *file)
{
	_cleanup_unwind_rows_ struct unwind_rows rows = {};

	return !unwind_rows_read(file->elf, &rows, NULL) && rows.cnt == file->rows.cnt &&
		!memcmp(rows.rows, file->rows.rows, rows.cnt * sizeof(*rows.rows));
}

int main(void)
{
	struct files *f = calloc(1, sizeof(*f));
	struct told told = {};
	size_t alike = 0, read = 0, unknown;

	if (!f)
		return 1;
	dl_iterate_phdr(add_object, f);
	ok(f->cnt > 2, "libraries of this program are looked at");
	/* The kernel could not say how walks know it. */
	unknown = f->cnt - 1;
	f->file[unknown].known = false;
	f->bytes -= elf_file_info(f->file[unknown].elf)->size;
	stack_files_read(f->file, f->cnt, on_read, &told);
	for (size_t i = 0; i < f->cnt; i++) {
		read += f->file[i].read;
		alike += f->file[i].read && !f->file[i].code && as_alone(&f->file[i]);
	}
	is_int((int64_t)read, (int64_t)f->cnt - 1, "all are read that walks know");
	is_int((int64_t)alike, (int64_t)read, "and have the rows that each has alone");
	is_int((int64_t)told.total, (int64_t)f->bytes, "how much there is to read is told");
	is_int((int64_t)told.bytes, (int64_t)f->bytes, "up to the last byte");
	ok(!told.backwards, "and never less than before");
	for (size_t i = 0; i < f->cnt; i++)
		stack_file_done(&f->file[i]);
	free(f);
	return tap_done();
}
