// SPDX-License-Identifier: BSD-2-Clause
// From what attach and run are asked for to a group that could be made: found, and judged.
#include <errno.h>

#include "cli/attach_draft.h"
#include "proc/proc.h"

#define HITS_MAX       (64 * 500) /* processes times functions */
#define BYSTANDERS_MAX 64         /* processes that pay for others' children */

int draft_check_hits(const struct attach_options *o, const struct draft *draft,
	size_t *ret_processes, struct err *err)
{
	size_t processes = o->attach.children ? 0 : o->draft.pid_cnt;
	int code = 0;

	if (!processes)
		code = draft_mappers(draft, &processes, err);
	*ret_processes = processes;
	if (code || o->force)
		return code;
	if (o->attach.children && processes > BYSTANDERS_MAX) {
		err_set(err, -EPERM,
			"to follow children, %zu processes would get breakpoints, as they map "
			"the same file",
			processes);
		return err_hint(err,
			"without following them it is the process alone; --force does it");
	}
	if (processes * draft->probed_cnt <= HITS_MAX)
		return 0;
	err_set(err, -EPERM, "%zu functions in each of %zu processes would be probed",
		draft->probed_cnt, processes);
	return err_hint(err, "--pid or fewer FUNCTIONs make it less; --force does it");
}

/* Threads alone: the processes that they belong to are those that are asked for. */
static int processes_of_threads(struct attach_options *o, struct err *err)
{
	const struct filter *f = &o->attach.filter;

	if (!f->tid_cnt || f->pid_cnt)
		return 0;
	o->pids = calloc(f->tid_cnt, sizeof(*o->pids));
	if (!o->pids)
		return err_sys(err, -ENOMEM, "cannot look for threads");
	for (size_t i = 0; i < f->tid_cnt; i++) {
		o->pids[i] = proc_of_thread("/proc", f->tids[i]);
		if (!o->pids[i])
			return err_set(err, -ESRCH, "there is no thread %d", f->tids[i]);
	}
	o->draft.pids = o->attach.filter.pids = o->pids;
	o->draft.pid_cnt = o->attach.filter.pid_cnt = f->tid_cnt;
	return 0;
}

static int check_condition(
	const struct attach_options *o, const struct draft *draft, struct err *err)
{
	size_t never = 0;
	int code = o->attach.condition && draft->probed_cnt
		? attach_check_condition(draft, o->attach.condition, &never, err)
		: 0;

	if (!code && never)
		cmd_note(o->g,
			"no call of %zu of the %zu functions counts: they lack an argument of --if",
			never, draft->probed_cnt);
	return code;
}

int draft_group(struct attach_options *o, const struct preset_group *preset, bool lenient,
	struct draft **ret_draft, struct err *err)
{
	int code = processes_of_threads(o, err);

	o->draft.preset = preset;
	o->draft.lenient = lenient;
	if (!code)
		code = draft_new(&o->draft, ret_draft, err);
	return code ? code : check_condition(o, *ret_draft, err);
}

int draft_of_words(struct attach_options *o, const char *name,
	struct preset_set **ret_set, struct draft **ret_draft, struct err *err)
{
	int code;

	o->draft.functions = (const char *const *)o->words.word + 1;
	o->draft.function_cnt = o->words.cnt - 1;
	code = preset_find(o->words.word[0], ret_set, err);
	if (code && (code != -ENOENT || !o->draft.function_cnt))
		return err->hint[0]
			? code
			: err_hint(err,
				  "'funcsnoop list presets' shows them; or give "
				  "FUNCTIONs and --lib to name a group yourself");
	o->draft.name = name;
	code = group_name_check(name, err);
	return code ? code
		    : draft_group(o, *ret_set ? &(*ret_set)->groups[0] : NULL, true,
			      ret_draft, err);
}

void draft_note_left_out(const struct attach_options *o, const struct draft *draft)
{
	size_t refused = draft->target_cnt - draft->probed_cnt;
	const struct target *first = &draft->targets[draft->probed_cnt];

	if (libfind_crowd(draft->finder))
		cmd_note(o->g,
			"left out: %zu more mapped files of such names, as users map more than %d; "
			"--pid or a path takes them",
			libfind_crowd(draft->finder), LIBFIND_OF_USER);
	if (draft->missing_cnt && o->draft.preset)
		cmd_note(o->g, "not in the library: %zu of preset '%s', such as '%s'",
			draft->missing_cnt, o->draft.preset->name, draft->missing[0]);
	if (refused == 1)
		cmd_note(o->g, "left out: '%s': %s", first->name, first->refused);
	else if (refused)
		cmd_note(o->g,
			"left out: %zu functions that can't be probed, '%s': %s, ...",
			refused, first->name, first->refused);
}
