// SPDX-License-Identifier: BSD-2-Clause
// Whether a process keeps its main thread: what the kernel's filters by process rest on.
#include <string.h>

#include "attach/main_thread.h"
#include "elf/elf_file.h"
#include "proc/proc.h"

bool main_thread_ended(pid_t pid)
{
	pid_t tid = proc_thread("/proc", pid);

	return tid && tid != pid;
}

/* The C library defines them: what counts is who calls them, or has them linked in. */
static bool ends_threads(struct elf_file *elf)
{
	static const char *const names[] = { "pthread_exit", "thrd_exit" };
	const struct elf_info *info = elf_file_info(elf);
	const struct elf_func *funcs;
	size_t cnt;

	if (elf_file_funcs(elf, &funcs, &cnt, NULL))
		return false;
	if (info->executable && !info->go && !elf_file_names_known(elf))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (elf_file_imports(elf, names[i], strlen(names[i])) ||
			(info->executable && elf_file_names_symbol(elf, names[i], NULL) > 0))
			return true;
	return false;
}

static bool mapping_ends_threads(pid_t pid, const struct proc_map *map)
{
	_cleanup_elf_file_ struct elf_file *elf = NULL;
	int fd = proc_open_mapped("/proc", pid, map, NULL);

	return fd >= 0 && !elf_file_open_fd(fd, map->path, -1, NULL, &elf, NULL) &&
		ends_threads(elf);
}

bool main_thread_may_end(pid_t pid)
{
	_cleanup_proc_maps_ struct proc_maps maps = {};

	if (main_thread_ended(pid))
		return true;
	if (proc_maps_read("/proc", pid, &maps, NULL))
		return false;
	for (size_t i = 0; i < maps.cnt; i++)
		if (maps.maps[i].exec && mapping_ends_threads(pid, &maps.maps[i]))
			return true;
	return false;
}
