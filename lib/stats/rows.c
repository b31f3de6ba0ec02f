// SPDX-License-Identifier: BSD-2-Clause
// Rows of processes and of keys, and the live allocations of their calls.
#include <bpf/bpf.h>

#include "base/util.h"
#include "group/keys.h"
#include "internal.h"

/* --- live allocations: counters of functions, and blocks by row and process ------------------- */

#define SETS_AT_ONCE 512

/*
 * Subtracts the baseline, except from .lost_blocks: allocations that were dropped (table full) are
 * missing from the live bytes also after a reset.
 */
static void counts_since(struct fsn_memory_counts *n, const struct fsn_memory_counts *was)
{
	n->freed_bytes -= was->freed_bytes;
	n->freed_blocks -= was->freed_blocks;
	n->exit_bytes -= was->exit_bytes;
	n->exit_blocks -= was->exit_blocks;
	n->unknown_frees -= was->unknown_frees;
}

/* The peak since the baseline is at least what was live then. */
static struct stats_memory memory_since(const struct stats_view *view, const struct fsn_memory *now,
	const struct fsn_memory *base, const struct fsn_rule *rule)
{
	struct stats_memory m = { .allocates = rule->allocates, .frees = rule->frees, .n = now->n,
		.peak_bytes = base->n.live_bytes };

	counts_since(&m.n, &base->n);
	for (int p = 0; p < 2; p++)
		if (now->peak[p] && view_has(view, now->peak[p] >> FSN_NS_BITS) &&
			(now->peak[p] & FSN_NS_MASK) > m.peak_bytes)
			m.peak_bytes = now->peak[p] & FSN_NS_MASK;
	if (m.n.live_bytes > m.peak_bytes)
		m.peak_bytes = m.n.live_bytes;
	return m;
}

static void live_add(struct stats_live *live, const struct fsn_block *block)
{
	live->bytes += block->size;
	live->blocks++;
	if (!live->oldest_ns || block->since_ns < live->oldest_ns)
		live->oldest_ns = block->since_ns;
}

void stats_live_add(struct stats_live *to, const struct stats_live *more)
{
	to->bytes += more->bytes;
	to->blocks += more->blocks;
	if (more->oldest_ns && (!to->oldest_ns || more->oldest_ns < to->oldest_ns))
		to->oldest_ns = more->oldest_ns;
}

static int holder_compare(const struct stats_holder *h, const struct fsn_block *block)
{
	if (h->pid != (pid_t)block->tgid)
		return h->pid < (pid_t)block->tgid ? -1 : 1;
	return h->fn < block->fn ? -1 : h->fn > block->fn;
}

/* Finds or inserts the process and function of @block; blocks are in hash order, not by process. */
static struct stats_holder *holder_of(struct stats *s, const struct fsn_block *block)
{
	size_t at = FIRST_WHERE(s->holder_cnt, i, holder_compare(&s->holders[i], block) >= 0);
	struct stats_holder *holder;

	if (at < s->holder_cnt && !holder_compare(&s->holders[at], block))
		return &s->holders[at];
	s->holders = array_grow(s->holders, s->holder_cnt, sizeof(*s->holders));
	holder = &s->holders[at];
	memmove(holder + 1, holder, (s->holder_cnt++ - at) * sizeof(*holder));
	*holder = (struct stats_holder) { .pid = (pid_t)block->tgid, .fn = block->fn };
	return holder;
}

/* Adds the live blocks of @set. The BPF programs may change the table during the reading. */
static void take_set(struct stats *s, const struct fsn_block_set *set, uint64_t before_ns,
	struct stats_live *rows, uint32_t row_cnt)
{
	for (size_t i = 0; i < FSN_BLOCK_WAYS; i++) {
		const struct fsn_block *block = &set->block[i];

		if ((set->key[i] & FSN_BLOCK_STATE) != FSN_BLOCK_LIVE || block->since_ns > before_ns ||
			block->fn >= s->func_cnt)
			continue;
		live_add(&holder_of(s, block)->live, block);
		live_add(&s->funcs[block->fn].live, block);
		if (block->row < row_cnt)
			live_add(&rows[block->row], block);
	}
}

static int stats_read_blocks(const struct group *g, const struct stats_view *view, struct stats *s,
	struct stats_live **ret_rows)
{
	int fd = g->meta.block_sets ? group_map_fd(g, MAPID_BLOCKS, "blocks", NULL) : -1, code = 0;
	_cleanup_free_ struct fsn_block_set *sets = NULL;
	_cleanup_free_ struct stats_live *rows = NULL;
	uint64_t before = view->older_ns ? s->read_mono_ns - view->older_ns : UINT64_MAX;
	uint32_t row_cnt, n;

	*ret_rows = NULL;
	if (fd < 0)
		return 0;
	code = rows_cnt(g, &row_cnt);
	if (code)
		return code;
	rows = xcalloc(row_cnt + 1, sizeof(*rows));
	sets = aligned_alloc(64, SETS_AT_ONCE * sizeof(*sets));
	if (!sets)
		alloc_failed();
	for (uint32_t i = 0; !code && i < g->meta.block_sets; i += n) {
		n = g->meta.block_sets - i < SETS_AT_ONCE ? g->meta.block_sets - i : SETS_AT_ONCE;
		code = map_read(fd, i, n, sizeof(*sets), sets);
		for (uint32_t k = 0; !code && k < n; k++)
			take_set(s, &sets[k], before, rows, row_cnt);
	}
	s->blocks_known = !code;
	*ret_rows = TAKE_PTR(rows);
	return code;
}

/* Counts only calls that have succeeded, if that is known: a call in progress may still fail. */
static uint64_t bulk_frees(const struct stats_func *f, const struct fsn_counts *n)
{
	return f->timed ? n->returns - n->errors : n->calls;
}

int stats_read_memory(
	const struct group *g, const struct stats_view *view, struct stats *s, struct stats_raw *raw)
{
	_cleanup_free_ struct fsn_memory *base = NULL;
	_cleanup_free_ struct fsn_rule *rules = NULL;
	uint32_t cnt = g->meta.fn_cnt;
	int code;

	if (!g->meta.block_sets)
		return 0;
	base = xcalloc(cnt, sizeof(*base));
	rules = xcalloc(cnt, sizeof(*rules));
	raw->memory = xcalloc(cnt, sizeof(*raw->memory));
	code = map_read(group_fd(g, MAPID_MEMORY), 0, cnt, sizeof(*raw->memory), raw->memory);
	if (!code)
		code = map_read_sparse(base_memory_fd(g, FSN_BASE_INDEX(view->ctl.base)), cnt,
			sizeof(*base), base);
	if (!code)
		code = map_read_fixed(group_fd(g, MAPID_RULES_OF), 0, cnt, sizeof(*rules), rules);
	for (uint32_t i = 0; !code && i < cnt; i++) {
		s->funcs[i].memory = memory_since(view, &raw->memory[i], &base[i], &rules[i]);
		if (rules[i].frees_all)
			s->bulk_frees += bulk_frees(&s->funcs[i], &raw->total[i].n);
	}
	return code;
}

/* --- rows of keys --------------------------------------------------------------------------- */

int rows_cnt(const struct group *g, uint32_t *ret_cnt)
{
	if (g->meta.row_cnt > FSN_ROWS_MAX)
		return -EPROTO;
	*ret_cnt = g->meta.row_cnt ? g->meta.row_cnt + g->meta.fn_cnt : 0;
	return 0;
}

bool stats_row_is_empty(const struct stats_row *row)
{
	return !row->n.calls && !row->n.returns && !row->live.blocks && !row->exit_blocks;
}

int stats_row_compare(const void *a, const void *b)
{
	const struct stats_row *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->hidden != y->hidden)
		return x->hidden < y->hidden ? -1 : 1;
	for (size_t i = 0; i < ARRAY_SIZE(x->key.word); i++)
		if (x->key.word[i] != y->key.word[i])
			return x->key.word[i] < y->key.word[i] ? -1 : 1;
	return 0;
}

void stats_row_add(struct stats_row *to, const struct stats_row *more)
{
	proc_counts_add(&to->n, &more->n);
	for (size_t i = 0; i < FSN_SUMS; i++)
		to->sum[i] += more->sum[i];
	stats_live_add(&to->live, &more->live);
	to->exit_bytes += more->exit_bytes;
	to->exit_blocks += more->exit_blocks;
	to->allocates |= more->allocates;
	if (more->nth && (!to->nth || more->nth < to->nth))
		to->nth = more->nth;
}

void stats_row_subtract(struct stats_row *from, const struct stats_row *was)
{
	proc_counts_subtract(&from->n, &was->n);
	for (size_t i = 0; i < FSN_SUMS; i++)
		from->sum[i] -= was->sum[i];
	from->spread_was = was->spread;
}

bool stats_spread_add(struct stats_spread *to, const struct stats_row *row)
{
	uint64_t all = 0;

	for (size_t i = 0; row->spread && i < FSN_HIST_CNT; i++) {
		uint64_t was = row->spread_was ? row->spread_was->bucket[i] : 0;
		uint64_t more = row->spread->bucket[i] - was;

		to->bucket[i] += more;
		all += more;
	}
	return all;
}

struct stats_row rows_since(
	const struct stats_view *view, const struct fsn_row *now, const struct fsn_row *base)
{
#define X(name) .n.name = now->name - base->name,
	struct stats_row row = { ROW_COUNTS(X)
		.exit_bytes = now->exit_bytes - base->exit_bytes,
		.exit_blocks = now->exit_blocks - base->exit_blocks };
#undef X

	for (size_t i = 0; i < FSN_SUMS; i++)
		row.sum[i] = now->sum[i] - base->sum[i];
	for (int p = 0; p < 2; p++)
		if (now->max[p] && view_has(view, now->max[p] >> FSN_NS_BITS) &&
			(now->max[p] & FSN_NS_MASK) > row.n.max_ns)
			row.n.max_ns = now->max[p] & FSN_NS_MASK;
	return row;
}

/* The overhead subtracted from many short calls may exceed their time. */
static void row_settle(struct stats_row *row)
{
	row->n.total_ns = stats_signed(row->n.total_ns);
	row->n.on_cpu_ns = stats_signed(row->n.on_cpu_ns);
}

size_t rows_group(void *rows, size_t cnt, size_t size, int (*compare)(const void *, const void *),
	void (*add)(void *to, const void *from))
{
	char *at = rows, *last = rows;

	if (!cnt)
		return 0;
	qsort(rows, cnt, size, compare);
	for (size_t i = 1; i < cnt; i++) {
		at += size;
		if (!compare(last, at)) {
			add(last, at);
			continue;
		}
		last += size;
		if (last != at)
			memcpy(last, at, size);
	}
	return (size_t)(last - (char *)rows) / size + 1;
}

static void merge_row(void *to, const void *from)
{
	const struct stats_row *more = from;
	struct stats_row *row = to;

	stats_row_add(row, more);
	if (row->spread)
		(void)stats_spread_add(row->spread, more);
	else
		row->spread = more->spread;
}

/*
 * Merges rows with the same process and key: two CPUs may have claimed one each, a process has one
 * per shard and epoch, and keys that are hidden from the reader look alike.
 */
static void merge_rows(struct stats_row *rows, size_t *cnt)
{
	*cnt = rows_group(rows, *cnt, sizeof(*rows), stats_row_compare, merge_row);
	for (size_t i = 0; i < *cnt; i++)
		row_settle(&rows[i]);
}

/* --- processes: rows without a key -------------------------------------------------------------- */

#define CHUNK 1024

/* Adds a record, or the row of exited processes (pid 0). */
static void take_proc(const struct stats_view *view, struct stats *s, const struct fsn_proc *p)
{
	uint32_t fn = procs_fn(p->key);
	struct stats_row *row;
	struct stats_func *f;

	if (!procs_counts(view, p->key) || fn >= s->func_cnt)
		return;
	f = &s->funcs[fn];
	if (!procs_pid(p->key)) {
		proc_counts_add(&f->ended.n, &p->n);
		return;
	}
	row = array_add(f->procs, f->proc_cnt);
	*row = (struct stats_row) { .pid = procs_pid(p->key),
		.start_ns = p->start,
		.cgroup_id = p->cgroup,
		.n = p->n,
		.nested = f->nested,
		.split = f->split };
	memcpy(row->comm, p->comm, sizeof(p->comm) - 1);
}

/* Reads used records in place: most records of a table are free. */
static void take_mapped(const struct stats_view *view, struct stats *s,
	const struct fsn_proc *procs, uint32_t cnt)
{
	struct fsn_proc p;

	for (const struct fsn_proc *from = procs; from < procs + cnt; from++) {
		if (!__atomic_load_n(&from->key, __ATOMIC_RELAXED))
			continue;
		map_copy(&p, from, sizeof(p));
		take_proc(view, s, &p);
	}
}

/* The same through system calls. */
static int take_unmapped(const struct group *g, const struct stats_view *view, struct stats *s,
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

static int take_procs(const struct group *g, const struct stats_view *view, struct stats *s)
{
	_cleanup_mapping_ struct map_mapping map = {};
	uint32_t fn_cnt = g->meta.fn_cnt, cnt, ended;
	int code = procs_cnt(g, &cnt);

	if (code)
		return code;
	ended = cnt + (view->ctl.fold & 1) * fn_cnt;
	if (!map_mmap(group_fd(g, MAPID_PROCS),
		    (cnt + 2 * (size_t)fn_cnt) * sizeof(struct fsn_proc), &map)) {
		take_mapped(view, s, map.addr, cnt);
		take_mapped(view, s, (struct fsn_proc *)map.addr + ended, fn_cnt);
		return 0;
	}
	code = take_unmapped(g, view, s, 0, cnt);
	return code ? code : take_unmapped(g, view, s, ended, fn_cnt);
}

int stats_read_procs(
	const struct group *g, const struct stats_view *view, struct stats *s)
{
	int code;

	if (!(g->meta.options & FSN_OPT_PROCESSES) || !group_begun(g).calls)
		return 0;
	code = take_procs(g, view, s);
	for (size_t i = 0; !code && i < s->func_cnt; i++) {
		struct stats_func *f = &s->funcs[i];

		merge_rows(f->procs, &f->proc_cnt);
		f->ended.nested = f->nested;
		f->ended.split = f->split;
		row_settle(&f->ended);
	}
	return code;
}

/* --- where calls blocked -------------------------------------------------------------------- */

void stats_read_sleeps(const struct group *g, const struct stats_view *view, struct stats *s)
{
	int fd = group_map_fd(g, MAPID_SLEEPS, "sleeps", NULL);
	struct fsn_sleep_at key;
	struct fsn_slept sum;

	map_foreach(fd, &key) {
		struct stats_func *f = &s->funcs[key.fn];

		if (key.fn >= s->func_cnt || !view_has(view, key.epoch) ||
			bpf_map_lookup_elem(fd, &key, &sum))
			continue;
		*array_add(f->sleeps, f->sleep_cnt) = (struct stats_row) {
			.pid = (pid_t)key.tgid,
			.key.word[0] = key.stack,
			.n = { .calls = sum.sleeps, .returns = sum.sleeps, .total_ns = sum.ns,
				.blocked_ns = sum.ns },
		};
	}
	for (size_t i = 0; i < s->func_cnt; i++)
		merge_rows(s->funcs[i].sleeps, &s->funcs[i].sleep_cnt);
}

/* --- all rows --------------------------------------------------------------------------------- */

struct table {
	struct fsn_row *rows, *base;
	struct fsn_key *keys; /* NULL: the reader has no permission */
	struct fsn_row *ended;
	struct fsn_caller *places; /* names of callers, or NULL */
	struct stats_live *live;   /* live allocations, or NULL */
	struct fsn_name *names;    /* enumerators; only without .keys */
	struct fsn_kernel *kernels;  /* names of launched kernels, or NULL */
	struct fsn_launch *launches; /* their launches */
	struct handles handles;
	struct spreads spreads;
	struct callers *callers;
	struct fsn_stack *stacks; /* NULL: no stack was replaced by a completed one */
	uint32_t cnt; /* rows in .rows and .base; .keys has no rows for dropped calls */
};

static void table_done(struct table *t)
{
	free(t->rows);
	free(t->base);
	free(t->keys);
	free(t->ended);
	free(t->places);
	free(t->kernels);
	free(t->launches);
	handles_done(&t->handles);
	spreads_done(&t->spreads);
	free(t->live);
	free(t->names);
	free(t->stacks);
	callers_free(t->callers);
}

/* 1 + number of the key that is a place in memory, caller or lock; 0: none. */
static unsigned int place_key(const struct group *g)
{
	return g->meta.key_caller ? g->meta.key_caller : g->meta.key_lock;
}

/* Reads the names of places that an earlier reader has stored. */
static int callers_read(const struct group *g, struct table *t)
{
	int fd = group_map_fd(g, MAPID_CALLERS, "callers", NULL);

	if (!place_key(g) || place_key(g) > FSN_KEYS || !t->keys || fd < 0)
		return 0;
	t->places = xcalloc(g->meta.row_cnt, sizeof(*t->places));
	return map_read_sparse(fd, g->meta.row_cnt, sizeof(*t->places), t->places);
}

/* Reads those of kernels, and the launches. */
static int kernels_read(const struct group *g, struct table *t)
{
	int fd = group_map_fd(g, MAPID_KERNELS, "kernels", NULL), code;

	if (!g->meta.key_kernel || g->meta.key_kernel > FSN_KEYS || !t->keys || fd < 0)
		return 0;
	t->kernels = xcalloc(g->meta.row_cnt, sizeof(*t->kernels));
	t->launches = xcalloc(g->meta.row_cnt, sizeof(*t->launches));
	code = map_read_sparse(fd, g->meta.row_cnt, sizeof(*t->kernels), t->kernels);
	if (!code)
		code = map_read_fixed(group_fd(g, MAPID_LAUNCHES), 0, g->meta.row_cnt,
			sizeof(*t->launches), t->launches);
	if (!code)
		handles_read(g, &t->handles);
	return code;
}

/* Reads the stacks if some were completed after their walk. */
static int stacks_completed(const struct group *g, const struct stats_view *view, struct table *t)
{
	if (!g->meta.key_stack || g->meta.key_stack > FSN_KEYS || !t->keys || !view->ctl.cold_stacks)
		return 0;
	t->stacks = xcalloc(g->meta.stack_cnt, sizeof(*t->stacks));
	return map_read(
		group_fd(g, MAPID_STACKS), 0, g->meta.stack_cnt, sizeof(*t->stacks), t->stacks);
}

/* Replaces the number of an incomplete stack by that of the completed one. */
static void complete_stack(
	const struct group *g, const struct fsn_stack *stacks, struct fsn_key *key)
{
	unsigned long long *word = &key->word[(g->meta.key_stack - 1) * FSN_KEY_WIDE];

	if (*word && *word <= g->meta.stack_cnt && stacks[*word - 1].instead)
		*word = stacks[*word - 1].instead;
}

void stats_complete_stacks(struct stats *before, const struct stats *now)
{
	for (size_t i = 0; now->stacks && i < before->func_cnt; i++) {
		struct stats_func *f = &before->funcs[i];

		for (size_t k = 0; k < f->row_cnt; k++)
			complete_stack(now->group, now->stacks, &f->rows[k].key);
		merge_rows(f->rows, &f->row_cnt);
	}
}

static int names_read(const struct group *g, struct table *t)
{
	t->names = calloc(g->meta.name_cnt + 1, sizeof(*t->names));
	return t->names ? map_read_fixed(group_fd(g, MAPID_NAMES), 0, g->meta.name_cnt,
				  sizeof(*t->names), t->names)
			: -ENOMEM;
}

/* Reads rows before keys: a key is written before its row is claimed. */
static int table_read(const struct group *g, const struct stats_view *view, struct table *t)
{
	int base_fd = base_rows_fd(g, FSN_BASE_INDEX(view->ctl.base));
	int keys_fd = group_map_fd(g, MAPID_KEYS, "keys", NULL), code;
	uint32_t ended = t->cnt + (view->ctl.fold & 1) * g->meta.fn_cnt;

	t->rows = xcalloc(t->cnt, sizeof(*t->rows));
	t->base = xcalloc(t->cnt, sizeof(*t->base));
	t->keys = keys_fd < 0 ? NULL : xcalloc(g->meta.row_cnt, sizeof(*t->keys));
	t->ended = xcalloc(g->meta.fn_cnt, sizeof(*t->ended));
	code = map_read(group_fd(g, MAPID_ROWS), 0, t->cnt, sizeof(*t->rows), t->rows);
	if (!code && t->keys)
		code = map_read(keys_fd, 0, g->meta.row_cnt, sizeof(*t->keys), t->keys);
	if (!code)
		code = map_read_sparse(base_fd, t->cnt, sizeof(*t->base), t->base);
	if (!code)
		code = map_read_fixed(group_fd(g, MAPID_ROWS), ended, g->meta.fn_cnt,
			sizeof(*t->ended), t->ended);
	if (!code && !t->keys)
		code = names_read(g, t);
	if (!code)
		code = callers_read(g, t);
	if (!code)
		code = kernels_read(g, t);
	if (!code)
		code = stacks_completed(g, view, t);
	if (!code)
		spreads_read(g, view, &t->spreads);
	if (t->places || t->kernels)
		t->callers = callers_new();
	return code;
}

/* Readers without permission for keys see only values that are enumerators. */
static void named_key(
	const struct group *g, const struct table *t, uint32_t i, struct stats_row *row)
{
	for (size_t k = 0; k < FSN_KEYS && k < g->meta.key_cnt; k++) {
		uint32_t named = t->rows[i].named[k];

		if (named && named <= g->meta.name_cnt)
			row->key.word[k * FSN_KEY_WIDE] = (uint64_t)t->names[named - 1].value;
		else
			row->hidden |= 1U << k;
	}
}

/* Reads the record of the caller's file from when the row was claimed. */
static bool called_of(const struct group *g, uint32_t i, uint64_t addr, uint64_t start_ns,
	struct fsn_called *ret)
{
	return group_fd(g, MAPID_CALLED) >= 0 &&
		!bpf_map_lookup_elem(group_fd(g, MAPID_CALLED), &i, ret) && ret->addr == addr &&
		ret->start == start_ns;
}

/* The place_word() of a caller or a lock. */
static uint64_t place_of(const struct group *g, const struct stats_row *row)
{
	return row->key.word[(place_key(g) - 1) * FSN_KEY_WIDE + 1];
}

/* Names the caller or lock at @addr, whose process may have exited. */
static bool name_place(const struct group *g, const struct table *t, uint32_t i,
	const struct stats_row *row, uint64_t addr)
{
	uint64_t word = place_of(g, row);
	bool is_data = !g->meta.key_caller;
	struct fsn_called called;

	return callers_name(t->callers, row->pid, row->start_ns, addr, word, is_data, &t->places[i]) ||
		(called_of(g, i, addr, row->start_ns, &called) &&
			callers_name_kept(t->callers, g, &called, word, is_data, &t->places[i]));
}

#define LINE_LEN 256

/* Returns the caller's name, with the source line if it is known. */
static const char *line_of(const struct group *g, const struct table *t, uint32_t i, struct stats *s,
	const struct stats_row *row)
{
	char text[FSN_CALLER_LEN + LINE_LEN];
	const char *name = t->places[i].text;
	uint64_t addr = t->places[i].addr;
	struct fsn_called called;
	bool kept = called_of(g, i, addr, row->start_ns, &called);
	size_t len = (size_t)snprintf(text, sizeof(text), "%s", name);

	if (!callers_line(t->callers, g, row, addr, place_of(g, row), kept ? &called : NULL,
		    text + len, LINE_LEN))
		text[len] = '\0';
	return callers_intern(s, text);
}

/* Names the caller or lock of a row and stores the name. A reader without write permission repeats this. */
static void name_caller(const struct group *g, const struct stats_view *view,
	const struct table *t, uint32_t i, struct stats *s, struct stats_row *row)
{
	struct fsn_caller *place = &t->places[i];
	uint64_t addr = stats_row_word(row, place_key(g) - 1);

	if (place->addr != addr || place->start != row->start_ns) {
		if (!addr || place_of(g, row) == FSN_PLACE_NONE || !name_place(g, t, i, row, addr))
			return;
		(void)bpf_map_update_elem(group_fd(g, MAPID_CALLERS), &i, place, 0);
	}
	place->text[FSN_CALLER_LEN - 1] = '\0';
	row->place = view->lines ? line_of(g, t, i, s, row) : callers_intern(s, place->text);
}

/* True for the function that only stubs of the CUDA compiler call; it is not in CUDA's headers. */
static bool is_compiled(const struct group *g, uint32_t fn)
{
	static const char name[] = "__cudaLaunchKernel";

	return !strncmp(group_text(g, g->funcs[fn].symbol), name, sizeof(name) - 1);
}

static void name_kernel(const struct group *g, struct table *t, uint32_t i, struct stats *s,
	struct stats_row *row)
{
	uint32_t fn = procs_fn(t->rows[i].tag);
	struct fsn_kernel *kernel = &t->kernels[i];
	struct launch l = { row->pid, row->start_ns, t->launches[i], is_compiled(g, fn) };
	uint64_t word = stats_row_word(row, g->meta.key_kernel - 1);

	if (!word) { /* outside of ranges */
		row->kernel = callers_intern(s, "[none]");
		return;
	}
	if (kernel->word != word || kernel->start != row->start_ns) {
		if (l.by.word != word)
			l.by = (struct fsn_launch) { .word = word };
		if (!kernel_name(t->callers, &t->handles, &l, kernel))
			return;
		(void)bpf_map_update_elem(group_fd(g, MAPID_KERNELS), &i, kernel, 0);
	}
	kernel->text[FSN_KERNEL_LEN - 1] = '\0';
	row->kernel = callers_intern(s, kernel->text);
}

static void take_row(const struct group *g, const struct stats_view *view, struct table *t,
	uint32_t i, struct stats *s)
{
	struct stats_row row = rows_since(view, &t->rows[i], &t->base[i]);
	uint64_t tag = t->rows[i].tag;
	struct stats_func *f;

	if (t->live)
		row.live = t->live[i];
	if (i >= g->meta.row_cnt) {
		spread_take(&t->spreads, ~(i - g->meta.row_cnt), s, &row);
		row_settle(&row);
		row.allocates = t->live && s->funcs[i - g->meta.row_cnt].memory.allocates;
		s->funcs[i - g->meta.row_cnt].others = row;
		return;
	}
	if (!procs_row_counts(view, tag) || procs_fn(tag) >= s->func_cnt ||
		(!view->idle && stats_row_is_empty(&row)))
		return;
	f = &s->funcs[procs_fn(tag)];
	row.allocates = t->live && f->memory.allocates;
	row.pid = procs_pid(tag);
	row.start_ns = t->rows[i].start;
	row.nth = t->rows[i].nth;
	memcpy(row.comm, t->rows[i].comm, sizeof(row.comm) - 1);
	if (t->keys)
		group_key_spread(g, &t->keys[i], &row.key);
	else
		named_key(g, t, i, &row);
	if (t->stacks)
		complete_stack(g, t->stacks, &row.key);
	if (t->places)
		name_caller(g, view, t, i, s, &row);
	if (t->kernels)
		name_kernel(g, t, i, s, &row);
	if (t->keys && g->meta.key_cgroup && s->cgroups)
		row.cgroup = cgroups_find(s->cgroups, stats_row_word(&row, g->meta.key_cgroup - 1),
			row.pid, row.start_ns);
	spread_take(&t->spreads, row.nth, s, &row);
	*array_add(f->rows, f->row_cnt) = row;
}

/* Rows of exited processes start at 0 at the reset, so .max has no epoch. */
static void take_ended(const struct stats_view *view, const struct fsn_row *ended,
	struct stats_func *f)
{
	static const struct fsn_row none;

	if (!procs_counts(view, ended->tag))
		return;
	f->rows_ended = rows_since(view, ended, &none);
	row_settle(&f->rows_ended);
	f->rows_ended.n.max_ns = ended->max[0];
}

int stats_read_rows(const struct group *g, const struct stats_view *view, struct stats *s,
	struct fsn_row **ret_raw)
{
	__cleanup(table_done) struct table t = {};
	int code = rows_cnt(g, &t.cnt);

	if (!code)
		code = stats_read_blocks(g, view, s, &t.live);
	if (code || !t.cnt)
		return code;
	code = table_read(g, view, &t);
	for (uint32_t i = 0; !code && i < t.cnt; i++)
		take_row(g, view, &t, i, s);
	for (size_t i = 0; !code && i < s->func_cnt; i++) {
		take_ended(view, &t.ended[i], &s->funcs[i]);
		merge_rows(s->funcs[i].rows, &s->funcs[i].row_cnt);
	}
	if (t.places || t.kernels)
		group_has_grown(g);
	s->keys_known = t.keys;
	s->stacks = TAKE_PTR(t.stacks);
	*ret_raw = TAKE_PTR(t.rows);
	return code;
}

int stats_read_names(const struct group *g, struct stats **ret_stats, struct err *err)
{
	_cleanup_stats_ struct stats *s = xcalloc(1, sizeof(*s));
	_cleanup_free_ struct fsn_row *raw = NULL;
	struct stats_view view = { .idle = true };
	int code = group_ctl(g, &view.ctl, err);

	if (code)
		return code;
	s->funcs = xcalloc(g->meta.fn_cnt, sizeof(*s->funcs));
	s->group = g;
	if (place_key(g) || g->meta.key_kernel)
		s->func_cnt = g->meta.fn_cnt;
	code = s->func_cnt ? stats_read_rows(g, &view, s, &raw) : 0;
	if (code)
		return err_sys(err, code, "cannot read keys of group '%s'", g->name);
	*ret_stats = TAKE_PTR(s);
	return 0;
}

const struct stats_row *stats_row_find(
	const struct stats *s, uint32_t fn, pid_t pid, const struct fsn_key *key)
{
	const struct stats_func *f = fn < s->func_cnt ? &s->funcs[fn] : NULL;

	for (size_t i = 0; f && i < f->row_cnt; i++)
		if (f->rows[i].pid == pid && !memcmp(&f->rows[i].key, key, sizeof(*key)))
			return &f->rows[i];
	return NULL;
}

void stats_name_rows(struct bpffs *fs, const struct group *g, uint32_t *seen)
{
	_cleanup_stats_ struct stats *s = NULL;
	struct fsn_ctl ctl;

	if ((!place_key(g) && !g->meta.key_kernel) || group_ctl(g, &ctl, NULL) ||
		ctl.rows == *seen)
		return;
	*seen = ctl.rows;
	(void)!stats_read(fs, g, false, false, &s, NULL);
}
