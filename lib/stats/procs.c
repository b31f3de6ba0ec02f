// SPDX-License-Identifier: BSD-2-Clause
// Folding the records and the rows of keys of processes that have ended, so that others find
// room.
//
// What follows is said of records. Rows of keys are folded in the same steps, of which 4 is one
// for both; what they have had since the baseline is theirs less what that remembers, which is
// cleared with them.
//
// A record is freed when the row of its function has its figures. For whoever reads, that
// is one step: a store to ctl.fold. The order, under the lock of the groups' folder:
//
//	1. mend what a killed fold left: records that are in the rows in use are cleared,
//	   others get their key back
//	2. mark the records with the next fold's bit; they count as before
//	3. write the idle rows: those in use, and what was marked
//	4. one store switches to them: marked records count no more
//	5. clear the marked records: their places are free
//
// Killed before 4 nothing has changed, after it the next fold ends the work.
//
// Programs: one that counts in a process runs in one of its threads, and while it runs that
// thread is there, alive for kill(2) and in /proc. So the figures of a process that is gone
// are final, and nothing more comes: who gets its number began later, which makes another
// record. Places are claimed from 0 only, which is stored last.
// Readers take ctl before and after they read. If .fold is the same, rows and marks had one
// meaning all the time, and nobody wrote to what counts; else they read again, at last
// under the lock. They need no right to write.
// Resets and other folds hold the lock. A fold takes records of the epochs that count now,
// all of which the next reset ends together; the rows have the first of them, and end with
// it, as records do.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "proc/proc.h"
#include "internal.h"

int procs_cnt(const struct group *g, uint32_t *ret_cnt)
{
	uint64_t rows = 2 * (uint64_t)g->meta.fn_cnt;
	uint64_t entries = group_entries(g, MAPID_PROCS);

	if (entries <= rows)
		return -EPROTO;
	*ret_cnt = entries - rows;
	return 0;
}

struct fold {
	const struct group *g;
	struct map_mapping ctl_map, procs_map, keyed_map;
	struct stats_view view;
	struct fsn_ctl *ctl;
	struct fsn_proc *records; /* behind them the rows */
	uint32_t cnt;
	struct fsn_row *keyed; /* rows of keys; behind them the others, then the ended */
	uint32_t keyed_cnt;    /* 0: there are none */
};

/* A record of a process, in the order in which they are given up. */
struct old {
	uint64_t start;
	pid_t pid;
	uint32_t i;
};

static void fold_done(struct fold *f)
{
	map_munmap(&f->ctl_map);
	map_munmap(&f->procs_map);
	map_munmap(&f->keyed_map);
}

static int fold_open_keyed(const struct group *g, struct fold *f)
{
	uint32_t cnt;
	int code = rows_cnt(g, &cnt);

	if (code || !cnt)
		return code;
	f->keyed_cnt = g->meta.row_cnt;
	code = map_mmap(group_fd(g, MAPID_ROWS),
		(cnt + 2 * (size_t)g->meta.fn_cnt) * sizeof(*f->keyed), &f->keyed_map);
	f->keyed = f->keyed_map.addr;
	return code;
}

static int fold_open(const struct group *g, struct fold *f)
{
	int code = procs_cnt(g, &f->cnt);

	f->g = g;
	if (!code)
		code = map_mmap(group_fd(g, MAPID_CTL), sizeof(*f->ctl), &f->ctl_map);
	if (!code)
		code = map_mmap(group_fd(g, MAPID_PROCS),
			(f->cnt + 2 * (size_t)g->meta.fn_cnt) * sizeof(*f->records),
			&f->procs_map);
	if (!code)
		code = fold_open_keyed(g, f);
	f->ctl = f->ctl_map.addr;
	f->records = f->procs_map.addr;
	return code;
}

static struct fsn_proc *rows(const struct fold *f, uint32_t fold)
{
	return f->records + f->cnt + (fold & 1) * f->g->meta.fn_cnt;
}

static uint64_t key_of(const struct fold *f, uint32_t i)
{
	return __atomic_load_n(&f->records[i].key, __ATOMIC_ACQUIRE);
}

static void clear(struct fsn_proc *p)
{
	memset((char *)p + sizeof(p->key), 0, sizeof(*p) - sizeof(p->key));
	__atomic_store_n(&p->key, 0, __ATOMIC_RELEASE);
}

static uint32_t used(const struct fold *f)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < f->cnt; i++)
		cnt += key_of(f, i) != 0;
	return cnt;
}

static struct fsn_row *ended_rows(const struct fold *f, uint32_t fold)
{
	return f->keyed + f->keyed_cnt + (1 + (fold & 1)) * f->g->meta.fn_cnt;
}

static int base_fd_of(const struct fold *f)
{
	return base_rows_fd(f->g, FSN_BASE_INDEX(f->ctl->base));
}

/* What a row of keys had at the last reset. */
static struct fsn_row base_of(const struct fold *f, uint32_t i)
{
	struct fsn_row base;

	if (map_get_sparse(base_fd_of(f), i, sizeof(base), &base))
		memset(&base, 0, sizeof(base));
	return base;
}

static uint64_t tag_of(const struct fold *f, uint32_t i)
{
	return __atomic_load_n(&f->keyed[i].tag, __ATOMIC_ACQUIRE);
}

static void clear_row(struct fsn_row *row)
{
	memset((char *)row + sizeof(row->tag), 0, sizeof(*row) - sizeof(row->tag));
	__atomic_store_n(&row->tag, 0, __ATOMIC_RELEASE);
}

static uint32_t used_rows(const struct fold *f)
{
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < f->keyed_cnt; i++)
		cnt += tag_of(f, i) != 0;
	return cnt;
}

/* Steps 1 and 5 of rows of keys. */
static void mend_rows(const struct fold *f)
{
	for (uint32_t i = 0; i < f->keyed_cnt; i++) {
		uint64_t tag = tag_of(f, i);

		if (!(tag & FSN_PROC_FOLDED))
			continue;
		if ((tag & FSN_PROC_MARK(1)) != FSN_PROC_MARK(f->ctl->fold)) {
			__atomic_store_n(&f->keyed[i].tag, tag & ~FSN_PROC_MARK(1),
				__ATOMIC_RELEASE);
			continue;
		}
		(void)bpf_map_delete_elem(base_fd_of(f), &i);
		clear_row(&f->keyed[i]);
	}
}

/* Step 1, and 5: those that are marked with the bit of the fold in use are in its rows. */
static void mend(const struct fold *f)
{
	uint64_t key;

	for (uint32_t i = 0; i < f->cnt; i++) {
		key = key_of(f, i);
		if (!(key & FSN_PROC_FOLDED))
			continue;
		if ((key & FSN_PROC_MARK(1)) == FSN_PROC_MARK(f->ctl->fold))
			clear(&f->records[i]);
		else
			__atomic_store_n(&f->records[i].key, key & ~FSN_PROC_MARK(1),
				__ATOMIC_RELEASE);
	}
	mend_rows(f);
}

static int compare_old(const void *a, const void *b)
{
	const struct old *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

/* All records that count, those of one process together. */
static size_t list_records(const struct fold *f, struct old *old)
{
	size_t cnt = 0;

	for (uint32_t i = 0; i < f->cnt; i++) {
		uint64_t key = key_of(f, i);

		if (procs_counts(&f->view, key) && procs_fn(key) < f->g->meta.fn_cnt)
			old[cnt++] = (struct old) { f->records[i].start, procs_pid(key), i };
	}
	if (cnt)
		qsort(old, cnt, sizeof(*old), compare_old);
	return cnt;
}

static size_t list_rows(const struct fold *f, struct old *old)
{
	size_t cnt = 0;

	for (uint32_t i = 0; i < f->keyed_cnt; i++) {
		uint64_t tag = tag_of(f, i);

		if (procs_row_counts(&f->view, tag) && procs_fn(tag) < f->g->meta.fn_cnt)
			old[cnt++] = (struct old) { f->keyed[i].start, procs_pid(tag), i };
	}
	if (cnt)
		qsort(old, cnt, sizeof(*old), compare_old);
	return cnt;
}

/* Leaves the first @most and more, whole processes, of those that have ended in @old. */
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
static void write_rows(const struct fold *f, const struct old *old, size_t cnt)
{
	uint32_t next = f->ctl->fold + 1, fn_cnt = f->g->meta.fn_cnt;
	const struct fsn_proc *in_use = rows(f, f->ctl->fold);
	struct fsn_proc *idle = rows(f, next);

	for (uint32_t fn = 0; fn < fn_cnt; fn++) {
		memset(&idle[fn], 0, sizeof(*idle));
		idle[fn].key = (fn + 1) | (uint64_t)f->view.first << FSN_PROC_EPOCH_SHIFT;
		if (procs_counts(&f->view, in_use[fn].key))
			proc_counts_add(&idle[fn].n, &in_use[fn].n);
	}
	for (size_t i = 0; i < cnt; i++) {
		struct fsn_proc *p = &f->records[old[i].i];
		unsigned long long key = key_of(f, old[i].i);

		if (procs_pid(key) == old[i].pid && p->start == old[i].start &&
			__atomic_compare_exchange_n(&p->key, &key,
				key | FSN_PROC_MARK(next), false, __ATOMIC_SEQ_CST,
				__ATOMIC_RELAXED))
			proc_counts_add(&idle[procs_fn(key)].n, &p->n);
	}
}

static void row_end(struct fsn_row *to, const struct stats_row *row)
{
	to->calls += row->n.calls;
	to->returns += row->n.returns;
	to->total_ns += row->n.total_ns;
	to->errors += row->n.errors;
	to->slow += row->n.slow;
	to->on_cpu_ns += row->n.on_cpu_ns;
	to->queued_ns += row->n.queued_ns;
	to->blocked_ns += row->n.blocked_ns;
	to->exit_bytes += row->exit_bytes;
	to->exit_blocks += row->exit_blocks;
	if (row->n.max_ns > to->max[0])
		to->max[0] = row->n.max_ns;
	for (size_t i = 0; i < FSN_SUMS; i++)
		to->sum[i] += row->sum[i];
}

/* Steps 2 and 3 of rows of keys: their longest call is that of all epochs that count. */
static void write_ended(const struct fold *f, const struct old *old, size_t cnt)
{
	uint32_t next = f->ctl->fold + 1, fn_cnt = f->keyed_cnt ? f->g->meta.fn_cnt : 0;
	const struct fsn_row *in_use = ended_rows(f, f->ctl->fold);
	struct fsn_row *idle = ended_rows(f, next);

	for (uint32_t fn = 0; fn < fn_cnt; fn++) {
		memset(&idle[fn], 0, sizeof(*idle));
		if (procs_counts(&f->view, in_use[fn].tag))
			idle[fn] = in_use[fn];
		idle[fn].tag = (fn + 1) | (uint64_t)f->view.first << FSN_PROC_EPOCH_SHIFT;
	}
	for (size_t i = 0; i < cnt; i++) {
		struct fsn_row *row = &f->keyed[old[i].i];
		struct fsn_row base = base_of(f, old[i].i);
		struct stats_row since = rows_since(&f->view, row, &base);
		uint64_t tag = tag_of(f, old[i].i);

		row_end(&idle[procs_fn(tag)], &since);
		__atomic_store_n(&row->tag, tag | FSN_PROC_MARK(next), __ATOMIC_RELEASE);
	}
}

static int compare_numbers(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* How times of rows were spread that are there no more: what came before all that are. */
static void drop_spreads(const struct fold *f)
{
	_cleanup_free_ uint32_t *kept = xcalloc(f->keyed_cnt + 1, sizeof(*kept));
	uint32_t cnt = 0, claimed = f->ctl->rows;
	struct fsn_spread_at key, next;
	int fd = group_fd(f->g, MAPID_SPREADS);
	bool more;

	if (group_wait_for_programs(f->g))
		return;
	for (uint32_t i = 0; i < f->keyed_cnt; i++)
		if (f->keyed[i].nth)
			kept[cnt++] = f->keyed[i].nth;
	qsort(kept, cnt, sizeof(*kept), compare_numbers);
	for (more = !bpf_map_get_next_key(fd, NULL, &key); more; key = next) {
		more = !bpf_map_get_next_key(fd, &key, &next);
		if (key.row <= claimed && !bsearch(&key.row, kept, cnt, sizeof(*kept), compare_numbers))
			(void)bpf_map_delete_elem(fd, &key);
	}
}

/* How many records are to go: so that three quarters are free. */
static size_t too_many(uint32_t used, uint32_t cnt)
{
	return used > cnt / 4 ? used - cnt / 4 : 0;
}

static int fold_locked(struct fold *f)
{
	_cleanup_free_ struct old *old = xcalloc(f->cnt, sizeof(*old));
	_cleanup_free_ struct old *old_rows = xcalloc(f->keyed_cnt + 1, sizeof(*old_rows));
	size_t cnt, row_cnt;

	mend(f);
	f->view.ctl = *f->ctl;
	f->view.first = FSN_BASE_EPOCH(f->ctl->base);
	f->view.last = f->ctl->epoch;
	cnt = choose(old, list_records(f, old), too_many(used(f), f->cnt));
	row_cnt = choose(old_rows, list_rows(f, old_rows),
		too_many(used_rows(f), f->keyed_cnt));
	if (!cnt && !row_cnt)
		return 0;
	write_rows(f, old, cnt);
	write_ended(f, old_rows, row_cnt);
	__atomic_store_n(&f->ctl->fold, f->ctl->fold + 1, __ATOMIC_SEQ_CST);
	mend(f);
	drop_spreads(f);
	return 0;
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
	/* Each record was begun by a call of its own. */
	begun = group_begun(g).calls;
	code = begun ? procs_cnt(g, &cnt) : 0;
	if (!code && begun <= (g->meta.row_cnt && g->meta.row_cnt < cnt ?
						      g->meta.row_cnt : cnt) / 2)
		return 0;
	if (!code)
		code = fold_open(g, &f);
	if (!code && (used(&f) > f.cnt / 2 || used_rows(&f) > f.keyed_cnt / 2) &&
		bpffs_try_lock(fs)) {
		code = fold_locked(&f);
		if (!was_locked)
			bpffs_unlock(fs);
	}
	return code ? err_sys(err, code, "cannot fold processes of group '%s'", g->name) : 0;
}
