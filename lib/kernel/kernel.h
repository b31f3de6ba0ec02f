/* SPDX-License-Identifier: BSD-2-Clause */
/* Features of this kernel: links from probes to BPF programs, and what is safe. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct plan_rules;

/* --- links from probes to BPF programs, in each form that kernels offer ---------------------- */

/*
 * enum bpf_attach_type of kernels newer than the build's headers: include/uapi/linux/bpf.h of 6.6
 * (uprobe_multi) and 6.13 (session).
 */
#define LINK_TYPE_KPROBE_MULTI   42 /* 5.18 */
#define LINK_TYPE_UPROBE_MULTI   48
#define LINK_TYPE_UPROBE_SESSION 57

enum link_mode {
	LINK_AUTO = 0,
	LINK_SESSION = 1,
	LINK_MULTI = 2,
	LINK_PERF = 4,
	LINK_TRACE = 8, /* kernel tracepoints; not for probes in files */
	LINK_FENTRY = 16, /* kernel functions, from here on */
	LINK_KMULTI = 32,
	LINK_KPROBE = 64,
};

/* Returns "session", "multi", "perf", ...; for a mask, the names joined by +. Static storage. */
const char *link_mode_name(unsigned int mask);

/*
 * Checks whether this kernel offers @mode by trying (a BPF program of two instructions, and a link
 * that cannot be created), never by version. Returns 0, or the kernel's negative errno. -EPERM only
 * shows that the caller lacks privileges.
 */
int link_mode_probe(enum link_mode mode);

/* Returns the best available mode in *ret_mode, or the error of the last one tried. */
int link_mode_best(enum link_mode *ret_mode, struct err *err);

/*
 * True if a multi link for one process covers all its threads. From 6.6 to 6.9 it covers one
 * thread. The fix (46ba0e49b642) also rejects a negative pid, which is what this function tries.
 */
bool link_multi_pid_works(void);

struct link_probes {
	int file_fd; /* the ELF file; the kernel finds it as /proc/self/fd/N */
	const unsigned long *offsets; /* in the file */
	const unsigned long *semaphores; /* 16-bit counters of attached probes, 0: none; or NULL */
	const uint64_t *cookies;
	size_t cnt;
	const char *object; /* kernel functions: "[kernel]", or "[module]" */
};

/*
 * In both, only process @pid (a thread group leader) gets breakpoints, or all processes if @pid is
 * 0. The kernel does not distinguish children forked later: the BPF program must filter them.
 *
 * One link for all of @probes: @type is LINK_TYPE_UPROBE_MULTI or _SESSION, the
 * expected_attach_type of the BPF program. The caller closes *@ret_fd. Returns 0, or the error of
 * bpf(2): -ESRCH if the process has exited.
 */
int link_multi(int prog_fd, unsigned int type, bool is_return,
	const struct link_probes *probes, pid_t pid, int *ret_fd, struct err *err);

/*
 * Creates a perf event for probe @i of @probes, and its link, which keeps the event. The caller closes
 * *@ret_fd. Returns 0, or the error of perf_event_open(2) or bpf(2): -ESRCH if the process has exited.
 */
int link_perf(int prog_fd, bool is_return, const struct link_probes *probes, size_t i,
	pid_t pid, int *ret_fd, struct err *err);

/*
 * Links for kernel functions. link_fentry() needs a BPF program loaded for one function. In the
 * others, .offsets of @probes are addresses of names; one link is for all probes, or one for each.
 */
int link_fentry(int prog_fd, bool is_exit, uint64_t cookie, int *ret_fd, struct err *err);
int link_kprobes(int prog_fd, bool is_return, const struct link_probes *probes, int *ret_fd,
	struct err *err);
int link_kprobe(int prog_fd, bool is_return, const struct link_probes *probes, size_t i,
	int *ret_fd, struct err *err);

/* Returns the perf event type of kprobes; negative if the kernel has none. */
int link_kprobe_type(void);

/*
 * Loads a BPF program of two instructions, which first calls @helper (an enum bpf_func_id that
 * takes only the context; 0: none). Returns its descriptor or -errno.
 */
struct bpf_prog_load_opts;
int link_load_trivial(unsigned int type, int helper, struct bpf_prog_load_opts *opts);

/*
 * Attaches an empty BPF program to all of @probes (.cookies can be NULL), for all processes, and
 * detaches it. This also removes orphaned breakpoints. Returns 0 or -errno. To be run by
 * apart_run().
 */
int link_pass(const struct link_probes *probes);

/*
 * True if BPF programs on syscall tracepoints can be preempted, and are then skipped for other
 * threads. Kernels on which these programs can sleep do not disable preemption for them. Does not
 * apply to perf events: link_tracepoint().
 */
bool link_trace_is_preempted(void);

/*
 * Creates a perf event of tracepoint @id for all processes, and its link. Returns -EEXIST, without
 * a message, if the BPF program is already attached to it.
 */
int link_event(int prog_fd, uint64_t id, uint64_t cookie, int *ret_fd, struct err *err);

/*
 * Creates a perf event of CPU @cpu, @rate times a second: by its cycles, or by its clock if cycles
 * cannot be counted. The caller closes *@ret_fd. Returns 0, -ENODEV without a message if the CPU is
 * offline, or the error of perf_event_open(2) or bpf(2).
 */
int link_sample(
	int prog_fd, int cpu, uint32_t rate, uint64_t cookie, int *ret_fd, struct err *err);

/*
 * Creates a perf event for page faults of process @pid, and of processes and threads that it
 * starts.
 */
int link_faults(int prog_fd, pid_t pid, int *ret_fd, struct err *err);

/* Creates a perf event of the tracepoint CATEGORY:EVENT for all processes, and its link. */
int link_tracepoint(int prog_fd, const char *category, const char *event, int *ret_fd,
	struct err *err);

struct link_info {
	uint32_t id, prog_id;
	uint32_t probes; /* of a multi link; 0: a link for one probe, or the kernel does not report
			    it (before 6.8) */
};

/* True if BPF programs can look up the mapping at an address: since 5.17. */
bool kernel_finds_mappings(void);

/* Reads the kernel's description of a link. Returns 0 or -errno. */
int link_get_info(int fd, struct link_info *ret_info);

/* The probes of a multi link. */
struct link_multi_info {
	uint32_t prog_id, cnt;
	pid_t pid; /* 0: all */
	bool is_session, is_return;
	unsigned long *offsets;
	uint64_t *cookies;
};

/*
 * Reads the probes of a multi link. Returns 0, -EINVAL for another kind of link, -EOPNOTSUPP if the kernel does not report the probes
 * (before 6.8), or the error of bpf(2). The caller frees *ret_info with
 * link_multi_info_done().
 */
int link_get_multi(int fd, struct link_multi_info *ret_info);
void link_multi_info_done(struct link_multi_info *info);

/* --- closing links --------------------------------------------------------------------------- */

/*
 * How far a close of the last descriptor of an unpinned link is. The kernel removes the probes, waits
 * for programs that run, and since 6.13 then for each thread with a call in progress whose return any
 * group probes, until that returns or the thread has made no other such call for 100 ms (ri_timer(),
 * kernel/events/uprobes.c): that can be for ever, with one inside main.
 */
enum link_closing_state {
	CLOSING_PROBED,
	CLOSING_UNPROBED, /* there are no breakpoints */
	CLOSING_UNUSED,	  /* the programs have run for the last time */
	CLOSING_ENDED,
};

struct link_closing {
	int fd;
	bool runs;   /* .thread closes the link; else it is closed */
	bool synced; /* the kernel has waited for programs */
	pid_t tid;   /* of .thread, when it runs */
	pthread_t thread;
};

/*
 * Closes link @fd in a thread. A process that is killed before CLOSING_UNPROBED leaves breakpoints,
 * so do this in a process of apart_run(). Without CAP_SYS_ADMIN only the first and the last state are
 * seen.
 */
void link_closing_start(struct link_closing *c, int fd);
enum link_closing_state link_closing_state(struct link_closing *c);

/* Waits until the link is closed. */
void link_closing_end(struct link_closing *c);

#define LINK_CLOSE_NS 2000000000ULL /* a link's file is held longer than its programs run */

/*
 * Closes a link and waits for that, but not longer than @most_ns after CLOSING_UNUSED, or until
 * apart_stop(): then it returns false, and a thread waits for the end.
 */
bool link_close(int fd, uint64_t most_ns);

/* --- pages of files --------------------------------------------------------------------------- */

#define KERNEL_PAGE_BYTES 64 /* of struct page, as bpf/pages.bpf.h has it */

/* Addresses of the kernel: they must not be disclosed. */
struct kernel_pages {
	uint64_t vmemmap;    /* the struct page of the first frame of memory */
	uint64_t base;       /* that frame, in the direct map */
	uint64_t page_bytes; /* of struct page */
};

#define KERNEL_PAGES_WHY 128

/*
 * Finds the addresses at which BPF programs find pages of files (bpf/pages.bpf.h), by a self-test
 * of some milliseconds. On failure, returns a negative errno and the reason in @why: -EPERM without
 * CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN, -EOPNOTSUPP on architectures other than x86-64, or
 * -ECANCELED if the environment has FUNCSNOOP_UNWIND=tables.
 */
int kernel_pages_find(struct kernel_pages *ret_found, char why[KERNEL_PAGES_WHY]);

struct bpf_object;

/* Numbers of kernel functions that BPF programs call; 0 or negative: the kernel does not have it. */
struct bpf_kfuncs {
	int task_work;   /* bpf_task_work_schedule_resume(), since 6.18 */
	int rdonly_cast; /* bpf_rdonly_cast(), since 6.2 */
};

struct bpf_kfuncs bpf_kfuncs_find(void);

/*
 * Lets the programs of @object, which are not loaded yet, call function @id where they call @helper,
 * which does not exist. Without such a function, the call's result is its first argument.
 */
void bpf_kfunc_name(struct bpf_object *object, int32_t helper, int id);

/* --- self-tests ----------------------------------------------------------------------------- */

/*
 * Self-tests find out which probes are safe on this kernel, and set the rules of the planner. They
 * probe code in a memfd that only child processes map, and may kill these children.
 */

enum experiment {
	EXPERIMENT_RETURN,   /* a function with a return probe returns */
	EXPERIMENT_SECCOMP,  /* also in a process under a seccomp filter */
	EXPERIMENT_SHADOW,   /* also in a process that uses a shadow stack */
	EXPERIMENT_CALL,     /* a probed call leaves the shadow stack right */
	EXPERIMENT_NOP5,     /* a probed 5-byte nop stays harmless */
	EXPERIMENT_MULTINOP, /* probed nops of 3 to 8 bytes are emulated, not single-stepped */
	EXPERIMENT_CNT,
};

enum answer { ANSWER_UNKNOWN, ANSWER_NO, ANSWER_YES };

#define EXPERIMENT_WHY_LEN 128

struct experiment_result {
	enum answer answer;
	char why[EXPERIMENT_WHY_LEN]; /* in words; printable ASCII, never empty */
};

#define EXPERIMENT_LIMIT_S 5 /* then the child is killed */

/*
 * Sets the rules that this kernel allows; keeps those that the user chose. Anything that could not
 * be tested is treated as unsafe, except return probes as such, which fail visibly when they are
 * attached. @link is the kind of link to be used: only sessions detect, on entry, that a signal
 * handler runs on another stack.
 */
void kernel_rules(struct plan_rules *rules, enum link_mode link);

/*
 * Returns the answers of the self-tests: from the cache if it is of this boot and @fresh is false,
 * otherwise new ones. Returns true if they are from the cache.
 */
bool kernel_experiments(bool fresh, struct experiment_result results[EXPERIMENT_CNT]);

/* Sets the rules that follow from the answers; keeps those that the user chose. */
void kernel_rules_from(struct plan_rules *rules, const struct experiment_result *results);
