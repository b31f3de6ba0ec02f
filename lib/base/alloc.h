/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of this program's own data. A function here that finds none prints a line on standard
 * error and ends the program with status 1, as after a kill at any other moment: what a group
 * needs is pinned or gone. What a file or another process says the size of is read by malloc(),
 * with an error of its own.
 */
#ifndef FUNCSNOOP_BASE_ALLOC_H
#define FUNCSNOOP_BASE_ALLOC_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

__attribute__((noreturn)) void alloc_failed(void);

/* As malloc() and so on; the caller frees. */
__attribute__((malloc, alloc_size(1))) void *xmalloc(size_t size);
__attribute__((malloc, alloc_size(1, 2))) void *xcalloc(size_t cnt, size_t size);
__attribute__((alloc_size(2, 3))) void *xreallocarray(void *array, size_t cnt, size_t size);
__attribute__((malloc)) char *xstrdup(const char *str);
__attribute__((malloc)) char *xstrndup(const char *str, size_t len);
__attribute__((malloc, format(printf, 1, 2))) char *xasprintf(const char *fmt, ...);
__attribute__((malloc, format(printf, 1, 0))) char *xvasprintf(const char *fmt, va_list args);
/* A copy of @size bytes. */
__attribute__((malloc, alloc_size(2))) void *xcopy(const void *bytes, size_t size);

/* As open_memstream(), and the fclose() that goes with it. */
FILE *xmemstream(char **text, size_t *size);
void xmemstream_end(FILE *stream);

/*
 * Makes room for one more element in an array of @cnt elements of @size bytes whose capacity is a
 * power of two (0 at first). Returns the array, moved perhaps.
 */
static inline void *array_grow(void *array, size_t cnt, size_t size)
{
	if (cnt & (cnt - 1))
		return array;
	return xreallocarray(array, cnt ? cnt * 2 : 1, size);
}

#endif
