/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the experiments share: children, the code they run, its probes, their ends. */
#ifndef FUNCSNOOP_KERNEL_INTERNAL_H
#define FUNCSNOOP_KERNEL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel/kernel.h"

/* --- lab.c: a forked child that may die, and what became of it ------------------------------ */

struct child {
	pid_t pid;
	int fd; /* pidfd, or -1 */
};

/* What child_wait() returns instead of the function's value, 0 to 99. */
#define CHILD_SIGNAL 128  /* + the signal that it died of */
#define CHILD_LOST   1000 /* no child, or no end of it in time */

/*
 * Runs @fn in a child, whose value ends it. The child leaves no core dump and no line in
 * the kernel's log if it dies of a fault, and dies with its parent or after
 * EXPERIMENT_LIMIT_S. @fn must not touch stdio or the heap. Always to be waited for.
 */
void child_start(struct child *child, int (*fn)(const void *arg), const void *arg);
int child_wait(struct child *child);

/* --- lab.c: a page of machine code that is probed, and who calls it how --------- */

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

/* --- jobs.c, lab.c: what children try, on which probes ---------------------------------------- */

/* How a child ends that was not harmed. */
enum end {
	END_FINE,
	END_NO_TEXT,   /* the code could not be mapped */
	END_NO_PROBE,  /* there is no breakpoint where one should be */
	END_NO_EFFECT, /* the return address was not replaced */
	END_NO_FILTER, /* no seccomp filter could be set */
	END_NO_SHADOW, /* this machine gives no shadow stack */
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
	int code; /* why there are no probes, a negative errno, or 0 */
};

/* What children try. */
enum job {
	JOB_RETURN,
	JOB_FILTERED_RETURN,
	JOB_URETPROBE,
	JOB_FILTERED_URETPROBE,
	JOB_UPROBE,
	JOB_SHADOW,
	JOB_SHADOWED_RETURN,
	JOB_SHADOWED_CALL,
	JOB_NOP5,
	JOB_MULTINOP,
	JOB_CNT,
};

/* The function of a child for each; takes the struct lab and returns an enum end. */
extern int (*const experiment_jobs[JOB_CNT])(const void *lab);

/* Makes the page and attaches the probes, or says in .code why not; lab_close() in any case. */
void lab_open(struct lab *lab);
void lab_close(struct lab *lab);

#endif
