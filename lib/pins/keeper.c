// SPDX-License-Identifier: BSD-2-Clause
// A process that takes a command's group away when the command ends, however it does.
//
// It waits for the end of a pipe whose other end only the command has, and those that it
// forks: none of these makes a group any more when the end has come, or it holds the lock,
// which is waited for. The command's own end goes the same way, so that there is one.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/apart.h"
#include "pins/bpffs.h"
#include "pins/keeper.h"

struct keeper {
	pid_t pid;
	int fd; /* the command's end of the pipe */
	const char *dir;
	char name[GROUP_NAME_MAX + 1];
	struct err *err; /* seen by both processes */
};

/* Staged or whole, in the order in which it becomes whole. */
static bool is_there(const struct bpffs *fs, const char *name)
{
	char stage[GROUP_NAME_MAX + 2];

	snprintf(stage, sizeof(stage), "%s~", name);
	return fs->fd >= 0 &&
		(!faccessat(fs->fd, stage, F_OK, AT_SYMLINK_NOFOLLOW) ||
			!faccessat(fs->fd, name, F_OK, AT_SYMLINK_NOFOLLOW));
}

static int remove_group(const char *dir, const char *name, struct err *err)
{
	_cleanup_bpffs_ struct bpffs fs = BPFFS_NONE;
	int code = bpffs_open(dir, false, &fs, err);

	if (code || !is_there(&fs, name))
		return code;
	/* Somebody else's command may take its time: this one has it. */
	while ((code = bpffs_lock(&fs, err)) == -EBUSY)
		;
	/* What was staged went with the lock. */
	if (code || !is_there(&fs, name))
		return code;
	code = bpffs_retire(&fs, name, err);
	return code ? code : bpffs_remove(&fs, name, NULL, NULL, err);
}

/* Nothing of the command's is kept open, above all not what others read. */
static void let_go(int fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int i = 0; null >= 0 && i < 3; i++)
		dup2(null, i);
	if (null > 2 && null != fd)
		close(null);
}

static void keep(const struct keeper *k, int fd)
{
	char c;

	setsid();
	prctl(PR_SET_NAME, "funcsnoop-keep");
	let_go(fd);
	while (read(fd, &c, 1) < 0 && errno == EINTR)
		;
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
	sigdelset(&all, SIGBUS); /* of its own doing: blocked, it ends the process */
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
		return err_set(err, -EEXIST, "group '%s' is attached already", name);
	k = calloc(1, sizeof(*k));
	if (!k)
		return err_sys(err, -ENOMEM, "cannot watch over the group");
	k->dir = dir;
	k->fd = -1;
	snprintf(k->name, sizeof(k->name), "%s", name);
	k->err = apart_alloc(sizeof(*k->err));
	if (!k->err)
		code = err_sys(err, -errno, "cannot watch over the group");
	else
		code = fork_keeper(k, err);
	if (code)
		keeper_free(k);
	else
		*ret_keeper = k;
	return code;
}

int keeper_finish(struct keeper *k, struct err *err)
{
	/* Until it is known better: one that was killed has not done it. */
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
