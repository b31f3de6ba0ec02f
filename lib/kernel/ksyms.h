/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel's symbols. */
#ifndef FUNCSNOOP_KERNEL_KSYMS_H
#define FUNCSNOOP_KERNEL_KSYMS_H

#include <stdint.h>

/* In the order in which /proc/kallsyms has them. */
enum ksym_of { KSYM_KERNEL, KSYM_MODULE, KSYM_LOADED };

struct ksym {
	enum ksym_of of;
	uint64_t addr; /* 0: this user may not see addresses */
	char type;     /* as nm(1) has it */
	char name[256];
	char module[64]; /* of another than KSYM_KERNEL */
};

/*
 * Calls @each for all up to and with those of @last, until it returns other than 0: that is
 * returned. Who needs no BPF programs should not ask for KSYM_LOADED: for each of their symbols
 * the kernel goes through all of them, which takes minutes where there are ten thousand.
 * -errno: cannot read.
 */
int ksyms_each(enum ksym_of last, int (*each)(const struct ksym *sym, void *userdata),
	void *userdata);

#endif
