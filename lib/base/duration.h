/* SPDX-License-Identifier: BSD-2-Clause */
/* Durations as people write them: a number with ns, us, ms or s. */
#ifndef FUNCSNOOP_BASE_DURATION_H
#define FUNCSNOOP_BASE_DURATION_H

#include <stdint.h>

#include "base/err.h"

/*
 * Reads "250ns", "5ms", "1.5s". A fraction is exact to the nanosecond; digits below that,
 * a missing unit, a sign, blanks, and what exceeds 2^63 - 1 ns are -EINVAL with @err
 * saying which. *ret_ns is written only on success. "µs" is taken for us.
 */
int duration_parse(const char *text, uint64_t *ret_ns, struct err *err);

#define DURATION_LEN 32

/*
 * Writes @ns for a reader: the largest unit that leaves at least 1, at most three digits
 * after the point, rounded ("999ns", "1.235ms", "2s"). Returns @buf.
 */
const char *duration_format(uint64_t ns, char buf[DURATION_LEN]);

/* A size in bytes: "4096", or by powers of 1024 "64K", "1M", "2G", "1T". -EINVAL. */
int size_parse(const char *text, uint64_t *ret_bytes);

#endif
