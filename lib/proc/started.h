/* SPDX-License-Identifier: BSD-2-Clause */
/* A program that is started stopped, so that it can be watched from its first instruction. */
#ifndef FUNCSNOOP_PROC_STARTED_H
#define FUNCSNOOP_PROC_STARTED_H

#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

#include "base/err.h"
#include "base/util.h"

struct started {
	pid_t pid; /* 0: none */
	int fd;    /* a pidfd, readable once it has ended */
	int go_fd, error_fd;
};
#define STARTED_NONE                                  \
	{                                             \
		.fd = -1, .go_fd = -1, .error_fd = -1 \
	}

/*
 * Finds the program argv[0] as shells do, by $PATH if it has no slash. -ENOENT when there is
 * none, -EACCES when it can't be run. Free *ret_path.
 */
_must_check_ int started_find(const char *name, char **ret_path, struct err *err);

/*
 * Forks a process that is to become the program @path with @argv (ending with NULL) and this
 * process's environment, signals and terminal; it waits until started_go(), and ends if this
 * process does before. Between the two it makes no call of a library but syscall(2).
 * End with started_done(), which ends one that has not begun; others go on.
 */
_must_check_ int started_start(const char *path, char *const *argv,
	struct started *ret_started, struct err *err);
void started_done(struct started *c);

/* Lets it begin: what execve(2) says, or -ECHILD when it has ended while it waited. */
_must_check_ int started_go(struct started *c, struct err *err);

/* From here on signals that others send to this process are the child's. */
void started_forward_signals(const struct started *c);

/* Whether it has ended; does not wait. */
bool started_ended(const struct started *c);

/*
 * The terminal of the standard error, which a program may leave as it likes: its modes, and
 * which processes have it. terminal_restore() does nothing where there is none, and where
 * this process was in the background.
 */
struct terminal {
	bool is_ours;
	struct termios modes;
};
void terminal_save(struct terminal *ret_terminal);
void terminal_restore(const struct terminal *t);

/* Waits for its end: its exit status, or 128 + the signal that ended it. */
int started_wait(struct started *c);

#define _cleanup_started_ __cleanup(started_done)

#endif
