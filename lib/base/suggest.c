// SPDX-License-Identifier: BSD-2-Clause
// The names nearest to one that was not found.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "base/util.h"

#define DISTANCE_MAX_LEN 255

/* Edits that make another name: a quarter of the letters and one, never all of them. */
static unsigned int limit_of(const struct suggest *s)
{
	unsigned int limit = s->len / 4 + 1;

	return limit < s->len ? limit : s->len ? s->len - 1 : 0;
}

static unsigned int min3(unsigned int a, unsigned int b, unsigned int c)
{
	unsigned int m = a < b ? a : b;

	return m < c ? m : c;
}

/*
 * Edit distance of two names (insert, delete, replace, swap of neighbours), or @max + 1
 * when it is over @max. Names over 255 bytes are @max + 1 apart.
 */
static unsigned int distance(const char *a, const char *b, unsigned int max)
{
	unsigned int rows[3][DISTANCE_MAX_LEN + 1];
	size_t n = strnlen(a, DISTANCE_MAX_LEN + 1), m = strnlen(b, DISTANCE_MAX_LEN + 1);
	unsigned int *before = rows[0], *prev = rows[1], *cur = rows[2], *t;

	if (n > DISTANCE_MAX_LEN || m > DISTANCE_MAX_LEN || (n > m ? n - m : m - n) > max)
		return max + 1;
	for (size_t j = 0; j <= m; j++)
		prev[j] = j;
	for (size_t i = 1; i <= n; i++) {
		unsigned int least = cur[0] = i;

		for (size_t j = 1; j <= m; j++) {
			bool same = tolower((unsigned char)a[i - 1]) ==
				tolower((unsigned char)b[j - 1]);

			cur[j] = min3(prev[j] + 1, cur[j - 1] + 1, prev[j - 1] + !same);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
				a[i - 2] == b[j - 1] && before[j - 2] + 1 < cur[j])
				cur[j] = before[j - 2] + 1;
			if (cur[j] < least)
				least = cur[j];
		}
		if (least > max)
			return max + 1;
		t = before;
		before = prev;
		prev = cur;
		cur = t;
	}
	return prev[m] > max ? max + 1 : prev[m];
}

/* How far @name is from what is wanted; over the limit for "not near". */
static unsigned int score_of(const struct suggest *s, const char *name)
{
	size_t len = strlen(name);
	unsigned int limit = limit_of(s), best = s->cnt ? s->score[s->cnt - 1] : ~0u;
	unsigned int d;

	if (s->cnt < SUGGEST_MAX || best > limit)
		best = limit;
	if (len + limit >= s->len && len <= s->len + limit) {
		d = distance(s->wanted, name, best);
		if (d <= limit)
			return d;
	}
	/* one inside the other, for names long enough to mean something */
	if (s->len >= 3 && len > s->len && strcasestr(name, s->wanted))
		return limit + 1 + (len - s->len > 64 ? 64 : len - s->len);
	if (len >= 6 && s->len > len && strcasestr(s->wanted, name))
		return limit + 1 + (s->len - len > 64 ? 64 : s->len - len);
	return ~0u;
}

void suggest_init(struct suggest *s, const char *wanted)
{
	*s = (struct suggest) { .wanted = wanted, .len = strlen(wanted) };
}

void suggest_offer(struct suggest *s, const char *name, const char *where)
{
	unsigned int score = score_of(s, name);
	size_t at = 0;

	if (score == ~0u || strcmp(name, s->wanted) == 0)
		return;
	while (at < s->cnt && s->score[at] <= score) {
		if (strcmp(s->names[at], name) == 0)
			return;
		at++;
	}
	if (at == SUGGEST_MAX)
		return;
	for (size_t i = at; i < s->cnt; i++) {
		if (strcmp(s->names[i], name) == 0)
			return; /* the same name has the same score */
	}
	if (s->cnt < SUGGEST_MAX)
		s->cnt++;
	for (size_t i = s->cnt - 1; i > at; i--) {
		s->names[i] = s->names[i - 1];
		s->where[i] = s->where[i - 1];
		s->score[i] = s->score[i - 1];
	}
	s->names[at] = name;
	s->where[at] = where;
	s->score[at] = score;
}

bool suggest_is_near(const struct suggest *s)
{
	return s->cnt && s->score[0] <= limit_of(s);
}

size_t suggest_text(const struct suggest *s, char *buf, size_t size)
{
	size_t len = 0, cnt = s->cnt;
	int n;

	if (size)
		buf[0] = '\0';
	/* far ones say nothing beside a near one */
	while (cnt > 1 && s->score[cnt - 1] > s->score[0] + s->score[0] / 2)
		cnt--;
	for (size_t i = 0; i < cnt && len < size; i++) {
		const char *before = i + 1 < cnt ? ", " : " or ";

		if (!i)
			before = "did you mean ";
		n = snprintf(buf + len, size - len, "%s'%s'%s%s", before, s->names[i],
			s->where[i] ? " in " : "", s->where[i] ? s->where[i] : "");
		if (n < 0)
			break;
		len += n;
	}
	return len < size ? len : size ? size - 1 : 0;
}

bool suggest_hint(struct err *err, const char *wanted, const char *const *words)
{
	struct suggest s;
	char text[ERR_HINT_LEN];

	suggest_init(&s, wanted);
	for (; *words; words++)
		suggest_offer(&s, *words, NULL);
	if (!suggest_text(&s, text, sizeof(text)))
		return false;
	err_hint(err, "%s", text);
	return true;
}
