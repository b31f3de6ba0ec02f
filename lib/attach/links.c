// SPDX-License-Identifier: BSD-2-Clause
// Attaching the programs, and pinning what they hang on.
#include <sys/resource.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/apart.h"
#include "base/err.h"
#include "internal.h"
#include "base/util.h"
#include "pins/bpffs.h"
#include "shared/maps.h"
#include "funcsnoop.skel.h"

/* --- copies of programs that libbpf has loaded --------------------------------------------- */

/*
 * A program on a trampoline is loaded for one function. The relocated instructions are the same for
 * all functions, so they are kept when libbpf loads the program for the first one. A program can be
 * attached to a tracepoint only once (bpf_prog_array_copy() in kernel/bpf/core.c), so each further
 * probe there also needs a copy.
 */

enum section {
	SECTION_FENTRY,
	SECTION_FEXIT,
	SECTION_TRACE,
	SECTIONS
};

struct original {
	const struct bpf_program *prog;
	struct bpf_prog_load_opts opts; /* its pointers are valid as long as the programs */
};

struct clones {
	uint32_t first_id;
	char first_object[80];
	int first_btf_fd;
	struct original original[SECTIONS];
	int handler[SECTIONS];
	int *copies; /* of the program of tracepoints */
	size_t copy_cnt;
};

static const struct {
	const char *name;
	enum bpf_prog_type prog_type;
	enum bpf_attach_type type;
} sections[SECTIONS] = {
	[SECTION_FENTRY] = { "fsn.fentry", BPF_PROG_TYPE_TRACING, BPF_TRACE_FENTRY },
	[SECTION_FEXIT] = { "fsn.fexit", BPF_PROG_TYPE_TRACING, BPF_TRACE_FEXIT },
	[SECTION_TRACE] = { "fsn.trace", BPF_PROG_TYPE_TRACEPOINT, 0 },
};

/* Global, because libbpf passes only a number to the handler. */
static struct clones *current;

static int on_load(struct bpf_program *prog, struct bpf_prog_load_opts *opts, long section)
{
	struct clones *c = current;

	if (section != SECTION_TRACE) {
		opts->expected_attach_type = sections[section].type;
		opts->attach_btf_id = c->first_id;
		opts->attach_btf_obj_fd = c->first_btf_fd;
	}
	c->original[section] = (struct original) { prog, *opts };
	return 0;
}

/* Gets the BTF of @object: a module as "[module]", or the kernel. */
static int btf_fd_of(const char *object, struct err *err)
{
	char module[80];
	int len = strlen(object), fd;

	if (!strcmp(object, "[kernel]") || len < 3)
		return 0;
	snprintf(module, sizeof(module), "%.*s", len - 2, object + 1);
	fd = kfunc_btf_fd(module);
	if (fd < 0)
		err_sys(err, fd, "cannot open the BTF of module '%s'", module);
	return fd == -EPERM ? caps_hint(fd, CAPS_BIT(CAP_SYS_ADMIN), err) : fd;
}

int clones_new(const struct link_probes *first, bool traces, struct clones **ret_clones,
	struct err *err)
{
	struct clones *c;

	*ret_clones = NULL;
	if (!first && !traces)
		return 0;
	c = xcalloc(1, sizeof(*c));
	*ret_clones = current = c;
	if (first) {
		c->first_id = first->offsets[0];
		snprintf(c->first_object, sizeof(c->first_object), "%s", first->object);
		c->first_btf_fd = btf_fd_of(first->object, err);
		if (c->first_btf_fd < 0)
			return c->first_btf_fd;
	}
	for (long i = 0; i < SECTIONS; i++) {
		LIBBPF_OPTS(libbpf_prog_handler_opts, opts, .cookie = i,
			.prog_prepare_load_fn = on_load);

		if (i == SECTION_TRACE ? !traces : !first)
			continue;
		c->handler[i] = libbpf_register_prog_handler(
			sections[i].name, sections[i].prog_type, sections[i].type, &opts);
		if (c->handler[i] < 0)
			return err_sys(err, c->handler[i], "cannot load programs");
	}
	return 0;
}

void clones_free(struct clones *c)
{
	if (!c)
		return;
	for (int i = 0; i < SECTIONS; i++)
		if (c->handler[i] > 0)
			libbpf_unregister_prog_handler(c->handler[i]);
	if (c->first_btf_fd > 0)
		close(c->first_btf_fd);
	while (c->copy_cnt)
		close(c->copies[--c->copy_cnt]);
	free(c->copies);
	free(c);
}

/* Loads a program again with @opts of its first load. Returns its descriptor, or -errno. */
static int load_again(enum bpf_prog_type type, const struct bpf_program *prog,
	struct bpf_prog_load_opts *opts)
{
	int fd;

	opts->fd_array = NULL; /* no function of a module is called */
	opts->log_level = 0;
	fd = bpf_prog_load(type, bpf_program__name(prog), "GPL", bpf_program__insns(prog),
		bpf_program__insn_cnt(prog), opts);
	return fd < 0 ? -errno : fd;
}

/* Loads another copy of @prog, for function @id of @object. The caller closes *@ret_fd. */
static int clone_load(struct clones *c, const struct bpf_program *prog, const char *object,
	uint32_t id, int *ret_fd, struct err *err)
{
	int section = c->original[SECTION_FENTRY].prog == prog ? SECTION_FENTRY : SECTION_FEXIT;
	struct bpf_prog_load_opts opts = c->original[section].opts;
	int btf_fd, fd;

	if (id == c->first_id && !strcmp(object, c->first_object)) {
		*ret_fd = dup(bpf_program__fd(prog));
		return *ret_fd < 0 ? err_sys(err, -errno, "cannot load programs") : 0;
	}
	btf_fd = btf_fd_of(object, err);
	if (btf_fd < 0)
		return btf_fd;
	opts.attach_btf_id = id;
	opts.attach_btf_obj_fd = btf_fd;
	fd = load_again(BPF_PROG_TYPE_TRACING, prog, &opts);
	if (fd < 0)
		err_sys(err, fd, "cannot load programs for a function of %s", object);
	else
		*ret_fd = fd;
	if (btf_fd > 0)
		close(btf_fd);
	return fd < 0 ? fd : 0;
}

/* --- attaching the programs and pinning their links ---------------------------------------- */

static int pin_link(struct engine *e, int dir_fd, int fd, struct err *err)
{
	char name[32];
	int code;

	snprintf(name, sizeof(name), "link_%zu", e->link_cnt);
	code = bpffs_pin(dir_fd, name, fd, err);
	if (code)
		return code;
	e->link_cnt++;
	return 0;
}

/* Raises the limit of open files as far as possible: each probe needs two with perf links. */
static void raise_files(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim))
		return;
	lim.rlim_cur = lim.rlim_max;
	setrlimit(RLIMIT_NOFILE, &lim);
}

typedef int link_one_fn(struct engine *e, enum engine_prog prog, const struct link_probes *probes,
	size_t i, pid_t pid, int *ret_fd, struct err *err);

/* Attaches the first @cnt of @probes by a link each. */
static int attach_each(struct engine *e, enum engine_prog prog, const struct link_probes *probes,
	size_t cnt, pid_t pid, link_one_fn *link, int dir_fd, engine_progress_fn progress,
	void *arg, struct err *err)
{
	int code = 0;

	raise_files();
	for (size_t i = 0; !code && i < cnt; i++) {
		_cleanup_close_ int fd = -1;

		code = apart_stop() ? err_sys(err, -EINTR, "cannot attach")
				    : link(e, prog, probes, i, pid, &fd, err);
		if (!code)
			code = pin_link(e, dir_fd, fd, err);
		if (!code && progress)
			progress(i + 1, probes->cnt, arg);
	}
	return code;
}

static int one_perf(struct engine *e, enum engine_prog prog, const struct link_probes *probes,
	size_t i, pid_t pid, int *ret_fd, struct err *err)
{
	return link_perf(bpf_program__fd(engine_program(e, prog)), prog == ENGINE_RETURN, probes, i,
		pid, ret_fd, err);
}

/* Links the program of tracepoints, or the first copy of it that is not yet attached to this one. */
static int one_event(struct engine *e, enum engine_prog prog, const struct link_probes *probes,
	size_t i, pid_t pid, int *ret_fd, struct err *err)
{
	const struct bpf_program *original = engine_program(e, prog);
	struct clones *c = e->clones;
	struct bpf_prog_load_opts opts = c->original[SECTION_TRACE].opts;
	int fd = bpf_program__fd(original);
	int code = link_event(fd, probes->offsets[i], probes->cookies[i], ret_fd, err);

	for (size_t n = 0; code == -EEXIST; n++) {
		if (n == c->copy_cnt) {
			fd = load_again(BPF_PROG_TYPE_TRACEPOINT, original, &opts);
			if (fd < 0)
				return err_sys(err, fd, "cannot load programs for a tracepoint");
			*array_add(c->copies, c->copy_cnt) = fd;
		}
		code = link_event(
			c->copies[n], probes->offsets[i], probes->cookies[i], ret_fd, err);
	}
	return code;
}

/* Each function has its own program. */
static int one_fentry(struct engine *e, enum engine_prog prog, const struct link_probes *probes,
	size_t i, pid_t pid, int *ret_fd, struct err *err)
{
	_cleanup_close_ int prog_fd = -1;
	int code = clone_load(e->clones, engine_program(e, prog), probes->object,
		probes->offsets[i], &prog_fd, err);

	return code ? code
		    : link_fentry(prog_fd, prog == ENGINE_FEXIT, probes->cookies[i], ret_fd, err);
}

static int one_kprobe(struct engine *e, enum engine_prog prog, const struct link_probes *probes,
	size_t i, pid_t pid, int *ret_fd, struct err *err)
{
	int fd = bpf_program__fd(engine_program(e, prog));
	bool is_return = prog == ENGINE_KRETURN;

	return e->many_kprobes ? link_kprobes(fd, is_return, probes, ret_fd, err)
			       : link_kprobe(fd, is_return, probes, i, ret_fd, err);
}

static int attach_traced(
	struct engine *e, const struct bpf_program *prog, int dir_fd, struct err *err)
{
	_cleanup_close_ int fd = bpf_raw_tracepoint_open(NULL, bpf_program__fd(prog));

	if (fd < 0)
		return err_sys(err, -errno, "cannot attach");
	return pin_link(e, dir_fd, fd, err);
}

/* Attaches those of @progs that are loaded. */
static int attach_loaded(struct engine *e, struct bpf_program *const *progs, size_t cnt,
	int dir_fd, struct err *err)
{
	int code = 0;

	for (size_t i = 0; !code && i < cnt; i++)
		if (bpf_program__fd(progs[i]) >= 0)
			code = attach_traced(e, progs[i], dir_fd, err);
	return code;
}

/* Entry and return programs use the same table of system calls. */
static int attach_calls(struct engine *e, enum engine_prog prog,
	const struct link_probes *probes, int dir_fd, struct err *err)
{
	int prog_fd = bpf_program__fd(engine_program(e, prog));
	_cleanup_close_ int fd = -1;

	for (size_t i = 0; i < probes->cnt; i++) {
		uint32_t number = probes->offsets[i], target = probes->cookies[i];

		if (bpf_map_update_elem(bpf_map__fd(e->skel->maps.fsn_syscalls), &number,
			    &target, 0))
			return err_sys(err, -errno, "cannot write the table of system calls");
	}
	if (e->preempted) {
		int code = link_tracepoint(prog_fd, "raw_syscalls",
			prog == ENGINE_SYS_EXIT ? "sys_exit" : "sys_enter", &fd, err);

		return code ? code : pin_link(e, dir_fd, fd, err);
	}
	return attach_traced(e, engine_program(e, prog), dir_fd, err);
}

/* The same programs trace all kinds of waits. */
static int attach_waits(struct engine *e, int dir_fd, struct err *err)
{
	struct bpf_program *const progs[] = { e->skel->progs.fsn_switch,
		e->skel->progs.fsn_wakes, e->skel->progs.fsn_wakeup, e->skel->progs.fsn_wakeup_new };

	return attach_loaded(e, progs, ARRAY_SIZE(progs), dir_fd, err);
}

/* Opens one perf event on each CPU. */
static int attach_samples(
	struct engine *e, const struct link_probes *probes, int dir_fd, struct err *err)
{
	int prog_fd = bpf_program__fd(engine_program(e, ENGINE_SAMPLE)), code = 0;
	long cpus = sysconf(_SC_NPROCESSORS_CONF);

	for (int cpu = 0; !code && cpu < cpus; cpu++) {
		_cleanup_close_ int fd = -1;

		code = link_sample(prog_fd, cpu, e->rate, probes->cookies[0], &fd, err);
		if (code == -ENODEV) /* the CPU is offline */
			code = 0;
		else if (!code)
			code = pin_link(e, dir_fd, fd, err);
		e->sampled_cpus += fd >= 0;
	}
	return code ? code : attach_traced(e, e->skel->progs.fsn_cpu_off, dir_fd, err);
}

/* Attaches to the page faults of process @pid and its children. */
static int attach_faults(struct engine *e, pid_t pid, int dir_fd, struct err *err)
{
	_cleanup_close_ int fd = -1;
	int code = link_faults(
		bpf_program__fd(engine_program(e, ENGINE_SAMPLE)), pid, &fd, err);

	return code ? code : pin_link(e, dir_fd, fd, err);
}

int engine_link(struct engine *e, enum engine_prog prog, const struct link_probes *probes,
	pid_t pid, int *ret_fd, struct err *err)
{
	bool session = prog == ENGINE_SESSION, is_return = prog == ENGINE_RETURN;

	if (apart_stop())
		return err_sys(err, -EINTR, "cannot attach");
	return link_multi(bpf_program__fd(engine_program(e, prog)),
		session ? LINK_TYPE_UPROBE_SESSION : LINK_TYPE_UPROBE_MULTI, is_return,
		probes, pid, ret_fd, err);
}

int engine_attach(struct engine *e, enum engine_prog prog,
	const struct link_probes *probes, pid_t pid, int dir_fd,
	engine_progress_fn progress, void *arg, struct err *err)
{
	link_one_fn *one = 1U << prog & FENTRY ? one_fentry
		: 1U << prog & KPROBES         ? one_kprobe
		: prog == ENGINE_TRACE         ? one_event
		: e->mode == LINK_PERF         ? one_perf
					       : NULL;
	_cleanup_close_ int fd = -1;
	int code;

	if (!probes->cnt)
		return 0;
	if (engine_prog_traces(prog))
		return attach_calls(e, prog, probes, dir_fd, err);
	if (prog == ENGINE_SAMPLE && e->holds)
		return attach_faults(e, pid, dir_fd, err);
	if (prog == ENGINE_SAMPLE)
		return attach_samples(e, probes, dir_fd, err);
	if (prog == ENGINE_WAIT)
		return attach_waits(e, dir_fd, err);
	if (one)
		return attach_each(e, prog, probes,
			one == one_kprobe && e->many_kprobes ? 1 : probes->cnt, pid, one, dir_fd,
			progress, arg, err);
	code = engine_link(e, prog, probes, pid, &fd, err);
	return code ? code : pin_link(e, dir_fd, fd, err);
}

/*
 * Adds processes of list @from_fd that are missing in that of @e. Returns their number or -errno.
 */
static int copy_pids(struct engine *e, int from_fd)
{
	int fd = engine_map_fd(e, MAPID_PIDS), cnt = 0;
	uint32_t pid, value;

	map_foreach(from_fd, &pid) {
		if (pid == FSN_PID_NONE || !bpf_map_lookup_elem(fd, &pid, &value))
			continue;
		value = 0;
		if (bpf_map_update_elem(fd, &pid, &value, BPF_ANY))
			return -errno;
		cnt++;
		/* If it has exited meanwhile, it was removed only from the other list. */
		if (bpf_map_lookup_elem(from_fd, &pid, &value))
			bpf_map_delete_elem(fd, &pid);
	}
	return cnt;
}

/*
 * Repeats until none is missing, because children of a process not yet copied are added only there.
 */
static int take_over(struct engine *e, int from_fd, struct err *err)
{
	int cnt;

	do
		cnt = copy_pids(e, from_fd);
	while (cnt > 0);
	e->filters |= FSN_FILTER_PID;
	return cnt ? err_sys(err, cnt, "cannot follow children") : 0;
}

int engine_reclaim(struct engine *e, int dir_fd, struct err *err)
{
	struct bpf_program *const progs[] = { e->skel->progs.fsn_heap_exit,
		e->skel->progs.fsn_heap_exec };

	return attach_loaded(e, progs, ARRAY_SIZE(progs), dir_fd, err);
}

int engine_follow(struct engine *e, int from_fd, int dir_fd, struct err *err)
{
	struct bpf_program *const pausing[] = { e->skel->progs.fsn_signal,
		e->skel->progs.fsn_pause };
	/* The exit program first: the fork program adds processes that it must remove. */
	struct bpf_program *const progs[] = { e->skel->progs.fsn_exit,
		e->skel->progs.fsn_fork };
	uint32_t none = FSN_PID_NONE, lost = 0;
	int code = attach_loaded(e, pausing, ARRAY_SIZE(pausing), dir_fd, err);

	if (code || !e->children)
		return code;
	if (bpf_map_update_elem(engine_map_fd(e, MAPID_PIDS), &none, &lost, 0))
		return err_sys(err, -errno, "cannot follow children");
	code = attach_loaded(e, progs, ARRAY_SIZE(progs), dir_fd, err);
	return !code && from_fd > 0 ? take_over(e, from_fd, err) : code;
}

int engine_watch(struct engine *e, int dir_fd, struct err *err)
{
	struct bpf_program *const progs[] = { e->skel->progs.fsn_crash_signal,
		e->skel->progs.fsn_crash_exit, e->skel->progs.fsn_sleep,
		e->skel->progs.fsn_waking, e->skel->progs.fsn_interrupt,
		e->skel->progs.fsn_gpu_signal };

	return attach_loaded(e, progs, ARRAY_SIZE(progs), dir_fd, err);
}

/* --- the record of probe offsets ------------------------------------------------------------- */

DEFINE_ORDER(compare_offsets, uint64_t, (*x > *y) - (*x < *y))

static void add_offsets(uint64_t *offsets, size_t *cnt, const struct probe_list *list)
{
	for (size_t i = 0; i < list->probes.cnt; i++)
		offsets[(*cnt)++] = list->offsets[i];
}

/* Lists the probe offsets in library @lib without duplicates: two programs may share one. */
static void offsets_of(const struct probes *probes, size_t lib, size_t lib_cnt,
	uint64_t **ret_offsets, size_t *ret_cnt)
{
	uint64_t *offsets = xcalloc(probes->total + 1, sizeof(*offsets));
	size_t cnt = 0, kept = 0;

	for (size_t i = lib; i < probes->list_cnt; i += lib_cnt)
		add_offsets(offsets, &cnt, &probes->lists[i]);
	for (size_t i = 0; i < probes->place_cnt; i++)
		if (probes->places[i].object == lib) {
			add_offsets(offsets, &cnt, &probes->places[i].ends);
			add_offsets(offsets, &cnt, &probes->places[i].entry);
		}
	qsort(offsets, cnt, sizeof(*offsets), compare_offsets);
	for (size_t i = 0; i < cnt; i++)
		if (!kept || offsets[kept - 1] != offsets[i])
			offsets[kept++] = offsets[i];
	*ret_offsets = offsets;
	*ret_cnt = kept;
}

int description_breaks(const struct probes *p, const struct draft *draft, int dir_fd,
	struct err *err)
{
	_cleanup_free_ struct breaks_file *files = xcalloc(draft->objects.cnt + 1, sizeof(*files));
	size_t file_cnt = 0;
	int code;

	for (size_t i = 0; i < draft->objects.cnt; i++) {
		const struct object *object = draft->objects.object[i];
		const struct elf_info *info = object_file(object);
		uint64_t *offsets = NULL;
		size_t cnt = 0;

		if (!info)
			continue;
		offsets_of(p, i, draft->objects.cnt, &offsets, &cnt);
		files[file_cnt++] = (struct breaks_file) { info->dev, info->ino, info->size,
			info->ctime_ns, info->overlay, object->path, offsets, cnt };
	}
	code = breaks_write(files, file_cnt, dir_fd, err);
	for (size_t i = 0; i < file_cnt; i++)
		free((void *)files[i].offsets);
	return code;
}
