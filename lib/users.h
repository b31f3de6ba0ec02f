/* SPDX-License-Identifier: BSD-2-Clause */
/* Who uses a library now, and whether a process still runs. */
#ifndef FUNCSNOOP_USERS_H
#define FUNCSNOOP_USERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Processes that map the file at @path, as far as the caller may see; -ENOENT when there
 * is no such file, or another error. @ret_pid is one of them. @proc is "/proc" or, for
 * tests, another folder.
 */
int users_of_file(const char *proc, const char *path, size_t *ret_cnt, pid_t *ret_pid);

/*
 * Whether process @pid runs that began at @start_ns (CLOCK_BOOTTIME): one that began at
 * another time has only got its number.
 */
bool users_alive(const char *proc, pid_t pid, uint64_t start_ns);

#endif
