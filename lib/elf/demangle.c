// SPDX-License-Identifier: BSD-2-Clause
// Demangling by libiberty, with bounds on what it may produce.
#include "elf/elf_file.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#if __has_include(<libiberty/demangle.h>)
#include <libiberty/demangle.h>
#else
#include <demangle.h>
#endif

struct sink {
	char **buf;
	size_t *cap;
	size_t len;
	jmp_buf full;
};

/*
 * Called with pieces of the result. The demanglers have no way to be stopped: they keep
 * everything on the stack in their callback forms, so that leaving by longjmp is safe.
 */
static void sink_put(const char *piece, size_t size, void *opaque)
{
	struct sink *s = opaque;
	size_t need = s->len + size + 1;

	if (!size) /* with a null piece, sometimes */
		return;
	if (need > DEMANGLE_MAX_OUT)
		longjmp(s->full, 1);
	if (need > *s->cap) {
		size_t cap = need < 512 ? 512 : need * 2;

		*s->buf = xreallocarray(*s->buf, cap, 1);
		*s->cap = cap;
	}
	memcpy(*s->buf + s->len, piece, size);
	s->len += size;
	(*s->buf)[s->len] = '\0';
}

static bool run(struct sink *s, const char *symbol, int options)
{
	if (setjmp(s->full))
		return false;
	/* Rust's old scheme looks like C++, so it is tried first */
	if (rust_demangle_callback(symbol, options, sink_put, s))
		return true;
	s->len = 0;
	return symbol[0] == '_' && symbol[1] == 'Z' &&
		cplus_demangle_v3_callback(symbol, options, sink_put, s);
}

bool demangle_is_mangled(const char *name)
{
	return name[0] == '_' && (name[1] == 'Z' || name[1] == 'R');
}

size_t demangle_into(const char *symbol, enum demangle_form form, char **buf, size_t *cap)
{
	struct sink s = { .buf = buf, .cap = cap };
	int options = form == DEMANGLE_NAME ? 0 : DMGL_PARAMS | DMGL_ANSI;

	if (form == DEMANGLE_VERBOSE)
		options |= DMGL_VERBOSE;
	if (!demangle_is_mangled(symbol) ||
		strnlen(symbol, DEMANGLE_MAX_IN + 1) > DEMANGLE_MAX_IN)
		return 0;
	return run(&s, symbol, options) ? s.len : 0;
}

char *demangle(const char *symbol, enum demangle_form form)
{
	char *buf = NULL;
	size_t cap = 0;

	if (!demangle_into(symbol, form, &buf, &cap)) {
		free(buf);
		return NULL;
	}
	return buf;
}
