// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop attach: probe functions, pinned as a group.
#include <errno.h>
#include <stdlib.h>

#include "cli/attach_options.h"
#include "kernel/rules.h"
#include "show/json.h"

/* Above so many processes times functions --force is wanted: each pays for pages and time. */
#define HITS_MAX (64 * 500)

static int check_hits(const struct attach_options *o, const struct target *t,
	size_t *ret_processes, struct err *err)
{
	size_t processes = o->target.pid_cnt;
	int code = 0;

	if (!processes)
		code = target_mappers(t, &processes, err);
	*ret_processes = processes;
	if (code || o->force || processes * t->probed_cnt <= HITS_MAX)
		return code;
	err_set(err, -EPERM, "%zu functions in each of %zu processes would be probed",
		t->probed_cnt, processes);
	return err_hint(err, "--pid or fewer FUNCTIONs make it less; --force does it");
}

static int choose_group(struct attach_options *o, const struct preset_group *preset,
	bool lenient, struct target **ret_target, struct err *err)
{
	o->target.preset = preset;
	o->target.lenient = lenient;
	return target_new(&o->target, ret_target, err);
}

/* All that is known; the error is the one that attaching would have. */
static int explain_group(const struct attach_options *o, const struct target *t,
	struct json_object *doc, struct err *err)
{
	if (!t->failure.code)
		attach_note_left_out(o, t);
	if (doc)
		json_explain_target(doc, t);
	else
		attach_print_target(o, t);
	if (t->failure.code)
		*err = t->failure;
	return t->failure.code;
}

static int attach_group(struct attach_options *o, const struct target *t,
	struct bpffs *fs, struct json_object *doc, struct err *err)
{
	struct attach_report report;
	size_t processes = 0;
	int code = 0;

	if (o->dry_run)
		return explain_group(o, t, doc, err);
	attach_note_left_out(o, t);
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
	attach_note_closed(o, fs);
	if (doc)
		json_add_target(doc, t);
	else if (!o->g->quiet)
		attach_print_done(t, &report, processes);
	return 0;
}

static int attach_one(struct attach_options *o, struct bpffs *fs, struct json_object *doc,
	struct err *err)
{
	_cleanup_target_ struct target *t = NULL;
	struct preset_set *set = NULL;
	int code;

	o->target.functions = (const char *const *)o->words.word + 1;
	o->target.function_cnt = o->words.cnt - 1;
	code = preset_find(o->words.word[0], &set, err);
	if (code && (code != -ENOENT || !o->target.function_cnt))
		return err->hint[0]
			? code
			: err_hint(err,
				  "'funcsnoop list presets' shows them; or give "
				  "FUNCTIONs and --lib to name a group yourself");
	o->target.name = o->name ? o->name : o->words.word[0];
	code = group_name_check(o->target.name, err);
	if (!code)
		code = choose_group(o, set ? &set->groups[0] : NULL, true, &t, err);
	if (!code)
		code = attach_group(o, t, fs, doc, err);
	preset_set_free(set);
	return code;
}

/* All groups of a file or none: what can be known is known before the first is attached. */
static int attach_all(struct attach_options *o, struct target **targets, size_t cnt,
	struct bpffs *fs, struct json_object *doc, struct err *err)
{
	size_t done = 0;
	int code = 0;

	for (; !code && done < cnt; done += !code)
		code = attach_group(o, targets[done], fs, doc, err);
	for (size_t i = done + 1; code && o->dry_run && i < cnt; i++)
		explain_group(o, targets[i], doc, &(struct err) { 0 });
	while (code && !o->dry_run && !o->attach.replace && done--)
		if (!bpffs_retire(fs, targets[done]->name, NULL))
			bpffs_remove(fs, targets[done]->name, NULL, NULL, NULL);
	return code;
}

static int attach_config(struct attach_options *o, struct bpffs *fs,
	struct json_object *doc, struct err *err)
{
	const struct preset_group *group;
	struct preset_set *set = NULL;
	int code = config_load(o->config, &set, err);
	struct target **targets;
	size_t cnt = 0, wanted;

	for (size_t i = 0; !code && i < o->words.cnt; i++)
		if (!preset_set_group(set, o->words.word[i]))
			code = err_set(err, -ENOENT, "no group '%s' in %s", o->words.word[i],
				o->config);
	wanted = o->words.cnt ? o->words.cnt : code ? 0 : set->group_cnt;
	targets = calloc(wanted + 1, sizeof(struct target *));
	if (!code && !targets)
		code = err_sys(err, -ENOMEM, "cannot read '%s'", o->config);
	for (; !code && cnt < wanted; cnt += !code) {
		group = o->words.cnt ? preset_set_group(set, o->words.word[cnt])
				    : &set->groups[cnt];
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

static int run_parsed(struct attach_options *o)
{
	_cleanup_json_ struct json_object *doc = o->g->json ? json_array() : NULL;
	_cleanup_bpffs_ struct bpffs fs = BPFFS_NONE;
	struct err err = {};
	int code;

	kernel_rules(&o->target.rules);
	o->target.explain = o->dry_run;
	code = o->config ? attach_config(o, &fs, doc, &err)
			 : attach_one(o, &fs, doc, &err);
	if (code && doc && o->dry_run) {
		cmd_show_error(o->g, &err);
		json_error_groups(o->g, err.msg, TAKE_PTR(doc));
		return EXIT_FAILED;
	}
	if (code)
		return cmd_fail(o->g, &err);
	return doc ? json_print(o->g, TAKE_PTR(doc)) : EXIT_DONE;
}

static int run(struct globals *g, int argc, char **argv)
{
	__cleanup(attach_options_done) struct attach_options o = { .g = g };

	o.attach.processes = true;
	o.attach.access = (struct access)ACCESS_PRIVATE;
	o.attach.progress = attach_show_progress;
	o.attach.progress_arg = g;
	return attach_options_parse(&o, argc, argv) ? run_parsed(&o) : EXIT_USAGE;
}

const struct command cmd_attach = { "attach", "GROUP [FUNCTION...]",
	"probe functions, pinned as GROUP", run };
