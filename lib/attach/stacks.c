// SPDX-License-Identifier: BSD-2-Clause
// Which files may lie on a stack when a group is attached, and how the kernel knows them.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/apart.h"
#include "base/err.h"
#include "internal.h"
#include "proc/proc.h"

#define PAGE 4096

struct stack_files {
	struct stack_file *files;
	size_t cnt;
	struct mappers_file *seen; /* mappings that have been looked at */
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

/* Takes @owned over, in any case. */
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
	s->files = array_grow(s->files, s->cnt, sizeof(*s->files));
	page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, elf_file_fd(elf), 0);
	s->files[s->cnt++] = (struct stack_file) {
		.elf = elf,
		.owned = TAKE_PTR(kept),
		.path = xstrdup(path),
		.page = page == MAP_FAILED ? NULL : page,
	};
}

static bool was_seen(const struct stack_files *s, const struct proc_map *map)
{
	const dev_t dev = makedev(map->dev_major, map->dev_minor);

	for (size_t i = 0; i < s->seen_cnt; i++)
		if (s->seen[i].dev == dev && s->seen[i].ino == map->ino)
			return true;
	return false;
}

static void note_seen(struct stack_files *s, const struct proc_map *map)
{
	s->seen = array_grow(s->seen, s->seen_cnt, sizeof(*s->seen));
	s->seen[s->seen_cnt++] = (struct mappers_file) {
		makedev(map->dev_major, map->dev_minor), map->ino, NULL };
}

/* It is alike wherever it is mapped, and known as what lies in no file. */
static void add_vdso(struct stack_files *s)
{
	const size_t cnt = s->cnt;
	struct elf_file *elf;

	if (elf_vdso_open(&elf, NULL))
		return;
	add_file(s, elf, elf, ELF_VDSO);
	for (size_t i = cnt; i < s->cnt; i++)
		s->files[i].known = true;
}

/* What can't be opened, or is no ELF file, has no rows. Nothing is said of who has ended. */
static void add_mapping(struct stack_files *s, pid_t pid, const struct proc_map *map)
{
	struct elf_file *elf;
	struct err why = {};
	int fd, code;

	if (!map->exec || was_seen(s, map))
		return;
	fd = proc_open_mapped("/proc", pid, map, &why);
	code = fd < 0 ? fd : elf_file_open_fd(fd, map->path, -1, NULL, &elf, &why);
	/* The process may have ended: another one that maps the file has it as well. */
	if (code != -ENOENT && code != -ESRCH)
		note_seen(s, map);
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

/* All that map one of the files that are to be probed. */
static int add_mappers(struct stack_files *s, const struct draft *draft, struct procs *procs)
{
	_cleanup_free_ struct mappers_file *probed =
		xcalloc(draft->objects.cnt + 1, sizeof(*probed));
	size_t cnt, probed_cnt = 0;
	const pid_t *pids;
	int code;

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
			add_process(s, procs, pids[i]);
	return code;
}

/* All that run: threads are looked at wherever they are. */
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

/* Who loads @program: some C libraries are needed by another name than they are mapped by. */
static void add_interpreter(struct stack_files *s, const struct elf_file *program)
{
	const char *interp = elf_file_info(program)->interp;
	_cleanup_free_ char *path = *interp ? realpath(interp, NULL) : NULL;
	struct elf_file *elf;

	if (path && !elf_file_open(path, &elf, NULL))
		add_file(s, elf, elf, path);
}

/* And what they need, as far as files say. */
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

/* What a program will map that is yet to begin. */
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

	for (size_t i = 0; !code && i < draft->objects.cnt; i++)
		code = objects_add(&probed, draft->objects.object[i]);
	if (code)
		return code;
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

int iterate_tasks(int prog_fd, union bpf_iter_link_info *info)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .iter_info = info,
		.iter_info_len = sizeof(*info));
	_cleanup_close_ int link = bpf_link_create(prog_fd, 0, BPF_TRACE_ITER, &opts);
	int fd;

	/* What is longer than the kernel's, and not empty. */
	if (link == -E2BIG)
		link = bpf_link_create(prog_fd, 0, BPF_TRACE_ITER, NULL);
	fd = link < 0 ? link : bpf_iter_create(link);
	return fd < 0 ? -errno : fd;
}

/* On overlayfs and btrfs it is by other numbers than those of stat(2). */
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

/* Whoever waits for a second is told. */
#define TOLD_AFTER_NS 1000000000ULL

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
		(bytes < total && bytes >> 20 == total >> 20)) /* only the last is all */
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
	files.left_out = code ? NULL : tables_left_out(t);
	if (!code)
		code = files_find(&files, draft, opts);
	if (!code)
		code = files_identify(&files, engine_maps_fd(e));
	if (!code) {
		add_vdso(&files); /* by no number, as files are */
		stack_files_read(files.files, files.cnt, on_read, &telling);
	}
	for (size_t i = 0; !code && i < files.cnt; i++)
		code = tables_add(t, &files.files[i]);
	if (!code)
		code = tables_write(t);
	if (!code)
		*ret_left_out = *tables_left_out(t);
	return code ? err_sys(err, code, "cannot prepare for stacks") : 0;
}
