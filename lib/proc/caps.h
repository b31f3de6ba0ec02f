/* SPDX-License-Identifier: BSD-2-Clause */
/* Capabilities: which ones this process has, and what to say of those that it lacks. */
#ifndef FUNCSNOOP_PROC_CAPS_H
#define FUNCSNOOP_PROC_CAPS_H

#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

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

#endif
