// SPDX-License-Identifier: BSD-2-Clause
// CPU samples of the processes of funcsnoop run, in a group of their own: they show what the
// functions that are too expensive to be probed take.
#include <stdio.h>

#include "base/alloc.h"
#include "internal.h"
#include "pins/bpffs.h"

#define ROWS 20

struct samples {
	const struct options *o;
	char name[GROUP_NAME_MAX + 1];
	struct keys keys;
	struct keeper *keeper;
	struct draft *draft;
};

static int attach(struct samples *s, struct bpffs *fs, int pids_fd, struct err *err)
{
	static const char *const functions[] = { "cpu:samples" };
	const struct attach_opts *all = &s->o->attach.attach;
	struct draft_opts how = { .name = s->name,
		.functions = functions,
		.function_cnt = 1,
		.rules = s->o->attach.draft.rules };
	struct attach_opts opts = { .link = all->link,
		.filter = all->filter,
		.children = all->children,
		.pids_fd = pids_fd > 0 ? pids_fd : 0,
		.for_ns = all->for_ns,
		.access = ACCESS_PRIVATE,
		.kept = true,
		.processes = true,
		.keys = &s->keys,
		.stack_cnt = STACKS_USUAL,
		.stacks_python = true };
	struct attach_report report;
	int code;

	s->keys.rows = KEYS_USUAL;
	code = keys_add_stack(&s->keys, err);
	if (!code)
		code = draft_new(&how, &s->draft, err);
	if (!code)
		code = attach_draft(s->draft, &opts, fs, &report, err);
	bpffs_unlock(fs);
	return code;
}

int samples_begin(const struct options *o, struct bpffs *fs, int pids_fd,
	struct samples **ret_samples, struct err *err)
{
	struct samples *s = *ret_samples = xcalloc(1, sizeof(*s));
	int code;

	s->o = o;
	run_group_name(o, "_cpu", s->name);
	code = keeper_start(o->g->bpffs, s->name, &s->keeper, err);
	if (!code)
		code = attach(s, fs, pids_fd, err);
	if (code) {
		samples_free(s);
		*ret_samples = NULL;
	}
	return code;
}

void samples_free(struct samples *s)
{
	if (!s)
		return;
	draft_free(s->draft);
	keeper_free(s->keeper);
	free(s);
}

char *samples_group(struct samples *s)
{
	return s->name;
}

int samples_show(struct samples *s)
{
	struct stats_options o = { .g = s->o->stats.g,
		.view = view_find("flat"),
		.view_set = true,
		.choice = { .top = ROWS, .no_kernel = true, .sort = s->o->stats.choice.sort },
		.format = s->o->stats.format,
		.of_command = s->o->stats.of_command,
		.past = true };
	char *name = s->name;
	int status;

	o.names = (struct words) { &name, 1 };
	printf("On CPU, by samples: also functions that are left out below\n");
	status = stats_options_run(&o);
	printf("\n");
	return status;
}
