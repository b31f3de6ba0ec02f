// SPDX-License-Identifier: BSD-2-Clause
// ELF files: what they are, their functions by every table, separate debug symbols.
#include "elf/elf_file.h"

#include <dlfcn.h>
#include <inttypes.h>

#include "scratch.h"
#include "tap.h"

static const char lib_source[] =
	"__asm__(\".globl known\\n.type known,@function\\nknown:\\n\"\n"
	"\".byte 0xb8,0x78,0x56,0x34,0x12,0xc3\\n.size known,.-known\\n\"\n"
	"\".globl mark\\nmark:\\n.byte 0x90,0xc3\\n\");\n"
	"int old_f(int a) { return a + 1; }\n"
	"int new_f(int a) { return a + 2; }\n"
	"__asm__(\".symver old_f,f@V1\\n.symver new_f,f@@V2\\n\");\n"
	"int twin(int a) { return a * 3; }\n"
	"int twin_alias(int a) __attribute__((alias(\"twin\")));\n"
	"static int impl(int a) { return a; }\n"
	"static void *choose(void) { return impl; }\n"
	"int chosen(int a) __attribute__((ifunc(\"choose\")));\n"
	"int piece(int a) __asm__(\"work.part.0\"); int piece(int a) { return a ^ 5; }\n"
	"extern double sin(double); extern int puts(const char *);\n"
	"double use(double x) { puts(\"\"); return sin(x); }\n"
	"int data = 5;\n";

static const char map_source[] =
	"V1 { global: f; };\n"
	"V2 { global: f; known; mark; twin*; chosen; use; data;\n"
	"     work*; local: *; } V1;\n";

static void build_lib(void)
{
	scratch_file("lib.c", lib_source, strlen(lib_source));
	scratch_file("lib.map", map_source, strlen(map_source));
	scratch_run(
		"cc -g0 -O1 -fPIC -shared -Wl,--version-script=lib.map,--build-id=sha1 "
		"-Wl,-soname,libt.so.3,-z,separate-code lib.c -o libt.so -lm");
	scratch_run("strip -o stripped.so libt.so");
}

static struct elf_file *open_ok(const char *name)
{
	struct elf_file *f = NULL;
	struct err err = { 0 };

	if (elf_file_open(name[0] == '/' ? name : scratch(name), &f, &err))
		printf("Bail out! %s\n", err.msg);
	return f;
}

static const struct elf_func *func_of(struct elf_file *f, const struct elf_name *n)
{
	const struct elf_func *funcs;
	size_t cnt;

	if (!n || elf_file_funcs(f, &funcs, &cnt, NULL))
		return NULL;
	return &funcs[n->func];
}

static const struct elf_name *look(struct elf_file *f, const char *name)
{
	const struct elf_func *funcs;
	size_t cnt;

	if (elf_file_funcs(f, &funcs, &cnt, NULL))
		return NULL;
	return elf_file_lookup(f, name, strlen(name));
}

static void test_facts(void)
{
	_cleanup_elf_file_ struct elf_file *f = open_ok("libt.so");
	const struct elf_info *info = elf_file_info(f);
	struct stat st;

	is_str(info->soname, "libt.so.3", "the soname is read");
	is_int(strlen(info->build_id), 40, "the build id has 20 bytes");
	ok(info->needed_cnt >= 1 && strcmp(info->needed[0], "libm.so.6") == 0,
		"the first library needed is libm");
	ok(!info->executable && !info->is_static && !info->go, "a library is no program");
	ok(stat(scratch("libt.so"), &st) == 0 && st.st_ino == info->ino &&
			st.st_dev == info->dev && (uint64_t)st.st_size == info->size,
		"device, inode and size are the file's");
	ok(fcntl(elf_file_fd(f), F_GETFD) == FD_CLOEXEC, "the descriptor closes on exec");
	is_int(elf_file_names_symbol(f, "sin", NULL), 1, "an import is named");
	is_int(elf_file_names_symbol(f, "twin", NULL), 1, "a definition is named");
	is_int(elf_file_names_symbol(f, "cos", NULL), 0, "another function is not");
	is_int(elf_file_names_symbol(f, "tw*", NULL), 1,
		"a prefix of a definition is named");
	is_int(elf_file_names_symbol(f, "pu*", NULL), 1,
		"a prefix of an import is named");
	is_int(elf_file_names_symbol(f, "_Unwind_*", NULL), 0, "no unwinder's name here");
	ok(elf_file_imports(f, "puts", 4) && !elf_file_imports(f, "twin", 4),
		"imports are told from definitions");
}

static void test_functions(const char *file, bool symtab)
{
	_cleanup_elf_file_ struct elf_file *f = open_ok(file);
	const struct elf_name *n = look(f, "f");
	const struct elf_func *fn;
	uint64_t value;
	char bytes[6];

	printf("# %s\n", file);
	ok(n && n->version && strcmp(n->version, "V2") == 0 && n->is_default,
		"the default version comes first");
	n = n ? elf_name_next(f, n) : NULL;
	ok(n && n->version && strcmp(n->version, "V1") == 0 && !n->is_default,
		"then the old version");
	ok(n && !elf_name_next(f, n), "and no third");
	fn = func_of(f, look(f, "twin_alias"));
	ok(fn && fn == func_of(f, look(f, "twin")), "aliases are one function");
	ok(fn && fn->name_cnt == 2 && strcmp(fn->names[0].name, "twin") == 0,
		"with both names, the short one first");
	fn = func_of(f, look(f, "chosen"));
	ok(fn && fn->kind == ELF_IFUNC, "an IFUNC is known as one");
	fn = func_of(f, look(f, "mark"));
	ok(fn && fn->kind == ELF_LABEL && fn->size == 0, "a label has no size");
	ok(!look(f, "data"), "data is no function");
	n = look(f, "work.part.0");
	ok(n && n->piece, "a compiler's piece is known as one");
	ok(!look(f, "use") || !look(f, "use")->piece, "a function is not");
	fn = func_of(f, look(f, "known"));
	ok(fn && fn->in_code && fn->exported && fn->size == 6,
		"size and place are known");
	ok(fn && pread(elf_file_fd(f), bytes, 6, fn->offset) == 6 &&
			memcmp(bytes, "\xb8\x78\x56\x34\x12\xc3", 6) == 0,
		"its bytes lie at its offset");
	ok(fn && elf_file_addr_to_offset(f, fn->addr, &value) == 0 && value == fn->offset,
		"the address leads to the offset");
	ok(fn && elf_file_offset_to_addr(f, fn->offset, &value) == 0 && value == fn->addr,
		"and the offset to the address");
	is_int(elf_file_addr_to_offset(f, 0, &value), -ERANGE, "headers are not code");
	ok(fn && elf_file_func_at(f, fn->addr + 5) == fn,
		"an inner address is the function's");
	ok(!!look(f, "choose") == symtab, "local functions are there with .symtab only");
}

static bool is_start(const struct plan_image *img, uint64_t addr)
{
	for (size_t i = 0; i < img->start_cnt; i++) {
		if (img->starts[i] == addr)
			return true;
	}
	return false;
}

static void test_image(const char *file)
{
	_cleanup_elf_file_ struct elf_file *f = open_ok(file);
	const struct elf_func *fn;
	struct plan_image img;
	bool sorted = true, framed = false, text = false;

	printf("# %s\n", file);
	is_int(elf_file_image(f, &img, NULL), 0, "there is an image");
	ok(img.text_cnt && img.start_cnt && img.fde_cnt, "with code, starts and frames");
	for (size_t i = 1; i < img.start_cnt; i++)
		sorted &= img.starts[i - 1] < img.starts[i];
	for (size_t i = 1; i < img.fde_cnt; i++)
		sorted &= img.fdes[i - 1].start <= img.fdes[i].start;
	for (size_t i = 1; i < img.text_cnt; i++)
		sorted &= img.texts[i - 1].addr + img.texts[i - 1].size <=
			img.texts[i].addr;
	ok(sorted, "all are sorted");
	fn = func_of(f, look(f, "twin"));
	for (size_t i = 0; fn && i < img.fde_cnt; i++)
		framed |= img.fdes[i].start == fn->addr &&
			img.fdes[i].end == fn->addr + fn->size;
	ok(framed, "a function's frame is its range");
	fn = func_of(f, look(f, "known"));
	ok(fn && is_start(&img, fn->addr), "a function is a start");
	fn = func_of(f, look(f, "mark"));
	ok(fn && is_start(&img, fn->addr), "a label is a start");
	for (size_t i = 0; fn && i < img.text_cnt; i++) {
		const struct plan_text *t = &img.texts[i];

		if (fn->addr >= t->addr && fn->addr + 2 <= t->addr + t->size)
			text = memcmp(t->bytes + (fn->addr - t->addr), "\x90\xc3", 2) ==
				0;
	}
	ok(text, "the text has the function's bytes");
}

static void test_programs(void)
{
	static const struct {
		const char *flags;
		bool is_static;
	} kinds[] = { { "-pie -fPIE", false }, { "-no-pie", false }, { "-static", true },
		{ "-static-pie -fPIE", true } };
	static const char source[] = "int main(void) { return 0; }\n";
	_cleanup_elf_file_ struct elf_file *libc = NULL;
	Dl_info here;

	scratch_file("main.c", source, strlen(source));
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		_cleanup_elf_file_ struct elf_file *f = NULL;

		scratch_run("cc %s main.c -o main", kinds[i].flags);
		f = open_ok("main");
		ok(elf_file_info(f)->executable, "cc %s makes a program", kinds[i].flags);
		ok(elf_file_info(f)->is_static == kinds[i].is_static, "%sstatic",
			kinds[i].is_static ? "" : "not ");
		ok(func_of(f, look(f, "main")) != NULL, "with a main()");
	}
	if (!dladdr((void *)(uintptr_t)&puts, &here))
		return;
	libc = open_ok(here.dli_fname);
	ok(!elf_file_info(libc)->executable,
		"the C library is none, though it can be run");
}

/* Searches for debug files below the scratch directory as the root. */
static size_t count_with_root(const char *file, enum elf_table *ret_table)
{
	_cleanup_close_ int root = open(scratch_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_elf_file_ struct elf_file *f = NULL;
	const struct elf_func *funcs;
	const struct elf_name *n;
	size_t cnt;
	int fd = open(scratch(file), O_RDONLY | O_CLOEXEC);

	if (elf_file_open_fd(fd, file, root, "/", &f, NULL) ||
		elf_file_funcs(f, &funcs, &cnt, NULL))
		return 0;
	n = elf_file_lookup(f, "choose", 6);
	*ret_table = n ? n->table : ELF_TABLE_DYNSYM;
	return cnt;
}

static void test_debug_data(size_t all, size_t stripped)
{
	enum elf_table table;

	scratch_run("objcopy -S --remove-section=.gnu_debuglink libt.so mini.so && "
		    "cp libt.so mini && xz -k mini && "
		    "objcopy --add-section .gnu_debugdata=mini.xz mini.so");
	is_int(count_with_root("mini.so", &table), all, "packed symbols are read");
	is_int(table, ELF_TABLE_DEBUGDATA, "from .gnu_debugdata");
	scratch_run("head -c 100000000 /dev/zero | xz > bomb.xz && "
		    "cp stripped.so bomb.so && "
		    "objcopy --add-section .gnu_debugdata=bomb.xz bomb.so");
	is_int(count_with_root("bomb.so", &table), stripped,
		"what is no ELF file is ignored");
}

static void test_debug_files(void)
{
	_cleanup_elf_file_ struct elf_file *f = open_ok("libt.so");
	const char *id = elf_file_info(f)->build_id;
	const struct elf_func *funcs;
	size_t all, stripped;
	enum elf_table table;

	if (elf_file_funcs(f, &funcs, &all, NULL))
		return;
	stripped = count_with_root("stripped.so", &table);
	ok(stripped < all && table == ELF_TABLE_DYNSYM, "stripping takes functions away");
	test_debug_data(all, stripped);
	if (!scratch_has_openat2("debug files"))
		return;
	scratch_run("objcopy --only-keep-debug libt.so t.debug && "
		    "mkdir -p usr/lib/debug/.build-id/%.2s && "
		    "cp t.debug usr/lib/debug/.build-id/%.2s/%s.debug",
		id, id, id + 2);
	is_int(count_with_root("stripped.so", &table), all,
		"a debug file gives them back");
	is_int(table, ELF_TABLE_DEBUG, "by its build id");
	scratch_run("rm -r usr && cp stripped.so linked.so && "
		    "objcopy --add-gnu-debuglink=t.debug linked.so");
	is_int(count_with_root("linked.so", &table), all, "so does a debug link");
	scratch_run("mkdir .debug && mv t.debug .debug");
	is_int(count_with_root("linked.so", &table), all, "also in .debug");
	scratch_run("printf x >> .debug/t.debug");
	is_int(count_with_root("linked.so", &table), stripped,
		"but not if its checksum is another");
}

static void test_same(void)
{
	_cleanup_elf_file_ struct elf_file *a = open_ok("libt.so"), *b = NULL, *c = NULL;

	scratch_run("ln libt.so hard.so && cp libt.so copy.so");
	b = open_ok("hard.so");
	c = open_ok("copy.so");
	ok(elf_file_same(a, b), "a hard link is the same file");
	ok(!elf_file_same(a, c), "a copy is another");
}

int main(void)
{
	scratch_begin();
	build_lib();
	test_facts();
	test_functions("libt.so", true);
	test_functions("stripped.so", false);
	test_image("libt.so");
	test_image("stripped.so");
	test_programs();
	test_debug_files();
	test_same();
	return tap_done();
}
