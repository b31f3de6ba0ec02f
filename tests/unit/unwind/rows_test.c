// SPDX-License-Identifier: BSD-2-Clause
// Unwind rows of real files, compared with libdw at both ends of each row; and of damaged files.
#include "unwind/unwind.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tap.h"

#define REG_BP 6
#define REG_SP 7

/* libdw's rule for register @reg: RULE_SAME, or its offset from CFA; -1: another rule. */
#define SAME  (-2)
#define UNDEF (-3)
#define ODD   (-1)
static int64_t dw_reg(Dwarf_Frame *frame, int reg)
{
	Dwarf_Op mem[3], *ops;
	size_t cnt;

	if (dwarf_frame_register(frame, reg, mem, &ops, &cnt))
		return ODD;
	if (!cnt)
		return ops ? UNDEF : SAME;
	if (cnt == 1 && ops[0].atom == DW_OP_call_frame_cfa)
		return 0;
	if (cnt == 2 && ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom == DW_OP_plus_uconst)
		return (int64_t)ops[1].number;
	return ODD;
}

/* CFA of linker stubs: "sp + 8 + ((pc & 15) >= N) << 3" */
static int64_t stub_cfa(const Dwarf_Op *ops, uint64_t addr)
{
	return 8 + ((int64_t)(addr & 15) >= ops[4].atom - DW_OP_lit0) * 8;
}

/* Whether @row is what @frame says at @addr, as far as it can be followed. */
static bool agrees(const struct fsn_unwind_row *row, Dwarf_Frame *frame, uint64_t addr)
{
	Dwarf_Op *ops;
	bool signal = false;
	int ret = dwarf_frame_info(frame, NULL, NULL, &signal);
	int64_t ra = dw_reg(frame, ret), fp = dw_reg(frame, REG_BP);
	size_t cnt;

	if (signal || row->how == FSN_UNWIND_SIGNAL)
		return signal && row->how == FSN_UNWIND_SIGNAL;
	if (ra == UNDEF || row->how == FSN_UNWIND_END)
		return ra == UNDEF && row->how == FSN_UNWIND_END;
	if (ra != -8 || dwarf_frame_cfa(frame, &ops, &cnt))
		return row->how == FSN_UNWIND_LOST;
	if (cnt == 2 && ops[0].atom == DW_OP_breg6 && ops[1].atom == DW_OP_deref)
		return row->how == FSN_UNWIND_LOST ||
		       (row->how == FSN_UNWIND_DEREF && -8 * row->cfa == (int64_t)ops[0].number);
	if (cnt == 9 && ops[0].atom == DW_OP_breg7 && ops[1].atom == DW_OP_breg16)
		return row->how == FSN_UNWIND_SP && !row->fp && 8 * (int64_t)row->cfa == stub_cfa(ops, addr);
	if (cnt != 1 || ops[0].atom != DW_OP_bregx ||
		(ops[0].number != REG_BP && ops[0].number != REG_SP))
		return row->how == FSN_UNWIND_LOST;
	/* A frame larger than a row can say: glibc 2.41's dynamic linker has one of 514 KiB. */
	if ((int64_t)ops[0].number2 > 8 * (int64_t)UINT16_MAX)
		return row->how == FSN_UNWIND_LOST;
	if (row->how != (ops[0].number == REG_SP ? FSN_UNWIND_SP : FSN_UNWIND_FP))
		return false;
	if (8 * (int64_t)row->cfa != (int64_t)ops[0].number2)
		return false;
	return row->fp ? fp == 8 * row->fp : fp == SAME || fp == UNDEF;
}

struct truth {
	size_t rows, wrong, lost;
};

/* @addr of a file that libdw has as @cfi, and the row that holds there, behind which is another. */
static bool is_true(Dwarf_CFI *cfi, uint64_t addr, const struct fsn_unwind_row *row)
{
	Dwarf_Frame *frame = NULL;
	bool good;

	/* Padding between functions has the same rows as the end of the table. */
	if (dwarf_cfi_addrframe(cfi, addr, &frame))
		return row->how == FSN_UNWIND_END ||
			(row->how == FSN_UNWIND_NONE && row[1].offset - row->offset >= 16);
	good = row->how != FSN_UNWIND_NONE && agrees(row, frame, addr);
	free(frame);
	return good;
}

static void compare(struct elf_file *f, const struct unwind_rows *rows, Dwarf_CFI *cfi,
	struct truth *ret)
{
	for (size_t i = 0; i + 1 < rows->cnt; i++) {
		const struct fsn_unwind_row *row = &rows->rows[i];
		uint64_t first, last;

		ret->rows++;
		ret->lost += row->how == FSN_UNWIND_LOST;
		if (elf_file_offset_to_addr(f, row->offset, &first) ||
			elf_file_offset_to_addr(f, row[1].offset - 1, &last))
			continue; /* after the end of a segment */
		if (is_true(cfi, first, row) && is_true(cfi, last, row))
			continue;
		if (ret->wrong++ < 5)
			printf("# row %zu: offset %#x how %u cfa %u fp %d\n", i, row->offset,
				row->how, row->cfa, row->fp);
	}
}

static void test_file(const char *path)
{
	_cleanup_elf_file_ struct elf_file *f = NULL;
	_cleanup_unwind_rows_ struct unwind_rows rows = {};
	const char *base = strrchr(path, '/') + 1;
	struct truth truth = {};
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct err err;
	Dwarf_CFI *cfi;
	Elf *elf;

	if (fd < 0 || elf_file_open(path, &f, &err) || unwind_rows_read(f, &rows, &err)) {
		ok(false, "%s has rows", base);
		close(fd);
		return;
	}
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	cfi = dwarf_getcfi_elf(elf);
	if (cfi)
		compare(f, &rows, cfi, &truth);
	printf("# %s: %zu rows, %zu not to be followed\n", base, truth.rows, truth.lost);
	ok(cfi && truth.rows, "%s has rows", base);
	is_int((int64_t)truth.wrong, 0, "each is what libdw says at both of its ends");
	ok(truth.lost * 50 <= truth.rows, "one of fifty at most is not to be followed");
	dwarf_cfi_end(cfi);
	elf_end(elf);
	close(fd);
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

/* Rows in order, none twice, of a file whose .eh_frame is anything. */
static bool is_sound(const struct unwind_rows *rows)
{
	for (size_t i = 0; i + 1 < rows->cnt; i++)
		if (rows->rows[i].offset >= rows->rows[i + 1].offset)
			return false;
	return true;
}

/* Bytes of .eh_frame of @image, which is a copy of a file of @size bytes. */
static bool find_section(char *image, size_t size, char **ret_at, size_t *ret_size)
{
	Elf *elf = elf_memory(image, size);
	Elf_Scn *scn = NULL;
	size_t names;

	if (!elf || elf_getshdrstrndx(elf, &names))
		return false;
	while ((scn = elf_nextscn(elf, scn))) {
		const Elf64_Shdr *sh = elf64_getshdr(scn);
		const char *name = elf_strptr(elf, names, sh->sh_name);

		if (name && !strcmp(name, ".eh_frame")) {
			*ret_at = image + sh->sh_offset;
			*ret_size = sh->sh_size;
		}
	}
	elf_end(elf);
	return *ret_size;
}

static void test_damaged(const char *path)
{
	size_t size = 0, eh_size = 0, unsound = 0, read = 0;
	_cleanup_free_ char *image = NULL, *whole = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint32_t seed = 1;
	char *eh = NULL;

	size = (size_t)lseek(fd, 0, SEEK_END);
	image = malloc(size);
	whole = malloc(size);
	if (pread(fd, whole, size, 0) != (ssize_t)size)
		size = 0;
	close(fd);
	memcpy(image, whole, size);
	ok(size && find_section(image, size, &eh, &eh_size), "a file can be damaged");
	for (int n = 0; eh_size && n < 100; n++) {
		_cleanup_unwind_rows_ struct unwind_rows rows = {};
		_cleanup_elf_file_ struct elf_file *f = NULL;
		int mem = memfd_create("damaged", MFD_CLOEXEC);

		memcpy(image, whole, size);
		for (int i = 0; i < 200; i++) {
			seed = seed * 1664525 + 1013904223;
			eh[(seed >> 8) % eh_size] = (char)(seed >> 3);
		}
		if (write(mem, image, size) != (ssize_t)size ||
			elf_file_open_fd(mem, "damaged", -1, NULL, &f, NULL))
			continue;
		read += !unwind_rows_read(f, &rows, NULL);
		unsound += !is_sound(&rows);
	}
	is_int((int64_t)read, 100, "a damaged .eh_frame gives what can be read of it");
	is_int((int64_t)unsound, 0, "whose rows are in order");
}

int main(void)
{
	size_t cnt = 0;

	elf_version(EV_CURRENT);
#if !defined(__x86_64__)
	printf("1..0 # SKIP frames are followed by frame pointers here\n");
	return 0;
#endif
	test_file("/proc/self/exe");
	dl_iterate_phdr(test_object, &cnt);
	ok(cnt > 3, "the libraries of this program were looked at");
	test_damaged("/proc/self/exe");
	return tap_done();
}
