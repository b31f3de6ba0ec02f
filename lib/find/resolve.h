/* SPDX-License-Identifier: BSD-2-Clause */
/* From FUNCTION arguments, and the names of presets and configurations, to functions. */
#ifndef FUNCSNOOP_FIND_RESOLVE_H
#define FUNCSNOOP_FIND_RESOLVE_H

#include "base/err.h"
#include "find/library.h"
#include "find/target.h"

/*
 * Adds to @targets the functions that all of @reqs mean in @objects (requests with LIB: look
 * there instead, by @finder, which may be NULL if there are none such), in the order of
 * requests, libraries, addresses, and the optional requests that found nothing. Names of one
 * function are folded into one target. On failure nothing is added.
 * Errors are of requests that are not optional: -ENOENT when a name is in no library or a
 * pattern matches nothing (near names in the hint), -EOPNOTSUPP when it is there and can't
 * be probed, -EINVAL for a bad pattern or offset, and the errors of elf_file_funcs() and
 * libfind_get().
 */
_must_check_ int resolve_functions(struct libfind *finder, const struct objects *objects,
	const struct request *const *reqs, size_t req_cnt, struct targets *targets,
	struct err *err);

#endif
