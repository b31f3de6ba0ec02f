// SPDX-License-Identifier: BSD-2-Clause
// The library lookup: the places to search, in order; every file is opened once.
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "internal.h"

/* --- Libraries that the system knows by name: the dynamic linker's cache and directories ----- */

#if defined(__x86_64__)
#define MULTIARCH "x86_64-linux-gnu"
#define CUDA_ARCH "x86_64-linux"
#elif defined(__aarch64__)
#define MULTIARCH "aarch64-linux-gnu"
#define CUDA_ARCH "{sbsa,aarch64}-linux"
#endif

/* "cudart" of "libcudart.so.13". */
static char *stem_of(const char *base)
{
	const char *so;

	if (strncmp(base, "lib", 3) == 0)
		base += 3;
	so = strstr(base, ".so");
	return so ? xstrndup(base, so - base) : xstrdup(base);
}

static void add_place(struct lib_places *places, const char *dir, size_t dir_len,
	const char *base, const char *soname, const char *how)
{
	struct lib_place *p;

	p = array_add(places->places, places->cnt);
	*p = (struct lib_place) {
		.dir = xstrndup(dir, dir_len),
		.base = xstrdup(base),
		.soname = soname ? xstrdup(soname) : NULL,
		.stem = stem_of(base),
		.how = how,
	};
}

/* --- glibc's ld.so.cache -------------------------------------------------------------------- */

/* Format of sysdeps/generic/dl-cache.h in glibc; since 2.2 it follows an older table. */
#define OLD_MAGIC       "ld.so-1.7.0"
#define OLD_HEADER_SIZE 16
#define OLD_ENTRY_SIZE  12
#define NEW_MAGIC       "glibc-ld.so.cache1.1"
#define NEW_HEADER_SIZE 48
#define NEW_ENTRY_SIZE  24

/* Flags of _DL_CACHE: a library for libc 6, and the machine. */
#define FLAG_TYPE_MASK 0x00ff
#define FLAG_ELF_LIBC6 0x0003
#define FLAG_MACH_MASK 0xff00
#if defined(__x86_64__)
#define FLAG_MACH 0x0300
#elif defined(__aarch64__)
#define FLAG_MACH 0x0a00
#endif

#define CACHE_MAX_SIZE (64u << 20)

struct cache_entry {
	int32_t flags;
	uint32_t key, value; /* offsets of strings, from the new header */
	uint32_t os_version;
	uint64_t hwcap;
};

/* Returns the complete file, or NULL if it cannot be read or is too large. */
static char *read_cache_file(const char *path, size_t *ret_size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	char *bytes;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
		file_read(fd, CACHE_MAX_SIZE, &bytes, ret_size))
		return NULL;
	return bytes;
}

static uint32_t word_at(const char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* Returns the start of the new format, or NULL if it is missing. */
static const char *new_part(const char *bytes, size_t size, size_t *ret_size)
{
	uint64_t at = 0;

	if (size >= OLD_HEADER_SIZE && memcmp(bytes, OLD_MAGIC, strlen(OLD_MAGIC)) == 0) {
		at = OLD_HEADER_SIZE + (uint64_t)word_at(bytes + 12) * OLD_ENTRY_SIZE;
		at = (at + 7) & ~7ull;
	}
	if (at > size || size - at < NEW_HEADER_SIZE ||
		memcmp(bytes + at, NEW_MAGIC, strlen(NEW_MAGIC)) != 0)
		return NULL;
	*ret_size = size - at;
	return bytes + at;
}

static void add_cache_entry(const char *part, size_t size, const struct cache_entry *e,
	struct lib_places *places)
{
	const char *path, *slash;

	if ((e->flags & FLAG_TYPE_MASK) != FLAG_ELF_LIBC6 ||
		(e->flags & FLAG_MACH_MASK) != FLAG_MACH || e->key >= size ||
		e->value >= size)
		return;
	path = part + e->value;
	slash = strrchr(path, '/');
	if (path[0] != '/' || strlen(path) >= PATH_MAX ||
		strlen(part + e->key) >= PATH_MAX)
		return;
	add_place(
		places, path, slash - path, slash + 1, part + e->key, "ld.so.cache");
}

/* Adds the entries of ld.so.cache to @places. Ignores a damaged cache. */
static void read_cache(const char *root, struct lib_places *places)
{
	_cleanup_free_ char *bytes = NULL;
	char path[PATH_MAX];
	const char *part;
	size_t size;
	uint32_t cnt;

	snprintf(path, sizeof(path), "%s/etc/ld.so.cache", root);
	bytes = read_cache_file(path, &size);
	part = bytes ? new_part(bytes, size, &size) : NULL;
	if (!part)
		return;
	cnt = word_at(part + strlen(NEW_MAGIC));
	if (cnt > (size - NEW_HEADER_SIZE) / NEW_ENTRY_SIZE)
		return;
	for (uint32_t i = 0; i < cnt; i++) {
		struct cache_entry e;

		memcpy(&e, part + NEW_HEADER_SIZE + (size_t)i * NEW_ENTRY_SIZE,
			sizeof(e));
		add_cache_entry(part, size, &e, places);
	}
}

/* --- directories ---------------------------------------------------------------------------- */

static const char *const default_dirs[] = {
	"/lib/" MULTIARCH,
	"/usr/lib/" MULTIARCH,
	"/lib64",
	"/usr/lib64",
	"/lib",
	"/usr/lib",
	"/usr/local/lib",
	"/usr/local/lib64",
	"/usr/local/lib/" MULTIARCH,
};

static const char *const known_dirs[] = {
	"/usr/local/cuda*/lib64",
	"/usr/local/cuda*/lib",
	"/usr/local/cuda*/targets/" CUDA_ARCH "/lib",
	"/usr/local/cuda*/extras/CUPTI/lib64",
	"/opt/cuda*/lib64",
	"/opt/cuda*/lib",
	"/opt/cuda*/targets/" CUDA_ARCH "/lib",
};

static void add_dir(
	struct lib_places *places, const char *root, const char *dir, const char *how)
{
	_cleanup_closedir_ DIR *d = NULL;
	char path[PATH_MAX];
	struct dirent *entry;

	if (snprintf(path, sizeof(path), "%s%s", root, dir) >= (int)sizeof(path))
		return;
	d = opendir(path);
	while (d && (entry = readdir(d))) {
		if (!strstr(entry->d_name, ".so") || entry->d_type == DT_DIR)
			continue;
		add_place(places, dir, strlen(dir), entry->d_name, NULL, how);
	}
}

/*
 * Adds the directories of a ':'-separated list. Relative ones depend on the working directory of a
 * process.
 */
static void add_list(
	struct lib_places *places, const char *root, const char *list, const char *how)
{
	while (list && *list) {
		size_t len = strcspn(list, ":;");
		char dir[PATH_MAX];

		if (list[0] == '/' && len < sizeof(dir)) {
			memcpy(dir, list, len);
			dir[len] = '\0';
			add_dir(places, root, dir, how);
		}
		list += len + !!list[len];
	}
}

/* Adds the directories below @prefix in @root that match @patterns. */
static void add_matches(struct lib_places *places, const char *root, const char *prefix,
	const char *const *patterns, size_t cnt, const char *how)
{
	for (size_t i = 0; i < cnt; i++) {
		__cleanup(globfree) glob_t g = { 0 };
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s%s%s", root, prefix, patterns[i]);
		if (glob(path, GLOB_BRACE | GLOB_ONLYDIR, NULL, &g))
			continue;
		for (size_t k = 0; k < g.gl_pathc; k++)
			add_dir(places, root, g.gl_pathv[k] + strlen(root), how);
	}
}

/* Below the PREFIX of a program PREFIX/bin/NAME: directories of conda environments and wheels. */
static const char *const program_dirs[] = {
	"/lib",
	"/lib64",
	"/lib/python3*/{site,dist}-packages/{*/lib,*.libs,nvidia/*/lib}",
	"/local/lib/python3*/dist-packages/{*/lib,*.libs,nvidia/*/lib}",
};

/*
 * Reduces PREFIX/bin/NAME to PREFIX. Returns false for other paths, or if PREFIX has glob
 * characters.
 */
static bool cut_prefix(char *path)
{
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(path, '/');

		if (!slash || slash == path)
			return false;
		*slash = '\0';
	}
	return path[0] == '/' && !strpbrk(path, "*?[]{}\\");
}

/* Uses both the path as typed, because virtual environments consist of links, and the real path. */
static void lib_places_add_program(struct lib_places *places, const char *program)
{
	_cleanup_free_ char *real = realpath(program, NULL);
	char path[PATH_MAX], cwd[PATH_MAX];

	if (program[0] == '/')
		snprintf(path, sizeof(path), "%s", program);
	else if (getcwd(cwd, sizeof(cwd)))
		snprintf(path, sizeof(path), "%.*s/%s", PATH_MAX / 2, cwd, program);
	else
		return;
	if (cut_prefix(path))
		add_matches(places, "", path, program_dirs,
			ARRAY_SIZE(program_dirs), "near the program");
	if (real && cut_prefix(real) && strcmp(real, path) != 0)
		add_matches(places, "", real, program_dirs,
			ARRAY_SIZE(program_dirs), "near the program");
}

/*
 * Collects ld.so.cache, LD_LIBRARY_PATH, and the default and well-known directories, below @root.
 * Unreadable ones are skipped.
 */
static void lib_places_read(const char *root, struct lib_places *places)
{
	read_cache(root, places);
	add_list(places, root, secure_getenv("LD_LIBRARY_PATH"), "LD_LIBRARY_PATH");
	for (size_t i = 0; i < ARRAY_SIZE(default_dirs); i++)
		add_dir(places, root, default_dirs[i], "default library directory");
	add_matches(places, root, "", known_dirs, ARRAY_SIZE(known_dirs), "well-known directory");
}

/* Adds those that @program may load from its own environment. */
static void lib_places_done(struct lib_places *places)
{
	for (size_t i = 0; i < places->cnt; i++) {
		free(places->places[i].dir);
		free(places->places[i].base);
		free(places->places[i].soname);
		free(places->places[i].stem);
	}
	free(places->places);
	*places = (struct lib_places) { 0 };
}

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

/* Opens a path of this mount namespace. The path to print is that after resolving links. */
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

/* True if a file that could not be used may be the one that the user meant. */
static bool worth_a_word(int code, bool program, const struct err *why)
{
	if (program) /* directories in PATH are often inaccessible, and contain scripts */
		return code == -ENOEXEC || code == -EBADMSG;
	/* a linker script next to its library is common */
	return code != -ENOENT && !strstr(why->msg, "linker script");
}

/* Same for a file found in a search: a file that cannot be used is recorded and causes no error. */
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

/*
 * Records the first path typed for @file, if symbolic links lead from it to the file. Another hard
 * link has an entry of its own, which is reported as the same file.
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

/* Finds an executable in PATH: the first one, as a shell does. */
static void find_in_path(struct libfind *lf, const char *name, struct lib_found *found)
{
	const char *list = secure_getenv("PATH");
	char path[2 * PATH_MAX] = "";

	if (!list || !*list)
		list = DEFAULT_PATH;
	for (; *list && !found->files.cnt; list += strspn(list, ":")) {
		size_t len = strcspn(list, ":");
		char dir[PATH_MAX];

		if (list[0] == '/' && len < sizeof(dir)) {
			memcpy(dir, list, len);
			dir[len] = '\0';
			try_path(lf, dir, name, "PATH", true, found);
			snprintf(path, sizeof(path), "%s/%s", dir, name);
		}
		list += len;
	}
	if (found->files.cnt)
		note_typed(lf, found->files.object[0], path);
}

/* Same in the given processes: as seen from their namespaces. */
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
	if (found->files.cnt)
		note_typed(lf, found->files.object[0], path);
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

/* The program to be run, if no library has its name. */
static void find_program(struct libfind *lf, struct lib_found *found)
{
	const struct object *file;

	if (!open_path(lf, lf->program, "path", &file, NULL))
		objects_add(&found->files, file);
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
	if (lf->program && !strcmp(lib, basename(lf->program)))
		find_program(lf, found);
	if (!found->files.cnt && !lf->pid_cnt)
		find_in_path(lf, lib, found);
	if (!found->files.cnt)
		libfind_mapped(lf, &q, true, found);
	if (!found->files.cnt && lf->pid_cnt)
		find_in_path_of_procs(lf, lib, found);
	return found->files.cnt ? 0 : not_found(lf, &q, found, err);
}

/* --- matching files that the lookups met, and the use of each --------------------------------- */

static bool seen_before(
	const struct libfind *lf, const char *path, const struct object *file)
{
	return ANY_WHERE(lf->seen_cnt, i, lf->seen[i].file == file &&
		strcmp(lf->seen[i].path, path) == 0);
}

void libfind_see(struct libfind *lf, const char *path, const struct object *file,
	const char *why)
{
	if (seen_before(lf, path, file))
		return;
	*array_add(lf->seen, lf->seen_cnt) = (struct lib_seen) {
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

/* --- the lookup ------------------------------------------------------------------------------- */

DEFINE_ORDER(by_path, struct object *const, strcmp((*x)->path, (*y)->path))

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
	file = xcalloc(1, sizeof(*file));
	*array_add(lf->files, lf->file_cnt) = file;
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
	if (lf->pid_cnt) { /* a missing or inaccessible process takes precedence over other
			      errors */
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
