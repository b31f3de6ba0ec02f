/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the experiments share: the probes, the children's tasks, their ends. */
#ifndef FUNCSNOOP_KERNEL_INTERNAL_H
#define FUNCSNOOP_KERNEL_INTERNAL_H

#include <stddef.h>

#include "kernel/link.h"

/* How a child ends that was not harmed. */
enum end {
	END_FINE,
	END_NO_TEXT,   /* the code could not be mapped */
	END_NO_PROBE,  /* there is no breakpoint where one should be */
	END_NO_EFFECT, /* the return address was not replaced */
	END_NO_FILTER, /* no seccomp filter could be set */
	END_NO_SHADOW, /* this machine gives no shadow stack */
	END_UNCLEAR,
	END_STEPPED,
	END_NOT_THERE, /* the system call does not exist */
	END_BECAME_CALL,
	END_DEADLY_CALL, /* and a forked child dies of it */
	END_CHANGED,
};

/* The page of code and the links of its probes. */
struct lab {
	int text_fd;
	int links[2];
	size_t link_cnt;
	enum link_mode mode;
	int code; /* why there are no probes, a negative errno, or 0 */
};

/* What children try. */
enum job {
	JOB_RETURN,
	JOB_FILTERED_RETURN,
	JOB_URETPROBE,
	JOB_FILTERED_URETPROBE,
	JOB_UPROBE,
	JOB_SHADOW,
	JOB_SHADOWED_RETURN,
	JOB_SHADOWED_CALL,
	JOB_NOP5,
	JOB_MULTINOP,
	JOB_CNT,
};

/* The function of a child for each; takes the struct lab and returns an enum end. */
extern int (*const experiment_jobs[JOB_CNT])(const void *lab);

/* Makes the page and attaches the probes, or says in .code why not; lab_close() in any case. */
void lab_open(struct lab *lab);
void lab_close(struct lab *lab);

#endif
