/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the parts of the preset reader only. */
#pragma once

#include "base/err.h"
#include "base/json_read.h"
#include "base/util.h"
#include "preset/preset.h"

#define CONFIG_GROUPS_MAX 256
#define CONFIG_FUNCS_MAX  65536 /* of a file */
#define CONFIG_ARGS_MAX   64
#define CONFIG_NAME_MAX   4096
#define CONFIG_STRUCT_MAX 65536

/* --- memory: one arena per set -------------------------------------------------- */

struct arena {
	struct arena_chunk *chunks;
};

/* Returns zeroed memory, aligned to 16 bytes. */
void *arena_alloc(struct arena *a, size_t size);
char *arena_strndup(struct arena *a, const char *s, size_t len);
char *arena_strdup(struct arena *a, const char *s);

/* A set, and the sets that own types and functions that it refers to. */
struct set_impl {
	struct preset_set pub; /* first: a preset_set is cast to this */
	struct arena arena;
	const struct preset_type *types; /* sorted by name; of the whole file */
	size_t type_cnt;
	struct preset_set **parents; /* freed with it */
	size_t parent_cnt;
};

/* --- types and argument texts ------------------------------------------------------ */

/* Returns the type of that name, or NULL. */
typedef const struct preset_type *type_lookup_fn(void *ctx, const char *name);

/* A parsed C declaration. */
struct declaration {
	struct preset_value value;
	const char *name; /* in the text; NULL: no name */
	size_t name_len;
	char unknown[128]; /* name of an unknown type */
};

/*
 * Parses @text, a type (with @with_name optionally followed by a name), in the syntax of C and C++
 * parameters. Returns 0, or -EINVAL: either @ret->unknown is the name of an unknown type that is
 * passed by value, or *@ret_why is the reason.
 */
int declaration_parse(const char *text, bool with_name, type_lookup_fn *lookup, void *ctx,
	struct declaration *ret, const char **ret_why);

/* --- the reader ---------------------------------------------------------------------- */

enum source { SOURCE_CONFIG, SOURCE_USER, SOURCE_BUILTIN };

/*
 * Reads the text of a file into a new set. @preset is the name of the preset that the text must
 * define and that .nothrow_why of its groups names; NULL for a configuration file.
 */
int source_read(enum source source, const char *preset, const char *label,
	const char *text, size_t len, struct preset_set **ret_set, struct err *err);

/* Returns 0 or -ENOENT; and the name with @index, NULL after the last one. */
int builtin_find(const char *name, struct preset_set **ret_set, struct err *err);
const char *builtin_name(size_t index);

DEFINE_CLEANUP(set, struct preset_set *, preset_set_free)
#define _cleanup_set_ __cleanup(cleanup_set)

/* A preset or configuration file being read; shared by read.c and func.c. */
struct reader {
	struct json_doc doc;
	struct set_impl *set;
	struct err *err;
	enum source source;
	const char *preset; /* the preset's name, or NULL */
	const char *origin;
	const char *description, *selection_of;
	const char *nothrow_text; /* "... declares nothrow" */
	const char *types_why;    /* "preset cuda", "groups.json" */
	const char
		*nothrow_why; /* .nothrow_text if the file has "nothrow": true, else NULL */
	bool nothrow_off;     /* the file has "nothrow": false, which overrides a parent */
	const char *const *libs; /* "lib" of the file */
	size_t lib_cnt;
	const char *const *keys, *const *sums; /* of the file */
	size_t key_cnt, sum_cnt;
	size_t func_cnt;    /* of all groups so far */
	bool builtin_tried; /* types were looked up in the built-in presets */
	/* of the group being read: */
	const struct preset_group *parent; /* the preset of its name, or NULL */
	bool own_libs; /* the file names its libraries, so the parent's are not used */
	const struct preset_func **symbols; /* the parent's functions, sorted by symbol */
};

#define obj_foreach(obj, name, val)                                        \
	for (struct json_object_iterator _i = json_object_iter_begin(obj), \
					 _e = json_object_iter_end(obj);   \
		!json_object_iter_equal(&_i, &_e) &&                       \
		((name) = json_object_iter_peek_name(&_i),                 \
		(val) = json_object_iter_peek_value(&_i), true);           \
		json_object_iter_next(&_i))

/* Returns a member, or NULL. */
struct json_object *obj_member(struct json_object *obj, const char *name);

/*
 * Each checks the type of value @val of key @name, and fails with the location. Texts are not
 * empty, have no control characters, and are owned by the set.
 */
int reader_want(struct reader *r, struct json_object *val, const char *name,
	enum json_type type, const char *what);
int reader_bool(struct reader *r, struct json_object *val, const char *name, bool *ret);
int reader_text(
	struct reader *r, struct json_object *val, const char *name, const char **ret);
/* Accepts a string, or an array of at least one. */
int reader_texts(struct reader *r, struct json_object *val, const char *name,
	const char *const **ret, size_t *ret_cnt);

/* Fails if @obj has a key that is not in @keys (terminated by NULL). */
int reader_keys(struct reader *r, struct json_object *obj, const char *const *keys,
	const char *where);

/*
 * Read "error" and "no_error" of a type or a function whose return value is @value into @judge. Return
 * 0 or -EINVAL with the location.
 */
int reader_error(struct reader *r, struct json_object *val,
	const struct preset_value *value, struct preset_judge *judge);
int reader_no_error(
	struct reader *r, struct json_object *val, struct preset_judge *judge);

/*
 * Finds the preset with the name of a configuration file's group @name, and sets r->parent and
 * r->symbols, or NULL. Fails if that preset has errors.
 */
int reader_parent(struct reader *r, const char *name);

/* Reads one function of a group, a string or an object, into @func, based on r->parent. */
int reader_func(struct reader *r, const char *name, struct json_object *val,
	struct preset_func *func);
