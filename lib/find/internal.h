/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the resolver share; nobody else includes this. */
#ifndef FUNCSNOOP_FIND_INTERNAL_H
#define FUNCSNOOP_FIND_INTERNAL_H

#include "base/pattern.h"
#include "base/suggest.h"
#include "find/resolve.h"

/* --- arg.c: what was typed --------------------------------------------- */

/* One request, taken apart, and what became of it. */
struct arg {
	const struct resolve_req *req;
	size_t ndx;
	char *buf;     /* holds the strings below */
	char *lib;     /* of "LIB:func", or NULL */
	char *name;    /* "" for a bare offset */
	char *version; /* after '@', or NULL */
	uint64_t plus; /* of name+0xOFF, or the bare offset */
	bool has_plus;
	uint64_t at; /* of name@0xOFF: the one at that file offset */
	bool has_at;
	bool regex, glob; /* .glob: has special characters, may be a name all the same */
	bool qualified;   /* can only be a demangled name */
	bool patterned;   /* did not match to the letter, so it was taken as a pattern */
	struct pattern pattern; /* ready when regex or glob */
	const struct lib_file *const *libs;
	size_t lib_cnt;
	const struct lib_file **own_libs; /* of LIB: */
	size_t hits;                      /* functions found that can be probed */
	size_t refused;                   /* and that can't */
	const char *why;                  /* why not, of an exact name */
	const struct lib_file *why_lib;
	const struct elf_name *why_name;
};

_must_check_ int arg_parse(
	const struct resolve_req *req, size_t ndx, struct arg *ret_arg, struct err *err);
void arg_done(struct arg *a);

/* Whether nothing was found and nothing refused, so that it is worth to look further. */
bool arg_is_open(const struct arg *a);
/* Whether what it finds may be left out when it can't be probed. */
bool arg_is_lenient(const struct arg *a);

/* Whether a name is of the version, or a function at the offset, that was asked for. */
bool arg_version_fits(
	const struct arg *a, const struct elf_func *fn, const struct elf_name *n);
bool arg_has_lib(const struct arg *a, const struct lib_file *lib);

/* --- spelling.c: demangled names as text ----------------------------------- */

/*
 * Writes @text to @out (at least strlen(text) + 1 bytes; may be @text itself) without
 * spaces that don't part two words, and without [abi:...] tags.
 */
void text_normalize(const char *text, char *out);

/* Takes template arguments off; @out as above. False when there are none. */
bool text_drop_templates(const char *text, char *out);

/* Takes " const" and the like off the end of a name with arguments. */
void text_drop_qualifiers(char *text);

/* Whether a demangled name is written with its arguments. */
bool text_has_args(const char *text);

/* Whether text can only be a demangled name. */
bool text_is_qualified(const char *text, bool regex);

/*
 * The longest identifier that every mangled name of a match contains, as itself or, if
 * it is @whole, as "LENGTHidentifier". *ret_len is 0 when nothing can be relied upon.
 */
struct ident {
	const char *p;
	size_t len;
};
struct ident text_ident(const char *text, bool regex, bool whole);

/* --- resolve.c, found.c -------------------------------------------------- */

struct resolver {
	struct libfind *finder;
	struct resolution *res;
	struct arg *args;
	size_t arg_cnt;
	uint32_t *table; /* (library, address) to index + 1 of a target */
	size_t table_size;
	struct err *err;
};

/* A match: which name of which function, and how it is to be shown. */
struct match {
	const struct lib_file *lib;
	const struct elf_func *func;
	const struct elf_name *name; /* NULL for a bare offset */
	uint64_t addr;               /* of the probe */
	bool inside;                 /* without a function: not known to begin one */
	const char *shown;           /* copied; NULL: by the name */
};

/* Takes a match of @a in: a target, or a refusal. Negative only for real errors. */
_must_check_ int match_add(struct resolver *r, struct arg *a, const struct match *m);

/* A string that lives as long as the resolution; NULL when memory is out. */
const char *pool_copy(struct resolution *res, const char *text);

int resolve_no_memory(struct resolver *r);

/* --- demangled.c -------------------------------------------------------- */

/* Looks for open arguments among demangled names. */
_must_check_ int resolve_demangled(struct resolver *r);

/* --- import.c ----------------------------------------------------------- */

/*
 * The library among those that @importer needs, directly or not, that exports @name; NULL
 * when it can't be told, or @finder is NULL.
 */
const struct lib_file *resolve_definer(
	struct libfind *finder, const struct lib_file *importer, const char *name);

/* --- hint.c ------------------------------------------------------------- */

/* The error for arguments that found nothing: what, where, and what is near. */
int resolve_fail_missing(struct resolver *r, const struct arg *a, size_t more);
/* The error for a function that is there and can't be probed. */
int resolve_fail_refused(struct resolver *r, const struct arg *a);

#endif
