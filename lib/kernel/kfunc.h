/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel's own functions: which there are by its BTF, and which of them can be traced. */
#ifndef FUNCSNOOP_KERNEL_KFUNC_H
#define FUNCSNOOP_KERNEL_KFUNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/util.h"

struct btf;

struct kfunc {
	const char *name;
	const char *module; /* NULL: of the kernel itself */
	const struct btf *btf;
	uint32_t id;        /* in .btf, of a BTF_KIND_FUNC */
};

struct kfuncs;

/*
 * Reads what this kernel says of its functions; needs no privilege. All strings live as long as
 * it does. -ENOENT: it has no BTF. Free with kfuncs_free().
 */
_must_check_ int kfuncs_open(struct kfuncs **ret, struct err *err);
void kfuncs_free(struct kfuncs *k);

/* Adds those of the modules that are loaded, once; those that can't be read are passed over. */
void kfuncs_add_modules(struct kfuncs *k);

/* By number. The array moves when modules are added. */
const struct kfunc *kfuncs_all(const struct kfuncs *k, size_t *ret_cnt);

/*
 * Why @f can't be traced, or NULL. What the kernel can trace stands in tracefs, which root alone
 * may read; to others all functions that it has by a name of their own seem to be.
 */
const char *kfuncs_refuse(struct kfuncs *k, const struct kfunc *f);

/* How probes of functions can be attached here, the best first. */
enum kfunc_how {
	KFUNC_FENTRY, /* a trampoline for each; the ends of all calls are seen */
	KFUNC_MULTI,  /* kprobes by one link (5.18, CONFIG_FPROBE) */
	KFUNC_KPROBE, /* a kprobe for each, by links of perf events (5.15) */
	KFUNC_CNT
};

/*
 * Whether the kernel offers @how: 0, or why not. Who may not try it is told what the names of
 * the kernel's functions and sysfs say.
 */
int kfunc_how_probe(enum kfunc_how how);

/* "fentry, kprobes", or "" : those that are lacking, with what they need of a kernel. */
const char *kfunc_lacking(char *buf, size_t size);

/*
 * The descriptor of the BTF of @module for programs on its functions, 0 for the kernel itself
 * (NULL); to be closed if above 0. -ENOENT: no such module has BTF; -EPERM without
 * CAP_SYS_ADMIN, which those of modules are only shown to.
 */
int kfunc_btf_fd(const char *module);

DEFINE_CLEANUP(kfuncs, struct kfuncs *, kfuncs_free)
#define _cleanup_kfuncs_ __cleanup(cleanup_kfuncs)

#endif
