// SPDX-License-Identifier: BSD-2-Clause
// What the kernel can do as JSON. Keys only ever grow (funcsnoop-json(5)).
#include "show/json.h"
#include "show/json_feature.h"
#include "show/json_set.h"

/* No limit is null. */
static void add_limit(struct json_object *obj, const char *key, uint64_t value)
{
	if (value == UINT64_MAX)
		json_set_str(obj, key, NULL);
	else
		json_set_u64(obj, key, value);
}

/* What can't be read is null. */
static void add_setting(struct json_object *obj, const char *key, int64_t value)
{
	json_set(obj, key, value == FEATURE_UNKNOWN ? NULL : json_int(value));
}

/* What is not known is null, neither true nor false. */
static void add_answer(struct json_object *obj, const char *key, enum answer answer)
{
	json_set(obj, key,
		answer == ANSWER_UNKNOWN ? NULL : json_flag(answer == ANSWER_YES));
}

static void add_experiment(struct json_object *obj, const char *key, const char *property,
	const struct experiment_result *r)
{
	struct json_object *value = json_new();

	json_set(value, property,
		r->answer == ANSWER_UNKNOWN ? NULL : json_flag(r->answer == ANSWER_YES));
	json_set_str(value, "why", r->why);
	json_set(obj, key, value);
}

static void add_links(struct json_object *obj, const struct feature_report *r)
{
	struct json_object *list = json_array(), *link;

	for (size_t i = 0; i < FEATURE_LINK_CNT; i++) {
		link = json_new();
		json_set_str(link, "name", link_mode_name(r->links[i].mode));
		add_answer(link, "available", r->links[i].available);
		json_set_str(link, "why", r->links[i].why);
		json_add(list, link);
	}
	json_set(obj, "links", list);
}

static void add_capabilities(struct json_object *obj, const struct feature_report *r)
{
	struct json_object *list = json_array(), *cap;

	for (size_t i = 0; i < FEATURE_CAP_CNT; i++) {
		cap = json_new();
		json_set_str(cap, "name", r->caps[i].name);
		json_set_bool(cap, "effective", r->caps[i].effective);
		json_set_bool(cap, "required", r->caps[i].needed);
		json_set_str(cap, "purpose", r->caps[i].purpose);
		json_add(list, cap);
	}
	json_set(obj, "capabilities", list);
}

static void add_bpffs(struct json_object *obj, const struct feature_report *r)
{
	struct json_object *bpffs = json_new();

	json_set_str(bpffs, "path", r->bpffs);
	json_set_bool(bpffs, "mounted", r->bpffs_mounted);
	json_set_bool(bpffs, "usable", r->bpffs_usable);
	json_set_str(bpffs, "why", r->bpffs_why[0] ? r->bpffs_why : NULL);
	json_set(obj, "bpffs", bpffs);
}

/* What attach makes of it all. */
static void add_attach(struct json_object *obj, const struct feature_report *r)
{
	struct json_object *attach = json_new();

	json_set_str(attach, "link", r->link ? link_mode_name(r->link) : NULL);
	json_set_bool(attach, "return_probes", !r->rules.return_unsafe);
	json_set_bool(attach, "nop5_sites", !r->rules.nop5_unsafe);
	json_set_bool(attach, "call_sites", !r->rules.call_unsafe);
	json_set_bool(attach, "multibyte_nop_sites", r->rules.multinop_emulated);
	json_set(obj, "attach", attach);
}

/* What a probed call takes longer, by how its end is seen. */
static struct json_object *calibration_of(const struct calibration *c)
{
	struct json_object *obj = json_new();

	json_set_time(obj, "measured_at", c->at_ns);
	json_set_u64(obj, "none_ns", c->ns[GROUP_EXIT_NONE]);
	json_set_u64(obj, "return_ns", c->ns[GROUP_EXIT_RETURN]);
	json_set_u64(obj, "ret_ns", c->ns[GROUP_EXIT_RET]);
	return obj;
}

int json_feature(const struct globals *g, const struct feature_report *r,
	const struct calibration *calibration)
{
	struct json_object *doc = json_new(), *hints = json_array();
	const struct experiment_result *e = r->experiments;

	json_set_str(doc, "kernel", r->release);
	json_set_str(doc, "machine", r->machine);
	json_set_bool(doc, "btf", r->btf);
	add_setting(doc, "bpf_jit_enable", r->jit);
	add_links(doc, r);
	add_answer(doc, "func_ip", r->func_ip);
	add_experiment(doc, "return_probes", "safe", &e[EXPERIMENT_RETURN]);
	add_experiment(doc, "return_probes_seccomp", "safe", &e[EXPERIMENT_SECCOMP]);
	add_experiment(doc, "return_probes_shadow_stack", "safe", &e[EXPERIMENT_SHADOW]);
	add_experiment(doc, "call", "safe", &e[EXPERIMENT_CALL]);
	add_experiment(doc, "nop5", "safe", &e[EXPERIMENT_NOP5]);
	add_experiment(doc, "multibyte_nops", "emulated", &e[EXPERIMENT_MULTINOP]);
	json_set_bool(doc, "cached", r->cached);
	if (r->cached)
		json_set_str(doc, "experiments_ns", NULL);
	else
		json_set_u64(doc, "experiments_ns", r->experiments_ns);
	add_bpffs(doc, r);
	add_capabilities(doc, r);
	add_setting(doc, "unprivileged_bpf_disabled", r->unprivileged_bpf_disabled);
	add_setting(doc, "perf_event_paranoid", r->perf_event_paranoid);
	add_setting(doc, "bpf_stats_enabled", r->bpf_stats_enabled);
	add_limit(doc, "open_files", r->nofile);
	add_limit(doc, "open_files_max", r->nofile_max);
	add_limit(doc, "locked_memory_bytes", r->memlock);
	add_attach(doc, r);
	json_set(doc, "calibration", calibration ? calibration_of(calibration) : NULL);
	for (size_t i = 0; i < r->hint_cnt; i++)
		json_add(hints, json_str(r->hints[i]));
	json_set(doc, "hints", hints);
	return json_print(g, doc);
}
