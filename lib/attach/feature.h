/* SPDX-License-Identifier: BSD-2-Clause */
/* What this kernel and build can do, and what will be used: `funcsnoop feature`. */
#ifndef FUNCSNOOP_ATTACH_FEATURE_H
#define FUNCSNOOP_ATTACH_FEATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "code/plan.h"
#include "kernel/rules.h"
#include "kernel/link.h"

#define FEATURE_LINK_CNT 3
#define FEATURE_CAP_CNT  6
#define FEATURE_HINT_CNT 8
#define FEATURE_UNKNOWN  INT64_MIN /* a number that can't be read; a limit that is none */

/* What is looked at, in the order in which it is told. */
enum feature {
	FEATURE_KERNEL,
	FEATURE_MACHINE,
	FEATURE_BTF,
	FEATURE_JIT,
	FEATURE_LINKS, /* best first */
	FEATURE_FUNC_IP = FEATURE_LINKS + FEATURE_LINK_CNT,
	FEATURE_EXPERIMENTS, /* by enum experiment */
	FEATURE_CACHED = FEATURE_EXPERIMENTS + EXPERIMENT_CNT,
	FEATURE_EXPERIMENTS_NS,
	FEATURE_BPFFS,
	FEATURE_CAPS,
	FEATURE_UNPRIVILEGED = FEATURE_CAPS + FEATURE_CAP_CNT,
	FEATURE_PARANOID,
	FEATURE_BPF_STATS,
	FEATURE_FILES,
	FEATURE_FILES_MAX,
	FEATURE_MEMLOCK,
	FEATURE_CNT,
};

/* What is to be said of a fact, beside its key. */
enum feature_form {
	FEATURE_TEXT,   /* .text */
	FEATURE_ANSWER, /* .answer */
	FEATURE_NUMBER, /* .number */
	FEATURE_TRIED,  /* .answer and .why */
	FEATURE_FOLDER, /* the same, of the groups' folder */
	FEATURE_LINK,   /* the same, one of several */
	FEATURE_CAP,    /* the same, and .required */
};

/* One fact: a line for people, a key of the JSON document. */
struct feature_fact {
	const char *key;
	const char *title; /* NULL: nothing for people */
	enum feature_form form;
	const char *words[3]; /* by enum answer; of a number: not known, 0, another */
	const char *why;      /* or a remark */
	enum answer answer;   /* unknown: the caller may not try */
	bool required;        /* a capability that attach needs; others some targets do */
	int64_t number;
	const char *text;
};

struct feature_report {
	struct feature_fact facts[FEATURE_CNT]; /* whose strings are static or below */
	enum link_mode link;                    /* what attach uses; LINK_AUTO: none */
	struct plan_rules rules;                /* what follows from the experiments */
	char bpffs[4096];                       /* the folder of the groups */
	bool bpffs_mounted;
	char hints[FEATURE_HINT_CNT][256]; /* what to do about what is missing */
	size_t hint_cnt;

	char release[65], machine[65];
	char link_why[FEATURE_LINK_CNT][128], bpffs_why[256];
	struct experiment_result experiments[EXPERIMENT_CNT];
};

/*
 * Looks at everything. @bpffs as of bpffs_open(). What can't be found out is reported as
 * that, never an error; nothing is changed but the cache.
 */
void feature_report(const char *bpffs, bool fresh, struct feature_report *ret_report);

/* The state of a fact in a word, or a number written into @buf; static otherwise. */
#define FEATURE_STATE_LEN 24
const char *feature_state(const struct feature_fact *fact, char buf[FEATURE_STATE_LEN]);

#endif
