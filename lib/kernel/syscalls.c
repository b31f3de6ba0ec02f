// SPDX-License-Identifier: BSD-2-Clause
// Names of system calls, in the order of their numbers.
#include "kernel/syscalls.h"

#include <stddef.h>
#include <string.h>

static const char *const names[SYSCALL_NUMBERS] = {
#include "syscalls.inc"
};

static const char *const names_32[SYSCALL_NUMBERS] = {
#include "syscalls32.inc"
};

const char *syscall_name(enum syscall_abi abi, unsigned int number)
{
	if (number >= SYSCALL_NUMBERS)
		return NULL;
	return abi == SYSCALL_32BIT ? names_32[number] : names[number];
}

int syscall_number(const char *name)
{
	for (int i = 0; i < SYSCALL_NUMBERS; i++)
		if (names[i] && !strcmp(names[i], name))
			return i;
	return -1;
}
