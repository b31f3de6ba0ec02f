/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel's functions, according to its BTF, which of them can be traced, and its symbols. */
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
 * Reads the functions of this kernel; needs no privilege. All strings live as long as *ret. Returns
 * -ENOENT if the kernel has no BTF. The caller frees *ret with kfuncs_free().
 */
_must_check_ int kfuncs_open(struct kfuncs **ret, struct err *err);
void kfuncs_free(struct kfuncs *k);

/* Adds the functions of loaded modules, once. Unreadable modules are skipped. */
void kfuncs_add_modules(struct kfuncs *k);

/* Returns all functions by number. The array moves when modules are added. */
const struct kfunc *kfuncs_all(const struct kfuncs *k, size_t *ret_cnt);

/*
 * Returns the reason why @f cannot be traced, or NULL. The list of traceable functions is in
 * tracefs, which only root can read. For other users, all functions with a unique name appear
 * traceable.
 */
const char *kfuncs_refuse(struct kfuncs *k, const struct kfunc *f);

/* Methods of attaching probes to functions, the best first. */
enum kfunc_how {
	KFUNC_FENTRY, /* a trampoline for each; all returns are traced */
	KFUNC_MULTI,  /* kprobes by one link (5.18, CONFIG_FPROBE) */
	KFUNC_KPROBE, /* a kprobe for each, by links of perf events (5.15) */
	KFUNC_CNT
};

/*
 * Checks whether the kernel offers @how: returns 0 or the reason. Without the privileges to try it,
 * the names of kernel functions and sysfs decide.
 */
int kfunc_how_probe(enum kfunc_how how);

/* Formats the missing methods and the kernel features that they need: "fentry, kprobes", or "". */
const char *kfunc_lacking(char *buf, size_t size);

/*
 * Returns the descriptor of the BTF of @module for BPF programs on its functions, which the caller
 * closes if it is above 0; 0 for the kernel itself (NULL). Returns -ENOENT if no such module has
 * BTF, or -EPERM without CAP_SYS_ADMIN, which the kernel requires for BTF of modules.
 */
int kfunc_btf_fd(const char *module);

DEFINE_CLEANUP(kfuncs, struct kfuncs *, kfuncs_free)
#define _cleanup_kfuncs_ __cleanup(cleanup_kfuncs)

/* --- the kernel's symbols --------------------------------------------------------------------- */

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
