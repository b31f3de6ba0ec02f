// SPDX-License-Identifier: BSD-2-Clause
// Looking through all processes' mappings.
#include "mappers.h"
#include "proc.h"
#include "util.h"

static bool maps_target(const struct proc_maps *maps, const struct target *t)
{
	for (size_t i = 0; i < maps->cnt; i++)
		for (size_t k = 0; k < t->lib_cnt; k++)
			if (maps->maps[i].ino == elf_file_info(t->libs[k]->elf)->ino)
				return true;
	return false;
}

int mappers_count(const struct target *t, size_t *ret_processes, struct err *err)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t cnt, found = 0;
	int code;

	code = proc_pids("/proc", &pids, &cnt, err);
	if (code)
		return code;
	for (size_t i = 0; i < cnt; i++) {
		_cleanup_proc_maps_ struct proc_maps maps = {};

		if (pids[i] != getpid() && !proc_maps_read("/proc", pids[i], &maps, NULL) &&
			maps_target(&maps, t))
			found++;
	}
	*ret_processes = found;
	return 0;
}
