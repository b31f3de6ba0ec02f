// SPDX-License-Identifier: BSD-2-Clause
// Protocol buffers: https://protobuf.dev/programming-guides/encoding
#include <endian.h>
#include <string.h>

#include "base/proto.h"

/* Wire types. */
#define NUMBER  0
#define FIXED64 1
#define BYTES   2

#define VARINT_LEN 10 /* at most */

static size_t varint(char *to, uint64_t n)
{
	size_t len = 0;

	for (; n > 0x7f; n >>= 7)
		to[len++] = (char)(n | 0x80);
	to[len++] = (char)n;
	return len;
}

void proto_varint(struct out *o, uint64_t n)
{
	char *to = out_room(o, VARINT_LEN);

	o->len += varint(to, n);
}

void proto_u64(struct out *o, unsigned int field, uint64_t n)
{
	proto_varint(o, field << 3 | NUMBER);
	proto_varint(o, n);
}

void proto_double(struct out *o, unsigned int field, double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	bits = htole64(bits);
	proto_varint(o, field << 3 | FIXED64);
	out_mem(o, (const char *)&bits, sizeof(bits));
}

void proto_bytes(struct out *o, unsigned int field, const char *bytes, size_t len)
{
	proto_varint(o, field << 3 | BYTES);
	proto_varint(o, len);
	out_mem(o, bytes, len);
}

void proto_str(struct out *o, unsigned int field, const char *text)
{
	proto_bytes(o, field, text, strlen(text));
}

size_t proto_open(struct out *o, unsigned int field)
{
	proto_varint(o, field << 3 | BYTES);
	return o->len;
}

void proto_close(struct out *o, size_t at)
{
	char head[VARINT_LEN];
	size_t len = o->len - at, head_len = varint(head, len);

	out_room(o, head_len);
	memmove(o->buf + at + head_len, o->buf + at, len);
	memcpy(o->buf + at, head, head_len);
	o->len += head_len;
}
