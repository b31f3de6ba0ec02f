/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pin directory DIR/funcsnoop in bpffs: opens, locks and lists it, stages and removes groups.
 * Everything below it is opened relative to its descriptor, never by path again.
 */
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/text.h"
#include "base/util.h"

#define BPFFS_DEFAULT "/sys/fs/bpf"

struct bpffs {
	int fd;          /* DIR/funcsnoop, or -1 when it does not exist */
	int lock_fd;     /* the locked directory, or -1 */
	bool locked;
	bool create;     /* argument of bpffs_open() */
	char path[4096]; /* DIR/funcsnoop, for messages */
};

/* Hint for a group or a pin directory that the user cannot read. */
#define BPFFS_HINT_READERS "needs root, or a group attached with --share: funcsnoop-attach(8)"

#define BPFFS_HINT_WRITERS "only the group's owner and root may change it"

#define BPFFS_NONE { .fd = -1, .lock_fd = -1 }

/*
 * Opens DIR/funcsnoop. If @dir is NULL, uses $FUNCSNOOP_BPFFS or /sys/fs/bpf. With @create, makes
 * the directory (0700), and mounts bpffs on /sys/fs/bpf if nothing is mounted there. Without
 * @create, a missing directory leaves fd -1 and returns 0.
 *
 * Until the directory is locked, another command may remove it together with the last group. It
 * then looks like an empty directory in which nothing can be created.
 *
 * DIR must be a bpffs (BPF_FS_MAGIC, linux/magic.h). The directory must belong to root or the
 * caller and must not be writable by others: a new bpffs has mode 1777, so any user could have
 * made it first. Symbolic links are not followed.
 *
 * Returns 0, -ENOTDIR, -ENOENT, -EPERM or an error of open(2). The caller closes @ret_fs with
 * bpffs_close().
 */
int bpffs_open(const char *dir, bool create, struct bpffs *ret_fs, struct err *err);
void bpffs_close(struct bpffs *fs);

/*
 * Takes the writers' lock until bpffs_unlock() or bpffs_close(). Waits up to 20 s, then fails with
 * -EBUSY and names the holder. Removes expired groups, and incomplete groups of killed writers
 * with their breakpoints.
 *
 * If the directory was removed since bpffs_open(), it is made again with @create. Otherwise there
 * is nothing to lock, and the function returns 0.
 */
int bpffs_lock(struct bpffs *fs, struct err *err);

/*
 * Takes the lock in shared mode, for readers that must exclude writers. The caller releases it as
 * soon as possible. As with bpffs_lock(), returns -EACCES if the caller cannot write the directory.
 */
int bpffs_lock_shared(struct bpffs *fs, struct err *err);

/*
 * Locks the single group in @dir_fd. Only a group that belongs to another user has such a lock
 * (bpffs_has_lock()). Its owner takes only this lock; users who may change all groups take it in
 * addition to bpffs_lock(). Waits like bpffs_lock(). Closing *@ret_fd releases the lock.
 *
 * bpffs_give_lock() makes the lock for @uid, and bpffs_drop_lock() removes it. All return 0 or
 * -errno.
 */
int bpffs_lock_group(int dir_fd, const char *name, int *ret_fd, struct err *err);
bool bpffs_has_lock(int dir_fd);
int bpffs_give_lock(int dir_fd, uid_t uid);
int bpffs_drop_lock(int dir_fd);

/* Takes the lock without waiting. True if the caller holds it now. */
bool bpffs_try_lock(struct bpffs *fs);

/* Releases the lock if it is held, and removes the directory if it is empty. */
void bpffs_unlock(struct bpffs *fs);

/* For the last act of an apart_run() under bpffs_lock(): removes the lock if the command is dead. */
void bpffs_leave(struct bpffs *fs);

/* Removes expired groups and leftovers of killed writers, unless another command holds the lock. */
void bpffs_tidy(struct bpffs *fs);

/*
 * Lists the names of all complete groups, sorted. The array ends with NULL; the caller frees it
 * with names_free(). If fd is -1, it is empty. Returns 0 or the error of open(2).
 */
int bpffs_groups(const struct bpffs *fs, char ***ret_names, size_t *ret_cnt,
	struct err *err);
void names_free(char **names);

/* Opens the directory of group @name. Returns 0, or -ENOENT. The caller closes *@ret_fd. */
int bpffs_open_group(const struct bpffs *fs, const char *name, int *ret_fd,
	struct err *err);

/* True if @name in @dir_fd is still the directory @dir: it was neither removed nor replaced. */
bool bpffs_is_still(int dir_fd, const char *name, const struct stat *dir);

/*
 * Makes the empty directory GROUP~, in which a group is built; needs the lock. bpffs_publish()
 * renames it to GROUP atomically. It returns -EEXIST if GROUP exists, unless @replace is set: then
 * the old group becomes GROUP~ (RENAME_EXCHANGE). Before 5.16 the old group is renamed first, so
 * that readers may briefly find no group.
 */
int bpffs_stage(struct bpffs *fs, const char *name, int *ret_fd, struct err *err);
int bpffs_publish(struct bpffs *fs, const char *name, bool replace, struct err *err);

/*
 * Hides a group from readers by renaming it to GROUP~. If this command is killed, the next writer
 * removes the group.
 */
int bpffs_retire(struct bpffs *fs, const char *name, struct err *err);

/* Reports that @done of @total links are gone, while a removal waits. May be NULL. */
typedef void (*bpffs_progress_fn)(size_t done, size_t total, void *arg);

/*
 * Removes GROUP~ and its pins, and returns when none of its probes fires any more. It opens,
 * unpins and closes each link and waits until the link's id is gone, because removing only the pin
 * detaches later, from a work queue. Returns -EBUSY if no link disappears for 10 s because another
 * process holds them.
 */
int bpffs_remove(struct bpffs *fs, const char *name, bpffs_progress_fn progress, void *arg,
	struct err *err);

/*
 * Removes the GROUP~ of a killed writer, including orphaned breakpoints in processes. Returns
 * -EPERM if the caller cannot remove them; the group then stays.
 */
int bpffs_remove_dead(struct bpffs *fs, const char *name);

/* Pins the BPF object @fd as @name in the directory @dir_fd. */
int bpffs_pin(int dir_fd, const char *name, int fd, struct err *err);

/* Opens the pin @name in @dir_fd with @flags of BPF_OBJ_GET. Returns an fd or a negative errno,
 * -ELOOP for a symbolic link. */
int bpffs_get(int dir_fd, const char *name, unsigned int flags);

DEFINE_CLEANUP(names, char **, names_free)

#define _cleanup_bpffs_ __cleanup(bpffs_close)
#define _cleanup_names_ __cleanup(cleanup_names)

/* --- breakpoints: recorded before they are inserted, so that they can be removed ------------ */

/* A probed file and the offsets of its probes. */
struct breaks_file {
	uint64_t dev, ino, size, ctime_ns; /* from stat(2) when it was probed */
	bool overlay;
	const char *path; /* or another place of the file: find/find.h */
	const uint64_t *offsets;
	size_t cnt;
};

/* Reports a process whose orphaned breakpoints could not be removed, their number, and a hint. */
typedef void (*breaks_tell_fn)(const struct err *what, void *arg);
void breaks_init(breaks_tell_fn tell, void *arg);

/*
 * Records in the directory @dir_fd where probes go: the identity of each file and its offsets,
 * sorted and unique. The caller does this before creating the first link. The record stays pinned
 * as long as links do.
 */
_must_check_ int breaks_write(const struct breaks_file *files, size_t cnt, int dir_fd,
	struct err *err);

/*
 * Removes breakpoints that no link of the group in @dir_fd uses: a process that is killed while it
 * makes or closes a link leaves them in place (apart.h).
 *
 * Returns 0, also if nothing was recorded or the remaining breakpoints were reported. Returns
 * -EPERM if the caller lacks permission, or -EINTR if it was interrupted and must be repeated.
 */
int breaks_heal(int dir_fd);

/* --- processes that remove groups ----------------------------------------------------------- */

/*
 * Two helper processes: the keeper removes a command's group when the command exits or is killed;
 * the ender removes expired groups.
 */

struct keeper;

/*
 * Lease of a group that has a keeper (struct fsn_ctl .until_ns). The keeper renews it each second.
 * If the keeper is killed together with the command, the group stops counting when it expires.
 */
#define KEEPER_LEASE_NS 5000000000ULL

/*
 * Starts a keeper for group @name in the directory that bpffs_open() opens for @dir. The keeper
 * removes the group when this process exits, even by SIGKILL. The caller starts it before making
 * the group. The keeper inherits the memory mappings of this process.
 *
 * Returns 0, -EEXIST if the group exists, or an error of fork(2) or pipe(2).
 */
_must_check_ int keeper_start(
	const char *dir, const char *name, struct keeper **ret_keeper, struct err *err);

/*
 * Called each second or more often: if the keeper was killed, renews the lease in its place. @k may be
 * NULL.
 */
void keeper_mind(struct keeper *k);

/*
 * Removes the group if it exists, waits until its probes are gone, and ends the keeper.
 * Returns the errors of bpffs_remove().
 */
int keeper_finish(struct keeper *k, struct err *err);

/* Does the same without reporting errors, and frees @k. @k may be NULL. */
void keeper_free(struct keeper *k);

/*
 * Starts a process called @name that outlives this one, and calls @stay in it. @stay reads the
 * messages of stay_tell() from @fd, its only open file, until *@ret_fd is closed in this process and
 * in all forked ones. The process inherits the memory mappings of this one. Returns 0, or an error of
 * socketpair(2) or fork(2).
 */
_must_check_ int stay_start(const char *name, const char *dir, void (*stay)(const char *dir, int fd),
	int *ret_fd, struct err *err);

/* Sends @message. Does nothing if the process was killed. */
void stay_tell(int fd, const void *message, size_t size);

/*
 * Starts a process that outlives this one and removes each group registered with ender_tell() at
 * its time (CLOCK_MONOTONIC). It ignores groups that were detached or replaced before. It starts
 * when *@ret_fd is closed in this process and in all forked ones, and inherits the memory mappings
 * of this process.
 *
 * If the ender is killed, the BPF programs still stop at that time, and the next command with
 * permission removes the group: bpffs_lock(), bpffs_tidy().
 */
_must_check_ int ender_start(const char *dir, int *ret_fd, struct err *err);
void ender_tell(int fd, const struct bpffs *fs, const char *name, uint64_t until_ns);

/* --- keeper.c: processes stopped until the files that they loaded are examined -------------- */

/* Longest time that a process stays stopped. The keeper continues it if no command has. */
#define HOLD_MAX_NS 10000000000ULL

struct holds;

/*
 * Opens the lists of processes of group @name, which is attached with attach_opts.holds: the
 * processes that it follows, and those of them that it has stopped.
 *
 * Returns 0, -ENOENT if there is no such group, or an error of bpf(2). The caller frees *@ret_holds
 * with holds_free(), which continues no process.
 */
_must_check_ int holds_open(const struct bpffs *fs, const char *name,
	struct holds **ret_holds, struct err *err);
void holds_free(struct holds *h);

/*
 * Makes *@ret_fd readable when the group stops another process, until holds_next() is called. The
 * descriptor belongs to @h. Only one process can listen.
 */
_must_check_ int holds_listen(struct holds *h, int *ret_fd, struct err *err);

/* Returns the group's list of processes, for attach_opts.pids_fd. */
int holds_pids_fd(const struct holds *h);

/* Returns the PID of a stopped process, or 0. The process may not have stopped yet. */
pid_t holds_next(struct holds *h);

/* Returns the number of followed processes. The caller frees *@ret_pids with free(). */
size_t holds_followed(const struct holds *h, pid_t **ret_pids);

/*
 * Continues @pid. A parent that waits for stopped children (WUNTRACED) may have stopped itself,
 * as su(1) does. holds_settle() also continues such parents if the group follows them. The caller
 * calls it every few milliseconds until holds_are_settled().
 */
void holds_let_go(struct holds *h, pid_t pid);

/* Returns how many stops other processes have cancelled, before the process had stopped. */
uint32_t holds_lost(const struct holds *h);
void holds_settle(struct holds *h);
bool holds_are_settled(const struct holds *h);

/* Continues all processes and stops no more, before the group is removed. */
void holds_end(struct holds *h);

DEFINE_CLEANUP(holds, struct holds *, holds_free)
#define _cleanup_holds_ __cleanup(cleanup_holds)
