/* SPDX-License-Identifier: BSD-2-Clause */
/* What listing calls in progress and sweeping them share; types of records. */
#ifndef FUNCSNOOP_GROUP_INTERNAL_H
#define FUNCSNOOP_GROUP_INTERNAL_H

#include "group/calls.h"
#include "group/types.h"
#include "shared/layout.h"

static inline uint32_t slot_fn(uint64_t key)
{
	return (key & FSN_KEY_FN_MASK) - 1;
}

static inline pid_t slot_tgid(uint64_t key)
{
	return (key & FSN_KEY_TGID_MASK) >> FSN_KEY_TGID_SHIFT;
}

/* Free places have nothing set, those being written no process; ghosts are given up. */
static inline bool slot_is_call(uint64_t key)
{
	return slot_tgid(key) != 0 && !(key & FSN_KEY_GHOST);
}

struct slot_mapping {
	uint64_t start, end;
};

/*
 * Whether something is mapped at @addr in the memory of thread @tid of @pid: *@m, which is
 * looked at first and may be empty, then is the mapping. True, too, when that can't be told.
 */
bool slots_find_mapping(pid_t pid, pid_t tid, uint64_t addr, struct slot_mapping *m);

/* Of the functions of @g the types, by .type_cnt and .name_cnt records. -ENOMEM, -EPROTO. */
int types_make(const struct group *g, const struct fsn_type *types, const struct fsn_name *names,
	struct types **ret_types);

#endif
