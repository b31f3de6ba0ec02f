// SPDX-License-Identifier: BSD-2-Clause
// Functions that a file only imports: which library of those it needs defines them.
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "internal.h"

/* Enough for any program; what comes later is seldom where a function is. */
#define CLOSURE_MAX 256

/* Libraries needed, in the dynamic linker's order: breadth first. */
struct closure {
	const struct lib_file *files[CLOSURE_MAX];
	size_t cnt;
};

static void closure_add(struct closure *c, const struct lib_file *file)
{
	for (size_t i = 0; i < c->cnt; i++)
		if (c->files[i] == file)
			return;
	if (c->cnt < CLOSURE_MAX)
		c->files[c->cnt++] = file;
}

/* The file that @lib names for us; a library that has several is told by none of them. */
static const struct lib_file *only_file(struct libfind *finder, const char *lib)
{
	_cleanup_free_ const struct lib_file **found = NULL;
	size_t cnt = 0;

	return libfind_get(finder, lib, &found, &cnt, NULL) == 0 && cnt == 1 ? found[0]
									     : NULL;
}

/* Below a folder of @file's DT_RUNPATH, where "$ORIGIN" is its own (ld.so(8)). */
static const struct lib_file *by_runpath(
	struct libfind *finder, const struct lib_file *file, const char *soname)
{
	const char *list = elf_file_info(file->elf)->runpath,
		   *slash = strrchr(file->path, '/');
	char path[PATH_MAX];

	for (; *list; list += strspn(list, ":")) {
		size_t len = strcspn(list, ":"), skip = 0;
		const struct lib_file *found;

		if (strncmp(list, "$ORIGIN", 7) == 0)
			skip = 7;
		else if (strncmp(list, "${ORIGIN}", 9) == 0)
			skip = 9;
		if (snprintf(path, sizeof(path), "%.*s%.*s/%s",
			    skip && slash ? (int)(slash - file->path) : 0, file->path,
			    (int)(len - skip), list + skip, soname) < (int)sizeof(path) &&
			path[0] == '/') {
			found = only_file(finder, path);
			if (found)
				return found;
		}
		list += len;
	}
	return NULL;
}

static void add_needed(
	struct closure *c, struct libfind *finder, const struct lib_file *file)
{
	const struct elf_info *info = elf_file_info(file->elf);

	for (size_t i = 0; i < info->needed_cnt && c->cnt < CLOSURE_MAX; i++) {
		const struct lib_file *found = by_runpath(finder, file, info->needed[i]);

		if (!found)
			found = only_file(finder, info->needed[i]);
		if (found)
			closure_add(c, found);
	}
}

static bool defines(const struct lib_file *file, const char *name)
{
	const struct elf_func *funcs;
	const struct elf_name *n;
	size_t cnt;

	if (elf_file_funcs(file->elf, &funcs, &cnt, NULL))
		return false;
	for (n = elf_file_lookup(file->elf, name, strlen(name)); n;
		n = elf_name_next(file->elf, n))
		if (n->table == ELF_TABLE_DYNSYM)
			return true;
	return false;
}

const struct lib_file *resolve_definer(
	struct libfind *finder, const struct lib_file *importer, const char *name)
{
	struct closure c = { .cnt = 0 };

	if (!finder)
		return NULL;
	add_needed(&c, finder, importer);
	for (size_t i = 0; i < c.cnt; i++) {
		if (defines(c.files[i], name))
			return c.files[i];
		add_needed(&c, finder, c.files[i]);
	}
	return NULL;
}
