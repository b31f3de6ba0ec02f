// SPDX-License-Identifier: BSD-2-Clause
// Metrics: the text format 0.0.4 of Prometheus, and OpenMetrics 1.0.
//
// Both want all samples of a metric together, so the functions are gone through once for
// each. They differ in names: OpenMetrics' TYPE and HELP lines leave `_total` out.
//
// By key a function's calls are several samples, each with labels of the keys; what is not
// known by key stays one. Which keys have samples is by who came first, so that a later one
// takes none away: it is among the others.
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "show/call.h"
#include "show/stats.h"
#include "show/text.h"

#define SERIES_USUAL 100 /* of a function, where --top says nothing else */

struct series {
	char *text; /* its function's labels, and those of its keys */
	struct stats_row row;
};

struct labels {
	const struct report_group *rg;
	const struct stats *s;
	const struct stats_func *f;
	char *text; /* group="...",function="...",library="..." */
	struct series *series; /* by key, others behind them; NULL: it is not told apart */
	size_t series_cnt;
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

/* --- series of a function, by key --------------------------------------------------------------- */

/* Some names are those of labels that are ours, or the format's. */
static void put_label(FILE *f, const char *key, const char *value)
{
	static const char *const ours[] = { "group", "function", "library", "code", "le",
		"argument" };
	bool taken = !strncmp(key, "__", 2) || isdigit((unsigned char)*key);

	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		taken |= !strcmp(ours[i], key);
	fputs(taken ? ",arg_" : ",", f);
	for (; *key; key++)
		if (*key != ']' && *key != '>')
			fputc(isalnum((unsigned char)*key) ? *key : '_', f);
	fputs("=\"", f);
	put_value(f, value);
	fputc('"', f);
}

/* A key that the function has not, or that is not for who reads, is no label. */
static char *row_labels(const struct labels *l, const struct func_types *t,
	const struct stats_row *row)
{
	const struct report_group *rg = l->rg;
	struct out value = {};
	bool failed = false;
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	fputs(l->text, f);
	for (size_t i = 0; i < rg->by_cnt; i++) {
		const struct func_part *part = &rg->keys.funcs[l->f->fn].key[rg->by[i]];

		if (part->by == FSN_BY_NONE || row->hidden & 1U << i)
			continue;
		value.len = 0;
		key_text(&value, t, part, row, i);
		out_char(&value, '\0');
		failed |= value.failed;
		if (!failed)
			put_label(f, rg->keys.key[rg->by[i]], value.buf);
	}
	out_done(&value);
	if (!fclose(f) && !failed)
		return text;
	free(text);
	return NULL;
}

static int compare_rows(const void *a, const void *b)
{
	uint32_t x = ((const struct stats_row *)a)->nth, y = ((const struct stats_row *)b)->nth;

	return (x > y) - (x < y);
}

/* Two that read alike are one series, as the format wants it. */
static int add_series(struct labels *l, const struct func_types *t, size_t most,
	const struct stats_row *row)
{
	_cleanup_free_ char *text = row_labels(l, t, row);
	size_t i = 0;

	if (!text)
		return -ENOMEM;
	while (i < l->series_cnt && strcmp(l->series[i].text, text))
		i++;
	if (i == l->series_cnt && l->series_cnt > most)
		i = 0;
	if (i < l->series_cnt)
		stats_row_add(&l->series[i].row, row);
	else
		l->series[l->series_cnt++] = (struct series) { TAKE_PTR(text), *row };
	return 0;
}

/* The first is that of others: it is there from the beginning, and only grows. */
static int begin_series(struct labels *l, size_t most)
{
	size_t size;
	FILE *f;

	l->series = calloc(most + 1, sizeof(*l->series));
	f = l->series ? open_memstream(&l->series[l->series_cnt++].text, &size) : NULL;
	if (!f)
		return -ENOMEM;
	fputs(l->text, f);
	put_label(f, l->rg->keys.key[l->rg->by[0]], "others");
	return fclose(f) ? -ENOMEM : 0;
}

static int make_series(struct labels *l, const struct types *types, size_t most)
{
	_cleanup_free_ struct stats_row *rows = NULL;
	size_t cnt;
	int code;

	if (!l->rg->by_cnt || !l->rg->keys.funcs[l->f->fn].on)
		return 0;
	rows = report_rows_by(l->rg, l->f, &cnt);
	if (!rows)
		return -ENOMEM;
	qsort(rows, cnt, sizeof(*rows), compare_rows);
	code = begin_series(l, most < cnt ? most : cnt);
	for (size_t i = 0; !code && i < cnt; i++)
		code = add_series(l, types_of(types, l->f->fn), most, &rows[i]);
	if (code)
		return code;
	stats_row_add(&l->series[0].row, &l->f->others);
	stats_row_add(&l->series[0].row, &l->f->rows_ended);
	return 0;
}

/* Functions are in order, those of a group together. */
static int make_all_series(struct metrics *m, size_t most)
{
	_cleanup_types_ struct types *types = NULL;
	int code = 0;

	for (size_t i = 0; !code && i < m->cnt; i++) {
		if (!i || m->labels[i].rg != m->labels[i - 1].rg) {
			types_free(TAKE_PTR(types));
			code = types_read(m->labels[i].s->group, &types, NULL);
		}
		code = code ? code : make_series(&m->labels[i], types, most);
	}
	return code;
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
			m->labels[m->cnt++] = (struct labels) { &r->group[i], r->group[i].s,
				r->group[i].funcs[k], NULL, NULL, 0 };
	qsort(m->labels, cnt, sizeof(*m->labels), compare_labels);
	for (size_t i = 0; i < cnt; i++) {
		bool twin = (i && same_series(&m->labels[i], &m->labels[i - 1])) ||
			(i + 1 < cnt && same_series(&m->labels[i], &m->labels[i + 1]));

		if (make_labels(&m->labels[i], twin))
			return -1;
	}
	return make_all_series(m, r->choice->top ? r->choice->top : SERIES_USUAL);
}

static void metrics_done(struct metrics *m)
{
	for (size_t i = 0; i < m->cnt; i++) {
		for (size_t k = 0; k < m->labels[i].series_cnt; k++)
			free(m->labels[i].series[k].text);
		free(m->labels[i].series);
		free(m->labels[i].text);
	}
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

/* What can't be known has no sample. */
static void put_sample(const struct metrics *m, const char *name, enum figure_id id,
	const char *labels, const struct figures *f)
{
	if (!figure_known(f, id) || f->moot & FIGURE_BIT(id))
		return;
	fprintf(m->f, "%s%s{%s} ", name,
		figures[id].place[USE_METRIC].extra == METRIC_GAUGE ? "" : "_total", labels);
	if (figures[id].unit == UNIT_NS)
		put_seconds(m->f, f->value[id].n);
	else
		fprintf(m->f, "%llu", (unsigned long long)f->value[id].n);
	fputc('\n', m->f);
}

static void put_samples(const struct metrics *m, const char *name, enum figure_id id,
	const struct labels *l)
{
	bool by_key = l->series && figures[id].place[USE_ROW_DOCUMENT].at;
	struct figures f;

	for (size_t i = 0; by_key && i < l->series_cnt; i++) {
		figures_of_row(&l->series[i].row, l->f, NULL, &f);
		put_sample(m, name, id, l->series[i].text, &f);
	}
	figures_of(l->f, NULL, FIGURE_BIT(id), &f);
	if (!by_key && figures[id].place[USE_METRIC].extra == METRIC_BY_CODE)
		put_errors(m, l);
	else if (!by_key)
		put_sample(m, name, id, l->text, &f);
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
		put_samples(m, name, id, &m->labels[i]);
}

/* Of sum @k in each series; one whose argument has a sign may fall. */
static void put_sum(const struct metrics *m, const struct labels *l, size_t k, bool is_signed)
{
	const struct group_keys *keys = &l->rg->keys;

	if (keys->funcs[l->f->fn].sum[k].by == FSN_BY_NONE ||
		keys->funcs[l->f->fn].sum[k].is_signed != is_signed)
		return;
	for (size_t i = 0; i < l->series_cnt; i++) {
		fprintf(m->f, "funcsnoop_%s{%s,argument=\"",
			is_signed ? "signed_argument" : "argument_total", l->series[i].text);
		put_value(m->f, keys->sum[k]);
		fprintf(m->f, is_signed ? "\"} %lld\n" : "\"} %llu\n",
			(long long)l->series[i].row.sum[k]);
	}
}

static void put_sums(const struct metrics *m, bool is_signed)
{
	put_head(m, is_signed ? "funcsnoop_signed_argument" : "funcsnoop_argument",
		is_signed ? "gauge" : "counter", "Arguments of calls added up.");
	for (size_t i = 0; i < m->cnt; i++)
		for (size_t k = 0; m->labels[i].series && k < m->labels[i].rg->keys.sum_cnt; k++)
			put_sum(m, &m->labels[i], k, is_signed);
}

/* --- durations ------------------------------------------------------------------------------ */

/*
 * Bounds are powers of two nanoseconds, 1.024 us to 17.2 s, where buckets end: the counts
 * are exact. A duration is whole nanoseconds, cut: all below 1024 are those that took at
 * most 1.024 us.
 */
#define LE_FIRST 10
#define LE_LAST  34

static void put_durations(
	const struct metrics *m, const char *labels, uint64_t cnt, uint64_t total_ns)
{
	fprintf(m->f, "funcsnoop_duration_seconds_bucket{%s,le=\"+Inf\"} %llu\n", labels,
		(unsigned long long)cnt);
	fprintf(m->f, "funcsnoop_duration_seconds_sum{%s} ", labels);
	put_seconds(m->f, total_ns);
	fprintf(m->f, "\nfuncsnoop_duration_seconds_count{%s} %llu\n", labels,
		(unsigned long long)cnt);
}

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
	put_durations(m, l->text, seen, l->f->n.total_ns);
}

/* Of what is told apart no buckets are kept. */
static void put_all_durations(const struct metrics *m, const struct labels *l)
{
	if (!l->f->timed)
		return;
	if (!l->series)
		put_histogram(m, l);
	for (size_t i = 0; l->series && i < l->series_cnt; i++)
		put_durations(m, l->series[i].text, l->series[i].row.n.returns,
			l->series[i].row.n.total_ns);
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
		put_all_durations(&m, &m.labels[i]);
	if (r->sum_cnt) {
		put_sums(&m, false);
		put_sums(&m, true);
	}
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
