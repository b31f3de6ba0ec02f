// SPDX-License-Identifier: BSD-2-Clause
// Resets statistics: no call is lost or counted twice.
//
// Counters only grow; a reset stores their values as the baseline. Values that cannot be subtracted
// (extremes, processes, return codes) are kept by epoch. The order:
//
//	1. clear the idle words of the extremes, and open the next epoch
//	2. wait until every BPF program that runs under the old epoch has returned: the
//	   values of the old epoch are now final
//	3. read everything, and deliver the statistics
//	4. write the idle baseline
//	5. one store switches to it, and to the new epoch: this is the reset
//	6. drop the records of the old epochs
//
// If the command is killed before 5, two epochs count together: readers add them, and the next
// reset first folds the extremes of the first into the second, so that its words are idle again.
// If failed resets have used up nearly all epoch numbers, finished epochs are merged into one. If
// the command is killed in 6, dead records stay until the next reset.
//
// Step 2 waits for the BPF programs of all groups. So with many groups, step 1 is done for up to
// AT_ONCE of them, then step 2 once, then the other steps for each. Calls between 1 and 3 are
// split: their counts are part of the old statistics, their processes and extremes part of the new
// ones. AT_ONCE keeps that interval short.
#include <bpf/bpf.h>

#include "internal.h"
#include "base/util.h"

#define FOLD_EPOCHS 1024 /* merge if this many count; far below FSN_EPOCH_MAX */
#define AT_ONCE     32   /* groups; reading 32 takes about as long as step 2 */

struct reset {
	struct group *g;
	struct fsn_ctl *ctl;
	struct map_mapping ctl_map, stats_map, procs_map, rows_map, memory_map;
	uint32_t row_cnt;
	struct stats_view view; /* the epochs that end with this reset */
	uint32_t waited;        /* open epoch when an unfinished step 2 was repeated; or 0 */
	int code;               /* result of steps 1 and 2 */
};

struct resets {
	size_t cnt, begun;
	struct reset of[];
};

static void reset_done(struct reset *r)
{
	map_munmap(&r->ctl_map);
	map_munmap(&r->stats_map);
	map_munmap(&r->procs_map);
	map_munmap(&r->rows_map);
	map_munmap(&r->memory_map);
}

/* Maps the counters that a reset changes. The caller ends with reset_done(), also after an error. */
static int reset_open(struct reset *r)
{
	const struct group *g = r->g;
	size_t stats_size = (size_t)g->meta.stat_shards * g->meta.fn_cnt *
			    sizeof(struct fsn_stat);
	uint32_t procs = 0;
	int code;

	code = map_mmap(group_fd(g, MAPID_CTL), sizeof(*r->ctl), &r->ctl_map);
	if (!code)
		code = map_mmap(group_fd(g, MAPID_STATS), stats_size, &r->stats_map);
	if (!code)
		code = procs_cnt(g, &procs);
	if (!code)
		code = map_mmap(group_fd(g, MAPID_PROCS),
			(procs + 2 * (size_t)g->meta.fn_cnt) * sizeof(struct fsn_proc),
			&r->procs_map);
	if (!code)
		code = rows_cnt(g, &r->row_cnt);
	if (!code && r->row_cnt)
		code = map_mmap(group_fd(g, MAPID_ROWS),
			(r->row_cnt + 2 * (size_t)g->meta.fn_cnt) * sizeof(struct fsn_row),
			&r->rows_map);
	if (!code && g->meta.block_sets)
		code = map_mmap(group_fd(g, MAPID_MEMORY), g->meta.fn_cnt * sizeof(struct fsn_memory),
			&r->memory_map);
	r->ctl = r->ctl_map.addr;
	return code;
}

static void raise_word(unsigned long long *word, uint64_t value)
{
	unsigned long long seen = __atomic_load_n(word, __ATOMIC_RELAXED);

	while (seen < value && !__atomic_compare_exchange_n(word, &seen, value, false,
				       __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
}

/* Moves the extremes that an unfinished reset left in the previous epoch into the open one. */
static void fold_extremes(struct reset *r)
{
	size_t cnt = (size_t)r->g->meta.stat_shards * r->g->meta.fn_cnt;
	uint64_t epoch = r->ctl->epoch, tag = epoch << FSN_NS_BITS;
	struct fsn_stat *stat = r->stats_map.addr;
	struct fsn_memory *memory = r->memory_map.addr;
	struct fsn_row *row = r->rows_map.addr;
	int from = !(epoch & 1), to = epoch & 1;

	for (size_t i = 0; i < cnt; i++) {
		if (stat[i].max[from])
			raise_word(&stat[i].max[to], tag | (stat[i].max[from] & FSN_NS_MASK));
		if (stat[i].min[from])
			raise_word(&stat[i].min[to], tag | (stat[i].min[from] & FSN_NS_MASK));
	}
	for (uint32_t i = 0; i < r->row_cnt; i++)
		if (row[i].max[from])
			raise_word(&row[i].max[to], tag | (row[i].max[from] & FSN_NS_MASK));
	for (uint32_t i = 0; memory && i < r->g->meta.fn_cnt; i++)
		if (memory[i].peak[from])
			raise_word(&memory[i].peak[to], tag | (memory[i].peak[from] & FSN_NS_MASK));
}

/* Epochs wrap and skip 0, so that a word of 0 means no value. Their parity alternates. */
static uint32_t next_epoch(uint32_t epoch)
{
	return epoch == FSN_EPOCH_MAX ? 2 : epoch + 1;
}

/*
 * Returns the epoch before the open one. FSN_EPOCH_FIRST occurs only once, before the first wrap.
 */
static uint32_t epoch_before(const struct fsn_ctl *ctl)
{
	bool round = ctl->epoch == 2 && FSN_BASE_EPOCH(ctl->base) != FSN_EPOCH_FIRST;

	return round ? FSN_EPOCH_MAX : ctl->epoch - 1;
}

/* True if @epoch counts and no BPF program writes to its records any more. */
static bool is_final(const struct reset *r, uint32_t epoch)
{
	const struct stats_view view = { .first = FSN_BASE_EPOCH(r->ctl->base),
		.last = epoch_before(r->ctl) };

	return view_has(&view, epoch);
}

/*
 * Moves the number of failed calls whose codes were dropped (table full). The BPF programs may set
 * the word of the open epoch at the same time.
 */
static void fold_unplaced(const struct reset *r)
{
	size_t cnt = (size_t)r->g->meta.stat_shards * r->g->meta.fn_cnt;
	uint64_t epoch = r->ctl->epoch, tag = epoch << FSN_NS_BITS;
	struct fsn_stat *stat = r->stats_map.addr;

	for (size_t i = 0; i < cnt; i++) {
		unsigned long long *from = &stat[i].unplaced[!(epoch & 1)];
		unsigned long long *to = &stat[i].unplaced[epoch & 1], seen = *to;

		if (!*from || !is_final(r, *from >> FSN_NS_BITS))
			continue;
		if ((seen ^ tag) & ~FSN_NS_MASK)
			__atomic_compare_exchange_n(
				to, &seen, tag, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
		__atomic_fetch_add(to, *from & FSN_NS_MASK, __ATOMIC_SEQ_CST);
		__atomic_store_n(from, 0, __ATOMIC_SEQ_CST);
	}
}

/* The rows of keys of exited processes: two per function. */
static struct fsn_row *ended_rows(const struct reset *r, size_t *ret_cnt)
{
	*ret_cnt = r->row_cnt ? 2 * (size_t)r->g->meta.fn_cnt : 0;
	return (struct fsn_row *)r->rows_map.addr + r->row_cnt;
}

static void fold_ended(struct reset *r, uint64_t to)
{
	const uint64_t mask = (uint64_t)FSN_EPOCH_MAX << FSN_PROC_EPOCH_SHIFT;
	size_t cnt;
	struct fsn_row *row = ended_rows(r, &cnt);

	for (size_t i = 0; i < cnt; i++)
		if (row[i].tag && is_final(r, row[i].tag >> FSN_PROC_EPOCH_SHIFT & FSN_EPOCH_MAX))
			row[i].tag = (row[i].tag & ~mask) | to << FSN_PROC_EPOCH_SHIFT;
}

static void fold_procs(struct reset *r, uint64_t to)
{
	const uint64_t mask = (uint64_t)FSN_EPOCH_MAX << FSN_PROC_EPOCH_SHIFT;
	struct fsn_proc *proc = r->procs_map.addr;

	/* Readers add the records of a process, so records need not be merged. Marks are kept. */
	for (size_t i = 0; i < r->procs_map.size / sizeof(*proc); i++) {
		uint64_t key = __atomic_load_n(&proc[i].key, __ATOMIC_ACQUIRE);

		if (key && key != FSN_PROC_LOCKED &&
			is_final(r, key >> FSN_PROC_EPOCH_SHIFT & FSN_EPOCH_MAX))
			__atomic_store_n(&proc[i].key,
				(key & ~mask) | to << FSN_PROC_EPOCH_SHIFT, __ATOMIC_RELEASE);
	}
}

static int fold_code(int fd, const struct fsn_code *key, uint32_t to)
{
	struct fsn_code sum_key = *key;
	uint64_t sum = 0, count;

	sum_key.epoch = to;
	if (bpf_map_lookup_elem(fd, key, &count))
		return -errno;
	if (bpf_map_lookup_elem(fd, &sum_key, &sum) && errno != ENOENT)
		return -errno;
	sum += count;
	/* Delete first, because the map may be full. */
	if (bpf_map_delete_elem(fd, key) || bpf_map_update_elem(fd, &sum_key, &sum, 0))
		return -errno;
	return 0;
}

static int fold_codes(struct reset *r, uint32_t to)
{
	int fd = group_fd(r->g, MAPID_CODES), code = 0;
	_cleanup_free_ struct fsn_code *keys = xcalloc(FSN_CODE_CNT, sizeof(*keys));
	size_t cnt = 0;

	while (cnt < FSN_CODE_CNT &&
		!bpf_map_get_next_key(fd, cnt ? &keys[cnt - 1] : NULL, &keys[cnt]))
		cnt++;
	for (size_t i = 0; !code && i < cnt; i++)
		if (keys[i].epoch != to && is_final(r, keys[i].epoch))
			code = fold_code(fd, &keys[i], to);
	return code;
}

/*
 * Each reset that fails after step 1 leaves one more epoch that counts. Before the numbers wrap,
 * this merges the finished epochs into the last of them.
 */
static int fold_epochs(struct reset *r)
{
	uint32_t base = r->ctl->base, to = epoch_before(r->ctl);
	int code;

	if (((to - FSN_BASE_EPOCH(base)) & FSN_EPOCH_MAX) < FOLD_EPOCHS)
		return 0;
	fold_procs(r, to);
	fold_ended(r, to);
	code = fold_codes(r, to);
	if (!code)
		__atomic_store_n(&r->ctl->base, (base & ~FSN_EPOCH_MAX) | to,
			__ATOMIC_SEQ_CST);
	return code;
}

static void clear_idle_words(struct reset *r)
{
	size_t cnt = (size_t)r->g->meta.stat_shards * r->g->meta.fn_cnt;
	struct fsn_stat *stat = r->stats_map.addr;
	struct fsn_memory *memory = r->memory_map.addr;
	struct fsn_row *row = r->rows_map.addr;
	int idle = !(r->ctl->epoch & 1);

	for (size_t i = 0; i < cnt; i++) {
		__atomic_store_n(&stat[i].max[idle], 0, __ATOMIC_SEQ_CST);
		__atomic_store_n(&stat[i].min[idle], 0, __ATOMIC_SEQ_CST);
		__atomic_store_n(&stat[i].unplaced[idle], 0, __ATOMIC_SEQ_CST);
	}
	for (uint32_t i = 0; i < r->row_cnt; i++)
		__atomic_store_n(&row[i].max[idle], 0, __ATOMIC_SEQ_CST);
	for (uint32_t i = 0; memory && i < r->g->meta.fn_cnt; i++)
		__atomic_store_n(&memory[i].peak[idle], 0, __ATOMIC_SEQ_CST);
}

/* With many groups: closes the descriptors of the maps; their mappings remain. */
static void close_lean(struct reset *r)
{
	if (r->g->lean)
		group_close_maps(r->g);
}

static bool is_unfinished(const struct reset *r)
{
	return r->ctl->epoch != FSN_BASE_EPOCH(r->ctl->base);
}

/* Step 1. Finishes an unfinished reset first, which needs step 2 for its epoch. */
static int open_epoch(struct reset *r)
{
	int code;

	if (is_unfinished(r)) {
		/*
		 * False if an earlier entry is the same group by another name, and opened an epoch.
		 */
		code = r->waited == r->ctl->epoch ? 0 : group_wait_for_programs(r->g);
		if (code)
			return code;
		fold_extremes(r);
		fold_unplaced(r);
		code = fold_epochs(r);
		if (code)
			return code;
	}
	r->view.first = FSN_BASE_EPOCH(r->ctl->base);
	r->view.last = r->ctl->epoch;
	r->view.paths = true;
	clear_idle_words(r);
	__atomic_store_n(&r->ctl->epoch, next_epoch(r->ctl->epoch), __ATOMIC_SEQ_CST);
	return 0;
}

/* Waits with the map of any group. A group whose map is gone fails, and the next one is used. */
static void wait_for_programs(struct reset *r, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		if (r[i].code)
			continue;
		r[i].code = group_wait_for_programs(r[i].g);
		close_lean(&r[i]);
		if (!r[i].code)
			return;
	}
}

/* Steps 1 and 2 of the next AT_ONCE groups. */
static void begin_some(struct resets *resets)
{
	struct reset *r = &resets->of[resets->begun];
	size_t cnt = resets->cnt - resets->begun;
	bool unfinished = false;

	cnt = cnt < AT_ONCE ? cnt : AT_ONCE;
	for (size_t i = 0; i < cnt; i++) {
		r[i].code = reset_open(&r[i]);
		close_lean(&r[i]);
		if (r[i].code || !is_unfinished(&r[i]))
			continue;
		r[i].waited = r[i].ctl->epoch;
		unfinished = true;
	}
	if (unfinished)
		wait_for_programs(r, cnt);
	for (size_t i = 0; i < cnt; i++) {
		if (!r[i].code)
			r[i].code = open_epoch(&r[i]);
		close_lean(&r[i]);
	}
	wait_for_programs(r, cnt);
	resets->begun += cnt;
}

/* Writes the buckets of the next baseline: those of the present one, plus the calls since. */
static int write_buckets(const struct group *g, uint32_t in_use, const struct stats_func *f)
{
	struct fsn_hist hist;
	int code = map_get_sparse(base_hist_fd(g, in_use), f->fn, sizeof(hist), &hist);

	if (code)
		return code;
	for (int b = 0; b < FSN_HIST_CNT; b++)
		hist.bucket[b] += f->bucket[b];
	return bpf_map_update_elem(base_hist_fd(g, !in_use), &f->fn, &hist, 0) ? -errno : 0;
}

/* Paths without calls never had any, so they are still zeros in each baseline. */
static int write_paths(int fd, const struct fsn_path *paths, uint32_t cnt)
{
	_cleanup_free_ struct fsn_path *called = xcalloc(cnt, sizeof(*called));
	_cleanup_free_ uint32_t *keys = xcalloc(cnt, sizeof(*keys));
	uint32_t n = 0;

	for (uint32_t i = 0; i < cnt; i++)
		if (paths[i].calls) {
			keys[n] = i;
			called[n++] = paths[i];
		}
	return n && bpf_map_update_batch(fd, keys, called, &n, NULL) ? -errno : 0;
}

/* Steps 4 and 5. */
static int switch_baseline(struct reset *r, const struct stats *s, const struct stats_raw *raw)
{
	uint32_t in_use = FSN_BASE_INDEX(r->ctl->base), idle = !in_use;
	const struct group *g = r->g;
	int code;

	code = map_write_sparse(base_fd(g, idle), g->meta.fn_cnt, sizeof(*raw->total), raw->total);
	if (!code && raw->rows)
		code = map_write_sparse(base_rows_fd(g, idle), r->row_cnt, sizeof(*raw->rows),
			raw->rows);
	if (!code && raw->memory)
		code = map_write_sparse(base_memory_fd(g, idle), g->meta.fn_cnt, sizeof(*raw->memory),
			raw->memory);
	for (uint32_t i = 0; !code && i < g->meta.timed_cnt; i++)
		if (s->funcs[i].bucket)
			code = write_buckets(g, in_use, &s->funcs[i]);
	if (!code && raw->paths)
		code = write_paths(base_paths_fd(g, idle), raw->paths, g->meta.path_cnt);
	if (code)
		return code;
	r->ctl->since_ns[idle] = clock_ns(CLOCK_REALTIME);
	r->ctl->slow_base[idle] = r->view.ctl.slow_head;
#define X(name) r->ctl->name##_base[idle] = r->view.ctl.name;
	FSN_LOSSES(X)
#undef X
	__atomic_store_n(&r->ctl->base, r->ctl->epoch | idle << 16, __ATOMIC_SEQ_CST);
	group_has_grown(g);
	return 0;
}

static bool is_current(const struct reset *r, uint32_t epoch)
{
	return epoch == r->ctl->epoch;
}

static void drop_ended(struct reset *r)
{
	size_t cnt;
	struct fsn_row *row = ended_rows(r, &cnt);

	for (size_t i = 0; i < cnt; i++)
		if (!is_current(r, row[i].tag >> FSN_PROC_EPOCH_SHIFT & FSN_EPOCH_MAX))
			memset(&row[i], 0, sizeof(row[i]));
}

union epoch_key {
	struct fsn_code code;
	struct fsn_sleep_at sleep;
	struct fsn_spread_at spread;
};

/* Deletes the keys of old epochs. @epoch_at is the offset of the epoch in a key. */
static void drop_old_keys(struct reset *r, enum map_id id, size_t epoch_at)
{
	union epoch_key key, next;
	int fd = group_fd(r->g, id);
	uint32_t epoch;
	bool more;

	for (more = !bpf_map_get_next_key(fd, NULL, &key); more; key = next) {
		more = !bpf_map_get_next_key(fd, &key, &next);
		memcpy(&epoch, (char *)&key + epoch_at, sizeof(epoch));
		if (!is_current(r, epoch))
			bpf_map_delete_elem(fd, &key);
	}
}

/* Step 6. No BPF program uses these records any more, because their epochs are not open. */
static void drop_old(struct reset *r)
{
	struct fsn_proc *proc = r->procs_map.addr;
	size_t cnt = r->procs_map.size / sizeof(*proc);

	for (size_t i = 0; i < cnt; i++) {
		uint64_t old = __atomic_load_n(&proc[i].key, __ATOMIC_ACQUIRE);

		if (!old || old == FSN_PROC_LOCKED ||
			is_current(r, old >> FSN_PROC_EPOCH_SHIFT & FSN_EPOCH_MAX))
			continue;
		memset((char *)&proc[i] + sizeof(proc[i].key), 0,
			sizeof(proc[i]) - sizeof(proc[i].key));
		__atomic_store_n(&proc[i].key, 0, __ATOMIC_RELEASE);
	}
	drop_old_keys(r, MAPID_CODES, offsetof(struct fsn_code, epoch));
	drop_old_keys(r, MAPID_SLEEPS, offsetof(struct fsn_sleep_at, epoch));
	drop_old_keys(r, MAPID_SPREADS, offsetof(struct fsn_spread_at, epoch));
}

static int reset_end(struct reset *r, int (*deliver)(const struct stats *s, void *arg), void *arg,
	struct err *err)
{
	__cleanup(stats_raw_done) struct stats_raw raw = {};
	_cleanup_stats_ struct stats *stats = NULL;
	int code;

	r->view.ctl = *r->ctl;
	code = stats_collect(r->g, &r->view, &stats, &raw, err);
	if (!code && deliver)
		code = deliver(stats, arg);
	if (code)
		return code;
	code = switch_baseline(r, stats, &raw);
	if (code)
		return err_sys(err, code, "cannot reset group '%s'", r->g->name);
	drop_old(r);
	drop_ended(r);
	return 0;
}

int stats_reset(struct resets *resets, size_t i,
	int (*deliver)(const struct stats *s, void *arg), void *arg, struct err *err)
{
	struct reset *r = &resets->of[i];
	int code;

	if (i == resets->begun)
		begin_some(resets);
	if (r->code) {
		err_sys(err, r->code, "cannot reset group '%s'", r->g->name);
		return r->code == -EPERM ? err_hint(err, "resetting also needs CAP_BPF") : r->code;
	}
	code = reset_end(r, deliver, arg, err);
	reset_done(r);
	return code;
}

struct resets *resets_new(struct group *const *groups, size_t cnt)
{
	struct resets *resets = xcalloc(1, sizeof(*resets) + cnt * sizeof(*resets->of));

	resets->cnt = cnt;
	for (size_t i = 0; i < cnt; i++)
		resets->of[i].g = groups[i];
	return resets;
}

void resets_free(struct resets *resets)
{
	for (size_t i = 0; resets && i < resets->begun; i++)
		reset_done(&resets->of[i]);
	free(resets);
}
