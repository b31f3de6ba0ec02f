// SPDX-License-Identifier: BSD-2-Clause
// Processes by what they map and by when they began.
#include "users.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "proc.h"

/* On overlayfs and btrfs a mapping's device is not that of stat: then the name decides. */
static bool same_file(const struct proc_map *map, const struct stat *st, const char *path)
{
	const char *a = strrchr(map->path, '/'), *b = strrchr(path, '/');

	if (map->ino != st->st_ino || map->deleted)
		return false;
	if (map->dev_major == major(st->st_dev) && map->dev_minor == minor(st->st_dev))
		return true;
	return a && b && !strcmp(a, b);
}

int users_of_file(const char *proc, const char *path, size_t *ret_cnt, pid_t *ret_pid)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t cnt, found = 0;
	struct stat st;
	int code;

	if (stat(path, &st))
		return -errno;
	code = proc_pids(proc, &pids, &cnt, NULL);
	if (code)
		return code;
	for (size_t i = 0; i < cnt; i++) {
		_cleanup_proc_maps_ struct proc_maps maps = {};

		if (proc_maps_read(proc, pids[i], &maps, NULL))
			continue;
		for (size_t k = 0; k < maps.cnt; k++)
			if (same_file(&maps.maps[k], &st, path)) {
				if (!found++)
					*ret_pid = pids[i];
				break;
			}
	}
	*ret_cnt = found;
	return 0;
}

bool users_alive(const char *proc, pid_t pid, uint64_t start_ns)
{
	uint64_t ticks, hz = sysconf(_SC_CLK_TCK);
	char state;

	return !proc_read_stat(proc, pid, 0, &state, &ticks) && state != 'Z' && state != 'X' &&
	       start_ns / (1000000000 / hz) == ticks;
}
