// SPDX-License-Identifier: BSD-2-Clause
// Files without section headers: .dynamic alone leads to their functions.
#include "elf/elf_file.h"

#include <elf.h>

#include "scratch.h"
#include "tap.h"

static const char lib_source[] =
	"int old_f(int a) { return a + 1; }\n"
	"int new_f(int a) { return a + 2; }\n"
	"__asm__(\".symver old_f,f@V1\\n.symver new_f,f@@V2\\n\"\n"
	"\".globl mark\\nmark:\\n.byte 0x90,0xc3\\n\");\n"
	"int twin(int a) { return a * 3; }\n"
	"int twin_alias(int a) __attribute__((alias(\"twin\")));\n"
	"static int impl(int a) { return a; }\n"
	"static void *choose(void) { return impl; }\n"
	"int chosen(int a) __attribute__((ifunc(\"choose\")));\n"
	"extern int puts(const char *); extern double sin(double);\n"
	"double use(double x) { puts(\"\"); return sin(x); }\n"
	"int data = 5;\n";

static const char map_source[] =
	"V1 { global: f; };\n"
	"V2 { global: f; mark; twin*; chosen; use; data; local: *; } V1;\n";

static const char prog_source[] = "#include <ucontext.h>\n#include <stdio.h>\n"

				  "int main(void) { ucontext_t a; puts(\"\");\n"
				  "return getcontext(&a) || swapcontext(&a, &a); }\n";

/* Tags of .dynamic to be made others: what tells how many symbols there are. */
enum { DROP_HASHES = 1, DROP_RELOCATIONS = 2 };

/* A copy of a file without section headers, as sstrip makes it. */
static const char *bare(const char *name, const char *copy, int drop)
{
	size_t size;
	uint8_t *b = scratch_read(scratch(name), &size);
	Elf64_Ehdr *eh = (Elf64_Ehdr *)b;
	Elf64_Phdr *ph = (Elf64_Phdr *)(b + eh->e_phoff);
	const char *path;

	eh->e_shoff = eh->e_shnum = eh->e_shstrndx = 0;
	for (size_t i = 0; i < eh->e_phnum; i++) {
		Elf64_Dyn *dyn = (Elf64_Dyn *)(b + ph[i].p_offset);

		if (ph[i].p_type != PT_DYNAMIC)
			continue;
		for (; dyn->d_tag != DT_NULL; dyn++) {
			bool hash = dyn->d_tag == DT_HASH || dyn->d_tag == DT_GNU_HASH;
			bool rela = dyn->d_tag == DT_RELA || dyn->d_tag == DT_JMPREL;

			if ((hash && (drop & DROP_HASHES)) ||
				(rela && (drop & DROP_RELOCATIONS)))
				dyn->d_tag = DT_DEBUG;
		}
	}
	path = scratch_file(copy, b, size);
	free(b);
	return path;
}

static const struct elf_name *look(struct elf_file *f, const char *name)
{
	return elf_file_lookup(f, name, strlen(name));
}

/* Both files have the same functions, names, versions and imports. */
static void same_functions(const char *with, const char *without, const char *style)
{
	_cleanup_elf_file_ struct elf_file *a = NULL, *b = NULL;
	const struct elf_func *x, *y;
	size_t cnt = 0, bare_cnt = 0;
	struct plan_image img;
	const struct elf_name *n;
	struct err err = { 0 };
	bool same = true;

	if (!ok(!elf_file_open(with, &a, &err) && !elf_file_open(without, &b, &err) &&
			    !elf_file_funcs(a, &x, &cnt, &err) &&
			    !elf_file_funcs(b, &y, &bare_cnt, &err),
		    "a library with hash style %s opens", style)) {
		printf("# %s\n", err.msg);
		return;
	}
	is_int(bare_cnt, cnt, "its functions are all there");
	for (size_t i = 0; i < cnt && bare_cnt == cnt; i++) {
		same &= x[i].addr == y[i].addr && x[i].kind == y[i].kind &&
			x[i].size == y[i].size && x[i].name_cnt == y[i].name_cnt;
		for (uint32_t k = 0; same && k < x[i].name_cnt; k++)
			same &= !strcmp(x[i].names[k].name, y[i].names[k].name) &&
				x[i].names[k].version && y[i].names[k].version &&
				!strcmp(x[i].names[k].version, y[i].names[k].version);
	}
	ok(same, "with their names and versions");
	n = look(b, "f");
	ok(n && n->is_default && n->version && !strcmp(n->version, "V2"),
		"the default version is first");
	n = look(b, "mark");
	ok(n && y[n->func].kind == ELF_LABEL, "a label in code is there");
	ok(!look(b, "data"), "data is no function");
	ok(elf_file_imports(b, "puts", 4) && elf_file_imports(b, "sin", 3),
		"imports are known");
	ok(elf_file_names_known(b), "and known to be all");
	ok(!elf_file_image(b, &img, NULL) && img.text_cnt && img.fde_cnt &&
			img.start_cnt >= cnt,
		"code, frames and starts are there");
	is_str(elf_file_info(b)->build_id, elf_file_info(a)->build_id,
		"the build id is that of the notes' segment");
}

static void test_libraries(void)
{
	static const char *const styles[] = { "gnu", "sysv", "both" };

	scratch_file("lib.c", lib_source, strlen(lib_source));
	scratch_file("lib.map", map_source, strlen(map_source));
	for (size_t i = 0; i < ARRAY_SIZE(styles); i++) {
		scratch_run("cc -g0 -O1 -fPIC -shared -Wl,--version-script=lib.map "
			    "-Wl,--build-id=sha1,--hash-style=%s,-soname,libt.so.3 lib.c "
			    "-o lib.so -lm && strip lib.so",
			styles[i]);
		same_functions(
			scratch("lib.so"), bare("lib.so", "bare.so", 0), styles[i]);
	}
}

/* A program exports nothing: its hash table may be empty, relocations tell of the imports. */
static void test_program(const char *flags, int drop)
{
	_cleanup_elf_file_ struct elf_file *f = NULL, *blind = NULL;
	const struct elf_func *funcs;
	size_t cnt;

	scratch_file("prog.c", prog_source, strlen(prog_source));
	scratch_run(
		"cc -g0 -O1 -pie -fPIE %s -Wl,--hash-style=gnu prog.c -o prog && strip prog",
		flags);
	if (elf_file_open(bare("prog", "bare", drop), &f, NULL) ||
		elf_file_funcs(f, &funcs, &cnt, NULL) ||
		elf_file_open(bare("prog", "blind", DROP_HASHES | DROP_RELOCATIONS),
			&blind, NULL) ||
		elf_file_funcs(blind, &funcs, &cnt, NULL)) {
		ok(false, "a program without sections opens");
		return;
	}
	is_int(elf_file_names_symbol(f, "swapcontext", NULL), 1,
		"a program's imports are known by its relocations");
	ok(elf_file_names_known(f), "and known to be all");
	ok(!elf_file_names_known(blind), "where nothing leads to them, they are not");
}

int main(void)
{
	scratch_begin();
	test_libraries();
	test_program("-fplt -Wl,-z,lazy", 0);
	test_program("-fplt -Wl,-z,lazy", DROP_HASHES);
	test_program("-fno-plt -Wl,-z,now", DROP_HASHES);
	return tap_done();
}
