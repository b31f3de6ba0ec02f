// SPDX-License-Identifier: BSD-2-Clause
/* What the preset reader stands on: its memory, and guessing what was meant. */
#include "preset_internal.h"

#include <string.h>

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

#define WORD_MAX 64

/* Letters to insert, drop or change to get from @a to @b; both shorter than WORD_MAX. */
static size_t distance(const char *a, const char *b)
{
	size_t row[WORD_MAX + 1], len = strlen(b);

	for (size_t j = 0; j <= len; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= len; j++) {
			size_t best = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[len];
}

const char *nearest_word(const char *word, const char *const *words)
{
	const char *best = NULL;
	size_t len = strlen(word), best_distance = len / 3 + 2;

	if (len >= WORD_MAX)
		return NULL;
	for (; *words; words++) {
		size_t d;

		if (strlen(*words) >= WORD_MAX)
			continue;
		d = distance(word, *words);
		if (d < best_distance && d < strlen(*words)) {
			best_distance = d;
			best = *words;
		}
	}
	return best;
}
