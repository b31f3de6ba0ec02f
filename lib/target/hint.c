// SPDX-License-Identifier: BSD-2-Clause
// A preset's library that a process has not: perhaps it is linked into the program.
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "target/requests.h"

/* Enough to tell; a program that calls any of a library's functions has a few of these. */
#define NAMES_MAX 4096

/* The program of a process by its path in there; the size of what readlink(2) gave. */
static ssize_t program_path(pid_t pid, char *buf, size_t size)
{
	char link[64];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	len = readlink(link, buf, size - 1);
	if (len > 0)
		buf[len] = '\0';
	return len;
}

static bool defines_one(const struct object *file, const struct preset_group *preset)
{
	const struct elf_func *funcs;
	size_t cnt;

	if (elf_file_funcs(file->elf, &funcs, &cnt, NULL))
		return false;
	for (size_t i = 0; i < preset->func_cnt && i < NAMES_MAX; i++) {
		const char *symbol = preset->funcs[i].symbol;

		if (elf_file_lookup(file->elf, symbol, strlen(symbol)))
			return true;
	}
	return false;
}

void draft_hint_static(
	struct libfind *finder, const struct draft_opts *opts, struct err *err)
{
	char path[PATH_MAX];

	for (size_t i = 0; opts->preset && i < opts->pid_cnt; i++) {
		_cleanup_free_ const struct object **found = NULL;
		size_t cnt;

		if (program_path(opts->pids[i], path, sizeof(path)) <= 0 ||
			libfind_get(finder, path, &found, &cnt, NULL) ||
			!defines_one(found[0], opts->preset))
			continue;
		err_hint(err, "the program has it linked in: --lib %s", path);
		return;
	}
}
