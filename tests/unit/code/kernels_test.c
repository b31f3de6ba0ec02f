// SPDX-License-Identifier: BSD-2-Clause
/* Kernels that a program registers: this one does it as code of CUDA's compiler, and is read. */
#include <stdlib.h>
#include <string.h>

#include "code/cuda.h"
#include "tap.h"

#define CODE __attribute__((noipa, used)) /* registers are what a call leaves of them */

int __cudaRegisterFunction(void **module, const char *host, char *device, const char *name,
	int limit, void *tid, void *bid, void *block, void *grid, int *warp);

static volatile int sink;

CODE int __cudaRegisterFunction(void **module, const char *host, char *device, const char *name,
	int limit, void *tid, void *bid, void *block, void *grid, int *warp)
{
	sink += *name + *host + limit;
	return sink;
}

/* Host's functions of kernels: two, one that is registered twice, one that never is. */
CODE static void host_add(void)
{
	sink += 1;
}

CODE static void host_scale(void)
{
	sink += 2;
}

CODE static void host_both(void)
{
	sink += 3;
}

CODE static void host_none(void)
{
	sink += 4;
}

/* As a stub takes the address of its host's function. */
CODE static void launch(void (*host)(void))
{
	sink += host != NULL;
}

CODE static void stub_add(void)
{
	launch(host_add);
	sink += 5;
}

CODE static void stub_two(void)
{
	launch(host_add);
	launch(host_scale);
	sink += 6;
}

CODE static void stub_none(void)
{
	launch(host_none);
	sink += 7;
}

#define REGISTER(fn, name) \
	__cudaRegisterFunction(module, (const char *)(fn), (char *)(name), name, -1, NULL, NULL, \
		NULL, NULL, NULL)

CODE static void register_all(void)
{
	static void *module[2];

	REGISTER(host_add, "_Z3addi");
	REGISTER(host_scale, "mul_by");
	REGISTER(host_both, "one");
	REGISTER(host_both, "other");
	sink += 8;
}

static const struct elf_func *funcs;
static size_t func_cnt;

static uint64_t addr_of(const char *name)
{
	for (size_t i = 0; i < func_cnt; i++)
		if (!strcmp(funcs[i].names->name, name))
			return funcs[i].addr;
	return 0;
}

static const char *name_of(const struct kernel_name *k)
{
	return k ? k->name : "nothing";
}

int main(void)
{
	struct kernel_names k = {};
	struct elf_file *elf = NULL;
	struct err err = {};

	register_all();
	stub_add();
	stub_two();
	stub_none();
	host_both();
	ok(!elf_file_open("/proc/self/exe", &elf, &err) && !elf_file_funcs(elf, &funcs, &func_cnt, &err),
		"this program is read");
	ok(!kernel_names_read(elf, &k, &err), "what it registers is read");
	is_str(name_of(kernel_names_find(&k, addr_of("host_add"))), "_Z3addi",
		"a host's function stands for its kernel");
	is_str(name_of(kernel_names_find(&k, addr_of("host_scale"))), "mul_by", "and another");
	is_str(name_of(kernel_names_find(&k, addr_of("host_both"))), "nothing",
		"two names that contradict each other say nothing");
	is_str(name_of(kernel_names_find(&k, addr_of("host_none"))), "nothing",
		"one that is not registered is none");
	is_str(name_of(kernel_names_find(&k, addr_of("host_add") + 1)), "nothing",
		"nor is a place within one");
	is_str(name_of(kernel_names_around(elf, &k, addr_of("stub_add"))), "_Z3addi",
		"code that takes the address of one launches that");
	is_str(name_of(kernel_names_around(elf, &k, addr_of("stub_two"))), "nothing",
		"of code that takes two it can't be told");
	is_str(name_of(kernel_names_around(elf, &k, addr_of("stub_none"))), "nothing",
		"nor of code that takes none");
	is_str(name_of(kernel_names_around(elf, &k, addr_of("host_scale"))), "mul_by",
		"the host's function itself launches its kernel");
	kernel_names_done(&k);
	elf_file_free(elf);
	return tap_done();
}
