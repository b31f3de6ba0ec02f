// SPDX-License-Identifier: BSD-2-Clause
// What stands behind the rows of functions: what each process did, and histograms.
#include <stdlib.h>
#include <string.h>

#include "proc/proc.h"
#include "show/stats_view.h"

struct process {
	struct stats_proc p;
	size_t functions;
	uint64_t value; /* that it is ordered by */
};

static int compare_ids(const void *a, const void *b)
{
	const struct process *x = a, *y = b;

	if (x->p.pid != y->p.pid)
		return x->p.pid < y->p.pid ? -1 : 1;
	return (x->p.start_ns > y->p.start_ns) - (x->p.start_ns < y->p.start_ns);
}

static void process_add(struct process *to, const struct stats_proc *p, bool timed)
{
	to->functions++;
	to->p.calls += p->calls;
	if (!timed)
		return;
	to->p.returns += p->returns;
	to->p.total_ns += p->total_ns;
	to->p.inner_ns += p->total_ns - stats_proc_self(p);
	to->p.nested |= p->nested;
	to->p.errors += p->errors;
	to->p.slow += p->slow;
	if (p->max_ns > to->p.max_ns)
		to->p.max_ns = p->max_ns;
}

/* One entry for each process, sorted by pid and start. */
static struct process *collect(const struct stats *s, size_t *ret_cnt)
{
	struct process *all, *kept;
	size_t cnt = 0, at = 0;

	for (size_t i = 0; i < s->func_cnt; i++)
		cnt += s->funcs[i].proc_cnt;
	all = calloc(cnt + 1, sizeof(*all));
	if (!all)
		return NULL;
	for (size_t i = 0; i < s->func_cnt; i++)
		for (size_t k = 0; k < s->funcs[i].proc_cnt; k++, at++) {
			const struct stats_proc *p = &s->funcs[i].procs[k];

			all[at].p.pid = p->pid;
			all[at].p.start_ns = p->start_ns;
			memcpy(all[at].p.comm, p->comm, sizeof(p->comm));
			process_add(&all[at], p, s->funcs[i].timed);
		}
	qsort(all, cnt, sizeof(*all), compare_ids);
	kept = all;
	for (size_t i = 1; i < cnt; i++) {
		if (compare_ids(kept, &all[i])) {
			*++kept = all[i];
			continue;
		}
		process_add(kept, &all[i].p, true);
	}
	*ret_cnt = cnt ? (size_t)(kept - all) + 1 : 0;
	return all;
}

/* Of processes not all is kept: the longest call stands for percentiles, time for the rest. */
static uint64_t value_of(const struct stats_proc *p, enum figure_id sort)
{
	struct figures f;

	if (sort == FIGURE_P99)
		sort = FIGURE_MAX;
	else if (sort != SORT_BY_NAME && !figures[sort].place[USE_PROCESS].at)
		sort = FIGURE_TOTAL;
	figures_of_process(p, true, false, NULL, &f);
	return sort_value(&f, sort);
}

static int compare_values(const void *a, const void *b)
{
	const struct process *x = a, *y = b;
	int by_name = strcmp(x->p.comm, y->p.comm);

	if (x->value != y->value)
		return x->value > y->value ? -1 : 1;
	if (x->p.calls != y->p.calls && x->value)
		return x->p.calls > y->p.calls ? -1 : 1;
	return by_name ? by_name : compare_ids(a, b);
}

/* A row that is of no process. */
static void fill_rest(struct grid *grid, const char *what, const struct process *rest,
	const struct figure_scope *scope)
{
	struct figures values;

	grid_none(grid);
	grid_text(grid, what);
	grid_none(grid);
	grid_none(grid);
	figures_of_process(&rest->p, true, false, scope, &values);
	figure_set(&values, FIGURE_FUNCTIONS, rest->functions, rest->functions);
	grid_figures(grid, &values);
	grid_mark(grid, NULL); /* no process of it is to be looked at */
}

/* Processes that have ended, and whose records others have now. */
static struct process collect_ended(const struct stats *s)
{
	struct process ended = {};

	for (size_t i = 0; i < s->func_cnt; i++)
		if (s->funcs[i].ended.calls || s->funcs[i].ended.returns)
			process_add(&ended, &s->funcs[i].ended, s->funcs[i].timed);
	return ended;
}

/* What the kernel counted and had no room to tell by process. */
static void fill_others(struct grid *grid, const struct stats *s,
	const struct stats_proc *seen, const struct figure_scope *scope)
{
	struct process rest = {};

	for (size_t i = 0; i < s->func_cnt; i++) {
		const struct stats_func *f = &s->funcs[i];

		rest.p.calls += f->n.calls;
		if (!f->timed)
			continue;
		rest.p.returns += f->n.returns;
		rest.p.total_ns += f->n.total_ns;
		rest.p.inner_ns += f->n.total_ns - stats_func_self(f);
		rest.p.nested |= f->nested;
		rest.p.slow += f->n.slow;
		rest.p.errors += f->n.errors;
	}
	rest.p.calls -= rest.p.calls < seen->calls ? rest.p.calls : seen->calls;
	rest.p.returns -= rest.p.returns < seen->returns ? rest.p.returns : seen->returns;
	rest.p.total_ns -= rest.p.total_ns < seen->total_ns ? rest.p.total_ns : seen->total_ns;
	rest.p.inner_ns -= rest.p.inner_ns < seen->inner_ns ? rest.p.inner_ns : seen->inner_ns;
	rest.p.slow -= rest.p.slow < seen->slow ? rest.p.slow : seen->slow;
	rest.p.errors -= rest.p.errors < seen->errors ? rest.p.errors : seen->errors;
	fill_rest(grid, "others", &rest, scope);
}

void fill_process(
	struct grid *grid, const struct report *r, const struct report_group *rg)
{
	_cleanup_free_ struct process *all = NULL;
	struct figure_scope scope = {};
	struct process ended = collect_ended(rg->s), sum = {};
	struct figures values;
	size_t cnt = 0;

	all = collect(rg->s, &cnt);
	grid->failed |= !all;
	scope.all_ns = stats_all_time(rg->s);
	for (size_t i = 0; all && i < cnt; i++) {
		process_add(&sum, &all[i].p, true);
		all[i].value = value_of(&all[i].p, r->choice->sort);
	}
	if (all)
		qsort(all, cnt, sizeof(*all), compare_values);
	for (size_t i = 0; all && i < cnt && (!r->choice->top || i < r->choice->top);
		i++) {
		const struct stats_proc *p = &all[i].p;

		grid_number(grid, p->pid);
		grid_text(grid, p->comm);
		grid_text(grid,
			proc_alive("/proc", p->pid, p->start_ns) ? "runs" : "ended");
		grid_count(grid, true, p->start_ns);
		figures_of_process(p, true, false, &scope, &values);
		figure_set(&values, FIGURE_FUNCTIONS, true, all[i].functions);
		grid_figures(grid, &values);
	}
	if (ended.functions) {
		fill_rest(grid, "ended", &ended, &scope);
		process_add(&sum, &ended.p, true);
	}
	if (rg->s->lost_processes)
		fill_others(grid, rg->s, &sum.p, &scope);
}

/* --- histograms: powers of two with stars for readers, all buckets for programs ------------ */

void fill_hist(struct grid *grid, const struct report *r, const struct report_group *rg)
{
	uint64_t ge, lt;

	for (size_t i = 0; i < rg->func_cnt; i++) {
		const struct stats_func *f = rg->funcs[i];
		struct group_func func = group_func(rg->s->group, f->fn);

		for (unsigned int b = 0; stats_func_samples(f) && b < FSN_HIST_CNT;
			b++) {
			if (!f->bucket[b])
				continue;
			hist_bounds(b, &ge, &lt);
			grid_text(grid, func.name);
			grid_text(grid, func.library);
			grid_count(grid, true, ge);
			grid_count(grid, true, lt);
			grid_count(grid, true, f->bucket[b]);
		}
	}
}

#define ROWS  49 /* 0 to 1 ns, then an octave each, up to 2^49 */
#define STARS 40

/* Which power of two a duration belongs to: 0 for 0 and 1, n for [2^n, 2^(n+1)). */
static unsigned int row_of(uint64_t ns)
{
	unsigned int row = 0;

	while (ns > 1 && row < ROWS - 1) {
		ns >>= 1;
		row++;
	}
	return row;
}

static void print_row(
	unsigned int row, uint64_t count, uint64_t most, const char *marks, FILE *f)
{
	int stars = most ? (int)((__uint128_t)count * STARS / most) : 0;
	unsigned long long low = row ? 1ULL << row : 0, high = (2ULL << row) - 1;

	fprintf(f, "%12llu -> %-12llu : %-10llu |%-*.*s|%s\n", low, high,
		(unsigned long long)count, STARS, stars,
		"****************************************", marks);
}

static void print_marks(
	const struct stats_func *f, unsigned int row, char *buf, size_t size)
{
	static const unsigned int permille[] = { 500, 900, 990 };
	char ns[TEXT_NUM_LEN];
	size_t len = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(permille); i++) {
		uint64_t at = stats_func_percentile(f, permille[i]);

		if (row_of(at) == row)
			len += snprintf(buf + len, size - len, "%sP%u %s",
				len ? ", " : " ", permille[i] / 10,
				text_duration(at, ns));
	}
}

static void print_func(const struct stats *s, const struct stats_func *f, FILE *f_out)
{
	uint64_t row[ROWS] = {}, most = 0, ge, lt;
	unsigned int first = ROWS, last = 0;
	char *name = text_escape(group_func_name(s->group, f->fn)), marks[128];

	for (unsigned int b = 0; b < FSN_HIST_CNT; b++) {
		hist_bounds(b, &ge, &lt);
		row[row_of(ge)] += f->bucket[b];
	}
	for (unsigned int i = 0; i < ROWS; i++) {
		most = row[i] > most ? row[i] : most;
		first = row[i] && first == ROWS ? i : first;
		last = row[i] ? i : last;
	}
	fprintf(f_out, "\nFunction = %s\n", name ? name : "?");
	fprintf(f_out, "%12s    %-12s : %-10s %s\n", "nsecs", "", "count",
		"distribution");
	for (unsigned int i = first; i <= last; i++) {
		print_marks(f, i, marks, sizeof(marks));
		print_row(i, row[i], most, marks, f_out);
	}
	free(name);
}

void print_hist(const struct report *r, const struct report_group *rg, FILE *f)
{
	char avg[TEXT_NUM_LEN], total[TEXT_NUM_LEN];

	for (size_t i = 0; i < rg->func_cnt; i++) {
		const struct stats_func *func = rg->funcs[i];

		if (!stats_func_samples(func))
			continue;
		print_func(rg->s, func, f);
		fprintf(f, "avg = %s, total = %s, count = %llu\n",
			text_duration(
				func->n.total_ns / (func->n.returns ? func->n.returns : 1),
				avg),
			text_duration(func->n.total_ns, total),
			(unsigned long long)func->n.returns);
	}
}
