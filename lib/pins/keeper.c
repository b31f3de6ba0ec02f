// SPDX-License-Identifier: BSD-2-Clause
// Helper processes that remove groups: the keeper when its command exits or is killed, and the
// ender when groups expire.
//
// The keeper waits for end-of-file on a pipe. Only the command and its forked children have the
// write end. After end-of-file none of them makes a group any more, or it holds the lock, and the
// keeper waits for the lock. A regular exit also uses the keeper, so there is only one way.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/apart.h"
#include "pins/bpffs.h"
#include "pins/maps.h"
#include "shared/layout.h"

#define RENEW_MS 1000

struct keeper {
	pid_t pid;
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
	if (end)
		holds_end(h);
	else
		holds_let_all_go(h, HOLD_MAX_NS);
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
static void let_go(int fd)
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
	let_go(fd);
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

int keeper_finish(struct keeper *k, struct err *err)
{
	/* The keeper overwrites this, unless it was killed before. */
	err_sys(k->err, -EINTR, "cannot remove group '%s'", k->name);
	k->fd = close_fd(k->fd);
	while (k->pid > 0 && waitpid(k->pid, NULL, 0) < 0 && errno == EINTR)
		;
	k->pid = 0;
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
	if (k->pid > 0)
		keeper_finish(k, NULL);
	close_fd(k->fd);
	apart_free(k->err, sizeof(*k->err));
	free(k);
}

/* --- expired groups -------------------------------------------------------------------------- */

struct ending {
	char name[GROUP_NAME_MAX + 1];
	uint64_t dev, ino; /* of its directory */
	uint64_t until_ns;
};

struct endings {
	struct ending *of;
	size_t cnt;
};

/* True if the group still exists and has not been replaced by another one of that name. */
static bool is_same(const struct bpffs *fs, const struct ending *e)
{
	struct stat st;

	return !fstatat(fs->fd, e->name, &st, AT_SYMLINK_NOFOLLOW) && st.st_ino == e->ino &&
		st.st_dev == e->dev;
}

static void end_group(struct bpffs *fs, const struct ending *e)
{
	while (bpffs_lock(fs, NULL) == -EBUSY)
		;
	/* The previous lock holder may have removed it, and bpffs_lock() removes expired groups. */
	if (is_same(fs, e) && !bpffs_retire(fs, e->name, NULL))
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

		if (!is_same(fs, e))
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
		list->of = array_grow(list->of, list->cnt, sizeof(*list->of));
		list->of[list->cnt++] = e;
	}
}

int stay_start(const char *name, const char *dir, void (*stay)(const char *dir, int fd), int *ret_fd,
	struct err *err)
{
	int fds[2], status;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return err_sys(err, -errno, "cannot watch over the group");
	pid = fork();
	if (!pid) {
		close(fds[1]);
		if (!fork()) {
			setsid();
			prctl(PR_SET_NAME, name);
			let_go(fds[0]);
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
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return 0;
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
	struct stat st;

	if (fstatat(fs->fd, name, &st, AT_SYMLINK_NOFOLLOW))
		return;
	snprintf(e.name, sizeof(e.name), "%s", name);
	e.dev = st.st_dev;
	e.ino = st.st_ino;
	(void)!write(fd, &e, sizeof(e));
}
