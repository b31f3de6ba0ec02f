/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of attaching and calibrating share; nobody else includes this. */
#ifndef FUNCSNOOP_ATTACH_INTERNAL_H
#define FUNCSNOOP_ATTACH_INTERNAL_H

#include "attach/attach.h"
#include "shared/words.h"

/* calibrate_code.c: a function to be probed for each class, and one that never is. */
extern void (*const calibrate_funcs[PRICE_SITES][PRICE_ENDS])(void);
__attribute__((visibility("hidden"))) void calibrate_plain(void);

/* shared.c: which other group probes functions of @draft, into @report. */
void find_shared(const struct bpffs *fs, const struct draft *draft, struct attach_report *report);

#endif
