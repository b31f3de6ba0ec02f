/* SPDX-License-Identifier: BSD-2-Clause */
/* By what calls are told apart, and what of them is added up: --key and --sum, read and bound. */
#ifndef FUNCSNOOP_GROUP_KEYS_H
#define FUNCSNOOP_GROUP_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "group/filter.h"
#include "group/group.h"
#include "group/types.h"
#include "shared/words.h"

#define KEYS_USUAL 16384   /* rows, where nothing else is asked for */
#define KEYS_MAX   1048576 /* and at most */
#define STACKS_USUAL 16384 /* different stacks */
#define KEY_NAME_LEN 64 /* with a zero byte */

/* One key or sum, as it was asked for. */
struct key_name {
	char name[KEY_NAME_LEN];
	/* FSN_BY_NUMBER: an argument, which may turn out to be text; FSN_BY_CLASS: one, too */
	enum fsn_by by;
};

struct keys {
	struct key_name key[FSN_KEYS], sum[FSN_SUMS];
	size_t key_cnt, sum_cnt;
	uint32_t rows; /* at most; 0: as many as are usual */
	bool stack_late; /* stacks are those of slow and failed calls, at their end */
};

/* Adds the keys of "KEY[,KEY]", or an argument to sum. -ERR_USAGE. */
_must_check_ int keys_add(struct keys *k, const char *text, struct err *err);
_must_check_ int keys_add_sum(struct keys *k, const char *text, struct err *err);

/* The stack that a call is made by is a key, too, named "stack". -ERR_USAGE. */
_must_check_ int keys_add_stack(struct keys *k, struct err *err);

static inline bool keys_wanted(const struct keys *k)
{
	return k->key_cnt || k->sum_cnt;
}

/* 1 + the number of the key that is of that kind; 0: there is none. */
static inline unsigned int keys_at(const struct keys *k, enum fsn_by by)
{
	for (unsigned int i = 0; i < k->key_cnt; i++)
		if (k->key[i].by == by)
			return i + 1;
	return 0;
}

/* --- bound to functions, at attach ----------------------------------------------------------- */

struct fsn_keyed;

/* Of the functions of a group those that have none of the arguments, or not all of them. */
struct keys_left {
	size_t none, some;
};

/*
 * Where the parts of keys come from in each of @funcs. One that has not an argument is told
 * apart by the others; by nothing where it has none and an argument was asked for. -ERR_USAGE
 * when no function has an argument, or it can be no key or no sum.
 */
_must_check_ int keys_bind(const struct keys *k, const struct condition_func *funcs, size_t cnt,
	struct fsn_keyed *ret_keyed, struct keys_left *ret_left, struct err *err);

/*
 * Whether @name is "ARG->MEMBER" of an argument of @f: its number, and in @name what is behind the
 * arrow.
 */
bool keys_member(const struct condition_func *f, const struct key_name *name, size_t *ret_nth,
	const char **ret_path);

/* Whether an argument of @f is a communicator of NCCL's: its number. */
bool keys_communicator(const struct condition_func *f, size_t *ret_nth);

/* Whether a key of @keyed takes more than a word. */
bool keys_are_wide(const struct fsn_keyed *keyed, size_t cnt);

/* Of each key the kinds that it has in some function, 1 << enum fsn_by. */
void keys_kinds(const struct fsn_keyed *keyed, size_t cnt, uint32_t ret_kinds[]);

/* Whether some call stores a handle that stands for a kernel. */
bool keys_are_asked(const struct fsn_keyed *keyed, size_t cnt);

/* Whether some row is found at the end of its call. */
bool keys_are_late(const struct fsn_keyed *keyed, size_t cnt);

/* --- memory, bound to functions at attach ------------------------------------------------------ */

struct fsn_rule;

/* Of the functions of a group those that hand out memory, and those whose rule can't be kept. */
struct rules_left {
	size_t allocate, cant;
	const char *name, *why; /* of the first of the latter */
};

/*
 * Which memory @funcs hand out and take back. One of which that can't be seen does neither. With
 * -ERR_USAGE, none hands out any.
 */
_must_check_ int rules_bind(const struct condition_func *funcs, size_t cnt,
	struct fsn_rule *ret_rules, struct rules_left *ret_left, struct err *err);

/* --- of a group ------------------------------------------------------------------------------ */

struct func_part {
	enum fsn_by by;  /* FSN_BY_NONE: the function has no such argument */
	bool is_signed;
	bool is_address;  /* FSN_BY_MEMBER: it is a pointer */
	unsigned int arg; /* its number among the arguments + 1; 0: it is none, or not declared */
	uint64_t sizes;   /* FSN_BY_BYTES: as struct preset_type's, of what the next argument is */
};

struct func_keys {
	bool on; /* its calls are told apart */
	struct func_part key[FSN_KEYS], sum[FSN_SUMS];
};

struct stacks;

struct group_keys {
	const char *key[FSN_KEYS], *sum[FSN_SUMS]; /* names; the group's */
	size_t key_cnt, sum_cnt;
	struct stacks *stacks;   /* of rows by stack, whoever has read them: NULL, or another's */
	struct func_keys *funcs; /* of all functions of the group; NULL: it has no keys */
	struct cgroups *cgroups; /* of calls by cgroup; NULL: it is no key */
};

/* Free with group_keys_done(), also after an error. What bpf(2) gives, -ENOMEM, -EPROTO. */
_must_check_ int group_keys_read(
	const struct group *g, struct group_keys *ret_keys, struct err *err);
void group_keys_done(struct group_keys *k);

/* @from, a key as programs have it, with as much room for each part. */
void group_key_spread(const struct group *g, const struct fsn_key *from, struct fsn_key *to);

/*
 * What one call, whose arguments are known, adds to a sum; false when that can't be told, as of a
 * product, whose factors may be gone.
 */
bool func_sum_of(const struct func_part *sum, const struct func_types *types,
	const struct call *call, const struct fsn_more *more, uint64_t *ret_n);
#define _cleanup_group_keys_ __cleanup(group_keys_done)

#endif
