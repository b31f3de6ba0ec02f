/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of system calls, as of the kernel headers that the program was built with. */
#ifndef FUNCSNOOP_KERNEL_SYSCALLS_H
#define FUNCSNOOP_KERNEL_SYSCALLS_H

/* Who numbers a call: programs of 32 bits have numbers of their own for the same names. */
enum syscall_abi {
	SYSCALL_NATIVE,
	SYSCALL_32BIT,
};

/* Every number is below it, also of kernels to come; x32's are above. */
#define SYSCALL_NUMBERS 1024

/* The name of @number, without "sys_"; NULL when it is not known. */
const char *syscall_name(enum syscall_abi abi, unsigned int number);

/* The number of the native call @name, or -1. */
int syscall_number(const char *name);

#endif
