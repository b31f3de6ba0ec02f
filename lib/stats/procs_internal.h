/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of processes from inside the library: which of its records count. */
#ifndef FUNCSNOOP_STATS_PROCS_INTERNAL_H
#define FUNCSNOOP_STATS_PROCS_INTERNAL_H

#include "stats/procs.h"
#include "internal.h"

static inline uint32_t procs_fn(uint64_t key)
{
	return (key & FSN_FN_MASK) - 1;
}

/* 0: it is a row of ended processes. */
static inline pid_t procs_pid(uint64_t key)
{
	return key >> FSN_PROC_TGID_SHIFT & ((1U << FSN_KEY_TGID_BITS) - 1);
}

/* Whether a record or row with this key counts in @view. */
static inline bool procs_counts(const struct stats_view *view, uint64_t key)
{
	uint64_t mark = FSN_PROC_MARK(view->ctl.fold);

	if (!key || key == FSN_PROC_LOCKED || (key & FSN_PROC_MARK(1)) == mark)
		return false;
	return view_has(view, key >> FSN_PROC_EPOCH_SHIFT & FSN_EPOCH_MAX);
}

/* How many records programs use; behind them stand the rows. -EPROTO, or what bpf(2) gives. */
int procs_cnt(const struct group *g, uint32_t *ret_cnt);

#endif
