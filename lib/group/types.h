/* SPDX-License-Identifier: BSD-2-Clause */
/* Types of arguments and results of a group's functions: written to its maps, and read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "group/notation.h"
#include "base/err.h"
#include "base/text.h"
#include "group/group.h"
#include "preset/preset.h"
#include "shared/words.h"

/* --- written at attach ----------------------------------------------------------------------- */

struct fsn_type;
struct fsn_name;
struct fsn_func;

/* Types of all functions of a group, as its maps keep them: shared/layout.h. */
struct type_records {
	struct fsn_type *types;
	struct fsn_name *names;
	struct named_type *named; /* those whose names are there */
	size_t type_cnt, name_cnt, named_cnt;
};

/* Adds the types that @pf declares, their strings to @text, and where they are to @func. */
void type_records_add(struct type_records *r, struct strtab *text, const struct preset_func *pf,
	struct fsn_func *func);
void type_records_done(struct type_records *r);

/* Arguments of a call that the BPF programs record in addition to the registers. */
struct types_kept {
	unsigned int stack_cnt; /* words on the stack, at most FSN_STACK_WORDS */
	int strings[2];         /* numbers of the arguments whose text is kept, or -1 */
};
struct types_kept types_kept(const struct preset_arg *args, size_t cnt);

/* --- read by later commands ------------------------------------------------------------------ */

struct type_code {
	int64_t code;
	const char *name;
};

struct type_codes {
	const struct type_code *code; /* sorted */
	size_t cnt;
};

struct func_types {
	bool has_args; /* arguments are declared; there may be none */
	bool has_ret;
	struct preset_value ret;            /* .type is NULL: see ret_codes */
	const char *ret_text;               /* or NULL */
	bool is_variadic;
	const struct type_codes *ret_codes; /* or NULL */
	const struct preset_arg *args;      /* .value.type is NULL */
	const struct type_codes *const *arg_codes;
	const struct notation *const *arg_notations; /* of each argument, or NULL */
	size_t arg_cnt;
	struct types_kept kept;
};

/* True if the arguments, the result, or the duration of the call are known. */
static inline bool call_has_args(const struct call *c)
{
	return !(c->flags & FSN_CALL_NO_ARGS);
}

static inline bool call_has_result(const struct call *c)
{
	return !(c->flags & (FSN_CALL_ENTRY | FSN_CALL_NO_RESULT));
}

static inline bool call_is_timed(const struct call *c)
{
	return !(c->flags & (FSN_CALL_ENTRY | FSN_CALL_UNTIMED));
}

/* True if the time for which the call was runnable and blocked is known. */
static inline bool call_is_split(const struct call *c)
{
	return c->flags & FSN_CALL_SPLIT && call_is_timed(c);
}

/* On-CPU time of such a call. Limited to 0, because only the duration is corrected. */
static inline unsigned long long call_on_cpu(const struct call *c)
{
	unsigned long long off = c->queued + c->blocked;

	return off < c->duration ? c->duration - off : 0;
}

/*
 * The words of argument @i, *@ret_cnt of them, in @c or in @more, which is NULL when only
 * registers were kept; NULL when it can't be seen.
 */
const unsigned long long *call_arg_at(const struct func_types *f, size_t i,
	const struct call *c, const struct fsn_more *more, unsigned int *ret_cnt);

/*
 * Returns the text of string argument @i, *@ret_len bytes, or NULL if it was not recorded or could
 * not be read. Sets *@ret_cut if the text is truncated. A size_t argument after the string limits
 * its length, unless a second one follows (a size and a count).
 */
const char *call_arg_string(const struct func_types *f, size_t i, const struct call *c,
	const struct fsn_more *more, size_t *ret_len, bool *ret_cut);

/* Argument @arg (from 1 on) of a call as a number; false when it is none, or not known. */
bool call_arg_number(const struct func_types *t, unsigned int arg, const struct call *call,
	const struct fsn_more *more, uint64_t *ret_n);

struct types;

/*
 * All functions of @g, which outlives it: names are its strings. Free with types_free().
 * -ENOMEM; -EPROTO; what bpf(2) gives.
 */
int types_read(const struct group *g, struct types **ret_types, struct err *err);
void types_free(struct types *t);
const struct func_types *types_of(const struct types *t, uint32_t fn);

/* Returns the declaration without the names of types; codes are NULL. Valid as long as @f. */
struct preset_func types_declared(const struct func_types *f);

/* The name of value @word of argument @i: a code, flags, a mode; in static storage, @f or @buf; or NULL. */
const char *arg_name(const struct func_types *f, size_t i, int64_t word, char buf[NOTATION_LEN]);

/* The one of value @code, or NULL; @codes may be NULL. */
const struct type_code *type_code_find(const struct type_codes *codes, int64_t code);

DEFINE_CLEANUP(types, struct types *, types_free)
#define _cleanup_types_ __cleanup(cleanup_types)
