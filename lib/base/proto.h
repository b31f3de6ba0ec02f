/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes messages of protocol buffers, which pprof and Perfetto read. */
#ifndef FUNCSNOOP_BASE_PROTO_H
#define FUNCSNOOP_BASE_PROTO_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

/* Adds a number without a field: one element of a packed field. */
void proto_varint(struct out *o, uint64_t n);

/* Add field @field of the open message. A negative number is passed as its 64-bit complement. */
void proto_u64(struct out *o, unsigned int field, uint64_t n);
void proto_double(struct out *o, unsigned int field, double x);
void proto_bytes(struct out *o, unsigned int field, const char *bytes, size_t len);
void proto_str(struct out *o, unsigned int field, const char *text);

/*
 * Starts a message, or other bytes of unknown length, as field @field. Returns its offset in @o for
 * proto_close(), which adds the length.
 */
size_t proto_open(struct out *o, unsigned int field);
void proto_close(struct out *o, size_t at);

#endif
