/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Output put together in memory and written in large pieces: for what comes a million times
 * a second. Nothing is allocated but when the buffer grows.
 */
#ifndef FUNCSNOOP_BASE_BUFFER_H
#define FUNCSNOOP_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Begins as all zeroes. Between two pieces the owner sets .len to 0 and goes on. */
struct out {
	char *buf;
	size_t len, size;
	bool failed; /* memory ran out: what came then is missing */
};

/* Makes the buffer larger, as out_room() when there is too little. */
char *out_grow(struct out *o, size_t size);

/* Room for @size more bytes at .buf + .len, or NULL; the caller adds to .len. */
static inline char *out_room(struct out *o, size_t size)
{
	return o->size - o->len >= size && o->buf ? o->buf + o->len : out_grow(o, size);
}

static inline void out_mem(struct out *o, const char *str, size_t len)
{
	char *to = out_room(o, len);

	if (to) {
		memcpy(to, str, len);
		o->len += len;
	}
}

static inline void out_str(struct out *o, const char *str)
{
	out_mem(o, str, strlen(str));
}

static inline void out_char(struct out *o, char c)
{
	out_mem(o, &c, 1);
}

void out_u64(struct out *o, uint64_t v);
void out_i64(struct out *o, int64_t v);
void out_hex(struct out *o, uint64_t v); /* "0x1f" */

/* Spaces, until there are @width bytes since .len was @from. */
void out_pad(struct out *o, size_t from, size_t width);

/* RFC 3339 in UTC, with nanoseconds: "2026-11-20T12:00:00.000000001Z". */
void out_time(struct out *o, uint64_t realtime_ns);

/* Whether terminals of this locale show UTF-8: by LC_ALL, LC_CTYPE, LANG, the first that is set. */
bool locale_is_utf8(void);

/*
 * At most @len bytes of @str, for a terminal: as text_escape() does it, and where the locale is
 * not UTF-8 all that is not ASCII, too.
 */
void out_escaped(struct out *o, const char *str, size_t len);

/*
 * At most @len bytes of @str as a JSON string with its quotes; bytes that aren't UTF-8
 * become U+FFFD.
 */
void out_json(struct out *o, const char *str, size_t len);

/* The same with "\n" for "\u000a", and so for all that have a letter. */
void out_json_letters(struct out *o, const char *str, size_t len);

void out_done(struct out *o);

#endif
