// SPDX-License-Identifier: BSD-2-Clause
// Opening, sizing and loading the programs.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "base/apart.h"
#include "base/err.h"
#include "base/file.h"
#include "base/util.h"
#include "internal.h"
#include "pins/bpffs.h"
#include "shared/maps.h"
#include "funcsnoop.skel.h"

#define VERIFIER_STATS 4 /* BPF_LOG_STATS, include/linux/bpf_verifier.h */

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
		[MAPID_WORKS] = skel->maps.fsn_works,
	};

	return map[id];
}

/* --- sizes of a group's maps, and the constants of its BPF programs ------------------------- */

/*
 * Shards use memory to keep CPUs from sharing a cache line. With these limits, 2,000 functions stay
 * below 64 MB on any number of CPUs.
 */
#define STAT_SHARDS_MAX 32
#define HIST_SHARDS_MAX 4
#define MEMORY_MAX      (62U << 20)
#define SLOTS_PER_CPU   (1U << 12)
#define PROC_FEW        (1U << 13) /* of up to 8 functions */
#define PROC_SOME       (1U << 15) /* of up to 64 */
#define PROC_MIN        (1U << 14) /* of more: a process calls few functions of a large group */
#define PROC_MAX        (1U << 16)
#define PROC_PER_FUNC   32
#define PATHS_MIN       (1U << 10)
#define PATHS_MAX       (1U << 14)
#define PATHS_PER_FUNC  16

#define SLEEP_BYTES 96 /* per entry of the hash: key, value and the kernel's header */
#define WAIT_BYTES 104 /* struct wait of bpf/maps.bpf.h */

/*
 * True if the stack of a blocked call is recorded at each context switch: that needs .split, .nesting
 * and stacks.
 */
static bool engine_sees_sleeps(const struct engine_spec *spec)
{
	return spec->opts->split && spec->opts->stack_cnt && spec->opts->nesting &&
		!(spec->progs & 1U << ENGINE_WAIT);
}

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

/*
 * Calls in progress, a power of two: more processors have more threads. The kernel limits how many
 * calls of a thread have return probes, but not how many have probes at ret instructions.
 */
static uint32_t slot_cnt(const struct engine_spec *spec)
{
	uint32_t slots = shards(FSN_SLOTS_MAX / SLOTS_PER_CPU) * SLOTS_PER_CPU;

	if (spec->progs & 1U << ENGINE_END)
		return FSN_SLOTS_MAX;
	return slots < FSN_SLOTS_MIN ? FSN_SLOTS_MIN : slots;
}

/* Number of key rows. */
static size_t row_cnt(const struct engine_spec *spec)
{
	return spec->opts->keys ? spec->opts->keys->rows : 0;
}

/* Bytes of the stack table, and of the Python code table. */
static size_t stack_bytes(const struct engine_spec *spec)
{
	uint64_t python = FSN_PYTHON_CODES * sizeof(struct fsn_python_code) +
		FSN_PYTHON_PIECES * sizeof(struct fsn_python_lines);

	return spec->opts->stack_cnt * (sizeof(struct fsn_stack) +
		FSN_STACK_PIECES * sizeof(struct fsn_frames)) + (spec->python ? python : 0);
}

static size_t more_bytes(const struct engine_spec *spec)
{
	return sizeof(struct fsn_more) - (spec->desc->wide ? 0 : FSN_STR_SPARED);
}

/* Sets of tracked allocations, a power of two. They are half full at the configured maximum. */
static uint32_t block_sets(const struct engine_spec *spec)
{
	return spec->opts->blocks ? power_of_two(2 * spec->opts->blocks / FSN_BLOCK_WAYS) : 0;
}

/* Uses the memory that the other maps leave of MEMORY_MAX for shards of the histograms. */
static uint32_t hist_shards(const struct engine_spec *spec, uint32_t stat_shards)
{
	uint64_t hist = spec->draft->timed_cnt * sizeof(struct fsn_hist), most = MEMORY_MAX;
	uint64_t slots = slot_cnt(spec), funcs = spec->draft->probed_cnt;
	uint64_t used = 2 * hist + stat_shards * funcs * sizeof(struct fsn_stat) +
		(PROC_MAX + 2 * funcs) * sizeof(struct fsn_proc) +
		slots / FSN_WAYS * sizeof(struct fsn_set) +
		spec->desc->types.type_cnt * sizeof(struct fsn_type) +
		spec->desc->types.name_cnt * sizeof(struct fsn_name) +
		slots * sizeof(struct fsn_args) +
		(spec->probes->follows ? slots * sizeof(struct fsn_mark) : 0) +
		(spec->desc->has_more ? slots * more_bytes(spec) : 0) +
		(spec->opts->nesting ? slots * sizeof(struct fsn_nest) + FSN_THREADS * sizeof(uint64_t) : 0) +
		(spec->opts->split ? slots * sizeof(struct fsn_split) : 0) +
		(spec->pauses ? slots * sizeof(uint64_t) : 0) +
		(engine_sees_sleeps(spec) ? FSN_SLEEP_CNT * SLEEP_BYTES : 0) +
		((spec->progs & 1U << ENGINE_WAIT) ? slots * WAIT_BYTES : 0) +
		PATHS_MAX * (shards(FSN_PATH_SHARDS) + 3) * sizeof(struct fsn_path) +
		(spec->opts->keys ? slots * sizeof(uint32_t) : 0) +
		(spec->desc->keys.asked ? slots * 16 : 0) +
		(spec->desc->keys.late ? slots * (sizeof(struct fsn_key) + 16) : 0) +
		(spec->desc->keys.wakers ? slots * (FSN_COMM_LEN + 16) : 0) +
		stack_bytes(spec) + row_cnt(spec) * (3 * sizeof(struct fsn_row) + sizeof(struct fsn_key));
	uint32_t n = shards(HIST_SHARDS_MAX);

	while (n > 1 && used + n * hist > most)
		n /= 2;
	return n;
}

/* Records of processes; a power of two. */
static uint32_t proc_cnt(const struct engine_spec *spec)
{
	uint64_t funcs = spec->draft->probed_cnt;
	uint32_t procs = power_of_two(funcs * PROC_PER_FUNC);
	uint32_t min = funcs <= 8 ? PROC_FEW : funcs <= 64 ? PROC_SOME : PROC_MIN;

	if (!spec->opts->processes)
		return 1;
	return procs < min ? min : procs > PROC_MAX ? PROC_MAX : procs;
}

/* Entries for call paths: a power of two, plus one. */
static uint32_t path_cnt(const struct engine_spec *spec)
{
	uint32_t paths = power_of_two((uint64_t)spec->draft->probed_cnt * PATHS_PER_FUNC);

	if (!spec->opts->nesting)
		return 0;
	return (paths < PATHS_MIN ? PATHS_MIN : paths > PATHS_MAX ? PATHS_MAX : paths) + 1;
}

static void engine_size_keys(struct engine *e, const struct engine_spec *spec)
{
	const struct keys *keys = spec->opts->keys;

	if (!keys)
		return;
	if (spec->desc->keys.late)
		bpf_map__set_max_entries(e->skel->maps.fsn_slot_keys, e->slot_cnt);
	if (spec->desc->keys.wakers)
		bpf_map__set_max_entries(e->skel->maps.fsn_slot_wakers, e->slot_cnt);
	if (spec->desc->keys.asked)
		bpf_map__set_max_entries(e->skel->maps.fsn_slot_asked, e->slot_cnt);
	if (keys_at(keys, FSN_BY_CALLER) || keys_at(keys, FSN_BY_LOCK))
		bpf_map__set_max_entries(e->skel->maps.fsn_seen, FSN_SEEN);
	e->skel->rodata->fsn_keyed = true;
	e->skel->rodata->fsn_places_known = kernel_finds_mappings();
	e->skel->rodata->fsn_locks_known = keys_at(keys, FSN_BY_LOCK) && kernel_finds_mappings();
	e->skel->rodata->fsn_launched = keys_at(keys, FSN_BY_KERNEL);
	e->skel->rodata->fsn_ranged = keys_have_range(keys);
	e->skel->rodata->fsn_asked = spec->desc->keys.asked;
	e->skel->rodata->fsn_key_late = spec->desc->keys.late;
	e->skel->rodata->fsn_wakers = spec->desc->keys.wakers;
	e->skel->rodata->fsn_waker_stacks = keys_at(keys, FSN_BY_WAKER_STACK);
	e->skel->rodata->fsn_key_wide = spec->desc->keys.wide;
	memcpy((void *)e->skel->rodata->fsn_key_kinds, spec->desc->keys.kinds,
		sizeof(spec->desc->keys.kinds));
	e->skel->rodata->fsn_key_cnt = keys->key_cnt;
	e->skel->rodata->fsn_sum_cnt = keys->sum_cnt;
	e->skel->rodata->fsn_row_cnt = keys->rows;
}

static void engine_size_memory(struct engine *e, const struct engine_spec *spec)
{
	if (!spec->opts->blocks)
		return;
	e->block_sets = block_sets(spec);
	bpf_map__set_max_entries(e->skel->maps.fsn_slot_memory, e->slot_cnt);
	bpf_map__set_max_entries(e->skel->maps.fsn_heaps, FSN_HEAPS);
	e->skel->rodata->fsn_memory_on = true;
	e->skel->rodata->fsn_block_bits = __builtin_ctz(e->block_sets);
}

/* Launches whose kernels' records may yet come, of all processes; a power of two. */
#define GPU_CALLS 65536

/* Rows of files without an unwind table: only if the pages of files are found. */
static void engine_size_cfi(struct engine *e)
{
	struct kernel_pages pages;
	char why[KERNEL_PAGES_WHY];

	if (e->no_cfi || kernel_pages_find(&pages, why))
		return;
	bpf_map__set_max_entries(e->skel->maps.fsn_cfi_rows, FSN_CFI_ROWS);
	bpf_map__set_max_entries(e->skel->maps.fsn_cfi_files, FSN_CFI_FILES);
	e->skel->rodata->fsn_cfi = true;
	e->skel->rodata->fsn_vmemmap = pages.vmemmap;
	e->skel->rodata->fsn_page_base = pages.base;
	if (!e->task_work)
		return;
	bpf_kfunc_name(e->skel->obj, FSN_TASK_WORK, e->task_work);
	e->skel->rodata->fsn_cold = true;
}

static void engine_size_stacks(struct engine *e, const struct engine_spec *spec)
{
	int cpus = libbpf_num_possible_cpus();
	uint32_t walks = FSN_WALKS_CPU * (cpus > 0 ? cpus : 1);

	bpf_program__set_autoload(e->skel->progs.fsn_maps, spec->opts->stack_cnt);
	bpf_program__set_autoload(e->skel->progs.fsn_threads, false);
	if (!spec->opts->stack_cnt)
		return;
	bpf_map__set_max_entries(e->skel->maps.fsn_walks, walks);
	bpf_map__set_max_entries(e->skel->maps.fsn_rules, FSN_RULES);
	if (spec->python)
		bpf_map__set_max_entries(e->skel->maps.fsn_seen, FSN_SEEN_KINDS * FSN_SEEN);
	if (spec->progs & 1U << ENGINE_GPU) {
		bpf_map__set_max_entries(e->skel->maps.fsn_gpu_calls, GPU_CALLS);
		e->skel->rodata->fsn_gpu_call_cnt = GPU_CALLS;
	}
	e->skel->rodata->fsn_walks_stacks = true;
	engine_size_cfi(e);
	e->skel->rodata->fsn_walks_python = spec->python;
	e->skel->rodata->fsn_stack_holds = spec->stack_holds;
	e->skel->rodata->fsn_walks_late = spec->opts->keys->stack_late;
	e->skel->rodata->fsn_walks_alone = spec->opts->keys->stack_late &&
		spec->opts->keys->key_cnt == 1 && !spec->opts->keys->sum_cnt;
	e->skel->rodata->fsn_walk_one_of = spec->opts->stacks_of;
	e->skel->rodata->fsn_walk_cnt = walks;
	e->skel->rodata->fsn_stack_cnt = spec->opts->stack_cnt;
	e->skel->rodata->fsn_frames_cnt = spec->opts->stack_cnt * FSN_STACK_PIECES;
	e->skel->rodata->fsn_self = proc_is_first_ns() ? getpid() : 0;
}

static struct map_sizes map_sizes(const struct engine *e, const struct engine_spec *spec)
{
	return (struct map_sizes) {
		.funcs = spec->draft->probed_cnt,
		.timed = spec->draft->timed_cnt,
		.libs = spec->draft->objects.cnt,
		.types = spec->desc->types.type_cnt,
		.names = spec->desc->types.name_cnt,
		.texts = (spec->desc->text.len + FSN_TEXT_LEN - 1) / FSN_TEXT_LEN,
		.slots = e->slot_cnt,
		.stat_shards = e->stat_shards,
		.hist_shards = e->hist_shards,
		.path_shards = e->path_shards,
		.procs = proc_cnt(spec),
		.paths = e->path_cnt,
		.rows = row_cnt(spec),
		.gpus = spec->progs & 1U << ENGINE_GPU,
		.block_sets = block_sets(spec),
		.places = spec->draft->place_cnt,
		.callers = spec->opts->keys && (keys_at(spec->opts->keys, FSN_BY_CALLER) ||
					      keys_at(spec->opts->keys, FSN_BY_LOCK)),
		.launches = spec->opts->keys && keys_at(spec->opts->keys, FSN_BY_KERNEL),
		.stacks = spec->opts->stack_cnt,
		.pythons = spec->python,
		.has_more = spec->desc->has_more,
		.wide = spec->desc->wide,
		.nesting = spec->opts->nesting,
		.split = spec->opts->split,
		.sleeps = engine_sees_sleeps(spec),
		.children = spec->opts->children,
		.holds = spec->opts->holds || spec->stack_holds,
		.pauses = spec->pauses,
		.judged = spec->desc->judged,
		.cold = e->task_work,
	};
}

/* Number of CPUs that a filter can name. */
static uint32_t cpus_max(void)
{
	int cpus = libbpf_num_possible_cpus();

	return cpus > 64 && cpus < FSN_CPUS_MAX ? cpus : cpus > 64 ? FSN_CPUS_MAX : 64;
}

/*
 * True if the run queues' clocks of all CPUs are the same. Where the kernel does not trust the time stamp
 * counter as a clock source, they differ by up to a tick (kernel/sched/clock.c).
 */
static bool has_one_clock(void)
{
	_cleanup_close_ int fd = open(
		"/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *name = NULL;
	size_t len;

	if (fd < 0 || file_read(fd, 64, &name, &len))
		return false;
	return !strcmp(name, "tsc\n") || !strcmp(name, "arch_sys_counter\n");
}

/* Sets the map sizes and the constants of the BPF programs. Call it before the load. */
static void engine_size(struct engine *e, const struct engine_spec *spec)
{
	bool waits = spec->progs & 1U << ENGINE_WAIT;
	const struct bpf_kfuncs kfuncs = bpf_kfuncs_find();
	struct map_sizes sizes;
	uint64_t seed;

	e->stat_shards = shards(STAT_SHARDS_MAX);
	e->path_shards = shards(FSN_PATH_SHARDS);
	e->slot_cnt = slot_cnt(spec);
	e->path_cnt = path_cnt(spec);
	e->hist_shards = hist_shards(spec, e->stat_shards);
	bpf_kfunc_name(e->skel->obj, FSN_RDONLY_CAST, kfuncs.rdonly_cast);
	/*
	 * Not with timed calls: reading the missing pages would be part of their durations. Not with
	 * events of the kernel: the read would cause some. Not with GPUs: gpu_called()
	 * schedules no repetition.
	 */
	if (kfuncs.task_work > 0 && spec->opts->stack_cnt && !spec->draft->timed_cnt && !waits &&
		!(spec->progs & (FENTRY | KPROBES | 1U << ENGINE_TRACE | 1U << ENGINE_GPU)))
		e->task_work = kfuncs.task_work;
	sizes = map_sizes(e, spec);
	for (int i = 0; i < MAPID_CNT; i++) {
		bpf_map__set_max_entries(engine_map(e, i), map_entries(i, &sizes));
		if (map_value_bytes(i, &sizes))
			bpf_map__set_value_size(engine_map(e, i), map_value_bytes(i, &sizes));
	}
	bpf_map__set_max_entries(
		e->skel->maps.fsn_jumps, spec->probes->jump_cnt ? spec->probes->jump_cnt : 1);
	bpf_map__set_max_entries(e->skel->maps.fsn_marks, spec->probes->follows ? e->slot_cnt : 1);
	bpf_map__set_max_entries(
		e->skel->maps.fsn_sources, spec->probes->source_cnt ? spec->probes->source_cnt : 1);
	bpf_map__set_max_entries(e->skel->maps.fsn_cpus, cpus_max());
	bpf_map__set_max_entries(e->skel->maps.fsn_wait, waits ? e->slot_cnt : 1);
	bpf_map__set_max_entries(
		e->skel->maps.fsn_syscalls, spec->traces_calls ? 2 * FSN_SYSCALLS : 1);
	e->skel->rodata->fsn_slot_cnt = e->slot_cnt;
	e->skel->rodata->fsn_set_shift = 64 - __builtin_ctz(e->slot_cnt / FSN_WAYS);
	e->skel->rodata->fsn_held_max = FSN_HELD_MAX(e->slot_cnt);
	e->skel->rodata->fsn_held_many = FSN_HELD_MANY(e->slot_cnt);
	e->skel->rodata->fsn_proc_mask = sizes.procs - 1;
	e->skel->rodata->fsn_path_mask = e->path_cnt ? e->path_cnt - 2 : 0;
	e->skel->rodata->fsn_path_shards = e->path_shards - 1;
	e->skel->rodata->fsn_fn_cnt = spec->draft->probed_cnt;
	e->skel->rodata->fsn_timed_cnt = spec->draft->timed_cnt;
	e->skel->rodata->fsn_stat_mask = e->stat_shards - 1;
	e->skel->rodata->fsn_hist_mask = e->hist_shards - 1;
	e->skel->rodata->fsn_processes = spec->opts->processes;
	e->skel->rodata->fsn_has_more = spec->desc->has_more;
	e->skel->rodata->fsn_keeps_regs = spec->crashes && spec->desc->typed;
	e->skel->rodata->fsn_zero_frees = spec->desc->zero_frees;
	e->skel->rodata->fsn_other_regs = spec->desc->other_regs;
	e->skel->rodata->fsn_wide = spec->desc->wide;
	e->skel->rodata->fsn_events = spec->probes->source_cnt > 0 || waits;
#if defined(__aarch64__)
	e->skel->rodata->fsn_rooms = spec->probes->source_cnt > 0 || spec->progs & FENTRY;
#endif
	e->skel->rodata->fsn_waits = waits;
	e->skel->rodata->fsn_thread_stacks = spec->stacks == STACKS_OF_THREADS;
	e->skel->rodata->fsn_user_stacks = spec->stacks == STACKS_OF_USER;
	e->skel->rodata->fsn_off_cpu = spec->waits[WAIT_OFF_CPU];
	e->skel->rodata->fsn_run_queue = spec->waits[WAIT_RUN_QUEUE];
	e->skel->rodata->fsn_one_clock = waits && has_one_clock();
	e->skel->rodata->fsn_futex = spec->futex_waits ? SYS_futex : 0;
	e->skel->rodata->fsn_spans = spec->probes->spans;
	e->skel->rodata->fsn_follows = spec->probes->follows;
	e->skel->rodata->fsn_goroutines = spec->probes->goroutines;
	e->skel->rodata->fsn_nesting = spec->opts->nesting;
	e->skel->rodata->fsn_split = spec->opts->split;
	e->skel->rodata->fsn_page_shift = __builtin_ctzl(sysconf(_SC_PAGESIZE));
	e->skel->rodata->fsn_may_pause = spec->pauses;
	e->skel->rodata->fsn_runs_bits = spec->runs_bits;
	e->skel->rodata->fsn_hit_ns = spec->hit_ns;
	e->skel->rodata->fsn_step_ns = spec->step_ns;
	e->skel->rodata->fsn_sample = spec->opts->sample > 1 ? spec->opts->sample : 0;
	e->skel->rodata->fsn_samples = spec->samples;
	e->skel->rodata->fsn_bound = spec->bound;
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = clock_ns(CLOCK_MONOTONIC);
	e->skel->rodata->fsn_seed = seed;
	e->skel->rodata->fsn_kernel = spec->progs & (FENTRY | KPROBES);
	engine_size_keys(e, spec);
	engine_size_memory(e, spec);
	engine_size_stacks(e, spec);
	e->skel->bss->ctl.epoch = FSN_EPOCH_FIRST;
	e->skel->bss->ctl.base = FSN_EPOCH_FIRST;
}

/* --- loading programs at the same time --------------------------------------------------------- */

/*
 * The verifier needs up to 0.1 s for each program on uprobes, and libbpf loads one after the other:
 * in its place, a thread loads each of these, and libbpf loads a program that does nothing, whose
 * descriptor is then replaced.
 */
#define LOADS_MAX 8

struct loader {
	const struct bpf_program *prog;
	struct bpf_prog_load_opts opts; /* .func_info and .line_info are copies */
	struct bpf_insn *insns;
	size_t insn_cnt;
	pthread_t thread;
	int fd;
};

static struct {
	bool on;
	size_t cnt;
	struct loader loader[LOADS_MAX];
} loads;

static void *loader_run(void *arg)
{
	struct loader *l = arg;

	l->fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, bpf_program__name(l->prog), "GPL", l->insns,
		l->insn_cnt, &l->opts);
	return NULL;
}

static void *copy(const void *from, size_t size)
{
	return size ? memcpy(xcalloc(1, size), from, size) : NULL;
}

static void loader_done(struct loader *l)
{
	free(l->insns);
	free((void *)l->opts.func_info);
	free((void *)l->opts.line_info);
}

static bool loader_start(struct loader *l)
{
	if (!apart_thread(&l->thread, loader_run, l))
		return true;
	loader_done(l);
	return false;
}

/* Called by libbpf before it loads @prog. If no thread can be started, it loads @prog itself. */
static int load_apart(struct bpf_program *prog, struct bpf_prog_load_opts *opts, long cookie)
{
	struct bpf_insn nothing[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	struct loader *l = &loads.loader[loads.cnt];

	(void)cookie;
	if (!loads.on || loads.cnt == LOADS_MAX)
		return 0;
	l->prog = prog;
	l->insn_cnt = bpf_program__insn_cnt(prog);
	l->insns = copy(bpf_program__insns(prog), l->insn_cnt * sizeof(*l->insns));
	l->opts = *opts;
	l->opts.sz = sizeof(l->opts);
	l->opts.func_info = copy(opts->func_info, opts->func_info_cnt * opts->func_info_rec_size);
	l->opts.line_info = copy(opts->line_info, opts->line_info_cnt * opts->line_info_rec_size);
	if (!loader_start(l))
		return 0;
	loads.cnt++;
	opts->func_info_cnt = opts->line_info_cnt = 0;
	return bpf_program__set_insns(prog, nothing, ARRAY_SIZE(nothing));
}

/* Threads load the uprobe programs of objects that are opened from now on. */
static void loads_begin(void)
{
	static int handler;
	LIBBPF_OPTS(libbpf_prog_handler_opts, opts, .prog_prepare_load_fn = load_apart);

	/* Not unregistered: libbpf before 1.2 would then use the memory of its last handler again. */
	if (!handler)
		handler = libbpf_register_prog_handler("uprobe", BPF_PROG_TYPE_KPROBE, 0, &opts);
	loads.on = true;
}

/*
 * Waits for the threads: their programs then have the descriptors that libbpf knows. Returns -errno
 * of a program that is not loaded; libbpf has not logged why.
 */
static int loads_end(void)
{
	int code = 0;

	for (struct loader *l = loads.loader; l < loads.loader + loads.cnt; l++) {
		pthread_join(l->thread, NULL);
		if (l->fd < 0)
			code = l->fd;
		else if (dup3(l->fd, bpf_program__fd(l->prog), O_CLOEXEC) < 0)
			code = -errno;
		if (l->fd >= 0)
			close(l->fd);
		loader_done(l);
	}
	loads.on = false;
	loads.cnt = 0;
	return code;
}

/* --- opening and loading -------------------------------------------------------------------- */

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
		[ENGINE_COUNT] = skel->progs.fsn_count,
		[ENGINE_USDT] = skel->progs.fsn_usdt,
		[ENGINE_GPU] = skel->progs.fsn_gpu,
		[ENGINE_TRACE] = skel->progs.fsn_trace,
		[ENGINE_WAIT] = skel->progs.fsn_switch,
		[ENGINE_SAMPLE] = e->holds ? skel->progs.fsn_fault : skel->progs.fsn_sample_cpu,
		[ENGINE_ENTRY] = skel->progs.fsn_entry,
		[ENGINE_SESSION] = skel->progs.fsn_session,
		[ENGINE_SYS_ENTER] = e->preempted ? skel->progs.fsn_perf_enter
						  : skel->progs.fsn_sys_enter,
		[ENGINE_FENTRY] = skel->progs.fsn_fentry,
		[ENGINE_KPROBE] = skel->progs.fsn_kprobe,
	};

	return progs[prog];
}

/* Chooses the programs to load, and their attach types for the kind of link. */
static void engine_choose(struct engine *e, const struct engine_spec *spec)
{
	unsigned int type = e->mode == LINK_PERF ? 0 : LINK_TYPE_UPROBE_MULTI;
	unsigned int progs = spec->progs;

	bpf_program__set_autoload(e->skel->progs.fsn_fault, false);
	bpf_program__set_autoload(e->skel->progs.fsn_sample_cpu, false);
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
	bpf_program__set_autoload(e->skel->progs.fsn_wakes, spec->waits[WAIT_OFF_CPU] &&
		(spec->opts->keys || spec->desc->save_args || spec->opts->streamed));
	bpf_program__set_autoload(e->skel->progs.fsn_wakeup, spec->waits[WAIT_RUN_QUEUE]);
	bpf_program__set_autoload(e->skel->progs.fsn_wakeup_new, spec->waits[WAIT_RUN_QUEUE]);
	bpf_program__set_autoload(
		e->skel->progs.fsn_cpu_off, progs & 1U << ENGINE_SAMPLE && !e->holds);
	bpf_program__set_autoload(e->skel->progs.fsn_signal, spec->pauses);
	bpf_program__set_autoload(e->skel->progs.fsn_pause, spec->pauses && !e->holds);
	bpf_program__set_autoload(e->skel->progs.fsn_heap_exit, spec->opts->blocks);
	bpf_program__set_autoload(e->skel->progs.fsn_heap_exec, spec->opts->blocks);
	bpf_program__set_autoload(e->skel->progs.fsn_sleep, engine_sees_sleeps(spec));
	bpf_program__set_autoload(e->skel->progs.fsn_gpu_signal, progs & 1U << ENGINE_GPU);
	bpf_program__set_autoload(e->skel->progs.fsn_crash_signal, spec->crashes);
	bpf_program__set_autoload(e->skel->progs.fsn_crash_exit, spec->crashes);
	bpf_program__set_autoload(e->skel->progs.fsn_waking, spec->desc->keys.wakers);
	bpf_program__set_autoload(e->skel->progs.fsn_interrupt, progs & 1U << ENGINE_SYS_EXIT);
	bpf_program__set_autoload(e->skel->progs.fsn_fork, spec->opts->children);
	bpf_program__set_autoload(e->skel->progs.fsn_exit, spec->opts->children);
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

/* Opens the programs, chooses which of them to load, and sets the map sizes. */
static int engine_open(struct engine *e, const struct engine_spec *spec, struct err *err)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts,
		.kernel_log_level = log_wanted() ? VERIFIER_STATS : 0);

	e->skel = fsn_bpf__open_opts(&opts);
	if (!e->skel)
		return err_sys(err, -errno, "cannot open programs");
	engine_size(e, spec);
	engine_choose(e, spec);
	return 0;
}

/* Sets @err only if the programs cannot be opened, and then leaves .skel NULL. */
static int engine_load(struct engine *e, const struct engine_spec *spec, struct err *err)
{
	int code, late;

	if (!e->one_by_one)
		loads_begin();
	code = engine_open(e, spec, err);
	if (!code)
		code = fsn_bpf__load(e->skel);
	late = loads_end();
	return code ? code : late;
}

/* True if another attempt to load may succeed, or say more. */
static bool engine_yields(struct engine *e)
{
	/* The verifier of 6.1 rejects the programs that derive unwind rows. */
	if (e->skel->rodata->fsn_cfi)
		return e->no_cfi = true;
	if (e->one_by_one)
		return false;
	return e->one_by_one = true;
}

/*
 * True if the kernel is too old for attaching: cookies and links of perf events exist since 5.15
 * (7adfc6c9b315).
 */
static bool is_too_old(void)
{
	struct utsname name;
	unsigned int major, minor;

	return !uname(&name) && sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
		(major < 5 || (major == 5 && minor < 15));
}

int engine_new(
	const struct engine_spec *spec, struct engine **ret_engine, struct err *err)
{
	_cleanup_engine_ struct engine *e = xcalloc(1, sizeof(*e));
	int code;

	e->mode = spec->mode;
	e->many_kprobes = spec->progs & KPROBES && spec->mode != LINK_PERF &&
		!kfunc_how_probe(KFUNC_MULTI);
	e->links = link_mask(e, spec);
	e->children = spec->opts->children;
	e->rate = spec->rate;
	e->preempted = spec->traces_calls && link_trace_is_preempted();
	e->holds = spec->opts->holds;
	code = clones_new(spec->clone_first, spec->progs & 1U << ENGINE_TRACE, &e->clones, err);
	if (code)
		return code;
	e->one_by_one = log_wanted();
	do {
		fsn_bpf__destroy(e->skel);
		code = engine_load(e, spec, err);
		if (!e->skel)
			return code;
	} while (code && engine_yields(e));
	if (code) {
		if (code == -ESRCH && access("/sys/kernel/btf/vmlinux", R_OK))
			return err_set(err, -ENOENT,
				"this kernel has no BTF (CONFIG_DEBUG_INFO_BTF)");
		err_sys(err, code, "cannot load programs");
		if (code == -EINVAL && is_too_old())
			return err_hint(err, "this kernel is older than Linux 5.15");
		/*
		 * If the verifier rejects a program, the error may be EACCES; its log has the
		 * reason.
		 */
		if (code != -EPERM && *log_tail())
			return err_hint(err, "%s", log_tail());
		return caps_hint(code, CAPS_ATTACH, err);
	}
	/* libbpf does not fail if it finds that maps cannot be mapped. */
	if (!e->skel->bss)
		return err_set(
			err, -ENOMEM, "cannot load programs: cannot map their switches");
	*ret_engine = TAKE_PTR(e);
	return 0;
}

uint64_t engine_programs_id(void)
{
	size_t size = 0;
	const void *bytes = fsn_bpf__elf_bytes(&size);

	return hash_add(HASH_BEGIN, bytes, size);
}

int engine_new_threads(struct engine **ret_engine, int *ret_prog_fd, struct err *err)
{
	_cleanup_engine_ struct engine *e = xcalloc(1, sizeof(*e));
	struct bpf_program *prog;
	int code;

	e->skel = fsn_bpf__open();
	if (!e->skel)
		return err_sys(err, -errno, "cannot look at threads");
	prog = bpf_object__next_program(e->skel->obj, NULL);
	for (; prog; prog = bpf_object__next_program(e->skel->obj, prog))
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

int engine_map_fd(const struct engine *e, enum map_id id)
{
	return bpf_map__fd(engine_map(e, id));
}

int engine_maps_fd(const struct engine *e)
{
	return bpf_program__fd(e->skel->progs.fsn_maps);
}

int engine_set_place(
	struct engine *e, uint32_t i, uint32_t leader, uint32_t first_link, struct err *err)
{
	const struct fsn_place place = { .fn = leader == UINT32_MAX ? 0 : leader,
		.link = first_link, .link_cnt = e->link_cnt - first_link };

	if (bpf_map_update_elem(engine_map_fd(e, MAPID_PLACES), &i, &place, 0))
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

void engine_set_grown(struct engine *e, uint64_t bytes)
{
	e->skel->bss->ctl.grown_bytes = bytes;
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
