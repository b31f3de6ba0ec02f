// SPDX-License-Identifier: BSD-2-Clause
// Cgroups: their paths, and the container, pod, job or unit that each contains.
//
// The BPF programs record the number of a cgroup of version 2, which is the inode of its directory.
// A file handle made of that number opens it, so no search through thousands of directories is
// needed. If only version 1 distinguishes containers, all processes are in the root of version 2.
// /proc then shows the cgroup of each process that is still alive.
//
// Sources of the path formats: kubelet pkg/kubelet/cm/cgroup_manager_linux.go (pod names), runc's
// systemd driver (PREFIX-ID.scope, SLICE:PREFIX:ID), libpod's and cri-o's cgroup parents, and
// SLURM's cgroup/v1 and cgroup/v2 plugins.
#include <ctype.h>
#include <fcntl.h>
#include <mntent.h>
#include <search.h>
#include <sys/stat.h>

#include "base/util.h"
#include "proc/proc.h"

/* FILEID_KERNFS, include/linux/exportfs.h: a handle is the number. */
#define KERNFS_HANDLE 0xfe

#define UID_LEN       36
#define CONTAINER_LEN 64

/* --- parsing of paths ------------------------------------------------------------------------ */

static size_t hex_len(const char *s, size_t len)
{
	size_t n = 0;

	while (n < len && isxdigit((unsigned char)s[n]) && !isupper((unsigned char)s[n]))
		n++;
	return n;
}

/* "8c5d5d3e-0b52-...", or with '_' in systemd unit names; static pods have no separators. */
static bool take_uid(const char *s, size_t len, char ret[UID_LEN + 1])
{
	static const unsigned char dash[] = { 8, 13, 18, 23 };
	char uid[UID_LEN + 1] = "";
	size_t at = 0;

	if (len == 32 && hex_len(s, len) == len) {
		memcpy(ret, s, len);
		ret[len] = '\0';
		return true;
	}
	if (len != UID_LEN)
		return false;
	memcpy(uid, s, len);
	for (size_t i = 0; i <= sizeof(dash); i++) {
		size_t end = i < sizeof(dash) ? dash[i] : UID_LEN;

		if (hex_len(uid + at, end - at) != end - at)
			return false;
		if (i < sizeof(dash) && uid[end] != '-' && uid[end] != '_')
			return false;
		if (i < sizeof(dash))
			uid[end] = '-';
		at = end + 1;
	}
	memcpy(ret, uid, sizeof(uid));
	return true;
}

/* Removes the suffix @end from the *len bytes of @s. Returns false if @s does not end in it. */
static bool cut_end(const char *s, size_t *len, const char *end)
{
	size_t n = strlen(end);

	if (*len <= n || memcmp(s + *len - n, end, n) != 0)
		return false;
	*len -= n;
	return true;
}

/* "podUID", "kubepods-burstable-podUID.slice". */
static bool take_pod(const char *s, size_t len, struct cgroup *c)
{
	const char *end;

	(void)cut_end(s, &len, ".slice");
	end = s + len;
	for (const char *p = s; p + 3 < end; p++)
		if (!memcmp(p, "pod", 3) && (p == s || p[-1] == '-') &&
			take_uid(p + 3, (size_t)(end - p - 3), c->pod_uid))
			return true;
	return false;
}

/* "ID", "docker-ID.scope", "cri-containerd-ID.scope"; a monitor process (conmon) does not count. */
static bool take_container(const char *s, size_t len, struct cgroup *c)
{
	(void)cut_end(s, &len, ".scope");
	if (len < CONTAINER_LEN ||
		hex_len(s + len - CONTAINER_LEN, CONTAINER_LEN) != CONTAINER_LEN)
		return false;
	if (len > CONTAINER_LEN && s[len - CONTAINER_LEN - 1] != '-')
		return false;
	if (memmem(s, len, "conmon", 6))
		return false;
	memcpy(c->container_id, s + len - CONTAINER_LEN, CONTAINER_LEN);
	c->container_id[CONTAINER_LEN] = '\0';
	return true;
}

/* "job_42", below a directory of SLURM. */
static void take_job(const char *s, size_t len, struct cgroup *c)
{
	if (len <= 4 || len - 4 >= sizeof(c->slurm_job) || memcmp(s, "job_", 4) != 0)
		return;
	for (size_t i = 4; i < len; i++)
		if (!isdigit((unsigned char)s[i]))
			return;
	memcpy(c->slurm_job, s + 4, len - 4);
	c->slurm_job[len - 4] = '\0';
}

static void take_unit(const char *s, size_t len, struct cgroup *c)
{
	size_t rest = len;

	if (len >= sizeof(c->unit) ||
		(!cut_end(s, &rest, ".service") && !cut_end(s, &rest, ".scope")))
		return;
	memcpy(c->unit, s, len);
	c->unit[len] = '\0';
}

/*
 * Components seen so far. Users manage user.slice themselves: pods and jobs are ignored below it.
 */
struct part_of {
	bool kubepods, slurm, user;
};

/* A deeper component takes precedence: a nested container has its own pod, or none. */
static void take_part(const char *s, size_t len, const struct part_of *of, struct cgroup *c)
{
	if (of->kubepods && !of->user && take_pod(s, len, c)) {
		*c->container_id = '\0';
	} else if (take_container(s, len, c)) {
		*c->unit = '\0';
		return;
	} else if (of->slurm && !of->user) {
		take_job(s, len, c);
	}
	take_unit(s, len, c);
}

void cgroup_parse(const char *path, struct cgroup *ret)
{
	struct part_of of = {};

	*ret = (struct cgroup) {};
	for (const char *s = path; *s;) {
		size_t len = strcspn(s, "/:");

		of.user |= len == strlen("user.slice") && !memcmp(s, "user.slice", len);
		of.kubepods |= memmem(s, len, "kubepods", 8) != NULL;
		if (len)
			take_part(s, len, &of, ret);
		of.slurm |= memmem(s, len, "slurm", 5) != NULL;
		s += len + (s[len] != '\0');
	}
	/* In a container or a job, the unit would be that of its manager. */
	if (*ret->container_id || *ret->slurm_job)
		*ret->unit = '\0';
}

/* True if it belongs to a pod, a container or a job. */
static bool cgroup_says(const struct cgroup *c)
{
	return *c->pod_uid || *c->container_id || *c->slurm_job;
}

/* --- cgroups of processes -------------------------------------------------------------------- */

/*
 * Returns PATH of a line "ID:CONTROLLERS:PATH" and terminates it; NULL if the line has another
 * form.
 */
static char *path_of_line(char *line, bool *ret_unified)
{
	char *path = strchr(line, ':');

	line[strcspn(line, "\n")] = '\0';
	*ret_unified = !strncmp(line, "0::", 3);
	path = path ? strchr(path + 1, ':') : NULL;
	return path && path[1] == '/' ? path + 1 : NULL;
}

/*
 * Returns the cgroup of process @pid: in version 2, or, with @other, the first one that identifies
 * a pod, container or job.
 */
static char *path_of_process(const char *proc, pid_t pid, bool other)
{
	_cleanup_fclose_ FILE *f = NULL;
	_cleanup_free_ char *line = NULL;
	struct cgroup said;
	size_t size = 0;
	char name[64];
	bool unified;

	snprintf(name, sizeof(name), "%s/%d/cgroup", proc, pid);
	f = fopen(name, "re");
	while (f && getline(&line, &size, f) > 0) {
		const char *path = path_of_line(line, &unified);

		if (!path || unified == other)
			continue;
		if (other)
			cgroup_parse(path, &said);
		if (!other || cgroup_says(&said))
			return xstrdup(path);
	}
	return NULL;
}

/* --- cache ----------------------------------------------------------------------------------- */

/* A cgroup by its number (.pid 0), or that of one process in the root of version 2. */
struct known {
	uint64_t id;
	pid_t pid;
	struct cgroup cgroup;
};

struct cgroups {
	const char *proc;
	bool asked;
	char *mount; /* of version 2, valid if .asked; NULL: not mounted */
	int mount_fd;
	void *tree;
};

DEFINE_ORDER(compare_known, struct known, RISING(id) ?: RISING(pid))

char *cgroup_mount(const char *proc)
{
	struct mntent *m;
	char name[64], *at = NULL;
	FILE *f;

	snprintf(name, sizeof(name), "%s/self/mounts", proc);
	f = setmntent(name, "re");
	while (f && !at && (m = getmntent(f)))
		if (!strcmp(m->mnt_type, "cgroup2"))
			at = xstrdup(m->mnt_dir);
	if (f)
		endmntent(f);
	return at;
}

struct cgroups *cgroups_new(const char *proc)
{
	struct cgroups *c = xcalloc(1, sizeof(*c));

	*c = (struct cgroups) { .proc = proc, .mount_fd = -1 };
	return c;
}

static void open_mount(struct cgroups *c)
{
	if (c->asked)
		return;
	c->asked = true;
	c->mount = cgroup_mount(c->proc);
	if (c->mount)
		c->mount_fd = open(c->mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void known_free(void *known)
{
	free(((struct known *)known)->cgroup.path);
	free(known);
}

void cgroups_free(struct cgroups *c)
{
	if (!c)
		return;
	tdestroy(c->tree, known_free);
	close_fd(c->mount_fd);
	free(c->mount);
	free(c);
}

/* Returns the path below the mount; NULL if the cgroup was removed or access is denied. */
static char *path_of_number(const struct cgroups *c, uint64_t id)
{
	struct {
		struct file_handle head;
		uint64_t id;
	} handle = { .head = { .handle_bytes = sizeof(id), .handle_type = KERNFS_HANDLE } };
	_cleanup_close_ int fd = -1;
	char name[64], path[PATH_MAX];
	size_t below;
	ssize_t len;

	if (c->mount_fd < 0)
		return NULL;
	memcpy(handle.head.f_handle, &id, sizeof(id));
	fd = open_by_handle_at(c->mount_fd, &handle.head, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	len = readlink(name, path, sizeof(path) - 1);
	below = strlen(c->mount);
	if (len < (ssize_t)below || memcmp(path, c->mount, below) != 0)
		return NULL;
	path[len] = '\0';
	return xstrdup(path[below] ? path + below : "/");
}

/* True if @path is the cgroup with number @id, or if that cannot be checked. */
static bool is_number(const struct cgroups *c, const char *path, uint64_t id)
{
	struct stat st;

	return c->mount_fd < 0 ||
		(!fstatat(c->mount_fd, path[1] ? path + 1 : ".", &st, 0) && st.st_ino == id);
}

/* Takes ownership of @path; NULL: the cgroup is unknown. Returns NULL if out of memory. */
static struct cgroup *add_known(struct cgroups *c, uint64_t id, pid_t pid, char *path)
{
	struct known *known = xcalloc(1, sizeof(*known));

	if (path)
		cgroup_parse(path, &known->cgroup);
	known->id = id;
	known->pid = pid;
	known->cgroup.path = path;
	if (tsearch(known, &c->tree, compare_known))
		return &known->cgroup;
	known_free(known);
	return NULL;
}

/* Returns NULL if the cgroup was not looked up before. */
static struct cgroup *find_known(struct cgroups *c, uint64_t id, pid_t pid)
{
	const struct known key = { id, pid, {} };
	struct known **at = tfind(&key, &c->tree, compare_known);

	return at ? &(*at)->cgroup : NULL;
}

const struct cgroup *cgroups_find(struct cgroups *c, uint64_t id, pid_t pid, uint64_t start_ns)
{
	struct cgroup *cgroup = find_known(c, id, 0);
	char *path = NULL;

	if (!cgroup) {
		open_mount(c);
		path = path_of_number(c, id);
		if (!path && pid && proc_alive(c->proc, pid, start_ns))
			path = path_of_process(c->proc, pid, false);
		if (path && !is_number(c, path, id)) {
			free(path);
			path = NULL;
		}
		/*
		 * A failure through this process is not cached, because another process there may
		 * succeed.
		 */
		cgroup = path || !pid ? add_known(c, id, 0, path) : NULL;
	}
	return cgroup && cgroup->path ? cgroup : NULL;
}

const struct cgroup *cgroups_find_process(
	struct cgroups *c, uint64_t id, pid_t pid, uint64_t start_ns)
{
	const struct cgroup *cgroup = cgroups_find(c, id, pid, start_ns), *own;
	char *path;

	if (cgroup && strcmp(cgroup->path, "/") != 0)
		return cgroup;
	own = find_known(c, id, pid);
	if (!own) {
		path = proc_alive(c->proc, pid, start_ns) ? path_of_process(c->proc, pid, true)
							  : NULL;
		own = add_known(c, id, pid, path);
	}
	return own && own->path ? own : cgroup;
}
