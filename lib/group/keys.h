/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys that group calls, and sums of arguments: parses --key and --sum, binds them to functions. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "group/filter.h"
#include "group/group.h"
#include "group/types.h"
#include "shared/words.h"

#define KEYS_USUAL 16384   /* default number of rows */
#define KEYS_MAX   1048576 /* maximum number of rows */
#define STACKS_USUAL 16384 /* number of distinct stacks */
#define KEY_NAME_LEN 64 /* with a zero byte */

/* One key or sum of the command line. */
struct key_name {
	char name[KEY_NAME_LEN];
	/* FSN_BY_NUMBER and FSN_BY_CLASS: an argument; with FSN_BY_NUMBER it may be text */
	enum fsn_by by;
};

struct keys {
	struct key_name key[FSN_KEYS], sum[FSN_SUMS];
	size_t key_cnt, sum_cnt;
	uint32_t rows; /* maximum; 0: KEYS_USUAL */
	bool stack_late; /* only stacks of slow and failed calls, taken when they return */
};

/* Adds the keys of "KEY[,KEY]", or an argument to sum. Returns 0 or -ERR_USAGE. */
_must_check_ int keys_add(struct keys *k, const char *text, struct err *err);
_must_check_ int keys_add_sum(struct keys *k, const char *text, struct err *err);

/* Adds the key "stack", the stack of a call. Returns 0 or -ERR_USAGE. */
_must_check_ int keys_add_stack(struct keys *k, struct err *err);

static inline bool keys_wanted(const struct keys *k)
{
	return k->key_cnt || k->sum_cnt;
}

/* True if the key is an address that has the name of the place there: a caller or a lock. */
static inline bool key_is_place(enum fsn_by by)
{
	return by == FSN_BY_CALLER || by == FSN_BY_LOCK;
}

/* True if the key is the number of a stack. */
static inline bool key_is_stack(enum fsn_by by)
{
	return by == FSN_BY_STACK || by == FSN_BY_WAKER_STACK;
}

/* Returns 1 + the index of the key of kind @by, or 0 if there is none. */
static inline unsigned int keys_at(const struct keys *k, enum fsn_by by)
{
	for (unsigned int i = 0; i < k->key_cnt; i++)
		if (k->key[i].by == by)
			return i + 1;
	return 0;
}

/* --- bound to functions, at attach ----------------------------------------------------------- */

struct fsn_keyed;

/* Numbers of functions that have none of the arguments, or only some of them. */
struct keys_left {
	size_t none, some;
	size_t first; /* index of the first one that has none */
};

/*
 * Finds the source of each part of the keys in each of @funcs. Calls of a function without some of
 * the arguments are grouped by its other keys. They are not grouped if the function has none of the
 * requested arguments. Returns 0, or -ERR_USAGE if no function has an argument, or if it cannot be
 * a key or a sum.
 */
_must_check_ int keys_bind(const struct keys *k, const struct condition_func *funcs, size_t cnt,
	struct fsn_keyed *ret_keyed, struct keys_left *ret_left, struct err *err);

/* True if one of the keys is the NVTX range that a call was made in. */
bool keys_have_range(const struct keys *k);

/*
 * True if @name is "ARG->MEMBER" of an argument of @f. *@ret_nth is the number of the argument, and
 * *@ret_path is the text in @name after the arrow.
 */
bool keys_member(const struct condition_func *f, const struct key_name *name, size_t *ret_nth,
	const char **ret_path);

/* True if argument *@ret_nth of @f is an NCCL communicator. */
bool keys_communicator(const struct condition_func *f, size_t *ret_nth);

/* Facts about the keys of all functions, for the BPF programs. */
struct keys_summary {
	uint32_t kinds[FSN_KEYS]; /* of each key, as a mask of 1 << enum fsn_by */
	bool wide;   /* a key needs more than one word */
	bool late;   /* a row is looked up only when its call returns */
	bool wakers; /* a key is the thread that ended a wait for a lock, or its stack */
	bool asked;  /* a function stores a handle that stands for a GPU kernel */
};

void keys_summarize(const struct fsn_keyed *keyed, size_t cnt, struct keys_summary *ret);

/* --- memory, bound to functions at attach ------------------------------------------------------ */

struct fsn_rule;

/* Numbers of functions that allocate memory, and of those whose rule cannot be applied. */
struct rules_left {
	size_t allocate, cant;
	const char *name, *why; /* of the first function counted in .cant */
};

/*
 * Finds how @funcs allocate and free memory. A function whose memory cannot be traced gets no rule.
 * Returns 0, or -ERR_USAGE if no function allocates memory.
 */
_must_check_ int rules_bind(const struct condition_func *funcs, size_t cnt,
	struct fsn_rule *ret_rules, struct rules_left *ret_left, struct err *err);

/* --- of a group ------------------------------------------------------------------------------ */

struct func_part {
	enum fsn_by by;  /* FSN_BY_NONE: the function has no such argument */
	bool is_signed;
	bool is_address;  /* FSN_BY_MEMBER: it is a pointer */
	unsigned int arg; /* number of the argument + 1; 0: not an argument, or not declared */
	uint64_t sizes;   /* FSN_BY_BYTES: like that of struct preset_type, for the next argument */
};

struct func_keys {
	bool on; /* its calls are grouped by key */
	struct func_part key[FSN_KEYS], sum[FSN_SUMS];
};

struct stacks;

struct group_keys {
	const char *key[FSN_KEYS], *sum[FSN_SUMS]; /* names; owned by the group */
	size_t key_cnt, sum_cnt;
	struct stacks *stacks;   /* of rows by stack, not owned; or NULL */
	struct func_keys *funcs; /* of all functions of the group; NULL: no keys */
	struct cgroups *cgroups; /* of calls by cgroup; NULL: not a key */
};

/*
 * Reads the keys of @g. The caller frees @ret_keys with group_keys_done(), also after an error.
 * Returns 0, -EPROTO if the group is damaged, or an error of bpf(2).
 */
_must_check_ int group_keys_read(
	const struct group *g, struct group_keys *ret_keys, struct err *err);
void group_keys_done(struct group_keys *k);

/* Returns the number of the key that is called @name, or -1. */
int group_keys_find(const struct group_keys *k, const char *name);

/* Copies @from, a key of the BPF programs, to @to with the same space for each part. */
void group_key_spread(const struct group *g, const struct fsn_key *from, struct fsn_key *to);

/* True if calls add to a sum when they return, so that those without times are not in it. */
bool func_sums_result(const struct func_keys *f);

/*
 * Gets the value that one call with known arguments adds to a sum. Returns false if it is not
 * known: for a product, the factors may be gone.
 */
bool func_sum_of(const struct func_part *sum, const struct func_types *types,
	const struct call *call, const struct fsn_more *more, uint64_t *ret_n);
#define _cleanup_group_keys_ __cleanup(group_keys_done)
