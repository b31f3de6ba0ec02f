// SPDX-License-Identifier: BSD-2-Clause
// Threads that sleep all the time: no probe sees them, because their wait began before.
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/util.h"
#include "proc/proc.h"

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
