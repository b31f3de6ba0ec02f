/* SPDX-License-Identifier: BSD-2-Clause */
/* Saved statistics of several nodes, or ranks, compared: who is behind, differs, is slower. */
#ifndef FUNCSNOOP_STATS_COMPARE_H
#define FUNCSNOOP_STATS_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

#include "stats/figures.h"

enum compare_what {
	COMPARE_BEHIND, /* no call in two windows, in both of which most others made some */
	COMPARE_FEWER,  /* fewer calls than most, or than the other of two, without windows */
	COMPARE_ABSENT, /* none of what most others have called, or with such a key */
	COMPARE_AMOUNT, /* another amount in each call: of a sum, such as bytes */
	COMPARE_SLOWER, /* an average longer than the others' median and spread explain */
	COMPARE_CNT,
};

/* "behind", "fewer", "absent", "amount", "slower" */
const char *compare_word(enum compare_what what);

/*
 * A node's documents in the order in which they came: of intervals (`stats -i`), which have
 * another beginning each, or of the same statistics as they grew.
 */
struct compare_node {
	const char *name;
	struct saved **documents;
	size_t cnt;
};

/* Strings belong to the documents, keys to the comparison. */
struct compare_finding {
	enum compare_what what;
	const char *group, *function;
	const char *key; /* what its calls were about; NULL: all calls of the function */
	size_t node;
	double value, others; /* calls, units a call, or ns; of the others the median */
};

struct comparison {
	struct compare_finding *findings; /* by group, function, key; then by node */
	size_t cnt;
	size_t windows; /* common to all nodes, at most 2; with fewer no node is behind */
	char **keys;
	size_t key_cnt;
};

/*
 * What stands out among @nodes. Ranks of one communicator are compared with each other.
 * End with comparison_done().
 */
void compare_nodes(
	const struct compare_node *nodes, size_t cnt, struct comparison *ret_comparison);
void comparison_done(struct comparison *c);

#endif
