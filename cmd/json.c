// SPDX-License-Identifier: BSD-2-Clause
// Reports as JSON. Keys only ever grow: scripts depend on them (funcsnoop-json(5)).
#include <errno.h>
#include <string.h>

#include <json-c/json.h>

#include "json.h"
#include "link.h"
#include "stats_report.h"
#include "text.h"

static void add(struct json_object *obj, const char *key, struct json_object *value)
{
	json_object_object_add(obj, key, value);
}

/* Length of the UTF-8 character at @s, which ends with a zero byte; 0 when it is none. */
static size_t utf8_len(const unsigned char *s)
{
	size_t len = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 :
		     s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;

	for (size_t i = 1; i < len; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	/* Overlong forms, surrogates, and what lies beyond U+10FFFF. */
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
		(s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return len;
}

/* A JSON text is UTF-8 (RFC 8259): bytes of names that are not become U+FFFD. */
static struct json_object *new_str(const char *value)
{
	const unsigned char *s = (const unsigned char *)value;
	_cleanup_free_ char *out = malloc(strlen(value) * 3 + 1);
	size_t at = 0, len;

	if (!out)
		return NULL;
	for (; *s; s += len ? len : 1) {
		len = utf8_len(s);
		memcpy(out + at, len ? (const char *)s : "\xef\xbf\xbd", len ? len : 3);
		at += len ? len : 3;
	}
	return json_object_new_string_len(out, (int)at);
}

static void add_str(struct json_object *obj, const char *key, const char *value)
{
	add(obj, key, value ? new_str(value) : NULL);
}

static void add_u64(struct json_object *obj, const char *key, uint64_t value)
{
	add(obj, key, json_object_new_uint64(value));
}

/* What is not known is null, not 0. */
static void add_u64_if(struct json_object *obj, const char *key, bool known, uint64_t value)
{
	add(obj, key, known ? json_object_new_uint64(value) : NULL);
}

static void add_bool(struct json_object *obj, const char *key, bool value)
{
	add(obj, key, json_object_new_boolean(value));
}

static void add_time(struct json_object *obj, const char *key, uint64_t realtime_ns)
{
	char buf[TEXT_NUM_LEN];

	add_str(obj, key, text_time(realtime_ns, buf));
}

struct json_object *json_array(void)
{
	return json_object_new_array();
}

int json_write(const struct globals *g, struct json_object *doc, FILE *f)
{
	int flags = JSON_C_TO_STRING_NOSLASHESCAPE |
		    (g->pretty ? JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED : 0);
	const char *text = json_object_to_json_string_ext(doc, flags);

	if (text)
		fprintf(f, "%s\n", text);
	json_object_put(doc);
	return text ? 0 : -ENOMEM;
}

int json_print(const struct globals *g, struct json_object *doc)
{
	return json_write(g, doc, stdout) ? EXIT_FAILED : EXIT_DONE;
}

void json_error(const struct globals *g, const char *message)
{
	struct json_object *doc = json_object_new_object();

	add_str(doc, "error", message);
	json_print(g, doc);
}

int json_version(const struct globals *g, const char *version, const char *libbpf)
{
	struct json_object *doc = json_object_new_object();

	add_str(doc, "version", version);
	add_str(doc, "libbpf", libbpf);
	return json_print(g, doc);
}

/* --- functions ------------------------------------------------------------------------------ */

static void add_function(struct json_object *list, const struct group_func *f,
	const char *refused)
{
	struct json_object *obj = json_object_new_object();

	add_str(obj, "name", f->name);
	add_str(obj, "symbol", f->symbol);
	add_str(obj, "demangled", f->demangled);
	add_str(obj, "library", f->library);
	add_str(obj, "build_id", f->build_id && *f->build_id ? f->build_id : NULL);
	add_u64(obj, "offset", f->offset);
	add_u64_if(obj, "site_offset", !refused, f->site_offset);
	add_str(obj, "site_why", refused ? NULL : f->site_why);
	add_str(obj, "instruction", refused ? NULL : f->insn);
	add_str(obj, "exit", refused ? NULL : text_exit(f->exit));
	add_str(obj, "exit_why", refused ? NULL : f->exit_why);
	add_str(obj, "refused", refused);
	json_object_array_add(list, obj);
}

static struct json_object *add_group(struct json_object *doc, const char *name)
{
	struct json_object *obj = json_object_new_object();
	struct json_object *functions = json_object_new_array();

	add_str(obj, "group", name);
	add(obj, "functions", functions);
	json_object_array_add(doc, obj);
	return functions;
}

void json_add_target(struct json_object *doc, const struct target *t)
{
	struct json_object *functions = add_group(doc, t->name);

	for (size_t i = 0; i < t->func_cnt; i++) {
		const struct target_func *f = &t->funcs[i];
		struct group_func shown = target_func_shown(f);

		add_function(functions, &shown, f->refused);
	}
}

void json_add_functions(struct json_object *doc, const struct group *group)
{
	struct group_info info = group_info(group);
	struct json_object *functions = add_group(doc, info.name);

	for (uint32_t i = 0; i < info.fn_cnt; i++) {
		struct group_func f = group_func(group, i);

		add_function(functions, &f, NULL);
	}
}

/* --- list ----------------------------------------------------------------------------------- */

void json_add_list(struct json_object *doc, const struct json_list_row *row)
{
	struct json_object *obj = json_object_new_object(), *libs = json_object_new_array();
	static const char *const sources[] = {
		[COST_ACCOUNTED] = "kernel",
		[COST_CALIBRATED] = "calibration",
	};
	struct group_info info = group_info(row->group);
	char exits[64];

	for (uint32_t i = 0; !row->error && i < info.lib_cnt; i++)
		json_object_array_add(libs, new_str(group_lib(row->group, i)));
	add_str(obj, "name", info.name);
	add(obj, "libraries", libs);
	add_u64_if(obj, "functions", !row->error, info.fn_cnt);
	add_str(obj, "link", row->error ? NULL : link_mode_name(info.links));
	add_str(obj, "exits", row->error ? NULL : text_exits(info.exits, exits, sizeof(exits)));
	if (row->error) {
		add_str(obj, "attached_at", NULL);
		add_str(obj, "since", NULL);
	} else {
		add_time(obj, "attached_at", info.attached_ns);
		add_time(obj, "since", row->since_ns);
	}
	add_u64_if(obj, "calls", !row->error, row->calls);
	add_u64_if(obj, "cost_ns_per_s", row->cost_source != COST_UNKNOWN, row->cost_ns_per_s);
	add_str(obj, "cost_source", sources[row->cost_source]);
	add_u64_if(obj, "memory_bytes", !row->error, row->memory_bytes);
	add(obj, "stale", row->error ? NULL : json_object_new_boolean(row->stale));
	if (row->error)
		add_str(obj, "error", row->error);
	json_object_array_add(doc, obj);
}

void json_add_call(struct json_object *doc, const struct group *group,
	const struct slot_call *call)
{
	struct json_object *obj = json_object_new_object();

	add_str(obj, "group", group_info(group).name);
	add_str(obj, "function", group_func_name(group, call->fn));
	add_u64(obj, "pid", call->pid);
	add_u64(obj, "tid", call->tid);
	add_str(obj, "comm", call->comm);
	add_u64(obj, "age_ns", call->age_ns);
	add_bool(obj, "stale", call->stale);
	json_object_array_add(doc, obj);
}

void json_add_preset(struct json_object *doc, const struct preset_entry *preset)
{
	struct json_object *obj = json_object_new_object();

	add_str(obj, "name", preset->name);
	add_str(obj, "description", preset->description);
	add_str(obj, "origin", preset->origin);
	add_u64_if(obj, "functions", !preset->error, preset->func_cnt);
	add_str(obj, "error", preset->error);
	json_object_array_add(doc, obj);
}

/* --- stats ---------------------------------------------------------------------------------- */

static struct json_object *codes_of(const struct stats_func *f)
{
	struct json_object *list = json_object_new_array(), *obj;

	for (size_t i = 0; i < f->code_cnt; i++) {
		obj = json_object_new_object();
		add(obj, "code", json_object_new_int64(f->codes[i].code));
		add_str(obj, "name", f->codes[i].name);
		add_u64(obj, "count", f->codes[i].count);
		json_object_array_add(list, obj);
	}
	return list;
}

static struct json_object *histogram_of(const struct stats_func *f)
{
	struct json_object *list = json_object_new_array(), *obj;
	uint64_t ge, lt;

	for (unsigned int i = 0; f->bucket && i < STATS_BUCKETS; i++) {
		if (!f->bucket[i])
			continue;
		hist_bounds(i, &ge, &lt);
		obj = json_object_new_object();
		add_u64(obj, "ge_ns", ge);
		add_u64(obj, "lt_ns", lt);
		add_u64(obj, "count", f->bucket[i]);
		json_object_array_add(list, obj);
	}
	return list;
}

static struct json_object *procs_of(const struct stats_func *f)
{
	struct json_object *list = json_object_new_array(), *obj;

	for (size_t i = 0; i < f->proc_cnt; i++) {
		const struct stats_proc *p = &f->procs[i];

		obj = json_object_new_object();
		add_u64(obj, "pid", p->pid);
		add_str(obj, "comm", p->comm);
		add_u64(obj, "calls", p->calls);
		add_u64_if(obj, "returns", f->timed || f->same, f->same ? p->calls : p->returns);
		add_u64_if(obj, "total_ns", f->timed && p->returns, p->total_ns);
		add_u64_if(obj, "max_ns", f->timed && p->max_ns, p->max_ns);
		add_u64_if(obj, "errors", f->timed, p->errors);
		add_u64_if(obj, "slow", f->timed, p->slow);
		json_object_array_add(list, obj);
	}
	return list;
}

static void add_times(struct json_object *obj, const struct stats_func *f)
{
	static const struct {
		const char *key;
		unsigned int permille;
	} percentiles[] = { { "p50_ns", 500 }, { "p90_ns", 900 }, { "p99_ns", 990 },
		{ "p999_ns", 999 } };
	bool known = f->timed && f->returns, spread = known && stats_func_samples(f);

	add_u64_if(obj, "total_ns", known, f->total_ns);
	add_u64_if(obj, "min_ns", f->timed && f->has_extremes, f->min_ns);
	add_u64_if(obj, "avg_ns", known, known ? f->total_ns / f->returns : 0);
	add_u64_if(obj, "max_ns", f->timed && f->has_extremes, f->max_ns);
	for (size_t i = 0; i < ARRAY_SIZE(percentiles); i++)
		add_u64_if(obj, percentiles[i].key, spread,
			spread ? stats_func_percentile(f, percentiles[i].permille) : 0);
}

static struct json_object *function_of(const struct stats *s, const struct stats_func *f)
{
	struct group_func func = group_func(s->group, f->fn);
	struct json_object *obj = json_object_new_object();

	add_u64(obj, "id", f->fn);
	add_str(obj, "name", func.name);
	add_str(obj, "symbol", func.symbol);
	add_str(obj, "library", func.library);
	add_u64(obj, "calls", f->calls);
	add_u64(obj, "carried", f->carried);
	add_u64_if(obj, "returns", f->timed || f->same, f->returns);
	add_u64(obj, "in_flight", f->in_flight);
	add_u64(obj, "abandoned", f->abandoned);
	add_u64(obj, "untimed", stats_func_untimed(f));
	add_u64_if(obj, "errors", f->timed, f->errors);
	add_u64_if(obj, "slow", f->timed, f->slow);
	add_times(obj, f);
	add(obj, "return_codes", codes_of(f));
	add(obj, "histogram", histogram_of(f));
	add(obj, "processes", procs_of(f));
	return obj;
}

static struct json_object *health_of(const struct stats *s)
{
	struct json_object *obj = json_object_new_object();
	uint64_t no_slot = 0, sampled_out = 0, unmatched = 0;

	for (size_t i = 0; i < s->func_cnt; i++) {
		no_slot += s->funcs[i].no_slot;
		sampled_out += s->funcs[i].sampled_out;
		unmatched += s->funcs[i].unmatched;
	}
	add_u64(obj, "no_slot", no_slot);
	add_u64(obj, "sampled_out", sampled_out);
	add_u64(obj, "unmatched_returns", unmatched);
	add_u64(obj, "lost_codes", s->lost_codes);
	add_u64(obj, "lost_processes", s->lost_processes);
	add_u64(obj, "lost_slow", s->lost_slow);
	return obj;
}

static struct json_object *slow_call_of(const struct stats *s, const struct stats_slow *call)
{
	struct json_object *obj = json_object_new_object(), *args = NULL;
	char name[16];

	if (call->has_args) {
		args = json_object_new_object();
		for (int i = 0; i < STATS_ARGS; i++) {
			snprintf(name, sizeof(name), "arg%d", i + 1);
			add_u64(args, name, call->arg[i]);
		}
	}
	add_str(obj, "type", "call");
	add_u64(obj, "ts_ns", call->start_ns);
	add_time(obj, "time", call->start_realtime_ns);
	add_str(obj, "group", group_info(s->group).name);
	add_str(obj, "function", group_func_name(s->group, call->fn));
	add_u64(obj, "pid", call->pid);
	add_u64(obj, "tid", call->tid);
	add_str(obj, "comm", call->comm);
	add(obj, "args", args);
	add(obj, "ret", call->has_result ? json_object_new_int64(call->result) : NULL);
	add_str(obj, "ret_name", call->result_name);
	add_u64(obj, "duration_ns", call->duration_ns);
	add_bool(obj, "slow", true);
	add_bool(obj, "failed", call->failed);
	add_u64(obj, "cookie", call->fn);
	return obj;
}

static struct json_object *stats_head(const struct stats *s)
{
	struct json_object *obj = json_object_new_object();

	add_str(obj, "group", group_info(s->group).name);
	add_time(obj, "attached_at", s->attached_ns);
	add_time(obj, "since", s->since_ns);
	add(obj, "health", health_of(s));
	return obj;
}

static struct json_object *slow_calls_of(const struct stats *s, const struct stats_slow *slow,
	size_t cnt)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < cnt; i++)
		json_object_array_add(list, slow_call_of(s, &slow[i]));
	return list;
}

void json_add_stats(struct json_object *doc, const struct stats *s,
	const struct stats_func *const *funcs, size_t func_cnt, const struct stats_slow *slow,
	size_t slow_cnt)
{
	struct json_object *obj = stats_head(s), *list = json_object_new_array();

	for (size_t i = 0; i < func_cnt; i++)
		json_object_array_add(list, function_of(s, funcs[i]));
	add(obj, "functions", list);
	if (slow)
		add(obj, "slow_calls", slow_calls_of(s, slow, slow_cnt));
	json_object_array_add(doc, obj);
}

/* Writes an object, or without its last bracket, so that more can follow; frees it. */
static int write_part(struct json_object *obj, bool open, FILE *f)
{
	const char *text = json_object_to_json_string_ext(obj, JSON_C_TO_STRING_NOSLASHESCAPE);
	int code = text ? 0 : -ENOMEM;

	if (text)
		fprintf(f, "%.*s", (int)strlen(text) - open, text);
	json_object_put(obj);
	return code;
}

int json_write_stats(const struct stats *s, const struct stats_func *const *funcs,
	size_t func_cnt, const struct stats_slow *slow, size_t slow_cnt, FILE *f)
{
	int code = write_part(stats_head(s), true, f);

	fputs(",\"functions\":[", f);
	for (size_t i = 0; !code && i < func_cnt; i++) {
		if (i)
			fputc(',', f);
		code = write_part(function_of(s, funcs[i]), false, f);
	}
	fputc(']', f);
	if (slow && !code) {
		fputs(",\"slow_calls\":", f);
		code = write_part(slow_calls_of(s, slow, slow_cnt), false, f);
	}
	fputc('}', f);
	return code;
}

static struct json_object *changed_function(const struct diff_func *d)
{
	const struct saved_func *f = d->after ? d->after : d->before;
	struct json_object *obj = json_object_new_object(), *values;
	char percent[40];
	double change;

	add_str(obj, "name", f->name);
	add_str(obj, "library", f->library);
	add_str(obj, "status", diff_status(d));
	for (int i = 0; i < DIFF_METRICS; i++) {
		enum saved_metric m = diff_metrics[i];

		values = json_object_new_object();
		add_u64_if(values, "before", d->before && d->before->known[m],
			d->before ? d->before->value[m] : 0);
		add_u64_if(values, "after", d->after && d->after->known[m],
			d->after ? d->after->value[m] : 0);
		if (diff_change(d, m, &change)) {
			snprintf(percent, sizeof(percent), "%.3f", change);
			add(values, "change_percent", json_object_new_double_s(change, percent));
		} else {
			add(values, "change_percent", NULL);
		}
		add(obj, saved_metric_key(m), values);
	}
	return obj;
}

void json_add_diff(struct json_object *doc, const struct report_group *group)
{
	struct json_object *obj = json_object_new_object(), *list = json_object_new_array();

	add_str(obj, "group", group_info(group->s->group).name);
	add_str(obj, "before_since", group->before ? group->before->since : NULL);
	add_time(obj, "since", group->s->since_ns);
	for (size_t i = 0; i < group->diff_cnt; i++)
		json_object_array_add(list, changed_function(&group->diff[i]));
	add(obj, "functions", list);
	json_object_array_add(doc, obj);
}
