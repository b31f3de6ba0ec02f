// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop attach: probe functions, pinned as a group.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach.h"
#include "cmd.h"
#include "duration.h"
#include "feature.h"
#include "functions.h"
#include "json.h"
#include "mappers.h"
#include "text.h"

struct options {
	struct globals *g;
	struct target_opts target;
	struct attach_opts attach;
	const char *name, *config;
	const char **words; /* GROUP is taken off; FUNCTIONs or, with --config, groups */
	size_t word_cnt;
	const char **libs;
	pid_t *pids;
	const char **comms, **cgroups;
	uint32_t *cpus;
	struct target_slow *slow;
	char **owned; /* names cut from --slow */
	size_t owned_cnt;
	bool dry_run, force;
};

enum {
	KEY_NAME = 0x100,
	KEY_COMM,
	KEY_CGROUP,
	KEY_SLOW,
	KEY_COUNT,
	KEY_NO_PROCESSES,
	KEY_EXIT,
	KEY_SITE,
	KEY_LINK,
	KEY_SAMPLE,
	KEY_REPLACE,
	KEY_CONFIG,
	KEY_FORCE,
};

static const struct argp_option options[] = {
	{ "lib", 'l', "LIB", 0, "Library or executable: path, soname or stem; repeatable", 1 },
	{ "pid", 'p', "PID", 0, "Only this process, which tells the library; repeatable", 1 },
	{ "config", KEY_CONFIG, "FILE", 0, "Groups from a JSON file", 1 },
	{ "name", KEY_NAME, "NAME", 0, "Pin under another name than the preset's", 1 },
	{ "regex", 'r', NULL, 0, "FUNCTIONs are regular expressions", 1 },
	{ "comm", KEY_COMM, "NAME", 0, "Only threads of this command name; repeatable", 2 },
	{ "cgroup", KEY_CGROUP, "PATH", 0, "Only this cgroup v2 and all below; repeatable", 2 },
	{ "cpu", 'c', "N", 0, "Only this CPU; repeatable", 2 },
	{ "slow", KEY_SLOW, "[FUNC=]DUR", 0, "Calls of this length or more are slow, remembered",
		2 },
	{ "count", KEY_COUNT, NULL, 0, "Count entries only: cheapest, harmless on all", 2 },
	{ "sample", KEY_SAMPLE, "N", 0, "Time one call of N; all are counted", 2 },
	{ "no-processes", KEY_NO_PROCESSES, NULL, 0, "No statistics per process", 2 },
	{ "exit", KEY_EXIT, "HOW", 0, "How ends are seen: auto, return, ret or none", 3 },
	{ "site", KEY_SITE, "WHERE", 0, "Where entry probes go: auto or entry", 3 },
	{ "link", KEY_LINK, "KIND", 0, "Kernel link: auto, session, multi or perf", 3 },
	{ "dry-run", 'n', NULL, 0, "Resolve and explain; attach nothing", 4 },
	{ "replace", KEY_REPLACE, NULL, 0, "Take the place of a group of that name", 4 },
	{ "force", KEY_FORCE, NULL, 0, "Do it although very much is hit", 4 },
	{ 0 }
};

static const char help[] =
	"Probe functions; the command ends and the kernel keeps counting.\v"
	"GROUP is a preset ('funcsnoop list presets') or a name of your own, then with\n"
	"FUNCTIONs: names, globs, C++ names, name+0xOFF, LIB:func. DUR has ns, us, ms or s.\n"
	"\n"
	"Examples:\n"
	"  funcsnoop attach cuda --lib libcudart.so\n"
	"  funcsnoop attach my 'work_*' --lib /usr/bin/app --slow 5ms\n"
	"  funcsnoop attach cuda --dry-run";

/* --- options -------------------------------------------------------------------------------- */

static void *grow(struct argp_state *state, void *array, size_t cnt, size_t size)
{
	void *more = array_grow(array, cnt, size);

	if (!more)
		argp_failure(state, EXIT_FAILED, ENOMEM, "cannot read options");
	return more;
}

static void parse_slow(struct options *o, const char *arg, struct argp_state *state)
{
	const char *eq = strrchr(arg, '=');
	struct target_slow slow = {};
	struct err err = {};

	if (duration_parse(eq ? eq + 1 : arg, &slow.ns, &err))
		argp_error(state, "--slow: %s", err.msg);
	if (eq) {
		o->owned = grow(state, o->owned, o->owned_cnt, sizeof(*o->owned));
		slow.func = o->owned[o->owned_cnt++] = strndup(arg, eq - arg);
		if (!slow.func)
			argp_failure(state, EXIT_FAILED, ENOMEM, "cannot read options");
	}
	o->slow = grow(state, o->slow, o->target.slow_cnt, sizeof(*o->slow));
	o->slow[o->target.slow_cnt++] = slow;
}

static unsigned long parse_number(const char *what, const char *arg, unsigned long min,
	unsigned long max, struct argp_state *state)
{
	unsigned long n;
	char *end;

	errno = 0;
	n = strtoul(arg, &end, 10);
	if (errno || end == arg || *end || arg[0] == '-' || n < min || n > max)
		argp_error(state, "%s '%s' is not a number from %lu to %lu", what, arg, min, max);
	return n;
}

static void parse_exit(struct options *o, const char *arg, struct argp_state *state)
{
	static const struct {
		const char *name;
		enum plan_exit_mode mode;
	} modes[] = { { "auto", PLAN_MODE_AUTO }, { "return", PLAN_MODE_RETURN },
		{ "ret", PLAN_MODE_RET }, { "none", PLAN_MODE_NONE } };

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
		if (!strcmp(arg, modes[i].name)) {
			o->target.rules.exit = modes[i].mode;
			return;
		}
	argp_error(state, "--exit is auto, return, ret or none, not '%s'", arg);
}

static void parse_how(struct options *o, int key, const char *arg, struct argp_state *state)
{
	if (key == KEY_EXIT) {
		parse_exit(o, arg, state);
	} else if (key == KEY_SITE) {
		if (strcmp(arg, "auto") && strcmp(arg, "entry"))
			argp_error(state, "--site is auto or entry, not '%s'", arg);
		o->target.rules.site_entry = !strcmp(arg, "entry");
	} else if (link_mode_parse(arg, &o->attach.link)) {
		argp_error(state, "--link is auto, session, multi or perf, not '%s'", arg);
	}
}

static void parse_list(struct options *o, int key, char *arg, struct argp_state *state)
{
	struct filter *f = &o->attach.filter;

	switch (key) {
	case 'l':
		o->libs = grow(state, o->libs, o->target.lib_cnt, sizeof(*o->libs));
		o->libs[o->target.lib_cnt++] = arg;
		break;
	case 'p':
		o->pids = grow(state, o->pids, o->target.pid_cnt, sizeof(*o->pids));
		o->pids[o->target.pid_cnt++] = parse_number("--pid", arg, 1, 1U << 22, state);
		break;
	case 'c':
		o->cpus = grow(state, o->cpus, f->cpu_cnt, sizeof(*o->cpus));
		o->cpus[f->cpu_cnt++] = parse_number("--cpu", arg, 0, 1U << 20, state);
		break;
	case KEY_COMM:
		o->comms = grow(state, o->comms, f->comm_cnt, sizeof(*o->comms));
		o->comms[f->comm_cnt++] = arg;
		break;
	case KEY_CGROUP:
		o->cgroups = grow(state, o->cgroups, f->cgroup_cnt, sizeof(*o->cgroups));
		o->cgroups[f->cgroup_cnt++] = arg;
		break;
	default:
		o->words = grow(state, o->words, o->word_cnt, sizeof(*o->words));
		o->words[o->word_cnt++] = arg;
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = o->g;
		break;
	case 'l':
	case 'p':
	case 'c':
	case KEY_COMM:
	case KEY_CGROUP:
	case ARGP_KEY_ARG:
		parse_list(o, key, arg, state);
		break;
	case 'r':
		o->target.regex = true;
		break;
	case 'n':
		o->dry_run = true;
		break;
	case KEY_CONFIG:
		o->config = arg;
		break;
	case KEY_NAME:
		o->name = arg;
		break;
	case KEY_SLOW:
		parse_slow(o, arg, state);
		break;
	case KEY_COUNT:
		o->target.rules.count_only = true;
		break;
	case KEY_NO_PROCESSES:
		o->attach.processes = false;
		break;
	case KEY_EXIT:
	case KEY_SITE:
	case KEY_LINK:
		parse_how(o, key, arg, state);
		break;
	case KEY_SAMPLE:
		o->attach.sample = parse_number("--sample", arg, 1, 1U << 31, state);
		break;
	case KEY_REPLACE:
		o->attach.replace = true;
		break;
	case KEY_FORCE:
		o->force = true;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* --- reporting ------------------------------------------------------------------------------ */

static void show_progress(const char *what, size_t done, size_t total, void *arg)
{
	const struct globals *g = arg;

	if (g->quiet || total < 100 || !isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "\r%s %zu of %zu probes%s", what, done, total,
		done == total ? "\n" : "");
}

/* What of a preset or pattern is left out, in a line or two. */
static void note_left_out(const struct options *o, const struct target *t)
{
	size_t refused = t->func_cnt - t->probed_cnt;
	const struct target_func *first = &t->funcs[t->probed_cnt];

	if (t->missing_cnt)
		cmd_note(o->g, "not in the library: %zu of preset '%s', such as '%s'", t->missing_cnt,
			o->target.preset->name, t->missing[0]);
	if (refused == 1)
		cmd_note(o->g, "left out: '%s': %s", first->name, first->refused);
	else if (refused)
		cmd_note(o->g, "left out: %zu functions that can't be probed, '%s': %s, ...",
			refused, first->name, first->refused);
}

static void print_target(const struct options *o, const struct target *t)
{
	_cleanup_table_ struct table *table = functions_table();

	for (size_t i = 0; i < t->func_cnt; i++) {
		struct group_func shown = target_func_shown(&t->funcs[i]);

		functions_add(table, &shown, t->funcs[i].refused);
	}
	table_print(table, o->g, stdout);
}

static void print_attached(const struct target *t, const struct attach_report *report,
	size_t processes)
{
	char text[64];
	unsigned int exits = 0;

	for (size_t i = 0; i < t->probed_cnt; i++)
		exits |= 1U << target_func_shown(&t->funcs[i]).exit;
	printf("%s: %zu function%s of ", t->name, t->probed_cnt, t->probed_cnt == 1 ? "" : "s");
	for (size_t i = 0; i < t->lib_cnt && i < 3; i++)
		printf("%s%s", i ? ", " : "", t->libs[i]->path);
	if (t->lib_cnt > 3)
		printf(" and %zu more", t->lib_cnt - 3);
	printf(", mapped by %zu process%s; link %s, exits %s\n", processes,
		processes == 1 ? "" : "es", link_mode_name(report->links),
		text_exits(exits, text, sizeof(text)));
	if (t->timed_cnt < t->probed_cnt)
		printf("%s: %zu without times; 'funcsnoop list functions %s' says why\n",
			t->name, t->probed_cnt - t->timed_cnt, t->name);
}

/* Above so many processes times functions --force is wanted: each pays for pages and time. */
#define HITS_MAX (64 * 500)

static int check_hits(const struct options *o, const struct target *t, size_t *ret_processes,
	struct err *err)
{
	size_t processes = o->target.pid_cnt;
	int code = 0;

	if (!processes)
		code = mappers_count(t, &processes, err);
	*ret_processes = processes;
	if (code || o->force || processes * t->probed_cnt <= HITS_MAX)
		return code;
	err_set(err, -EPERM, "%zu functions in each of %zu processes would be probed",
		t->probed_cnt, processes);
	return err_hint(err, "--pid or fewer FUNCTIONs make it less; --force does it");
}

/* --- attaching ------------------------------------------------------------------------------ */

static int choose_group(struct options *o, const struct preset_group *preset, bool lenient,
	struct target **ret_target, struct err *err)
{
	o->target.preset = preset;
	o->target.lenient = lenient;
	return target_new(&o->target, ret_target, err);
}

static int attach_group(struct options *o, const struct target *t, struct bpffs *fs,
	struct json_object *doc, struct err *err)
{
	struct attach_report report;
	size_t processes = 0;
	int code = 0;

	note_left_out(o, t);
	if (!o->dry_run) {
		code = check_hits(o, t, &processes, err);
		/* A user who can't attach must not make the folder: root would refuse it. */
		if (!code && fs->fd < 0)
			code = attach_choose_link(&o->attach, err);
		if (!code && fs->fd < 0)
			code = bpffs_open(o->g->bpffs, true, fs, err);
		if (!code)
			code = attach_target(t, &o->attach, fs, &report, err);
		if (code)
			return err_wrap(err, "cannot attach group '%s'", t->name);
	}
	if (doc)
		json_add_target(doc, t);
	else if (o->dry_run)
		print_target(o, t);
	else if (!o->g->quiet)
		print_attached(t, &report, processes);
	return 0;
}

static int attach_one(struct options *o, struct bpffs *fs, struct json_object *doc,
	struct err *err)
{
	_cleanup_target_ struct target *t = NULL;
	struct preset_set *set = NULL;
	int code;

	o->target.functions = o->words + 1;
	o->target.function_cnt = o->word_cnt - 1;
	code = preset_find(o->words[0], &set, err);
	if (code == -ENOENT && o->target.function_cnt)
		code = 0;
	else if (code)
		return err->hint[0] ? code :
				      err_hint(err, "'funcsnoop list presets' shows them; or give "
						    "FUNCTIONs and --lib to name a group yourself");
	o->target.name = o->name ? o->name : o->words[0];
	code = group_name_check(o->target.name, err);
	if (!code)
		code = choose_group(o, set ? &set->groups[0] : NULL, true, &t, err);
	if (!code)
		code = attach_group(o, t, fs, doc, err);
	preset_set_free(set);
	return code;
}

/* All groups of a file or none: what can be known is known before the first is attached. */
static int attach_all(struct options *o, struct target **targets, size_t cnt, struct bpffs *fs,
	struct json_object *doc, struct err *err)
{
	size_t done = 0;
	int code = 0;

	for (; !code && done < cnt; done += !code)
		code = attach_group(o, targets[done], fs, doc, err);
	while (code && !o->dry_run && !o->attach.replace && done--)
		if (!bpffs_retire(fs, targets[done]->name, NULL))
			bpffs_remove(fs, targets[done]->name, NULL, NULL, NULL);
	return code;
}

static int attach_config(struct options *o, struct bpffs *fs, struct json_object *doc,
	struct err *err)
{
	const struct preset_group *group;
	struct preset_set *set = NULL;
	int code = config_load(o->config, &set, err);
	struct target **targets;
	size_t cnt = 0, wanted;

	for (size_t i = 0; !code && i < o->word_cnt; i++)
		if (!preset_set_group(set, o->words[i]))
			code = err_set(err, -ENOENT, "no group '%s' in %s", o->words[i],
				o->config);
	wanted = o->word_cnt ? o->word_cnt : code ? 0 : set->group_cnt;
	targets = calloc(wanted + 1, sizeof(struct target *));
	if (!code && !targets)
		code = err_sys(err, -ENOMEM, "cannot read '%s'", o->config);
	for (; !code && cnt < wanted; cnt += !code) {
		group = o->word_cnt ? preset_set_group(set, o->words[cnt]) : &set->groups[cnt];
		o->target.name = o->name ? o->name : group->name;
		code = choose_group(o, group, false, &targets[cnt], err);
	}
	if (!code)
		code = attach_all(o, targets, cnt, fs, doc, err);
	while (cnt)
		target_free(targets[--cnt]);
	free(targets);
	preset_set_free(set);
	return code;
}

static int run_parsed(struct options *o)
{
	struct json_object *doc = o->g->json ? json_array() : NULL;
	_cleanup_bpffs_ struct bpffs fs = BPFFS_NONE;
	struct err err = {};
	int code;

	o->target.libs = o->libs;
	o->target.pids = o->pids;
	o->target.slow = o->slow;
	o->attach.filter.pids = o->pids;
	o->attach.filter.pid_cnt = o->target.pid_cnt;
	o->attach.filter.comms = o->comms;
	o->attach.filter.cpus = o->cpus;
	o->attach.filter.cgroups = o->cgroups;
	feature_rules(&o->target.rules);
	if (o->target.rules.count_only)
		o->target.rules.exit = PLAN_MODE_NONE;
	code = o->config ? attach_config(o, &fs, doc, &err) : attach_one(o, &fs, doc, &err);
	if (code)
		return cmd_fail(o->g, &err);
	return doc ? json_print(o->g, doc) : EXIT_DONE;
}

static int run(struct globals *g, int argc, char **argv)
{
	static const struct argp_child children[] = { { &globals_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = { options, parse,
		"GROUP [FUNCTION...]\n--config FILE [GROUP...]", help, children, NULL, NULL };
	struct options o = { .g = g, .attach = { .processes = true } };
	int status;

	o.attach.progress = show_progress;
	o.attach.progress_arg = g;
	cmd_parse(g, &argp, argc, argv, &o);
	if (!o.config && !o.word_cnt)
		status = cmd_usage(g, "no group given");
	else if (o.config && o.name && o.word_cnt != 1)
		status = cmd_usage(g, "--name with --config needs exactly one group");
	else
		status = run_parsed(&o);
	for (size_t i = 0; i < o.owned_cnt; i++)
		free(o.owned[i]);
	free(o.owned);
	free(o.words);
	free(o.libs);
	free(o.pids);
	free(o.comms);
	free(o.cpus);
	free(o.cgroups);
	free(o.slow);
	return status;
}

const struct command cmd_attach = { "attach", "GROUP [FUNCTION...]",
	"probe functions, pinned as GROUP", run };
