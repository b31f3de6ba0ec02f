// SPDX-License-Identifier: BSD-2-Clause
// The report of `funcsnoop feature`: kernel, links, settings, bpffs, privileges, limits.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "attach/attach.h"
#include "base/file.h"
#include "base/util.h"
#include "kernel/kernel.h"
#include "pins/bpffs.h"
#include "proc/proc.h"
#include "shared/gpu.h"
#include "target/kind.h"

/* --- the facts, before they are known ------------------------------------------------------- */

#define YES_NO { "not known", "no", "yes" }
#define SAFE   { "not known", "unsafe", "safe" }
#define NUMBER { "not known" }
#define LIMIT  { "unlimited" }

#define LINK(key) { key, key " links", FEATURE_LINK, YES_NO }
#define CAP(name, is_required, purpose)                                                       \
	{ name, name, FEATURE_CAP, YES_NO, purpose, .required = (is_required) }

static const struct feature_fact unknown_facts[FEATURE_CNT] = {
	[FEATURE_KERNEL] = { "kernel", "kernel", FEATURE_TEXT },
	[FEATURE_MACHINE] = { "machine", NULL, FEATURE_TEXT },
	[FEATURE_BTF] = { "btf", "BTF", FEATURE_ANSWER, YES_NO, "/sys/kernel/btf/vmlinux" },
	[FEATURE_JIT] = { "bpf_jit_enable", "JIT", FEATURE_NUMBER,
		{ "not known", "off", "on" }, "net.core.bpf_jit_enable" },
	[FEATURE_LINKS] = LINK("session"),
	[FEATURE_LINKS + 1] = LINK("multi"),
	[FEATURE_LINKS + 2] = LINK("perf"),
	[FEATURE_FUNC_IP] = { "func_ip", "bpf_get_func_ip()", FEATURE_ANSWER, YES_NO,
		"in programs of session and multi links" },
	[FEATURE_EXPERIMENTS + EXPERIMENT_RETURN] = { "return_probes", "return probes",
		FEATURE_TRIED, SAFE },
	[FEATURE_EXPERIMENTS + EXPERIMENT_SECCOMP] = { "return_probes_seccomp",
		"  under seccomp", FEATURE_TRIED, SAFE },
	[FEATURE_EXPERIMENTS + EXPERIMENT_SHADOW] = { "return_probes_shadow_stack",
		"  with shadow stacks", FEATURE_TRIED, SAFE },
	[FEATURE_EXPERIMENTS + EXPERIMENT_CALL] = { "call", "probes on a call",
		FEATURE_TRIED, SAFE },
	[FEATURE_EXPERIMENTS + EXPERIMENT_NOP5] = { "nop5", "probes on a 5-byte nop",
		FEATURE_TRIED, SAFE },
	[FEATURE_EXPERIMENTS + EXPERIMENT_MULTINOP] = { "multibyte_nops",
		"multi-byte nops", FEATURE_TRIED,
		{ "not known", "stepped", "emulated" } },
	[FEATURE_CACHED] = { "cached", NULL, FEATURE_ANSWER, YES_NO },
	[FEATURE_EXPERIMENTS_NS] = { "experiments_ns", NULL, FEATURE_NUMBER, NUMBER },
	[FEATURE_BPFFS] = { "bpffs", "bpffs", FEATURE_FOLDER,
		{ "not known", "not usable", "usable" } },
	[FEATURE_CAPS] = CAP("CAP_BPF", true, "programs and maps"),
	[FEATURE_CAPS + 1] = CAP("CAP_PERFMON", true, "probes"),
	[FEATURE_CAPS + 2] = CAP("CAP_SYS_ADMIN", false,
		"perf links; mounting bpffs; waiting until probes are gone"),
	[FEATURE_CAPS + 3] = CAP("CAP_SYS_PTRACE", false,
		"libraries of other users' processes and containers"),
	[FEATURE_CAPS + 4] = CAP("CAP_DAC_OVERRIDE", false,
		"root's groups, for users that are not root"),
	[FEATURE_CAPS + 5] = CAP("CAP_DAC_READ_SEARCH", false,
		"libraries that only their owner can read"),
	[FEATURE_UNPRIVILEGED] = { "unprivileged_bpf_disabled",
		"unprivileged_bpf_disabled", FEATURE_NUMBER, NUMBER,
		"0: every user may load some programs, not these" },
	[FEATURE_PARANOID] = { "perf_event_paranoid", "perf_event_paranoid",
		FEATURE_NUMBER, NUMBER, "CAP_PERFMON overrides it" },
	[FEATURE_PAGES] = { "stacks_without_tables", "stacks without tables", FEATURE_TRIED,
		{ "not known", "truncated", "complete" } },
	[FEATURE_GPU] = { "gpu_times", "times of GPUs", FEATURE_TRIED,
		{ "not known", "not seen", "seen" } },
	[FEATURE_BPF_STATS] = { "bpf_stats_enabled", "bpf_stats_enabled", FEATURE_NUMBER,
		NUMBER, "1: the kernel measures programs, which costs a little" },
	[FEATURE_FILES] = { "open_files", "open files", FEATURE_NUMBER, LIMIT,
		"ulimit -n; raised as far as allowed" },
	[FEATURE_FILES_MAX] = { "open_files_max", NULL, FEATURE_NUMBER, LIMIT },
	[FEATURE_MEMLOCK] = { "locked_memory_bytes", "locked memory", FEATURE_NUMBER, LIMIT,
		"ulimit -l, in bytes; not used since 5.11" },
};

const char *feature_state(const struct feature_fact *f, char buf[FEATURE_STATE_LEN])
{
	if (f->form == FEATURE_TEXT)
		return f->text;
	if (f->form != FEATURE_NUMBER)
		return f->words[f->answer];
	if (f->number == FEATURE_UNKNOWN)
		return f->words[0];
	if (f->words[1])
		return f->words[f->number ? 2 : 1];
	snprintf(buf, FEATURE_STATE_LEN, "%" PRId64, f->number);
	return buf;
}

static enum answer answer_of(bool yes)
{
	return yes ? ANSWER_YES : ANSWER_NO;
}

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
	static const struct {
		enum feature fact;
		const char *path;
	} settings[] = {
		{ FEATURE_JIT, "/proc/sys/net/core/bpf_jit_enable" },
		{ FEATURE_UNPRIVILEGED, "/proc/sys/kernel/unprivileged_bpf_disabled" },
		{ FEATURE_PARANOID, "/proc/sys/kernel/perf_event_paranoid" },
		{ FEATURE_BPF_STATS, "/proc/sys/kernel/bpf_stats_enabled" },
	};
	struct utsname name;

	if (!uname(&name)) {
		snprintf(r->release, sizeof(r->release), "%s", name.release);
		snprintf(r->machine, sizeof(r->machine), "%s", name.machine);
	}
	r->facts[FEATURE_KERNEL].text = r->release;
	r->facts[FEATURE_KERNEL].why = r->facts[FEATURE_MACHINE].text = r->machine;
	/* Only x86-64 has multi-byte nops. */
	if (strcmp(r->machine, "x86_64"))
		r->facts[FEATURE_EXPERIMENTS + EXPERIMENT_NOP5].title =
			r->facts[FEATURE_EXPERIMENTS + EXPERIMENT_MULTINOP].title = NULL;
	r->facts[FEATURE_BTF].answer = answer_of(!access("/sys/kernel/btf/vmlinux", R_OK));
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		r->facts[settings[i].fact].number = read_setting(settings[i].path);
}

static int64_t limit_of(rlim_t value)
{
	return value > INT64_MAX ? FEATURE_UNKNOWN : (int64_t)value;
}

static void look_at_limits(struct feature_report *r)
{
	struct rlimit lim;

	if (!getrlimit(RLIMIT_NOFILE, &lim)) {
		r->facts[FEATURE_FILES].number = limit_of(lim.rlim_cur);
		r->facts[FEATURE_FILES_MAX].number = limit_of(lim.rlim_max);
	}
	if (!getrlimit(RLIMIT_MEMLOCK, &lim))
		r->facts[FEATURE_MEMLOCK].number = limit_of(lim.rlim_cur);
}

/* --- privileges ----------------------------------------------------------------------------- */

static void look_at_caps(struct feature_report *r)
{
	static const unsigned int numbers[FEATURE_CAP_CNT] = { CAP_BPF, CAP_PERFMON,
		CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH };
	uint64_t caps = caps_effective();

	for (size_t i = 0; i < FEATURE_CAP_CNT; i++)
		r->facts[FEATURE_CAPS + i].answer =
			answer_of(caps & CAPS_BIT(numbers[i]));
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
		hint(r, "attaching needs %s%s", caps_names(missing, names, sizeof(names)),
			caps_advice());
	else if (!r->link && r->facts[FEATURE_FUNC_IP - 1].answer == ANSWER_UNKNOWN)
		hint(r,
			"this kernel has perf links alone, which need CAP_SYS_ADMIN%s",
			caps_advice());
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
static enum answer look_at_link(
	enum link_mode mode, const char *gives, const char *since, char why[128])
{
	int code = link_mode_probe(mode);

	if (code == -EPERM) {
		strcpy(why, "not tried: needs CAP_BPF and CAP_PERFMON");
		return ANSWER_UNKNOWN;
	}
	if (code) {
		snprintf(why, 128, "not in this kernel (%s): since %s", err_text(code),
			since);
		return ANSWER_NO;
	}
	if (mode == LINK_PERF && perf_is_forbidden()) {
		strcpy(why, "not tried: needs CAP_SYS_ADMIN");
		return ANSWER_UNKNOWN;
	}
	strcpy(why, gives);
	return ANSWER_YES;
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
		struct feature_fact *f = &r->facts[FEATURE_LINKS + i];

		f->why = r->link_why[i];
		f->answer = look_at_link(known[i].mode, known[i].gives, known[i].since,
			r->link_why[i]);
		if (f->answer == ANSWER_YES && !r->link)
			r->link = known[i].mode;
	}
	if (r->link == LINK_SESSION || r->link == LINK_MULTI)
		r->facts[FEATURE_FUNC_IP].answer = answer_of(has_func_ip(r->link));
}

/* --- experiments ----------------------------------------------------------------------------- */

static void look_at_experiments(struct feature_report *r, bool fresh)
{
	uint64_t start = clock_ns(CLOCK_MONOTONIC);
	bool cached = kernel_experiments(fresh, r->experiments);

	r->facts[FEATURE_CACHED].answer = answer_of(cached);
	r->facts[FEATURE_EXPERIMENTS_NS].number =
		cached ? FEATURE_UNKNOWN : (int64_t)(clock_ns(CLOCK_MONOTONIC) - start);
	for (size_t i = 0; i < EXPERIMENT_CNT; i++) {
		r->facts[FEATURE_EXPERIMENTS + i].answer = r->experiments[i].answer;
		r->facts[FEATURE_EXPERIMENTS + i].why = r->experiments[i].why;
	}
	kernel_rules_from(&r->rules, r->experiments);
}

/* --- bpffs ---------------------------------------------------------------------------------- */

static bool can_write(int dir_fd, const char *path)
{
	return !faccessat(dir_fd, path, W_OK | X_OK, AT_EACCESS);
}

static void look_at_bpffs(struct feature_report *r, const char *dir)
{
	struct feature_fact *f = &r->facts[FEATURE_BPFFS];
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
		/* A hint about missing privileges replaces this one. */
		if (err.hint[0] && !r->hint_cnt)
			hint(r, "%.255s", err.hint);
	} else if (!r->bpffs_mounted && geteuid()) {
		snprintf(r->bpffs_why, sizeof(r->bpffs_why),
			"not mounted, which needs root");
		hint(r, "run 'sudo mount -t bpf bpf %s'", fs.path);
	} else if (r->bpffs_mounted &&
		!(fs.fd >= 0 ? can_write(fs.fd, ".") : can_write(AT_FDCWD, fs.path))) {
		snprintf(
			r->bpffs_why, sizeof(r->bpffs_why), "no permission to pin there");
		hint(r,
			"use a bpffs of your own with --bpffs: PRIVILEGES in funcsnoop(8)");
	}
	f->answer = answer_of(!r->bpffs_why[0]);
	f->why = r->bpffs_why[0] ? r->bpffs_why
		: r->bpffs_mounted
		? r->bpffs
		: "attach will mount it";
}

/* --- stacks ------------------------------------------------------------------------------------ */

static void look_at_pages(struct feature_report *r)
{
	struct feature_fact *f = &r->facts[FEATURE_PAGES];
	struct kernel_pages pages;
	int code = kernel_pages_find(&pages, r->pages_why);

	f->answer = answer_of(!code);
	if (!code)
		snprintf(r->pages_why, sizeof(r->pages_why),
			"of programs that start after attach: .eh_frame is read from the page cache%s",
			bpf_kfuncs_find().task_work > 0 ? ", or from the disk" : "");
	f->why = r->pages_why;
}

/* --- times of GPUs -------------------------------------------------------------------------- */

#define GPU_TRY_S 10

/* In a process of its own: others' code runs there. */
static void try_gpu(const char *path, int to)
{
	struct fsn_gpu_tried tried = {};
	int (*try)(struct fsn_gpu_tried *ret);
	void *lib;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(GPU_TRY_S);
	lib = dlopen(path, RTLD_NOW);
	*(void **)&try = lib ? dlsym(lib, FSN_GPU_TRY) : NULL;
	if (try && !try(&tried) && write(to, &tried, sizeof(tried)) == sizeof(tried))
		_exit(0);
	_exit(1);
}

static bool gpu_tried(const char *path, struct fsn_gpu_tried *ret)
{
	_cleanup_close_ int from = -1, to = -1;
	bool known;
	pid_t pid;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return false;
	from = ends[0];
	to = ends[1];
	pid = fork();
	if (!pid)
		try_gpu(path, to);
	close(TAKE_FD(to));
	known = pid > 0 && read(from, ret, sizeof(*ret)) == sizeof(*ret);
	ret->who[FSN_GPU_WHO - 1] = '\0';
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return known;
}

static void look_at_gpu(struct feature_report *r)
{
	struct feature_fact *f = &r->facts[FEATURE_GPU];
	struct fsn_gpu_tried tried = {};
	char path[PATH_MAX];

	f->why = r->gpu_why;
	if (!target_gpu_library(path)) {
		snprintf(r->gpu_why, sizeof(r->gpu_why), "lib" FSN_GPU_LIB ".so is not installed");
		f->answer = ANSWER_NO;
	} else if (!gpu_tried(path, &tried)) {
		snprintf(r->gpu_why, sizeof(r->gpu_why), "libcupti did not come back");
	} else {
		f->answer = answer_of(tried.state == FSN_GPU_RUNS);
		if (tried.state == FSN_GPU_NO_LIB)
			snprintf(r->gpu_why, sizeof(r->gpu_why),
				"there is no libcupti; a job may bring its own");
		else if (tried.state == FSN_GPU_REFUSED)
			snprintf(r->gpu_why, sizeof(r->gpu_why), "%s refuses with %d", tried.who,
				tried.code);
		else
			snprintf(r->gpu_why, sizeof(r->gpu_why),
				"of jobs that load libfuncsnoop-gpu.so; by %s", tried.who);
	}
}

/* --- all of it ------------------------------------------------------------------------------ */

static void hint_rest(struct feature_report *r)
{
	int64_t files = r->facts[FEATURE_FILES_MAX].number;

	hint_caps(r);
	if (r->facts[FEATURE_BTF].answer == ANSWER_NO)
		hint(r, "session links need a kernel with CONFIG_DEBUG_INFO_BTF");
	if (r->facts[FEATURE_JIT].number == 0)
		hint(r,
			"the JIT is off, which makes probes slow: run 'sysctl "
			"net.core.bpf_jit_enable=1'");
	if (r->rules.return_unsafe)
		hint(r,
			"calls are timed by probes on ret instructions here; "
			"'--probe exit=return' can kill processes");
	if (r->link == LINK_PERF && files != FEATURE_UNKNOWN && files < 4096)
		hint(r,
			"each probe needs a file descriptor, of which there are at most %" PRId64
			": raise 'ulimit -n'",
			files);
}

void feature_report(const char *bpffs, bool fresh, struct feature_report *ret_report)
{
	struct feature_report *r = ret_report;

	memset(r, 0, sizeof(*r));
	memcpy(r->facts, unknown_facts, sizeof(r->facts));
	look_at_kernel(r);
	look_at_limits(r);
	look_at_caps(r);
	look_at_links(r);
	look_at_experiments(r, fresh);
	look_at_pages(r);
	look_at_gpu(r);
	hint_rest(r);
	look_at_bpffs(r, bpffs);
}
