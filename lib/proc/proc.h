/* SPDX-License-Identifier: BSD-2-Clause */
/* /proc: processes, their mappings, and files of other mount namespaces, safely opened. */
#ifndef FUNCSNOOP_PROC_PROC_H
#define FUNCSNOOP_PROC_PROC_H

#include <linux/capability.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <termios.h>

#include "base/err.h"
#include "base/util.h"

/*
 * Why a path below /proc could not be opened, by the code that this gave: -ENOENT, or
 * -ERR_NO_PROC where nothing is found there.
 */
int proc_cause(int code);

/* A file that a process maps: the mappings of one file are one entry. */
struct proc_map {
	uint64_t start, end; /* its first executable mapping, or its first mapping */
	uint64_t offset;     /* in the file, of that mapping */
	uint32_t dev_major, dev_minor;
	uint64_t ino;
	uint64_t head; /* address at which file offset 0 is mapped, or 0 */
	bool exec;     /* some mapping of it is executable */
	bool deleted;  /* the path ended in " (deleted)", which was taken off */
	char *path;    /* in the process's mount namespace */
};

struct proc_maps {
	struct proc_map *maps;
	size_t cnt;
};

/*
 * Mapped files of @pid in the order of their addresses, without anonymous and special
 * ones, also when its main thread has ended. @proc is "/proc" or, for tests, another folder. -ESRCH when there is no such
 * process, -EACCES. Empty the result with proc_maps_done().
 */
_must_check_ int proc_maps_read(
	const char *proc, pid_t pid, struct proc_maps *ret_maps, struct err *err);
void proc_maps_done(struct proc_maps *maps);

/* The file whose code lies at @addr, or NULL. */
const struct proc_map *proc_maps_at(const struct proc_maps *maps, uint64_t addr);

/* All processes (thread group leaders) seen in @proc, sorted; free() the array. */
_must_check_ int proc_pids(
	const char *proc, pid_t **ret_pids, size_t *ret_cnt, struct err *err);

/*
 * State (proc(5): R, S, Z, ...) and start of thread @tid of process @pid; @tid 0 is the
 * process. The start is CLOCK_BOOTTIME in ticks of sysconf(_SC_CLK_TCK). -ESRCH when it is
 * not there, -EINVAL when it can't be read.
 */
_must_check_ int proc_read_stat(const char *proc, pid_t pid, pid_t tid, char *ret_state,
	uint64_t *ret_start_ticks);

/*
 * A thread of process @pid that runs: its main thread if that does, else any other, by
 * whose number @proc shows the memory and the root of the process, too. 0 when there is
 * none: the process has ended.
 */
pid_t proc_thread(const char *proc, pid_t pid);

/* The process that thread @tid belongs to; 0 when there is no such thread. */
pid_t proc_of_thread(const char *proc, pid_t tid);

/* The effective user of process @pid; /proc/PID belongs to root where that may not be dumped. */
_must_check_ int proc_user(const char *proc, pid_t pid, uid_t *ret_user);

/* The root folder of @pid's mount namespace, O_PATH; the descriptor or an error. */
_must_check_ int proc_open_root(const char *proc, pid_t pid, struct err *err);

/*
 * Opens @path below @root_fd for reading, as a process with that root sees it: links stay
 * below the root, /proc's magic links are not followed, a FIFO or device is not waited
 * for, and only a regular file is accepted; with @flags O_NOFOLLOW not through a link. The
 * descriptor, -EINVAL when it is something else, or openat2's error.
 */
_must_check_ int proc_open_in_root(int root_fd, const char *path, int flags, struct err *err);

/*
 * Opens @path for reading, if that is a regular file: a device may do something when it is opened,
 * and it is files that others have made that say where to look. The descriptor, -EINVAL when it is
 * something else, or open's error.
 */
_must_check_ int proc_open_regular(const char *path, struct err *err);

/*
 * Opens the file behind a mapping: by /proc/PID/map_files where that is permitted, else by
 * its path in the process's namespace, and then only when it is the mapped file: the same
 * device and inode, or (overlayfs and btrfs report another device there) the same inode
 * and first page. The descriptor, -ESTALE when another file lies at that path, or an
 * error.
 */
_must_check_ int proc_open_mapped(
	const char *proc, pid_t pid, const struct proc_map *map, struct err *err);

/* Where a thread is: its stack pointer, and the mapping that was last looked for. */
struct proc_stack {
	pid_t pid, tid;
	bool has_sp; /* it sleeps, and may be looked at */
	uint64_t sp;
	uint64_t start, end;
};

/* Asks for the stack pointer of thread @tid of process @pid (/proc/PID/task/TID/syscall). */
void proc_stack_read(struct proc_stack *stack, pid_t pid, pid_t tid);

/*
 * Whether something is mapped at @addr in the thread's memory: .start and .end, which are
 * looked at first, then are that mapping. True, too, when that can't be told.
 */
bool proc_stack_has(struct proc_stack *stack, uint64_t addr);

/* Whether @pid has the mount namespace of the caller; true when that can't be told. */
bool proc_same_mnt_ns(const char *proc, pid_t pid);

/*
 * Whether the caller has the first pid and time namespaces: elsewhere processes have other
 * numbers and other times than the kernel's programs see.
 */
bool proc_is_first_ns(void);

/*
 * Whether the kernel's programs see processes by the numbers that the caller has for them;
 * -EOPNOTSUPP outside the first pid namespace.
 */
_must_check_ int proc_check_numbers(struct err *err);

#define _cleanup_proc_maps_ __cleanup(proc_maps_done)

/* --- who maps a file now, and whether a process still runs -------------------------- */

/* A file: stat's numbers, and its path, perhaps with a remark in parentheses behind it. */
struct mappers_file {
	dev_t dev;
	uint64_t ino;
	const char *path;
};

/*
 * What processes map: each is looked at when it is first asked for, and only then, since all
 * of them together take long to read. Whoever needs them later gets what was seen then.
 */
struct procs;

/* @proc is "/proc" or, for tests, another folder. */
struct procs *procs_new(const char *proc);
void procs_free(struct procs *p);

/* As proc_pids(); they belong to @p. */
_must_check_ int procs_pids(
	struct procs *p, const pid_t **ret_pids, size_t *ret_cnt, struct err *err);

/* As proc_maps_read(), and its error again when asked again; they belong to @p. */
_must_check_ int procs_maps(struct procs *p, pid_t pid, const struct proc_maps **ret_maps,
	struct err *err);

DEFINE_CLEANUP(procs, struct procs *, procs_free)
#define _cleanup_procs_ __cleanup(cleanup_procs)

/*
 * The pids of such processes, in an array to be freed: as mappers_count() finds them. -ENOMEM, and
 * errors as of procs_pids().
 */
_must_check_ int mappers_list(struct procs *procs, const struct mappers_file *files, size_t cnt,
	pid_t **ret_pids, size_t *ret_cnt, struct err *err);

/*
 * Processes of @procs, but not this one, that map one of @files, as far as they may be looked
 * at; *ret_pid is the first of them. Where a file system shows other devices and perhaps other
 * inodes in /proc/PID/maps than by stat(2), as overlayfs and btrfs do, the inode's lower
 * half and the name decide.
 */
_must_check_ int mappers_count(struct procs *procs, const struct mappers_file *files, size_t cnt,
	size_t *ret_cnt, pid_t *ret_pid, struct err *err);

/* Whether process @pid maps one of @files: 1, 0, or -ESRCH, -EACCES where that can't be told. */
_must_check_ int mappers_has(
	struct procs *procs, pid_t pid, const struct mappers_file *files, size_t cnt);

/*
 * Whether process @pid runs that began at @start_ns (CLOCK_BOOTTIME): one that began at
 * another time has only got its number.
 */
bool proc_alive(const char *proc, pid_t pid, uint64_t start_ns);

/*
 * Whether it certainly has ended, with all its threads: nobody has its number, or one that
 * began at another time. False where that can't be told, and while nobody waited for it.
 * Numbers and times are those of the first namespaces: proc_is_first_ns().
 */
bool proc_ended(pid_t pid, uint64_t start_ns);

/* What the kernel calls a thread at most, with the zero byte: TASK_COMM_LEN. */
#define PROC_COMM_LEN 16

/* The name of thread @tid of process @pid; "", and false, where that can't be told. */
bool proc_comm(pid_t pid, pid_t tid, char ret_comm[PROC_COMM_LEN]);

/* The number of thread @tid of process @pid in its own namespace; @tid where that can't be told. */
pid_t proc_own_number(const char *proc, pid_t pid, pid_t tid);

/* --- started.c: what threads wait for --------------------------------------------------------- */

struct blocked {
	char state;      /* proc(5): R, S, D, ... */
	int number;      /* the native number of the system call it is in; -1: none, or not known */
	uint64_t arg[6];
	char file[256];  /* of a call whose first argument is a descriptor, cut; else "" */
	pid_t owner;     /* of a mutex of glibc that it waits for: the thread that holds it; or 0 */
};

/* Reads what thread @tid of @pid does at this moment, without stopping it. -ESRCH, -EACCES, -EPERM. */
_must_check_ int blocked_read(pid_t pid, pid_t tid, struct blocked *ret_blocked);

/* --- cgroup.c: where processes run ------------------------------------------------------------ */

/* What is not so is "". */
struct cgroup {
	char *path;            /* from the root that the caller sees on, "/" */
	char pod_uid[37];      /* of Kubernetes, with '-'; of a static pod 32 digits */
	char container_id[65]; /* of docker, containerd, cri-o, podman: the whole of it */
	char slurm_job[21];
	char unit[256];        /* of systemd; not of containers and jobs */
};

/* What @path says of who runs there; .path stays NULL. */
void cgroup_parse(const char *path, struct cgroup *ret_cgroup);

/* Returns where cgroup v2 is mounted, to be freed; NULL: nowhere, or no memory. @proc: "/proc". */
char *cgroup_mount(const char *proc);

/*
 * Cgroups as they are asked for, each looked for once. @proc is "/proc" or, for tests, another
 * folder; it outlives them. NULL: no memory.
 */
struct cgroups;
struct cgroups *cgroups_new(const char *proc);
void cgroups_free(struct cgroups *c);

/*
 * The one of version 2 whose number the kernel's programs saw, NULL when it is gone. Without
 * CAP_DAC_READ_SEARCH it is known as long as process @pid, which began at @start_ns
 * (CLOCK_BOOTTIME), runs there; 0: it is not known which does. It belongs to @c.
 */
const struct cgroup *cgroups_find(struct cgroups *c, uint64_t id, pid_t pid, uint64_t start_ns);

/*
 * The same of process @pid; where it is in the root of version 2, which says nothing, one of
 * version 1 that tells its container, pod or job, as long as it runs.
 */
const struct cgroup *cgroups_find_process(
	struct cgroups *c, uint64_t id, pid_t pid, uint64_t start_ns);

/* --- a program that is started stopped, to be watched from its first instruction ------------ */

struct started {
	pid_t pid; /* 0: none */
	int fd;    /* a pidfd, readable once it has ended */
	int go_fd, error_fd;
};
#define STARTED_NONE                                  \
	{                                             \
		.fd = -1, .go_fd = -1, .error_fd = -1 \
	}

/*
 * Finds the program argv[0] as shells do, by $PATH if it has no slash. -ENOENT when there is
 * none, -EACCES when it can't be run. Free *ret_path.
 */
_must_check_ int started_find(const char *name, char **ret_path, struct err *err);

/*
 * Forks a process that is to become the program @path with @argv (ending with NULL) and this
 * process's environment, signals and terminal; it waits until started_go(), and ends if this
 * process does before. Between the two it makes no call of a library but syscall(2).
 * End with started_done(), which ends one that has not begun; others go on.
 */
_must_check_ int started_start(const char *path, char *const *argv,
	struct started *ret_started, struct err *err);
void started_done(struct started *c);

/* Lets it begin: what execve(2) says, or -ECHILD when it has ended while it waited. */
_must_check_ int started_go(struct started *c, struct err *err);

/* From here on signals that others send to this process are the child's. */
void started_forward_signals(const struct started *c);

/* Whether it has ended; does not wait. */
bool started_ended(const struct started *c);

/*
 * The terminal of the standard error, which a program may leave as it likes: its modes, and
 * which processes have it. terminal_restore() does nothing where there is none, and where
 * this process was in the background.
 */
struct terminal {
	bool is_ours;
	struct termios modes;
};
void terminal_save(struct terminal *ret_terminal);
void terminal_restore(const struct terminal *t);

/* Waits for its end: its exit status, or 128 + the signal that ended it. */
int started_wait(struct started *c);

#define _cleanup_started_ __cleanup(started_done)

/* --- capabilities: which this process has, and what to say of those that it lacks ----------- */

#define CAPS_BIT(cap) (1ULL << (cap))
/* Without either a program for probes can't be loaded. */
#define CAPS_ATTACH (CAPS_BIT(CAP_BPF) | CAPS_BIT(CAP_PERFMON))

/*
 * The effective capabilities. CAP_SYS_ADMIN counts for CAP_BPF and CAP_PERFMON, too
 * (bpf_capable() and perfmon_capable(), include/linux/capability.h). Where all of them
 * belong to a user namespace of a container, which the kernel does not ask, there are none.
 */
uint64_t caps_effective(void);

/* Whether this process is in another user namespace than the machine's first. */
bool caps_in_user_namespace(void);

/* "CAP_BPF and CAP_PERFMON": the names of @caps, "" for none; as many as fit. */
const char *caps_names(uint64_t caps, char *buf, unsigned int size);

/*
 * How to get what is needed, behind "needs ...": "; try with sudo" or, for root, who has that
 * already, what took it away.
 */
const char *caps_advice(void);

/*
 * Returns @code. If that is -EPERM or -EACCES, the filled @err (or NULL) gets a hint: which
 * of @needed this process lacks, or what else may forbid it.
 */
int caps_hint(int code, uint64_t needed, struct err *err);

/* --- started.c: CPU time of processes -------------------------------------------------------------- */

struct load_of {
	pid_t pid;
	uint64_t from_ns, ns; /* CPU time at load_new(), and when it was last read */
};

struct load {
	struct load_of *of;
	size_t cnt;        /* 0: the machine, all CPUs of which are always counted as busy */
	uint64_t start_ns; /* CLOCK_MONOTONIC of load_new() */
};

/* CPU time of @pids from now on, or of the machine if there are none. */
void load_new(const pid_t *pids, size_t cnt, struct load *ret_load);
void load_done(struct load *load);

/* From now on that of process @pid, too, from its begin on. */
void load_add(struct load *load, pid_t pid);

/* Returns their CPU time since, ns, of all threads, exited processes included. Never decreases. */
uint64_t load_ns(struct load *load);

#endif
