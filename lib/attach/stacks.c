// SPDX-License-Identifier: BSD-2-Clause
// By what stacks are followed: which files may lie on one, and a table of rows for each.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/err.h"
#include "internal.h"
#include "proc/proc.h"
#include "unwind/unwind.h"

#define TABLES_BYTES_MAX (256ULL << 20)
#define PAGE 4096

/* One that may lie on a stack. */
struct stack_file {
	struct elf_file *elf;
	struct elf_file *owned; /* the same, or NULL */
	const char *path;       /* owned */
	void *page;             /* mapped here, to be told how walks will know it */
	struct fsn_file_id id;
	bool known;
};

struct stack_files {
	struct stack_file *files;
	size_t cnt;
	struct mappers_file *seen; /* mappings that have been looked at */
	size_t seen_cnt;
};

static void files_done(struct stack_files *s)
{
	for (size_t i = 0; i < s->cnt; i++) {
		if (s->files[i].page)
			munmap(s->files[i].page, PAGE);
		elf_file_free(s->files[i].owned);
		free((char *)s->files[i].path);
	}
	free(s->files);
	free(s->seen);
}

/* --- which files ------------------------------------------------------------------------------ */

/* Takes @owned over, in any case. */
static int add_file(
	struct stack_files *s, struct elf_file *elf, struct elf_file *owned, const char *path)
{
	_cleanup_elf_file_ struct elf_file *kept = owned;
	struct stack_file *grown;
	void *page;

	for (size_t i = 0; i < s->cnt; i++)
		if (elf_file_same(s->files[i].elf, elf))
			return 0;
	if (s->cnt == FSN_FILES_MAX - 1)
		return 0;
	grown = array_grow(s->files, s->cnt, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	s->files = grown;
	page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, elf_file_fd(elf), 0);
	grown[s->cnt++] = (struct stack_file) {
		.elf = elf,
		.owned = TAKE_PTR(kept),
		.path = strdup(path),
		.page = page == MAP_FAILED ? NULL : page,
	};
	return grown[s->cnt - 1].path ? 0 : -ENOMEM;
}

static bool seen_before(struct stack_files *s, const struct proc_map *map)
{
	const dev_t dev = makedev(map->dev_major, map->dev_minor);
	struct mappers_file *grown;

	for (size_t i = 0; i < s->seen_cnt; i++)
		if (s->seen[i].dev == dev && s->seen[i].ino == map->ino)
			return true;
	grown = array_grow(s->seen, s->seen_cnt, sizeof(*grown));
	if (!grown)
		return false;
	s->seen = grown;
	grown[s->seen_cnt++] = (struct mappers_file) { dev, map->ino, NULL };
	return false;
}

/* What can't be opened, or is no ELF file, has no rows. */
static int add_mapping(struct stack_files *s, pid_t pid, const struct proc_map *map)
{
	struct elf_file *elf;
	int fd;

	if (!map->exec || seen_before(s, map))
		return 0;
	fd = proc_open_mapped("/proc", pid, map, NULL);
	if (fd < 0 || elf_file_open_fd(fd, map->path, -1, NULL, &elf, NULL))
		return 0;
	return add_file(s, elf, elf, map->path);
}

static int add_process(struct stack_files *s, struct procs *procs, pid_t pid)
{
	const struct proc_maps *maps;
	int code = 0;

	if (procs_maps(procs, pid, &maps, NULL))
		return 0;
	for (size_t i = 0; !code && i < maps->cnt; i++)
		code = add_mapping(s, pid, &maps->maps[i]);
	return code;
}

/* All that map one of the files that are to be probed. */
static int add_mappers(struct stack_files *s, const struct draft *draft, struct procs *procs)
{
	_cleanup_free_ struct mappers_file *probed =
		calloc(draft->objects.cnt + 1, sizeof(*probed));
	size_t cnt, probed_cnt = 0;
	const pid_t *pids;
	int code;

	if (!probed)
		return -ENOMEM;
	for (size_t i = 0; i < draft->objects.cnt; i++) {
		const struct elf_info *info = object_file(draft->objects.object[i]);

		if (info)
			probed[probed_cnt++] = (struct mappers_file) { info->dev, info->ino,
				draft->objects.object[i]->path };
	}
	code = procs_pids(procs, &pids, &cnt, NULL);
	for (size_t i = 0; !code && i < cnt; i++)
		if (pids[i] != getpid() && pids[i] != getppid() &&
			mappers_has(procs, pids[i], probed, probed_cnt) > 0)
			code = add_process(s, procs, pids[i]);
	return code;
}

/* And what they need, as far as files say. */
static int add_objects(struct stack_files *s, struct libfind *finder, struct objects *objects)
{
	int code = 0;

	libfind_closure(finder, objects);
	for (size_t i = 0; !code && i < objects->cnt; i++)
		if (objects->object[i]->elf)
			code = add_file(
				s, objects->object[i]->elf, NULL, objects->object[i]->path);
	return code;
}

/* What a program will map that is yet to begin. */
static int add_program(struct stack_files *s, struct libfind *finder, const char *path)
{
	__cleanup(objects_done) struct objects found = {};

	if (!path || libfind_get(finder, path, &found, NULL))
		return 0;
	return add_objects(s, finder, &found);
}

static int files_find(
	struct stack_files *s, const struct draft *draft, const struct attach_opts *opts)
{
	struct procs *procs = libfind_procs(draft->finder);
	__cleanup(objects_done) struct objects probed = {};
	int code = 0;

	for (size_t i = 0; !code && i < draft->objects.cnt; i++)
		code = objects_add(&probed, draft->objects.object[i]);
	if (!code)
		code = add_objects(s, draft->finder, &probed);
	if (!code && opts->unborn)
		code = add_program(s, draft->finder, opts->program);
	if (code || opts->unborn)
		return code;
	for (size_t i = 0; !code && i < opts->filter.pid_cnt; i++)
		code = add_process(s, procs, opts->filter.pids[i]);
	if (!code && !opts->filter.pid_cnt)
		code = add_mappers(s, draft, procs);
	return code;
}

/* --- how walks know them ---------------------------------------------------------------------- */

static void take_mapped(struct stack_files *s, const struct fsn_mapped *at)
{
	for (size_t i = 0; i < s->cnt; i++) {
		if ((uintptr_t)s->files[i].page != at->start || !at->start)
			continue;
		s->files[i].id = at->id;
		s->files[i].known = true;
	}
}

/* On overlayfs and btrfs it is by other numbers than those of stat(2). */
static int files_identify(struct stack_files *s, int prog_fd)
{
	union bpf_iter_link_info info = { .task.pid = (__u32)getpid() };
	LIBBPF_OPTS(bpf_link_create_opts, opts, .iter_info = &info,
		.iter_info_len = sizeof(info));
	_cleanup_close_ int link = -1, fd = -1;
	struct fsn_mapped at[64];
	ssize_t got;

	link = bpf_link_create(prog_fd, 0, BPF_TRACE_ITER, &opts);
	if (link < 0)
		return -errno;
	fd = bpf_iter_create(link);
	if (fd < 0)
		return -errno;
	while ((got = read(fd, at, sizeof(at))) > 0)
		for (size_t i = 0; i < (size_t)got / sizeof(*at); i++)
			take_mapped(s, &at[i]);
	return got < 0 ? -errno : 0;
}

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

struct tables {
	uint32_t number[FSN_FILES_MAX]; /* of files, from 1 on */
	int fd[FSN_FILES_MAX];
	uint32_t cnt;
	uint64_t bytes;
	size_t left_out;
};

static void tables_done(struct tables *t)
{
	for (uint32_t i = 0; i < t->cnt; i++)
		close(t->fd[i]);
	free(t);
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
static int add_table(struct engine *e, const struct stack_file *file, struct tables *t)
{
	_cleanup_unwind_rows_ struct unwind_rows rows = {};
	struct fsn_file_ref ref = { .file = t->cnt + 1 };
	struct fsn_stack_file about;
	int fd;

	if (!file->known)
		return 0;
	if (unwind_rows_read(file->elf, &rows, NULL) ||
		t->bytes + rows.cnt * sizeof(*rows.rows) > TABLES_BYTES_MAX) {
		t->left_out++;
		return 0;
	}
	fd = make_table(&rows);
	if (fd < 0)
		return fd;
	t->bytes += rows.cnt * sizeof(*rows.rows);
	t->number[t->cnt] = ref.file;
	t->fd[t->cnt++] = fd;
	describe_file(file, rows.cnt, &about);
	if (bpf_map_update_elem(engine_map_fd(e, MAPID_STACK_FILES), &ref.file, &about, 0) ||
		bpf_map_update_elem(engine_map_fd(e, MAPID_FILE_OF), &file->id, &ref, 0))
		return -errno;
	return 0;
}

/* Together: each alone would wait until no program runs any more. */
static int write_tables(int fd, struct tables *t)
{
	uint32_t cnt = t->cnt;

	if (!cnt || !bpf_map_update_batch(fd, t->number, t->fd, &cnt, NULL))
		return 0;
	for (uint32_t i = 0; i < t->cnt; i++)
		if (bpf_map_update_elem(fd, &t->number[i], &t->fd[i], 0))
			return -errno;
	return 0;
}

int stacks_prepare(struct engine *e, const struct draft *draft, const struct attach_opts *opts,
	size_t *ret_left_out, struct err *err)
{
	__cleanup(files_done) struct stack_files files = {};
	struct tables *t;
	int code;

	*ret_left_out = 0;
	if (!opts->stack_cnt)
		return 0;
	t = calloc(1, sizeof(*t));
	code = t ? files_find(&files, draft, opts) : -ENOMEM;
	if (!code)
		code = files_identify(&files, engine_maps_fd(e));
	for (size_t i = 0; !code && i < files.cnt; i++)
		code = add_table(e, &files.files[i], t);
	if (!code)
		code = write_tables(engine_map_fd(e, MAPID_TABLES), t);
	if (!code)
		*ret_left_out = t->left_out;
	if (t)
		tables_done(t);
	return code ? err_sys(err, code, "cannot prepare for stacks") : 0;
}
