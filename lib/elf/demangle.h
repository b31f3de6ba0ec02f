/* SPDX-License-Identifier: BSD-2-Clause */
/* Demangling of C++ and Rust names, bounded: mangled names of a hostile file can blow up. */
#ifndef FUNCSNOOP_ELF_DEMANGLE_H
#define FUNCSNOOP_ELF_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

/* Longest name that is tried, and longest result, in bytes. */
#define DEMANGLE_MAX_IN  8192
#define DEMANGLE_MAX_OUT 32768

/* Whether @name looks mangled: _Z or _R in front. */
bool demangle_is_mangled(const char *name);

enum demangle_form {
	DEMANGLE_NAME,    /* the qualified name, template arguments included */
	DEMANGLE_ARGS,    /* with arguments, and the result type where it is known */
	DEMANGLE_VERBOSE, /* the same with std::ostream and the like written out (c++filt) */
};

/*
 * @symbol as written in the source. A malloc'ed string, or NULL when it is not a mangled
 * name, is too long, or memory is out.
 */
char *demangle(const char *symbol, enum demangle_form form);

/*
 * The same into a buffer that is grown (*buf malloc'ed or NULL, *cap its size), for loops
 * over many symbols. The length, or 0 as above.
 */
size_t demangle_into(
	const char *symbol, enum demangle_form form, char **buf, size_t *cap);

#endif
