// SPDX-License-Identifier: BSD-2-Clause
// Processes that a group has stopped: listing and continuing them.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "pins/bpffs.h"
#include "pins/maps.h"
#include "proc/proc.h"
#include "shared/layout.h"

#define RING_BYTES 65536        /* whole pages of every architecture */
#define SETTLE_NS  300000000ULL /* how long to watch parents that may have stopped */
#define SETTLE_MS  20
#define SETTLE_CNT 64

struct holds {
	int dir_fd; /* of the group's pins */
	int pids_fd, holds_fd, stops_fd;
	struct ring_buffer *bell; /* gets a record for each stopped process; or NULL */
	/* Continued processes. */
	struct {
		pid_t pid;
		uint64_t since_ns, at_ns; /* stopped, continued */
	} gone[SETTLE_CNT];
	size_t gone_cnt;
};

/* --- opening -------------------------------------------------------------------------------- */

/* True if the group can stop processes: otherwise its list has one entry only. */
static bool may_hold(int holds_fd)
{
	struct bpf_map_info info = {};
	__u32 len = sizeof(info);

	return !bpf_obj_get_info_by_fd(holds_fd, &info, &len) && info.max_entries > 1;
}

int holds_open(const struct bpffs *fs, const char *name, struct holds **ret_holds,
	struct err *err)
{
	_cleanup_holds_ struct holds *h = xcalloc(1, sizeof(*h));
	int code;

	h->dir_fd = h->pids_fd = h->holds_fd = h->stops_fd = -1;
	code = bpffs_open_group(fs, name, &h->dir_fd, err);
	if (code)
		return code;
	h->pids_fd = bpffs_get(h->dir_fd, map_pin_name(MAPID_PIDS), 0);
	h->holds_fd = bpffs_get(h->dir_fd, map_pin_name(MAPID_HOLDS), 0);
	h->stops_fd = bpffs_get(h->dir_fd, map_pin_name(MAPID_STOPS), 0);
	code = h->pids_fd < 0 ? h->pids_fd : h->holds_fd < 0 ? h->holds_fd : 0;
	if (!code && h->stops_fd < 0)
		code = h->stops_fd;
	if (!code && !may_hold(h->holds_fd))
		return err_set(err, -ENOENT, "group '%s' holds no process", name);
	if (code)
		return err_sys(err, code, "cannot watch what is loaded");
	*ret_holds = TAKE_PTR(h);
	return 0;
}

void holds_free(struct holds *h)
{
	if (!h)
		return;
	ring_buffer__free(h->bell);
	close_fd(h->dir_fd);
	close_fd(h->pids_fd);
	close_fd(h->holds_fd);
	close_fd(h->stops_fd);
	free(h);
}

static int heard(void *ctx, void *data, size_t size)
{
	return 0;
}

/* Puts a ring buffer of this process into entry 0 of the group's rings. */
int holds_listen(struct holds *h, int *ret_fd, struct err *err)
{
	_cleanup_close_ int rings = bpffs_get(h->dir_fd, map_pin_name(MAPID_RINGS), 0);
	_cleanup_close_ int fd = -1;
	uint32_t first = 0;

	if (rings < 0)
		return err_sys(err, rings, "cannot watch what is loaded");
	fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "fsn_bell", 0, 0, RING_BYTES, NULL);
	if (fd >= 0)
		h->bell = ring_buffer__new(fd, heard, NULL, NULL);
	if (!h->bell || bpf_map_update_elem(rings, &first, &fd, 0))
		return err_sys(err, -errno, "cannot watch what is loaded");
	*ret_fd = ring_buffer__epoll_fd(h->bell);
	return 0;
}

int holds_pids_fd(const struct holds *h)
{
	return h->pids_fd;
}

/* --- stopped processes ---------------------------------------------------------------------- */

/* Returns a process that was stopped @ns or longer ago, or 0. */
static pid_t find_held(int fd, uint64_t ns)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	uint32_t pid, last, *before = NULL;
	struct fsn_hold hold;

	for (; !bpf_map_get_next_key(fd, before, &pid); before = &last) {
		last = pid;
		if (!bpf_map_lookup_elem(fd, &pid, &hold) && hold.since_ns &&
			hold.since_ns + ns <= now)
			return (pid_t)pid;
	}
	return 0;
}

pid_t holds_next(struct holds *h)
{
	if (h->bell)
		ring_buffer__consume(h->bell);
	return find_held(h->holds_fd, 0);
}

size_t holds_followed(const struct holds *h, pid_t **ret_pids)
{
	uint32_t pid, last, *before = NULL;
	pid_t *pids = NULL;
	size_t cnt = 0;

	for (; !bpf_map_get_next_key(h->pids_fd, before, &pid); before = &last) {
		last = pid;
		if (cnt == FSN_CHILD_PIDS_MAX)
			break;
		pids = array_grow(pids, cnt, sizeof(*pids));
		if (pid != FSN_PID_NONE)
			pids[cnt++] = (pid_t)pid;
	}
	*ret_pids = pids;
	return cnt;
}

/* --- continuing processes ------------------------------------------------------------------- */

/* Origin and time of the last signal that stopped @pid. Without a record the group stopped it. */
static enum fsn_stopper stopped_by(const struct holds *h, pid_t pid, uint64_t *ret_at_ns)
{
	uint32_t key = (uint32_t)pid;
	struct fsn_stop stop = { .by = FSN_STOPPER_HOLD };

	(void)!bpf_map_lookup_elem(h->stops_fd, &key, &stop);
	*ret_at_ns = stop.at_ns;
	return stop.by;
}

/*
 * Continues @pid. The time is cleared first, because the BPF programs write it after their signal,
 * and stop a process again that is continued while the time is set. A process that another process
 * has stopped since then stays stopped. Returns the time at which the group stopped @pid.
 */
static uint64_t let_go(const struct holds *h, pid_t pid)
{
	uint64_t since_ns = 0, stopped_ns;
	uint32_t key = (uint32_t)pid;
	struct fsn_hold hold;

	if (!bpf_map_lookup_elem(h->holds_fd, &key, &hold)) {
		since_ns = hold.since_ns;
		hold.since_ns = 0;
		bpf_map_update_elem(h->holds_fd, &key, &hold, BPF_EXIST);
	}
	if (stopped_by(h, pid, &stopped_ns) == FSN_STOPPER_HOLD)
		kill(pid, SIGCONT);
	return since_ns;
}

void holds_let_go(struct holds *h, pid_t pid)
{
	size_t at = h->gone_cnt < SETTLE_CNT ? h->gone_cnt++ : SETTLE_CNT - 1;

	h->gone[at].pid = pid;
	h->gone[at].since_ns = let_go(h, pid);
	h->gone[at].at_ns = clock_ns(CLOCK_MONOTONIC);
}

void holds_let_all_go(struct holds *h, uint64_t ns)
{
	pid_t pid;

	while ((pid = find_held(h->holds_fd, ns)))
		holds_let_go(h, pid);
}

/*
 * Switches the BPF programs off. Like a reset, waits for BPF programs that have read the switch
 * while it was on.
 */
static void switch_off(const struct holds *h)
{
	_cleanup_close_ int ctl_fd = bpffs_get(h->dir_fd, map_pin_name(MAPID_CTL), 0);
	_cleanup_close_ int sync_fd = bpffs_get(h->dir_fd, map_pin_name(MAPID_SYNC), 0);
	_cleanup_mapping_ struct map_mapping map = {};
	_cleanup_close_ int fd = -1;
	struct fsn_ctl *ctl;
	uint32_t zero = 0;

	if (ctl_fd < 0 || map_mmap(ctl_fd, sizeof(*ctl), &map))
		return;
	ctl = map.addr;
	__atomic_store_n(&ctl->on, 0, __ATOMIC_SEQ_CST);
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "fsn_sync", 4, 4, 1, NULL);
	if (fd >= 0)
		bpf_map_update_elem(sync_fd, &zero, &fd, 0);
}

void holds_end(struct holds *h)
{
	switch_off(h);
	holds_let_all_go(h, 0);
	while (h->gone_cnt) {
		sleep_ms(SETTLE_MS);
		holds_settle(h);
	}
}

static pid_t parent_of(pid_t pid)
{
	char path[64], line[512];
	_cleanup_fclose_ FILE *f = NULL;
	const char *end;
	int parent;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f || !fgets(line, sizeof(line), f))
		return 0;
	end = strrchr(line, ')');
	return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

/*
 * Continues ancestors of @pid that the group follows, if a followed process has stopped them since
 * @since_ns. Ancestors that any other process has stopped stay stopped.
 */
static void wake_parents(const struct holds *h, pid_t pid, uint64_t since_ns)
{
	uint64_t start, stopped_ns;
	uint32_t key, value;
	char state;

	while ((pid = parent_of(pid)) > 1) {
		key = (uint32_t)pid;
		if (bpf_map_lookup_elem(h->pids_fd, &key, &value))
			return;
		if (stopped_by(h, pid, &stopped_ns) == FSN_STOPPER_FOLLOWED &&
			stopped_ns >= since_ns &&
			!proc_read_stat("/proc", pid, 0, &state, &start) && state == 'T')
			kill(pid, SIGCONT);
	}
}

void holds_settle(struct holds *h)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	size_t kept = 0;

	for (size_t i = 0; i < h->gone_cnt; i++) {
		wake_parents(h, h->gone[i].pid, h->gone[i].since_ns);
		if (h->gone[i].at_ns + SETTLE_NS > now)
			h->gone[kept++] = h->gone[i];
	}
	h->gone_cnt = kept;
}

bool holds_are_settled(const struct holds *h)
{
	return !h->gone_cnt;
}
