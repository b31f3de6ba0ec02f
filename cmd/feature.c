// SPDX-License-Identifier: BSD-2-Clause
// funcsnoop feature: what this kernel and this user can do, and what attach will use.
#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include <bpf/bpf.h>
#include <linux/magic.h>
#include <linux/perf_event.h>

#include "attach/attach.h"
#include "base/file.h"
#include "base/util.h"
#include "cli/options.h"
#include "kernel/kernel.h"
#include "pins/bpffs.h"
#include "proc/proc.h"
#include "shared/gpu.h"
#include "show/table.h"
#include "show/text.h"
#include "target/kind.h"

/* --- what this kernel and build can do, and what will be used ------------------------------- */

#define FEATURE_LINK_CNT 3
#define FEATURE_CAP_CNT  6
#define FEATURE_HINT_CNT 8
#define FEATURE_UNKNOWN  INT64_MIN /* a number that can't be read; a limit that is none */

/* The checks, in the order of the report. */
enum feature {
	FEATURE_KERNEL,
	FEATURE_MACHINE,
	FEATURE_BTF,
	FEATURE_JIT,
	FEATURE_LINKS, /* best first */
	FEATURE_FUNC_IP = FEATURE_LINKS + FEATURE_LINK_CNT,
	FEATURE_EXPERIMENTS, /* by enum experiment */
	FEATURE_CACHED = FEATURE_EXPERIMENTS + EXPERIMENT_CNT,
	FEATURE_EXPERIMENTS_NS,
	FEATURE_BPFFS,
	FEATURE_CAPS,
	FEATURE_UNPRIVILEGED = FEATURE_CAPS + FEATURE_CAP_CNT,
	FEATURE_PARANOID,
	FEATURE_PAGES,
	FEATURE_GPU,
	FEATURE_BPF_STATS,
	FEATURE_FILES,
	FEATURE_FILES_MAX,
	FEATURE_MEMLOCK,
	FEATURE_CNT,
};

/* The members of a fact that are reported in addition to its key. */
enum feature_form {
	FEATURE_TEXT,   /* .text */
	FEATURE_ANSWER, /* .answer */
	FEATURE_NUMBER, /* .number */
	FEATURE_TRIED,  /* .answer and .why */
	FEATURE_FOLDER, /* the same, of the directory of the groups */
	FEATURE_LINK,   /* the same, one of several */
	FEATURE_CAP,    /* the same, and .required */
};

/* One fact: a line for people, a key of the JSON document. */
struct feature_fact {
	const char *key;
	const char *title; /* NULL: nothing for people */
	enum feature_form form;
	const char *words[3]; /* by enum answer; of a number: not known, 0, another */
	const char *why;      /* or a remark */
	enum answer answer;   /* unknown: the caller may not try */
	bool required;        /* a capability that attach needs; others some targets do */
	int64_t number;
	const char *text;
};

struct feature_report {
	struct feature_fact facts[FEATURE_CNT]; /* whose strings are static or below */
	enum link_mode link;                    /* what attach uses; LINK_AUTO: none */
	struct plan_rules rules;                /* what follows from the experiments */
	char bpffs[4096];                       /* directory of the groups */
	bool bpffs_mounted;
	char hints[FEATURE_HINT_CNT][256]; /* what to do about what is missing */
	size_t hint_cnt;

	char release[65], machine[65];
	char link_why[FEATURE_LINK_CNT][128], bpffs_why[256], gpu_why[128], pages_why[128];
	struct experiment_result experiments[EXPERIMENT_CNT];
};

#define FEATURE_STATE_LEN 24

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

/* The state of a fact in a word, or a number written into @buf; static otherwise. */
static const char *feature_state(const struct feature_fact *f, char buf[FEATURE_STATE_LEN])
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

/*
 * Runs all checks. @bpffs as for bpffs_open(). A check that fails is reported as unknown and is
 * not an error. Changes only the cache.
 */
static void feature_report(const char *bpffs, bool fresh, struct feature_report *ret_report)
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

/* --- text ----------------------------------------------------------------------------------- */

static void print_report(const struct globals *g, const struct feature_report *r)
{
	static const struct table_column columns[] = { { "FEATURE", TABLE_LEFT, false },
		{ "STATE", TABLE_LEFT, false }, { "REMARK", TABLE_LEFT, TABLE_WRAP } };
	_cleanup_table_ struct grid *t = table_new(columns, ARRAY_SIZE(columns));
	int64_t took_ns = r->facts[FEATURE_EXPERIMENTS_NS].number;
	char state[FEATURE_STATE_LEN], took[TEXT_NUM_LEN];

	for (const struct feature_fact *f = r->facts; f < r->facts + FEATURE_CNT; f++)
		if (f->title) {
			grid_textf(t, "%s", f->title);
			grid_textf(t, "%s", feature_state(f, state));
			grid_textf(t, "%s", f->why);
		}
	grid_print(t, g, false, stdout);
	printf("\nattach uses %s%s; return probes %s%s\n",
		r->link ? link_mode_name(r->link) : "nothing: it cannot attach",
		r->link ? " links" : "",
		r->rules.return_unsafe ? "only with --probe exit=return"
				       : "where a function is known to be safe",
		!r->facts[FEATURE_EXPERIMENTS + EXPERIMENT_NOP5].title ? ""
			: r->rules.nop5_unsafe ? "; 5-byte nops are stepped over"
					       : "; 5-byte nops are probed");
	printf("self-tests %s\n",
		took_ns == FEATURE_UNKNOWN
			? "run before, since the last boot; --fresh runs them again"
			: text_duration(took_ns, took));
	for (size_t i = 0; i < r->hint_cnt; i++)
		printf("hint: %s\n", r->hints[i]);
}

static const char *const price_sites[PRICE_SITES] = { "emulated", "stepped", "syscall" };
static const char *const price_ends[PRICE_ENDS] = { "none", "return", "ret", "jump",
	"early" };

/* System calls may not have been measured, and have two ends. */
static bool is_class(const struct price *price, int site, int end)
{
	return site < PRICE_INSNS || price->whole_ns[PRICE_SYSCALL][end];
}

/* "steady within 1.2 %" */
static const char *text_steady(const struct calibration *c, char buf[TEXT_NUM_LEN])
{
	snprintf(buf, TEXT_NUM_LEN, "%s %u.%u %%",
		c->spread <= CALIBRATION_STEADY ? "steady within" : "noisy by", c->spread / 10,
		c->spread % 10);
	return buf;
}

static void print_calibration(
	const struct globals *g, const char *link, const struct calibration *c)
{
	static const struct table_column columns[] = { { "ENTRY", TABLE_LEFT, false },
		{ "END", TABLE_LEFT, false }, { "CORRECTION", TABLE_RIGHT, false },
		{ "OVERHEAD", TABLE_RIGHT, false } };
	char steady[TEXT_NUM_LEN], num[TEXT_NUM_LEN];
	_cleanup_table_ struct grid *t = NULL;

	if (!c) {
		printf("not calibrated; --calibrate measures the overhead of a probed call here\n");
		return;
	}
	printf("calibrated %s, %s links, %s: the overhead of a probed call\n\n",
		text_time(c->price.at_ns, num), link, text_steady(c, steady));
	t = table_new(columns, ARRAY_SIZE(columns));
	for (int i = 0; i < PRICE_SITES * PRICE_ENDS; i++) {
		int site = i / PRICE_ENDS, end = i % PRICE_ENDS;

		if (!is_class(&c->price, site, end))
			continue;
		grid_textf(t, "%s", price_sites[site]);
		grid_textf(t, "%s", price_ends[end]);
		grid_textf(t, "%s",
			!c->price.overhead_ns[site][end] ? "-" : text_duration(
							   c->price.overhead_ns[site][end], num));
		grid_textf(t, "%s", text_duration(c->price.whole_ns[site][end], num));
	}
	grid_print(t, g, false, stdout);
}

/* --- JSON: keys only ever grow (funcsnoop-json(5)) ------------------------------------------ */

/* An unknown answer is null, neither true nor false. */
static void add_answer(struct json *j, const char *key, enum answer answer)
{
	if (answer == ANSWER_UNKNOWN)
		json_set_null(j, key);
	else
		json_set_bool(j, key, answer == ANSWER_YES);
}

/* Adds an element to the array of facts of one form. */
static void add_element(struct json *j, const struct feature_fact *f)
{
	json_open(j, '{');
	json_set_str(j, "name", f->key);
	if (f->form == FEATURE_LINK) {
		add_answer(j, "available", f->answer);
		json_set_str(j, "why", f->why);
	} else {
		add_answer(j, "effective", f->answer);
		json_set_bool(j, "required", f->required);
		json_set_str(j, "purpose", f->why);
	}
	json_close(j, '}');
}

/* Adds a fact that is an object. */
static void add_object(
	struct json *j, const struct feature_fact *f, const struct feature_report *r)
{
	bool folder = f->form == FEATURE_FOLDER;

	json_set_open(j, f->key, '{');
	if (folder) {
		json_set_str(j, "path", r->bpffs);
		json_set_bool(j, "mounted", r->bpffs_mounted);
	}
	add_answer(j, f->words[ANSWER_YES], f->answer);
	json_set_str(j, "why", folder && f->answer == ANSWER_YES ? NULL : f->why);
	json_close(j, '}');
}

static void add_fact(
	struct json *j, const struct feature_fact *f, const struct feature_report *r)
{
	switch (f->form) {
	case FEATURE_TEXT:
		json_set_str(j, f->key, f->text);
		break;
	case FEATURE_ANSWER:
		add_answer(j, f->key, f->answer);
		break;
	case FEATURE_NUMBER:
		if (f->number == FEATURE_UNKNOWN)
			json_set_null(j, f->key);
		else
			json_set_i64(j, f->key, f->number);
		break;
	case FEATURE_TRIED:
	case FEATURE_FOLDER:
		add_object(j, f, r);
		break;
	case FEATURE_LINK:
	case FEATURE_CAP:
		if (f[-1].form != f->form)
			json_set_open(j,
				f->form == FEATURE_LINK ? "links" : "capabilities", '[');
		add_element(j, f);
		if (f[1].form != f->form)
			json_close(j, ']');
		break;
	}
}

/* Adds the choices that attach derives from the facts. */
static void add_attach(struct json *j, const struct feature_report *r)
{
	json_set_open(j, "attach", '{');
	json_set_str(j, "link", r->link ? link_mode_name(r->link) : NULL);
	json_set_bool(j, "return_probes", !r->rules.return_unsafe);
	json_set_bool(j, "nop5_sites", !r->rules.nop5_unsafe);
	json_set_bool(j, "call_sites", !r->rules.call_unsafe);
	json_set_bool(j, "multibyte_nop_sites", r->rules.multinop_emulated);
	json_close(j, '}');
}

/* Adds the overhead per call: for emulated entry probes, then for all classes. */
static void add_calibration(struct json *j, const char *link, const struct calibration *c)
{
	const uint32_t *usual;

	if (!c) {
		json_set_null(j, "calibration");
		return;
	}
	usual = c->price.whole_ns[PRICE_EMULATED];
	json_set_open(j, "calibration", '{');
	json_set_time(j, "measured_at", c->price.at_ns);
	json_set_str(j, "link", link);
	json_set_bool(j, "steady", c->spread <= CALIBRATION_STEADY);
	json_key(j, "spread_percent");
	json_real(j, "%u.%u", c->spread / 10, c->spread % 10);
	json_set_u64(j, "none_ns", usual[PRICE_COUNT]);
	json_set_u64(j, "return_ns", usual[PRICE_RETURN]);
	json_set_u64(j, "ret_ns", usual[PRICE_RET]);
	json_set_open(j, "classes", '[');
	for (int i = 0; i < PRICE_SITES * PRICE_ENDS; i++) {
		int site = i / PRICE_ENDS, end = i % PRICE_ENDS;

		if (!is_class(&c->price, site, end))
			continue;
		json_open(j, '{');
		json_set_str(j, "entry", price_sites[site]);
		json_set_str(j, "end", price_ends[end]);
		json_set_u64_if(j, "overhead_ns", c->price.overhead_ns[site][end],
			c->price.overhead_ns[site][end]);
		json_set_u64(j, "cost_ns", c->price.whole_ns[site][end]);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_close(j, '}');
}

static int print_json(const struct globals *g, const struct feature_report *r,
	const struct calibration *calibration)
{
	struct json *j = json_object(g);

	for (size_t i = 0; i < FEATURE_CNT; i++)
		add_fact(j, &r->facts[i], r);
	add_attach(j, r);
	add_calibration(j, link_mode_name(r->link), calibration);
	json_set_open(j, "hints", '[');
	for (size_t i = 0; i < r->hint_cnt; i++)
		json_str(j, r->hints[i]);
	json_close(j, ']');
	return json_print(j);
}

/* --- the command ----------------------------------------------------------------------------- */

static int run_calibration(const struct globals *g, struct err *err)
{
	_cleanup_bpffs_ struct bpffs fs = BPFFS_NONE;
	enum link_mode mode;
	struct calibration c;
	struct err calls;
	int code;

	code = link_mode_best(&mode, err);
	if (!code)
		code = bpffs_open(g->bpffs, true, &fs, err);
	if (!code)
		code = calibrate(&fs, mode, &c, err);
	/* A kernel may have no tracepoints of system calls. */
	if (!code)
		(void)!calibrate_calls(&fs, &c.price, &calls);
	return code;
}

static int run(struct globals *g, int argc, char **argv)
{
	_cleanup_options_ struct options o;
	struct feature_report report;
	struct calibration calibration;
	struct err err = {};
	bool calibrated;

	cmd_parse(g, &cmd_feature, argc, argv, &o);
	if (o.calibrate && run_calibration(g, &err))
		return cmd_fail(g, &err);
	feature_report(g->bpffs, o.fresh, &report);
	calibrated = report.link && calibration_read(report.link, &calibration);
	if (calibrated)
		(void)!calibration_read_calls(&calibration.price);
	if (g->json)
		return print_json(g, &report, calibrated ? &calibration : NULL);
	print_report(g, &report);
	print_calibration(g, link_mode_name(report.link), calibrated ? &calibration : NULL);
	return EXIT_DONE;
}

const struct command cmd_feature = { "feature", "", "what this kernel and user can do", run,
	ON_FEATURE, NULL, "What this kernel can do, what is safe on it, and what attach will use.\v"
	"Safety is determined by self-tests in child processes, once after each boot.\n"
	"The exit status is 0 even if something is missing.\n"
	"Examples:\n"
	"  funcsnoop feature\n"
	"  funcsnoop feature --json | jq .hints" };
