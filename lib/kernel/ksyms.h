/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel's symbols. */
#ifndef FUNCSNOOP_KERNEL_KSYMS_H
#define FUNCSNOOP_KERNEL_KSYMS_H

#include <stdint.h>

/* In the order of /proc/kallsyms. */
enum ksym_of { KSYM_KERNEL, KSYM_MODULE, KSYM_LOADED };

struct ksym {
	enum ksym_of of;
	uint64_t addr; /* 0: this user must not see addresses */
	char type;     /* as in nm(1) */
	char name[256];
	char module[64]; /* not set for KSYM_KERNEL */
};

/*
 * Calls @each for all symbols up to and including those of @last, until it returns nonzero, and
 * returns that value. Avoid KSYM_LOADED if symbols of BPF programs are not needed: for each of them
 * the kernel walks through all of them, which takes minutes with ten thousand. Returns -errno if it
 * cannot read.
 */
int ksyms_each(enum ksym_of last, int (*each)(const struct ksym *sym, void *userdata),
	void *userdata);

#endif
