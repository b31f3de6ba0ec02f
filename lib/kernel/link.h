/* SPDX-License-Identifier: BSD-2-Clause */
/* Kernel links from probes to programs, in each form that kernels offer. */
#ifndef FUNCSNOOP_KERNEL_LINK_H
#define FUNCSNOOP_KERNEL_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * enum bpf_attach_type of kernels newer than the headers that we build with:
 * include/uapi/linux/bpf.h of 6.6 (uprobe_multi) and 6.13 (session).
 */
#define LINK_TYPE_UPROBE_MULTI   48
#define LINK_TYPE_UPROBE_SESSION 57

enum link_mode { LINK_AUTO = 0, LINK_SESSION = 1, LINK_MULTI = 2, LINK_PERF = 4 };

/* "session", "multi", "perf"; for a mask the names joined by +. Static storage. */
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
	const uint64_t *cookies;
	size_t cnt;
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
 * Attaches a program that does nothing to all of @probes (whose cookies may be NULL), for all
 * processes, and detaches it: breakpoints that nobody owns go with it. -errno. To be run
 * apart (apart.h).
 */
int link_pass(const struct link_probes *probes);

struct link_info {
	uint32_t id, prog_id;
	uint32_t probes; /* of a link for many; 0: of one, or the kernel doesn't tell (to 6.7) */
};

/* What the kernel says of a link. -errno. */
int link_get_info(int fd, struct link_info *ret_info);

#endif
