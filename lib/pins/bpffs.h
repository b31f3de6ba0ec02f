/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pin folder DIR/funcsnoop in bpffs: opened safely, locked, listed, staged, removed.
 * Everything below it is reached relative to its descriptor, never by path again.
 */
#ifndef FUNCSNOOP_PINS_BPFFS_H
#define FUNCSNOOP_PINS_BPFFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/text.h"
#include "base/util.h"

#define BPFFS_DEFAULT "/sys/fs/bpf"

struct bpffs {
	int fd;          /* DIR/funcsnoop, or -1 when it does not exist */
	int lock_fd;     /* what is locked, or -1 */
	bool locked;
	bool create;     /* as bpffs_open() was told */
	char path[4096]; /* DIR/funcsnoop, for messages */
};

/* What to do about a group, or a folder of groups, that may not be read. */
#define BPFFS_HINT_READERS "needs root, or a group attached with --share: funcsnoop-attach(8)"

#define BPFFS_HINT_WRITERS "only the group's owner and root may change it"

#define BPFFS_NONE { .fd = -1, .lock_fd = -1 }

/*
 * Opens DIR/funcsnoop. @dir NULL stands for $FUNCSNOOP_BPFFS or /sys/fs/bpf. With @create
 * the folder is made (0700), and bpffs is mounted on /sys/fs/bpf if nothing is; without,
 * a missing folder is no error and leaves fd -1. Until it is locked the folder may go, with the
 * last group: then it is as an empty one in which nothing can be made.
 * DIR must be a bpffs (BPF_FS_MAGIC, linux/magic.h). The folder is accepted only as a
 * directory that root or the caller owns and nobody else can write: a fresh bpffs is mode
 * 1777, so anybody could have made it first. Symbolic links are not followed.
 * Errors: -ENOTDIR, -ENOENT, -EPERM and what open(2) gives. Close with bpffs_close().
 */
int bpffs_open(const char *dir, bool create, struct bpffs *ret_fs, struct err *err);
void bpffs_close(struct bpffs *fs);

/*
 * Takes the writers' lock; waits up to 5 s and then fails with -EBUSY, naming the holder.
 * What a killed writer has left half-made is removed, breakpoints included, and so are groups
 * whose time is over. Held until bpffs_unlock() or bpffs_close().
 * A folder that has gone since bpffs_open() is made again with @create; without, there is
 * nothing to be locked: 0.
 */
int bpffs_lock(struct bpffs *fs, struct err *err);

/*
 * The same for a reader who wants no writer at work meanwhile: several may hold it. To be
 * given back at once. Whoever may not write the folder can't have it: -EACCES, as of the
 * above.
 */
int bpffs_lock_shared(struct bpffs *fs, struct err *err);

/*
 * The lock of the group in @dir_fd, which is another user's (bpffs_has_lock()): a second one
 * for who may change all groups, and the only one for its owner. Waits as bpffs_lock() does.
 * It ends with the descriptor. bpffs_give_lock() makes it and gives it to @uid,
 * bpffs_drop_lock() takes it away. -errno.
 */
int bpffs_lock_group(int dir_fd, const char *name, int *ret_fd, struct err *err);
bool bpffs_has_lock(int dir_fd);
int bpffs_give_lock(int dir_fd, uid_t uid);
int bpffs_drop_lock(int dir_fd);

/* Takes the lock if it is free at once; true when it is held. */
bool bpffs_try_lock(struct bpffs *fs);

/* Gives it back early; fine when it isn't held. A folder that is empty then goes. */
void bpffs_unlock(struct bpffs *fs);

/* Removes what killed writers left, and groups whose time is over, if the lock is free at
 * once. Never fails. */
void bpffs_tidy(struct bpffs *fs);

/*
 * The names of all whole groups, sorted; *@ret_names is an array that ends with NULL, to be
 * freed with names_free(). fd -1 gives an empty array.
 */
int bpffs_groups(const struct bpffs *fs, char ***ret_names, size_t *ret_cnt,
	struct err *err);
void names_free(char **names);

/* Opens the directory of group @name; -ENOENT when there is none. The caller closes. */
int bpffs_open_group(const struct bpffs *fs, const char *name, int *ret_fd,
	struct err *err);

/*
 * Makes GROUP~, empty, for a group to be built in; needs the lock. bpffs_publish() then
 * gives it its name in one step: -EEXIST when GROUP exists, unless @replace, which leaves
 * the old group in GROUP~ (RENAME_EXCHANGE; before 5.16 the old one is moved away first,
 * and a reader may for a moment see none).
 */
int bpffs_stage(struct bpffs *fs, const char *name, int *ret_fd, struct err *err);
int bpffs_publish(struct bpffs *fs, const char *name, bool replace, struct err *err);

/* Hides a group from readers: from now on it is GROUP~, which is removed if we are killed. */
int bpffs_retire(struct bpffs *fs, const char *name, struct err *err);

/* Told how many links of @total are gone while a removal waits; may be NULL. */
typedef void (*bpffs_progress_fn)(size_t done, size_t total, void *arg);

/*
 * Removes GROUP~ with all that is pinned in it and returns when no probe of it fires any
 * more: each link is opened, unpinned and closed, and its id waited for until it is gone
 * (a removed pin alone detaches later, from a work queue). -EBUSY when links don't go for
 * 10 s, as somebody else holds them.
 */
int bpffs_remove(struct bpffs *fs, const char *name, bpffs_progress_fn progress, void *arg,
	struct err *err);

/*
 * The same for what a killed writer left: breakpoints that it left in processes go, too
 * (breaks_heal()). -EPERM where the caller may not do that, and all stays.
 */
int bpffs_remove_dead(struct bpffs *fs, const char *name, struct err *err);

/* Pins the BPF object @fd as @name in the directory @dir_fd. */
int bpffs_pin(int dir_fd, const char *name, int fd, struct err *err);

/* Opens what is pinned as @name in @dir_fd; @flags as of BPF_OBJ_GET. Returns an fd or
 * a negative errno, -ELOOP for a symbolic link. */
int bpffs_get(int dir_fd, const char *name, unsigned int flags);

DEFINE_CLEANUP(names, char **, names_free)

#define _cleanup_bpffs_ __cleanup(bpffs_close)
#define _cleanup_names_ __cleanup(cleanup_names)

/* --- breakpoints: written down before the first is made, so that each has an owner ---------- */

/* A probed file, and where in it. */
struct breaks_file {
	uint64_t dev, ino, size, ctime_ns; /* by stat when it was probed */
	bool overlay;
	const char *path; /* or where else it was found: find/find.h */
	const uint64_t *offsets;
	size_t cnt;
};

/* Told what breaks_heal() could not do: the process, how many it has, what to do. */
typedef void (*breaks_tell_fn)(const struct err *what, void *arg);
void breaks_init(breaks_tell_fn tell, void *arg);

/*
 * Pins in the folder @dir_fd where probes go: each file's identity and offsets, sorted, each
 * once. It stays there as long as links do. To be done before the first link.
 */
_must_check_ int breaks_write(const struct breaks_file *files, size_t cnt, int dir_fd,
	struct err *err);

/*
 * For a folder whose links are gone, but whose writer was killed while it made or closed
 * one: a process with a deadly signal leaves breakpoints where they are (apart.h). Attaching
 * and detaching once takes them away; those that others own stay. 0 also when there is
 * nothing written down, or what can't be done was told. -EPERM when the caller may not,
 * -EINTR when it was cut short: then it is to be done again.
 */
int breaks_heal(int dir_fd);

/* --- processes that take groups away -------------------------------------------------------- */

/*
 * Processes that take groups away: a command's when that ends, however it does, and those
 * whose time is over.
 */

struct keeper;

/*
 * A group that is kept counts for so long (struct fsn_ctl .until_ns), and the keeper puts the
 * end off each second: it ends by itself where the keeper is killed with the command.
 */
#define KEEPER_LEASE_NS 5000000000ULL

/*
 * To be started before group @name is made, in the folder that bpffs_open() opens for @dir:
 * from then on the group goes when this process does, even by SIGKILL. It maps what this
 * process maps now. -EEXIST when there is such a group already, and what fork(2) and
 * pipe(2) give.
 */
_must_check_ int keeper_start(
	const char *dir, const char *name, struct keeper **ret_keeper, struct err *err);

/*
 * Removes the group, if it is there, and waits until its probes are gone; the keeper ends.
 * Errors as of bpffs_remove().
 */
int keeper_finish(struct keeper *k, struct err *err);

/* The same without a word of what went wrong. NULL is fine. */
void keeper_free(struct keeper *k);

DEFINE_CLEANUP(keeper, struct keeper *, keeper_free)
#define _cleanup_keeper_ __cleanup(cleanup_keeper)

/*
 * Starts a process called @name that outlives this one. It has no file open but the end of a pipe, which
 * @stay gets, and maps what this process maps now. *@ret_fd is the other end.
 */
_must_check_ int stay_start(const char *name, const char *dir, void (*stay)(const char *dir, int fd),
	int *ret_fd, struct err *err);

/*
 * A process that stays behind, and removes the groups that it is told of with ender_tell(),
 * each at its time, CLOCK_MONOTONIC; what is detached or replaced before is no concern of it.
 * It begins when *@ret_fd is closed, here and in what has been forked. It maps what this
 * process maps now. Where it is killed, the programs stop at that time by themselves, and the
 * next command that may removes them: bpffs_lock(), bpffs_tidy().
 */
_must_check_ int ender_start(const char *dir, int *ret_fd, struct err *err);
void ender_tell(int fd, const struct bpffs *fs, const char *name, uint64_t until_ns);

/* --- holds.c: processes that a group holds until what they have loaded was looked at -------- */

/* Nobody is held for longer, whatever happens to who should let it go: the keeper does. */
#define HOLD_MAX_NS 10000000000ULL

struct holds;

/*
 * The processes of the group @name, which is attached with attach_opts.holds: those that it
 * follows, and of them those that are held now. -ENOENT when there is no such group, and
 * what bpf(2) gives. Free with holds_free(), which lets nobody go.
 */
_must_check_ int holds_open(const struct bpffs *fs, const char *name,
	struct holds **ret_holds, struct err *err);
void holds_free(struct holds *h);

/*
 * From here on *@ret_fd is readable when another one is held; holds_next() makes it
 * unreadable. It belongs to @h. Of one process only.
 */
_must_check_ int holds_listen(struct holds *h, int *ret_fd, struct err *err);

/* The group's list of processes, for attach_opts.pids_fd. */
int holds_pids_fd(const struct holds *h);

/* A process that is held, or 0 when there is none. It may just be about to stop. */
pid_t holds_next(struct holds *h);

/* All that are followed; free() the array. */
size_t holds_followed(const struct holds *h, pid_t **ret_pids);

/*
 * Lets @pid go on. Parents that wait for stops of their children (WUNTRACED) may have stopped
 * themselves for it, as su(1) does: those that are followed are told to go on, too, when
 * holds_settle() sees it, which is to be called every few milliseconds for a while.
 */
void holds_let_go(struct holds *h, pid_t pid);
void holds_settle(struct holds *h);
bool holds_are_settled(const struct holds *h);

/* The same for all that are held for @ns or longer, of whom nobody else may know. */
void holds_let_all_go(struct holds *h, uint64_t ns);

/* Nobody is held any more, and nobody will be: before the group goes. */
void holds_end(struct holds *h);

DEFINE_CLEANUP(holds, struct holds *, holds_free)
#define _cleanup_holds_ __cleanup(cleanup_holds)

#endif
