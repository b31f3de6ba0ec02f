/* SPDX-License-Identifier: BSD-2-Clause */
/* Names that groups may have. */
#ifndef FUNCSNOOP_BASE_NAME_H
#define FUNCSNOOP_BASE_NAME_H

#include "base/err.h"

#define GROUP_NAME_MAX 32

/*
 * 0 when @name may name a group: 1 to 32 letters, digits, _ and -, beginning with a letter
 * or digit, and none of functions, presets, inflight, help, all. Otherwise -EINVAL.
 */
int group_name_check(const char *name, struct err *err);

#endif
