// SPDX-License-Identifier: BSD-2-Clause
// Statistics as JSON. Keys only ever grow: scripts depend on them (funcsnoop-json(5)).
#include <errno.h>
#include <string.h>

#include "show/call.h"
#include "show/json_set.h"
#include "show/json_stats.h"
#include "show/text.h"

static struct json_object *codes_of(const struct stats_func *f)
{
	struct json_object *list = json_array(), *obj;

	for (size_t i = 0; i < f->code_cnt; i++) {
		obj = json_new();
		json_set(obj, "code", json_int(f->codes[i].code));
		json_set_str(obj, "name", f->codes[i].name);
		json_set_u64(obj, "count", f->codes[i].count);
		json_add(list, obj);
	}
	return list;
}

static struct json_object *histogram_of(const struct stats_func *f)
{
	struct json_object *list = json_array(), *obj;
	uint64_t ge, lt;

	for (unsigned int i = 0; f->bucket && i < STATS_BUCKETS; i++) {
		if (!f->bucket[i])
			continue;
		hist_bounds(i, &ge, &lt);
		obj = json_new();
		json_set_u64(obj, "ge_ns", ge);
		json_set_u64(obj, "lt_ns", lt);
		json_set_u64(obj, "count", f->bucket[i]);
		json_add(list, obj);
	}
	return list;
}

static void add_figures(
	struct json_object *obj, const struct stats_func *f, const struct stats_proc *p)
{
	json_set_u64(obj, "calls", p->calls);
	json_set_u64_if(obj, "returns", f->timed || f->same,
		f->same ? p->calls : p->returns);
	json_set_u64_if(obj, "total_ns", f->timed && p->returns, p->total_ns);
	json_set_u64_if(obj, "max_ns", f->timed && p->max_ns, p->max_ns);
	json_set_u64_if(obj, "errors", f->timed, p->errors);
	json_set_u64_if(obj, "slow", f->timed, p->slow);
}

static struct json_object *procs_of(const struct stats_func *f)
{
	struct json_object *list = json_array(), *obj;

	for (size_t i = 0; i < f->proc_cnt; i++) {
		const struct stats_proc *p = &f->procs[i];

		obj = json_new();
		json_set_u64(obj, "pid", p->pid);
		json_set_str(obj, "comm", p->comm);
		add_figures(obj, f, p);
		json_add(list, obj);
	}
	return list;
}

/* What processes had whose records were given up; null when there is none. */
static struct json_object *ended_of(const struct stats_func *f)
{
	const struct stats_proc *p = &f->ended;
	struct json_object *obj;

	if (!p->calls && !p->returns)
		return NULL;
	obj = json_new();
	add_figures(obj, f, p);
	return obj;
}

static void add_times(struct json_object *obj, const struct stats_func *f)
{
	static const struct {
		const char *key;
		unsigned int permille;
	} percentiles[] = { { "p50_ns", 500 }, { "p90_ns", 900 }, { "p99_ns", 990 },
		{ "p999_ns", 999 } };
	bool known = f->timed && f->returns, spread = known && stats_func_samples(f);

	json_set_u64_if(obj, "total_ns", known, f->total_ns);
	json_set_u64_if(obj, "min_ns", f->timed && f->has_extremes, f->min_ns);
	json_set_u64_if(obj, "avg_ns", known, known ? f->total_ns / f->returns : 0);
	json_set_u64_if(obj, "max_ns", f->timed && f->has_extremes, f->max_ns);
	for (size_t i = 0; i < ARRAY_SIZE(percentiles); i++)
		json_set_u64_if(obj, percentiles[i].key, spread,
			spread ? stats_func_percentile(f, percentiles[i].permille) : 0);
}

/* How often @cnt calls came; null when no time has passed. */
static void add_rate(struct json_object *obj, const struct report_group *rg, uint64_t cnt)
{
	struct json_object *rate = NULL;
	char text[40];
	double per_s;

	if (report_rate(rg, cnt, &per_s)) {
		snprintf(text, sizeof(text), "%.*f", rate_digits(per_s), per_s);
		rate = json_double(per_s, text);
	}
	json_set(obj, "calls_per_s", rate);
}

static struct json_object *function_of(
	const struct report_group *rg, const struct stats_func *f)
{
	const struct stats *s = rg->s;
	struct group_func func = group_func(s->group, f->fn);
	struct json_object *obj = json_new();

	json_set_u64(obj, "id", f->fn);
	json_set_str(obj, "name", func.name);
	json_set_str(obj, "symbol", func.symbol);
	json_set_str(obj, "library", func.library);
	json_set_u64(obj, "calls", f->calls);
	add_rate(obj, rg, f->calls);
	json_set_u64(obj, "carried", f->carried);
	json_set_u64_if(obj, "returns", f->timed || f->same, f->returns);
	json_set_u64(obj, "in_flight", f->in_flight);
	json_set_u64(obj, "abandoned", f->abandoned);
	json_set_u64(obj, "untimed", stats_func_untimed(f));
	json_set_u64_if(obj, "errors", f->timed, f->errors);
	json_set_u64_if(obj, "slow", f->timed, f->slow);
	add_times(obj, f);
	json_set(obj, "return_codes", codes_of(f));
	json_set(obj, "histogram", histogram_of(f));
	json_set(obj, "processes", procs_of(f));
	json_set(obj, "ended", ended_of(f));
	return obj;
}

static struct json_object *health_of(const struct stats *s)
{
	struct json_object *obj = json_new();
	uint64_t no_slot = 0, sampled_out = 0, unmatched = 0;

	for (size_t i = 0; i < s->func_cnt; i++) {
		no_slot += s->funcs[i].no_slot;
		sampled_out += s->funcs[i].sampled_out;
		unmatched += s->funcs[i].unmatched;
	}
	json_set_u64(obj, "no_slot", no_slot);
	json_set_u64(obj, "crowded", s->crowded);
	json_set_u64(obj, "sampled_out", sampled_out);
	json_set_u64(obj, "unmatched_returns", unmatched);
	json_set_u64(obj, "lost_codes", s->lost_codes);
	json_set_u64(obj, "lost_processes", s->lost_processes);
	json_set_u64(obj, "lost_slow", s->lost_slow);
	return obj;
}

static struct json_object *stats_head(const struct report_group *rg)
{
	const struct stats *s = rg->s;
	struct json_object *obj = json_new();

	json_set_str(obj, "group", group_info(s->group).name);
	json_set_time(obj, "attached_at", s->attached_ns);
	json_set_time(obj, "since", s->since_ns);
	add_rate(obj, rg, stats_all_calls(s));
	json_set_cost(obj, &rg->cost);
	json_set(obj, "health", health_of(s));
	return obj;
}

/* Each as a line of `stream` has it. */
static struct json_object *slow_calls_of(const struct report_group *rg)
{
	const struct group *g = rg->s->group;
	struct json_object *list = json_array();
	_cleanup_types_ struct types *types = NULL;
	struct out line = {};
	struct call call;

	if (types_read(g, &types, NULL))
		return NULL;
	for (size_t i = 0; i < rg->slow_cnt; i++) {
		call_of_slow(g, types, &rg->slow[i], &call);
		line.len = 0;
		call_json(&line, &call, CALL_WHOLE);
		out_char(&line, '\0');
		json_add(list, line.failed ? NULL : json_tokener_parse(line.buf));
	}
	out_done(&line);
	return list;
}

void json_add_stats(struct json_object *doc, const struct report_group *rg)
{
	struct json_object *obj = stats_head(rg), *list = json_array();

	for (size_t i = 0; i < rg->func_cnt; i++)
		json_add(list, function_of(rg, rg->funcs[i]));
	json_set(obj, "functions", list);
	if (rg->slow)
		json_set(obj, "slow_calls", slow_calls_of(rg));
	json_add(doc, obj);
}

/* Writes an object, or without its last bracket, so that more can follow; frees it. */
static int write_part(struct json_object *obj, bool open, FILE *f)
{
	const char *text = json_text(obj, JSON_C_TO_STRING_NOSLASHESCAPE);

	json_write_text(text, strlen(text) - open, f);
	json_object_put(obj);
	return 0;
}

int json_write_stats(const struct report_group *rg, FILE *f)
{
	int code = write_part(stats_head(rg), true, f);

	fputs(",\"functions\":[", f);
	for (size_t i = 0; !code && i < rg->func_cnt; i++) {
		if (i)
			fputc(',', f);
		code = write_part(function_of(rg, rg->funcs[i]), false, f);
	}
	fputc(']', f);
	if (rg->slow && !code) {
		fputs(",\"slow_calls\":", f);
		code = write_part(slow_calls_of(rg), false, f);
	}
	fputc('}', f);
	return code;
}

static struct json_object *changed_function(const struct diff_func *d)
{
	const struct saved_func *f = d->after ? d->after : d->before;
	struct json_object *obj = json_new(), *values;
	char percent[40];
	double change;

	json_set_str(obj, "name", f->name);
	json_set_str(obj, "library", f->library);
	json_set_str(obj, "status", diff_status(d));
	for (int i = 0; i < DIFF_METRICS; i++) {
		enum saved_metric m = diff_metrics[i];

		values = json_new();
		json_set_u64_if(values, "before", d->before && d->before->known[m],
			d->before ? d->before->value[m] : 0);
		json_set_u64_if(values, "after", d->after && d->after->known[m],
			d->after ? d->after->value[m] : 0);
		if (diff_change(d, m, &change)) {
			snprintf(percent, sizeof(percent), "%.3f", change);
			json_set(values, "change_percent", json_double(change, percent));
		} else {
			json_set(values, "change_percent", NULL);
		}
		json_set(obj, saved_metric_key(m), values);
	}
	return obj;
}

void json_add_diff(struct json_object *doc, const struct report_group *group)
{
	struct json_object *obj = json_new(), *list = json_array();

	json_set_str(obj, "group", group_info(group->s->group).name);
	json_set_str(obj, "before_since", group->before ? group->before->since : NULL);
	json_set_time(obj, "since", group->s->since_ns);
	for (size_t i = 0; i < group->diff_cnt; i++)
		json_add(list, changed_function(&group->diff[i]));
	json_set(obj, "functions", list);
	json_add(doc, obj);
}
