// SPDX-License-Identifier: BSD-2-Clause
// Return codes, processes, paths and slow calls: records found by key.
#include <errno.h>
#include <string.h>
#include <time.h>

#include <bpf/bpf.h>

#include "base/util.h"
#include "group/keys.h"
#include "group/types.h"
#include "internal.h"

#define CHUNK 1024

/* --- return codes --------------------------------------------------------------------------- */

static int compare_codes(const void *a, const void *b)
{
	const struct stats_code *x = a, *y = b;

	return (x->code > y->code) - (x->code < y->code);
}

static void add_code(struct stats_func *f, int64_t code, uint64_t count)
{
	for (size_t i = 0; i < f->code_cnt; i++)
		if (f->codes[i].code == code) {
			f->codes[i].count += count;
			return;
		}
	f->codes = array_grow(f->codes, f->code_cnt, sizeof(*f->codes));
	f->codes[f->code_cnt++] = (struct stats_code){ .code = code, .count = count };
}

/* Copies: types are read only where there are codes. */
static void name_codes(const struct types *types, struct stats_func *f)
{
	const struct type_codes *codes = types_of(types, f->fn)->ret_codes;

	for (size_t i = 0; i < f->code_cnt; i++) {
		const struct type_code *code = type_code_find(codes, f->codes[i].code);

		f->codes[i].name = code ? xstrdup(code->name) : NULL;
	}
}

void stats_add_unplaced(
	struct stats_func *f, const struct fsn_stat *stat, const struct stats_view *view)
{
	for (int p = 0; p < 2; p++)
		if (stat->unplaced[p] && view_has(view, stat->unplaced[p] >> FSN_NS_BITS))
			f->unplaced += stat->unplaced[p] & FSN_NS_MASK;
}

/*
 * Programs of an older command keep only the sum for the group: then it is what is left of
 * errors, which were read first: too few while calls fail.
 */
static void guess_unplaced(const struct stats_view *view, struct stats *s)
{
	const struct fsn_ctl *ctl = &view->ctl;
	uint64_t codes;

	if (ctl->lost_codes == ctl->lost_codes_base[FSN_BASE_INDEX(ctl->base)])
		return;
	for (size_t i = 0; i < s->func_cnt; i++) {
		struct stats_func *f = &s->funcs[i];

		codes = 0;
		for (size_t k = 0; k < f->code_cnt; k++)
			codes += f->codes[k].count;
		f->unplaced = f->n.errors > codes ? f->n.errors - codes : 0;
	}
}

int stats_read_codes(
	const struct group *g, const struct stats_view *view, struct stats *s)
{
	_cleanup_types_ struct types *types = NULL;
	int fd = group_fd(g, MAPID_CODES), code = 0;
	struct fsn_code key, *from = NULL;
	uint64_t count;

	while (bpf_map_get_next_key(fd, from, &key) == 0) {
		from = &key;
		if (key.fn >= s->func_cnt || !view_has(view, key.epoch) ||
			bpf_map_lookup_elem(fd, &key, &count))
			continue;
		add_code(&s->funcs[key.fn], key.code, count);
	}
	for (size_t i = 0; !code && i < s->func_cnt; i++) {
		struct stats_func *f = &s->funcs[i];

		if (!f->code_cnt)
			continue;
		qsort(f->codes, f->code_cnt, sizeof(*f->codes), compare_codes);
		if (!types)
			code = types_read(g, &types, NULL);
		if (!code)
			name_codes(types, f);
	}
	if (!code && !(g->meta.options & FSN_OPT_UNPLACED))
		guess_unplaced(view, s);
	return code;
}

/* --- processes ------------------------------------------------------------------------------ */

static int compare_procs(const void *a, const void *b)
{
	const struct stats_proc *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static void add_proc(struct stats_func *f, const struct fsn_proc *p)
{
	struct stats_proc *proc;

	f->procs = array_grow(f->procs, f->proc_cnt, sizeof(*f->procs));
	proc = &f->procs[f->proc_cnt++];
	*proc = (struct stats_proc) { .pid = procs_pid(p->key),
		.start_ns = p->start,
		.cgroup = p->cgroup,
		.n = p->n,
		.nested = f->nested,
		.split = f->split };
	memcpy(proc->comm, p->comm, sizeof(p->comm) - 1);
}

/* A process has a record for each shard of the CPUs, and each epoch. */
static void merge_procs(struct stats_func *f)
{
	size_t kept = 0;

	qsort(f->procs, f->proc_cnt, sizeof(*f->procs), compare_procs);
	for (size_t i = 1; i < f->proc_cnt; i++) {
		struct stats_proc *to = &f->procs[kept], *from = &f->procs[i];

		if (compare_procs(to, from)) {
			f->procs[++kept] = *from;
			continue;
		}
		proc_counts_add(&to->n, &from->n);
	}
	f->proc_cnt = kept + 1;
	for (size_t i = 0; i < f->proc_cnt; i++) {
		f->procs[i].n.total_ns = stats_signed(f->procs[i].n.total_ns);
		f->procs[i].n.on_cpu_ns = stats_signed(f->procs[i].n.on_cpu_ns);
	}
}

/* A record, or, if it has no process, the row of those that have ended. */
static void take_proc(const struct stats_view *view, struct stats *s, const struct fsn_proc *p)
{
	uint32_t fn = procs_fn(p->key);

	if (!procs_counts(view, p->key) || fn >= s->func_cnt)
		return;
	if (procs_pid(p->key))
		add_proc(&s->funcs[fn], p);
	else
		proc_counts_add(&s->funcs[fn].ended.n, &p->n);
}

static int take_procs(const struct group *g, const struct stats_view *view, struct stats *s,
	uint32_t first, uint32_t cnt)
{
	_cleanup_free_ struct fsn_proc *chunk = xcalloc(CHUNK, sizeof(*chunk));
	uint32_t n;
	int code = 0;

	for (uint32_t at = 0; !code && at < cnt; at += n) {
		n = cnt - at < CHUNK ? cnt - at : CHUNK;
		code = map_read(group_fd(g, MAPID_PROCS), first + at, n, sizeof(*chunk), chunk);
		for (uint32_t i = 0; !code && i < n; i++)
			take_proc(view, s, &chunk[i]);
	}
	return code;
}

int stats_read_procs(
	const struct group *g, const struct stats_view *view, struct stats *s)
{
	uint32_t cnt, fn_cnt = g->meta.fn_cnt;
	int code;

	if (!(g->meta.options & FSN_OPT_PROCESSES) || !group_begun(g).calls)
		return 0;
	code = procs_cnt(g, &cnt);
	if (!code)
		code = take_procs(g, view, s, 0, cnt);
	if (!code)
		code = take_procs(g, view, s, cnt + (view->ctl.fold & 1) * fn_cnt, fn_cnt);
	for (size_t i = 0; !code && i < s->func_cnt; i++) {
		if (s->funcs[i].proc_cnt)
			merge_procs(&s->funcs[i]);
		s->funcs[i].ended.nested = s->funcs[i].nested;
		s->funcs[i].ended.split = s->funcs[i].split;
		s->funcs[i].ended.n.total_ns = stats_signed(s->funcs[i].ended.n.total_ns);
		s->funcs[i].ended.n.on_cpu_ns = stats_signed(s->funcs[i].ended.n.on_cpu_ns);
	}
	return code;
}

/* --- who called whom ------------------------------------------------------------------------ */

/* What calls by each path have had since the group was attached. */
static int paths_total(const struct group *g, struct fsn_path *total)
{
	uint32_t cnt = g->meta.path_cnt;
	_cleanup_free_ struct fsn_path *shard = calloc(cnt, sizeof(*shard));
	int code = shard ? 0 : -ENOMEM;

	for (uint32_t k = 0; !code && k < g->meta.path_shards; k++) {
		code = map_read(group_fd(g, MAPID_PATH_STATS), k * cnt, cnt, sizeof(*shard), shard);
		for (uint32_t i = 0; !code && i < cnt; i++) {
			total[i].self_ns += shard[i].self_ns;
			total[i].calls += shard[i].calls;
		}
	}
	return code;
}

static uint32_t path_caller(uint64_t key)
{
	return key >> FSN_PATH_UNDER_SHIFT;
}

/* Keys of those that lead to path @i: they are older than its own, but may be read after it. */
static int read_callers(const struct group *g, uint64_t *keys, uint32_t i)
{
	int code = 0;

	while (!code && path_caller(keys[i])) {
		i = path_caller(keys[i]) - 1;
		if (i >= g->meta.path_cnt)
			return -EPROTO;
		if (!keys[i])
			code = map_get(group_fd(g, MAPID_PATHS), &i, &keys[i]);
	}
	return code;
}

static void add_path(struct stats *s, uint32_t i, uint64_t key, const struct fsn_path *now,
	const struct fsn_path *base)
{
	s->paths[s->path_cnt++] = (struct stats_path) {
		.id = i + 1,
		.caller = path_caller(key),
		.fn = key ? (uint32_t)(key & FSN_FN_MASK) - 1 : STATS_NO_FN,
		.calls = now->calls - base->calls,
		.self_ns = (int64_t)(now->self_ns - base->self_ns),
	};
}

int stats_read_paths(const struct group *g, const struct stats_view *view, struct stats *s,
	struct stats_raw *raw)
{
	uint32_t cnt = g->meta.path_cnt, index = FSN_BASE_INDEX(view->ctl.base);
	_cleanup_free_ struct fsn_path *base = calloc(cnt + 1, sizeof(*base));
	_cleanup_free_ uint64_t *keys = calloc(cnt + 1, sizeof(*keys));
	int code;

	if (!cnt)
		return 0;
	raw->paths = calloc(cnt, sizeof(*raw->paths));
	s->paths = calloc(cnt, sizeof(*s->paths));
	if (!base || !keys || !raw->paths || !s->paths)
		return -ENOMEM;
	code = map_read(group_fd(g, MAPID_PATHS), 0, cnt, sizeof(*keys), keys);
	for (uint32_t i = 0; !code && i < cnt; i++)
		code = read_callers(g, keys, i);
	if (!code)
		code = paths_total(g, raw->paths);
	if (!code)
		code = map_read_fixed(base_paths_fd(g, index), 0, cnt, sizeof(*base), base);
	for (uint32_t i = 0; !code && i < cnt; i++)
		if (i + 1 == cnt || (keys[i] && (keys[i] & FSN_FN_MASK) <= g->meta.fn_cnt))
			add_path(s, i, keys[i], &raw->paths[i], &base[i]);
	return code;
}

/* --- how times of rows are spread ------------------------------------------------------------- */

static int compare_cells(const void *a, const void *b)
{
	const struct fsn_spread_at *x = a, *y = b;

	if (x->row != y->row)
		return x->row < y->row ? -1 : 1;
	return (x->bucket > y->bucket) - (x->bucket < y->bucket);
}

void spreads_read(const struct group *g, const struct stats_view *view, struct spreads *ret)
{
	int fd = group_map_fd(g, MAPID_SPREADS, "spreads", NULL);
	struct fsn_spread_at key, *from = NULL;
	uint64_t cnt;

	*ret = (struct spreads) { .lost = view->ctl.lost_spreads };
	while (fd >= 0 && bpf_map_get_next_key(fd, from, &key) == 0) {
		from = &key;
		if (key.bucket >= FSN_HIST_CNT || !view_has(view, key.epoch) ||
			bpf_map_lookup_elem(fd, &key, &cnt))
			continue;
		ret->cells = array_grow(ret->cells, ret->cnt, sizeof(*ret->cells));
		ret->cells[ret->cnt++] = (struct spread_cell) { key, cnt };
	}
	if (ret->cnt)
		qsort(ret->cells, ret->cnt, sizeof(*ret->cells), compare_cells);
}

void spreads_done(struct spreads *spreads)
{
	free(spreads->cells);
}

void spread_take(
	const struct spreads *spreads, uint32_t nth, struct stats *s, struct stats_row *row)
{
	const struct spread_cell *cells = spreads->cells;
	size_t i = FIRST_WHERE(spreads->cnt, k, cells[k].at.row >= nth);
	struct stats_spread *spread;
	uint64_t all = 0;

	if (i == spreads->cnt || cells[i].at.row != nth)
		return;
	s->spreads = array_grow(s->spreads, s->spread_cnt, sizeof(*s->spreads));
	spread = s->spreads[s->spread_cnt++] = xcalloc(1, sizeof(*spread));
	for (; i < spreads->cnt && cells[i].at.row == nth; i++) {
		spread->bucket[cells[i].at.bucket] += cells[i].cnt;
		all += cells[i].cnt;
	}
	if (!spreads->lost || all >= row->n.returns)
		row->spread = spread;
}

void spreads_forget(struct stats *s)
{
	for (size_t i = 0; i < s->spread_cnt; i++)
		free(s->spreads[i]);
	free(s->spreads);
}

/* --- slow calls ----------------------------------------------------------------------------- */

static int compare_slow(const void *a, const void *b)
{
	const struct fsn_slow *x = a, *y = b;

	return (x->seq > y->seq) - (x->seq < y->seq);
}

int stats_slow_calls(const struct group *g, struct fsn_slow **ret_calls, size_t *ret_cnt,
	struct err *err)
{
	_cleanup_free_ struct fsn_slow *calls = xcalloc(FSN_SLOW_CNT, sizeof(*calls));
	int code, fd = group_map_fd(g, MAPID_SLOW, "slow calls", err);
	struct fsn_key raw;
	struct fsn_ctl ctl;
	size_t cnt = 0;

	code = fd < 0 ? fd : group_ctl(g, &ctl, err);
	if (code)
		return code;
	code = map_read(fd, 0, FSN_SLOW_CNT, sizeof(*calls), calls);
	if (code)
		return err_sys(
			err, code, "cannot read slow calls of group '%s'", g->name);
	for (size_t i = 0; i < FSN_SLOW_CNT; i++) {
		struct fsn_slow *c = &calls[i];

		if (!c->seq || c->call.fn >= g->meta.fn_cnt ||
			c->seq - 1 < ctl.slow_base[FSN_BASE_INDEX(ctl.base)])
			continue;
		c->call.comm[sizeof(c->call.comm) - 1] = '\0';
		raw = c->key;
		memset(&c->key, 0, sizeof(c->key));
		group_key_spread(g, &raw, &c->key);
		calls[cnt++] = *c;
	}
	qsort(calls, cnt, sizeof(*calls), compare_slow);
	*ret_calls = TAKE_PTR(calls);
	*ret_cnt = cnt;
	return 0;
}
