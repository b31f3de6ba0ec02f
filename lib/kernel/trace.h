/* SPDX-License-Identifier: BSD-2-Clause */
/* Tracepoints, system calls, functions and symbols of the kernel. */
#pragma once

#include "base/err.h"
#include "base/util.h"

/* --- tracepoints, as tracefs describes them: their names and fields --------------------------- */

enum trace_kind {
	TRACE_NUMBER,  /* an integer of 1, 2, 4 or 8 bytes, or a pointer */
	TRACE_TEXT,    /* char[N], ends with a zero byte or the field */
	TRACE_LOC,     /* __data_loc: length << 16 | offset from the record's begin */
	TRACE_REL_LOC, /* __rel_loc: the same from the field's end */
	TRACE_BYTES,   /* anything else: arrays, structures */
};

struct trace_field {
	const char *type; /* as declared, without the array's length: "const char *" */
	const char *name;
	uint32_t offset, size; /* bytes, from the record's begin */
	uint8_t kind;          /* enum trace_kind */
	bool is_signed;        /* as the kernel reports it; never for arguments of system calls */
	bool of_text;          /* TRACE_LOC, TRACE_REL_LOC: of char */
	bool is_common;        /* every tracepoint has it */
};

/* A tracepoint's record. Strings live as long as it does. */
struct trace_event {
	uint32_t id; /* of perf_event_attr.config */
	uint32_t size;
	struct trace_field *fields; /* in the file's order */
	size_t cnt;
	char *text;
};

/*
 * Parses a format file (Documentation/trace/events.rst, "Event formats"). Always takes over @text.
 * Returns 0, or -EBADMSG if the number is missing or a field is invalid. The caller frees *ret with
 * trace_event_done().
 */
_must_check_ int trace_event_parse(
	char *text, struct trace_event *ret, struct err *err);
void trace_event_done(struct trace_event *e);

/* Returns the field of that name, or NULL. */
const struct trace_field *trace_event_field(const struct trace_event *e, const char *name);

/*
 * Returns a descriptor of the tracefs root, which the caller closes: that of a mounted tracefs, or
 * of a private mount that no other process can see. Returns -ENODEV if the kernel has no tracefs;
 * -EPERM or -EACCES with the reason.
 */
_must_check_ int tracefs_open(struct err *err);

/* Reads the record of CATEGORY:EVENT. Returns -ENOENT if it does not exist. */
_must_check_ int tracefs_event(int tracefs, const char *category, const char *event,
	struct trace_event *ret, struct err *err);

/* Names as "CATEGORY:EVENT", sorted, of all events that can be attached to. */
struct trace_names {
	char **names;
	size_t cnt;
};
_must_check_ int tracefs_names(int tracefs, struct trace_names *ret, struct err *err);
void trace_names_done(struct trace_names *n);

static inline void cleanup_trace_event(struct trace_event *e)
{
	trace_event_done(e);
}

static inline void cleanup_trace_names(struct trace_names *n)
{
	trace_names_done(n);
}

#define _cleanup_trace_event_ __cleanup(cleanup_trace_event)
#define _cleanup_trace_names_ __cleanup(cleanup_trace_names)

/* --- names of system calls, from the kernel headers of the build ---------------------------- */

/* The numbering of a call: 32-bit programs have other numbers for the same names. */
enum syscall_abi {
	SYSCALL_NATIVE,
	SYSCALL_32BIT,
};

/* An upper limit for all numbers, including those of later kernels; x32's are above. */
#define SYSCALL_NUMBERS 1024

/* Returns the name of @number, without "sys_"; NULL if it is not known. */
const char *syscall_name(enum syscall_abi abi, unsigned int number);

/* Returns the number of the native call @name, or -1. */
int syscall_number(const char *name);

/* --- functions, according to BTF, and which of them can be traced ------------------------------ */

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
