/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Included before every file of a coverage build, so that children that call _exit()
 * count their lines.
 */
#ifndef FUNCSNOOP_TESTS_COVERAGE_H
#define FUNCSNOOP_TESTS_COVERAGE_H

#include <unistd.h>

void __gcov_dump(void);

#define _exit(status) (__gcov_dump(), (_exit)(status))

#endif
