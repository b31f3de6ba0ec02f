/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the preset reader share; nothing for others. */
#ifndef FUNCSNOOP_PRESET_INTERNAL_H
#define FUNCSNOOP_PRESET_INTERNAL_H

#include "base/util.h"
#include "preset/preset.h"

#define CONFIG_SIZE_MAX   (4u << 20)
#define CONFIG_GROUPS_MAX 256
#define CONFIG_FUNCS_MAX  65536 /* of a file */
#define CONFIG_ARGS_MAX   64
#define CONFIG_NAME_MAX   4096
#define CONFIG_STRUCT_MAX 65536

/* --- memory: everything of a set comes from one arena --------------------------- */

struct arena {
	struct arena_chunk *chunks;
};

/* Zeroed, aligned to 16 bytes; NULL when memory is out. */
void *arena_alloc(struct arena *a, size_t size);
char *arena_strndup(struct arena *a, const char *s, size_t len);
char *arena_strdup(struct arena *a, const char *s);
void arena_done(struct arena *a);

/* A set, and the sets whose types and functions it points into. */
struct set_impl {
	struct preset_set pub; /* first: a preset_set is cast to this */
	struct arena arena;
	const struct preset_type *types; /* sorted by name; of the whole file */
	size_t type_cnt;
	struct preset_set **parents; /* freed with it */
	size_t parent_cnt;
};

/* --- types and argument texts ------------------------------------------------------ */

/* Looks a type up by its name; NULL when unknown. */
typedef const struct preset_type *type_lookup_fn(void *ctx, const char *name);

/* A C declaration, read: its value and where in the text its name stands. */
struct declaration {
	struct preset_value value;
	const char *name; /* into the text; NULL when it has none */
	size_t name_len;
	char unknown[128]; /* the type's name, when it isn't known */
};

/*
 * Reads @text, a type (and with @with_name perhaps a name), as C and C++ write parameters.
 * Returns 0, or -EINVAL with @ret->unknown set when a type passed by value is not known,
 * or with *ret_why saying what is wrong.
 */
int declaration_parse(const char *text, bool with_name, type_lookup_fn *lookup, void *ctx,
	struct declaration *ret, const char **ret_why);

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

/*
 * Sets the hint to those of @words (ends with NULL) that @wanted was perhaps meant to be;
 * false when none is near.
 */
bool hint_nearest(struct err *err, const char *wanted, const char *const *words);

/* --- the reader ---------------------------------------------------------------------- */

enum source { SOURCE_CONFIG, SOURCE_USER, SOURCE_BUILTIN };

/*
 * Reads a file's text into a new set. @preset: the name of the preset that the text must
 * define, and which its groups' .nothrow_why names; NULL for a configuration file.
 */
int source_read(enum source source, const char *preset, const char *label,
	const char *text, size_t len, struct preset_set **ret_set, struct err *err);

/* The built-in preset @name (-ENOENT), and the names by index, NULL at the end. */
int builtin_find(const char *name, struct preset_set **ret_set, struct err *err);
const char *builtin_name(size_t index);

static inline void cleanup_set(struct preset_set **set)
{
	preset_set_free(*set);
}
#define _cleanup_set_ __cleanup(cleanup_set)

#endif
