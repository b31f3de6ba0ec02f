// SPDX-License-Identifier: BSD-2-Clause
// Functions whose probes would take more than is granted: counted before they are attached.
#include <sys/resource.h>

#include "attach/attach.h"
#include "base/apart.h"
#include "base/util.h"
#include "group/records.h"
#include "internal.h"
#include "proc/proc.h"
#include "target/kind.h"

/*
 * Which functions to sample, only count or leave out, so that their probes stay within the bound.
 * Pure.
 */

#define S_NS       1000000000ULL
#define BLURRED_PART 16 /* keep 1/16 of the cost if probes slowed the program down much */
#define ENTRY_PART 16 /* the returns of sampled calls cost at most 1/16 of the entries */
#define SPARSE     20 /* a slowed program is assumed to use at least 1/20 of its CPU time itself */
#define IDLE       10 /* a program that uses less than 1/10 of a CPU counts as using 1/10 */

static uint64_t granted_ns(uint32_t share)
{
	return share * (S_NS / FSN_SHARE_ALL);
}

static uint64_t call_ns(const struct budget_func *f)
{
	uint32_t ends_ns = f->whole_ns > f->entry_ns ? f->whole_ns - f->entry_ns : 0;

	switch (f->limit) {
	case LIMIT_NONE:
		return f->entry_ns + ends_ns;
	case LIMIT_SAMPLED:
		return f->entry_ns + (f->sample ? ends_ns / f->sample : 0);
	case LIMIT_COUNTED:
		return f->entry_ns;
	default:
		return 0;
	}
}

static uint64_t per_second(uint64_t n, uint64_t own_ns)
{
	return own_ns ? (__uint128_t)n * S_NS / own_ns : n ? UINT64_MAX : 0;
}

static uint64_t cost_ns(const struct budget_func *f)
{
	return per_second(f->calls * call_ns(f), f->own_ns);
}

uint64_t budget_whole(const struct budget_func *f)
{
	return per_second(f->calls * f->whole_ns, f->own_ns);
}

uint64_t budget_cost(const struct budget_func *funcs, size_t cnt)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < cnt; i++) {
		uint64_t ns = funcs[i].exact ? 0 : cost_ns(&funcs[i]);

		sum = sum + ns < sum ? UINT64_MAX : sum + ns;
	}
	return sum;
}

static uint64_t entries_ns(const struct budget_func *f)
{
	return f->limit == LIMIT_LEFT_OUT ? 0 : per_second(f->calls * f->entry_ns, f->own_ns);
}

void budget_own(struct budget_span *span)
{
	uint64_t own = span->used_ns > span->cost_ns ? span->used_ns - span->cost_ns : 0;

	if (own < span->used_ns / SPARSE)
		own = span->used_ns / SPARSE;
	if (own + span->cost_ns < span->wall_ns / IDLE)
		own = span->wall_ns / IDLE - span->cost_ns;
	span->own_ns = own ? own : 1;
}

bool budget_is_over(const struct budget_span *span, uint32_t share)
{
	return (__uint128_t)span->cost_ns * FSN_SHARE_ALL > (__uint128_t)span->own_ns * share;
}

uint64_t budget_blurred_own(const struct budget_span *span, uint32_t share)
{
	uint64_t least = (__uint128_t)span->cost_ns * FSN_SHARE_ALL / share / BLURRED_PART,
		 idle = span->wall_ns / IDLE;

	if (least < idle)
		least = idle;
	return span->own_ns > least ? span->own_ns : least;
}

static struct budget_func *dearest_entries(struct budget_func *funcs, size_t cnt)
{
	struct budget_func *dearest = NULL;

	for (size_t i = 0; i < cnt; i++)
		if (!funcs[i].exact && entries_ns(&funcs[i]) &&
			(!dearest || entries_ns(&funcs[i]) > entries_ns(dearest)))
			dearest = &funcs[i];
	return dearest;
}

size_t budget_leave_out(struct budget_func *funcs, size_t cnt, uint32_t share)
{
	struct budget_func *dearest;
	__uint128_t ns = 0;
	size_t out = 0;

	for (size_t i = 0; i < cnt; i++)
		ns += funcs[i].exact ? 0 : entries_ns(&funcs[i]);
	for (; ns > granted_ns(share) && (dearest = dearest_entries(funcs, cnt)); out++) {
		ns -= entries_ns(dearest);
		dearest->limit = LIMIT_LEFT_OUT;
	}
	return out;
}

/* Limits @f by one step. False if it can only be left out. */
static bool lower(struct budget_func *f)
{
	uint32_t ends_ns = f->whole_ns > f->entry_ns ? f->whole_ns - f->entry_ns : 0;

	if (f->limit == LIMIT_NONE && f->can_sample && ends_ns) {
		f->sample = ENTRY_PART;
		while (f->sample < (uint64_t)ENTRY_PART * ends_ns / f->entry_ns)
			f->sample *= 2;
		f->limit = LIMIT_SAMPLED;
	} else if (f->limit < LIMIT_COUNTED && ends_ns) {
		f->limit = LIMIT_COUNTED;
	} else {
		return false;
	}
	return true;
}

static bool can_lower(const struct budget_func *f)
{
	return !f->exact && f->calls && f->limit < LIMIT_COUNTED && f->whole_ns > f->entry_ns;
}

void budget_fit(struct budget_func *funcs, size_t cnt, uint32_t share)
{
	while (budget_cost(funcs, cnt) > granted_ns(share)) {
		struct budget_func *dearest = NULL;

		for (size_t i = 0; i < cnt; i++)
			if (can_lower(&funcs[i]) &&
				(!dearest || cost_ns(&funcs[i]) > cost_ns(dearest)))
				dearest = &funcs[i];
		if (!dearest || !lower(dearest))
			break;
	}
	budget_leave_out(funcs, cnt, share);
}

/* --- counting the calls of functions in batches: internal.h -------------------------------- */

#define MS_NS     1000000ULL
#define LOOK_NS   (2 * MS_NS)
#define WATCH_NS  (25 * MS_NS) /* of a batch that stays within the bound, .. */
#define WATCH_MAX (4 * WATCH_NS) /* .. unless the program has used less than half of it */
#define SURE_NS   (4 * MS_NS)  /* of one that does not, at least, unless .. */
#define HARM_NS   (12 * MS_NS) /* .. it costs this much on each CPU that the program uses */
#define PAUSE     5            /* times the cost of a batch, from its begin to the next one */
#define BATCH_MIN 16 /* functions */
#define BATCH_MAX 512 /* with 128, the trial of 3,000 functions takes half as long again */
#define BATCH_IDLE 2048 /* while the program sleeps */
#define PATIENCE  64 /* batches that are counted again, until all they call is left out */

/* In memory that the process which counts shares. */
struct stage {
	struct draft draft;  /* its targets are those that are counted */
	struct attach_opts opts;
	struct bpffs *fs;
	struct load load;
	struct err err;
	/* Used by the counting process: */
	struct engine *e;
	struct map_mapping stats;
	uint32_t rows;
	const struct probes *probes;
	bool by_pid;
	uint32_t *queue; /* numbers of functions that are to be counted */
	size_t queue_cnt;
	uint64_t *before; /* calls at the begin of a batch, by place in it */
	size_t again_cnt; /* batches that were counted once more */
	struct budget_func funcs[]; /* by the numbers of .draft */
};

/* Links of a batch. */
struct batch {
	const uint32_t *fn;
	size_t cnt;
	int *fd;
	size_t fd_cnt;
	uint64_t start_ns, load_ns, cost_ns; /* when it began; CPU time then; what it cost */
	bool idle; /* the program slept meanwhile */
};

static uint64_t calls_of(const struct stage *s, uint32_t fn)
{
	const struct fsn_stat *stat = s->stats.addr;
	uint64_t calls = 0;

	for (uint32_t i = fn; i < s->rows; i += s->draft.probed_cnt)
		calls += __atomic_load_n(&stat[i].n.calls, __ATOMIC_RELAXED);
	return calls;
}

/* --- links ----------------------------------------------------------------------------------- */

/* Those of @list that are of @b's functions. */
static void list_batch(const struct stage *s, const struct probe_list *list, const struct batch *b,
	struct link_probes *ret_probes)
{
	bool *wanted = xcalloc(s->draft.probed_cnt, sizeof(*wanted));
	unsigned long *offsets = xcalloc(b->cnt, sizeof(*offsets));
	uint64_t *cookies = xcalloc(b->cnt, sizeof(*cookies));
	size_t cnt = 0;

	*ret_probes = (struct link_probes) { .file_fd = list->probes.file_fd,
		.offsets = offsets, .cookies = cookies, .object = list->probes.object };
	for (size_t i = 0; i < b->cnt; i++)
		wanted[b->fn[i]] = true;
	for (size_t i = 0; i < list->probes.cnt; i++)
		if (wanted[list->cookies[i] & FSN_FN_MASK]) {
			offsets[cnt] = list->offsets[i];
			cookies[cnt++] = list->cookies[i];
		}
	ret_probes->cnt = cnt;
	free(wanted);
}

static void batch_unlink(struct batch *b)
{
	while (b->fd_cnt)
		link_close(b->fd[--b->fd_cnt], LINK_CLOSE_NS);
	free(b->fd);
	b->fd = NULL;
}

static int link_list(struct stage *s, const struct probe_list *list, struct batch *b,
	struct err *err)
{
	size_t pid_cnt = s->by_pid ? s->opts.filter.pid_cnt : 1;
	struct link_probes probes;
	int code = 0;

	list_batch(s, list, b, &probes);
	for (size_t i = 0; !code && probes.cnt && i < pid_cnt; i++) {
		pid_t pid = s->by_pid ? s->opts.filter.pids[i] : 0;

		b->fd = array_grow(b->fd, b->fd_cnt, sizeof(*b->fd));
		code = engine_link(s->e, list->prog, &probes, pid, &b->fd[b->fd_cnt], err);
		if (!code)
			b->fd_cnt++;
		else if (code == -ESRCH && s->by_pid)
			err_set(err, code, "there is no process %d", pid);
	}
	free((void *)probes.offsets);
	free((void *)probes.cookies);
	return code;
}

static int batch_link(struct stage *s, struct batch *b, struct err *err)
{
	int code = 0;

	for (size_t i = 0; !code && i < s->probes->list_cnt; i++)
		if (s->probes->lists[i].probes.cnt)
			code = link_list(s, &s->probes->lists[i], b, err);
	if (code)
		batch_unlink(b);
	/* Not earlier: linking can take longer than counting. */
	for (size_t i = 0; i < b->cnt; i++)
		s->before[i] = calls_of(s, b->fn[i]);
	b->load_ns = load_ns(&s->load);
	b->start_ns = clock_ns(CLOCK_MONOTONIC);
	return code;
}

/* --- watching a batch ------------------------------------------------------------------------ */

static struct budget_span batch_seen(struct stage *s, const struct batch *b)
{
	struct budget_span seen = {};

	for (size_t i = 0; i < b->cnt; i++)
		seen.cost_ns += (calls_of(s, b->fn[i]) - s->before[i]) *
			s->funcs[b->fn[i]].entry_ns;
	seen.used_ns = load_ns(&s->load) - b->load_ns;
	seen.wall_ns = clock_ns(CLOCK_MONOTONIC) - b->start_ns;
	budget_own(&seen);
	return seen;
}

/* The program is slowed down so much that what it calls rarely is hardly seen. */
static bool is_blurred(const struct budget_span *seen)
{
	return seen->cost_ns > seen->own_ns / 2;
}

static bool is_harm(const struct budget_span *seen)
{
	uint64_t most = HARM_NS;

	if (seen->used_ns > seen->wall_ns && seen->wall_ns)
		most = most * seen->used_ns / seen->wall_ns;
	return seen->cost_ns >= most;
}

/* A program that is only kept from running will run if it is watched for longer. */
static bool is_idle(const struct stage *s, const struct budget_span *seen)
{
	return seen->wall_ns >= WATCH_NS && seen->used_ns < WATCH_NS / 50 && load_sleeps(&s->load);
}

static int batch_watch(struct stage *s, struct batch *b, struct budget_span *ret_seen)
{
	do {
		sleep_ns(LOOK_NS);
		if (apart_stop())
			return -EINTR;
		*ret_seen = batch_seen(s, b);
		if (is_harm(ret_seen) ||
			(ret_seen->wall_ns >= SURE_NS && budget_is_over(ret_seen, s->opts.budget.share) &&
				is_blurred(ret_seen)))
			break;
		b->idle = is_idle(s, ret_seen);
	} while (ret_seen->wall_ns < WATCH_NS || (!b->idle &&
		ret_seen->used_ns < WATCH_NS / 2 && ret_seen->wall_ns < WATCH_MAX));
	return 0;
}

/* Until the batch has cost little of the CPU time used since it began. */
static void pause_after(struct stage *s, const struct batch *b)
{
	struct budget_span seen = batch_seen(s, b);
	uint64_t used = seen.used_ns > seen.wall_ns / IDLE ? seen.used_ns : seen.wall_ns / IDLE + 1;
	uint64_t pause = (__uint128_t)seen.cost_ns * PAUSE * seen.wall_ns / used;

	if (pause > seen.wall_ns)
		sleep_ns(pause - seen.wall_ns);
}

/* --- what follows from it ---------------------------------------------------------------------- */

static void count_batch(struct stage *s, const struct batch *b, const struct budget_span *seen)
{
	/* An idle program's own time is less than it counts as. */
	uint64_t time = seen->own_ns < seen->used_ns ? seen->own_ns : seen->wall_ns;
	uint64_t rate = seen->own_ns < seen->used_ns && seen->wall_ns
		? seen->used_ns * 1000 / seen->wall_ns : 1000;

	for (size_t i = 0; i < b->cnt; i++) {
		struct budget_func *f = &s->funcs[b->fn[i]];

		f->calls = calls_of(s, b->fn[i]) - s->before[i];
		f->own_ns = seen->own_ns;
		f->calls_per_s = time ? (__uint128_t)f->calls * S_NS / time * rate / 1000 : 0;
	}
}

/* Leaves the expensive ones out; with @again the others are counted once more. */
static void batch_over(struct stage *s, const struct batch *b, const struct budget_span *seen, bool again)
{
	struct budget_func *funcs = xcalloc(b->cnt, sizeof(*funcs));
	uint32_t share = s->opts.budget.share;

	for (size_t i = 0; i < b->cnt; i++)
		funcs[i] = s->funcs[b->fn[i]];
	for (size_t i = 0; again && i < b->cnt && s->again_cnt < PATIENCE; i++)
		funcs[i].own_ns = budget_blurred_own(seen, share);
	if (again && s->again_cnt++ >= PATIENCE)
		share /= 64;
	budget_leave_out(funcs, b->cnt, share);
	for (size_t i = 0; i < b->cnt; i++) {
		struct budget_func *f = &s->funcs[b->fn[i]];

		if (funcs[i].limit == LIMIT_LEFT_OUT)
			f->limit = LIMIT_LEFT_OUT;
		else if (again)
			s->queue[s->queue_cnt++] = b->fn[i];
	}
	free(funcs);
}

/* One batch; *@size is what the next one is to have. */
static int count_next(struct stage *s, size_t *size, struct err *err)
{
	_cleanup_free_ uint32_t *fn = xcalloc(*size, sizeof(*fn));
	struct batch b = { .fn = fn };
	struct budget_span seen = {};
	int code;

	while (s->queue_cnt && b.cnt < *size)
		fn[b.cnt++] = s->queue[--s->queue_cnt];
	code = batch_link(s, &b, err);
	if (code)
		return code;
	if (batch_watch(s, &b, &seen))
		code = err_sys(err, -EINTR, "cannot count entries");
	if (code) {
		batch_unlink(&b);
		return code;
	}
	count_batch(s, &b, &seen);
	if (budget_is_over(&seen, s->opts.budget.share))
		batch_over(s, &b, &seen, is_blurred(&seen));
	if (*size > BATCH_MAX)
		*size = BATCH_MAX;
	if (is_blurred(&seen))
		*size = *size > 2 * BATCH_MIN ? *size / 2 : BATCH_MIN;
	else if (b.idle)
		*size = BATCH_IDLE;
	else if (*size < BATCH_MAX)
		*size *= 2;
	batch_unlink(&b);
	pause_after(s, &b);
	return 0;
}

static int count_all(
	struct engine *e, const struct probes *probes, bool by_pid, void *arg, struct err *err)
{
	int fd = engine_map_fd(e, MAPID_STATS), code;
	size_t size = 2 * BATCH_MIN;
	struct stage *s = arg;

	s->e = e;
	s->probes = probes;
	s->by_pid = by_pid;
	s->rows = e->stat_shards * s->draft.probed_cnt;
	code = map_mmap(fd, s->rows * sizeof(struct fsn_stat), &s->stats);
	if (code)
		return err_sys(err, code, "cannot count entries");
	engine_arm(e, 0, 0, false);
	while (!code && s->queue_cnt)
		code = count_next(s, &size, err);
	map_munmap(&s->stats);
	return code;
}

static void count_apart(void *arg)
{
	struct stage *s = arg;
	struct err err = {};

	/* Probes over the bound are removed at once, also when all CPUs are busy. */
	setpriority(PRIO_PROCESS, 0, -20);
	s->queue = xcalloc(s->draft.probed_cnt + 1, sizeof(*s->queue));
	s->before = xcalloc(BATCH_IDLE, sizeof(*s->before));
	for (size_t i = 0; i < s->draft.probed_cnt; i++)
		s->queue[s->queue_cnt++] = s->draft.probed_cnt - 1 - i;
	attach_bare(&s->draft, &s->opts, s->fs, count_all, s, &err);
	free(s->queue);
	free(s->before);
	s->err = err;
	bpffs_leave(s->fs);
}

/* --- what is counted --------------------------------------------------------------------------- */

/* Everybody's entries that will pay, whether or not their calls are to count. */
static struct attach_opts opts_of(const struct draft *draft, const struct attach_opts *opts,
	enum link_mode mode)
{
	struct attach_opts all = { .link = mode, .access = ACCESS_PRIVATE, .budget = opts->budget };

	if (attach_links_by_pid(draft, opts, mode)) {
		all.filter.pids = opts->filter.pids;
		all.filter.pid_cnt = opts->filter.pid_cnt;
	}
	return all;
}

static int compare_prices(const void *a, const void *b, void *arg)
{
	const uint32_t *x = a, *y = b;
	const struct budget_func *funcs = arg;

	if (funcs[*x].entry_ns != funcs[*y].entry_ns)
		return funcs[*x].entry_ns > funcs[*y].entry_ns ? 1 : -1;
	return (*x > *y) - (*x < *y);
}

/* Numbers of @draft's functions that are to be counted, the cheapest first. */
static size_t order(const struct draft *draft, const struct budget_func *funcs, uint32_t *of)
{
	size_t cnt = 0;

	for (size_t i = 0; i < draft->probed_cnt; i++)
		if (!funcs[i].exact && draft->targets[i].kind->in_files && !draft->targets[i].kind->is_event)
			of[cnt++] = i;
	qsort_r(of, cnt, sizeof(*of), compare_prices, (void *)funcs);
	return cnt;
}

int stage_load(const struct draft *draft, const struct attach_opts *opts, struct load *ret_load,
	struct err *err)
{
	_cleanup_free_ pid_t *pids = NULL;
	size_t cnt = 0;
	int code = 0;

	if (opts->filter.pid_cnt && !opts->children)
		load_new(opts->filter.pids, opts->filter.pid_cnt, ret_load);
	else {
		if (draft_has_files(draft))
			code = draft_pids(draft, &pids, &cnt, err);
		if (!code)
			load_new(pids, cnt, ret_load);
	}
	return code ? err_sys(err, code, "cannot look at processes") : 0;
}

/*
 * Counts the calls of functions of @draft in batches, none of which may cost the program much:
 *
 * - Functions whose entry is emulated come before those that are single-stepped.
 * - Batches begin small. A batch that stays within the bound makes the next one twice as large,
 *   or as large as any if the program sleeps.
 *   One that does not is detached at once: its expensive functions are left out, the others are
 *   counted again, and the next batch has half the size.
 * - After a batch nothing is probed until it has cost at most a fifth of the CPU time that the
 *   program has used since it began.
 *
 * So a function that is called rarely is never measured next to one that stops the program.
 * @funcs, of @draft's probed targets, have prices and .exact (then they are not counted);
 * afterwards calls, own times and limits. Runs apart, as attaching does; a command that is
 * killed leaves nothing. Needs the lock of @fs, and links of @mode that take many probes.
 */
static int stage_count(const struct draft *draft, const struct attach_opts *opts, struct bpffs *fs,
	enum link_mode mode, struct budget_func *funcs, struct err *err)
{
	size_t size = sizeof(struct stage) + (draft->probed_cnt + 1) * sizeof(*funcs), cnt;
	_cleanup_free_ struct target *targets = xcalloc(draft->probed_cnt + 1, sizeof(*targets));
	_cleanup_free_ uint32_t *of = xcalloc(draft->probed_cnt + 1, sizeof(*of));
	struct stage *s = apart_alloc(size);
	int code;

	cnt = order(draft, funcs, of);
	for (size_t i = 0; i < cnt; i++) {
		targets[i] = draft->targets[of[i]];
		s->funcs[i] = funcs[of[i]];
	}
	s->draft = *draft;
	s->draft.targets = targets;
	s->draft.target_cnt = s->draft.probed_cnt = cnt;
	s->draft.timed_cnt = s->draft.place_cnt = 0;
	s->draft.entries_alone = true;
	s->opts = opts_of(draft, opts, mode);
	s->fs = fs;
	code = cnt ? stage_load(draft, opts, &s->load, err) : 0;
	/* Without a process that maps a file there are no calls to count yet. */
	if (!code && s->load.cnt) {
		err_sys(&s->err, -EINTR, "cannot count entries"); /* until it is known better */
		apart_run(count_apart, s, opts->tick, opts->tick_arg);
		code = s->err.code;
		if (code) {
			*err = s->err;
			/* A child that was killed has left its links and maps. */
			bpffs_remove_dead(fs, draft->name);
		}
	}
	for (size_t i = 0; i < cnt; i++)
		funcs[of[i]] = s->funcs[i];
	load_done(&s->load);
	apart_free(s, size);
	return code;
}

/* --- keeping what a group costs within its bound, before it is attached -------------------- */

/* A function that the user has named is kept at any cost; one that a preset names is not. */
bool budget_is_exact(const struct draft *draft, const struct target *t)
{
	return !t->kind->in_files || t->kind->is_event || (!draft->from_preset && !t->from_pattern);
}

bool bound_can_limit(const struct draft *draft)
{
	return ANY_WHERE(draft->probed_cnt, i, !budget_is_exact(draft, &draft->targets[i]));
}

static void list_funcs(const struct draft *draft, const struct attach_opts *opts,
	const struct price *price, bool sessions, struct budget_func *funcs)
{
	for (size_t i = 0; i < draft->probed_cnt; i++) {
		const struct target *t = &draft->targets[i];
		struct group_func shown = target_shown(t);

		funcs[i] = (struct budget_func) {
			.whole_ns = price->whole_ns[shown.site][shown.end],
			.entry_ns = price->whole_ns[shown.site][PRICE_COUNT],
			/*
			 * With other links the return of each call costs as much. The calls inside
			 * a call that is not timed would count as its caller's.
			 */
			.can_sample = shown.end == PRICE_RETURN && sessions && !opts->nesting &&
				opts->sample <= 1,
			.exact = budget_is_exact(draft, t),
		};
		if (!funcs[i].entry_ns)
			funcs[i].entry_ns = 1;
	}
}

static int cut_draft(struct draft *draft, const struct draft_opts *how,
	const struct budget_func *funcs, struct err *err)
{
	size_t limited = 0;

	for (size_t i = 0; i < draft->probed_cnt; i++) {
		struct target *t = &draft->targets[i];

		t->limit = funcs[i].limit;
		t->sample = funcs[i].sample;
		t->calls_per_s = funcs[i].calls_per_s;
		t->cost_ns = budget_whole(&funcs[i]);
		limited += t->limit != LIMIT_NONE;
	}
	return limited ? draft_limit(draft, how, err) : 0;
}

bool budget_tries(const struct draft *draft, const struct attach_opts *opts)
{
	return opts->budget.share && opts->budget.trims && !opts->unborn && bound_can_limit(draft);
}

int budget_try(struct draft *draft, const struct draft_opts *how, struct attach_opts *opts,
	struct bpffs *fs, struct err *err)
{
	_cleanup_free_ struct budget_func *funcs = NULL;
	uint64_t start = clock_ns(CLOCK_MONOTONIC);
	struct attach_opts chosen = *opts;
	struct calibration c = {};
	int code;

	if (!budget_tries(draft, opts))
		return 0;
	code = attach_choose_link(&chosen, err);
	/* Perf events go one at a time, a tenth of a second each. */
	if (code || chosen.link == LINK_PERF)
		return code;
	code = bpffs_lock(fs, err);
	if (!code && !opts->replace)
		code = attach_check_absent(fs, draft->name, err);
	if (!code && !calibration_read(chosen.link, &c))
		code = calibrate(fs, chosen.link, &c, err);
	if (code)
		return code;
	funcs = xcalloc(draft->probed_cnt + 1, sizeof(*funcs));
	list_funcs(draft, opts, &c.price, chosen.link == LINK_SESSION, funcs);
	code = stage_count(draft, opts, fs, chosen.link, funcs, err);
	if (code)
		return code;
	budget_fit(funcs, draft->probed_cnt, opts->budget.share);
	opts->budget.tried_ns = clock_ns(CLOCK_MONOTONIC) - start;
	opts->budget.cost_ns = budget_cost(funcs, draft->probed_cnt);
	return cut_draft(draft, how, funcs, err);
}
