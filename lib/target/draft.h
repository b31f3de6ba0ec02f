/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a group is to consist of: functions found, planned, each with its reasons. Needs no
 * privilege; `attach --dry-run` shows it, and attach_draft() makes it real.
 */
#ifndef FUNCSNOOP_TARGET_DRAFT_H
#define FUNCSNOOP_TARGET_DRAFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/util.h"
#include "code/plan.h"
#include "find/find.h"
#include "preset/preset.h"

struct draft_slow {
	const char *func; /* a name or glob; NULL: every function */
	uint64_t ns;
};

struct draft_opts {
	const char *name;                   /* of the group */
	const struct preset_group *preset;  /* of a preset or configuration, or NULL */
	bool lenient;                       /* preset: what is missing is left out */
	const char *const *functions;       /* among the preset's; without one: FUNCTIONs */
	size_t function_cnt;
	const char *const *libs;            /* --lib */
	size_t lib_cnt;
	const pid_t *pids;                  /* where to look libraries up */
	size_t pid_cnt;
	const char *program;                /* that is to be run: libfind_opts, or NULL */
	struct procs *procs; /* for what processes map, or NULL: read for this draft alone */
	bool regex;
	const struct draft_slow *slow;
	size_t slow_cnt;
	bool explain;            /* what can't be done is told, not an error */
	uint32_t duty;           /* GPUs are recorded for one of so many seconds; 0, 1: always */
	bool launches;           /* of kernels of GPUs it is to be known by which call */
	bool *ret_lacks;         /* whether it failed as a library is not there; or NULL */
	struct plan_rules rules; /* --exit, --site, --count, and what the kernel allows */
};

/* What is asked for, and the objects that single requests have. */
struct requests {
	struct request *req;
	struct objects **own;
	size_t cnt, own_cnt;
};

/* Where the jumps of an object's functions lead. */
struct draft_jumps {
	const struct object *object;
	struct follow follow;
};

struct draft {
	char name[GROUP_NAME_MAX + 1];
	struct target *targets; /* those to be probed, then those refused */
	size_t target_cnt;
	size_t probed_cnt, timed_cnt; /* timed ones come first */
	struct objects objects; /* with at least one target that is probed */
	struct objects looked;  /* where targets were looked for, or found */
	struct draft_jumps *jumps;
	size_t jumps_cnt;
	size_t place_cnt;       /* where jumps are followed to, beside the targets */
	const char **missing;   /* names asked for, as preset or so, that no library has */
	size_t missing_cnt;
	bool keeps_args;        /* arguments can be seen wherever the probe is */
	uint32_t duty;          /* as of draft_opts, */
	bool launches;          /* this, too */
	bool entries_alone;     /* of all targets: .timed_cnt and .place_cnt are 0 */
	bool from_preset;       /* draft_opts has one */
	struct err failure;     /* why it can't be attached; only with .explain */
	struct libfind *finder;
	const pid_t *pids; /* as of draft_opts, */
	size_t pid_cnt;
	const char *program; /* this, too */
	struct hazards *hazards; /* signal handlers, once they were looked for; or NULL */
	struct requests requests;
	struct targets found;   /* owns .targets */
};

/*
 * The @ndx'th other name of the one function that @t probes, or NULL after the last. Names
 * that are demangled alike (constructors have two) are one.
 */
const char *target_alias(const struct target *t, size_t ndx);

/* As a FUNCTION says it: "s:openat", "/path/lib.so:name". To be freed; NULL: no memory. */
char *target_typed(const struct target *t);

/* Functions of @object that are to be probed. */
size_t draft_object_funcs(const struct draft *draft, const struct object *object);

/*
 * Resolves and plans. What was asked for by name and can't be probed is an error (-ENOENT,
 * -EOPNOTSUPP), as is a group without any function that can; with @opts->explain that is
 * draft->failure, and what is missing or refused stands among the others. @opts and its presets
 * must outlive the draft. Free with draft_free().
 */
int draft_new(const struct draft_opts *opts, struct draft **ret_draft, struct err *err);
void draft_free(struct draft *draft);

/*
 * Plans once more, by @opts of draft_new(), with what .limit of each target says: what is only
 * counted or left out has no ends, and jumps are followed to functions of the group alone. Targets change their order.
 * -EOPNOTSUPP when all are left out.
 */
_must_check_ int draft_limit(struct draft *draft, const struct draft_opts *opts, struct err *err);

/* Whether some of its targets lie in files. */
bool draft_has_files(const struct draft *draft);

/* How many of those to be probed are events, which have no end. */
size_t draft_events(const struct draft *draft);

struct target_kind;

/* Its targets of @kind that are to be probed. */
size_t draft_kind_cnt(const struct draft *draft, const struct target_kind *kind);

/* How many processes map one of the files that are to be probed: proc/proc.h. */
_must_check_ int draft_mappers(const struct draft *draft, size_t *ret_cnt, struct err *err);

/* The pids of these processes, in an array to be freed. */
_must_check_ int draft_pids(const struct draft *draft, pid_t **ret_pids, size_t *ret_cnt,
	struct err *err);

/* Whether process @pid can call what is to be probed: it maps a file of it, or that is in none. */
_must_check_ int draft_is_mapped(const struct draft *draft, pid_t pid);

DEFINE_CLEANUP(draft, struct draft *, draft_free)
#define _cleanup_draft_ __cleanup(cleanup_draft)

#endif
