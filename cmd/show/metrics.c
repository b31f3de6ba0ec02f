// SPDX-License-Identifier: BSD-2-Clause
// Metrics: the text format 0.0.4 of Prometheus, and OpenMetrics 1.0.
//
// Both want all samples of a metric together, so the functions are gone through once for
// each. They differ in names: OpenMetrics' TYPE and HELP lines leave `_total` out.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "show/stats.h"
#include "show/text.h"

struct labels {
	const struct stats *s;
	const struct stats_func *f;
	char *text; /* group="...",function="...",library="..." */
};

struct metrics {
	struct labels *labels;
	size_t cnt;
	bool open; /* OpenMetrics */
	FILE *f;
};

/* --- labels --------------------------------------------------------------------------------- */

/* Backslash, quote and line feed are escaped; what is no UTF-8 or a control is \xNN. */
static void put_value(FILE *f, const char *value)
{
	_cleanup_free_ char *copy = strdup(value);
	char *line = copy, *next;

	for (; line; line = next) {
		_cleanup_free_ char *safe = NULL;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		safe = text_escape(line);
		for (const char *p = safe; p && *p; p++) {
			if (*p == '\\' || *p == '"')
				fputc('\\', f);
			fputc(*p, f);
		}
		if (next)
			fputs("\\n", f);
	}
}

static bool same_series(const struct labels *a, const struct labels *b)
{
	struct group_func x, y;

	if (a->s != b->s)
		return false;
	x = group_func(a->s->group, a->f->fn);
	y = group_func(b->s->group, b->f->fn);
	return !strcmp(x.name, y.name) && !strcmp(x.library, y.library);
}

static int compare_labels(const void *a, const void *b)
{
	const struct labels *x = a, *y = b;
	const char *gx = group_info(x->s->group).name, *gy = group_info(y->s->group).name;
	struct group_func fx, fy;
	int order = strcmp(gx, gy);

	if (order)
		return order;
	fx = group_func(x->s->group, x->f->fn);
	fy = group_func(y->s->group, y->f->fn);
	order = strcmp(fx.name, fy.name);
	if (!order)
		order = strcmp(fx.library, fy.library);
	return order ? order : (x->f->fn > y->f->fn) - (x->f->fn < y->f->fn);
}

/* Two functions of one name in one library (overloads) are told apart by their offset. */
static int make_labels(struct labels *l, bool twin)
{
	struct group_func func = group_func(l->s->group, l->f->fn);
	_cleanup_free_ char *name = NULL;
	size_t size;
	FILE *f = open_memstream(&l->text, &size);

	if (!f)
		return -1;
	if (twin &&
		asprintf(&name, "%s+%#llx", func.name, (unsigned long long)func.offset) <
			0)
		name = NULL;
	fputs("group=\"", f);
	put_value(f, group_info(l->s->group).name);
	fputs("\",function=\"", f);
	put_value(f, name ? name : func.name);
	fputs("\",library=\"", f);
	put_value(f, func.library);
	fputs("\"", f);
	return fclose(f);
}

static int collect(struct metrics *m, const struct report *r)
{
	size_t cnt = 0;

	for (size_t i = 0; i < r->cnt; i++)
		cnt += r->group[i].func_cnt;
	m->labels = calloc(cnt + 1, sizeof(*m->labels));
	if (!m->labels)
		return -1;
	for (size_t i = 0; i < r->cnt; i++)
		for (size_t k = 0; k < r->group[i].func_cnt; k++)
			m->labels[m->cnt++] = (struct labels) { r->group[i].s,
				r->group[i].funcs[k], NULL };
	qsort(m->labels, cnt, sizeof(*m->labels), compare_labels);
	for (size_t i = 0; i < cnt; i++) {
		bool twin = (i && same_series(&m->labels[i], &m->labels[i - 1])) ||
			(i + 1 < cnt && same_series(&m->labels[i], &m->labels[i + 1]));

		if (make_labels(&m->labels[i], twin))
			return -1;
	}
	return 0;
}

static void metrics_done(struct metrics *m)
{
	for (size_t i = 0; i < m->cnt; i++)
		free(m->labels[i].text);
	free(m->labels);
}

/* --- counters ------------------------------------------------------------------------------- */

static void put_head(
	const struct metrics *m, const char *name, const char *type, const char *help)
{
	const char *total = !m->open && !strcmp(type, "counter") ? "_total" : "";

	fprintf(m->f, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, total, help, name, total,
		type);
}

static bool name_taken(const struct stats_func *f, size_t until)
{
	for (size_t i = 0; i < until; i++)
		if (f->codes[i].name && !strcmp(f->codes[i].name, f->codes[until].name))
			return true;
	return false;
}

/* By name where the code has one; errors that found no room by code are "other". */
static void put_errors(const struct metrics *m, const struct labels *l)
{
	const struct stats_func *f = l->f;
	uint64_t rest = f->n.errors;

	for (size_t i = 0; i < f->code_cnt; i++) {
		const struct stats_code *c = &f->codes[i];

		fprintf(m->f, "funcsnoop_errors_total{%s,code=\"", l->text);
		if (c->name && !name_taken(f, i))
			put_value(m->f, c->name);
		else
			fprintf(m->f, "%lld", (long long)c->code);
		fprintf(m->f, "\"} %llu\n", (unsigned long long)c->count);
		rest -= rest < c->count ? rest : c->count;
	}
	if (rest && l->s->lost_codes)
		fprintf(m->f, "funcsnoop_errors_total{%s,code=\"other\"} %llu\n", l->text,
			(unsigned long long)rest);
}

static void put_seconds(FILE *f, uint64_t ns)
{
	char buf[32];
	int len = snprintf(buf, sizeof(buf), "%llu.%09llu",
		(unsigned long long)(ns / 1000000000),
		(unsigned long long)(ns % 1000000000));

	while (buf[len - 1] == '0' && buf[len - 2] != '.')
		len--;
	fprintf(f, "%.*s", len, buf);
}

static void put_sample(const struct metrics *m, const char *name, enum figure_id id,
	const struct labels *l)
{
	struct figures f;

	figures_of(l->f, NULL, FIGURE_BIT(id), &f);
	/* What can't be known of a function has no sample. */
	if (!figure_known(&f, id) || f.moot & FIGURE_BIT(id))
		return;
	fprintf(m->f, "%s%s{%s} ", name,
		figures[id].place[USE_METRIC].extra == METRIC_GAUGE ? "" : "_total",
		l->text);
	if (figures[id].unit == UNIT_NS)
		put_seconds(m->f, f.value[id].n);
	else
		fprintf(m->f, "%llu", (unsigned long long)f.value[id].n);
	fputc('\n', m->f);
}

static void put_family(const struct metrics *m, enum figure_id id)
{
	const struct figure *figure = &figures[id];
	unsigned int kind = figure->place[USE_METRIC].extra;
	char name[64];

	snprintf(name, sizeof(name), "funcsnoop_%s%s", figure->word,
		figure->unit == UNIT_NS ? "_seconds" : "");
	put_head(m, name, kind == METRIC_GAUGE ? "gauge" : "counter", figure->help);
	if (m->open && figure->unit == UNIT_NS)
		fprintf(m->f, "# UNIT %s seconds\n", name);
	for (size_t i = 0; i < m->cnt; i++)
		if (kind == METRIC_BY_CODE)
			put_errors(m, &m->labels[i]);
		else
			put_sample(m, name, id, &m->labels[i]);
}

/* --- durations ------------------------------------------------------------------------------ */

/*
 * Bounds are powers of two nanoseconds, 1.024 us to 17.2 s, where buckets end: the counts
 * are exact. A duration is whole nanoseconds, cut: all below 1024 are those that took at
 * most 1.024 us.
 */
#define LE_FIRST 10
#define LE_LAST  34

static void put_histogram(const struct metrics *m, const struct labels *l)
{
	uint64_t seen = 0, ge, lt;
	unsigned int b = 0;

	for (int k = LE_FIRST; k <= LE_LAST; k++) {
		for (; b < FSN_HIST_CNT; b++) {
			hist_bounds(b, &ge, &lt);
			if (lt > 1ULL << k)
				break;
			seen += l->f->bucket ? l->f->bucket[b] : 0;
		}
		fprintf(m->f, "funcsnoop_duration_seconds_bucket{%s,le=\"", l->text);
		put_seconds(m->f, 1ULL << k);
		fprintf(m->f, "\"} %llu\n", (unsigned long long)seen);
	}
	for (; l->f->bucket && b < FSN_HIST_CNT; b++)
		seen += l->f->bucket[b];
	fprintf(m->f, "funcsnoop_duration_seconds_bucket{%s,le=\"+Inf\"} %llu\n", l->text,
		(unsigned long long)seen);
	fprintf(m->f, "funcsnoop_duration_seconds_sum{%s} ", l->text);
	put_seconds(m->f, l->f->n.total_ns);
	fprintf(m->f, "\nfuncsnoop_duration_seconds_count{%s} %llu\n", l->text,
		(unsigned long long)seen);
}

static int print(const struct report *r, FILE *f, bool open)
{
	__cleanup(metrics_done) struct metrics m = { .open = open, .f = f };
	enum figure_id ids[FIGURE_CNT];
	size_t cnt = figure_list(USE_METRIC, ids);

	if (collect(&m, r))
		return -ENOMEM;
	for (size_t i = 0; i < cnt; i++)
		put_family(&m, ids[i]);
	put_head(&m, "funcsnoop_duration_seconds", "histogram",
		"Durations of calls that have returned.");
	if (open)
		fputs("# UNIT funcsnoop_duration_seconds seconds\n", f);
	for (size_t i = 0; i < m.cnt; i++)
		if (m.labels[i].f->timed)
			put_histogram(&m, &m.labels[i]);
	if (open)
		fputs("# EOF\n", f);
	return 0;
}

int metrics_print_prometheus(const struct report *r, FILE *f)
{
	return print(r, f, false);
}

int metrics_print_openmetrics(const struct report *r, FILE *f)
{
	return print(r, f, true);
}
