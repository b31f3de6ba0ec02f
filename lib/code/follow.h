/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the jumps lead by which calls leave functions of one file: to another of them, or to
 * code that is to be probed for their sake. Pure, as the planner.
 */
#ifndef FUNCSNOOP_CODE_FOLLOW_H
#define FUNCSNOOP_CODE_FOLLOW_H

#include "code/plan.h"

#define FOLLOW_LEVELS   4  /* jumps from a function of the group to a place */
#define FOLLOW_RETS_MAX 32 /* that a place may have */
#define FOLLOW_RETS_MIN 32 /* that all places of a file may have, whatever share that is */
#define FOLLOW_SHARE    10 /* or one for so many of the functions' own */

/* Code that calls are followed to, and that is no function of the group. */
struct follow_place {
	uint64_t addr;
	struct plan plan; /* .exit is PLAN_EXIT_RET or _EARLY */
	bool entry;       /* its entry is to be probed, too: plan.site */
};

/* A function of the file that is probed. */
struct follow_func {
	const struct plan *plan;
	uint32_t no;
	bool led; /* some jump that is followed leads here */
};

struct follow {
	struct follow_func *funcs; /* by plan->addr */
	size_t func_cnt;
	struct follow_place *places; /* in no order */
	size_t place_cnt;
	uint32_t first; /* the first place's number, behind all functions' */
};

/* What is known of a function that begins at @addr, in @req, which has the address. */
typedef void (*follow_request_fn)(void *arg, struct plan_request *req);

/*
 * Finds places for the jumps of f->funcs, functions of the file that @p plans for. Left alone
 * is a jump to what can't be followed itself, has more than FOLLOW_RETS_MAX ret, or would
 * make too many probes. -ENOMEM. End with follow_done(), which does not free .funcs.
 */
int follow_find(struct follow *f, struct planner *p, follow_request_fn request, void *arg,
	struct err *err);
void follow_done(struct follow *f);

/* Sets .led of all functions, and .first to @first. */
void follow_number(struct follow *f, uint32_t first);

/* Where a jump leads. */
struct follow_to {
	uint32_t no;
	bool entry; /* its entry is probed */
};

/* Whether the jump @end is followed. */
bool follow_end(const struct follow *f, const struct plan_end *end, struct follow_to *ret_to);

/* Whether some jump that is followed leads to the function of @plan. */
bool follow_leads_to(const struct follow *f, const struct plan *plan);

/* Whether @plan is of a function that is one jump, which is followed: its calls are timed. */
bool follow_forwards(const struct follow *f, const struct plan *plan);

/* Says in plan->exit_why what becomes of calls that leave by its jumps. */
void follow_explain(const struct follow *f, struct plan *plan);

/* How many of its jumps are not followed. */
size_t follow_lost(const struct follow *f, const struct plan *plan);

#endif
