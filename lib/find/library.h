/* SPDX-License-Identifier: BSD-2-Clause */
/* From what a user calls a library ("cudart", a soname, a path) to files. */
#ifndef FUNCSNOOP_FIND_LIBRARY_H
#define FUNCSNOOP_FIND_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/util.h"
#include "elf/elf_file.h"
#include "find/target.h"
#include "proc/proc.h"

struct libfind_opts {
	const pid_t *pids; /* look in these processes only; NULL: on this system */
	size_t pid_cnt;
	const char *root; /* of the file system, for tests; NULL is "" */
	const char *proc; /* NULL is "/proc" */
	const char *program; /* that is to be run: the folders of its environment count, too */
	struct procs *procs; /* what processes map, by @proc; NULL: the finder sees itself */
};

struct libfind;

/* A finder; it opens every distinct file once. @opts is copied. -ENOMEM. */
_must_check_ int libfind_new(
	const struct libfind_opts *opts, struct libfind **ret_finder, struct err *err);
void libfind_free(struct libfind *lf);

/*
 * Finds @lib: a path (has a '/'), a soname (libcudart.so.13), a stem (cudart, libcudart,
 * libcudart.so: libcudart.so, libcudart.so.N... and a wheel's libcudart-HASH.so.N, nothing
 * longer), or the name of an executable in PATH. All different files that match are
 * returned, sorted by path; they belong to the finder and are the same pointers when asked
 * again. End *ret_objects with objects_done().
 * -ENOENT (near names in the hint), -ESRCH when a given process is gone, -EACCES when it
 * may not be looked at, and elf_file_open()'s errors when @lib is a path.
 */
_must_check_ int libfind_get(struct libfind *lf, const char *lib,
	struct objects *ret_objects, struct err *err);

/*
 * What else the look-ups so far came by, in no order: a file under another path than its
 * own (.file is that file), or one that can't be used (.file is NULL, .why says why). Files
 * that were answered are not among them.
 */
struct lib_seen {
	const char *path;
	const struct object *file;
	const char *why;
};
const struct lib_seen *libfind_seen(const struct libfind *lf, size_t *ret_cnt);

/* What processes map, as this finder and who shares it have seen it. */
struct procs *libfind_procs(const struct libfind *lf);

/* Processes passed over because they may not be looked at, during all look-ups so far. */
size_t libfind_denied(const struct libfind *lf);

/*
 * Mappings whose names fit, but whose files were not opened, as their users map too many of
 * such names: whoever can run a program could else keep all others from probing.
 */
#define LIBFIND_OF_USER 32
#define LIBFIND_OF_ALL  64
size_t libfind_crowd(const struct libfind *lf);

DEFINE_CLEANUP(libfind, struct libfind *, libfind_free)
#define _cleanup_libfind_ __cleanup(cleanup_libfind)

#endif
