/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Types of arguments and results from debug information: DWARF for functions of files, and BTF. The
 * result is struct preset_func, as for presets and configurations. Their declarations take
 * precedence: one that has "args" keeps them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "find/find.h"
#include "preset/preset.h"

/*
 * Sets .known from DWARF for functions of @targets in files whose arguments or result are not
 * declared. .types_why is the source, or the reason why they are not known. In groups of more than
 * TYPES_USUAL functions, only if they are @wanted by name, because it takes time.
 */
#define TYPES_USUAL 4096
void types_of_files(struct targets *targets, bool wanted);

/* A reader of functions' types from BTF, with its cache. */
struct btf;
struct btf_types;
struct btf_types *btf_types_new(struct targets *targets);
void btf_types_free(struct btf_types *b);

/*
 * Returns the declaration of @id in @btf, which must outlive @b. The result lives as long as the
 * targets. It has no arguments and result if @id is not a function, or has too many arguments.
 */
const struct preset_func *types_of_btf(struct btf_types *b, const struct btf *btf, uint32_t id);

/* A number in the data that an argument points to. */
struct member_at {
	uint32_t at;   /* from there */
	uint8_t bytes; /* 1, 2, 4 or 8 */
	bool is_signed, is_address;
};

/*
 * Finds member @path, such as "dims[0]" or "shape.rows", of the data that argument @nth of @t
 * points to, with DWARF. Returns 0, or -EINVAL if it is not readable; *@ret_why is then the reason.
 */
struct target;
_must_check_ int types_member(const struct target *t, size_t nth, const char *path,
	struct member_at *ret, const char **ret_why);

/* The same for the number of a goroutine, in the struct runtime.g of @t's file, compiled by Go. */
_must_check_ int types_goroutine(const struct target *t, struct member_at *ret, const char **ret_why);

/* Returns the registers of the arguments of @t, by the language of its file. */
enum fsn_regs target_regs(const struct target *t);

/* Locates the arguments of a Go function that a preset or a configuration file declares. */
void go_place_declared(struct preset_arg *args, size_t cnt);

/* Returns "name(type arg, ...) -> result", as far as it is known. The caller frees it. */
char *types_prototype(const char *name, const struct preset_func *known);

/* --- for readers of debug information -------------------------------------------------------- */

#define TYPES_ARGS  64   /* arguments; functions with more are not read */
#define TYPES_DEPTH 32   /* typedefs, pointers and qualifiers in one type */
#define TYPES_CODES 4096 /* enumerators that are kept */

enum step_kind {
	STEP_VOID,
	STEP_NAME,  /* typedef */
	STEP_CONST,
	STEP_QUALIFIER, /* another qualifier, which is not shown */
	STEP_POINTER,
	STEP_REFERENCE, /* also && */
	STEP_ARRAY,
	STEP_FUNCTION,
	STEP_VALUE, /* the last step: .value is set */
};

/* One step from a type to the type that it refers to. */
struct type_step {
	enum step_kind kind;
	const char *before; /* "struct ", or "" */
	const char *name;   /* or NULL */
	bool is_char;       /* a pointer to it can be text */
	struct preset_value value;
	uint8_t member_size;
	uint64_t at; /* identifies the type within the reader */
	uint64_t entry[4]; /* private to the reader */
};

struct type_reader {
	struct targets *targets; /* owns all results */
	/* Gets the step after @from. False if the type is invalid. */
	bool (*next)(struct type_reader *r, const struct type_step *from, struct type_step *ret);
	/*
	 * Completes a type passed by value with expensive facts: the sign of an enumeration, how a
	 * structure is passed.
	 */
	void (*finish)(struct type_reader *r, struct type_step *step);
	/* Returns enumerator @i of enumeration @step; NULL after the last one. */
	const char *(*code)(struct type_reader *r, const struct type_step *step, size_t i,
		int64_t *ret_code);
	struct type_seen *seen; /* enumerations by .at; the owner frees it */
	size_t seen_cnt;
};

/* A function while it is read; proto_done() makes the result. */
struct proto {
	struct preset_func func;
	struct preset_arg args[TYPES_ARGS];
	bool is_placed; /* .place of each is set, because it differs from C's convention */
};

/* Adds an argument of type @first, or the result if @name is NULL. Returns 0 or -E2BIG. */
_must_check_ int proto_add(struct proto *p, struct type_reader *r, const char *name,
	const struct type_step *first);
