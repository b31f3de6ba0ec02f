// SPDX-License-Identifier: BSD-2-Clause
// The views of `stats`, and those of functions, libraries, return codes, slow calls, rates.
#include <stdlib.h>
#include <string.h>

#include "show/call.h"
#include "show/stats.h"

static struct figure_scope scope_of(const struct report_group *rg)
{
	return (struct figure_scope) { rg->elapsed_ns, stats_all_time(rg->s),
		stats_all_cost(rg->s) };
}

/* --- by function and library ---------------------------------------------------------------- */

static void fill_function(
	struct grid *grid, const struct report *r, const struct report_group *rg)
{
	struct figure_scope scope = scope_of(rg);
	struct figures f;

	for (size_t i = 0; i < rg->func_cnt; i++) {
		struct group_func func = group_func(rg->s->group, rg->funcs[i]->fn);

		grid_text(grid, func.name);
		grid_text(grid, func.library);
		figures_of(rg->funcs[i], &scope, grid_wanted(grid), &f);
		grid_figures(grid, &f);
	}
	if (rg->func_cnt > 1)
		fill_total(grid, rg->s, &scope);
}

struct library {
	const char *path;
	size_t called;
	struct stats_func sum;
};

static int compare_libraries(const void *a, const void *b)
{
	const struct library *x = a, *y = b;

	if (x->sum.n.total_ns != y->sum.n.total_ns)
		return x->sum.n.total_ns > y->sum.n.total_ns ? -1 : 1;
	if (x->sum.n.calls != y->sum.n.calls)
		return x->sum.n.calls > y->sum.n.calls ? -1 : 1;
	return strcmp(x->path, y->path);
}

/* One for each library of the group, in order. */
static struct library *libraries_of(const struct report_group *rg, uint32_t cnt)
{
	struct library *libs = calloc(cnt + 1, sizeof(*libs));
	uint32_t k;

	for (k = 0; libs && k < cnt; k++)
		libs[k].path = group_lib(rg->s->group, k);
	for (size_t i = 0; libs && i < rg->s->func_cnt; i++) {
		const char *path = group_func(rg->s->group, (uint32_t)i).library;

		for (k = 0; k < cnt && strcmp(libs[k].path, path); k++)
			;
		func_sum_add(&libs[k].sum, &rg->s->funcs[i]);
		libs[k].called += stats_func_called(&rg->whole->funcs[i]);
	}
	if (libs)
		qsort(libs, cnt, sizeof(*libs), compare_libraries);
	return libs;
}

static void fill_library(
	struct grid *grid, const struct report *r, const struct report_group *rg)
{
	uint32_t cnt = group_info(rg->s->group).lib_cnt;
	struct library *libs = libraries_of(rg, cnt);
	struct figure_scope scope = scope_of(rg);
	struct figures f;

	grid->failed |= !libs;
	for (uint32_t k = 0; libs && k < cnt; k++) {
		bool room = !r->choice->top || grid->row_cnt < r->choice->top;

		if (room && (libs[k].called || r->choice->all)) {
			figures_of(&libs[k].sum, &scope, grid_wanted(grid), &f);
			figure_set(&f, FIGURE_FUNCTIONS, true, libs[k].called);
			grid_text(grid, libs[k].path);
			grid_figures(grid, &f);
		}
		func_sum_done(&libs[k].sum);
	}
	free(libs);
}

/* --- return codes and slow calls ------------------------------------------------------------ */

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

static void fill_slow_call(
	struct grid *grid, const struct shown_call *c, struct out *args, struct out *result,
	struct out *keys, struct out *where)
{
	const struct call *call = c->call;
	bool split = call_is_split(call);

	args->len = 0;
	call_args_text(args, c);
	out_char(args, '\0');
	result->len = 0;
	call_result_text(result, c);
	out_char(result, '\0');
	keys->len = 0;
	call_keys_text(keys, c);
	out_char(keys, '\0');
	where->len = 0;
	call_split_text(where, call);
	out_char(where, '\0');
	if (args->failed || result->failed || keys->failed || where->failed) {
		grid->failed = true;
		return;
	}
	grid_time(grid, call->start + c->ahead_ns);
	grid_time(grid, call->start + c->ahead_ns);
	grid_text(grid, call->comm);
	grid_textf(grid, "%u/%u", call->pid, call->tid);
	grid_number(grid, call->pid);
	grid_number(grid, call->tid);
	grid_ns(grid, true, call->duration);
	grid_text(grid, *where->buf ? where->buf : NULL);
	grid_text(grid, *result->buf && strcmp(result->buf, "?") ? result->buf : NULL);
	grid_text(grid, c->function);
	grid_text(grid, call_has_args(call) ? args->buf : NULL);
	grid_text(grid, *keys->buf ? keys->buf + 1 : NULL);
	grid_ns(grid, split, call->queued);
	grid_ns(grid, split, call->blocked);
	grid_textf(grid, *keys->buf ? "%s%s (%s)" : "%s%s(%s)", c->function, keys->buf, args->buf);
}

static void fill_slow(
	struct grid *grid, const struct report *r, const struct report_group *rg)
{
	_cleanup_types_ struct types *types = NULL;
	struct out args = {}, result = {}, keys = {}, where = {};
	struct shown_call call;

	grid->failed |= types_read(rg->s->group, &types, NULL) < 0;
	for (size_t i = 0; !grid->failed && i < rg->slow_cnt; i++) {
		/* A screen shows what comes first. */
		call = report_slow(rg, types, r->history ? rg->slow_cnt - 1 - i : i);
		fill_slow_call(grid, &call, &args, &result, &keys, &where);
	}
	out_done(&args);
	out_done(&result);
	out_done(&keys);
	out_done(&where);
}

/* --- rates ---------------------------------------------------------------------------------- */

static void fill_rates(
	struct grid *grid, const struct report *r, const struct report_group *rg)
{
	/* Not of the first table: what came before is no rate of now. */
	struct figure_scope scope = { .elapsed_ns = r->interval_ns ? rg->elapsed_ns : 0 };
	struct figures f;

	for (size_t i = 0; i < rg->func_cnt; i++) {
		const struct stats_func *func = rg->funcs[i];

		figures_of(func, &scope, grid_wanted(grid), &f);
		f.known &= ~f.moot;
		/* Rates are of the interval, this one since the reset. */
		f.value[FIGURE_CALLS].n = rg->whole->funcs[func->fn].n.calls;
		grid_text(grid, group_func_name(rg->s->group, func->fn));
		grid_none(grid);
		grid_figures(grid, &f);
	}
}

/* --- all of them ---------------------------------------------------------------------------- */

#define FUNCTION_LABEL                                                 \
	{                                                              \
		"FUNCTION", "function", TABLE_LEFT, true, GRID_BOTH, 0 \
	}
#define LIBRARY_LABEL                                           \
	{                                                       \
		NULL, "library", TABLE_LEFT, false, GRID_CSV, 0 \
	}

static const struct grid_column function_labels[] = { FUNCTION_LABEL, LIBRARY_LABEL };
static const struct grid_column library_labels[] = {
	{ "LIBRARY", "library", TABLE_LEFT, true, GRID_BOTH, 0 },
};
static const struct grid_column process_labels[] = {
	{ "PID", "pid", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "COMMAND", "comm", TABLE_LEFT, true, GRID_BOTH, 0 },
	{ "STATE", "state", TABLE_LEFT, false, GRID_BOTH, 0 },
	{ NULL, "start_ns", TABLE_RIGHT, false, GRID_CSV, 0 },
};
static const struct grid_column cgroup_labels[] = { FUNCTION_LABEL, LIBRARY_LABEL,
	CGROUP_LABELS };
static const struct grid_column hist_labels[] = {
	FUNCTION_LABEL,
	LIBRARY_LABEL,
	{ NULL, "ge_ns", TABLE_RIGHT, false, GRID_CSV, 0 },
	{ NULL, "lt_ns", TABLE_RIGHT, false, GRID_CSV, 0 },
	{ "COUNT", "count", TABLE_RIGHT, false, GRID_BOTH, 0 },
};
static const struct grid_column error_labels[] = {
	FUNCTION_LABEL,
	LIBRARY_LABEL,
	{ "COUNT", "count", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "CODE", "code", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "NAME", "code_name", TABLE_LEFT, false, GRID_BOTH, 0 },
};
static const struct grid_column slow_labels[] = {
	{ "TIME", "time", TABLE_LEFT, false, GRID_TABLE, 0 },
	{ NULL, "call_time", TABLE_LEFT, false, GRID_CSV, 0 },
	{ "COMMAND", "comm", TABLE_LEFT, false, GRID_BOTH, 1 },
	{ "PID/TID", NULL, TABLE_LEFT, false, GRID_TABLE, 2 },
	{ NULL, "pid", TABLE_RIGHT, false, GRID_CSV, 0 },
	{ NULL, "tid", TABLE_RIGHT, false, GRID_CSV, 0 },
	{ "DURATION", "duration_ns", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "OF THAT", NULL, TABLE_LEFT, false, GRID_KNOWN, 0 },
	{ "RESULT", "result", TABLE_LEFT, false, GRID_BOTH, 0 },
	{ NULL, "function", TABLE_LEFT, false, GRID_CSV, 0 },
	{ NULL, "arguments", TABLE_LEFT, false, GRID_CSV, 0 },
	{ NULL, "key", TABLE_LEFT, false, GRID_CSV, 0 },
	{ NULL, "queued_ns", TABLE_RIGHT, false, GRID_CSV, 0 },
	{ NULL, "blocked_ns", TABLE_RIGHT, false, GRID_CSV, 0 },
	{ "CALL", NULL, TABLE_LEFT, true, GRID_TABLE, 0 },
};
static const struct grid_column tree_labels[] = {
	{ "FUNCTION", NULL, TABLE_LEFT, true, GRID_TABLE, 0 },
	{ NULL, "id", TABLE_RIGHT, false, GRID_CSV, 0 },
	{ NULL, "caller", TABLE_RIGHT, false, GRID_CSV, 0 },
	{ NULL, "depth", TABLE_RIGHT, false, GRID_CSV, 0 },
	{ NULL, "function", TABLE_LEFT, false, GRID_CSV, 0 },
	LIBRARY_LABEL,
};
static const struct grid_column stack_labels[] = {
	{ "SHARE", "share_percent", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "CALLED BY", NULL, TABLE_LEFT, true, GRID_TABLE, 0 },
	{ NULL, "depth", TABLE_RIGHT, false, GRID_CSV, 0 },
	{ NULL, "function", TABLE_LEFT, false, GRID_CSV, 0 },
};
/* What a figure was and is. */
#define CHANGE_LABELS \
	{ "WHAT", NULL, TABLE_LEFT, false, GRID_TABLE, 0 }, \
	{ NULL, "metric", TABLE_LEFT, false, GRID_CSV, 0 }, \
	{ "BEFORE", "before", TABLE_RIGHT, false, GRID_BOTH, 0 }, \
	{ "AFTER", "after", TABLE_RIGHT, false, GRID_BOTH, 0 }, \
	{ "CHANGE", NULL, TABLE_RIGHT, false, GRID_TABLE, 0 }, \
	{ NULL, "change_percent", TABLE_RIGHT, false, GRID_CSV, 0 }
static const struct grid_column stack_diff_labels[] = {
	CHANGE_LABELS,
	{ "CALLED BY", NULL, TABLE_LEFT, true, GRID_TABLE, 0 },
	{ NULL, "depth", TABLE_RIGHT, false, GRID_CSV, 0 },
	{ NULL, "function", TABLE_LEFT, false, GRID_CSV, 0 },
};
static const struct grid_column sleep_labels[] = {
	{ "SHARE", "share_percent", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "BLOCKED IN", NULL, TABLE_LEFT, true, GRID_TABLE, 0 },
	{ NULL, "depth", TABLE_RIGHT, false, GRID_CSV, 0 },
	{ NULL, "function", TABLE_LEFT, false, GRID_CSV, 0 },
};
static const struct grid_column flat_labels[] = {
	{ "SELF%", "self_percent", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "TOTAL%", "total_percent", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "SAMPLES", "samples", TABLE_RIGHT, false, GRID_BOTH, 1 },
	{ "FUNCTION", "function", TABLE_LEFT, true, GRID_BOTH, 0 },
};
static const struct grid_column bandwidth_labels[] = {
	FUNCTION_LABEL,
	LIBRARY_LABEL,
	{ "PID", "pid", TABLE_RIGHT, false, GRID_BOTH, 3 },
	{ "COMMUNICATOR", "communicator", TABLE_LEFT, true, GRID_BOTH, 0 },
	{ "CALLS", "calls", TABLE_RIGHT, false, GRID_BOTH, 2 },
	{ "BYTES", "bytes", TABLE_RIGHT, false, GRID_BOTH, 1 },
	{ "KERNELS", "kernels", TABLE_RIGHT, false, GRID_BOTH, 4 },
	{ "ON GPU", "gpu_ns", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "ALGBW BYTES/S", "algbw_bytes_per_s", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "BUSBW BYTES/S", "busbw_bytes_per_s", TABLE_RIGHT, false, GRID_BOTH, 0 },
};
static const struct grid_column diff_labels[] = {
	FUNCTION_LABEL,
	LIBRARY_LABEL,
	CHANGE_LABELS,
	{ NULL, "status", TABLE_LEFT, false, GRID_CSV, 0 },
};

static const char not_called[] = "no function of it was called since";

#define LABELS(labels) labels, ARRAY_SIZE(labels)

/* clang-format off */
static const struct view views[] = {
	{ "function", LABELS(function_labels),
		VIEW_BY | VIEW_PACE | VIEW_REST | VIEW_COST | VIEW_METRICS, { USE_TABLE },
		fill_function, not_called, NULL, json_write_stats },
	{ "process", LABELS(process_labels),
		VIEW_BY | VIEW_PACE | VIEW_METRICS | VIEW_PROCESSES, { USE_PROCESS },
		fill_process, "no process has called a function of it since", NULL,
		json_write_stats },
	{ "library", LABELS(library_labels), VIEW_BY | VIEW_PACE, { USE_LIBRARY, USE_TABLE },
		fill_library, not_called, NULL, json_write_stats },
	{ "stack", LABELS(stack_labels), VIEW_BY | VIEW_PACE | VIEW_STACKS, { USE_ROW },
		fill_stacks, "no call of it has a stack since", NULL, json_write_stats },
	{ "flat", LABELS(flat_labels), VIEW_BY | VIEW_PACE | VIEW_STACKS, {},
		fill_flat, "no sample has a stack since", NULL, json_write_stats },
	{ "stack-diff", LABELS(stack_diff_labels), VIEW_DIFF | VIEW_STACKS, {}, fill_stack_diff,
		"no call of it has a stack before or after", NULL, json_write_stack_diff },
	{ "blocked-in", LABELS(sleep_labels), VIEW_BY | VIEW_PACE | VIEW_STACKS | VIEW_SLEEPS,
		{ USE_ROW }, fill_stacks,
		"no call of it has slept since, or it does not see where: attach --split --stacks",
		NULL, json_write_stats },
	{ "cgroup", LABELS(cgroup_labels), VIEW_BY | VIEW_PACE | VIEW_METRICS | VIEW_CGROUPS,
		{ USE_ROW }, fill_keys,
		"no call of it was made since, or it does not see by whom: --no-processes", NULL,
		json_write_stats },
	{ "bandwidth", LABELS(bandwidth_labels), VIEW_BY, {},
		fill_bandwidth, "no collective of it was called since, by communicator and with bytes: attach nccl",
		NULL, json_write_stats },
	{ "key", LABELS(function_labels), VIEW_PACE | VIEW_METRICS, { USE_ROW },
		fill_keys, "no call of it was told apart since", NULL, json_write_stats },
	{ "hist", LABELS(hist_labels), VIEW_PACE, {},
		fill_hist, "no call has returned since", print_hist, json_write_stats },
	{ "errors", LABELS(error_labels), 0, {},
		fill_errors, "no call has failed", NULL, json_write_stats },
	{ "slow", LABELS(slow_labels), 0, {},
		fill_slow, "no slow call is remembered", NULL, json_write_stats },
	{ "tree", LABELS(tree_labels), VIEW_PACE | VIEW_REST, { USE_TREE },
		fill_tree, not_called, NULL, json_write_stats },
	{ "diff", LABELS(diff_labels), VIEW_DIFF, {},
		fill_diff, "no function was called before or after", NULL, json_write_diff },
	{ "heat", LABELS(hist_labels), VIEW_PACE | VIEW_FRAME, {},
		fill_heat, "no call has returned since", print_heat, json_write_stats },
	{ "watch", LABELS(function_labels), VIEW_PACE | VIEW_COST | VIEW_FRAME, { USE_RATES },
		fill_rates, not_called, NULL, json_write_stats },
/* clang-format on */
};

const struct view *view_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(views); i++)
		if (!strcmp(views[i].name, name))
			return &views[i];
	return NULL;
}

const char *view_by_words(char buf[WORDS_LEN])
{
	const char *words[ARRAY_SIZE(views)];
	size_t cnt = 0;

	for (size_t i = 0; i < ARRAY_SIZE(views); i++)
		if (views[i].flags & VIEW_BY)
			words[cnt++] = views[i].name;
	return words_join(words, cnt, "|", "|", buf);
}
