/* SPDX-License-Identifier: BSD-2-Clause */
/* The names nearest to one that was not found, for hints. */
#ifndef FUNCSNOOP_BASE_SUGGEST_H
#define FUNCSNOOP_BASE_SUGGEST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define SUGGEST_MAX 3

struct suggest {
	const char *wanted;
	size_t len;
	const char *names[SUGGEST_MAX]; /* nearest first; they belong to the caller */
	const char *where[SUGGEST_MAX]; /* a remark on each, or NULL */
	unsigned int score[SUGGEST_MAX];
	size_t cnt;
};

void suggest_init(struct suggest *s, const char *wanted);

/*
 * Offers a name: kept when it is among the nearest so far and near enough (edit distance
 * of at most a quarter of the length and one, letters' case aside; or one contains the other).
 * The wanted name itself is passed over. @where is shown as "NAME in WHERE", or is NULL.
 */
void suggest_offer(struct suggest *s, const char *name, const char *where);

/* Whether the nearest differs by so few letters that it is most likely a slip of the hand. */
bool suggest_is_near(const struct suggest *s);

/* "did you mean 'a', 'b' in x or 'c'" into @buf; the length, 0 when there is none. */
size_t suggest_text(const struct suggest *s, char *buf, size_t size);

/*
 * Sets the hint to those of @words (ends with NULL) that @wanted was perhaps meant to be;
 * false when none is near.
 */
bool suggest_hint(struct err *err, const char *wanted, const char *const *words);

#endif
