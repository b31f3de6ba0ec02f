/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Allocations that were not freed: the layout of their tables. */
#pragma once

#include "words.h"

/* Where a factor of a size comes from; .where is that of struct fsn_term. */
enum fsn_factor_how {
	FSN_FACTOR_VALUE,  /* an argument */
	FSN_FACTOR_BEFORE, /* the word that an argument points to, when the call starts */
	FSN_FACTOR_BEHIND, /* the same, when it returns; at most one factor */
};

struct fsn_factor {
	unsigned char where;
	unsigned char width; /* bits */
	unsigned char how;   /* enum fsn_factor_how */
	unsigned char at;    /* offset from the pointer, in words */
};

/* The memory that calls of a function allocate, and the memory that they free. */
#define FSN_FACTORS 4
struct fsn_rule {
	/* where the pointer is stored, as .where; 0: it is the result */
	unsigned char allocates, pointer;
	unsigned char frees;              /* as .where; 0: nothing */
	/* the free may fail: count it when the call returns successfully */
	unsigned char waits;
	unsigned int factor_cnt;          /* 0: the size is not known */
	struct fsn_factor factor[FSN_FACTORS];
	unsigned int frees_all; /* for readers: it frees an unknown set of allocations */
};

struct fsn_memory {
	struct fsn_memory_counts n;
	unsigned long long peak[2]; /* of .n.live_bytes, as in struct fsn_stat */
	unsigned long long pad[5];
};

/*
 * Allocations are stored in sets of a key and a value each. Key: a hash of process and
 * pointer in the upper bits, different for any two allocations of one process, a
 * generation, and the state.
 */
#define FSN_BLOCKS_MAX    (1U << 24)
#define FSN_BLOCK_WAYS    8
/* sets that may hold an allocation: in a table half full, all are full for 1 in 1e10 */
#define FSN_BLOCK_PLACES  8
#define FSN_BLOCK_STATE   3ULL
#define FSN_BLOCK_GEN_ONE 4ULL
#define FSN_BLOCK_GEN     0x3cULL
#define FSN_BLOCK_HASH    (~0x3fULL)

/* Parts of the table in which a process has allocations. */
#define FSN_HEAPS           4096
#define FSN_BLOCK_PART_BITS 12
#define FSN_BLOCK_PARTS     (1U << FSN_BLOCK_PART_BITS)
#define FSN_BLOCK_PART_MAX  (2 * FSN_BLOCKS_MAX / FSN_BLOCK_WAYS / FSN_BLOCK_PARTS) /* sets */

enum fsn_block_state { FSN_BLOCK_FREE, FSN_BLOCK_LOCKED, FSN_BLOCK_LIVE, FSN_BLOCK_TAKEN };

struct fsn_block {
	unsigned long long pointer, size;
	unsigned long long since_ns; /* CLOCK_MONOTONIC */
	unsigned int tgid, fn;
	unsigned int row;     /* row of keys; out of range if there is none */
	/*
	 * in the first entry of a set: allocations stored elsewhere because the set was
	 * full
	 */
	unsigned int spilled;
};

struct fsn_block_set {
	unsigned long long key[FSN_BLOCK_WAYS];
	struct fsn_block block[FSN_BLOCK_WAYS];
} __attribute__((aligned(64)));
