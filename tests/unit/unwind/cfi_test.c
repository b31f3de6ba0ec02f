// SPDX-License-Identifier: BSD-2-Clause
// The rows that the BPF programs make of .eh_frame, compared with the tables of the same files.
#include "unwind/unwind.h"

#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../cfi.h"
#include "tap.h"

struct file {
	const char *path;
	const uint8_t *bytes;
	size_t size;
	struct elf_file *elf;
	struct unwind_rows rows;
};

static void file_done(struct file *f)
{
	unwind_rows_done(&f->rows);
	elf_file_free(f->elf);
	if (f->bytes)
		munmap((void *)f->bytes, f->size);
}

/* 0, 1: there is nothing to be compared, -1: failed. */
static int file_open(const char *path, struct file *f)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *bytes;

	f->path = path;
	if (fd < 0 || fstat(fd, &st) || st.st_size < 64) {
		close(fd);
		return 1;
	}
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED || memcmp(bytes, "\177ELF\2", 5)) {
		close(fd);
		return 1;
	}
	f->bytes = bytes;
	f->size = (size_t)st.st_size;
	if (elf_file_open_fd(fd, path, -1, NULL, &f->elf, NULL))
		return 1;
	return unwind_rows_read(f->elf, &f->rows, NULL) ? -1 : !f->rows.cnt;
}

struct truth {
	uint64_t places, wrong, none, missing, too_long, other;
};

/* The table's @row as the BPF programs make it: its upper half, without FSN_UNWIND_PYTHON. */
static uint64_t row_word(const struct fsn_unwind_row *row)
{
	uint64_t word;

	memcpy(&word, row, sizeof(word));
	return word >> 32 & ~(uint64_t)FSN_UNWIND_PYTHON;
}

static void compare_at(const struct file *f, struct cfi *c, size_t i, uint64_t off, struct truth *t)
{
	uint64_t row, want = row_word(&f->rows.rows[i]);
	enum cfi_why why = cfi_row_at(c, off, &row);

	t->places++;
	if (why == CFI_NO_HDR)
		t->none += want != FSN_UNWIND_NONE;
	else if (why == CFI_NO_PAGE)
		t->missing++;
	else if (why == CFI_LONG)
		t->too_long++;
	else if (why)
		t->other++;
	else if (row >> 32 != want && t->wrong++ < 5)
		printf("# %s: %#llx is %#llx, by the table %#llx\n", f->path, (unsigned long long)off,
			(unsigned long long)(row >> 32), (unsigned long long)want);
}

/* Both ends of each row, and its middle. */
static void compare(const struct file *f, const uint8_t *missing, struct truth *t)
{
	struct cfi *c = calloc(1, sizeof(*c));

	for (size_t i = 0; c && i < f->rows.cnt; i++) {
		uint64_t first = f->rows.rows[i].offset;
		uint64_t last = i + 1 < f->rows.cnt ? f->rows.rows[i + 1].offset - 1ULL : first;

		c->pages = (struct file_pages) { f->bytes, f->size, missing, 0, 0 };
		compare_at(f, c, i, first, t);
		compare_at(f, c, i, last, t);
		compare_at(f, c, i, first + (last - first) / 2, t);
	}
	free(c);
}

static void test_file(const char *path)
{
	__cleanup(file_done) struct file f = {};
	const char *base = strrchr(path, '/') + 1;
	struct truth t = {};

	if (file_open(path, &f)) {
		ok(false, "%s has rows", base);
		return;
	}
	compare(&f, NULL, &t);
	printf("# %s: %llu places, %llu of functions that are too long\n", base,
		(unsigned long long)t.places, (unsigned long long)t.too_long);
	ok(!(t.wrong + t.none + t.missing + t.other), "%s: rows are the table's", base);
	ok(t.too_long * 100 <= t.places, "%s: one in a hundred at most is left out", base);
}

static int test_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	size_t *cnt = arg;

	if (info->dlpi_name[0] == '/') {
		test_file(info->dlpi_name);
		++*cnt;
	}
	return 0;
}

/* A row is right or is not made, for any set of missing pages. */
static void test_missing(const char *path)
{
	__cleanup(file_done) struct file f = {};
	_cleanup_free_ uint8_t *missing = NULL;
	struct truth t = {};
	uint32_t seed = 1;

	if (file_open(path, &f)) {
		ok(false, "a file with missing pages is opened");
		return;
	}
	missing = calloc(f.size / 4096 + 2, 1);
	for (int n = 0; missing && n < 8; n++) {
		for (size_t i = 0; i <= f.size / 4096; i++) {
			seed = seed * 1664525 + 1013904223;
			missing[i] = (seed >> 16) % 8 == 0;
		}
		compare(&f, missing, &t);
	}
	ok(t.missing > 0 && t.missing < t.places, "missing pages are found missing");
	is_int((int64_t)t.wrong, 0, "no row is wrong where pages are missing");
	is_int((int64_t)t.other, 0, "and a missing page is no damage");
}

/* A damaged file ends in some way: cfi_row_at() aborts otherwise. */
static void test_damaged(const char *path)
{
	__cleanup(file_done) struct file f = {};
	_cleanup_free_ uint8_t *image = NULL;
	_cleanup_free_ struct cfi *c = calloc(1, sizeof(*c));
	uint64_t row, ends[CFI_LONG + 1] = {}, at, hdr = 0;
	uint32_t seed = 1;

	if (file_open(path, &f) || !(image = malloc(f.size)) || !c) {
		ok(false, "a file is damaged");
		return;
	}
	c->pages = (struct file_pages) { f.bytes, f.size, NULL, 0, 0 };
	(void)cfi_row_at(c, f.rows.rows[0].offset, &row);
	hdr = c->file.hdr;
	for (int n = 0; n < 50; n++) {
		memcpy(image, f.bytes, f.size);
		for (int i = 0; i < 2000; i++) {
			seed = seed * 1664525 + 1013904223;
			at = (seed >> 4) % f.size;
			image[at < 4096 ? hdr + at % (f.size - hdr) : at] = (uint8_t)(seed >> 3);
		}
		memset(c, 0, sizeof(*c));
		c->pages = (struct file_pages) { image, f.size, NULL, 0, 0 };
		for (size_t i = 0; i < f.rows.cnt; i++)
			ends[cfi_row_at(c, f.rows.rows[i].offset, &row)]++;
	}
	ok(ends[CFI_OK] && ends[CFI_BAD], "damaged frames are found damaged");
}

int main(int argc, char **argv)
{
	size_t cnt = 0;

#if !defined(__x86_64__)
	printf("1..0 # SKIP frames are followed by frame pointers here\n");
	return 0;
#endif
	for (int i = 1; i < argc; i++) {
		__cleanup(file_done) struct file f = {};
		struct truth t = {};

		if (file_open(argv[i], &f))
			continue;
		compare(&f, NULL, &t);
		printf("%s %llu wrong %llu no_hdr %llu missing %llu long %llu other %llu\n", argv[i],
			(unsigned long long)t.places, (unsigned long long)t.wrong,
			(unsigned long long)t.none, (unsigned long long)t.missing,
			(unsigned long long)t.too_long, (unsigned long long)t.other);
	}
	if (argc > 1)
		return 0;
	test_file("/proc/self/exe");
	dl_iterate_phdr(test_object, &cnt);
	ok(cnt > 3, "the libraries of this program were looked at");
	test_missing("/proc/self/exe");
	test_damaged("/proc/self/exe");
	return tap_done();
}
