// SPDX-License-Identifier: BSD-2-Clause
// ELF files that are wrong, cut or hostile: an error or fewer symbols, never a crash.
#include "elf/elf_file.h"

#include <elf.h>
#include <sys/inotify.h>
#include <sys/mman.h>

#include "scratch.h"
#include "tap.h"

static uint8_t *good;
static size_t good_size;

static void build(void)
{
	static const char source[] = "int f(int a) { return a; }\n"
				     "int g(int a) { return a + 1; }\n"
				     "extern int puts(const char *);\n"
				     "int h(void) { return puts(\"\"); }\n";

	scratch_file("b.c", source, strlen(source));
	scratch_file("b.map", "V1 { global: *; };\n", 19);
	scratch_run("cc -g0 -O1 -fPIC -shared -Wl,-soname,libb.so,--version-script=b.map "
		    "-Wl,--build-id=sha1,--hash-style=both b.c -o libb.so && "
		    "objcopy --add-gnu-debuglink=b.c libb.so");
	good = scratch_read(scratch("libb.so"), &good_size);
}

/* True if all addresses and sizes that the reader returns are within bounds. */
static bool is_sound(struct elf_file *f)
{
	const struct elf_func *funcs;
	struct plan_image img;
	uint64_t offset, sum = 0;
	size_t cnt;

	if (elf_file_funcs(f, &funcs, &cnt, NULL) || elf_file_image(f, &img, NULL))
		return true;
	for (size_t i = 0; i < cnt; i++) {
		if (!funcs[i].name_cnt ||
			strlen(funcs[i].names[0].name) != funcs[i].names[0].len)
			return false;
		if (funcs[i].in_code && funcs[i].offset >= elf_file_info(f)->size)
			return false;
	}
	for (size_t i = 0; i < img.text_cnt; i++) {
		for (size_t k = 0; k < img.texts[i].size; k++)
			sum += img.texts[i].bytes[k];
		if (i &&
			img.texts[i].addr < img.texts[i - 1].addr + img.texts[i - 1].size)
			return false;
	}
	for (size_t i = 0; i < img.fde_cnt; i++) {
		if (img.fdes[i].end <= img.fdes[i].start ||
			elf_file_addr_to_offset(f, img.fdes[i].start, &offset))
			return false;
	}
	/* the sum is used, so that every byte is read */
	return sum != UINT64_MAX && elf_file_names_symbol(f, "f*", NULL) >= 0;
}

/* A file in memory: there are thousands of them, and a disk would be the slow part. */
static int open_bytes(
	const uint8_t *bytes, size_t size, struct elf_file **ret_file, struct err *err)
{
	int fd = memfd_create("try", MFD_CLOEXEC);

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
		scratch_die("memfd");
	return elf_file_open_fd(fd, "try", -1, scratch("."), ret_file, err);
}

/* Opens a file of @size bytes; the error's code and text, or 0. */
static int try_bytes(const uint8_t *bytes, size_t size, bool *ret_sound, struct err *err)
{
	_cleanup_elf_file_ struct elf_file *f = NULL;
	int ret;

	*err = (struct err) { 0 };
	*ret_sound = true;
	ret = open_bytes(bytes, size, &f, err);
	if (!ret)
		*ret_sound = is_sound(f);
	return ret;
}

static void expect(
	const uint8_t *bytes, size_t size, int code, const char *text, const char *what)
{
	struct err err;
	bool sound;
	int ret = try_bytes(bytes, size, &sound, &err);

	if (!ok(ret == code && strstr(err.msg, text), "%s", what))
		printf("# got %d: %s\n", ret, err.msg);
}

static uint8_t *copy_good(void)
{
	uint8_t *bytes = malloc(good_size);

	memcpy(bytes, good, good_size);
	return bytes;
}

static void test_errors(void)
{
	_cleanup_free_ uint8_t *b = copy_good();
	Elf64_Ehdr *eh = (Elf64_Ehdr *)b;
	Elf64_Phdr *ph = (Elf64_Phdr *)(b + eh->e_phoff);
	struct elf_file *f;
	struct err err;

	expect((const uint8_t *)"hello, world, hello", 19, -ENOEXEC, "is not an ELF file",
		"a text is no ELF file");
	expect(b, 0, -ENOEXEC, "is not an ELF file", "an empty file is none");
	expect((const uint8_t *)"/* GNU ld script */ GROUP()", 27, -ENOEXEC,
		"linker script", "a linker script is called so");
	b[EI_CLASS] = ELFCLASS32;
	expect(b, good_size, -ENOEXEC, "32-bit", "a 32-bit file is called so");
	b[EI_CLASS] = ELFCLASS64;
	b[EI_DATA] = ELFDATA2MSB;
	expect(b, good_size, -ENOEXEC, "big-endian", "a big-endian file is called so");
	b[EI_DATA] = ELFDATA2LSB;
	eh->e_machine = EM_RISCV;
	expect(b, good_size, -ENOEXEC, "another machine", "another machine is called so");
	eh->e_machine = ((Elf64_Ehdr *)good)->e_machine;
	eh->e_type = ET_REL;
	expect(b, good_size, -ENOEXEC, "an object file", "an object file is called so");
	eh->e_type = ET_CORE;
	expect(b, good_size, -ENOEXEC, "core dump", "a core dump is called so");
	eh->e_type = ET_DYN;
	expect(b, 60, -EBADMSG, "truncated", "a cut header is called so");
	expect(b, good_size / 2, -EBADMSG, "truncated", "half a file is called so");
	ph[0].p_filesz = good_size;
	ph[0].p_offset = 1;
	expect(b, good_size, -EBADMSG, "truncated", "a segment beyond the end is found");
	is_int(elf_file_open(scratch("none"), &f, &err), -ENOENT, "no file, no entry");
	is_int(elf_file_open(scratch(""), &f, &err), -EINVAL,
		"a folder is no regular file");
	is_int(mkfifo(scratch("fifo"), 0600), 0, "a FIFO is made");
	is_int(elf_file_open(scratch("fifo"), &f, &err), -EINVAL,
		"and is not waited for");
}

static void test_cuts(void)
{
	bool sound, all = true;
	struct err err;

	for (size_t n = 0; n < good_size && all; n += n < 256 ? 1 : 97) {
		try_bytes(good, n, &sound, &err);
		all = sound;
	}
	ok(all, "a file cut anywhere is refused or sound");
}

/* Each aligned word of a region gets values that break things. */
static bool spoil(size_t from, size_t size, size_t step)
{
	static const uint64_t values[] = { 0, 1, 7, SHT_NOBITS, 0x7fffffff, 0xffffffff,
		1ull << 40, INT64_MAX, UINT64_MAX, UINT64_MAX - 4096 };
	_cleanup_free_ uint8_t *b = copy_good();
	struct err err;
	bool sound;

	for (size_t at = from; at + step <= from + size && at + step <= good_size;
		at += step) {
		for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
			memcpy(b + at, &values[i], step);
			try_bytes(b, good_size, &sound, &err);
			if (!sound) {
				printf("# offset %zu, value %#llx\n", at,
					(unsigned long long)values[i]);
				return false;
			}
		}
		memcpy(b + at, good + at, step);
	}
	return true;
}

static void test_spoiled(void)
{
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)good;
	const Elf64_Shdr *sh = (const Elf64_Shdr *)(good + eh->e_shoff);
	const char *names = (const char *)good + sh[eh->e_shstrndx].sh_offset;
	static const char *const sections[] = { ".dynsym", ".dynamic", ".gnu.version",
		".gnu.version_d", ".eh_frame", ".eh_frame_hdr", ".note.gnu.build-id",
		".gnu_debuglink", ".symtab" };

	ok(spoil(0, sizeof(*eh), 2), "spoiled file headers do no harm");
	ok(spoil(eh->e_phoff, eh->e_phnum * sizeof(Elf64_Phdr), 8),
		"spoiled program headers do no harm");
	ok(spoil(eh->e_shoff, eh->e_shnum * sizeof(Elf64_Shdr), 4),
		"spoiled section headers do no harm");
	for (size_t i = 0; i < eh->e_shnum; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(sections); k++) {
			if (strcmp(names + sh[i].sh_name, sections[k]) == 0)
				ok(spoil(sh[i].sh_offset, sh[i].sh_size, 4),
					"a spoiled %s does no harm", sections[k]);
		}
	}
}

/* The same where only .dynamic leads to the tables. */
static void test_spoiled_dynamic(void)
{
	static const char *const sections[] = { ".dynamic", ".dynsym", ".gnu.hash",
		".hash", ".gnu.version", ".gnu.version_d", ".rela.plt", ".rela.dyn" };
	Elf64_Ehdr *eh = (Elf64_Ehdr *)good;
	const Elf64_Shdr *sh = (const Elf64_Shdr *)(good + eh->e_shoff);
	const char *names = (const char *)good + sh[eh->e_shstrndx].sh_offset;
	const Elf64_Ehdr kept = *eh;

	eh->e_shoff = eh->e_shnum = eh->e_shstrndx = 0;
	for (size_t i = 0; i < kept.e_shnum; i++)
		for (size_t k = 0; k < ARRAY_SIZE(sections); k++)
			if (strcmp(names + sh[i].sh_name, sections[k]) == 0)
				ok(spoil(sh[i].sh_offset, sh[i].sh_size, 4),
					"without sections, a spoiled %s does no harm",
					sections[k]);
	*eh = kept;
}

/* Bytes at random, by a fixed sequence. */
static void test_noise(void)
{
	_cleanup_free_ uint8_t *b = copy_good();
	uint64_t seed = 88172645463325252ull;
	bool sound = true;
	struct err err;

	for (int round = 0; round < 2000 && sound; round++) {
		memcpy(b, good, good_size);
		for (int i = 0; i < 1 + round % 16; i++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			b[seed % good_size] = seed >> 40;
		}
		try_bytes(b, good_size, &sound, &err);
	}
	ok(sound, "noise does no harm");
}

/* The symbol at @ndx of .dynsym in a copy. */
static Elf64_Sym *symbol_of(uint8_t *b, size_t ndx)
{
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)b;
	const Elf64_Shdr *sh = (const Elf64_Shdr *)(b + eh->e_shoff);

	while (sh->sh_type != SHT_DYNSYM)
		sh++;
	return (Elf64_Sym *)(b + sh->sh_offset) + ndx;
}

static void test_names(void)
{
	_cleanup_elf_file_ struct elf_file *f = NULL;
	_cleanup_free_ uint8_t *b = copy_good();
	const Elf64_Shdr *sh = (const Elf64_Shdr *)(b + ((Elf64_Ehdr *)b)->e_shoff);
	const struct elf_func *funcs;
	Elf64_Sym *sym = symbol_of(b, 0);
	bool bad = false, nameless = false;
	struct plan_image img;
	uint64_t addr = 0;
	size_t cnt;

	while (sh->sh_type != SHT_DYNSYM)
		sh++;
	for (size_t i = 1; i < sh->sh_size / sizeof(*sym); i++) {
		char *name = (char *)b +
			((Elf64_Shdr *)(b + ((Elf64_Ehdr *)b)->e_shoff))[sh->sh_link]
				.sh_offset +
			sym[i].st_name;

		if (strcmp(name, "h") == 0) {
			name[0] = '\x1b';
			addr = sym[i].st_value;
		}
	}
	scratch_file("esc.so", b, good_size);
	scratch_run("strip esc.so");
	if (elf_file_open(scratch("esc.so"), &f, NULL) ||
		elf_file_funcs(f, &funcs, &cnt, NULL) || elf_file_image(f, &img, NULL))
		return;
	for (size_t i = 0; i < cnt; i++)
		bad |= strchr(funcs[i].names[0].name, '\x1b') != NULL;
	for (size_t i = 0; i < img.start_cnt; i++)
		nameless |= img.starts[i] == addr;
	ok(!bad && cnt == 2, "a name that would steer a terminal is left out");
	ok(addr && nameless, "and its function is still a start of code");
}

static Elf64_Shdr *section_of(uint8_t *b, uint32_t type, size_t *ret_ndx)
{
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)b;
	Elf64_Shdr *sh = (Elf64_Shdr *)(b + eh->e_shoff);
	size_t i = 0;

	while (sh[i].sh_type != type)
		i++;
	*ret_ndx = i;
	return &sh[i];
}

/* The error of reading the functions of a file, or of opening it. */
static int read_funcs(const uint8_t *bytes, size_t size, struct err *err)
{
	_cleanup_elf_file_ struct elf_file *f = NULL;
	const struct elf_func *funcs;
	size_t cnt;

	*err = (struct err) { 0 };
	if (!open_bytes(bytes, size, &f, err))
		return elf_file_funcs(f, &funcs, &cnt, err);
	return err->code;
}

static void expect_funcs(
	const uint8_t *bytes, size_t size, int code, const char *text, const char *what)
{
	struct err err;
	int ret = read_funcs(bytes, size, &err);

	if (!ok(ret == code && strstr(err.msg, text), "%s", what))
		printf("# got %d: %s\n", ret, err.msg);
}

static void test_links(void)
{
	_cleanup_free_ uint8_t *b = copy_good();
	Elf64_Ehdr *eh = (Elf64_Ehdr *)b;
	Elf64_Phdr *ph = (Elf64_Phdr *)(b + eh->e_phoff);
	Elf64_Shdr *dynsym;
	struct err err;
	size_t ndx = 0, load = 0;
	bool sound;

	dynsym = section_of(b, SHT_DYNSYM, &ndx);
	dynsym->sh_link = ndx;
	expect_funcs(b, good_size, -EBADMSG, "without names",
		"a symbol table that is its own table of names is refused");
	memcpy(b, good, good_size);
	section_of(b, SHT_GNU_versym, &ndx)->sh_link = ndx;
	section_of(b, SHT_GNU_verdef, &ndx)->sh_link = ndx;
	expect_funcs(
		b, good_size, 0, "", "links that lead in circles elsewhere do no harm");
	memcpy(b, good, good_size);
	section_of(b, SHT_GNU_verdef, &ndx)->sh_info = UINT32_MAX;
	expect_funcs(
		b, good_size, 0, "", "four billion versions are no more than there are");
	memcpy(b, good, good_size);
	while (ph[load].p_type != PT_LOAD)
		load++;
	for (size_t i = 0; i < eh->e_phnum; i++)
		ph[i] = ph[load];
	ph[0].p_flags |= PF_X;
	ok(!try_bytes(b, good_size, &sound, &err) && sound,
		"segments that all lie over each other do no harm");
}

/* Symbols of which each has a name of 60 kB, all the same one: terabytes to be read. */
static void test_endless_names(void)
{
	const size_t cnt = 100000, name_len = 60000;
	size_t at = (good_size + 4095) & ~4095ul, size, ndx, str_ndx;
	_cleanup_free_ uint8_t *b = NULL;
	Elf64_Shdr *dynsym, *strtab;
	Elf64_Sym *syms;

	size = at + cnt * sizeof(*syms) + name_len + 2;
	b = calloc(1, size);
	memcpy(b, good, good_size);
	dynsym = section_of(b, SHT_DYNSYM, &ndx);
	str_ndx = dynsym->sh_link;
	strtab = dynsym - ndx + str_ndx;
	syms = (Elf64_Sym *)(b + at);
	for (size_t i = 1; i < cnt; i++)
		syms[i] = (Elf64_Sym) { .st_name = 1 + i % 8,
			.st_info = STT_FUNC,
			.st_shndx = 1,
			.st_value = i };
	dynsym->sh_offset = at;
	dynsym->sh_size = cnt * sizeof(*syms);
	strtab->sh_offset = at + dynsym->sh_size;
	strtab->sh_size = name_len + 2;
	memset(b + strtab->sh_offset + 1, 'a', name_len);
	expect_funcs(b, size, -EBADMSG, "names are without end",
		"a hundred thousand names of 60 kB are refused");
	b[size - 1] = 'a';
	dynsym->sh_size = 2 * sizeof(*syms);
	strtab->sh_size = 100;
	expect_funcs(b, size, -EBADMSG, "has no end", "a name without end is refused");
}

/* A sparse file that claims a table of a terabyte. */
static void test_sparse(void)
{
	_cleanup_elf_file_ struct elf_file *f = NULL;
	_cleanup_free_ uint8_t *b = copy_good();
	Elf64_Ehdr *eh = (Elf64_Ehdr *)b;
	Elf64_Shdr *sh = (Elf64_Shdr *)(b + eh->e_shoff);
	const struct elf_func *funcs;
	struct err err = { 0 };
	size_t cnt;
	int ret;

	while (sh->sh_type != SHT_DYNSYM)
		sh++;
	sh->sh_size = 24ull << 35;
	if (truncate(scratch_file("sparse", b, good_size), 1ll << 41) < 0) {
		ok(true, "a sparse file # SKIP not possible here");
		return;
	}
	ret = elf_file_open(scratch("sparse"), &f, &err);
	if (!ret)
		ret = elf_file_funcs(f, &funcs, &cnt, &err);
	ok(ret == -EBADMSG || ret == -ENOMEM, "a table of a terabyte is refused");
	printf("# %s\n", err.msg);
}

/* Cut to @size bytes at different steps of being read: each ends in an error, and lives. */
static void test_cut_meanwhile(size_t size)
{
	struct elf_file *f[3] = {};
	const struct elf_func *funcs;
	struct plan_image img;
	struct err err = {};
	uint64_t sum = 0;
	size_t cnt;

	for (int i = 0; i < 3; i++) {
		const char *path = scratch_file("cut.so", good, good_size);

		ok(!elf_file_open(path, &f[i], &err) && !elf_file_check(f[i], &err),
			"a file is opened, step %d: %s", i, err.msg);
		ok(i < 1 || !elf_file_funcs(f[i], &funcs, &cnt, &err), "it has functions");
		ok(i < 2 || !elf_file_image(f[i], &img, &err), "it has code");
		ok(!truncate(path, size), "it is cut to %zu bytes", size);
		if (i == 0)
			is_int(elf_file_funcs(f[i], &funcs, &cnt, &err), -EBADMSG, "functions");
		else if (i == 1)
			is_int(elf_file_image(f[i], &img, &err), -EBADMSG, "code");
		for (size_t k = 0; i == 2 && k < img.text_cnt; k++)
			for (size_t b = 0; b < img.texts[k].size; b++)
				sum += img.texts[k].bytes[b];
		is_int(elf_file_check(f[i], &err), -EBADMSG, "it has changed");
		ok(strstr(err.msg, "cut.so' changed while it was read") != NULL, "%s",
			err.msg);
		elf_file_free(f[i]);
	}
	ok(sum != UINT64_MAX, "all of the code was read");
}

/* A pipe stands for a device that does something when it is opened. */
static void test_not_opened(void)
{
	int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), code;
	struct elf_file *f = NULL;
	char seen[4096];

	if (mkfifo(scratch("pipe"), 0600) || inotify_add_watch(watch, scratch("pipe"), IN_OPEN) < 0)
		printf("Bail out! no pipe is watched\n");
	code = elf_file_open(scratch("pipe"), &f, NULL);
	ok(code == -EINVAL && read(watch, seen, sizeof(seen)) < 0,
		"what is not a regular file is not even opened");
	elf_file_free(f);
	scratch_run("rm pipe && cp libb.so pipe");
	code = elf_file_open(scratch("pipe"), &f, NULL);
	ok(!code, "one that is, is");
	elf_file_free(f);
	close(watch);
}

int main(void)
{
	scratch_begin();
	build();
	test_cut_meanwhile(0);
	test_cut_meanwhile(4096);
	test_errors();
	test_cuts();
	test_spoiled();
	test_spoiled_dynamic();
	test_noise();
	test_names();
	test_links();
	test_endless_names();
	test_sparse();
	test_not_opened();
	free(good);
	return tap_done();
}
