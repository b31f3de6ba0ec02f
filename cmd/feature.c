// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop feature: what this kernel and this user can do, and what attach will use.
#include "attach/attach.h"
#include "cli/options.h"
#include "show/table.h"
#include "show/text.h"

/* --- text ----------------------------------------------------------------------------------- */

static void print_report(const struct globals *g, const struct feature_report *r)
{
	static const struct table_column columns[] = { { "FEATURE", TABLE_LEFT, false },
		{ "STATE", TABLE_LEFT, false }, { "REMARK", TABLE_LEFT, TABLE_WRAP } };
	_cleanup_table_ struct grid *t = table_new(columns, ARRAY_SIZE(columns));
	int64_t took_ns = r->facts[FEATURE_EXPERIMENTS_NS].number;
	char state[FEATURE_STATE_LEN], took[TEXT_NUM_LEN];

	for (const struct feature_fact *f = r->facts; f < r->facts + FEATURE_CNT; f++)
		if (f->title) {
			grid_textf(t, "%s", f->title);
			grid_textf(t, "%s", feature_state(f, state));
			grid_textf(t, "%s", f->why);
		}
	grid_print(t, g, false, stdout);
	printf("\nattach uses %s%s; return probes %s%s\n",
		r->link ? link_mode_name(r->link) : "nothing: it cannot attach",
		r->link ? " links" : "",
		r->rules.return_unsafe ? "only with --probe exit=return"
				       : "where a function is known to be safe",
		!r->facts[FEATURE_EXPERIMENTS + EXPERIMENT_NOP5].title ? ""
			: r->rules.nop5_unsafe ? "; 5-byte nops are stepped over"
					       : "; 5-byte nops are probed");
	printf("self-tests %s\n",
		took_ns == FEATURE_UNKNOWN
			? "run before, since the last boot; --fresh runs them again"
			: text_duration(took_ns, took));
	for (size_t i = 0; i < r->hint_cnt; i++)
		printf("hint: %s\n", r->hints[i]);
}

static const char *const price_sites[PRICE_SITES] = { "emulated", "stepped", "syscall" };
static const char *const price_ends[PRICE_ENDS] = { "none", "return", "ret", "jump",
	"early" };

/* System calls may not have been measured, and have two ends. */
static bool is_class(const struct price *price, int site, int end)
{
	return site < PRICE_INSNS || price->whole_ns[site][end];
}

/* "steady within 1.2 %" */
static const char *text_steady(const struct calibration *c, char buf[TEXT_NUM_LEN])
{
	snprintf(buf, TEXT_NUM_LEN, "%s %u.%u %%",
		c->spread <= CALIBRATION_STEADY ? "steady within" : "noisy by", c->spread / 10,
		c->spread % 10);
	return buf;
}

static void print_calibration(
	const struct globals *g, const char *link, const struct calibration *c)
{
	static const struct table_column columns[] = { { "ENTRY", TABLE_LEFT, false },
		{ "END", TABLE_LEFT, false }, { "CORRECTION", TABLE_RIGHT, false },
		{ "OVERHEAD", TABLE_RIGHT, false } };
	char steady[TEXT_NUM_LEN], num[TEXT_NUM_LEN];
	_cleanup_table_ struct grid *t = NULL;

	if (!c) {
		printf("not calibrated; --calibrate measures the overhead of a probed call here\n");
		return;
	}
	printf("calibrated %s, %s links, %s: the overhead of a probed call\n\n",
		text_time(c->price.at_ns, num), link, text_steady(c, steady));
	t = table_new(columns, ARRAY_SIZE(columns));
	for (int i = 0; i < PRICE_SITES * PRICE_ENDS; i++) {
		int site = i / PRICE_ENDS, end = i % PRICE_ENDS;

		if (!is_class(&c->price, site, end))
			continue;
		grid_textf(t, "%s", price_sites[site]);
		grid_textf(t, "%s", price_ends[end]);
		grid_textf(t, "%s",
			!c->price.overhead_ns[site][end] ? "-" : text_duration(
							   c->price.overhead_ns[site][end], num));
		grid_textf(t, "%s", text_duration(c->price.whole_ns[site][end], num));
	}
	grid_print(t, g, false, stdout);
}

/* --- JSON: keys only ever grow (funcsnoop-json(5)) ------------------------------------------ */

/* An unknown answer is null, neither true nor false. */
static void add_answer(struct json *j, const char *key, enum answer answer)
{
	if (answer == ANSWER_UNKNOWN)
		json_set_null(j, key);
	else
		json_set_bool(j, key, answer == ANSWER_YES);
}

/* Adds an element to the array of facts of one form. */
static void add_element(struct json *j, const struct feature_fact *f)
{
	json_open(j, '{');
	json_set_str(j, "name", f->key);
	if (f->form == FEATURE_LINK) {
		add_answer(j, "available", f->answer);
		json_set_str(j, "why", f->why);
	} else {
		add_answer(j, "effective", f->answer);
		json_set_bool(j, "required", f->required);
		json_set_str(j, "purpose", f->why);
	}
	json_close(j, '}');
}

/* Adds a fact that is an object. */
static void add_object(
	struct json *j, const struct feature_fact *f, const struct feature_report *r)
{
	bool folder = f->form == FEATURE_FOLDER;

	json_set_open(j, f->key, '{');
	if (folder) {
		json_set_str(j, "path", r->bpffs);
		json_set_bool(j, "mounted", r->bpffs_mounted);
	}
	add_answer(j, f->words[ANSWER_YES], f->answer);
	json_set_str(j, "why", folder && f->answer == ANSWER_YES ? NULL : f->why);
	json_close(j, '}');
}

static void add_fact(
	struct json *j, const struct feature_fact *f, const struct feature_report *r)
{
	switch (f->form) {
	case FEATURE_TEXT:
		json_set_str(j, f->key, f->text);
		break;
	case FEATURE_ANSWER:
		add_answer(j, f->key, f->answer);
		break;
	case FEATURE_NUMBER:
		if (f->number == FEATURE_UNKNOWN)
			json_set_null(j, f->key);
		else
			json_set_i64(j, f->key, f->number);
		break;
	case FEATURE_TRIED:
	case FEATURE_FOLDER:
		add_object(j, f, r);
		break;
	case FEATURE_LINK:
	case FEATURE_CAP:
		if (f[-1].form != f->form)
			json_set_open(j,
				f->form == FEATURE_LINK ? "links" : "capabilities", '[');
		add_element(j, f);
		if (f[1].form != f->form)
			json_close(j, ']');
		break;
	}
}

/* Adds the choices that attach derives from the facts. */
static void add_attach(struct json *j, const struct feature_report *r)
{
	json_set_open(j, "attach", '{');
	json_set_str(j, "link", r->link ? link_mode_name(r->link) : NULL);
	json_set_bool(j, "return_probes", !r->rules.return_unsafe);
	json_set_bool(j, "nop5_sites", !r->rules.nop5_unsafe);
	json_set_bool(j, "call_sites", !r->rules.call_unsafe);
	json_set_bool(j, "multibyte_nop_sites", r->rules.multinop_emulated);
	json_close(j, '}');
}

/* Adds the overhead per call: for emulated entry probes, then for all classes. */
static void add_calibration(struct json *j, const char *link, const struct calibration *c)
{
	const uint32_t *usual;

	if (!c) {
		json_set_null(j, "calibration");
		return;
	}
	usual = c->price.whole_ns[PRICE_EMULATED];
	json_set_open(j, "calibration", '{');
	json_set_time(j, "measured_at", c->price.at_ns);
	json_set_str(j, "link", link);
	json_set_bool(j, "steady", c->spread <= CALIBRATION_STEADY);
	json_key(j, "spread_percent");
	json_real(j, "%u.%u", c->spread / 10, c->spread % 10);
	json_set_u64(j, "none_ns", usual[PRICE_COUNT]);
	json_set_u64(j, "return_ns", usual[PRICE_RETURN]);
	json_set_u64(j, "ret_ns", usual[PRICE_RET]);
	json_set_open(j, "classes", '[');
	for (int i = 0; i < PRICE_SITES * PRICE_ENDS; i++) {
		int site = i / PRICE_ENDS, end = i % PRICE_ENDS;

		if (!is_class(&c->price, site, end))
			continue;
		json_open(j, '{');
		json_set_str(j, "entry", price_sites[site]);
		json_set_str(j, "end", price_ends[end]);
		json_set_u64_if(j, "overhead_ns", c->price.overhead_ns[site][end],
			c->price.overhead_ns[site][end]);
		json_set_u64(j, "cost_ns", c->price.whole_ns[site][end]);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_close(j, '}');
}

static int print_json(const struct globals *g, const struct feature_report *r,
	const struct calibration *calibration)
{
	struct json *j = json_object(g);

	for (size_t i = 0; i < FEATURE_CNT; i++)
		add_fact(j, &r->facts[i], r);
	add_attach(j, r);
	add_calibration(j, link_mode_name(r->link), calibration);
	json_set_open(j, "hints", '[');
	for (size_t i = 0; i < r->hint_cnt; i++)
		json_str(j, r->hints[i]);
	json_close(j, ']');
	return json_print(j);
}

/* --- the command ----------------------------------------------------------------------------- */

static int run_calibration(const struct globals *g, struct err *err)
{
	_cleanup_bpffs_ struct bpffs fs = BPFFS_NONE;
	enum link_mode mode;
	struct calibration c;
	struct err calls;
	int code;

	code = link_mode_best(&mode, err);
	if (!code)
		code = bpffs_open(g->bpffs, true, &fs, err);
	if (!code)
		code = calibrate(&fs, mode, &c, err);
	/* A kernel may have no tracepoints of system calls. */
	if (!code)
		(void)!calibrate_calls(&fs, &c.price, &calls);
	return code;
}

static int run(struct globals *g, int argc, char **argv)
{
	_cleanup_options_ struct options o;
	struct feature_report report;
	struct calibration calibration;
	struct err err = {};
	bool calibrated;

	cmd_parse(g, &cmd_feature, argc, argv, &o);
	if (o.calibrate && run_calibration(g, &err))
		return cmd_fail(g, &err);
	feature_report(g->bpffs, o.fresh, &report);
	calibrated = report.link && calibration_read(report.link, &calibration);
	if (calibrated)
		(void)!calibration_read_calls(&calibration.price);
	if (g->json)
		return print_json(g, &report, calibrated ? &calibration : NULL);
	print_report(g, &report);
	print_calibration(g, link_mode_name(report.link), calibrated ? &calibration : NULL);
	return EXIT_DONE;
}

const struct command cmd_feature = { "feature", "", "what this kernel and user can do", run,
	ON_FEATURE, NULL, "What this kernel can do, what is safe on it, and what attach will use.\v"
	"Safety is determined by self-tests in child processes, once after each boot.\n"
	"The exit status is 0 even if something is missing.\n"
	"Examples:\n"
	"  funcsnoop feature\n"
	"  funcsnoop feature --json | jq .hints" };
