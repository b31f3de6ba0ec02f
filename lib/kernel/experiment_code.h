/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions that experiments probe: a page of machine code, and who calls them how. */
#ifndef FUNCSNOOP_KERNEL_EXPERIMENT_CODE_H
#define FUNCSNOOP_KERNEL_EXPERIMENT_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Functions of the page, and where their probes are. */
enum code_func {
	CODE_PLAIN,  /* returns its return address; has no probe */
	CODE_RETURN, /* the same with a return probe */
	CODE_STEP,   /* begins with a probed instruction that no kernel emulates */
	CODE_CALL,   /* begins with a probed call */
	CODE_NOP5,   /* keeps its argument below the stack pointer across a probed nop */
	CODE_NOPS,   /* first of CODE_NOPS_CNT that begin with a probed nop */
	CODE_NOPS_CNT = 5,
	CODE_CNT = CODE_NOPS + CODE_NOPS_CNT,
};

#define CODE_PAGE 4096

/* Writes the page. */
void code_write(uint8_t page[CODE_PAGE]);

/* Offset in the page of the probe of @func. */
unsigned long code_probe(enum code_func func);

/* Whether @func is there on this architecture. */
bool code_has(enum code_func func);

/* The first byte of the probe of @func in @text, as it is in memory now, and as written. */
uint8_t code_byte(const void *text, enum code_func func);
uint8_t code_byte_written(enum code_func func);

/* Calls @func in the mapping @text of the page; always from the same instruction. */
uintptr_t code_call(const void *text, enum code_func func, uintptr_t arg);

/*
 * Gives the calling thread a shadow stack (ARCH_SHSTK_ENABLE, Documentation/arch/x86/
 * shstk.rst), calls @func, and ends the process with 0. Comes back only without a shadow
 * stack, with a negative errno.
 */
int code_call_shadowed(const void *text, enum code_func func);

/* What it means that there is none: why probes are safe all the same. */
extern const char code_unshadowed[];

/*
 * Makes the system call that return probes end with (uretprobe, x86-64, 6.11 and later),
 * where it has no business: the kernel answers SIGILL. -ENOSYS where there is none.
 */
int code_call_uretprobe(void);

/*
 * Makes the system call that probed nops become (uprobe, x86-64, 6.18 and later): an error
 * or SIGILL. -ENOSYS where nops stay nops.
 */
int code_call_uprobe(void);

#endif
