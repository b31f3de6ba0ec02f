// SPDX-License-Identifier: BSD-2-Clause
// Opening a group, and its maps when they are needed.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include <bpf/bpf.h>

#include "base/text.h"
#include "group/records.h"
#include "group/stacks.h"
#include "proc/proc.h"

/* Adds what to do about a failure of rights; returns @code. */
static int hint_access(int code, bool write, struct err *err)
{
	if ((code == -EPERM || code == -EACCES) && write)
		err_hint(err, BPFFS_HINT_WRITERS);
	else if (code == -EACCES)
		err_hint(err, BPFFS_HINT_READERS);
	else if (code == -EPERM) /* bpf(2) as a whole, before c8644cd0efe7 */
		err_hint(err, "before Linux 5.19 reading needs CAP_BPF, or "
			      "kernel.unprivileged_bpf_disabled=0");
	return code;
}

/* Another group may have got the name since. */
int group_dir_fd(const struct group *g)
{
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (g->dir_fd >= 0)
		return g->dir_fd;
	fd = openat(g->folder_fd, g->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (st.st_ino != g->ino)
		return -ENOENT;
	((struct group *)g)->dir_fd = fd; /* what it says of itself stays as it is */
	return TAKE_FD(fd);
}

static int open_map(struct group *g, enum map_id id, bool write)
{
	_cleanup_close_ int fd = -1;
	int dir_fd = group_dir_fd(g);

	if (dir_fd < 0)
		return dir_fd;
	fd = bpffs_get(dir_fd, map_pin_name(id), write ? 0 : BPF_F_RDONLY);
	if (fd >= 0 && map_check(fd, id, g->meta.map_id[id], &g->entries[id]))
		return -EPROTO;
	return TAKE_FD(fd);
}

/* Who may not write may read, as when all maps are opened. */
static void open_late(struct group *g, enum map_id id)
{
	g->fd[id] = open_map(g, id, g->write);
	if (g->write && (g->fd[id] == -EACCES || g->fd[id] == -EPERM))
		g->fd[id] = open_map(g, id, false);
}

int group_fd(const struct group *g, enum map_id id)
{
	if (g->fd[id] == MAP_LEFT && g->brief)
		open_late((struct group *)g, id);
	return g->fd[id];
}

uint32_t group_entries(const struct group *g, enum map_id id)
{
	/* What was opened once has not changed since. */
	return g->entries[id] || group_fd(g, id) >= 0 ? g->entries[id] : 0;
}

void group_open_keys(const struct group *g)
{
	static const enum map_id maps[] = { MAPID_KEYED_BY, MAPID_KEYS, MAPID_TYPES, MAPID_NAMES,
		MAPID_STACKS, MAPID_FRAMES, MAPID_STACK_FILES, MAPID_FILE_OF, MAPID_PYTHON_CODES,
		MAPID_PYTHON_LINES };

	for (size_t i = 0; g->meta.row_cnt + g->meta.stack_cnt && i < ARRAY_SIZE(maps); i++)
		(void)group_fd(g, maps[i]);
}

bool group_is_gone(const struct group *g)
{
	struct stat st;

	return fstatat(g->folder_fd, g->name, &st, AT_SYMLINK_NOFOLLOW) ? errno == ENOENT
									 : st.st_ino != g->ino;
}

void group_close_maps(struct group *g)
{
	for (int i = 0; g->brief && i < MAPID_CNT; i++)
		if (g->fd[i] >= 0) {
			close(g->fd[i]);
			g->fd[i] = MAP_LEFT;
		}
	if (g->brief)
		g->dir_fd = close_fd(g->dir_fd);
	g->lean = g->brief;
}

/* A part that is missing is told of, whether it is going to be read or not. */
static int check_parts(const struct group *g, struct err *err)
{
	int fd = openat(g->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	bool there[MAPID_CNT] = {};
	struct dirent *d;
	int i;

	while (dir && (d = readdir(dir))) {
		for (i = 0; i < MAPID_CNT && strcmp(d->d_name, map_pin_name(i)) != 0;)
			i++;
		if (i < MAPID_CNT)
			there[i] = true;
	}
	for (i = 0; dir && i < MAPID_CNT; i++)
		if (!there[i])
			return err_sys(err, -ENOENT, "cannot open map '%s' of group '%s'",
				map_pin_name(i), g->name);
	return 0;
}

static int open_maps(struct group *g, struct err *err)
{
	for (int i = 0; i < MAPID_CNT; i++) {
		if (g->brief && !map_is_first(i))
			continue;
		g->fd[i] = open_map(g, i, g->write);
		if (g->fd[i] >= 0)
			continue;
		if (g->fd[i] == -EPROTO)
			return err_set(err, -EPROTO, "group '%s' is damaged: map '%s'",
				g->name, map_pin_name(i));
		/* Who may read the counters reads them: group_map_fd() tells of the rest. */
		if (!g->write && !map_is_counter(i) &&
			(g->fd[i] == -EPERM || g->fd[i] == -EACCES))
			continue;
		err_sys(err, g->fd[i], "cannot open map '%s' of group '%s'", map_pin_name(i),
			g->name);
		return hint_access(g->fd[i], g->write, err);
	}
	return 0;
}

/* Only the first word of meta is the same in every layout. */
static int check_layout(struct group *g, int dir_fd, struct err *err)
{
	_cleanup_close_ int fd = bpffs_get(dir_fd, map_pin_name(MAPID_META), BPF_F_RDONLY);
	struct bpf_map_info info = {};
	__u32 len = sizeof(info), zero = 0;
	_cleanup_free_ char *value = NULL;

	if (fd < 0) {
		err_sys(err, fd, "cannot open group '%s'", g->name);
		return hint_access(fd, g->write, err);
	}
	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return err_sys(err, -errno, "cannot read group '%s'", g->name);
	value = calloc(1, info.value_size + sizeof(g->meta));
	if (!value)
		return err_sys(err, -ENOMEM, "cannot read group '%s'", g->name);
	if (bpf_map_lookup_elem(fd, &zero, value))
		return err_sys(err, -errno, "cannot read group '%s'", g->name);
	memcpy(&g->meta, value, sizeof(g->meta));
	g->foreign = g->meta.layout != FSN_LAYOUT || info.value_size != sizeof(g->meta);
	if (!g->foreign)
		return 0;
	err_set(err, -EPROTO, "group '%s' has layout %u, this command reads layout %u",
		g->name, g->meta.layout, FSN_LAYOUT);
	return err_hint(err, "read it with the version that attached it, or detach it");
}

/* Whether there is as much as is said: sizes are reckoned with these counts. */
static bool counts_fit(const struct group *g)
{
	return g->meta.timed_cnt <= g->meta.fn_cnt &&
		g->meta.fn_cnt <= g->entries[MAPID_FUNCS] &&
		g->meta.lib_cnt <= g->entries[MAPID_LIBS] &&
		(g->brief || (g->meta.type_cnt <= g->entries[MAPID_TYPES] &&
			g->meta.name_cnt <= g->entries[MAPID_NAMES])) &&
		g->meta.text_bytes <= (uint64_t)g->entries[MAPID_TEXT] * FSN_TEXT_LEN;
}

static int read_description(struct group *g, struct err *err)
{
	size_t pieces = ((size_t)g->meta.text_bytes + FSN_TEXT_LEN - 1) / FSN_TEXT_LEN;
	int code;

	if (!counts_fit(g)) {
		g->meta.fn_cnt = g->meta.lib_cnt = 0;
		return err_set(err, -EPROTO, "group '%s' is damaged: its counts", g->name);
	}
	g->funcs = calloc(g->meta.fn_cnt + 1, sizeof(*g->funcs));
	g->libs = calloc(g->meta.lib_cnt + 1, sizeof(*g->libs));
	g->text = calloc(pieces + 1, FSN_TEXT_LEN);
	if (!g->funcs || !g->libs || !g->text)
		return err_sys(err, -ENOMEM, "cannot read group '%s'", g->name);
	code = map_read_fixed(
		g->fd[MAPID_FUNCS], 0, g->meta.fn_cnt, sizeof(*g->funcs), g->funcs);
	if (!code)
		code = map_read_fixed(
			g->fd[MAPID_LIBS], 0, g->meta.lib_cnt, sizeof(*g->libs), g->libs);
	if (!code)
		code = map_read_fixed(
			g->fd[MAPID_TEXT], 0, pieces, FSN_TEXT_LEN, g->text);
	if (code)
		return err_sys(err, code, "cannot read group '%s'", g->name);
	for (uint32_t i = 0; i < g->meta.fn_cnt; i++)
		if (g->funcs[i].lib >= g->meta.lib_cnt || g->funcs[i].exit >= FSN_EXIT_CNT) {
			g->meta.fn_cnt = g->meta.lib_cnt = 0;
			return err_set(err, -EPROTO, "group '%s' is damaged: map '%s'", g->name,
				map_pin_name(MAPID_FUNCS));
		}
	return 0;
}

/* What was read once is not read again: of many groups these are the most descriptors. */
static void close_description(struct group *g)
{
	static const enum map_id maps[] = { MAPID_LIBS, MAPID_FUNCS, MAPID_TEXT };

	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		close_fd(g->fd[maps[i]]);
		g->fd[maps[i]] = MAP_LEFT;
	}
}

static int open_group(const struct bpffs *fs, const char *name, bool write, bool brief,
	struct group **ret_group, struct err *err)
{
	_cleanup_group_ struct group *g = calloc(1, sizeof(*g));
	struct stat st;
	int code;

	*ret_group = NULL;
	if (!g)
		return err_sys(err, -ENOMEM, "cannot open group '%s'", name);
	for (int i = 0; i < MAPID_CNT; i++)
		g->fd[i] = MAP_LEFT;
	g->lock_fd = g->dir_fd = -1;
	g->folder_fd = fs->fd;
	g->write = write;
	g->brief = brief;
	snprintf(g->name, sizeof(g->name), "%s", name);
	code = bpffs_open_group(fs, name, &g->dir_fd, err);
	if (code && code != -EACCES)
		return code;
	if (!code && fstat(g->dir_fd, &st))
		return err_sys(err, -errno, "cannot open group '%s'", name);
	if (!code) {
		g->ino = st.st_ino;
		code = check_layout(g, g->dir_fd, err);
	}
	if (!code && brief)
		code = check_parts(g, err);
	if (!code)
		code = open_maps(g, err);
	if (!code)
		code = read_description(g, err);
	if (!code && brief)
		close_description(g);
	*ret_group = TAKE_PTR(g);
	return code;
}

int group_open(const struct bpffs *fs, const char *name, bool write,
	struct group **ret_group, struct err *err)
{
	return open_group(fs, name, write, false, ret_group, err);
}

int group_open_brief(const struct bpffs *fs, const char *name, bool write,
	struct group **ret_group, struct err *err)
{
	return open_group(fs, name, write, true, ret_group, err);
}

int group_lock(struct group *g, const struct bpffs *fs, struct err *err)
{
	_cleanup_close_ int dir_fd = -1;
	int code = bpffs_open_group(fs, g->name, &dir_fd, err);

	if (code)
		return code;
	if (bpffs_has_lock(dir_fd))
		return bpffs_lock_group(dir_fd, g->name, &g->lock_fd, err);
	if (fs->locked)
		return 0;
	err_set(err, -EACCES, "cannot lock group '%s'", g->name);
	return hint_access(-EACCES, true, err);
}

void group_unlock(struct group *g)
{
	g->lock_fd = close_fd(g->lock_fd);
}

void group_free(struct group *g)
{
	if (!g)
		return;
	for (int i = 0; i < MAPID_CNT; i++)
		close_fd(g->fd[i]);
	close_fd(g->dir_fd);
	group_unlock(g);
	free(g->funcs);
	free(g->libs);
	free(g->text);
	free(g);
}

int group_keep_shared(struct group *g, struct err *err)
{
	g->write = false;
	for (int i = 0; i < MAPID_CNT; i++) {
		struct stat st;

		if (g->fd[i] < 0 && g->fd[i] != MAP_LEFT)
			continue;
		if (fstatat(group_dir_fd(g), map_pin_name(i), &st, AT_SYMLINK_NOFOLLOW))
			return err_sys(err, -errno, "cannot read group '%s'", g->name);
		if (st.st_mode & (S_IRGRP | S_IROTH))
			continue;
		if (map_is_counter(i)) {
			err_set(err, -EACCES, "group '%s' is not shared", g->name);
			return err_hint(err,
				"attach the group again with --replace --mode 0644 to share its numbers");
		}
		close_fd(g->fd[i]);
		g->fd[i] = -EACCES;
	}
	return 0;
}
