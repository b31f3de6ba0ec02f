// SPDX-License-Identifier: BSD-2-Clause
// Numbers and pointers as .eh_frame and .gcc_except_table have them.
#include <string.h>

#include "elf/eh_read.h"

uint64_t eh_read_bytes(struct eh_reader *r, size_t n)
{
	uint64_t v = 0;

	if ((size_t)(r->end - r->p) < n) {
		r->bad = true;
		r->p = r->end;
		return 0;
	}
	memcpy(&v, r->p, n);
	r->p += n;
	return v;
}

uint64_t eh_read_leb(struct eh_reader *r, bool is_signed)
{
	unsigned int shift = 0;
	uint64_t v = 0;
	uint8_t b;

	do {
		b = eh_read_bytes(r, 1);
		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		shift += 7;
		r->bad |= shift > 70;
	} while ((b & 0x80) && !r->bad);
	if (is_signed && shift < 64 && (b & 0x40))
		v |= ~0ull << shift;
	return v;
}

uint64_t eh_read_value(struct eh_reader *r, uint8_t format)
{
	switch (format) {
	case PE_ULEB128:
		return eh_read_leb(r, false);
	case PE_SLEB128:
		return eh_read_leb(r, true);
	case PE_UDATA2:
		return eh_read_bytes(r, 2);
	case PE_SDATA2:
		return (int64_t)(int16_t)eh_read_bytes(r, 2);
	case PE_UDATA4:
		return eh_read_bytes(r, 4);
	case PE_SDATA4:
		return (int64_t)(int32_t)eh_read_bytes(r, 4);
	case PE_ABSPTR:
	case PE_UDATA8:
	case PE_SDATA8:
		return eh_read_bytes(r, 8);
	default:
		r->bad = true;
		return 0;
	}
}

uint64_t eh_read_pointer(struct eh_reader *r, uint8_t encoding)
{
	uint64_t here = r->addr + (r->p - r->base);
	uint64_t v = eh_read_value(r, encoding & 0x0f);

	switch (encoding & 0x70) {
	case 0:
		return v;
	case PE_PCREL:
		return v + here;
	default: /* relative to text or data: of object files, not of linked ones */
		r->bad = true;
		return 0;
	}
}
