// SPDX-License-Identifier: BSD-2-Clause
// Names of pods, containers, jobs and units in cgroup paths, and the cgroups of processes.
#include <string.h>
#include <unistd.h>

#include "proc/proc.h"
#include "../scratch.h"
#include "../tap.h"

#define C "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define D "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define P "8c5d5d3e-0b52-4f2a-9c55-1f3a55aa0c01"
#define Q "8c5d5d3e_0b52_4f2a_9c55_1f3a55aa0c01"
#define STATIC "0123456789abcdef0123456789abcdef"

static const struct {
	const char *path, *pod, *container, *job, *unit;
} paths[] = {
	/* docker and podman: systemd's driver, their own, on version 2 and 1 */
	{ "/system.slice/docker-" C ".scope", "", C, "", "" },
	{ "/docker/" C, "", C, "", "" },
	{ "/docker/" C "/init.scope", "", C, "", "" },
	{ "/machine.slice/libpod-" C ".scope/container", "", C, "", "" },
	{ "/machine.slice/libpod-conmon-" C ".scope", "", "", "", "libpod-conmon-" C ".scope" },
	{ "/machine.slice/machine-libpod_pod_" D ".slice/libpod-" C ".scope", "", C, "", "" },
	{ "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" C ".scope", "", C, "", "" },
	{ "/libpod_parent/libpod-" C, "", C, "", "" },
	/* Kubernetes with containerd, cri-o, docker */
	{ "/kubepods/burstable/pod" P "/" C, P, C, "", "" },
	{ "/kubepods/pod" P "/" C, P, C, "", "" },
	{ "/kubepods/besteffort/pod" P "/crio-" C, P, C, "", "" },
	{ "/kubepods/besteffort/pod" STATIC "/" C, STATIC, C, "", "" },
	{ "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" Q
	  ".slice/cri-containerd-" C ".scope", P, C, "", "" },
	{ "/kubepods.slice/kubepods-pod" Q ".slice/crio-" C ".scope/container", P, C, "", "" },
	{ "/kubepods.slice/kubepods-pod" Q ".slice/crio-conmon-" C ".scope", P, "", "",
	  "crio-conmon-" C ".scope" },
	{ "/kubepods.slice/kubepods-pod" Q ".slice/docker-" C ".scope", P, C, "", "" },
	{ "/system.slice/containerd.service/kubepods-burstable-pod" Q ".slice:cri-containerd:" C,
	  P, C, "", "" },
	{ "/kubepods.slice/kubepods-pod" Q ".slice", P, "", "", "" },
	/* a reader in a cgroup of its own; one in another */
	{ "/../../kubepods/pod" P "/" C, P, C, "", "" },
	{ "/docker/" D "/kubelet/kubepods/pod" P "/" C, P, C, "", "" },
	{ "/docker/" D "/docker/" C, "", C, "", "" },
	/* SLURM, version 1 and 2 */
	{ "/slurm/uid_1000/job_42/step_0/task_0", "", "", "42", "" },
	{ "/slurm_node1/uid_1000/job_4200001/step_batch", "", "", "4200001", "" },
	{ "/system.slice/slurmstepd.scope/job_7/step_0/user/task_0", "", "", "7", "" },
	{ "/system.slice/node1_slurmstepd.scope/job_7/step_0/user", "", "", "7", "" },
	{ "/system.slice/slurmstepd.scope/system", "", "", "", "slurmstepd.scope" },
	{ "/backup/job_7", "", "", "", "" },
	/* systemd */
	{ "/system.slice/nginx.service", "", "", "", "nginx.service" },
	{ "/user.slice/user-0.slice/session-3.scope", "", "", "", "session-3.scope" },
	{ "/user.slice/user-1000.slice/user@1000.service/app.slice/app-a\\x2db.service", "", "", "",
	  "app-a\\x2db.service" },
	{ "/init.scope", "", "", "", "init.scope" },
	{ "/user.slice", "", "", "", "" },
	/* nothing of the kind */
	{ "/", "", "", "", "" },
	{ "", "", "", "", "" },
	{ "/pod", "", "", "", "" },
	{ "/podcast/pod" "8c5d5d3e-0b52-4f2a-9c55-1f3a55aa0c0", "", "", "", "" },
	{ "/pod" "8c5d5d3e-0b52-4f2a_9c55-1f3a55aa0cXX", "", "", "", "" },
	{ "/xpod" P, "", "", "", "" },
	{ "/kubepods/xpod" P, "", "", "", "" },
	/* what a user has made */
	{ "/pod" P, "", "", "", "" },
	{ "/user.slice/user-1000.slice/user@1000.service/kubepods/pod" P, "", "", "",
	  "user@1000.service" },
	{ "/user.slice/user-1000.slice/user@1000.service/slurm/job_7", "", "", "",
	  "user@1000.service" },
	{ "/0" C, "", "", "", "" },
	{ "/0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef", "", "", "", "" },
	{ "/slurm/job_", "", "", "", "" },
	{ "/slurm/job_4x", "", "", "", "" },
	{ "/slurm/job_123456789012345678901", "", "", "", "" },
	{ "/.service", "", "", "", "" },
};

static void test_paths(void)
{
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		struct cgroup c;
		char got[512], want[512];

		cgroup_parse(paths[i].path, &c);
		snprintf(got, sizeof(got), "%s|%s|%s|%s", c.pod_uid, c.container_id, c.slurm_job,
			c.unit);
		snprintf(want, sizeof(want), "%s|%s|%s|%s", paths[i].pod, paths[i].container,
			paths[i].job, paths[i].unit);
		is_str(got, want, paths[i].path);
	}
}

static void test_long(void)
{
	static char path[8192] = "/";
	struct cgroup c;

	memset(path + 1, 'a', sizeof(path) - 20);
	strcat(path, ".service");
	cgroup_parse(path, &c);
	is_str(c.unit, "", "a name that no unit has is none");
}

/* This process, as a made-up /proc has it. */
static void be(int pid, const char *cgroup)
{
	char stat[300], path[32];

	snprintf(path, sizeof(path), "%d/cgroup", pid);
	scratch_run("mkdir -p %d", pid);
	scratch_file(path, cgroup, strlen(cgroup));
	snprintf(path, sizeof(path), "%d/stat", pid);
	snprintf(stat, sizeof(stat), "%d (a) b) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 700 0 0\n", pid);
	scratch_file(path, stat, strlen(stat));
}

static const char *said(const struct cgroup *c)
{
	return c ? c->path : NULL;
}

static void test_processes(void)
{
	uint64_t start = 700 * (1000000000ULL / (uint64_t)sysconf(_SC_CLK_TCK));
	struct cgroups *c = cgroups_new(scratch_dir);

	be(10, "0::/kubepods/pod" P "/" C "\n");
	is_str(said(cgroups_find(c, 77, 10, start)), "/kubepods/pod" P "/" C, "by who runs there");
	is_str(said(cgroups_find(c, 77, 0, 0)), "/kubepods/pod" P "/" C, "and then by its number");
	is_str(said(cgroups_find(c, 78, 0, 0)), NULL, "which alone says nothing here");
	is_str(said(cgroups_find(c, 79, 10, 1)), NULL, "nor does a process that has got its number");
	is_str(said(cgroups_find(c, 79, 11, start)), NULL, "nor one that has ended");
	be(12, "12:cpuset:/\n4:memory:/docker/" C "\n1:name=systemd:/x.service\n0::/\n");
	is_str(said(cgroups_find(c, 1, 12, start)), "/", "the root of version 2");
	is_str(said(cgroups_find_process(c, 1, 12, start)), "/docker/" C,
		"behind which a controller of version 1 tells the container");
	be(13, "12:cpuset:/\n4:memory:/user.slice\n0::/\n");
	is_str(said(cgroups_find_process(c, 1, 13, start)), "/", "or none does");
	be(14, "4:freezer:/slurm/uid_0/job_9/step_0\n");
	is_str(said(cgroups_find_process(c, 99, 14, start)), "/slurm/uid_0/job_9/step_0",
		"without a version 2, too");
	be(15, "nonsense\n::\n0:\n0::relative\n4:memory:\n");
	is_str(said(cgroups_find_process(c, 98, 15, start)), NULL, "what is no line is none");
	cgroups_free(c);
}

int main(void)
{
	scratch_begin();
	test_paths();
	test_long();
	test_processes();
	return tap_done();
}
