/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel's tracepoints as tracefs describes them: which there are, and their fields. */
#ifndef FUNCSNOOP_KERNEL_TRACEFS_H
#define FUNCSNOOP_KERNEL_TRACEFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/util.h"

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
	bool is_signed;        /* as the kernel says; arguments of system calls are never */
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
 * Reads a format file (Documentation/trace/events.rst, "Event formats"); @text is taken over
 * in any case. -EBADMSG: no number, or a field that can't be. *ret ends by
 * trace_event_done().
 */
_must_check_ int trace_event_parse(
	char *text, struct trace_event *ret, struct err *err);
void trace_event_done(struct trace_event *e);

/* The field of that name, or NULL. */
const struct trace_field *trace_event_field(const struct trace_event *e, const char *name);

/*
 * A folder that is tracefs' root, to be closed: the one that is mounted, else a mount of its
 * own that nobody else sees. -ENODEV: this kernel has none; -EPERM, -EACCES with the reason.
 */
_must_check_ int tracefs_open(struct err *err);

/* The record of CATEGORY:EVENT. -ENOENT: there is no such one. */
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

/* --- names of system calls, as of the kernel headers that the program was built with -------- */

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
