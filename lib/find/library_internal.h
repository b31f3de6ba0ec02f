/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of the library look-up share; nobody else includes this. */
#ifndef FUNCSNOOP_FIND_LIBRARY_INTERNAL_H
#define FUNCSNOOP_FIND_LIBRARY_INTERNAL_H

#include "find/library.h"
#include "proc/proc.h"

/* What a LIB argument without a '/' means, by names. */
struct lib_query {
	const char *text;
	char *prefix; /* "libcudart" */
	char *suffix; /* ".so", or with a version ".so.13" */
	bool stem;    /* no ".so" was said: perhaps it is an executable */
};

/* -ENOMEM only. End with lib_query_done(). */
int lib_query_parse(const char *lib, struct lib_query *ret_query);
void lib_query_done(struct lib_query *q);

/* Whether a library of that file name or soname is meant. */
bool lib_query_matches(const struct lib_query *q, const char *name);
/* Whether it may be, so that its soname is worth a look ("libc-2.31.so" for "c"). */
bool lib_query_may_match(const struct lib_query *q, const char *name);

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

/*
 * Collects them: ld.so.cache, LD_LIBRARY_PATH, default folders, well-known folders; all
 * below @root. What can't be read is left out. -ENOMEM only.
 */
int lib_places_read(const char *root, struct lib_places *places);
void lib_places_done(struct lib_places *places);

int lib_place_add(struct lib_places *places, const char *dir, size_t dir_len,
	const char *base, const char *soname, const char *how);

/* ld_cache.c: glibc's ld.so.cache into @places. -ENOMEM, or 0 (damaged: nothing). */
int lib_cache_read(const char *root, struct lib_places *places);

/* A process and what it maps; .maps is empty when it may not be looked at. */
struct lib_proc {
	pid_t pid;
	uid_t uid;
	bool same_ns;
	struct proc_maps maps;
};

/* A mapped file that was opened, by the numbers that /proc/PID/maps gives. */
struct lib_opened {
	uint32_t dev_major, dev_minor;
	uint64_t ino;
	const struct lib_file *file; /* NULL: could not be opened */
};

struct libfind {
	pid_t *pids;
	size_t pid_cnt;
	char *root, *proc;
	struct lib_file **files; /* every distinct file, wanted or not */
	size_t file_cnt;
	bool has_places, has_procs;
	struct lib_places places;
	struct lib_proc *procs;
	size_t proc_cnt;
	struct lib_opened *opened;
	size_t opened_cnt;
	struct lib_seen *seen;
	size_t seen_cnt;
	size_t denied, crowd;
};

/* The answer to one libfind_get(), while it is being made. */
struct lib_found {
	const struct lib_file **files;
	size_t cnt;
	struct err unusable; /* why the last file of a fitting name could not be used */
};

/* Adds a file to the answer unless it is there. -ENOMEM only. */
int lib_found_add(struct lib_found *found, const struct lib_file *file);

/*
 * Registers an opened file (taken over in any case) under a path to be shown, or finds it
 * registered already. -ENOMEM only.
 */
int libfind_register(struct libfind *lf, struct elf_file *elf, const char *path,
	const char *how, pid_t pid, const struct lib_file **ret_file);

/* seen.c: remembers what was not used, and where; -ENOMEM only. */
int libfind_see(struct libfind *lf, const char *path, const struct lib_file *file,
	const char *why);
void libfind_seen_done(struct libfind *lf);

/* mapped.c: reads the processes' mappings, once; sorted by user and number. */
int libfind_read_procs(struct libfind *lf, struct err *err);
/* Adds mapped libraries that match, or, with @programs, executables of just that name. */
int libfind_mapped(struct libfind *lf, const struct lib_query *q, bool programs,
	struct lib_found *found, struct err *err);
/*
 * Adds what the given processes see at @path: the mapped file of that name, or else what
 * lies there, if it is mapped under another name or need not be mapped.
 */
int libfind_path_in_procs(struct libfind *lf, const char *path, bool must_be_mapped,
	struct lib_found *found, struct err *err);

/* library_hint.c: fills the hint of @err with names near to the one not found. */
int libfind_hint(struct libfind *lf, const struct lib_query *q, struct err *err);

#endif
