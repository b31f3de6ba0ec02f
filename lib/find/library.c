// SPDX-License-Identifier: BSD-2-Clause
// The library look-up: what is asked for, in which order, every file once.
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "internal.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

#if defined(__x86_64__)
#define NATIVE_ARCH PLAN_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH PLAN_ARM64
#endif

static void found_done(struct lib_found *found)
{
	objects_done(&found->files);
}

/* Opens a path of this mount namespace; shown is where links lead. */
static int open_path(struct libfind *lf, const char *path, const char *how,
	const struct object **ret_file, struct err *err)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	struct elf_file *elf;
	int ret;

	ret = elf_file_open(real ? real : path, &elf, err);
	if (ret)
		return ret;
	libfind_register(lf, elf, real ? real : path, how, 0, ret_file);
	return 0;
}

/* Whether a file that could not be used may be the one that was meant. */
static bool worth_a_word(int code, bool program, const struct err *why)
{
	if (program) /* folders of PATH are often closed, and hold scripts */
		return code == -ENOEXEC || code == -EBADMSG;
	/* a linker script beside its library is everyday */
	return code != -ENOENT && !strstr(why->msg, "linker script");
}

/* As above for a file met in a search: what can't be used is remembered, no error. */
static void try_path(struct libfind *lf, const char *dir, const char *base,
	const char *how, bool program, struct lib_found *found)
{
	const struct object *file;
	char path[2 * PATH_MAX];
	struct err why;
	int ret;

	snprintf(path, sizeof(path), "%s%s/%s", lf->root, dir, base);
	ret = open_path(lf, path, how, &file, &why);
	if (ret && worth_a_word(ret, program, &why)) {
		found->unusable = why;
		libfind_see(lf, path, NULL, why.msg);
		return;
	}
	if (ret || (program && !elf_file_info(file->elf)->executable))
		return;
	if (elf_file_info(file->elf)->arch != NATIVE_ARCH)
		libfind_see(lf, path, NULL, "for another architecture");
	else
		objects_add(&found->files, file);
}

static void find_in_places(
	struct libfind *lf, const struct lib_query *q, struct lib_found *found)
{
	if (!lf->has_places) {
		lib_places_read(lf->root, &lf->places);
		if (lf->program)
			lib_places_add_program(&lf->places, lf->program);
		lf->has_places = true;
	}
	for (size_t i = 0; i < lf->places.cnt; i++) {
		const struct lib_place *p = &lf->places.places[i];

		if (!lib_query_matches(q, p->base) &&
			!(p->soname && lib_query_matches(q, p->soname)))
			continue;
		try_path(lf, p->dir, p->base, p->how, false, found);
	}
}

/* An executable by PATH: the first, as a shell would take it. */
static void find_in_path(struct libfind *lf, const char *name, struct lib_found *found)
{
	const char *list = secure_getenv("PATH");

	if (!list || !*list)
		list = DEFAULT_PATH;
	for (; *list && !found->files.cnt; list += strspn(list, ":")) {
		size_t len = strcspn(list, ":");
		char dir[PATH_MAX];

		if (list[0] == '/' && len < sizeof(dir)) {
			memcpy(dir, list, len);
			dir[len] = '\0';
			try_path(lf, dir, name, "PATH", true, found);
		}
		list += len;
	}
}

/* The same in given processes: what they would see there. */
static void find_in_path_of_procs(
	struct libfind *lf, const char *name, struct lib_found *found)
{
	static const char *const dirs[] = { "/usr/local/bin", "/usr/bin", "/bin",
		"/usr/local/sbin", "/usr/sbin", "/sbin" };
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(dirs) && !found->files.cnt; i++) {
		snprintf(path, sizeof(path), "%s/%s", dirs[i], name);
		libfind_path_in_procs(lf, path, true, found, NULL);
	}
}

/*
 * The first path that was typed for @file, where symbolic links have led from it. Another hard
 * link is a path of its own, which is told to be the same file.
 */
static void note_typed(struct libfind *lf, const struct object *file, const char *path)
{
	_cleanup_free_ char *real = realpath(path, NULL);

	if (!real || file->typed || !strcmp(path, file->path) || strcmp(real, file->path))
		return;
	for (size_t i = 0; i < lf->file_cnt; i++)
		if (lf->files[i] == file) {
			lf->files[i]->typed = xstrdup(path);
			return;
		}
}

static int find_by_path(
	struct libfind *lf, const char *lib, struct lib_found *found, struct err *err)
{
	_cleanup_free_ char *real = NULL;
	const struct object *file;
	int ret;

	if (lf->pid_cnt) {
		if (lib[0] != '/')
			real = realpath(lib, NULL);
		ret = libfind_path_in_procs(lf, real ? real : lib, false, found, err);
	} else {
		ret = open_path(lf, lib, "path", &file, err);
		if (!ret)
			objects_add(&found->files, file);
	}
	for (size_t i = 0; !ret && i < found->files.cnt; i++)
		note_typed(lf, found->files.object[i], lib);
	return ret;
}

static int not_found(struct libfind *lf, const struct lib_query *q,
	const struct lib_found *found, struct err *err)
{
	if (found->unusable.code) {
		if (err)
			*err = found->unusable;
		return err_wrap(err, "no library '%s' that can be used", q->text);
	}
	if (lf->pid_cnt == 1)
		err_set(err, -ENOENT, "process %d has no library '%s' mapped",
			lf->pids[0], q->text);
	else if (lf->pid_cnt)
		err_set(err, -ENOENT, "none of %zu processes has a library '%s' mapped",
			lf->pid_cnt, q->text);
	else
		err_set(err, -ENOENT, "no library or program '%s'", q->text);
	libfind_hint(lf, q, err);
	return -ENOENT;
}

static int find_by_name(
	struct libfind *lf, const char *lib, struct lib_found *found, struct err *err)
{
	__cleanup(lib_query_done) struct lib_query q = { 0 };
	int ret;

	lib_query_parse(lib, &q);
	if (!lf->pid_cnt)
		find_in_places(lf, &q, found);
	ret = libfind_read_procs(lf, err);
	if (ret)
		return ret;
	libfind_mapped(lf, &q, false, found);
	if (found->files.cnt)
		return 0;
	if (!lf->pid_cnt)
		find_in_path(lf, lib, found);
	if (!found->files.cnt)
		libfind_mapped(lf, &q, true, found);
	if (!found->files.cnt && lf->pid_cnt)
		find_in_path_of_procs(lf, lib, found);
	return found->files.cnt ? 0 : not_found(lf, &q, found, err);
}

/* --- files of fitting names that look-ups came by, and what became of each ------------------ */

static bool seen_before(
	const struct libfind *lf, const char *path, const struct object *file)
{
	for (size_t i = 0; i < lf->seen_cnt; i++)
		if (lf->seen[i].file == file && strcmp(lf->seen[i].path, path) == 0)
			return true;
	return false;
}

void libfind_see(struct libfind *lf, const char *path, const struct object *file,
	const char *why)
{
	if (seen_before(lf, path, file))
		return;
	lf->seen = array_grow(lf->seen, lf->seen_cnt, sizeof(*lf->seen));
	lf->seen[lf->seen_cnt++] = (struct lib_seen) {
		.path = xstrdup(path),
		.file = file,
		.why = why ? xstrdup(why) : NULL,
	};
}

static void seen_done(struct libfind *lf)
{
	for (size_t i = 0; i < lf->seen_cnt; i++) {
		free((char *)lf->seen[i].path);
		free((char *)lf->seen[i].why);
	}
	free(lf->seen);
}

const struct lib_seen *libfind_seen(const struct libfind *lf, size_t *ret_cnt)
{
	*ret_cnt = lf->seen_cnt;
	return lf->seen;
}

/* --- all of it ------------------------------------------------------------------------------- */

static int by_path(const void *a, const void *b)
{
	const struct object *const *x = a, *const *y = b;

	return strcmp((*x)->path, (*y)->path);
}

void libfind_register(struct libfind *lf, struct elf_file *elf, const char *path,
	const char *how, pid_t pid, const struct object **ret_file)
{
	_cleanup_elf_file_ struct elf_file *own = elf;
	struct object *file;

	for (size_t i = 0; i < lf->file_cnt; i++) {
		if (elf_file_same(lf->files[i]->elf, elf)) {
			*ret_file = lf->files[i];
			if (strcmp(path, (*ret_file)->path))
				libfind_see(lf, path, *ret_file, NULL);
			return;
		}
	}
	lf->files = array_grow(lf->files, lf->file_cnt, sizeof(*lf->files));
	file = xcalloc(1, sizeof(*file));
	lf->files[lf->file_cnt++] = file;
	file->path = xstrdup(path);
	file->found_how = xstrdup(how);
	file->pid = pid;
	file->elf = TAKE_PTR(own);
	file->build_id = elf_file_info(file->elf)->build_id;
	*ret_file = file;
}

struct libfind *libfind_new(const struct libfind_opts *opts)
{
	struct libfind *lf = xcalloc(1, sizeof(*lf));

	lf->root = xstrdup(opts->root ? opts->root : "");
	lf->proc = xstrdup(opts->proc ? opts->proc : "/proc");
	lf->pids = xcalloc(opts->pid_cnt + 1, sizeof(*lf->pids));
	lf->program = opts->program ? xstrdup(opts->program) : NULL;
	if (opts->pid_cnt)
		memcpy(lf->pids, opts->pids, opts->pid_cnt * sizeof(*lf->pids));
	lf->pid_cnt = opts->pid_cnt;
	lf->all = opts->procs;
	if (!lf->all)
		lf->all = lf->own = procs_new(lf->proc);
	return lf;
}

void libfind_free(struct libfind *lf)
{
	if (!lf)
		return;
	for (size_t i = 0; i < lf->file_cnt; i++) {
		elf_file_free(lf->files[i]->elf);
		free((char *)lf->files[i]->path);
		free((char *)lf->files[i]->typed);
		free((char *)lf->files[i]->found_how);
		free(lf->files[i]);
	}
	procs_free(lf->own);
	lib_places_done(&lf->places);
	seen_done(lf);
	free(lf->files);
	free(lf->procs);
	free(lf->opened);
	free(lf->pids);
	free(lf->program);
	free(lf->root);
	free(lf->proc);
	free(lf);
}

int libfind_get(struct libfind *lf, const char *lib, struct objects *ret_objects,
	struct err *err)
{
	__cleanup(found_done) struct lib_found found = { 0 };
	int ret;

	lf->lacks = false;
	if (!*lib)
		return err_set(err, -EINVAL, "the name of a library is empty");
	if (lf->pid_cnt) { /* gone or forbidden processes are errors before anything else */
		ret = libfind_read_procs(lf, err);
		if (ret)
			return ret;
	}
	ret = strchr(lib, '/') ? find_by_path(lf, lib, &found, err)
			       : find_by_name(lf, lib, &found, err);
	lf->lacks = ret == -ENOENT;
	if (ret)
		return ret;
	qsort(found.files.object, found.files.cnt, sizeof(*found.files.object), by_path);
	*ret_objects = found.files;
	found.files = (struct objects) { 0 };
	return 0;
}

bool libfind_lacks(const struct libfind *lf)
{
	return lf->lacks;
}

void libfind_forgive(struct libfind *lf)
{
	lf->lacks = false;
}

size_t libfind_crowd(const struct libfind *lf)
{
	return lf->crowd;
}

size_t libfind_denied(const struct libfind *lf)
{
	return lf->denied;
}

struct procs *libfind_procs(const struct libfind *lf)
{
	return lf->all;
}
