// SPDX-License-Identifier: BSD-2-Clause
// Capabilities of this process, by name.
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"
#include "proc/proc.h"

/* Inode of the first user namespace: PROC_USER_INIT_INO, include/linux/proc_ns.h. */
#define INIT_USER_NS 0xeffffffdU

static const struct {
	unsigned int cap;
	const char *name;
} known[] = { { CAP_BPF, "CAP_BPF" }, { CAP_PERFMON, "CAP_PERFMON" },
	{ CAP_SYS_ADMIN, "CAP_SYS_ADMIN" }, { CAP_SYS_PTRACE, "CAP_SYS_PTRACE" },
	{ CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE" },
	{ CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH" } };

bool caps_in_user_namespace(void)
{
	struct stat st;

	return !stat("/proc/self/ns/user", &st) && st.st_ino != INIT_USER_NS;
}

uint64_t caps_effective(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
	uint64_t caps;

	if (caps_in_user_namespace() || syscall(SYS_capget, &header, data))
		return 0;
	caps = (uint64_t)data[1].effective << 32 | data[0].effective;
	return (caps & CAPS_BIT(CAP_SYS_ADMIN)) ? caps | CAPS_ATTACH : caps;
}

const char *caps_names(uint64_t caps, char *buf, unsigned int size)
{
	unsigned int len = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (caps & CAPS_BIT(known[i].cap) && len < size)
			len += snprintf(buf + len, size - len, "%s%s", len ? " and " : "",
				known[i].name);
	return buf;
}

const char *caps_advice(void)
{
	return geteuid() ? "; try with sudo"
			 : ", which this root was started without, as in a container";
}

int caps_hint(int code, uint64_t needed, struct err *err)
{
	uint64_t missing = needed & ~caps_effective();
	char names[128];

	if (!err || (code != -EPERM && code != -EACCES))
		return code;
	if (caps_in_user_namespace())
		err_hint(err, "needs %s of the host, not of a container's user namespace",
			caps_names(needed, names, sizeof(names)));
	else if (missing)
		err_hint(err, "needs %s%s", caps_names(missing, names, sizeof(names)),
			caps_advice());
	else
		err_hint(err,
			"no capability is missing: kernel lockdown, a seccomp filter or a security "
			"module forbids it");
	return code;
}
