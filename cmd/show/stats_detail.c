// SPDX-License-Identifier: BSD-2-Clause
// What stands behind the rows of functions: what each process did.
#include <stdlib.h>
#include <string.h>

#include "proc/proc.h"
#include "show/stats.h"

struct process {
	struct stats_proc p;
	size_t functions;
	uint64_t noise_ns; /* as of the function where it is most */
	uint64_t value;    /* that it is ordered by */
};

static int compare_ids(const void *a, const void *b)
{
	const struct process *x = a, *y = b;

	if (x->p.pid != y->p.pid)
		return x->p.pid < y->p.pid ? -1 : 1;
	return (x->p.start_ns > y->p.start_ns) - (x->p.start_ns < y->p.start_ns);
}

static void process_add(
	struct process *to, const struct stats_proc *p, bool timed, uint64_t noise_ns)
{
	struct fsn_proc_counts n = p->n;

	n.inner_ns = n.total_ns - stats_proc_self(p);
	if (!timed)
		n = (struct fsn_proc_counts) { .calls = n.calls };
	to->functions++;
	proc_counts_add(&to->p.n, &n);
	if (!timed)
		return;
	to->p.nested |= p->nested;
	to->p.split |= p->split;
	if (noise_ns > to->noise_ns)
		to->noise_ns = noise_ns;
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
			process_add(&all[at], p, s->funcs[i].timed,
				s->funcs[i].noise_ns);
		}
	qsort(all, cnt, sizeof(*all), compare_ids);
	kept = all;
	for (size_t i = 1; i < cnt; i++) {
		if (compare_ids(kept, &all[i])) {
			*++kept = all[i];
			continue;
		}
		process_add(kept, &all[i].p, true, all[i].noise_ns);
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
	figures_of_process(p, NULL, NULL, &f);
	return sort_value(&f, sort);
}

static int compare_values(const void *a, const void *b)
{
	const struct process *x = a, *y = b;
	int by_name = strcmp(x->p.comm, y->p.comm);

	if (x->value != y->value)
		return x->value > y->value ? -1 : 1;
	if (x->p.n.calls != y->p.n.calls && x->value)
		return x->p.n.calls > y->p.n.calls ? -1 : 1;
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
	figures_of_process(&rest->p, NULL, scope, &values);
	values.noise_ns = rest->noise_ns;
	figure_set(&values, FIGURE_FUNCTIONS, rest->functions, rest->functions);
	grid_figures(grid, &values);
	grid_mark(grid, NULL); /* no process of it is to be looked at */
}

/* Processes that have ended, and whose records others have now. */
static struct process collect_ended(const struct stats *s)
{
	struct process ended = {};

	for (size_t i = 0; i < s->func_cnt; i++)
		if (s->funcs[i].ended.n.calls || s->funcs[i].ended.n.returns)
			process_add(&ended, &s->funcs[i].ended, s->funcs[i].timed,
				s->funcs[i].noise_ns);
	return ended;
}

/* What the kernel counted and had no room to tell by process. */
static void fill_others(struct grid *grid, const struct stats *s,
	const struct stats_proc *seen, const struct figure_scope *scope)
{
	struct process rest = {};

	for (size_t i = 0; i < s->func_cnt; i++) {
		const struct stats_func *f = &s->funcs[i];
		struct stats_proc all = { .nested = f->nested, .split = f->split };

#define X(name) all.n.name = f->n.name;
		FSN_PROC_COUNTS(X)
#undef X
		process_add(&rest, &all, f->timed, f->noise_ns);
	}
	rest.functions = 0; /* not known of which */
	proc_counts_subtract(&rest.p.n, &seen->n);
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
	scope.cost_ns = stats_all_cost(rg->s);
	for (size_t i = 0; all && i < cnt; i++) {
		process_add(&sum, &all[i].p, true, 0);
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
		figures_of_process(p, NULL, &scope, &values);
		values.noise_ns = all[i].noise_ns;
		figure_set(&values, FIGURE_FUNCTIONS, true, all[i].functions);
		grid_figures(grid, &values);
	}
	if (ended.functions) {
		fill_rest(grid, "ended", &ended, &scope);
		process_add(&sum, &ended.p, true, 0);
	}
	if (rg->s->lost_processes)
		fill_others(grid, rg->s, &sum.p, &scope);
}
