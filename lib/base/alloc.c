/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

void alloc_failed(void)
{
	static const char msg[] = "funcsnoop: Cannot allocate memory\n";

	/* Exit handlers and stdio may need memory as well. */
	if (write(STDERR_FILENO, msg, sizeof(msg) - 1) < 0)
		_exit(EXIT_FAILURE);
	_exit(EXIT_FAILURE);
}

static void *checked(void *memory)
{
	if (!memory)
		alloc_failed();
	return memory;
}

/* malloc(0) may be NULL. */
void *xmalloc(size_t size)
{
	return checked(malloc(size ? size : 1));
}

void *xcalloc(size_t cnt, size_t size)
{
	return checked(calloc(cnt ? cnt : 1, size ? size : 1));
}

void *xreallocarray(void *array, size_t cnt, size_t size)
{
	return checked(reallocarray(array, cnt ? cnt : 1, size ? size : 1));
}

char *xstrdup(const char *str)
{
	return checked(strdup(str));
}

char *xstrndup(const char *str, size_t len)
{
	return checked(strndup(str, len));
}

char *xvasprintf(const char *fmt, va_list args)
{
	char *text;

	if (vasprintf(&text, fmt, args) < 0)
		alloc_failed();
	return text;
}

char *xasprintf(const char *fmt, ...)
{
	va_list args;
	char *text;

	va_start(args, fmt);
	text = xvasprintf(fmt, args);
	va_end(args);
	return text;
}

void *xcopy(const void *bytes, size_t size)
{
	return memcpy(xmalloc(size), bytes, size);
}

FILE *xmemstream(char **text, size_t *size)
{
	return checked(open_memstream(text, size));
}

void xmemstream_end(FILE *stream)
{
	if (ferror(stream) || fclose(stream))
		alloc_failed();
}
