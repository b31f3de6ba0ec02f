// SPDX-License-Identifier: BSD-2-Clause
// Fuzzing the ELF reader: a hostile file must end in an error or in sound functions.
#include "elf/elf_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The rest of a mapped file's last page is readable, so no file ends inside a page. */
#define PAGE 4096

static int make_file(const uint8_t *data, size_t size)
{
	_cleanup_close_ int fd = memfd_create("fuzz", MFD_CLOEXEC);
	size_t whole = (size + PAGE - 1) / PAGE * PAGE;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size || ftruncate(fd, whole) < 0)
		abort();
	return TAKE_FD(fd);
}

static void check_funcs(struct elf_file *f, const struct elf_func *funcs, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		const struct elf_func *fn = &funcs[i];

		if (!fn->name_cnt || (i && fn->addr <= funcs[i - 1].addr))
			abort();
		if (fn->in_code && fn->offset >= elf_file_info(f)->size)
			abort();
		for (uint32_t k = 0; k < fn->name_cnt; k++) {
			const struct elf_name *n = &fn->names[k], *m;

			if (strlen(n->name) != n->len || n->func != i)
				abort();
			m = elf_file_lookup(f, n->name, n->len);
			while (m && m != n)
				m = elf_name_next(f, m);
			if (!m)
				abort();
		}
		if (!elf_file_func_at(f, fn->addr))
			abort();
	}
}

/* Reads every byte; the sum is returned so that the compiler keeps the reads. */
static unsigned int check_image(const struct plan_image *img)
{
	unsigned int sum = 0;

	for (size_t i = 0; i < img->text_cnt; i++) {
		const struct plan_text *t = &img->texts[i];

		if (i && t->addr < t[-1].addr + t[-1].size)
			abort();
		for (size_t k = 0; k < t->size; k++)
			sum += t->bytes[k];
	}
	for (size_t i = 1; i < img->start_cnt; i++) {
		if (img->starts[i - 1] >= img->starts[i])
			abort();
	}
	for (size_t i = 0; i < img->fde_cnt; i++) {
		if (img->fdes[i].start >= img->fdes[i].end ||
			(i && img->fdes[i - 1].start > img->fdes[i].start))
			abort();
	}
	return sum;
}

static void check_probes(const struct elf_file *f)
{
	struct usdt_sites s;

	usdt_sites_read(f, &s);
	for (size_t i = 0; i < s.cnt; i++) {
		const struct usdt_site *site = &s.sites[i];

		if (!*site->provider || !*site->name || site->arg_cnt > USDT_MAX_ARGS ||
			site->offset >= elf_file_info(f)->size ||
			site->semaphore >= elf_file_info(f)->size)
			abort();
	}
	usdt_sites_done(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_elf_file_ struct elf_file *f = NULL;
	const struct elf_func *funcs;
	struct plan_image img;
	struct err err;
	size_t cnt;

	if (elf_file_open_fd(make_file(data, size), "fuzz", -1, "/nowhere", &f, &err))
		return 0;
	if (elf_file_funcs(f, &funcs, &cnt, &err) == 0)
		check_funcs(f, funcs, cnt);
	if (elf_file_image(f, &img, &err) == 0 && check_image(&img) == UINT32_MAX)
		return 0;
	check_probes(f);
	return elf_file_names_symbol(f, "_Unwind_*", &err) > 1;
}
