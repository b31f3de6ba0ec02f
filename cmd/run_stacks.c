// SPDX-License-Identifier: BSD-2-Clause
// While funcsnoop run is active: files get their unwind tables as soon as the first stack reaches
// them, and processes stopped for that are resumed. Rows of callers and kernels get their names
// while their processes exist.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "attach/attach.h"
#include "internal.h"
#include "pins/bpffs.h"
#include "stats/stats.h"

struct watch_group {
	struct group *group;
	struct holds *holds; /* or NULL */
	uint32_t met, rows; /* already handled */
};

struct watch {
	struct bpffs *fs;
	struct watch_group *groups;
	size_t cnt;
};

int watch_new(struct bpffs *fs, struct watch **ret_watch, struct err *err)
{
	struct watch *w = *ret_watch = calloc(1, sizeof(*w));

	if (!w)
		return err_sys(err, -ENOMEM, "cannot watch stacks");
	w->fs = fs;
	return 0;
}

void watch_free(struct watch *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->cnt; i++) {
		holds_free(w->groups[i].holds);
		group_free(w->groups[i].group);
	}
	free(w->groups);
	free(w);
}

static bool is_watched(const struct watch *w, const char *name)
{
	for (size_t i = 0; i < w->cnt; i++)
		if (!strcmp(group_name(w->groups[i].group), name))
			return true;
	return false;
}

/* A group that cannot be opened now is tried again. */
static void watch_add(struct watch *w, const char *name)
{
	struct watch_group *grown = array_grow(w->groups, w->cnt, sizeof(*grown));
	struct watch_group new = {};

	if (!grown)
		return;
	w->groups = grown;
	if (group_open(w->fs, name, true, &new.group, NULL)) {
		group_free(new.group);
		return;
	}
	if (holds_open(w->fs, name, &new.holds, NULL))
		new.holds = NULL;
	grown[w->cnt++] = new;
}

/* A stopped process has reached a file without an unwind table. */
static void look(struct watch *w, struct watch_group *g)
{
	pid_t pid = g->holds ? holds_next(g->holds) : 0;
	uint32_t met = stacks_met(g->group);

	if (!pid && met == g->met)
		return;
	g->met = met;
	/* A failure is retried at the next new file, or by the next command. */
	(void)!stacks_meet(w->fs, g->group, false, NULL);
	for (; pid; pid = holds_next(g->holds))
		holds_let_go(g->holds, pid);
}

void watch_step(struct watch *w, const struct words *groups)
{
	for (size_t i = 0; i < groups->cnt; i++)
		if (!is_watched(w, groups->word[i]))
			watch_add(w, groups->word[i]);
	for (size_t i = 0; i < w->cnt; i++) {
		look(w, &w->groups[i]);
		stats_name_rows(w->fs, w->groups[i].group, &w->groups[i].rows);
		if (w->groups[i].holds)
			holds_settle(w->groups[i].holds);
	}
}
