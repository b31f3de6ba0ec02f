/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cleanup attributes, the few helpers and the headers of the C library that nearly every file needs.
 * Files that include this one do not include those again.
 */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define __cleanup(fn) __attribute__((cleanup(fn)))
#define _must_check_  __attribute__((warn_unused_result))

/*
 * A local resource has a cleanup attribute and an empty value, and is freed on return. TAKE_PTR and
 * TAKE_FD transfer ownership and leave the empty value.
 */
#define TAKE_PTR(p)                                                                           \
	({                                                                                    \
		__typeof__(p) _taken = (p);                                                   \
		(p) = NULL;                                                                   \
		_taken;                                                                       \
	})
#define TAKE_FD(fd)                                                                           \
	({                                                                                    \
		int _taken = (fd);                                                            \
		(fd) = -1;                                                                    \
		_taken;                                                                       \
	})

/*
 * Defines cleanup_NAME() for variables of @type, by @fn, which must accept the empty value. The
 * caller defines _cleanup_NAME_ next to it.
 */
#define DEFINE_CLEANUP(name, type, fn)                                                        \
	static inline void cleanup_##name(__typeof__(type) *p)                                \
	{                                                                                     \
		fn(*p);                                                                       \
	}

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_close(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_fclose(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline void cleanup_closedir(DIR **d)
{
	if (*d)
		closedir(*d);
}

#define _cleanup_free_     __cleanup(cleanup_free)
#define _cleanup_close_    __cleanup(cleanup_close)
#define _cleanup_fclose_   __cleanup(cleanup_fclose)
#define _cleanup_closedir_ __cleanup(cleanup_closedir)

/* Returns the time of a clock in ns. */
static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static inline struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec) { ns / 1000000000, ns % 1000000000 };
}

/* Returns the ns until @at_ns of CLOCK_MONOTONIC; 0 if it has passed. */
static inline uint64_t ns_until(uint64_t at_ns)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	return at_ns > now ? at_ns - now : 0;
}

/* Sleeps; a signal ends the sleep early. */
static inline void sleep_ns(uint64_t ns)
{
	struct timespec ts = timespec_of(ns);

	nanosleep(&ts, NULL);
}

#define sleep_ms(ms) sleep_ns((ms) * 1000000ULL)

static inline int close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
	return -1;
}

/*
 * Defines @name(), which compares elements of @type for qsort() and bsearch(), by an expression of
 * its parameters @x and @y: RISING(addr) ?: strcmp(x->name, y->name).
 */
#define DEFINE_ORDER(name, type, ...)                                                         \
	static int name(const void *a, const void *b)                                         \
	{                                                                                     \
		const type *x = a;                                                            \
		const type *y = b;                                                            \
                                                                                              \
		return __VA_ARGS__;                                                           \
	}
/* For qsort() and bsearch() of uint64_t. */
static inline int compare_u64(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The same for an array of pointers to elements of @type. */
#define DEFINE_POINTER_ORDER(name, type, ...)                                                 \
	static int name(const void *a, const void *b)                                         \
	{                                                                                     \
		const type *x = *(const type *const *)a;                                      \
		const type *y = *(const type *const *)b;                                      \
                                                                                              \
		return __VA_ARGS__;                                                           \
	}
#define RISING(member)  ((x->member > y->member) - (x->member < y->member))
#define FALLING(member) ((x->member < y->member) - (x->member > y->member))

/*
 * Returns the first index below @cnt for which @cond holds, or @cnt. @cond, an expression in @i,
 * must also hold for all following indices: for sorted elements, those at or after a value.
 */
#define FIRST_WHERE(cnt, i, cond)                                                             \
	({                                                                                    \
		size_t _low = 0, _high = (cnt);                                               \
		while (_low < _high) {                                                        \
			size_t i = _low + (_high - _low) / 2;                                 \
			if (cond)                                                             \
				_high = (i);                                                  \
			else                                                                  \
				_low = (i) + 1;                                               \
		}                                                                             \
		_low;                                                                         \
	})

/* True if @cond, an expression in @i, holds for an index below @cnt; or for all of them. */
#define ANY_WHERE(cnt, i, cond)                                                               \
	({                                                                                    \
		size_t i = 0;                                                                 \
		while ((i) < (cnt) && !(cond))                                                \
			(i)++;                                                                \
		(i) < (cnt);                                                                  \
	})
#define ALL_WHERE(cnt, i, cond) (!ANY_WHERE(cnt, i, !(cond)))

/* The number of indices below @cnt for which @cond holds. */
#define COUNT_WHERE(cnt, i, cond)                                                             \
	({                                                                                    \
		size_t _holds = 0;                                                            \
		for (size_t i = 0; (i) < (cnt); (i)++)                                        \
			_holds += (cond) ? 1 : 0;                                             \
		_holds;                                                                       \
	})

/* The first of the @cnt elements of @array for which @cond, an expression in @i, holds, or NULL. */
#define FIND_WHERE(array, cnt, i, cond)                                                       \
	({                                                                                    \
		size_t i = 0;                                                                 \
		while ((i) < (cnt) && !(cond))                                                \
			(i)++;                                                                \
		(i) < (cnt) ? &(array)[i] : NULL;                                             \
	})
