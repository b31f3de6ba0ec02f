// SPDX-License-Identifier: BSD-2-Clause
// Compares two readings by function (--diff).
#include <math.h>

#include "base/text.h"
#include "base/util.h"
#include "group/stacks.h"
#include "show/call.h"
#include "show/stats.h"
#include "show/text.h"

/* --- the present statistics in the form of a saved document --------------------------------- */

/* The text that a reader of the document gets. */
static char *text_read(const char *written)
{
	struct out text = {};

	out_utf8(&text, written);
	out_char(&text, '\0');
	return text.buf;
}

/* Stack @number as a document has it. */
static void save_stack(struct stacks *s, uint64_t number, pid_t pid, uint32_t fn,
	struct saved_part *part)
{
	struct stack stack = stacks_get(s, number);
	const char *cut = stack_cut(&stack);
	struct out text = {};

	stack_begin(s, &stack, pid, fn);
	if (cut)
		out_mem(&text, cut, strlen(cut) + 1);
	for (size_t i = stack.cnt; i--;) {
		size_t cnt = 0;
		const struct frame_name *names = stack_names(s, &stack, i, pid, &cnt);

		while (names && cnt--) {
			out_utf8(&text, names[cnt].text);
			out_char(&text, '\0');
		}
	}
	out_char(&text, '\0');
	part->stack = text.buf;
}

static void save_part(const struct report_group *rg, uint32_t fn, const struct func_types *t,
	const struct func_part *p, const struct stats_row *row, size_t i, struct saved_row *out)
{
	struct saved_part *part = &out->part[out->part_cnt++];
	char buf[KEY_TEXT_LEN];
	const char *name = key_name(t, p, row, i, buf);
	struct out text = {};

	key_value_text(&text, t, p, row, i);
	out_char(&text, '\0');
	part->key = xstrdup(rg->keys.key[i]);
	part->value = text_read(text.buf);
	part->name = name ? text_read(name) : NULL;
	out_done(&text);
	if (key_is_stack(p->by) && rg->stacks && stats_row_word(row, i))
		save_stack(rg->stacks, stats_row_word(row, i), row->pid, fn, part);
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
				save_part(rg, f->fn, types_of(types, f->fn), &keys->key[k],
					&f->rows[i], k, row);
	}
}

static void snapshot_func(const struct report_group *rg, const struct types *types,
	const struct stats_func *f, struct saved_func *out)
{
	struct group_func func = group_func(rg->s->group, f->fn);
	struct hist_bucket buckets[FSN_HIST_CNT];
	size_t cnt = 0;

	out->name = text_read(func.name);
	out->library = text_read(func.library);
	figures_of(f, NULL, figure_mask(USE_SAVED), &out->figures);
	for (unsigned int i = 0; f->bucket && i < FSN_HIST_CNT; i++) {
		hist_bounds(i, &buckets[cnt].ge_ns, &buckets[cnt].lt_ns);
		buckets[cnt].cnt = f->bucket[i];
		cnt += !!f->bucket[i];
	}
	moments_of(buckets, cnt, &out->durations);
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

	return ((cx < cy) - (cx > cy)) ?: strcmp(x_func->name, y_func->name) ?:
		(x_func->rows && y_func->rows ? compare_parts(x_func, y_func) : 0);
}

struct diffing {
	const struct stats_choice *choice;
	struct diff_func *func;
	size_t cnt;
	struct diff_parts *parts; /* owns the functions of .func, if they are made from keys */
};

static void diff_add(struct diffing *d, const struct saved_func *before,
	const struct saved_func *after)
{
	*array_add(d->func, d->cnt) = (struct diff_func) { called(before) ? before : NULL, after };
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

#define FRAME_SEPARATOR " > "

/* Returns the frames of a stack in one line: its number means nothing in another group. */
static char *stack_line(const char *names)
{
	struct out text = {};

	for (; *names; names += strlen(names) + 1) {
		out_str(&text, text.len ? FRAME_SEPARATOR : "");
		out_str(&text, names);
	}
	out_char(&text, '\0');
	return text.buf;
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
		to->value = part && part->stack ? stack_line(part->stack)
						: xstrdup(part ? part->value : "-");
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

/*
 * Gives a part the moments of the widest spread that its calls can have: rows have no histogram. The
 * squares of their deviations add up to at most those of the function, and to at most those of calls
 * that took either no time or the longest.
 */
static void part_spread(const struct saved_func *f, struct saved_func *part)
{
	double cnt = (double)figure_or_0(&part->figures, FIGURE_RETURNS);
	double sum = (double)figure_or_0(&part->figures, FIGURE_TOTAL), squares, most;
	const struct moments *all = &f->durations;

	if (!(cnt >= 1) || !(all->cnt >= 1))
		return;
	squares = all->squares - all->sum * all->sum / all->cnt;
	most = sum * ((double)figure_or_0(&part->figures, FIGURE_MAX) - sum / cnt);
	if (most < 0 || most > squares)
		most = squares; /* the longest is not known */
	part->durations = (struct moments) { cnt, sum,
		sum * sum / cnt + most, 0, UINT64_MAX };
	figure_set(&part->figures, FIGURE_NOISE, figure_known(&f->figures, FIGURE_NOISE),
		figure_or_0(&f->figures, FIGURE_NOISE));
}

/* Makes the parts of a function: its rows, sorted, with equal keys merged. */
static struct diff_parts *parts_make(struct diffing *d, const struct saved_func *f)
{
	struct diff_parts *parts = xcalloc(1, sizeof(*parts));

	parts->next = d->parts;
	d->parts = parts;
	parts->func = xcalloc((f ? f->row_cnt : 0) + 1, sizeof(*parts->func));
	for (; f && parts->cnt < f->row_cnt; parts->cnt++)
		part_make(f, &f->rows[parts->cnt], d->choice, &parts->func[parts->cnt]);
	parts->cnt = rows_group(
		parts->func, parts->cnt, sizeof(*parts->func), compare_parts, add_part);
	for (size_t i = 0; i < parts->cnt; i++)
		part_spread(f, &parts->func[i]);
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
	struct diffing d = { .choice = choice };

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
		qsort(d.func, d.cnt, sizeof(*d.func), compare_changes);
	rg->diff = d.func;
	rg->diff_parts = d.parts;
	rg->diff_all = d.cnt;
	rg->diff_cnt = choice->top && choice->top < d.cnt ? choice->top : d.cnt;
}

/* --- slower, or more calls? ----------------------------------------------------------------- */

#define ERRORS_OF_NOISE 3 /* standard errors of the difference of two means */

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
	ret->median_beyond = d->after->durations.median_ge_ns > d->before->durations.median_lt_ns ||
		d->after->durations.median_lt_ns < d->before->durations.median_ge_ns;
	return true;
}

/* --- what has changed, in words: functions, and why: their waits and keys ----------------------- */

#define CAUSES 3   /* functions, and keys of each */
#define SLIGHT 0.1 /* of the greatest change: others are not causes */

/* A function, or the part with a key, and how much time more all its calls take. */
struct cause {
	const struct diff_func *d;
	struct diff_time time;
	double more_ns;
};

/* Returns how much longer the calls are now by one of their times. */
static double slower_by(const struct diff_func *d, enum figure_id id)
{
	const struct figures *was = &d->before->figures, *is = &d->after->figures;

	return (double)is->value[id].n -
		(double)was->value[id].n / was->value[FIGURE_RETURNS].n * is->value[FIGURE_RETURNS].n;
}

/* Keeps the greatest, in order. */
static void cause_add(struct cause causes[static CAUSES + 1], struct cause new)
{
	size_t i = CAUSES;

	for (; i && (!causes[i - 1].d || fabs(causes[i - 1].more_ns) < fabs(new.more_ns)); i--)
		causes[i] = causes[i - 1];
	causes[i] = new;
}

static bool is_cause(const struct cause *causes, size_t i)
{
	return causes[i].d && fabs(causes[i].more_ns) >= SLIGHT * fabs(causes[0].more_ns);
}

#define FRAMES 3 /* of a stack in a line */

static const char *innermost(const char *frames)
{
	const char *at[FRAMES] = {}, *next = frames;
	size_t cnt = 0;

	for (; (next = strstr(next, FRAME_SEPARATOR)); next += strlen(FRAME_SEPARATOR))
		at[cnt++ % FRAMES] = next;
	return cnt < FRAMES ? frames : at[cnt % FRAMES] + strlen(FRAME_SEPARATOR);
}

static void print_keys(const struct diff_func *d, const char *separator, FILE *f)
{
	const struct saved_func *func = d->after ? d->after : d->before;

	for (size_t i = 0; i < func->rows->part_cnt; i++) {
		const struct saved_part *part = &func->rows->part[i];
		const char *text = saved_part_text(part), *from = text;
		_cleanup_free_ char *value = NULL;

		if (!strcmp(part->key, "stack"))
			from = innermost(text);
		value = text_escape(from);
		fprintf(f, "%s%s=%s%s", separator, part->key, from == text ? "" : "... > ", value);
		separator = " ";
	}
}

static void print_growth(double ns, uint64_t calls, FILE *f)
{
	char buf[TEXT_NUM_LEN];

	fprintf(f, "%c%s in %s\n", ns < 0 ? '-' : '+', text_duration((uint64_t)fabs(ns), buf),
		counted(calls, "call", "calls").text);
}

static void print_means(const struct diff_time *time, FILE *f)
{
	char was[TEXT_NUM_LEN], is[TEXT_NUM_LEN], noise[TEXT_NUM_LEN];

	fprintf(f, "%s per call instead of %s (noise %s), ",
		text_duration((uint64_t)time->mean_ns, is),
		text_duration((uint64_t)time->mean_was_ns, was),
		text_duration((uint64_t)time->noise_ns, noise));
}

/* The mean of a few long calls can hide what all others do. */
static void print_medians(const struct diff_func *d, FILE *f)
{
	uint64_t p50_was = figure_or_0(&d->before->figures, FIGURE_P50);
	uint64_t p50 = figure_or_0(&d->after->figures, FIGURE_P50);
	char was[TEXT_NUM_LEN], is[TEXT_NUM_LEN];

	fprintf(f, " is %s by the median: %s instead of %s; mean ", p50 > p50_was ? "slower" : "faster",
		text_duration(p50, is), text_duration(p50_was, was));
}

/* In which of their times the calls of a function are slower. */
static void explain_times(const struct cause *cause, FILE *f)
{
	static const struct {
		enum figure_id id;
		const char *name;
	} times[] = { { FIGURE_SELF, "of its own" }, { FIGURE_ON_CPU, "on a CPU" },
		{ FIGURE_QUEUED, "waiting for a CPU" }, { FIGURE_BLOCKED, "blocked" } };
	double calls = (double)cause->d->after->figures.value[FIGURE_RETURNS].n, ns;
	const char *separator = "    of that ";
	char buf[TEXT_NUM_LEN];

	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		if (!both_known(cause->d, times[i].id))
			continue;
		ns = slower_by(cause->d, times[i].id);
		/* A function that calls none of the others has no time but its own. */
		if (times[i].id == FIGURE_SELF && fabs(ns - cause->time.slower_ns) < 1)
			continue;
		if (fabs(ns) <= SLIGHT * fabs(cause->time.slower_ns))
			continue;
		fprintf(f, "%s%c%s %s", separator, ns < 0 ? '-' : '+',
			text_duration((uint64_t)(fabs(ns) / calls), buf), times[i].name);
		separator = ", ";
	}
	fputs(*separator == ',' ? "\n" : "", f);
}

/* The keys of a function whose calls take most time more, by their number or by the time of each. */
static void explain_keys(const struct report_group *rg, const struct cause *cause, FILE *f)
{
	struct cause causes[CAUSES + 1] = {};
	struct stats_choice by = {};
	struct diffing parts = { .choice = &by };

	for (size_t i = 0; i < rg->keys.key_cnt; i++)
		by.by[by.by_cnt++] = rg->keys.key[i];
	if (!by.by_cnt || !cause->d->before->row_cnt || !cause->d->after->row_cnt)
		return;
	diff_by_keys(&parts, cause->d->before, cause->d->after);
	for (size_t i = 0; i < parts.cnt; i++) {
		struct cause c = { .d = &parts.func[i] };

		diff_time(c.d, &c.time);
		c.more_ns = (c.d->after ? (double)figure_or_0(&c.d->after->figures, FIGURE_TOTAL) : 0) -
			(c.d->before ? (double)figure_or_0(&c.d->before->figures, FIGURE_TOTAL) : 0);
		cause_add(causes, c);
	}
	for (size_t i = 0; i < CAUSES && is_cause(causes, i); i++) {
		const struct cause *c = &causes[i];
		uint64_t calls = c->d->after ? figure_or_0(&c->d->after->figures, FIGURE_CALLS) : 0;

		print_keys(c->d, "    ", f);
		fputs(": ", f);
		if (!c->d->before || !c->d->after)
			fprintf(f, "%s, ", diff_status(c->d));
		else if (fabs(c->time.slower_ns) > fabs(c->time.more_ns))
			print_means(&c->time, f);
		else
			fprintf(f, "%s before, ",
				counted(figure_or_0(&c->d->before->figures, FIGURE_CALLS), "call",
					"calls")
					.text);
		print_growth(c->more_ns, calls, f);
	}
	diff_parts_free(parts.parts);
	free(parts.func);
}

void diff_summary(const struct report *r, const struct report_group *rg, FILE *f)
{
	struct cause causes[CAUSES + 1] = {};
	bool judged = false, others = false;

	for (size_t i = 0; i < rg->diff_all; i++) {
		struct cause c = { .d = &rg->diff[i] };

		if (!diff_time(c.d, &c.time)) {
			others |= both_known(c.d, FIGURE_RETURNS);
			continue;
		}
		judged = true;
		/* A caller is not the cause that a function is slower. */
		c.more_ns = both_known(c.d, FIGURE_SELF) ? slower_by(c.d, FIGURE_SELF) : c.time.slower_ns;
		if (c.time.beyond_noise || c.time.median_beyond)
			cause_add(causes, c);
	}
	if (judged && !causes[0].d)
		fprintf(f, "no %s differs beyond noise\n",
			others ? "mean of two or more calls" : "function's mean");
	for (size_t i = 0; i < CAUSES && is_cause(causes, i); i++) {
		const struct cause *c = &causes[i];
		_cleanup_free_ char *name = text_escape(c->d->after->name);

		fputs(name, f);
		if (r->choice->by_cnt)
			print_keys(c->d, " ", f);
		if (c->time.beyond_noise)
			fprintf(f, " is %s: ", c->time.slower_ns > 0 ? "slower" : "faster");
		else
			print_medians(c->d, f);
		print_means(&c->time, f);
		print_growth(c->time.slower_ns, c->d->after->figures.value[FIGURE_RETURNS].n, f);
		explain_times(c, f);
		if (!r->choice->by_cnt)
			explain_keys(rg, c, f);
	}
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

static bool is_within_noise(const struct diff_func *d, enum figure_id id)
{
	struct diff_time time;

	if ((id != FIGURE_AVG && id != FIGURE_P50) || !diff_time(d, &time))
		return false;
	return !(id == FIGURE_AVG ? time.beyond_noise : time.median_beyond);
}

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
	grid_about(grid, both && is_within_noise(d, id));
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
