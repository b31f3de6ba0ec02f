/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Declarations of functions before any library is opened: presets, and the groups of a
 * configuration file, which have the same format (funcsnoop-config(5)). All returned objects are
 * const, are owned by their set, and are valid until preset_set_free().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/text.h"
#include "shared/words.h"

/*
 * How a BPF program recognizes a failed call: it takes the low .width bits of the return register
 * (the rest is undefined), compares them with ok[] (sign-extended from .width), then decides by
 * .kind.
 */
struct preset_judge {
	uint8_t kind;   /* enum fsn_judge */
	uint8_t width;  /* 8, 16, 32 or 64; of FSN_JUDGE_NULL always 64 */
	uint8_t ok_cnt; /* codes that are no error */
	int64_t ok[FSN_OK_CODES];
};

struct preset_code {
	int64_t code;
	const char *name;
};

#define PRESET_SIZES 16 /* values whose elements' sizes are known */

/* A named type: an error type, an enumeration, a handle, a structure. */
struct preset_type {
	const char *name;
	enum type_kind kind;
	uint32_t size;
	bool is_signed;
	uint8_t member_size; /* if all members are unsigned integers of this size; else 0 */
	uint64_t sizes; /* element size by value: 4 bits each, 1 + log2; 0: not known */
	uint16_t size_at; /* offset of the element size in the pointed-to type; 0: not known */
	struct preset_judge judge;       /* of functions that return it */
	const struct preset_code *codes; /* sorted by code, unique */
	size_t code_cnt;
};

/* How a structure is passed by value, if its kind and size alone do not define it. */
enum preset_passing {
	PASS_USUAL,
	PASS_FLOATS, /* in .floats floating point registers, in addition to .words others */
	PASS_STACK,  /* in memory, although it is small */
	PASS_NOT,    /* empty: not passed */
};

struct preset_value {
	enum type_kind kind;
	uint32_t size; /* bytes; 0 for void */
	bool is_signed;
	const struct preset_type *type; /* the named type, or NULL */
	uint8_t passing; /* enum preset_passing */
	uint8_t floats, words;
	bool is_even; /* aligned to 16 bytes */
};

/* Location of an argument; the words of a structure passed by value are consecutive. */
struct preset_place {
	enum type_place where;
	uint32_t index;
	uint32_t words; /* of 8 bytes */
	bool by_ref; /* the word is a pointer to the structure (arm64, above 16 bytes) */
};

struct preset_arg {
	const char *text; /* as declared: "void **devPtr" */
	const char *name; /* "devPtr", or "" */
	struct preset_value value;
	struct preset_place place;
	uint8_t member_size; /* as of its type */
};

#define PRESET_FACTORS 3

/* An argument, or what it points to when the call returns. */
struct preset_part {
	uint8_t arg; /* 1 + its number; 0: none */
	bool is_pointed;
};

/* Memory that a function's calls allocate or free; both: reallocate. */
struct preset_memory {
	bool allocates;
	bool frees_all;             /* frees all memory of a device or context */
	uint8_t frees;              /* 1 + the argument with the freed pointer; 0: does not free */
	uint8_t size_cnt;           /* 0: size not known */
	struct preset_part pointer; /* location of the new pointer; none: the result */
	struct preset_part size[PRESET_FACTORS]; /* of a structure, all members are factors */
};

/*
 * The declaration of a function. This is the only record of types from presets, configurations,
 * DWARF, BTF and the kernel's tracepoints. Code that creates one declares .args and .ret in source
 * order, sets .types_why to their origin, and calls args_place() to locate the arguments.
 */
struct preset_func {
	const char *name;        /* for people */
	const char *symbol;      /* as in the file's symbol table, */
	bool is_target;          /* or with the prefix of its kind, in no library: "s:openat" */
	const char *const *libs; /* its own libraries; lib_cnt 0: the group's */
	size_t lib_cnt;
	bool has_slow;
	uint64_t slow_ns;
	bool optional; /* not in every version of the library: silent if absent */
	const char *nothrow_why; /* "preset cuda declares nothrow", or NULL */
	const char *ret_text;    /* "cudaError_t", or NULL */
	struct preset_value ret; /* kind TYPE_UNKNOWN when ret_text is NULL */
	struct preset_judge judge;
	const struct preset_arg *args;
	size_t arg_cnt;
	bool has_args; /* arguments were declared, possibly an empty list */
	bool is_variadic;
	/*
	 * 1 + the argument that identifies the launched GPU kernel. If .named is not 0, the
	 * function does not launch: it stores a kernel's handle where .kernel points, and argument
	 * .named is the kernel's name or, if it is not text, another handle of the kernel.
	 */
	uint8_t kernel, named;
	uint8_t lock; /* 1 + the argument with the address of the lock that the call is for */
	bool waits;   /* the call waits until another thread ends that */
	struct preset_memory memory;
	const struct preset_product *product; /* or NULL */
	const char *types_why; /* "preset cuda", "DWARF"; or why types are not known; or NULL */
};

/*
 * The value of a sum for a function without an argument of its name: a product of arguments, or of
 * 64-bit words after one; or, when the call returns, the result ("NAME = result") or the 64-bit word
 * that an argument points to ("NAME = *ARG"). Products are written "NAME = ARG * ARG" or "NAME = ARG@OFFSET * ARG@OFFSET",
 * optionally followed by "unless ARG@OFFSET, ARG@OFFSET": the value is known only if these words
 * are 0.
 */
#define PRESET_PRODUCT 4
#define PRESET_ABSENTS 2
struct preset_product {
	const char *name;
	uint8_t arg[PRESET_PRODUCT]; /* 1 + its number; 0: end of the list */
	bool is_result;              /* the value is the result instead of a product, */
	bool is_pointed;             /* or the value that .arg[0] points to */
	bool behind;                 /* factors are words at offsets .at from the first argument */
	uint16_t at[PRESET_PRODUCT], absent[PRESET_ABSENTS];
	uint8_t absent_cnt;
};

/* True if some of the declared arguments are on the stack. */
bool preset_func_uses_stack(const struct preset_func *func);

struct preset_group {
	const char *name;
	const char *description; /* or NULL */
	const char *origin;      /* path of its file, or "built in" */
	const char *const *libs; /* stems, sonames or paths like those of --lib; not
				    alternatives: all are used */
	size_t lib_cnt;          /* 0: the file names none */
	const struct preset_func *funcs; /* sorted by name, unique, at least one */
	size_t func_cnt;
	const char *selection_of; /* the functions from which these were chosen, a glob; or NULL */
	const char *const *keys; /* keys, as --key takes them, */
	const char *const *sums; /* and sums; for functions that have them */
	size_t key_cnt, sum_cnt;
};

struct preset_set {
	const struct preset_group *groups; /* sorted by name, unique */
	size_t group_cnt;
};

/*
 * Finds preset @name in $XDG_CONFIG_HOME/funcsnoop/presets (or ~/.config/...), then in
 * /etc/funcsnoop/presets, then among the built-in ones. The first NAME.json is used, and it is an
 * error if it cannot be read. In secure mode (AT_SECURE) the user's own directory is not searched.
 * The set has one group, named @name.
 *
 * Returns 0, -ENOENT if there is no such preset (the hint is the nearest name), or -EINVAL if the
 * file is invalid: "FILE:LINE:COLUMN: ..." is the location.
 */
int preset_find(const char *name, struct preset_set **ret_set, struct err *err);

/* Returns the name of the only built-in preset that has @part in its name, or NULL. */
const char *preset_of_part(const char *part);

/*
 * Reads the groups of configuration file @path. A group with the name of a preset inherits the
 * preset's libraries if the file names none, and its declarations of functions by symbol. Errors
 * are those of preset_find(), open(2) and read(2), and -EFBIG above 4 MiB.
 */
int config_load(const char *path, struct preset_set **ret_set, struct err *err);

/* NULL is fine. */
void preset_set_free(struct preset_set *set);

/* Returns NULL if there is no such group. */
const struct preset_group *preset_set_group(
	const struct preset_set *set, const char *name);

struct preset_entry {
	char *name;
	char *origin;      /* path, or "built in" */
	char *description; /* or NULL */
	char *error;       /* why the file can't be used, or NULL */
	size_t func_cnt;
};

/* Every preset that preset_find() finds, sorted by name. Free with preset_list_free(). */
void preset_list(struct preset_entry **ret_entries, size_t *ret_cnt);
void preset_list_free(struct preset_entry *entries, size_t cnt);

enum preset_abi {
	PRESET_ABI_X86_64,
	PRESET_ABI_ARM64,
#ifdef __aarch64__
	PRESET_ABI_HOST = PRESET_ABI_ARM64,
#else
	PRESET_ABI_HOST = PRESET_ABI_X86_64,
#endif
};

/* Sets .place of all of @args by the calling convention; @ret may need a hidden argument. */
void args_place(struct preset_arg *args, size_t cnt, const struct preset_value *ret,
	enum preset_abi abi);

/* True if a word can hold @value: a number or a truth value has 1 to 8 bytes, others have any. */
bool preset_value_fits_word(const struct preset_value *value);

/* A register's content as the number that @value declares: cut to its size, extended. */
int64_t preset_value_int(const struct preset_value *value, uint64_t raw);
