// SPDX-License-Identifier: BSD-2-Clause
// Metrics: Prometheus text format 0.0.4 and OpenMetrics 1.0.
//
// Both formats require all samples of a metric together, so each metric iterates over all
// functions. In OpenMetrics, TYPE and HELP lines use names without `_total`.
//
// With a key, the calls of a function are several samples with labels of the keys. Metrics that are
// not recorded by key have one sample. With --all, a function that was never called has one sample:
// calls.
//
// Files with one soname are one library, because its path differs between nodes and environments.
// The first keys to appear get series. A later key is counted in "others", so no series is
// displaced.
//
// A counter may disappear but never decreases, because rate() takes a decrease for a counter reset.
// A fold removes the counts of exited processes from keys and cgroups that still exist, and
// promotes keys out of "others". So series that a fold may decrease have a label with the number of
// folds. A removed cgroup also makes space for others; the label of "others" says after which
// cgroup number it starts.
#include <ctype.h>

#include "base/util.h"
#include "proc/proc.h"
#include "show/call.h"
#include "show/stats.h"
#include "show/text.h"

#define SERIES_USUAL 100 /* default of --top, per function */

/* Calls of a function with one key value, or of one process. */
struct series {
	char *text; /* its function's labels, and its own */
	struct stats_row row;
};

/* A function of one group, summed over the files with the same labels. */
struct labels {
	const struct report_group *rg;
	const struct stats *s;
	const struct stats_func **f; /* sorted; the name and types are those of the first */
	size_t cnt;
	bool called;
	char *text; /* group="...",function="...",library="..." */
	struct series *series; /* "others" first; NULL: not by key or process */
	size_t series_cnt;
	bool full; /* --top limits the series */
};

struct all_labels {
	struct labels *of;
	size_t cnt;
	const struct stats_func **funcs; /* array that each .f points into */
};

/* --- labels --------------------------------------------------------------------------------- */

/* Escapes backslash, quote and line feed. Control characters and invalid UTF-8 become \xNN. */
static void label_put(FILE *f, const char *value)
{
	_cleanup_free_ char *copy = xstrdup(value);
	char *line = copy, *next;

	for (; line; line = next) {
		_cleanup_free_ char *safe = NULL;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		safe = text_escape(line);
		for (const char *p = safe; *p; p++) {
			if (*p == '\\' || *p == '"')
				fputc('\\', f);
			fputc(*p, f);
		}
		if (next)
			fputs("\\n", f);
	}
}

/* A function as it is labelled; .nth tells it from others of its file that are called alike. */
struct named {
	const struct report_group *rg;
	const struct stats_func *f;
	struct group_func func;
	const char *group, *library, *symbol;
	size_t nth; /* of those of its name, symbol and file */
};

static int compare_labelled(const struct named *x, const struct named *y)
{
	return strcmp(x->group, y->group) ?: strcmp(x->func.name, y->func.name) ?:
		strcmp(x->library, y->library);
}

DEFINE_ORDER(compare_named, struct named,
	compare_labelled(x, y) ?: strcmp(x->symbol, y->symbol) ?: RISING(nth) ?:
		strcmp(x->func.library, y->func.library) ?: RISING(f->fn))

static bool same_symbol(const struct named *x, const struct named *y)
{
	return !compare_labelled(x, y) && !strcmp(x->symbol, y->symbol);
}

/* True for the same function in another file with the same labels. */
static bool is_same(const struct named *x, const struct named *y)
{
	return same_symbol(x, y) && x->nth == y->nth;
}

/* Returns the soname of a file, or its name if it has none. */
static const char *library_label(const struct report *r, const struct group_func *func)
{
	const char *slash;

	if (r->choice->path_labels || *func->library != '/')
		return func->library;
	if (func->soname)
		return func->soname;
	slash = strrchr(func->library, '/');
	return slash[1] ? slash + 1 : func->library;
}

/* A series of labels being written. */
struct line {
	FILE *f;
	char *text;
	size_t size;
};

static void line_begin(struct line *l, const char *text)
{
	l->f = xmemstream(&l->text, &l->size);
	fputs(text, l->f);
}

/* For free(). */
static char *line_end(struct line *l)
{
	xmemstream_end(l->f);
	return l->text;
}

/* Overloads have the same name in one library, so the label includes their offset. */
static void make_labels(struct labels *l, const struct named *n, bool twin)
{
	_cleanup_free_ char *name = NULL;
	struct line line;

	line_begin(&line, "group=\"");
	if (twin)
		name = xasprintf("%s+%#llx", n->func.name, (unsigned long long)n->func.offset);
	label_put(line.f, n->group);
	fputs("\",function=\"", line.f);
	label_put(line.f, name ? name : n->func.name);
	fputs("\",library=\"", line.f);
	label_put(line.f, n->library);
	fputs("\"", line.f);
	l->text = line_end(&line);
}

/* --- series of a function by key, process or cgroup ------------------------------------------ */

/* Prefixes keys that clash with funcsnoop's labels or with names reserved by the format. */
static void put_label(FILE *f, const char *key, const char *value)
{
	static const char *const ours[] = { "group", "function", "library", "code", "le",
		"argument", "reason", "state", "fold", "after", "pod_uid", "container_id", "slurm_job", "unit" };
	bool taken = !strncmp(key, "__", 2) || isdigit((unsigned char)*key);

	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		taken |= !strcmp(ours[i], key);
	fputs(taken ? ",arg_" : ",", f);
	for (; *key; key++)
		if (*key != ']' && *key != '>')
			fputc(isalnum((unsigned char)*key) ? *key : '_', f);
	fputs("=\"", f);
	label_put(f, value);
	fputc('"', f);
}

static void put_said(FILE *f, const char *name, const char *said)
{
	if (!*said)
		return;
	fprintf(f, ",%s=\"", name);
	label_put(f, said);
	fputc('"', f);
}

/*
 * Adds the pod, container, job and unit of a cgroup. If it has none, only its path identifies it.
 */
static void put_cgroup(FILE *f, const struct cgroup *c)
{
	put_said(f, "pod_uid", c->pod_uid);
	put_said(f, "container_id", c->container_id);
	put_said(f, "slurm_job", c->slurm_job);
	put_said(f, "unit", c->unit);
}

/* No label until the first fold. */
static void put_fold(FILE *f, const struct labels *l)
{
	if (l->rg->whole->folds)
		fprintf(f, ",fold=\"%u\"", l->rg->whole->folds);
}

/* Omits keys that the function lacks or that this user may not read. */
static char *row_labels(const struct labels *l, const struct stats_func *func,
	const struct func_types *t, const struct stats_row *row)
{
	const struct report_group *rg = l->rg;
	struct out value = {};
	struct line line;

	line_begin(&line, l->text);
	for (size_t i = 0; i < rg->by_cnt; i++) {
		const struct func_part *part = &rg->keys.funcs[func->fn].key[rg->by[i]];

		if (part->by == FSN_BY_NONE || row->hidden & 1U << i)
			continue;
		value.len = 0;
		key_text(&value, t, part, row, i);
		out_char(&value, '\0');
		put_label(line.f, rg->keys.key[rg->by[i]], value.buf);
		if (part->by == FSN_BY_CGROUP && row->cgroup)
			put_cgroup(line.f, row->cgroup);
	}
	put_fold(line.f, l);
	out_done(&value);
	return line_end(&line);
}

DEFINE_ORDER(compare_rows, struct stats_row, RISING(nth))

/* PIDs are reused; comm is the name at the first call. */
static char *process_labels(const struct labels *l, const struct stats_row *row)
{
	char comm[sizeof(row->comm) + 1] = "";
	struct line line;

	line_begin(&line, l->text);
	memcpy(comm, row->comm, sizeof(row->comm));
	fprintf(line.f, ",pid=\"%d\"", row->pid);
	put_label(line.f, "comm", comm);
	return line_end(&line);
}

static char *cgroup_labels(const struct labels *l, const struct cgroup *c)
{
	struct line line;

	line_begin(&line, l->text);
	put_said(line.f, "cgroup", c->path);
	put_cgroup(line.f, c);
	put_fold(line.f, l);
	return line_end(&line);
}

/* Takes ownership of @text. Series with equal labels are merged, as the format requires. */
static void add_series(struct labels *l, char *text, size_t most, const struct stats_row *row)
{
	size_t i = 0;

	while (i < l->series_cnt && strcmp(l->series[i].text, text))
		i++;
	if (i == l->series_cnt && l->series_cnt > most) {
		l->full = true;
		i = 0;
	}
	if (i < l->series_cnt) {
		stats_row_add(&l->series[i].row, row);
		free(text);
	} else {
		l->series[l->series_cnt++] = (struct series) { text, *row };
	}
}

/* The series of others is first: it exists from the start and only grows. */
static void begin_series(struct labels *l, const char *key, size_t most)
{
	struct line line;

	l->series = xcalloc(most + 1, sizeof(*l->series));
	line_begin(&line, l->text);
	put_label(line.f, key, "others");
	put_fold(line.f, l);
	l->series[l->series_cnt++].text = line_end(&line);
}

/* For cgroups, "others" has the removed ones and those created after the last cgroup shown. */
static void name_last(struct labels *l)
{
	char *text = xasprintf("%s,after=\"%llu\"", l->series->text,
		(unsigned long long)l->series[l->series_cnt - 1].row.key.word[0]);

	free(l->series->text);
	l->series->text = text;
}

static void add_rows(struct labels *l, const struct stats_func *f, const struct types *types,
	size_t most)
{
	size_t cnt;
	_cleanup_free_ struct stats_row *rows = report_rows_by(l->rg, f, &cnt);

	qsort(rows, cnt, sizeof(*rows), compare_rows);
	for (size_t i = 0; i < cnt; i++)
		add_series(l, row_labels(l, f, types_of(types, f->fn), &rows[i]), most,
			&rows[i]);
	stats_row_add(&l->series[0].row, &f->others);
	stats_row_add(&l->series[0].row, &f->rows_ended);
}

DEFINE_ORDER(compare_started, struct stats_row, RISING(start_ns) ?: RISING(pid))

/* Processes are sorted by start time, so that a later process displaces no series. */
static void add_processes(struct labels *l, const struct stats_func *f, size_t most)
{
	_cleanup_free_ struct stats_row *procs = xcalloc(f->proc_cnt + 1, sizeof(*procs));

	for (size_t i = 0; i < f->proc_cnt; i++)
		procs[i] = f->procs[i];
	qsort(procs, f->proc_cnt, sizeof(*procs), compare_started);
	for (size_t i = 0; i < f->proc_cnt; i++)
		add_series(l, process_labels(l, &procs[i]), most, &procs[i]);
	stats_row_add(&l->series[0].row, &f->ended);
}

static void add_cgroups(struct labels *l, const struct stats_func *f, size_t most)
{
	struct stats_row rest;
	size_t cnt;
	_cleanup_free_ struct stats_row *rows = report_cgroups(l->rg, f, &cnt, &rest);

	for (size_t i = 0; i < cnt; i++)
		add_series(l, cgroup_labels(l, rows[i].cgroup), most, &rows[i]);
	stats_row_add(&l->series[0].row, &rest);
}

/* Returns the label that distinguishes the series of a function; NULL: it has one series. */
static const char *label_of(const struct report *r, const struct labels *l)
{
	if (r->view->flags & VIEW_PROCESSES)
		return group_info(l->s->group).processes ? "pid" : NULL;
	if (r->view->flags & VIEW_CGROUPS)
		return report_has_cgroups(l->rg, l->f[0]) ? "cgroup" : NULL;
	if (l->rg->by_cnt && l->rg->keys.funcs[l->f[0]->fn].on)
		return l->rg->keys.key[l->rg->by[0]];
	return NULL;
}

static void make_series(const struct report *r, struct labels *l, const struct types *types,
	size_t most)
{
	const char *label = label_of(r, l);
	size_t cnt = 0;

	if (!label)
		return;
	for (size_t i = 0; i < l->cnt; i++)
		cnt += l->f[i]->proc_cnt + l->f[i]->row_cnt;
	most = most < cnt ? most : cnt;
	begin_series(l, label, most);
	for (size_t i = 0; i < l->cnt; i++)
		if (r->view->flags & VIEW_PROCESSES)
			add_processes(l, l->f[i], most);
		else if (r->view->flags & VIEW_CGROUPS)
			add_cgroups(l, l->f[i], most);
		else
			add_rows(l, l->f[i], types, most);
	if (l->full && r->view->flags & VIEW_CGROUPS)
		name_last(l);
}

/* Functions are in order, those of a group together. */
static int make_all_series(const struct report *r, struct all_labels *all)
{
	size_t most = r->choice->top ? r->choice->top : SERIES_USUAL;
	_cleanup_types_ struct types *types = NULL;
	int code = 0;

	for (size_t i = 0; !code && i < all->cnt; i++) {
		struct labels *l = &all->of[i];

		if (r->choice->by_cnt && (!i || l->rg != all->of[i - 1].rg)) {
			types_free(TAKE_PTR(types));
			/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): label_all() set it */
			code = types_read(l->s->group, &types, NULL);
		}
		if (!code && l->called)
			make_series(r, l, types, most);
	}
	return code;
}

/* --- all of a report ------------------------------------------------------------------------- */

static struct named *name_all(const struct report *r, size_t cnt)
{
	struct named *named = xcalloc(cnt + 1, sizeof(*named));
	size_t at = 0;

	for (size_t i = 0; i < r->cnt; i++)
		for (size_t k = 0; k < r->group[i].func_cnt; k++) {
			struct named *n = &named[at++];

			n->rg = &r->group[i];
			n->f = r->group[i].funcs[k];
			n->func = group_func(n->rg->s->group, n->f->fn);
			n->group = group_name(n->rg->s->group);
			n->library = library_label(r, &n->func);
			n->symbol = n->func.symbol ? n->func.symbol : "";
		}
	qsort(named, cnt, sizeof(*named), compare_named);
	for (size_t i = 1; i < cnt; i++)
		if (same_symbol(&named[i], &named[i - 1]) &&
			!strcmp(named[i].func.library, named[i - 1].func.library))
			named[i].nth = named[i - 1].nth + 1;
	qsort(named, cnt, sizeof(*named), compare_named);
	return named;
}

/* Those that are the same are neighbours, and so are those of one label. */
static void label_all(struct all_labels *all, const struct named *named, size_t cnt)
{
	bool twin = false;

	for (size_t i = 0, next; i < cnt; i = next) {
		struct labels *l = &all->of[all->cnt++];

		*l = (struct labels) { .rg = named[i].rg, .s = named[i].rg->s, .f = all->funcs + i };
		for (next = i; next < cnt && is_same(&named[i], &named[next]); next++, l->cnt++) {
			all->funcs[next] = named[next].f;
			l->called |= report_is_shown(named[next].rg, named[next].f);
		}
		twin = (i && !compare_labelled(&named[i], &named[i - 1])) ||
			(next < cnt && !compare_labelled(&named[i], &named[next]));
		make_labels(l, &named[i], twin);
	}
}

/*
 * Collects the labels of all functions of @r, each group's together. Returns 0 or an error of
 * types_read(). The caller frees *ret_labels with labels_done().
 */
static int labels_collect(const struct report *r, struct all_labels *ret_labels)
{
	_cleanup_free_ struct named *named = NULL;
	size_t cnt = 0;

	for (size_t i = 0; i < r->cnt; i++)
		cnt += r->group[i].func_cnt;
	ret_labels->of = xcalloc(cnt + 1, sizeof(*ret_labels->of));
	ret_labels->funcs = xcalloc(cnt + 1, sizeof(*ret_labels->funcs));
	named = name_all(r, cnt);
	label_all(ret_labels, named, cnt);
	return make_all_series(r, ret_labels);
}

static void labels_done(struct all_labels *all)
{
	for (size_t i = 0; i < all->cnt; i++) {
		for (size_t k = 0; k < all->of[i].series_cnt; k++)
			free(all->of[i].series[k].text);
		free(all->of[i].series);
		free(all->of[i].text);
	}
	free(all->of);
	free(all->funcs);
}

struct metrics {
	const struct all_labels *labels;
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
 * Codes without a name are numbers. Errors dropped from the full table of codes are "other". They
 * are counted separately: the difference from the number of errors could decrease, because the
 * two are read at different times.
 */
static void put_errors(const struct metrics *m, const struct labels *l)
{
	_cleanup_free_ struct code_sum *sums = NULL;
	size_t cnt = 0, most = 0;
	uint64_t rest = 0;

	for (size_t i = 0; i < l->cnt; i++)
		most += l->f[i]->code_cnt;
	sums = xcalloc(most + 1, sizeof(*sums));
	for (size_t i = 0; i < l->cnt; i++) {
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

/* Values that are not known have no sample. */
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

/* Sums a metric over all of @l. It is known if one of them knows it. */
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

/*
 * Writes live bytes and allocations as one sample per process. Returns false if no process has
 * any.
 */
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
	for (size_t i = 0; i < m->labels->cnt; i++)
		put_samples(m, name, id, &m->labels->of[i]);
}

/* Writes sum @k of each series. The sum of a signed argument can decrease, so it is a gauge. */
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
	for (size_t i = 0; i < m->labels->cnt; i++)
		for (size_t k = 0; m->labels->of[i].series && k < m->labels->of[i].rg->keys.sum_cnt; k++)
			put_sum(m, &m->labels->of[i], k, is_signed);
}

/* An exited process makes no more calls, so monitoring must not report it as hanging. */
static void put_ended(const struct metrics *m)
{
	put_head(m, "funcsnoop_process_ended", "gauge", "Processes that have ended.");
	for (size_t i = 0; proc_is_first_ns() && i < m->labels->cnt; i++) {
		const struct labels *l = &m->labels->of[i];

		for (size_t k = 1; k < l->series_cnt; k++)
			if (proc_ended(l->series[k].row.pid, l->series[k].row.start_ns))
				fprintf(m->f, "funcsnoop_process_ended{%s} 1\n", l->series[k].text);
	}
}

/* --- durations ------------------------------------------------------------------------------ */

/*
 * Bounds are powers of two nanoseconds, 1.024 us to 17.2 s, at bucket boundaries, so the counts
 * are exact. Durations are truncated to nanoseconds: values below 1024 are those of at most 1.024
 * us. With fewer buckets, the first and the last stay and the others are spaced evenly.
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

/* Series by key or process have no buckets. */
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
	struct health health[HEALTH_MAX];

	put_head(m, "funcsnoop_health", "counter", "What makes numbers doubtful, by reason.");
	for (size_t i = 0; i < r->cnt; i++) {
		size_t cnt = health_read(&r->group[i], health);

		for (size_t k = 0; k < cnt; k++) {
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

static int print(const struct report *r, FILE *f, bool open)
{
	__cleanup(labels_done) struct all_labels labels = {};
	struct metrics m = { .labels = &labels, .choice = r->choice, .open = open, .f = f };
	enum figure_id ids[FIGURE_CNT];
	size_t cnt = figure_list(USE_METRIC, ids);
	int code = labels_collect(r, &labels);

	if (code)
		return code;
	for (size_t i = 0; i < cnt; i++)
		put_family(&m, ids[i]);
	/* Without buckets, the type is 'summary'. */
	put_head(&m, "funcsnoop_duration_seconds", r->choice->bucket_cnt ? "histogram" : "summary",
		"Durations of calls that have returned.");
	if (open)
		fputs("# UNIT funcsnoop_duration_seconds seconds\n", f);
	for (size_t i = 0; i < labels.cnt; i++)
		put_all_durations(&m, &labels.of[i]);
	if (r->choice->by_cnt && r->sum_cnt) {
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
