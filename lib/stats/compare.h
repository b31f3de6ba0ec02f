/* SPDX-License-Identifier: BSD-2-Clause */
/* Compares saved statistics of several nodes or ranks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "stats/figures.h"

enum compare_what {
	COMPARE_BEHIND, /* no call in two windows in which most others made calls */
	COMPARE_FEWER,  /* no windows: fewer calls than most others, or than the other of two */
	COMPARE_ABSENT, /* no call of a function, or with a key, that most others have */
	COMPARE_AMOUNT, /* another amount per call of a sum, such as bytes */
	COMPARE_SLOWER, /* the average exceeds the median of the others by more than their spread */
	COMPARE_CNT,
};

/* Returns "behind", "fewer", "absent", "amount" or "slower". */
const char *compare_word(enum compare_what what);

/*
 * The documents of a node in order: either of intervals (`stats -i`), which have different start
 * times, or repeated readings of the same statistics.
 */
struct compare_node {
	const char *name;
	struct saved **documents;
	size_t cnt;
};

/* Strings are owned by the documents, keys by the comparison. */
struct compare_finding {
	enum compare_what what;
	const char *group, *function;
	const char *key; /* text of the row's keys; NULL: all calls of the function */
	size_t node;
	double value, others; /* calls, units per call, or ns; median of the others */
};

struct comparison {
	struct compare_finding *findings; /* sorted by group, function, key and node */
	size_t cnt;
	size_t windows; /* windows that all nodes have, at most 2; with fewer no node is behind */
	char **keys;
	size_t key_cnt;
};

/*
 * Finds the outliers among @nodes. Ranks of one communicator are compared with each other.
 * Free with comparison_done().
 */
void compare_nodes(
	const struct compare_node *nodes, size_t cnt, struct comparison *ret_comparison);
void comparison_done(struct comparison *c);
