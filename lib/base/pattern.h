/* SPDX-License-Identifier: BSD-2-Clause */
/* Globs and regular expressions over names of functions. */
#ifndef FUNCSNOOP_BASE_PATTERN_H
#define FUNCSNOOP_BASE_PATTERN_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/util.h"

enum pattern_kind { PATTERN_GLOB, PATTERN_REGEX };

struct pattern {
	enum pattern_kind kind;
	char *glob;     /* PATTERN_GLOB */
	regex_t regex;  /* PATTERN_REGEX */
	bool has_regex; /* .regex is compiled */
};

/* Whether @text has a character that is special in a glob: * ? [ */
bool pattern_is_glob(const char *text);

/*
 * Prepares @text; a glob matches whole names, a regular expression (POSIX extended)
 * anywhere in them. -EINVAL with the reason, -ENOMEM. End with pattern_done().
 */
_must_check_ int pattern_init(
	struct pattern *p, enum pattern_kind kind, const char *text, struct err *err);
void pattern_done(struct pattern *p);

bool pattern_match(const struct pattern *p, const char *name);

/*
 * Glob match in time of at most strlen(glob) * strlen(name): '*' any characters, '?' one
 * byte, [abc] [a-z] [!abc] a set ('[' without an end is itself), '\' takes the next one
 * literally.
 */
bool pattern_glob(const char *glob, const char *name);

#define _cleanup_pattern_ __cleanup(pattern_done)

#endif
