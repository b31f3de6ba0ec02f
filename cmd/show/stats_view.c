// SPDX-License-Identifier: BSD-2-Clause
// Views of functions, libraries, return codes, slow calls and rates.
#include <stdlib.h>
#include <string.h>

#include "show/call.h"
#include "show/stats_view.h"

#define RED    "31"
#define YELLOW "33"
#define BOLD   "1"

static const unsigned int permille[] = { 500, 900, 990, 999 };

static uint64_t time_of_all(const struct stats *s)
{
	uint64_t total_ns = 0;

	for (size_t i = 0; i < s->func_cnt; i++)
		total_ns += s->funcs[i].timed ? s->funcs[i].total_ns : 0;
	return total_ns;
}

static void mark_trouble(struct grid *grid, uint64_t errors, uint64_t slow)
{
	if (errors)
		grid_mark(grid, RED);
	else if (slow)
		grid_mark(grid, YELLOW);
}

/* --- by function and library ---------------------------------------------------------------- */

#define COUNT_COLUMNS                                                          \
	{ "CALLS", "calls", TABLE_RIGHT, false, GRID_BOTH, 0 },                \
		{ NULL, "returns", TABLE_RIGHT, false, GRID_CSV, 0 },          \
		{ NULL, "in_flight", TABLE_RIGHT, false, GRID_CSV, 0 },        \
		{ NULL, "abandoned", TABLE_RIGHT, false, GRID_CSV, 0 },        \
		{ NULL, "untimed", TABLE_RIGHT, false, GRID_CSV, 0 },          \
		{ "TIME%", "time_percent", TABLE_RIGHT, false, GRID_BOTH, 2 }, \
		{ "TOTAL", "total_ns", TABLE_RIGHT, false, GRID_BOTH, 0 },     \
		{ "AVG", "avg_ns", TABLE_RIGHT, false, GRID_BOTH, 0 },         \
		{ "MIN", "min_ns", TABLE_RIGHT, false, GRID_BOTH, 7 },         \
		{ "P50", "p50_ns", TABLE_RIGHT, false, GRID_BOTH, 3 },         \
		{ "P90", "p90_ns", TABLE_RIGHT, false, GRID_BOTH, 6 },         \
		{ "P99", "p99_ns", TABLE_RIGHT, false, GRID_BOTH, 1 },         \
		{ NULL, "p999_ns", TABLE_RIGHT, false, GRID_CSV, 0 },          \
		{ "MAX", "max_ns", TABLE_RIGHT, false, GRID_BOTH, 4 },         \
		{ "SLOW", "slow", TABLE_RIGHT, false, GRID_BOTH, 8 },          \
		{ "ERRORS", "errors", TABLE_RIGHT, false, GRID_BOTH, 0 },      \
	{                                                                      \
		"CALLS/S", "calls_per_s", TABLE_RIGHT, false, GRID_BOTH, 5     \
	}

static const struct grid_column function_columns[] = {
	{ "FUNCTION", "function", TABLE_LEFT, true, GRID_BOTH, 0 },
	{ NULL, "library", TABLE_LEFT, false, GRID_CSV, 0 }, COUNT_COLUMNS
};

static const struct grid_column library_columns[] = { { "LIBRARY", "library", TABLE_LEFT,
							      true, GRID_BOTH, 0 },
	{ "FUNCTIONS", "functions", TABLE_RIGHT, false, GRID_BOTH, 9 }, COUNT_COLUMNS };

static void fill_counts(struct grid *grid, const struct report_group *rg,
	const struct stats_func *f, uint64_t all_ns)
{
	bool times = f->timed && f->returns, spread = times && stats_func_samples(f);
	double rate = 0;
	bool paced = report_rate(rg, f->calls, &rate);

	grid_count(grid, true, f->calls);
	grid_count(grid, f->timed || f->same, f->returns);
	grid_count(grid, true, f->in_flight);
	grid_count(grid, true, f->abandoned);
	grid_count(grid, true, stats_func_untimed(f));
	grid_real(grid, CELL_PERCENT, times && all_ns,
		all_ns ? 100.0 * f->total_ns / all_ns : 0);
	grid_ns(grid, times, f->total_ns);
	grid_ns(grid, times, times ? f->total_ns / f->returns : 0);
	grid_ns(grid, f->has_extremes, f->min_ns);
	for (size_t i = 0; i < ARRAY_SIZE(permille); i++)
		grid_ns(grid, spread, spread ? stats_func_percentile(f, permille[i]) : 0);
	grid_ns(grid, f->has_extremes, f->max_ns);
	grid_count(grid, f->timed, f->slow);
	grid_count(grid, f->timed, f->errors);
	grid_real(grid, CELL_RATE, paced, rate);
	mark_trouble(grid, f->errors, f->slow);
}

void stats_sum_add(struct stats_func *sum, const struct stats_func *f)
{
	sum->timed |= f->timed;
	sum->calls += f->calls;
	sum->carried += f->carried;
	sum->in_flight += f->in_flight;
	sum->abandoned += f->abandoned;
	sum->unmatched += f->unmatched;
	sum->no_slot += stats_func_untimed(f);
	/* Others have no times, so their returns would spoil the average. */
	if (!f->timed)
		return;
	sum->returns += f->returns;
	sum->errors += f->errors;
	sum->slow += f->slow;
	sum->total_ns += f->total_ns;
	if (f->has_extremes) {
		if (!sum->has_extremes || f->min_ns < sum->min_ns)
			sum->min_ns = f->min_ns;
		if (!sum->has_extremes || f->max_ns > sum->max_ns)
			sum->max_ns = f->max_ns;
		sum->has_extremes = true;
	}
	if (f->bucket && !sum->bucket)
		sum->bucket = calloc(STATS_BUCKETS, sizeof(*sum->bucket));
	for (int i = 0; f->bucket && sum->bucket && i < STATS_BUCKETS; i++)
		sum->bucket[i] += f->bucket[i];
}

void stats_sum_done(struct stats_func *sum)
{
	free(sum->bucket);
}

static void fill_function(
	struct grid *grid, const struct report *r, const struct report_group *rg)
{
	uint64_t all_ns = time_of_all(rg->s);
	struct stats_func sum = {};

	for (size_t i = 0; i < rg->func_cnt; i++) {
		struct group_func func = group_func(rg->s->group, rg->funcs[i]->fn);

		grid_text(grid, func.name);
		grid_text(grid, func.library);
		fill_counts(grid, rg, rg->funcs[i], all_ns);
	}
	if (rg->func_cnt < 2)
		return;
	for (size_t i = 0; i < rg->s->func_cnt; i++)
		stats_sum_add(&sum, &rg->s->funcs[i]);
	grid_text(grid, "total");
	grid_none(grid);
	fill_counts(grid, rg, &sum, all_ns);
	grid_mark(grid, BOLD);
	grid->total_rows = 1;
	stats_sum_done(&sum);
}

struct library {
	const char *path;
	size_t called;
	struct stats_func sum;
};

static int compare_libraries(const void *a, const void *b)
{
	const struct library *x = a, *y = b;

	if (x->sum.total_ns != y->sum.total_ns)
		return x->sum.total_ns > y->sum.total_ns ? -1 : 1;
	if (x->sum.calls != y->sum.calls)
		return x->sum.calls > y->sum.calls ? -1 : 1;
	return strcmp(x->path, y->path);
}

static void fill_library(
	struct grid *grid, const struct report *r, const struct report_group *rg)
{
	uint32_t cnt = group_info(rg->s->group).lib_cnt, k;
	struct library *libs = calloc(cnt + 1, sizeof(*libs));
	uint64_t all_ns = time_of_all(rg->s);

	grid->failed |= !libs;
	for (k = 0; libs && k < cnt; k++)
		libs[k].path = group_lib(rg->s->group, k);
	for (size_t i = 0; libs && i < rg->s->func_cnt; i++) {
		const char *path = group_func(rg->s->group, (uint32_t)i).library;

		for (k = 0; k < cnt && strcmp(libs[k].path, path); k++)
			;
		stats_sum_add(&libs[k].sum, &rg->s->funcs[i]);
		libs[k].called += stats_func_called(&rg->whole->funcs[i]);
	}
	if (libs)
		qsort(libs, cnt, sizeof(*libs), compare_libraries);
	for (k = 0; libs && k < cnt; k++) {
		if (!r->choice->top || grid->row_cnt < r->choice->top) {
			if (libs[k].called || r->choice->all) {
				grid_text(grid, libs[k].path);
				grid_count(grid, true, libs[k].called);
				fill_counts(grid, rg, &libs[k].sum, all_ns);
			}
		}
		stats_sum_done(&libs[k].sum);
	}
	free(libs);
}

/* --- return codes and slow calls ------------------------------------------------------------ */

static const struct grid_column error_columns[] = {
	{ "FUNCTION", "function", TABLE_LEFT, true, GRID_BOTH, 0 },
	{ NULL, "library", TABLE_LEFT, false, GRID_CSV, 0 },
	{ "COUNT", "count", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "CODE", "code", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "NAME", "code_name", TABLE_LEFT, false, GRID_BOTH, 0 },
};

static void fill_errors(
	struct grid *grid, const struct report *r, const struct report_group *rg)
{
	for (size_t i = 0; i < rg->func_cnt; i++) {
		const struct stats_func *f = rg->funcs[i];
		struct group_func func = group_func(rg->s->group, f->fn);

		for (size_t k = 0; k < f->code_cnt; k++) {
			grid_text(grid, func.name);
			grid_text(grid, func.library);
			grid_count(grid, true, f->codes[k].count);
			grid_number(grid, f->codes[k].code);
			grid_text(grid, f->codes[k].name);
		}
	}
}

static const struct grid_column slow_columns[] = {
	{ "TIME", "time", TABLE_LEFT, false, GRID_TABLE, 0 },
	{ NULL, "call_time", TABLE_LEFT, false, GRID_CSV, 0 },
	{ "COMMAND", "comm", TABLE_LEFT, false, GRID_BOTH, 0 },
	{ "PID/TID", NULL, TABLE_LEFT, false, GRID_TABLE, 0 },
	{ NULL, "pid", TABLE_RIGHT, false, GRID_CSV, 0 },
	{ NULL, "tid", TABLE_RIGHT, false, GRID_CSV, 0 },
	{ "DURATION", "duration_ns", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "RESULT", "result", TABLE_LEFT, false, GRID_BOTH, 0 },
	{ NULL, "function", TABLE_LEFT, false, GRID_CSV, 0 },
	{ NULL, "arguments", TABLE_LEFT, false, GRID_CSV, 0 },
	{ "CALL", NULL, TABLE_LEFT, true, GRID_TABLE, 0 },
};

static void fill_slow_call(struct grid *grid, const struct call *c, struct out *args,
	struct out *result)
{
	args->len = 0;
	call_args_text(args, c);
	out_char(args, '\0');
	result->len = 0;
	call_result_text(result, c);
	out_char(result, '\0');
	if (args->failed || result->failed) {
		grid->failed = true;
		return;
	}
	grid_time(grid, c->start_realtime_ns);
	grid_time(grid, c->start_realtime_ns);
	grid_text(grid, c->comm);
	grid_textf(grid, "%d/%d", c->pid, c->tid);
	grid_number(grid, c->pid);
	grid_number(grid, c->tid);
	grid_ns(grid, true, c->duration_ns);
	grid_text(grid, *result->buf && strcmp(result->buf, "?") ? result->buf : NULL);
	grid_text(grid, c->function);
	grid_text(grid, c->has_args ? args->buf : NULL);
	grid_textf(grid, "%s(%s)", c->function, args->buf);
}

static void fill_slow(
	struct grid *grid, const struct report *r, const struct report_group *rg)
{
	_cleanup_types_ struct types *types = NULL;
	struct out args = {}, result = {};
	struct call call;

	grid->failed |= types_read(rg->s->group, &types, NULL) < 0;
	for (size_t i = 0; !grid->failed && i < rg->slow_cnt; i++) {
		call_of_slow(rg->s->group, types, &rg->slow[i], &call);
		fill_slow_call(grid, &call, &args, &result);
	}
	out_done(&args);
	out_done(&result);
}

/* --- rates ---------------------------------------------------------------------------------- */

static const struct grid_column rate_columns[] = {
	{ "FUNCTION", "function", TABLE_LEFT, true, GRID_BOTH, 0 },
	{ "CALLS/S", "calls_per_s", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "BUSY", "busy", TABLE_RIGHT, false, GRID_BOTH, 3 },
	{ "AVG", "avg_ns", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "P50", "p50_ns", TABLE_RIGHT, false, GRID_BOTH, 5 },
	{ "P99", "p99_ns", TABLE_RIGHT, false, GRID_BOTH, 2 },
	{ "MAX", "max_ns", TABLE_RIGHT, false, GRID_BOTH, 4 },
	{ "SLOW/S", "slow_per_s", TABLE_RIGHT, false, GRID_BOTH, 7 },
	{ "ERRORS/S", "errors_per_s", TABLE_RIGHT, false, GRID_BOTH, 1 },
	{ "IN FLIGHT", "in_flight", TABLE_RIGHT, false, GRID_BOTH, 6 },
	{ "CALLS", "calls", TABLE_RIGHT, false, GRID_BOTH, 8 },
};

/* BUSY is how many threads were in the function, on average. */
static void fill_rates(
	struct grid *grid, const struct report *r, const struct report_group *rg)
{
	/* Not of the first table: what came before is no rate of now. */
	double seconds = r->interval_ns ? rg->elapsed_ns / 1e9 : 0;

	for (size_t i = 0; i < rg->func_cnt; i++) {
		const struct stats_func *f = rg->funcs[i];
		bool times = f->timed && f->returns,
		     spread = times && stats_func_samples(f);
		bool rates = seconds > 0;

		grid_text(grid, group_func_name(rg->s->group, f->fn));
		grid_real(grid, CELL_RATE, rates, rates ? f->calls / seconds : 0);
		grid_real(grid, CELL_RATE, rates && f->timed,
			rates ? f->total_ns / 1e9 / seconds : 0);
		grid_ns(grid, times, times ? f->total_ns / f->returns : 0);
		grid_ns(grid, spread, spread ? stats_func_percentile(f, 500) : 0);
		grid_ns(grid, spread, spread ? stats_func_percentile(f, 990) : 0);
		grid_ns(grid, f->has_extremes, f->max_ns);
		grid_real(grid, CELL_RATE, rates && f->timed,
			rates ? f->slow / seconds : 0);
		grid_real(grid, CELL_RATE, rates && f->timed,
			rates ? f->errors / seconds : 0);
		grid_count(grid, f->timed, f->in_flight);
		grid_count(grid, true, rg->whole->funcs[f->fn].calls);
		mark_trouble(grid, f->errors, f->slow);
	}
}

/* --- all of them ---------------------------------------------------------------------------- */

#define VIEW(columns, fill, none)                              \
	{                                                      \
		columns, ARRAY_SIZE(columns), fill, none, NULL \
	}

static const char not_called[] = "no function of it was called since";

static const struct view view_function =
	VIEW(function_columns, fill_function, not_called);
static const struct view view_library = VIEW(library_columns, fill_library, not_called);
static const struct view view_errors =
	VIEW(error_columns, fill_errors, "no call has failed");
static const struct view view_slow =
	VIEW(slow_columns, fill_slow, "no slow call is remembered");
static const struct view view_rates = VIEW(rate_columns, fill_rates, not_called);

const struct view *view_get(enum stats_view view)
{
	static const struct view *const views[VIEW_CNT] = {
		[VIEW_FUNCTION] = &view_function,
		[VIEW_PROCESS] = &view_process,
		[VIEW_LIBRARY] = &view_library,
		[VIEW_HIST] = &view_hist,
		[VIEW_ERRORS] = &view_errors,
		[VIEW_SLOW] = &view_slow,
		[VIEW_DIFF] = &view_diff,
		[VIEW_RATES] = &view_rates,
	};

	return views[view];
}
