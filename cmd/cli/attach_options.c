// SPDX-License-Identifier: BSD-2-Clause
// Options of attach and run: filters, keys, stacks, access.
#include <stdlib.h>
#include <string.h>

#include "cli/options.h"
#include "proc/proc.h"
#include "target/kind.h"

/* --- values --------------------------------------------------------------------------------- */

int read_if(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct attach_options *o = at;

	if (o->has_condition)
		return err_set(
			err, -ERR_USAGE, "--if more than once: && stands between terms");
	o->has_condition = true;
	return opt->values && !strcmp(arg, opt->values)
		? 0
		: condition_parse(arg, &o->condition, err);
}

int read_stacks(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct attach_options *o = at;
	int code = 0;

	o->keys.stack_late = !strcmp(arg, "slow");
	o->attach.stacks_python = strcmp(arg, "all") != 0;
	o->attach.stacks_of = 0;
	if (!o->keys.stack_late && strcmp(arg, "all") && strcmp(arg, "python"))
		code = read_number(&o->attach.stacks_of, opt, arg, err);
	if (!code && !o->attach.stack_cnt)
		code = keys_add_stack(&o->keys, err);
	o->attach.stack_cnt = STACKS_USUAL;
	o->attach.keys = &o->keys;
	/* At the entry a walk begins where the stack pointer is. */
	o->draft.rules.keep_args |= !o->keys.stack_late;
	return code;
}

/* Parses --key and --sum. */
int read_key(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct attach_options *o = at;

	o->attach.keys = &o->keys;
	o->draft.rules.keep_args = true;
	return strcmp(opt->name, "key") ? keys_add_sum(&o->keys, arg, err)
					: keys_add(&o->keys, arg, err);
}

int read_duty(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct attach_options *o = at;

	return target_gpu_duty(arg, &o->draft.duty, err) ? err_wrap(err, "--duty") : 0;
}

int read_overhead(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct attach_options *o = at;

	o->has_overhead = true;
	o->attach.budget.share = 0;
	return strcmp(arg, "none") ? read_share(&o->attach.budget.share, opt, arg, err)
				   : 0;
}

int read_link(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	static const enum link_mode links[] = { LINK_AUTO, LINK_SESSION, LINK_MULTI,
		LINK_PERF };
	struct attach_options *o = at;
	unsigned int choice = 0;
	int code = read_choice(&choice, opt, arg, err);

	o->attach.link = links[choice];
	return code;
}

int read_mode(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct attach_options *o = at;

	o->has_mode = true;
	return access_parse_mode(arg, &o->attach.access.mode, err)
		? err_wrap(err, "--mode")
		: 0;
}

int read_owner(void *at, const struct option_row *opt, char *arg, struct err *err)
{
	struct access *access = &((struct attach_options *)at)->attach.access;

	return access_parse_owner(arg, &access->uid, &access->gid, err)
		? err_wrap(err, "--owner")
		: 0;
}

/* --- checks --------------------------------------------------------------------------------- */

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

/* What is not given back says little without who has taken it. */
static const char *memory_choose(struct attach_options *o)
{
	struct err err = {};

	if (!o->memory)
		return NULL;
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

bool attach_options_finish(struct attach_options *o)
{
	struct access *access = &o->attach.access;
	const char *wrong;

	o->draft.libs = o->libs.of;
	o->draft.lib_cnt = o->libs.cnt;
	o->draft.pids = o->pids.of;
	o->draft.pid_cnt = o->pids.cnt;
	o->draft.slow = o->slow.of;
	o->draft.slow_cnt = o->slow.cnt;
	o->attach.filter = (struct filter) { .pids = o->pids.of,
		.pid_cnt = o->pids.cnt,
		.comms = o->comms.of,
		.comm_cnt = o->comms.cnt,
		.cpus = o->cpus.of,
		.cpu_cnt = o->cpus.cnt,
		.cgroups = o->cgroups.of,
		.cgroup_cnt = o->cgroups.cnt,
		.uids = o->uids.of,
		.uid_cnt = o->uids.cnt,
		.tids = o->tids.of,
		.tid_cnt = o->tids.cnt };
	o->attach.condition = o->has_condition ? &o->condition : NULL;
	o->draft.rules.keep_args |= o->has_condition || o->memory;
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
	else if (o->keys.stack_late && o->draft.rules.count_only)
		cmd_usage(
			o->g, "--stacks slow needs the ends of calls: not with --count");
	else if (access->all && access_is_private(access))
		cmd_usage(o->g, "--mode-all needs --mode or --owner");
	else
		return true;
	return false;
}

void attach_options_done(struct attach_options *o)
{
	struct list *const lists[] = { &o->libs, &o->pids, &o->tids, &o->comms,
		&o->cgroups, &o->cpus, &o->uids, &o->slow };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		free(lists[i]->of);
	close_fd(o->ender_fd);
	close_fd(o->guard_fd);
	procs_free(o->draft.procs);
}
