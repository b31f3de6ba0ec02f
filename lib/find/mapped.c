// SPDX-License-Identifier: BSD-2-Clause
// Libraries by the mappings of processes, through their mount namespaces.
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "internal.h"

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Returns the path to print for a mapped file, and the directory for its debug file. */
static void mapped_names(const struct lib_proc *p, const struct proc_map *map,
	char **ret_path, char **ret_dir)
{
	const char *base = base_of(map->path);

	if (map->deleted)
		*ret_path = xasprintf("%s (deleted, mapped by pid %d)", map->path, p->pid);
	else if (!p->same_ns)
		*ret_path = xasprintf("%s (pid %d's namespace)", map->path, p->pid);
	else
		*ret_path = xstrdup(map->path);
	*ret_dir = xstrndup(map->path, base > map->path + 1 ? base - map->path - 1 : 1);
}

static struct lib_opened *opened_find(struct libfind *lf, const struct proc_map *map)
{
	for (size_t i = 0; i < lf->opened_cnt; i++) {
		struct lib_opened *o = &lf->opened[i];

		if (o->ino == map->ino && o->dev_major == map->dev_major &&
			o->dev_minor == map->dev_minor)
			return o;
	}
	return NULL;
}

static void opened_add(
	struct libfind *lf, const struct proc_map *map, const struct object *file)
{
	*array_add(lf->opened, lf->opened_cnt) = (struct lib_opened) {
		.dev_major = map->dev_major,
		.dev_minor = map->dev_minor,
		.ino = map->ino,
		.file = file,
	};
}

/* Opens a mapped file for the first time. */
static int open_new(struct libfind *lf, const struct lib_proc *p,
	const struct proc_map *map, const struct object **ret_file, struct err *err)
{
	_cleanup_free_ char *path = NULL, *dir = NULL, *how = NULL;
	_cleanup_close_ int root = -1;
	struct elf_file *elf;
	int fd, ret;

	mapped_names(p, map, &path, &dir);
	how = xasprintf("mapped by pid %d", p->pid);
	fd = proc_open_mapped(lf->proc, p->pid, map, err);
	if (fd < 0 && fd != -ESRCH && map->deleted) {
		err_set(err, fd, "'%s' is deleted, but process %d still has it mapped",
			map->path, p->pid);
		return err_hint(err, "opening a deleted file needs root (CAP_SYS_ADMIN)");
	}
	if (fd < 0)
		return fd;
	if (!p->same_ns)
		root = proc_open_root(lf->proc, p->pid, NULL);
	ret = elf_file_open_fd(fd, path, root >= 0 ? root : -1,
		p->same_ns || root >= 0 ? dir : NULL, &elf, err);
	if (ret)
		return ret;
	libfind_register(lf, elf, path, how, p->pid, ret_file);
	return 0;
}

/*
 * Opens the file of a mapping, once. Returns -ENOEXEC or similar if it is not a supported ELF file.
 */
static int open_mapping(struct libfind *lf, const struct lib_proc *p,
	const struct proc_map *map, const struct object **ret_file, struct err *err)
{
	struct lib_opened *known = opened_find(lf, map);
	const struct object *file = NULL;
	int ret;

	if (known) {
		*ret_file = known->file;
		return known->file
			? 0
			: err_set(err, -ENOEXEC, "'%s' can't be used", map->path);
	}
	ret = open_new(lf, p, map, &file, err);
	/* another process may have permission to open it */
	if (!ret || ret == -ENOEXEC || ret == -EBADMSG || ret == -EINVAL)
		opened_add(lf, map, file);
	*ret_file = file;
	return ret;
}

/* True if the name of a mapping matches; for the opened file, its soname is also checked. */
static bool name_fits(const struct lib_query *q, bool programs, const char *base)
{
	if (programs)
		return strcmp(base, q->text) == 0;
	return lib_query_matches(q, base) || lib_query_may_match(q, base);
}

static bool file_fits(const struct lib_query *q, bool programs, const char *base,
	const struct object *file)
{
	const struct elf_info *info = elf_file_info(file->elf);

	if (programs)
		return info->executable;
	return lib_query_matches(q, base) || lib_query_matches(q, info->soname);
}

/* Users by number: those of containers and user namespaces come last. */
DEFINE_ORDER(compare_users, struct lib_proc, RISING(uid) ?: RISING(pid))

/* Reads the status, because /proc/PID belongs to root if the process is not dumpable. */
static uid_t user_of(const struct libfind *lf, pid_t pid)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[PATH_MAX], line[256];
	unsigned int uid;

	snprintf(path, sizeof(path), "%s/%d/status", lf->proc, pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Uid: %u", &uid) == 1)
			return uid;
	return (uid_t)-1;
}

static int read_proc(struct libfind *lf, pid_t pid, bool must, struct err *err)
{
	struct lib_proc p = { .pid = pid };
	int ret;

	ret = procs_maps(lf->all, pid, &p.maps, err);
	if (ret && !must) {
		lf->denied += ret == -EACCES || ret == -EPERM;
		return 0;
	}
	if (ret)
		return caps_hint(ret, CAPS_BIT(CAP_SYS_PTRACE), err);
	p.uid = user_of(lf, pid);
	p.same_ns = proc_same_mnt_ns(lf->proc, pid);
	*array_add(lf->procs, lf->proc_cnt) = p;
	return 0;
}

int libfind_read_procs(struct libfind *lf, struct err *err)
{
	const pid_t *pids = lf->pids;
	size_t cnt = lf->pid_cnt;
	int ret = 0;

	if (lf->has_procs)
		return 0;
	if (!cnt)
		ret = procs_pids(lf->all, &pids, &cnt, err);
	lf->proc_cnt = 0;
	for (size_t i = 0; !ret && i < cnt; i++)
		ret = read_proc(lf, pids[i], lf->pid_cnt, err);
	if (ret)
		return ret;
	if (!lf->pid_cnt && lf->proc_cnt)
		qsort(lf->procs, lf->proc_cnt, sizeof(*lf->procs), compare_users);
	lf->has_procs = true;
	return 0;
}

/* Number of matching files opened, for this user and in total. */
struct crowd {
	uid_t uid;
	size_t of_user, of_all;
};

/* True if the file exceeds the limits, which do not apply to processes given by the user. */
static bool is_crowded(struct libfind *lf, struct crowd *c, const struct lib_proc *p,
	const struct proc_map *map)
{
	if (p->uid != c->uid)
		*c = (struct crowd) { p->uid, 0, c->of_all };
	if (lf->pid_cnt || opened_find(lf, map))
		return false;
	if (c->of_user < LIBFIND_OF_USER && c->of_all < LIBFIND_OF_ALL) {
		c->of_user++;
		c->of_all++;
		return false;
	}
	lf->crowd++;
	return true;
}

void libfind_mapped(struct libfind *lf, const struct lib_query *q, bool programs,
	struct lib_found *found)
{
	struct crowd crowd = { (uid_t)-1, 0, 0 };

	for (size_t i = 0; i < lf->proc_cnt; i++) {
		const struct lib_proc *p = &lf->procs[i];

		for (size_t k = 0; k < p->maps->cnt; k++) {
			const struct proc_map *map = &p->maps->maps[k];
			const char *base = base_of(map->path);
			const struct object *file;
			int ret;

			if (!map->exec || !name_fits(q, programs, base) ||
				is_crowded(lf, &crowd, p, map))
				continue;
			ret = open_mapping(lf, p, map, &file, &found->unusable);
			if (ret && !programs && lib_query_matches(q, base))
				libfind_see(lf, map->path, NULL, found->unusable.msg);
			if (ret || !file_fits(q, programs, base, file))
				continue;
			objects_add(&found->files, file);
		}
	}
}

bool libfind_has_pids(const struct libfind *lf)
{
	return lf->pid_cnt;
}

void libfind_add_mapped(struct libfind *lf, struct objects *ret_objects)
{
	const struct object *file;

	if (libfind_read_procs(lf, NULL))
		return;
	for (size_t i = 0; i < lf->proc_cnt; i++) {
		const struct lib_proc *p = &lf->procs[i];

		for (size_t k = 0; k < p->maps->cnt; k++)
			if (p->maps->maps[k].exec &&
				!open_mapping(lf, p, &p->maps->maps[k], &file, NULL))
				objects_add(ret_objects, file);
	}
}

static bool is_mapped(const struct lib_proc *p, const struct elf_info *info)
{
	for (size_t i = 0; i < p->maps->cnt; i++) {
		const struct proc_map *m = &p->maps->maps[i];

		if (m->ino == info->ino &&
			(info->overlay ||
				(m->dev_major == major(info->dev) &&
					m->dev_minor == minor(info->dev))))
			return true;
	}
	return false;
}

/* Opens the file that one process sees at @path. */
static int open_seen(struct libfind *lf, const struct lib_proc *p, const char *path,
	bool must_be_mapped, const struct object **ret_file, struct err *err)
{
	_cleanup_free_ char *name = xstrdup(path), *shown = NULL, *dir = NULL;
	_cleanup_elf_file_ struct elf_file *elf = NULL;
	struct proc_map map = { .path = name };
	_cleanup_close_ int root = -1;
	bool mapped;
	int fd, ret;

	mapped_names(p, &map, &shown, &dir);
	root = proc_open_root(lf->proc, p->pid, err);
	if (root < 0)
		return root;
	fd = proc_open_in_root(root, path, 0, err);
	if (fd == -ELOOP) {
		err_hint(err, "with --pid give a path that /proc/%d/maps shows", p->pid);
		return fd;
	}
	if (fd < 0)
		return fd;
	ret = elf_file_open_fd(fd, shown, p->same_ns ? -1 : root, dir, &elf, err);
	if (ret)
		return ret;
	mapped = is_mapped(p, elf_file_info(elf));
	if (must_be_mapped && !mapped)
		return err_set(
			err, -ENOENT, "process %d has not mapped '%s'", p->pid, path);
	libfind_register(lf, TAKE_PTR(elf), shown,
		mapped ? "path, mapped" : "path, not mapped yet", p->pid, ret_file);
	return 0;
}

/* Prefers the mapped file of that path, because the file at the path may have been replaced. */
static int find_in_proc(struct libfind *lf, const struct lib_proc *p, const char *path,
	bool must_be_mapped, const struct object **ret_file, struct err *err)
{
	_cleanup_free_ char *real = p->same_ns ? realpath(path, NULL) : NULL;
	struct err mapped = { 0 };
	int ret;

	if (real)
		path = real;
	for (size_t i = 0; i < p->maps->cnt; i++) {
		if (strcmp(p->maps->maps[i].path, path) == 0 &&
			open_mapping(lf, p, &p->maps->maps[i], ret_file, &mapped) == 0)
			return 0;
	}
	ret = open_seen(lf, p, path, must_be_mapped, ret_file, err);
	if (ret && mapped.code && err)
		*err = mapped; /* more specific than that the path does not exist */
	return ret && err ? err->code : ret;
}

int libfind_path_in_procs(struct libfind *lf, const char *path, bool must_be_mapped,
	struct lib_found *found, struct err *err)
{
	struct err first = { 0 }, why;

	for (size_t i = 0; i < lf->proc_cnt; i++) {
		const struct object *file = NULL;
		int ret;

		ret = find_in_proc(lf, &lf->procs[i], path, must_be_mapped, &file, &why);
		if (ret && !first.code)
			first = why;
		if (!ret)
			objects_add(&found->files, file);
	}
	if (found->files.cnt)
		return 0;
	if (err)
		*err = first;
	return first.code;
}
