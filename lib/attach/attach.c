// SPDX-License-Identifier: BSD-2-Clause
// From a draft to pinned links: ends first, then entries, then the switch, then the name.
#include <fcntl.h>
#include <sys/stat.h>

#include "attach/attach.h"
#include "base/apart.h"
#include "base/file.h"
#include "base/util.h"
#include "elf/elf_file.h"
#include "group/records.h"
#include "internal.h"
#include "proc/proc.h"

/* --- functions that two groups probe: the overhead of each is in the times of the other ---- */

/* The files of a draft's targets, by the draft's object numbers, in the form that groups store. */
struct places {
	const struct draft *draft;
	struct object_id *ids;
};

/*
 * True if @lib is object @object. Objects that are not files have no ids; their kinds must match.
 */
static bool is_same_object(const struct fsn_lib *lib, const struct places *p, uint32_t object)
{
	return lib->dev == p->ids[object].dev && lib->ino == p->ids[object].ino;
}

DEFINE_ORDER(compare_sites, struct fsn_func, RISING(site_offset))

/* @sorted: the functions of @g, sorted by the offset of their entry probe. */
static bool is_probed_by(const struct group *g, const struct fsn_func *sorted,
	const struct places *p, const struct target *f)
{
	const struct fsn_func key = { .site_offset = f->site_offset };
	const struct fsn_func *end = sorted + g->meta.fn_cnt,
			      *at = bsearch(&key, sorted, g->meta.fn_cnt, sizeof(*sorted),
				      compare_sites);

	while (at && at > sorted && at[-1].site_offset == f->site_offset)
		at--;
	for (; at && at < end && at->site_offset == f->site_offset; at++)
		if (at->kind == f->kind->number &&
			is_same_object(&g->libs[at->lib], p, f->object_index))
			return true;
	return false;
}

static bool has_object_of(const struct group *g, const struct places *p)
{
	for (uint32_t lib = 0; lib < g->meta.lib_cnt; lib++)
		for (size_t i = 0; i < p->draft->objects.cnt; i++)
			if (is_same_object(&g->libs[lib], p, i))
				return true;
	return false;
}

static size_t count_shared(const struct bpffs *fs, const char *name, const struct places *p)
{
	const struct draft *draft = p->draft;
	_cleanup_free_ struct fsn_func *sorted = NULL;
	_cleanup_group_ struct group *g = NULL;
	size_t cnt = 0;

	if (group_open(fs, name, false, &g, NULL) || !has_object_of(g, p))
		return 0;
	sorted = xcalloc(g->meta.fn_cnt, sizeof(*sorted));
	memcpy(sorted, g->funcs, g->meta.fn_cnt * sizeof(*sorted));
	qsort(sorted, g->meta.fn_cnt, sizeof(*sorted), compare_sites);
	for (size_t i = 0; i < draft->probed_cnt; i++)
		cnt += !draft->targets[i].kind->is_wait && is_probed_by(g, sorted, p, &draft->targets[i]);
	return cnt;
}

/* Stores in @report the group that probes the most functions of @draft. */
static void find_shared(const struct bpffs *fs, const struct draft *draft, struct attach_report *report)
{
	_cleanup_free_ struct object_id *ids = xcalloc(draft->objects.cnt + 1, sizeof(*ids));
	const struct places places = { draft, ids };
	_cleanup_names_ char **names = NULL;
	size_t name_cnt = 0;

	report->shared_cnt = 0;
	for (size_t i = 0; i < draft->objects.cnt; i++)
		if (object_identify(draft->objects.object[i], &ids[i], NULL))
			return;
	if (bpffs_groups(fs, &names, &name_cnt, NULL))
		return;
	for (char **name = names; name < names + name_cnt; name++) {
		size_t cnt = strcmp(*name, draft->name) ? count_shared(fs, *name, &places) : 0;

		if (cnt <= report->shared_cnt)
			continue;
		report->shared_cnt = cnt;
		snprintf(report->shared_group, sizeof(report->shared_group), "%s", *name);
	}
}

/* --- from a draft to pinned links: exit probes, entry probes, engine_arm(), then the name ----- */

static int choose_mode(enum link_mode asked, enum link_mode *ret_mode, struct err *err)
{
	int code;

	if (asked == LINK_AUTO)
		return link_mode_best(ret_mode, err);
	code = link_mode_probe(asked);
	if (code == -EPERM) {
		err_sys(err, code, "cannot load programs into the kernel");
		return caps_hint(code, CAPS_ATTACH, err);
	}
	if (code) {
		err_set(err, -EOPNOTSUPP, "this kernel has no %s links", link_mode_name(asked));
		return err_hint(err, "leave out --probe link to use the best links that it has");
	}
	*ret_mode = asked;
	return 0;
}

int attach_check_absent(const struct bpffs *fs, const char *name, struct err *err)
{
	_cleanup_close_ int fd = -1;

	if (bpffs_open_group(fs, name, &fd, NULL))
		return 0;
	err_set(err, -EEXIST, "group '%s' is already attached", name);
	return err_hint(err,
		"use --replace to replace it, or --name NAME to attach under another name");
}

#define LINK_PIDS_MAX 16 /* above that, one link for all and the filter in the program */

/* True if the main thread of @pid has exited while others run. */
static bool main_thread_ended(pid_t pid)
{
	pid_t tid = proc_thread("/proc", pid);

	return tid && tid != pid;
}

/* True if @elf imports these functions of the C library, or may have them linked in statically. */
static bool ends_threads(struct elf_file *elf)
{
	static const char *const names[] = { "pthread_exit", "thrd_exit" };
	const struct elf_info *info = elf_file_info(elf);
	const struct elf_func *funcs;
	size_t cnt;

	if (elf_file_funcs(elf, &funcs, &cnt, NULL))
		return false;
	if (info->executable && !info->go && !elf_file_names_known(elf))
		return true;
	return ANY_WHERE(ARRAY_SIZE(names), i,
		elf_file_imports(elf, names[i], strlen(names[i])) ||
		(info->executable && elf_file_names_symbol(elf, names[i], NULL) > 0));
}

static bool mapping_ends_threads(pid_t pid, const struct proc_map *map)
{
	_cleanup_elf_file_ struct elf_file *elf = NULL;
	int fd = proc_open_mapped("/proc", pid, map, NULL);

	return fd >= 0 && !elf_file_open_fd(fd, map->path, -1, NULL, &elf, NULL) &&
		ends_threads(elf);
}

/*
 * True if the main thread has exited or may exit before the process does, because a file that the
 * process maps may call pthread_exit(3) or thrd_exit(3). Libraries that the process opens later and
 * raw system calls are not detected.
 */
static bool main_thread_may_end(struct procs *procs, pid_t pid)
{
	const struct proc_maps *maps;

	if (main_thread_ended(pid))
		return true;
	if (procs_maps(procs, pid, &maps, NULL))
		return false;
	return ANY_WHERE(maps->cnt, i, maps->maps[i].exec &&
		mapping_ends_threads(pid, &maps->maps[i]));
}

/*
 * The kernel filters by the mm of the process's main thread. After that thread has exited, a new
 * link matches no process. A perf event link, which compares the mm at every hit, stops matching
 * (uprobe_perf_filter, kernel/trace/trace_uprobe.c).
 */
static bool is_known_by_pid(const struct draft *draft, const struct attach_opts *opts,
	pid_t pid, enum link_mode mode)
{
	if (opts->unborn) /* what it will map is not known */
		return mode != LINK_PERF;
	return mode == LINK_PERF ? !main_thread_may_end(libfind_procs(draft->finder), pid)
				 : !main_thread_ended(pid);
}

/*
 * True if each process of the filter gets links of its own, so that other processes have no
 * breakpoints. The BPF programs still check the filter, because a forked child inherits
 * breakpoints. Tracing children needs links for all processes, because the kernel's filter excludes
 * children.
 */
bool attach_links_by_pid(
	const struct draft *draft, const struct attach_opts *opts, enum link_mode mode)
{
	size_t cnt = opts->filter.pid_cnt;

	if (!draft_has_files(draft) || !cnt || opts->children || cnt > LINK_PIDS_MAX ||
		(mode != LINK_PERF && !link_multi_pid_works()))
		return false;
	return ALL_WHERE(cnt, i, is_known_by_pid(draft, opts, opts->filter.pids[i], mode));
}

static size_t link_cnt(const struct attach_opts *opts, bool by_pid)
{
	return by_pid ? opts->filter.pid_cnt : 1;
}

/*
 * Only root calibrates: others cannot cache the result, so each of their attaches would repeat it.
 */
static void find_price(const struct draft *draft, struct bpffs *fs, enum link_mode mode,
	struct price *ret_price)
{
	struct calibration c = {};
	bool calls = false;
	struct err err;

	for (size_t i = 0; i < draft->probed_cnt; i++)
		calls |= draft->targets[i].kind->priced_by == PRICED_AS_SYSCALL;
	if (draft_has_files(draft) && !calibration_read(mode, &c) && geteuid() == 0 &&
		calibrate(fs, mode, &c, &err))
		c.price.at_ns = 0;
	if (calls && !calibration_read_calls(&c.price) && geteuid() == 0)
		(void)!calibrate_calls(fs, &c.price, &err);
	*ret_price = c.price;
}

/* Returns the login UID, which sudo does not change, or the real UID if there is none. */
static uid_t login_uid(void)
{
	int64_t uid;

	if (!file_read_number("/proc/self/loginuid", &uid) && uid != (uid_t)-1)
		return (uid_t)uid;
	return getuid();
}

static void fill_meta(struct fsn_meta *meta, const struct draft *draft,
	const struct attach_opts *opts, const struct engine *e, bool by_pid)
{
	meta->layout = FSN_LAYOUT;
	meta->links = e->links;
	meta->attached_ns = clock_ns(CLOCK_REALTIME);
	meta->fn_cnt = draft->probed_cnt;
	meta->timed_cnt = draft->timed_cnt;
	meta->lib_cnt = draft->objects.cnt;
	meta->stat_shards = e->stat_shards;
	meta->hist_shards = e->hist_shards;
	meta->path_shards = e->path_shards;
	meta->path_cnt = e->path_cnt;
	meta->block_sets = e->block_sets;
	meta->sample = opts->sample;
	meta->budget = opts->budget.share;
	meta->tried_ns = opts->budget.tried_ns;
	meta->tried_cost_ns = opts->budget.cost_ns;
	meta->options = (opts->processes ? FSN_OPT_PROCESSES : 0) |
			(by_pid ? FSN_OPT_LINK_PID : 0) | (opts->raw ? FSN_OPT_RAW : 0) |
			(opts->nesting ? FSN_OPT_NESTING : 0) |
			(opts->split ? FSN_OPT_SPLIT : 0) |
			(opts->holds ? FSN_OPT_HOLDS : 0) | (opts->kept ? FSN_OPT_KEPT : 0);
	meta->uid = login_uid();
	meta->sampled_cpus = e->sampled_cpus;
	meta->duty = draft->duty;
	meta->pid = getppid(); /* the command: this runs in its helper process */
	for (int i = 0; i < MAPID_CNT; i++)
		meta->map_id[i] = map_number(engine_map_fd(e, i));
	snprintf(meta->name, sizeof(meta->name), "%s", draft->name);
	snprintf(meta->version, sizeof(meta->version), "%s", FUNCSNOOP_VERSION);
}

struct progress {
	const struct attach_opts *opts;
	const char *what;
	size_t before, total;
};

static void on_progress(size_t done, size_t total, void *arg)
{
	const struct progress *p = arg;

	if (p->opts->progress && !apart_stop())
		p->opts->progress(p->what, "probes", p->before + done, p->total ? p->total : total,
			p->opts->progress_arg);
}

/* Attaches one list of probes, either for all processes or for each process of the filter. */
static int attach_list(struct engine *e, const struct probe_list *list,
	const struct attach_opts *opts, bool by_pid, int dir_fd, struct progress *progress,
	struct err *err)
{
	bool each = by_pid || opts->holds;
	size_t cnt = engine_prog_traces(list->prog) || engine_prog_is_kfunc(list->prog) ||
				list->prog == ENGINE_TRACE || list->prog == ENGINE_WAIT ||
				(list->prog == ENGINE_SAMPLE && !opts->holds)
			     ? 1
			     : link_cnt(opts, each);

	for (size_t i = 0; i < cnt; i++) {
		pid_t pid = each ? opts->filter.pids[i] : 0;
		int code = engine_attach(e, list->prog, &list->probes, pid, dir_fd,
			on_progress, progress, err);

		if (code == -ESRCH && by_pid)
			err_set(err, code, "there is no process %d", pid);
		if (code)
			return by_pid ? code : err_wrap(err, "%s", list->path);
		progress->before += list->probes.cnt;
	}
	return 0;
}

static int attach_place(struct engine *e, const struct probes *probes, size_t i,
	const struct attach_opts *opts, bool by_pid, int dir_fd, struct progress *progress,
	struct err *err)
{
	const struct place_probes *place = &probes->places[i];
	uint32_t first = e->link_cnt;
	int code = attach_list(e, &place->ends, opts, by_pid, dir_fd, progress, err);

	if (!code)
		code = attach_list(e, &place->entry, opts, by_pid, dir_fd, progress, err);
	return code ? code : engine_set_place(e, i, place->leader, first, err);
}

static int attach_all(struct engine *e, const struct probes *probes,
	const struct attach_opts *opts, bool by_pid, int dir_fd, struct err *err)
{
	struct progress progress = { opts, "attached", 0,
		probes->total * link_cnt(opts, by_pid) };
	int code = 0;

	for (size_t i = 0; !code && i < probes->jump_cnt; i++)
		code = engine_set_jump(e, i, &probes->jumps[i], err);
	if (!code)
		code = engine_set_sources(e, probes->sources, probes->source_cnt, err);
	for (size_t i = 0; !code && i < probes->place_cnt; i++)
		code = attach_place(e, probes, i, opts, by_pid, dir_fd, &progress, err);
	/* In the order of enum engine_prog: an end is watched before a call can begin. */
	for (size_t i = 0; !code && i < probes->list_cnt; i++)
		code = attach_list(e, &probes->lists[i], opts, by_pid, dir_fd, &progress, err);
	return code;
}

static void choose_waits(const struct probe_list *list, uint32_t waits[WAIT_CNT])
{
	for (size_t i = 0; i < list->probes.cnt; i++)
		waits[list->offsets[i]] = 1 + (list->cookies[i] & FSN_COOKIE_FN_MASK);
}

static bool has_offset(const struct probe_list *list, unsigned long offset)
{
	return ANY_WHERE(list->probes.cnt, i, list->offsets[i] == offset);
}

/* The kernel says it of each in text; who lists a thousand groups would read it of all of them. */
static uint64_t maps_memory(const struct engine *e, bool grow)
{
	uint64_t sum = 0;

	for (int i = 0; i < MAPID_CNT; i++) {
		uint64_t bytes = map_memory(engine_map_fd(e, i));

		if (!bytes)
			return 0;
		if (map_grows(i) == grow)
			sum += bytes;
	}
	return sum;
}

/* Replaces attaching: attach_bare(). */
struct bare {
	attach_work_fn work;
	void *arg;
};

/* Chooses the BPF programs of @probes, and what they need for kinds of probes. */
static void spec_programs(
	struct engine_spec *spec, const struct draft *draft, const struct probes *probes)
{
	for (size_t i = 0; i < probes->list_cnt; i++) {
		const struct probe_list *list = &probes->lists[i];

		if (!list->probes.cnt)
			continue;
		if (list->prog == ENGINE_WAIT)
			choose_waits(list, spec->waits);
		if (list->prog == ENGINE_SYS_ENTER)
			spec->futex_waits = has_offset(list, FSN_FUTEX_WAIT);
		if (list->prog == ENGINE_FENTRY)
			spec->clone_first = &list->probes;
		spec->progs |= 1U << list->prog;
	}
	if (probes->place_cnt)
		spec->progs |= 1U << ENGINE_END | 1U << ENGINE_ENTRY;
	spec->traces_calls = spec->progs & (1U << ENGINE_SYS_ENTER);
	for (size_t i = 0; i < draft->probed_cnt; i++)
		spec->samples |= draft->targets[i].limit == LIMIT_SAMPLED;
}

/* Returns what the BPF programs and maps of the group need. */
static struct engine_spec spec_of(const struct draft *draft, const struct attach_opts *opts,
	enum link_mode mode, const struct price *price, const struct description *desc,
	const struct probes *probes)
{
	enum kind_stacks stacks = draft->targets[0].kind->stacks;
	/*
	 * Sampled threads are not stopped: they may be in system calls that a stop would interrupt.
	 */
	bool stack_holds = opts->stack_cnt && opts->unborn && opts->kept &&
		stacks == STACKS_OF_CALLS;
	struct engine_spec spec = {
		.draft = draft,
		.opts = opts,
		.desc = desc,
		.probes = probes,
		.mode = mode,
		.rate = opts->rate ? opts->rate : RATE_USUAL,
		.runs_bits = opts->runs_bits ? opts->runs_bits : FSN_RUNS_BITS,
		.bound = desc->sheds && !guard_is_off() ? opts->budget.share : 0,
		.hit_ns = opts->raw ? 0 : price->whole_ns[PRICE_EMULATED][PRICE_COUNT],
		.step_ns = opts->raw ? 0 : price->whole_ns[PRICE_STEPPED][PRICE_COUNT],
		.stacks = stacks,
		.python = opts->stack_cnt && (opts->stacks_python || stacks == STACKS_OF_THREADS),
		.stack_holds = stack_holds,
		.pauses = opts->holds || opts->held || stack_holds,
	};

	spec_programs(&spec, draft, probes);
	return spec;
}

/* Makes the group in its stage directory @dir_fd: counting, but without a name yet. */
static int build(const struct draft *draft, const struct attach_opts *opts,
	const struct price *price, const struct bare *bare, int dir_fd,
	struct attach_report *ret_report, struct err *err)
{
	__cleanup(description_done) struct description desc = {};
	__cleanup(probes_done) struct probes probes = {};
	_cleanup_engine_ struct engine *e = NULL;
	struct fsn_meta meta = {};
	enum link_mode mode = LINK_AUTO;
	struct engine_spec spec;
	struct filter filter = opts->filter;
	bool by_pid;
	int code;

	code = choose_mode(opts->link, &mode, err);
	if (!code)
		code = description_new(draft, opts, opts->raw ? NULL : price, mode, &desc, err);
	if (!code)
		code = probes_new(draft, mode, &probes, err);
	for (size_t i = 0; !code && i < draft->objects.cnt; i++)
		code = object_check(draft->objects.object[i], err);
	if (code)
		return code;
	spec = spec_of(draft, opts, mode, price, &desc, &probes);
	/* Groups of samples and waits record nothing. */
	spec.crashes = !bare && !opts->holds &&
		!(spec.progs & (1U << ENGINE_SAMPLE | 1U << ENGINE_WAIT));
	by_pid = attach_links_by_pid(draft, opts, mode);
	if (opts->pids_fd > 0)
		filter.pid_cnt = 0;
	code = engine_new(&spec, &e, err);
	if (!code)
		code = engine_set_filter(e, &filter, opts->condition != NULL, err);
	if (!code)
		code = stacks_prepare(e, draft, opts, &ret_report->no_tables, err);
	if (!code)
		code = description_breaks(&probes, draft, dir_fd, err);
	if (!code)
		code = engine_reclaim(e, dir_fd, err);
	if (!code && bare)
		return bare->work(e, &probes, by_pid, bare->arg, err);
	if (!code)
		code = attach_all(e, &probes, opts, by_pid, dir_fd, err);
	if (!code)
		code = engine_watch(e, dir_fd, err);
	/*
	 * Last, so that a group's own program on a process exit tracepoint runs before the one that
	 * removes the process from the filter.
	 */
	if (!code)
		code = engine_follow(e, opts->pids_fd, dir_fd, err);
	if (code)
		return code;
	fill_meta(&meta, draft, opts, e, by_pid);
	meta.price = *price;
	meta.definition = opts->definition;
	meta.memory_bytes = maps_memory(e, false);
	engine_set_grown(e, maps_memory(e, true));
	code = description_write(&desc, draft, opts, e, &meta, err);
	if (!code)
		code = engine_pin_maps(e, dir_fd, err);
	if (code)
		return code;
	ret_report->until_ns =
		opts->for_ns ? clock_ns(CLOCK_MONOTONIC) + opts->for_ns : 0;
	if (opts->unborn && opts->filter.pid_cnt == 1)
		engine_set_held(e, opts->filter.pids[0]);
	engine_arm(e, meta.attached_ns, ret_report->until_ns, desc.save_args);
	ret_report->links = meta.links;
	ret_report->price = *price;
	return 0;
}

int attach_choose_link(struct attach_opts *opts, struct err *err)
{
	return choose_mode(opts->link, &opts->link, err);
}

/* --- publishing ------------------------------------------------------------------------------ */

static int grant_maps(int dir_fd, const struct access *access)
{
	for (int i = 0; i < MAPID_CNT; i++) {
		const char *name = map_pin_name(i);
		mode_t mode = access->mode;

		if (!access->all && !map_is_counter(i))
			mode &= ~(S_IRGRP | S_IROTH);
		if (fchownat(dir_fd, name, access->uid, access->gid,
			    AT_SYMLINK_NOFOLLOW) ||
			fchmodat(dir_fd, name, mode, 0))
			return -errno;
	}
	return 0;
}

/*
 * The group of the directory is the first one that got access. If another group or a single user
 * gets access, all users can list the names of groups, but read nothing else.
 */
static int open_folder(int fd, const struct access *access)
{
	bool others = access_is_for_others(access), mine;
	struct stat st;
	mode_t mode;

	if (fstat(fd, &st))
		return -errno;
	mine = access->gid == (gid_t)-1 || access->gid == st.st_gid;
	if (!others && !mine && (st.st_mode & S_IRWXG) == 0) {
		if (fchown(fd, -1, access->gid))
			return -errno;
		mine = true;
	}
	mode = (st.st_mode & 07777) | S_IRGRP | S_IXGRP;
	if (others || !mine)
		mode |= S_IROTH | S_IXOTH;
	return mode != (st.st_mode & 07777) && fchmod(fd, mode) ? -errno : 0;
}

/*
 * Makes a group readable: the staged directory @dir_fd, its maps of counters (with .all every map),
 * and @fs, the directory of all groups. Directories and links keep their owner, and no other user
 * can write. Returns 0, or -EPERM if the caller cannot change the owner of the maps.
 */
static int grant_access(
	const struct bpffs *fs, int dir_fd, const struct access *access, struct err *err)
{
	int code;

	if (access_is_private(access))
		return 0;
	code = grant_maps(dir_fd, access);
	if (!code && access->uid != (uid_t)-1)
		code = bpffs_give_lock(dir_fd, access->uid);
	if (!code)
		code = open_folder(dir_fd, access);
	if (!code)
		code = open_folder(fs->fd, access);
	if (!code)
		return 0;
	err_sys(err, code, "cannot give others access");
	if (code == -EPERM)
		err_hint(err,
			"--share with an owner other than yourself and your groups needs CAP_CHOWN");
	return code;
}

struct making {
	const struct draft *draft;
	const struct attach_opts *opts;
	const struct price *price;
	struct bpffs *fs;
	int dir_fd;
	struct attach_report report;
	struct err err;
};

/*
 * Runs in the helper process, because a process that is killed while it creates a link leaves
 * orphaned breakpoints. If the command is killed, the group is either complete or absent.
 */
static void make_group(void *arg)
{
	struct making *m = arg;
	struct progress removing = { .opts = m->opts, .what = "detached" };
	struct err err = {};
	int code = build(m->draft, m->opts, m->price, NULL, m->dir_fd, &m->report, &err);

	if (!code)
		code = grant_access(m->fs, m->dir_fd, &m->opts->access, &err);
	if (!code && apart_stop())
		code = err_sys(&err, -EINTR, "cannot attach");
	if (!code)
		code = bpffs_publish(m->fs, m->draft->name, m->opts->replace, &err);
	m->err = err;
	/* The staging directory now has the failed or the replaced group. */
	if (code || m->opts->replace)
		bpffs_remove(m->fs, m->draft->name, on_progress, &removing, NULL);
	bpffs_leave(m->fs);
}

int attach_draft(const struct draft *draft, const struct attach_opts *opts, struct bpffs *fs,
	struct attach_report *ret_report, struct err *err)
{
	_cleanup_close_ int dir_fd = -1;
	enum link_mode mode = LINK_AUTO;
	struct price price = {};
	struct making *m;
	int code;

	code = bpffs_lock(fs, err);
	if (!code && !opts->replace)
		code = attach_check_absent(fs, draft->name, err);
	if (!code)
		code = choose_mode(opts->link, &mode, err);
	if (code)
		return code;
	find_price(draft, fs, mode, &price);
	code = bpffs_stage(fs, draft->name, &dir_fd, err);
	if (code)
		return code;
	m = apart_alloc(sizeof(*m));
	*m = (struct making) { draft, opts, &price, fs, dir_fd, {}, {} };
	err_sys(&m->err, -EINTR, "cannot attach"); /* until it is known better */
	apart_run(make_group, m, opts->tick, opts->tick_arg);
	code = m->err.code;
	if (code)
		*err = m->err;
	else
		*ret_report = m->report;
	if (!code)
		find_shared(fs, draft, ret_report);
	apart_free(m, sizeof(*m));
	if (code) /* what is still there was left by a child that was killed */
		bpffs_remove_dead(fs, draft->name);
	return code;
}

/*
 * Makes a group without a name, with @bare instead of links or with @measure after them, and
 * removes
 * it.
 */
static int make_nameless(const struct draft *draft, const struct attach_opts *opts, struct bpffs *fs,
	const struct bare *bare, int (*measure)(int dir_fd, void *arg), void *arg, struct err *err)
{
	_cleanup_close_ int dir_fd = -1;
	const struct price unknown = {};
	struct attach_report report = {};
	int code;

	code = bpffs_lock(fs, err);
	if (!code)
		code = bpffs_stage(fs, draft->name, &dir_fd, err);
	if (code)
		return code;
	code = build(draft, opts, &unknown, bare, dir_fd, &report, err);
	if (!code && measure) {
		code = measure(dir_fd, arg);
		if (code)
			err_sys(err, code, "cannot read what was measured");
	}
	bpffs_remove(fs, draft->name, NULL, NULL, NULL);
	return code;
}

int attach_measure(const struct draft *draft, const struct attach_opts *opts, struct bpffs *fs,
	int (*measure)(int dir_fd, void *arg), void *arg, struct err *err)
{
	return make_nameless(draft, opts, fs, NULL, measure, arg, err);
}

int attach_bare(const struct draft *draft, const struct attach_opts *opts, struct bpffs *fs,
	attach_work_fn work, void *arg, struct err *err)
{
	const struct bare bare = { work, arg };

	return make_nameless(draft, opts, fs, &bare, NULL, NULL, err);
}
