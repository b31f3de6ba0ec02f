// SPDX-License-Identifier: BSD-2-Clause
// By what stacks are followed: a table of rows for each file, made when a group is attached, or
// when a walk has met the file.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <bpf/bpf.h>
#include <linux/magic.h>

#include "base/err.h"
#include "group/records.h"
#include "internal.h"
#include "proc/proc.h"
#include "unwind/unwind.h"

#define TABLES_BYTES_MAX  (256ULL << 20)
#define KERNEL_MINOR_BITS 20 /* MINORBITS, include/linux/kdev_t.h */

/* --- tables ----------------------------------------------------------------------------------- */

/* A map of @rows behind their number; its descriptor. */
static int make_table(const struct unwind_rows *rows)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = FSN_TABLE_FLAGS);
	_cleanup_mapping_ struct map_mapping map = {};
	_cleanup_close_ int fd = -1;
	struct fsn_unwind_row *to;
	int code;

	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "fsn_rows_of", sizeof(uint32_t), sizeof(*to),
		rows->cnt + 1, &opts);
	if (fd < 0)
		return -errno;
	code = map_mmap(fd, (rows->cnt + 1) * sizeof(*to), &map);
	if (code)
		return code;
	to = map.addr;
	to[0] = (struct fsn_unwind_row) { .offset = (unsigned int)rows->cnt };
	if (rows->cnt)
		memcpy(to + 1, rows->rows, rows->cnt * sizeof(*to));
	return TAKE_FD(fd);
}

/* Those of a group, whose maps these are, and what is to be added to them. */
struct tables {
	int tables_fd, files_fd, ids_fd; /* MAPID_TABLES, MAPID_STACK_FILES, MAPID_FILE_OF */
	bool used[FSN_FILES_MAX];       /* numbers of files, from 1 on */
	uint32_t number[FSN_FILES_MAX]; /* of what is added */
	int fd[FSN_FILES_MAX];
	struct fsn_file_id id[FSN_FILES_MAX];
	uint32_t cnt;
	uint64_t bytes;
	size_t left_out;
};

void tables_free(struct tables *t)
{
	for (uint32_t i = 0; t && i < t->cnt; i++)
		close(t->fd[i]);
	free(t);
}

void stack_file_done(struct stack_file *file)
{
	elf_file_free(file->owned);
	free((char *)file->path);
}

/* What there is already. */
static int tables_look(struct tables *t)
{
	_cleanup_free_ struct fsn_stack_file *files = calloc(FSN_FILES_MAX, sizeof(*files));
	int code = files ? map_read_fixed(t->files_fd, 0, FSN_FILES_MAX, sizeof(*files), files)
			 : -ENOMEM;

	for (uint32_t i = 0; !code && i < FSN_FILES_MAX; i++) {
		t->used[i] = files[i].size;
		t->bytes += files[i].rows * sizeof(struct fsn_unwind_row);
	}
	return code;
}

int tables_new(int tables_fd, int files_fd, int ids_fd, struct tables **ret_tables)
{
	_cleanup_tables_ struct tables *t = calloc(1, sizeof(*t));
	int code;

	if (!t)
		return -ENOMEM;
	t->tables_fd = tables_fd;
	t->files_fd = files_fd;
	t->ids_fd = ids_fd;
	code = tables_look(t);
	if (!code)
		*ret_tables = TAKE_PTR(t);
	return code;
}

size_t tables_left_out(const struct tables *t)
{
	return t->left_out;
}

static uint32_t number_new(struct tables *t)
{
	for (uint32_t i = 1; i < FSN_FILES_MAX; i++)
		if (!t->used[i]) {
			t->used[i] = true;
			return i;
		}
	return 0;
}

static void describe_file(
	const struct stack_file *from, size_t row_cnt, struct fsn_stack_file *to)
{
	const struct elf_info *info = elf_file_info(from->elf);
	struct stat st;

	*to = (struct fsn_stack_file) {
		.dev = info->dev,
		.ino = info->ino,
		.size = info->size,
		.rows = (unsigned int)row_cnt,
	};
	if (!fstat(elf_file_fd(from->elf), &st))
		to->mtime_ns = st.st_mtim.tv_sec * 1000000000ULL + st.st_mtim.tv_nsec;
	if (strlen(from->path) < sizeof(to->path))
		strcpy(to->path, from->path);
}

/* A file whose .eh_frame is damaged, or for which there is no room, ends walks. */
int tables_add(struct tables *t, const struct stack_file *file)
{
	_cleanup_unwind_rows_ struct unwind_rows rows = {};
	struct fsn_stack_file about;
	uint32_t number;
	int fd;

	if (!file->known)
		return 0;
	if (unwind_rows_read(file->elf, &rows, NULL) ||
		t->bytes + rows.cnt * sizeof(*rows.rows) > TABLES_BYTES_MAX) {
		t->left_out++;
		return 0;
	}
	number = number_new(t);
	if (!number)
		return 0;
	fd = make_table(&rows);
	if (fd < 0)
		return fd;
	t->bytes += rows.cnt * sizeof(*rows.rows);
	t->id[t->cnt] = file->id;
	t->number[t->cnt] = number;
	t->fd[t->cnt++] = fd;
	describe_file(file, rows.cnt, &about);
	return bpf_map_update_elem(t->files_fd, &number, &about, 0) ? -errno : 0;
}

/*
 * Together: each alone would wait until no program runs any more. Whoever finds a file finds its
 * table, as what is found at an address is kept.
 */
int tables_write(struct tables *t)
{
	uint32_t cnt = t->cnt;
	int code = cnt ? bpf_map_update_batch(t->tables_fd, t->number, t->fd, &cnt, NULL) : 0;

	for (uint32_t i = 0; code && i < t->cnt; i++)
		if (bpf_map_update_elem(t->tables_fd, &t->number[i], &t->fd[i], 0))
			return -errno;
	for (uint32_t i = 0; i < t->cnt; i++) {
		struct fsn_file_ref ref = { .file = t->number[i] };

		if (bpf_map_update_elem(t->ids_fd, &t->id[i], &ref, 0))
			return -errno;
	}
	return 0;
}

/* --- files that walks have met ---------------------------------------------------------------- */

struct meeting {
	struct tables *t;
	struct procs *procs;
	bool everywhere; /* whoever maps a file is looked for */
};

static bool map_is(const struct proc_map *map, const struct fsn_file_id *id)
{
	return map->exec && map->ino == id->ino &&
		id->dev == ((uint64_t)map->dev_major << KERNEL_MINOR_BITS | map->dev_minor);
}

/*
 * Since 6.8 an overlay's own numbers are in /proc/PID/maps, and not those of the file below
 * that is mapped: there it is what lies where the walk was.
 */
static bool is_overlay(int fd)
{
	struct statfs st;

	return !fstatfs(fd, &st) && st.f_type == OVERLAYFS_SUPER_MAGIC;
}

/* What @pid maps that is @id, or lies at @at. Whether it was found. */
static bool find_in(struct meeting *m, pid_t pid, const struct fsn_file_id *id, uint64_t at,
	struct stack_file *ret_file)
{
	const struct proc_maps *maps;
	struct elf_file *elf;
	int fd;

	if (procs_maps(m->procs, pid, &maps, NULL))
		return false;
	for (size_t i = 0; i < maps->cnt; i++) {
		const struct proc_map *map = &maps->maps[i];
		bool same = map_is(map, id);

		if (!same && at - map->start >= map->end - map->start)
			continue;
		fd = proc_open_mapped("/proc", pid, map, NULL);
		if (fd < 0)
			continue;
		if (!same && !is_overlay(fd))
			close(fd);
		else if (!elf_file_open_fd(fd, map->path, -1, NULL, &elf, NULL)) {
			*ret_file = (struct stack_file) { .elf = elf, .owned = elf,
				.path = strdup(map->path), .id = *id, .known = true };
			return true;
		}
	}
	return false;
}

static bool find_anywhere(
	struct meeting *m, const struct fsn_file_id *id, struct stack_file *ret_file)
{
	const pid_t *pids;
	size_t cnt;

	if (!m->everywhere || procs_pids(m->procs, &pids, &cnt, NULL))
		return false;
	for (size_t i = 0; i < cnt; i++)
		if (find_in(m, pids[i], id, 0, ret_file))
			return true;
	return false;
}

/* One that nobody has any more is met anew when somebody has it again. */
static int meet(struct meeting *m, const struct fsn_file_id *id, const struct fsn_file_ref *ref)
{
	struct stack_file file = {};
	int code;

	if (!find_in(m, (pid_t)ref->pid, id, ref->at, &file) && !find_anywhere(m, id, &file)) {
		bpf_map_delete_elem(m->t->ids_fd, id);
		return 0;
	}
	code = file.path ? tables_add(m->t, &file) : -ENOMEM;
	stack_file_done(&file);
	return code;
}

/* Those who have no table, though there was no room or sense in making one, are left alone. */
static int meet_all(struct meeting *m)
{
	struct fsn_file_id id, next, *before = NULL;
	struct fsn_file_ref ref;
	int code = 0;

	for (; !code && !bpf_map_get_next_key(m->t->ids_fd, before, &next); before = &id) {
		id = next;
		if (bpf_map_lookup_elem(m->t->ids_fd, &id, &ref) || ref.file || !ref.pid)
			continue;
		code = meet(m, &id, &ref);
		if (code || bpf_map_lookup_elem(m->t->ids_fd, &id, &ref))
			continue;
		ref.pid = 0;
		bpf_map_update_elem(m->t->ids_fd, &id, &ref, BPF_EXIST);
	}
	return code;
}

int stacks_meet(struct bpffs *fs, const struct group *g, bool everywhere, struct err *err)
{
	_cleanup_procs_ struct procs *procs = NULL;
	_cleanup_tables_ struct tables *t = NULL;
	struct meeting m = { .everywhere = everywhere };
	bool was_locked = fs->locked;
	int code;

	if (!g->meta.stack_cnt || !g->write || !proc_is_first_ns() || !bpffs_try_lock(fs))
		return 0;
	code = tables_new(
		g->fd[MAPID_TABLES], g->fd[MAPID_STACK_FILES], g->fd[MAPID_FILE_OF], &t);
	if (!code)
		code = procs_new("/proc", &procs, NULL);
	m.t = t;
	m.procs = procs;
	if (!code)
		code = meet_all(&m);
	if (!code)
		code = tables_write(t);
	if (!was_locked)
		bpffs_unlock(fs);
	return code ? err_sys(err, code, "cannot follow more stacks of group '%s'", g->name) : 0;
}

uint32_t stacks_met(const struct group *g)
{
	struct fsn_ctl ctl;

	return g->meta.stack_cnt && !group_ctl(g, &ctl, NULL) ? ctl.met : 0;
}
