/* SPDX-License-Identifier: BSD-2-Clause */
/* How the tools of the benchmark give up. */
#ifndef FUNCSNOOP_BENCH_H
#define FUNCSNOOP_BENCH_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define die(...)                              \
	do {                                  \
		fprintf(stderr, __VA_ARGS__); \
		fputc('\n', stderr);          \
		exit(1);                      \
	} while (0)

/* The same with the text of errno. */
#define die_errno(...)                                      \
	do {                                                \
		int _code = errno;                          \
		fprintf(stderr, __VA_ARGS__);               \
		fprintf(stderr, ": %s\n", strerror(_code)); \
		exit(1);                                    \
	} while (0)

#endif
