// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop feature: what this kernel and this user can do, and what attach will use.
#include "attach/calibrate.h"
#include "attach/feature.h"
#include "cli/cmd.h"
#include "show/json.h"
#include "show/json_set.h"
#include "show/text.h"

struct options {
	bool fresh, calibrate;
};

enum { KEY_FRESH = 0x100, KEY_CALIBRATE };

static const struct argp_option options[] = {
	{ "fresh", KEY_FRESH, NULL, 0, "Make the experiments again", 1 },
	{ "calibrate", KEY_CALIBRATE, NULL, 0,
		"Measure what a probed call costs here, for 'list' and 'stats'", 1 },
	{ 0 },
};

static const char help[] =
	"What this kernel can do, what is safe on it, and what attach will use.\v"
	"Safety is found by experiment, in processes of its own, once after each boot.\n"
	"The status is 0 also when something is missing.\n"
	"Examples:\n"
	"  funcsnoop feature\n"
	"  funcsnoop feature --json | jq .hints";

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case KEY_FRESH:
		o->fresh = true;
		return 0;
	case KEY_CALIBRATE:
		o->calibrate = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* --- text ----------------------------------------------------------------------------------- */

static void print_report(const struct globals *g, const struct feature_report *r)
{
	static const struct table_column columns[] = { { "FEATURE", TABLE_LEFT, false },
		{ "STATE", TABLE_LEFT, false }, { "REMARK", TABLE_LEFT, true } };
	_cleanup_table_ struct table *t = table_new(columns, ARRAY_SIZE(columns));
	int64_t took_ns = r->facts[FEATURE_EXPERIMENTS_NS].number;
	char state[FEATURE_STATE_LEN], took[TEXT_NUM_LEN];

	for (const struct feature_fact *f = r->facts; f < r->facts + FEATURE_CNT; f++)
		if (f->title) {
			table_cell(t, "%s", f->title);
			table_cell(t, "%s", feature_state(f, state));
			table_cell(t, "%s", f->why);
		}
	table_print(t, g, stdout);
	printf("\nattach uses %s%s; return probes %s%s\n",
		r->link ? link_mode_name(r->link) : "nothing: it cannot attach",
		r->link ? " links" : "",
		r->rules.return_unsafe ? "only with --exit return"
				       : "where a function is known to be safe",
		!r->facts[FEATURE_EXPERIMENTS + EXPERIMENT_NOP5].title ? ""
			: r->rules.nop5_unsafe ? "; 5-byte nops are stepped over"
					       : "; 5-byte nops are probed");
	printf("experiments %s\n",
		took_ns == FEATURE_UNKNOWN
			? "made before, since the last boot; --fresh makes them again"
			: text_duration(took_ns, took));
	for (size_t i = 0; i < r->hint_cnt; i++)
		printf("hint: %s\n", r->hints[i]);
}

static void print_calibration(const struct calibration *c)
{
	char counted[TEXT_NUM_LEN], by_return[TEXT_NUM_LEN], by_ret[TEXT_NUM_LEN];
	char when[TEXT_NUM_LEN];

	if (!c) {
		printf("not calibrated; --calibrate measures what a probed call takes here\n");
		return;
	}
	printf("calibrated %s: a probed call takes %s longer if counted,\n"
	       "%s with a return probe, %s with ret probes\n",
		text_time(c->at_ns, when), text_duration(c->ns[GROUP_EXIT_NONE], counted),
		text_duration(c->ns[GROUP_EXIT_RETURN], by_return),
		text_duration(c->ns[GROUP_EXIT_RET], by_ret));
}

/* --- JSON: keys only ever grow (funcsnoop-json(5)) ------------------------------------------ */

/* What is not known is null, neither true nor false. */
static struct json_object *json_answer(enum answer answer)
{
	return answer == ANSWER_UNKNOWN ? NULL : json_flag(answer == ANSWER_YES);
}

/* The array that @list is, made with the first of its elements. */
static struct json_object *add_to(
	struct json_object *doc, const char *list, const struct feature_fact *f)
{
	struct json_object *array, *element = json_new();

	if (!json_object_object_get_ex(doc, list, &array))
		json_set(doc, list, array = json_array());
	json_add(array, element);
	json_set_str(element, "name", f->key);
	return element;
}

static void add_fact(struct json_object *doc, const struct feature_fact *f,
	const struct feature_report *r)
{
	struct json_object *obj;

	switch (f->form) {
	case FEATURE_TEXT:
		json_set_str(doc, f->key, f->text);
		break;
	case FEATURE_ANSWER:
		json_set(doc, f->key, json_answer(f->answer));
		break;
	case FEATURE_NUMBER:
		json_set(doc, f->key,
			f->number == FEATURE_UNKNOWN ? NULL : json_int(f->number));
		break;
	case FEATURE_TRIED:
		json_set(doc, f->key, obj = json_new());
		json_set(obj, f->words[ANSWER_YES], json_answer(f->answer));
		json_set_str(obj, "why", f->why);
		break;
	case FEATURE_FOLDER:
		json_set(doc, f->key, obj = json_new());
		json_set_str(obj, "path", r->bpffs);
		json_set_bool(obj, "mounted", r->bpffs_mounted);
		json_set(obj, f->words[ANSWER_YES], json_answer(f->answer));
		json_set_str(obj, "why", f->answer == ANSWER_YES ? NULL : f->why);
		break;
	case FEATURE_LINK:
		obj = add_to(doc, "links", f);
		json_set(obj, "available", json_answer(f->answer));
		json_set_str(obj, "why", f->why);
		break;
	case FEATURE_CAP:
		obj = add_to(doc, "capabilities", f);
		json_set(obj, "effective", json_answer(f->answer));
		json_set_bool(obj, "required", f->required);
		json_set_str(obj, "purpose", f->why);
		break;
	}
}

/* What attach makes of it all. */
static struct json_object *json_attach(const struct feature_report *r)
{
	struct json_object *attach = json_new();

	json_set_str(attach, "link", r->link ? link_mode_name(r->link) : NULL);
	json_set_bool(attach, "return_probes", !r->rules.return_unsafe);
	json_set_bool(attach, "nop5_sites", !r->rules.nop5_unsafe);
	json_set_bool(attach, "call_sites", !r->rules.call_unsafe);
	json_set_bool(attach, "multibyte_nop_sites", r->rules.multinop_emulated);
	return attach;
}

/* What a probed call takes longer, by how its end is seen. */
static struct json_object *json_calibration(const struct calibration *c)
{
	struct json_object *obj = json_new();

	json_set_time(obj, "measured_at", c->at_ns);
	json_set_u64(obj, "none_ns", c->ns[GROUP_EXIT_NONE]);
	json_set_u64(obj, "return_ns", c->ns[GROUP_EXIT_RETURN]);
	json_set_u64(obj, "ret_ns", c->ns[GROUP_EXIT_RET]);
	return obj;
}

static int print_json(const struct globals *g, const struct feature_report *r,
	const struct calibration *calibration)
{
	struct json_object *doc = json_new(), *hints = json_array();

	for (size_t i = 0; i < FEATURE_CNT; i++)
		add_fact(doc, &r->facts[i], r);
	json_set(doc, "attach", json_attach(r));
	json_set(doc, "calibration", calibration ? json_calibration(calibration) : NULL);
	for (size_t i = 0; i < r->hint_cnt; i++)
		json_add(hints, json_str(r->hints[i]));
	json_set(doc, "hints", hints);
	return json_print(g, doc);
}

/* --- the command ----------------------------------------------------------------------------- */

static int run_calibration(const struct globals *g, struct err *err)
{
	_cleanup_bpffs_ struct bpffs fs = BPFFS_NONE;
	struct calibration c;
	int code;

	code = bpffs_open(g->bpffs, true, &fs, err);
	return code ? code : calibrate(&fs, &c, err);
}

static int run(struct globals *g, int argc, char **argv)
{
	static const struct argp argp = { options, parse, .doc = help };
	struct options o = {};
	struct feature_report report;
	struct calibration calibration;
	struct err err = {};
	bool calibrated;

	cmd_parse(g, &argp, argc, argv, &o, NULL);
	if (o.calibrate && run_calibration(g, &err))
		return cmd_fail(g, &err);
	calibrated = calibration_read(&calibration);
	feature_report(g->bpffs, o.fresh, &report);
	if (g->json)
		return print_json(g, &report, calibrated ? &calibration : NULL);
	print_report(g, &report);
	print_calibration(calibrated ? &calibration : NULL);
	return EXIT_DONE;
}

const struct command cmd_feature = { "feature", "", "what this kernel and user can do",
	run };
