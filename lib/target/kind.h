/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Kinds of targets, and what each does in its own way. A kind is a file of this folder, a
 * program of its own in bpf/ where it needs one, and a row of target_kinds[].
 */
#ifndef FUNCSNOOP_TARGET_KIND_H
#define FUNCSNOOP_TARGET_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "find/library.h"
#include "find/target.h"
#include "kernel/link.h"
#include "proc/proc.h"
#include "target/probes.h"

/* As pinned groups keep it: a number stays what it is. */
enum target_number {
	TARGET_USER, /* a function of a program or library; what says nothing else is this */
	TARGET_CNT
};

struct draft;

struct target_kind {
	enum target_number number;
	const char *prefix; /* before a ':', a FUNCTION says its kind so */
	const char *noun;   /* "function" */

	/*
	 * Adds what @reqs, all of this kind, mean, and which optional ones mean nothing.
	 * @objects are those of --lib or the preset, and may be none. All or nothing; errors
	 * as of resolve_functions().
	 */
	int (*find)(struct libfind *finder, const struct objects *objects,
		const struct request *const *reqs, size_t req_cnt, struct targets *targets,
		struct err *err);

	/*
	 * Plans @cnt targets of @draft, from @first on, that are not refused; of one that
	 * can't be probed .refused then says why, which is no error.
	 */
	int (*plan)(struct draft *draft, size_t first, size_t cnt,
		const struct plan_rules *rules, struct err *err);

	/*
	 * Adds to @probes those of target @fn of @draft, for links of @mode. -ENOMEM, -E2BIG
	 * when there is no number for one more.
	 */
	int (*link)(struct probes *probes, const struct draft *draft, uint32_t fn,
		enum link_mode mode);

	/* The same for probes that belong to an object and none of its targets; or NULL. */
	int (*link_object)(struct probes *probes, const struct draft *draft, uint32_t object);

	/* Whether the object that was at @path with @id at the attach no longer is. */
	bool (*is_stale)(const char *path, const struct object_id *id);

	/* Whether a call at @where can't be running in the thread of @stack any more. */
	bool (*call_is_stale)(struct proc_stack *stack, uint64_t where);

	/* Whether @where is gone from the process of @stack, as the stacks are after an exec. */
	bool (*call_is_lost)(struct proc_stack *stack, uint64_t where);
};

/* By number. */
extern const struct target_kind *const target_kinds[TARGET_CNT];

/* The kind of a group's target by its number there; what is not known is a function. */
const struct target_kind *target_kind(unsigned int number);

/* The kind that a FUNCTION says in front; what says none is a function of a program. */
const struct target_kind *target_kind_of(const char *func);

/* user.c */
extern const struct target_kind target_user;

#endif
