/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Allocations that were not freed: the layout of their tables. */
#ifndef FUNCSNOOP_SHARED_MEMORY_H
#define FUNCSNOOP_SHARED_MEMORY_H

#include "words.h"

/* Where a number comes from: as of struct fsn_term. */
enum fsn_factor_how {
	FSN_FACTOR_VALUE,  /* it is an argument */
	FSN_FACTOR_BEFORE, /* an argument points to it when the call begins, */
	FSN_FACTOR_BEHIND, /* or when it returns: one factor at most */
};

struct fsn_factor {
	unsigned char where;
	unsigned char width; /* bits */
	unsigned char how;   /* enum fsn_factor_how */
	unsigned char at;    /* words from where it points */
};

/* The memory that calls of a function allocate, and the memory that they free. */
#define FSN_FACTORS 4
struct fsn_rule {
	unsigned char allocates, pointer; /* where it is stored: as .where; 0: it is the result */
	unsigned char frees;              /* as .where; 0: nothing */
	unsigned char waits;              /* a release may fail: it counts when it has not */
	unsigned int factor_cnt;          /* 0: its size is not known */
	struct fsn_factor factor[FSN_FACTORS];
	unsigned int frees_all; /* for readers: it takes back what it is not known of which it is */
};

struct fsn_memory {
	struct fsn_memory_counts n;
	unsigned long long peak[2]; /* of .n.live_bytes, as in struct fsn_stat */
	unsigned long long pad[5];
};

/*
 * Blocks are in sets: of each its key, and what is known of it. Key: a hash of process and pointer
 * in the upper bits, which no two of a process have in common, a generation, and the state.
 */
#define FSN_BLOCKS        262144 /* default */
#define FSN_BLOCKS_MAX    (1U << 24)
#define FSN_BLOCK_WAYS    8
#define FSN_BLOCK_PLACES  8 /* sets in which one may be: of a half full table all are full for 1e-10 */
#define FSN_BLOCK_STATE   3ULL
#define FSN_BLOCK_GEN_ONE 4ULL
#define FSN_BLOCK_GEN     0x3cULL
#define FSN_BLOCK_HASH    (~0x3fULL)

/* For each process, the parts of the table in which it has blocks. */
#define FSN_HEAPS           4096
#define FSN_BLOCK_PART_BITS 12
#define FSN_BLOCK_PARTS     (1U << FSN_BLOCK_PART_BITS)
#define FSN_BLOCK_PART_MAX  (2 * FSN_BLOCKS_MAX / FSN_BLOCK_WAYS / FSN_BLOCK_PARTS) /* sets */

enum fsn_block_state { FSN_BLOCK_FREE, FSN_BLOCK_LOCKED, FSN_BLOCK_LIVE, FSN_BLOCK_TAKEN };

struct fsn_block {
	unsigned long long pointer, size;
	unsigned long long since_ns; /* CLOCK_MONOTONIC */
	unsigned int tgid, fn;
	unsigned int row;     /* of keys; one that there is not, where there are none */
	unsigned int spilled; /* of a set's first: blocks that are elsewhere as it was full */
};

struct fsn_block_set {
	unsigned long long key[FSN_BLOCK_WAYS];
	struct fsn_block block[FSN_BLOCK_WAYS];
} __attribute__((aligned(64)));

#endif
