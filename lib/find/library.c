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

static int no_memory(const char *lib, struct err *err)
{
	return err_sys(err, -ENOMEM, "cannot look for '%s'", lib);
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
	ret = libfind_register(lf, elf, real ? real : path, how, 0, ret_file);
	return ret ? no_memory(path, err) : 0;
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
static int try_path(struct libfind *lf, const char *dir, const char *base,
	const char *how, bool program, struct lib_found *found)
{
	const struct object *file;
	char path[2 * PATH_MAX];
	struct err why;
	int ret;

	snprintf(path, sizeof(path), "%s%s/%s", lf->root, dir, base);
	ret = open_path(lf, path, how, &file, &why);
	if (ret == -ENOMEM)
		return ret;
	if (ret && worth_a_word(ret, program, &why)) {
		found->unusable = why;
		return libfind_see(lf, path, NULL, why.msg);
	}
	if (ret || (program && !elf_file_info(file->elf)->executable))
		return 0;
	if (elf_file_info(file->elf)->arch != NATIVE_ARCH)
		return libfind_see(lf, path, NULL, "for another architecture");
	return objects_add(&found->files, file);
}

static int find_in_places(
	struct libfind *lf, const struct lib_query *q, struct lib_found *found)
{
	int ret;

	if (!lf->has_places) {
		ret = lib_places_read(lf->root, &lf->places);
		if (!ret && lf->program)
			ret = lib_places_add_program(&lf->places, lf->program);
		if (ret)
			return ret;
		lf->has_places = true;
	}
	for (size_t i = 0; i < lf->places.cnt; i++) {
		const struct lib_place *p = &lf->places.places[i];

		if (!lib_query_matches(q, p->base) &&
			!(p->soname && lib_query_matches(q, p->soname)))
			continue;
		ret = try_path(lf, p->dir, p->base, p->how, false, found);
		if (ret)
			return ret;
	}
	return 0;
}

/* An executable by PATH: the first, as a shell would take it. */
static int find_in_path(struct libfind *lf, const char *name, struct lib_found *found)
{
	const char *list = secure_getenv("PATH");
	int ret = 0;

	if (!list || !*list)
		list = DEFAULT_PATH;
	for (; *list && !ret && !found->files.cnt; list += strspn(list, ":")) {
		size_t len = strcspn(list, ":");
		char dir[PATH_MAX];

		if (list[0] == '/' && len < sizeof(dir)) {
			memcpy(dir, list, len);
			dir[len] = '\0';
			ret = try_path(lf, dir, name, "PATH", true, found);
		}
		list += len;
	}
	return ret;
}

/* The same in given processes: what they would see there. */
static int find_in_path_of_procs(
	struct libfind *lf, const char *name, struct lib_found *found)
{
	static const char *const dirs[] = { "/usr/local/bin", "/usr/bin", "/bin",
		"/usr/local/sbin", "/usr/sbin", "/sbin" };
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(dirs) && !found->files.cnt; i++) {
		snprintf(path, sizeof(path), "%s/%s", dirs[i], name);
		if (libfind_path_in_procs(lf, path, true, found, NULL) == -ENOMEM)
			return -ENOMEM;
	}
	return 0;
}

/*
 * The first path that was typed for @file, where symbolic links have led from it. Another hard
 * link is a path of its own, which is told to be the same file.
 */
static int note_typed(struct libfind *lf, const struct object *file, const char *path)
{
	_cleanup_free_ char *real = realpath(path, NULL);

	if (!real || file->typed || !strcmp(path, file->path) || strcmp(real, file->path))
		return 0;
	for (size_t i = 0; i < lf->file_cnt; i++)
		if (lf->files[i] == file) {
			lf->files[i]->typed = strdup(path);
			return lf->files[i]->typed ? 0 : -ENOMEM;
		}
	return 0;
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
		if (!ret && objects_add(&found->files, file))
			ret = no_memory(lib, err);
	}
	for (size_t i = 0; !ret && i < found->files.cnt; i++)
		if (note_typed(lf, found->files.object[i], lib))
			ret = no_memory(lib, err);
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

	if (lib_query_parse(lib, &q))
		return no_memory(lib, err);
	if (!lf->pid_cnt && find_in_places(lf, &q, found))
		return no_memory(lib, err);
	ret = libfind_read_procs(lf, err);
	if (ret)
		return ret;
	ret = libfind_mapped(lf, &q, false, found, err);
	if (ret || found->files.cnt)
		return ret;
	if (!lf->pid_cnt && find_in_path(lf, lib, found))
		return no_memory(lib, err);
	if (!found->files.cnt) {
		ret = libfind_mapped(lf, &q, true, found, err);
		if (ret)
			return ret;
	}
	if (!found->files.cnt && lf->pid_cnt && find_in_path_of_procs(lf, lib, found))
		return no_memory(lib, err);
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

int libfind_see(struct libfind *lf, const char *path, const struct object *file,
	const char *why)
{
	struct lib_seen *grown;

	if (seen_before(lf, path, file))
		return 0;
	grown = array_grow(lf->seen, lf->seen_cnt, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	lf->seen = grown;
	grown[lf->seen_cnt] = (struct lib_seen) {
		.path = strdup(path),
		.file = file,
		.why = why ? strdup(why) : NULL,
	};
	lf->seen_cnt++;
	return grown[lf->seen_cnt - 1].path && (!why || grown[lf->seen_cnt - 1].why)
		? 0
		: -ENOMEM;
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

int libfind_register(struct libfind *lf, struct elf_file *elf, const char *path,
	const char *how, pid_t pid, const struct object **ret_file)
{
	_cleanup_elf_file_ struct elf_file *own = elf;
	struct object **grown, *file;

	for (size_t i = 0; i < lf->file_cnt; i++) {
		if (elf_file_same(lf->files[i]->elf, elf)) {
			*ret_file = lf->files[i];
			return strcmp(path, (*ret_file)->path)
				? libfind_see(lf, path, *ret_file, NULL)
				: 0;
		}
	}
	grown = array_grow(lf->files, lf->file_cnt, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	lf->files = grown;
	file = calloc(1, sizeof(*file));
	if (!file)
		return -ENOMEM;
	lf->files[lf->file_cnt++] = file;
	file->path = strdup(path);
	file->found_how = strdup(how);
	file->pid = pid;
	file->elf = TAKE_PTR(own);
	file->build_id = elf_file_info(file->elf)->build_id;
	if (!file->path || !file->found_how)
		return -ENOMEM;
	*ret_file = file;
	return 0;
}

int libfind_new(
	const struct libfind_opts *opts, struct libfind **ret_finder, struct err *err)
{
	_cleanup_libfind_ struct libfind *lf = calloc(1, sizeof(*lf));

	if (!lf)
		return err_sys(err, -ENOMEM, "cannot look for libraries");
	lf->root = strdup(opts->root ? opts->root : "");
	lf->proc = strdup(opts->proc ? opts->proc : "/proc");
	lf->pids = calloc(opts->pid_cnt + 1, sizeof(*lf->pids));
	lf->program = opts->program ? strdup(opts->program) : NULL;
	if (!lf->root || !lf->proc || !lf->pids || !lf->program != !opts->program)
		return err_sys(err, -ENOMEM, "cannot look for libraries");
	if (opts->pid_cnt)
		memcpy(lf->pids, opts->pids, opts->pid_cnt * sizeof(*lf->pids));
	lf->pid_cnt = opts->pid_cnt;
	lf->all = opts->procs;
	if (!lf->all) {
		int ret = procs_new(lf->proc, &lf->own, err);

		if (ret)
			return ret;
		lf->all = lf->own;
	}
	*ret_finder = TAKE_PTR(lf);
	return 0;
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
