// SPDX-License-Identifier: BSD-2-Clause
// The report of `funcsnoop feature`: kernel, links, settings, bpffs, privileges, limits.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "attach/feature.h"
#include "base/file.h"
#include "base/util.h"
#include "kernel/rules.h"
#include "pins/bpffs.h"
#include "proc/caps.h"

__attribute__((format(printf, 2, 3))) static void hint(
	struct feature_report *r, const char *fmt, ...)
{
	va_list ap;

	if (r->hint_cnt == FEATURE_HINT_CNT)
		return;
	va_start(ap, fmt);
	vsnprintf(r->hints[r->hint_cnt++], sizeof(r->hints[0]), fmt, ap);
	va_end(ap);
}

/* --- settings ------------------------------------------------------------------------------- */

static int64_t read_setting(const char *path)
{
	int64_t value;

	return file_read_number(path, &value) ? FEATURE_UNKNOWN : value;
}

static void look_at_kernel(struct feature_report *r)
{
	struct utsname name;

	if (!uname(&name)) {
		snprintf(r->release, sizeof(r->release), "%s", name.release);
		snprintf(r->machine, sizeof(r->machine), "%s", name.machine);
	}
	r->btf = !access("/sys/kernel/btf/vmlinux", R_OK);
	r->jit = read_setting("/proc/sys/net/core/bpf_jit_enable");
	r->unprivileged_bpf_disabled =
		read_setting("/proc/sys/kernel/unprivileged_bpf_disabled");
	r->perf_event_paranoid = read_setting("/proc/sys/kernel/perf_event_paranoid");
	r->bpf_stats_enabled = read_setting("/proc/sys/kernel/bpf_stats_enabled");
}

static void look_at_limits(struct feature_report *r)
{
	struct rlimit lim;

	if (!getrlimit(RLIMIT_NOFILE, &lim)) {
		r->nofile = lim.rlim_cur;
		r->nofile_max = lim.rlim_max;
	}
	if (!getrlimit(RLIMIT_MEMLOCK, &lim))
		r->memlock = lim.rlim_cur;
}

/* --- privileges ----------------------------------------------------------------------------- */

static void look_at_caps(struct feature_report *r)
{
	static const struct {
		unsigned int number;
		bool needed;
		const char *name, *purpose;
	} known[FEATURE_CAP_CNT] = {
		{ CAP_BPF, true, "CAP_BPF", "programs and maps" },
		{ CAP_PERFMON, true, "CAP_PERFMON", "probes" },
		{ CAP_SYS_ADMIN, false, "CAP_SYS_ADMIN",
			"perf links; mounting bpffs; waiting until probes are gone" },
		{ CAP_SYS_PTRACE, false, "CAP_SYS_PTRACE",
			"libraries of other users' processes and containers" },
		{ CAP_DAC_OVERRIDE, false, "CAP_DAC_OVERRIDE",
			"root's groups, for users that are not root" },
		{ CAP_DAC_READ_SEARCH, false, "CAP_DAC_READ_SEARCH",
			"libraries that only their owner can read" },
	};
	uint64_t caps = caps_effective();

	for (size_t i = 0; i < FEATURE_CAP_CNT; i++)
		r->caps[i] = (struct feature_cap) {
			.name = known[i].name,
			.purpose = known[i].purpose,
			.needed = known[i].needed,
			.effective = caps & CAPS_BIT(known[i].number),
		};
}

static void hint_caps(struct feature_report *r)
{
	uint64_t missing = CAPS_ATTACH & ~caps_effective();
	char names[64];

	if (caps_in_user_namespace())
		hint(r,
			"attaching needs capabilities of the host: those of a container's "
			"user namespace are not enough");
	else if (missing)
		hint(r, "attaching needs %s; try with sudo",
			caps_names(missing, names, sizeof(names)));
	else if (!r->link && r->links[FEATURE_LINK_CNT - 1].available == ANSWER_UNKNOWN)
		hint(r,
			"this kernel has perf links alone, which need CAP_SYS_ADMIN; "
			"try with sudo");
	else if (!r->link)
		hint(r,
			"this kernel has no links for probes: it needs CONFIG_UPROBES, "
			"CONFIG_BPF_EVENTS and 5.15 or later");
}

/* --- links ---------------------------------------------------------------------------------- */

/*
 * bpf_get_func_ip(): that a program with it loads tells something only of these two kinds;
 * with perf links it loads on kernels where it gives 0.
 */
static bool has_func_ip(enum link_mode mode)
{
	struct bpf_insn insns[] = {
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_get_func_ip },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts,
		.expected_attach_type = mode == LINK_SESSION ? LINK_TYPE_UPROBE_SESSION
							     : LINK_TYPE_UPROBE_MULTI);
	_cleanup_close_ int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "fsn_experiment",
		"GPL", insns, ARRAY_SIZE(insns), &opts);

	return fd >= 0;
}

/*
 * Whether perf events for probes are forbidden: with CAP_PERFMON alone, too (seen on 6.1,
 * 6.18 and 7.2). The path is that of a directory: no event comes to be.
 */
static bool perf_is_forbidden(void)
{
	struct perf_event_attr attr = { .size = sizeof(attr),
		.config1 = (uintptr_t) "/" };
	int64_t type = read_setting("/sys/bus/event_source/devices/uprobe/type");
	int fd;

	attr.type = type;
	fd = syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd < 0 && (errno == EACCES || errno == EPERM);
}

/*
 * EPERM comes before a kernel looks at anything; one without sessions or multi links says
 * EINVAL or EACCES.
 */
static void look_at_link(struct feature_link *l, const char *gives, const char *since)
{
	int code = link_mode_probe(l->mode);

	if (code == -EPERM) {
		l->available = ANSWER_UNKNOWN;
		snprintf(l->why, sizeof(l->why),
			"not tried: needs CAP_BPF and CAP_PERFMON");
	} else if (code) {
		l->available = ANSWER_NO;
		snprintf(l->why, sizeof(l->why), "not in this kernel (%s): since %s",
			err_text(code), since);
	} else if (l->mode == LINK_PERF && perf_is_forbidden()) {
		l->available = ANSWER_UNKNOWN;
		snprintf(l->why, sizeof(l->why), "not tried: needs CAP_SYS_ADMIN");
	} else {
		l->available = ANSWER_YES;
		snprintf(l->why, sizeof(l->why), "%s", gives);
	}
}

static void look_at_links(struct feature_report *r)
{
	static const struct {
		enum link_mode mode;
		const char *gives, *since;
	} known[FEATURE_LINK_CNT] = {
		{ LINK_SESSION, "one link for entries and returns", "6.13" },
		{ LINK_MULTI, "one link for all entries, one for all returns", "6.6" },
		{ LINK_PERF, "one link for each probe: slow to detach", "5.15" },
	};

	for (size_t i = 0; i < FEATURE_LINK_CNT; i++) {
		r->links[i].mode = known[i].mode;
		look_at_link(&r->links[i], known[i].gives, known[i].since);
		if (r->links[i].available == ANSWER_YES && !r->link)
			r->link = r->links[i].mode;
	}
	if (r->link == LINK_SESSION || r->link == LINK_MULTI)
		r->func_ip = has_func_ip(r->link) ? ANSWER_YES : ANSWER_NO;
}

/* --- bpffs ---------------------------------------------------------------------------------- */

static bool can_write(int dir_fd, const char *path)
{
	return !faccessat(dir_fd, path, W_OK | X_OK, AT_EACCESS);
}

static void look_at_bpffs(struct feature_report *r, const char *dir)
{
	_cleanup_bpffs_ struct bpffs fs = BPFFS_NONE;
	struct err err = {};
	struct statfs st;
	char *slash;
	int code;

	code = bpffs_open(dir, false, &fs, &err);
	snprintf(r->bpffs, sizeof(r->bpffs), "%s", fs.path);
	slash = strrchr(fs.path, '/');
	if (slash)
		*slash = '\0';
	r->bpffs_mounted =
		!statfs(fs.path, &st) && (unsigned long)st.f_type == BPF_FS_MAGIC;
	if (code) {
		snprintf(r->bpffs_why, sizeof(r->bpffs_why), "%.255s", err.msg);
		/* What a missing privilege is good for has been said. */
		if (err.hint[0] && !r->hint_cnt)
			hint(r, "%.255s", err.hint);
	} else if (!r->bpffs_mounted && geteuid()) {
		snprintf(r->bpffs_why, sizeof(r->bpffs_why),
			"not mounted, which needs root");
		hint(r, "to mount a bpffs: sudo mount -t bpf bpf %s", fs.path);
	} else if (r->bpffs_mounted &&
		!(fs.fd >= 0 ? can_write(fs.fd, ".") : can_write(AT_FDCWD, fs.path))) {
		snprintf(
			r->bpffs_why, sizeof(r->bpffs_why), "no permission to pin there");
		hint(r,
			"a bpffs of your own, named with --bpffs, can be pinned to: "
			"PRIVILEGES in funcsnoop(8)");
	}
	r->bpffs_usable = !r->bpffs_why[0];
}

/* --- all of it ------------------------------------------------------------------------------ */

static void hint_rest(struct feature_report *r)
{
	hint_caps(r);
	if (!r->btf)
		hint(r, "without CONFIG_DEBUG_INFO_BTF there are no session links");
	if (r->jit == 0)
		hint(r,
			"the JIT is off, which makes probes slow: sysctl "
			"net.core.bpf_jit_enable=1");
	if (r->rules.return_unsafe)
		hint(r,
			"ends of calls are seen by probes on ret instructions here; "
			"'--exit return' can kill processes");
	if (r->link == LINK_PERF && r->nofile_max < 4096)
		hint(r,
			"each probe takes a file descriptor, at most %" PRIu64
			": ulimit -n",
			r->nofile_max);
}

void feature_report(const char *bpffs, bool fresh, struct feature_report *ret_report)
{
	struct feature_report *r = ret_report;
	uint64_t start;

	memset(r, 0, sizeof(*r));
	look_at_kernel(r);
	look_at_limits(r);
	look_at_caps(r);
	look_at_links(r);
	start = clock_ns(CLOCK_MONOTONIC);
	r->cached = kernel_experiments(fresh, r->experiments);
	r->experiments_ns = r->cached ? 0 : clock_ns(CLOCK_MONOTONIC) - start;
	kernel_rules_from(&r->rules, r->experiments);
	hint_rest(r);
	look_at_bpffs(r, bpffs);
}
