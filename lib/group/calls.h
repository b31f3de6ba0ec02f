/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls in progress: listing them, and giving up those whose thread is gone. */
#ifndef FUNCSNOOP_GROUP_CALLS_H
#define FUNCSNOOP_GROUP_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "group/group.h"

struct slot_call {
	uint32_t fn;
	pid_t pid, tid;
	uint64_t start_ns; /* CLOCK_MONOTONIC */
	uint64_t age_ns;
	uint64_t where;    /* as in its slot: a user's stack pointer, at its return address */
	char comm[16];     /* the thread's, "" when it is gone */
	bool stale;        /* its thread's stack pointer is above: it can't be running */
};

/*
 * All calls in progress, longest first. *ret_calls is freed with free(). A call is stale
 * when /proc/PID/task/TID/syscall (proc(5)) shows a stack pointer above the call's in the
 * same mapping, or when the call's stack is not mapped any more; that changes no count.
 */
int slots_read(const struct group *g, struct slot_call **ret_calls, size_t *ret_cnt,
	struct err *err);

/*
 * Gives up calls whose thread is gone, or is another one that began later, or has become
 * another program: they are counted as abandoned, each by compare-and-exchange, so that a
 * call that ends meanwhile counts once. One that ends later is no longer abandoned then.
 * Does nothing outside the first pid and time namespaces, where threads can't be told. @g
 * must be open for writing. Returns their number.
 */
int slots_sweep(const struct group *g, size_t *ret_cnt, struct err *err);

#endif
