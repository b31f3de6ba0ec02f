/* SPDX-License-Identifier: BSD-2-Clause */
/* What this kernel offers: links from probes to programs, and what is safe. */
#ifndef FUNCSNOOP_KERNEL_KERNEL_H
#define FUNCSNOOP_KERNEL_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct plan_rules;

/* --- links from probes to programs, in each form that kernels offer ------------------------- */

/*
 * enum bpf_attach_type of kernels newer than the headers that we build with:
 * include/uapi/linux/bpf.h of 6.6 (uprobe_multi) and 6.13 (session).
 */
#define LINK_TYPE_KPROBE_MULTI   42 /* 5.18 */
#define LINK_TYPE_UPROBE_MULTI   48
#define LINK_TYPE_UPROBE_SESSION 57

enum link_mode {
	LINK_AUTO = 0,
	LINK_SESSION = 1,
	LINK_MULTI = 2,
	LINK_PERF = 4,
	LINK_TRACE = 8, /* of the kernel's own tracepoints: not for probes in files */
	LINK_FENTRY = 16, /* of its functions, and so on */
	LINK_KMULTI = 32,
	LINK_KPROBE = 64,
};

/* "session", "multi", "perf", "trace", "fentry"...; for a mask the names joined by +. Static storage. */
const char *link_mode_name(unsigned int mask);

/*
 * Does this kernel offer @mode? Found by trying (a program of two instructions, and a link
 * that cannot come to be), never by version. 0, or the negative errno that the kernel gave;
 * -EPERM says nothing of the kernel, only of the caller.
 */
int link_mode_probe(enum link_mode mode);

/* The best mode there is, or -errno: the code of the last that was tried. */
int link_mode_best(enum link_mode *ret_mode, struct err *err);

/*
 * Whether a multi link for one process means all of its threads. From 6.6 to 6.9 it means
 * one thread (fixed by 46ba0e49b642, which also refuses a negative pid: that tells).
 */
bool link_multi_pid_works(void);

struct link_probes {
	int file_fd; /* the ELF file; the kernel finds it as /proc/self/fd/N */
	const unsigned long *offsets; /* in the file */
	const unsigned long *semaphores; /* 16-bit counters of who attaches, 0: none; or NULL */
	const uint64_t *cookies;
	size_t cnt;
	const char *object; /* of functions of the kernel: "[kernel]", or "[module]" */
};

/*
 * In both, only process @pid (a thread group's leader) gets breakpoints, or all processes
 * if it is 0. Its later children are not told apart by the kernel: filter in the program.
 *
 * One link for all of @probes: @type is LINK_TYPE_UPROBE_MULTI or _SESSION, the
 * program's expected_attach_type. The caller closes *@ret_fd.
 */
int link_multi(int prog_fd, unsigned int type, bool is_return,
	const struct link_probes *probes, pid_t pid, int *ret_fd, struct err *err);

/* A perf event and its link for probe @i of @probes. */
int link_perf(int prog_fd, bool is_return, const struct link_probes *probes, size_t i,
	pid_t pid, int *ret_fd, struct err *err);

/*
 * Links of functions of the kernel. A program that was loaded for one, and others, for which
 * .offsets of @probes are the addresses of their names: one link for all, or one for each.
 */
int link_fentry(int prog_fd, bool is_exit, uint64_t cookie, int *ret_fd, struct err *err);
int link_kprobes(int prog_fd, bool is_return, const struct link_probes *probes, int *ret_fd,
	struct err *err);
int link_kprobe(int prog_fd, bool is_return, const struct link_probes *probes, size_t i,
	int *ret_fd, struct err *err);

/* Of perf events that are kprobes; negative: the kernel has none. */
int link_kprobe_type(void);

/*
 * Loads a program of two instructions, which first calls @helper (enum bpf_func_id, of those that
 * take the context alone; 0: none): its descriptor or -errno.
 */
struct bpf_prog_load_opts;
int link_load_trivial(unsigned int type, int helper, struct bpf_prog_load_opts *opts);

/*
 * Attaches a program that does nothing to all of @probes (whose cookies may be NULL), for all
 * processes, and detaches it: breakpoints that nobody owns go with it. -errno. To be run
 * apart (apart.h).
 */
int link_pass(const struct link_probes *probes);

/*
 * Whether programs on the tracepoints of system calls can be preempted, and then are left out
 * for others (a kernel that has them sleep doesn't turn preemption off for them). A perf event's
 * are not: link_tracepoint().
 */
bool link_trace_is_preempted(void);

/*
 * A perf event of the tracepoint of that number, for all processes, and its link. -EEXIST, without
 * a message, when the program is on it already.
 */
int link_event(int prog_fd, uint64_t id, uint64_t cookie, int *ret_fd, struct err *err);

/*
 * A perf event of CPU @cpu, @rate times a second: by its cycles, or, where they can't be counted,
 * by its clock. -ENODEV where that is off.
 */
int link_sample(
	int prog_fd, int cpu, uint32_t rate, uint64_t cookie, int *ret_fd, struct err *err);

/* A perf event of each page fault of process @pid and of processes and threads that it starts. */
int link_faults(int prog_fd, pid_t pid, int *ret_fd, struct err *err);

/* A perf event of CATEGORY:EVENT of tracefs, for all processes, and its link. */
int link_tracepoint(int prog_fd, const char *category, const char *event, int *ret_fd,
	struct err *err);

struct link_info {
	uint32_t id, prog_id;
	uint32_t probes; /* of a link for many; 0: of one, or the kernel doesn't tell (to 6.7) */
};

/* Raises the limit of open files as far as it goes: of perf links each probe takes two. */
void link_raise_files(void);

/*
 * Whether what attaching needs is not there: cookies and links of perf events came with 5.15
 * (7adfc6c9b315).
 */
bool kernel_is_older(void);

/* Whether programs can find out what is mapped at an address: since 5.17. */
bool kernel_finds_mappings(void);

/* What the kernel says of a link. -errno. */
int link_get_info(int fd, struct link_info *ret_info);

/* A link for many probes: where they are. */
struct link_multi_info {
	uint32_t prog_id, cnt;
	pid_t pid; /* 0: all */
	bool is_session, is_return;
	unsigned long *offsets;
	uint64_t *cookies;
};

/*
 * -EINVAL of another kind of link; -EOPNOTSUPP where the kernel doesn't tell (to 6.7); -ENOMEM and
 * what bpf(2) gives. End with link_multi_info_done().
 */
int link_get_multi(int fd, struct link_multi_info *ret_info);
void link_multi_info_done(struct link_multi_info *info);

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
 * Where programs find pages of files, for bpf/pages.bpf.h. Found by experiment in some
 * milliseconds. Otherwise a negative errno, and @why says in words what is missing: -EPERM without
 * CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN, -EOPNOTSUPP on another architecture than x86-64,
 * -ECANCELED if the environment says FUNCSNOOP_UNWIND=tables.
 */
int kernel_pages_find(struct kernel_pages *ret_found, char why[KERNEL_PAGES_WHY]);

/* --- what is safe --------------------------------------------------------------------------- */

/*
 * What is safe on this kernel, found by trying: code of our own in a memfd that only our
 * children map, probes on it, and children that may die of them. And what follows from that:
 * rules for the planner.
 */

enum experiment {
	EXPERIMENT_RETURN,   /* a function with a return probe returns */
	EXPERIMENT_SECCOMP,  /* also in a process under a seccomp filter */
	EXPERIMENT_SHADOW,   /* also in a process that uses a shadow stack */
	EXPERIMENT_CALL,     /* a probed call leaves the shadow stack right */
	EXPERIMENT_NOP5,     /* a probed 5-byte nop stays harmless */
	EXPERIMENT_MULTINOP, /* probed nops of 3 to 8 bytes are emulated, not stepped */
	EXPERIMENT_CNT,
};

enum answer { ANSWER_UNKNOWN, ANSWER_NO, ANSWER_YES };

#define EXPERIMENT_WHY_LEN 128

struct experiment_result {
	enum answer answer;
	char why[EXPERIMENT_WHY_LEN]; /* in words; printable ASCII, never empty */
};

#define EXPERIMENT_LIMIT_S 5 /* after which a child is killed */

/*
 * Fills in what the kernel allows; leaves what the user chose. What could not be tried is
 * taken to be unsafe, but for return probes as such: that they work at all shows when they
 * are attached. @link: the kind that is to be used; by sessions alone it is known, where a call
 * begins, that it is one of a signal handler on another stack.
 */
void kernel_rules(struct plan_rules *rules, enum link_mode link);

/*
 * The experiments' answers: those of this boot that are in the cache, or new ones, always
 * with @fresh. Returns whether they were in the cache.
 */
bool kernel_experiments(bool fresh, struct experiment_result results[EXPERIMENT_CNT]);

/* What follows from the experiments' answers; leaves what the user chose. */
void kernel_rules_from(struct plan_rules *rules, const struct experiment_result *results);

#endif
