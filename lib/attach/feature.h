/* SPDX-License-Identifier: BSD-2-Clause */
/* What this kernel and build can do, and what will be used: `funcsnoop feature`. */
#ifndef FUNCSNOOP_ATTACH_FEATURE_H
#define FUNCSNOOP_ATTACH_FEATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "code/plan.h"
#include "kernel/experiment.h"
#include "kernel/link.h"

struct feature_link {
	enum link_mode mode;
	enum answer available; /* unknown: the caller may not try */
	char why[128];         /* what was found, or the kernel's error */
};

/* Why something needs a capability(7), and whether the caller has it. */
struct feature_cap {
	const char *name, *purpose;
	bool effective;
	bool needed; /* for attach; the others are for some targets only */
};

#define FEATURE_LINK_CNT 3
#define FEATURE_CAP_CNT  6
#define FEATURE_HINT_CNT 8
#define FEATURE_UNKNOWN  INT64_MIN /* a setting that can't be read */

struct feature_report {
	char release[65], machine[65];
	bool btf;
	struct feature_link links[FEATURE_LINK_CNT]; /* best first */
	enum link_mode link; /* what attach uses; LINK_AUTO: none */
	enum answer func_ip; /* bpf_get_func_ip() in programs of that kind */
	struct experiment_result experiments[EXPERIMENT_CNT];
	bool cached;
	uint64_t experiments_ns; /* how long they took; 0 when they were in the cache */
	struct plan_rules rules; /* what follows from them */
	int64_t jit, unprivileged_bpf_disabled, perf_event_paranoid, bpf_stats_enabled;
	char bpffs[4096]; /* the folder of the groups */
	bool bpffs_mounted, bpffs_usable;
	char bpffs_why[256]; /* why not usable, or "" */
	struct feature_cap caps[FEATURE_CAP_CNT];
	uint64_t nofile, nofile_max, memlock; /* RLIMIT_*; UINT64_MAX: none */
	char hints[FEATURE_HINT_CNT][256];    /* what to do about what is missing */
	size_t hint_cnt;
};

/*
 * Looks at everything. @bpffs as of bpffs_open(). What can't be found out is reported as
 * that, never an error; nothing is changed but the cache.
 */
void feature_report(const char *bpffs, bool fresh, struct feature_report *ret_report);

#endif
