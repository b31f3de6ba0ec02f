// SPDX-License-Identifier: BSD-2-Clause
// Helper processes that remove groups: the keeper when its command exits or is killed, and the
// ender when groups expire.
//
// The keeper waits for end-of-file on a pipe. Only the command and its forked children have the
// write end. After end-of-file none of them makes a group any more, or it holds the lock, and the
// keeper waits for the lock. A regular exit also uses the keeper, so there is only one way.
//
// The keeper also continues processes that a group has stopped for its command.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/apart.h"
#include "base/util.h"
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

/* --- groups with stopped processes ---------------------------------------------------------- */

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
	struct fsn_hold hold;
	uint32_t pid;

	map_foreach(fd, &pid)
		if (!bpf_map_lookup_elem(fd, &pid, &hold) && hold.since_ns &&
			hold.since_ns + ns <= now)
			return (pid_t)pid;
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
	pid_t *pids = NULL;
	size_t cnt = 0;
	uint32_t pid;

	map_foreach(h->pids_fd, &pid) {
		if (cnt == FSN_CHILD_PIDS_MAX)
			break;
		if (pid != FSN_PID_NONE)
			*array_add(pids, cnt) = (pid_t)pid;
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
		hold.lost = 0;
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

uint32_t holds_lost(const struct holds *h)
{
	struct fsn_hold all = {};
	uint32_t key = 0;

	(void)!bpf_map_lookup_elem(h->holds_fd, &key, &all);
	return all.lost;
}

/* Continues all processes that were stopped @ns or longer ago, because no command may know them. */
static void holds_let_all_go(struct holds *h, uint64_t ns)
{
	pid_t pid;

	while ((pid = find_held(h->holds_fd, ns)))
		holds_let_go(h, pid);
}

/*
 * Continues followed processes that a hold stopped @ns or longer ago, with no time in their record:
 * the kernel may have sent the signal of a BPF program after the command's, or the program may have
 * written the time to a record that let_go() replaced.
 */
static void continue_unrecorded(const struct holds *h, uint64_t ns)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	struct fsn_stop stop;
	uint32_t pid, value;

	map_foreach(h->stops_fd, &pid)
		if (!bpf_map_lookup_elem(h->stops_fd, &pid, &stop) &&
			stop.by == FSN_STOPPER_HOLD && stop.at_ns + ns <= now &&
			!bpf_map_lookup_elem(h->pids_fd, &pid, &value))
			kill((pid_t)pid, SIGCONT);
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
	continue_unrecorded(h, 0);
}

/*
 * Continues ancestors of @pid that the group follows, if a followed process has stopped them since
 * @since_ns. Ancestors that any other process has stopped stay stopped.
 */
static void wake_parents(const struct holds *h, pid_t pid, uint64_t since_ns)
{
	struct proc_stat stat;
	uint32_t key, value;
	uint64_t stopped_ns;

	while (!proc_read_stat("/proc", pid, 0, &stat) && stat.parent > 1) {
		pid = stat.parent;
		key = (uint32_t)pid;
		if (bpf_map_lookup_elem(h->pids_fd, &key, &value))
			return;
		if (stopped_by(h, pid, &stopped_ns) == FSN_STOPPER_FOLLOWED &&
			stopped_ns >= since_ns &&
			!proc_read_stat("/proc", pid, 0, &stat) && stat.state == 'T')
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

/* --- the keeper ----------------------------------------------------------------------------- */

#define RENEW_MS 1000

struct keeper {
	pid_t pid;
	bool killed;
	uint64_t renewed_ns; /* by the command, after that */
	int fd; /* the command's end of the pipe */
	const char *dir;
	char name[GROUP_NAME_MAX + 1];
	struct err *err; /* shared by both processes */
};

/* True if the group is staged or complete; checked in the order in which a group is renamed. */
static bool is_there(const struct bpffs *fs, const char *name)
{
	char stage[GROUP_NAME_MAX + 2];

	snprintf(stage, sizeof(stage), "%s~", name);
	return fs->fd >= 0 &&
		(!faccessat(fs->fd, stage, F_OK, AT_SYMLINK_NOFOLLOW) ||
			!faccessat(fs->fd, name, F_OK, AT_SYMLINK_NOFOLLOW));
}

/* Continues processes that were stopped too long, or all if the group is about to be removed. */
static void mind_holds(const struct bpffs *fs, const char *name, bool end)
{
	_cleanup_holds_ struct holds *h = NULL;

	if (holds_open(fs, name, &h, NULL))
		return;
	if (end) {
		holds_end(h);
		return;
	}
	holds_let_all_go(h, HOLD_MAX_NS);
	continue_unrecorded(h, HOLD_MAX_NS);
}

static int remove_group(const char *dir, const char *name, struct err *err)
{
	_cleanup_bpffs_ struct bpffs fs = BPFFS_NONE;
	int code = bpffs_open(dir, false, &fs, err);

	if (code || !is_there(&fs, name))
		return code;
	mind_holds(&fs, name, true);
	/* Another command may hold the lock for long. The keeper can wait. */
	while ((code = bpffs_lock(&fs, err)) == -EBUSY)
		;
	/* bpffs_lock() has removed staged groups. */
	if (code || !is_there(&fs, name))
		return code;
	code = bpffs_retire(&fs, name, err);
	return code ? code : bpffs_remove(&fs, name, NULL, NULL, err);
}

/* Closes the command's files, because readers of its pipes would wait for this process. */
static void close_files_but(int fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = 0; null >= 0 && i < 3; i++)
		dup2(null, i);
	if (null > 2 && null != fd)
		close(null);
	/* This includes the ends of other keepers' pipes. */
	if (fd > 3)
		close_range(3, fd - 1, 0);
	close_range(fd + 1, ~0U, 0);
}

/* Extends the lease of the group, if the group exists. */
static void renew(const struct keeper *k)
{
	_cleanup_close_ int dir_fd = -1, fd = -1;
	_cleanup_bpffs_ struct bpffs fs = BPFFS_NONE;
	_cleanup_mapping_ struct map_mapping map = {};
	struct fsn_ctl *ctl;

	if (bpffs_open(k->dir, false, &fs, NULL) || fs.fd < 0 ||
		bpffs_open_group(&fs, k->name, &dir_fd, NULL))
		return;
	fd = bpffs_get(dir_fd, map_pin_name(MAPID_CTL), 0);
	if (fd < 0 || map_mmap(fd, sizeof(*ctl), &map))
		return;
	ctl = map.addr;
	__atomic_store_n(&ctl->until_ns, clock_ns(CLOCK_MONOTONIC) + KEEPER_LEASE_NS,
		__ATOMIC_SEQ_CST);
	mind_holds(&fs, k->name, false);
}

static void keep(const struct keeper *k, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	setsid();
	prctl(PR_SET_NAME, "funcsnoop-keep");
	close_files_but(fd);
	while (poll(&p, 1, RENEW_MS) <= 0)
		renew(k);
	memset(k->err, 0, sizeof(*k->err));
	remove_group(k->dir, k->name, k->err);
	_exit(0);
}

/* All signals are blocked in the keeper. */
static int fork_keeper(struct keeper *k, struct err *err)
{
	sigset_t all, before;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return err_sys(err, -errno, "cannot watch over the group");
	sigfillset(&all);
	sigdelset(&all, SIGBUS); /* a blocked SIGBUS from a fault kills the process */
	sigprocmask(SIG_SETMASK, &all, &before);
	k->pid = fork();
	if (!k->pid) {
		close(fds[1]);
		keep(k, fds[0]);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(fds[0]);
	k->fd = fds[1];
	return k->pid < 0 ? err_sys(err, -errno, "cannot watch over the group") : 0;
}

int keeper_start(
	const char *dir, const char *name, struct keeper **ret_keeper, struct err *err)
{
	_cleanup_bpffs_ struct bpffs fs = BPFFS_NONE;
	struct keeper *k;
	int code;

	if (!bpffs_open(dir, false, &fs, NULL) && is_there(&fs, name))
		return err_set(err, -EEXIST, "group '%s' is already attached", name);
	k = xcalloc(1, sizeof(*k));
	k->dir = dir;
	k->fd = -1;
	snprintf(k->name, sizeof(k->name), "%s", name);
	k->err = apart_alloc(sizeof(*k->err));
	code = fork_keeper(k, err);
	if (code)
		keeper_free(k);
	else
		*ret_keeper = k;
	return code;
}

void keeper_mind(struct keeper *k)
{
	if (!k)
		return;
	if (k->pid > 0 && waitpid(k->pid, NULL, WNOHANG) == k->pid) {
		k->pid = 0;
		k->killed = true;
	}
	if (k->killed && !ns_until(k->renewed_ns + RENEW_MS * 1000000ULL)) {
		renew(k);
		k->renewed_ns = clock_ns(CLOCK_MONOTONIC);
	}
}

int keeper_finish(struct keeper *k, struct err *err)
{
	/* The keeper overwrites this, unless it was killed before. */
	err_sys(k->err, -EINTR, "cannot remove group '%s'", k->name);
	k->fd = close_fd(k->fd);
	while (k->pid > 0 && waitpid(k->pid, NULL, 0) < 0 && errno == EINTR)
		;
	k->pid = 0;
	k->killed = false;
	if (k->err->code == -EINTR)
		return remove_group(k->dir, k->name, err);
	if (k->err->code && err)
		*err = *k->err;
	return k->err->code;
}

void keeper_free(struct keeper *k)
{
	if (!k)
		return;
	if (k->pid > 0 || k->killed)
		keeper_finish(k, NULL);
	close_fd(k->fd);
	apart_free(k->err, sizeof(*k->err));
	free(k);
}

/* --- expired groups -------------------------------------------------------------------------- */

struct ending {
	char name[GROUP_NAME_MAX + 1];
	struct stat dir;
	uint64_t until_ns;
};

struct endings {
	struct ending *of;
	size_t cnt;
};

static void end_group(struct bpffs *fs, const struct ending *e)
{
	while (bpffs_lock(fs, NULL) == -EBUSY)
		;
	/* The previous lock holder may have removed it, and bpffs_lock() removes expired groups. */
	if (bpffs_is_still(fs->fd, e->name, &e->dir) && !bpffs_retire(fs, e->name, NULL))
		bpffs_remove(fs, e->name, NULL, NULL, NULL);
	bpffs_unlock(fs);
}

/* Drops groups that are gone, removes expired ones, and returns when the next one expires. */
static uint64_t end_groups(struct bpffs *fs, struct endings *list)
{
	uint64_t next = UINT64_MAX;
	size_t kept = 0;

	for (size_t i = 0; i < list->cnt; i++) {
		const struct ending *e = &list->of[i];

		if (!bpffs_is_still(fs->fd, e->name, &e->dir))
			continue;
		if (!ns_until(e->until_ns)) {
			end_group(fs, e);
			continue;
		}
		next = e->until_ns < next ? e->until_ns : next;
		list->of[kept++] = *e;
	}
	list->cnt = kept;
	return next;
}

/* Waits until @until_ns or until a group is renamed or removed. */
static void wait_for_change(int watch_fd, uint64_t until_ns)
{
	struct pollfd p = { .fd = watch_fd, .events = POLLIN };
	uint64_t left = ns_until(until_ns);
	char events[4096];
	struct timespec ts;

	if (watch_fd < 0 && left > 1000000000)
		left = 1000000000;
	ts = timespec_of(left);
	if (ppoll(&p, watch_fd >= 0, &ts, NULL) > 0)
		(void)!read(watch_fd, events, sizeof(events));
}

/* Reads the groups that the command registers, until it exits. */
static void read_endings(int fd, struct endings *list)
{
	struct ending e;
	ssize_t n;

	while ((n = read(fd, &e, sizeof(e))) == sizeof(e) || (n < 0 && errno == EINTR)) {
		if (n < 0)
			continue;
		*array_add(list->of, list->cnt) = e;
	}
}

int stay_start(const char *name, const char *dir, void (*stay)(const char *dir, int fd), int *ret_fd,
	struct err *err)
{
	int fds[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return err_sys(err, -errno, "cannot watch over the group");
	pid = fork();
	if (!pid) {
		close(fds[1]);
		if (!fork()) {
			setsid();
			prctl(PR_SET_NAME, name);
			close_files_but(fds[0]);
			stay(dir, fds[0]);
		}
		_exit(0);
	}
	close(fds[0]);
	*ret_fd = fds[1];
	if (pid < 0) {
		*ret_fd = close_fd(fds[1]);
		return err_sys(err, -errno, "cannot watch over the group");
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return 0;
}

void stay_tell(int fd, const void *message, size_t size)
{
	(void)!send(fd, message, size, MSG_NOSIGNAL);
}

static void end_later(const char *dir, int fd)
{
	_cleanup_bpffs_ struct bpffs fs = BPFFS_NONE;
	struct endings list = {};
	char path[64];
	int watch;

	read_endings(fd, &list);
	if (!list.cnt || bpffs_open(dir, false, &fs, NULL) || fs.fd < 0 || chdir("/"))
		_exit(0);
	watch = inotify_init1(IN_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fs.fd);
	if (watch >= 0 &&
		inotify_add_watch(watch, path, IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE) < 0)
		watch = close_fd(watch);
	for (uint64_t next; (next = end_groups(&fs, &list)) != UINT64_MAX;)
		wait_for_change(watch, next);
	_exit(0);
}

int ender_start(const char *dir, int *ret_fd, struct err *err)
{
	return stay_start("funcsnoop-for", dir, end_later, ret_fd, err);
}

void ender_tell(int fd, const struct bpffs *fs, const char *name, uint64_t until_ns)
{
	struct ending e = { .until_ns = until_ns };

	if (fstatat(fs->fd, name, &e.dir, AT_SYMLINK_NOFOLLOW))
		return;
	snprintf(e.name, sizeof(e.name), "%s", name);
	stay_tell(fd, &e, sizeof(e));
}
