// SPDX-License-Identifier: BSD-2-Clause
// Whether a program has code that goes to another stack.
#include <errno.h>

#include "internal.h"

static void cleanup_decoder(struct insn_decoder **dec)
{
	insn_close(*dec);
}

static size_t zeros(const uint8_t *bytes, size_t len)
{
	size_t cnt = 0;

	while (cnt < len && !bytes[cnt])
		cnt++;
	return cnt;
}

/* Decodes [@addr, @end) of @t; false when an instruction goes elsewhere, or is none. */
static bool part_stays(const struct plan_image *img, struct insn_decoder *dec,
	const struct plan_text *t, uint64_t addr, uint64_t end)
{
	bool goes_on = false;

	while (addr < end) {
		const uint8_t *bytes = t->bytes + (addr - t->addr);
		size_t padding = zeros(bytes, end - addr);
		struct insn insn;

		/* between sections lie zeros; a single one, too, where nothing comes from above */
		if (padding > 1 || (padding && !goes_on)) {
			addr += padding;
			continue;
		}
		if (!insn_decode(dec, bytes, end - addr, addr, &insn) ||
			insn_switches_stack(img->arch, &insn, bytes, end - addr))
			return false;
		goes_on = insn.flow == INSN_PLAIN || insn.flow == INSN_JCC ||
			insn.flow == INSN_CALL;
		addr += insn.len;
	}
	return true;
}

bool plan_stays_on_stack(const struct plan_image *img, size_t max_bytes)
{
	struct insn_decoder *dec __cleanup(cleanup_decoder) = NULL;
	size_t bytes = 0;
	struct err err;

	for (size_t i = 0; i < img->text_cnt; i++)
		bytes += img->texts[i].size;
	if (bytes > max_bytes || insn_open(img->arch, &dec, &err))
		return false;
	for (size_t i = 0; i < img->text_cnt; i++) {
		const struct plan_text *t = &img->texts[i];
		uint64_t addr = t->addr, end = addr + t->size;

		/* what is told of the starts of code keeps the decoder in step */
		while (addr < end) {
			uint64_t next = image_next_start(img, addr);

			if (next > end)
				next = end;
			if (!part_stays(img, dec, t, addr, next))
				return false;
			addr = next;
		}
	}
	return true;
}
