// SPDX-License-Identifier: BSD-2-Clause
// Processes by what they map and by when they began.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "proc/proc.h"

/* Whether @path, perhaps with a remark behind it, ends in the name that @mapped ends in. */
static bool same_name(const char *mapped, const char *path)
{
	const char *a = strrchr(mapped, '/'), *b = strstr(path, " (");
	size_t len;

	if (!a)
		return false;
	len = strlen(a);
	b = b ? b : path + strlen(path);
	return (size_t)(b - path) >= len && memcmp(b - len, a, len) == 0;
}

static bool same_file(const struct proc_map *map, const struct mappers_file *f)
{
	if ((uint32_t)map->ino != (uint32_t)f->ino)
		return false;
	if (map->dev_major == major(f->dev) && map->dev_minor == minor(f->dev))
		return map->ino == f->ino;
	return same_name(map->path, f->path);
}

static bool maps_one(
	const struct proc_maps *maps, const struct mappers_file *files, size_t cnt)
{
	for (size_t i = 0; i < maps->cnt; i++)
		for (size_t k = 0; k < cnt; k++)
			if (same_file(&maps->maps[i], &files[k]))
				return true;
	return false;
}

int mappers_count(const char *proc, const struct mappers_file *files, size_t cnt,
	size_t *ret_cnt, pid_t *ret_pid, struct err *err)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t pid_cnt, found = 0;
	int code;

	code = proc_pids(proc, &pids, &pid_cnt, err);
	if (code)
		return code;
	for (size_t i = 0; i < pid_cnt; i++) {
		_cleanup_proc_maps_ struct proc_maps maps = {};

		if (pids[i] == getpid() || proc_maps_read(proc, pids[i], &maps, NULL) ||
			!maps_one(&maps, files, cnt))
			continue;
		if (!found++)
			*ret_pid = pids[i];
	}
	*ret_cnt = found;
	return 0;
}

int mappers_has(const char *proc, pid_t pid, const struct mappers_file *files, size_t cnt)
{
	_cleanup_proc_maps_ struct proc_maps maps = {};
	int code = proc_maps_read(proc, pid, &maps, NULL);

	return code ? code : maps_one(&maps, files, cnt);
}

static bool same_start(uint64_t start_ns, uint64_t ticks)
{
	return start_ns / (1000000000 / sysconf(_SC_CLK_TCK)) == ticks;
}

bool proc_alive(const char *proc, pid_t pid, uint64_t start_ns)
{
	uint64_t ticks;
	char state;

	return !proc_read_stat(proc, pid, 0, &state, &ticks) &&
		same_start(start_ns, ticks) && proc_thread(proc, pid);
}

bool proc_ended(pid_t pid, uint64_t start_ns)
{
	uint64_t ticks;
	char state;

	if (kill(pid, 0) && errno == ESRCH)
		return true;
	return !proc_read_stat("/proc", pid, 0, &state, &ticks) &&
		!same_start(start_ns, ticks);
}
