/* SPDX-License-Identifier: BSD-2-Clause */
/* /proc: processes, their mappings, and files of other mount namespaces, safely opened. */
#pragma once

#include <linux/capability.h>
#include <sys/types.h>
#include <termios.h>

#include "base/err.h"
#include "base/util.h"

/*
 * Returns the cause of a failed open below /proc: @code, except that -ENOENT becomes -ERR_NO_PROC
 * if /proc/self does not exist either.
 */
int proc_cause(int code);

/* A file that a process maps. All mappings of one file share one entry. */
struct proc_map {
	uint64_t start, end; /* the first executable mapping, or the first mapping */
	uint64_t offset;     /* file offset of that mapping */
	uint32_t dev_major, dev_minor;
	uint64_t ino;
	uint64_t head; /* address at which file offset 0 is mapped, or 0 */
	bool exec;     /* some mapping of the file is executable */
	bool deleted;  /* the path ended in " (deleted)", which was removed */
	char *path;    /* in the mount namespace of the process */
};

/* An executable mapping. */
struct proc_area {
	uint64_t start, end;
	uint64_t offset; /* file offset of .start */
	size_t map;      /* index of its file */
};

struct proc_maps {
	struct proc_map *maps;
	size_t cnt;
	struct proc_area *areas;
	size_t area_cnt;
	uint64_t vdso, vdso_end;
};

/*
 * Reads the mapped files of @pid in address order, without anonymous and special mappings. Works
 * after the main thread has exited. @proc is "/proc" or, for tests, another directory.
 *
 * Returns 0, -ESRCH if the process does not exist, or -EACCES. The caller frees the result with
 * proc_maps_done().
 */
_must_check_ int proc_maps_read(
	const char *proc, pid_t pid, struct proc_maps *ret_maps, struct err *err);
void proc_maps_done(struct proc_maps *maps);

/* Returns the file whose code is mapped at @addr, and the offset in it, or NULL. */
const struct proc_map *proc_maps_at(
	const struct proc_maps *maps, uint64_t addr, uint64_t *ret_offset);

/*
 * Lists all processes (thread group leaders) in @proc, sorted. The caller frees the array with
 * free().
 */
_must_check_ int proc_pids(
	const char *proc, pid_t **ret_pids, size_t *ret_cnt, struct err *err);

struct proc_stat {
	char state; /* proc(5): R, S, Z, ... */
	pid_t parent;
	uint64_t start_ticks; /* CLOCK_BOOTTIME, in ticks of sysconf(_SC_CLK_TCK) */
	uint64_t minor, major; /* page faults: without and with a read from a disk */
	uint64_t threads; /* of the process */
};

/*
 * Reads the state of thread @tid of process @pid; @tid 0 is the process.
 *
 * Returns 0, -ESRCH if the thread does not exist, or -EINVAL if the file cannot be parsed.
 */
_must_check_ int proc_read_stat(
	const char *proc, pid_t pid, pid_t tid, struct proc_stat *ret_stat);

/*
 * Returns a live thread of process @pid: the main thread, or any other if the main thread has
 * exited. @proc shows the memory and the root of the process under that thread's number as well.
 * Returns 0 if the process has exited.
 */
pid_t proc_thread(const char *proc, pid_t pid);

/* Returns the process of thread @tid, or 0 if the thread does not exist. */
pid_t proc_of_thread(const char *proc, pid_t tid);

/*
 * Reads the effective user of process @pid. The owner of /proc/PID is not reliable: it is root if
 * the process is not dumpable.
 */
_must_check_ int proc_user(const char *proc, pid_t pid, uid_t *ret_user);

/*
 * Opens the root directory of @pid's mount namespace (O_PATH). Returns the descriptor or an error.
 */
_must_check_ int proc_open_root(const char *proc, pid_t pid, struct err *err);

/*
 * Opens @path below @root_fd for reading, as a process with that root sees it. Symbolic links stay
 * below the root, and magic links of /proc are not followed. The open does not block on a FIFO or a
 * device, and only a regular file is accepted. @flags O_NOFOLLOW also rejects a symbolic link.
 *
 * Returns the descriptor, -EINVAL if @path is not a regular file, or the error of openat2().
 */
_must_check_ int proc_open_in_root(int root_fd, const char *path, int flags, struct err *err);

/*
 * Opens @path for reading if it is a regular file. Opening a device can have side effects, and
 * @path may come from a file that another user wrote. Below /proc/PID/root, symbolic links stay there.
 *
 * Returns the descriptor, -EINVAL if @path is not a regular file, or the error of open().
 */
_must_check_ int proc_open_regular(const char *path, struct err *err);

/*
 * Opens the file of a mapping: through /proc/PID/map_files if permitted, otherwise by its path in
 * the namespace of the process. A file opened by path must have the same device and inode.
 * Overlayfs and btrfs report different devices in /proc; there, the inode and the first page must
 * match.
 *
 * Returns the descriptor, -ESTALE if the path now refers to a different file, -ESRCH if the process
 * has exited, or another error.
 */
_must_check_ int proc_open_mapped(
	const char *proc, pid_t pid, const struct proc_map *map, struct err *err);

/* The stack pointer of a thread, and the mapping found by the last lookup. */
struct proc_stack {
	pid_t pid, tid;
	bool has_sp; /* the thread sleeps and can be inspected */
	uint64_t sp;
	uint64_t start, end;
};

/* Reads the stack pointer of thread @tid of process @pid (/proc/PID/task/TID/syscall). */
void proc_stack_read(struct proc_stack *stack, pid_t pid, pid_t tid);

/*
 * True if something is mapped at @addr in the thread's memory, or if that is unknown. Checks
 * [.start, .end) first, and then stores the mapping there.
 */
bool proc_stack_has(struct proc_stack *stack, uint64_t addr);

/* True if @pid is in the caller's mount namespace, or if that is unknown. */
bool proc_same_mnt_ns(const char *proc, pid_t pid);

/*
 * Lists a process of each mount namespace that is not the caller's. Returns their number. The caller
 * frees the array with free().
 */
size_t proc_mnt_namespaces(const char *proc, pid_t **ret_pids);

/*
 * True if the caller is in the initial pid and time namespaces. Elsewhere, pids and times differ
 * from those that the BPF programs record.
 */
bool proc_is_first_ns(void);

/*
 * Checks that the pids in the BPF programs are those that the caller sees. Returns 0, or
 * -EOPNOTSUPP outside the initial pid namespace.
 */
_must_check_ int proc_check_numbers(struct err *err);

#define _cleanup_proc_maps_ __cleanup(proc_maps_done)

/* --- processes that map a file, and whether a process is still alive -------------------------- */

/*
 * A file: device and inode from stat(2), and its path, which may end with a remark in parentheses.
 */
struct mappers_file {
	dev_t dev;
	uint64_t ino;
	const char *path;
};

/*
 * Cache of the mappings of processes. Each process is read on first use, because reading all of
 * them is slow. Later users get the cached result.
 */
struct procs;

/* @proc is "/proc" or, for tests, another directory. */
struct procs *procs_new(const char *proc);
void procs_free(struct procs *p);

/* Same as proc_pids(); the array belongs to @p. */
_must_check_ int procs_pids(
	struct procs *p, const pid_t **ret_pids, size_t *ret_cnt, struct err *err);

/* Same as proc_maps_read(). The maps belong to @p; an error is cached as well. */
_must_check_ int procs_maps(struct procs *p, pid_t pid, const struct proc_maps **ret_maps,
	struct err *err);

DEFINE_CLEANUP(procs, struct procs *, procs_free)
#define _cleanup_procs_ __cleanup(cleanup_procs)

/*
 * Lists the pids that mappers_count() counts. The caller frees the array with free(). Returns 0
 * or an error of procs_pids().
 */
_must_check_ int mappers_list(struct procs *procs, const struct mappers_file *files, size_t cnt,
	pid_t **ret_pids, size_t *ret_cnt, struct err *err);

/*
 * Counts the processes of @procs, except the caller, that map one of @files and whose mappings can
 * be read. *ret_pid is the first of them. On overlayfs and btrfs, /proc/PID/maps shows other
 * devices and possibly other inodes than stat(2). There, the lower half of the inode and the name
 * must match.
 */
_must_check_ int mappers_count(struct procs *procs, const struct mappers_file *files, size_t cnt,
	size_t *ret_cnt, pid_t *ret_pid, struct err *err);

/*
 * Returns 1 if process @pid maps one of @files, 0 if not, or -ESRCH or -EACCES if that is unknown.
 */
_must_check_ int mappers_has(
	struct procs *procs, pid_t pid, const struct mappers_file *files, size_t cnt);

/*
 * True if process @pid is alive and started at @start_ns (CLOCK_BOOTTIME). A process with another
 * start time has only reused the pid.
 */
bool proc_alive(const char *proc, pid_t pid, uint64_t start_ns);

/*
 * True if the process and all its threads have certainly exited: the pid is free, or belongs to a
 * process with another start time. False if that is unknown, and for a zombie. @pid and @start_ns
 * are those of the initial namespaces; see proc_is_first_ns().
 */
bool proc_ended(pid_t pid, uint64_t start_ns);

/* Maximum length of a thread name, with the terminating zero: TASK_COMM_LEN. */
#define PROC_COMM_LEN 16

/* Reads the name of thread @tid of process @pid. Returns false, with "", if it is unknown. */
bool proc_comm(pid_t pid, pid_t tid, char ret_comm[PROC_COMM_LEN]);

/*
 * Returns the number of thread @tid of @pid in its own pid namespace, or @tid if that is unknown.
 */
pid_t proc_own_number(const char *proc, pid_t pid, pid_t tid);

/* --- started.c: why threads block ------------------------------------------------------------ */

struct blocked {
	char state;      /* proc(5): R, S, D, ... */
	int number;      /* native number of the current system call; -1: none, or not known */
	uint64_t arg[6];
	char file[256];  /* file of a call whose first argument is a descriptor, truncated; else
			    "" */
	pid_t owner;     /* thread that holds the glibc mutex that the thread waits for; 0: none */
};

/*
 * Reads what thread @tid of @pid does now, without stopping it. Returns 0, -ESRCH, -EACCES or
 * -EPERM.
 */
_must_check_ int blocked_read(pid_t pid, pid_t tid, struct blocked *ret_blocked);

/* --- threads that sleep all the time ---------------------------------------------------------- */

/* The threads of @cnt processes @pids that sleep now. Those that are not readable are left out. */
struct idle;
struct idle *idle_new(const pid_t *pids, size_t cnt);
void idle_free(struct idle *idle);

/* Returns how many of them have not run since idle_new(). *@ret_pid: a process that has one. */
size_t idle_count(const struct idle *idle, pid_t *ret_pid);

/* --- cgroup.c: the cgroups of processes ------------------------------------------------------ */

/* Strings that do not apply are "". */
struct cgroup {
	char *path;            /* relative to the cgroup root that the caller sees, "/" */
	char pod_uid[37];      /* Kubernetes, with '-'; 32 digits for a static pod */
	char container_id[65]; /* docker, containerd, cri-o, podman; the full id */
	char slurm_job[21];
	char unit[256];        /* systemd; "" for containers and jobs */
};

/* Extracts pod, container, job and unit from @path; .path stays NULL. */
void cgroup_parse(const char *path, struct cgroup *ret_cgroup);

/* Returns the mount point of cgroup v2, or NULL if there is none or no memory. @proc: "/proc". */
char *cgroup_mount(const char *proc);

/*
 * Cache of cgroups: each is looked up once. @proc is "/proc" or, for tests, another directory; it
 * must outlive the cache.
 */
struct cgroups;
struct cgroups *cgroups_new(const char *proc);
void cgroups_free(struct cgroups *c);

/*
 * Returns the cgroup v2 with the @id that the BPF programs recorded, or NULL if it was removed. It
 * belongs to @c.
 *
 * Without CAP_DAC_READ_SEARCH, @id is resolved through process @pid, which started at @start_ns
 * (CLOCK_BOOTTIME) and must still run there. @pid 0: no such process is known.
 */
const struct cgroup *cgroups_find(struct cgroups *c, uint64_t id, pid_t pid, uint64_t start_ns);

/*
 * Same for process @pid. If it is in the root cgroup of v2, returns the cgroup v1 that identifies
 * its container, pod or job, as long as the process runs.
 */
const struct cgroup *cgroups_find_process(
	struct cgroups *c, uint64_t id, pid_t pid, uint64_t start_ns);

/* --- a program that is started stopped, to be traced from its first instruction --------------- */

struct started {
	pid_t pid; /* 0: none */
	int fd;    /* pidfd, readable after the process has exited */
	int go_fd, error_fd;
};
#define STARTED_NONE                                  \
	{                                             \
		.fd = -1, .go_fd = -1, .error_fd = -1 \
	}

/*
 * Finds the program @name as a shell does: through $PATH if it has no slash. Returns 0, -ENOENT if
 * it does not exist, or -EACCES if it cannot be executed. The caller frees *ret_path.
 */
_must_check_ int started_find(const char *name, char **ret_path, struct err *err);

/*
 * Forks a process that will execute @path with @argv (terminated by NULL) and the environment,
 * signals and terminal of this process. It waits for started_go(), and exits if this process exits
 * first. While it waits, it calls no library function except syscall(2).
 *
 * The caller ends with started_done(), which kills a process that has not executed yet. A process
 * that has executed continues.
 */
_must_check_ int started_start(const char *path, char *const *argv,
	struct started *ret_started, struct err *err);
void started_done(struct started *c);

/*
 * Starts execution. Returns the result of execve(2), or -ECHILD if the process exited while it
 * waited.
 */
_must_check_ int started_go(struct started *c, struct err *err);

/* From now on, signals that others send to this process are forwarded to the child. */
void started_forward_signals(const struct started *c);

/* True if the process has exited. Does not wait. */
bool started_ended(const struct started *c);

/* Returns the signal that ended the process; 0: none. The caller can still wait for its status. */
unsigned int started_signal(const struct started *c);

/*
 * The terminal of standard error, which a program may leave modified: its modes and its foreground
 * process group. terminal_restore() does nothing if there is no terminal, or if this process was in
 * the background.
 */
struct terminal {
	bool is_ours;
	struct termios modes;
};
void terminal_save(struct terminal *ret_terminal);
void terminal_restore(const struct terminal *t);

/* Waits until the process exits. Returns its exit status, or 128 + the signal that killed it. */
int started_wait(struct started *c);

#define _cleanup_started_ __cleanup(started_done)

/* --- capabilities of this process, and advice for those it lacks ------------------------------ */

#define CAPS_BIT(cap) (1ULL << (cap))
/* BPF programs for probes cannot be loaded without both. */
#define CAPS_ATTACH (CAPS_BIT(CAP_BPF) | CAPS_BIT(CAP_PERFMON))

/*
 * Returns the effective capabilities. CAP_SYS_ADMIN implies CAP_BPF and CAP_PERFMON (bpf_capable()
 * and perfmon_capable(), include/linux/capability.h). Returns 0 if they are those of a container's
 * user namespace, because the kernel ignores such capabilities for BPF.
 */
uint64_t caps_effective(void);

/* True if this process is not in the initial user namespace. */
bool caps_in_user_namespace(void);

/*
 * Formats the names of @caps, such as "CAP_BPF and CAP_PERFMON"; "" for none. Truncates to @size.
 */
const char *caps_names(uint64_t caps, char *buf, unsigned int size);

/*
 * Returns the text that follows "needs ...": "; try with sudo", or, for root, the cause of the
 * missing privileges.
 */
const char *caps_advice(void);

/*
 * Returns @code. If that is -EPERM or -EACCES, adds a hint to @err (filled, or NULL): the
 * capabilities of @needed that this process lacks, or another possible cause.
 */
int caps_hint(int code, uint64_t needed, struct err *err);

/* --- started.c: CPU time of processes -------------------------------------------------------- */

struct load_of {
	pid_t pid;
	uint64_t from_ns, ns; /* CPU time at load_new(), and at the last reading */
};

struct load {
	struct load_of *of;
	size_t cnt;        /* 0: the machine, all CPUs of which always count as busy */
	uint64_t start_ns; /* CLOCK_MONOTONIC of load_new() */
};

/* Starts measuring the CPU time of @pids, or of the machine if @cnt is 0. */
void load_new(const pid_t *pids, size_t cnt, struct load *ret_load);
void load_done(struct load *load);

/*
 * Returns the CPU time since load_new(), in ns, of all threads, including exited processes. Never
 * decreases.
 */
uint64_t load_ns(struct load *load);

/* True if no thread of the processes runs or waits for a CPU. */
bool load_sleeps(const struct load *load);
