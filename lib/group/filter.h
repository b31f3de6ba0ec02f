/* SPDX-License-Identifier: BSD-2-Clause */
/* Filters: the BPF programs apply them when a call starts. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "group/types.h"
#include "target/types.h"

/* --- by process, command, CPU, cgroup, user and thread -------------------------------------- */

/* All calls pass an empty list. Strings belong to the caller. */
struct filter {
	const pid_t *pids;
	size_t pid_cnt;
	const char *const *comms; /* of threads, as in /proc/PID/task/TID/comm */
	size_t comm_cnt;
	const uint32_t *cpus;
	size_t cpu_cnt;
	const char *const *cgroups; /* paths of cgroups (v2), including all cgroups below */
	size_t cgroup_cnt;
	const uid_t *uids; /* real user ids */
	size_t uid_cnt;
	const pid_t *tids; /* single threads */
	size_t tid_cnt;
};

/* Maps that a filter is written into. */
struct filter_maps {
	int pids, comms, cpus, cgroups, uids, tids;
};

/*
 * Fills the maps; *@ret_mask gets the FSN_FILTER_... to be switched on. Returns 0, -E2BIG if a list
 * is longer than its map, -EINVAL for a command of more than 15 bytes or a directory outside
 * cgroup v2, -ENOENT if the directory does not exist, or -EOPNOTSUPP for processes and threads
 * outside the first PID namespace.
 */
int filter_write(const struct filter *f, const struct filter_maps *maps, uint32_t *ret_mask,
	struct err *err);

/*
 * Returns how many children of the listed processes of the group in @dir_fd are not counted because
 * the list was full; 0 if the group does not follow children.
 */
uint32_t filter_lost_children(int dir_fd);

/* --- by their arguments: "size >= 1M && kind == cudaMemcpyHostToDevice" --------------------- */

#define CONDITION_LEN      512 /* with a zero byte, as all of these */
#define CONDITION_NAME_LEN 64
#define CONDITION_TERMS    4

enum condition_value { CONDITION_NUMBER, CONDITION_NAME, CONDITION_TEXT };

/* ARGUMENT COMPARISON VALUE; places are in the whole text. */
struct condition_term {
	char arg[CONDITION_NAME_LEN];
	unsigned int how; /* mask of FSN_BELOW, FSN_EQUAL, FSN_ABOVE (layout.h) */
	enum condition_value kind;
	bool negative;    /* of a number */
	uint64_t number;  /* without its sign */
	char value[CONDITION_NAME_LEN]; /* a name, or text */
	size_t arg_at, how_at, value_at;
};

struct condition {
	char text[CONDITION_LEN];
	struct condition_term term[CONDITION_TERMS];
	size_t term_cnt; /* 0: none, every call counts */
};

/*
 * Parses up to CONDITION_TERMS terms separated by &&. Returns 0, or -ERR_USAGE with the position in
 * the text.
 */
_must_check_ int condition_parse(
	const char *text, struct condition *ret_condition, struct err *err);

/* A function to which conditions are bound, and the known facts about its arguments. */
struct condition_func {
	const struct preset_arg *args;
	size_t arg_cnt;
	bool has_args; /* they are declared; else only argN in registers are known */
	enum fsn_regs regs; /* FSN_REGS_UNKNOWN: it is as if it had none */
	const struct type_codes *const *codes; /* of each; NULL: those of its .value.type */
	const struct preset_value *ret; /* NULL: nothing is declared of its result */
	bool ends;                      /* its returns are traced */
	bool called;                    /* its caller is known */
	bool inside;                    /* its probes are inside functions */
	uint32_t communicator_at; /* from where one begins, its hash */
	uint8_t kernel, named, lock; /* as of struct preset_func */
	bool waits;                  /* the same */
	bool in_thread;              /* the calling thread is known */
	const struct preset_product *product;
	const struct preset_memory *memory; /* the same; or NULL */
	bool judged;                        /* it may fail */
	struct {
		struct member_at m;
		const char *why; /* or NULL */
	} member[FSN_KEYS]; /* of each key that is one */
	const char *name, *types_why; /* the function's, and why nothing is declared; or NULL */
};

/*
 * Sets the hint of @err, which says that none of @funcs has an argument @name: near names, or
 * why arguments have no names and what can be done.
 */
void condition_hint(const struct condition_func *funcs, size_t cnt, const char *name,
	struct err *err);

/*
 * Finds the argument of @f named @name, or arg1 to argN by its number. *@ret_where is its location
 * as in struct fsn_term. *@ret_nth is its index in .args, or .arg_cnt if nothing is declared.
 *
 * Returns 0, -ENOENT if there is no such argument, or -EINVAL if its value cannot be read when the
 * call starts; *@ret_why then describes the value.
 */
_must_check_ int condition_arg(const struct condition_func *f, const char *name,
	unsigned char *ret_where, size_t *ret_nth, const char **ret_why);

/* Like condition_arg(), for argument @nth of .args or below FSN_ARGS. */
_must_check_ int condition_arg_at(const struct condition_func *f, size_t nth,
	unsigned char *ret_where, const char **ret_why);

struct fsn_cond;

/*
 * Binds the terms of @c to the arguments of each of @funcs. Calls never pass if their function
 * lacks one of the arguments, or has one that cannot be compared with the value; *@ret_never counts
 * these functions. Returns 0, or -ERR_USAGE with the position if calls of no function can pass.
 */
_must_check_ int condition_bind(const struct condition *c, const struct condition_func *funcs,
	size_t cnt, struct fsn_cond *ret_conds, size_t *ret_never, struct err *err);
