// SPDX-License-Identifier: BSD-2-Clause
// Statistics as JSON. Keys only ever grow: scripts depend on them (funcsnoop-json(5)).
#include <errno.h>

#include "show/call.h"
#include "show/json_stats.h"
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
	for (unsigned int i = 0; f->bucket && i < STATS_BUCKETS; i++) {
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

static void add_figures(
	struct json *j, const struct stats_func *f, const struct stats_proc *p)
{
	json_set_u64(j, "calls", p->calls);
	json_set_u64_if(j, "returns", f->timed || f->same,
		f->same ? p->calls : p->returns);
	json_set_u64_if(j, "total_ns", f->timed && p->returns, p->total_ns);
	json_set_u64_if(j, "max_ns", f->timed && p->max_ns, p->max_ns);
	json_set_u64_if(j, "errors", f->timed, p->errors);
	json_set_u64_if(j, "slow", f->timed, p->slow);
}

static void add_processes(struct json *j, const struct stats_func *f)
{
	json_set_open(j, "processes", '[');
	for (size_t i = 0; i < f->proc_cnt; i++) {
		const struct stats_proc *p = &f->procs[i];

		json_open(j, '{');
		json_set_u64(j, "pid", p->pid);
		json_set_str(j, "comm", p->comm);
		add_figures(j, f, p);
		json_close(j, '}');
	}
	json_close(j, ']');
}

/* What processes had whose records were given up; null when there is none. */
static void add_ended(struct json *j, const struct stats_func *f)
{
	const struct stats_proc *p = &f->ended;

	if (!p->calls && !p->returns) {
		json_set_null(j, "ended");
		return;
	}
	json_set_open(j, "ended", '{');
	add_figures(j, f, p);
	json_close(j, '}');
}

static void add_times(struct json *j, const struct stats_func *f)
{
	static const struct {
		const char *key;
		unsigned int permille;
	} percentiles[] = { { "p50_ns", 500 }, { "p90_ns", 900 }, { "p99_ns", 990 },
		{ "p999_ns", 999 } };
	bool known = f->timed && f->returns, spread = known && stats_func_samples(f);

	json_set_u64_if(j, "total_ns", known, f->total_ns);
	json_set_u64_if(j, "min_ns", f->timed && f->has_extremes, f->min_ns);
	json_set_u64_if(j, "avg_ns", known, known ? f->total_ns / f->returns : 0);
	json_set_u64_if(j, "max_ns", f->timed && f->has_extremes, f->max_ns);
	for (size_t i = 0; i < ARRAY_SIZE(percentiles); i++)
		json_set_u64_if(j, percentiles[i].key, spread,
			spread ? stats_func_percentile(f, percentiles[i].permille) : 0);
}

/* How often @cnt calls came; null when no time has passed. */
static void add_rate(struct json *j, const struct report_group *rg, uint64_t cnt)
{
	double per_s;

	json_key(j, "calls_per_s");
	if (report_rate(rg, cnt, &per_s))
		json_real(j, "%.*f", rate_digits(per_s), per_s);
	else
		json_null(j);
}

static void add_function(
	struct json *j, const struct report_group *rg, const struct stats_func *f)
{
	struct group_func func = group_func(rg->s->group, f->fn);

	json_open(j, '{');
	json_set_u64(j, "id", f->fn);
	json_set_str(j, "name", func.name);
	json_set_str(j, "symbol", func.symbol);
	json_set_str(j, "library", func.library);
	json_set_u64(j, "calls", f->calls);
	add_rate(j, rg, f->calls);
	json_set_u64(j, "carried", f->carried);
	json_set_u64_if(j, "returns", f->timed || f->same, f->returns);
	json_set_u64(j, "in_flight", f->in_flight);
	json_set_u64(j, "abandoned", f->abandoned);
	json_set_u64(j, "untimed", stats_func_untimed(f));
	json_set_u64_if(j, "errors", f->timed, f->errors);
	json_set_u64_if(j, "slow", f->timed, f->slow);
	add_times(j, f);
	add_codes(j, f);
	add_histogram(j, f);
	add_processes(j, f);
	add_ended(j, f);
	json_close(j, '}');
}

static void add_health(struct json *j, const struct stats *s)
{
	uint64_t no_slot = 0, sampled_out = 0, unmatched = 0;

	for (size_t i = 0; i < s->func_cnt; i++) {
		no_slot += s->funcs[i].no_slot;
		sampled_out += s->funcs[i].sampled_out;
		unmatched += s->funcs[i].unmatched;
	}
	json_set_open(j, "health", '{');
	json_set_u64(j, "no_slot", no_slot);
	json_set_u64(j, "crowded", s->crowded);
	json_set_u64(j, "sampled_out", sampled_out);
	json_set_u64(j, "unmatched_returns", unmatched);
	json_set_u64(j, "lost_codes", s->lost_codes);
	json_set_u64(j, "lost_processes", s->lost_processes);
	json_set_u64(j, "lost_slow", s->lost_slow);
	json_close(j, '}');
}

/* Each as a line of `stream` has it. */
static void add_slow_calls(struct json *j, const struct report_group *rg)
{
	const struct group *g = rg->s->group;
	_cleanup_types_ struct types *types = NULL;
	struct call call;

	if (types_read(g, &types, NULL)) {
		json_set_null(j, "slow_calls");
		return;
	}
	json_set_open(j, "slow_calls", '[');
	for (size_t i = 0; i < rg->slow_cnt; i++) {
		call_of_slow(g, types, &rg->slow[i], &call);
		call_json(j, &call, CALL_WHOLE);
	}
	json_close(j, ']');
}

int json_write_stats(struct json *doc, const struct report_group *rg, FILE *f)
{
	const struct stats *s = rg->s;
	int code = 0;

	json_open(doc, '{');
	json_set_str(doc, "group", group_info(s->group).name);
	json_set_time(doc, "attached_at", s->attached_ns);
	json_set_time(doc, "since", s->since_ns);
	add_rate(doc, rg, stats_all_calls(s));
	json_set_cost(doc, &rg->cost);
	add_health(doc, s);
	json_set_open(doc, "functions", '[');
	for (size_t i = 0; !code && i < rg->func_cnt; i++) {
		add_function(doc, rg, rg->funcs[i]);
		code = json_flush(doc, f);
	}
	json_close(doc, ']');
	if (rg->slow)
		add_slow_calls(doc, rg);
	json_close(doc, '}');
	return code ? code : json_flush(doc, f);
}

static void add_changed(struct json *j, const struct diff_func *d)
{
	const struct saved_func *f = d->after ? d->after : d->before;
	double change;

	json_open(j, '{');
	json_set_str(j, "name", f->name);
	json_set_str(j, "library", f->library);
	json_set_str(j, "status", diff_status(d));
	for (int i = 0; i < DIFF_METRICS; i++) {
		enum saved_metric m = diff_metrics[i];

		json_set_open(j, saved_metric_key(m), '{');
		json_set_u64_if(j, "before", d->before && d->before->known[m],
			d->before ? d->before->value[m] : 0);
		json_set_u64_if(j, "after", d->after && d->after->known[m],
			d->after ? d->after->value[m] : 0);
		json_key(j, "change_percent");
		if (diff_change(d, m, &change))
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
		add_changed(doc, &rg->diff[i]);
	json_close(doc, ']');
	json_close(doc, '}');
	return json_flush(doc, f);
}
