// SPDX-License-Identifier: BSD-2-Clause
// The pin directory: opens and locks it, stages and publishes groups.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <bpf/bpf.h>

#include "base/apart.h"
#include "base/file.h"
#include "base/util.h"
#include "pins/bpffs.h"
#include "pins/maps.h"
#include "proc/proc.h"
#include "shared/layout.h"

/* --- the pin directory: opening it safely -------------------------------------------------- */

#define FOLDER     "funcsnoop"
#define PATH_FLAGS (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define DIR_FLAGS  (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define MAKE_TRIES 16 /* if other commands remove and make it meanwhile */

static bool folder_is_empty(const char *path)
{
	_cleanup_closedir_ DIR *dir = opendir(path);
	const struct dirent *entry;
	bool empty = dir;

	while (empty && (entry = readdir(dir)))
		empty = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..");
	return empty;
}

static bool fd_is_bpffs(int fd)
{
	struct statfs st;

	return fstatfs(fd, &st) == 0 && (unsigned long)st.f_type == BPF_FS_MAGIC;
}

/* Other users need root for this. Root lacks the capability @needed. */
static int hint_root(int code, uint64_t needed, struct err *err)
{
	return geteuid() ? err_hint(err, "needs root; try with sudo")
			 : caps_hint(code, needed, err);
}

/* A mount hides the contents of a directory, so the hint offers one only for empty directories. */
static int fail_no_bpffs(const char *dir, struct err *err)
{
	err_set(err, -ENOTDIR, "'%s' is not a bpffs", dir);
	if (!strcmp(dir, BPFFS_DEFAULT) || folder_is_empty(dir))
		return err_hint(err, "run 'mount -t bpf bpf %s'", dir);
	return err_hint(err, "name a mounted one, such as " BPFFS_DEFAULT
			     ", or mount one on an empty directory");
}

/* Opens the bpffs mounted on @dir. Mounts it with @create if @dir is the default. */
static int open_mount(const char *dir, bool create, struct err *err)
{
	/* O_PATH, because readers of a group may have search permission only. */
	_cleanup_close_ int fd = open(dir, PATH_FLAGS);
	int code;

	if (fd < 0) {
		code = -errno;
		err_sys(err, code, "cannot open bpffs directory '%s'", dir);
		if (code == -EACCES)
			hint_root(code, CAPS_BIT(CAP_DAC_READ_SEARCH), err);
		return code;
	}
	if (fd_is_bpffs(fd))
		return TAKE_FD(fd);
	if (strcmp(dir, BPFFS_DEFAULT) || !create)
		return fail_no_bpffs(dir, err);
	if (mount("bpf", dir, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RELATIME,
		    "mode=0700")) {
		code = -errno;
		err_sys(err, code, "cannot mount bpffs on '%s'", dir);
		return geteuid()
			? err_hint(err,
				  "needs root; try with sudo, or name a mounted one with --bpffs")
			: caps_hint(code, CAPS_BIT(CAP_SYS_ADMIN), err);
	}
	close(fd);
	fd = open(dir, PATH_FLAGS);
	if (fd < 0)
		return err_sys(err, -errno, "cannot open bpffs directory '%s'", dir);
	return TAKE_FD(fd);
}

static int folder_check(int fd, const char *path, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st))
		return err_sys(err, -errno, "cannot read '%s'", path);
	if (st.st_uid != 0 && st.st_uid != geteuid()) {
		err_set(err, -EPERM, "'%s' belongs to user %u", path, st.st_uid);
		return err_hint(err, "only a directory of root or your own is used; "
				     "remove it, or name another bpffs with --bpffs");
	}
	if (st.st_mode & (S_IWGRP | S_IWOTH)) {
		err_set(err, -EPERM, "'%s' can be written by others (mode %04o)", path,
			st.st_mode & 07777);
		return err_hint(err, "check what it contains, then run 'chmod go-w %s'", path);
	}
	return 0;
}

/* Returns -ENOENT without setting @err if there is no directory and @create is not set. */
static int open_folder(int mount_fd, const struct bpffs *fs, int *ret_fd, struct err *err)
{
	_cleanup_close_ int fd = -1;
	int code;

	for (int i = 0; fd < 0 && i < MAKE_TRIES; i++) {
		if (fs->create && mkdirat(mount_fd, FOLDER, 0700) && errno != EEXIST) {
			code = err_sys(err, -errno, "cannot make '%s'", fs->path);
			return hint_root(code, CAPS_BIT(CAP_DAC_OVERRIDE), err);
		}
		fd = openat(mount_fd, FOLDER, DIR_FLAGS);
		if (fd < 0 && (errno != ENOENT || !fs->create))
			break;
	}
	if (fd < 0 && errno == ENOENT && !fs->create)
		return -ENOENT;
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		return err_set(err, -ENOTDIR, "'%s' is not a directory", fs->path);
	if (fd < 0) {
		err_sys(err, -errno, "cannot open '%s'", fs->path);
		return err_hint(err, BPFFS_HINT_READERS);
	}
	code = folder_check(fd, fs->path, err);
	if (!code)
		*ret_fd = TAKE_FD(fd);
	return code;
}

int bpffs_open(const char *dir, bool create, struct bpffs *ret_fs, struct err *err)
{
	_cleanup_close_ int mount_fd = -1;
	int code;

	if (!dir)
		dir = secure_getenv("FUNCSNOOP_BPFFS");
	if (!dir || !*dir)
		dir = BPFFS_DEFAULT;
	snprintf(ret_fs->path, sizeof(ret_fs->path), "%s/" FOLDER, dir);
	ret_fs->fd = ret_fs->lock_fd = -1;
	ret_fs->locked = false;
	ret_fs->create = create;
	mount_fd = open_mount(dir, create, err);
	if (mount_fd < 0) {
		/* bpffs is not mounted on the default directory, so nothing is attached. */
		if (mount_fd == -ENOTDIR && !create && !strcmp(dir, BPFFS_DEFAULT))
			return 0;
		return mount_fd;
	}
	code = open_folder(mount_fd, ret_fs, &ret_fs->fd, err);
	return code == -ENOENT && !create ? 0 : code;
}

/* The descriptor keeps its number, because opened groups refer to the directory by it. */
static int bpffs_remake(struct bpffs *fs, struct err *err)
{
	_cleanup_close_ int mount_fd = openat(fs->fd, "..", PATH_FLAGS), fd = -1;
	int code;

	if (mount_fd < 0)
		return err_sys(err, -errno, "cannot open the directory of '%s'", fs->path);
	code = open_folder(mount_fd, fs, &fd, err);
	if (!code && dup3(fd, fs->fd, O_CLOEXEC) < 0)
		code = err_sys(err, -errno, "cannot open '%s'", fs->path);
	return code;
}

/*
 * Removes the pin directory if it is empty. The lock need not be held: a command that has opened
 * the directory can no longer make the lock in it (ENOENT), and makes the directory again.
 */
static void bpffs_drop_empty(const struct bpffs *fs)
{
	_cleanup_close_ int mount_fd = openat(fs->fd, "..", PATH_FLAGS);

	if (mount_fd >= 0)
		unlinkat(mount_fd, FOLDER, AT_REMOVEDIR);
}

void bpffs_close(struct bpffs *fs)
{
	bpffs_unlock(fs);
	/* The directory may have been made for a group that failed before the lock was taken. */
	if (fs->create && fs->fd >= 0)
		bpffs_drop_empty(fs);
	fs->fd = close_fd(fs->fd);
}

/* --- groups --------------------------------------------------------------------------------- */

DEFINE_ORDER(compare_names, char *const, strcmp(*x, *y))

int bpffs_groups(const struct bpffs *fs, char ***ret_names, size_t *ret_cnt, struct err *err)
{
	_cleanup_closedir_ DIR *dir = fs->fd < 0 ? NULL : dir_open_at(fs->fd, ".");
	_cleanup_names_ char **names = NULL;
	struct dirent *d;
	size_t cnt = 0;

	if (fs->fd >= 0 && !dir)
		return err_sys(err, -errno, "cannot list '%s'", fs->path);
	names = xcalloc(1, sizeof(*names));
	while (dir && (d = readdir(dir))) {
		if (d->d_type != DT_DIR || group_name_check(d->d_name, NULL))
			continue;
		names = xreallocarray(names, cnt + 2, sizeof(*names));
		names[cnt++] = xstrdup(d->d_name);
		names[cnt] = NULL;
	}
	qsort(names, cnt, sizeof(*names), compare_names);
	*ret_names = TAKE_PTR(names);
	*ret_cnt = cnt;
	return 0;
}

void names_free(char **names)
{
	for (char **n = names; n && *n; n++)
		free(*n);
	free(names);
}

static void staged_name(char *buf, const char *name)
{
	snprintf(buf, GROUP_NAME_MAX + 2, "%s~", name);
}

int bpffs_open_group(const struct bpffs *fs, const char *name, int *ret_fd, struct err *err)
{
	int fd, code;

	if (group_name_check(name, err))
		return -EINVAL;
	fd = fs->fd < 0 ? -1 : openat(fs->fd, name, DIR_FLAGS);
	if (fd >= 0) {
		*ret_fd = fd;
		return 0;
	}
	code = fs->fd < 0 ? -ENOENT : -errno;
	if (code == -ENOENT) {
		err_set(err, code, "no group '%s' is attached", name);
		err_hint(err, "'funcsnoop list' shows what is attached");
	} else {
		err_sys(err, code, "cannot open group '%s'", name);
		err_hint(err, BPFFS_HINT_READERS);
	}
	return code;
}

int bpffs_stage(struct bpffs *fs, const char *name, int *ret_fd, struct err *err)
{
	char stage[GROUP_NAME_MAX + 2];
	int fd;

	staged_name(stage, name);
	if (mkdirat(fs->fd, stage, 0700))
		return err_sys(err, -errno, "cannot make '%s/%s'", fs->path, stage);
	fd = openat(fs->fd, stage, DIR_FLAGS);
	if (fd < 0)
		return err_sys(err, -errno, "cannot open '%s/%s'", fs->path, stage);
	*ret_fd = fd;
	return 0;
}

int bpffs_publish(struct bpffs *fs, const char *name, bool replace, struct err *err)
{
	char stage[GROUP_NAME_MAX + 2], old[GROUP_NAME_MAX + 3];

	staged_name(stage, name);
	if (renameat2(fs->fd, stage, fs->fd, name, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EEXIST)
		return err_sys(err, -errno, "cannot name group '%s'", name);
	if (!replace)
		return err_set(err, -EEXIST, "group '%s' is already attached", name);
	if (renameat2(fs->fd, stage, fs->fd, name, RENAME_EXCHANGE) == 0)
		return 0;
	if (errno != EINVAL)
		return err_sys(err, -errno, "cannot replace group '%s'", name);
	/* Before 5.16 (3871cb8cf741) bpffs can't exchange. */
	snprintf(old, sizeof(old), "%s~", stage);
	if (renameat2(fs->fd, name, fs->fd, old, 0) ||
		renameat2(fs->fd, stage, fs->fd, name, RENAME_NOREPLACE) ||
		renameat2(fs->fd, old, fs->fd, stage, 0))
		return err_sys(err, -errno, "cannot replace group '%s'", name);
	return 0;
}

int bpffs_retire(struct bpffs *fs, const char *name, struct err *err)
{
	char stage[GROUP_NAME_MAX + 2];
	int code;

	staged_name(stage, name);
	if (renameat2(fs->fd, name, fs->fd, stage, 0)) {
		code = err_sys(err, -errno, "cannot remove group '%s'", name);
		if (code == -EACCES || code == -EPERM)
			err_hint(err, "only root and the owner of '%s' may", fs->path);
		return code;
	}
	return 0;
}

/* --- pins ----------------------------------------------------------------------------------- */

/* bpf(2) accepts only paths before 6.5 (BPF_F_PATH_FD), so the path goes through the descriptor. */
static void pin_path(char *buf, size_t size, int dir_fd, const char *name)
{
	snprintf(buf, size, "/proc/self/fd/%d/%s", dir_fd, name);
}

int bpffs_pin(int dir_fd, const char *name, int fd, struct err *err)
{
	char path[128];

	pin_path(path, sizeof(path), dir_fd, name);
	if (bpf_obj_pin(fd, path))
		return err_sys(err, proc_cause(-errno), "cannot pin '%s'", name);
	return 0;
}

int bpffs_get(int dir_fd, const char *name, unsigned int flags)
{
	LIBBPF_OPTS(bpf_obj_get_opts, opts, .file_flags = flags);
	struct stat st;
	char path[128];
	int fd;

	/* BPF_OBJ_GET follows symbolic links */
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW))
		return -errno;
	if (S_ISLNK(st.st_mode))
		return -ELOOP;
	pin_path(path, sizeof(path), dir_fd, name);
	fd = bpf_obj_get_opts(path, &opts);
	return fd < 0 ? proc_cause(-errno) : fd;
}

/* --- the writers' lock, and leftovers of killed writers ------------------------------------ */

/*
 * Any process that can open a directory can lock it (flock(2)), and readers can open the pin
 * directory. So the lock is on a subdirectory that only its owner can open. The subdirectory exists
 * only while it is locked, and only the lock holder removes it. After locking, a command checks
 * that the name still refers to the locked directory. One left by a killed writer is reused.
 *
 * The pin directory itself is removed after the last group, if it does not contain the lock of the
 * next command. A command that has opened the removed directory cannot make a lock in it (ENOENT).
 * So every lock is in the directory that currently has the name.
 *
 * A group that was given to another user contains its own lock directory. The owner, who can change
 * nothing else here, uses it to exclude other writers of that group.
 */

#define LOCK         "~lock"
#define LOCK_WAIT_MS 20000
#define LOCK_POLL_MS 20
#define LOCK_TRIES   16 /* if other commands remove and make it meanwhile */

/* PID of the process that holds a flock on @fd, or 0 if none is found: proc_locks(5). */
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

/* Opens the lock directory, and makes it if it does not exist. */
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

bool bpffs_is_still(int dir_fd, const char *name, const struct stat *dir)
{
	struct stat now;

	return !fstatat(dir_fd, name, &now, AT_SYMLINK_NOFOLLOW) && now.st_ino == dir->st_ino &&
		now.st_dev == dir->st_dev;
}

/* True if @fd is still the directory named LOCK. */
static bool is_linked(int dir_fd, int fd)
{
	struct stat held;

	return !fstat(fd, &held) && bpffs_is_still(dir_fd, LOCK, &held);
}

/* Returns a descriptor that holds the lock, or -EWOULDBLOCK if another command holds it. */
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

static void set_lock(struct bpffs *fs, int fd)
{
	fs->lock_fd = fd;
	fs->locked = fd >= 0;
	apart_hold(fd);
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
	set_lock(fs, fd);
	return 0;
}

/* True if @name is that of a staged or retired group. */
static bool is_staged(const char *name)
{
	size_t len = strlen(name);

	return len > 1 && name[len - 1] == '~';
}

/* True if group @name has expired: its BPF programs have stopped counting. */
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
	_cleanup_closedir_ DIR *dir = dir_open_at(fs->fd, ".");
	char names[64][GROUP_NAME_MAX + 2];
	struct dirent *d;
	size_t cnt = 0;

	if (!dir)
		return;
	while (cnt < ARRAY_SIZE(names) && (d = readdir(dir)))
		if (is_staged(d->d_name) && strlen(d->d_name) <= GROUP_NAME_MAX + 1)
			strcpy(names[cnt++], d->d_name);
	while (cnt--) {
		names[cnt][strlen(names[cnt]) - 1] = '\0';
		bpffs_remove_dead(fs, names[cnt]);
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
	set_lock(fs, fd);
	return true;
}

/* Removes the lock directory only under LOCK_EX, so the last of several readers removes it. */
void bpffs_unlock(struct bpffs *fs)
{
	int fd = fs->lock_fd;

	if (!fs->locked)
		return;
	if (!flock(fd, LOCK_EX | LOCK_NB) && is_linked(fs->fd, fd) &&
		!unlinkat(fs->fd, LOCK, AT_REMOVEDIR))
		bpffs_drop_empty(fs);
	flock(fd, LOCK_UN);
	set_lock(fs, -1);
	close(fd);
}

void bpffs_leave(struct bpffs *fs)
{
	if (apart_orphaned() && !bpffs_drop_lock(fs->fd))
		bpffs_drop_empty(fs);
}

/* True if the directory has entries that no living writer may be using. */
static bool has_leftovers(const struct bpffs *fs)
{
	_cleanup_closedir_ DIR *dir = fs->fd < 0 ? NULL : dir_open_at(fs->fd, ".");
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
