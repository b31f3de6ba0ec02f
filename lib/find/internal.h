/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the files of the library lookup and of the resolver only. */
#pragma once

#include "base/text.h"
#include "find/find.h"
#include "proc/proc.h"

/* --- query.c: parsing of LIB --------------------------------------------- */

/* The names that a LIB argument without '/' matches. */
struct lib_query {
	const char *text;
	char *prefix; /* "libcudart" */
	char *suffix; /* ".so", or with a version ".so.13" */
	bool stem;    /* no ".so" in it: it may be an executable */
};

/* The caller frees *ret_query with lib_query_done(). */
void lib_query_parse(const char *lib, struct lib_query *ret_query);
void lib_query_done(struct lib_query *q);

/* True if a library of that file name or soname matches. */
bool lib_query_matches(const struct lib_query *q, const char *name);
/* True if its soname may match, so that the file must be opened ("libc-2.31.so" for "c"). */
bool lib_query_may_match(const struct lib_query *q, const char *name);

/* --- library.c: libraries that the system knows by name --------------------------- */

/* A library that the system knows by name. */
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

/* --- library.c: the lookup --------------------------------------------- */

/* A process that can be inspected, and its mappings. */
struct lib_proc {
	pid_t pid;
	uid_t uid;
	bool same_ns;
	const struct proc_maps *maps;
};

/* A mapped file that was opened, identified as in /proc/PID/maps. */
struct lib_opened {
	uint32_t dev_major, dev_minor;
	uint64_t ino;
	const struct object *file; /* NULL: could not be opened */
};

struct libfind {
	pid_t *pids;
	size_t pid_cnt;
	char *root, *proc, *program;
	struct object **files; /* every distinct file, returned or not */
	size_t file_cnt;
	bool has_places, has_procs;
	struct lib_places places;
	struct procs *all, *own; /* caches of mappings in use; .own: owned by this finder */
	struct lib_proc *procs;
	size_t proc_cnt;
	struct lib_opened *opened;
	size_t opened_cnt;
	struct lib_seen *seen;
	size_t seen_cnt;
	size_t denied, crowd;
	bool lacks; /* the last lookup found no file */
};

/* The result of libfind_get() while it is built. */
struct lib_found {
	struct objects files;
	struct err unusable; /* why the last matching file could not be used */
};

/*
 * Registers an opened file, which it always takes over, with a path to print, or returns the
 * registered one.
 */
void libfind_register(struct libfind *lf, struct elf_file *elf, const char *path,
	const char *how, pid_t pid, const struct object **ret_file);

/* Records a file that was not used, and where it was found. */
void libfind_see(struct libfind *lf, const char *path, const struct object *file,
	const char *why);

/* --- mapped.c: libraries in processes ------------------------------------------ */

/* Reads the mappings of the processes, once. */
int libfind_read_procs(struct libfind *lf, struct err *err);
/* Adds mapped libraries that match, or with @programs, executables with exactly that name. */
void libfind_mapped(struct libfind *lf, const struct lib_query *q, bool programs,
	struct lib_found *found);
/*
 * Adds the files that the given processes see at @path: the mapped file with that path, otherwise
 * the file at the path, if it is mapped under another name or need not be mapped.
 */
int libfind_path_in_procs(struct libfind *lf, const char *path, bool must_be_mapped,
	struct lib_found *found, struct err *err);

/* query.c: adds names similar to the missing one to the hint of @err. */
int libfind_hint(struct libfind *lf, const struct lib_query *q, struct err *err);

/* --- query.c: parsing of FUNCTION ----------------------------------------- */

/* A parsed request, and its result. */
struct arg {
	const struct request *req;
	char *buf;     /* holds the strings below */
	char *lib;     /* of "LIB:func", or NULL */
	char *name;    /* "" for a bare offset */
	char *version; /* after '@', or NULL */
	char *whole;   /* .name with the outer scopes that were omitted, or NULL */
	uint64_t plus; /* of name+0xOFF, or the bare offset */
	bool has_plus;
	uint64_t at; /* name@0xOFF: only the one at this file offset */
	bool has_at;
	uint64_t addr; /* 0xADDR, sub_ADDR: the function that starts at this virtual address */
	bool has_addr;
	unsigned int line; /* of the source file .name; 0: .name is a function */
	char *lines; /* pattern of their numbers, or NULL */
	bool regex, glob; /* .glob: has special characters, but can still be a name */
	bool qualified;   /* must be a demangled name */
	bool patterned;   /* without an exact match, so it was used as a pattern */
	struct pattern pattern; /* compiled if .regex or .glob */
	const struct objects *libs;
	struct objects own_libs; /* those of LIB: */
	size_t hits;                      /* matching functions that can be probed */
	size_t refused;                   /* matching functions that cannot be probed */
	bool copies_gone;                 /* it was inlined, and has no code anywhere */
	const char *why;                  /* reason for an exact name */
	const struct object *why_lib;
};

_must_check_ int arg_parse(
	const struct request *req, struct arg *ret_arg, struct err *err);
void arg_done(struct arg *a);

/* True if nothing was found and nothing was refused, so that the search continues. */
bool arg_is_open(const struct arg *a);
/* True if a required function was not found. */
bool arg_is_missing(const struct arg *a);

/* True if a name has the requested version, or a function the requested offset. */
bool arg_version_fits(
	const struct arg *a, const struct elf_func *fn, const struct elf_name *n);

/* --- demangled.c: demangled names as text ----------------------------------- */

/*
 * Copies @text to @out (at least strlen(text) + 1 bytes; can be @text) without spaces that do not
 * separate two words, and without [abi:...] tags.
 */
void text_normalize(const char *text, char *out);

/* Removes template arguments; @out as above. Returns false if there are none. */
bool text_drop_templates(const char *text, char *out);

/* Removes trailing qualifiers such as " const" from a name with arguments. */
void text_drop_qualifiers(char *text);

/* True if a demangled name includes its arguments. */
bool text_has_args(const char *text);

/*
 * True if function @name of Go is @wanted with the package before it: "main.(*Store).Save" for
 * "(*Store).Save", or with @by_type for "Store.Save".
 */
bool text_is_go(const char *name, const char *wanted, bool by_type);

/*
 * Returns the longest identifier that every mangled name of a match contains, verbatim or, with
 * @whole, as "LENGTHidentifier". The length is 0 if there is no such identifier.
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
	size_t first; /* index of its first target */
	struct arg *args;
	size_t arg_cnt;
	uint32_t *table; /* (library, address) to target index + 1 */
	size_t table_size;
	struct err *err;
};

/* A match: a name of a function, and the name to print. */
struct match {
	const struct object *lib;
	const struct elf_func *func;
	const struct elf_name *name; /* NULL for a bare offset */
	uint64_t addr;               /* of the probe */
	bool inside;                 /* without a function: may be inside one */
	bool framed;                 /* likewise: plan_fde.framed of the one that starts there */
	const char *shown;           /* copied; NULL: by the name */
	const char *around;          /* as in struct target */
	const uint64_t *places;      /* as in struct target, copied; NULL: none */
	size_t place_cnt;
	bool places_split;
	const char *note; /* copied */
};

/*
 * Returns the name of the function that starts at @start, as FUNCTION can be typed: of the symbol
 * of @func if that starts there, otherwise "sub_ADDR". The caller frees it.
 */
char *resolve_start_name(const struct elf_func *func, uint64_t start);

/* Adds a match of @a: a target, or a refusal. Returns 0 or a real error. */
_must_check_ int match_add(struct resolver *r, struct arg *a, const struct match *m);

/* --- demangled.c -------------------------------------------------------- */

/* Resolves unresolved arguments by demangled names. */
_must_check_ int resolve_demangled(struct resolver *r);

/*
 * Adds the inlined copies of functions given by name, as one target for each function, which is
 * only counted: those of functions without code of their own, and if that is quick, of others.
 */
_must_check_ int resolve_inlined(struct resolver *r);

/* --- query.c: errors of the resolver ----------------------------------------- */

/*
 * Counts the names that the libraries of @a import and that match it, and returns the first one with
 * the library.
 */
size_t resolve_imports(
	const struct arg *a, const struct object **ret_importer, const char **ret_name);

/*
 * Sets the error for arguments without a match, @a and @more others: the names, the places
 * searched, and similar names.
 */
int resolve_fail_missing(struct resolver *r, const struct arg *a, size_t more);

/* Sets the hint if @a is a file, such as the program of the process, which needs a FUNCTION. */
bool resolve_hint_file(struct resolver *r, const struct arg *a);

/*
 * Set the error for an address outside the code, a line that no library has code of (@why), or inside the function @around at @offset; a cold
 * part or the PLT has NULL.
 */
int resolve_fail_address(struct resolver *r, const struct arg *a);
int resolve_fail_line(struct resolver *r, const struct arg *a, bool has_file, const char *why);
int resolve_fail_inside(
	struct resolver *r, const struct arg *a, const char *around, uint64_t offset);
/* Sets the error for a function that exists but cannot be probed. */
int resolve_fail_refused(struct resolver *r, const struct arg *a);
