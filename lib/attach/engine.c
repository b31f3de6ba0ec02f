// SPDX-License-Identifier: BSD-2-Clause
// Opening, sizing and loading the programs.
#include <errno.h>
#include <string.h>
#include <stdio.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/err.h"
#include "internal.h"
#include "pins/bpffs.h"
#include "shared/maps.h"
#include "funcsnoop.skel.h"

/*
 * Shards trade memory for CPUs that don't meet on one cache line: 2,000 functions stay
 * below 64 MB with these, however many CPUs there are.
 */
#define STAT_SHARDS_MAX 32
#define HIST_SHARDS_MAX 4
#define MEMORY_MAX      (62U << 20)
#define PROC_MIN        (1U << 15)
#define PROC_MAX        (1U << 16)
#define PROC_PER_FUNC   32
#define PATHS_MIN       (1U << 10)
#define PATHS_MAX       (1U << 14)
#define PATHS_PER_FUNC  16

#define WAIT_BYTES 96 /* struct wait of bpf/maps.bpf.h */
#define VERIFIER_STATS 4 /* BPF_LOG_STATS, include/linux/bpf_verifier.h */

static uint32_t power_of_two(uint64_t n)
{
	uint32_t p = 1;

	while (p < n && p < 1U << 30)
		p <<= 1;
	return p;
}

static uint32_t shards(uint32_t most)
{
	int cpus = libbpf_num_possible_cpus();
	uint32_t n = power_of_two(cpus > 0 ? cpus : 1);

	return n < most ? n : most;
}

/* Rows of keys. */
static size_t row_cnt(const struct engine_spec *spec)
{
	return spec->keys ? spec->keys->rows : 0;
}

/* Of one place for each of so many different ones. */
static size_t stack_bytes(const struct engine_spec *spec)
{
	return spec->stack_cnt * (sizeof(struct fsn_stack) +
		FSN_STACK_PIECES * sizeof(struct fsn_frames));
}

/* As many shards of the histograms as the budget has room for beside all else. */
static uint32_t hist_shards(const struct engine_spec *spec, uint32_t stat_shards)
{
	uint64_t hist = spec->timed_cnt * sizeof(struct fsn_hist), most = MEMORY_MAX;
	uint64_t used = 2 * hist + stat_shards * spec->fn_cnt * sizeof(struct fsn_stat) +
		(PROC_MAX + 2 * spec->fn_cnt) * sizeof(struct fsn_proc) +
		FSN_SET_CNT * sizeof(struct fsn_set) +
		spec->type_cnt * sizeof(struct fsn_type) +
		spec->name_cnt * sizeof(struct fsn_name) +
		FSN_SLOT_CNT * sizeof(struct fsn_args) +
		(spec->follows ? FSN_SLOT_CNT * sizeof(struct fsn_mark) : 0) +
		(spec->has_more ? FSN_SLOT_CNT * sizeof(struct fsn_more) : 0) +
		(spec->nesting ? FSN_SLOT_CNT * sizeof(struct fsn_nest) : 0) +
		(spec->split ? FSN_SLOT_CNT * sizeof(struct fsn_split) : 0) +
		(spec->progs & 1U << ENGINE_WAIT ? FSN_SLOT_CNT * WAIT_BYTES : 0) +
		PATHS_MAX * (shards(FSN_PATH_SHARDS) + 3) * sizeof(struct fsn_path) +
		(spec->keys ? FSN_SLOT_CNT * sizeof(uint32_t) : 0) +
		(spec->asked ? FSN_SLOT_CNT * 16 : 0) +
		(spec->key_late ? FSN_SLOT_CNT * (sizeof(struct fsn_key) + 16) : 0) +
		stack_bytes(spec) + row_cnt(spec) * (3 * sizeof(struct fsn_row) + sizeof(struct fsn_key));
	uint32_t n = shards(HIST_SHARDS_MAX);

	while (n > 1 && used + n * hist > most)
		n /= 2;
	return n;
}

static struct bpf_map *engine_map(const struct engine *e, enum map_id id)
{
	const struct fsn_bpf *skel = e->skel;
	struct bpf_map *const map[] = {
#define X(map_id, name, shape, entries, readers) [MAPID_##map_id] = skel->maps.fsn_##name,
		FSN_MAPS(X)
#undef X
		[MAPID_CTL] = skel->maps.bss,
		[MAPID_RINGS] = skel->maps.fsn_rings,
		[MAPID_SYNC] = skel->maps.fsn_sync,
		[MAPID_TABLES] = skel->maps.fsn_tables,
	};

	return map[id];
}

struct bpf_program *engine_program(const struct engine *e, enum engine_prog prog)
{
	const struct fsn_bpf *skel = e->skel;
	struct bpf_program *const progs[] = {
		[ENGINE_END] = skel->progs.fsn_end,
		[ENGINE_RETURN] = skel->progs.fsn_return,
		[ENGINE_SYS_EXIT] = e->preempted ? skel->progs.fsn_perf_exit
						 : skel->progs.fsn_sys_exit,
		[ENGINE_FEXIT] = skel->progs.fsn_fexit,
		[ENGINE_KRETURN] = skel->progs.fsn_kreturn,
		[ENGINE_COUNT] = e->holds ? skel->progs.fsn_stop : skel->progs.fsn_count,
		[ENGINE_USDT] = skel->progs.fsn_usdt,
		[ENGINE_TRACE] = skel->progs.fsn_trace,
		[ENGINE_WAIT] = skel->progs.fsn_switch,
		[ENGINE_SAMPLE] = skel->progs.fsn_sample_cpu,
		[ENGINE_ENTRY] = skel->progs.fsn_entry,
		[ENGINE_SESSION] = skel->progs.fsn_session,
		[ENGINE_SYS_ENTER] = e->preempted ? skel->progs.fsn_perf_enter
						  : skel->progs.fsn_sys_enter,
		[ENGINE_FENTRY] = skel->progs.fsn_fentry,
		[ENGINE_KPROBE] = skel->progs.fsn_kprobe,
	};

	return progs[prog];
}

/* Records of processes; a power of two. */
static uint32_t proc_cnt(const struct engine_spec *spec)
{
	uint32_t procs = power_of_two((uint64_t)spec->fn_cnt * PROC_PER_FUNC);

	if (!spec->processes)
		return 1;
	return procs < PROC_MIN ? PROC_MIN : procs > PROC_MAX ? PROC_MAX : procs;
}

/* Places of paths, a power of two, and one behind them. */
static uint32_t path_cnt(const struct engine_spec *spec)
{
	uint32_t paths = power_of_two((uint64_t)spec->fn_cnt * PATHS_PER_FUNC);

	if (!spec->nesting)
		return 0;
	return (paths < PATHS_MIN ? PATHS_MIN : paths > PATHS_MAX ? PATHS_MAX : paths) + 1;
}

static void engine_size_keys(struct engine *e, const struct engine_spec *spec)
{
	const struct keys *keys = spec->keys;

	if (!keys)
		return;
	if (spec->key_late)
		bpf_map__set_max_entries(e->skel->maps.fsn_slot_keys, FSN_SLOT_CNT);
	if (spec->asked)
		bpf_map__set_max_entries(e->skel->maps.fsn_slot_asked, FSN_SLOT_CNT);
	e->skel->rodata->fsn_keyed = true;
	e->skel->rodata->fsn_launched = keys_at(keys, FSN_BY_KERNEL);
	e->skel->rodata->fsn_asked = spec->asked;
	e->skel->rodata->fsn_key_late = spec->key_late;
	e->skel->rodata->fsn_key_wide = spec->key_wide;
	e->skel->rodata->fsn_key_cnt = keys->key_cnt;
	e->skel->rodata->fsn_sum_cnt = keys->sum_cnt;
	e->skel->rodata->fsn_row_cnt = keys->rows;
}

/* What a walk works with is of the size that a value of its map has. */
static void engine_size_stacks(struct engine *e, const struct engine_spec *spec)
{
	int cpus = libbpf_num_possible_cpus();
	uint32_t walks = FSN_WALKS_CPU * (cpus > 0 ? cpus : 1);

	bpf_program__set_autoload(e->skel->progs.fsn_maps, spec->stack_cnt);
	bpf_program__set_autoload(e->skel->progs.fsn_threads, false);
	if (!spec->stack_cnt)
		return;
	bpf_map__set_max_entries(e->skel->maps.fsn_walks, walks);
	bpf_map__set_max_entries(e->skel->maps.fsn_rules, FSN_RULES);
	e->skel->rodata->fsn_walks_stacks = true;
	e->skel->rodata->fsn_stack_holds = spec->stack_holds;
	e->skel->rodata->fsn_walks_late = spec->keys->stack_late;
	e->skel->rodata->fsn_walks_alone = spec->keys->stack_late &&
		spec->keys->key_cnt == 1 && !spec->keys->sum_cnt;
	e->skel->rodata->fsn_walk_one_of = spec->stacks_of;
	e->skel->rodata->fsn_walk_cnt = walks;
	e->skel->rodata->fsn_stack_cnt = spec->stack_cnt;
	e->skel->rodata->fsn_frames_cnt = spec->stack_cnt * FSN_STACK_PIECES;
	e->skel->rodata->fsn_self = proc_is_first_ns() ? getpid() : 0;
}

static void engine_size(struct engine *e, const struct engine_spec *spec)
{
	bool waits = spec->progs & 1U << ENGINE_WAIT;
	uint32_t procs = proc_cnt(spec);
	const struct map_sizes sizes = {
		.funcs = spec->fn_cnt,
		.timed = spec->timed_cnt,
		.libs = spec->lib_cnt,
		.types = spec->type_cnt,
		.names = spec->name_cnt,
		.texts = (spec->text_bytes + FSN_TEXT_LEN - 1) / FSN_TEXT_LEN,
		.stat_shards = e->stat_shards,
		.hist_shards = e->hist_shards,
		.path_shards = e->path_shards,
		.procs = procs,
		.paths = e->path_cnt,
		.rows = row_cnt(spec),
		.callers = spec->keys && keys_at(spec->keys, FSN_BY_CALLER),
		.launches = spec->keys && keys_at(spec->keys, FSN_BY_KERNEL),
		.stacks = spec->stack_cnt,
		.has_more = spec->has_more,
		.nesting = spec->nesting,
		.split = spec->split,
		.children = spec->children,
		.holds = spec->holds || spec->stack_holds,
	};

	for (int i = 0; i < MAPID_CNT; i++)
		bpf_map__set_max_entries(engine_map(e, i), map_entries(i, &sizes));
	bpf_map__set_max_entries(
		e->skel->maps.fsn_jumps, spec->jump_cnt ? spec->jump_cnt : 1);
	bpf_map__set_max_entries(e->skel->maps.fsn_marks, spec->follows ? FSN_SLOT_CNT : 1);
	bpf_map__set_max_entries(
		e->skel->maps.fsn_places, spec->place_cnt ? spec->place_cnt : 1);
	bpf_map__set_max_entries(
		e->skel->maps.fsn_sources, spec->source_cnt ? spec->source_cnt : 1);
	bpf_map__set_max_entries(e->skel->maps.fsn_wait, waits ? FSN_SLOT_CNT : 1);
	bpf_map__set_max_entries(
		e->skel->maps.fsn_syscalls, spec->traces_calls ? 2 * FSN_SYSCALLS : 1);
	e->skel->rodata->fsn_proc_mask = procs - 1;
	e->skel->rodata->fsn_path_mask = e->path_cnt ? e->path_cnt - 2 : 0;
	e->skel->rodata->fsn_path_shards = e->path_shards - 1;
	e->skel->rodata->fsn_fn_cnt = spec->fn_cnt;
	e->skel->rodata->fsn_timed_cnt = spec->timed_cnt;
	e->skel->rodata->fsn_stat_mask = e->stat_shards - 1;
	e->skel->rodata->fsn_hist_mask = e->hist_shards - 1;
	e->skel->rodata->fsn_processes = spec->processes;
	e->skel->rodata->fsn_has_more = spec->has_more;
	e->skel->rodata->fsn_events = spec->source_cnt > 0 || waits;
	e->skel->rodata->fsn_waits = waits;
	e->skel->rodata->fsn_thread_stacks = spec->thread_stacks;
	e->skel->rodata->fsn_off_cpu = spec->waits[WAIT_OFF_CPU];
	e->skel->rodata->fsn_run_queue = spec->waits[WAIT_RUN_QUEUE];
	e->skel->rodata->fsn_spans = spec->spans;
	e->skel->rodata->fsn_follows = spec->follows;
	e->skel->rodata->fsn_nesting = spec->nesting;
	e->skel->rodata->fsn_split = spec->split;
	e->skel->rodata->fsn_hit_ns = spec->hit_ns;
	e->skel->rodata->fsn_sample = spec->sample > 1 ? spec->sample : 0;
	e->skel->rodata->fsn_samples = spec->samples;
	e->skel->rodata->fsn_kernel = spec->progs & (FENTRY | KPROBES);
	engine_size_keys(e, spec);
	engine_size_stacks(e, spec);
	e->skel->bss->ctl.epoch = FSN_EPOCH_FIRST;
	e->skel->bss->ctl.base = FSN_EPOCH_FIRST;
}

/* Programs are loaded for the kind of link that they will have, and only if they have one. */
static void engine_choose(struct engine *e, unsigned int progs)
{
	unsigned int type = e->mode == LINK_PERF ? 0 : LINK_TYPE_UPROBE_MULTI;

	bpf_program__set_autoload(e->skel->progs.fsn_count, false);
	bpf_program__set_autoload(e->skel->progs.fsn_stop, false);
	for (int i = 0; i < ENGINE_PROG_CNT; i++) {
		struct bpf_program *prog = engine_program(e, i);

		if (i == ENGINE_KPROBE || i == ENGINE_KRETURN)
			bpf_program__set_expected_attach_type(
				prog, e->many_kprobes ? LINK_TYPE_KPROBE_MULTI : 0);
		else if (!engine_prog_traces(i) && !engine_prog_is_kfunc(i) &&
			i != ENGINE_TRACE && i != ENGINE_WAIT && i != ENGINE_SAMPLE)
			bpf_program__set_expected_attach_type(
				prog, i == ENGINE_SESSION ? LINK_TYPE_UPROBE_SESSION : type);
		bpf_program__set_autoload(prog, progs & 1U << i);
	}
	bpf_program__set_autoload(
		e->preempted ? e->skel->progs.fsn_sys_exit : e->skel->progs.fsn_perf_exit, false);
	bpf_program__set_autoload(
		e->preempted ? e->skel->progs.fsn_sys_enter : e->skel->progs.fsn_perf_enter, false);
	bpf_program__set_autoload(e->skel->progs.fsn_wakeup, progs & 1U << ENGINE_WAIT);
	bpf_program__set_autoload(e->skel->progs.fsn_wakeup_new, progs & 1U << ENGINE_WAIT);
	bpf_program__set_autoload(e->skel->progs.fsn_fork, e->children);
	bpf_program__set_autoload(e->skel->progs.fsn_exit, e->children);
}

static unsigned int link_mask(const struct engine *e, const struct engine_spec *spec)
{
	unsigned int sessions = spec->progs & 1U << ENGINE_SESSION, mask = 0, others;

	others = spec->progs & ~(sessions | TRACING | FENTRY | KPROBES | 1U << ENGINE_SAMPLE);
	if (spec->progs & 1U << ENGINE_SAMPLE)
		mask |= LINK_PERF;
	if (spec->progs & FENTRY)
		mask |= LINK_FENTRY;
	if (spec->progs & KPROBES)
		mask |= e->many_kprobes ? LINK_KMULTI : LINK_KPROBE;
	if (spec->progs & TRACING)
		mask |= LINK_TRACE;
	if (spec->mode == LINK_PERF)
		return mask | (others ? LINK_PERF : 0);
	return mask | (sessions ? LINK_SESSION : 0) | (others ? LINK_MULTI : 0);
}

int engine_new(
	const struct engine_spec *spec, struct engine **ret_engine, struct err *err)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts,
		.kernel_log_level = log_wanted() ? VERIFIER_STATS : 0);
	_cleanup_engine_ struct engine *e = calloc(1, sizeof(*e));
	int code;

	if (!e)
		return err_sys(err, -ENOMEM, "cannot load programs");
	e->mode = spec->mode;
	e->many_kprobes = spec->progs & KPROBES && spec->mode != LINK_PERF &&
		!kfunc_how_probe(KFUNC_MULTI);
	e->links = link_mask(e, spec);
	e->children = spec->children;
	e->rate = spec->rate;
	e->preempted = spec->traces_calls && link_trace_is_preempted();
	e->holds = spec->holds;
	e->stat_shards = shards(STAT_SHARDS_MAX);
	e->path_shards = shards(FSN_PATH_SHARDS);
	e->path_cnt = path_cnt(spec);
	e->hist_shards = hist_shards(spec, e->stat_shards);
	code = clones_new(spec->clone_first, &e->clones, err);
	if (code)
		return code;
	e->skel = fsn_bpf__open_opts(&opts);
	if (!e->skel)
		return err_sys(err, -errno, "cannot open programs");
	engine_size(e, spec);
	engine_choose(e, spec->progs);
	code = fsn_bpf__load(e->skel);
	if (code) {
		if (code == -ESRCH && access("/sys/kernel/btf/vmlinux", R_OK))
			return err_set(err, -ENOENT,
				"this kernel has no BTF (CONFIG_DEBUG_INFO_BTF)");
		err_sys(err, code, "cannot load programs");
		if (code == -EINVAL && kernel_is_older())
			return err_hint(err, "this kernel is older than Linux 5.15");
		/* The verifier's no may be EACCES, and its log says why. */
		if (code != -EPERM && *log_tail())
			return err_hint(err, "%s", log_tail());
		return caps_hint(code, CAPS_ATTACH, err);
	}
	/* libbpf goes on without, if its trial of a map that can be mapped has failed. */
	if (!e->skel->bss)
		return err_set(
			err, -ENOMEM, "cannot load programs: cannot map their switches");
	*ret_engine = TAKE_PTR(e);
	return 0;
}

/* FNV-1a. */
uint64_t engine_programs_id(void)
{
	uint64_t id = 0xcbf29ce484222325ULL;
	const unsigned char *bytes;
	size_t size = 0;

	bytes = fsn_bpf__elf_bytes(&size);
	for (size_t i = 0; i < size; i++)
		id = (id ^ bytes[i]) * 0x100000001b3ULL;
	return id;
}

int engine_new_threads(struct engine **ret_engine, int *ret_prog_fd, struct err *err)
{
	_cleanup_engine_ struct engine *e = calloc(1, sizeof(*e));
	struct bpf_program *prog;
	int code;

	if (!e)
		return err_sys(err, -ENOMEM, "cannot look at threads");
	e->skel = fsn_bpf__open();
	if (!e->skel)
		return err_sys(err, -errno, "cannot look at threads");
	bpf_object__for_each_program(prog, e->skel->obj)
		bpf_program__set_autoload(prog, prog == e->skel->progs.fsn_threads);
	code = fsn_bpf__load(e->skel);
	if (code) {
		err_sys(err, code, "cannot look at threads");
		return caps_hint(code, CAPS_ATTACH, err);
	}
	*ret_prog_fd = bpf_program__fd(e->skel->progs.fsn_threads);
	*ret_engine = TAKE_PTR(e);
	return 0;
}

void engine_free(struct engine *e)
{
	if (!e)
		return;
	fsn_bpf__destroy(e->skel);
	clones_free(e->clones);
	free(e);
}

uint32_t engine_stat_shards(const struct engine *e)
{
	return e->stat_shards;
}

uint32_t engine_hist_shards(const struct engine *e)
{
	return e->hist_shards;
}

uint32_t engine_path_shards(const struct engine *e)
{
	return e->path_shards;
}

uint32_t engine_path_cnt(const struct engine *e)
{
	return e->path_cnt;
}

int engine_map_fd(const struct engine *e, enum map_id id)
{
	return bpf_map__fd(engine_map(e, id));
}

int engine_maps_fd(const struct engine *e)
{
	return bpf_program__fd(e->skel->progs.fsn_maps);
}

int engine_set_place(struct engine *e, uint32_t i, uint32_t fn, struct err *err)
{
	const struct fsn_place place = { .fn = fn };

	if (bpf_map_update_elem(bpf_map__fd(e->skel->maps.fsn_places), &i, &place, 0))
		return err_sys(err, -errno, "cannot write where jumps lead");
	return 0;
}

int engine_set_jump(
	struct engine *e, uint32_t i, const struct fsn_jump *jump, struct err *err)
{
	if (bpf_map_update_elem(bpf_map__fd(e->skel->maps.fsn_jumps), &i, jump, 0))
		return err_sys(err, -errno, "cannot write code ranges");
	return 0;
}

int engine_set_sources(
	struct engine *e, const struct fsn_sources *sources, size_t cnt, struct err *err)
{
	int code = map_write(
		bpf_map__fd(e->skel->maps.fsn_sources), 0, cnt, sizeof(*sources), sources);

	return code ? err_sys(err, code, "cannot write where arguments are") : 0;
}

uint32_t engine_sampled_cpus(const struct engine *e)
{
	return e->sampled_cpus;
}

unsigned int engine_links(const struct engine *e)
{
	return e->links;
}

int engine_pin_maps(struct engine *e, int dir_fd, struct err *err)
{
	int code;

	for (int i = 0; i < MAPID_CNT; i++) {
		code = bpffs_pin(dir_fd, map_pin_name(i), engine_map_fd(e, i), err);
		if (code)
			return code;
	}
	return 0;
}

int engine_set_filter(struct engine *e, const struct filter *filter, bool has_condition,
	struct err *err)
{
	const struct filter_maps maps = {
		.pids = bpf_map__fd(e->skel->maps.fsn_pids),
		.comms = bpf_map__fd(e->skel->maps.fsn_comms),
		.cpus = bpf_map__fd(e->skel->maps.fsn_cpus),
		.cgroups = bpf_map__fd(e->skel->maps.fsn_cgroups),
		.uids = bpf_map__fd(e->skel->maps.fsn_uids),
		.tids = bpf_map__fd(e->skel->maps.fsn_tids),
	};
	int code = filter_write(filter, &maps, &e->filters, err);

	if (!code && has_condition)
		e->filters |= FSN_FILTER_IF;
	if (filter->pid_cnt == 1 && !e->children)
		e->skel->bss->ctl.only_pid = filter->pids[0];
	return code;
}

void engine_set_held(struct engine *e, pid_t pid)
{
	e->skel->bss->ctl.held = pid;
}

void engine_arm(struct engine *e, uint64_t since_ns, uint64_t until_ns, bool save_args)
{
	struct fsn_ctl *ctl = &e->skel->bss->ctl;

	ctl->since_ns[FSN_BASE_INDEX(ctl->base)] = since_ns;
	ctl->save_args = save_args ? FSN_SAVE_SLOW : 0;
	ctl->until_ns = until_ns;
	e->filters |= until_ns ? FSN_FILTER_UNTIL : 0;
	__atomic_store_n(&ctl->on, FSN_ON | e->filters, __ATOMIC_SEQ_CST);
}
