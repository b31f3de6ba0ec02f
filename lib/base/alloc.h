/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Allocates the program's own data. If memory is out, these functions print a line on standard
 * error and exit with status 1. That is as safe as being killed at any other moment: a group's
 * resources are either pinned or released. For sizes from a file or another process, use malloc()
 * and report an error.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

__attribute__((noreturn)) void alloc_failed(void);

/* Same as malloc() and so on; the caller frees. */
__attribute__((malloc, alloc_size(1))) void *xmalloc(size_t size);
__attribute__((malloc, alloc_size(1, 2))) void *xcalloc(size_t cnt, size_t size);
__attribute__((alloc_size(2, 3))) void *xreallocarray(void *array, size_t cnt, size_t size);
__attribute__((malloc)) char *xstrdup(const char *str);
__attribute__((malloc)) char *xstrndup(const char *str, size_t len);
__attribute__((malloc, format(printf, 1, 2))) char *xasprintf(const char *fmt, ...);
__attribute__((malloc, format(printf, 1, 0))) char *xvasprintf(const char *fmt, va_list args);
/* Returns a copy of @size bytes. */
__attribute__((malloc, alloc_size(2))) void *xcopy(const void *bytes, size_t size);

/* Same as open_memstream(), and the matching fclose(). */
FILE *xmemstream(char **text, size_t *size);
void xmemstream_end(FILE *stream);

/*
 * Makes room for one more element in an array of @cnt elements of @size bytes whose capacity is a
 * power of two (0 at first). Returns the array, which may have moved.
 */
static inline void *array_grow(void *array, size_t cnt, size_t size)
{
	if (cnt & (cnt - 1))
		return array;
	return xreallocarray(array, cnt ? cnt * 2 : 1, size);
}

/* Adds an element to such an array. Returns a pointer to it, which is not initialised. */
#define array_add(array, cnt)                                                                 \
	({                                                                                    \
		(array) = array_grow((array), (cnt), sizeof(*(array)));                       \
		&(array)[(cnt)++];                                                            \
	})
