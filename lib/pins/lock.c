// SPDX-License-Identifier: BSD-2-Clause
// The writers' lock, and what writers that were killed left.
//
// Whoever can open a folder can lock it (flock(2)), and readers can open the pin folder: so a
// folder in it is locked that only its owner can open. It is there only while it is held;
// whoever gets the lock looks whether the folder is still the one of that name, and only who
// holds it takes it away. One that a killed writer left is as good as a new one.
//
// The pin folder itself goes with the last group: when nothing is in it, not even a lock that the
// next one has made. Who has opened it before, and then wants the lock, can make nothing in it any
// more (ENOENT): so all that is locked is in the folder that has the name.
//
// A group that was given to another user has a folder of the same kind: its owner, who may
// change nothing else here, excludes whoever changes that group.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <bpf/bpf.h>

#include "pins/bpffs.h"
#include "pins/maps.h"
#include "proc/proc.h"
#include "shared/layout.h"

#define LOCK         "~lock"
#define LOCK_WAIT_MS 5000
#define LOCK_POLL_MS 20
#define LOCK_TRIES   16 /* when it goes and comes while it is opened */
#define DIR_FLAGS    (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* Who holds a flock on @fd: proc_locks(5). 0 when nobody is found. */
static int lock_holder(int fd)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/locks", "re");
	unsigned int major, minor;
	unsigned long long ino;
	struct stat st;
	char line[256];
	int pid;

	if (!f || fstat(fd, &st))
		return 0;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%*d: FLOCK %*s WRITE %d %x:%x:%llu", &pid, &major, &minor,
			    &ino) == 4 &&
			ino == st.st_ino && makedev(major, minor) == st.st_dev)
			return pid;
	return 0;
}

static int err_locked(int dir_fd, const char *what, struct err *err)
{
	_cleanup_close_ int fd = openat(dir_fd, LOCK, DIR_FLAGS);
	int pid = fd < 0 ? 0 : lock_holder(fd);
	char comm[PROC_COMM_LEN];

	if (!pid)
		return err_set(err, -EBUSY, "'%s' is locked by another command", what);
	proc_comm(pid, pid, comm);
	return err_set(err, -EBUSY, "'%s' is locked by process %d (%s)", what, pid, comm);
}

/* The folder that is locked, made if it isn't there. */
static int lock_open(int dir_fd)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		int fd = openat(dir_fd, LOCK, DIR_FLAGS);

		if (fd >= 0 || errno != ENOENT)
			return fd >= 0 ? fd : -errno;
		if (mkdirat(dir_fd, LOCK, 0700) && errno != EEXIST)
			return -errno;
	}
	return -EWOULDBLOCK;
}

/* Whether @fd is still the folder of that name. */
static bool is_linked(int dir_fd, int fd)
{
	struct stat held, named;

	return !fstat(fd, &held) && !fstatat(dir_fd, LOCK, &named, AT_SYMLINK_NOFOLLOW) &&
		held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

/* A descriptor that holds it; -EWOULDBLOCK when somebody else does. */
static int lock_try(int dir_fd, int how)
{
	_cleanup_close_ int fd = lock_open(dir_fd);

	if (fd < 0)
		return fd;
	if (flock(fd, how | LOCK_NB))
		return errno == EINTR ? -EWOULDBLOCK : -errno;
	return is_linked(dir_fd, fd) ? TAKE_FD(fd) : -EWOULDBLOCK;
}

static int lock_wait(int dir_fd, int how)
{
	int fd = lock_try(dir_fd, how);

	for (int ms = 0; fd == -EWOULDBLOCK && ms < LOCK_WAIT_MS; ms += LOCK_POLL_MS) {
		sleep_ms(LOCK_POLL_MS);
		fd = lock_try(dir_fd, how);
	}
	return fd;
}

static int take_lock(struct bpffs *fs, int how, struct err *err)
{
	int fd = lock_wait(fs->fd, how), code;

	while (fd == -ENOENT && fs->create) {
		code = bpffs_remake(fs, err);
		if (code)
			return code;
		fd = lock_wait(fs->fd, how);
	}
	if (fd == -ENOENT && how == LOCK_EX)
		return 0;
	if (fd == -EWOULDBLOCK)
		return err_locked(fs->fd, fs->path, err);
	if (fd < 0) {
		err_sys(err, fd, "cannot lock '%s'", fs->path);
		if (fd == -EACCES || fd == -EPERM)
			err_hint(err, "only root and the owner of '%s' may", fs->path);
		return fd;
	}
	fs->lock_fd = fd;
	fs->locked = true;
	return 0;
}

/* Is @name that of a group which a writer has staged or retired? */
static bool is_staged(const char *name)
{
	size_t len = strlen(name);

	return len > 1 && name[len - 1] == '~';
}

/* Whether the time of group @name is over, at which its programs have stopped counting. */
static bool has_ended(const struct bpffs *fs, const char *name)
{
	_cleanup_close_ int dir_fd = -1, fd = -1;
	struct fsn_ctl ctl;
	uint32_t zero = 0, cnt;

	if (bpffs_open_group(fs, name, &dir_fd, NULL))
		return false;
	fd = bpffs_get(dir_fd, map_pin_name(MAPID_CTL), BPF_F_RDONLY);
	if (fd < 0 || map_check(fd, MAPID_CTL, 0, &cnt) || bpf_map_lookup_elem(fd, &zero, &ctl))
		return false;
	return ctl.on & FSN_FILTER_UNTIL && !ns_until(ctl.until_ns);
}

static void remove_ended(struct bpffs *fs)
{
	_cleanup_names_ char **names = NULL;
	size_t cnt = 0;

	if (bpffs_groups(fs, &names, &cnt, NULL))
		return;
	for (size_t i = 0; i < cnt; i++)
		if (has_ended(fs, names[i]) && !bpffs_retire(fs, names[i], NULL))
			bpffs_remove(fs, names[i], NULL, NULL, NULL);
}

static void remove_leftovers(struct bpffs *fs)
{
	_cleanup_closedir_ DIR *dir = NULL;
	char names[64][GROUP_NAME_MAX + 2];
	struct dirent *d;
	size_t cnt = 0;
	int fd;

	fd = openat(fs->fd, ".", DIR_FLAGS);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir)
		return;
	while (cnt < ARRAY_SIZE(names) && (d = readdir(dir)))
		if (is_staged(d->d_name) && strlen(d->d_name) <= GROUP_NAME_MAX + 1)
			strcpy(names[cnt++], d->d_name);
	while (cnt--) {
		names[cnt][strlen(names[cnt]) - 1] = '\0';
		bpffs_remove_dead(fs, names[cnt], NULL);
	}
	remove_ended(fs);
}

int bpffs_lock(struct bpffs *fs, struct err *err)
{
	int code;

	if (fs->locked || fs->fd < 0)
		return 0;
	code = take_lock(fs, LOCK_EX, err);
	if (fs->locked)
		remove_leftovers(fs);
	return code;
}

int bpffs_lock_shared(struct bpffs *fs, struct err *err)
{
	return fs->locked || fs->fd < 0 ? 0 : take_lock(fs, LOCK_SH, err);
}

int bpffs_lock_group(int dir_fd, const char *name, int *ret_fd, struct err *err)
{
	int fd = lock_wait(dir_fd, LOCK_EX);

	if (fd == -EWOULDBLOCK)
		return err_locked(dir_fd, name, err);
	if (fd < 0)
		return err_sys(err, fd, "cannot lock group '%s'", name);
	*ret_fd = fd;
	return 0;
}

int bpffs_give_lock(int dir_fd, uid_t uid)
{
	if (mkdirat(dir_fd, LOCK, 0700) && errno != EEXIST)
		return -errno;
	return fchownat(dir_fd, LOCK, uid, -1, AT_SYMLINK_NOFOLLOW) ? -errno : 0;
}

int bpffs_drop_lock(int dir_fd)
{
	return unlinkat(dir_fd, LOCK, AT_REMOVEDIR) && errno != ENOENT ? -errno : 0;
}

bool bpffs_has_lock(int dir_fd)
{
	return !faccessat(dir_fd, LOCK, F_OK, AT_SYMLINK_NOFOLLOW);
}

bool bpffs_try_lock(struct bpffs *fs)
{
	int fd;

	if (fs->locked)
		return true;
	fd = fs->fd < 0 ? -EBADF : lock_try(fs->fd, LOCK_EX);
	if (fd < 0)
		return false;
	fs->lock_fd = fd;
	fs->locked = true;
	return true;
}

/* The lock goes while nobody else can have locked it: of several readers with the last. */
void bpffs_unlock(struct bpffs *fs)
{
	if (fs->locked && !flock(fs->lock_fd, LOCK_EX | LOCK_NB) &&
		is_linked(fs->fd, fs->lock_fd) && !unlinkat(fs->fd, LOCK, AT_REMOVEDIR))
		bpffs_drop_empty(fs);
	if (fs->locked)
		flock(fs->lock_fd, LOCK_UN);
	fs->lock_fd = close_fd(fs->lock_fd);
	fs->locked = false;
}

/* Whether there is something that no living writer may be at work on. */
static bool has_leftovers(const struct bpffs *fs)
{
	int fd = fs->fd < 0 ? -1 : openat(fs->fd, ".", DIR_FLAGS);
	_cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	while (dir && (d = readdir(dir)))
		if (is_staged(d->d_name) || !strcmp(d->d_name, LOCK) ||
			(d->d_name[0] != '.' && has_ended(fs, d->d_name)))
			return true;
	return false;
}

void bpffs_tidy(struct bpffs *fs)
{
	if (fs->locked || !has_leftovers(fs) || !bpffs_try_lock(fs))
		return;
	remove_leftovers(fs);
	bpffs_unlock(fs);
}
