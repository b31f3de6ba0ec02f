// SPDX-License-Identifier: BSD-2-Clause
// Return codes, processes, paths and slow calls: records found by key, and their fold.
#include <bpf/bpf.h>

#include "base/util.h"
#include "group/keys.h"
#include "group/types.h"
#include "internal.h"
#include "proc/proc.h"

/*
 * Folding: evicts the records and the rows of keys of exited processes from full tables.
 * The following describes records. Rows of keys are folded in the same steps, and step 4 is one for
 * both. They count since the attach, so the baseline is subtracted from them first, and is then
 * cleared with them.
 * The counts of an evicted record are added to the row of its function. Readers see this as a
 * single step, a store to ctl.fold. The order, under the lock of bpffs:
 * 1. clean up after a fold that was killed: clear the records that are already part of
 * 	   the rows in use, and unmark the others
 * 2. mark the records with the bit of the next fold; they still count 3. write the idle rows: the
 * rows in use plus the marked records 4. one store switches to the idle rows: marked records stop
 * counting 5. clear the marked records, which frees their slots
 * If the command is killed before 4, nothing has changed; after 4, the next fold completes it.
 * BPF programs: a program that counts for a process runs in one of its threads, which exists for
 * kill(2) and /proc while it runs. So the counts of an exited process are final. A process that
 * reuses the pid has a later start time, and so another record. Slots are claimed only if they are
 * 0, and 0 is stored last.
 * Readers copy ctl before and after reading. If .fold is the same, the rows and marks kept their
 * meaning and no record that counts was folded. Otherwise readers try again, the last time under
 * the lock. They need no write permission.
 * Resets and other folds hold the lock. A fold takes records of the epochs that count now, which
 * the next reset ends together. The rows have the first of these epochs, and end with it.
 */

int procs_cnt(const struct group *g, uint32_t *ret_cnt)
{
	uint64_t rows = 2 * (uint64_t)g->meta.fn_cnt;
	uint64_t entries = group_entries(g, MAPID_PROCS);

	if (entries <= rows)
		return -EPROTO;
	*ret_cnt = entries - rows;
	return 0;
}

/* The common beginning of records of processes and rows of keys. */
struct record {
	unsigned long long key, start;
};

_Static_assert(offsetof(struct fsn_proc, start) == offsetof(struct record, start) &&
	offsetof(struct fsn_row, start) == offsetof(struct record, start), "alike");

struct records {
	struct map_mapping map;
	size_t size; /* of one */
	uint32_t cnt;
	int base_fd; /* of their baseline, by number; -1: they have none */
};

struct fold {
	const struct group *g;
	struct map_mapping ctl_map;
	struct stats_view view;
	struct fsn_ctl *ctl;
	struct records procs; /* the rows of exited processes follow them */
	struct records rows;  /* of keys, then dropped calls, then exited processes; 0: no keys */
};

/* A record of a process, in order of eviction. */
struct old {
	uint64_t start;
	pid_t pid;
	uint32_t i;
};

static void fold_done(struct fold *f)
{
	map_munmap(&f->ctl_map);
	map_munmap(&f->procs.map);
	map_munmap(&f->rows.map);
}

static int fold_open(const struct group *g, struct fold *f)
{
	size_t ended = 2 * (size_t)g->meta.fn_cnt;
	uint32_t rows;
	int code = procs_cnt(g, &f->procs.cnt);

	f->g = g;
	f->procs.size = sizeof(struct fsn_proc);
	f->rows.size = sizeof(struct fsn_row);
	if (!code)
		code = map_mmap(group_fd(g, MAPID_CTL), sizeof(*f->ctl), &f->ctl_map);
	if (!code)
		code = map_mmap(group_fd(g, MAPID_PROCS), (f->procs.cnt + ended) * f->procs.size,
			&f->procs.map);
	if (!code)
		code = rows_cnt(g, &rows);
	if (!code && rows) {
		f->rows.cnt = g->meta.row_cnt;
		code = map_mmap(group_fd(g, MAPID_ROWS), (rows + ended) * f->rows.size, &f->rows.map);
	}
	f->ctl = f->ctl_map.addr;
	return code;
}

static struct fsn_proc *ended_procs(const struct fold *f, uint32_t fold)
{
	return (struct fsn_proc *)f->procs.map.addr + f->procs.cnt + (fold & 1) * f->g->meta.fn_cnt;
}

static struct fsn_row *ended_rows(const struct fold *f, uint32_t fold)
{
	return (struct fsn_row *)f->rows.map.addr + f->rows.cnt + (1 + (fold & 1)) * f->g->meta.fn_cnt;
}

static struct record *record_at(const struct records *r, uint32_t i)
{
	return (struct record *)((char *)r->map.addr + i * r->size);
}

static uint64_t key_of(const struct records *r, uint32_t i)
{
	return __atomic_load_n(&record_at(r, i)->key, __ATOMIC_ACQUIRE);
}

static void set_key(const struct records *r, uint32_t i, uint64_t key)
{
	__atomic_store_n(&record_at(r, i)->key, key, __ATOMIC_RELEASE);
}

static uint32_t used(const struct records *r)
{
	return COUNT_WHERE(r->cnt, i, key_of(r, i));
}

/* Steps 1 and 5: records marked with the bit of the fold in use are already part of its rows. */
static void mend(const struct fold *f, const struct records *r)
{
	for (uint32_t i = 0; i < r->cnt; i++) {
		uint64_t key = key_of(r, i);

		if (!(key & FSN_PROC_FOLDED))
			continue;
		if ((key & FSN_PROC_MARK(1)) != FSN_PROC_MARK(f->ctl->fold)) {
			set_key(r, i, key & ~FSN_PROC_MARK(1));
			continue;
		}
		if (r->base_fd >= 0)
			(void)bpf_map_delete_elem(r->base_fd, &i);
		memset((char *)record_at(r, i) + sizeof(key), 0, r->size - sizeof(key));
		set_key(r, i, 0);
	}
}

DEFINE_ORDER(compare_old, struct old, RISING(start) ?: RISING(pid))

/* Lists all records that count, sorted by process. */
static size_t list_records(const struct fold *f, const struct records *r, struct old *old)
{
	bool (*counts)(const struct stats_view *view, uint64_t key) =
		r == &f->procs ? procs_counts : procs_row_counts;
	size_t cnt = 0;

	for (uint32_t i = 0; i < r->cnt; i++) {
		uint64_t key = key_of(r, i);

		if (counts(&f->view, key) && procs_fn(key) < f->g->meta.fn_cnt)
			old[cnt++] = (struct old) { record_at(r, i)->start, procs_pid(key), i };
	}
	if (cnt)
		qsort(old, cnt, sizeof(*old), compare_old);
	return cnt;
}

/* Keeps in @old only records of exited processes: at least @most, if there are, and all of each. */
static size_t choose(struct old *old, size_t cnt, size_t most)
{
	size_t chosen = 0, next;

	for (size_t i = 0; i < cnt && chosen < most; i = next) {
		bool ended = proc_ended(old[i].pid, old[i].start);

		for (next = i; next < cnt && !compare_old(&old[i], &old[next]); next++)
			if (ended)
				old[chosen++] = old[next];
	}
	return chosen;
}

/* Steps 2 and 3. */
static void write_procs(const struct fold *f, const struct old *old, size_t cnt)
{
	uint32_t next = f->ctl->fold + 1, fn_cnt = f->g->meta.fn_cnt;
	const struct fsn_proc *in_use = ended_procs(f, f->ctl->fold);
	struct fsn_proc *idle = ended_procs(f, next);

	for (uint32_t fn = 0; fn < fn_cnt; fn++) {
		memset(&idle[fn], 0, sizeof(*idle));
		idle[fn].key = (fn + 1) | (uint64_t)f->view.first << FSN_PROC_EPOCH_SHIFT;
		if (procs_counts(&f->view, in_use[fn].key))
			proc_counts_add(&idle[fn].n, &in_use[fn].n);
	}
	for (size_t i = 0; i < cnt; i++) {
		struct fsn_proc *p = (struct fsn_proc *)record_at(&f->procs, old[i].i);
		unsigned long long key = key_of(&f->procs, old[i].i);

		if (procs_pid(key) == old[i].pid && p->start == old[i].start &&
			__atomic_compare_exchange_n(&p->key, &key,
				key | FSN_PROC_MARK(next), false, __ATOMIC_SEQ_CST,
				__ATOMIC_RELAXED))
			proc_counts_add(&idle[procs_fn(key)].n, &p->n);
	}
}

static void row_end(struct fsn_row *to, const struct stats_row *row)
{
#define X(name) to->name += row->n.name;
	ROW_COUNTS(X)
#undef X
	to->exit_bytes += row->exit_bytes;
	to->exit_blocks += row->exit_blocks;
	if (row->n.max_ns > to->max[0])
		to->max[0] = row->n.max_ns;
	for (size_t i = 0; i < FSN_SUMS; i++)
		to->sum[i] += row->sum[i];
}

/* Steps 2 and 3 for rows of keys. Their maximum is that of all epochs that count. */
static void write_rows(const struct fold *f, const struct old *old, size_t cnt)
{
	uint32_t next = f->ctl->fold + 1, fn_cnt = f->rows.cnt ? f->g->meta.fn_cnt : 0;
	const struct fsn_row *in_use = ended_rows(f, f->ctl->fold);
	struct fsn_row *idle = ended_rows(f, next);

	for (uint32_t fn = 0; fn < fn_cnt; fn++) {
		memset(&idle[fn], 0, sizeof(*idle));
		if (procs_counts(&f->view, in_use[fn].tag))
			idle[fn] = in_use[fn];
		idle[fn].tag = (fn + 1) | (uint64_t)f->view.first << FSN_PROC_EPOCH_SHIFT;
	}
	for (size_t i = 0; i < cnt; i++) {
		uint64_t tag = key_of(&f->rows, old[i].i);
		struct stats_row since;
		struct fsn_row base;

		if (map_get_sparse(f->rows.base_fd, old[i].i, sizeof(base), &base))
			memset(&base, 0, sizeof(base));
		since = rows_since(
			&f->view, (struct fsn_row *)record_at(&f->rows, old[i].i), &base);
		row_end(&idle[procs_fn(tag)], &since);
		set_key(&f->rows, old[i].i, tag | FSN_PROC_MARK(next));
	}
}

DEFINE_ORDER(compare_numbers, uint32_t, (*x > *y) - (*x < *y))

/* Deletes the distributions of rows that have been evicted. */
static void drop_spreads(const struct fold *f)
{
	_cleanup_free_ uint32_t *kept = xcalloc(f->rows.cnt + 1, sizeof(*kept));
	const struct fsn_row *rows = f->rows.map.addr;
	uint32_t cnt = 0, claimed = f->ctl->rows;
	struct fsn_spread_at key, next;
	int fd = group_fd(f->g, MAPID_SPREADS);
	bool more;

	if (group_wait_for_programs(f->g))
		return;
	for (uint32_t i = 0; i < f->rows.cnt; i++)
		if (rows[i].nth)
			kept[cnt++] = rows[i].nth;
	qsort(kept, cnt, sizeof(*kept), compare_numbers);
	for (more = !bpf_map_get_next_key(fd, NULL, &key); more; key = next) {
		more = !bpf_map_get_next_key(fd, &key, &next);
		if (key.row <= claimed && !bsearch(&key.row, kept, cnt, sizeof(*kept), compare_numbers))
			(void)bpf_map_delete_elem(fd, &key);
	}
}

/* Lists the records to evict, so that three quarters of the table are free. */
static size_t choose_old(const struct fold *f, const struct records *r, struct old *old)
{
	uint32_t in_use = used(r), kept = r->cnt / 4;

	return choose(old, list_records(f, r, old), in_use > kept ? in_use - kept : 0);
}

static void fold_locked(struct fold *f)
{
	_cleanup_free_ struct old *procs = xcalloc(f->procs.cnt, sizeof(*procs));
	_cleanup_free_ struct old *rows = xcalloc(f->rows.cnt + 1, sizeof(*rows));
	size_t proc_cnt, row_cnt;

	f->procs.base_fd = -1;
	f->rows.base_fd = base_rows_fd(f->g, FSN_BASE_INDEX(f->ctl->base));
	mend(f, &f->procs);
	mend(f, &f->rows);
	f->view.ctl = *f->ctl;
	f->view.first = FSN_BASE_EPOCH(f->ctl->base);
	f->view.last = f->ctl->epoch;
	proc_cnt = choose_old(f, &f->procs, procs);
	row_cnt = choose_old(f, &f->rows, rows);
	if (!proc_cnt && !row_cnt)
		return;
	write_procs(f, procs, proc_cnt);
	write_rows(f, rows, row_cnt);
	__atomic_store_n(&f->ctl->fold, f->ctl->fold + 1, __ATOMIC_SEQ_CST);
	mend(f, &f->procs);
	mend(f, &f->rows);
	drop_spreads(f);
}

int procs_fold(struct bpffs *fs, const struct group *g, struct err *err)
{
	__cleanup(fold_done) struct fold f = {};
	bool was_locked = fs->locked;
	uint64_t begun;
	uint32_t cnt = 0;
	int code;

	if ((!(g->meta.options & FSN_OPT_PROCESSES) && !g->meta.row_cnt) || !proc_is_first_ns())
		return 0;
	/* A call creates at most one record, so few calls mean few records. */
	begun = group_begun(g).calls;
	code = begun ? procs_cnt(g, &cnt) : 0;
	if (!code && begun <= (g->meta.row_cnt && g->meta.row_cnt < cnt ?
						      g->meta.row_cnt : cnt) / 2)
		return 0;
	if (!code)
		code = fold_open(g, &f);
	if (!code && (used(&f.procs) > f.procs.cnt / 2 || used(&f.rows) > f.rows.cnt / 2) &&
		bpffs_try_lock(fs)) {
		fold_locked(&f);
		if (!was_locked)
			bpffs_unlock(fs);
	}
	return code ? err_sys(err, code, "cannot fold processes of group '%s'", g->name) : 0;
}

/* --- return codes, processes, paths and slow calls ----------------------------------------- */

/* --- return codes --------------------------------------------------------------------------- */

DEFINE_ORDER(compare_codes, struct stats_code, RISING(code))

static void add_code(struct stats_func *f, int64_t code, uint64_t count)
{
	for (size_t i = 0; i < f->code_cnt; i++)
		if (f->codes[i].code == code) {
			f->codes[i].count += count;
			return;
		}
	*array_add(f->codes, f->code_cnt) = (struct stats_code){ .code = code, .count = count };
}

/* Copies the names, because types are only loaded if there are codes. */
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

int stats_read_codes(
	const struct group *g, const struct stats_view *view, struct stats *s)
{
	_cleanup_types_ struct types *types = NULL;
	int fd = group_fd(g, MAPID_CODES), code = 0;
	struct fsn_code key;
	uint64_t count;

	map_foreach(fd, &key) {
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
	return code;
}

/* --- call paths ----------------------------------------------------------------------------- */

/* Sums the shards of each path since the attach. */
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

/* Reads the keys of the callers of path @i, which are older but may not have been read yet. */
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

/* Reads the baselines of claimed paths: most of a table is free. */
static int read_base_paths(int fd, const uint64_t *keys, uint32_t cnt, struct fsn_path *base)
{
	uint32_t claimed = 0;
	int code = 0;

	for (uint32_t i = 0; i < cnt; i++)
		claimed += keys[i] != 0;
	if (claimed > cnt / 32)
		return map_read_fixed(fd, 0, cnt, sizeof(*base), base);
	for (uint32_t i = 0; !code && i < cnt; i++)
		if (keys[i] || i + 1 == cnt)
			code = map_get(fd, &i, &base[i]);
	return code;
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
		code = read_base_paths(base_paths_fd(g, index), keys, cnt, base);
	for (uint32_t i = 0; !code && i < cnt; i++)
		if (i + 1 == cnt || (keys[i] && (keys[i] & FSN_FN_MASK) <= g->meta.fn_cnt))
			add_path(s, i, keys[i], &raw->paths[i], &base[i]);
	return code;
}

/* --- distributions of rows -------------------------------------------------------------------- */

DEFINE_ORDER(compare_cells, struct fsn_spread_at, RISING(row) ?: RISING(bucket))

void spreads_read(const struct group *g, const struct stats_view *view, struct spreads *ret)
{
	int fd = group_map_fd(g, MAPID_SPREADS, "spreads", NULL);
	struct fsn_spread_at key;
	uint64_t cnt;

	*ret = (struct spreads) { .lost = view->ctl.lost_spreads };
	map_foreach(fd, &key) {
		if (key.bucket >= FSN_HIST_CNT || !view_has(view, key.epoch) ||
			bpf_map_lookup_elem(fd, &key, &cnt))
			continue;
		*array_add(ret->cells, ret->cnt) = (struct spread_cell) { key, cnt };
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
	*array_add(s->spreads, s->spread_cnt) = spread = xcalloc(1, sizeof(*spread));
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

DEFINE_ORDER(compare_slow, struct fsn_slow, RISING(seq))

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
