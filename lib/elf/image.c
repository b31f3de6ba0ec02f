// SPDX-License-Identifier: BSD-2-Clause
// What the planner sees of a file: its code, where code begins, its frames.
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "internal.h"

/* Code sections this near are one text: only alignment lies between them. */
#define TEXT_GAP 64

static void add_text(struct elf_file *f, uint64_t addr, const uint8_t *bytes, size_t size)
{
	f->texts = array_grow(f->texts, f->text_cnt, sizeof(*f->texts));
	f->texts[f->text_cnt++] =
		(struct plan_text) { .addr = addr, .bytes = bytes, .size = size };
}

/* Executable sections, as far as a segment has them at that address with those bytes. */
static void section_texts(struct elf_file *f)
{
	Elf_Scn *scn = NULL;
	uint64_t offset;
	GElf_Shdr sh;
	size_t left;

	while ((scn = elf_nextscn(f->mem.elf, scn))) {
		const uint8_t *bytes;

		if (!gelf_getshdr(scn, &sh) || !(sh.sh_flags & SHF_EXECINSTR) ||
			!(sh.sh_flags & SHF_ALLOC) || !elf_mem_bytes(&f->mem, &sh))
			continue;
		if (elf_file_addr_to_offset(f, sh.sh_addr, &offset) ||
			offset != sh.sh_offset)
			continue;
		bytes = elf_file_bytes(f, sh.sh_addr, &left);
		if (bytes != f->mem.bytes + offset)
			continue; /* segments overlap */
		if (left > sh.sh_size)
			left = sh.sh_size;
		add_text(f, sh.sh_addr, bytes, left);
	}
}

static void segment_texts(struct elf_file *f)
{
	for (size_t i = 0; i < f->segment_cnt; i++) {
		const struct elf_segment *s = &f->segments[i];

		if (s->exec)
			add_text(f, s->addr, f->mem.bytes + s->offset, s->size);
	}
}

static int by_addr(const void *a, const void *b)
{
	const struct plan_text *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* Sorts, joins neighbours, and cuts what overlaps. */
static void tidy_texts(struct elf_file *f)
{
	size_t kept = 0;

	if (f->text_cnt)
		qsort(f->texts, f->text_cnt, sizeof(*f->texts), by_addr);
	for (size_t i = 0; i < f->text_cnt; i++) {
		struct plan_text t = f->texts[i];
		struct plan_text *last = kept ? &f->texts[kept - 1] : NULL;
		uint64_t end = last ? last->addr + last->size : 0;

		if (last && t.addr < end) {
			if (t.addr + t.size <= end)
				continue;
			t.bytes += end - t.addr;
			t.size -= end - t.addr;
			t.addr = end;
		}
		if (last && t.addr - end <= TEXT_GAP &&
			t.bytes - last->bytes == (ptrdiff_t)(t.addr - last->addr)) {
			last->size = t.addr + t.size - last->addr;
			continue;
		}
		f->texts[kept++] = t;
	}
	f->text_cnt = kept;
}

static int compare_u64(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Whether all names of a symbol's code say that it is part of another function. */
static bool is_cold(const struct elf_func *func)
{
	for (size_t i = 0; i < func->name_cnt; i++)
		if (!plan_name_is_cold(func->names[i].name))
			return false;
	return true;
}

/* Functions are sorted already; the nameless ones are few. */
static void collect_starts(struct elf_file *f)
{
	size_t i = 0, j = 0;
	uint64_t addr, offset;

	f->starts = xmalloc((f->func_cnt + f->nameless_cnt + 1) * sizeof(*f->starts));
	if (f->nameless_cnt)
		qsort(f->nameless, f->nameless_cnt, sizeof(*f->nameless), compare_u64);
	while (i < f->func_cnt || j < f->nameless_cnt) {
		if (j >= f->nameless_cnt ||
			(i < f->func_cnt && f->funcs[i].addr <= f->nameless[j])) {
			if (is_cold(&f->funcs[i++]))
				continue;
			addr = f->funcs[i - 1].addr;
		} else {
			addr = f->nameless[j++];
		}
		if (elf_file_addr_to_offset(f, addr, &offset))
			continue;
		if (!f->start_cnt || f->starts[f->start_cnt - 1] != addr)
			f->starts[f->start_cnt++] = addr;
	}
}

static void collect_loaded(struct elf_file *f)
{
	f->loaded = xcalloc(f->segment_cnt + 1, sizeof(*f->loaded));
	for (size_t i = 0; i < f->segment_cnt; i++)
		f->loaded[i] = (struct plan_text) {
			.addr = f->segments[i].addr,
			.bytes = f->mem.bytes + f->segments[i].offset,
			.size = f->segments[i].size,
		};
}

static void image_drop(struct elf_file *f)
{
	free(TAKE_PTR(f->texts));
	free(TAKE_PTR(f->starts));
	free(TAKE_PTR(f->fdes));
	free(TAKE_PTR(f->slots));
	free(TAKE_PTR(f->loaded));
	f->text_cnt = f->start_cnt = f->fde_cnt = f->slot_cnt = 0;
}

static void image_make(struct elf_file *f)
{
	section_texts(f);
	if (!f->text_cnt)
		segment_texts(f);
	collect_starts(f);
	collect_loaded(f);
	tidy_texts(f);
	elf_dynamic_slots(f);
	elf_frame_read(f);
}

int elf_file_image(struct elf_file *f, struct plan_image *ret_image, struct err *err)
{
	const struct elf_func *funcs;
	size_t cnt;
	int ret;

	ret = elf_file_funcs(f, &funcs, &cnt, err);
	if (ret)
		return ret;
	if (!f->has_image) {
		image_make(f);
		ret = elf_file_check(f, err);
		if (ret) {
			image_drop(f);
			return ret;
		}
		f->has_image = true;
	}
	*ret_image = (struct plan_image) {
		.arch = f->info.arch,
		.entry = f->info.executable ? f->info.entry : 0,
		.texts = f->texts,
		.text_cnt = f->text_cnt,
		.starts = f->starts,
		.start_cnt = f->start_cnt,
		.fdes = f->fdes,
		.fde_cnt = f->fde_cnt,
		.slots = f->slots,
		.slot_cnt = f->slot_cnt,
		.segments = f->loaded,
		.segment_cnt = f->segment_cnt,
	};
	return 0;
}

/* ".N.M" and so on up to the end */
static bool only_numbers(const char *s)
{
	while (*s == '.') {
		if (!isdigit((unsigned char)s[1]))
			return false;
		for (s++; isdigit((unsigned char)*s); s++)
			;
	}
	return *s == '\0';
}

bool plan_name_is_cold(const char *name)
{
	static const char *const marks[] = { ".cold", ".__part" };

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
		const char *at = name;

		while ((at = strstr(at, marks[i]))) {
			at += strlen(marks[i]);
			if (only_numbers(at))
				return true;
		}
	}
	return false;
}
