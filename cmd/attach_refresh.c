// SPDX-License-Identifier: BSD-2-Clause
// Attaches a directory of configurations at boot: only groups that are missing or have changed.
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "internal.h"
#include "pins/bpffs.h"
#include "proc/proc.h"
#include "show/text.h"

enum there attach_find_there(
	const struct bpffs *fs, const struct draft *draft, uint64_t definition)
{
	_cleanup_group_ struct group *group = NULL;
	uint64_t until_ns = 0;
	int code = group_open(fs, draft->name, false, &group, NULL);

	if (code)
		return code == -ENOENT ? THERE_NOT : THERE_OTHER;
	if (group_info(group).definition != definition || group_until(group, &until_ns, NULL) ||
		(until_ns && until_ns <= clock_ns(CLOCK_REALTIME)))
		return THERE_OTHER;
	return THERE_SAME;
}

static int is_json(const struct dirent *entry)
{
	size_t len = strlen(entry->d_name);

	return *entry->d_name != '.' && len > 5 && !strcmp(entry->d_name + len - 5, ".json");
}

/* Booting must not block on the writer of a FIFO. */
static int check_file(const char *path, struct err *err)
{
	_cleanup_close_ int fd = proc_open_regular(path, err);

	return fd < 0 ? fd : 0;
}

/* --- which file has which group ------------------------------------------------------------- */

struct folder_group {
	char *name, *file;
};

struct folder_groups {
	struct folder_group *group;
	size_t cnt;
};

static int groups_add(struct folder_groups *groups, const char *name, const char *file)
{
	struct folder_group *grown = array_grow(groups->group, groups->cnt, sizeof(*grown));
	struct folder_group group = { strdup(name), strdup(file) };

	groups->group = grown ? grown : groups->group;
	if (grown && group.name && group.file) {
		groups->group[groups->cnt++] = group;
		return 0;
	}
	free(group.name);
	free(group.file);
	return -ENOMEM;
}

static void groups_clear(struct folder_groups *groups)
{
	while (groups->cnt--) {
		free(groups->group[groups->cnt].name);
		free(groups->group[groups->cnt].file);
	}
	free(groups->group);
}

/* Two groups with one name would replace each other at each start. */
int attach_take_name(struct attach_options *o, const char *name, struct err *err)
{
	struct folder_groups *groups = o->folder;

	for (size_t i = 0; groups && i < groups->cnt; i++)
		if (!strcmp(groups->group[i].name, name))
			return err_set(err, -EEXIST, "group '%s' is that of %s", name,
				groups->group[i].file);
	if (groups && groups_add(groups, name, o->config))
		return err_sys(err, -ENOMEM, "cannot read '%s'", o->config);
	return 0;
}

/* --- the files ------------------------------------------------------------------------------ */

/* Prints the error, if any. */
static int attach_file(struct attach_options *o, const char *folder, const char *name,
	struct bpffs *fs, struct json *doc)
{
	_cleanup_free_ char *path = NULL;
	struct err err = {};
	int code;

	if (asprintf(&path, "%s/%s", folder, name) < 0)
		path = NULL;
	o->config = path;
	code = path ? check_file(path, &err) : err_sys(&err, -ENOMEM, "cannot read '%s'", folder);
	if (!code)
		code = attach_config(o, fs, doc, &err);
	o->config = folder;
	if (code)
		cmd_show_error(o->g, &err);
	return code;
}

int attach_folder(struct attach_options *o, struct bpffs *fs, struct json *doc, struct err *err)
{
	struct folder_groups groups = {};
	const char *folder = o->config;
	struct dirent **entries = NULL;
	int cnt, failed = 0;

	if (o->words.cnt || o->name)
		return err_set(err, -ERR_USAGE, "--config with a directory takes no GROUP and no --name");
	cnt = scandir(folder, &entries, is_json, alphasort);
	if (cnt < 0)
		return err_sys(err, -errno, "cannot read '%s'", folder);
	o->folder = &groups;
	for (int i = 0; i < cnt; i++) {
		failed += attach_file(o, folder, entries[i]->d_name, fs, doc) != 0;
		free(entries[i]);
	}
	free(entries);
	o->folder = NULL;
	groups_clear(&groups);
	if (!cnt)
		cmd_note(o->g, "no file of '%s' ends in .json", folder);
	return failed ? err_set(err, -EIO, "%d of %d files of '%s' failed", failed, cnt, folder) : 0;
}
