// SPDX-License-Identifier: BSD-2-Clause
// The table of calls in progress, as it is listed.
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/util.h"
#include "group/records.h"
#include "internal.h"

static FILE *open_task(pid_t pid, pid_t tid, const char *file)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, tid, file);
	return fopen(path, "re");
}

/* --- where a thread is ----------------------------------------------------------------------- */

bool slots_find_mapping(pid_t pid, pid_t tid, uint64_t addr, struct slot_mapping *m)
{
	_cleanup_fclose_ FILE *f = NULL;
	uint64_t start, end;
	char line[512];

	if (addr >= m->start && addr < m->end)
		return true;
	f = open_task(pid, tid, "maps");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) == 2 && addr >= start &&
			addr < end) {
			*m = (struct slot_mapping) { start, end };
			return true;
		}
	/* An empty file, as of a process that is ending, says nothing. */
	return !f || ftell(f) <= 0;
}

/* What is asked once for all calls of a thread. */
struct thread {
	pid_t pid, tid;
	char comm[16];
	bool has_sp;
	uint64_t sp;
	struct slot_mapping stack;
};

static void read_sp(struct thread *t)
{
	_cleanup_fclose_ FILE *f = open_task(t->pid, t->tid, "syscall");
	char line[256];
	char *words;

	if (!f || !fgets(line, sizeof(line), f))
		return;
	/* "NR ARGS... SP PC", "-1 SP PC", or "running". */
	words = strrchr(line, ' ');
	if (!words)
		return;
	*words = '\0';
	words = strrchr(line, ' ');
	t->has_sp = words && sscanf(words, " %" SCNx64, &t->sp) == 1;
}

static void thread_read(struct thread *t, pid_t pid, pid_t tid)
{
	_cleanup_fclose_ FILE *f = open_task(pid, tid, "comm");

	memset(t, 0, sizeof(*t));
	t->pid = pid;
	t->tid = tid;
	if (f && fgets(t->comm, sizeof(t->comm), f))
		t->comm[strcspn(t->comm, "\n")] = '\0';
	read_sp(t);
}

static bool call_is_stale(struct thread *t, uint64_t where)
{
	if (!t->has_sp)
		return false;
	if (!slots_find_mapping(t->pid, t->tid, where, &t->stack))
		return true;
	return t->sp > where && t->sp >= t->stack.start && t->sp < t->stack.end;
}

/* --- reading -------------------------------------------------------------------------------- */

static int compare_calls(const void *a, const void *b)
{
	const struct slot_call *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->tid - y->tid;
}

static int compare_threads(const void *a, const void *b)
{
	const struct slot_call *x = a, *y = b;

	return x->pid != y->pid ? x->pid - y->pid : x->tid - y->tid;
}

static int add_call(struct slot_call **calls, size_t *cnt, const struct fsn_set *set, int way)
{
	struct slot_call *more = array_grow(*calls, *cnt, sizeof(*more)), *call;

	if (!more)
		return -ENOMEM;
	*calls = more;
	call = &more[(*cnt)++];
	memset(call, 0, sizeof(*call));
	call->fn = slot_fn(set->key[way]);
	call->pid = slot_tgid(set->key[way]);
	call->tid = set->call[way].tid;
	call->start_ns = set->call[way].start;
	call->age_ns = clock_ns(CLOCK_MONOTONIC) - call->start_ns;
	call->where = set->call[way].where;
	return 0;
}

static void calls_describe(struct slot_call *calls, size_t cnt)
{
	struct thread thread = {};

	qsort(calls, cnt, sizeof(*calls), compare_threads);
	for (size_t i = 0; i < cnt; i++) {
		if (calls[i].pid != thread.pid || calls[i].tid != thread.tid)
			thread_read(&thread, calls[i].pid, calls[i].tid);
		memcpy(calls[i].comm, thread.comm, sizeof(calls[i].comm));
		calls[i].stale = call_is_stale(&thread, calls[i].where);
	}
	qsort(calls, cnt, sizeof(*calls), compare_calls);
}

int slots_read(const struct group *g, struct slot_call **ret_calls, size_t *ret_cnt,
	struct err *err)
{
	_cleanup_free_ struct fsn_set *sets = calloc(FSN_SET_CNT, sizeof(*sets));
	_cleanup_free_ struct slot_call *calls = NULL;
	int code, fd = group_map_fd(g, MAPID_SLOTS, "calls in flight", err);
	size_t cnt = 0;

	if (fd < 0)
		return fd;
	if (!sets)
		return err_sys(err, -ENOMEM, "cannot read calls in progress");
	code = map_read(fd, 0, FSN_SET_CNT, sizeof(*sets), sets);
	for (size_t i = 0; !code && i < FSN_SET_CNT; i++)
		for (int way = 0; !code && way < FSN_WAYS; way++)
			if (slot_is_call(sets[i].key[way]) &&
				slot_fn(sets[i].key[way]) < g->meta.fn_cnt)
				code = add_call(&calls, &cnt, &sets[i], way);
	if (code)
		return err_sys(err, code, "cannot read calls in progress of group '%s'",
			g->name);
	if (cnt)
		calls_describe(calls, cnt);
	*ret_calls = TAKE_PTR(calls);
	*ret_cnt = cnt;
	return 0;
}
