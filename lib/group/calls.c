// SPDX-License-Identifier: BSD-2-Clause
// Lists calls in progress, also of processes that died; abandons those that cannot return any more.
#include <signal.h>
#include <sys/syscall.h>

#include <bpf/bpf.h>

#include "base/util.h"
#include "group/group.h"
#include "group/keys.h"
#include "group/records.h"
#include "group/types.h"
#include "proc/proc.h"

static uint32_t slot_fn(uint64_t key)
{
	return (key & FSN_KEY_FN_MASK) - 1;
}

static pid_t slot_tgid(uint64_t key)
{
	return (key & FSN_KEY_TGID_MASK) >> FSN_KEY_TGID_SHIFT;
}

/* Free slots are 0, slots being written have no process, and ghosts are abandoned calls. */
static bool slot_is_call(uint64_t key)
{
	return slot_tgid(key) != 0 && !(key & FSN_KEY_GHOST);
}

/* Data that is read once for all calls of a thread. */
struct thread {
	struct proc_stack stack;
	char comm[PROC_COMM_LEN];
};

static void thread_read(struct thread *t, pid_t pid, pid_t tid)
{
	memset(t, 0, sizeof(*t));
	proc_comm(pid, tid, t->comm);
	proc_stack_read(&t->stack, pid, tid);
}

/* --- reading -------------------------------------------------------------------------------- */

DEFINE_ORDER(compare_calls, struct slot_call, RISING(start_ns) ?: RISING(tid))

DEFINE_ORDER(compare_threads, struct slot_call, RISING(pid) ?: RISING(tid))

/* Registers of functions without declared arguments are shown only if the user records calls. */
static bool has_some_args(const struct group *g, uint32_t fn, uint32_t has)
{
	return has & FSN_HAS_ARGS || (has & FSN_HAS_REGS && g->funcs[fn].args);
}

/* Reads arguments and key of the call in @slot, unless the slot has another call than @key now. */
static void call_detail(
	const struct group *g, uint32_t slot, uint64_t key, uint32_t proc, struct slot_call *call)
{
	bool has_args = has_some_args(g, call->fn, proc);
	uint32_t index = slot / FSN_WAYS, row = FSN_NO_ROW;
	struct fsn_key raw;
	struct fsn_set set;

	call->has_args = has_args && !bpf_map_lookup_elem(group_fd(g, MAPID_ARGS), &slot, &call->args);
	call->has_more = proc & FSN_HAS_ARGS &&
		!bpf_map_lookup_elem(group_fd(g, MAPID_MORE), &slot, &call->more);
	if (g->meta.row_cnt && !bpf_map_lookup_elem(group_fd(g, MAPID_SLOT_ROWS), &slot, &row) &&
		row < g->meta.row_cnt && !bpf_map_lookup_elem(group_fd(g, MAPID_KEYS), &row, &raw)) {
		group_key_spread(g, &raw, &call->key);
		call->keyed = true;
	}
	if (bpf_map_lookup_elem(group_fd(g, MAPID_SLOTS), &index, &set) ||
		set.key[slot % FSN_WAYS] != key)
		call->has_args = call->has_more = call->keyed = false;
}

/* Time for which the thread was stopped since the call in @slot; it is not part of the call. */
static uint64_t call_paused(const struct group *g, uint32_t slot, uint32_t tid)
{
	struct fsn_stop stop;
	uint64_t then, now;

	if (group_fd(g, MAPID_PAUSES) < 0 || bpf_map_lookup_elem(group_fd(g, MAPID_PAUSES), &slot, &then) ||
		bpf_map_lookup_elem(group_fd(g, MAPID_STOPS), &tid, &stop))
		return 0;
	now = stop.total_ns;
	if (stop.since_ns)
		now += clock_ns(CLOCK_MONOTONIC) - stop.since_ns;
	return now > then ? now - then : 0;
}

static void add_call(const struct group *g, struct slot_call **calls, size_t *cnt,
	const struct fsn_set *set, uint32_t slot)
{
	int way = slot % FSN_WAYS;
	struct slot_call *call = memset(array_add(*calls, *cnt), 0, sizeof(*call));

	call->fn = slot_fn(set->key[way]);
	call->pid = slot_tgid(set->key[way]);
	call->tid = set->call[way].tid;
	call->start_ns = set->call[way].start;
	call->age_ns = clock_ns(CLOCK_MONOTONIC) - call->start_ns;
	call->age_ns -= call_paused(g, slot, call->tid);
	call->where = set->call[way].where;
	call_detail(g, slot, set->key[way], set->call[way].proc, call);
}

static void calls_describe(const struct group *g, struct slot_call *calls, size_t cnt)
{
	const struct target_kind *kind;
	struct thread thread = {};

	qsort(calls, cnt, sizeof(*calls), compare_threads);
	for (size_t i = 0; i < cnt; i++) {
		if (calls[i].pid != thread.stack.pid || calls[i].tid != thread.stack.tid)
			thread_read(&thread, calls[i].pid, calls[i].tid);
		memcpy(calls[i].comm, thread.comm, sizeof(calls[i].comm));
		kind = kind_of(g, calls[i].fn);
		calls[i].stale = kind->call_is_stale &&
			kind->call_is_stale(&thread.stack, calls[i].where);
	}
	qsort(calls, cnt, sizeof(*calls), compare_calls);
}

/* --- abandoning calls ---------------------------------------------------------------------- */

/*
 * A thread that started after a call did not make the call: its TID was reused. Threads start in
 * CLOCK_BOOTTIME, calls in CLOCK_MONOTONIC. The difference is read once, and its upper bound is
 * used, so that no call seems older than it is. Times of other time namespaces are not comparable.
 *
 * This can be wrong, because a fiber can continue in another thread. So an abandoned call stays as
 * a ghost, which a late return resumes, unless its process has exited. The command counts a call
 * only if it exchanges the key, because the return may have been counted first.
 */

#define BRACKETS 3

enum verdict { KEEP, AS_GHOST, FOR_GOOD, UNSEEN };

struct entry {
	uint64_t key, where, start;
	pid_t pid, tid;
	uint32_t set;
	int way;
	enum verdict verdict;
};

struct sweep {
	const struct group *g;
	struct map_mapping slots, held, stats;
	uint64_t boot_offset_ns; /* upper bound of CLOCK_BOOTTIME - CLOCK_MONOTONIC */
	uint64_t tick_ns;
	struct entry *entry; /* by process and thread */
	size_t cnt, given_up;
	uint32_t set_cnt;
};

static void sweep_done(struct sweep *s)
{
	map_munmap(&s->slots);
	map_munmap(&s->held);
	map_munmap(&s->stats);
	free(s->entry);
}

/* Returns the minimum of several readings, because a delay between both clocks adds to one. */
static uint64_t boot_offset(void)
{
	uint64_t least = UINT64_MAX, before, offset;

	for (int i = 0; i < BRACKETS; i++) {
		before = clock_ns(CLOCK_MONOTONIC);
		offset = clock_ns(CLOCK_BOOTTIME) - before;
		if (offset < least)
			least = offset;
	}
	return least;
}

/* --- calls in progress -------------------------------------------------------------------- */

DEFINE_ORDER(compare_entries, struct entry, RISING(pid) ?: RISING(tid))

static uint32_t sets_cnt(const struct group *g)
{
	uint32_t cnt = group_entries(g, MAPID_SLOTS);

	return cnt < FSN_SLOTS_MAX / FSN_WAYS ? cnt : FSN_SLOTS_MAX / FSN_WAYS;
}

static void collect(struct sweep *s)
{
	const struct fsn_set *sets = s->slots.addr;

	for (uint32_t i = 0; i < s->set_cnt; i++)
		for (int way = 0; way < FSN_WAYS; way++) {
			uint64_t key = __atomic_load_n(&sets[i].key[way], __ATOMIC_ACQUIRE);
			const struct fsn_call *call = &sets[i].call[way];

			if (!slot_is_call(key) || slot_fn(key) >= s->g->meta.fn_cnt)
				continue;
			*array_add(s->entry, s->cnt) = (struct entry) { key, call->where, call->start,
				slot_tgid(key), call->tid, i, way, KEEP };
		}
	if (s->cnt)
		qsort(s->entry, s->cnt, sizeof(*s->entry), compare_entries);
}

/* --- threads that are still running ----------------------------------------------------------- */

struct look {
	bool gone, known;
	uint64_t begun_ns; /* CLOCK_BOOTTIME, rounded down to a tick */
};

/* A zombie counts as gone, because it cannot return from a call. */
static struct look look_at(const struct sweep *s, pid_t pid, pid_t tid)
{
	struct look l = { .known = true };
	struct proc_stat stat;

	if (syscall(SYS_tgkill, pid, tid, 0) && errno == ESRCH) {
		l.gone = true;
	} else if (proc_read_stat("/proc", pid, tid, &stat)) {
		l.known = false;
	} else {
		l.gone = stat.state == 'Z' || stat.state == 'X';
		l.begun_ns = stat.start_ticks * s->tick_ns;
	}
	return l;
}

/* True if the thread started after the call, so that its number was reused. */
static bool is_other(const struct sweep *s, const struct look *l, const struct entry *e)
{
	return l->known && l->begun_ns > e->start + s->boot_offset_ns + s->tick_ns;
}

static bool process_is_gone(pid_t pid)
{
	return kill(pid, 0) && errno == ESRCH;
}

/* True if stream @c sends calls of process @pid that are not timed: stream_wants(), bpf/stream.bpf.h. */
static bool stream_wants_untimed(const struct fsn_stream *c, pid_t pid)
{
	if (c->lease_ns < clock_ns(CLOCK_MONOTONIC) || !(c->flags & FSN_STREAM_ENDS) || c->min_ns ||
		c->flags & (FSN_STREAM_SLOW | FSN_STREAM_FAILED))
		return false;
	return !c->pid_cnt || ANY_WHERE(c->pid_cnt, i, c->pid[i] == (uint32_t)pid);
}

/* Counts a call as lost in the streams that select it. */
static void lose_in_streams(const struct sweep *s, const struct entry *e)
{
	_cleanup_mapping_ struct map_mapping map = {};
	uint32_t fn = slot_fn(e->key);
	struct fsn_stream *all;
	struct fsn_conf conf;

	if (bpf_map_lookup_elem(group_fd(s->g, MAPID_CONFS), &fn, &conf) || !conf.streams ||
		map_mmap(group_fd(s->g, MAPID_STREAMS), FSN_STREAMS_MAX * sizeof(*all), &map))
		return;
	all = map.addr;
	for (uint32_t i = 0; i < FSN_STREAMS_MAX; i++)
		if (conf.streams >> i & 1 && stream_wants_untimed(&all[i], e->pid))
			__atomic_fetch_add(&all[i].lost, 1, __ATOMIC_SEQ_CST);
}

static void give_up(struct sweep *s, const struct entry *e)
{
	unsigned long long expected = e->key, next = (e->key & FSN_KEY_GEN_MASK) + FSN_KEY_GEN;
	struct fsn_set *set = (struct fsn_set *)s->slots.addr + e->set;
	struct fsn_stat *stats = s->stats.addr;
	struct fsn_held *held = s->held.addr;
	struct fsn_counts *n;

	if (e->verdict == AS_GHOST && !(e->key & FSN_KEY_LEFT))
		next |= (e->key & FSN_KEY_USED_MASK) | FSN_KEY_GHOST;
	if (!__atomic_compare_exchange_n(&set->key[e->way], &expected, next, false,
		    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return;
	n = &stats[slot_fn(e->key)].n;
	__atomic_fetch_add(e->verdict == UNSEEN ? &n->unseen : &n->abandoned, 1, __ATOMIC_SEQ_CST);
	if (e->verdict == UNSEEN)
		lose_in_streams(s, e);
	if (e->way)
		__atomic_fetch_sub(&held->cnt[e->pid & (FSN_HELD_CNT - 1)], 1, __ATOMIC_SEQ_CST);
	s->given_up++;
}

/*
 * Blocks signals, because an exchange and its counters must change together. A command killed
 * (SIGKILL) between them leaks one call in progress and one slot of the call's process.
 */
static void give_up_all(struct sweep *s)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (size_t i = 0; i < s->cnt; i++)
		if (s->entry[i].verdict != KEEP)
			give_up(s, &s->entry[i]);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static bool is_lost(const struct group *g, const struct entry *e, struct proc_stack *stack)
{
	const struct target_kind *kind = kind_of(g, slot_fn(e->key));

	stack->tid = e->tid;
	return kind->call_is_lost && kind->call_is_lost(stack, e->where);
}

/*
 * Judges the calls of one process. The first thread survives execve(2), but its stack does not. So
 * a call of the first thread is also lost if its stack is gone.
 */
static void judge_process(const struct sweep *s, struct entry *e, size_t cnt)
{
	struct look process = look_at(s, e->pid, e->pid), thread = {};
	bool gone = process_is_gone(e->pid);
	struct proc_stack stack = { .pid = e->pid };
	pid_t tid = 0;

	for (size_t i = 0; i < cnt; i++) {
		bool other = gone || is_other(s, &process, &e[i]);

		if (!other && e[i].tid != tid) {
			tid = e[i].tid;
			thread = tid == e->pid ? process : look_at(s, e->pid, tid);
		}
		if (other || thread.gone || is_other(s, &thread, &e[i]) ||
			(e[i].tid == e->pid && thread.known &&
				is_lost(s->g, &e[i], &stack)))
			e[i].verdict = other ? FOR_GOOD : AS_GHOST;
	}
}

/* A function can have several counters: the array repeats after meta.fn_cnt elements. */
struct group_begun group_begun(const struct group *g)
{
	struct group_begun begun = { UINT64_MAX, UINT64_MAX };
	_cleanup_free_ struct fsn_stat *stat = NULL;
	uint32_t cnt = group_entries(g, MAPID_STATS);

	stat = xcalloc(cnt + 1, sizeof(*stat));
	if (!cnt || map_read(group_fd(g, MAPID_STATS), 0, cnt, sizeof(*stat), stat))
		return begun;
	begun = (struct group_begun) { 0, 0 };
	for (uint32_t i = 0; g->meta.fn_cnt && i < cnt; i++) {
		const struct fsn_counts *n = &stat[i].n;

		begun.calls += n->calls;
		if (i % g->meta.fn_cnt < g->meta.timed_cnt)
			begun.open += counts_open(n);
	}
	return begun;
}

/* Decides for each call whether it can still return. */
static void judge_all(struct sweep *s)
{
	size_t end;

	s->tick_ns = 1000000000ULL / sysconf(_SC_CLK_TCK);
	if (s->cnt)
		s->boot_offset_ns = boot_offset();
	for (size_t i = 0; i < s->cnt; i = end) {
		for (end = i + 1; end < s->cnt && s->entry[end].pid == s->entry[i].pid;)
			end++;
		judge_process(s, &s->entry[i], end - i);
	}
}

static void unpin_links(const struct group *g, uint32_t first, uint32_t cnt)
{
	char name[32];

	for (uint32_t i = 0; i < cnt; i++) {
		snprintf(name, sizeof(name), "link_%u", first + i);
		unlinkat(group_dir_fd(g), name, 0);
	}
}

size_t places_sweep(const struct group *g)
{
	_cleanup_mapping_ struct map_mapping map = {};
	int fd = group_fd(g, MAPID_PLACES);
	struct fsn_place *places;
	uint32_t cnt = 0;
	size_t swept = 0;

	if (map_check(fd, MAPID_PLACES, 0, &cnt) || map_mmap(fd, cnt * sizeof(*places), &map))
		return 0;
	places = map.addr;
	for (uint32_t i = 0; i < cnt; i++) {
		struct fsn_place *p = &places[i];

		if (p->removed || !p->link_cnt ||
			!place_is_expensive(__atomic_load_n(&p->hits, __ATOMIC_RELAXED),
				__atomic_load_n(&p->ended, __ATOMIC_RELAXED)))
			continue;
		unpin_links(g, p->link, p->link_cnt);
		p->removed = 1;
		swept++;
	}
	return swept;
}

static int sweep_begin(struct sweep *s)
{
	const struct group *g = s->g;
	int code;

	s->set_cnt = sets_cnt(g);
	code = map_mmap(group_fd(g, MAPID_SLOTS), s->set_cnt * sizeof(struct fsn_set), &s->slots);
	if (!code)
		code = map_mmap(group_fd(g, MAPID_HELD), sizeof(struct fsn_held), &s->held);
	if (!code)
		code = map_mmap(group_fd(g, MAPID_STATS), g->meta.fn_cnt * sizeof(struct fsn_stat),
			&s->stats);
	if (!code)
		collect(s);
	return code;
}

int slots_unsee(struct group *g, const unsigned char *gone)
{
	__cleanup(sweep_done) struct sweep s = { .g = g };
	int code = sweep_begin(&s);

	for (size_t i = 0; i < s.cnt; i++) {
		uint64_t key = s.entry[i].key;

		if (gone[slot_fn(key)] >> (key >> FSN_KEY_TURN_SHIFT & 1) & 1)
			s.entry[i].verdict = UNSEEN;
	}
	give_up_all(&s);
	return code;
}

int slots_sweep(struct group *g, size_t *ret_cnt, struct err *err)
{
	__cleanup(sweep_done) struct sweep s = { .g = g };
	int code;

	*ret_cnt = 0;
	g->swept = true;
	if (!proc_is_first_ns() || !group_begun(g).open)
		return 0;
	code = sweep_begin(&s);
	if (code)
		return err_sys(err, code, "cannot sweep group '%s'", g->name);
	judge_all(&s);
	give_up_all(&s);
	*ret_cnt = s.given_up;
	return 0;
}

/* The calls in progress of a group, which may be another user's. */
static int slots_collect(const struct group *g, struct fsn_set *sets, struct sweep *s)
{
	int code, fd = group_fd(g, MAPID_SLOTS);

	if (fd < 0)
		return fd;
	s->g = g;
	s->set_cnt = sets_cnt(g);
	code = map_read(fd, 0, s->set_cnt, sizeof(*sets), sets);
	s->slots.addr = sets;
	if (code)
		return code;
	collect(s);
	if (!g->swept && proc_is_first_ns())
		judge_all(s);
	return 0;
}

/*
 * Lists calls in progress; with @dead instead those that cannot return. The caller frees *@ret_calls.
 * Returns 0, or the error of reading the map.
 */
static int read_calls(const struct group *g, bool dead, struct slot_call **ret_calls,
	size_t *ret_cnt, struct err *err)
{
	_cleanup_free_ struct fsn_set *sets = xcalloc(FSN_SLOTS_MAX / FSN_WAYS, sizeof(*sets));
	_cleanup_free_ struct slot_call *calls = NULL;
	int code, fd = group_map_fd(g, MAPID_SLOTS, "calls in flight", err);
	struct sweep s = {};
	size_t cnt = 0;

	if (fd < 0)
		return fd;
	code = slots_collect(g, sets, &s);
	for (size_t i = 0; !code && i < s.cnt; i++) {
		const struct entry *e = &s.entry[i];

		if ((e->verdict != KEEP) == dead && g->funcs[slot_fn(e->key)].exit != FSN_EXIT_SOME)
			add_call(g, &calls, &cnt, &sets[e->set], e->set * FSN_WAYS + e->way);
	}
	free(s.entry);
	if (code)
		return err_sys(err, code, "cannot read calls in progress of group '%s'",
			g->name);
	if (cnt)
		calls_describe(g, calls, cnt);
	*ret_calls = TAKE_PTR(calls);
	*ret_cnt = cnt;
	return 0;
}

int slots_read(const struct group *g, struct slot_call **ret_calls, size_t *ret_cnt,
	struct err *err)
{
	return read_calls(g, false, ret_calls, ret_cnt, err);
}

int slots_read_dead(const struct group *g, struct slot_call **ret_calls, size_t *ret_cnt,
	struct err *err)
{
	return read_calls(g, true, ret_calls, ret_cnt, err);
}

int slots_count_dead(const struct group *g, uint64_t *ret_dead)
{
	_cleanup_free_ struct fsn_set *sets = xcalloc(FSN_SLOTS_MAX / FSN_WAYS, sizeof(*sets));
	struct sweep s = {};
	int code = proc_is_first_ns() ? slots_collect(g, sets, &s) : -EPERM;

	for (size_t i = 0; !code && i < s.cnt; i++)
		ret_dead[slot_fn(s.entry[i].key)] += s.entry[i].verdict != KEEP;
	free(s.entry);
	return code;
}

/* --- calls of processes that died -------------------------------------------------------------- */

_Static_assert(CRASHES_MAX == FSN_CRASHES, "the same");

DEFINE_ORDER(compare_crash_calls, struct slot_call, RISING(tid) ?: RISING(start_ns))

static void read_call(const struct group *g, uint32_t place, const struct fsn_crash_call *from,
	const struct crash *c, struct slot_call *to)
{
	*to = (struct slot_call) { .fn = from->fn,
		.pid = c->pid,
		.tid = (pid_t)from->tid,
		.start_ns = from->start,
		.age_ns = from->age_ns,
		.where = from->where,
		.has_args = has_some_args(g, from->fn, from->has_args),
		.args = from->args };
	to->has_more = from->has_more &&
		!bpf_map_lookup_elem(group_fd(g, MAPID_CRASH_MORE), &place, &to->more);
}

/* A stack grows: a call that a later one is above, on the thread's own stack, was left by longjmp. */
static void drop_left(struct crash *c)
{
	const struct fsn_crash_map *stack = &c->record->map[0];
	uint64_t above = 0;
	size_t kept = c->cnt;

	for (size_t i = c->cnt; i--;) {
		const struct slot_call *call = &c->calls[i];
		bool is_here = c->record->stack_start && call->tid == c->tid &&
			call->where >= stack->start && call->where < stack->end;

		if (is_here && call->where < above)
			continue;
		if (is_here)
			above = call->where;
		c->calls[--kept] = c->calls[i];
	}
	c->call_cnt -= kept;
	c->cnt -= kept;
	memmove(c->calls, c->calls + kept, c->cnt * sizeof(*c->calls));
}

static void read_crash_calls(const struct group *g, uint32_t i, struct crash *c)
{
	const struct fsn_crash *r = c->record;

	c->calls = xcalloc(FSN_CRASH_CALLS, sizeof(*c->calls));
	for (uint32_t n = 0; n < r->call_cnt && n < FSN_CRASH_CALLS; n++)
		if (r->call[n].fn >= g->meta.fn_cnt)
			c->call_cnt--;
		else
			read_call(g, i * FSN_CRASH_CALLS + n, &r->call[n], c, &c->calls[c->cnt++]);
	qsort(c->calls, c->cnt, sizeof(*c->calls), compare_crash_calls);
	drop_left(c);
}

uint64_t crashes_ever(const struct group *g)
{
	struct fsn_ctl ctl;

	return group_ctl(g, &ctl, NULL) ? 0 : ctl.crashes;
}

int crash_read(const struct group *g, uint64_t number, struct crash *ret_crash, struct err *err)
{
	uint32_t i = number % FSN_CRASHES;
	int fd = group_map_fd(g, MAPID_CRASHES, "processes that died", err), code;
	struct fsn_crash *r = xcalloc(1, sizeof(*r));

	*ret_crash = (struct crash) { .record = r };
	if (fd < 0)
		return fd;
	code = map_get(fd, &i, r);
	if (code)
		return err_sys(err, code, "cannot read group '%s'", group_name(g));
	if (r->seq > number + 1)
		return -ENOENT;
	if (r->seq != number + 1 || r->flags & FSN_CRASH_PENDING)
		return -EAGAIN;
	ret_crash->time_ns = r->time_ns;
	ret_crash->start_ns = r->start;
	ret_crash->pid = (pid_t)r->at.pid;
	ret_crash->tid = (pid_t)r->at.tid;
	/* Somebody else may have written the record. */
	if (r->word_cnt > FSN_CRASH_WORDS)
		r->word_cnt = FSN_CRASH_WORDS;
	memcpy(ret_crash->comm, r->comm, sizeof(r->comm) - 1);
	ret_crash->signal = r->signal;
	ret_crash->status = r->status;
	ret_crash->addr = r->addr;
	ret_crash->has_addr = r->flags & FSN_CRASH_HAS_ADDR;
	ret_crash->out_of_memory = r->flags & FSN_CRASH_OOM;
	ret_crash->call_cnt = r->call_cnt;
	read_crash_calls(g, i, ret_crash);
	/* It may have been overwritten meanwhile. */
	return crashes_ever(g) > number + FSN_CRASHES ? -ENOENT : 0;
}

void crash_done(struct crash *c)
{
	free(c->calls);
	free(c->record);
	*c = (struct crash) {};
}

const char *crash_signal(const struct crash *c, char buf[CRASH_TEXT])
{
	return c->signal ? signal_text(c->signal, buf) : NULL;
}

const char *crash_text(const struct crash *c, char buf[CRASH_TEXT])
{
	size_t len;

	if (!crash_signal(c, buf)) {
		snprintf(buf, CRASH_TEXT, "exit status %u", c->status);
		return buf;
	}
	len = strlen(buf);
	if (c->has_addr)
		snprintf(buf + len, CRASH_TEXT - len, " at 0x%llx", (unsigned long long)c->addr);
	else if (c->out_of_memory)
		snprintf(buf + len, CRASH_TEXT - len, ", out of memory");
	return buf;
}
