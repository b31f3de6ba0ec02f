// SPDX-License-Identifier: BSD-2-Clause
// Reads counters, buckets and extremes, and subtracts the baseline; and the overhead of a group's
// probes, accounted by the kernel or estimated by calibration.
#include <bpf/bpf.h>
#include <fcntl.h>

#include "base/file.h"
#include "base/util.h"
#include "internal.h"
#include "kernel/kernel.h"
#include "stats/stats.h"

#define TRIES_WITHOUT_LOCK 4
#define BETWEEN_NS         5000000000ULL

/* --- programs of a group -------------------------------------------------------------------- */

struct progs {
	__u32 *id;
	size_t cnt;
};

static void add_prog_of(struct progs *progs, int dir_fd, const char *name)
{
	_cleanup_close_ int fd = bpffs_get(dir_fd, name, 0);
	struct link_info info;

	if (fd < 0 || link_get_info(fd, &info))
		return;
	for (size_t i = 0; i < progs->cnt; i++)
		if (progs->id[i] == info.prog_id)
			return;
	*array_add(progs->id, progs->cnt) = info.prog_id;
}

static void find_progs(struct progs *progs, int dir_fd)
{
	_cleanup_closedir_ DIR *dir = dir_open_at(dir_fd, ".");
	struct dirent *d;

	while (dir && (d = readdir(dir)))
		if (!strncmp(d->d_name, "link_", 5))
			add_prog_of(progs, dir_fd, d->d_name);
}

static void progs_done(struct progs *progs)
{
	free(progs->id);
}

static bool prog_info(__u32 id, struct bpf_prog_info *ret_info)
{
	_cleanup_close_ int fd = bpf_prog_get_fd_by_id(id);
	__u32 len = sizeof(*ret_info);

	memset(ret_info, 0, sizeof(*ret_info));
	return fd >= 0 && !bpf_obj_get_info_by_fd(fd, ret_info, &len);
}

/* Reads how often the kernel skipped the BPF programs. False without permission. */
static bool stats_missed(const struct group *g, uint64_t *ret_missed)
{
	__cleanup(progs_done) struct progs progs = {};
	struct bpf_prog_info info;
	uint64_t missed = 0;

	find_progs(&progs, group_dir_fd(g));
	for (size_t i = 0; i < progs.cnt; i++) {
		if (!prog_info(progs.id[i], &info))
			return false;
		missed += info.recursion_misses;
	}
	*ret_missed = missed;
	return progs.cnt;
}

/* --- counters ------------------------------------------------------------------------------- */

struct counters {
	struct fsn_stat *stat; /* shard * fn_cnt + function */
	size_t cnt;
};

static void counters_done(struct counters *c)
{
	free(c->stat);
}

static int counters_read(const struct group *g, struct counters *c)
{
	c->cnt = (size_t)g->meta.stat_shards * g->meta.fn_cnt;
	if (!c->stat)
		c->stat = calloc(c->cnt, sizeof(*c->stat));
	if (!c->stat)
		return -ENOMEM;
	return map_read(group_fd(g, MAPID_STATS), 0, c->cnt, sizeof(*c->stat), c->stat);
}

#define X(name) to->name += more->name;
void counts_add(struct fsn_counts *to, const struct fsn_counts *more)
{
	FSN_COUNTS(X)
}

void proc_counts_add(struct fsn_proc_counts *to, const struct fsn_proc_counts *more)
{
	FSN_PROC_COUNTS(X)
	if (more->max_ns > to->max_ns)
		to->max_ns = more->max_ns;
}
#undef X

#define X(name) from->name -= from->name < was->name ? from->name : was->name;
void counts_subtract(struct fsn_counts *from, const struct fsn_counts *was)
{
	FSN_COUNTS(X)
}

void proc_counts_subtract(struct fsn_proc_counts *from, const struct fsn_proc_counts *was)
{
	FSN_PROC_COUNTS(X)
	if (from->max_ns <= was->max_ns)
		from->max_ns = 0;
}
#undef X

#define RUNS_ENOUGH (16ULL << FSN_RUNS_BITS)

/*
 * Subtracts @was. Keeps the run times since the attach if few samples would remain, because their
 * mean is then more accurate.
 */
static void counts_since(struct fsn_counts *n, const struct fsn_counts *was)
{
	const struct fsn_counts ever = *n;

	counts_subtract(n, was);
	if (n->entry_runs < RUNS_ENOUGH) {
		n->entry_ns = ever.entry_ns;
		n->entry_runs = ever.entry_runs;
	}
	if (n->end_runs < RUNS_ENOUGH) {
		n->end_ns = ever.end_ns;
		n->end_runs = ever.end_runs;
	}
}

/* Only extremes of epochs that count in @view. */
static void add_extremes(struct stats_func *f, const struct fsn_stat *stat,
	const struct stats_view *view)
{
	uint64_t most_ns = (uint64_t)stat->most_probes << FSN_DELAY_SHIFT;

	if (most_ns > f->most_ns)
		f->most_ns = most_ns;
	for (int p = 0; p < 2; p++) {
		uint64_t max = stat->max[p], min = stat->min[p];

		if (max && view_has(view, max >> FSN_NS_BITS)) {
			max &= FSN_NS_MASK;
			if (!f->has_extremes || max > f->max_ns)
				f->max_ns = max;
			if (!f->has_extremes)
				f->min_ns = FSN_NS_MASK;
			f->has_extremes = true;
		}
		if (f->has_extremes && min && view_has(view, min >> FSN_NS_BITS)) {
			min = FSN_NS_MASK - (min & FSN_NS_MASK);
			if (min < f->min_ns)
				f->min_ns = min;
		}
	}
}

/* --- buckets -------------------------------------------------------------------------------- */

static int read_hist(const struct group *g, struct stats_func *f)
{
	struct fsn_hist hist;

	f->bucket = xcalloc(FSN_HIST_CNT, sizeof(*f->bucket));
	for (uint32_t shard = 0; shard < g->meta.hist_shards; shard++) {
		uint32_t i = shard * g->meta.timed_cnt + f->fn;

		int code = map_get(group_fd(g, MAPID_HISTS), &i, &hist);

		if (code)
			return code;
		for (int b = 0; b < FSN_HIST_CNT; b++)
			f->bucket[b] += hist.bucket[b];
	}
	return 0;
}

void stats_raw_done(struct stats_raw *raw)
{
	free(raw->total);
	free(raw->paths);
	free(raw->memory);
	free(raw->rows);
}

/* --- since the baseline --------------------------------------------------------------------- */

static void func_subtract(struct stats_func *f, const struct fsn_base *now,
	const struct fsn_base *base)
{
	uint64_t ends;

	f->n = now->n;
	counts_since(&f->n, &base->n);
	f->n.total_ns = stats_signed(f->n.total_ns);
	f->n.on_cpu_ns = stats_signed(f->n.on_cpu_ns);
	f->carried = base->carried;
	/* Calls that were abandoned before the reset and resumed after it were in flight. */
	if (f->n.revived > f->n.abandoned)
		f->carried += f->n.revived - f->n.abandoned;
	else
		f->abandoned = f->n.abandoned - f->n.revived;
	ends = f->n.returns + f->abandoned + counts_untimed(&f->n);
	f->in_flight = f->n.calls + f->carried > ends ? f->n.calls + f->carried - ends : 0;
}

/* The return of a call in flight may be lost, whether or not its thread has exited. */
static void func_doubt(struct stats_func *f)
{
	f->lost = f->in_flight + f->abandoned;
	f->in_flight = f->abandoned = 0;
}

#define PROBES_NOISE 10 /* one tenth: the error of the correction for probes of nested calls */

/* Returns the run time of an exit probe during the calibration. */
static double calibrated_end(const uint32_t *run_ns, enum price_end end)
{
	return run_ns[end] ? (double)run_ns[end] - run_ns[PRICE_COUNT] : 0;
}

#define SLOW_PART 4 /* the kernel's part of a probe slows down less than the BPF programs */

/*
 * How many times longer probes took than during the calibration, at least 1: with other code and
 * data in the caches, as between rare calls. The run time of the exit programs shows that; that of
 * the entry programs depends on keys and stacks.
 */
static double slowdown(const uint32_t *run_ns, enum price_end end, const struct fsn_counts *n)
{
	double calibrated = calibrated_end(run_ns, end),
	       ratio = calibrated > 0 && n->end_runs ? n->end_ns / calibrated / n->end_runs : 1;

	return ratio > 1 ? 1 + (ratio - 1) / SLOW_PART : 1;
}

/* Returns the error of a duration that was corrected for probes of @ns. */
static double error_of(double slow, uint64_t ns)
{
	return (slow - 1 + 1.0 / PROBES_NOISE) * ns;
}

/* Returns the error of the correction for the probes of @func itself. */
static double own_error(double slow, const struct group_func *func)
{
	return price_noise_ns(func->site) * slow + (slow - 1) * func->overhead_ns;
}

/* Returns the extra cost of a probe on an instruction that is single-stepped. */
static uint64_t step_ns(const struct price *price)
{
	uint32_t emulated = price->whole_ns[PRICE_EMULATED][PRICE_COUNT],
		 stepped = price->whole_ns[PRICE_STEPPED][PRICE_COUNT];

	return stepped > emulated ? stepped - emulated : 0;
}

#define SETUP_STEPS 5

/*
 * Returns the maximum that the first single-step or return probe of a process takes longer: the
 * kernel maps a page into the process for it.
 */
static uint64_t setup_ns(const struct price *price)
{
	return SETUP_STEPS * step_ns(price);
}

/* True if the probes of @func may map that page before the duration is measured. */
static bool sets_up_inside(const struct group_func *func)
{
	return func->in_file && (func->site == PRICE_STEPPED || func->end == PRICE_RETURN);
}

/*
 * Returns the share of the calls of @f that may be the first ones of their processes, with all levels
 * of a recursion that are then in progress.
 */
static double first_share(const struct stats_func *f)
{
	uint64_t cnt = 0, returns = 0, outer = stats_func_outer(f);
	double depth = f->nested && outer ? (double)f->n.total_ns / outer : 1, share;

	for (size_t i = 0; i < f->proc_cnt; i++) {
		cnt += f->procs[i].n.returns != 0;
		returns += f->procs[i].n.returns;
	}
	share = cnt ? depth * cnt / returns : depth / f->n.returns;
	return share < 1 ? share : 1;
}

#define SYSCALL_NOISE 2 /* between traps a system call's probes took three times the calibration */

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * Sets the error of the durations of @f: of the corrections for its own probes and for probes of
 * nested calls. If the on-CPU time of a call is within this error, its waiting time is not
 * significant. The probes of system calls took @syscalls_ns in all.
 */
static void set_noise(const struct price *price, const struct group_func *func,
	uint64_t syscalls_ns, struct stats_func *f)
{
	double slow = slowdown(price->run_ns[func->site], func->end, &f->n);
	uint64_t noise = f->overhead_ns ? price_noise_ns(func->site) : 0, returns = f->n.returns,
		 inner = stats_signed(f->n.probes_ns),
		 setup = f->most_ns || sets_up_inside(func) ? setup_ns(price) : 0;

	f->noise_ns = f->max_noise_ns = noise;
	if (!noise || !returns)
		return;
	noise = own_error(slow, func);
	f->max_noise_ns = noise + error_of(slow, f->most_ns) + setup +
		SYSCALL_NOISE * least(f->most_ns, syscalls_ns);
	noise += error_of(slow, inner / returns) + first_share(f) * setup +
		SYSCALL_NOISE * least(inner, syscalls_ns) / returns;
	if (stats_less(stats_func_self(f), f->n.waited_ns) / returns < noise)
		noise += f->n.waited_ns / returns;
	f->noise_ns = noise;
	if (f->max_noise_ns < noise)
		f->max_noise_ns = noise;
}

void call_noise_read(const struct group *g, uint32_t fn, struct call_noise *ret_noise)
{
	const struct price price = group_info(g).price;
	const struct group_func func = group_func(g, fn);
	struct fsn_counts n = {};
	struct fsn_stat stat;

	memset(ret_noise, 0, sizeof(*ret_noise));
	ret_noise->overhead_ns = func.overhead_ns;
	if (!func.overhead_ns)
		return;
	for (uint32_t i = fn; i < g->meta.stat_shards * g->meta.fn_cnt; i += g->meta.fn_cnt)
		if (!map_get(group_fd(g, MAPID_STATS), &i, &stat))
			counts_add(&n, &stat.n);
	ret_noise->slow = slowdown(price.run_ns[func.site], func.end, &n);
	ret_noise->own_ns = own_error(ret_noise->slow, &func);
	ret_noise->setup_ns = setup_ns(&price);
	ret_noise->sets_up = sets_up_inside(&func) || (func.in_file && func.end == PRICE_RET);
}

uint64_t call_noise_ns(const struct call_noise *noise, uint64_t probes_ns, bool first)
{
	uint64_t inner = stats_less(probes_ns, noise->overhead_ns);

	if (!noise->overhead_ns)
		return 0;
	return noise->own_ns + error_of(noise->slow, inner) + (first ? noise->setup_ns : 0);
}

/* Processes have been read, because each has a first call. */
static void noise_make(const struct group *g, struct stats *s)
{
	const struct price price = group_info(g).price;
	uint64_t syscalls_ns = 0;

	for (uint32_t i = 0; i < g->meta.fn_cnt; i++)
		if (group_func(g, i).site == PRICE_SYSCALL)
			syscalls_ns += s->funcs[i].cost_ns;
	for (uint32_t i = 0; i < g->meta.fn_cnt; i++) {
		const struct group_func func = group_func(g, i);

		set_noise(&price, &func, syscalls_ns, &s->funcs[i]);
	}
}

/* A kind of entry that was not calibrated has no cost. */
static bool is_priced(const struct price *price, const struct group_func *func)
{
	return price->at_ns && func->priced &&
		(func->in_file || price->whole_ns[func->site][PRICE_COUNT]);
}

static void func_price(const struct group *g, const struct price *price, struct stats_func *f)
{
	const struct group_func func = group_func(g, f->fn);
	bool in_thread = f->timed && func.exit != FSN_EXIT_GOROUTINE;

	f->priced = is_priced(price, &func);
	f->nested = in_thread && g->meta.options & FSN_OPT_NESTING;
	f->split = in_thread && g->meta.options & FSN_OPT_SPLIT && !kind_of(g, f->fn)->is_wait;
	f->overhead_ns = func.overhead_ns;
	if (f->priced)
		f->cost_ns = cost_of_hits(price, func.site, func.end, &f->n);
}

static int subtract_buckets(const struct group *g, uint32_t index, struct stats_func *f)
{
	struct fsn_hist base;
	int code = map_get_sparse(base_hist_fd(g, index), f->fn, sizeof(base), &base);

	for (int b = 0; !code && b < FSN_HIST_CNT; b++)
		f->bucket[b] -= base.bucket[b];
	return code;
}

/*
 * Returns without a call, except those of calls that were deliberately not traced. A session link
 * does not report such returns, other links do. An untraced call that never returns hides one
 * unmatched return.
 */
static uint64_t unmatched(const struct group *g, uint32_t fn, const struct fsn_counts *t)
{
	bool session = g->meta.links & LINK_SESSION && g->funcs[fn].exit == FSN_EXIT_RETURN &&
		kind_of(g, fn)->in_files;
	uint64_t known = session ? 0 : t->no_slot + t->sampled_out;

	return t->unmatched > known ? t->unmatched - known : 0;
}

/* Makes the statistics of each function: @raw minus what was counted before the last reset. */
static int funcs_make(const struct group *g, const struct stats_view *view,
	const struct stats_raw *raw, struct stats *s)
{
	uint32_t index = FSN_BASE_INDEX(view->ctl.base);
	_cleanup_free_ struct fsn_base *base = xcalloc(g->meta.fn_cnt, sizeof(*base));
	const struct price price = group_info(g).price;
	uint64_t before;
	int code;

	code = map_read_sparse(base_fd(g, index), g->meta.fn_cnt, sizeof(*base), base);
	for (uint32_t i = 0; !code && i < g->meta.fn_cnt; i++) {
		struct stats_func *f = &s->funcs[i];

		f->fn = i;
		if (g->funcs[i].limit == LIMIT_LEFT_OUT) { /* its probes were removed */
			func_price(g, &price, f);
			continue;
		}
		f->timed = i < g->meta.timed_cnt;
		f->same = g->funcs[i].exit == FSN_EXIT_SAME && !g->funcs[i].jumps;
		func_subtract(f, &raw->total[i], &base[i]);
		if (g->funcs[i].exit == FSN_EXIT_SOME)
			func_doubt(f);
		func_price(g, &price, f);
		before = unmatched(g, i, &base[i].n);
		f->n.unmatched = unmatched(g, i, &raw->total[i].n);
		f->n.unmatched -= f->n.unmatched > before ? before : f->n.unmatched;
		if (!f->timed) {
			f->n.returns = f->same ? f->n.calls : 0;
			f->n.jumped = g->funcs[i].jumps ? f->n.calls : 0;
			f->in_flight = 0;
		}
		if (f->bucket)
			code = subtract_buckets(g, index, f);
	}
	return code;
}

/* A reader that cannot sweep counts the calls of exited threads itself, if permitted. */
static void look_for_dead(const struct group *g, struct stats *s)
{
	_cleanup_free_ uint64_t *dead = NULL;
	uint64_t open = 0;
	int code;

	for (uint32_t i = 0; i < g->meta.fn_cnt; i++)
		open += s->funcs[i].in_flight;
	if (g->swept || !open)
		return;
	dead = xcalloc(g->meta.fn_cnt, sizeof(*dead));
	code = slots_count_dead(g, dead);
	for (uint32_t i = 0; i < g->meta.fn_cnt; i++) {
		struct stats_func *f = &s->funcs[i];
		uint64_t cnt = dead[i] < f->in_flight ? dead[i] : f->in_flight;

		f->unswept = code && f->in_flight;
		if (!code) {
			f->in_flight -= cnt;
			f->abandoned += cnt;
		}
	}
}

/*
 * Reads returns before buckets and buckets before calls. A call that is counted as returned is then
 * also counted as made, so in_flight is never negative, at any load. Resumed calls are read
 * together with calls, because they are counted before their return.
 */
static int raw_read(const struct group *g, const struct stats_view *view, struct stats *s,
	struct stats_raw *raw)
{
	__cleanup(counters_done) struct counters c = {};
	uint32_t cnt = g->meta.fn_cnt;
	int code;

	raw->total = xcalloc(cnt, sizeof(*raw->total));
	code = counters_read(g, &c);
	for (size_t i = 0; !code && i < c.cnt; i++) {
		counts_add(&raw->total[i % cnt].n, &c.stat[i].n);
		add_extremes(&s->funcs[i % cnt], &c.stat[i], view);
	}
	for (uint32_t i = 0; !code && i < g->meta.timed_cnt; i++) {
		s->funcs[i].fn = i;
		if (raw->total[i].n.returns && !view->counts)
			code = read_hist(g, &s->funcs[i]);
	}
	if (!code)
		code = counters_read(g, &c);
	for (uint32_t i = 0; i < cnt; i++)
		raw->total[i].n.calls = raw->total[i].n.revived = 0;
	for (size_t i = 0; !code && i < c.cnt; i++) {
		raw->total[i % cnt].n.calls += c.stat[i].n.calls;
		raw->total[i % cnt].n.revived += c.stat[i].n.revived;
		stats_add_unplaced(&s->funcs[i % cnt], &c.stat[i], view);
	}
	for (uint32_t i = 0; !code && i < g->meta.timed_cnt; i++)
		raw->total[i].carried = counts_open(&raw->total[i].n);
	return code;
}

/* The kernel never skips BPF programs on files, so only other functions need a reading. */
static void missed_read(struct stats *s)
{
	uint32_t fn = 0;

	while (fn < s->group->meta.fn_cnt && kind_of(s->group, fn)->in_files)
		fn++;
	s->has_missed = fn == s->group->meta.fn_cnt || stats_missed(s->group, &s->missed);
}

static void health_make(const struct stats_view *view, struct stats *s)
{
	const struct fsn_ctl *ctl = &view->ctl;
	uint32_t index = FSN_BASE_INDEX(ctl->base);

	missed_read(s);
	s->since_ns = ctl->since_ns[index];
	s->attached_ns = s->group->meta.attached_ns;
	s->folds = ctl->fold;
#define X(name) s->name = ctl->name - ctl->name##_base[index];
	FSN_LOSSES(X)
#undef X
	s->cpus_off = ctl->cpus_off;
	s->crowd_pid = s->crowded ? (pid_t)ctl->crowd_pid : 0;
	s->slow_total = ctl->slow_head - ctl->slow_base[index];
	if (s->slow_total > FSN_SLOW_CNT)
		s->lost_slow = s->slow_total - FSN_SLOW_CNT;
}

/* Reads what functions have apart from counts and memory. */
static int details_read(const struct group *g, const struct stats_view *view, struct stats *s,
	struct stats_raw *raw)
{
	int code = stats_read_codes(g, view, s);

	if (!code)
		code = stats_read_procs(g, view, s);
	if (!code && view->paths)
		code = stats_read_paths(g, view, s, raw);
	if (!code)
		code = stats_read_rows(g, view, s, &raw->rows);
	if (code)
		return code;
	noise_make(g, s);
	stats_read_gpus(g, s);
	stats_read_sleeps(g, view, s);
	return 0;
}

int stats_collect(const struct group *g, const struct stats_view *view,
	struct stats **ret_stats, struct stats_raw *ret_raw, struct err *err)
{
	_cleanup_stats_ struct stats *s = xcalloc(1, sizeof(*s));
	__cleanup(stats_raw_done) struct stats_raw raw = {};
	int code;

	s->funcs = xcalloc(g->meta.fn_cnt, sizeof(*s->funcs));
	s->cgroups = cgroups_new("/proc");
	s->group = g;
	s->func_cnt = g->meta.fn_cnt;
	s->read_ns = clock_ns(CLOCK_REALTIME);
	s->read_mono_ns = clock_ns(CLOCK_MONOTONIC);
	code = raw_read(g, view, s, &raw);
	if (!code)
		code = funcs_make(g, view, &raw, s);
	if (!code)
		look_for_dead(g, s);
	if (!code)
		code = stats_read_memory(g, view, s, &raw);
	if (!code && !view->counts)
		code = details_read(g, view, s, &raw);
	if (code)
		return err_sys(err, code, "cannot read statistics of group '%s'", g->name);
	health_make(view, s);
	*ret_stats = TAKE_PTR(s);
	if (ret_raw) {
		*ret_raw = raw;
		memset(&raw, 0, sizeof(raw));
	}
	return 0;
}

/* Returns -EAGAIN if a reset or an eviction of exited processes (detail.c) came in between. */
static int read_once(const struct group *g, const struct stats_view *how, struct stats **ret_stats,
	struct err *err)
{
	_cleanup_stats_ struct stats *s = NULL;
	struct stats_view view = *how;
	struct fsn_ctl after;
	int code;

	code = group_ctl(g, &view.ctl, err);
	if (code)
		return code;
	view.first = FSN_BASE_EPOCH(view.ctl.base);
	view.last = view.ctl.epoch;
	code = stats_collect(g, &view, &s, NULL, err);
	if (!code)
		code = group_ctl(g, &after, err);
	if (code)
		return code;
	if (after.base != view.ctl.base || after.epoch != view.ctl.epoch ||
		after.fold != view.ctl.fold)
		return err_set(err, -EAGAIN, "group '%s' is being changed", g->name);
	*ret_stats = TAKE_PTR(s);
	return 0;
}

/* Retries between resets, for a reader without permission to take the lock. */
static int read_between(const struct group *g, const struct stats_view *how, struct stats **ret_stats,
	struct err *err)
{
	const uint64_t end = clock_ns(CLOCK_MONOTONIC) + BETWEEN_NS;
	int code;

	do
		code = read_once(g, how, ret_stats, err);
	while (code == -EAGAIN && clock_ns(CLOCK_MONOTONIC) < end);
	return code;
}

static int read_stats(struct bpffs *fs, const struct group *g, const struct stats_view *how,
	struct stats **ret_stats, struct err *err)
{
	bool was_locked = fs->locked;
	int code = -EAGAIN;

	for (int i = 0; code == -EAGAIN && i < TRIES_WITHOUT_LOCK; i++)
		code = read_once(g, how, ret_stats, err);
	if (code != -EAGAIN)
		return code;
	code = bpffs_lock_shared(fs, err);
	if (code == -EACCES || code == -EPERM)
		return read_between(g, how, ret_stats, err);
	if (!code)
		code = read_once(g, how, ret_stats, err);
	if (!was_locked)
		bpffs_unlock(fs);
	return code;
}

int stats_read(struct bpffs *fs, const struct group *g, bool paths, bool lines,
	struct stats **ret_stats, struct err *err)
{
	const struct stats_view how = { .paths = paths, .lines = lines };

	return read_stats(fs, g, &how, ret_stats, err);
}

int stats_read_counts(
	struct bpffs *fs, const struct group *g, struct stats **ret_stats, struct err *err)
{
	const struct stats_view how = { .counts = true };

	return read_stats(fs, g, &how, ret_stats, err);
}

int stats_read_old(struct bpffs *fs, const struct group *g, uint64_t older_ns, bool lines,
	struct stats **ret_stats, struct err *err)
{
	const struct stats_view how = { .older_ns = older_ns, .lines = lines };

	return read_stats(fs, g, &how, ret_stats, err);
}

void stats_free(struct stats *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->func_cnt; i++) {
		for (size_t c = 0; c < s->funcs[i].code_cnt; c++)
			free(s->funcs[i].codes[c].name);
		free(s->funcs[i].bucket);
		free(s->funcs[i].codes);
		free(s->funcs[i].procs);
		free(s->funcs[i].rows);
		free(s->funcs[i].sleeps);
	}
	spreads_forget(s);
	free(s->funcs);
	free(s->paths);
	free(s->gpus);
	free(s->holders);
	free(s->stacks);
	cgroups_free(s->cgroups);
	callers_done(s);
	free(s);
}

/* Reads the counts of each function since the last reset. The caller frees *@ret_counts. */
static int counts_read(const struct group *g, struct fsn_counts **ret_counts, struct err *err)
{
	_cleanup_free_ struct fsn_counts *counts = xcalloc(g->meta.fn_cnt, sizeof(*counts));
	_cleanup_free_ struct fsn_base *base = xcalloc(g->meta.fn_cnt, sizeof(*base));
	__cleanup(counters_done) struct counters c = {};
	struct fsn_ctl ctl;
	int code;

	code = group_ctl(g, &ctl, err);
	if (code)
		return code;
	code = map_read_sparse(base_fd(g, FSN_BASE_INDEX(ctl.base)), g->meta.fn_cnt,
		sizeof(*base), base);
	if (!code)
		code = counters_read(g, &c);
	if (code)
		return err_sys(err, code, "cannot read statistics of group '%s'", g->name);
	for (size_t i = 0; i < c.cnt; i++)
		counts_add(&counts[i % g->meta.fn_cnt], &c.stat[i].n);
	for (uint32_t i = 0; i < g->meta.fn_cnt; i++)
		counts_since(&counts[i], &base[i].n);
	*ret_counts = TAKE_PTR(counts);
	return 0;
}

bool stats_is_shed(const struct group *g, uint32_t fn, const struct fsn_counts *n)
{
	return n->sampled_out && g->meta.sample <= 1 && g->funcs[fn].limit == LIMIT_NONE;
}

int stats_calls(const struct group *g, uint64_t *ret_calls, size_t *ret_shed, struct err *err)
{
	_cleanup_free_ struct fsn_counts *counts = NULL;
	int code = counts_read(g, &counts, err);

	if (code)
		return code;
	memset(ret_calls, 0, FSN_EXIT_CNT * sizeof(*ret_calls));
	*ret_shed = 0;
	for (uint32_t i = 0; i < g->meta.fn_cnt; i++) {
		if (g->funcs[i].limit == LIMIT_LEFT_OUT) /* its probes were removed */
			continue;
		ret_calls[g->funcs[i].exit % FSN_EXIT_CNT] += counts[i].calls;
		*ret_shed += stats_is_shed(g, i, &counts[i]);
	}
	return 0;
}

/*
 * Estimates the probe overhead of a group since the last reset, from probe hits and calibrated
 * costs. Returns false if the costs were not known at the attach.
 */
static bool stats_cost(const struct group *g, uint64_t *ret_ns)
{
	const struct price price = group_info(g).price;
	_cleanup_free_ struct fsn_counts *counts = NULL;
	uint64_t ns = 0;

	if (!price.at_ns || counts_read(g, &counts, NULL))
		return false;
	for (uint32_t i = 0; i < g->meta.fn_cnt; i++) {
		struct group_func func = group_func(g, i);

		if (!is_priced(&price, &func))
			return false;
		ns += cost_of_hits(&price, func.site, func.end, &counts[i]);
	}
	*ret_ns = ns;
	return true;
}

/* --- overhead ------------------------------------------------------------------------------- */

static bool accounting_is_on(void)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/sys/kernel/bpf_stats_enabled", "re");

	return f && fgetc(f) == '1';
}

static bool read_accounted(const struct group *group, uint64_t *ns)
{
	__cleanup(progs_done) struct progs progs = {};
	struct bpf_prog_info info;

	find_progs(&progs, group_dir_fd(group));
	for (size_t i = 0; i < progs.cnt; i++)
		if (prog_info(progs.id[i], &info))
			*ns += info.run_time_ns;
		else
			return false;
	return progs.cnt;
}

/* Returns the cost of an exit probe. */
static uint64_t end_ns(const uint32_t *whole_ns, enum price_end end)
{
	return whole_ns[end] > whole_ns[PRICE_COUNT] ? whole_ns[end] - whole_ns[PRICE_COUNT] : 0;
}

/*
 * Counts hits of exit probes, without returns that another function's probe has observed. While links
 * are replaced, a return counts as unseen (end_disturbed(), bpf/call.bpf.h).
 */
static uint64_t end_hits(const struct fsn_counts *n)
{
	uint64_t ends = n->returns + n->unmatched + n->strays + n->unseen;

	return ends - (n->led < ends ? n->led : ends);
}

/* Extrapolates the run time of @hits from @runs of them, which took @ns. */
static double run_time(uint64_t hits, uint64_t runs, uint64_t ns)
{
	return runs ? (double)ns / runs * hits : 0;
}

/* Returns by how much the run time of the BPF programs exceeds the calibration; may be negative. */
static int64_t more_than_calibrated(const uint32_t *run_ns, enum price_end end,
	const struct fsn_counts *n)
{
	uint64_t entries = n->calls + n->aside, ends = end == PRICE_COUNT ? 0 : end_hits(n);
	double ran = run_time(entries, n->entry_runs, n->entry_ns) +
		run_time(ends, n->end_runs, n->end_ns);

	if (!run_ns[PRICE_COUNT] || !n->entry_runs || (ends && !n->end_runs))
		return 0;
	ran -= (double)entries * run_ns[PRICE_COUNT];
	if (end == PRICE_RETURN || end == PRICE_EARLY)
		ran -= ends * calibrated_end(run_ns, end);
	else
		ran -= ends * calibrated_end(run_ns, PRICE_RET);
	if (end != PRICE_COUNT && end != PRICE_RETURN)
		ran -= n->jumped * calibrated_end(run_ns, PRICE_JUMP);
	return ran;
}

static uint64_t cost_of_calibrated(const struct price *price, enum price_site site,
	enum price_end end, const struct fsn_counts *n)
{
	const uint32_t *whole_ns = price->whole_ns[site];
	uint64_t ends = end_hits(n), ns = (n->calls + n->aside) * whole_ns[PRICE_COUNT];

	if (end == PRICE_COUNT)
		return ns;
	ns += n->passed * price->whole_ns[PRICE_EMULATED][PRICE_COUNT] +
		n->stepped * step_ns(price);
	if (end == PRICE_RETURN)
		return ns + ends * end_ns(whole_ns, PRICE_RETURN);
	return ns + n->jumped * end_ns(whole_ns, PRICE_JUMP) +
		ends * end_ns(whole_ns, end == PRICE_EARLY ? end : PRICE_RET);
}

uint64_t cost_of_hits(const struct price *price, enum price_site site, enum price_end end,
	const struct fsn_counts *n)
{
	int64_t ns = cost_of_calibrated(price, site, end, n) + n->walks_ns +
		more_than_calibrated(price->run_ns[site], end, n);

	return ns > 0 ? ns : 0;
}

/* Sets COST_UNKNOWN if neither source can be read. */
static void read_one(struct group *group, bool accounting, struct cost_reading *ret_reading)
{
	struct cost_reading reading = {};
	uint64_t since_ns;

	if (accounting && read_accounted(group, &reading.ns))
		reading.source = COST_ACCOUNTED;
	else if (reading.ns = 0, stats_cost(group, &reading.ns))
		reading.source = COST_CALIBRATED;
	reading.at_ns = clock_ns(CLOCK_MONOTONIC);
	if (reading.source == COST_CALIBRATED && !group_since(group, &since_ns, NULL))
		reading.elapsed_ns = clock_ns(CLOCK_REALTIME) - since_ns;
	if (group->lean)
		group_close_maps(group);
	*ret_reading = reading;
}

void cost_read(struct group *const *groups, size_t cnt, enum cost_span span,
	struct cost_reading *ret_readings)
{
	bool accounting = span == COST_INTERVAL && accounting_is_on();

	memset(ret_readings, 0, cnt * sizeof(*ret_readings));
	for (size_t i = 0; i < cnt; i++)
		if (groups[i])
			read_one(groups[i], accounting, &ret_readings[i]);
}

static struct cost cost_in(enum cost_source source, uint64_t spent_ns, uint64_t ns)
{
	struct cost cost = { .source = source };

	if (source == COST_UNKNOWN || !ns)
		return (struct cost) {};
	cost.ns_per_s = (__uint128_t)spent_ns * 1000000000 / ns;
	return cost;
}

struct cost cost_between(
	const struct cost_reading *before, const struct cost_reading *after)
{
	uint64_t ns = after->at_ns - before->at_ns;

	/* A reset in between has set the calls to 0. */
	if (before->source != after->source || after->ns < before->ns)
		return (struct cost) {};
	return cost_in(after->source, after->ns - before->ns, ns);
}

struct cost cost_since_reset(const struct cost_reading *reading)
{
	/* The system clock may have been set back. */
	if ((int64_t)reading->elapsed_ns <= 0)
		return (struct cost) {};
	return cost_in(reading->source, reading->ns, reading->elapsed_ns);
}

const char *cost_source_name(enum cost_source source)
{
	static const char *const names[] = {
		[COST_ACCOUNTED] = "kernel",
		[COST_CALIBRATED] = "calibration",
	};

	return names[source];
}
