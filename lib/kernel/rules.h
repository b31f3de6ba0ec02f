/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is safe on this kernel, found by trying: code of our own in a memfd that only our
 * children map, probes on it, and children that may die of them. And what follows from that:
 * rules for the planner.
 */
#ifndef FUNCSNOOP_KERNEL_RULES_H
#define FUNCSNOOP_KERNEL_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "code/plan.h"

enum experiment {
	EXPERIMENT_RETURN,   /* a function with a return probe returns */
	EXPERIMENT_SECCOMP,  /* also in a process under a seccomp filter */
	EXPERIMENT_SHADOW,   /* also in a process that uses a shadow stack */
	EXPERIMENT_CALL,     /* a probed call leaves the shadow stack right */
	EXPERIMENT_NOP5,     /* a probed 5-byte nop stays harmless */
	EXPERIMENT_MULTINOP, /* probed nops of 3 to 8 bytes are emulated, not stepped */
	EXPERIMENT_CNT,
};

enum answer { ANSWER_UNKNOWN, ANSWER_NO, ANSWER_YES };

#define EXPERIMENT_WHY_LEN 128

struct experiment_result {
	enum answer answer;
	char why[EXPERIMENT_WHY_LEN]; /* in words; printable ASCII, never empty */
};

/*
 * Makes all experiments, those of a kind at the same time. Needs CAP_BPF and CAP_PERFMON
 * (or CAP_SYS_ADMIN); without them what needs a probe stays unknown. Does nothing to the
 * caller, and neither process nor probe is left when it returns. Children are killed after
 * EXPERIMENT_LIMIT_S; none dumps core. Returns whether all that this kernel can be asked was
 * answered, and would be again: worth keeping until the next boot.
 */
#define EXPERIMENT_LIMIT_S 5
bool experiments_run(struct experiment_result results[EXPERIMENT_CNT]);

/*
 * Fills in what the kernel allows; leaves what the user chose. What could not be tried is
 * taken to be unsafe, but for return probes as such: that they work at all shows when they
 * are attached.
 */
void kernel_rules(struct plan_rules *rules);

/*
 * The experiments' answers: those of this boot that are in the cache, or new ones, always
 * with @fresh. Returns whether they were in the cache.
 */
bool kernel_experiments(bool fresh, struct experiment_result results[EXPERIMENT_CNT]);

/* What follows from the experiments' answers; leaves what the user chose. */
void kernel_rules_from(struct plan_rules *rules, const struct experiment_result *results);

#endif
