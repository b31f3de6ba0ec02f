// SPDX-License-Identifier: BSD-2-Clause
// By what stacks are followed: a table of rows for each file, made when a group is attached, or
// when a walk has met the file.
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
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
#include "stats/stats.h"
#include "unwind/python.h"

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

/* --- rows of many files at once ---------------------------------------------------------------- */

#define READERS_MAX 16

struct reading {
	struct stack_file **files; /* the largest first */
	size_t cnt, next;
	uint64_t bytes, total; /* of files */
	uint64_t rows;         /* bytes of all rows */
};

static void read_rows(struct stack_file *file)
{
	file->code = unwind_rows_read(file->elf, &file->rows, NULL);
	file->read = true;
}

/* The next file, if there is one: what would have no room is not read to the end of memory. */
static bool read_next(struct reading *r)
{
	size_t i = __atomic_fetch_add(&r->next, 1, __ATOMIC_RELAXED);
	struct stack_file *file;

	if (i >= r->cnt)
		return false;
	file = r->files[i];
	if (__atomic_load_n(&r->rows, __ATOMIC_RELAXED) > TABLES_BYTES_MAX) {
		file->read = true;
		file->code = -EFBIG;
		return true;
	}
	read_rows(file);
	__atomic_fetch_add(&r->rows, file->rows.cnt * sizeof(*file->rows.rows), __ATOMIC_RELAXED);
	__atomic_fetch_add(&r->bytes, elf_file_info(file->elf)->size, __ATOMIC_RELAXED);
	return true;
}

static void *reader(void *arg)
{
	while (read_next(arg))
		;
	return NULL;
}

static int by_size(const void *a, const void *b)
{
	const struct stack_file *const *x = a, *const *y = b;
	uint64_t left = elf_file_info((*x)->elf)->size, right = elf_file_info((*y)->elf)->size;

	return left < right ? 1 : left > right ? -1 : 0;
}

/* Threads take no signal; this one reads, too. */
static size_t readers_start(struct reading *r, pthread_t threads[READERS_MAX])
{
	size_t started = 0, cnt = 1;
	sigset_t all, before;
	cpu_set_t cpus;

	if (!sched_getaffinity(0, sizeof(cpus), &cpus))
		cnt = (size_t)CPU_COUNT(&cpus);
	if (cnt > READERS_MAX)
		cnt = READERS_MAX;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (started + 1 < cnt && started + 1 < r->cnt &&
		!pthread_create(&threads[started], NULL, reader, r))
		started++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return started;
}

void stack_files_read(struct stack_file *files, size_t cnt, stack_progress_fn progress, void *arg)
{
	_cleanup_free_ struct stack_file **order = xcalloc(cnt + 1, sizeof(struct stack_file *));
	struct reading r = { .files = order };
	pthread_t threads[READERS_MAX];
	uint64_t bytes;
	size_t started;

	for (size_t i = 0; i < cnt; i++)
		if (files[i].known) {
			order[r.cnt++] = &files[i];
			r.total += elf_file_info(files[i].elf)->size;
		}
	if (!r.cnt)
		return;
	qsort(order, r.cnt, sizeof(struct stack_file *), by_size);
	started = readers_start(&r, threads);
	while (read_next(&r)) {
		bytes = __atomic_load_n(&r.bytes, __ATOMIC_RELAXED);
		if (progress && bytes < r.total)
			progress(bytes, r.total, arg);
	}
	while (started)
		pthread_join(threads[--started], NULL);
	if (progress)
		progress(r.total, r.total, arg);
}

/* --- those of a group -------------------------------------------------------------------------- */

/* Those of a group, whose maps these are, and what is to be added to them. */
struct tables {
	int tables_fd, files_fd, ids_fd; /* MAPID_TABLES, MAPID_STACK_FILES, MAPID_FILE_OF */
	int pythons_fd;                  /* MAPID_PYTHONS */
	bool used[FSN_FILES_MAX];       /* numbers of files, from 1 on */
	uint32_t number[FSN_FILES_MAX]; /* of what is added */
	int fd[FSN_FILES_MAX];
	struct fsn_file_id id[FSN_FILES_MAX];
	uint32_t cnt;
	uint64_t bytes;
	struct left_out left_out;
};

void tables_free(struct tables *t)
{
	for (uint32_t i = 0; t && i < t->cnt; i++)
		close(t->fd[i]);
	free(t);
}

void stack_file_done(struct stack_file *file)
{
	unwind_rows_done(&file->rows);
	elf_file_free(file->owned);
	free((char *)file->path);
}

/* What there is already. */
static int tables_look(struct tables *t)
{
	_cleanup_free_ struct fsn_stack_file *files = xcalloc(FSN_FILES_MAX, sizeof(*files));
	int code = map_read_fixed(t->files_fd, 0, FSN_FILES_MAX, sizeof(*files), files);

	for (uint32_t i = 0; !code && i < FSN_FILES_MAX; i++) {
		t->used[i] = files[i].size;
		t->bytes += files[i].rows * sizeof(struct fsn_unwind_row);
	}
	return code;
}

int tables_new(
	int tables_fd, int files_fd, int ids_fd, int pythons_fd, struct tables **ret_tables)
{
	_cleanup_tables_ struct tables *t = xcalloc(1, sizeof(*t));
	int code;

	t->tables_fd = tables_fd;
	t->files_fd = files_fd;
	t->ids_fd = ids_fd;
	t->pythons_fd = pythons_fd;
	code = tables_look(t);
	if (!code)
		*ret_tables = TAKE_PTR(t);
	return code;
}

struct left_out *tables_left_out(struct tables *t)
{
	return &t->left_out;
}

void leave_out(struct left_out *l, const char *why)
{
	if (!l->cnt++)
		snprintf(l->why, sizeof(l->why), "%.*s", (int)sizeof(l->why) - 1, why);
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

/*
 * Of an interpreter of Python what its frames are found by, and marks in its rows. In the kernel its
 * addresses count from where the file's first byte would be. Whether it is one; -ENOMEM.
 */
static int python_add(struct tables *t, struct elf_file *elf, struct unwind_rows *rows,
	struct fsn_python *ret_python)
{
	uint64_t base;
	int code;

	if (python_layout_read(elf, ret_python))
		return 0;
	code = python_rows_mark(elf, rows);
	for (size_t i = 0; !code && i < rows->cnt; i++) {
		if (!(rows->rows[i].how & FSN_UNWIND_PYTHON))
			continue;
		if (elf_file_offset_to_addr(elf, rows->rows[i].offset, &base))
			return 0;
		base -= rows->rows[i].offset;
		ret_python->runtime -= base;
		ret_python->code_type -= base;
#if defined(__aarch64__)
		ret_python->thread = ret_python->number;
#endif
		return 1;
	}
	return code;
}

/* A file whose .eh_frame is damaged, or for which there is no room, ends walks. */
int tables_add(struct tables *t, struct stack_file *file)
{
	struct unwind_rows *rows = &file->rows;
	struct fsn_stack_file about;
	struct err why = {};
	struct fsn_python python;
	uint32_t number;
	int fd, is_python;

	if (!file->known)
		return 0;
	if (!file->read)
		read_rows(file);
	if (file->code || t->bytes + rows->cnt * sizeof(*rows->rows) > TABLES_BYTES_MAX) {
		err_sys(&why, file->code ? file->code : -EFBIG, "'%s'", file->path);
		leave_out(&t->left_out, why.msg);
		return 0;
	}
	number = number_new(t);
	if (!number)
		return 0;
	is_python = python_add(t, file->elf, rows, &python);
	if (is_python < 0)
		return is_python;
	if (is_python)
		(void)bpf_map_update_elem(t->pythons_fd, &number, &python, 0);
	fd = make_table(rows);
	if (fd < 0)
		return fd;
	t->bytes += rows->cnt * sizeof(*rows->rows);
	t->id[t->cnt] = file->id;
	t->number[t->cnt] = number;
	t->fd[t->cnt++] = fd;
	describe_file(file, rows->cnt, &about);
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
	const struct group *group;
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
				.path = xstrdup(map->path), .id = *id, .known = true };
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

/* By its name, as it was in the process that has ended. */
static bool find_kept(
	const struct meeting *m, const struct fsn_file_id *id, struct stack_file *ret_file)
{
	char path[PATH_MAX];
	struct elf_file *elf;

	if (!group_file_path(m->group, id, path) || elf_file_open(path, &elf, NULL))
		return false;
	*ret_file = (struct stack_file) { .elf = elf, .owned = elf,
		.path = xstrdup(path), .id = *id, .known = true };
	return true;
}

/* One that nobody has any more, and that is not where it was, is met anew. */
static int meet(struct meeting *m, const struct fsn_file_id *id, const struct fsn_file_ref *ref)
{
	struct stack_file file = {};
	int code;

	if (!find_in(m, (pid_t)ref->pid, id, ref->at, &file) && !find_anywhere(m, id, &file) &&
		!find_kept(m, id, &file)) {
		bpf_map_delete_elem(m->group->fd[MAPID_FILE_NAMES], id);
		bpf_map_delete_elem(m->t->ids_fd, id);
		return 0;
	}
	code = tables_add(m->t, &file);
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

/* Makes the BPF programs drop the rows that they have kept since before the tables were written. */
static void tables_announce(const struct group *g)
{
	_cleanup_mapping_ struct map_mapping map = {};
	struct fsn_ctl *ctl;

	if (map_mmap(group_fd(g, MAPID_CTL), sizeof(*ctl), &map))
		return;
	ctl = map.addr;
	__atomic_fetch_add(&ctl->tables, 1, __ATOMIC_SEQ_CST);
}

int stacks_meet(struct bpffs *fs, const struct group *g, bool everywhere, struct err *err)
{
	_cleanup_procs_ struct procs *procs = NULL;
	_cleanup_tables_ struct tables *t = NULL;
	struct meeting m = { .group = g, .everywhere = everywhere };
	bool was_locked = fs->locked;
	int code;

	if (!g->meta.stack_cnt || !g->write || !proc_is_first_ns() || !bpffs_try_lock(fs))
		return 0;
	code = tables_new(group_fd(g, MAPID_TABLES), group_fd(g, MAPID_STACK_FILES),
		group_fd(g, MAPID_FILE_OF), group_fd(g, MAPID_PYTHONS), &t);
	if (!code)
		code = procs_new("/proc", &procs, NULL);
	m.t = t;
	m.procs = procs;
	if (!code)
		code = meet_all(&m);
	if (!code && t->cnt)
		code = tables_write(t);
	if (!code && t->cnt)
		tables_announce(g);
	if (!was_locked)
		bpffs_unlock(fs);
	return code ? err_sys(err, code, "cannot follow more stacks of group '%s'", g->name) : 0;
}

uint32_t stacks_met(const struct group *g)
{
	struct fsn_ctl ctl;

	return g->meta.stack_cnt && !group_ctl(g, &ctl, NULL) ? ctl.met : 0;
}
