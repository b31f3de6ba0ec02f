// SPDX-License-Identifier: BSD-2-Clause
// USDT probes: sites and semaphores of a file, arguments as assemblers write them.
#include "elf/elf_file.h"

#include <elf.h>
#include <inttypes.h>

#include "scratch.h"
#include "tap.h"

/* As sys/sdt.h does it, with arguments as text. SEM is the semaphore's symbol or 0. */
static const char source[] =
	"#define PROBE(provider, name, sem, args) __asm__ volatile(\"990: nop\\n\" \\\n"
	"\".pushsection .note.stapsdt,\\\"?\\\",%note\\n.balign 4\\n\" \\\n"
	"\".4byte 992f-991f, 994f-993f, 3\\n991: .asciz \\\"stapsdt\\\"\\n992: .balign 4\\n\" \\\n"
	"\"993: .8byte 990b\\n.8byte _.stapsdt.base\\n.8byte \" sem \"\\n\" \\\n"
	"\".asciz \\\"\" provider \"\\\"\\n.asciz \\\"\" name \"\\\"\\n.asciz \\\"\" args \"\\\"\\n\" \\\n"
	"\"994: .balign 4\\n.popsection\\n.ifndef _.stapsdt.base\\n\" \\\n"
	"\".pushsection .stapsdt.base,\\\"aG\\\",%progbits,.stapsdt.base,comdat\\n\" \\\n"
	"\".weak _.stapsdt.base\\n.hidden _.stapsdt.base\\n_.stapsdt.base: .space 1\\n\" \\\n"
	"\".size _.stapsdt.base,1\\n.popsection\\n.endif\\n\")\n"
	"__attribute__((section(\".probes\"))) unsigned short sem_a = 0x1234;\n"
	"void one(void) { PROBE(\"our\", \"twice\", \"sem_a\", \"4@5\"); }\n"
	"void two(void) { PROBE(\"our\", \"twice\", \"sem_a\", \"\"); }\n"
	"void three(void) { PROBE(\"any\", \"other\", \"0\", \"\"); }\n"
	"void four(void) { PROBE(\"any\", \"not clean\", \"0\", \"\"); }\n"
	"int main(void) { one(); two(); three(); four(); return 0; }\n";

/* "kind size reg+index<<shift offset", with '-' before the size of a signed argument. */
static const char *shown(const struct usdt_arg *a)
{
	static const char *const kinds[] = { "unknown", "const", "reg", "mem" };
	static char text[128];

	if (a->kind == USDT_ARG_UNKNOWN)
		return kinds[0];
	snprintf(text, sizeof(text), "%s %s%u %d+%d<<%u %" PRId64, kinds[a->kind],
		a->is_signed ? "-" : "", a->size, a->reg == USDT_NO_REG ? -1 : a->reg,
		a->index == USDT_NO_REG ? -1 : a->index, a->shift, a->offset);
	return text;
}

static void test_args(void)
{
	static const struct {
		enum plan_arch arch;
		const char *text;
		unsigned int cnt;
		const char *first, *last;
	} cases[] = {
		{ PLAN_X86_64, "", 0, NULL, NULL },
		{ PLAN_X86_64, "-4@%edi", 1, "reg -4 14+-1<<0 0", "reg -4 14+-1<<0 0" },
		{ PLAN_X86_64, "8@%rdx 8@-80(%rbx)", 2, "reg 8 12+-1<<0 0",
			"mem 8 5+-1<<0 -80" },
		{ PLAN_X86_64, "-4@112(%rsp)", 1, "mem -4 19+-1<<0 112",
			"mem -4 19+-1<<0 112" },
		{ PLAN_X86_64, "-4@$-12 8@$0xffffffffffffffff", 2, "const -4 -1+-1<<0 -12",
			"const 8 -1+-1<<0 -1" },
		{ PLAN_X86_64, "1@(%rax,%rcx,8) 2@4(,%r15,2)", 2, "mem 1 10+11<<3 0",
			"mem 2 -1+0<<1 4" },
		{ PLAN_X86_64, "1@%r9b 2@%bp", 2, "reg 1 8+-1<<0 0", "reg 2 4+-1<<0 0" },
		{ PLAN_X86_64, "%rax", 1, "reg 8 10+-1<<0 0", "reg 8 10+-1<<0 0" },
		{ PLAN_X86_64, "8@%rax 8@%xmm0 8@%rcx", 3, "reg 8 10+-1<<0 0",
			"reg 8 11+-1<<0 0" },
		{ PLAN_X86_64, "8@%r16", 1, "unknown", "unknown" },
		{ PLAN_X86_64, "8@%ah", 1, "unknown", "unknown" },
		{ PLAN_X86_64, "8@%fs:16", 1, "unknown", "unknown" },
		{ PLAN_X86_64, "3@%rax", 1, "unknown", "unknown" },
		{ PLAN_X86_64, "-4@count(%rip) 8@%rax", 2, "unknown", "reg 8 10+-1<<0 0" },
		{ PLAN_X86_64, "-4@8(%rax", 1, "unknown", "unknown" },
		{ PLAN_X86_64, "8@(%rax,%rcx,3)", 1, "unknown", "unknown" },
		{ PLAN_X86_64, "8f@%xmm1 4@$1", 2, "unknown", "const 4 -1+-1<<0 1" },
		{ PLAN_X86_64, "8@$1 8@$2 8@$3 8@$4 8@$5 8@$6 8@$7 8@$8 8@$9 8@$10 8@$11 "
			       "8@$12 8@$13",
			12, "const 8 -1+-1<<0 1", "const 8 -1+-1<<0 12" },
		{ PLAN_ARM64, "-4@w0 8@x30", 2, "reg -4 0+-1<<0 0", "reg 8 30+-1<<0 0" },
		{ PLAN_ARM64, "8@[sp, 16] 4@5", 2, "mem 8 31+-1<<0 16",
			"const 4 -1+-1<<0 5" },
		{ PLAN_ARM64, "8@[x19] 4@wzr", 2, "mem 8 19+-1<<0 0",
			"const 4 -1+-1<<0 0" },
		{ PLAN_ARM64, "8@[x1, x2] 8@[x29,#-8]", 2, "mem 8 1+2<<0 0",
			"mem 8 29+-1<<0 -8" },
		{ PLAN_ARM64, "8@[x1, w2, sxtw] 8@x1", 2, "unknown", "reg 8 1+-1<<0 0" },
		{ PLAN_ARM64, "8@x31 8@x01", 2, "unknown", "unknown" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct usdt_arg args[USDT_MAX_ARGS];
		unsigned int cnt = usdt_args_parse(cases[i].text, cases[i].arch, args);

		if (!ok(cnt == cases[i].cnt, "'%s' has %u arguments", cases[i].text,
			    cases[i].cnt))
			printf("# got: %u\n", cnt);
		if (!cnt)
			continue;
		is_str(shown(&args[0]), cases[i].first, "the first is where it says");
		is_str(shown(&args[cnt - 1]), cases[i].last, "so is the last");
	}
}

static void test_file(void)
{
	_cleanup_elf_file_ struct elf_file *f = NULL;
	const struct elf_func *funcs;
	struct usdt_sites s = { 0 };
	uint16_t sem = 0;
	size_t cnt;

	scratch_file("probes.c", source, strlen(source));
	scratch_run("cc -g0 -O1 -fPIE -pie probes.c -o probes");
	if (!ok(!elf_file_open(scratch("probes"), &f, NULL) &&
			    !elf_file_funcs(f, &funcs, &cnt, NULL),
		    "a program with probes opens"))
		return;
	usdt_sites_read(f, &s);
	is_int(s.cnt, 3, "each clean site is there");
	is_int(s.refused, 1, "what can't be shown is refused");
	if (s.cnt != 3)
		return;
	is_str(s.sites[0].name, "other", "sites are sorted");
	is_str(s.sites[2].provider, "our", "by provider, too");
	is_str(s.sites[2].name, "twice", "a probe may have several");
	ok(s.sites[1].addr < s.sites[2].addr, "in the order of their addresses");
	is_int(funcs[elf_file_lookup(f, "one", 3)->func].addr <= s.sites[1].addr &&
			s.sites[1].addr < funcs[elf_file_lookup(f, "one", 3)->func].addr + 32,
		1, "a site lies in its function");
	is_int(s.sites[0].semaphore, 0, "one has no semaphore");
	ok(s.sites[1].semaphore == s.sites[2].semaphore &&
			pread(elf_file_fd(f), &sem, 2, s.sites[1].semaphore) == 2 &&
			sem == 0x1234,
		"two share theirs, by its place in the file");
	usdt_sites_done(&s);
}

/* Any content of the section: only valid sites, and no read out of bounds. */
static void test_hostile(void)
{
	size_t size, seen = 0;
	uint8_t *b = scratch_read(scratch("probes"), &size);
	const uint8_t *note = memmem(b, size, "stapsdt", 8);

	for (size_t at = 0; note && at < 64; at++) {
		_cleanup_elf_file_ struct elf_file *f = NULL;
		struct usdt_sites s = { 0 };
		uint8_t *byte = b + (note - b) - 12 + at, was = *byte;

		*byte ^= 0xff;
		scratch_file("broken", b, size);
		*byte = was;
		if (elf_file_open(scratch("broken"), &f, NULL))
			continue;
		usdt_sites_read(f, &s);
		seen++;
		if (s.cnt > 4 || s.cnt + s.refused > 4)
			ok(false, "byte %zu of a note makes no probe", at);
		for (size_t i = 0; i < s.cnt; i++)
			if (s.sites[i].offset >= size || s.sites[i].semaphore >= size)
				ok(false, "byte %zu leads out of the file", at);
		usdt_sites_done(&s);
	}
	free(b);
	is_int(seen, 64, "a file with a damaged note is read");
}

int main(void)
{
	scratch_begin();
	test_args();
	test_file();
	test_hostile();
	return tap_done();
}
