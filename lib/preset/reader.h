/* SPDX-License-Identifier: BSD-2-Clause */
/* One preset or configuration file being read: what the reader's two files share. */
#ifndef FUNCSNOOP_PRESET_READER_H
#define FUNCSNOOP_PRESET_READER_H

#include "preset/located_json.h"
#include "internal.h"

struct reader {
	struct json_doc doc;
	struct set_impl *set;
	struct err *err;
	enum source source;
	const char *preset; /* the preset's name, or NULL */
	const char *origin;
	const char *description;
	const char *nothrow_text; /* "... declares nothrow" */
	const char
		*nothrow_why; /* the same if the file says "nothrow": true, else NULL */
	bool nothrow_off;     /* the file says "nothrow": false, also of a parent's */
	const char *const *libs; /* "lib" of the file */
	size_t lib_cnt;
	size_t func_cnt;    /* of all groups so far */
	bool builtin_tried; /* types were looked up in the built-in presets */
	/* of the group being read: */
	const struct preset_group *parent; /* the preset of its name, or NULL */
	bool own_libs; /* the file names its libraries: the parent's are of no interest */
	const struct preset_func **symbols; /* the parent's functions, sorted by symbol */
};

#define obj_foreach(obj, name, val)                                        \
	for (struct json_object_iterator _i = json_object_iter_begin(obj), \
					 _e = json_object_iter_end(obj);   \
		!json_object_iter_equal(&_i, &_e) &&                       \
		((name) = json_object_iter_peek_name(&_i),                 \
		(val) = json_object_iter_peek_value(&_i), true);           \
		json_object_iter_next(&_i))

/* A member, or NULL. */
struct json_object *obj_member(struct json_object *obj, const char *name);

/* -ENOMEM with the file's name. */
int reader_no_memory(struct reader *r);

/*
 * Each takes a value and its key's @name, checks the type and fails with the place. Texts
 * are not empty, have no control characters, and live in the set.
 */
int reader_want(struct reader *r, struct json_object *val, const char *name,
	enum json_type type, const char *what);
int reader_bool(struct reader *r, struct json_object *val, const char *name, bool *ret);
int reader_text(
	struct reader *r, struct json_object *val, const char *name, const char **ret);
/* A string, or an array of at least one. */
int reader_texts(struct reader *r, struct json_object *val, const char *name,
	const char *const **ret, size_t *ret_cnt);

/* Fails for the first key of @obj that isn't in @keys (ends with NULL), naming it. */
int reader_keys(struct reader *r, struct json_object *obj, const char *const *keys,
	const char *where);
int reader_unknown_key(struct reader *r, struct json_object *val, const char *key,
	const char *const *keys, const char *where);

/* "error" and "no_error" of a type or a function whose return value is @value. */
int reader_error(struct reader *r, struct json_object *val,
	const struct preset_value *value, struct preset_judge *judge);
int reader_no_error(
	struct reader *r, struct json_object *val, struct preset_judge *judge);

/* "types" of the file, into r->set. */
int reader_types(struct reader *r, struct json_object *obj);

/*
 * Looks for the preset that a configuration file's group @name is named like, so that
 * r->parent and r->symbols are set, or NULL. Fails when there is one with errors.
 */
int reader_parent(struct reader *r, const char *name);

/* One function of a group, from a string or an object, on top of what r->parent knows. */
int reader_func(struct reader *r, const char *name, struct json_object *val,
	struct preset_func *func);

#endif
