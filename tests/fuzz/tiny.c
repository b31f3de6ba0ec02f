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

void _start(void);
void _start(void)
{
	for (;;)
		fuzz_two(fuzz_one(0));
}
