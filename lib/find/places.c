// SPDX-License-Identifier: BSD-2-Clause
// Libraries that this system knows by name: the linker's cache and folders.
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "internal.h"

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

	places->places = array_grow(places->places, places->cnt, sizeof(*places->places));
	p = &places->places[places->cnt++];
	*p = (struct lib_place) {
		.dir = xstrndup(dir, dir_len),
		.base = xstrdup(base),
		.soname = soname ? xstrdup(soname) : NULL,
		.stem = stem_of(base),
		.how = how,
	};
}

/* --- glibc's ld.so.cache -------------------------------------------------------------------- */

/* The format of sysdeps/generic/dl-cache.h in glibc, since 2.2 after an older table. */
#define OLD_MAGIC       "ld.so-1.7.0"
#define OLD_HEADER_SIZE 16
#define OLD_ENTRY_SIZE  12
#define NEW_MAGIC       "glibc-ld.so.cache1.1"
#define NEW_HEADER_SIZE 48
#define NEW_ENTRY_SIZE  24

/* _DL_CACHE flags: a library for libc 6, and the machine. */
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
	uint32_t key, value; /* offsets of strings, from the new header on */
	uint32_t os_version;
	uint64_t hwcap;
};

/* The whole file; NULL when it can't be read or is too large. */
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

/* Where the new format begins; NULL when it is not there. */
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

/* Into @places; of a damaged one nothing. */
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

/* --- folders --------------------------------------------------------------------------------- */

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

/* Folders of a ':'-separated list; relative ones mean nothing to a tool like this. */
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

static void add_known(struct lib_places *places, const char *root)
{
	for (size_t i = 0; i < ARRAY_SIZE(known_dirs); i++) {
		__cleanup(globfree) glob_t g = { 0 };
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s%s", root, known_dirs[i]);
		if (glob(path, GLOB_BRACE | GLOB_ONLYDIR, NULL, &g))
			continue;
		for (size_t k = 0; k < g.gl_pathc; k++)
			add_dir(places, root, g.gl_pathv[k] + strlen(root), "well-known folder");
	}
}

/* In the folder PREFIX of a program PREFIX/bin/NAME: those of a conda environment, of wheels. */
static const char *const program_dirs[] = {
	"/lib",
	"/lib64",
	"/lib/python3*/{site,dist}-packages/{*/lib,*.libs,nvidia/*/lib}",
	"/local/lib/python3*/dist-packages/{*/lib,*.libs,nvidia/*/lib}",
};

static void add_prefix(struct lib_places *places, const char *prefix)
{
	for (size_t i = 0; i < ARRAY_SIZE(program_dirs); i++) {
		__cleanup(globfree) glob_t g = { 0 };
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s%s", prefix, program_dirs[i]);
		if (glob(path, GLOB_BRACE | GLOB_ONLYDIR, NULL, &g))
			continue;
		for (size_t k = 0; k < g.gl_pathc; k++)
			add_dir(places, "", g.gl_pathv[k], "near the program");
	}
}

/* PREFIX of a path PREFIX/bin/NAME; false when it is none, or has what a pattern would. */
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

/* As it is called, which a virtual environment's links are, and as it is. */
void lib_places_add_program(struct lib_places *places, const char *program)
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
		add_prefix(places, path);
	if (real && cut_prefix(real) && strcmp(real, path) != 0)
		add_prefix(places, real);
}

void lib_places_read(const char *root, struct lib_places *places)
{
	read_cache(root, places);
	add_list(places, root, secure_getenv("LD_LIBRARY_PATH"), "LD_LIBRARY_PATH");
	for (size_t i = 0; i < ARRAY_SIZE(default_dirs); i++)
		add_dir(places, root, default_dirs[i], "default library folder");
	add_known(places, root);
}

void lib_places_done(struct lib_places *places)
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
