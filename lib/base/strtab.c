// SPDX-License-Identifier: BSD-2-Clause
// Interning strings by an open hash table.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "base/util.h"

#define FIRST_SLOTS 256

/* FNV-1a. */
static size_t hash(const char *str)
{
	uint64_t h = 0xcbf29ce484222325ULL;

	while (*str)
		h = (h ^ (unsigned char)*str++) * 0x100000001b3ULL;
	return h ^ h >> 32;
}

static uint32_t *find(const struct strtab *t, const char *str)
{
	size_t i = hash(str) & (t->slot_cnt - 1);

	while (t->slot[i] && strcmp(t->buf + t->slot[i] - 1, str))
		i = (i + 1) & (t->slot_cnt - 1);
	return &t->slot[i];
}

static int grow_slots(struct strtab *t)
{
	size_t cnt = t->slot_cnt ? t->slot_cnt * 2 : FIRST_SLOTS;
	struct strtab bigger = { .buf = t->buf, .slot_cnt = cnt };

	bigger.slot = calloc(cnt, sizeof(*bigger.slot));
	if (!bigger.slot)
		return -ENOMEM;
	for (size_t i = 0; i < t->slot_cnt; i++)
		if (t->slot[i])
			*find(&bigger, t->buf + t->slot[i] - 1) = t->slot[i];
	free(t->slot);
	t->slot = bigger.slot;
	t->slot_cnt = cnt;
	return 0;
}

static int append(struct strtab *t, const char *str, uint32_t *ret_offset)
{
	size_t size = strlen(str) + 1;
	char *more;

	if (t->len + size > UINT32_MAX / 2)
		return -ENOMEM;
	/* Room in powers of two. */
	for (size_t room = 4096;; room *= 2)
		if (room >= t->len + size) {
			more = realloc(t->buf, room);
			break;
		}
	if (!more)
		return -ENOMEM;
	t->buf = more;
	memcpy(t->buf + t->len, str, size);
	*ret_offset = t->len;
	t->len += size;
	return 0;
}

int strtab_add(struct strtab *t, const char *str, uint32_t *ret_offset, struct err *err)
{
	uint32_t offset = 0, *slot;

	if (!t->buf && append(t, "", &offset))
		return err_sys(err, -ENOMEM, "cannot keep names");
	if (!str || !*str) {
		*ret_offset = 0;
		return 0;
	}
	if (t->used * 2 >= t->slot_cnt && grow_slots(t))
		return err_sys(err, -ENOMEM, "cannot keep names");
	slot = find(t, str);
	if (!*slot) {
		if (append(t, str, &offset))
			return err_sys(err, -ENOMEM, "cannot keep names");
		*slot = offset + 1;
		t->used++;
	}
	*ret_offset = *slot - 1;
	return 0;
}

void strtab_done(struct strtab *t)
{
	free(t->buf);
	free(t->slot);
	memset(t, 0, sizeof(*t));
}

const char *strtab_at(const char *buf, size_t len, uint32_t offset)
{
	if (offset >= len || !memchr(buf + offset, '\0', len - offset))
		return "";
	return buf + offset;
}
