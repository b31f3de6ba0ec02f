/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes that died while a group counted their calls: the last CRASHES_MAX of them. */
#ifndef FUNCSNOOP_GROUP_CRASHES_H
#define FUNCSNOOP_GROUP_CRASHES_H

#include <stddef.h>
#include <stdint.h>

#include "group/group.h"
#include "group/notation.h"

#define CRASHES_MAX 16

struct crash {
	uint64_t time_ns;  /* CLOCK_MONOTONIC */
	uint64_t start_ns; /* of the process: CLOCK_BOOTTIME */
	pid_t pid, tid;    /* the thread that took the signal or exited */
	char comm[16];
	unsigned int signal; /* 0: it has exited with .status */
	unsigned int status;
	uint64_t addr; /* whose access has failed, if .has_addr */
	bool has_addr, out_of_memory;
	/* Calls in progress by thread, outermost first; .call_cnt can be more: the innermost ones. */
	struct slot_call *calls;
	size_t cnt, call_cnt;
	struct fsn_crash *record; /* for its stack */
};

/* Returns how many processes have died so far, or 0 if that cannot be read. */
uint64_t crashes_ever(const struct group *g);

/*
 * Reads process @number, which is below crashes_ever(). The caller frees it with crash_done(), also
 * after an error. Returns 0, -EAGAIN while the process is dying, -ENOENT if its record was
 * overwritten, or -EACCES or -EPERM if the caller is not the owner.
 */
_must_check_ int crash_read(const struct group *g, uint64_t number, struct crash *ret_crash, struct err *err);
void crash_done(struct crash *c);
#define _cleanup_crash_ __cleanup(crash_done)

/* "SIGSEGV at 0x8", "exit status 3", "SIGKILL, out of memory". */
#define CRASH_TEXT NOTATION_LEN
const char *crash_text(const struct crash *c, char buf[CRASH_TEXT]);

/* Returns the name of the signal, or NULL if the process has exited. */
const char *crash_signal(const struct crash *c, char buf[CRASH_TEXT]);

#endif
