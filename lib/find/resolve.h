/* SPDX-License-Identifier: BSD-2-Clause */
/* From FUNCTION arguments, and the names of presets and configurations, to functions. */
#ifndef FUNCSNOOP_FIND_RESOLVE_H
#define FUNCSNOOP_FIND_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/util.h"
#include "elf/elf_file.h"
#include "find/library.h"

/*
 * One thing asked for. As typed by a user, .func may be: a name, name@VERSION, a glob
 * (* ? [...]), a demangled C++ or Rust name with or without its arguments or template
 * arguments, name+0xOFF, +0xOFF (a file offset), and with a library in front LIB:func,
 * /path:func or p:LIB:func. A name that is there to the letter is never taken as a glob.
 */
struct resolve_req {
	const char *func;
	const char *name; /* to be shown; NULL: taken from .func or the symbol */
	bool regex;       /* .func (after LIB:) is a POSIX extended regular expression */
	bool literal;     /* no LIB: in front, no glob: a symbol or a demangled name */
	bool optional;    /* missing or refused: left out and counted, no error */
	const struct object *const
		*libs; /* only here; NULL: the libraries of the call */
	size_t lib_cnt;
};

/* A function of a file. Strings live as long as the resolution, or the finder's files. */
struct resolve_target {
	const struct object *lib;
	const char *name;   /* to be shown; different for different functions of a file */
	const char *symbol; /* as in the table, without version; NULL for a bare offset */
	const char *version;   /* of the symbol, or NULL */
	const char *demangled; /* with arguments, or NULL when it is not mangled */
	const struct elf_func
		*func;     /* with all aliases; NULL: offset outside all symbols */
	uint64_t addr;     /* of the probe: virtual address in the file */
	uint64_t offset;   /* the same as a file offset */
	bool inside;       /* not at a function's first byte (name+0xOFF, +0xOFF): the
				  caller must see that an instruction begins there */
	bool from_pattern; /* a glob, a regular expression, or an optional request */
	size_t req;        /* index of the first request that asked for it */
	const char *const *also; /* other names under which it was asked for (aliases) */
	size_t also_cnt;
	const char *refused; /* why it can't be probed, or NULL; only if .from_pattern */
};

struct resolution {
	struct resolve_target
		*targets;  /* in the order of requests, libraries, addresses */
	size_t target_cnt; /* those refused included */
	size_t refused_cnt;
	size_t *missing; /* indices of optional requests that found nothing */
	size_t missing_cnt;
	char **strings; /* what the targets point to; private */
	size_t string_cnt;
};

/*
 * Resolves all of @reqs in @libs (requests with LIB: look there instead, by @finder, which
 * may be NULL if there are none such). Names of one function are folded into one target.
 * Errors are of requests that are not optional: -ENOENT when a name is in no library or a
 * pattern matches nothing (near names in the hint), -EOPNOTSUPP when it is there and can't
 * be probed, -EINVAL for a bad pattern or offset, and the errors of elf_file_funcs() and
 * libfind_get(). Free with resolution_free().
 */
_must_check_ int resolve_functions(struct libfind *finder,
	const struct object *const *libs, size_t lib_cnt,
	const struct resolve_req *reqs, size_t req_cnt,
	struct resolution **ret_resolution, struct err *err);
void resolution_free(struct resolution *r);

DEFINE_CLEANUP(resolution, struct resolution *, resolution_free)
#define _cleanup_resolution_ __cleanup(cleanup_resolution)

#endif
