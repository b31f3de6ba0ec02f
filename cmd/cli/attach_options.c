// SPDX-License-Identifier: BSD-2-Clause
// The options of funcsnoop attach and run.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "cli/cmd.h"
#include "proc/proc.h"
#include "target/kind.h"

enum {
	KEY_NAME = 0x100,
	KEY_COMM,
	KEY_CGROUP,
	KEY_SLOW,
	KEY_COUNT,
	KEY_NO_PROCESSES,
	KEY_NO_NESTING,
	KEY_SPLIT,
	KEY_RAW,
	KEY_EXIT,
	KEY_SITE,
	KEY_LINK,
	KEY_SAMPLE,
	KEY_REPLACE,
	KEY_CONFIG,
	KEY_FORCE,
	KEY_MODE,
	KEY_OWNER,
	KEY_MODE_ALL,
	KEY_CHILDREN,
	KEY_UID,
	KEY_TID,
	KEY_FOR,
	KEY_IF,
	KEY_BUDGET,
	KEY_KEY,
	KEY_SUM,
	KEY_KEYS,
	KEY_STACKS,
	KEY_RATE,
	KEY_DUTY,
	KEY_NO_KEYS,
	KEY_MEMORY,
	KEY_BLOCKS,
	KEY_REFRESH,
};

static const struct argp_option options[] = {
	{ "lib", 'l', "LIB", 0, "Library, program: path, soname, stem; repeatable", 1 },
	{ "pid", 'p', "PID", 0, "Only this process; it tells the library", 1 },
	{ "config", KEY_CONFIG, "FILE", 0, "Groups from a JSON file", 1 },
	{ "slow", KEY_SLOW, "[FUNC=]DUR", 0,
		"Calls of this length or more are remembered", 1 },
	{ "if", KEY_IF, "COND", 0, "Only calls with such arguments: 'size >= 1M'", 1 },
	{ "count", KEY_COUNT, NULL, 0, "Count entries only: cheapest, harmless on all",
		1 },
	{ "dry-run", 'n', NULL, 0, "Resolve and explain; attach nothing", 1 },
	{ "verbose", 'v', NULL, 0, NULL, USAGE_MORE },
	{ "replace", KEY_REPLACE, NULL, 0, NULL, USAGE_MORE },
	{ "refresh", KEY_REFRESH, NULL, 0, NULL, USAGE_MORE },
	{ "name", KEY_NAME, "NAME", 0, NULL, USAGE_MORE },
	{ "regex", 'r', NULL, 0, NULL, USAGE_MORE },
	{ "children", KEY_CHILDREN, NULL, 0, NULL, USAGE_MORE },
	{ "for", KEY_FOR, "DUR", 0, NULL, USAGE_MORE },
	{ "tid", KEY_TID, "TID", 0, NULL, USAGE_MORE },
	{ "uid", KEY_UID, "USER", 0, NULL, USAGE_MORE },
	{ "comm", KEY_COMM, "NAME", 0, NULL, USAGE_MORE },
	{ "cgroup", KEY_CGROUP, "PATH", 0, NULL, USAGE_MORE },
	{ "raw", KEY_RAW, NULL, 0, NULL, USAGE_MORE },
	{ "exit", KEY_EXIT, "auto|return|early|ret|none", 0, NULL, USAGE_MORE },
	{ "site", KEY_SITE, "auto|entry", 0, NULL, USAGE_MORE },
	{ "no-processes", KEY_NO_PROCESSES, NULL, 0, NULL, USAGE_MORE },
	{ "link", KEY_LINK, "auto|session|multi|perf", 0, NULL, USAGE_MORE },
	{ "cpu", 'c', "N", 0, NULL, USAGE_MORE },
	{ "key", KEY_KEY, "KEY[,KEY]", 0, NULL, USAGE_MORE },
	{ "sum", KEY_SUM, "ARG", 0, NULL, USAGE_MORE },
	{ "keys", KEY_KEYS, "N", 0, NULL, USAGE_MORE },
	{ "stacks", KEY_STACKS, "all|python|slow|N", 0, NULL, USAGE_MORE },
	{ "rate", KEY_RATE, "N", 0, NULL, USAGE_MORE },
	{ "duty", KEY_DUTY, "1/N", 0, NULL, USAGE_MORE },
	{ "no-keys", KEY_NO_KEYS, NULL, 0, NULL, USAGE_MORE },
	{ "memory", KEY_MEMORY, NULL, 0, NULL, USAGE_MORE },
	{ "blocks", KEY_BLOCKS, "N", 0, NULL, USAGE_MORE },
	{ "sample", KEY_SAMPLE, "N", 0, NULL, USAGE_MORE },
	{ "overhead", KEY_BUDGET, "SHARE", 0, NULL, USAGE_MORE },
	{ "budget", KEY_BUDGET, "SHARE", OPTION_HIDDEN, NULL, USAGE_MORE },
	{ "split", KEY_SPLIT, NULL, 0, NULL, USAGE_MORE },
	{ "no-nesting", KEY_NO_NESTING, NULL, 0, NULL, USAGE_MORE },
	{ "force", KEY_FORCE, NULL, 0, NULL, USAGE_MORE },
	{ "mode", KEY_MODE, "MODE", 0, NULL, USAGE_MORE },
	{ "owner", KEY_OWNER, "USER:GROUP", 0, NULL, USAGE_MORE },
	{ "mode-all", KEY_MODE_ALL, NULL, 0, NULL, USAGE_MORE }, { 0 }
};

static const char help[] =
	"Probe functions; the command ends and the kernel keeps counting.\v"
	"GROUP is a preset ('funcsnoop list presets') or a name of your own, then with\n"
	"FUNCTIONs: names, globs, C++ names, name+0xOFF, LIB:func. DUR has ns, us, ms, s.\n"
	"Examples:\n"
	"  funcsnoop attach my 'work_*' --lib /usr/bin/app --slow 5ms";

static void *grow(struct argp_state *state, void *array, size_t cnt, size_t size)
{
	void *more = array_grow(array, cnt, size);

	if (!more)
		argp_failure(state, EXIT_FAILED, ENOMEM, "cannot read options");
	return more;
}

static void parse_slow(
	struct attach_options *o, const char *arg, struct argp_state *state)
{
	const char *eq = strrchr(arg, '=');
	struct draft_slow slow = {};
	struct err err = {};

	if (duration_parse(eq ? eq + 1 : arg, &slow.ns, &err))
		argp_error(state, "--slow: %s", err.msg);
	if (eq) {
		o->owned = grow(state, o->owned, o->owned_cnt, sizeof(*o->owned));
		slow.func = o->owned[o->owned_cnt++] = strndup(arg, eq - arg);
		if (!slow.func)
			argp_failure(state, EXIT_FAILED, ENOMEM, "cannot read options");
	}
	o->slow = grow(state, o->slow, o->draft.slow_cnt, sizeof(*o->slow));
	o->slow[o->draft.slow_cnt++] = slow;
}

static void parse_how(
	struct attach_options *o, int key, const char *arg, struct argp_state *state)
{
	static const enum plan_exit_mode exits[] = { PLAN_MODE_AUTO, PLAN_MODE_RETURN,
		PLAN_MODE_EARLY, PLAN_MODE_RET, PLAN_MODE_NONE };
	static const enum link_mode links[] = { LINK_AUTO, LINK_SESSION, LINK_MULTI,
		LINK_PERF };
	unsigned int choice = choice_parse(state, options, key, arg);

	if (key == KEY_EXIT)
		o->draft.rules.exit = exits[choice];
	else if (key == KEY_SITE)
		o->draft.rules.site_entry = choice;
	else
		o->attach.link = links[choice];
}

static void parse_list(
	struct attach_options *o, int key, char *arg, struct argp_state *state)
{
	struct filter *f = &o->attach.filter;

	switch (key) {
	case 'l':
		o->libs = grow(state, o->libs, o->draft.lib_cnt, sizeof(*o->libs));
		o->libs[o->draft.lib_cnt++] = arg;
		break;
	case 'p':
		o->pids = grow(state, o->pids, o->draft.pid_cnt, sizeof(*o->pids));
		o->pids[o->draft.pid_cnt++] =
			number_parse(state, "--pid", arg, 1, 1U << 22);
		break;
	case 'c':
		o->cpus = grow(state, o->cpus, f->cpu_cnt, sizeof(*o->cpus));
		o->cpus[f->cpu_cnt++] = number_parse(state, "--cpu", arg, 0, 1U << 20);
		break;
	case KEY_COMM:
		o->comms = grow(state, o->comms, f->comm_cnt, sizeof(*o->comms));
		o->comms[f->comm_cnt++] = arg;
		break;
	case KEY_UID:
		o->uids = grow(state, o->uids, f->uid_cnt, sizeof(*o->uids));
		o->uids[f->uid_cnt++] = user_parse(state, "--uid", arg);
		break;
	case KEY_TID:
		o->tids = grow(state, o->tids, f->tid_cnt, sizeof(*o->tids));
		o->tids[f->tid_cnt++] = number_parse(state, "--tid", arg, 1, 1U << 22);
		break;
	default:
		o->cgroups = grow(state, o->cgroups, f->cgroup_cnt, sizeof(*o->cgroups));
		o->cgroups[f->cgroup_cnt++] = arg;
		break;
	}
}

static uint64_t duration_of(struct argp_state *state, const char *option, const char *arg)
{
	struct err err = {};
	uint64_t ns = 0;

	if (duration_parse(arg, &ns, &err))
		argp_error(state, "%s: %s", option, err.msg);
	else if (!ns)
		argp_error(state, "%s '%s' is no time at all", option, arg);
	return ns;
}

static void parse_condition(
	struct attach_options *o, const char *arg, struct argp_state *state)
{
	struct err err = {};

	if (o->attach.condition)
		argp_error(state, "--if more than once: && stands between terms");
	if (condition_parse(arg, &o->condition, &err))
		argp_error(state, "%s", err.msg);
	o->attach.condition = &o->condition;
	o->draft.rules.keep_args = true;
}

static void parse_stacks(struct attach_options *o, const char *arg, struct argp_state *state)
{
	struct err err = {};

	o->keys.stack_late = !strcmp(arg, "slow");
	o->attach.stacks_python = strcmp(arg, "all") != 0;
	o->attach.stacks_of = o->keys.stack_late || !strcmp(arg, "all") || !strcmp(arg, "python")
		? 0
		: (uint32_t)number_parse(state, "--stacks", arg, 1, UINT32_MAX);
	if (!o->attach.stack_cnt && keys_add_stack(&o->keys, &err))
		argp_error(state, "%s", err.msg);
	o->attach.stack_cnt = STACKS_USUAL;
	o->attach.keys = &o->keys;
	/* At the entry a walk begins where the stack pointer is. */
	o->draft.rules.keep_args |= !o->keys.stack_late;
}

void attach_options_use_keys(struct attach_options *o)
{
	o->attach.keys = &o->keys;
	if (!o->keys.rows)
		o->keys.rows = KEYS_USUAL;
}

bool attach_options_show(
	struct attach_options *o, const char *const *keys, size_t key_cnt, bool stacks)
{
	struct err err = {};

	stacks &= !o->attach.stack_cnt;
	if ((stacks || key_cnt) && o->no_keys) {
		cmd_usage(o->g, "--by cannot be combined with --no-keys");
		return false;
	}
	o->shown = keys;
	o->shown_cnt = key_cnt;
	o->draft.rules.keep_args |= stacks || key_cnt;
	if (!stacks)
		return true;
	if (keys_add_stack(&o->keys, &err)) {
		cmd_usage(o->g, "--by stack: %s", err.msg);
		return false;
	}
	o->attach.stack_cnt = STACKS_USUAL;
	attach_options_use_keys(o);
	return true;
}

static void parse_duty(struct attach_options *o, const char *arg, struct argp_state *state)
{
	struct err err = {};

	if (target_gpu_duty(arg, &o->draft.duty, &err))
		argp_error(state, "--duty: %s", err.msg);
}

static void parse_keys(
	struct attach_options *o, int key, const char *arg, struct argp_state *state)
{
	struct err err = {};
	int code = 0;

	if (key == KEY_KEYS)
		o->keys.rows = number_parse(state, "--keys", arg, 1, KEYS_MAX);
	else if (key == KEY_KEY)
		code = keys_add(&o->keys, arg, &err);
	else
		code = keys_add_sum(&o->keys, arg, &err);
	if (code)
		argp_error(state, "%s%s%s", err.msg, err.hint[0] ? "; " : "", err.hint);
	if (!keys_wanted(&o->keys))
		return;
	o->attach.keys = &o->keys;
	o->draft.rules.keep_args = true;
}

static void parse_access(
	struct attach_options *o, int key, const char *arg, struct argp_state *state)
{
	struct access *access = &o->attach.access;
	struct err err = {};

	if (key == KEY_MODE_ALL) {
		access->all = true;
	} else if (key == KEY_OWNER) {
		if (access_parse_owner(arg, &access->uid, &access->gid, &err))
			argp_error(state, "--owner: %s", err.msg);
	} else {
		if (access_parse_mode(arg, &access->mode, &err))
			argp_error(state, "--mode: %s", err.msg);
		o->has_mode = true;
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct attach_options *o = state->input;

	switch (key) {
	case 'l':
	case 'p':
	case 'c':
	case KEY_COMM:
	case KEY_CGROUP:
	case KEY_UID:
	case KEY_TID:
		parse_list(o, key, arg, state);
		break;
	case KEY_FOR:
		o->attach.for_ns = duration_of(state, "--for", arg);
		break;
	case KEY_IF:
		parse_condition(o, arg, state);
		break;
	case 'r':
		o->draft.regex = true;
		break;
	case 'n':
		o->dry_run = true;
		break;
	case 'v':
		o->verbose = true;
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
		o->draft.rules.count_only = true;
		break;
	case KEY_NO_PROCESSES:
		o->attach.processes = false;
		break;
	case KEY_NO_NESTING:
		o->attach.nesting = false;
		break;
	case KEY_SPLIT:
		o->attach.split = true;
		break;
	case KEY_RAW:
		o->attach.raw = true;
		break;
	case KEY_EXIT:
	case KEY_SITE:
	case KEY_LINK:
		parse_how(o, key, arg, state);
		break;
	case KEY_SAMPLE:
		o->attach.sample = number_parse(state, "--sample", arg, 1, 1U << 31);
		break;
	case KEY_BUDGET:
		o->has_overhead = true;
		o->attach.budget.share = strcmp(arg, "none")
			? share_parse(state, "--overhead", arg) : 0;
		break;
	case KEY_REFRESH:
		o->refresh = true;
		o->attach.replace = true;
		break;
	case KEY_REPLACE:
		o->attach.replace = true;
		break;
	case KEY_CHILDREN:
		o->attach.children = true;
		break;
	case KEY_FORCE:
		o->force = true;
		break;
	case KEY_NO_KEYS:
		o->no_keys = true;
		break;
	case KEY_KEY:
	case KEY_SUM:
	case KEY_KEYS:
		parse_keys(o, key, arg, state);
		break;
	case KEY_MEMORY:
		o->memory = true;
		o->draft.rules.keep_args = true;
		break;
	case KEY_BLOCKS:
		o->attach.blocks = number_parse(state, "--blocks", arg, 1, BLOCKS_MAX);
		break;
	case KEY_RATE:
		o->attach.rate = number_parse(state, "--rate", arg, 1, RATE_MAX);
		break;
	case KEY_DUTY:
		parse_duty(o, arg, state);
		break;
	case KEY_STACKS:
		parse_stacks(o, arg, state);
		break;
	case KEY_MODE:
	case KEY_OWNER:
	case KEY_MODE_ALL:
		parse_access(o, key, arg, state);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

/* What is not given back says little without who has taken it. */
static const char *memory_choose(struct attach_options *o)
{
	struct err err = {};

	if (!o->memory)
		return o->attach.blocks ? "--blocks needs --memory: blocks of what?" : NULL;
	if (o->draft.rules.count_only)
		return "--memory needs the ends of calls: not with --count";
	if (o->attach.sample > 1 || (o->has_overhead && o->attach.budget.share))
		return "--memory follows every call: not with --sample or --overhead";
	if (!o->attach.blocks)
		o->attach.blocks = BLOCKS_USUAL;
	if (!o->keys.key_cnt && !o->no_keys && keys_add(&o->keys, "caller", &err))
		return "--memory: no key is left for who calls";
	if (o->keys.key_cnt)
		o->attach.keys = &o->keys;
	return NULL;
}

bool attach_options_parse(struct attach_options *o, int argc, char **argv)
{
	static const struct argp argp = { options, parse,
		.args_doc = "GROUP [FUNCTION...]\n--config FILE [GROUP...]", .doc = help };
	struct access *access = &o->attach.access;
	const char *wrong;

	cmd_parse(o->g, &argp, argc, argv, o, &o->words);
	o->draft.libs = o->libs;
	o->draft.pids = o->pids;
	o->draft.slow = o->slow;
	o->attach.filter.pids = o->pids;
	o->attach.filter.pid_cnt = o->draft.pid_cnt;
	o->attach.filter.comms = o->comms;
	o->attach.filter.cpus = o->cpus;
	o->attach.filter.cgroups = o->cgroups;
	o->attach.filter.uids = o->uids;
	o->attach.filter.tids = o->tids;
	/* What was made in one that is left out would be taken for its caller's own. */
	if (o->attach.sample > 1)
		o->attach.nesting = false;
	if (o->draft.rules.count_only)
		o->draft.rules.exit = PLAN_MODE_NONE;
	/* A group is named so that it may read. */
	if (!o->has_mode && access->gid != (gid_t)-1)
		access->mode = 0640;
	wrong = memory_choose(o);
	if (!o->has_overhead)
		o->attach.budget.share = BUDGET_USUAL;
	o->attach.budget.trims = !o->memory;
	if (o->attach.keys)
		attach_options_use_keys(o);
	if (wrong)
		cmd_usage(o->g, "%s", wrong);
	else if (!o->config && !o->words.cnt)
		cmd_usage(o->g, "no group given");
	else if (o->config && o->name && o->words.cnt != 1)
		cmd_usage(o->g, "--name with --config needs exactly one group");
	else if (o->keys.rows && !o->attach.keys)
		cmd_usage(o->g, "--keys needs --key or --sum: of what?");
	else if (o->keys.stack_late && o->draft.rules.count_only)
		cmd_usage(o->g, "--stacks slow needs the ends of calls: not with --count");
	else if (o->attach.keys && o->no_keys)
		cmd_usage(o->g, "--no-keys does without what --key and --sum ask for");
	else if (o->attach.children && o->attach.filter.tid_cnt)
		cmd_usage(o->g, "--tid and --children exclude each other: threads have none");
	else if (o->attach.children && !o->draft.pid_cnt)
		cmd_usage(o->g, "--children needs --pid: whose?");
	else if (o->verbose && !o->dry_run)
		cmd_usage(o->g, "--verbose goes with --dry-run");
	else if (access->all && access_is_private(access))
		cmd_usage(o->g, "--mode-all needs --mode or --owner");
	else
		return true;
	return false;
}

void attach_options_done(struct attach_options *o)
{
	for (size_t i = 0; i < o->owned_cnt; i++)
		free(o->owned[i]);
	free(o->owned);
	free(o->libs);
	free(o->pids);
	free(o->comms);
	close_fd(o->ender_fd);
	free(o->cpus);
	free(o->uids);
	free(o->tids);
	free(o->cgroups);
	free(o->slow);
	procs_free(o->draft.procs);
}
