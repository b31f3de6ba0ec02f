// SPDX-License-Identifier: BSD-2-Clause
// The view of processes: what each did in all functions of a group.
#include <stdlib.h>
#include <string.h>

#include "proc/mappers.h"
#include "show/stats_view.h"

static const struct grid_column columns[] = {
	{ "PID", "pid", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "COMMAND", "comm", TABLE_LEFT, true, GRID_BOTH, 0 },
	{ "STATE", "state", TABLE_LEFT, false, GRID_BOTH, 0 },
	{ NULL, "start_ns", TABLE_RIGHT, false, GRID_CSV, 0 },
	{ "CALLS", "calls", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ NULL, "returns", TABLE_RIGHT, false, GRID_CSV, 0 },
	{ "TIME%", "time_percent", TABLE_RIGHT, false, GRID_BOTH, 3 },
	{ "TOTAL", "total_ns", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "AVG", "avg_ns", TABLE_RIGHT, false, GRID_BOTH, 2 },
	{ "MAX", "max_ns", TABLE_RIGHT, false, GRID_BOTH, 1 },
	{ "SLOW", "slow", TABLE_RIGHT, false, GRID_BOTH, 4 },
	{ "ERRORS", "errors", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "FUNCTIONS", "functions", TABLE_RIGHT, false, GRID_BOTH, 5 },
};

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

static uint64_t sort_value(const struct stats_proc *p, enum stats_sort sort)
{
	switch (sort) {
	case STATS_BY_CALLS:
		return p->calls;
	case STATS_BY_AVG:
		return p->returns ? p->total_ns / p->returns : 0;
	case STATS_BY_MAX:
	case STATS_BY_P99:
		return p->max_ns;
	case STATS_BY_ERRORS:
		return p->errors;
	case STATS_BY_SLOW:
		return p->slow;
	case STATS_BY_NAME:
		return 0;
	default:
		return p->total_ns;
	}
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

static void fill_numbers(struct grid *grid, const struct stats_proc *p, uint64_t all_ns)
{
	grid_count(grid, true, p->calls);
	grid_count(grid, true, p->returns);
	grid_real(grid, CELL_PERCENT, p->returns && all_ns,
		all_ns ? 100.0 * p->total_ns / all_ns : 0);
	grid_ns(grid, p->returns, p->total_ns);
	grid_ns(grid, p->returns, p->returns ? p->total_ns / p->returns : 0);
	grid_ns(grid, p->max_ns, p->max_ns);
	grid_count(grid, true, p->slow);
	grid_count(grid, true, p->errors);
}

/* A row that is of no process. */
static void fill_rest(struct grid *grid, const char *what, const struct process *rest,
	uint64_t all_ns)
{
	grid_none(grid);
	grid_text(grid, what);
	grid_none(grid);
	grid_none(grid);
	fill_numbers(grid, &rest->p, all_ns);
	grid_count(grid, rest->functions, rest->functions);
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
	const struct stats_proc *seen, uint64_t all_ns)
{
	struct process rest = {};

	for (size_t i = 0; i < s->func_cnt; i++) {
		const struct stats_func *f = &s->funcs[i];

		rest.p.calls += f->calls;
		if (!f->timed)
			continue;
		rest.p.returns += f->returns;
		rest.p.total_ns += f->total_ns;
		rest.p.slow += f->slow;
		rest.p.errors += f->errors;
	}
	rest.p.calls -= rest.p.calls < seen->calls ? rest.p.calls : seen->calls;
	rest.p.returns -= rest.p.returns < seen->returns ? rest.p.returns : seen->returns;
	rest.p.total_ns -= rest.p.total_ns < seen->total_ns ? rest.p.total_ns : seen->total_ns;
	rest.p.slow -= rest.p.slow < seen->slow ? rest.p.slow : seen->slow;
	rest.p.errors -= rest.p.errors < seen->errors ? rest.p.errors : seen->errors;
	fill_rest(grid, "others", &rest, all_ns);
}

static void fill(struct grid *grid, const struct report *r, const struct report_group *rg)
{
	_cleanup_free_ struct process *all = NULL;
	struct process ended = collect_ended(rg->s), sum = {};
	uint64_t all_ns = 0;
	size_t cnt = 0;

	all = collect(rg->s, &cnt);
	grid->failed |= !all;
	for (size_t i = 0; i < rg->s->func_cnt; i++)
		all_ns += rg->s->funcs[i].timed ? rg->s->funcs[i].total_ns : 0;
	for (size_t i = 0; all && i < cnt; i++) {
		process_add(&sum, &all[i].p, true);
		all[i].value = sort_value(&all[i].p, r->choice->sort);
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
		fill_numbers(grid, p, all_ns);
		grid_count(grid, true, all[i].functions);
		if (p->errors)
			grid_mark(grid, "31");
		else if (p->slow)
			grid_mark(grid, "33");
	}
	if (ended.functions) {
		fill_rest(grid, "ended", &ended, all_ns);
		process_add(&sum, &ended.p, true);
	}
	if (rg->s->lost_processes)
		fill_others(grid, rg->s, &sum.p, all_ns);
}

const struct view view_process = { columns, ARRAY_SIZE(columns), fill,
	"no process has called a function of it since", NULL };
