// SPDX-License-Identifier: BSD-2-Clause
// Links by bpf(2) itself where libbpf 1.1 has no call for them; and the pages of files in the kernel's
// memory, found by a self-test on a file of its own.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/perf_event.h>

#include "base/apart.h"
#include "base/err.h"
#include "base/file.h"
#include "base/util.h"
#include "kernel/kernel.h"
#include "kernel/trace.h"
#include "probepages.skel.h"
#include "proc/proc.h"

#define LINK_INFO_UPROBE_MULTI 12 /* BPF_LINK_TYPE_UPROBE_MULTI */

/* As in union bpf_attr: link_create.uprobe_multi, since 6.6. */
struct link_create_multi {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t cnt, multi_flags, pid, path_fd;
};

#define MULTI_RETURN 1U /* BPF_F_UPROBE_MULTI_RETURN */

#define PASS_NS 200000000ULL /* instead of LINK_CLOSE_NS, for each file */

#define PERF_SEMAPHORE_SHIFT 32 /* PERF_UPROBE_REF_CTR_OFFSET_SHIFT, kernel/events/core.c */

const char *link_mode_name(unsigned int mask)
{
	static const char *const names[] = { "session", "multi", "perf", "trace", "fentry",
		"kprobe.multi", "kprobe" };
	static char joined[1U << ARRAY_SIZE(names)][64];
	char *text = joined[mask % ARRAY_SIZE(joined)];
	size_t len = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (mask & 1U << i && len < sizeof(*joined))
			len += snprintf(text + len, sizeof(*joined) - len, "%s%s",
				len ? "+" : "", names[i]);
	return len ? text : "none";
}

static int link_create(struct link_create_multi *attr)
{
	int fd = syscall(__NR_bpf, BPF_LINK_CREATE, attr, sizeof(*attr));

	return fd < 0 ? -errno : fd;
}

/* --- kinds of links that the kernel supports ------------------------------------------------ */

int link_load_trivial(unsigned int type, int helper, struct bpf_prog_load_opts *opts)
{
	struct bpf_insn insns[] = {
		{ .code = BPF_JMP | BPF_CALL, .imm = helper },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	size_t skip = !helper;
	int fd = bpf_prog_load(
		type, "fsn_probe", "GPL", insns + skip, ARRAY_SIZE(insns) - skip, opts);

	return fd < 0 ? -errno : fd;
}

static int load_uprobe(unsigned int type)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = type);

	return link_load_trivial(BPF_PROG_TYPE_KPROBE, 0, &opts);
}

bool link_trace_is_preempted(void)
{
	int id = libbpf_find_vmlinux_btf_id("sys_enter", BPF_TRACE_RAW_TP);
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_RAW_TP,
		.attach_btf_id = id > 0 ? id : 0, .prog_flags = BPF_F_SLEEPABLE);
	_cleanup_close_ int prog = link_load_trivial(BPF_PROG_TYPE_TRACING, 0, &opts);

	return prog >= 0;
}

/*
 * A kernel that supports the type rejects the path, a directory, with EBADF
 * (bpf_uprobe_multi_link_attach). Others return EINVAL, or EACCES at load.
 */
static int probe_multi(unsigned int type, uint32_t pid)
{
	_cleanup_close_ int prog = load_uprobe(type);
	unsigned long offset = 0;
	struct link_create_multi attr = {
		.attach_type = type,
		.path = (uintptr_t) "/",
		.offsets = (uintptr_t)&offset,
		.cnt = 1,
		.pid = pid,
	};
	int fd;

	if (prog < 0)
		return prog;
	attr.prog_fd = prog;
	fd = link_create(&attr);
	if (fd >= 0)
		close(fd);
	return fd == -EBADF ? 0 : fd < 0 ? fd : -EINVAL;
}

static int perf_type(const char *path)
{
	int64_t type;
	int code = file_read_number(path, &type);

	return code ? code : (int)type;
}

static int uprobe_type(void)
{
	return perf_type("/sys/bus/event_source/devices/uprobe/type");
}

int link_kprobe_type(void)
{
	return perf_type("/sys/bus/event_source/devices/kprobe/type");
}

int link_mode_probe(enum link_mode mode)
{
	int code;

	switch (mode) {
	case LINK_SESSION:
		return probe_multi(LINK_TYPE_UPROBE_SESSION, 0);
	case LINK_MULTI:
		return probe_multi(LINK_TYPE_UPROBE_MULTI, 0);
	case LINK_PERF:
		code = load_uprobe(0);
		if (code < 0)
			return code;
		close(code);
		code = uprobe_type();
		return code < 0 ? code : 0;
	default:
		return -EINVAL;
	}
}

bool link_multi_pid_works(void)
{
	return probe_multi(LINK_TYPE_UPROBE_MULTI, (uint32_t)-1) == -EINVAL;
}

int link_mode_best(enum link_mode *ret_mode, struct err *err)
{
	static const enum link_mode best_first[] = { LINK_SESSION, LINK_MULTI, LINK_PERF };
	int code = -EINVAL;

	for (size_t i = 0; i < ARRAY_SIZE(best_first); i++) {
		code = link_mode_probe(best_first[i]);
		if (!code) {
			*ret_mode = best_first[i];
			return 0;
		}
		if (code == -EPERM)
			break;
	}
	err_sys(err, code, "cannot load programs into the kernel");
	return code == -EPERM ? caps_hint(code, CAPS_ATTACH, err) : code;
}

/* --- links ---------------------------------------------------------------------------------- */

static void self_path(char *buf, size_t size, int fd)
{
	snprintf(buf, size, "/proc/self/fd/%d", fd);
}

int link_multi(int prog_fd, unsigned int type, bool is_return,
	const struct link_probes *probes, pid_t pid, int *ret_fd, struct err *err)
{
	char path[32];
	struct link_create_multi attr = {
		.prog_fd = prog_fd,
		.attach_type = type,
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)probes->offsets,
		.ref_ctr_offsets = (uintptr_t)probes->semaphores,
		.cookies = (uintptr_t)probes->cookies,
		.cnt = probes->cnt,
		.pid = pid,
		.multi_flags = is_return ? MULTI_RETURN : 0,
	};
	int fd;

	self_path(path, sizeof(path), probes->file_fd);
	fd = link_create(&attr);
	if (fd < 0)
		return err_sys(
			err, proc_cause(fd), "cannot attach %zu probes", probes->cnt);
	*ret_fd = fd;
	return 0;
}

int link_perf(int prog_fd, bool is_return, const struct link_probes *probes, size_t i,
	pid_t pid, int *ret_fd, struct err *err)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts,
		.perf_event.bpf_cookie = probes->cookies ? probes->cookies[i] : 0);
	struct perf_event_attr attr = { .size = sizeof(attr), .config = is_return };
	_cleanup_close_ int event = -1;
	int type = uprobe_type(), fd, code;
	char path[32];

	if (type < 0)
		return err_sys(err, type, "cannot use uprobe events");
	self_path(path, sizeof(path), probes->file_fd);
	attr.type = type;
	attr.uprobe_path = (uintptr_t)path;
	attr.probe_offset = probes->offsets[i];
	if (probes->semaphores)
		attr.config |= (uint64_t)probes->semaphores[i] << PERF_SEMAPHORE_SHIFT;
	event = syscall(__NR_perf_event_open, &attr, pid ? pid : -1, pid ? -1 : 0, -1,
		PERF_FLAG_FD_CLOEXEC);
	if (event < 0) {
		code = err_sys(err, proc_cause(-errno),
			"cannot make a probe at offset %#lx", probes->offsets[i]);
		return caps_hint(code, CAPS_BIT(CAP_SYS_ADMIN), err);
	}
	fd = bpf_link_create(prog_fd, event, BPF_PERF_EVENT, &opts);
	if (fd < 0)
		return err_sys(err, -errno, "cannot attach a probe at offset %#lx",
			probes->offsets[i]);
	*ret_fd = fd;
	return 0;
}

int link_event(int prog_fd, uint64_t id, uint64_t cookie, int *ret_fd, struct err *err)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event.bpf_cookie = cookie);
	struct perf_event_attr attr = { .type = PERF_TYPE_TRACEPOINT, .size = sizeof(attr),
		.sample_period = 1, .config = id };
	_cleanup_close_ int fd = -1;
	int code;

	/* A BPF program sees events of all CPUs, regardless of the CPU of its perf event. */
	fd = syscall(__NR_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0) {
		code = err_sys(err, -errno, "cannot open a tracepoint");
		return caps_hint(code, CAPS_BIT(CAP_SYS_ADMIN), err);
	}
	code = bpf_link_create(prog_fd, fd, BPF_PERF_EVENT, &opts);
	if (code < 0 && errno == EEXIST)
		return -EEXIST;
	if (code < 0)
		return err_sys(err, -errno, "cannot attach to a tracepoint");
	*ret_fd = code;
	return 0;
}

int link_sample(
	int prog_fd, int cpu, uint32_t rate, uint64_t cookie, int *ret_fd, struct err *err)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event.bpf_cookie = cookie);
	struct perf_event_attr attr = { .type = PERF_TYPE_HARDWARE, .size = sizeof(attr),
		.config = PERF_COUNT_HW_CPU_CYCLES, .freq = 1, .sample_freq = rate };
	_cleanup_close_ int event = -1;
	int fd;

	event = syscall(__NR_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (event < 0 && errno != EACCES && errno != EPERM && errno != ENODEV) {
		attr.type = PERF_TYPE_SOFTWARE;
		attr.config = PERF_COUNT_SW_CPU_CLOCK;
		event = syscall(__NR_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	}
	if (event < 0 && errno == ENODEV)
		return -ENODEV;
	if (event < 0) {
		int code = err_sys(err, -errno, "cannot take %u samples a second of CPU %d", rate, cpu);

		return caps_hint(code, CAPS_BIT(CAP_SYS_ADMIN), err);
	}
	fd = bpf_link_create(prog_fd, event, BPF_PERF_EVENT, &opts);
	if (fd < 0)
		return err_sys(err, -errno, "cannot attach to the clock of CPU %d", cpu);
	*ret_fd = fd;
	return 0;
}

int link_faults(int prog_fd, pid_t pid, int *ret_fd, struct err *err)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts);
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr),
		.config = PERF_COUNT_SW_PAGE_FAULTS, .sample_period = 1, .inherit = 1 };
	_cleanup_close_ int event =
		syscall(__NR_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	int fd, code;

	if (event < 0) {
		code = err_sys(err, -errno, "cannot watch page faults of process %d", pid);
		return caps_hint(code, CAPS_BIT(CAP_SYS_ADMIN), err);
	}
	fd = bpf_link_create(prog_fd, event, BPF_PERF_EVENT, &opts);
	if (fd < 0)
		return err_sys(err, -errno, "cannot attach to page faults of process %d", pid);
	*ret_fd = fd;
	return 0;
}

int link_tracepoint(int prog_fd, const char *category, const char *event, int *ret_fd,
	struct err *err)
{
	_cleanup_trace_event_ struct trace_event format = { 0 };
	_cleanup_close_ int tracefs = tracefs_open(err);
	int code = tracefs < 0 ? tracefs : tracefs_event(tracefs, category, event, &format, err);

	return code ? code : link_event(prog_fd, format.id, 0, ret_fd, err);
}

/* --- links of the kernel's functions --------------------------------------------------------- */

int link_fentry(int prog_fd, bool is_exit, uint64_t cookie, int *ret_fd, struct err *err)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .tracing.cookie = cookie);
	int fd = bpf_link_create(
		prog_fd, 0, is_exit ? BPF_TRACE_FEXIT : BPF_TRACE_FENTRY, &opts);

	if (fd < 0)
		return err_sys(err, -errno, "cannot attach");
	*ret_fd = fd;
	return 0;
}

int link_kprobes(int prog_fd, bool is_return, const struct link_probes *probes, int *ret_fd,
	struct err *err)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts,
		.kprobe_multi.syms = (const char **)(uintptr_t)probes->offsets,
		.kprobe_multi.cookies = (const __u64 *)probes->cookies, .kprobe_multi.cnt = probes->cnt,
		.kprobe_multi.flags = is_return ? BPF_F_KPROBE_MULTI_RETURN : 0);
	int fd = bpf_link_create(prog_fd, 0, BPF_TRACE_KPROBE_MULTI, &opts);

	/*
	 * A function cannot be traced (bpf_kprobe_multi_link_attach(), kernel/trace/bpf_trace.c).
	 */
	if (fd < 0 && errno == ESRCH) {
		err_set(err, -ENOENT, "the kernel can't trace all of these %zu functions",
			probes->cnt);
		return err_hint(err,
			"root can read which it can trace: /sys/kernel/tracing/available_filter_functions");
	}
	if (fd < 0)
		return err_sys(err, -errno, "cannot attach to %zu functions of the kernel",
			probes->cnt);
	*ret_fd = fd;
	return 0;
}

int link_kprobe(int prog_fd, bool is_return, const struct link_probes *probes, size_t i,
	int *ret_fd, struct err *err)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event.bpf_cookie = probes->cookies[i]);
	const char *name = (const char *)(uintptr_t)probes->offsets[i];
	struct perf_event_attr attr = { .size = sizeof(attr), .type = link_kprobe_type(),
		.config = is_return, .kprobe_func = (uintptr_t)name };
	_cleanup_close_ int event = -1;
	int fd, code;

	event = syscall(__NR_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (event < 0) {
		code = err_sys(err, -errno, "cannot make a kprobe on '%s'", name);
		return caps_hint(code, CAPS_BIT(CAP_SYS_ADMIN), err);
	}
	fd = bpf_link_create(prog_fd, event, BPF_PERF_EVENT, &opts);
	if (fd < 0)
		return err_sys(err, -errno, "cannot attach a kprobe on '%s'", name);
	*ret_fd = fd;
	return 0;
}

int link_pass(const struct link_probes *probes)
{
	bool multi = !link_mode_probe(LINK_MULTI);
	_cleanup_close_ int prog = load_uprobe(multi ? LINK_TYPE_UPROBE_MULTI : 0);
	int fd = -1, code = prog < 0 ? prog : 0;

	for (size_t i = 0; !code && i < (multi ? 1 : probes->cnt); i++) {
		code = multi ? link_multi(prog, LINK_TYPE_UPROBE_MULTI, false, probes, 0, &fd,
				       NULL)
			     : link_perf(prog, false, probes, i, 0, &fd, NULL);
		if (!code)
			link_close(TAKE_FD(fd), PASS_NS);
	}
	return code;
}

/* --- closing links --------------------------------------------------------------------------- */

static void *close_in_thread(void *arg)
{
	struct link_closing *c = arg;

	__atomic_store_n(&c->tid, gettid(), __ATOMIC_RELAXED);
	close(c->fd);
	return NULL;
}

void link_closing_start(struct link_closing *c, int fd)
{
	*c = (struct link_closing) { .fd = fd };
	c->runs = !apart_thread(&c->thread, close_in_thread, c);
	if (!c->runs)
		close(fd);
}

enum link_closing_state link_closing_state(struct link_closing *c)
{
	pid_t tid = __atomic_load_n(&c->tid, __ATOMIC_RELAXED);
	_cleanup_close_ int fd = -1;
	char path[64], stack[4096];
	ssize_t n = 0;

	if (c->runs && !pthread_tryjoin_np(c->thread, NULL))
		c->runs = false;
	if (!c->runs)
		return CLOSING_ENDED;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stack", tid);
	if (tid)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		n = read(fd, stack, sizeof(stack) - 1);
	stack[n > 0 ? n : 0] = '\0';
	/* bpf_uprobe_unregister(), kernel/trace/bpf_trace.c; uprobe_unregister_sync(), since 6.13 */
	c->synced |= strstr(stack, "rcu_tasks") != NULL;
	if (c->synced && strstr(stack, "synchronize_srcu"))
		return CLOSING_UNUSED;
	return strstr(stack, "uprobe_unregister_sync") ||
		(strstr(stack, "synchronize_srcu") && !strstr(stack, "uprobe_unregister"))
		? CLOSING_UNPROBED : CLOSING_PROBED;
}

void link_closing_end(struct link_closing *c)
{
	if (c->runs)
		pthread_join(c->thread, NULL);
	c->runs = false;
}

bool link_close(int fd, uint64_t most_ns)
{
	struct link_closing *c = xcalloc(1, sizeof(*c));
	uint64_t unused_until = 0;
	enum link_closing_state state;
	unsigned int ms = 1;

	link_closing_start(c, fd);
	while ((state = link_closing_state(c)) != CLOSING_ENDED) {
		if (state == CLOSING_UNUSED && !unused_until)
			unused_until = clock_ns(CLOCK_MONOTONIC) + most_ns;
		if (unused_until && (apart_stop() || !ns_until(unused_until)))
			return false;
		/* Each look reads the stack of the thread; most closings take 20 to 200 ms. */
		sleep_ms(ms);
		ms = ms < 16 ? 2 * ms : ms;
	}
	free(c);
	return true;
}

/* As in struct bpf_link_info: uprobe_multi, since 6.8. */
struct info_multi {
	__u32 type, id, prog_id, pad;
	__u64 path, offsets, ref_ctr_offsets, cookies;
	__u32 path_size, count, flags, pid;
};

int link_get_info(int fd, struct link_info *ret_info)
{
	union {
		struct bpf_link_info known;
		struct info_multi multi;
	} info = {};
	__u32 len = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return -errno;
	*ret_info = (struct link_info) { .id = info.multi.id, .prog_id = info.multi.prog_id };
	if (info.multi.type == LINK_INFO_UPROBE_MULTI)
		ret_info->probes = info.multi.count;
	return 0;
}

void link_multi_info_done(struct link_multi_info *info)
{
	free(info->offsets);
	free(info->cookies);
}

static bool is_session(uint32_t prog_id)
{
	_cleanup_close_ int fd = bpf_prog_get_fd_by_id(prog_id);
	struct bpf_prog_info info = {};
	__u32 len = sizeof(info);

	return fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &len) &&
		!strcmp(info.name, "fsn_session");
}

int link_get_multi(int fd, struct link_multi_info *ret_info)
{
	union {
		struct bpf_link_info known;
		struct info_multi multi;
	} info = {};
	struct link_multi_info link = {};
	__u32 len = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return -errno;
	if (info.multi.type != LINK_INFO_UPROBE_MULTI)
		return -EINVAL;
	if (!info.multi.count)
		return -EOPNOTSUPP;
	link = (struct link_multi_info) { .prog_id = info.multi.prog_id, .cnt = info.multi.count,
		.pid = info.multi.pid, .is_return = info.multi.flags & MULTI_RETURN };
	link.offsets = xcalloc(link.cnt, sizeof(*link.offsets));
	link.cookies = xcalloc(link.cnt, sizeof(*link.cookies));
	link.is_session = is_session(link.prog_id);
	*ret_info = link;
	memset(&info, 0, sizeof(info));
	info.multi.offsets = (uintptr_t)link.offsets;
	info.multi.cookies = (uintptr_t)link.cookies;
	info.multi.count = link.cnt;
	len = sizeof(info);
	return bpf_obj_get_info_by_fd(fd, &info, &len) ? -errno : 0;
}

bool kernel_finds_mappings(void)
{
	return libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, BPF_FUNC_find_vma, NULL) == 1;
}

/* --- pages of files ------------------------------------------------------------------------- */

#define PAGE       4096U
#define PAGES      8 /* of the file */
#define GIB        (1ULL << 30)
#define HOLES_GIB  64 /* limit of holes in the physical address space */
#define PFN_MASK   ((1ULL << 55) - 1) /* Documentation/admin-guide/mm/pagemap.rst */

/* A file of random bytes. */
struct trial {
	struct fsn_probepages *skel;
	int fd;
	uint8_t *bytes;
	struct kernel_pages *found;
	char *why;
};

static int fail(struct trial *t, int code, const char *why)
{
	snprintf(t->why, KERNEL_PAGES_WHY, "%s", why);
	return code;
}

static int make_file(struct trial *t)
{
	t->fd = memfd_create("funcsnoop", MFD_CLOEXEC);
	if (t->fd < 0 || ftruncate(t->fd, PAGES * PAGE))
		return -errno;
	t->bytes = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
	if (t->bytes == MAP_FAILED) {
		t->bytes = NULL;
		return -errno;
	}
	for (size_t done = 0; done < PAGES * PAGE;) {
		ssize_t n = getrandom(t->bytes + done, PAGES * PAGE - done, 0);

		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static void trial_done(struct trial *t)
{
	if (t->bytes)
		munmap(t->bytes, PAGES * PAGE);
	close_fd(t->fd);
	fsn_probepages__destroy(t->skel);
}

static int load(struct trial *t)
{
	t->skel = fsn_probepages__open();
	if (!t->skel)
		return -errno;
	t->skel->rodata->fsn_cfi = true;
	return fsn_probepages__load(t->skel);
}

static int run(const struct bpf_program *prog)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);

	return bpf_prog_test_run_opts(bpf_program__fd(prog), &opts) ? -errno : 0;
}

/* Makes the BPF program find page @i of the file. */
static int find_page(struct trial *t, size_t i)
{
	t->skel->bss->file_fd = (uint64_t)t->fd;
	t->skel->bss->file_offset = i * PAGE;
	return run(t->skel->progs.fsn_page_of);
}

/* True if page @i is at @addr. */
static bool is_at(struct trial *t, size_t i, uint64_t addr)
{
	t->skel->bss->addr = addr;
	return !run(t->skel->progs.fsn_page_read) && !t->skel->bss->code &&
		!memcmp(t->skel->bss->bytes, t->bytes + i * PAGE, sizeof(t->skel->bss->bytes));
}

/* Returns the page frame number of page @i; 0 without the permission to read it. */
static uint64_t frame_of(const struct trial *t, size_t i)
{
	_cleanup_close_ int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t entry = 0, at = (uint64_t)(uintptr_t)(t->bytes + i * PAGE) / PAGE;

	if (fd < 0 || pread(fd, &entry, sizeof(entry), (off_t)(at * sizeof(entry))) != sizeof(entry))
		return 0;
	return entry & PFN_MASK;
}

/*
 * The base of the direct map is a multiple of 1 GiB, at or below the page tables of this process
 * (struct mm_struct, .pgd). Candidates are tried in ascending order, so that nothing above the page
 * is read.
 */
static int find_base(struct trial *t, uint64_t pfn)
{
	uint64_t top = t->skel->bss->pgd & ~(GIB - 1), steps;
	struct sysinfo info;

	if (sysinfo(&info))
		return -errno;
	steps = (uint64_t)info.totalram * info.mem_unit / GIB + HOLES_GIB;
	for (uint64_t k = steps + 1; k--;) {
		if (!is_at(t, 0, top - k * GIB + pfn * PAGE))
			continue;
		t->found->base = top - k * GIB;
		return 0;
	}
	return -ENOENT;
}

static uint64_t place_of(const struct trial *t)
{
	const struct kernel_pages *found = t->found;
	uint64_t page = t->skel->bss->folio + t->skel->bss->index_in_folio * found->page_bytes;

	return found->base + (page - found->vmemmap) / found->page_bytes * PAGE;
}

/* Finds the addresses in .found, and checks them with PAGES pages of a file. */
static int try_all(struct trial *t)
{
	uint64_t pfn;
	int code = find_page(t, 0);

	if (code)
		return fail(t, code, "programs can't be tried");
	if (t->skel->bss->page_bytes != KERNEL_PAGE_BYTES || t->skel->bss->mapping_at != 24 ||
		t->skel->bss->index_at != 32)
		return fail(t, -EOPNOTSUPP, "this kernel has another struct page");
	if (t->skel->bss->code)
		return fail(t, -ENOENT, "a file's page is not found in the page cache");
	pfn = frame_of(t, 0);
	if (!pfn)
		return fail(t, -EPERM, "needs CAP_SYS_ADMIN");
	t->found->page_bytes = KERNEL_PAGE_BYTES;
	t->found->vmemmap = t->skel->bss->folio +
		(t->skel->bss->index_in_folio - pfn) * KERNEL_PAGE_BYTES;
	if (find_base(t, pfn))
		return fail(t, -ENOENT, "kernel memory is not at the expected address");
	for (size_t i = 0; i < PAGES; i++) {
		code = find_page(t, i);
		if (code || t->skel->bss->code || !is_at(t, i, place_of(t)))
			return fail(t, -ENOENT, "pages are not where others are");
	}
	return 0;
}

int kernel_pages_find(struct kernel_pages *ret_found, char why[KERNEL_PAGES_WHY])
{
	__cleanup(trial_done) struct trial t = { .fd = -1, .found = ret_found, .why = why };
	const char *said = secure_getenv("FUNCSNOOP_UNWIND");
	int code;

	*ret_found = (struct kernel_pages) {};
	if (said && !strcmp(said, "tables"))
		return fail(&t, -ECANCELED, "switched off by FUNCSNOOP_UNWIND=tables");
#if !defined(__x86_64__)
	return fail(&t, -EOPNOTSUPP, "frames are found by frame pointers here");
#endif
	code = make_file(&t);
	if (code || !t.bytes)
		return fail(&t, code, "no file can be made in memory");
	code = load(&t);
	if (code)
		return fail(&t, code,
			code == -EPERM ? "needs CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN"
				       : "programs can't be loaded");
	return try_all(&t);
}
