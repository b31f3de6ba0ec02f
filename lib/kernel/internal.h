/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the parts of the self-tests: children, the code that they run, its probes, exit
 * reasons.
 */
#ifndef FUNCSNOOP_KERNEL_INTERNAL_H
#define FUNCSNOOP_KERNEL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel/kernel.h"

/* --- lab.c: a forked child that may be killed, and its exit -------------------------------- */

struct child {
	pid_t pid;
	int fd; /* pidfd, or -1 */
};

/* Results of child_wait() other than the value of the function, 0 to 99. */
#define CHILD_SIGNAL 128  /* + the signal that killed it */
#define CHILD_LOST   1000 /* no child, or it did not exit in time */

/*
 * Runs @fn in a child, which exits with its value. The child leaves no core dump and no line in the
 * kernel log if it dies of a fault. It is killed with its parent or after EXPERIMENT_LIMIT_S. @fn
 * must not use stdio or the heap. The caller must call child_wait().
 */
void child_start(struct child *child, int (*fn)(const void *arg), const void *arg);
int child_wait(struct child *child);

/* --- lab.c: a page of machine code that is probed, and its callers -------------- */

/* Functions of the page, and the locations of their probes. */
enum code_func {
	CODE_PLAIN,  /* returns its return address; has no probe */
	CODE_RETURN, /* the same with a return probe */
	CODE_STEP,   /* starts with a probed instruction that no kernel emulates */
	CODE_CALL,   /* starts with a probed call */
	CODE_NOP5,   /* keeps its argument below the stack pointer across a probed nop */
	CODE_NOPS,   /* first of CODE_NOPS_CNT that start with a probed nop */
	CODE_NOPS_CNT = 5,
	CODE_CNT = CODE_NOPS + CODE_NOPS_CNT,
};

#define CODE_PAGE 4096

/* True if @func exists on this architecture. */
bool code_has(enum code_func func);

/* Returns the first byte of the probe of @func: in @text as it is now, and as written. */
uint8_t code_byte(const void *text, enum code_func func);
uint8_t code_byte_written(enum code_func func);

/* Calls @func in the mapping @text of the page, always from the same instruction. */
uintptr_t code_call(const void *text, enum code_func func, uintptr_t arg);

/*
 * Gives the calling thread a shadow stack (ARCH_SHSTK_ENABLE, Documentation/arch/x86/shstk.rst),
 * calls @func, and exits with 0. Returns only if there is no shadow stack, with a negative errno.
 */
int code_call_shadowed(const void *text, enum code_func func);

/* Explains why probes are safe without a shadow stack. */
extern const char code_unshadowed[];

/*
 * Makes the system call that return probes use (uretprobe, x86-64, 6.11 and later) from a wrong
 * place: the kernel raises SIGILL. Returns -ENOSYS if it does not exist.
 */
int code_call_uretprobe(void);

/*
 * Makes the system call that replaces probed nops (uprobe, x86-64, 6.18 and later): an error or
 * SIGILL. Returns -ENOSYS if nops are not replaced.
 */
int code_call_uprobe(void);

/* --- lab.c: probes, and how children exit ---------------------------------------------------- */

/* How a child exits if it was not harmed. */
enum end {
	END_FINE,
	END_NO_TEXT,   /* the code could not be mapped */
	END_NO_PROBE,  /* no breakpoint where one is expected */
	END_NO_EFFECT, /* the return address was not replaced */
	END_NO_FILTER, /* a seccomp filter cannot be set */
	END_NO_SHADOW, /* the machine has no shadow stack */
	END_UNCLEAR,
	END_STEPPED,
	END_NOT_THERE, /* the system call does not exist */
	END_BECAME_CALL,
	END_DEADLY_CALL, /* and a forked child dies of it */
	END_CHANGED,
};

/* The page of code and the links of its probes. */
struct lab {
	int text_fd;
	int links[2];
	size_t link_cnt;
	enum link_mode mode;
	int code; /* negative errno if there are no probes; else 0 */
};

/* Creates the page and attaches the probes, or sets .code. lab_close() is always required. */
void lab_open(struct lab *lab);
void lab_close(struct lab *lab);

#endif
