// SPDX-License-Identifier: BSD-2-Clause
// Conditions on metrics, for scripts that must fail when one holds (--fail-if).
#include <ctype.h>
#include <math.h>

#include "base/text.h"
#include "base/util.h"
#include "show/stats.h"
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
	err_set(err, -EINVAL, "--fail-if '%s' does not start with a metric of stats",
		text);
	return err_hint(err, "%s", words_join(words, cnt, ", ", " or ", buf));
}

static bool is_by_key(enum figure_id id)
{
	return figures[id].place[USE_ROW_DOCUMENT].at || id == FIGURE_AVG;
}

/* Percentiles by key are known only for GPU activity. */
static bool is_percentile_by_key(const struct check *c)
{
	return c->of_cnt && FIGURE_BIT(c->figure) & FIGURE_SPREAD;
}

/* One "KEY=VALUE" of @len bytes. */
static bool parse_key(const char *at, size_t len, struct check_key *ret)
{
	const char *value = memchr(at, '=', len);
	size_t key_len = value ? (size_t)(value - at) : 0;

	if (key_len > 4 && !strncmp(at, "arg:", 4)) {
		at += 4;
		len -= 4;
		key_len -= 4;
	}
	if (!key_len || key_len >= sizeof(ret->key) || len - key_len - 1 >= sizeof(ret->value))
		return false;
	memcpy(ret->key, at, key_len);
	ret->key[key_len] = '\0';
	memcpy(ret->value, value + 1, len - key_len - 1);
	ret->value[len - key_len - 1] = '\0';
	return true;
}

/* Up to a comma or a bracket that is not of a key, as "desc->dims[0]" has them. */
static size_t part_len(const char *at)
{
	size_t len = strcspn(at, ",[]");

	while (at[len] == '[') {
		len += strcspn(at + len, "]");
		len += at[len] ? 1 + strcspn(at + len + 1, ",[]") : 0;
	}
	return len;
}

/* Parses "[KEY=VALUE,KEY=VALUE]", which is optional; *@rest then points past it. */
static int parse_keys(const char **rest, struct check *check, struct err *err)
{
	const char *at = *rest + 1;
	bool more = **rest == '[';

	while (more) {
		size_t len = part_len(at);

		if (!at[len] || check->of_cnt == FSN_KEYS ||
			!parse_key(at, len, &check->of[check->of_cnt++]))
			return err_set(err, -EINVAL,
				"--fail-if '%s' has no [KEY=VALUE] or up to %d with commas between them",
				check->text, FSN_KEYS);
		more = at[len] == ',';
		at += len + 1;
		*rest = at;
	}
	if (check->of_cnt && !is_by_key(check->figure))
		return err_set(err, -EINVAL, "--fail-if '%s': %s is not known by key",
			check->text, figures[check->figure].word);
	return 0;
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
	if (figures[check->figure].unit == UNIT_BYTES && !size_parse(text, &check->value))
		return 0;
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
	code = parse_keys(&rest, &check, err);
	if (code)
		return code;
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

/* True if the group has the keys of @c. Keys without read permission are reported by the check. */
static bool group_has_keys(const struct report_group *rg, const struct check *c)
{
	return ALL_WHERE(c->of_cnt, i, group_keys_find(&rg->keys, c->of[i].key) >= 0);
}

int check_keys_known(const struct report *r, const struct check *checks, size_t cnt,
	struct err *err)
{
	for (size_t k = 0; k < cnt; k++) {
		bool found = false, known = false, spread = !is_percentile_by_key(&checks[k]);

		for (size_t i = 0; i < r->cnt; i++)
			if (group_has_keys(&r->group[i], &checks[k])) {
				found = true;
				known |= r->group[i].s->keys_known;
				spread |= group_info(r->group[i].s->group).gpu;
			}
		if (found && !spread)
			return err_set(err, -ERR_USAGE,
				"--fail-if '%s': %s by key is known only for GPU activity",
				checks[k].text, figures[checks[k].figure].word);
		if (!checks[k].of_cnt || !r->cnt || known)
			continue;
		if (found)
			return err_set(err, -EACCES,
				"--fail-if '%s': keys are for the owner of the group to read",
				checks[k].text);
		return err_set(err, -ERR_USAGE, "--fail-if '%s': no group has such a key",
			checks[k].text);
	}
	return 0;
}

/* --- checks by key --------------------------------------------------------------------------- */

/* Compares numbers by value: "0x10" equals "16". */
static bool part_is(const struct saved_part *part, const char *value)
{
	char *has_end, *end;
	long long has, wanted;

	if (!strcmp(part->value, value) || (part->name && !strcmp(part->name, value)))
		return true;
	errno = 0;
	has = strtoll(part->value, &has_end, 0);
	wanted = strtoll(value, &end, 0);
	return !errno && has_end != part->value && !*has_end && end != value && !*end &&
		has == wanted;
}

static bool row_is(const struct saved_row *row, const struct check *c)
{
	for (size_t i = 0; i < c->of_cnt; i++) {
		const struct saved_part *part = saved_part_find(row, c->of[i].key);

		if (!part || !part_is(part, c->of[i].value))
			return false;
	}
	return true;
}

/* Sums the rows of @f that match the keys of @c, and names the sum. False if there are none. */
static bool func_by_keys(const struct saved_func *f, const struct check *c, struct saved_func *ret)
{
	const char *begin = strchr(c->text, '['), *end = strchr(c->text, ']');
	bool found = false, spread = is_percentile_by_key(c);
	struct stats_spread all = {};

	*ret = (struct saved_func) { .library = f->library };
	for (size_t i = 0; i < f->row_cnt; i++) {
		const struct stats_row *now = f->rows[i].now;

		if (!row_is(&f->rows[i], c))
			continue;
		found = true;
		saved_row_add(&ret->figures, &f->rows[i].figures);
		spread = spread && now && (!now->n.returns || stats_spread_add(&all, now));
	}
	if (found && spread && figure_or_0(&ret->figures, FIGURE_RETURNS))
		figures_of_spread(&all, ret->figures.value[FIGURE_MAX].n, &ret->figures);
	if (found)
		ret->name = xasprintf("%s%.*s", f->name, (int)(end - begin + 1), begin);
	return found;
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
	const struct check *c, uint64_t value, char buf[TEXT_NUM_LEN])
{
	if (figures[c->figure].unit == UNIT_NS)
		return text_duration(value, buf);
	snprintf(buf, TEXT_NUM_LEN, "%llu", (unsigned long long)value);
	return buf;
}

static bool check_value(const struct globals *g, const struct check *c, const char *group,
	const struct saved_func *now)
{
	uint64_t value = now->figures.value[c->figure].n;
	char is[TEXT_NUM_LEN];

	if (!holds(c->op, (value > c->value) - (value < c->value)))
		return false;
	fprintf(stderr, "funcsnoop %s: %s of %s: %s is %s (%s)\n", g->command, now->name,
		group, figures[c->figure].word, value_text(c, value, is), c->text);
	return true;
}

bool check_is_share(const struct check *c)
{
	return c->relative && (c->figure == FIGURE_ON_CPU || c->figure == FIGURE_QUEUED ||
		c->figure == FIGURE_BLOCKED);
}

/* The share of the time that is split into on-CPU, runnable and blocked. */
static bool check_share(const struct globals *g, const struct check *c, const char *group,
	const struct saved_func *now)
{
	const struct figures *f = &now->figures;
	uint64_t part = f->value[c->figure].n, all = f->value[FIGURE_ON_CPU].n +
		f->value[FIGURE_QUEUED].n + f->value[FIGURE_BLOCKED].n;
	char of[TEXT_NUM_LEN], whole[TEXT_NUM_LEN];
	double share;

	if (!all)
		return false;
	share = 100.0 * (double)part / (double)all;
	if (!holds(c->op, (share > c->percent) - (share < c->percent)))
		return false;
	fprintf(stderr, "funcsnoop %s: %s of %s: %s is %s of %s, %.1f %% (%s)\n", g->command,
		now->name, group, figures[c->figure].word, value_text(c, part, of),
		value_text(c, all, whole), share, c->text);
	return true;
}

static bool check_growth(const struct globals *g, const struct check *c,
	const char *group, const struct saved_func *was, const struct saved_func *now)
{
	char from[TEXT_NUM_LEN], to[TEXT_NUM_LEN];
	uint64_t before, after;
	double change;

	/* New functions have no growth. */
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

static bool check_func(const struct globals *g, const struct check *c, bool diff,
	const struct saved_func *was, const char *group, const struct saved_func *now)
{
	_cleanup_free_ char *safe = text_escape(now->name);
	struct saved_func shown = *now;

	shown.name = safe;
	if (!figure_known(&now->figures, c->figure))
		return false;
	if (c->relative && !diff)
		return check_share(g, c, group, &shown);
	return c->relative ? check_growth(g, c, group, was, &shown)
			   : check_value(g, c, group, &shown);
}

static bool check_by_keys(const struct globals *g, const struct check *c, bool diff,
	const struct saved_func *was, const char *group, const struct saved_func *now)
{
	struct saved_func part, part_was = {};
	bool had = was && func_by_keys(was, c, &part_was);
	bool held = func_by_keys(now, c, &part) &&
		check_func(g, c, diff, had ? &part_was : NULL, group, &part);

	free(part.name);
	free(part_was.name);
	return held;
}

/* True if @name is a line of @lines. */
static bool has_line(const char *lines, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = lines; at && *at; at = strchr(at, '\n') + 1)
		if (!strncmp(at, name, len) && at[len] == '\n')
			return true;
	return false;
}

/* Notes, once for each condition and group, that it is about a time that is not measured. */
static void note_unknown(const struct globals *g, struct check *c, const struct saved_group *after)
{
	const char *first = NULL;
	char *noted = c->noted;
	size_t more = 0;

	if (figures[c->figure].unit != UNIT_NS || has_line(noted, after->name))
		return;
	for (size_t i = 0; i < after->func_cnt; i++) {
		const struct saved_func *f = &after->funcs[i];

		if (!figure_or_0(&f->figures, FIGURE_CALLS) || figure_known(&f->figures, c->figure))
			continue;
		if (first)
			more++;
		else
			first = f->name;
	}
	if (!first)
		return;
	c->noted = xasprintf("%s%s\n", noted ? noted : "", after->name);
	free(noted);
	if (more)
		cmd_note(g, "--fail-if '%s' does not judge '%s' and %zu more: they have no %s",
			c->text, first, more, figures[c->figure].word);
	else
		cmd_note(g, "--fail-if '%s' does not judge '%s': it has no %s", c->text, first,
			figures[c->figure].word);
}

bool check_group(const struct globals *g, struct check *checks, size_t cnt,
	const struct saved_group *before, const struct saved_group *after)
{
	bool any = false;

	for (size_t k = 0; k < cnt; k++)
		note_unknown(g, &checks[k], after);
	for (size_t i = 0; i < after->func_cnt; i++) {
		const struct saved_func *now = &after->funcs[i], *was = NULL;

		if (before)
			was = saved_func_find(before, now->name, now->library);
		for (size_t k = 0; k < cnt; k++)
			any |= checks[k].of_cnt
				? check_by_keys(g, &checks[k], before, was, after->name, now)
				: check_func(g, &checks[k], before, was, after->name, now);
	}
	return any;
}
