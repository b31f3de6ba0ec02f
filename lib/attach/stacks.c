// SPDX-License-Identifier: BSD-2-Clause
// Files whose code may be on a stack, and their unwind tables for the walks in the kernel.
#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/apart.h"
#include "base/err.h"
#include "group/records.h"
#include "internal.h"
#include "proc/proc.h"
#include "stats/stats.h"
#include "unwind/python.h"

/* Each file has one table. It is loaded at attach, or after a walk has met the file. */

#define TABLES_BYTES_MAX  (256ULL << 20)
#define KERNEL_MINOR_BITS 20 /* MINORBITS, include/linux/kdev_t.h */

/* --- tables ----------------------------------------------------------------------------------- */

/* Creates a map with the number of @rows in entry 0, followed by @rows. Returns its descriptor. */
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

static uint64_t size_of(const struct stack_file *file)
{
	return elf_file_info(file->elf)->size;
}

/* Reads the next file. Once the tables have reached their limit, files fail without being read. */
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
	__atomic_fetch_add(&r->bytes, size_of(file), __ATOMIC_RELAXED);
	return true;
}

static void *reader(void *arg)
{
	while (read_next(arg))
		;
	return NULL;
}

DEFINE_POINTER_ORDER(by_size, struct stack_file,
	(size_of(x) < size_of(y)) - (size_of(x) > size_of(y)))

/* Starts the threads with all signals blocked. One fewer than CPUs: the caller also reads. */
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
			r.total += size_of(&files[i]);
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

/* --- tables of a group ------------------------------------------------------------------------ */

/*
 * tables_add() makes the table of a file, and tables_write() inserts all new tables into the maps.
 * tables_left_out() reports files that have no table because the limit is reached or .eh_frame is
 * damaged. Errors are those of bpf(2).
 */

/* The maps of a group, and the tables to add to them. */
struct tables {
	int tables_fd, files_fd, ids_fd; /* MAPID_TABLES, MAPID_STACK_FILES, MAPID_FILE_OF */
	int pythons_fd;                  /* MAPID_PYTHONS */
	bool used[FSN_FILES_MAX];       /* file numbers in use; the first is 1 */
	uint32_t number[FSN_FILES_MAX]; /* file numbers of the new tables */
	int fd[FSN_FILES_MAX];
	struct fsn_file_id id[FSN_FILES_MAX];
	uint32_t cnt;
	uint64_t bytes;
	struct left_out left_out;
};

static void tables_free(struct tables *t)
{
	for (uint32_t i = 0; t && i < t->cnt; i++)
		close(t->fd[i]);
	free(t);
}

DEFINE_CLEANUP(tables, struct tables *, tables_free)
#define _cleanup_tables_ __cleanup(cleanup_tables)

void stack_file_done(struct stack_file *file)
{
	unwind_rows_done(&file->rows);
	elf_file_free(file->owned);
	free((char *)file->path);
}

/* Reads which file numbers are in use and how large the tables are. */
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

static int tables_new(
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

/* Counts a file that gets no unwind table, and keeps the reason of the first. */
static void leave_out(struct left_out *l, const char *why)
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
 * If @elf is a Python interpreter, marks the rows of PYTHON_EVAL and fills in @ret_python.
 * The BPF programs expect addresses relative to where the first byte of the file would be mapped.
 */
static bool python_add(
	struct elf_file *elf, struct unwind_rows *rows, struct fsn_python *ret_python)
{
	uint64_t base;

	if (python_layout_read(elf, ret_python))
		return false;
	python_rows_mark(elf, rows);
	for (size_t i = 0; i < rows->cnt; i++) {
		if (!(rows->rows[i].how & FSN_UNWIND_PYTHON))
			continue;
		if (elf_file_offset_to_addr(elf, rows->rows[i].offset, &base))
			return false;
		base -= rows->rows[i].offset;
		ret_python->runtime -= base;
		ret_python->code_type -= base;
#if defined(__aarch64__)
		ret_python->thread = ret_python->number;
#endif
		return true;
	}
	return false;
}

/* Makes the table of @file. Walks stop at a file without one. */
static int tables_add(struct tables *t, struct stack_file *file)
{
	struct unwind_rows *rows = &file->rows;
	struct fsn_stack_file about;
	struct err why = {};
	struct fsn_python python;
	uint32_t number;
	int fd;

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
	if (python_add(file->elf, rows, &python))
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
 * Inserts the new tables in one batch, because each single update waits for an RCU grace period.
 * The file numbers come after the tables: the BPF programs cache the result of a lookup, so a file
 * that they find must have its table.
 */
static int tables_write(struct tables *t)
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
	bool everywhere; /* search all processes for one that maps the file */
};

static bool map_is(const struct proc_map *map, const struct fsn_file_id *id)
{
	return map->exec && map->ino == id->ino &&
		id->dev == ((uint64_t)map->dev_major << KERNEL_MINOR_BITS | map->dev_minor);
}

/*
 * Since 6.8, /proc/PID/maps has the numbers of the overlay's own inode, not those of the mapped
 * file in the lower layer. So such a file is identified by the address at which the walk met it.
 */
static bool is_overlay(int fd)
{
	struct statfs st;

	return !fstatfs(fd, &st) && st.f_type == OVERLAYFS_SUPER_MAGIC;
}

/* Opens the file that @pid maps and that has @id or is mapped at @at. True if there is one. */
static bool find_in(struct meeting *m, pid_t pid, const struct fsn_file_id *id, uint64_t at,
	struct stack_file *ret_file)
{
	const struct proc_maps *maps;
	const struct proc_map *here;
	struct elf_file *elf;
	uint64_t offset;
	int fd;

	if (procs_maps(m->procs, pid, &maps, NULL))
		return false;
	here = proc_maps_at(maps, at, &offset);
	for (size_t i = 0; i < maps->cnt; i++) {
		const struct proc_map *map = &maps->maps[i];
		bool same = map_is(map, id);

		if (!same && map != here)
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
	return ANY_WHERE(cnt, i, find_in(m, pids[i], id, 0, ret_file));
}

/* Opens the file by the path that it had in a process that has exited. */
static bool find_kept(
	const struct meeting *m, const struct fsn_file_id *id, struct stack_file *ret_file)
{
	char path[PATH_MAX];
	struct elf_file *elf;
	int below = 0;

	if (!group_file_path(m->group, id, path) || elf_file_open(path, &elf, NULL))
		return false;
	/* "/proc/PID/root/app" is /app in another mount namespace. */
	sscanf(path, "/proc/%*d/root%n", &below);
	*ret_file = (struct stack_file) { .elf = elf, .owned = elf,
		.path = xstrdup(path + below), .id = *id, .known = true };
	return true;
}

/* True if more than half of the names of files are in use. */
static bool names_are_many(int fd)
{
	struct fsn_file_id id;
	unsigned int cnt = 0;

	map_foreach(fd, &id)
		if (++cnt > FSN_NAMED_FILES / 2)
			return true;
	return false;
}

/*
 * Makes the table of file @id, which a walk met without one. If the file cannot be found any more,
 * forgets it, so that the next walk through it reports it again. Its name stays for frames.
 */
static int meet(struct meeting *m, const struct fsn_file_id *id, const struct fsn_file_ref *ref)
{
	struct stack_file file = {};
	int code;

	if (!find_in(m, (pid_t)ref->pid, id, ref->at, &file) && !find_anywhere(m, id, &file) &&
		!find_kept(m, id, &file)) {
		if (names_are_many(m->group->fd[MAPID_FILE_NAMES]))
			bpf_map_delete_elem(m->group->fd[MAPID_FILE_NAMES], id);
		bpf_map_delete_elem(m->t->ids_fd, id);
		return 0;
	}
	code = tables_add(m->t, &file);
	stack_file_done(&file);
	return code;
}

/* A file whose table cannot be made keeps file number 0 and is not tried again (.pid is 0). */
static int meet_all(struct meeting *m)
{
	struct fsn_file_id id;
	struct fsn_file_ref ref;
	int code = 0;

	map_foreach(m->t->ids_fd, &id) {
		if (bpf_map_lookup_elem(m->t->ids_fd, &id, &ref) || ref.file || !ref.pid)
			continue;
		code = meet(m, &id, &ref);
		if (code)
			break;
		if (bpf_map_lookup_elem(m->t->ids_fd, &id, &ref))
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
		procs = procs_new("/proc");
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

/* --- files that may be on a stack when a group is attached, and their kernel identity --------- */

#define PAGE 4096

struct stack_files {
	struct stack_file *files;
	size_t cnt;
	struct mappers_file *seen; /* files of mappings that have been added or skipped */
	size_t seen_cnt;
	struct left_out *left_out;
};

static void files_done(struct stack_files *s)
{
	for (size_t i = 0; i < s->cnt; i++) {
		if (s->files[i].page)
			munmap(s->files[i].page, PAGE);
		stack_file_done(&s->files[i]);
	}
	free(s->files);
	free(s->seen);
}

/* --- which files ------------------------------------------------------------------------------ */

/* Takes ownership of @owned, also when the file is not added. */
static void add_file(
	struct stack_files *s, struct elf_file *elf, struct elf_file *owned, const char *path)
{
	_cleanup_elf_file_ struct elf_file *kept = owned;
	void *page;

	for (size_t i = 0; i < s->cnt; i++)
		if (elf_file_same(s->files[i].elf, elf))
			return;
	if (s->cnt == FSN_FILES_MAX - 1)
		return;
	page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, elf_file_fd(elf), 0);
	*array_add(s->files, s->cnt) = (struct stack_file) {
		.elf = elf,
		.owned = TAKE_PTR(kept),
		.path = xstrdup(path),
		.page = page == MAP_FAILED ? NULL : page,
	};
}

static bool was_seen(const struct stack_files *s, const struct proc_map *map)
{
	const dev_t dev = makedev(map->dev_major, map->dev_minor);

	return ANY_WHERE(s->seen_cnt, i, s->seen[i].dev == dev && s->seen[i].ino == map->ino);
}

/* The vDSO is the same in all processes. It has no file, so its .id stays zero. */
static void add_vdso(struct stack_files *s)
{
	const size_t cnt = s->cnt;
	struct elf_file *elf;

	if (elf_vdso_open(&elf))
		return;
	add_file(s, elf, elf, ELF_VDSO);
	for (size_t i = cnt; i < s->cnt; i++)
		s->files[i].known = true;
}

/*
 * Files that cannot be opened or are not ELF have no rows and are reported, unless the process has
 * exited.
 */
static void add_mapping(struct stack_files *s, pid_t pid, const struct proc_map *map)
{
	struct elf_file *elf;
	struct err why = {};
	int fd, code;

	if (!map->exec || was_seen(s, map))
		return;
	fd = proc_open_mapped("/proc", pid, map, &why);
	code = fd < 0 ? fd : elf_file_open_fd(fd, map->path, -1, NULL, &elf, &why);
	/* If the process has exited, another one that maps the file is tried. */
	if (code != -ENOENT && code != -ESRCH)
		*array_add(s->seen, s->seen_cnt) = (struct mappers_file) {
			makedev(map->dev_major, map->dev_minor), map->ino, NULL };
	if (code && code != -ENOENT && code != -ESRCH)
		leave_out(s->left_out, why.msg);
	if (!code)
		add_file(s, elf, elf, map->path);
}

static void add_process(struct stack_files *s, struct procs *procs, pid_t pid)
{
	const struct proc_maps *maps;

	if (procs_maps(procs, pid, &maps, NULL))
		return;
	for (size_t i = 0; i < maps->cnt; i++)
		add_mapping(s, pid, &maps->maps[i]);
}

/* Adds the files of all processes that map one of the probed files. */
static int add_mappers(struct stack_files *s, const struct draft *draft, struct procs *procs)
{
	size_t cnt, probed_cnt = 0;
	_cleanup_free_ struct mappers_file *probed = draft_files(draft, &probed_cnt);
	const pid_t *pids;
	int code = procs_pids(procs, &pids, &cnt, NULL);

	for (size_t i = 0; !code && i < cnt; i++)
		if (pids[i] != getpid() && pids[i] != getppid() &&
			mappers_has(procs, pids[i], probed, probed_cnt) > 0)
			add_process(s, procs, pids[i]);
	return code;
}

/* Adds the files of all processes: samples may be taken in any of them. */
static int add_processes(struct stack_files *s, struct procs *procs)
{
	const pid_t *pids;
	size_t cnt;
	int code = procs_pids(procs, &pids, &cnt, NULL);

	for (size_t i = 0; !code && i < cnt; i++)
		if (pids[i] != getpid() && pids[i] != getppid())
			add_process(s, procs, pids[i]);
	return code;
}

/*
 * Adds the dynamic loader of @program. Some C libraries are also the loader, and are mapped under
 * its path instead of the name in DT_NEEDED.
 */
static void add_interpreter(struct stack_files *s, const struct elf_file *program)
{
	const char *interp = elf_file_info(program)->interp;
	_cleanup_free_ char *path = *interp ? realpath(interp, NULL) : NULL;
	struct elf_file *elf;

	if (path && !elf_file_open(path, &elf, NULL))
		add_file(s, elf, elf, path);
}

/* Adds @objects, the libraries in their DT_NEEDED entries, and their dynamic loaders. */
static void add_objects(struct stack_files *s, struct libfind *finder, struct objects *objects)
{
	libfind_closure(finder, objects);
	for (size_t i = 0; i < objects->cnt; i++) {
		struct elf_file *elf = objects->object[i]->elf;

		if (!elf)
			continue;
		add_file(s, elf, NULL, objects->object[i]->path);
		add_interpreter(s, elf);
	}
}

/* Adds the files that @path will map when it is started. */
static void add_program(struct stack_files *s, struct libfind *finder, const char *path)
{
	__cleanup(objects_done) struct objects found = {};

	if (path && !libfind_get(finder, path, &found, NULL))
		add_objects(s, finder, &found);
}

static int files_find(
	struct stack_files *s, const struct draft *draft, const struct attach_opts *opts)
{
	struct procs *procs = libfind_procs(draft->finder);
	__cleanup(objects_done) struct objects probed = {};
	int code = 0;

	for (size_t i = 0; i < draft->objects.cnt; i++)
		objects_add(&probed, draft->objects.object[i]);
	add_objects(s, draft->finder, &probed);
	if (opts->unborn) {
		add_program(s, draft->finder, opts->program);
		return 0;
	}
	for (size_t i = 0; i < opts->filter.pid_cnt; i++)
		add_process(s, procs, opts->filter.pids[i]);
	if (!opts->filter.pid_cnt)
		code = draft->targets[0].kind->stacks ? add_processes(s, procs)
						      : add_mappers(s, draft, procs);
	return code;
}

/* --- their identity in the kernel ------------------------------------------------------------- */

static void take_mapped(struct stack_files *s, const struct fsn_mapped *at)
{
	for (size_t i = 0; i < s->cnt; i++) {
		if ((uintptr_t)s->files[i].page != at->start || !at->start)
			continue;
		s->files[i].id = at->id;
		s->files[i].known = true;
	}
}

int iterate_tasks(int prog_fd, union bpf_iter_link_info *info)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .iter_info = info,
		.iter_info_len = sizeof(*info));
	_cleanup_close_ int link = bpf_link_create(prog_fd, 0, BPF_TRACE_ITER, &opts);
	int fd;

	/* The kernel's bpf_iter_link_info is shorter and lacks .task (before 6.1). */
	if (link == -E2BIG)
		link = bpf_link_create(prog_fd, 0, BPF_TRACE_ITER, NULL);
	fd = link < 0 ? link : bpf_iter_create(link);
	return fd < 0 ? -errno : fd;
}

/*
 * Asks the kernel for the device and inode of each file, because on overlayfs and btrfs they differ
 * from those of stat(2).
 */
static int files_identify(struct stack_files *s, int prog_fd)
{
	union bpf_iter_link_info info = { .task.pid = (__u32)getpid() };
	_cleanup_close_ int fd = iterate_tasks(prog_fd, &info);
	struct fsn_mapped at[64];
	ssize_t got;

	if (fd < 0)
		return fd;
	while ((got = read(fd, at, sizeof(at))) > 0)
		for (size_t i = 0; i < (size_t)got / sizeof(*at); i++)
			take_mapped(s, &at[i]);
	return got < 0 ? -errno : 0;
}

#define TOLD_AFTER_NS 1000000000ULL /* report progress if reading takes longer */

struct telling {
	const struct attach_opts *opts;
	uint64_t begun_ns;
	bool told;
};

static void on_read(uint64_t bytes, uint64_t total, void *arg)
{
	struct telling *t = arg;

	if (!t->opts->progress || apart_stop() ||
		(!t->told && clock_ns(CLOCK_MONOTONIC) - t->begun_ns < TOLD_AFTER_NS) ||
		(bytes < total && bytes >> 20 == total >> 20)) /* say 'N of N' only at the end */
		return;
	t->told = true;
	t->opts->progress("looked through", "MB of files for stacks", bytes >> 20, total >> 20,
		t->opts->progress_arg);
}

int stacks_prepare(struct engine *e, const struct draft *draft, const struct attach_opts *opts,
	struct left_out *ret_left_out, struct err *err)
{
	__cleanup(files_done) struct stack_files files = {};
	_cleanup_tables_ struct tables *t = NULL;
	struct telling telling = { .opts = opts, .begun_ns = clock_ns(CLOCK_MONOTONIC) };
	int code;

	ret_left_out->cnt = 0;
	if (!opts->stack_cnt)
		return 0;
	code = tables_new(engine_map_fd(e, MAPID_TABLES), engine_map_fd(e, MAPID_STACK_FILES),
		engine_map_fd(e, MAPID_FILE_OF),
		engine_map_fd(e, MAPID_PYTHONS), &t);
	files.left_out = code ? NULL : &t->left_out;
	if (!code)
		code = files_find(&files, draft, opts);
	if (!code)
		code = files_identify(&files, engine_maps_fd(e));
	if (!code) {
		add_vdso(&files); /* after files_identify(): it has no device and inode */
		stack_files_read(files.files, files.cnt, on_read, &telling);
	}
	for (size_t i = 0; !code && i < files.cnt; i++)
		code = tables_add(t, &files.files[i]);
	if (!code)
		code = tables_write(t);
	if (!code)
		*ret_left_out = t->left_out;
	return code ? err_sys(err, code, "cannot prepare for stacks") : 0;
}
