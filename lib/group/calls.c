// SPDX-License-Identifier: BSD-2-Clause
// The table of calls in progress, seen from outside.
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/util.h"
#include "group/calls.h"
#include "group/records.h"
#include "proc/proc.h"

/* Inode of the first pid namespace: PROC_PID_INIT_INO, include/linux/proc_ns.h. */
#define INIT_PID_NS 0xeffffffcU

static uint32_t key_fn(uint64_t key)
{
	return (key & FSN_KEY_FN_MASK) - 1;
}

static pid_t key_tgid(uint64_t key)
{
	return (key & FSN_KEY_TGID_MASK) >> FSN_KEY_TGID_SHIFT;
}

/* Free places have nothing set, those being written no process. */
static bool key_is_call(uint64_t key)
{
	return key_tgid(key) != 0;
}

/* --- threads -------------------------------------------------------------------------------- */

enum thread_state { THREAD_GONE, THREAD_HERE, THREAD_UNKNOWN };

static FILE *open_task(pid_t pid, pid_t tid, const char *file)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, tid, file);
	return fopen(path, "re");
}

/*
 * Whether the thread that began a call at @start_ns can still end it. A thread that is
 * dead but not yet reaped can't; one that began later has only the number in common.
 */
static enum thread_state thread_state(pid_t pid, pid_t tid, uint64_t start_ns)
{
	uint64_t ticks, begun_ns, boot_ns;
	char state;

	if (syscall(SYS_tgkill, pid, tid, 0) && errno == ESRCH)
		return THREAD_GONE;
	if (proc_read_stat("/proc", pid, tid, &state, &ticks))
		return THREAD_UNKNOWN;
	if (state == 'Z' || state == 'X')
		return THREAD_GONE;
	begun_ns = ticks * (1000000000ULL / sysconf(_SC_CLK_TCK));
	boot_ns = start_ns + (clock_ns(CLOCK_BOOTTIME) - clock_ns(CLOCK_MONOTONIC));
	return begun_ns > boot_ns ? THREAD_GONE : THREAD_HERE;
}

/* Where in the thread's memory @addr lies; false when nothing is mapped there. */
static bool find_mapping(
	pid_t pid, pid_t tid, uint64_t addr, uint64_t *ret_start, uint64_t *ret_end)
{
	_cleanup_fclose_ FILE *f = open_task(pid, tid, "maps");
	uint64_t start, end;
	char line[512];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) == 2 && addr >= start &&
			addr < end) {
			*ret_start = start;
			*ret_end = end;
			return true;
		}
	return !f;
}

static bool call_is_stale(pid_t pid, pid_t tid, uint64_t call_sp)
{
	_cleanup_fclose_ FILE *f = open_task(pid, tid, "syscall");
	uint64_t sp, start = 0, end = 0;
	char line[256];
	char *words;

	if (!f || !fgets(line, sizeof(line), f))
		return false;
	/* "NR ARGS... SP PC", "-1 SP PC", or "running". */
	words = strrchr(line, ' ');
	if (!words)
		return false;
	*words = '\0';
	words = strrchr(line, ' ');
	if (!words || sscanf(words, " %" SCNx64, &sp) != 1)
		return false;
	if (!find_mapping(pid, tid, call_sp, &start, &end))
		return true;
	return sp > call_sp && sp >= start && sp < end;
}

/* --- reading -------------------------------------------------------------------------------- */

static int compare_calls(const void *a, const void *b)
{
	const struct slot_call *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return x->tid - y->tid;
}

static void read_comm(struct slot_call *call)
{
	_cleanup_fclose_ FILE *f = open_task(call->pid, call->tid, "comm");

	if (f && fgets(call->comm, sizeof(call->comm), f))
		call->comm[strcspn(call->comm, "\n")] = '\0';
}

static int add_call(struct slot_call **calls, size_t *cnt, const struct fsn_set *set, int way)
{
	struct slot_call *more = array_grow(*calls, *cnt, sizeof(*more)), *call;

	if (!more)
		return -ENOMEM;
	*calls = more;
	call = &more[(*cnt)++];
	memset(call, 0, sizeof(*call));
	call->fn = key_fn(set->key[way]);
	call->pid = key_tgid(set->key[way]);
	call->tid = set->tid[way];
	call->start_ns = set->start[way];
	call->age_ns = clock_ns(CLOCK_MONOTONIC) - call->start_ns;
	read_comm(call);
	call->stale = call_is_stale(call->pid, call->tid, set->sp[way]);
	return 0;
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
			if (key_is_call(sets[i].key[way]) &&
				key_fn(sets[i].key[way]) < g->meta.fn_cnt)
				code = add_call(&calls, &cnt, &sets[i], way);
	if (code)
		return err_sys(err, code, "cannot read calls in progress of group '%s'",
			g->name);
	if (cnt)
		qsort(calls, cnt, sizeof(*calls), compare_calls);
	*ret_calls = TAKE_PTR(calls);
	*ret_cnt = cnt;
	return 0;
}

/* --- sweeping ------------------------------------------------------------------------------- */

static bool in_first_pid_ns(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == INIT_PID_NS;
}

static bool give_up(struct fsn_set *set, int way, uint64_t key, struct fsn_stat *stats)
{
	unsigned long long expected = key;
	uint64_t next = (key & FSN_KEY_GEN_MASK) + FSN_KEY_GEN;

	/* Whoever takes the key away counts the call: the program at its end, or this. */
	if (!__atomic_compare_exchange_n(&set->key[way], &expected, next, false,
		    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return false;
	__atomic_fetch_add(&stats[key_fn(key)].abandoned, 1, __ATOMIC_SEQ_CST);
	return true;
}

int slots_sweep(const struct group *g, size_t *ret_cnt, struct err *err)
{
	_cleanup_mapping_ struct map_mapping slots = {}, stats = {};
	struct fsn_set *sets;
	int code;

	*ret_cnt = 0;
	if (!in_first_pid_ns())
		return 0;
	code = map_mmap(g->fd[MAPID_SLOTS], FSN_SET_CNT * sizeof(*sets), &slots);
	if (!code)
		code = map_mmap(g->fd[MAPID_STATS], g->meta.fn_cnt * sizeof(struct fsn_stat),
			&stats);
	if (code)
		return err_sys(err, code, "cannot sweep group '%s'", g->name);
	sets = slots.addr;
	for (size_t i = 0; i < FSN_SET_CNT; i++)
		for (int way = 0; way < FSN_WAYS; way++) {
			uint64_t key = __atomic_load_n(&sets[i].key[way], __ATOMIC_ACQUIRE);
			pid_t tid = sets[i].tid[way];
			uint64_t start = sets[i].start[way];

			if (key_is_call(key) && key_fn(key) < g->meta.fn_cnt &&
				thread_state(key_tgid(key), tid, start) == THREAD_GONE &&
				give_up(&sets[i], way, key, stats.addr))
				++*ret_cnt;
		}
	return 0;
}
