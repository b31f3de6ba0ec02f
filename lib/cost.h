/* SPDX-License-Identifier: BSD-2-Clause */
/* What a group's programs take of the machine's time. */
#ifndef FUNCSNOOP_COST_H
#define FUNCSNOOP_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "bpffs.h"
#include "err.h"
#include "group.h"

/*
 * A reading of the kernel's own accounting: run time of the group's programs, without the
 * trap into the kernel. It counts only while kernel.bpf_stats_enabled is 1 (sysctl), and
 * reading it needs CAP_SYS_ADMIN (BPF_PROG_GET_FD_BY_ID).
 */
struct cost_reading {
	bool known;
	uint64_t at_ns;  /* CLOCK_MONOTONIC */
	uint64_t run_ns; /* of all programs, ever */
	uint64_t runs;
};

/* Never fails: what can't be read is not known. */
void cost_read(const struct bpffs *fs, const char *group, struct cost_reading *ret_reading);

/* Time that the programs took between two readings, ns in each second; both must be known. */
uint64_t cost_rate(const struct cost_reading *before, const struct cost_reading *after);

#endif
