/* SPDX-License-Identifier: BSD-2-Clause */
/* What the arguments and the result of a group's functions are: as text in its maps, and read. */
#ifndef FUNCSNOOP_GROUP_TYPES_H
#define FUNCSNOOP_GROUP_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/strtab.h"
#include "group/group.h"
#include "preset/preset.h"
#include "shared/words.h"

/* --- written at attach ----------------------------------------------------------------------- */

/*
 * The text forms, for people who dump the maps, too. Of a result "KIND CODES NAME"; of
 * arguments a line for each, "KIND PLACE CODES NAME<tab>DECLARATION". KIND is a letter and
 * a size in bytes: i signed, u unsigned, b bool, p pointer, s string, f float, z complex, t
 * structure (with /N one of unsigned members of N bytes), o object by its address, v void, ?
 * unknown. PLACE is r and the number of a register, s and that of a word on the stack, +N when
 * it takes N words, & when the word is an address, or - when it can't be seen. CODES is the
 * offset in the group's text of "TYPE\nCODE NAME\n...", or 0. Both are 0, the empty text, when
 * nothing is declared.
 */
int types_write_ret(struct strtab *text, const struct preset_func *pf, uint32_t *ret_offset,
	struct err *err);
int types_write_args(struct strtab *text, const struct preset_func *pf,
	uint32_t *ret_offset, struct err *err);

/* What the programs have to keep of a call's arguments beside the registers. */
struct types_kept {
	unsigned int stack_cnt; /* words on the stack, at most FSN_STACK_WORDS */
	int strings[2];         /* numbers of the arguments whose text is kept, or -1 */
};
struct types_kept types_kept(const struct preset_arg *args, size_t cnt);

/* --- read by later commands ------------------------------------------------------------------ */

struct type_code {
	int64_t code;
	const char *name;
	size_t len; /* of the name, which doesn't end with a zero byte */
};

struct type_codes {
	const struct type_code *code; /* sorted */
	size_t cnt;
};

struct func_types {
	bool has_args; /* arguments are declared, be it as none */
	bool has_ret;
	struct preset_value ret;            /* .type is NULL: see ret_codes */
	const struct type_codes *ret_codes; /* or NULL */
	const struct preset_arg *args;      /* .value.type is NULL */
	const struct type_codes *const *arg_codes;
	size_t arg_cnt;
	struct types_kept kept;
};

/* Whether the call's arguments are known, its result, and how long it took. */
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

/*
 * The words of argument @i, *@ret_cnt of them, in @c or in @more, which is NULL when only
 * registers were kept; NULL when it can't be seen.
 */
const unsigned long long *call_arg_at(const struct func_types *f, size_t i,
	const struct call *c, const struct fsn_more *more, unsigned int *ret_cnt);

/*
 * The text that argument @i, a string, points to, or NULL when it was not kept or could not
 * be read. *@ret_cut says that it goes on.
 */
const char *call_arg_string(const struct func_types *f, size_t i, const struct fsn_more *more,
	bool *ret_cut);

struct types;

/* All functions of @g, which outlives it. Free with types_free(). -ENOMEM; -EPROTO. */
int types_read(const struct group *g, struct types **ret_types, struct err *err);
void types_free(struct types *t);
const struct func_types *types_of(const struct types *t, uint32_t fn);

/* Name of @code, or NULL; @codes may be NULL. The name has .len bytes. */
const struct type_code *type_code_find(const struct type_codes *codes, int64_t code);

/* A copy of what the result @code of function @fn is called, or NULL. No need of types_read(). */
char *types_code_name(const struct group *g, uint32_t fn, int64_t code);

DEFINE_CLEANUP(types, struct types *, types_free)
#define _cleanup_types_ __cleanup(cleanup_types)

#endif
