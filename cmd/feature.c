// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop feature: what this kernel and this user can do, and what attach will use.
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "attach/calibrate.h"
#include "attach/feature.h"
#include "cli/cmd.h"
#include "show/json_feature.h"
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

static const char *word(enum answer answer, const char *yes, const char *no)
{
	return answer == ANSWER_YES ? yes : answer == ANSWER_NO ? no : "not known";
}

static void line(struct table *t, const char *what, const char *state, const char *why)
{
	table_cell(t, "%s", what);
	table_cell(t, "%s", state);
	table_cell(t, "%s", why);
}

static void setting_line(
	struct table *t, const char *name, int64_t value, const char *why)
{
	table_cell(t, "%s", name);
	table_cell(t, value == FEATURE_UNKNOWN ? "not known" : "%" PRId64, value);
	table_cell(t, "%s", why);
}

static void limit_line(struct table *t, const char *name, uint64_t value, const char *why)
{
	table_cell(t, "%s", name);
	table_cell(t, value == UINT64_MAX ? "unlimited" : "%" PRIu64, value);
	table_cell(t, "%s", why);
}

static bool has_long_nops(const struct feature_report *r)
{
	return !strcmp(r->machine, "x86_64");
}

static void experiment_lines(struct table *t, const struct feature_report *r)
{
	static const struct {
		const char *what, *yes, *no;
		bool x86;
	} rows[EXPERIMENT_CNT] = {
		[EXPERIMENT_RETURN] = { "return probes", "safe", "unsafe" },
		[EXPERIMENT_SECCOMP] = { "  under seccomp", "safe", "unsafe" },
		[EXPERIMENT_SHADOW] = { "  with shadow stacks", "safe", "unsafe" },
		[EXPERIMENT_CALL] = { "probes on a call", "safe", "unsafe" },
		[EXPERIMENT_NOP5] = { "probes on a 5-byte nop", "safe", "unsafe", true },
		[EXPERIMENT_MULTINOP] = { "multi-byte nops", "emulated", "stepped",
			true },
	};

	for (size_t i = 0; i < EXPERIMENT_CNT; i++) {
		if (rows[i].x86 && !has_long_nops(r))
			continue;
		line(t, rows[i].what,
			word(r->experiments[i].answer, rows[i].yes, rows[i].no),
			r->experiments[i].why);
	}
}

static void kernel_lines(struct table *t, const struct feature_report *r)
{
	char what[64];

	line(t, "kernel", r->release, r->machine);
	line(t, "BTF", r->btf ? "yes" : "no", "/sys/kernel/btf/vmlinux");
	table_cell(t, "JIT");
	table_cell(t, "%s",
		r->jit == FEATURE_UNKNOWN ? "not known"
			: r->jit          ? "on"
					  : "off");
	table_cell(t, "net.core.bpf_jit_enable");
	for (size_t i = 0; i < FEATURE_LINK_CNT; i++) {
		snprintf(
			what, sizeof(what), "%s links", link_mode_name(r->links[i].mode));
		line(t, what, word(r->links[i].available, "yes", "no"), r->links[i].why);
	}
	line(t, "bpf_get_func_ip()", word(r->func_ip, "yes", "no"),
		"in programs of session and multi links");
}

static void caller_lines(struct table *t, const struct feature_report *r)
{
	line(t, "bpffs", r->bpffs_usable ? "usable" : "not usable",
		r->bpffs_why[0]            ? r->bpffs_why
			: r->bpffs_mounted ? r->bpffs
					   : "attach will mount it");
	for (size_t i = 0; i < FEATURE_CAP_CNT; i++)
		line(t, r->caps[i].name, r->caps[i].effective ? "yes" : "no",
			r->caps[i].purpose);
	setting_line(t, "unprivileged_bpf_disabled", r->unprivileged_bpf_disabled,
		"0: every user may load some programs, not these");
	setting_line(t, "perf_event_paranoid", r->perf_event_paranoid,
		"CAP_PERFMON overrides it");
	setting_line(t, "bpf_stats_enabled", r->bpf_stats_enabled,
		"1: the kernel measures programs, which costs a little");
	limit_line(t, "open files", r->nofile, "ulimit -n; raised as far as allowed");
	limit_line(t, "locked memory", r->memlock,
		"ulimit -l, in bytes; not used since 5.11");
}

static void print_report(const struct globals *g, const struct feature_report *r)
{
	static const struct table_column columns[] = { { "FEATURE", TABLE_LEFT, false },
		{ "STATE", TABLE_LEFT, false }, { "REMARK", TABLE_LEFT, true } };
	_cleanup_table_ struct table *t = table_new(columns, ARRAY_SIZE(columns));
	char took[TEXT_NUM_LEN];

	kernel_lines(t, r);
	experiment_lines(t, r);
	caller_lines(t, r);
	table_print(t, g, stdout);
	printf("\nattach uses %s%s; return probes %s%s\n",
		r->link ? link_mode_name(r->link) : "nothing: it cannot attach",
		r->link ? " links" : "",
		r->rules.return_unsafe ? "only with --exit return"
				       : "where a function is known to be safe",
		!has_long_nops(r)              ? ""
			: r->rules.nop5_unsafe ? "; 5-byte nops are stepped over"
					       : "; 5-byte nops are probed");
	printf("experiments %s\n",
		r->cached ? "made before, since the last boot; --fresh makes them again"
			  : text_duration(r->experiments_ns, took));
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
		return json_feature(g, &report, calibrated ? &calibration : NULL);
	print_report(g, &report);
	print_calibration(calibrated ? &calibration : NULL);
	return EXIT_DONE;
}

const struct command cmd_feature = { "feature", "", "what this kernel and user can do",
	run };
