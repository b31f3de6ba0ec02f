// SPDX-License-Identifier: BSD-2-Clause
// Reading what a group says of itself.
#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>

#include "base/text.h"
#include "group/records.h"
#include "group/stacks.h"
#include "proc/proc.h"

int group_map_fd(const struct group *g, enum map_id id, const char *what, struct err *err)
{
	if (group_fd(g, id) >= 0)
		return g->fd[id];
	if (g->fd[id] != -EACCES && g->fd[id] != -EPERM)
		return err_sys(err, g->fd[id], "cannot open map '%s' of group '%s'",
			map_pin_name(id), g->name);
	err_set(err, g->fd[id], "%s of group '%s' are for its owner only", what, g->name);
	return err_hint(err,
		"attach the group again with --replace --mode 0644 --mode-all to share them");
}

const char *group_text(const struct group *g, uint32_t offset)
{
	/* A group that could not be opened may have no text. */
	return g->text ? strtab_at(g->text, g->meta.text_bytes, offset) : "";
}

static const char *text_or_null(const struct group *g, uint32_t offset)
{
	return offset ? group_text(g, offset) : NULL;
}

bool group_is_foreign(const struct group *g)
{
	return g->foreign;
}

/* What is taken off each measured time of @f; nobody else's map says so to every reader. */
static uint32_t overhead_of(const struct group *g, const struct fsn_func *f)
{
	if (g->meta.options & FSN_OPT_RAW || f->site >= PRICE_SITES || f->end >= PRICE_ENDS ||
		!target_kind(f->kind)->in_files)
		return 0;
	return g->meta.price.overhead_ns[f->site][f->end];
}

struct group_info group_info(const struct group *g)
{
	struct group_info info = {
		.name = g->name,
		.version = g->meta.version,
		.layout = g->meta.layout,
		.attached_ns = g->meta.attached_ns,
		.links = g->meta.links,
		.fn_cnt = g->meta.fn_cnt,
		.lib_cnt = g->meta.lib_cnt,
		.probe_cnt = g->meta.probes,
		.sample = g->meta.sample > 1 ? g->meta.sample : 1,
		.uid = g->meta.uid,
		.pid = g->meta.pid,
		.processes = g->meta.options & FSN_OPT_PROCESSES,
		.nesting = g->meta.options & FSN_OPT_NESTING,
		.memory = g->meta.block_sets,
		.split = g->meta.options & FSN_OPT_SPLIT,
		.raw = g->meta.options & FSN_OPT_RAW,
		.waits = g->meta.options & FSN_OPT_HOLDS,
		.kept = g->meta.options & FSN_OPT_KEPT,
		.sampled_cpus = g->meta.sampled_cpus,
		.price = g->meta.price,
		.budget = g->meta.budget,
		.tried_ns = g->meta.tried_ns,
		.tried_cost_ns = g->meta.tried_cost_ns,
		.definition = g->meta.definition,
		.duty = g->meta.duty,
	};

	for (uint32_t i = 0; g->funcs && i < g->meta.fn_cnt; i++) {
		info.exits |= 1U << g->funcs[i].exit;
		info.events |= target_kind(g->funcs[i].kind)->is_event;
		info.gpu = target_kind(g->funcs[i].kind)->on_gpu && (!i || info.gpu);
	}
	for (size_t i = 0; i < FSN_KEYS && i < g->meta.key_cnt; i++)
		info.key[i] = group_text(g, g->meta.key[i]);
	for (size_t i = 0; i < FSN_SUMS && i < g->meta.sum_cnt; i++)
		info.sum[i] = group_text(g, g->meta.sum[i]);
	return info;
}

struct group_func group_func(const struct group *g, uint32_t fn)
{
	const struct fsn_func *f = &g->funcs[fn];
	const struct fsn_lib *lib = &g->libs[f->lib];

	return (struct group_func){
		.name = group_text(g, f->name),
		.kind = target_kind(f->kind)->word,
		.in_file = target_kind(f->kind)->in_files,
		.priced = target_kind(f->kind)->priced_by != PRICED_NOT,
		.is_sample = target_kind(f->kind)->is_sample,
		.symbol = text_or_null(g, f->symbol),
		.demangled = text_or_null(g, f->demangled),
		.library = group_text(g, lib->path),
		.build_id = group_text(g, lib->build_id),
		.soname = text_or_null(g, lib->soname),
		.offset = f->offset,
		.site_offset = f->site_offset,
		.site_why = group_text(g, f->site_why),
		.insn = group_text(g, f->insn),
		.exit = (enum fsn_exit)f->exit,
		.exit_why = group_text(g, f->exit_why),
		.site = f->site % PRICE_SITES,
		.end = f->end % PRICE_ENDS,
		.overhead_ns = overhead_of(g, f),
		.limit = f->limit % LIMIT_CNT,
		.types_why = text_or_null(g, f->types_why),
		.aliases = text_or_null(g, f->aliases),
	};
}

const char *group_name(const struct group *g)
{
	return g->name;
}

const char *group_func_name(const struct group *g, uint32_t fn)
{
	return group_text(g, g->funcs[fn].name);
}

const char *group_lib(const struct group *g, uint32_t lib)
{
	return group_text(g, g->libs[lib].path);
}

int group_ctl(const struct group *g, struct fsn_ctl *ret_ctl, struct err *err)
{
	struct fsn_ctl ctl;
	__u32 zero = 0;
	int code = map_get(group_fd(g, MAPID_CTL), &zero, &ctl);

	if (code)
		return err_sys(err, code, "cannot read group '%s'", g->name);
	*ret_ctl = ctl;
	return 0;
}

int group_wait_for_programs(const struct group *g)
{
	_cleanup_close_ int inner = bpf_map_create(BPF_MAP_TYPE_ARRAY, "fsn_sync", 4, 4, 1, NULL);
	uint32_t zero = 0;

	if (inner < 0)
		return -errno;
	return bpf_map_update_elem(group_fd(g, MAPID_SYNC), &zero, &inner, 0) ? -errno : 0;
}

int group_since(const struct group *g, uint64_t *ret_ns, struct err *err)
{
	struct fsn_ctl ctl;
	int code = group_ctl(g, &ctl, err);

	if (code)
		return code;
	*ret_ns = ctl.since_ns[FSN_BASE_INDEX(ctl.base)];
	return 0;
}

int group_until(const struct group *g, uint64_t *ret_ns, struct err *err)
{
	struct fsn_ctl ctl;
	int code = group_ctl(g, &ctl, err);

	if (code)
		return code;
	*ret_ns = !(ctl.on & FSN_FILTER_UNTIL) || !ctl.until_ns
		? 0
		: clock_ns(CLOCK_REALTIME) + ctl.until_ns - clock_ns(CLOCK_MONOTONIC);
	return 0;
}

uint64_t group_memory(const struct group *g)
{
	struct fsn_ctl ctl;
	uint32_t zero = 0;

	/* Who may not read its owner's maps may read none of these. */
	if (group_fd(g, MAPID_SAID) < 0)
		return 0;
	for (int i = 0; i < MAPID_CNT; i++)
		if (g->fd[i] < 0 && g->fd[i] != MAP_LEFT)
			return 0;
	if (!g->meta.memory_bytes || map_get(group_fd(g, MAPID_CTL), &zero, &ctl))
		return 0;
	return g->meta.memory_bytes + ctl.grown_bytes + stacks_memory(g);
}

void group_has_grown(const struct group *g)
{
	_cleanup_mapping_ struct map_mapping mapping = {};
	uint64_t bytes = 0;

	if (map_mmap(group_fd(g, MAPID_CTL), sizeof(struct fsn_ctl), &mapping))
		return;
	for (int i = 0; i < MAPID_CNT; i++)
		if (map_grows(i))
			bytes += map_memory(group_fd(g, i));
	__atomic_store_n(&((struct fsn_ctl *)mapping.addr)->grown_bytes, bytes, __ATOMIC_RELAXED);
}

bool group_lib_stale(const struct group *g, uint32_t lib)
{
	const struct fsn_lib *l = &g->libs[lib];
	const struct object_id id = { l->dev, l->ino, l->size, l->mtime_ns };

	for (uint32_t fn = 0; fn < g->meta.fn_cnt; fn++)
		if (g->funcs[fn].lib == lib)
			return kind_of(g, fn)->is_stale(group_text(g, l->path), &id);
	return false;
}

/* --- thresholds ----------------------------------------------------------------------------- */

bool group_has_slow(const struct group *g)
{
	_cleanup_free_ struct fsn_conf *confs = xcalloc(g->meta.fn_cnt + 1, sizeof(*confs));

	if (map_read(group_fd(g, MAPID_CONFS), 0, g->meta.fn_cnt, sizeof(*confs), confs))
		return true;
	for (uint32_t i = 0; i < g->meta.timed_cnt; i++)
		if (confs[i].slow_ns != FSN_NO_SLOW)
			return true;
	return false;
}

int group_check_timed(const struct group *g, const char *pattern, struct err *err)
{
	for (uint32_t i = 0; i < g->meta.timed_cnt; i++)
		if (pattern_glob(pattern, group_func_name(g, i)))
			return 0;
	return err_set(err, -ENOENT, "no timed function '%s' in group '%s'", pattern, g->name);
}

int group_set_slow(const struct group *g, const char *pattern, bool off, uint64_t ns,
	struct err *err)
{
	_cleanup_mapping_ struct map_mapping map = {}, map_conf = {};
	struct fsn_conf *confs;
	struct fsn_ctl *ctl;
	int code;

	code = pattern ? group_check_timed(g, pattern, err) : 0;
	if (code)
		return code;
	code = map_mmap(group_fd(g, MAPID_CTL), sizeof(*ctl), &map);
	if (!code)
		code = map_mmap(group_fd(g, MAPID_CONFS), g->meta.fn_cnt * sizeof(*confs), &map_conf);
	if (code)
		return err_sys(err, code, "cannot change group '%s'", g->name);
	ctl = map.addr;
	confs = map_conf.addr;
	/* Arguments are kept before the first call can be slow, so that none lacks them. */
	if (!off)
		__atomic_fetch_or(&ctl->save_args, FSN_SAVE_SLOW, __ATOMIC_SEQ_CST);
	for (uint32_t i = 0; i < g->meta.timed_cnt; i++)
		if (!pattern || pattern_glob(pattern, group_func_name(g, i)))
			__atomic_store_n(&confs[i].slow_ns, off ? FSN_NO_SLOW : ns,
				__ATOMIC_SEQ_CST);
	return 0;
}

int group_lib_mappers(const struct group *g, uint32_t lib, struct procs *procs, size_t *ret_cnt,
	pid_t *ret_pid, struct err *err)
{
	const struct mappers_file file = { g->libs[lib].dev, g->libs[lib].ino,
		group_lib(g, lib) };

	return mappers_count(procs, &file, 1, ret_cnt, ret_pid, err);
}
