// SPDX-License-Identifier: BSD-2-Clause
// Fuzzes the rows that the BPF programs make: for any file this ends, and each row is a valid one.
#include "../cfi.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A row says nothing that a walk does not understand. */
static void check_row(uint64_t row)
{
	uint64_t how = row >> 32 & 255;

	if (how > FSN_UNWIND_LOST || (uint32_t)row)
		abort();
	if (how != FSN_UNWIND_SP && how != FSN_UNWIND_FP && row >> 40 & 255)
		abort();
}

/* The first bytes say which pages are missing. A file is asked twice: the second time it is known. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t missing[64];
	static struct cfi c;
	uint64_t row;

	if (size < 72 || size - 8 > sizeof(missing) * 4096)
		return 0;
	for (size_t i = 0; i < sizeof(missing); i++)
		missing[i] = data[i / 8] >> i % 8 & 1;
	memset(&c, 0, sizeof(c));
	c.pages = (struct file_pages) { data + 8, size - 8, missing, 0, 0 };
	for (uint64_t i = 0; i < 64; i++)
		if (!cfi_row_at(&c, (size - 8) * i / 32 + i % 3, &row))
			check_row(row);
	return 0;
}
