// SPDX-License-Identifier: BSD-2-Clause
// Opens a pinned group and reads its functions, files and filters.
#include <fcntl.h>
#include <sys/stat.h>

#include <bpf/bpf.h>

#include "base/file.h"
#include "base/text.h"
#include "base/util.h"
#include "group/group.h"
#include "group/records.h"
#include "group/stacks.h"
#include "proc/proc.h"

/* --- opening a group, and its maps when they are needed ------------------------------------ */

/* Adds a hint about missing permissions. Returns @code. */
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

/* Compares the inode, because another group may have the name by now. */
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
	((struct group *)g)->dir_fd = fd; /* a cache: @g is unchanged for the caller */
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

/* Falls back to read-only access, because some users can read a map, but not write it. */
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
	/* The number of entries of a map never changes, so use it if the map was open before. */
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
	g->swept = false; /* what is read later may have calls of threads that exit meanwhile */
}

/* Reports missing maps, even if they are not needed now. */
static int check_parts(const struct group *g, struct err *err)
{
	_cleanup_closedir_ DIR *dir = dir_open_at(g->dir_fd, ".");
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
		/* Other users can read the counters only; group_map_fd() reports the other maps. */
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

/* True if the maps are at least as large as the counts, from which sizes are computed. */
static bool counts_fit(const struct group *g)
{
	return g->meta.timed_cnt <= g->meta.fn_cnt &&
		g->meta.fn_cnt <= g->entries[MAPID_FUNCS] &&
		g->meta.lib_cnt <= g->entries[MAPID_LIBS] &&
		(g->brief || (g->meta.type_cnt <= g->entries[MAPID_TYPES] &&
			g->meta.name_cnt <= g->entries[MAPID_NAMES])) &&
		g->meta.text_bytes <= (uint64_t)g->entries[MAPID_TEXT] * FSN_TEXT_LEN;
}

struct named {
	const char *name;
	uint32_t fn, lib;
};

DEFINE_ORDER(compare_named, struct named, strcmp(x->name, y->name) ?: RISING(lib))

static char *make_title(const struct group *g, uint32_t fn)
{
	const struct target_kind *kind = target_kind(g->funcs[fn].kind);
	const char *path = group_lib(g, g->funcs[fn].lib), *base = strrchr(path, '/');

	return xasprintf("%s:%s", kind->in_files ? base ? base + 1 : path : kind->prefix,
		group_func_name(g, fn));
}

/* Functions of different libraries and kinds can have the same name. */
static void make_titles(struct group *g)
{
	_cleanup_free_ struct named *sorted = xcalloc(g->meta.fn_cnt + 1, sizeof(*sorted));

	g->titles = xcalloc(g->meta.fn_cnt + 1, sizeof(char *));
	for (uint32_t i = 0; i < g->meta.fn_cnt; i++)
		sorted[i] = (struct named) { group_func_name(g, i), i, g->funcs[i].lib };
	qsort(sorted, g->meta.fn_cnt, sizeof(*sorted), compare_named);
	for (uint32_t i = 0, next; i < g->meta.fn_cnt; i = next) {
		for (next = i + 1; next < g->meta.fn_cnt && !strcmp(sorted[next].name, sorted[i].name);)
			next++;
		for (uint32_t k = i; k < next && sorted[i].lib != sorted[next - 1].lib; k++)
			g->titles[sorted[k].fn] = make_title(g, sorted[k].fn);
	}
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
	for (uint32_t i = 0; i < g->meta.fn_cnt; i++) {
		const struct target_kind *kind = target_kind(g->funcs[i].kind);

		if (g->funcs[i].lib >= g->meta.lib_cnt || g->funcs[i].exit >= FSN_EXIT_CNT) {
			g->meta.fn_cnt = g->meta.lib_cnt = 0;
			return err_set(err, -EPROTO, "group '%s' is damaged: map '%s'", g->name,
				map_pin_name(MAPID_FUNCS));
		}
		g->exits |= 1U << g->funcs[i].exit;
		g->events |= kind->is_event;
		g->gpu = kind->on_gpu && (!i || g->gpu);
	}
	if (g->meta.lib_cnt > 1)
		make_titles(g);
	return 0;
}

/* Closes maps that are not read again, because readers of many groups would run out of files. */
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
	for (uint32_t i = 0; g->titles && i < g->meta.fn_cnt; i++)
		free(g->titles[i]);
	free(g->titles);
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
				"attach the group again with --replace --share 0644 to share its numbers");
		}
		close_fd(g->fd[i]);
		g->fd[i] = -EACCES;
	}
	return 0;
}

/* --- filters, from the maps of the BPF programs; functions that were left out --------------- */

/* Reads the keys of a map that may change during the reading. */
static void read_keys(const struct group *g, enum map_id id, size_t size, void **ret_keys,
	size_t *ret_cnt)
{
	const void *from = NULL;
	char *keys = NULL;
	size_t cnt = 0;

	for (;;) {
		keys = xreallocarray(keys, cnt + 1, size);
		from = cnt ? keys + (cnt - 1) * size : NULL;
		if (cnt == FSN_CHILD_PIDS_MAX ||
			bpf_map_get_next_key(group_fd(g, id), from, keys + cnt * size))
			break;
		cnt++;
	}
	*ret_keys = keys;
	*ret_cnt = cnt;
}

DEFINE_ORDER(compare_numbers, uint32_t, (*x > *y) - (*x < *y))

static void read_numbers(
	const struct group *g, enum map_id id, uint32_t **ret_numbers, size_t *ret_cnt)
{
	void *keys;

	read_keys(g, id, sizeof(uint32_t), &keys, ret_cnt);
	qsort(keys, *ret_cnt, sizeof(uint32_t), compare_numbers);
	*ret_numbers = keys;
}

/* Removes the marker that children are traced, and moves exited processes to the front. */
static void sort_pids(const struct group *g, struct asked *a)
{
	uint32_t none = FSN_PID_NONE;
	size_t ended = 0;

	if (a->pid_cnt && a->pids[0] == FSN_PID_NONE) {
		a->children = true;
		bpf_map_lookup_elem(group_fd(g, MAPID_PIDS), &none, &a->lost_children);
		memmove(a->pids, a->pids + 1, --a->pid_cnt * sizeof(*a->pids));
	}
	for (size_t i = 0; i < a->pid_cnt; i++) {
		uint32_t pid = a->pids[i];

		if (proc_thread("/proc", (pid_t)pid))
			continue;
		memmove(a->pids + ended + 1, a->pids + ended, (i - ended) * sizeof(*a->pids));
		a->pids[ended++] = pid;
	}
	a->ended_cnt = ended;
}

static int read_said(const struct group *g, struct asked *a)
{
	struct fsn_said *said = xcalloc(1, sizeof(*said));
	uint32_t zero = 0;
	int code;

	a->said = said;
	code = map_get(group_fd(g, MAPID_SAID), &zero, said);
	if (code)
		return code;
	said->condition[sizeof(said->condition) - 1] = '\0';
	said->cpus[sizeof(said->cpus) - 1] = '\0';
	said->cgroups[sizeof(said->cgroups) - 1] = '\0';
	said->argv[sizeof(said->argv) - 1] = '\0';
	a->condition = said->condition;
	a->cpus = said->cpus;
	a->cgroups = said->cgroups;
	a->argv = said->argv;
	a->argv_bytes = sizeof(said->argv);
	while (a->argv_bytes && !a->argv[a->argv_bytes - 1])
		a->argv_bytes--;
	a->argv_bytes += a->argv_bytes > 0;
	return 0;
}

int asked_read(const struct group *g, struct asked *ret_asked)
{
	struct asked *a = ret_asked;
	struct fsn_ctl ctl;
	void *comms = NULL;
	int code;

	*a = (struct asked) { .condition = "", .cpus = "", .cgroups = "", .argv = "" };
	code = group_map_fd(g, MAPID_SAID, "filters", NULL);
	if (code >= 0)
		code = group_ctl(g, &ctl, NULL);
	if (!code)
		code = read_said(g, a);
	if (code)
		return code;
	a->by_pid = ctl.on & FSN_FILTER_PID;
	if (a->by_pid)
		read_numbers(g, MAPID_PIDS, &a->pids, &a->pid_cnt);
	if (ctl.on & FSN_FILTER_UID)
		read_numbers(g, MAPID_UIDS, &a->uids, &a->uid_cnt);
	if (ctl.on & FSN_FILTER_TID)
		read_numbers(g, MAPID_TIDS, &a->tids, &a->tid_cnt);
	if (ctl.on & FSN_FILTER_COMM) {
		read_keys(g, MAPID_COMMS, sizeof(*a->comms), &comms, &a->comm_cnt);
		a->comms = comms;
	}
	for (size_t i = 0; a->comms && i < a->comm_cnt; i++)
		a->comms[i][FSN_COMM_LEN - 1] = '\0';
	if (!(ctl.on & FSN_FILTER_IF))
		a->condition = "";
	sort_pids(g, a);
	return 0;
}

void asked_done(struct asked *a)
{
	free(a->pids);
	free(a->uids);
	free(a->tids);
	free(a->comms);
	free(a->said);
}

/* --- functions left out to keep to the budget ------------------------------------------------ */

/* Returns the next line, terminated by a zero byte, or "" after the last. */
static char *next_line(struct group_left *left)
{
	char *line = left->text + left->at;
	size_t len = strcspn(line, "\n");

	left->at += len + (line[len] != '\0');
	line[len] = '\0';
	return line;
}

bool group_next_left(const struct group *g, struct group_left *left, struct group_func *ret_func,
	const char **ret_why)
{
	if (!left->text)
		left->text = xstrdup(group_text(g, g->meta.left_out));
	if (!left->text[left->at])
		return false;
	*ret_func = (struct group_func){ .limit = LIMIT_LEFT_OUT };
	ret_func->name = next_line(left);
	ret_func->symbol = next_line(left);
	ret_func->library = next_line(left);
	ret_func->offset = strtoull(next_line(left), NULL, 16);
	*ret_why = next_line(left);
	ret_func->calls_per_s = strtoull(next_line(left), NULL, 10);
	return true;
}

void group_left_done(struct group_left *left)
{
	free(left->text);
}

DEFINE_ORDER(compare_rates, struct group_func,
	FALLING(calls_per_s) ?: strcmp(x->name, y->name))

struct group_func *group_left_out(
	const struct group *g, struct group_left *ret_left, size_t *ret_cnt)
{
	struct group_func *funcs = NULL, f;
	const char *why;
	size_t cnt = 0;

	*ret_left = (struct group_left) {};
	for (uint32_t i = 0; i < g->meta.fn_cnt; i++) {
		if (g->funcs[i].limit != LIMIT_LEFT_OUT)
			continue;
		*array_add(funcs, cnt) = group_func(g, i);
	}
	while (group_next_left(g, ret_left, &f, &why)) {
		*array_add(funcs, cnt) = f;
	}
	if (cnt)
		qsort(funcs, cnt, sizeof(*funcs), compare_rates);
	*ret_cnt = cnt;
	return funcs;
}

/* --- the description that a group stores --------------------------------------------------- */

int group_map_fd(const struct group *g, enum map_id id, const char *what, struct err *err)
{
	if (group_fd(g, id) >= 0)
		return g->fd[id];
	if (g->fd[id] != -EACCES && g->fd[id] != -EPERM)
		return err_sys(err, g->fd[id], "cannot open map '%s' of group '%s'",
			map_pin_name(id), g->name);
	err_set(err, g->fd[id], "%s of group '%s' are for its owner only", what, g->name);
	return err_hint(err,
		"attach the group again with --replace --share 0644,all to share them");
}

const char *group_text(const struct group *g, uint32_t offset)
{
	/* A group that could not be opened may have no text. */
	return g->text ? strtab_at(g->text, g->meta.text_bytes, offset) : "";
}

static const char *text_or_null(const struct group *g, uint32_t offset)
{
	return offset ? group_text(g, offset) : NULL;
}

bool group_is_foreign(const struct group *g)
{
	return g->foreign;
}

/* Correction of each measured time of @f, from meta, because all readers can read meta. */
static uint32_t overhead_of(const struct group *g, const struct fsn_func *f)
{
	if (g->meta.options & FSN_OPT_RAW || f->site >= PRICE_SITES || f->end >= PRICE_ENDS ||
		!target_kind(f->kind)->in_files)
		return 0;
	return g->meta.price.overhead_ns[f->site][f->end];
}

struct group_info group_info(const struct group *g)
{
	struct group_info info = {
		.name = g->name,
		.version = g->meta.version,
		.layout = g->meta.layout,
		.attached_ns = g->meta.attached_ns,
		.links = g->meta.links,
		.fn_cnt = g->meta.fn_cnt,
		.lib_cnt = g->meta.lib_cnt,
		.sample = g->meta.sample > 1 ? g->meta.sample : 1,
		.uid = g->meta.uid,
		.pid = g->meta.pid,
		.processes = g->meta.options & FSN_OPT_PROCESSES,
		.nesting = g->meta.options & FSN_OPT_NESTING,
		.memory = g->meta.block_sets,
		.split = g->meta.options & FSN_OPT_SPLIT,
		.raw = g->meta.options & FSN_OPT_RAW,
		.exits = g->exits,
		.events = g->events,
		.gpu = g->gpu,
		.waits = g->meta.options & FSN_OPT_HOLDS,
		.kept = g->meta.options & FSN_OPT_KEPT,
		.sampled_cpus = g->meta.sampled_cpus,
		.price = g->meta.price,
		.budget = g->meta.budget,
		.tried_ns = g->meta.tried_ns,
		.tried_cost_ns = g->meta.tried_cost_ns,
		.definition = g->meta.definition,
		.duty = g->meta.duty,
	};

	for (size_t i = 0; i < FSN_KEYS && i < g->meta.key_cnt; i++)
		info.key[i] = group_text(g, g->meta.key[i]);
	for (size_t i = 0; i < FSN_SUMS && i < g->meta.sum_cnt; i++)
		info.sum[i] = group_text(g, g->meta.sum[i]);
	return info;
}

struct group_func group_func(const struct group *g, uint32_t fn)
{
	const struct fsn_func *f = &g->funcs[fn];
	const struct fsn_lib *lib = &g->libs[f->lib];

	return (struct group_func){
		.name = group_text(g, f->name),
		.kind = target_kind(f->kind)->word,
		.in_file = target_kind(f->kind)->in_files,
		.priced = target_kind(f->kind)->priced_by != PRICED_NOT,
		.is_sample = target_kind(f->kind)->is_sample,
		.symbol = text_or_null(g, f->symbol),
		.demangled = text_or_null(g, f->demangled),
		.library = group_text(g, lib->path),
		.build_id = group_text(g, lib->build_id),
		.soname = text_or_null(g, lib->soname),
		.offset = f->offset,
		.site_offset = f->site_offset,
		.site_why = group_text(g, f->site_why),
		.insn = group_text(g, f->insn),
		.exit = (enum fsn_exit)f->exit,
		.exit_why = group_text(g, f->exit_why),
		.undercounted = f->undercounted,
		.site = f->site % PRICE_SITES,
		.end = f->end % PRICE_ENDS,
		.overhead_ns = overhead_of(g, f),
		.limit = f->limit % LIMIT_CNT,
		.calls_per_s = f->calls_per_s,
		.types_why = text_or_null(g, f->types_why),
		.aliases = text_or_null(g, f->aliases),
	};
}

const char *group_name(const struct group *g)
{
	return g->name;
}

const char *group_func_name(const struct group *g, uint32_t fn)
{
	return group_text(g, g->funcs[fn].name);
}

const char *group_func_title(const struct group *g, uint32_t fn)
{
	return g->titles && g->titles[fn] ? g->titles[fn] : group_func_name(g, fn);
}

const char *group_lib(const struct group *g, uint32_t lib)
{
	return group_text(g, g->libs[lib].path);
}

int group_ctl(const struct group *g, struct fsn_ctl *ret_ctl, struct err *err)
{
	struct fsn_ctl ctl;
	__u32 zero = 0;
	int code = map_get(group_fd(g, MAPID_CTL), &zero, &ctl);

	if (code)
		return err_sys(err, code, "cannot read group '%s'", g->name);
	*ret_ctl = ctl;
	return 0;
}

int group_wait_for_programs(const struct group *g)
{
	_cleanup_close_ int inner = bpf_map_create(BPF_MAP_TYPE_ARRAY, "fsn_sync", 4, 4, 1, NULL);
	uint32_t zero = 0;

	if (inner < 0)
		return -errno;
	return bpf_map_update_elem(group_fd(g, MAPID_SYNC), &zero, &inner, 0) ? -errno : 0;
}

int group_since(const struct group *g, uint64_t *ret_ns, struct err *err)
{
	struct fsn_ctl ctl;
	int code = group_ctl(g, &ctl, err);

	if (code)
		return code;
	*ret_ns = ctl.since_ns[FSN_BASE_INDEX(ctl.base)];
	return 0;
}

int group_until(const struct group *g, uint64_t *ret_ns, struct err *err)
{
	struct fsn_ctl ctl;
	int code = group_ctl(g, &ctl, err);

	if (code)
		return code;
	*ret_ns = !(ctl.on & FSN_FILTER_UNTIL) || !ctl.until_ns
		? 0
		: clock_ns(CLOCK_REALTIME) + ctl.until_ns - clock_ns(CLOCK_MONOTONIC);
	return 0;
}

uint64_t group_memory(const struct group *g)
{
	struct fsn_ctl ctl;
	uint32_t zero = 0;

	/* A reader without access to the owner's maps cannot read the size of all maps. */
	if (group_fd(g, MAPID_SAID) < 0)
		return 0;
	for (int i = 0; i < MAPID_CNT; i++)
		if (g->fd[i] < 0 && g->fd[i] != MAP_LEFT)
			return 0;
	if (!g->meta.memory_bytes || map_get(group_fd(g, MAPID_CTL), &zero, &ctl))
		return 0;
	return g->meta.memory_bytes + ctl.grown_bytes + stacks_memory(g);
}

void group_has_grown(const struct group *g)
{
	_cleanup_mapping_ struct map_mapping mapping = {};
	uint64_t bytes = 0;

	if (map_mmap(group_fd(g, MAPID_CTL), sizeof(struct fsn_ctl), &mapping))
		return;
	for (int i = 0; i < MAPID_CNT; i++)
		if (map_grows(i))
			bytes += map_memory(group_fd(g, i));
	__atomic_store_n(&((struct fsn_ctl *)mapping.addr)->grown_bytes, bytes, __ATOMIC_RELAXED);
}

bool group_lib_stale(const struct group *g, uint32_t lib)
{
	const struct fsn_lib *l = &g->libs[lib];
	const struct object_id id = { l->dev, l->ino, l->size, l->mtime_ns };

	for (uint32_t fn = 0; fn < g->meta.fn_cnt; fn++)
		if (g->funcs[fn].lib == lib)
			return kind_of(g, fn)->is_stale &&
				kind_of(g, fn)->is_stale(group_text(g, l->path), &id);
	return false;
}

void group_stop(const struct group *g)
{
	_cleanup_mapping_ struct map_mapping map = {};

	if (map_mmap(group_fd(g, MAPID_CTL), sizeof(struct fsn_ctl), &map))
		return;
	__atomic_fetch_and(&((struct fsn_ctl *)map.addr)->on, ~FSN_ON, __ATOMIC_SEQ_CST);
	group_wait_for_programs(g);
}

/* --- thresholds ----------------------------------------------------------------------------- */

bool group_has_slow(const struct group *g)
{
	_cleanup_free_ struct fsn_conf *confs = xcalloc(g->meta.fn_cnt + 1, sizeof(*confs));

	if (map_read(group_fd(g, MAPID_CONFS), 0, g->meta.fn_cnt, sizeof(*confs), confs))
		return true;
	return ANY_WHERE(g->meta.timed_cnt, i, confs[i].slow_ns != FSN_NO_SLOW);
}

int group_check_timed(const struct group *g, const char *pattern, struct err *err)
{
	for (uint32_t i = 0; i < g->meta.timed_cnt; i++)
		if (pattern_glob(pattern, group_func_name(g, i)))
			return 0;
	return err_set(err, -ENOENT, "no timed function '%s' in group '%s'", pattern, g->name);
}

int group_set_slow(const struct group *g, const char *pattern, bool off, uint64_t ns,
	struct err *err)
{
	_cleanup_mapping_ struct map_mapping map = {}, map_conf = {};
	struct fsn_conf *confs;
	struct fsn_ctl *ctl;
	int code;

	code = pattern ? group_check_timed(g, pattern, err) : 0;
	if (code)
		return code;
	code = map_mmap(group_fd(g, MAPID_CTL), sizeof(*ctl), &map);
	if (!code)
		code = map_mmap(group_fd(g, MAPID_CONFS), g->meta.fn_cnt * sizeof(*confs), &map_conf);
	if (code)
		return err_sys(err, code, "cannot change group '%s'", g->name);
	ctl = map.addr;
	confs = map_conf.addr;
	/* Record arguments first, so that every slow call has them. */
	if (!off)
		__atomic_fetch_or(&ctl->save_args, FSN_SAVE_SLOW, __ATOMIC_SEQ_CST);
	for (uint32_t i = 0; i < g->meta.timed_cnt; i++)
		if (!pattern || pattern_glob(pattern, group_func_name(g, i)))
			__atomic_store_n(&confs[i].slow_ns, off ? FSN_NO_SLOW : ns,
				__ATOMIC_SEQ_CST);
	return 0;
}

int group_lib_mappers(const struct group *g, uint32_t lib, struct procs *procs, size_t *ret_cnt,
	pid_t *ret_pid, struct err *err)
{
	const struct mappers_file file = { g->libs[lib].dev, g->libs[lib].ino,
		group_lib(g, lib) };
	_cleanup_asked_ struct asked asked = {};

	if (asked_read(g, &asked) || !asked.by_pid)
		return mappers_count(procs, &file, 1, ret_cnt, ret_pid, err);
	*ret_cnt = 0;
	for (size_t i = asked.pid_cnt; i-- > 0;)
		if (mappers_has(procs, asked.pids[i], &file, 1) > 0) {
			*ret_pid = asked.pids[i];
			++*ret_cnt;
		}
	return 0;
}
