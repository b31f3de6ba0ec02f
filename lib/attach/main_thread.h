/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether a process keeps the thread by which the kernel knows it. */
#ifndef FUNCSNOOP_ATTACH_MAIN_THREAD_H
#define FUNCSNOOP_ATTACH_MAIN_THREAD_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether the main thread of @pid has ended, and others run. */
bool main_thread_ended(pid_t pid);

/*
 * The same, or whether it may end before the process does: some file that the process maps
 * calls pthread_exit(3) or thrd_exit(3), as far as files can be read. What it opens later,
 * and system calls without the C library, are not seen.
 */
bool main_thread_may_end(pid_t pid);

#endif
