// SPDX-License-Identifier: BSD-2-Clause
// Places of streams in groups, and their leases: memory that programs, the reader and whoever
// sweeps up after it share.
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <bpf/bpf.h>

#include "base/text.h"
#include "base/util.h"
#include "internal.h"
#include "proc/proc.h"

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

/* Of the descriptors, those that the stream's end takes: the group may be gone by then. */
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

void member_unmap(struct member *m)
{
	map_munmap(&m->ctl_map);
	map_munmap(&m->streams_map);
	map_munmap(&m->confs_map);
	map_munmap(&m->rows_map);
	map_munmap(&m->keys_map);
}

/* Nothing is recorded for @place from here on, but by programs that run now. */
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

		/* Its reader may wake up just now, and renew it: one of the two wins. */
		if (lease && lease < now &&
			__atomic_compare_exchange_n(&all[i].lease_ns, &lease, LEASE_SWEPT,
				false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			place_free(m, i);
	}
}

static bool wants(const struct group *g, uint32_t fn, const struct stream_filter *filter)
{
	const char *name = group_func_name(g, fn);

	for (size_t i = 0; i < filter->func_cnt; i++)
		if (pattern_glob(filter->funcs[i], name))
			return true;
	return !filter->func_cnt;
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

int member_join(
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
		if (wants(m->g, fn, filter)) {
			__atomic_fetch_or(
				&conf[fn].streams, 1U << place, __ATOMIC_SEQ_CST);
			s->func_cnt++;
		}
	return 0;
}

/* --- leases ---------------------------------------------------------------------------------- */

void member_switch_on(struct member *m)
{
	__atomic_fetch_or(
		&m->ctl->save_args, FSN_SAVE_STREAM(m->place), __ATOMIC_SEQ_CST);
	__atomic_fetch_or(&m->ctl->streams, 1U << m->place, __ATOMIC_SEQ_CST);
}

void member_renew(struct member *m)
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
	/* A program that saw the old lease just before it was renewed. */
	if (old >= now)
		__atomic_fetch_add(&m->gap_ns, now + LEASE_NS - old, __ATOMIC_SEQ_CST);
	member_switch_on(m);
}

/* --- the end --------------------------------------------------------------------------------- */

void member_switch_off(struct member *m)
{
	if (m->place != NO_PLACE)
		place_switch_off(m, m->place);
}

void member_leave(struct member *m)
{
	if (m->place != NO_PLACE)
		place_free(m, m->place);
	m->place = NO_PLACE;
}

bool member_is_attached(const struct bpffs *fs, const struct member *m)
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
