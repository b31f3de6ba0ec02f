/* SPDX-License-Identifier: BSD-2-Clause */
/* A forked child that may die, and what became of it. */
#ifndef FUNCSNOOP_KERNEL_EXPERIMENT_CHILD_H
#define FUNCSNOOP_KERNEL_EXPERIMENT_CHILD_H

#include <sys/types.h>

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

/* Ends the calling child at once, by exit_group alone. */
_Noreturn void child_exit(int code);

#endif
