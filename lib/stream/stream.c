// SPDX-License-Identifier: BSD-2-Clause
// Streams calls of groups.
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/apart.h"
#include "base/text.h"
#include "base/util.h"
#include "group/keys.h"
#include "group/records.h"
#include "proc/proc.h"
#include "stream/stream.h"

#define NO_PLACE (~0U)

/* The stream's place in one group. */
struct member {
	struct group *g;
	ino_t ino; /* of the group's directory */
	uint32_t place;
	struct map_mapping ctl_map, streams_map, confs_map;
	struct map_mapping rows_map, keys_map; /* only if the group has keys */
	struct fsn_ctl *ctl;
	struct fsn_stream *conf;
	uint64_t lease;     /* last written value; another value belongs to another stream */
	uint32_t told_lost; /* low bits of the number of lost records already reported */
	uint64_t gap_ns;    /* not yet reported; written by the keeper thread, like .evicted */
	bool evicted;       /* the lease expired, and another stream may have the place */
};

/* A delayed record: its time and its offset in the arena. */
struct held {
	uint64_t at;
	size_t offset;
};

struct stream {
	const struct bpffs *fs;
	struct member *member;
	size_t cnt;
	int ring_fd;
	size_t ring_bytes;
	struct ring_buffer *ring;
	size_t func_cnt; /* functions watched */
	bool running;    /* the BPF programs write */

	char *arena;
	size_t arena_len, arena_size;
	struct held *held;
	size_t held_cnt;
	unsigned int fill;
	bool more;     /* the ring had more records than were read */
	uint64_t lost; /* of closed members */
	struct fsn_key key; /* of the current record */

	pthread_t keeper;
	pthread_mutex_t lock;
	pthread_cond_t quit;
	bool has_keeper, quitting;
};

static void member_switch_on(struct member *m);

/*
 * Places of streams in groups and their leases. This memory is shared by the BPF programs, the
 * reader, and commands that free the places of killed readers.
 */

#define LEASE_NS    5000000000ULL
#define LEASE_SWEPT 1ULL

static int map_group(const struct group *g, struct member *m)
{
	int code;

	code = map_mmap(group_fd(g, MAPID_CTL), sizeof(*m->ctl), &m->ctl_map);
	if (!code)
		code = map_mmap(group_fd(g, MAPID_STREAMS),
			FSN_STREAMS_MAX * sizeof(struct fsn_stream), &m->streams_map);
	if (!code)
		code = map_mmap(group_fd(g, MAPID_CONFS),
			g->meta.fn_cnt * sizeof(struct fsn_conf), &m->confs_map);
	if (!code && g->meta.row_cnt)
		code = map_mmap(group_fd(g, MAPID_ROWS), g->meta.row_cnt * sizeof(struct fsn_row),
			&m->rows_map);
	if (!code && g->meta.row_cnt)
		code = map_mmap(group_fd(g, MAPID_KEYS), g->meta.row_cnt * sizeof(struct fsn_key),
			&m->keys_map);
	m->ctl = m->ctl_map.addr;
	return code;
}

/* Opens the descriptors for stream_close(), because the group may be removed by then. */
static int keep_few(struct group *g)
{
	int rings, sync;

	group_close_maps(g);
	rings = group_fd(g, MAPID_RINGS);
	sync = group_fd(g, MAPID_SYNC);
	return rings < 0 ? rings : sync < 0 ? sync : 0;
}

static int cannot_stream(const struct group *g, int code, struct err *err)
{
	struct rlimit lim = {};

	err_sys(err, code, "cannot stream group '%s'", g->name);
	if (code != -EMFILE || getrlimit(RLIMIT_NOFILE, &lim))
		return code;
	return err_hint(err, "a process may open %llu files ('ulimit -Hn'): stream fewer groups",
		(unsigned long long)lim.rlim_cur);
}

static void member_unmap(struct member *m)
{
	map_munmap(&m->ctl_map);
	map_munmap(&m->streams_map);
	map_munmap(&m->confs_map);
	map_munmap(&m->rows_map);
	map_munmap(&m->keys_map);
}

/* Stops recording for @place, except by BPF programs that are running now. */
static void place_switch_off(struct member *m, uint32_t place)
{
	struct fsn_conf *conf = m->confs_map.addr;

	__atomic_fetch_and(&m->ctl->streams, ~(1U << place), __ATOMIC_SEQ_CST);
	__atomic_fetch_and(&m->ctl->save_args, ~FSN_SAVE_STREAM(place), __ATOMIC_SEQ_CST);
	for (uint32_t fn = 0; fn < m->g->meta.fn_cnt; fn++)
		__atomic_fetch_and(&conf[fn].streams, ~(1U << place), __ATOMIC_SEQ_CST);
}

static void place_free(struct member *m, uint32_t place)
{
	struct fsn_stream *all = m->streams_map.addr;

	place_switch_off(m, place);
	bpf_map_delete_elem(group_fd(m->g, MAPID_RINGS), &place);
	__atomic_store_n(&all[place].lease_ns, 0, __ATOMIC_SEQ_CST);
}

static void sweep(struct member *m)
{
	struct fsn_stream *all = m->streams_map.addr;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	for (uint32_t i = 0; i < FSN_STREAMS_MAX; i++) {
		unsigned long long lease =
			__atomic_load_n(&all[i].lease_ns, __ATOMIC_SEQ_CST);

		/* The reader may wake up and renew the lease meanwhile; one of the two wins. */
		if (lease && lease < now &&
			__atomic_compare_exchange_n(&all[i].lease_ns, &lease, LEASE_SWEPT,
				false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			place_free(m, i);
	}
}

bool stream_selects(const struct stream_filter *filter, const struct group *g, uint32_t fn)
{
	const char *name = group_func_name(g, fn);

	return !filter->func_cnt ||
		ANY_WHERE(filter->func_cnt, i, pattern_glob(filter->funcs[i], name));
}

static void fill_conf(
	struct fsn_stream *conf, const struct stream_filter *filter, uint32_t tag)
{
	conf->min_ns = filter->min_ns;
	conf->lost = 0;
	conf->passed = 0;
	conf->flags = (filter->ends ? FSN_STREAM_ENDS : 0) |
		(filter->entries ? FSN_STREAM_ENTRIES : 0) |
		(filter->slow ? FSN_STREAM_SLOW : 0) |
		(filter->failed ? FSN_STREAM_FAILED : 0);
	conf->sample = filter->sample > 1 ? filter->sample : 0;
	conf->tag = tag;
	conf->pid_cnt = filter->pid_cnt;
	for (size_t i = 0; i < filter->pid_cnt; i++)
		conf->pid[i] = filter->pids[i];
}

static int group_inode(const struct bpffs *fs, const struct group *g, ino_t *ret_ino)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	int code = bpffs_open_group(fs, g->name, &fd, NULL);

	if (code)
		return code;
	if (fstat(fd, &st))
		return -errno;
	*ret_ino = st.st_ino;
	return 0;
}

/*
 * Frees the places of killed readers, then takes a place in group @tag of the stream. The caller
 * holds the lock. Nothing is recorded until member_switch_on(). Returns -EBUSY if all places are
 * taken.
 */
static int member_join(
	struct stream *s, size_t tag, const struct stream_filter *filter, struct err *err)
{
	struct member *m = &s->member[tag];
	struct fsn_stream *all;
	struct fsn_conf *conf;
	uint32_t place = 0;
	int code;

	code = filter->pid_cnt ? proc_check_numbers(err) : 0;
	if (code)
		return code;
	code = map_group(m->g, m);
	if (!code)
		code = keep_few(m->g);
	if (!code)
		code = group_inode(s->fs, m->g, &m->ino);
	if (code)
		return cannot_stream(m->g, code, err);
	all = m->streams_map.addr;
	conf = m->confs_map.addr;
	sweep(m);
	while (place < FSN_STREAMS_MAX && all[place].lease_ns)
		place++;
	if (place == FSN_STREAMS_MAX) {
		err_set(err, -EBUSY, "group '%s' has %d streams already", m->g->name,
			FSN_STREAMS_MAX);
		return err_hint(err, "stop one; the place of a killed one is free after 5 s");
	}
	fill_conf(&all[place], filter, tag);
	m->place = place;
	m->conf = &all[place];
	m->lease = clock_ns(CLOCK_MONOTONIC) + LEASE_NS;
	__atomic_store_n(&m->conf->lease_ns, m->lease, __ATOMIC_SEQ_CST);
	if (bpf_map_update_elem(group_fd(m->g, MAPID_RINGS), &place, &s->ring_fd, 0))
		return err_sys(err, -errno, "cannot stream group '%s'", m->g->name);
	for (uint32_t fn = 0; fn < m->g->meta.fn_cnt; fn++)
		if (stream_selects(filter, m->g, fn)) {
			__atomic_fetch_or(
				&conf[fn].streams, 1U << place, __ATOMIC_SEQ_CST);
			s->func_cnt++;
		}
	return 0;
}

/* --- leases ---------------------------------------------------------------------------------- */

/* Starts recording for the place that member_join() has reserved. */
static void member_switch_on(struct member *m)
{
	__atomic_fetch_or(
		&m->ctl->save_args, FSN_SAVE_STREAM(m->place), __ATOMIC_SEQ_CST);
	__atomic_fetch_or(&m->ctl->streams, 1U << m->place, __ATOMIC_SEQ_CST);
}

/*
 * Renews the lease. If it has expired because this process was stopped, BPF programs have switched
 * the stream off: since then nothing was recorded or counted. If another command has freed the
 * place meanwhile, sets .evicted.
 */
static void member_renew(struct member *m)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC), old = m->lease;
	unsigned long long expected = old;

	if (m->evicted)
		return;
	if (!__atomic_compare_exchange_n(&m->conf->lease_ns, &expected, now + LEASE_NS,
		    false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
		__atomic_store_n(&m->evicted, true, __ATOMIC_SEQ_CST);
		return;
	}
	m->lease = now + LEASE_NS;
	if (old < now)
		__atomic_fetch_add(&m->gap_ns, now - old, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&m->ctl->streams, __ATOMIC_SEQ_CST) & 1U << m->place)
		return;
	/* A BPF program read the old lease just before it was renewed. */
	if (old >= now)
		__atomic_fetch_add(&m->gap_ns, now + LEASE_NS - old, __ATOMIC_SEQ_CST);
	member_switch_on(m);
}

/* --- leaving --------------------------------------------------------------------------------- */

/* Stops recording, except by BPF programs that are running now. */
static void member_switch_off(struct member *m)
{
	if (m->place != NO_PLACE)
		place_switch_off(m, m->place);
}

/* Frees the place, if there is one. */
static void member_leave(struct member *m)
{
	if (m->place != NO_PLACE)
		place_free(m, m->place);
	m->place = NO_PLACE;
}

/* True if the group is still pinned under its name. */
static bool member_is_attached(const struct bpffs *fs, const struct member *m)
{
	ino_t ino = 0;

	return !group_inode(fs, m->g, &ino) && ino == m->ino;
}

void streams_sweep(struct bpffs *fs, const struct group *g)
{
	bool had_lock = fs->locked, left = false;
	struct fsn_stream all[FSN_STREAMS_MAX];
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	struct member m = { .g = (struct group *)g };

	if (map_read(group_fd(g, MAPID_STREAMS), 0, FSN_STREAMS_MAX, sizeof(*all), all))
		return;
	for (uint32_t i = 0; i < FSN_STREAMS_MAX; i++)
		left |= all[i].lease_ns && all[i].lease_ns < now;
	if (!left || !bpffs_try_lock(fs))
		return;
	if (!map_group(g, &m))
		sweep(&m);
	member_unmap(&m);
	if (!had_lock)
		bpffs_unlock(fs);
}

/* --- streams: renewing leases, reading records, opening, closing ---------------------------- */

#define RENEW_NS 1000000000ULL
#define HELD_MAX (64U << 20) /* bytes of records read at a time */

/* --- leases ---------------------------------------------------------------------------------- */

/* A thread, so that a reader that waits for a slow terminal keeps its place and counts losses. */
static void *keeper(void *arg)
{
	struct stream *s = arg;
	struct timespec at;

	pthread_mutex_lock(&s->lock);
	while (!s->quitting) {
		for (size_t i = 0; i < s->cnt; i++)
			member_renew(&s->member[i]);
		clock_gettime(CLOCK_MONOTONIC, &at);
		at.tv_sec += RENEW_NS / 1000000000;
		pthread_cond_timedwait(&s->quit, &s->lock, &at);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static int keep_start(struct stream *s, struct err *err)
{
	/* The reader's thread handles signals. */
	int code = apart_thread(&s->keeper, keeper, s);

	if (code)
		return err_sys(err, code, "cannot start a thread");
	s->has_keeper = true;
	return 0;
}

static void keep_stop(struct stream *s)
{
	if (!s->has_keeper)
		return;
	pthread_mutex_lock(&s->lock);
	s->quitting = true;
	pthread_cond_signal(&s->quit);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->keeper, NULL);
	s->has_keeper = false;
}

/* --- records in the order of time ---------------------------------------------------------- */

/*
 * One ring serves all groups of a stream. Its records are in the order in which the BPF programs
 * reserved them. This is almost the order of time: a BPF program can be interrupted between reading
 * the clock and reserving. So records are delayed for a moment and sorted.
 */

/* A call comes after those inside, whose overhead its duration lacks. */
static uint64_t event_time(const struct fsn_event *e)
{
	return e->call.start + e->call.duration + e->late;
}

static void arena_grow(struct stream *s, size_t size)
{
	size_t room = s->arena_size ? s->arena_size * 2 : 1U << 20;

	while (room < s->arena_len + size)
		room *= 2;
	s->arena = xreallocarray(s->arena, room, 1);
	s->arena_size = room;
}

/* Callback of libbpf for each record. libbpf consumes the record even if this returns an error. */
static int stream_take(void *ctx, void *data, size_t size)
{
	struct stream *s = ctx;

	size = (size + 7) & ~7UL;
	if (s->arena_len + size > s->arena_size)
		arena_grow(s, size);
	memcpy(s->arena + s->arena_len, data, size);
	*array_add(s->held, s->held_cnt) = (struct held) { event_time(data), s->arena_len };
	s->arena_len += size;
	return s->arena_len < HELD_MAX ? 0 : -EAGAIN;
}

/* Insertion sort, because records are almost sorted and move past few others. */
static void sort_held(struct held *held, size_t cnt)
{
	for (size_t i = 1; i < cnt; i++) {
		struct held h = held[i];
		size_t to = i;

		for (; to && held[to - 1].at > h.at; to--)
			held[to] = held[to - 1];
		held[to] = h;
	}
}

static int tell_gap(struct stream *s, stream_fn fn, void *arg)
{
	for (size_t i = 0; i < s->cnt; i++) {
		struct stream_record r = {
			.kind = STREAM_GAP,
			.group = i,
			.duration_ns = __atomic_exchange_n(
				&s->member[i].gap_ns, 0, __ATOMIC_SEQ_CST),
		};
		int code = r.duration_ns ? fn(&r, arg) : 0;

		if (code)
			return code;
	}
	return 0;
}

/* Reports records that group @i has lost since the last report; @lost is the total. */
static int stream_tell_lost(struct stream *s, size_t i, uint32_t lost, stream_fn fn, void *arg)
{
	struct member *m = &s->member[i];
	int32_t more = lost - m->told_lost;
	struct stream_record r = { .kind = STREAM_LOST, .group = i, .count = more };

	if (more <= 0)
		return 0;
	m->told_lost = lost;
	return fn(&r, arg);
}

/* Returns the key of the call, or NULL if its row belongs to another function or process by now. */
static const struct fsn_key *key_of(struct stream *s, const struct fsn_event *e)
{
	const struct member *m = &s->member[e->tag];
	const struct fsn_row *rows = m->rows_map.addr;
	const struct fsn_key *keys = m->keys_map.addr;
	uint64_t tag = row_tag(e->call.fn, e->call.pid);

	if (!keys || e->row >= m->g->meta.row_cnt ||
		(__atomic_load_n(&rows[e->row].tag, __ATOMIC_ACQUIRE) & ~FSN_PROC_MARK(1)) != tag)
		return NULL;
	group_key_spread(m->g, &keys[e->row], &s->key);
	return &s->key;
}

static int tell(struct stream *s, const struct fsn_event *e, stream_fn fn, void *arg)
{
	const struct call *c = &e->call;
	struct stream_record r = {
		.kind = c->flags & FSN_CALL_ENTRY ? STREAM_ENTRY : STREAM_END,
		.group = e->tag,
		.call = c,
		.late_ns = e->late,
		.more = c->flags & FSN_CALL_MORE ? (const void *)(e + 1) : NULL,
	};
	int code;

	if (e->tag >= s->cnt || c->fn >= s->member[e->tag].g->meta.fn_cnt)
		return 0;
	r.key = key_of(s, e);
	code = stream_tell_lost(s, e->tag, e->lost, fn, arg);
	return code ? code : fn(&r, arg);
}

/* Drops the first @cnt delayed records and moves the others to the start. */
static void drop_held(struct stream *s, size_t cnt)
{
	size_t from = s->arena_len;

	memmove(s->held, s->held + cnt, (s->held_cnt - cnt) * sizeof(*s->held));
	s->held_cnt -= cnt;
	for (size_t i = 0; i < s->held_cnt; i++)
		if (s->held[i].offset < from)
			from = s->held[i].offset;
	memmove(s->arena, s->arena + from, s->arena_len - from);
	s->arena_len -= from;
	for (size_t i = 0; i < s->held_cnt; i++)
		s->held[i].offset -= from;
}

/* Calls @fn for each record until @until, like stream_read(). */
static int stream_read_until(
	struct stream *s, uint64_t until, stream_fn fn, void *arg, struct err *err)
{
	size_t before = s->arena_len, done = 0;
	int code = ring_buffer__consume(s->ring);

	if (code < 0 && code != -EAGAIN)
		return err_sys(err, code, "cannot read calls");
	for (size_t i = 0; i < s->cnt; i++)
		if (__atomic_load_n(&s->member[i].evicted, __ATOMIC_SEQ_CST))
			return err_set(err, -ESTALE,
				"this process was stopped for so long that its place in "
				"group '%s' was given away",
				s->member[i].g->name);
	s->fill = (s->arena_len - before) * 100 / s->ring_bytes;
	s->more = code == -EAGAIN;
	sort_held(s->held, s->held_cnt);
	code = 0;
	while (!code && done < s->held_cnt && s->held[done].at <= until)
		code = tell(
			s, (const void *)(s->arena + s->held[done++].offset), fn, arg);
	if (done)
		drop_held(s, done);
	return code ? code : tell_gap(s, fn, arg);
}

int stream_read(struct stream *s, stream_fn fn, void *arg, struct err *err)
{
	return stream_read_until(
		s, clock_ns(CLOCK_MONOTONIC) - STREAM_SETTLE_NS, fn, arg, err);
}

unsigned int stream_fill(const struct stream *s)
{
	return s->fill;
}

/* --- opening --------------------------------------------------------------------------------- */

/* Every glob must match a function, because an unmatched one is most likely a typing error. */
static int check_funcs(struct group *const *groups, size_t cnt,
	const struct stream_filter *filter, struct err *err)
{
	for (size_t i = 0; i < filter->func_cnt; i++) {
		bool found = false;

		for (size_t k = 0; !found && k < cnt; k++)
			for (uint32_t fn = 0; !found && fn < groups[k]->meta.fn_cnt; fn++)
				found = pattern_glob(
					filter->funcs[i], group_func_name(groups[k], fn));
		if (found)
			continue;
		err_set(err, -ENOENT, "no function '%s' in group '%s'%s",
			filter->funcs[i], groups[0]->name,
			cnt > 1 ? " or the others" : "");
		return err_hint(
			err, "'funcsnoop list functions %s' shows them", groups[0]->name);
	}
	return 0;
}

static int ring_new(struct stream *s, size_t bytes, struct err *err)
{
	size_t page = sysconf(_SC_PAGESIZE), size = page;

	while (size < bytes)
		size *= 2;
	s->ring_fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "fsn_ring", 0, 0, size, NULL);
	if (s->ring_fd < 0)
		return err_sys(err, -errno, "cannot make a buffer of %zu bytes", size);
	s->ring_bytes = size;
	return 0;
}

static struct stream *stream_alloc(size_t cnt)
{
	struct stream *s = xcalloc(1, sizeof(*s));
	pthread_condattr_t attr;

	s->ring_fd = -1;
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->quit, &attr);
	pthread_condattr_destroy(&attr);
	s->member = xcalloc(cnt, sizeof(*s->member));
	for (size_t i = 0; i < cnt; i++)
		s->member[i].place = NO_PLACE;
	return s;
}

int stream_open(const struct bpffs *fs, struct group *const *groups, size_t group_cnt,
	const struct stream_filter *filter, size_t buffer_bytes,
	struct stream **ret_stream, struct err *err)
{
	_cleanup_stream_ struct stream *s = NULL;
	int code = check_funcs(groups, group_cnt, filter, err);

	if (code)
		return code;
	s = stream_alloc(group_cnt);
	s->fs = fs;
	code = ring_new(s, buffer_bytes, err);
	if (code)
		return code;
	s->ring = ring_buffer__new(s->ring_fd, stream_take, s, NULL);
	if (!s->ring)
		return err_sys(err, -errno, "cannot map the buffer");
	for (; !code && s->cnt < group_cnt; s->cnt++) {
		s->member[s->cnt].g = groups[s->cnt];
		code = member_join(s, s->cnt, filter, err);
	}
	if (code)
		return code;
	s->running = true;
	for (size_t i = 0; i < s->cnt; i++)
		member_switch_on(&s->member[i]);
	code = keep_start(s, err);
	if (code)
		return code;
	*ret_stream = TAKE_PTR(s);
	return 0;
}

size_t stream_func_cnt(const struct stream *s)
{
	return s->func_cnt;
}

bool stream_is_over(const struct stream *s)
{
	return !ANY_WHERE(s->cnt, i, member_is_attached(s->fs, &s->member[i]));
}

/* --- closing --------------------------------------------------------------------------------- */

static void stop(struct stream *s)
{
	keep_stop(s);
	for (size_t i = 0; i < s->cnt; i++)
		if (s->member[i].evicted)
			s->member[i].place = NO_PLACE;
	for (size_t i = 0; i < s->cnt; i++)
		member_switch_off(&s->member[i]);
	/* Waiting for the BPF programs of one group waits for those of all groups. */
	for (size_t i = 0; i < s->cnt; i++)
		if (s->member[i].place != NO_PLACE && !group_wait_for_programs(s->member[i].g))
			break;
	s->running = false;
}

static void leave(struct stream *s)
{
	for (size_t i = 0; i < s->cnt; i++) {
		struct member *m = &s->member[i];

		if (m->place == NO_PLACE)
			continue;
		s->lost += m->conf->lost;
		member_leave(m);
	}
}

int stream_close(struct stream *s, stream_fn fn, void *arg, struct err *err)
{
	int code = 0;

	stop(s);
	do
		code = fn ? stream_read_until(s, UINT64_MAX, fn, arg, err) : 0;
	while (!code && fn && s->more);
	for (size_t i = 0; !code && fn && i < s->cnt; i++)
		if (s->member[i].place != NO_PLACE)
			code = stream_tell_lost(s, i, s->member[i].conf->lost, fn, arg);
	leave(s);
	return code;
}

uint64_t stream_lost(const struct stream *s)
{
	uint64_t lost = s->lost;

	for (size_t i = 0; i < s->cnt; i++)
		if (s->member[i].place != NO_PLACE &&
			!__atomic_load_n(&s->member[i].evicted, __ATOMIC_SEQ_CST))
			lost += __atomic_load_n(
				&s->member[i].conf->lost, __ATOMIC_RELAXED);
	return lost;
}

void stream_free(struct stream *s)
{
	if (!s)
		return;
	if (s->running || s->has_keeper)
		stop(s);
	leave(s);
	for (size_t i = 0; i < s->cnt; i++)
		member_unmap(&s->member[i]);
	ring_buffer__free(s->ring);
	close_fd(s->ring_fd);
	pthread_cond_destroy(&s->quit);
	pthread_mutex_destroy(&s->lock);
	free(s->arena);
	free(s->held);
	free(s->member);
	free(s);
}
