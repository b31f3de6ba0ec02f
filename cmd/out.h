/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Output put together in memory and written in large pieces: for what comes a million times
 * a second. Nothing is allocated but when the buffer grows.
 */
#ifndef FUNCSNOOP_CMD_OUT_H
#define FUNCSNOOP_CMD_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct out {
	char *buf;
	size_t len, size;
	bool failed; /* memory ran out: what came then is missing */
};

/* Room for @size more bytes at .buf + .len, or NULL; the caller adds to .len. */
char *out_room(struct out *o, size_t size);

void out_char(struct out *o, char c);
void out_str(struct out *o, const char *str);
void out_mem(struct out *o, const char *str, size_t len);
void out_u64(struct out *o, uint64_t v);
void out_i64(struct out *o, int64_t v);
void out_hex(struct out *o, uint64_t v); /* "0x1f" */
void out_pad(struct out *o, size_t from, size_t width); /* spaces to @width since .len was @from */

/* At most @len bytes of @str, for a terminal: as text_escape() does it. */
void out_escaped(struct out *o, const char *str, size_t len);

/* A JSON string with its quotes; bytes that aren't UTF-8 become U+FFFD. */
void out_json(struct out *o, const char *str, size_t len);

void out_done(struct out *o);

#endif
