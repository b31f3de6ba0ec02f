// SPDX-License-Identifier: BSD-2-Clause
// Processes by what they map, which is read once, and by when they began.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "proc/proc.h"

/* --- what processes map, read once ---------------------------------------------------------- */

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
	struct seen **seen; /* by pid; what is in them stays where it is */
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

/* Looks at @pid, and puts what is seen at place @at. */
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

/* --- who maps a file ------------------------------------------------------------------------ */

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
