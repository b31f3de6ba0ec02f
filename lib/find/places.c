// SPDX-License-Identifier: BSD-2-Clause
// Libraries that this system knows by name: the linker's cache and folders.
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <string.h>

#include "library_internal.h"

#if defined(__x86_64__)
#define MULTIARCH "x86_64-linux-gnu"
#define CUDA_ARCH "x86_64-linux"
#elif defined(__aarch64__)
#define MULTIARCH "aarch64-linux-gnu"
#define CUDA_ARCH "{sbsa,aarch64}-linux"
#endif

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

/* "cudart" of "libcudart.so.13". */
static char *stem_of(const char *base)
{
	const char *so;

	if (strncmp(base, "lib", 3) == 0)
		base += 3;
	so = strstr(base, ".so");
	return so ? strndup(base, so - base) : strdup(base);
}

static int add_dir(
	struct lib_places *places, const char *root, const char *dir, const char *how)
{
	_cleanup_closedir_ DIR *d = NULL;
	char path[PATH_MAX];
	struct dirent *entry;
	int ret;

	if (snprintf(path, sizeof(path), "%s%s", root, dir) >= (int)sizeof(path))
		return 0;
	d = opendir(path);
	while (d && (entry = readdir(d))) {
		if (!strstr(entry->d_name, ".so") || entry->d_type == DT_DIR)
			continue;
		ret = lib_place_add(places, dir, strlen(dir), entry->d_name, NULL, how);
		if (ret)
			return ret;
	}
	return 0;
}

/* Folders of a ':'-separated list; relative ones mean nothing to a tool like this. */
static int add_list(
	struct lib_places *places, const char *root, const char *list, const char *how)
{
	while (list && *list) {
		size_t len = strcspn(list, ":;");
		char dir[PATH_MAX];
		int ret;

		if (list[0] == '/' && len < sizeof(dir)) {
			memcpy(dir, list, len);
			dir[len] = '\0';
			ret = add_dir(places, root, dir, how);
			if (ret)
				return ret;
		}
		list += len + !!list[len];
	}
	return 0;
}

static void cleanup_globfree(glob_t *g)
{
	globfree(g);
}

static int add_known(struct lib_places *places, const char *root)
{
	for (size_t i = 0; i < ARRAY_SIZE(known_dirs); i++) {
		__cleanup(cleanup_globfree) glob_t g = { 0 };
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s%s", root, known_dirs[i]);
		if (glob(path, GLOB_BRACE | GLOB_ONLYDIR, NULL, &g))
			continue;
		for (size_t k = 0; k < g.gl_pathc; k++) {
			int ret = add_dir(places, root, g.gl_pathv[k] + strlen(root),
				"well-known folder");

			if (ret)
				return ret;
		}
	}
	return 0;
}

int lib_place_add(struct lib_places *places, const char *dir, size_t dir_len,
	const char *base, const char *soname, const char *how)
{
	struct lib_place *grown = array_grow(places->places, places->cnt, sizeof(*grown));
	struct lib_place *p;

	if (!grown)
		return -ENOMEM;
	places->places = grown;
	p = &places->places[places->cnt++];
	*p = (struct lib_place) {
		.dir = strndup(dir, dir_len),
		.base = strdup(base),
		.soname = soname ? strdup(soname) : NULL,
		.stem = stem_of(base),
		.how = how,
	};
	return p->dir && p->base && p->stem && (!soname || p->soname) ? 0 : -ENOMEM;
}

int lib_places_read(const char *root, struct lib_places *places)
{
	int ret;

	ret = lib_cache_read(root, places);
	if (!ret)
		ret = add_list(places, root, secure_getenv("LD_LIBRARY_PATH"),
			"LD_LIBRARY_PATH");
	for (size_t i = 0; !ret && i < ARRAY_SIZE(default_dirs); i++)
		ret = add_dir(places, root, default_dirs[i], "default library folder");
	return ret ? ret : add_known(places, root);
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
