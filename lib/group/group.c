// SPDX-License-Identifier: BSD-2-Clause
// Reading what a group says of itself.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include <bpf/bpf.h>

#include "base/text.h"
#include "group/records.h"
#include "group/stacks.h"
#include "proc/proc.h"

/* Adds what to do about a failure of rights; returns @code. */
static int hint_access(int code, bool write, struct err *err)
{
	if ((code == -EPERM || code == -EACCES) && write)
		err_hint(err, BPFFS_HINT_WRITERS);
	else if (code == -EACCES)
		err_hint(err, BPFFS_HINT_READERS);
	else if (code == -EPERM) /* bpf(2) as a whole, before c8644cd0efe7 */
		err_hint(err, "before Linux 5.19 reading takes CAP_BPF, or "
			      "kernel.unprivileged_bpf_disabled=0");
	return code;
}

static int open_maps(struct group *g, int dir_fd, struct err *err)
{
	for (int i = 0; i < MAPID_CNT; i++) {
		if (g->fd[i] != MAP_LEFT || (g->brief && !map_is_listed(i)))
			continue;
		g->fd[i] = bpffs_get(dir_fd, map_pin_name(i), g->write ? 0 : BPF_F_RDONLY);
		if (g->fd[i] >= 0 && !map_check(g->fd[i], i))
			continue;
		if (g->fd[i] >= 0)
			return err_set(err, -EPROTO, "group '%s' is damaged: map '%s'",
				g->name, map_pin_name(i));
		/* Who may read the counters reads them: group_map_fd() tells of the rest. */
		if (!g->write && !map_is_counter(i) &&
			(g->fd[i] == -EPERM || g->fd[i] == -EACCES))
			continue;
		err_sys(err, g->fd[i], "cannot open map '%s' of group '%s'", map_pin_name(i),
			g->name);
		return hint_access(g->fd[i], g->write, err);
	}
	return 0;
}

/* Only the first word of meta is the same in every layout. */
static int check_layout(struct group *g, int dir_fd, struct err *err)
{
	_cleanup_close_ int fd = bpffs_get(dir_fd, map_pin_name(MAPID_META), BPF_F_RDONLY);
	struct bpf_map_info info = {};
	__u32 len = sizeof(info), zero = 0;
	_cleanup_free_ char *value = NULL;

	if (fd < 0) {
		err_sys(err, fd, "cannot open group '%s'", g->name);
		return hint_access(fd, g->write, err);
	}
	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return err_sys(err, -errno, "cannot read group '%s'", g->name);
	value = calloc(1, info.value_size + sizeof(g->meta));
	if (!value)
		return err_sys(err, -ENOMEM, "cannot read group '%s'", g->name);
	if (bpf_map_lookup_elem(fd, &zero, value))
		return err_sys(err, -errno, "cannot read group '%s'", g->name);
	memcpy(&g->meta, value, sizeof(g->meta));
	g->foreign = g->meta.layout != FSN_LAYOUT || info.value_size != sizeof(g->meta);
	if (!g->foreign)
		return 0;
	err_set(err, -EPROTO, "group '%s' has layout %u, this command reads layout %u",
		g->name, g->meta.layout, FSN_LAYOUT);
	return err_hint(err, "read it with the version that attached it, or detach it");
}

static uint64_t entries_of(const struct group *g, enum map_id id)
{
	struct bpf_map_info info = {};
	__u32 len = sizeof(info);

	return bpf_obj_get_info_by_fd(g->fd[id], &info, &len) ? 0 : info.max_entries;
}

/* Whether there is as much as is said: sizes are reckoned with these counts. */
static bool counts_fit(const struct group *g)
{
	return g->meta.timed_cnt <= g->meta.fn_cnt &&
		g->meta.fn_cnt <= entries_of(g, MAPID_FUNCS) &&
		g->meta.lib_cnt <= entries_of(g, MAPID_LIBS) &&
		(g->brief || (g->meta.type_cnt <= entries_of(g, MAPID_TYPES) &&
			g->meta.name_cnt <= entries_of(g, MAPID_NAMES))) &&
		g->meta.text_bytes <= entries_of(g, MAPID_TEXT) * FSN_TEXT_LEN;
}

static int read_description(struct group *g, struct err *err)
{
	size_t pieces = ((size_t)g->meta.text_bytes + FSN_TEXT_LEN - 1) / FSN_TEXT_LEN;
	int code;

	if (!counts_fit(g)) {
		g->meta.fn_cnt = g->meta.lib_cnt = 0;
		return err_set(err, -EPROTO, "group '%s' is damaged: its counts", g->name);
	}
	g->funcs = calloc(g->meta.fn_cnt + 1, sizeof(*g->funcs));
	g->libs = calloc(g->meta.lib_cnt + 1, sizeof(*g->libs));
	g->text = calloc(pieces + 1, FSN_TEXT_LEN);
	if (!g->funcs || !g->libs || !g->text)
		return err_sys(err, -ENOMEM, "cannot read group '%s'", g->name);
	code = map_read_fixed(
		g->fd[MAPID_FUNCS], 0, g->meta.fn_cnt, sizeof(*g->funcs), g->funcs);
	if (!code)
		code = map_read_fixed(
			g->fd[MAPID_LIBS], 0, g->meta.lib_cnt, sizeof(*g->libs), g->libs);
	if (!code)
		code = map_read_fixed(
			g->fd[MAPID_TEXT], 0, pieces, FSN_TEXT_LEN, g->text);
	if (code)
		return err_sys(err, code, "cannot read group '%s'", g->name);
	for (uint32_t i = 0; i < g->meta.fn_cnt; i++)
		if (g->funcs[i].lib >= g->meta.lib_cnt)
			return err_set(err, -EPROTO, "group '%s' is damaged", g->name);
	return 0;
}

static int open_group(const struct bpffs *fs, const char *name, bool write, bool brief,
	struct group **ret_group, struct err *err)
{
	_cleanup_group_ struct group *g = calloc(1, sizeof(*g));
	_cleanup_close_ int dir_fd = -1;
	int code;

	*ret_group = NULL;
	if (!g)
		return err_sys(err, -ENOMEM, "cannot open group '%s'", name);
	for (int i = 0; i < MAPID_CNT; i++)
		g->fd[i] = MAP_LEFT;
	g->lock_fd = g->dir_fd = -1;
	g->write = write;
	g->brief = brief;
	snprintf(g->name, sizeof(g->name), "%s", name);
	code = bpffs_open_group(fs, name, &dir_fd, err);
	if (code && code != -EACCES)
		return code;
	if (!code)
		code = check_layout(g, dir_fd, err);
	if (!code)
		code = open_maps(g, dir_fd, err);
	if (!code)
		code = read_description(g, err);
	g->dir_fd = TAKE_FD(dir_fd);
	*ret_group = TAKE_PTR(g);
	return code;
}

int group_open(const struct bpffs *fs, const char *name, bool write,
	struct group **ret_group, struct err *err)
{
	return open_group(fs, name, write, false, ret_group, err);
}

int group_open_brief(const struct bpffs *fs, const char *name, bool write,
	struct group **ret_group, struct err *err)
{
	return open_group(fs, name, write, true, ret_group, err);
}

int group_open_rest(const struct group *g, struct err *err)
{
	struct group *whole = (struct group *)g; /* what it says of itself stays as it is */

	if (!g->brief)
		return 0;
	whole->brief = false;
	return open_maps(whole, g->dir_fd, err);
}

int group_lock(struct group *g, const struct bpffs *fs, struct err *err)
{
	_cleanup_close_ int dir_fd = -1;
	int code = bpffs_open_group(fs, g->name, &dir_fd, err);

	if (code)
		return code;
	if (bpffs_has_lock(dir_fd))
		return bpffs_lock_group(dir_fd, g->name, &g->lock_fd, err);
	if (fs->locked)
		return 0;
	err_set(err, -EACCES, "cannot lock group '%s'", g->name);
	return hint_access(-EACCES, true, err);
}

void group_unlock(struct group *g)
{
	g->lock_fd = close_fd(g->lock_fd);
}

void group_free(struct group *g)
{
	if (!g)
		return;
	for (int i = 0; i < MAPID_CNT; i++)
		close_fd(g->fd[i]);
	close_fd(g->dir_fd);
	group_unlock(g);
	free(g->funcs);
	free(g->libs);
	free(g->text);
	free(g);
}

int group_keep_shared(struct group *g, struct err *err)
{
	g->write = false;
	for (int i = 0; i < MAPID_CNT; i++) {
		struct stat st;

		if (g->fd[i] < 0)
			continue;
		if (fstatat(g->dir_fd, map_pin_name(i), &st, AT_SYMLINK_NOFOLLOW))
			return err_sys(err, -errno, "cannot read group '%s'", g->name);
		if (st.st_mode & (S_IRGRP | S_IROTH))
			continue;
		if (map_is_counter(i)) {
			err_set(err, -EACCES, "group '%s' is not shared", g->name);
			return err_hint(err, "'funcsnoop attach --mode 0644' shares its numbers");
		}
		close(g->fd[i]);
		g->fd[i] = -EACCES;
	}
	return 0;
}

int group_map_fd(const struct group *g, enum map_id id, const char *what, struct err *err)
{
	if (g->fd[id] >= 0)
		return g->fd[id];
	err_set(err, g->fd[id], "%s of group '%s' are for its owner only", what, g->name);
	return err_hint(err, "'funcsnoop attach --mode-all' shares them, too");
}

const char *group_text(const struct group *g, uint32_t offset)
{
	return strtab_at(g->text, g->meta.text_bytes, offset);
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
		.is_sample = target_kind(f->kind)->is_event && target_kind(f->kind)->has_stacks,
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
	struct bpf_map_info info = {};
	__u32 len = sizeof(info), zero = 0;
	_cleanup_free_ char *value = NULL;

	if (bpf_obj_get_info_by_fd(g->fd[MAPID_CTL], &info, &len))
		return err_sys(err, -errno, "cannot read group '%s'", g->name);
	if (info.value_size < sizeof(*ret_ctl))
		return err_set(err, -EPROTO, "group '%s' is damaged", g->name);
	value = malloc(info.value_size);
	if (!value)
		return err_sys(err, -ENOMEM, "cannot read group '%s'", g->name);
	if (bpf_map_lookup_elem(g->fd[MAPID_CTL], &zero, value))
		return err_sys(err, -errno, "cannot read group '%s'", g->name);
	memcpy(ret_ctl, value, sizeof(*ret_ctl));
	return 0;
}

int group_wait_for_programs(const struct group *g)
{
	_cleanup_close_ int inner = bpf_map_create(BPF_MAP_TYPE_ARRAY, "fsn_sync", 4, 4, 1, NULL);
	uint32_t zero = 0;

	if (inner < 0)
		return -errno;
	return bpf_map_update_elem(g->fd[MAPID_SYNC], &zero, &inner, 0) ? -errno : 0;
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
	for (int i = 0; i < MAPID_CNT; i++)
		if (g->fd[i] < 0 && g->fd[i] != MAP_LEFT)
			return 0;
	return g->meta.memory_bytes ? g->meta.memory_bytes + stacks_memory(g) : 0;
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
	_cleanup_free_ struct fsn_conf *confs = calloc(g->meta.fn_cnt + 1, sizeof(*confs));

	if (!confs || map_read(g->fd[MAPID_CONFS], 0, g->meta.fn_cnt, sizeof(*confs), confs))
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
	code = map_mmap(g->fd[MAPID_CTL], sizeof(*ctl), &map);
	if (!code)
		code = map_mmap(g->fd[MAPID_CONFS], g->meta.fn_cnt * sizeof(*confs), &map_conf);
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
