// SPDX-License-Identifier: BSD-2-Clause
// Choosing, ordering and printing functions' statistics.
#include <stdlib.h>
#include <string.h>

#include "stats_view.h"
#include "text.h"

/* --- choosing ------------------------------------------------------------------------------- */

static const char *const sort_names[] = { "total", "calls", "avg", "max", "p99", "errors", "slow",
	"name" };

bool stats_sort_parse(const char *name, enum stats_sort *ret_sort)
{
	for (size_t i = 0; i < ARRAY_SIZE(sort_names); i++)
		if (!strcmp(name, sort_names[i])) {
			*ret_sort = (enum stats_sort)i;
			return true;
		}
	return false;
}

static uint64_t sort_value(const struct stats_func *f, enum stats_sort sort)
{
	switch (sort) {
	case STATS_BY_TOTAL:
		return f->timed ? f->total_ns : 0;
	case STATS_BY_CALLS:
		return f->calls;
	case STATS_BY_AVG:
		return f->timed && f->returns ? f->total_ns / f->returns : 0;
	case STATS_BY_MAX:
		return f->max_ns;
	case STATS_BY_P99:
		return stats_func_samples(f) ? stats_func_percentile(f, 990) : 0;
	case STATS_BY_ERRORS:
		return f->errors;
	case STATS_BY_SLOW:
		return f->slow;
	default:
		return 0;
	}
}

struct order {
	const struct stats *s;
	enum stats_sort sort;
};

static int compare_funcs(const void *a, const void *b, void *arg)
{
	const struct stats_func *x = *(const struct stats_func *const *)a;
	const struct stats_func *y = *(const struct stats_func *const *)b;
	const struct order *order = arg;
	uint64_t vx = sort_value(x, order->sort), vy = sort_value(y, order->sort);
	int by_name;

	if (vx != vy)
		return vx > vy ? -1 : 1;
	if (order->sort == STATS_BY_TOTAL && x->calls != y->calls)
		return x->calls > y->calls ? -1 : 1;
	by_name = strcmp(group_func_name(order->s->group, x->fn),
		group_func_name(order->s->group, y->fn));
	return by_name ? by_name : (x->fn > y->fn) - (x->fn < y->fn);
}

const struct stats_func **stats_choose(const struct stats *s, const struct stats_choice *choice,
	size_t *ret_cnt)
{
	const struct stats_func **funcs = calloc(s->func_cnt + 1, sizeof(*funcs));
	struct order order = { s, choice->sort };
	size_t cnt = 0;

	if (!funcs)
		return NULL;
	for (size_t i = 0; i < s->func_cnt; i++)
		if (choice->all || stats_func_called(&s->funcs[i]))
			funcs[cnt++] = &s->funcs[i];
	qsort_r(funcs, cnt, sizeof(*funcs), compare_funcs, &order);
	*ret_cnt = choice->top && choice->top < cnt ? choice->top : cnt;
	return funcs;
}

/* --- the table ------------------------------------------------------------------------------ */

static void cell_duration(struct table *table, bool known, uint64_t ns)
{
	char buf[TEXT_NUM_LEN];

	table_cell(table, "%s", known ? text_duration(ns, buf) : "-");
}

static void cell_count(struct table *table, bool known, uint64_t count)
{
	if (known)
		table_cell(table, "%llu", (unsigned long long)count);
	else
		table_cell(table, "-");
}

static void print_func(struct table *table, const struct stats *s, const struct stats_func *f,
	uint64_t total_ns)
{
	bool times = f->timed && f->returns, spread = times && stats_func_samples(f);
	static const unsigned int permille[] = { 500, 900, 990 };

	table_cell(table, "%s", group_func_name(s->group, f->fn));
	cell_count(table, true, f->calls);
	table_cell(table, times && total_ns ? "%.1f" : "-",
		total_ns ? 100.0 * f->total_ns / total_ns : 0.0);
	cell_duration(table, times, f->total_ns);
	cell_duration(table, times, times ? f->total_ns / f->returns : 0);
	cell_duration(table, f->has_extremes, f->min_ns);
	for (size_t i = 0; i < ARRAY_SIZE(permille); i++)
		cell_duration(table, spread, spread ? stats_func_percentile(f, permille[i]) : 0);
	cell_duration(table, f->has_extremes, f->max_ns);
	cell_count(table, f->timed, f->slow);
	cell_count(table, f->timed, f->errors);
	if (f->errors)
		table_mark(table, "31");
	else if (f->slow)
		table_mark(table, "33");
}

static void print_head(const struct stats *s)
{
	char since[TEXT_NUM_LEN];

	printf("%s since %s\n", group_info(s->group).name, text_time(s->since_ns, since));
}

/* What makes a number doubtful, or is not in the table's columns. */
static void print_notes(const struct globals *g, const struct stats *s)
{
	uint64_t no_slot = 0, unmatched = 0, in_flight = 0, abandoned = 0;
	const char *name = group_info(s->group).name;

	for (size_t i = 0; i < s->func_cnt; i++) {
		no_slot += s->funcs[i].no_slot;
		unmatched += s->funcs[i].unmatched;
		in_flight += s->funcs[i].in_flight;
		abandoned += s->funcs[i].abandoned;
	}
	if (in_flight)
		printf("in flight: %llu calls; 'funcsnoop list inflight %s' shows them\n",
			(unsigned long long)in_flight, name);
	if (abandoned)
		printf("abandoned: %llu calls can't return any more\n",
			(unsigned long long)abandoned);
	if (no_slot)
		cmd_note(g, "%llu calls were counted but not timed: too many in flight",
			(unsigned long long)no_slot);
	if (unmatched)
		cmd_note(g, "%llu returns without their call: it began before, or in a parent",
			(unsigned long long)unmatched);
	if (s->lost_codes)
		cmd_note(g, "%llu failed calls are missing by return code: too many codes",
			(unsigned long long)s->lost_codes);
	if (s->lost_processes)
		cmd_note(g, "%llu calls are missing by process: too many processes",
			(unsigned long long)s->lost_processes);
}

void stats_print(const struct globals *g, const struct stats *s,
	const struct stats_func *const *funcs, size_t cnt)
{
	static const struct table_column columns[] = { { "FUNCTION", TABLE_LEFT, true },
		{ "CALLS", TABLE_RIGHT, false }, { "TIME%", TABLE_RIGHT, false },
		{ "TOTAL", TABLE_RIGHT, false }, { "AVG", TABLE_RIGHT, false },
		{ "MIN", TABLE_RIGHT, false }, { "P50", TABLE_RIGHT, false },
		{ "P90", TABLE_RIGHT, false }, { "P99", TABLE_RIGHT, false },
		{ "MAX", TABLE_RIGHT, false }, { "SLOW", TABLE_RIGHT, false },
		{ "ERRORS", TABLE_RIGHT, false } };
	_cleanup_table_ struct table *table = table_new(columns, ARRAY_SIZE(columns));
	uint64_t total_ns = 0;

	print_head(s);
	for (size_t i = 0; i < s->func_cnt; i++)
		total_ns += s->funcs[i].timed ? s->funcs[i].total_ns : 0;
	for (size_t i = 0; i < cnt; i++)
		print_func(table, s, funcs[i], total_ns);
	if (cnt)
		table_print(table, g, stdout);
	else
		printf("no function of it was called since\n");
	print_notes(g, s);
}

void stats_print_errors(const struct globals *g, const struct stats *s,
	const struct stats_func *const *funcs, size_t cnt)
{
	static const struct table_column columns[] = { { "FUNCTION", TABLE_LEFT, true },
		{ "COUNT", TABLE_RIGHT, false }, { "CODE", TABLE_RIGHT, false },
		{ "NAME", TABLE_LEFT, false } };
	_cleanup_table_ struct table *table = table_new(columns, ARRAY_SIZE(columns));
	size_t rows = 0;

	print_head(s);
	for (size_t i = 0; i < cnt; i++)
		for (size_t k = 0; k < funcs[i]->code_cnt; k++, rows++) {
			const struct stats_code *code = &funcs[i]->codes[k];

			table_cell(table, "%s", group_func_name(s->group, funcs[i]->fn));
			table_cell(table, "%llu", (unsigned long long)code->count);
			table_cell(table, "%lld", (long long)code->code);
			table_cell(table, "%s", code->name ? code->name : "-");
		}
	if (rows)
		table_print(table, g, stdout);
	else
		printf("no call has failed\n");
}

void stats_print_slow(const struct globals *g, const struct stats *s,
	const struct stats_slow *slow, size_t cnt)
{
	static const struct table_column columns[] = { { "TIME", TABLE_LEFT, false },
		{ "COMMAND", TABLE_LEFT, false }, { "PID/TID", TABLE_LEFT, false },
		{ "DURATION", TABLE_RIGHT, false }, { "RESULT", TABLE_LEFT, false },
		{ "CALL", TABLE_LEFT, true } };
	_cleanup_table_ struct table *table = table_new(columns, ARRAY_SIZE(columns));
	char buf[TEXT_NUM_LEN], args[256];

	print_head(s);
	for (size_t i = 0; i < cnt; i++) {
		const struct stats_slow *c = &slow[i];
		size_t len = 0;

		args[0] = '\0';
		for (int a = 0; c->has_args && a < STATS_ARGS; a++)
			len += snprintf(args + len, sizeof(args) - len, "%s%#llx", a ? ", " : "",
				(unsigned long long)c->arg[a]);
		table_cell(table, "%s", text_time(c->start_realtime_ns, buf));
		table_cell(table, "%s", c->comm);
		table_cell(table, "%d/%d", c->pid, c->tid);
		table_cell(table, "%s", text_duration(c->duration_ns, buf));
		if (c->result_name)
			table_cell(table, "%s", c->result_name);
		else
			table_cell(table, c->has_result ? "%#llx" : "-",
				(unsigned long long)c->result);
		table_cell(table, "%s(%s)", group_func_name(s->group, c->fn),
			c->has_args ? args : "...");
	}
	if (cnt)
		table_print(table, g, stdout);
	else
		printf("no slow call is remembered\n");
}
