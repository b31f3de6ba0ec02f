// SPDX-License-Identifier: BSD-2-Clause
// Where calls were made: addresses of processes as functions, or files, and how far behind
// their beginning.
//
// A program's code lies elsewhere in each process, and when that has ended nobody knows where
// it lay. So what is named is kept in the group, beside its row, and what programs saw of it.
#include <errno.h>
#include <limits.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <bpf/bpf.h>

#include "elf/dwarf.h"
#include "internal.h"
#include "proc/proc.h"

#define PROC "/proc"

/* A mapped file, opened once. */
struct code_file {
	uint32_t dev_major, dev_minor;
	uint64_t ino;
	struct code_known *known;
};

struct code_proc {
	pid_t pid;
	uint64_t start_ns;
	struct proc_maps maps; /* none when it has ended */
};

struct callers {
	struct code_file *files;
	struct code_proc *procs;
	size_t file_cnt, proc_cnt;
};

struct callers *callers_new(void)
{
	return xcalloc(1, sizeof(struct callers));
}

static void known_free(struct code_known *known)
{
	if (!known)
		return;
	elf_file_free(known->elf);
	kernel_names_done(&known->kernels);
	free(known);
}

void callers_free(struct callers *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->file_cnt; i++)
		known_free(c->files[i].known);
	for (size_t i = 0; i < c->proc_cnt; i++)
		proc_maps_done(&c->procs[i].maps);
	free(c->files);
	free(c->procs);
	free(c);
}

/* --- whose code lies there --------------------------------------------------------------------- */

/* Mappings of a process that runs, before and after they were read. */
static const struct code_proc *proc_of(struct callers *c, pid_t pid, uint64_t start_ns)
{
	struct code_proc *proc;

	for (size_t i = c->proc_cnt; i--;)
		if (c->procs[i].pid == pid && c->procs[i].start_ns == start_ns)
			return &c->procs[i];
	c->procs = array_grow(c->procs, c->proc_cnt, sizeof(*c->procs));
	proc = &c->procs[c->proc_cnt++];
	*proc = (struct code_proc) { .pid = pid, .start_ns = start_ns };
	if (!proc_is_first_ns() || !proc_alive(PROC, pid, start_ns) ||
		proc_maps_read(PROC, pid, &proc->maps, NULL))
		return proc;
	if (!proc_alive(PROC, pid, start_ns))
		proc_maps_done(&proc->maps);
	return proc;
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Its functions are known, if anything of it is. */
static struct elf_file *open_code(pid_t pid, const struct proc_map *map)
{
	_cleanup_free_ char *dir = NULL;
	const struct elf_func *funcs;
	_cleanup_close_ int root = -1;
	struct elf_file *elf = NULL;
	size_t cnt;
	int fd = proc_open_mapped(PROC, pid, map, NULL);

	if (fd < 0)
		return NULL;
	if (!proc_same_mnt_ns(PROC, pid))
		root = proc_open_root(PROC, pid, NULL);
	dir = xstrndup(map->path, (size_t)(base_of(map->path) - map->path));
	if (elf_file_open_fd(fd, map->path, root >= 0 ? root : -1, dir, &elf, NULL))
		return NULL;
	if (!elf_file_funcs(elf, &funcs, &cnt, NULL))
		return elf;
	elf_file_free(elf);
	return NULL;
}

/* What is known of the file; *ret_new: nothing yet. */
static struct code_known *known_of(
	struct callers *c, uint32_t major, uint32_t minor, uint64_t ino, bool *ret_new)
{
	struct code_known *known;

	*ret_new = false;
	for (size_t i = 0; i < c->file_cnt; i++)
		if (c->files[i].ino == ino && c->files[i].dev_major == major &&
			c->files[i].dev_minor == minor)
			return c->files[i].known;
	c->files = array_grow(c->files, c->file_cnt, sizeof(*c->files));
	known = xcalloc(1, sizeof(*known));
	c->files[c->file_cnt++] = (struct code_file) { major, minor, ino, known };
	*ret_new = true;
	return known;
}

static struct code_known *file_of(struct callers *c, pid_t pid, const struct proc_map *map)
{
	bool is_new;
	struct code_known *known =
		known_of(c, map->dev_major, map->dev_minor, map->ino, &is_new);

	if (is_new)
		known->elf = open_code(pid, map);
	return known;
}

bool callers_code(
	struct callers *c, pid_t pid, uint64_t start_ns, uint64_t addr, struct code_at *ret)
{
	const struct code_proc *p = proc_of(c, pid, start_ns);
	const struct proc_map *map = proc_maps_at(&p->maps, addr);

	if (!map)
		return false;
	ret->known = file_of(c, pid, map);
	ret->file = base_of(map->path);
	ret->offset = addr - map->start + map->offset;
	if (!ret->known || !ret->known->elf ||
		elf_file_offset_to_addr(ret->known->elf, ret->offset, &ret->addr))
		ret->known = NULL;
	return true;
}

/* --- what it is called -------------------------------------------------------------------------- */

void put_place(char *to, size_t size, const char *name, uint64_t behind)
{
	char offset[24];
	int len = snprintf(offset, sizeof(offset), "+0x%llx", (unsigned long long)behind);

	snprintf(to, size, "%.*s%s", (int)size - 1 - len, name, offset);
}

/* The call is the instruction before @addr, which may begin another function. */
static bool put_function(const struct code_at *at, struct fsn_caller *to)
{
	_cleanup_free_ char *plain = NULL;
	const struct elf_func *func;

	func = at->known ? elf_file_func_at(at->known->elf, at->addr) : NULL;
	if (!func)
		return false;
	plain = demangle(func->names->name, DEMANGLE_NAME);
	put_place(to->text, sizeof(to->text), plain ? plain : func->names->name,
		at->addr + 1 - func->addr);
	return true;
}

bool callers_name(struct callers *c, pid_t pid, uint64_t start_ns, uint64_t addr,
	struct fsn_caller *ret)
{
	struct code_at at;

	if (!callers_code(c, pid, start_ns, addr - 1, &at))
		return false;
	*ret = (struct fsn_caller) { .addr = addr, .start = start_ns };
	if (!put_function(&at, ret))
		put_place(ret->text, sizeof(ret->text), at.file, at.offset + 1);
	return true;
}

/* --- of processes that have ended ----------------------------------------------------------------- */

#define MINOR_BITS 20 /* MINORBITS, include/linux/kdev_t.h */

/* The file's path below the root of its file system, "/usr/bin/git"; false: it is too long. */
static bool path_below_root(const struct fsn_file_name *name, char path[PATH_MAX])
{
	size_t len = 0;

	if (!name->cnt || name->cnt > FSN_NAME_PARTS)
		return false;
	for (size_t i = name->cnt; i--;) {
		size_t part = strnlen(name->part[i], FSN_NAME_PART);

		if (part >= FSN_NAME_PART - 1)
			return false; /* it may be cut */
		len += (size_t)snprintf(path + len, PATH_MAX - len, "/%.*s", (int)part, name->part[i]);
	}
	return true;
}

static bool is_file(const char *path, const struct fsn_file_id *id)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && st.st_ino == id->ino;
}

/* Where its file system, or the part of it that has the file, is mounted here. */
static bool find_path(const struct fsn_file_id *id, const char *below, char path[PATH_MAX])
{
	_cleanup_fclose_ FILE *f = fopen(PROC "/self/mountinfo", "re");
	char line[2 * PATH_MAX], root[PATH_MAX], at[PATH_MAX];
	unsigned int major, minor;
	size_t len;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*d %*d %u:%u %4095s %4095s", &major, &minor, root, at) != 4 ||
			((uint64_t)major << MINOR_BITS | minor) != id->dev)
			continue;
		len = strcmp(root, "/") ? strlen(root) : 0;
		if (strncmp(below, root, len))
			continue;
		if (snprintf(path, PATH_MAX, "%s%s", strcmp(at, "/") ? at : "", below + len) <
				PATH_MAX &&
			is_file(path, id))
			return true;
	}
	/* An overlay's mount has a number of its own. */
	return snprintf(path, PATH_MAX, "%s", below) < PATH_MAX && is_file(path, id);
}

static bool kept_path(
	const struct fsn_file_id *id, const struct fsn_file_name *name, char path[PATH_MAX])
{
	char below[PATH_MAX];

	return path_below_root(name, below) && find_path(id, below, path);
}

bool group_file_path(const struct group *g, const struct fsn_file_id *id, char path[PATH_MAX])
{
	struct fsn_file_name name;

	if (group_fd(g, MAPID_FILE_NAMES) < 0 ||
		bpf_map_lookup_elem(group_fd(g, MAPID_FILE_NAMES), id, &name))
		return false;
	return kept_path(id, &name, path);
}

static struct code_known *file_kept(struct callers *c, const struct fsn_file_id *id,
	const struct fsn_file_name *name)
{
	char path[PATH_MAX];
	const struct elf_func *funcs;
	struct code_known *known;
	bool is_new;
	size_t cnt;

	known = known_of(c, (uint32_t)(id->dev >> MINOR_BITS),
		(uint32_t)(id->dev & ((1U << MINOR_BITS) - 1)), id->ino, &is_new);
	if (!known || !is_new)
		return known;
	if (kept_path(id, name, path) &&
		!elf_file_open(path, &known->elf, NULL) &&
		elf_file_funcs(known->elf, &funcs, &cnt, NULL)) {
		elf_file_free(known->elf);
		known->elf = NULL;
	}
	return known;
}

static bool code_kept(struct callers *c, const struct group *g, const struct fsn_called *called,
	struct fsn_file_name *ret_name, struct code_at *ret)
{
	if (group_fd(g, MAPID_FILE_NAMES) < 0 ||
		bpf_map_lookup_elem(group_fd(g, MAPID_FILE_NAMES), &called->id, ret_name) || !ret_name->cnt)
		return false;
	ret_name->part[0][FSN_NAME_PART - 1] = '\0';
	*ret = (struct code_at) { .offset = called->offset };
	ret->known = file_kept(c, &called->id, ret_name);
	if (!ret->known || !ret->known->elf ||
		elf_file_offset_to_addr(ret->known->elf, ret->offset, &ret->addr))
		ret->known = NULL;
	return true;
}

bool callers_name_kept(struct callers *c, const struct group *g, const struct fsn_called *called,
	struct fsn_caller *ret)
{
	struct fsn_file_name name;
	struct code_at at;

	if (!code_kept(c, g, called, &name, &at))
		return false;
	*ret = (struct fsn_caller) { .addr = called->addr, .start = called->start };
	if (!put_function(&at, ret))
		put_place(ret->text, sizeof(ret->text), name.part[0], at.offset + 1);
	return true;
}

bool callers_line(struct callers *c, const struct group *g, const struct stats_row *row,
	uint64_t addr, const struct fsn_called *called, char *text, size_t size)
{
	struct elf_line line[ELF_LINES_MAX];
	struct fsn_file_name name;
	struct code_at at;

	if (!callers_code(c, row->pid, row->start_ns, addr - 1, &at) &&
		!(called && code_kept(c, g, called, &name, &at)))
		return false;
	if (!at.known || !elf_lines_at(at.known->elf, at.addr, line) || !line[0].line)
		return false;
	snprintf(text, size, " (%s:%u%s%s)", base_of(line[0].source), line[0].line,
		line[0].inlined ? " in " : "", line[0].inlined ? line[0].function : "");
	return true;
}

/* --- kept in statistics -------------------------------------------------------------------------- */

static int compare_texts(const void *a, const void *b)
{
	return strcmp(a, b);
}

const char *callers_intern(struct stats *s, const char *text)
{
	char **found = tfind(text, &s->places, compare_texts);

	if (!found)
		found = tsearch(xstrdup(text), &s->places, compare_texts);
	if (!found)
		alloc_failed();
	return *found;
}

void callers_done(struct stats *s)
{
	tdestroy(s->places, free);
}
