// SPDX-License-Identifier: BSD-2-Clause
// Compares two readings by function (--diff), and checks conditions on their metrics (--fail-if).
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "group/stacks.h"
#include "show/call.h"
#include "show/stats.h"
#include "show/text.h"

/* --- the present statistics in the form of a saved document --------------------------------- */

/* Stack @number as a document has it. */
static void save_stack(struct stacks *s, uint64_t number, pid_t pid, struct saved_part *part)
{
	struct stack stack = stacks_get(s, number);
	const char *cut = stack_cut(&stack);
	struct out text = {};

	if (cut)
		out_mem(&text, cut, strlen(cut) + 1);
	for (size_t i = stack.cnt; i--;) {
		size_t cnt = 0;
		const struct frame_name *names = stacks_names(s, stack.frames[i], pid, &cnt);

		while (names && cnt--)
			out_mem(&text, names[cnt].text, strlen(names[cnt].text) + 1);
	}
	out_char(&text, '\0');
	part->stack = text.buf;
}

static void save_part(const struct report_group *rg, const struct func_types *t,
	const struct func_part *p, const struct stats_row *row, size_t i, struct saved_row *out)
{
	struct saved_part *part = &out->part[out->part_cnt++];
	char buf[KEY_TEXT_LEN];
	const char *name = key_name(t, p, row, i, buf);
	struct out text = {};

	key_value_text(&text, t, p, row, i);
	out_char(&text, '\0');
	part->key = xstrdup(rg->keys.key[i]);
	part->value = xstrdup(text.buf);
	part->name = name ? xstrdup(name) : NULL;
	out_done(&text);
	if (key_is_stack(p->by) && rg->stacks && stats_row_word(row, i))
		save_stack(rg->stacks, stats_row_word(row, i), row->pid, part);
}

/* Adds the rows of @f by key. */
static void rows_snapshot(const struct report_group *rg, const struct types *types,
	const struct stats_func *f, struct saved_func *out)
{
	const struct func_keys *keys = rg->keys.funcs ? &rg->keys.funcs[f->fn] : NULL;
	struct figures values;

	if (!keys || !rg->s->keys_known || !f->row_cnt)
		return;
	out->rows = xcalloc(f->row_cnt, sizeof(*out->rows));
	for (size_t i = 0; i < f->row_cnt; i++) {
		struct saved_row *row = &out->rows[out->row_cnt++];

		row->now = &f->rows[i];
		figures_of_row(row->now, f, NULL, &values);
		saved_row_add(&row->figures, &values);
		for (size_t k = 0; k < rg->keys.key_cnt; k++)
			if (keys->key[k].by != FSN_BY_NONE)
				save_part(rg, types_of(types, f->fn), &keys->key[k], &f->rows[i], k,
					row);
	}
}

static void snapshot_func(const struct report_group *rg, const struct types *types,
	const struct stats_func *f, struct saved_func *out)
{
	struct group_func func = group_func(rg->s->group, f->fn);

	out->name = xstrdup(func.name);
	out->library = xstrdup(func.library);
	figures_of(f, NULL, figure_mask(USE_SAVED), &out->figures);
	for (unsigned int i = 0; f->bucket && i < FSN_HIST_CNT; i++) {
		uint64_t ge, lt;

		hist_bounds(i, &ge, &lt);
		moments_add(&out->durations, ge, lt, f->bucket[i]);
	}
	rows_snapshot(rg, types, f, out);
}

DEFINE_ORDER(compare_names, struct saved_func,
	strcmp(x->name, y->name) ?: strcmp(x->library, y->library))

int stats_snapshot(const struct report_group *rg, struct saved **ret_saved)
{
	_cleanup_saved_ struct saved *saved = xcalloc(1, sizeof(*saved));
	_cleanup_types_ struct types *types = NULL;
	const struct stats *s = rg->s;
	struct saved_group *group;
	int code = rg->keys.funcs ? types_read(s->group, &types, NULL) : 0;

	if (code)
		return code;
	saved->groups = group = xcalloc(1, sizeof(*group));
	saved->cnt = 1;
	group->name = xstrdup(group_info(s->group).name);
	group->funcs = xcalloc(s->func_cnt + 1, sizeof(*group->funcs));
	for (size_t i = 0; i < s->func_cnt; i++)
		if (stats_func_called(&s->funcs[i]))
			snapshot_func(rg, types, &s->funcs[i], &group->funcs[group->func_cnt++]);
	qsort(group->funcs, group->func_cnt, sizeof(*group->funcs), compare_names);
	*ret_saved = TAKE_PTR(saved);
	return 0;
}

/* --- comparing ------------------------------------------------------------------------------ */

double diff_percent(uint64_t before, uint64_t after)
{
	if (before == after)
		return 0;
	return before ? 100.0 * ((double)after - before) / before : (double)INFINITY;
}

static bool called(const struct saved_func *f)
{
	return f &&
		(figure_or_0(&f->figures, FIGURE_CALLS) ||
			figure_or_0(&f->figures, FIGURE_RETURNS));
}

/* True if both readings know the metric. */
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

/* Compares functions made from keys, by their single row. */
static int compare_parts(const void *a, const void *b)
{
	const struct saved_func *x = a, *y = b;
	int order = 0;

	for (size_t i = 0; !order && i < x->rows->part_cnt; i++)
		order = strcmp(saved_part_text(&x->rows->part[i]),
			saved_part_text(&y->rows->part[i]));
	return order;
}

static int compare_changes(const void *a, const void *b)
{
	const struct diff_func *x = a, *y = b;
	const struct saved_func *x_func = x->after ? x->after : x->before,
				*y_func = y->after ? y->after : y->before;
	double cx = change_of(x), cy = change_of(y);

	return (cx < cy) - (cx > cy) ?: strcmp(x_func->name, y_func->name) ?:
		(x_func->rows && y_func->rows ? compare_parts(x_func, y_func) : 0);
}

struct diffing {
	struct report_group *rg;
	const struct stats_choice *choice;
	size_t cnt;
};

static void diff_add(struct diffing *d, const struct saved_func *before,
	const struct saved_func *after)
{
	d->rg->diff = array_grow(d->rg->diff, d->cnt, sizeof(*d->rg->diff));
	d->rg->diff[d->cnt++] = (struct diff_func) { called(before) ? before : NULL, after };
}

/* --- by key: of each key's calls a function is made ------------------------------------------- */

void diff_parts_free(struct diff_parts *parts)
{
	struct diff_parts *next;

	for (; parts; parts = next) {
		next = parts->next;
		for (size_t i = 0; i < parts->cnt; i++)
			saved_func_done(&parts->func[i]);
		free(parts->func);
		free(parts);
	}
}

/* Makes a function of the calls of @row in @f, by the keys of @c. */
static void part_make(const struct saved_func *f, const struct saved_row *row,
	const struct stats_choice *c, struct saved_func *ret)
{
	ret->name = xstrdup(f->name);
	ret->library = f->library ? xstrdup(f->library) : NULL;
	ret->rows = xcalloc(1, sizeof(*ret->rows));
	ret->row_cnt = 1;
	for (size_t i = 0; i < c->by_cnt; i++) {
		const struct saved_part *part = saved_part_find(row, c->by[i]);
		struct saved_part *to = &ret->rows->part[ret->rows->part_cnt++];

		to->key = xstrdup(c->by[i]);
		to->value = xstrdup(part ? part->value : "-");
		to->name = part && part->name ? xstrdup(part->name) : NULL;
	}
	saved_row_add(&ret->figures, &row->figures);
}

static void add_part(void *to, const void *from)
{
	struct saved_func part = *(const struct saved_func *)from;

	saved_row_add(&((struct saved_func *)to)->figures, &part.figures);
	saved_func_done(&part);
}

/* Makes the parts of a function: its rows, sorted, with equal keys merged. */
static struct diff_parts *parts_make(struct diffing *d, const struct saved_func *f)
{
	struct diff_parts *parts = xcalloc(1, sizeof(*parts));

	parts->next = d->rg->diff_parts;
	d->rg->diff_parts = parts;
	parts->func = xcalloc((f ? f->row_cnt : 0) + 1, sizeof(*parts->func));
	for (; f && parts->cnt < f->row_cnt; parts->cnt++)
		part_make(f, &f->rows[parts->cnt], d->choice, &parts->func[parts->cnt]);
	parts->cnt = rows_group(
		parts->func, parts->cnt, sizeof(*parts->func), compare_parts, add_part);
	return parts;
}

static void diff_by_keys(
	struct diffing *d, const struct saved_func *before, const struct saved_func *after)
{
	struct diff_parts *was = parts_make(d, before), *is = parts_make(d, after);
	size_t k = 0;

	for (size_t i = 0; i < is->cnt; i++) {
		const struct saved_func *old = NULL;

		for (; k < was->cnt && compare_parts(&was->func[k], &is->func[i]) < 0; k++)
			diff_add(d, &was->func[k], NULL);
		if (k < was->cnt && !compare_parts(&was->func[k], &is->func[i]))
			old = &was->func[k++];
		diff_add(d, old, &is->func[i]);
	}
	for (; k < was->cnt; k++)
		diff_add(d, &was->func[k], NULL);
}

static void diff_one(
	struct diffing *d, const struct saved_func *before, const struct saved_func *after)
{
	if (d->choice->by_cnt)
		diff_by_keys(d, before, after);
	else
		diff_add(d, before, after);
}

void diff_make(struct report_group *rg, const struct saved_group *before,
	const struct saved_group *after, const struct stats_choice *choice)
{
	struct diffing d = { rg, choice, 0 };

	for (size_t i = 0; i < after->func_cnt; i++) {
		const struct saved_func *now = &after->funcs[i], *old = NULL;

		if (before)
			old = saved_func_find(before, now->name, now->library);
		diff_one(&d, old, now);
	}
	for (size_t i = 0; before && i < before->func_cnt; i++) {
		const struct saved_func *old = &before->funcs[i];

		if (called(old) && !saved_func_find(after, old->name, old->library))
			diff_one(&d, old, NULL);
	}
	if (d.cnt)
		qsort(rg->diff, d.cnt, sizeof(*rg->diff), compare_changes);
	rg->diff_all = d.cnt;
	rg->diff_cnt = choice->top && choice->top < d.cnt ? choice->top : d.cnt;
}

/* --- slower, or more calls? ----------------------------------------------------------------- */

#define ERRORS_OF_NOISE 3 /* standard errors of the difference of two means */

/* By Newton's method, which falls until it is exact: libm is not linked for this alone. */
static double square_root(double x)
{
	double root = x > 1 ? x : 1, next;

	while ((next = (root + x / root) / 2) < root)
		root = next;
	return root;
}

bool diff_time(const struct diff_func *d, struct diff_time *ret)
{
	const struct figures *was, *is;
	double error_was, error_is, calls_was, calls;
	uint64_t noise_was, noise_is;

	if (!both_known(d, FIGURE_TOTAL) || !both_known(d, FIGURE_RETURNS) ||
		!moments_error(&d->before->durations, &error_was) ||
		!moments_error(&d->after->durations, &error_is))
		return false;
	was = &d->before->figures;
	is = &d->after->figures;
	calls_was = (double)was->value[FIGURE_RETURNS].n;
	calls = (double)is->value[FIGURE_RETURNS].n;
	if (!(calls_was > 0) || !(calls > 0))
		return false;
	noise_was = figure_or_0(was, FIGURE_NOISE);
	noise_is = figure_or_0(is, FIGURE_NOISE);
	ret->mean_was_ns = (double)was->value[FIGURE_TOTAL].n / calls_was;
	ret->mean_ns = (double)is->value[FIGURE_TOTAL].n / calls;
	ret->noise_ns = ERRORS_OF_NOISE * square_root(error_was + error_is) +
		(double)(noise_was > noise_is ? noise_was : noise_is);
	ret->more_ns = (calls - calls_was) * ret->mean_was_ns;
	ret->slower_ns = calls * (ret->mean_ns - ret->mean_was_ns);
	ret->beyond_noise = fabs(ret->mean_ns - ret->mean_was_ns) > ret->noise_ns;
	return true;
}

void diff_summary(const struct report_group *rg, FILE *f)
{
	char was[TEXT_NUM_LEN], is[TEXT_NUM_LEN], noise[TEXT_NUM_LEN], all[TEXT_NUM_LEN];
	const struct diff_func *most = NULL;
	struct diff_time time, top = {};
	_cleanup_free_ char *name = NULL;
	bool judged = false, others = false;

	for (size_t i = 0; i < rg->diff_all; i++) {
		if (!diff_time(&rg->diff[i], &time)) {
			others |= both_known(&rg->diff[i], FIGURE_RETURNS);
			continue;
		}
		judged = true;
		if (!time.beyond_noise || (most && fabs(time.slower_ns) <= fabs(top.slower_ns)))
			continue;
		most = &rg->diff[i];
		top = time;
	}
	if (judged && !most)
		fprintf(f, "no %s differs beyond noise\n",
			others ? "mean of two or more calls" : "function's mean");
	if (!most)
		return;
	name = text_escape(most->after->name);
	fprintf(f, "%s is %s: %s per call instead of %s (noise %s), %c%s in %llu calls\n", name,
		top.slower_ns > 0 ? "slower" : "faster",
		text_duration((uint64_t)top.mean_ns, is),
		text_duration((uint64_t)top.mean_was_ns, was),
		text_duration((uint64_t)top.noise_ns, noise), top.slower_ns > 0 ? '+' : '-',
		text_duration((uint64_t)fabs(top.slower_ns), all),
		(unsigned long long)most->after->figures.value[FIGURE_RETURNS].n);
}

/* --- the view ------------------------------------------------------------------------------- */

static void fill_value(struct grid *grid, const struct saved_func *f, enum figure_id id)
{
	bool known = f && figure_known(&f->figures, id);
	uint64_t value = known ? f->figures.value[id].n : 0;

	grid_n(grid, figures[id].unit == UNIT_NS ? CELL_NS
			: figures[id].unit == UNIT_BYTES ? CELL_BYTES
							 : CELL_COUNT,
		known, value);
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

static void fill_change(
	struct grid *grid, const struct report *r, const struct diff_func *d, enum figure_id id)
{
	const struct saved_func *f = d->after ? d->after : d->before;
	double change = 0;
	bool both = diff_change(d, id, &change);

	grid_text(grid, f->name);
	grid_text(grid, f->library);
	for (size_t i = 0; i < r->choice->by_cnt; i++)
		grid_text(grid, saved_part_text(&f->rows->part[i]));
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

/* Always shows times and calls; other counters only if not 0. */
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
				fill_change(grid, r, &rg->diff[i], ids[k]);
}

/* --- conditions, for scripts that must fail when one holds --------------------------------------- */

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
	for (size_t i = 0; i < c->of_cnt; i++)
		if (group_keys_find(&rg->keys, c->of[i].key) < 0)
			return false;
	return true;
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
	char of[DURATION_LEN], whole[DURATION_LEN];
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
	char from[DURATION_LEN], to[DURATION_LEN];
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

bool check_group(const struct globals *g, const struct check *checks, size_t cnt,
	const struct saved_group *before, const struct saved_group *after)
{
	bool any = false;

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
