// SPDX-License-Identifier: BSD-2-Clause
// Metrics: the text format 0.0.4 of Prometheus, and OpenMetrics 1.0.
//
// Both want all samples of a metric together, so the functions are gone through once for
// each. They differ in names: OpenMetrics' TYPE and HELP lines leave `_total` out.
//
// By key a function's calls are several samples, each with labels of the keys; what is not
// known by key stays one. Of a function that was never called there is one sample: calls.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "proc/proc.h"

struct metrics {
	struct all_labels labels;
	const struct stats_choice *choice;
	bool open; /* OpenMetrics */
	FILE *f;
};

/* --- counters ------------------------------------------------------------------------------- */

static void put_head(
	const struct metrics *m, const char *name, const char *type, const char *help)
{
	const char *total = !m->open && !strcmp(type, "counter") ? "_total" : "";

	fprintf(m->f, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, total, help, name, total,
		type);
}

/* Codes of several files, and those of one name, are one sample. */
struct code_sum {
	char text[160];
	uint64_t count;
};

static void add_code(struct code_sum *sums, size_t *cnt, const struct stats_code *c)
{
	struct code_sum *sum = &sums[*cnt];
	size_t i = 0;

	if (c->name)
		snprintf(sum->text, sizeof(sum->text), "%s", c->name);
	else
		snprintf(sum->text, sizeof(sum->text), "%lld", (long long)c->code);
	while (strcmp(sums[i].text, sum->text) != 0)
		i++;
	sums[i].count += c->count;
	*cnt += i == *cnt;
}

/*
 * By name where the code has one; errors that found no room by code are "other". That is a
 * count of its own: what is left of errors, which are read at another moment, would fall.
 */
static void put_errors(const struct metrics *m, const struct labels *l)
{
	_cleanup_free_ struct code_sum *sums = NULL;
	size_t cnt = 0, most = 0;
	uint64_t rest = 0;

	for (size_t i = 0; i < l->cnt; i++)
		most += l->f[i]->code_cnt;
	sums = calloc(most + 1, sizeof(*sums));
	for (size_t i = 0; sums && i < l->cnt; i++) {
		rest += l->f[i]->unplaced;
		for (size_t k = 0; k < l->f[i]->code_cnt; k++)
			add_code(sums, &cnt, &l->f[i]->codes[k]);
	}
	for (size_t i = 0; i < cnt; i++) {
		fprintf(m->f, "funcsnoop_errors_total{%s,code=\"", l->text);
		label_put(m->f, sums[i].text);
		fprintf(m->f, "\"} %llu\n", (unsigned long long)sums[i].count);
	}
	if (rest)
		fprintf(m->f, "funcsnoop_errors_total{%s,code=\"other\"} %llu\n", l->text,
			(unsigned long long)rest);
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
		text_put_seconds(m->f, f->value[id].n);
	else
		fprintf(m->f, "%llu", (unsigned long long)f->value[id].n);
	fputc('\n', m->f);
}

/* Of all of @l together; known when it is of one of them. */
static void sum_figure(const struct labels *l, enum figure_id id, struct figures *ret)
{
	struct figures f;

	*ret = (struct figures) {};
	for (size_t i = 0; i < l->cnt; i++) {
		figures_of(l->f[i], NULL, FIGURE_BIT(id), &f);
		if (!figure_known(&f, id) || f.moot & FIGURE_BIT(id))
			continue;
		ret->known |= FIGURE_BIT(id);
		ret->value[id].n += f.value[id].n;
	}
}

/* What is held has a sample for each process that holds some of it. False: none does. */
static bool put_holders(const struct metrics *m, const char *name, enum figure_id id,
	const struct labels *l)
{
	bool any = false;

	if (l->cnt > 1 || (id != FIGURE_LIVE && id != FIGURE_LIVE_BLOCKS))
		return false;
	for (size_t i = 0; i < l->s->holder_cnt; i++) {
		const struct stats_holder *h = &l->s->holders[i];

		if (h->fn != l->f[0]->fn)
			continue;
		fprintf(m->f, "%s{%s,process=\"%d\"} %llu\n", name, l->text, (int)h->pid,
			(unsigned long long)(id == FIGURE_LIVE ? h->live.bytes : h->live.blocks));
		any = true;
	}
	return any;
}

static void put_samples(const struct metrics *m, const char *name, enum figure_id id,
	const struct labels *l)
{
	bool by_key = l->series && figures[id].place[USE_ROW_DOCUMENT].at;
	struct figures f;

	if (!l->called && id != FIGURE_CALLS && id != FIGURE_LIVE && id != FIGURE_LIVE_BLOCKS &&
		id != FIGURE_EXIT && id != FIGURE_EXIT_BLOCKS)
		return;
	for (size_t i = 0; by_key && i < l->series_cnt; i++) {
		figures_of_row(&l->series[i].row, l->f[0], NULL, &f);
		put_sample(m, name, id, l->series[i].text, &f);
	}
	if (!by_key && figures[id].place[USE_METRIC].extra == METRIC_BY_CODE) {
		put_errors(m, l);
	} else if (!by_key && !put_holders(m, name, id, l)) {
		sum_figure(l, id, &f);
		put_sample(m, name, id, l->text, &f);
	}
}

static void put_family(const struct metrics *m, enum figure_id id)
{
	const struct figure *figure = &figures[id];
	unsigned int kind = figure->place[USE_METRIC].extra;
	char name[64];

	snprintf(name, sizeof(name), "funcsnoop_%s%s", figure->word,
		figure->unit == UNIT_NS ? "_seconds" : figure->unit == UNIT_BYTES ? "_bytes" : "");
	put_head(m, name, kind == METRIC_GAUGE ? "gauge" : "counter", figure->help);
	if (m->open && (figure->unit == UNIT_NS || figure->unit == UNIT_BYTES))
		fprintf(m->f, "# UNIT %s %s\n", name,
			figure->unit == UNIT_NS ? "seconds" : "bytes");
	for (size_t i = 0; i < m->labels.cnt; i++)
		put_samples(m, name, id, &m->labels.of[i]);
}

/* Of sum @k in each series; one whose argument has a sign may fall. */
static void put_sum(const struct metrics *m, const struct labels *l, size_t k, bool is_signed)
{
	const struct group_keys *keys = &l->rg->keys;

	if (keys->funcs[l->f[0]->fn].sum[k].by == FSN_BY_NONE ||
		keys->funcs[l->f[0]->fn].sum[k].is_signed != is_signed)
		return;
	for (size_t i = 0; i < l->series_cnt; i++) {
		fprintf(m->f, "funcsnoop_%s{%s,argument=\"",
			is_signed ? "signed_argument" : "argument_total", l->series[i].text);
		label_put(m->f, keys->sum[k]);
		fprintf(m->f, is_signed ? "\"} %lld\n" : "\"} %llu\n",
			(long long)l->series[i].row.sum[k]);
	}
}

static void put_sums(const struct metrics *m, bool is_signed)
{
	put_head(m, is_signed ? "funcsnoop_signed_argument" : "funcsnoop_argument",
		is_signed ? "gauge" : "counter", "Arguments of calls added up.");
	for (size_t i = 0; i < m->labels.cnt; i++)
		for (size_t k = 0; m->labels.of[i].series && k < m->labels.of[i].rg->keys.sum_cnt; k++)
			put_sum(m, &m->labels.of[i], k, is_signed);
}

/* A process that has ended makes no more calls, and is behind nobody for that. */
static void put_ended(const struct metrics *m)
{
	put_head(m, "funcsnoop_process_ended", "gauge", "Processes that have ended.");
	for (size_t i = 0; proc_is_first_ns() && i < m->labels.cnt; i++) {
		const struct labels *l = &m->labels.of[i];

		for (size_t k = 1; k < l->series_cnt; k++)
			if (proc_ended(l->series[k].row.pid, l->series[k].row.start_ns))
				fprintf(m->f, "funcsnoop_process_ended{%s} 1\n", l->series[k].text);
	}
}

/* --- durations ------------------------------------------------------------------------------ */

/*
 * Bounds are powers of two nanoseconds, 1.024 us to 17.2 s, where buckets end: the counts
 * are exact. A duration is whole nanoseconds, cut: all below 1024 are those that took at
 * most 1.024 us. Of fewer buckets the first and the last stay, and those between lie as far
 * from each other as they can.
 */
#define LE_FIRST 10
#define LE_LAST  (LE_FIRST + METRIC_BUCKETS - 1)

static int le_of(const struct metrics *m, unsigned int i)
{
	unsigned int cnt = m->choice->bucket_cnt;

	return cnt == 1 ? LE_LAST : LE_FIRST + (int)(i * (METRIC_BUCKETS - 1) / (cnt - 1));
}

static void put_durations(
	const struct metrics *m, const char *labels, uint64_t cnt, uint64_t total_ns)
{
	if (m->choice->bucket_cnt)
		fprintf(m->f, "funcsnoop_duration_seconds_bucket{%s,le=\"+Inf\"} %llu\n", labels,
			(unsigned long long)cnt);
	fprintf(m->f, "funcsnoop_duration_seconds_sum{%s} ", labels);
	text_put_seconds(m->f, total_ns);
	fprintf(m->f, "\nfuncsnoop_duration_seconds_count{%s} %llu\n", labels,
		(unsigned long long)cnt);
}

/* Those of all of @l below 2^@le ns; @at is where the last one ended. */
static uint64_t count_below(const struct labels *l, int le, unsigned int *at)
{
	uint64_t seen = 0, ge, lt;

	for (; *at < FSN_HIST_CNT; ++*at) {
		hist_bounds(*at, &ge, &lt);
		if (lt > 1ULL << le)
			break;
		for (size_t i = 0; i < l->cnt; i++)
			seen += l->f[i]->timed && l->f[i]->bucket ? l->f[i]->bucket[*at] : 0;
	}
	return seen;
}

static void put_histogram(const struct metrics *m, const struct labels *l)
{
	uint64_t seen = 0, total_ns = 0;
	unsigned int at = 0;

	for (unsigned int i = 0; i < m->choice->bucket_cnt; i++) {
		seen += count_below(l, le_of(m, i), &at);
		fprintf(m->f, "funcsnoop_duration_seconds_bucket{%s,le=\"", l->text);
		text_put_seconds(m->f, 1ULL << le_of(m, i));
		fprintf(m->f, "\"} %llu\n", (unsigned long long)seen);
	}
	for (size_t i = 0; i < l->cnt; i++) {
		for (unsigned int b = at; l->f[i]->timed && l->f[i]->bucket && b < FSN_HIST_CNT; b++)
			seen += l->f[i]->bucket[b];
		total_ns += l->f[i]->timed ? l->f[i]->n.total_ns : 0;
	}
	put_durations(m, l->text, seen, total_ns);
}

/* Of what is told apart no buckets are kept. */
static void put_all_durations(const struct metrics *m, const struct labels *l)
{
	bool timed = false;

	for (size_t i = 0; i < l->cnt; i++)
		timed |= l->f[i]->timed;
	if (!timed || !l->called)
		return;
	if (!l->series)
		put_histogram(m, l);
	for (size_t i = 0; l->series && i < l->series_cnt; i++)
		put_durations(m, l->series[i].text, l->series[i].row.n.returns,
			l->series[i].row.n.total_ns);
}

/* --- of groups ------------------------------------------------------------------------------ */

static void put_health(const struct metrics *m, const struct report *r)
{
	struct health health[HEALTH_CNT];

	put_head(m, "funcsnoop_health", "counter", "What makes numbers doubtful, by reason.");
	for (size_t i = 0; i < r->cnt; i++) {
		report_health(&r->group[i], health);
		for (size_t k = 0; k < HEALTH_CNT; k++) {
			if (!health[k].known)
				continue;
			fputs("funcsnoop_health_total{group=\"", m->f);
			label_put(m->f, group_name(r->group[i].s->group));
			fprintf(m->f, "\",reason=\"%s\"} %llu\n", health[k].word,
				(unsigned long long)health[k].n);
		}
	}
}

static void put_stale(const struct metrics *m, const struct report *r)
{
	put_head(m, "funcsnoop_stale_libraries", "gauge",
		"Libraries of which another file has taken the place: attach again.");
	for (size_t i = 0; i < r->cnt; i++) {
		const struct group *g = r->group[i].s->group;
		unsigned int cnt = 0;

		for (uint32_t k = 0; k < group_info(g).lib_cnt; k++)
			cnt += group_lib_stale(g, k);
		fputs("funcsnoop_stale_libraries{group=\"", m->f);
		label_put(m->f, group_name(g));
		fprintf(m->f, "\"} %u\n", cnt);
	}
}

static void put_groups(const struct metrics *m, const struct report *r)
{
	put_head(m, "funcsnoop_groups", "gauge",
		"Groups that are attached: shown, not shared or of another version, unreadable.");
	fprintf(m->f, "funcsnoop_groups{state=\"shown\"} %zu\n", r->cnt);
	fprintf(m->f, "funcsnoop_groups{state=\"left_out\"} %zu\n", r->left_cnt - r->failed_cnt);
	fprintf(m->f, "funcsnoop_groups{state=\"failed\"} %zu\n", r->failed_cnt);
}

static void metrics_done(struct metrics *m)
{
	labels_done(&m->labels);
}

static int print(const struct report *r, FILE *f, bool open)
{
	__cleanup(metrics_done) struct metrics m = { .choice = r->choice, .open = open, .f = f };
	enum figure_id ids[FIGURE_CNT];
	size_t cnt = figure_list(USE_METRIC, ids);

	if (labels_collect(r, &m.labels))
		return -ENOMEM;
	for (size_t i = 0; i < cnt; i++)
		put_family(&m, ids[i]);
	/* Without buckets it is what the format calls a summary. */
	put_head(&m, "funcsnoop_duration_seconds", r->choice->bucket_cnt ? "histogram" : "summary",
		"Durations of calls that have returned.");
	if (open)
		fputs("# UNIT funcsnoop_duration_seconds seconds\n", f);
	for (size_t i = 0; i < m.labels.cnt; i++)
		put_all_durations(&m, &m.labels.of[i]);
	if (r->sum_cnt) {
		put_sums(&m, false);
		put_sums(&m, true);
	}
	if (r->view->flags & VIEW_PROCESSES)
		put_ended(&m);
	put_health(&m, r);
	put_stale(&m, r);
	put_groups(&m, r);
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
