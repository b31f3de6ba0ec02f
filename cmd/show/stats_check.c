// SPDX-License-Identifier: BSD-2-Clause
// Conditions on functions' numbers, for scripts that must fail when one holds.
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "show/stats_check.h"
#include "show/stats_view.h"
#include "show/text.h"

static const struct {
	const char *text;
	enum check_op op;
} ops[] = { { ">=", CHECK_GE }, { "<=", CHECK_LE }, { "!=", CHECK_NE },
	{ "==", CHECK_EQ }, { ">", CHECK_GT }, { "<", CHECK_LT }, { "=", CHECK_EQ } };

/* "p99" or "p99_ns". */
static bool find_figure(const char *name, size_t len, enum figure_id *ret_id)
{
	for (enum figure_id id = 0; id < FIGURE_CNT; id++) {
		const struct figure *f = &figures[id];

		if (f->place[USE_SAVED].at &&
			((len == strlen(f->word) && !strncmp(f->word, name, len)) ||
				(len == strlen(f->key) && !strncmp(f->key, name, len)))) {
			*ret_id = id;
			return true;
		}
	}
	return false;
}

static int unknown_figure(const char *text, struct err *err)
{
	enum figure_id ids[FIGURE_CNT];
	const char *words[FIGURE_CNT];
	size_t cnt = figure_list(USE_SAVED, ids);
	char buf[WORDS_LEN];

	for (size_t i = 0; i < cnt; i++)
		words[i] = figures[ids[i]].word;
	err_set(err, -EINVAL, "--fail-if '%s' does not begin with what stats knows",
		text);
	return err_hint(err, "%s", words_join(words, cnt, ", ", " or ", buf));
}

static int parse_percent(
	const char *text, size_t len, struct check *check, struct err *err)
{
	char number[32], *end;

	check->relative = true;
	if (len < sizeof(number)) {
		snprintf(number, sizeof(number), "%.*s", (int)len, text);
		check->percent = strtod(number, &end);
		if (end != number && !*end && isfinite(check->percent) &&
			!strpbrk(number, "xXpP \t"))
			return 0;
	}
	return err_set(err, -EINVAL, "'%s' is not a number of percent", text);
}

static int parse_value(const char *text, struct check *check, struct err *err)
{
	size_t len = strlen(text);
	char *end;

	if (len && text[len - 1] == '%')
		return parse_percent(text, len - 1, check, err);
	if (figures[check->figure].unit == UNIT_NS)
		return duration_parse(text, &check->value, err);
	errno = 0;
	check->value = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno)
		return err_set(err, -EINVAL, "'%s' is not a whole number", text);
	return 0;
}

int check_parse(const char *text, struct check *ret_check, struct err *err)
{
	struct check check = { .text = text };
	size_t name_len = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_"), i;
	const char *rest = text + name_len;
	int code;

	if (!find_figure(text, name_len, &check.figure))
		return unknown_figure(text, err);
	rest += strspn(rest, " ");
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		if (!strncmp(rest, ops[i].text, strlen(ops[i].text)))
			break;
	if (i == ARRAY_SIZE(ops))
		return err_set(
			err, -EINVAL, "--fail-if '%s' lacks one of > >= < <= = !=", text);
	check.op = ops[i].op;
	rest += strlen(ops[i].text);
	rest += strspn(rest, " ");
	code = parse_value(rest, &check, err);
	if (code)
		return err_wrap(err, "--fail-if '%s'", text);
	*ret_check = check;
	return 0;
}

/* --- judging -------------------------------------------------------------------------------- */

static bool holds(enum check_op op, int order)
{
	switch (op) {
	case CHECK_GT:
		return order > 0;
	case CHECK_GE:
		return order >= 0;
	case CHECK_LT:
		return order < 0;
	case CHECK_LE:
		return order <= 0;
	case CHECK_EQ:
		return order == 0;
	default:
		return order != 0;
	}
}

static const char *value_text(
	const struct check *c, uint64_t value, char buf[DURATION_LEN])
{
	if (figures[c->figure].unit == UNIT_NS)
		return duration_format(value, buf);
	snprintf(buf, DURATION_LEN, "%llu", (unsigned long long)value);
	return buf;
}

static bool check_value(const struct globals *g, const struct check *c, const char *group,
	const struct saved_func *now)
{
	uint64_t value = now->figures.value[c->figure].n;
	char is[DURATION_LEN];

	if (!holds(c->op, (value > c->value) - (value < c->value)))
		return false;
	fprintf(stderr, "funcsnoop %s: %s of %s: %s is %s (%s)\n", g->command, now->name,
		group, figures[c->figure].word, value_text(c, value, is), c->text);
	return true;
}

static bool check_growth(const struct globals *g, const struct check *c,
	const char *group, const struct saved_func *was, const struct saved_func *now)
{
	char from[DURATION_LEN], to[DURATION_LEN];
	uint64_t before, after;
	double change;

	/* Of what is new there is no growth. */
	if (!was || !figure_known(&was->figures, c->figure))
		return false;
	before = was->figures.value[c->figure].n;
	after = now->figures.value[c->figure].n;
	change = diff_percent(before, after);
	if (!holds(c->op, (change > c->percent) - (change < c->percent)))
		return false;
	fprintf(stderr, "funcsnoop %s: %s of %s: %s was %s, is %s", g->command, now->name,
		group, figures[c->figure].word, value_text(c, before, from),
		value_text(c, after, to));
	if (isfinite(change))
		fprintf(stderr, ", %+.1f %%", change);
	fprintf(stderr, " (%s)\n", c->text);
	return true;
}

bool check_group(const struct globals *g, const struct check *checks, size_t cnt,
	const struct saved_group *before, const struct saved_group *after)
{
	bool any = false;

	for (size_t i = 0; i < after->func_cnt; i++) {
		struct saved_func *now = &after->funcs[i];
		_cleanup_free_ char *safe = text_escape(now->name);
		struct saved_func shown = *now;

		shown.name = safe ? safe : now->name;
		for (size_t k = 0; k < cnt; k++) {
			const struct check *c = &checks[k];

			if (!figure_known(&now->figures, c->figure))
				continue;
			if (!c->relative)
				any |= check_value(g, c, after->name, &shown);
			else
				any |= check_growth(g, c, after->name,
					before ? saved_func_find(
							 before, now->name, now->library)
					       : NULL,
					&shown);
		}
	}
	return any;
}
