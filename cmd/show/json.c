// SPDX-License-Identifier: BSD-2-Clause
// Statistics as a JSON document.
#include <string.h>

#include "group/group.h"
#include "group/stacks.h"
#include "show/call.h"
#include "show/stats.h"
#include "show/text.h"

static void add_codes(struct json *j, const struct stats_func *f)
{
	json_set_open(j, "return_codes", '[');
	for (size_t i = 0; i < f->code_cnt; i++) {
		json_open(j, '{');
		json_set_i64(j, "code", f->codes[i].code);
		json_set_str(j, "name", f->codes[i].name);
		json_set_u64(j, "count", f->codes[i].count);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void add_histogram(struct json *j, const struct stats_func *f)
{
	uint64_t ge, lt;

	json_set_open(j, "histogram", '[');
	for (unsigned int i = 0; f->bucket && i < FSN_HIST_CNT; i++) {
		if (!f->bucket[i])
			continue;
		hist_bounds(i, &ge, &lt);
		json_open(j, '{');
		json_set_u64(j, "ge_ns", ge);
		json_set_u64(j, "lt_ns", lt);
		json_set_u64(j, "count", f->bucket[i]);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void add_real(struct json *j, enum figure_unit unit, double x)
{
	json_real(j, "%.*f", unit == UNIT_PERCENT ? 3 : rate_digits(x), x);
}

void json_add_figures(struct json *j, enum figure_use use, const struct figures *f)
{
	enum figure_id ids[FIGURE_CNT];
	size_t cnt = figure_list(use, ids);

	for (size_t i = 0; i < cnt; i++) {
		enum figure_id id = ids[i];

		if (figure_is_real(id) && figure_known(f, id)) {
			json_key(j, figures[id].key);
			add_real(j, figures[id].unit, f->value[id].x);
		} else {
			json_set_u64_if(j, figures[id].key, figure_known(f, id),
				figure_or_0(f, id));
		}
	}
}

/* Null: it is not known. */
static void add_cgroup(struct json *j, const struct cgroup *c)
{
	if (!c) {
		json_set_null(j, "cgroup");
		return;
	}
	json_set_open(j, "cgroup", '{');
	json_set_str(j, "path", c->path);
	json_add_cgroup(j, c);
	json_close(j, '}');
}

static void add_processes(
	struct json *j, const struct report_group *rg, const struct stats_func *f)
{
	struct figures values;

	json_set_open(j, "processes", '[');
	for (size_t i = 0; i < f->proc_cnt; i++) {
		json_open(j, '{');
		json_set_u64(j, "pid", f->procs[i].pid);
		json_set_str(j, "comm", f->procs[i].comm);
		add_cgroup(j, stats_cgroup(rg->whole, &f->procs[i]));
		figures_of_process(&f->procs[i], f, NULL, &values);
		json_add_figures(j, USE_PROCESS_DOCUMENT, &values);
		json_close(j, '}');
	}
	json_close(j, ']');
}

/* What processes had whose records were given up; null when there is none. */
static void add_ended(struct json *j, const struct stats_func *f)
{
	struct figures values;

	if (!f->ended.n.calls && !f->ended.n.returns) {
		json_set_null(j, "ended");
		return;
	}
	json_set_open(j, "ended", '{');
	figures_of_process(&f->ended, f, NULL, &values);
	json_add_figures(j, USE_PROCESS_DOCUMENT, &values);
	json_close(j, '}');
}

/* Where its calls slept. */
static void add_sleeps(struct json *j, const struct report_group *rg, const struct stats_func *f)
{
	json_set_open(j, "blocked_in", '[');
	for (size_t i = 0; i < f->sleep_cnt; i++) {
		const struct stats_row *row = &f->sleeps[i];

		json_open(j, '{');
		json_set_u64(j, "pid", row->pid);
		json_set_u64(j, "stack", row->key.word[0]);
		json_add_stack(j, rg->stacks, row->key.word[0], row->pid);
		json_set_u64(j, "sleeps", row->n.calls);
		json_set_u64(j, "blocked_ns", row->n.blocked_ns);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void add_sums(struct json *j, const struct report_group *rg, uint32_t fn,
	const struct stats_row *row)
{
	const struct func_part *sum = rg->keys.funcs[fn].sum;

	json_set_open(j, "sums", '{');
	for (size_t i = 0; i < rg->keys.sum_cnt; i++)
		if (sum[i].by == FSN_BY_NONE)
			json_set_null(j, rg->keys.sum[i]);
		else if (sum[i].is_signed)
			json_set_i64(j, rg->keys.sum[i], (int64_t)row->sum[i]);
		else
			json_set_u64(j, rg->keys.sum[i], row->sum[i]);
	json_close(j, '}');
}

static void add_row_figures(struct json *j, const struct report_group *rg,
	const struct stats_func *f, const struct stats_row *row)
{
	struct figures values;

	figures_of_row(row, f, NULL, &values);
	json_add_figures(j, USE_ROW_DOCUMENT, &values);
	add_sums(j, rg, f->fn, row);
}

static void add_rest(struct json *j, const char *key, const struct report_group *rg,
	const struct stats_func *f, const struct stats_row *row)
{
	if (!rg->keys.funcs || stats_row_is_empty(row)) {
		json_set_null(j, key);
		return;
	}
	json_set_open(j, key, '{');
	add_row_figures(j, rg, f, row);
	json_close(j, '}');
}

static void add_rows(struct json *j, const struct report_group *rg, const struct types *types,
	const struct stats_func *f)
{
	json_set_open(j, "rows", '[');
	for (size_t i = 0; rg->keys.funcs && types && i < f->row_cnt; i++) {
		const struct stats_row *row = &f->rows[i];
		bool known;

		json_open(j, '{');
		json_set_u64(j, "pid", row->pid);
		json_set_str(j, "comm", row->comm);
		known = rg->s->keys_known || row->hidden != (1U << rg->keys.key_cnt) - 1;
		if (known)
			keys_json(j, &rg->keys, f->fn, types_of(types, f->fn), row);
		else
			json_set_null(j, "key");
		add_row_figures(j, rg, f, row);
		json_close(j, '}');
	}
	json_close(j, ']');
	add_rest(j, "other_rows", rg, f, &f->others);
	add_rest(j, "ended_rows", rg, f, &f->rows_ended);
}

static void add_function(
	struct json *j, const struct report_group *rg, const struct types *types,
	const struct stats_func *f)
{
	const struct figure_scope scope = { .elapsed_ns = rg->elapsed_ns };
	struct group_func func = group_func(rg->s->group, f->fn);
	struct figures values;

	json_open(j, '{');
	json_set_u64(j, "id", f->fn);
	json_set_str(j, "name", func.name);
	json_set_str(j, "symbol", func.symbol);
	json_set_str(j, "library", func.library);
	figures_of(f, &scope, figure_mask(USE_DOCUMENT), &values);
	json_add_figures(j, USE_DOCUMENT, &values);
	add_codes(j, f);
	add_histogram(j, f);
	add_processes(j, rg, f);
	add_ended(j, f);
	add_rows(j, rg, types, f);
	add_sleeps(j, rg, f);
	json_close(j, '}');
}

/* How often calls came; null when no time has passed. */
static void add_rate(struct json *j, const struct report_group *rg, uint64_t cnt)
{
	double per_s;

	if (report_rate(rg, cnt, &per_s)) {
		json_key(j, figures[FIGURE_CALLS_RATE].key);
		add_real(j, UNIT_RATE, per_s);
	} else {
		json_set_null(j, figures[FIGURE_CALLS_RATE].key);
	}
}

/* Of calls, by how their stacks ended; null where none are followed. */
static void add_ends(struct json *j, const struct report_group *rg)
{
	uint64_t calls[FSN_WALK_ENDS];

	if (!stacks_ends(rg, calls)) {
		json_set_null(j, "stacks");
		return;
	}
	json_set_open(j, "stacks", '{');
	for (int i = FSN_WALK_OUTERMOST; i < FSN_WALK_ENDS; i++)
		json_set_u64(j, stack_end_name(i), calls[i]);
	json_close(j, '}');
}

void report_health(const struct report_group *rg, struct health ret[HEALTH_CNT])
{
	const struct stats *s = rg->s;
	_cleanup_asked_ struct asked asked;
	bool known = !asked_read(s->group, &asked, NULL);
	struct fsn_counts n = {};
	uint64_t shed = 0;

	for (size_t i = 0; i < s->func_cnt; i++) {
		counts_add(&n, &s->funcs[i].n);
		if (stats_is_shed(s->group, s->funcs[i].fn, &s->funcs[i].n))
			shed += s->funcs[i].n.sampled_out;
	}
	memcpy(ret,
		(const struct health[HEALTH_CNT]) {
			{ "no_slot", true, n.no_slot },
			{ "crowded", true, s->crowded },
			{ "other_stack", true, s->other_stack },
			{ "too_deep", true, s->too_deep },
			{ "held_calls", true, s->paused_calls },
			{ "held_times", true, s->pauses },
			{ "sampled_out", true, n.sampled_out },
			{ "shed_calls", true, shed },
			{ "left_by_jump", true, n.jumped },
			{ "inner", true, n.inner },
			{ "unmatched_returns", true, n.unmatched },
			{ "lost_codes", true, s->lost_codes },
			{ "lost_processes", true, s->lost_processes },
			{ "lost_slow", true, s->lost_slow },
			{ "lost_texts", true, s->lost_texts },
			{ "lost_conditions", true, s->lost_conditions },
			{ "lost_stacks", true, s->lost_stacks },
			{ "lost_python", true, s->lost_python },
			{ "bulk_frees", true, s->bulk_frees },
			{ "inner_launches", true, report_inner_launches(rg) },
			{ "missed", s->has_missed, s->missed },
			{ "cpus_off", true, s->cpus_off },
			{ "lost_children", known, known ? asked.lost_children : 0 },
		},
		HEALTH_CNT * sizeof(*ret));
}

/* .lost_children and .over are null for who may not know of which processes calls are counted. */
static void add_health(struct json *j, const struct report_group *rg)
{
	_cleanup_asked_ struct asked asked;
	struct health health[HEALTH_CNT];

	report_health(rg, health);
	json_set_open(j, "health", '{');
	for (size_t i = 0; i < HEALTH_CNT; i++)
		json_set_u64_if(j, health[i].word, health[i].known, health[i].n);
	json_set_u64(j, "held_ns", rg->s->paused_ns);
	add_ends(j, rg);
	json_close(j, '}');
	if (!asked_read(rg->s->group, &asked, NULL))
		json_set_bool(j, "over", asked_is_over(&asked));
	else
		json_set_null(j, "over");
}

/* What the library says in each process that is recorded, or can't be. */
static void add_gpus(struct json *j, const struct stats *s)
{
	static const char *const states[] = { [FSN_GPU_RUNS] = "recorded",
		[FSN_GPU_NO_LIB] = "no library", [FSN_GPU_REFUSED] = "refused",
		[FSN_GPU_TAKEN] = "taken" };

	json_set_open(j, "gpu_processes", '[');
	for (size_t i = 0; i < s->gpu_cnt; i++) {
		const struct fsn_gpu *said = &s->gpus[i].said;

		json_open(j, '{');
		json_set_i64(j, "pid", s->gpus[i].pid);
		json_set_str(j, "state",
			said->state < ARRAY_SIZE(states) ? states[said->state] : NULL);
		json_set_i64(j, "code", said->code);
		json_set_str(j, "library", said->who);
		json_set_u64(j, "idle_s", said->idle_s);
		json_set_u64(j, "dropped", said->dropped);
		if (said->period_s) {
			json_set_u64(j, "window_s", said->window_s);
			json_set_u64(j, "period_s", said->period_s);
		} else {
			json_set_null(j, "window_s");
			json_set_null(j, "period_s");
		}
		json_close(j, '}');
	}
	json_close(j, ']');
}

/* Each as a line of `stream` has it. */
static void add_slow_calls(struct json *j, const struct report_group *rg)
{
	const struct group *g = rg->s->group;
	_cleanup_types_ struct types *types = NULL;

	if (types_read(g, &types, NULL)) {
		json_set_null(j, "slow_calls");
		return;
	}
	json_set_open(j, "slow_calls", '[');
	for (size_t i = 0; i < rg->slow_cnt; i++) {
		struct shown_call c = report_slow(rg, types, i);

		call_json(j, &c, CALL_WHOLE);
	}
	json_close(j, ']');
}

int json_write_stats(struct json *doc, const struct report_group *rg, FILE *f)
{
	_cleanup_types_ struct types *types = NULL;
	const struct stats *s = rg->s;
	uint64_t cost_ns = 0;
	int code = rg->keys.funcs ? types_read(s->group, &types, NULL) : 0;
	bool priced;

	if (code)
		return code;

	json_open(doc, '{');
	json_set_str(doc, "group", group_info(s->group).name);
	json_set_time(doc, "attached_at", s->attached_ns);
	json_set_time(doc, "since", s->since_ns);
	add_rate(doc, rg, stats_all_calls(s));
	json_set_cost(doc, &rg->cost);
	priced = report_cost(rg, &cost_ns);
	json_set_u64_if(doc, "cost_ns", priced, cost_ns);
	add_health(doc, rg);
	if (group_info(s->group).gpu)
		add_gpus(doc, rg->whole);
	json_set_open(doc, "functions", '[');
	for (size_t i = 0; !code && i < rg->func_cnt; i++) {
		add_function(doc, rg, types, rg->funcs[i]);
		code = json_flush(doc, f);
	}
	json_close(doc, ']');
	if (rg->slow)
		add_slow_calls(doc, rg);
	if (!code && rg->tree)
		code = json_add_tree(doc, rg);
	json_close(doc, '}');
	return code ? code : json_flush(doc, f);
}

static void add_value(
	struct json *j, const char *key, const struct saved_func *f, enum figure_id id)
{
	json_set_u64_if(j, key, f && figure_known(&f->figures, id),
		f ? figure_or_0(&f->figures, id) : 0);
}

static void add_saved_key(struct json *j, const struct saved_row *row)
{
	json_set_open(j, "key", '{');
	for (size_t i = 0; i < row->part_cnt; i++) {
		const struct saved_part *part = &row->part[i];

		json_set_open(j, part->key, '{');
		json_set_str(j, "value", part->value);
		json_set_str(j, "name", part->name);
		json_close(j, '}');
	}
	json_close(j, '}');
}

static void add_changed(struct json *j, const struct diff_func *d, bool by_key)
{
	const struct saved_func *f = d->after ? d->after : d->before;
	enum figure_id ids[FIGURE_CNT];
	size_t cnt = figure_list(USE_DIFF, ids);
	double change;

	json_open(j, '{');
	json_set_str(j, "name", f->name);
	json_set_str(j, "library", f->library);
	if (by_key)
		add_saved_key(j, f->rows);
	json_set_str(j, "status", diff_status(d));
	for (size_t i = 0; i < cnt; i++) {
		enum figure_id id = ids[i];

		json_set_open(j, figures[id].key, '{');
		add_value(j, "before", d->before, id);
		add_value(j, "after", d->after, id);
		json_key(j, "change_percent");
		if (diff_change(d, id, &change))
			json_real(j, "%.3f", change);
		else
			json_null(j);
		json_close(j, '}');
	}
	json_close(j, '}');
}

int json_write_diff(struct json *doc, const struct report_group *rg, FILE *f)
{
	json_open(doc, '{');
	json_set_str(doc, "group", group_info(rg->s->group).name);
	json_set_str(doc, "before_since", rg->before ? rg->before->since : NULL);
	json_set_time(doc, "since", rg->s->since_ns);
	json_set_open(doc, "functions", '[');
	for (size_t i = 0; i < rg->diff_cnt; i++)
		add_changed(doc, &rg->diff[i], rg->diff_parts);
	json_close(doc, ']');
	json_close(doc, '}');
	return json_flush(doc, f);
}
