/* SPDX-License-Identifier: BSD-2-Clause */
/* Converts the options of a draft to requests for the kinds, and finds the objects to search. */
#pragma once

#include "base/err.h"
#include "elf/elf_file.h"
#include "target/draft.h"
#include "target/kind.h"

/* gpu:launches, requested only by drafts: functions that launch kernels. */
#define TARGET_GPU_LAUNCHES "launches"
#define TARGET_GPU_RANGES   "ranges"

/* True if @func requests GPU kernels. */
bool gpu_asks_kernels(const char *func);

enum libs_needed {
	LIBS_ALL, /* all names must be found */
	LIBS_ONE, /* at least one name must be found */
	LIBS_ANY, /* names may be missing */
};

/*
 * Sets the hint if a request was not found because it is a duration or, if a library is lacking
 * (@lacks), because of notation such as "sched:sched_switch".
 */
void requests_hint_notation(
	const struct request *const *reqs, size_t req_cnt, bool lacks, struct err *err);

/* Numbers the places of tail calls after the probed targets, whose order must be final. */
void jumps_number(struct draft *draft);
void jumps_done(struct draft *draft);

/*
 * Overrides the declaration @known of an event by @said, if not NULL: arguments in their order, at
 * any location.
 */
void event_declare(
	struct targets *targets, struct preset_func *known, const struct preset_func *said);

/* Adds the probes of an event, or of the two events of a span. */
int event_link(
	struct probes *p, const struct draft *draft, uint32_t fn, enum link_mode mode);

/* Fills in the plan of a target that needs no planner, because no code is examined for it. */
void event_plan(
	struct plan *plan, enum plan_exit exit, const char *site_why, const char *exit_why);
/* Same for calls, which are only counted if the rules say so. */
void event_plan_call(struct plan *plan, const struct plan_rules *rules, const char *site_why,
	const char *exit_why);

#define EVENT_NO_END "an event has no end"

/* The event of @cnt sites of one probe. */
const struct event *usdt_event(struct targets *targets, const struct object *object,
	const struct usdt_site *sites, size_t cnt);

/* Returns the start of B in "A..B", a span of two events; NULL if @func is not a span. */
const char *span_end(const char *func);

/* --- kinds whose targets have names that can be listed -------------------------------------- */

/* Requests for targets of one kind, and the state of the lookup. */
struct lookup {
	const struct target_kind *kind;
	struct targets *targets;
	size_t first; /* index in .targets of the first one found by this lookup */
	const struct request *req;
	const char *text; /* the requested name or, with .glob, the pattern */
	bool glob;
	struct pattern pattern;
	size_t hits;
	bool suggests;  /* .names() collects names for a hint; they live as long as .targets */
	struct suggest near;
	const char *namesake; /* the same name with or without a "CATEGORY:" before it */
	void *by; /* private to the kind */
};

/* A kind's names and targets. */
struct catalogue {
	const char *none, *none_in; /* error for an unknown name: "no wait" 'NAME' "" */
	const char *hint;           /* the hint if no name is similar; or NULL */
	const char *own_prefix;     /* a prefix of names that is skipped; or NULL */
	bool parents;               /* names may have a "CATEGORY:" before them */
	int (*open)(struct lookup *l, struct err *err);
	void (*close)(struct lookup *l);
	/* Calls lookup_offer() for each name, or without .glob for .text alone. */
	int (*names)(struct lookup *l, struct err *err);
	/*
	 * Fills in @ret_target except for its name. Returns -ENOENT if it does not exist any more.
	 */
	int (*make)(struct lookup *l, const char *name, const void *what,
		struct target *ret_target, struct err *err);
};

/* Adds a target for @name if the request matches it. @what is the kind's record of it. */
_must_check_ int lookup_offer(struct lookup *l, const char *name, const void *what, struct err *err);

/* Calls .find() of @kind if there are requests. After an error @targets is unchanged. */
int target_kind_find(const struct target_kind *kind, struct libfind *finder,
	const struct objects *objects, const struct request *const *reqs, size_t req_cnt,
	struct targets *targets, struct err *err);

/* Returns the kind of the prefix of @func, or NULL. */
const struct target_kind *target_kind_said(const char *func);

/* Frees @h; NULL is ignored. */
void hazards_free(struct hazards *h);
