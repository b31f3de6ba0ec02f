// SPDX-License-Identifier: BSD-2-Clause
// The library that elf_fuzz begins with: few functions, and one of each kind of symbol.

extern int fuzz_import(const char *);

static int local(int a)
{
	return a * 3;
}

int fuzz_one(int a)
{
	return local(a) + 1;
}

int fuzz_two(int a)
{
	return fuzz_import("two") + a;
}

int fuzz_alias(int a) __attribute__((alias("fuzz_one")));
int fuzz_weak(int a) __attribute__((weak, alias("fuzz_two")));

static int choice(int a)
{
	return a;
}

static int (*resolve(void))(int)
{
	return choice;
}

int fuzz_ifunc(int a) __attribute__((ifunc("resolve")));

/* A mangled name: fuzz::three(int). */
int _ZN4fuzz5threeEi(int a);
int _ZN4fuzz5threeEi(int a)
{
	return fuzz_one(a) ^ fuzz_two(a);
}

/* A USDT probe as sys/sdt.h makes it, with one argument of each kind. */
#define PROBE_ARGS "-4@%edi 8@-16(%rbp,%rcx,8) 4@$5 8@[sp, 16] 2@w1"
void fuzz_probe(void);
void fuzz_probe(void)
{
	__asm__ volatile("990: nop\n"
			 ".pushsection .note.stapsdt,\"?\",%note\n"
			 ".balign 4\n"
			 ".4byte 992f-991f, 994f-993f, 3\n"
			 "991: .asciz \"stapsdt\"\n"
			 "992: .balign 4\n"
			 "993: .8byte 990b, 0, 0\n"
			 ".asciz \"fuzz\", \"probe\", \"" PROBE_ARGS "\"\n"
			 "994: .balign 4\n"
			 ".popsection\n");
}

void _start(void);
void _start(void)
{
	for (;;)
		fuzz_two(fuzz_one(0));
}
