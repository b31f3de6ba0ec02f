/* SPDX-License-Identifier: BSD-2-Clause */
/* Kernel tracepoints as described by tracefs: their names and fields. */
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

#endif
