// SPDX-License-Identifier: BSD-2-Clause
// Machine code to be probed, and calls of it.
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"
#include "internal.h"

#define SLOT 64 /* bytes for a function: no probe comes near the end of the page */

struct code {
	uint8_t size, probe; /* probe: offset of the probed instruction */
	uint8_t bytes[30];
};

#if defined(__x86_64__)

static const struct code codes[CODE_CNT] = {
	/* mov (%rsp),%rax; ret */
	[CODE_PLAIN] = { 5, 0, { 0x48, 0x8b, 0x04, 0x24, 0xc3 } },
	[CODE_RETURN] = { 5, 0, { 0x48, 0x8b, 0x04, 0x24, 0xc3 } },
	/* mov %rdi,%rax; ret */
	[CODE_STEP] = { 4, 0, { 0x48, 0x89, 0xf8, 0xc3 } },
	/* call 1f; ret; 1: ret */
	[CODE_CALL] = { 7, 0, { 0xe8, 1, 0, 0, 0, 0xc3, 0xc3 } },
	/* mov %rdi,-8(%rsp); nopl 0(%rax,%rax,1); mov -8(%rsp),%rax; ret */
	[CODE_NOP5] = { 16, 5,
		{ 0x48, 0x89, 0x7c, 0x24, 0xf8, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0x48, 0x8b,
			0x44, 0x24, 0xf8, 0xc3 } },
	/* nop of 3, 4, 6, 7, 8 bytes; ret */
	[CODE_NOPS] = { 4, 0, { 0x0f, 0x1f, 0x00, 0xc3 } },
	[CODE_NOPS + 1] = { 5, 0, { 0x0f, 0x1f, 0x40, 0x00, 0xc3 } },
	[CODE_NOPS + 2] = { 7, 0, { 0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3 } },
	[CODE_NOPS + 3] = { 8, 0, { 0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00, 0xc3 } },
	[CODE_NOPS + 4] = { 9, 0,
		{ 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00, 0xc3 } },
};

#define SYS_URETPROBE     335
#define SYS_UPROBE        336
#define ARCH_SHSTK_ENABLE 0x5001
#define ARCH_SHSTK_SHSTK  1

/* No return from a function may lie between the call and its answer. */
#define RAW_SYSCALL(ret, nr, arg1, arg2)                                         \
	__asm__ volatile("syscall"                                               \
			 : "=a"(ret)                                             \
			 : "a"((long)(nr)), "D"((long)(arg1)), "S"((long)(arg2)) \
			 : "rcx", "r11", "memory")

const char code_unshadowed[] = "no shadow stacks on this machine";

int code_call_shadowed(const void *text, enum code_func func)
{
	void (*call)(void) = (void (*)(void))((uintptr_t)text + func * SLOT);
	long ret;

	RAW_SYSCALL(ret, SYS_arch_prctl, ARCH_SHSTK_ENABLE, ARCH_SHSTK_SHSTK);
	if (ret)
		return ret;
	call();
	child_exit(0);
}

int code_call_uretprobe(void)
{
	long ret;

	RAW_SYSCALL(ret, SYS_URETPROBE, 0, 0);
	return ret;
}

int code_call_uprobe(void)
{
	long ret;

	RAW_SYSCALL(ret, SYS_UPROBE, 0, 0);
	return ret;
}

#elif defined(__aarch64__)

static const struct code codes[CODE_CNT] = {
	/* mov x0, x30; ret */
	[CODE_PLAIN] = { 8, 0, { 0xe0, 0x03, 0x1e, 0xaa, 0xc0, 0x03, 0x5f, 0xd6 } },
	[CODE_RETURN] = { 8, 0, { 0xe0, 0x03, 0x1e, 0xaa, 0xc0, 0x03, 0x5f, 0xd6 } },
};

/* Up to 6.17 ARM64_GCS excludes UPROBES (arch/arm64/Kconfig); later kernels know both. */
const char code_unshadowed[] = "not tried; arm64's kernels keep shadow stacks right";

int code_call_shadowed(const void *text, enum code_func func)
{
	(void)text, (void)func;
	return -EOPNOTSUPP;
}

int code_call_uretprobe(void)
{
	return -ENOSYS;
}

int code_call_uprobe(void)
{
	return -ENOSYS;
}

#endif

void code_write(uint8_t page[CODE_PAGE])
{
	memset(page, 0, CODE_PAGE);
	for (size_t i = 0; i < CODE_CNT; i++)
		memcpy(page + i * SLOT, codes[i].bytes, codes[i].size);
}

bool code_has(enum code_func func)
{
	return codes[func].size;
}

unsigned long code_probe(enum code_func func)
{
	return func * SLOT + codes[func].probe;
}

uint8_t code_byte(const void *text, enum code_func func)
{
	return ((const volatile uint8_t *)text)[code_probe(func)];
}

uint8_t code_byte_written(enum code_func func)
{
	return codes[func].bytes[codes[func].probe];
}

__attribute__((noinline)) uintptr_t code_call(
	const void *text, enum code_func func, uintptr_t arg)
{
	uintptr_t (*call)(uintptr_t) =
		(uintptr_t(*)(uintptr_t))((uintptr_t)text + func * SLOT);
	uintptr_t ret = call(arg);

	/* Not a jump: what returns must return here. */
	__asm__ volatile("" : "+r"(ret));
	return ret;
}
