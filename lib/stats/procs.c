// SPDX-License-Identifier: BSD-2-Clause
// Folding the records of processes that have ended, so that others find room.
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
	struct bpf_map_info info = {};
	__u32 len = sizeof(info);

	if (bpf_obj_get_info_by_fd(g->fd[MAPID_PROCS], &info, &len))
		return -errno;
	if (info.max_entries <= rows)
		return -EPROTO;
	*ret_cnt = info.max_entries - rows;
	return 0;
}

struct fold {
	const struct group *g;
	struct map_mapping ctl_map, procs_map;
	struct stats_view view;
	struct fsn_ctl *ctl;
	struct fsn_proc *records; /* behind them the rows */
	uint32_t cnt;
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
}

static int fold_open(const struct group *g, struct fold *f)
{
	int code = procs_cnt(g, &f->cnt);

	f->g = g;
	if (!code)
		code = map_mmap(g->fd[MAPID_CTL], sizeof(*f->ctl), &f->ctl_map);
	if (!code)
		code = map_mmap(g->fd[MAPID_PROCS],
			(f->cnt + 2 * (size_t)g->meta.fn_cnt) * sizeof(*f->records),
			&f->procs_map);
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

static int fold_locked(struct fold *f)
{
	_cleanup_free_ struct old *old = calloc(f->cnt, sizeof(*old));
	size_t cnt, most;

	if (!old)
		return -ENOMEM;
	mend(f);
	f->view.ctl = *f->ctl;
	f->view.first = FSN_BASE_EPOCH(f->ctl->base);
	f->view.last = f->ctl->epoch;
	most = used(f);
	most -= most < f->cnt / 4 ? most : f->cnt / 4;
	cnt = choose(old, list_records(f, old), most);
	if (!cnt)
		return 0;
	write_rows(f, old, cnt);
	__atomic_store_n(&f->ctl->fold, f->ctl->fold + 1, __ATOMIC_SEQ_CST);
	mend(f);
	return 0;
}

int procs_fold(struct bpffs *fs, const struct group *g, struct err *err)
{
	__cleanup(fold_done) struct fold f = {};
	bool was_locked = fs->locked;
	int code = 0;

	if (!(g->meta.options & FSN_OPT_PROCESSES) || !proc_is_first_ns())
		return 0;
	code = fold_open(g, &f);
	if (!code && used(&f) > f.cnt / 2 && bpffs_try_lock(fs)) {
		code = fold_locked(&f);
		if (!was_locked)
			bpffs_unlock(fs);
	}
	return code ? err_sys(err, code, "cannot fold processes of group '%s'", g->name) : 0;
}
