// SPDX-License-Identifier: BSD-2-Clause
// Globs and regular expressions over names of functions.
#include <errno.h>
#include <string.h>

#include "base/pattern.h"

/*
 * Matches one character against the set that begins at @p (after '['). Returns what
 * follows the set, or NULL when it has no end, so that '[' means itself.
 */
static const char *match_set(const char *p, unsigned char c, bool *ret_hit)
{
	bool negate = *p == '!' || *p == '^', hit = false, first = true;

	p += negate;
	for (; *p && (first || *p != ']'); first = false) {
		unsigned char low = *p, high = *p;

		if (*p == '\\' && p[1])
			low = high = *++p;
		p++;
		if (p[0] == '-' && p[1] && p[1] != ']') {
			high = *++p;
			if (high == '\\' && p[1])
				high = *++p;
			p++;
		}
		if (c >= low && c <= high)
			hit = true;
	}
	if (*p != ']')
		return NULL;
	*ret_hit = hit != negate;
	return p + 1;
}

/* Matches one character at @glob (which is not '*'); what follows, or NULL. */
static const char *match_one(const char *glob, unsigned char c)
{
	const char *after;
	bool hit;

	switch (*glob) {
	case '\0':
		return NULL;
	case '?':
		return glob + 1;
	case '[':
		after = match_set(glob + 1, c, &hit);
		if (after)
			return hit ? after : NULL;
		break;
	case '\\':
		if (glob[1])
			glob++;
		break;
	default:
		break;
	}
	return (unsigned char)*glob == c ? glob + 1 : NULL;
}

bool pattern_is_glob(const char *text)
{
	return strpbrk(text, "*?[") != NULL;
}

bool pattern_glob(const char *glob, const char *name)
{
	const char *star = NULL, *star_name = NULL, *next;

	while (*name) {
		if (*glob == '*') {
			star = ++glob;
			star_name = name;
			if (!*glob)
				return true;
			continue;
		}
		next = match_one(glob, *name);
		if (next) {
			glob = next;
			name++;
			continue;
		}
		if (!star)
			return false;
		/* the last star takes one more: earlier ones never need to */
		glob = star;
		name = ++star_name;
	}
	while (*glob == '*')
		glob++;
	return !*glob;
}

int pattern_init(
	struct pattern *p, enum pattern_kind kind, const char *text, struct err *err)
{
	char why[128];
	int ret;

	memset(p, 0, sizeof(*p));
	p->kind = kind;
	if (kind == PATTERN_GLOB) {
		p->glob = strdup(text);
		return p->glob ? 0 : err_sys(err, -ENOMEM, "cannot match '%s'", text);
	}
	ret = regcomp(&p->regex, text, REG_EXTENDED | REG_NOSUB);
	if (ret == REG_ESPACE)
		return err_sys(err, -ENOMEM, "cannot match '%s'", text);
	if (ret) {
		regerror(ret, &p->regex, why, sizeof(why));
		return err_set(
			err, -EINVAL, "bad regular expression '%s': %s", text, why);
	}
	p->has_regex = true;
	return 0;
}

void pattern_done(struct pattern *p)
{
	free(p->glob);
	if (p->has_regex)
		regfree(&p->regex);
	memset(p, 0, sizeof(*p));
}

bool pattern_match(const struct pattern *p, const char *name)
{
	if (p->kind == PATTERN_GLOB)
		return pattern_glob(p->glob, name);
	return regexec(&p->regex, name, 0, NULL, 0) == 0;
}
