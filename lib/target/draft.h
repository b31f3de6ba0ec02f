/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The draft of a group: functions that were found and planned, each with its reasons. Needs no
 * privileges; `attach --dry-run` prints it, and attach_draft() attaches it.
 */
#pragma once

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
	bool lenient;                       /* preset: skip missing functions */
	const char *const *functions;       /* among the preset's; without one: FUNCTIONs */
	size_t function_cnt;
	const char *const *libs;            /* --lib */
	size_t lib_cnt;
	const pid_t *pids;                  /* processes in which to look up libraries */
	size_t pid_cnt;
	const char *program;                /* program that will be run (libfind_opts), or NULL */
	struct procs *procs; /* mappings of processes; NULL: read for this draft only */
	bool regex;
	const struct draft_slow *slow;
	size_t slow_cnt;
	bool explain;            /* report what cannot be done, instead of failing */
	uint32_t duty;           /* record GPUs for one second in N; 0, 1: always */
	bool ranges;             /* NVTX ranges are a key */
	bool launches;           /* record the call that launched each GPU kernel */
	bool *ret_lacks;         /* set if it failed because a library is missing; or NULL */
	struct plan_rules rules; /* options of the user, and limits of the kernel */
};

/* The requested targets, and the objects of single requests. */
struct requests {
	struct request *req;
	struct objects **own;
	size_t cnt, own_cnt;
};

/* Targets of the tail calls of an object's functions. */
struct draft_jumps {
	const struct object *object;
	struct follow follow;
};

struct draft {
	char name[GROUP_NAME_MAX + 1];
	struct target *targets; /* probed targets, then refused ones */
	size_t target_cnt;
	size_t probed_cnt, timed_cnt; /* timed ones come first */
	struct objects objects; /* objects with at least one probed target */
	struct objects looked;  /* objects that were searched */
	struct draft_jumps *jumps;
	size_t jumps_cnt;
	size_t place_cnt;       /* targets of tracked tail calls that are not in .targets */
	const char **missing;   /* requested names that no library has */
	size_t missing_cnt;
	bool keeps_args;        /* no probe comes after code that overwrites arguments */
	uint32_t duty;          /* as in draft_opts */
	bool launches;          /* as in draft_opts */
	bool entries_alone;     /* no target is timed: .timed_cnt and .place_cnt are 0 */
	bool from_preset;       /* draft_opts has a preset */
	struct err failure;     /* why it cannot be attached; only with .explain */
	struct libfind *finder;
	const pid_t *pids; /* as in draft_opts */
	size_t pid_cnt;
	const char *program; /* as in draft_opts */
	struct hazards *hazards; /* signal handlers; NULL before the search */
	struct requests requests;
	struct targets found;   /* owns .targets */
};

/*
 * Returns another name of the function that @t probes, by index, or NULL after the last one. Names
 * with the same demangled form (constructors have two) count as one.
 */
const char *target_alias(const struct target *t, size_t ndx);

/* Returns @t as a FUNCTION: "s:openat", "/path/lib.so:name". The caller frees it. */
char *target_typed(const struct target *t);

/* Returns the number of probed functions of @object. */
size_t draft_object_funcs(const struct draft *draft, const struct object *object);

/*
 * Resolves and plans. A function that is requested by name and cannot be probed is an error
 * (-ENOENT, -EOPNOTSUPP), as is a group without any function to probe. With @opts->explain that
 * error goes to draft->failure, and missing or refused functions are in the draft. @opts and its
 * presets must outlive the draft. The caller frees *ret_draft with draft_free().
 */
int draft_new(const struct draft_opts *opts, struct draft **ret_draft, struct err *err);
void draft_free(struct draft *draft);

/*
 * Plans again with the @opts of draft_new() and the .limit of each target. Functions that are only
 * counted or left out have no ends, and tail calls are tracked only to functions of the group. The
 * order of targets changes. Returns 0, or -EOPNOTSUPP if all are left out.
 */
_must_check_ int draft_limit(struct draft *draft, const struct draft_opts *opts, struct err *err);

/* True if some target is in a file. */
bool draft_has_files(const struct draft *draft);

/* Returns the number of probed targets that are events, which have no return. */
size_t draft_events(const struct draft *draft);

struct target_kind;

/* Returns the number of probed targets of @kind. */
size_t draft_kind_cnt(const struct draft *draft, const struct target_kind *kind);

/* Lists the files to be probed. The caller frees the array. */
struct mappers_file *draft_files(const struct draft *draft, size_t *ret_cnt);

/* Counts the processes that map one of them: proc/proc.h. */
_must_check_ int draft_mappers(const struct draft *draft, size_t *ret_cnt, struct err *err);

/* Lists the pids of these processes. The caller frees the array. */
_must_check_ int draft_pids(const struct draft *draft, pid_t **ret_pids, size_t *ret_cnt,
	struct err *err);

/*
 * True if process @pid can call a probed target: it maps its file, or the target is not in a file.
 */
_must_check_ int draft_is_mapped(const struct draft *draft, pid_t pid);

DEFINE_CLEANUP(draft, struct draft *, draft_free)
#define _cleanup_draft_ __cleanup(cleanup_draft)
