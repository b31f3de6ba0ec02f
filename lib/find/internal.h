/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the library look-up and of the resolver share; nobody else includes this. */
#ifndef FUNCSNOOP_FIND_INTERNAL_H
#define FUNCSNOOP_FIND_INTERNAL_H

#include "base/text.h"
#include "find/find.h"
#include "proc/proc.h"

/* --- query.c: what a LIB argument means ------------------------------------ */

/* What a LIB argument without a '/' means, by names. */
struct lib_query {
	const char *text;
	char *prefix; /* "libcudart" */
	char *suffix; /* ".so", or with a version ".so.13" */
	bool stem;    /* no ".so" was said: perhaps it is an executable */
};

/* End with lib_query_done(). */
void lib_query_parse(const char *lib, struct lib_query *ret_query);
void lib_query_done(struct lib_query *q);

/* Whether a library of that file name or soname is meant. */
bool lib_query_matches(const struct lib_query *q, const char *name);
/* Whether it may be, so that its soname is worth a look ("libc-2.31.so" for "c"). */
bool lib_query_may_match(const struct lib_query *q, const char *name);

/* --- library.c: libraries that this system knows by name ------------------------ */

/* A library that this system knows by name. */
struct lib_place {
	char *dir, *base;
	char *soname; /* ld.so.cache's key, or NULL */
	char *stem;   /* "cudart", for suggestions */
	const char *how;
};

struct lib_places {
	struct lib_place *places;
	size_t cnt;
};

/* --- library.c: the look-up itself ------------------------------------------ */

/* A process that may be looked at, and what it maps. */
struct lib_proc {
	pid_t pid;
	uid_t uid;
	bool same_ns;
	const struct proc_maps *maps;
};

/* A mapped file that was opened, by the numbers that /proc/PID/maps gives. */
struct lib_opened {
	uint32_t dev_major, dev_minor;
	uint64_t ino;
	const struct object *file; /* NULL: could not be opened */
};

struct libfind {
	pid_t *pids;
	size_t pid_cnt;
	char *root, *proc, *program;
	struct object **files; /* every distinct file, wanted or not */
	size_t file_cnt;
	bool has_places, has_procs;
	struct lib_places places;
	struct procs *all, *own; /* where mappings come from; .own: nobody else's */
	struct lib_proc *procs;
	size_t proc_cnt;
	struct lib_opened *opened;
	size_t opened_cnt;
	struct lib_seen *seen;
	size_t seen_cnt;
	size_t denied, crowd;
	bool lacks; /* the last look-up found no file */
};

/* The answer to one libfind_get(), while it is being made. */
struct lib_found {
	struct objects files;
	struct err unusable; /* why the last file of a fitting name could not be used */
};

/*
 * Registers an opened file (taken over in any case) under a path to be shown, or finds it
 * registered already.
 */
void libfind_register(struct libfind *lf, struct elf_file *elf, const char *path,
	const char *how, pid_t pid, const struct object **ret_file);

/* Remembers what was not used, and where. */
void libfind_see(struct libfind *lf, const char *path, const struct object *file,
	const char *why);

/* --- mapped.c: libraries in processes ------------------------------------------ */

/* Reads the processes' mappings, once. */
int libfind_read_procs(struct libfind *lf, struct err *err);
/* Adds mapped libraries that match, or, with @programs, executables of just that name. */
void libfind_mapped(struct libfind *lf, const struct lib_query *q, bool programs,
	struct lib_found *found);
/*
 * Adds what the given processes see at @path: the mapped file of that name, or else what
 * lies there, if it is mapped under another name or need not be mapped.
 */
int libfind_path_in_procs(struct libfind *lf, const char *path, bool must_be_mapped,
	struct lib_found *found, struct err *err);

/* query.c: fills the hint of @err with names near to the one not found. */
int libfind_hint(struct libfind *lf, const struct lib_query *q, struct err *err);

/* --- query.c: what was typed --------------------------------------------- */

/* One request, taken apart, and what became of it. */
struct arg {
	const struct request *req;
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
	const struct objects *libs;
	struct objects own_libs; /* of LIB: */
	size_t hits;                      /* functions found that can be probed */
	size_t refused;                   /* and that can't */
	const char *why;                  /* why not, of an exact name */
	const struct object *why_lib;
	const struct elf_name *why_name;
};

_must_check_ int arg_parse(
	const struct request *req, struct arg *ret_arg, struct err *err);
void arg_done(struct arg *a);

/* Whether nothing was found and nothing refused, so that it is worth to look further. */
bool arg_is_open(const struct arg *a);
/* Whether nothing was found of what must be there. */
bool arg_is_missing(const struct arg *a);
/* Whether what it finds may be left out when it can't be probed. */
bool arg_is_lenient(const struct arg *a);

/* Whether a name is of the version, or a function at the offset, that was asked for. */
bool arg_version_fits(
	const struct arg *a, const struct elf_func *fn, const struct elf_name *n);

/* --- demangled.c: demangled names as text ----------------------------------- */

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

/* --- resolve.c --------------------------------------------------------- */

struct resolver {
	struct libfind *finder;
	struct targets *res;
	size_t first; /* of its own targets */
	struct arg *args;
	size_t arg_cnt;
	uint32_t *table; /* (library, address) to index + 1 of a target */
	size_t table_size;
	struct err *err;
};

/* A match: which name of which function, and how it is to be shown. */
struct match {
	const struct object *lib;
	const struct elf_func *func;
	const struct elf_name *name; /* NULL for a bare offset */
	uint64_t addr;               /* of the probe */
	bool inside;                 /* without a function: not known to begin one */
	const char *shown;           /* copied; NULL: by the name */
};

/* Takes a match of @a in: a target, or a refusal. Negative only for real errors. */
_must_check_ int match_add(struct resolver *r, struct arg *a, const struct match *m);

/* --- demangled.c -------------------------------------------------------- */

/* Looks for open arguments among demangled names. */
_must_check_ int resolve_demangled(struct resolver *r);

/* --- hint.c ------------------------------------------------------------- */

/*
 * The error for arguments that found nothing, @a the first and @more after it: what, where,
 * and what is near.
 */
int resolve_fail_missing(struct resolver *r, const struct arg *a, size_t more);
/* The error for a function that is there and can't be probed. */
int resolve_fail_refused(struct resolver *r, const struct arg *a);

#endif
