// SPDX-License-Identifier: BSD-2-Clause
// Opening, sizing and loading the programs.
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/err.h"
#include "internal.h"
#include "pins/bpffs.h"
#include "shared/maps.h"
#include "funcsnoop.skel.h"

#define VERIFIER_STATS 4 /* BPF_LOG_STATS, include/linux/bpf_verifier.h */

struct bpf_map *engine_map(const struct engine *e, enum map_id id)
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
	bpf_program__set_autoload(e->skel->progs.fsn_wakeup, progs & 1U << ENGINE_WAIT);
	bpf_program__set_autoload(e->skel->progs.fsn_wakeup_new, progs & 1U << ENGINE_WAIT);
	bpf_program__set_autoload(
		e->skel->progs.fsn_cpu_off, progs & 1U << ENGINE_SAMPLE && !e->holds);
	bpf_program__set_autoload(e->skel->progs.fsn_signal, spec->pauses);
	bpf_program__set_autoload(e->skel->progs.fsn_pause, spec->pauses && !e->holds);
	bpf_program__set_autoload(e->skel->progs.fsn_heap_exit, spec->block_cnt);
	bpf_program__set_autoload(e->skel->progs.fsn_heap_exec, spec->block_cnt);
	bpf_program__set_autoload(e->skel->progs.fsn_sleep, engine_sees_sleeps(spec));
	bpf_program__set_autoload(e->skel->progs.fsn_crash_signal, spec->crashes);
	bpf_program__set_autoload(e->skel->progs.fsn_crash_exit, spec->crashes);
	bpf_program__set_autoload(e->skel->progs.fsn_fork, spec->children);
	bpf_program__set_autoload(e->skel->progs.fsn_exit, spec->children);
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

int engine_new(
	const struct engine_spec *spec, struct engine **ret_engine, struct err *err)
{
	_cleanup_engine_ struct engine *e = xcalloc(1, sizeof(*e));
	int code;

	e->mode = spec->mode;
	e->many_kprobes = spec->progs & KPROBES && spec->mode != LINK_PERF &&
		!kfunc_how_probe(KFUNC_MULTI);
	e->links = link_mask(e, spec);
	e->children = spec->children;
	e->rate = spec->rate;
	e->preempted = spec->traces_calls && link_trace_is_preempted();
	e->holds = spec->holds;
	code = clones_new(spec->clone_first, spec->progs & 1U << ENGINE_TRACE, &e->clones, err);
	if (code)
		return code;
	code = engine_open(e, spec, err);
	if (code)
		return code;
	code = fsn_bpf__load(e->skel);
	/* The verifier of 6.1 rejects the programs that derive unwind rows. */
	if (code && e->skel->rodata->fsn_cfi) {
		fsn_bpf__destroy(e->skel);
		e->no_cfi = true;
		code = engine_open(e, spec, err);
		if (code)
			return code;
		code = fsn_bpf__load(e->skel);
	}
	if (code) {
		if (code == -ESRCH && access("/sys/kernel/btf/vmlinux", R_OK))
			return err_set(err, -ENOENT,
				"this kernel has no BTF (CONFIG_DEBUG_INFO_BTF)");
		err_sys(err, code, "cannot load programs");
		if (code == -EINVAL && kernel_is_older())
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

uint32_t engine_block_sets(const struct engine *e)
{
	return e->block_sets;
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

uint32_t engine_link_cnt(const struct engine *e)
{
	return e->link_cnt;
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
