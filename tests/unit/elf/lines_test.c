// SPDX-License-Identifier: BSD-2-Clause
// Lines of the source and inlined functions: what addr2line(1) has, however they are kept.
#include "elf/dwarf.h"

#include <inttypes.h>
#include <sys/resource.h>
#include <time.h>

#include "scratch.h"
#include "tap.h"

static const char header[] = "static inline __attribute__((always_inline)) int deep(int a)\n"
			     "{\n"
			     "	extern volatile int hole;\n"
			     "	hole = a * 3;\n"
			     "	return hole ^ a;\n"
			     "}\n";

static const char source[] =
	"#include \"deep.h\"\n"
	"volatile int hole;\n"
	"namespace shop {\n"
	"template <typename T> struct Box {\n"
	"	T value;\n"
	"	inline __attribute__((always_inline)) T get(int a) const\n"
	"	{\n"
	"		T sum = deep(a);\n"
	"		return sum + deep(value);\n"
	"	}\n"
	"};\n"
	"static inline __attribute__((always_inline)) int twice(int a)\n"
	"{\n"
	"	Box<int> box{a};\n"
	"	return box.get(a) +\n"
	"		box.get(a + 1);\n"
	"}\n"
	"}\n"
	"extern \"C\" __attribute__((noinline)) int outer(int a)\n"
	"{\n"
	"	if (a == 7)\n"
	"		__builtin_trap();\n"
	"	for (int i = 0; i < a; i++)\n"
	"		a += shop::twice(i);\n"
	"	return a;\n"
	"}\n"
	"extern \"C\" __attribute__((noinline)) int local(int a)\n"
	"{\n"
	"	struct Inner {\n"
	"		static __attribute__((noinline)) int in(int a) { return deep(a) + 1; }\n"
	"	};\n"
	"	auto f = [&](int b) __attribute__((noinline)) { return Inner::in(b) + deep(a); };\n"
	"	return f(3) + f(a);\n"
	"}\n"
	"int main(int argc, char **) { return outer(argc) + local(argc) + shop::twice(argc); }\n";

static struct elf_file *open_ok(const char *name)
{
	const struct elf_func *funcs;
	struct elf_file *f = NULL;
	struct err err = { 0 };
	size_t cnt;

	if (elf_file_open(scratch(name), &f, &err) || elf_file_funcs(f, &funcs, &cnt, &err))
		printf("Bail out! %s\n", err.msg);
	return f;
}

/* One line for each function at @addr: "NAME FILE:LINE", the last without its name. */
static void say(struct elf_file *f, uint64_t addr, char *text, size_t size)
{
	struct elf_line line[ELF_LINES_MAX];
	size_t cnt = elf_lines_at(f, addr, line), len = 0;

	text[0] = '\0';
	for (size_t i = 0; i < cnt && len < size; i++) {
		const char *base = line[i].source ? strrchr(line[i].source, '/') : NULL;

		len += snprintf(text + len, size - len, "%s %s:%u\n",
			line[i].inlined ? line[i].function : "-", base ? base + 1 : "?",
			line[i].line);
	}
}

/* Of addr2line -a -f -i -C: a line with the address, and two for each function. */
struct truth {
	FILE *f;
	char line[1024]; /* the next */
};

static bool truth_next(struct truth *t, char *text, size_t size)
{
	char name[1024] = "";
	size_t len = 0;

	text[0] = '\0';
	if (strncmp(t->line, "0x", 2) != 0)
		return false;
	while (fgets(t->line, sizeof(t->line), t->f) && strncmp(t->line, "0x", 2) != 0) {
		char *base;

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(t->line, "(\n"), t->line);
		if (!fgets(t->line, sizeof(t->line), t->f))
			break;
		base = strrchr(t->line, '/');
		base = base ? base + 1 : t->line;
		/* Those before it are inlined; the last one's name is that of the symbol. */
		len += snprintf(text + len, size - len, "%s %.*s\n", name,
			(int)strcspn(base, " \n"), base);
	}
	return true;
}

/* Without the last one's name. */
static void unname_last(char *text)
{
	size_t len = strlen(text);
	char *last = text, *space;

	for (char *p = text; p + 1 < text + len; p++)
		if (*p == '\n')
			last = p + 1;
	space = strrchr(last, ' ');
	if (!space)
		return;
	*last = '-';
	memmove(last + 1, space, strlen(space) + 1);
}

/* Each function's code, by two bytes. */
static size_t each_addr(struct elf_file *f, uint64_t *ret_addrs, size_t most)
{
	const struct elf_func *funcs;
	size_t cnt, n = 0;

	if (elf_file_funcs(f, &funcs, &cnt, NULL))
		return 0;
	for (size_t i = 0; i < cnt; i++)
		for (uint64_t a = 0; a < funcs[i].size && n < most; a += 2)
			ret_addrs[n++] = funcs[i].addr + a;
	return n;
}

#define ADDRS 4096
static uint64_t addrs[ADDRS];

/*
 * addr2line(1) of binutils 2.40 calls the innermost by the name of the symbol. In deep.h there is
 * one function.
 */
static bool is_right(const char *ours, const char *truth)
{
	const char *line = strstr(ours, " "), *true_line = strstr(truth, " ");

	return line && true_line && !strcmp(line, true_line) &&
		!strncmp(line, " deep.h:", 8) == !strncmp(ours, "deep ", 5);
}

static bool has_line(const char *text)
{
	return *text && !strstr(text, "?:") && !strstr(text, ":0\n") && !strstr(text, ":?");
}

static void compare(const char *name)
{
	struct elf_file *f = open_ok(name);
	size_t cnt = each_addr(f, addrs, ADDRS), same = 0, known = 0, inlined = 0;
	char ours[4096], truth[4096];
	FILE *out = fopen(scratch("addrs"), "w");
	struct truth t = {};

	for (size_t i = 0; i < cnt; i++)
		fprintf(out, "%" PRIx64 "\n", addrs[i]);
	fclose(out);
	scratch_run("addr2line -afiC -e %s <addrs >truth 2>/dev/null", name);
	t.f = fopen(scratch("truth"), "r");
	if (!t.f || !fgets(t.line, sizeof(t.line), t.f))
		printf("Bail out! addr2line says nothing\n");
	for (size_t i = 0; i < cnt && truth_next(&t, truth, sizeof(truth)); i++) {
		unname_last(truth);
		say(f, addrs[i], ours, sizeof(ours));
		if (!has_line(truth))
			continue;
		known++;
		inlined += ours[0] && ours[0] != '-';
		if (is_right(ours, truth))
			same++;
		else if (known - same < 4)
			printf("# %#" PRIx64 "\n# ours: %s# addr2line: %s", addrs[i], ours, truth);
	}
	fclose(t.f);
	ok(known > 100 && same == known, "%s: %zu places, %zu of them inlined, are addr2line's",
		name, known, inlined);
	ok(inlined > 20, "%s: %zu of them are inlined", name, inlined);
	elf_file_free(f);
}

/* The same code, whose lines are kept elsewhere. */
static void alike(const char *name, const char *as)
{
	struct elf_file *f = open_ok(name), *plain = open_ok(as);
	size_t cnt = each_addr(plain, addrs, ADDRS), same = 0;
	char ours[4096], truth[4096];

	for (size_t i = 0; i < cnt; i++) {
		say(plain, addrs[i], truth, sizeof(truth));
		say(f, addrs[i], ours, sizeof(ours));
		same += !strcmp(ours, truth);
	}
	ok(cnt > 100 && same == cnt, "%s: %zu places have the lines of %s", name, cnt, as);
	elf_file_free(f);
	elf_file_free(plain);
}

static void check_none(void)
{
	struct elf_file *f = open_ok("bare");
	struct elf_line line[ELF_LINES_MAX];
	size_t cnt = each_addr(f, addrs, ADDRS), any = 0;

	for (size_t i = 0; i < cnt; i++)
		any += elf_lines_at(f, addrs[i], line);
	ok(cnt && !any, "without debug information nothing is known");
	elf_file_free(f);
}

/* So slow that no machine's load is to blame: each lookup is far below 10 us. Much is padding. */
static void check_pace(void)
{
	struct elf_file *f = open_ok("plain");
	size_t cnt = each_addr(f, addrs, ADDRS), got = 0;
	struct elf_line line[ELF_LINES_MAX];
	clock_t start = clock();
	double seconds;

	for (size_t i = 0; i < 100000; i++)
		got += elf_lines_at(f, addrs[i % cnt], line) > 0;
	seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
	printf("# 100000 places in %.3f s of this process's time\n", seconds);
	ok(got > 10000 && seconds < 10, "100000 places are found at once");
	elf_file_free(f);
}

/* One unit with 300 functions, all of one list of 50,000 ranges: DWARF 4, by hand. */
static const char shared[] =
	".globl main\nmain: ret\n.globl f\n.type f, @function\nf: ret\n.size f, 1\n"
	".section .debug_abbrev,\"\",%progbits\n"
	".byte 1, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0\n"
	".byte 2, 0x2e, 0, 0x55, 0x17, 0, 0, 0\n"
	".section .debug_info,\"\",%progbits\n"
	".4byte end - begin\nbegin: .2byte 4\n.4byte 0\n.byte 8\n"
	".byte 1\n.8byte f\n.8byte 1\n.rept 300\n.byte 2\n.4byte 0\n.endr\n.byte 0\nend:\n"
	".section .debug_ranges,\"\",%progbits\n"
	".rept 50000\n.8byte 0, 16\n.endr\n.8byte 0, 0\n";

static void check_shared(void)
{
	struct elf_file *f = open_ok("shared");
	struct elf_line line[ELF_LINES_MAX];
	size_t cnt = each_addr(f, addrs, ADDRS);
	struct rusage before, after;

	getrusage(RUSAGE_SELF, &before);
	for (size_t i = 0; i < cnt; i++)
		(void)elf_lines_at(f, addrs[i], line);
	getrusage(RUSAGE_SELF, &after);
	ok(cnt && after.ru_maxrss - before.ru_maxrss < 400 << 10,
		"many functions of one list of ranges take %ld MB, not 1,000 and more",
		(after.ru_maxrss - before.ru_maxrss) >> 10);
	elf_file_free(f);
}

int main(void)
{
	scratch_begin();
	scratch_file("deep.h", header, strlen(header));
	scratch_file("plain.cc", source, strlen(source));
	scratch_run("c++ -g -O2 -gdwarf-5 plain.cc -o plain");
	scratch_run("c++ -g -O2 -gdwarf-4 plain.cc -o dwarf4");
	scratch_run("c++ -g -O2 -gdwarf-5 -gsplit-dwarf plain.cc -o split");
	scratch_run("c++ -g -O2 -gdwarf-5 -gz plain.cc -o packed");
	scratch_run("c++ -g0 -O2 plain.cc -o bare");
	scratch_run("cp plain linked && objcopy --only-keep-debug linked linked.debug && "
		    "objcopy -g --add-gnu-debuglink=linked.debug linked");
	scratch_file("shared.s", shared, strlen(shared));
	scratch_run("cc -nostdlib -Wl,-emain,-znoexecstack shared.s -o shared");
	compare("plain");
	compare("dwarf4");
	alike("split", "plain");
	alike("packed", "plain");
	alike("linked", "plain");
	check_none();
	check_pace();
	check_shared();
	return tap_done();
}
