// SPDX-License-Identifier: BSD-2-Clause
// Rows of less than a function: by process, cgroup, key and communicator.
#include "base/util.h"
#include "proc/proc.h"
#include "show/call.h"
#include "show/stacks.h"
#include "show/stats.h"
#include "show/text.h"

void grid_function(struct grid *grid, const struct report_group *rg, uint32_t fn)
{
	grid_text(grid, grid->is_table ? group_func_title(rg->s->group, fn)
				       : group_func_name(rg->s->group, fn));
}

/* --- rows of one key ----------------------------------------------------------------------------- */

/*
 * Returns @row with only the requested keys and without its process. A caller or a lock has a
 * different address in each process, so its interned name replaces the address and the file.
 */
static struct stats_row projected(const struct report_group *rg, const struct func_keys *keys,
	const struct stats_row *row)
{
	struct stats_row to = *row;

	to.pid = 0;
	to.start_ns = 0;
	to.hidden = 0;
	memset(&to.key, 0, sizeof(to.key));
	for (size_t i = 0; i < rg->by_cnt; i++) {
		memcpy(&to.key.word[i * FSN_KEY_WIDE], stats_row_text(row, rg->by[i]),
			FSN_KEY_TEXT);
		if (key_is_place(keys->key[rg->by[i]].by)) {
			to.key.word[i * FSN_KEY_WIDE + 1] = 0;
			if (row->place)
				to.key.word[i * FSN_KEY_WIDE] = (uintptr_t)row->place;
		}
		if (keys->key[rg->by[i]].by == FSN_BY_KERNEL && row->kernel)
			to.key.word[i * FSN_KEY_WIDE] = (uintptr_t)row->kernel;
		if (row->hidden & 1U << rg->by[i])
			to.hidden |= 1U << i;
	}
	return to;
}

static bool has_spreads(const struct stats_func *f)
{
	return ANY_WHERE(f->row_cnt, i, f->rows[i].spread);
}

static void add_row(void *to, const void *from)
{
	stats_row_add(to, from);
}

static void add_spread_row(void *to, const void *from)
{
	struct stats_row *row = to;

	stats_row_add(row, from);
	(void)stats_spread_add((struct stats_spread *)row->spread, from);
}

struct stats_row *report_rows_by(
	const struct report_group *rg, const struct stats_func *f, size_t *ret_cnt)
{
	size_t bytes = (f->row_cnt + 1) * sizeof(struct stats_row);
	bool spread = has_spreads(f);
	struct stats_row *rows = xcalloc(1, bytes + spread * f->row_cnt * sizeof(struct stats_spread));
	struct stats_spread *own = spread ? (struct stats_spread *)((char *)rows + bytes) : NULL;

	for (size_t i = 0; i < f->row_cnt; i++) {
		rows[i] = projected(rg, &rg->keys.funcs[f->fn], &f->rows[i]);
		if (own)
			(void)stats_spread_add(&own[i], &rows[i]);
		rows[i].spread = own ? &own[i] : NULL;
		rows[i].spread_was = NULL;
	}
	*ret_cnt = rows_group(rows, f->row_cnt, sizeof(*rows), stats_row_compare,
		own ? add_spread_row : add_row);
	return rows;
}

/* --- cgroups: rows say them where calls are grouped by cgroup, else processes -------------------- */

/* The key that is the cgroup, or -1. */
static int cgroup_key(const struct report_group *rg, const struct stats_func *f)
{
	if (!rg->keys.funcs || !rg->keys.funcs[f->fn].on || !rg->s->keys_known)
		return -1;
	for (size_t i = 0; i < rg->keys.key_cnt; i++)
		if (rg->keys.funcs[f->fn].key[i].by == FSN_BY_CGROUP)
			return (int)i;
	return -1;
}

bool report_has_cgroups(const struct report_group *rg, const struct stats_func *f)
{
	return group_info(rg->s->group).processes || cgroup_key(rg, f) >= 0;
}

/* Cgroup numbers increase with creation, so later cgroups sort after earlier ones. */
DEFINE_ORDER(compare_cgroups, struct stats_row,
	RISING(key.word[0]) ?: strcmp(x->cgroup->path, y->cgroup->path))

/* Rows whose cgroup was removed are part of the others. */
static void add_one(struct stats_row *rows, size_t *cnt, struct stats_row *rest,
	const struct stats_row *row)
{
	if (row->cgroup)
		rows[(*cnt)++] = *row;
	else
		stats_row_add(rest, row);
}

static size_t take_rows(const struct report_group *rg, const struct stats_func *f, size_t key,
	struct stats_row *rows, struct stats_row *rest)
{
	size_t cnt = 0;

	for (size_t i = 0; i < f->row_cnt; i++) {
		struct stats_row row = { .n = f->rows[i].n, .cgroup = f->rows[i].cgroup };

		row.key.word[0] = stats_row_word(&f->rows[i], key);
		add_one(rows, &cnt, rest, &row);
	}
	stats_row_add(rest, &f->others);
	stats_row_add(rest, &f->rows_ended);
	return cnt;
}

static size_t take_procs(const struct report_group *rg, const struct stats_func *f,
	struct stats_row *rows, struct stats_row *rest)
{
	size_t cnt = 0;

	for (size_t i = 0; i < f->proc_cnt; i++) {
		struct stats_row row = { .n = f->procs[i].n,
			.cgroup = stats_cgroup(rg->whole, &f->procs[i]) };

		row.key.word[0] = f->procs[i].cgroup_id;
		add_one(rows, &cnt, rest, &row);
	}
	stats_row_add(rest, &f->ended);
	return cnt;
}

struct stats_row *report_cgroups(const struct report_group *rg, const struct stats_func *f,
	size_t *ret_cnt, struct stats_row *ret_rest)
{
	struct stats_row *rows = xcalloc(f->row_cnt + f->proc_cnt + 1, sizeof(*rows));
	int key = cgroup_key(rg, f);
	size_t cnt;

	*ret_rest = (struct stats_row) {};
	cnt = key >= 0 ? take_rows(rg, f, (size_t)key, rows, ret_rest)
		       : take_procs(rg, f, rows, ret_rest);
	*ret_cnt = rows_group(rows, cnt, sizeof(*rows), compare_cgroups, add_row);
	return rows;
}

/* --- sums ----------------------------------------------------------------------------------- */

/* Fills in the rate of a sum: per second of elapsed time, or for GPUs per second of GPU time. */
static void fill_pace(
	struct grid *grid, const struct report_group *rg, const struct stats_row *row, size_t k)
{
	uint64_t ns = group_info(rg->s->group).gpu ? row->n.total_ns : rg->elapsed_ns;

	grid_real(grid, CELL_RATE, k < rg->keys.sum_cnt && ns,
		k < rg->keys.sum_cnt && ns ? row->sum[k] * 1e9 / ns : 0);
}

void fill_sums(struct grid *grid, const struct report *r, const struct report_group *rg,
	uint32_t fn, const struct stats_row *row)
{
	for (size_t i = 0; i < r->sum_cnt; i++) {
		size_t k = 0;

		while (k < rg->keys.sum_cnt && strcmp(rg->keys.sum[k], r->sum[i]))
			k++;
		if (k == rg->keys.sum_cnt || rg->keys.funcs[fn].sum[k].by == FSN_BY_NONE)
			grid_none(grid);
		else if (rg->keys.funcs[fn].sum[k].is_signed)
			grid_number(grid, (int64_t)row->sum[k]);
		else if (sum_is_self(r->sum[i]))
			grid_ns(grid, true, row->sum[k]);
		else
			grid_count(grid, true, row->sum[k]);
		if (sum_is_bytes(r->sum[i]))
			fill_pace(grid, rg, row, k);
	}
}

/* --- by process ---------------------------------------------------------------------------------- */

struct process {
	struct stats_row p;
	size_t functions;
	uint64_t noise_ns, max_noise_ns; /* as of the function where it is most */
	bool lacks; /* as of any function */
	uint64_t user, kernel; /* samples by the mode of the CPU, as far as stacks tell */
	uint64_t value;    /* that it is ordered by */
};

DEFINE_ORDER(compare_ids, struct process, RISING(p.pid) ?: RISING(p.start_ns))

static void process_add(
	struct process *to, const struct stats_row *p, bool timed, uint64_t noise_ns,
	uint64_t max_noise_ns, bool lacks)
{
	bool nested = p->nested && (to->p.nested || !to->p.n.returns);
	struct fsn_proc_counts n = p->n;

	n.inner_ns = n.total_ns - stats_row_self(p);
	if (!timed)
		n = (struct fsn_proc_counts) { .calls = n.calls };
	to->functions++;
	proc_counts_add(&to->p.n, &n);
	if (!timed)
		return;
	if (n.returns)
		to->p.nested = nested;
	to->p.split |= p->split;
	to->lacks |= lacks;
	if (noise_ns > to->noise_ns)
		to->noise_ns = noise_ns;
	if (max_noise_ns > to->max_noise_ns)
		to->max_noise_ns = max_noise_ns;
}

static void add_process(void *to, const void *from)
{
	const struct process *p = from;

	process_add(to, &p->p, true, p->noise_ns, p->max_noise_ns, p->lacks);
}

struct processes {
	struct process *of;
	size_t cnt;
};

/* Callback that adds the samples of a stack to their process of the struct processes @arg. */
static void add_mode(struct stacks *s, const struct stack *stack, const char *func,
	const struct stats_row *row, void *arg)
{
	const struct processes *all = arg;
	const struct process key = { .p = { .pid = row->pid, .start_ns = row->start_ns } };
	struct process *p = all->cnt ? bsearch(&key, all->of, all->cnt, sizeof(key), compare_ids)
				     : NULL;

	if (p && stack->cnt)
		*(stack_in_kernel(stack) ? &p->kernel : &p->user) += row->n.calls;
}

/* Known only if each sample of the process has a stack. */
static void set_modes(const struct process *p, uint64_t samples, struct figures *ret)
{
	if (!samples || p->user + p->kernel != p->p.n.calls)
		return;
	figure_set_share(ret, FIGURE_USER_SHARE, p->user, samples);
	figure_set_share(ret, FIGURE_KERNEL_SHARE, p->kernel, samples);
}

/* One entry for each process, sorted by pid and start. */
static struct process *collect(const struct stats *s, size_t *ret_cnt)
{
	struct process *all;
	size_t cnt = 0, at = 0;

	for (size_t i = 0; i < s->func_cnt; i++)
		cnt += s->funcs[i].proc_cnt;
	all = xcalloc(cnt + 1, sizeof(*all));
	for (size_t i = 0; i < s->func_cnt; i++)
		for (size_t k = 0; k < s->funcs[i].proc_cnt; k++, at++) {
			const struct stats_row *p = &s->funcs[i].procs[k];

			all[at].p.pid = p->pid;
			all[at].p.start_ns = p->start_ns;
			memcpy(all[at].p.comm, p->comm, sizeof(p->comm));
			process_add(&all[at], p, s->funcs[i].timed,
				s->funcs[i].noise_ns, s->funcs[i].max_noise_ns,
				stats_row_lacks(p, &s->funcs[i]));
		}
	*ret_cnt = rows_group(all, cnt, sizeof(*all), compare_ids, add_process);
	return all;
}

/*
 * The figure by which rows of @use are sorted, which have no percentiles: the longest call, or the
 * total time for other missing metrics; the calls if none has a time.
 */
static enum figure_id sort_of(enum figure_id sort, enum figure_use use, uint64_t returns)
{
	if (sort == SORT_BY_NAME)
		return sort;
	if (sort == FIGURE_P99)
		sort = FIGURE_MAX;
	else if (!figures[sort].place[use].at)
		sort = FIGURE_TOTAL;
	return sort == FIGURE_TOTAL && !returns ? FIGURE_CALLS : sort;
}

static uint64_t process_value(const struct stats_row *p, enum figure_id sort)
{
	struct figures f;

	figures_of_row(p, NULL, NULL, &f);
	return sort_value(&f, sort_of(sort, USE_PROCESS, p->n.returns));
}

DEFINE_ORDER(compare_processes, struct process,
	FALLING(value) ?: (x->value ? FALLING(p.n.calls) : 0) ?: strcmp(x->p.comm, y->p.comm) ?:
		compare_ids(x, y))

/* The column would be 1 for samples: tables have none. */
static void set_functions(const struct grid *grid, const struct figure_scope *scope, size_t cnt,
	struct figures *ret)
{
	figure_set(ret, FIGURE_FUNCTIONS, cnt && !(grid->is_table && scope->all_samples), cnt);
}

/* A row that is of no process. */
static void fill_rest_processes(struct grid *grid, const char *what, const struct process *rest,
	const struct figure_scope *scope)
{
	struct figures values;

	grid_none(grid);
	grid_text(grid, what);
	grid_none(grid);
	grid_none(grid);
	figures_of_row(&rest->p, NULL, scope, &values);
	values.noise_ns = rest->noise_ns;
	values.max_noise_ns = rest->max_noise_ns;
	values.lacks = rest->lacks;
	set_functions(grid, scope, rest->functions, &values);
	grid_figures(grid, &values);
	grid_mark(grid, NULL); /* the row is not one process */
}

/* Exited processes whose records were evicted. */
static struct process collect_ended(const struct stats *s)
{
	struct process ended = {};

	for (size_t i = 0; i < s->func_cnt; i++)
		if (s->funcs[i].ended.n.calls || s->funcs[i].ended.n.returns)
			process_add(&ended, &s->funcs[i].ended, s->funcs[i].timed,
				s->funcs[i].noise_ns, s->funcs[i].max_noise_ns,
				stats_func_lacks(&s->funcs[i]));
	return ended;
}

/* Adds the calls that are in no process's record, because the table was full. */
static void fill_other_processes(struct grid *grid, const struct stats *s,
	const struct stats_row *seen, const struct figure_scope *scope)
{
	struct process rest = {};

	for (size_t i = 0; i < s->func_cnt; i++) {
		const struct stats_func *f = &s->funcs[i];
		struct stats_row all = { .nested = f->nested, .split = f->split };

#define X(name) all.n.name = f->n.name;
		FSN_PROC_COUNTS(X)
#undef X
		process_add(&rest, &all, f->timed, f->noise_ns, f->max_noise_ns, stats_func_lacks(f));
	}
	rest.functions = 0; /* not known of which */
	proc_counts_subtract(&rest.p.n, &seen->n);
	fill_rest_processes(grid, "others", &rest, scope);
}

void fill_process(
	struct grid *grid, const struct report *r, const struct report_group *rg)
{
	_cleanup_free_ struct process *all = NULL;
	struct figure_scope scope = { .all_samples = report_samples(rg) };
	struct process ended = collect_ended(rg->s), sum = {};
	struct figures values;
	size_t cnt = 0;

	all = collect(rg->s, &cnt);
	scope.all_ns = stats_all_time(rg->s);
	scope.cost_ns = stats_all_cost(rg->s);
	if (scope.all_samples)
		each_stack_row(rg, add_mode, &(struct processes) { all, cnt });
	for (size_t i = 0; i < cnt; i++) {
		process_add(&sum, &all[i].p, true, 0, 0, all[i].lacks);
		all[i].value = process_value(&all[i].p, r->choice->sort);
	}
	qsort(all, cnt, sizeof(*all), compare_processes);
	for (size_t i = 0; i < cnt && (!r->choice->top || i < r->choice->top);
		i++) {
		const struct stats_row *p = &all[i].p;

		grid_number(grid, p->pid);
		grid_text(grid, p->comm);
		grid_text(grid,
			proc_alive("/proc", p->pid, p->start_ns) ? "runs" : "ended");
		grid_count(grid, true, p->start_ns);
		figures_of_row(p, NULL, &scope, &values);
		values.noise_ns = all[i].noise_ns;
		values.max_noise_ns = all[i].max_noise_ns;
		values.lacks = all[i].lacks;
		set_modes(&all[i], scope.all_samples, &values);
		set_functions(grid, &scope, all[i].functions, &values);
		grid_figures(grid, &values);
	}
	if (ended.functions) {
		fill_rest_processes(grid, "ended", &ended, &scope);
		process_add(&sum, &ended.p, true, 0, 0, ended.lacks);
	}
	if (rg->s->lost_processes)
		fill_other_processes(grid, rg->s, &sum.p, &scope);
}

/* --- by key and cgroup: rows of arguments, text, callers, threads -------------------------------- */

struct keyed_rows {
	struct stats_row *rows;
	size_t cnt;
	const struct stats_func *f;
};

struct ranked {
	const struct stats_func *func;
	const struct stats_row *row;
	uint64_t value;
};

/* Without a value, as of live bytes of a process that exited, by what it had at its exit. */
DEFINE_ORDER(compare_ranked, struct ranked,
	FALLING(value) ?: (x->value ? FALLING(row->n.calls) : FALLING(row->exit_bytes)) ?:
		stats_row_compare(x->row, y->row))

static uint64_t row_value(const struct stats_row *row, const struct stats_func *f,
	enum figure_id sort)
{
	struct figures values;

	figures_of_row(row, f, NULL, &values);
	return sort_value(&values, sort_of(sort, USE_ROW, row->n.returns));
}

/* On a terminal: how much of its function's time a row has, or of its calls. */
static void fill_bar(struct grid *grid, const struct report *r, const struct stats_func *f,
	const struct stats_row *row)
{
	double all = (double)f->n.total_ns, part = (double)(int64_t)row->n.total_ns;

	if (r->plain || r->history || !text_width())
		return;
	if (!f->timed || all <= 0) {
		all = (double)f->n.calls;
		part = (double)row->n.calls;
	}
	grid_bar(grid, all > 0 && part > 0 ? part / all : 0);
}

/* Self time is not known by key, so a share is one of total times. */
static uint64_t keyed_time(const struct report *r, const struct report_group *rg)
{
	bool cgroups = r->view->flags & VIEW_CGROUPS;
	uint64_t ns = 0;

	for (size_t i = 0; i < rg->s->func_cnt; i++)
		if (rg->s->funcs[i].timed && (cgroups || rg->keys.funcs[rg->s->funcs[i].fn].on))
			ns += rg->s->funcs[i].n.total_ns;
	return ns;
}

static void fill_figures(struct grid *grid, const struct report *r,
	const struct report_group *rg, const struct stats_func *f, const struct stats_row *row)
{
	struct figure_scope scope = { rg->elapsed_ns, keyed_time(r, rg), stats_all_cost(rg->s),
		report_samples(rg) };
	struct figures values;

	fill_sums(grid, r, rg, f->fn, row);
	figures_of_row(row, f, &scope, &values);
	grid_figures(grid, &values);
	fill_bar(grid, r, f, row);
}

static void fill_keys_of(struct grid *grid, const struct report_group *rg,
	const struct types *types, const struct stats_func *f, const struct stats_row *row)
{
	const struct func_keys *keys = &rg->keys.funcs[f->fn];
	struct out text = {};

	for (size_t i = 0; i < rg->by_cnt; i++) {
		const struct func_part *part = &keys->key[rg->by[i]];

		text.len = 0;
		if (key_is_stack(part->by))
			key_stack_text(&text, rg->stacks, stats_row_word(row, i), row->pid);
		else
			key_text(&text, types_of(types, f->fn), part, row, i);
		out_char(&text, '\0');
		grid_text(grid, part->by == FSN_BY_NONE || row->hidden & 1U << i
				? NULL
				: text.buf);
	}
	out_done(&text);
}

#define SHORT_ID 12 /* digits of a container's number that a table shows, as docker does */

/* NULL: the rest. */
static void grid_cgroup(struct grid *grid, const struct cgroup *c)
{
	grid_text(grid, c ? c->path : "others");
	grid_text(grid, c && *c->pod_uid ? c->pod_uid : NULL);
	if (c && *c->container_id)
		grid_textf(grid, "%.*s", SHORT_ID, c->container_id);
	else
		grid_none(grid);
	grid_text(grid, c && *c->container_id ? c->container_id : NULL);
	grid_text(grid, c && *c->slurm_job ? c->slurm_job : NULL);
	grid_text(grid, c && *c->unit ? c->unit : NULL);
}

static void fill_row(struct grid *grid, const struct report *r, const struct report_group *rg,
	const struct types *types, const struct stats_func *f, const struct stats_row *row)
{
	const struct group_func func = group_func(rg->s->group, f->fn);

	grid_function(grid, rg, f->fn);
	grid_text(grid, func.library);
	if (r->view->flags & VIEW_CGROUPS)
		grid_cgroup(grid, row->cgroup);
	else
		fill_keys_of(grid, rg, types, f, row);
	fill_figures(grid, r, rg, f, row);
}

/* One that stands for many. */
static void fill_rest(struct grid *grid, const struct report *r, const struct report_group *rg,
	const struct stats_func *f, const char *what, const struct stats_row *row)
{
	const struct group_func func = group_func(rg->s->group, f->fn);

	if (stats_row_is_empty(row))
		return;
	grid_function(grid, rg, f->fn);
	grid_text(grid, func.library);
	grid_text(grid, what);
	for (size_t i = 1; i < rg->by_cnt; i++)
		grid_none(grid);
	fill_figures(grid, r, rg, f, row);
}

/* The rows of functions, in one order. */
struct ranking {
	struct ranked *of;
	struct stats_row **rows; /* owned, of each function */
	size_t cnt, row_cnt;
};

static void ranking_done(struct ranking *k)
{
	for (size_t i = 0; i < k->row_cnt; i++)
		free(k->rows[i]);
	free(k->rows);
	free(k->of);
}

bool report_tracks_memory(const struct report_group *rg)
{
	return ANY_WHERE(rg->func_cnt, i, rg->funcs[i]->memory.allocates);
}

/* The default order of groups that track allocations is by live memory. */
static enum figure_id sort_of_rows(const struct report *r, const struct report_group *rg)
{
	return !r->choice->sorted && report_tracks_memory(rg) ? FIGURE_LIVE : r->choice->sort;
}

static void rank_rows(struct ranking *k, const struct stats_func *f, struct stats_row *rows,
	size_t cnt, enum figure_id sort)
{
	*array_add(k->rows, k->row_cnt) = rows;
	for (size_t i = 0; i < cnt; i++) {
		*array_add(k->of, k->cnt) = (struct ranked) { f, &rows[i], row_value(&rows[i], f, sort) };
	}
}

/* Prints the first rows, and forgets all. */
static void fill_ranked(struct grid *grid, const struct report *r, const struct report_group *rg,
	const struct types *types, struct ranking *k)
{
	if (k->cnt)
		qsort(k->of, k->cnt, sizeof(*k->of), compare_ranked);
	for (size_t i = 0; i < k->cnt && (!r->choice->top || i < r->choice->top); i++)
		fill_row(grid, r, rg, types, k->of[i].func, k->of[i].row);
	ranking_done(k);
	*k = (struct ranking) {};
}

static void fill_cgroups(struct grid *grid, const struct report *r, const struct report_group *rg,
	const struct types *types)
{
	struct ranking k = {};

	for (size_t i = 0; i < rg->func_cnt; i++) {
		const struct stats_func *f = rg->funcs[i];
		struct stats_row *rows, rest = {};
		size_t cnt = 0;

		if (!report_has_cgroups(rg, f))
			continue;
		rows = report_cgroups(rg, f, &cnt, &rest);
		rank_rows(&k, f, rows, cnt, r->choice->sort);
		fill_ranked(grid, r, rg, types, &k);
		if (!stats_row_is_empty(&rest))
			fill_row(grid, r, rg, types, f, &rest);
	}
}

void fill_keys(struct grid *grid, const struct report *r, const struct report_group *rg)
{
	bool cgroups = r->view->flags & VIEW_CGROUPS;
	_cleanup_types_ struct types *types = NULL;
	struct ranking k = {};

	if (!cgroups && (!rg->by_cnt || !report_keys_known(rg)))
		return;
	grid->code = types_read(rg->s->group, &types, NULL);
	if (grid->code)
		return;
	if (cgroups) {
		fill_cgroups(grid, r, rg, types);
		return;
	}
	for (size_t i = 0; i < rg->func_cnt; i++) {
		const struct stats_func *f = rg->funcs[i];
		struct stats_row *rows;
		size_t cnt = 0;

		if (!rg->keys.funcs[f->fn].on)
			continue;
		rows = report_rows_by(rg, f, &cnt);
		rank_rows(&k, f, rows, cnt, sort_of_rows(r, rg));
	}
	fill_ranked(grid, r, rg, types, &k);
	for (size_t i = 0; i < rg->func_cnt; i++) {
		if (!rg->keys.funcs[rg->funcs[i]->fn].on)
			continue;
		fill_rest(grid, r, rg, rg->funcs[i], "others", &rg->funcs[i]->others);
		fill_rest(grid, r, rg, rg->funcs[i], "ended", &rg->funcs[i]->rows_ended);
	}
}

/* --- the bandwidth of collectives ---------------------------------------------------------------- */

/*
 * The bytes of NCCL calls on a communicator divided by the GPU time of their kernels. Kernels are
 * matched to calls by process, device and name of the collective. If that is ambiguous, no
 * bandwidth is shown.
 */

/* Algorithm and bus bandwidth as defined by nccl-tests. */
struct collective {
	const char *func, *kernel;
	bool of_all; /* the bytes of a rank are 1/n of the message */
	double (*links)(double n);
};

static double links_both_ways(double n)
{
	return 2 * (n - 1) / n;
}

static double links_but_own(double n)
{
	return (n - 1) / n;
}

static double links_all(double n)
{
	(void)n;
	return 1;
}

static const struct collective collectives[] = {
	{ "ncclAllReduce", "AllReduce", false, links_both_ways },
	{ "ncclAllGather", "AllGather", true, links_but_own },
	{ "ncclReduceScatter", "ReduceScatter", true, links_but_own },
	{ "ncclBroadcast", "Broadcast", false, links_all },
	{ "ncclBcast", "Broadcast", false, links_all },
	{ "ncclReduce", "Reduce", false, links_all },
};

static const struct collective *collective_of(const struct report_group *rg, uint32_t fn)
{
	const char *name = group_func(rg->s->group, fn).name;

	return FIND_WHERE(collectives, ARRAY_SIZE(collectives), i,
		!strcmp(name, collectives[i].func));
}

/* "ncclDevKernel_AllReduce_Sum_f32_RING_LL"; before 2.19 "ncclKernel_AllReduce_RING_LL_Sum_float". */
static bool is_kernel_of(const char *kernel, const struct collective *c)
{
	static const char *const begins[] = { "ncclDevKernel_", "ncclKernel_" };

	for (size_t i = 0; kernel && i < ARRAY_SIZE(begins); i++) {
		size_t len = strlen(begins[i]), of = strlen(c->kernel);

		if (!strncmp(kernel, begins[i], len) && !strncmp(kernel + len, c->kernel, of))
			return !kernel[len + of] || strchr("_(", kernel[len + of]);
	}
	return false;
}

/* Returns the communicator of a row, or NULL if it has none or an invalid one. */
static const struct fsn_communicator *communicator_of(
	const struct report_group *rg, uint32_t fn, const struct stats_row *row)
{
	for (size_t i = 0; i < rg->keys.key_cnt; i++) {
		const struct fsn_communicator *c = (const void *)stats_row_text(row, i);

		if (rg->keys.funcs[fn].key[i].by == FSN_BY_COMMUNICATOR)
			return row->hidden & 1U << i || !c->ranks ? NULL : c;
	}
	return NULL;
}

static const uint64_t *bytes_of(
	const struct report_group *rg, uint32_t fn, const struct stats_row *row)
{
	return FIND_WHERE(row->sum, rg->keys.sum_cnt, i, sum_is_bytes(rg->keys.sum[i]) &&
		rg->keys.funcs[fn].sum[i].by != FSN_BY_NONE);
}

/* --- on the GPU -------------------------------------------------------------------------------- */

static bool is_on_device(const struct report_group *rg, const struct stats_row *row, int device)
{
	int key = group_keys_find(&rg->keys, "device");

	return key < 0 || (int)stats_row_word(row, key) == device;
}

/* Sums the kernels of @c that process @pid ran on @device. */
static struct fsn_proc_counts spent_on(
	const struct report *r, const struct collective *c, pid_t pid, int device)
{
	struct fsn_proc_counts spent = {};

	for (size_t g = 0; g < r->cnt; g++) {
		const struct report_group *rg = &r->group[g];

		for (size_t f = 0; group_info(rg->s->group).gpu && f < rg->s->func_cnt; f++)
			for (size_t i = 0; i < rg->s->funcs[f].row_cnt; i++) {
				const struct stats_row *row = &rg->s->funcs[f].rows[i];

				if (row->pid != pid || !is_kernel_of(row->kernel, c) ||
					!is_on_device(rg, row, device))
					continue;
				spent.calls += row->n.calls;
				spent.returns += row->n.returns;
				spent.total_ns += row->n.total_ns;
			}
	}
	return spent;
}

/* True if another communicator of the process also uses these kernels. */
static bool is_shared(const struct report_group *rg, const struct collective *c,
	const struct stats_row *row, const struct fsn_communicator *own)
{
	for (size_t f = 0; f < rg->s->func_cnt; f++) {
		const struct stats_func *func = &rg->s->funcs[f];
		const struct collective *other = collective_of(rg, func->fn);

		for (size_t i = 0; other && !strcmp(other->kernel, c->kernel) && i < func->row_cnt; i++) {
			const struct fsn_communicator *with =
				communicator_of(rg, func->fn, &func->rows[i]);

			if (with && func->rows[i].pid == row->pid && with->device == own->device &&
				(with->hash != own->hash || other != c))
				return true;
		}
	}
	return false;
}

/* --- the table --------------------------------------------------------------------------------- */

static const char *why_unknown(bool shared, const struct fsn_proc_counts *spent, uint64_t calls)
{
	if (!spent->calls)
		return "none of its kernels was seen: attach gpu as well, before the job begins";
	if (shared)
		return "its device has other communicators: whose kernels are whose is not known";
	if (spent->calls > calls)
		return "more kernels than calls: those of graphs, or from before, have no bytes";
	return spent->calls != spent->returns || !spent->total_ns ? "the driver has lost times" : NULL;
}

static void fill_collective(struct grid *grid, const struct report *r, const struct report_group *rg,
	const struct stats_func *f, const struct stats_row *row)
{
	const struct collective *c = collective_of(rg, f->fn);
	const struct fsn_communicator *comm = communicator_of(rg, f->fn, row);
	const struct group_func func = group_func(rg->s->group, f->fn);
	const uint64_t *bytes = bytes_of(rg, f->fn, row);
	struct fsn_proc_counts spent;
	const char *why;
	double pace;

	if (!comm || !bytes || !c)
		return;
	spent = spent_on(r, c, row->pid, comm->device);
	why = why_unknown(is_shared(rg, c, row, comm), &spent, row->n.calls);
	pace = why ? 0 : *bytes * (c->of_all ? comm->ranks : 1.0) * 1e9 / spent.total_ns;
	grid_function(grid, rg, f->fn);
	grid_text(grid, func.library);
	grid_textf(grid, "%d", row->pid);
	grid_textf(grid, "%llx %d/%d", comm->hash, comm->rank, comm->ranks);
	grid_count(grid, true, row->n.calls);
	grid_count(grid, true, *bytes);
	grid_count(grid, true, spent.calls);
	grid_ns(grid, spent.returns, spent.total_ns);
	grid_real(grid, CELL_RATE, !why, pace);
	grid_real(grid, CELL_RATE, !why, pace * c->links(comm->ranks));
	if (why)
		grid_note(grid, why);
}

void fill_bandwidth(struct grid *grid, const struct report *r, const struct report_group *rg)
{
	for (size_t i = 0; rg->keys.funcs && i < rg->func_cnt; i++)
		for (size_t k = 0; k < rg->funcs[i]->row_cnt; k++)
			fill_collective(grid, r, rg, rg->funcs[i], &rg->funcs[i]->rows[k]);
}
