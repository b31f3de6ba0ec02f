// SPDX-License-Identifier: BSD-2-Clause
// Opens the groups of a command line.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "cli/cmd.h"
#include "group/group.h"
#include "stats/stats.h"
#include "stream/stream.h"

/* Opens a group for writing, to sweep it. A reader without that permission opens it read-only. */
static int open_group(struct bpffs *fs, const char *name, unsigned int mode,
	struct group **ret_group, struct err *err)
{
	int (*open)(const struct bpffs *, const char *, bool, struct group **, struct err *) =
		mode == GROUPS_LIST || mode & GROUPS_BRIEF ? group_open_brief : group_open;
	size_t swept;
	int code;

	code = open(fs, name, true, ret_group, err);
	if ((code == -EACCES || code == -EPERM) && !(mode & GROUPS_CHANGE)) {
		group_free(*ret_group);
		return open(fs, name, false, ret_group, err);
	}
	if (!code && mode & GROUPS_CHANGE)
		code = group_lock(*ret_group, fs, err);
	if (code)
		return code;
	streams_sweep(fs, *ret_group);
	places_sweep(*ret_group);
	code = slots_sweep(*ret_group, &swept, err);
	if (!code)
		code = procs_fold(fs, *ret_group, err);
	return code ? code : stacks_meet(fs, *ret_group, true, err);
}

static bool is_gone(const struct bpffs *fs, const char *name)
{
	_cleanup_close_ int fd = -1;

	return bpffs_open_group(fs, name, &fd, NULL) == -ENOENT;
}

static void leave_out(struct groups *groups, bool excused, const struct err *err)
{
	*array_add(groups->left, groups->left_cnt) = (struct groups_left) { *err, excused };
	groups->failed_cnt += !excused;
}

static int add_group(struct groups *groups, const char *name, bool named,
	unsigned int mode, struct err *err)
{
	struct group *group = NULL;
	bool excused = false;
	int code;

	code = open_group(&groups->fs, name, mode, &group, err);
	if (!code && mode & GROUPS_SHARED) {
		code = group_keep_shared(group, err);
		excused = code == -EACCES;
	}
	/* One that a detach removes meanwhile is not there. */
	if (code && !named && is_gone(&groups->fs, name)) {
		group_free(group);
		return 0;
	}
	if (code && (mode != GROUPS_LIST || !group)) {
		excused |= group && group_is_foreign(group) && !(mode & GROUPS_CHANGE);
		group_free(group);
		if (!(mode & GROUPS_REST) || named || code == -ENOMEM)
			return code;
		leave_out(groups, excused, err);
		return 0;
	}
	if (code)
		groups->error[groups->cnt] = xstrdup(err->msg);
	if (groups->crowded)
		group_close_maps(group);
	groups->group[groups->cnt++] = group;
	return 0;
}

static void drop_group(struct groups *groups, size_t i)
{
	group_free(groups->group[i]);
	free(groups->error[i]);
	groups->cnt--;
	memmove(&groups->group[i], &groups->group[i + 1],
		(groups->cnt - i) * sizeof(*groups->group));
	memmove(&groups->error[i], &groups->error[i + 1],
		(groups->cnt - i) * sizeof(*groups->error));
}

void groups_leave(struct groups *groups, size_t i, const struct err *err)
{
	drop_group(groups, i);
	leave_out(groups, false, err);
}

bool groups_pass(struct groups *groups, size_t i, int code)
{
	if (code && !groups->named && group_is_gone(groups->group[i])) {
		drop_group(groups, i);
		return false;
	}
	if (groups->crowded)
		group_close_maps(groups->group[i]);
	return true;
}

/* As many as reading opens of a group, twice: of intervals there are two readings. */
#define GROUP_FILES 48

static bool is_crowded(size_t cnt)
{
	struct rlimit lim;

	return getrlimit(RLIMIT_NOFILE, &lim) || lim.rlim_cur / GROUP_FILES <= cnt;
}

bool groups_named_before(char *const *names, size_t i)
{
	return ANY_WHERE(i, k, !strcmp(names[k], names[i]));
}

/*
 * The owner of a group may lack access to the lock of bpffs, and then takes only that of the group.
 */
static int lock_folder(struct bpffs *fs, struct err *err)
{
	int code = bpffs_lock(fs, err);

	return code == -EACCES || code == -EPERM ? 0 : code;
}

int groups_open(const struct globals *g, const struct words *names, unsigned int mode,
	struct groups *ret_groups, struct err *err)
{
	_cleanup_names_ char **all = NULL;
	char *const *name = names->word;
	size_t cnt = names->cnt;
	bool named = cnt;
	int code;

	code = bpffs_open(g->bpffs, false, &ret_groups->fs, err);
	if (!code && mode & GROUPS_CHANGE)
		code = lock_folder(&ret_groups->fs, err);
	else if (!code)
		bpffs_tidy(&ret_groups->fs);
	if (!code && !named) {
		code = bpffs_groups(&ret_groups->fs, &all, &cnt, err);
		name = all;
	}
	if (code)
		return code;
	ret_groups->group = xcalloc(cnt + 1, sizeof(*ret_groups->group));
	ret_groups->error = xcalloc(cnt + 1, sizeof(*ret_groups->error));
	ret_groups->named = named;
	ret_groups->crowded = is_crowded(cnt);
	for (size_t i = 0; !code && i < cnt; i++)
		if (!groups_named_before(name, i))
			code = add_group(ret_groups, name[i], named, mode, err);
	if (!code && !ret_groups->cnt && ret_groups->left_cnt && !(mode & GROUPS_SHARED)) {
		*err = ret_groups->left[0].why;
		code = err->code;
	}
	return code;
}

void groups_tell_left(const struct globals *g, const struct groups *groups)
{
	struct globals text_only = *g;

	text_only.json = false;
	for (size_t i = 0; i < groups->left_cnt; i++)
		if (!groups->left[i].excused || !g->quiet)
			cmd_fail(&text_only, &groups->left[i].why);
}

void groups_unlock(struct groups *groups)
{
	for (size_t i = 0; i < groups->cnt; i++)
		group_unlock(groups->group[i]);
	bpffs_unlock(&groups->fs);
}

void groups_done(struct groups *groups)
{
	for (size_t i = 0; i < groups->cnt; i++) {
		group_free(groups->group[i]);
		free(groups->error[i]);
	}
	free(groups->group);
	free(groups->error);
	free(groups->left);
	bpffs_close(&groups->fs);
}
