// SPDX-License-Identifier: BSD-2-Clause
// Filters into the maps that programs look them up in.
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>

#include <bpf/bpf.h>

#include "base/util.h"
#include "group/filter.h"
#include "shared/layout.h"

static int put(int fd, const void *key, const char *what, struct err *err)
{
	uint32_t one = 1;

	if (!bpf_map_update_elem(fd, key, &one, 0))
		return 0;
	if (errno == E2BIG)
		return err_set(err, -E2BIG, "too many filters by %s", what);
	return err_sys(err, -errno, "cannot filter by %s", what);
}

static int put_comm(int fd, const char *name, struct err *err)
{
	struct fsn_comm comm = {};

	if (!*name || strlen(name) >= sizeof(comm.comm))
		return err_set(err, -EINVAL, "command '%s' has not 1 to %zu bytes", name,
			sizeof(comm.comm) - 1);
	memcpy(comm.comm, name, strlen(name));
	return put(fd, &comm, "command", err);
}

static int put_cgroup(int map_fd, uint32_t i, const char *path, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statfs st;

	if (i >= FSN_CGROUPS_MAX)
		return err_set(err, -E2BIG, "more than %d cgroups", FSN_CGROUPS_MAX);
	if (fd < 0)
		return err_sys(err, -errno, "cannot open cgroup '%s'", path);
	if (fstatfs(fd, &st) || (unsigned long)st.f_type != CGROUP2_SUPER_MAGIC) {
		err_set(err, -EINVAL, "'%s' is no folder of cgroup v2", path);
		return err_hint(err, "such as /sys/fs/cgroup/system.slice");
	}
	if (bpf_map_update_elem(map_fd, &i, &fd, 0))
		return err_sys(err, -errno, "cannot filter by cgroup '%s'", path);
	return 0;
}

int filter_write(const struct filter *f, const struct filter_maps *maps, uint32_t *ret_mask,
	struct err *err)
{
	int code = 0;

	for (size_t i = 0; !code && i < f->pid_cnt; i++)
		code = put(maps->pids, &f->pids[i], "process", err);
	for (size_t i = 0; !code && i < f->comm_cnt; i++)
		code = put_comm(maps->comms, f->comms[i], err);
	for (size_t i = 0; !code && i < f->cpu_cnt; i++)
		code = put(maps->cpus, &f->cpus[i], "CPU", err);
	for (size_t i = 0; !code && i < f->cgroup_cnt; i++)
		code = put_cgroup(maps->cgroups, i, f->cgroups[i], err);
	if (code)
		return code;
	*ret_mask = (f->pid_cnt ? FSN_FILTER_PID : 0) | (f->comm_cnt ? FSN_FILTER_COMM : 0) |
		    (f->cpu_cnt ? FSN_FILTER_CPU : 0) |
		    (f->cgroup_cnt ? FSN_FILTER_CGROUP : 0);
	return 0;
}
