// SPDX-License-Identifier: BSD-2-Clause
// Conditions on functions' numbers, for scripts that must fail when one holds; --diff.
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
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

/* after over before in percent; what was 0 has grown infinitely. */
static double diff_percent(uint64_t before, uint64_t after)
{
	if (before == after)
		return 0;
	return before ? 100.0 * ((double)after - before) / before : (double)INFINITY;
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

/* --- two readings compared, function by function ------------------------------------------- */

/* --- the present as if it had been saved ---------------------------------------------------- */

static int snapshot_func(
	const struct stats *s, const struct stats_func *f, struct saved_func *out)
{
	struct group_func func = group_func(s->group, f->fn);

	out->name = strdup(func.name);
	out->library = strdup(func.library);
	figures_of(f, NULL, figure_mask(USE_SAVED), &out->figures);
	return out->name && out->library ? 0 : -ENOMEM;
}

static int compare_names(const void *a, const void *b)
{
	const struct saved_func *x = a, *y = b;
	int by_name = strcmp(x->name, y->name);

	return by_name ? by_name : strcmp(x->library, y->library);
}

struct saved *stats_snapshot(const struct stats *s)
{
	_cleanup_saved_ struct saved *saved = calloc(1, sizeof(*saved));
	struct saved_group *group;

	if (!saved)
		return NULL;
	saved->groups = group = calloc(1, sizeof(*group));
	if (!group)
		return NULL;
	saved->cnt = 1;
	group->name = strdup(group_info(s->group).name);
	group->funcs = calloc(s->func_cnt + 1, sizeof(*group->funcs));
	if (!group->name || !group->funcs)
		return NULL;
	for (size_t i = 0; i < s->func_cnt; i++)
		if (stats_func_called(&s->funcs[i]) &&
			snapshot_func(s, &s->funcs[i], &group->funcs[group->func_cnt++]))
			return NULL;
	qsort(group->funcs, group->func_cnt, sizeof(*group->funcs), compare_names);
	return TAKE_PTR(saved);
}

/* --- comparing ------------------------------------------------------------------------------ */

static bool called(const struct saved_func *f)
{
	return f &&
		(figure_or_0(&f->figures, FIGURE_CALLS) ||
			figure_or_0(&f->figures, FIGURE_RETURNS));
}

/* Of both, and in which a change can be said. */
static bool both_known(const struct diff_func *d, enum figure_id id)
{
	return d->before && d->after && figure_known(&d->before->figures, id) &&
		figure_known(&d->after->figures, id);
}

static double percent_of(const struct diff_func *d, enum figure_id id)
{
	return diff_percent(
		d->before->figures.value[id].n, d->after->figures.value[id].n);
}

/* The greatest change of a time in percent, either way; new and vanished ones come first. */
static double change_of(const struct diff_func *d)
{
	double most = 0, change;

	if (!d->before || !d->after)
		return (double)INFINITY;
	for (enum figure_id id = 0; id < FIGURE_CNT; id++) {
		if (!figures[id].place[USE_DIFF].at || figures[id].unit != UNIT_NS ||
			!both_known(d, id))
			continue;
		change = fabs(percent_of(d, id));
		most = change > most ? change : most;
	}
	return most;
}

static int compare_changes(const void *a, const void *b)
{
	const struct diff_func *x = a, *y = b;
	double cx = change_of(x), cy = change_of(y);

	if (cx != cy)
		return cx > cy ? -1 : 1;
	return strcmp((x->after ? x->after : x->before)->name,
		(y->after ? y->after : y->before)->name);
}

int diff_make(struct report_group *rg, const struct saved_group *before,
	const struct saved_group *after, size_t top)
{
	size_t was = before ? before->func_cnt : 0, cnt = 0;

	rg->diff = calloc(was + after->func_cnt + 1, sizeof(*rg->diff));
	if (!rg->diff)
		return -ENOMEM;
	for (size_t i = 0; i < after->func_cnt; i++) {
		const struct saved_func *now = &after->funcs[i], *old = NULL;

		if (before)
			old = saved_func_find(before, now->name, now->library);
		rg->diff[cnt++] = (struct diff_func) { called(old) ? old : NULL, now };
	}
	for (size_t i = 0; i < was; i++) {
		const struct saved_func *old = &before->funcs[i];

		if (called(old) && !saved_func_find(after, old->name, old->library))
			rg->diff[cnt++] = (struct diff_func) { old, NULL };
	}
	qsort(rg->diff, cnt, sizeof(*rg->diff), compare_changes);
	rg->diff_cnt = top && top < cnt ? top : cnt;
	return 0;
}

/* --- the view ------------------------------------------------------------------------------- */

static void fill_value(struct grid *grid, const struct saved_func *f, enum figure_id id)
{
	bool known = f && figure_known(&f->figures, id);
	uint64_t value = known ? f->figures.value[id].n : 0;

	if (figures[id].unit == UNIT_NS)
		grid_ns(grid, known, value);
	else
		grid_count(grid, known, value);
}

const char *diff_status(const struct diff_func *d)
{
	return !d->before ? "new" : !d->after ? "vanished" : "both";
}

bool diff_change(const struct diff_func *d, enum figure_id id, double *ret_percent)
{
	if (!both_known(d, id))
		return false;
	*ret_percent = percent_of(d, id);
	return isfinite(*ret_percent);
}

/* Percentiles are known by eighths of an octave: within that they have not changed. */
#define LOUD 12.5

static void fill_change(struct grid *grid, const struct diff_func *d, enum figure_id id)
{
	const struct saved_func *f = d->after ? d->after : d->before;
	double change = 0;
	bool both = diff_change(d, id, &change);

	grid_text(grid, f->name);
	grid_text(grid, f->library);
	grid_text(grid, figures[id].word);
	grid_text(grid, figures[id].key);
	fill_value(grid, d->before, id);
	fill_value(grid, d->after, id);
	if (!d->before || !d->after)
		grid_text(grid, diff_status(d));
	else
		grid_real(grid, CELL_CHANGE, both, change);
	grid_real(grid, CELL_CHANGE, both, change);
	grid_text(grid, diff_status(d));
	if (fabs(change) >= LOUD && id != FIGURE_CALLS)
		grid_mark(grid, change > 0 ? "31" : "32");
}

/* Times and calls always; of what is counted besides, only what has come. */
static bool worth_a_row(const struct saved_func *f, enum figure_id id)
{
	return f && figure_known(&f->figures, id) &&
		(figures[id].unit == UNIT_NS || id == FIGURE_CALLS ||
			f->figures.value[id].n);
}

void fill_diff(struct grid *grid, const struct report *r, const struct report_group *rg)
{
	enum figure_id ids[FIGURE_CNT];
	size_t cnt = figure_list(USE_DIFF, ids);

	for (size_t i = 0; i < rg->diff_cnt; i++)
		for (size_t k = 0; k < cnt; k++)
			if (worth_a_row(rg->diff[i].before, ids[k]) ||
				worth_a_row(rg->diff[i].after, ids[k]))
				fill_change(grid, &rg->diff[i], ids[k]);
}
