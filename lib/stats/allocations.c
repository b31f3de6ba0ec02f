// SPDX-License-Identifier: BSD-2-Clause
// Memory that was not given back: counters of functions, and live blocks by row and process.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"

#define SETS_AT_ONCE 512

/* What found no room is missing from what is live whenever that was: it is counted since the attach. */
static void counts_since(struct fsn_memory_counts *n, const struct fsn_memory_counts *was)
{
	n->freed_bytes -= was->freed_bytes;
	n->freed_blocks -= was->freed_blocks;
	n->exit_bytes -= was->exit_bytes;
	n->exit_blocks -= was->exit_blocks;
	n->unknown_frees -= was->unknown_frees;
}

/* What was live at the baseline was so much at least since then. */
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

/* Who has the block: neighbours in the table have nothing to do with each other. */
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

/* Of a table that programs write meanwhile, each block as it is when it is looked at. */
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

int stats_read_blocks(const struct group *g, const struct stats_view *view, struct stats *s,
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

/* One that is not over may have failed: it is not taken back later. */
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
