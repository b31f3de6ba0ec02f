// SPDX-License-Identifier: BSD-2-Clause
// The views of `stats`: their columns and values.
#include "base/util.h"
#include "show/call.h"
#include "show/stats.h"
#include "show/text.h"

static struct figure_scope scope_of(const struct report_group *rg)
{
	return (struct figure_scope) { .elapsed_ns = rg->elapsed_ns,
		.all_ns = stats_all_time(rg->s),
		.cost_ns = stats_all_cost(rg->s) };
}

#define BOLD "1"

/*
 * Sets *ret_errors to the failed calls of @f that are not part of another call, which is counted with the
 * same result. Returns false if they are not known.
 */
static bool own_errors(const struct stats_func *f, uint64_t *ret_errors)
{
	bool all = f->n.errors == f->n.calls;

	*ret_errors = all ? f->n.errors - f->n.chained : f->n.errors;
	return all || !f->n.errors || !f->n.chained;
}

/* Appends the last row: the total of @s. */
static void fill_total(struct grid *grid, const struct stats *s, const struct figure_scope *scope)
{
	struct stats_func sum = {};
	uint64_t errors = 0, own;
	bool known = true;
	struct figures f;

	for (size_t i = 0; i < s->func_cnt; i++) {
		func_sum_add(&sum, &s->funcs[i]);
		known &= own_errors(&s->funcs[i], &own);
		errors += own;
	}
	sum.n.calls -= sum.n.chained;
	sum.n.errors = errors;
	figures_of(&sum, scope, grid_wanted(grid), &f);
	if (!known)
		f.known &= ~FIGURE_BIT(FIGURE_ERRORS);
	/* One in another is in the time of both. */
	if (!scope->all_ns)
		f.known &= ~FIGURE_BIT(FIGURE_TOTAL);
	figure_set(&f, FIGURE_TOTAL, figure_known(&f, FIGURE_SELF), stats_func_self(&sum));
	figure_set(&f, FIGURE_OUTER, figure_known(&f, FIGURE_SELF), stats_func_self(&sum));
	func_sum_done(&sum);
	grid_text(grid, "total");
	for (size_t i = 1; i < grid->column_cnt - grid->figure_cnt; i++)
		grid_none(grid);
	grid_figures(grid, &f);
	grid_mark(grid, BOLD);
	grid->total_rows = 1;
}

/* --- by function and library ---------------------------------------------------------------- */

#define LEFT_OUT_MAX 10 /* rows, unless --all or --top has another number */

static void add_left_out(struct grid *grid, const char *name, const char *library, const char *rate)
{
	grid_text(grid, name);
	grid_text(grid, library);
	for (size_t i = 0; i < grid->sum_cnt; i++)
		grid_none(grid);
	for (size_t i = 0; i < grid->figure_cnt; i++)
		grid_text(grid, grid->figures[i] == FIGURE_CALLS ? rate
				: grid->figures[i] == FIGURE_TOTAL ? "left out"
								   : NULL);
}

/*
 * Adds a row for each function that was left out, with its last known rate in place of its calls. It
 * is of some milliseconds, in which the program may not have run all the time.
 */
static void fill_left_out(
	struct grid *grid, const struct report *r, const struct report_group *rg)
{
	size_t top = r->choice->top ? r->choice->top : r->choice->all ? SIZE_MAX : LEFT_OUT_MAX, cnt;
	__cleanup(group_left_done) struct group_left left;
	_cleanup_free_ struct group_func *funcs = group_left_out(rg->s->group, &left, &cnt);
	char rate[TEXT_NUM_LEN], text[TEXT_NUM_LEN + 8];

	for (size_t i = 0; i < cnt && i < top; i++) {
		snprintf(text, sizeof(text), "~%s/s", grid_rate(funcs[i].calls_per_s, rate));
		add_left_out(grid, funcs[i].name, funcs[i].library, text);
	}
	if (cnt > top) {
		snprintf(text, sizeof(text), "%zu more", cnt - top);
		add_left_out(grid, text, NULL, NULL);
	}
}

/* The sums of all calls of @f: rows without keys are of processes. */
static void fill_all_sums(struct grid *grid, const struct report *r, const struct report_group *rg,
	const struct stats_func *f)
{
	struct stats_row all = f->others;

	stats_row_add(&all, &f->rows_ended);
	for (size_t i = 0; i < f->row_cnt; i++)
		stats_row_add(&all, &f->rows[i]);
	fill_sums(grid, r, rg, f->fn, &all);
}

static void fill_function(
	struct grid *grid, const struct report *r, const struct report_group *rg)
{
	struct figure_scope scope = scope_of(rg);
	struct figures f;

	if (grid->is_table)
		fill_left_out(grid, r, rg);
	for (size_t i = 0; i < rg->func_cnt; i++) {
		struct group_func func = group_func(rg->s->group, rg->funcs[i]->fn);

		grid_function(grid, rg, rg->funcs[i]->fn);
		grid_text(grid, func.library);
		fill_all_sums(grid, r, rg, rg->funcs[i]);
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

DEFINE_ORDER(compare_libraries, struct library,
	FALLING(sum.n.total_ns) ?: FALLING(sum.n.calls) ?: strcmp(x->path, y->path))

/* One for each library of the group, in order. */
static struct library *libraries_of(const struct report_group *rg, uint32_t cnt)
{
	struct library *libs = xcalloc(cnt + 1, sizeof(*libs));
	uint32_t k;

	for (k = 0; k < cnt; k++)
		libs[k].path = group_lib(rg->s->group, k);
	for (size_t i = 0; i < rg->s->func_cnt; i++) {
		const char *path = group_func(rg->s->group, (uint32_t)i).library;

		for (k = 0; k < cnt && strcmp(libs[k].path, path); k++)
			;
		func_sum_add(&libs[k].sum, &rg->s->funcs[i]);
		libs[k].called += stats_func_called(&rg->whole->funcs[i]);
	}
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

	for (uint32_t k = 0; k < cnt; k++) {
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
			grid_function(grid, rg, f->fn);
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
	grid_time(grid, call->start + c->ahead_ns);
	grid_time(grid, call->start + c->ahead_ns);
	grid_text(grid, call->comm);
	grid_textf(grid, "%u/%u", call->pid, call->tid);
	grid_number(grid, call->pid);
	grid_number(grid, call->tid);
	grid_ns(grid, true, call->duration);
	grid_about(grid, call->duration < c->noise_ns);
	grid_text(grid, *where->buf ? where->buf : NULL);
	grid_text(grid, *result->buf && strcmp(result->buf, "?") ? result->buf : NULL);
	grid_text(grid, c->function);
	grid_text(grid, call_has_args(call) ? args->buf : NULL);
	grid_text(grid, *keys->buf ? keys->buf + 1 : NULL);
	grid_ns(grid, split, call->queued);
	grid_ns(grid, split, call->blocked);
	grid_textf(grid, *keys->buf ? "%s%s (%s)" : "%s%s(%s)", c->title, keys->buf, args->buf);
}

static void fill_slow(
	struct grid *grid, const struct report *r, const struct report_group *rg)
{
	_cleanup_types_ struct types *types = NULL;
	struct out args = {}, result = {}, keys = {}, where = {};
	struct shown_call call;

	grid->code = types_read(rg->s->group, &types, NULL);
	for (size_t i = 0; !grid->code && i < rg->slow_cnt; i++) {
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
	/* The first table has no rates: its counts are not from an interval. */
	struct figure_scope scope = { .elapsed_ns = r->interval_ns ? rg->elapsed_ns : 0 };
	struct figures f;

	for (size_t i = 0; i < rg->func_cnt; i++) {
		const struct stats_func *func = rg->funcs[i];

		figures_of(func, &scope, grid_wanted(grid), &f);
		f.known &= ~f.moot;
		/* Rates are of the interval, this one since the reset. */
		f.value[FIGURE_CALLS].n = rg->whole->funcs[func->fn].n.calls;
		grid_function(grid, rg, func->fn);
		grid_none(grid);
		grid_figures(grid, &f);
	}
}

/* --- the call tree: the paths of a group, callers above callees ------------------------------ */

struct node {
	const struct stats_path *path;
	struct node *up, *first, *next; /* caller, first callee, next callee of the caller */
	struct group_func func;
	const char *title;
	unsigned int depth;
	bool timed, shown, again; /* again: recursion, its function is also one of its callers */
	uint64_t total_ns;        /* including all nodes below */
	uint64_t cost_ns;         /* overhead of the probes of its callees */
	uint64_t value;           /* sort value */
};

/* The rows to show, callers first. */
struct tree {
	struct node *nodes;
	struct node **rows;
	size_t node_cnt, row_cnt;
	struct node others; /* dropped calls; .path is NULL if there are none */
};

static void tree_done(struct tree *t)
{
	free(t->nodes);
	free(t->rows);
}

static uint64_t time_of(int64_t ns)
{
	return ns > 0 ? ns : 0;
}

static uint64_t value_of(const struct node *n, enum figure_id sort)
{
	if (sort == SORT_BY_NAME)
		return 0;
	return sort == FIGURE_CALLS       ? n->path->calls
		: sort == FIGURE_SELF ? time_of(n->path->self_ns)
				      : n->total_ns;
}

DEFINE_POINTER_ORDER(compare_depths, struct node, FALLING(depth))

DEFINE_POINTER_ORDER(compare_values, struct node,
	FALLING(value) ?: strcmp(x->func.name, y->func.name) ?: RISING(path->id))

static void node_init(struct node *n, const struct stats *s, const struct stats_path *p)
{
	*n = (struct node) { .path = p, .total_ns = time_of(p->self_ns) };
	n->shown = p->calls || p->self_ns;
	n->timed = p->self_ns;
	if (p->fn == STATS_NO_FN)
		return;
	n->func = group_func(s->group, p->fn);
	n->title = group_func_title(s->group, p->fn);
	n->timed &= s->funcs[p->fn].nested;
}

/* One node per path, in the order of their ids; dropped calls are in .others. */
static void make_nodes(const struct stats *s, struct tree *t)
{
	_cleanup_free_ struct node **by_id = NULL;
	uint32_t most = 0;

	for (size_t i = 0; i < s->path_cnt; i++)
		most = s->paths[i].id > most ? s->paths[i].id : most;
	by_id = xcalloc(most + 1, sizeof(struct node *));
	t->nodes = xcalloc(s->path_cnt + 1, sizeof(*t->nodes));
	t->rows = xcalloc(s->path_cnt + 1, sizeof(struct node *));
	for (size_t i = 0; i < s->path_cnt; i++) {
		const struct stats_path *p = &s->paths[i];
		struct node *n = p->fn == STATS_NO_FN ? &t->others : &t->nodes[t->node_cnt++];

		node_init(n, s, p);
		by_id[p->id] = n;
	}
	for (size_t i = 0; i < t->node_cnt; i++) {
		struct node *n = &t->nodes[i];

		n->up = n->path->caller <= most ? by_id[n->path->caller] : NULL;
		t->rows[i] = n;
	}
}

/*
 * Returns the probe overhead of its calls, assuming that all calls of the function cost the same.
 */
static uint64_t cost_of(const struct stats *s, const struct stats_path *p)
{
	const struct stats_func *f = &s->funcs[p->fn];

	return f->n.calls ? (double)f->cost_ns / f->n.calls * p->calls : 0;
}

/* Sets the depth of each node, and adds it to its caller, the deepest first. */
static void add_up(const struct stats *s, struct tree *t)
{
	for (size_t i = 0; i < t->node_cnt; i++)
		for (struct node *n = &t->nodes[i], *up = n->up; up; up = up->up) {
			n->depth++;
			n->again |= up->path->fn == n->path->fn;
		}
	qsort(t->rows, t->node_cnt, sizeof(struct node *), compare_depths);
	for (size_t i = 0; i < t->node_cnt; i++) {
		struct node *n = t->rows[i];

		if (!n->up)
			continue;
		n->up->total_ns += n->total_ns;
		n->up->cost_ns += cost_of(s, n->path);
		n->up->timed |= n->timed;
		n->up->shown |= n->shown;
	}
}

/* Shows only the first @top nodes of .rows, and their callers. */
static void keep_top(struct tree *t, size_t top)
{
	for (size_t i = 0; i < t->node_cnt; i++)
		t->rows[i]->shown &= i < top;
	for (size_t i = 0; i < t->node_cnt && i < top; i++)
		for (struct node *up = t->rows[i]; up && t->rows[i]->shown; up = up->up)
			up->shown = true;
}

static struct node *next_row(struct node *n)
{
	if (n->first)
		return n->first;
	while (!n->next && n->up)
		n = n->up;
	return n->next;
}

/* Reorders .rows from the order of values to the order of the tree. */
static void walk(struct tree *t)
{
	struct node *first = NULL;

	for (size_t i = t->node_cnt; i--;) {
		struct node *n = t->rows[i], **list = n->up ? &n->up->first : &first;

		if (!n->shown)
			continue;
		n->next = *list;
		*list = n;
	}
	for (struct node *n = first; n; n = next_row(n))
		t->rows[t->row_cnt++] = n;
}

static void tree_make(const struct stats *s, const struct stats_choice *choice, struct tree *t)
{
	make_nodes(s, t);
	add_up(s, t);
	for (size_t i = 0; i < t->node_cnt; i++)
		t->nodes[i].value = value_of(&t->nodes[i], choice->sort);
	qsort(t->rows, t->node_cnt, sizeof(struct node *), compare_values);
	if (choice->top)
		keep_top(t, choice->top);
	walk(t);
}

/* --- the tree as rows and as a document ------------------------------------------------------ */

static void node_figures(const struct node *n, const struct stats *s,
	const struct figure_scope *scope, struct figures *ret)
{
	uint64_t self = time_of(n->path->self_ns);
	const struct stats_func *f = n->path->fn == STATS_NO_FN ? NULL : &s->funcs[n->path->fn];

	*ret = (struct figures) {
		.noise_ns = f ? f->noise_ns : 0,
		.max_noise_ns = f ? f->max_noise_ns : 0,
		.self_noise_ns = SELF_NOISE(n->cost_ns),
		.lacks = f && stats_func_lacks(f),
	};
	figure_set(ret, FIGURE_CALLS, true, n->path->calls);
	figure_set(ret, FIGURE_AVG, n->path->calls && n->timed,
		n->path->calls ? n->total_ns / n->path->calls : 0);
	figure_set(ret, FIGURE_TOTAL, n->timed, n->total_ns);
	figure_set(ret, FIGURE_SELF, n->path->self_ns && (!f || f->nested), self);
	if (figure_known(ret, FIGURE_SELF) && scope->all_ns) {
		ret->known |= FIGURE_BIT(FIGURE_TIME);
		ret->value[FIGURE_TIME].x = 100.0 * self / scope->all_ns;
	}
}

static void fill_node(struct grid *grid, const struct node *n, const struct stats *s,
	const struct figure_scope *scope)
{
	struct figures f;

	grid_textf(grid, "%*s%s%s", 2 * (int)n->depth, "", n->title,
		n->again ? " (again)" : "");
	grid_number(grid, n->path->id);
	if (n->up)
		grid_number(grid, n->up->path->id);
	else
		grid_none(grid);
	grid_number(grid, n->depth);
	grid_text(grid, n->func.name);
	grid_text(grid, n->func.library);
	node_figures(n, s, scope, &f);
	grid_figures(grid, &f);
}

static void fill_tree(struct grid *grid, const struct report *r, const struct report_group *rg)
{
	const struct figure_scope scope = { .all_ns = stats_all_time(rg->s) };
	__cleanup(tree_done) struct tree t = {};

	tree_make(rg->s, r->choice, &t);
	for (size_t i = 0; i < t.row_cnt; i++)
		fill_node(grid, t.rows[i], rg->s, &scope);
	if (t.others.shown) {
		t.others.title = t.others.func.name = "others";
		fill_node(grid, &t.others, rg->s, &scope);
	}
	if (grid->row_cnt > 1)
		fill_total(grid, rg->s, &scope);
}

static void add_node(struct json *j, const struct node *n, const struct stats *s)
{
	static const struct figure_scope none;
	struct figures f;

	node_figures(n, s, &none, &f);
	json_open(j, '{');
	json_set_u64_if(j, "id", n->func.name, n->path->id);
	json_set_u64_if(j, "caller", n->up, n->up ? n->up->path->id : 0);
	json_set_u64(j, "depth", n->depth);
	json_set_str(j, "function", n->func.name);
	json_set_str(j, "library", n->func.library);
	json_set_bool(j, "again", n->again);
	json_set_u64(j, "calls", n->path->calls);
	json_set_u64_if(j, "total_ns", figure_known(&f, FIGURE_TOTAL), n->total_ns);
	json_set_u64_if(j, "self_ns", figure_known(&f, FIGURE_SELF), time_of(n->path->self_ns));
	json_close(j, '}');
}

void json_add_tree(struct json *j, const struct report_group *rg)
{
	__cleanup(tree_done) struct tree t = {};

	if (!rg->s->paths) {
		json_set_null(j, "tree");
		return;
	}
	tree_make(rg->s, rg->tree, &t);
	json_set_open(j, "tree", '[');
	for (size_t i = 0; i < t.row_cnt; i++)
		add_node(j, t.rows[i], rg->s);
	if (t.others.shown)
		add_node(j, &t.others, rg->s);
	json_close(j, ']');
}

/* --- all of them ---------------------------------------------------------------------------- */

#define FUNCTION_LABEL                                                 \
	{                                                              \
		"FUNCTION", "function", TABLE_LEFT, TABLE_NAMES, GRID_BOTH, 0 \
	}
#define LIBRARY_LABEL                                           \
	{                                                       \
		NULL, "library", TABLE_LEFT, false, GRID_CSV, 0 \
	}

#define CGROUP_LABELS                                                          \
	{ "CGROUP", "cgroup", TABLE_LEFT, true, GRID_BOTH, 0 },                \
		{ "POD", "pod_uid", TABLE_LEFT, false, GRID_SOME, 2 },         \
		{ "CONTAINER", NULL, TABLE_LEFT, false, GRID_KNOWN, 1 },       \
		{ NULL, "container_id", TABLE_LEFT, false, GRID_CSV, 0 },      \
		{ "JOB", "slurm_job", TABLE_LEFT, false, GRID_SOME, 0 },       \
	{                                                                      \
		NULL, "unit", TABLE_LEFT, false, GRID_CSV, 0                   \
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
	{ "CALL", NULL, TABLE_LEFT, TABLE_WRAP, GRID_TABLE, 0 },
};
static const struct grid_column tree_labels[] = {
	{ "FUNCTION", NULL, TABLE_LEFT, TABLE_NAMES, GRID_TABLE, 0 },
	{ NULL, "id", TABLE_RIGHT, false, GRID_CSV, 0 },
	{ NULL, "caller", TABLE_RIGHT, false, GRID_CSV, 0 },
	{ NULL, "depth", TABLE_RIGHT, false, GRID_CSV, 0 },
	{ NULL, "function", TABLE_LEFT, false, GRID_CSV, 0 },
	LIBRARY_LABEL,
};
static const struct grid_column stack_labels[] = {
	{ "SHARE", "share_percent", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "CALLED BY", NULL, TABLE_LEFT, TABLE_WRAP, GRID_TABLE, 0 },
	{ NULL, "depth", TABLE_RIGHT, false, GRID_CSV, 0 },
	{ NULL, "function", TABLE_LEFT, false, GRID_CSV, 0 },
};
/* A metric before and after. */
#define CHANGE_LABELS \
	{ "WHAT", NULL, TABLE_LEFT, false, GRID_TABLE, 0 }, \
	{ NULL, "metric", TABLE_LEFT, false, GRID_CSV, 0 }, \
	{ "BEFORE", "before", TABLE_RIGHT, false, GRID_BOTH, 0 }, \
	{ "AFTER", "after", TABLE_RIGHT, false, GRID_BOTH, 0 }, \
	{ "CHANGE", NULL, TABLE_RIGHT, false, GRID_TABLE, 0 }, \
	{ NULL, "change_percent", TABLE_RIGHT, false, GRID_CSV, 0 }
static const struct grid_column stack_diff_labels[] = {
	CHANGE_LABELS,
	{ "CALLED BY", NULL, TABLE_LEFT, TABLE_WRAP, GRID_TABLE, 0 },
	{ NULL, "depth", TABLE_RIGHT, false, GRID_CSV, 0 },
	{ NULL, "function", TABLE_LEFT, false, GRID_CSV, 0 },
};
static const struct grid_column sleep_labels[] = {
	{ "SHARE", "share_percent", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "BLOCKED IN", NULL, TABLE_LEFT, TABLE_WRAP, GRID_TABLE, 0 },
	{ NULL, "depth", TABLE_RIGHT, false, GRID_CSV, 0 },
	{ NULL, "function", TABLE_LEFT, false, GRID_CSV, 0 },
};
static const struct grid_column flat_labels[] = {
	{ "SELF%", "self_percent", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "TOTAL%", "total_percent", TABLE_RIGHT, false, GRID_BOTH, 0 },
	{ "SAMPLES", "samples", TABLE_RIGHT, false, GRID_BOTH, 1 },
	{ "FUNCTION", "function", TABLE_LEFT, TABLE_NAMES, GRID_BOTH, 0 },
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

static const char not_called[] = "no calls yet";

#define LABELS(labels) labels, ARRAY_SIZE(labels)

/* clang-format off */
static const struct view views[] = {
	{ "function", LABELS(function_labels),
		VIEW_BY | VIEW_PACE | VIEW_REST | VIEW_COST | VIEW_METRICS | VIEW_SUMS, { USE_TABLE },
		fill_function, not_called, NULL, json_write_stats },
	{ "process", LABELS(process_labels),
		VIEW_BY | VIEW_PACE | VIEW_METRICS | VIEW_PROCESSES, { USE_PROCESS },
		fill_process, not_called, NULL, json_write_stats },
	{ "library", LABELS(library_labels), VIEW_BY | VIEW_PACE, { USE_LIBRARY, USE_TABLE },
		fill_library, not_called, NULL, json_write_stats },
	{ "stack", LABELS(stack_labels), VIEW_BY | VIEW_PACE | VIEW_STACKS, { USE_ROW },
		fill_stacks, "no call with a stack yet", NULL, json_write_stats },
	{ "flat", LABELS(flat_labels), VIEW_BY | VIEW_PACE | VIEW_STACKS, {},
		fill_flat, "no sample with a stack yet", NULL, json_write_stats },
	{ "stack-diff", LABELS(stack_diff_labels), VIEW_DIFF | VIEW_STACKS, {}, fill_stack_diff,
		"no call with a stack, before or after", NULL, json_write_stack_diff },
	{ "blocked-in", LABELS(sleep_labels), VIEW_BY | VIEW_PACE | VIEW_STACKS | VIEW_SLEEPS,
		{ USE_ROW }, fill_stacks,
		"no call has slept yet, or it is not known where: attach --with split --by stack",
		NULL, json_write_stats },
	{ "cgroup", LABELS(cgroup_labels), VIEW_BY | VIEW_PACE | VIEW_METRICS | VIEW_CGROUPS,
		{ USE_ROW }, fill_keys,
		"no calls yet, or not known by whom: attached --without processes", NULL,
		json_write_stats },
	{ "bandwidth", LABELS(bandwidth_labels), VIEW_BY, {},
		fill_bandwidth, "no collective with a communicator and bytes yet: attach nccl",
		NULL, json_write_stats },
	{ "key", LABELS(function_labels), VIEW_PACE | VIEW_METRICS, { USE_ROW },
		fill_keys, "no calls by key yet", NULL, json_write_stats },
	{ "hist", LABELS(hist_labels), VIEW_PACE, {},
		fill_hist, "no call has returned yet", print_hist, json_write_stats },
	{ "errors", LABELS(error_labels), 0, {},
		fill_errors, "no call has failed yet", NULL, json_write_stats },
	{ "slow", LABELS(slow_labels), 0, {},
		fill_slow, "no slow call yet", NULL, json_write_stats },
	{ "tree", LABELS(tree_labels), VIEW_PACE | VIEW_REST, { USE_TREE },
		fill_tree, not_called, NULL, json_write_stats },
	{ "diff", LABELS(diff_labels), VIEW_DIFF, {},
		fill_diff, "no function was called before or after", NULL, json_write_diff },
	{ "heat", LABELS(hist_labels), VIEW_PACE | VIEW_FRAME, {},
		fill_heat, "no call has returned yet", print_heat, json_write_stats },
	{ "watch", LABELS(function_labels), VIEW_PACE | VIEW_COST | VIEW_FRAME, { USE_RATES },
		fill_rates, not_called, NULL, json_write_stats },
/* clang-format on */
};

const struct view *view_find(const char *name)
{
	return FIND_WHERE(views, ARRAY_SIZE(views), i, !strcmp(views[i].name, name));
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
