// SPDX-License-Identifier: BSD-2-Clause
// /proc: processes, their mappings, threads that sleep, and files of other mount namespaces.
#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <linux/magic.h>
#include <linux/openat2.h>

#include "base/util.h"
#include "proc/proc.h"

/* --- Capabilities of this process, by name ------------------------------------------------------- */

/* Inode of the first user namespace: PROC_USER_INIT_INO, include/linux/proc_ns.h. */
#define INIT_USER_NS 0xeffffffdU

static const struct {
	unsigned int cap;
	const char *name;
} caps_known[] = { { CAP_BPF, "CAP_BPF" }, { CAP_PERFMON, "CAP_PERFMON" },
	{ CAP_SYS_ADMIN, "CAP_SYS_ADMIN" }, { CAP_SYS_PTRACE, "CAP_SYS_PTRACE" },
	{ CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE" },
	{ CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH" } };

bool caps_in_user_namespace(void)
{
	struct stat st;

	return !stat("/proc/self/ns/user", &st) && st.st_ino != INIT_USER_NS;
}

uint64_t caps_effective(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
	uint64_t caps;

	if (caps_in_user_namespace() || syscall(SYS_capget, &header, data))
		return 0;
	caps = (uint64_t)data[1].effective << 32 | data[0].effective;
	return (caps & CAPS_BIT(CAP_SYS_ADMIN)) ? caps | CAPS_ATTACH : caps;
}

const char *caps_names(uint64_t caps, char *buf, unsigned int size)
{
	unsigned int len = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(caps_known); i++)
		if (caps & CAPS_BIT(caps_known[i].cap) && len < size)
			len += snprintf(buf + len, size - len, "%s%s", len ? " and " : "",
				caps_known[i].name);
	return buf;
}

const char *caps_advice(void)
{
	return geteuid() ? "; try with sudo"
			 : ", which this root was started without, as in a container";
}

int caps_hint(int code, uint64_t needed, struct err *err)
{
	uint64_t missing = needed & ~caps_effective();
	char names[128];

	if (!err || (code != -EPERM && code != -EACCES))
		return code;
	if (caps_in_user_namespace())
		err_hint(err, "needs %s of the host, not of a container's user namespace",
			caps_names(needed, names, sizeof(names)));
	else if (missing)
		err_hint(err, "needs %s%s", caps_names(missing, names, sizeof(names)),
			caps_advice());
	else
		err_hint(err,
			"no capability is missing: kernel lockdown, a seccomp filter or a security "
			"module forbids it");
	return code;
}

#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
#define HEAD_SIZE  4096

/* Inodes of the first namespaces: PROC_PID_INIT_INO, ..., include/linux/proc_ns.h. */
#define FIRST_PID_NS  0xeffffffcU
#define FIRST_TIME_NS 0xeffffffaU

#ifndef BTRFS_SUPER_MAGIC
#define BTRFS_SUPER_MAGIC 0x9123683E
#endif

int proc_cause(int code)
{
	return code == -ENOENT && access("/proc/self", F_OK) ? -ERR_NO_PROC : code;
}

/* --- threads -------------------------------------------------------------------------------- */

int proc_read_stat(const char *proc, pid_t pid, pid_t tid, struct proc_stat *ret_stat)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[PATH_MAX], line[1024];
	const char *rest;

	if (tid)
		snprintf(path, sizeof(path), "%s/%d/task/%d/stat", proc, pid, tid);
	else
		snprintf(path, sizeof(path), "%s/%d/stat", proc, pid);
	f = fopen(path, "re");
	if (!f || !fgets(line, sizeof(line), f))
		return -ESRCH;
	/* State is field 3, the start field 22, as in proc(5); the command before them may hold anything. */
	rest = strrchr(line, ')');
	if (!rest ||
		sscanf(rest + 1,
			" %c %d %*s %*s %*s %*s %*s %" SCNu64 " %*s %" SCNu64
			" %*s %*s %*s %*s %*s %*s %*s %" SCNu64 " %*s %" SCNu64,
			&ret_stat->state, &ret_stat->parent, &ret_stat->minor, &ret_stat->major,
			&ret_stat->threads, &ret_stat->start_ticks) != 6)
		return -EINVAL;
	return 0;
}

static bool thread_runs(const char *proc, pid_t pid, pid_t tid)
{
	struct proc_stat stat;

	return !proc_read_stat(proc, pid, tid, &stat) && stat.state != 'Z' && stat.state != 'X';
}

pid_t proc_thread(const char *proc, pid_t pid)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	char path[PATH_MAX];

	if (thread_runs(proc, pid, 0))
		return pid;
	snprintf(path, sizeof(path), "%s/%d/task", proc, pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (tid > 0 && thread_runs(proc, pid, tid))
			return tid;
	}
	return 0;
}

pid_t proc_of_thread(const char *proc, pid_t tid)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[PATH_MAX], line[256];
	int pid = 0;

	snprintf(path, sizeof(path), "%s/%d/status", proc, tid);
	f = fopen(path, "re");
	while (f && !pid && fgets(line, sizeof(line), f))
		if (sscanf(line, "Tgid: %d", &pid) != 1)
			pid = 0;
	return pid;
}

/*
 * Builds the path of file @what of @pid. A thread that exits loses its memory, root and namespaces:
 * without its main thread, a process has them only in its other threads.
 */
static void path_of(char path[PATH_MAX], const char *proc, pid_t pid, const char *what)
{
	pid_t tid = proc_thread(proc, pid);

	snprintf(path, PATH_MAX, "%s/%d/%s", proc, tid ? tid : pid, what);
}

/* --- mappings and files --------------------------------------------------------------------- */

/* Undoes "\012", the only escape in maps (fs/proc/task_mmu.c), and " (deleted)". */
static void path_tidy(struct proc_map *m)
{
	static const char deleted[] = " (deleted)";
	size_t len;
	char *p = m->path;

	while ((p = strstr(p, "\\012"))) {
		*p++ = '\n';
		memmove(p, p + 3, strlen(p + 3) + 1);
	}
	len = strlen(m->path);
	if (len < sizeof(deleted) ||
		strcmp(m->path + len - sizeof(deleted) + 1, deleted) != 0)
		return;
	m->path[len - sizeof(deleted) + 1] = '\0';
	m->deleted = true;
}

/* One line of maps: false when it is not one of a file. */
static bool line_parse(char *line, struct proc_map *m)
{
	char perms[5];
	int at = 0;

	memset(m, 0, sizeof(*m));
	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
		    &m->start, &m->end, perms, &m->offset, &m->dev_major, &m->dev_minor,
		    &m->ino, &at) < 7 ||
		!at || line[at] != '/' || !m->ino)
		return false;
	m->exec = strchr(perms, 'x');
	m->path = line + at;
	return true;
}

static struct proc_map *same_file(struct proc_maps *maps, const struct proc_map *m)
{
	for (size_t i = maps->cnt; i--;) {
		struct proc_map *k = &maps->maps[i];

		if (k->ino == m->ino && k->dev_major == m->dev_major &&
			k->dev_minor == m->dev_minor)
			return k;
	}
	return NULL;
}

static void area_add(struct proc_maps *maps, const struct proc_map *m, size_t map)
{
	*array_add(maps->areas, maps->area_cnt) = (struct proc_area) { m->start, m->end, m->offset, map };
}

static void map_add(struct proc_maps *maps, struct proc_map *m)
{
	struct proc_map *known = same_file(maps, m);

	if (m->exec)
		area_add(maps, m, known ? (size_t)(known - maps->maps) : maps->cnt);
	if (known) {
		if (m->exec && !known->exec) {
			known->start = m->start;
			known->end = m->end;
			known->offset = m->offset;
			known->exec = true;
		}
		if (!m->offset && !known->head)
			known->head = m->start;
		return;
	}
	m->path = xstrdup(m->path);
	m->head = m->offset ? 0 : m->start;
	path_tidy(m);
	*array_add(maps->maps, maps->cnt) = *m;
}

/* Opens the file of an O_PATH descriptor, if it is a regular file. */
static int reopen_regular(int path_fd, const char *shown, struct err *err)
{
	char self[64];
	struct stat st;
	int fd;

	if (fstat(path_fd, &st) < 0)
		return err_sys(err, -errno, "cannot open '%s'", shown);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "'%s' is not a regular file", shown);
	snprintf(self, sizeof(self), "/proc/self/fd/%d", path_fd);
	fd = open(self, OPEN_FLAGS);
	return fd < 0 ? err_sys(err, proc_cause(-errno), "cannot open '%s'", shown) : fd;
}

/* True if the mapping and the file start with the same bytes. */
static bool same_head(const char *proc, pid_t pid, const struct proc_map *map, int fd)
{
	_cleanup_free_ char *bytes = xmalloc(2 * HEAD_SIZE);
	_cleanup_close_ int mem = -1;
	char path[PATH_MAX];

	if (!map->head || map->head > INT64_MAX)
		return false;
	path_of(path, proc, pid, "mem");
	mem = open(path, O_RDONLY | O_CLOEXEC);
	return mem >= 0 && pread(fd, bytes, HEAD_SIZE, 0) == HEAD_SIZE &&
		pread(mem, bytes + HEAD_SIZE, HEAD_SIZE, (off_t)map->head) == HEAD_SIZE &&
		memcmp(bytes, bytes + HEAD_SIZE, HEAD_SIZE) == 0;
}

/* True if @fd is the mapped file. */
static bool is_mapped(const char *proc, pid_t pid, const struct proc_map *map, int fd)
{
	struct statfs fs;
	struct stat st;

	if (fstat(fd, &st) < 0 || st.st_ino != map->ino)
		return false;
	if (major(st.st_dev) == map->dev_major && minor(st.st_dev) == map->dev_minor)
		return true;
	/* on these two, stat(2) reports another device than /proc/PID/maps */
	if (fstatfs(fd, &fs) < 0 ||
		(fs.f_type != OVERLAYFS_SUPER_MAGIC &&
			fs.f_type != (__typeof__(fs.f_type))BTRFS_SUPER_MAGIC))
		return false;
	return same_head(proc, pid, map, fd);
}

DEFINE_ORDER(compare_pids, pid_t, (*x > *y) - (*x < *y))

static int maps_read(const char *path, struct proc_maps *maps)
{
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	_cleanup_free_ char *line = NULL;
	struct proc_map m;
	size_t cap = 0;

	if (!file)
		return proc_cause(-errno);
	while (getline(&line, &cap, file) > 0) {
		if (line_parse(line, &m)) {
			map_add(maps, &m);
		} else if (strstr(line, " [vdso]")) {
			maps->vdso = m.start;
			maps->vdso_end = m.end;
		}
	}
	return ferror(file) ? -errno : 0;
}

int proc_maps_read(
	const char *proc, pid_t pid, struct proc_maps *ret_maps, struct err *err)
{
	_cleanup_proc_maps_ struct proc_maps maps = { 0 };
	char path[PATH_MAX];
	pid_t tid;
	int code;

	snprintf(path, sizeof(path), "%s/%d/maps", proc, pid);
	code = maps_read(path, &maps);
	/* If the main thread has exited, maps is empty, since 6.15 ESRCH (fs/proc/base.c). */
	if ((!code && !maps.cnt) || code == -ESRCH) {
		tid = proc_thread(proc, pid);
		if (tid && tid != pid) {
			snprintf(path, sizeof(path), "%s/%d/maps", proc, tid);
			code = maps_read(path, &maps);
		}
	}
	if (code == -ENOENT || code == -ESRCH)
		return err_set(err, -ESRCH, "no process %d", pid);
	if (code)
		return err_sys(err, code, "cannot see mappings of process %d", pid);
	*ret_maps = maps;
	maps = (struct proc_maps) { 0 };
	return 0;
}

void proc_maps_done(struct proc_maps *maps)
{
	for (size_t i = 0; i < maps->cnt; i++)
		free(maps->maps[i].path);
	free(maps->maps);
	free(maps->areas);
	*maps = (struct proc_maps) { 0 };
}

const struct proc_map *proc_maps_at(
	const struct proc_maps *maps, uint64_t addr, uint64_t *ret_offset)
{
	for (size_t i = 0; i < maps->area_cnt; i++) {
		const struct proc_area *area = &maps->areas[i];

		if (addr < area->start || addr >= area->end)
			continue;
		*ret_offset = addr - area->start + area->offset;
		return &maps->maps[area->map];
	}
	return NULL;
}

int proc_pids(const char *proc, pid_t **ret_pids, size_t *ret_cnt, struct err *err)
{
	_cleanup_closedir_ DIR *dir = opendir(proc);
	_cleanup_free_ pid_t *pids = NULL;
	struct dirent *entry;
	size_t cnt = 0;

	if (!dir)
		return err_sys(err, proc_cause(-errno), "cannot read '%s'", proc);
	while ((entry = readdir(dir))) {
		char *end;
		long pid;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		pid = strtol(entry->d_name, &end, 10);
		if (*end || pid <= 0 || pid > INT_MAX)
			continue;
		*array_add(pids, cnt) = pid;
	}
	/* This process would be there. */
	if (!cnt && proc_cause(-ENOENT) != -ENOENT)
		return err_sys(err, -ERR_NO_PROC, "cannot list processes");
	if (cnt)
		qsort(pids, cnt, sizeof(*pids), compare_pids);
	*ret_pids = TAKE_PTR(pids);
	*ret_cnt = cnt;
	return 0;
}

int proc_user(const char *proc, pid_t pid, uid_t *ret_user)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[PATH_MAX], line[1024];

	path_of(path, proc, pid, "status");
	f = fopen(path, "re");
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "Uid: %*u %u", ret_user) == 1)
			return 0;
	return -ESRCH;
}

int proc_open_root(const char *proc, pid_t pid, struct err *err)
{
	char path[PATH_MAX];
	int fd;

	path_of(path, proc, pid, "root");
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	fd = proc_cause(-errno);
	if (fd == -ENOENT)
		return err_set(err, -ESRCH, "no process %d", pid);
	err_sys(err, fd, "cannot enter the root of process %d", pid);
	return caps_hint(fd, CAPS_BIT(CAP_SYS_PTRACE), err);
}

int proc_open_in_root(int root_fd, const char *path, int flags, struct err *err)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC | flags,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	_cleanup_close_ int fd = -1;

	/* EAGAIN: something was renamed on the way (openat2(2)) */
	for (int tries = 0; fd < 0 && tries < 16; tries++) {
		fd = syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
		if (fd < 0 && errno != EAGAIN)
			break;
	}
	if (fd < 0)
		return caps_hint(err_sys(err, -errno, "cannot open '%s'", path),
			CAPS_BIT(CAP_DAC_READ_SEARCH), err);
	return caps_hint(reopen_regular(fd, path, err), CAPS_BIT(CAP_DAC_READ_SEARCH), err);
}

/* Same without /proc, by path: another file may have replaced it, so compare them. */
static int reopen_path(int path_fd, const char *path, struct err *err)
{
	_cleanup_close_ int fd = -1;
	struct stat then, now;

	if (fstat(path_fd, &then) || !S_ISREG(then.st_mode))
		return err_set(err, -EINVAL, "'%s' is not a regular file", path);
	fd = open(path, OPEN_FLAGS);
	if (fd < 0)
		return err_sys(err, -errno, "cannot open '%s'", path);
	if (fstat(fd, &now) || now.st_dev != then.st_dev || now.st_ino != then.st_ino)
		return err_set(err, -ESTALE, "'%s' is another file now", path);
	return TAKE_FD(fd);
}

int proc_open_regular(const char *path, struct err *err)
{
	_cleanup_close_ int fd = -1, root = -1;
	int pid, below = 0;

	if (sscanf(path, "/proc/%d/root%n", &pid, &below) == 1 && below && path[below] == '/') {
		root = proc_open_root("/proc", pid, err);
		return root < 0 ? root : proc_open_in_root(root, path + below, 0, err);
	}
	fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, -errno, "cannot open '%s'", path);
	return access("/proc/self/fd", F_OK) ? reopen_path(fd, path, err)
					     : reopen_regular(fd, path, err);
}

int proc_open_mapped(
	const char *proc, pid_t pid, const struct proc_map *map, struct err *err)
{
	_cleanup_close_ int path_fd = -1, root = -1, fd = -1;
	char link[PATH_MAX], range[64];

	/* needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN (fs/proc/base.c) */
	snprintf(range, sizeof(range), "map_files/%" PRIx64 "-%" PRIx64, map->start,
		map->end);
	path_of(link, proc, pid, range);
	path_fd = open(link, O_PATH | O_CLOEXEC);
	if (path_fd >= 0) {
		fd = reopen_regular(path_fd, map->path, NULL);
		if (fd >= 0)
			return TAKE_FD(fd);
	}
	root = proc_open_root(proc, pid, err);
	if (root < 0)
		return root;
	fd = proc_open_in_root(root, map->path, 0, err);
	if (fd < 0)
		return fd;
	if (is_mapped(proc, pid, map, fd))
		return TAKE_FD(fd);
	if (!proc_thread(proc, pid))
		return err_set(err, -ESRCH, "process %d has exited", pid);
	return err_set(err, -ESTALE,
		"'%s' is not the file that process %d has mapped (replaced since)", map->path, pid);
}

bool proc_same_mnt_ns(const char *proc, pid_t pid)
{
	struct stat own, its;
	char path[PATH_MAX];

	path_of(path, proc, pid, "ns/mnt");
	if (stat(path, &its) == 0 && stat("/proc/self/ns/mnt", &own) == 0 &&
		(its.st_ino != own.st_ino || its.st_dev != own.st_dev))
		return false;
	path_of(path, proc, pid, "root/");
	if (stat(path, &its) == 0 && stat("/", &own) == 0)
		return its.st_ino == own.st_ino && its.st_dev == own.st_dev;
	return true;
}

size_t proc_mnt_namespaces(const char *proc, pid_t **ret_pids)
{
	_cleanup_free_ pid_t *pids = NULL;
	_cleanup_free_ ino_t *seen = NULL;
	size_t all = 0, cnt = 0, k;
	struct stat st;
	char path[PATH_MAX];

	if (proc_pids(proc, &pids, &all, NULL))
		all = 0;
	seen = xcalloc(all + 1, sizeof(*seen));
	if (!stat("/proc/self/ns/mnt", &st))
		seen[0] = st.st_ino;
	for (size_t i = 0; i < all; i++) {
		path_of(path, proc, pids[i], "ns/mnt");
		if (stat(path, &st))
			continue;
		for (k = 0; k <= cnt && seen[k] != st.st_ino; k++)
			;
		if (k <= cnt)
			continue;
		pids[cnt++] = pids[i];
		seen[cnt] = st.st_ino;
	}
	*ret_pids = TAKE_PTR(pids);
	return cnt;
}

static bool is_first_pid_ns(void)
{
	struct stat st;

	return !stat("/proc/self/ns/pid", &st) && st.st_ino == FIRST_PID_NS;
}

int proc_check_numbers(struct err *err)
{
	if (is_first_pid_ns())
		return 0;
	err_set(err, -EOPNOTSUPP, "processes have other numbers in this pid namespace");
	return err_hint(err,
		"run it in the host's pid namespace: 'nsenter -t 1 -p', or docker's --pid=host");
}

bool proc_is_first_ns(void)
{
	struct stat st;

	if (!is_first_pid_ns())
		return false;
	/* A kernel without time namespaces has no other. */
	return stat("/proc/self/ns/time", &st) ? errno == ENOENT : st.st_ino == FIRST_TIME_NS;
}

/* --- where a thread is ---------------------------------------------------------------------- */

static FILE *open_task(const struct proc_stack *stack, const char *file)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", stack->pid, stack->tid, file);
	return fopen(path, "re");
}

void proc_stack_read(struct proc_stack *stack, pid_t pid, pid_t tid)
{
	_cleanup_fclose_ FILE *f = NULL;
	char line[256];
	char *words;

	*stack = (struct proc_stack) { .pid = pid, .tid = tid };
	f = open_task(stack, "syscall");
	if (!f || !fgets(line, sizeof(line), f))
		return;
	/* "NR ARGS... SP PC", "-1 SP PC", or "running". */
	words = strrchr(line, ' ');
	if (!words)
		return;
	*words = '\0';
	words = strrchr(line, ' ');
	stack->has_sp = words && sscanf(words, " %" SCNx64, &stack->sp) == 1;
}

bool proc_stack_has(struct proc_stack *stack, uint64_t addr)
{
	_cleanup_fclose_ FILE *f = NULL;
	uint64_t start, end;
	char line[512];

	if (addr >= stack->start && addr < stack->end)
		return true;
	f = open_task(stack, "maps");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) == 2 && addr >= start &&
			addr < end) {
			stack->start = start;
			stack->end = end;
			return true;
		}
	/* An empty file, as of an exiting process, proves nothing. */
	return !f || ftell(f) <= 0;
}

/* --- mappings of processes, read once ------------------------------------------------------- */

struct seen {
	pid_t pid;
	struct proc_maps maps;
	int code; /* 0, or why it could not be read */
	struct err *why;
};

struct procs {
	char *proc;
	bool has_pids;
	pid_t *pids;
	size_t pid_cnt;
	struct seen **seen; /* sorted by pid; the elements do not move */
	size_t cnt;
};

struct procs *procs_new(const char *proc)
{
	struct procs *p = xcalloc(1, sizeof(*p));

	p->proc = xstrdup(proc);
	return p;
}

static void seen_free(struct seen *s)
{
	proc_maps_done(&s->maps);
	free(s->why);
	free(s);
}

void procs_free(struct procs *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->cnt; i++)
		seen_free(p->seen[i]);
	free(p->seen);
	free(p->pids);
	free(p->proc);
	free(p);
}

int procs_pids(struct procs *p, const pid_t **ret_pids, size_t *ret_cnt, struct err *err)
{
	int code = p->has_pids ? 0 : proc_pids(p->proc, &p->pids, &p->pid_cnt, err);

	if (code)
		return code;
	p->has_pids = true;
	*ret_pids = p->pids;
	*ret_cnt = p->pid_cnt;
	return 0;
}

/* Reads the mappings of @pid and inserts them at index @at. */
static void see(struct procs *p, pid_t pid, size_t at)
{
	struct seen *s = xcalloc(1, sizeof(*s));
	struct err err = {};

	s->pid = pid;
	s->code = proc_maps_read(p->proc, pid, &s->maps, &err);
	s->why = s->code ? xcopy(&err, sizeof(err)) : NULL;
	p->seen = array_grow(p->seen, p->cnt, sizeof(*p->seen));
	memmove(p->seen + at + 1, p->seen + at, (p->cnt - at) * sizeof(*p->seen));
	p->seen[at] = s;
	p->cnt++;
}

int procs_maps(struct procs *p, pid_t pid, const struct proc_maps **ret_maps, struct err *err)
{
	size_t at = FIRST_WHERE(p->cnt, i, p->seen[i]->pid >= pid);
	const struct seen *s;

	if (at == p->cnt || p->seen[at]->pid != pid)
		see(p, pid, at);
	s = p->seen[at];
	if (s->code) {
		if (err)
			*err = *s->why;
		return s->code;
	}
	*ret_maps = &s->maps;
	return 0;
}

/* --- processes that map a file -------------------------------------------------------------- */

/* True if @path, possibly followed by a remark, has the same file name as @mapped. */
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

static bool mappers_same_file(const struct proc_map *map, const struct mappers_file *f)
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
			if (mappers_same_file(&maps->maps[i], &files[k]))
				return true;
	return false;
}

int mappers_list(struct procs *procs, const struct mappers_file *files, size_t cnt,
	pid_t **ret_pids, size_t *ret_cnt, struct err *err)
{
	_cleanup_free_ pid_t *list = NULL;
	size_t pid_cnt, found = 0;
	pid_t self = getpid();
	const pid_t *pids;
	int code;

	code = procs_pids(procs, &pids, &pid_cnt, err);
	if (code)
		return code;
	list = xcalloc(pid_cnt + 1, sizeof(*list));
	for (size_t i = 0; i < pid_cnt; i++) {
		const struct proc_maps *maps;

		if (pids[i] != self && !procs_maps(procs, pids[i], &maps, NULL) &&
			maps_one(maps, files, cnt))
			list[found++] = pids[i];
	}
	*ret_pids = TAKE_PTR(list);
	*ret_cnt = found;
	return 0;
}

int mappers_count(struct procs *procs, const struct mappers_file *files, size_t cnt,
	size_t *ret_cnt, pid_t *ret_pid, struct err *err)
{
	_cleanup_free_ pid_t *list = NULL;
	int code = mappers_list(procs, files, cnt, &list, ret_cnt, err);

	if (!code && *ret_cnt)
		*ret_pid = list[0];
	return code;
}

int mappers_has(struct procs *procs, pid_t pid, const struct mappers_file *files, size_t cnt)
{
	const struct proc_maps *maps;
	int code = procs_maps(procs, pid, &maps, NULL);

	return code ? code : maps_one(maps, files, cnt);
}

static bool same_start(uint64_t start_ns, uint64_t ticks)
{
	return start_ns / (1000000000 / sysconf(_SC_CLK_TCK)) == ticks;
}

bool proc_alive(const char *proc, pid_t pid, uint64_t start_ns)
{
	struct proc_stat stat;

	return !proc_read_stat(proc, pid, 0, &stat) && same_start(start_ns, stat.start_ticks) &&
		proc_thread(proc, pid);
}

bool proc_ended(pid_t pid, uint64_t start_ns)
{
	struct proc_stat stat;

	if (kill(pid, 0) && errno == ESRCH)
		return true;
	return !proc_read_stat("/proc", pid, 0, &stat) && !same_start(start_ns, stat.start_ticks);
}

bool proc_comm(pid_t pid, pid_t tid, char ret_comm[PROC_COMM_LEN])
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[64];

	ret_comm[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", pid, tid);
	f = fopen(path, "re");
	if (!f || !fgets(ret_comm, PROC_COMM_LEN, f))
		return false;
	ret_comm[strcspn(ret_comm, "\n")] = '\0';
	return true;
}

pid_t proc_own_number(const char *proc, pid_t pid, pid_t tid)
{
	char path[PATH_MAX], line[256];
	_cleanup_fclose_ FILE *f = NULL;
	pid_t own = tid;

	snprintf(path, sizeof(path), "%s/%d/task/%d/status", proc, pid, tid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "NSpid:", 6) && strrchr(line, '\t'))
			own = (pid_t)strtol(strrchr(line, '\t'), NULL, 10);
	return own > 0 ? own : tid;
}

struct sleeper {
	pid_t pid, tid;
	uint64_t start_ticks, switches;
};

struct idle {
	struct sleeper *of;
	size_t cnt;
};

/* Returns how often thread @tid of @pid has left a CPU. 0: not known. */
static uint64_t read_switches(pid_t pid, pid_t tid)
{
	char path[64], line[256];
	_cleanup_fclose_ FILE *f = NULL;
	unsigned long long cnt, sum = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, tid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "voluntary_ctxt_switches: %llu", &cnt) == 1 ||
			sscanf(line, "nonvoluntary_ctxt_switches: %llu", &cnt) == 1)
			sum += cnt;
	return sum;
}

/* The state comes first: a thread that slept then has not run since, if its switches are as before. */
static bool read_sleeper(pid_t pid, pid_t tid, struct sleeper *ret)
{
	struct proc_stat stat;

	if (proc_read_stat("/proc", pid, tid, &stat) || (stat.state != 'S' && stat.state != 'D'))
		return false;
	*ret = (struct sleeper) { pid, tid, stat.start_ticks, read_switches(pid, tid) };
	return ret->switches;
}

struct idle *idle_new(const pid_t *pids, size_t cnt)
{
	struct idle *idle = xcalloc(1, sizeof(*idle));

	for (size_t i = 0; i < cnt; i++) {
		_cleanup_free_ pid_t *tids = NULL;
		char path[64];
		size_t tid_cnt = 0;

		snprintf(path, sizeof(path), "/proc/%d/task", pids[i]);
		if (proc_pids(path, &tids, &tid_cnt, NULL))
			continue;
		for (size_t k = 0; k < tid_cnt; k++) {
			idle->of = array_grow(idle->of, idle->cnt, sizeof(*idle->of));
			idle->cnt += read_sleeper(pids[i], tids[k], &idle->of[idle->cnt]);
		}
	}
	return idle;
}

void idle_free(struct idle *idle)
{
	if (idle)
		free(idle->of);
	free(idle);
}

size_t idle_count(const struct idle *idle, pid_t *ret_pid)
{
	size_t cnt = 0;

	for (size_t i = 0; i < idle->cnt; i++) {
		const struct sleeper *was = &idle->of[i];
		struct sleeper now;

		if (!read_sleeper(was->pid, was->tid, &now) || now.start_ticks != was->start_ticks ||
			now.switches != was->switches)
			continue;
		*ret_pid = cnt++ ? *ret_pid : was->pid;
	}
	return cnt;
}
