// SPDX-License-Identifier: BSD-2-Clause
/* What the preset reader stands on: its memory, and guessing what was meant. */
#include "internal.h"

#include <string.h>

#include "base/suggest.h"

#define CHUNK_BYTES (64u << 10)

struct arena_chunk {
	struct arena_chunk *next;
	size_t used, size;
	_Alignas(16) unsigned char bytes[];
};

void *arena_alloc(struct arena *a, size_t size)
{
	struct arena_chunk *c = a->chunks;
	void *p;

	if (size > SIZE_MAX / 2)
		return NULL;
	size = size ? (size + 15) & ~(size_t)15 : 16;
	if (!c || c->size - c->used < size) {
		size_t room = size > CHUNK_BYTES ? size : CHUNK_BYTES;

		c = calloc(1, sizeof(*c) + room);
		if (!c)
			return NULL;
		c->size = room;
		c->next = a->chunks;
		a->chunks = c;
	}
	p = c->bytes + c->used;
	c->used += size;
	return p;
}

char *arena_strndup(struct arena *a, const char *s, size_t len)
{
	char *copy = arena_alloc(a, len + 1);

	if (copy)
		memcpy(copy, s, len);
	return copy;
}

char *arena_strdup(struct arena *a, const char *s)
{
	return arena_strndup(a, s, strlen(s));
}

void arena_done(struct arena *a)
{
	while (a->chunks) {
		struct arena_chunk *next = a->chunks->next;

		free(a->chunks);
		a->chunks = next;
	}
}

bool hint_nearest(struct err *err, const char *wanted, const char *const *words)
{
	struct suggest s;
	char text[256];

	suggest_init(&s, wanted);
	for (; *words; words++)
		suggest_offer(&s, *words, NULL);
	if (!suggest_text(&s, text, sizeof(text)))
		return false;
	err_hint(err, "%s", text);
	return true;
}
