// SPDX-License-Identifier: BSD-2-Clause
// How often functions are called, tried before their calls are timed; and what to give up.
//
// What is counted slows the program down: beside a function that is called without a pause the
// others seem to be called seldom. So a round ends as soon as the entries have taken more than
// was granted, those that take most are left out, and the others are counted again without
// them: in the last round, by which all is decided, little is slowed down.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "attach/attach.h"
#include "base/apart.h"
#include "group/records.h"
#include "internal.h"
#include "target/kind.h"

#define S_NS       1000000000ULL
#define MS_NS      1000000ULL
#define LEAST_NS   (20 * MS_NS) /* of a round */
#define LOOK_NS    (5 * MS_NS)
#define WINDOW_NS  (50 * MS_NS)
#define WINDOWS    5 /* that are to agree */
#define ROUNDS     8
#define ENTRY_PART 16 /* of what entries take are the ends of a sample, at most */

/* --- what to give up ------------------------------------------------------------------------ */

static uint64_t per_second(uint64_t n, uint64_t tried_ns)
{
	return tried_ns ? (__uint128_t)n * S_NS / tried_ns : 0;
}

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

static uint64_t cost_ns(const struct budget_func *f, uint64_t tried_ns)
{
	return per_second(f->calls * call_ns(f), tried_ns);
}

uint64_t budget_cost(const struct budget_func *funcs, size_t cnt, uint64_t tried_ns)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < cnt; i++)
		ns += cost_ns(&funcs[i], tried_ns);
	return ns;
}

static void give_up(struct budget_func *f, enum limit limit, uint64_t tried_ns)
{
	f->limit = limit;
	f->calls_per_s = per_second(f->calls, tried_ns);
}

static uint64_t entries_ns(const struct budget_func *f)
{
	return f->limit == LIMIT_LEFT_OUT ? 0 : f->calls * f->entry_ns;
}

size_t budget_leave_out(
	struct budget_func *funcs, size_t cnt, uint64_t tried_ns, uint32_t share)
{
	uint64_t most = granted_ns(share), ns = 0;
	size_t out = 0;

	for (size_t i = 0; i < cnt; i++)
		ns += entries_ns(&funcs[i]);
	while (per_second(ns, tried_ns) > most) {
		size_t dearest = 0;

		for (size_t i = 1; i < cnt; i++)
			if (entries_ns(&funcs[i]) > entries_ns(&funcs[dearest]))
				dearest = i;
		ns -= entries_ns(&funcs[dearest]);
		give_up(&funcs[dearest], LIMIT_LEFT_OUT, tried_ns);
		out++;
	}
	return out;
}

/* A little less of it; false where nothing is left but to leave it out. */
static bool lower(struct budget_func *f, uint64_t tried_ns)
{
	if (f->limit == LIMIT_NONE && f->can_sample && f->whole_ns > f->entry_ns) {
		for (f->sample = ENTRY_PART;
			f->sample < (uint64_t)ENTRY_PART * (f->whole_ns - f->entry_ns) / f->entry_ns;)
			f->sample *= 2;
		give_up(f, LIMIT_SAMPLED, tried_ns);
	} else if (f->limit < LIMIT_COUNTED && f->whole_ns > f->entry_ns) {
		give_up(f, LIMIT_COUNTED, tried_ns);
	} else {
		return false;
	}
	return true;
}

static bool can_lower(const struct budget_func *f)
{
	return f->calls && f->limit < LIMIT_COUNTED && f->whole_ns > f->entry_ns;
}

void budget_fit(struct budget_func *funcs, size_t cnt, uint64_t tried_ns, uint32_t share)
{
	while (budget_cost(funcs, cnt, tried_ns) > granted_ns(share)) {
		struct budget_func *dearest = NULL;

		for (size_t i = 0; i < cnt; i++)
			if (can_lower(&funcs[i]) &&
				(!dearest || funcs[i].calls * call_ns(&funcs[i]) >
						dearest->calls * call_ns(dearest)))
				dearest = &funcs[i];
		if (!dearest || !lower(dearest, tried_ns))
			break;
	}
	budget_leave_out(funcs, cnt, tried_ns, share);
}

/* --- the trial ------------------------------------------------------------------------------ */

/* One attach of entries alone. In memory that the process which does it shares. */
struct round {
	struct draft draft; /* its targets are those that are not left out */
	struct attach_opts opts;
	struct bpffs *fs;
	const struct budget_func *funcs; /* of the draft that is tried, .. */
	const size_t *of;                /* .. whose numbers those of .draft have there */
	uint64_t most_ns; /* it lasts so long at most */
	uint64_t tried_ns;
	struct err err;
	uint64_t calls[]; /* by the numbers of .draft */
};

static void read_calls(struct round *r, const struct fsn_stat *stat, uint32_t rows)
{
	size_t cnt = r->draft.probed_cnt;

	memset(r->calls, 0, cnt * sizeof(*r->calls));
	for (uint32_t i = 0; i < rows; i++)
		r->calls[i % cnt] += __atomic_load_n(&stat[i].n.calls, __ATOMIC_RELAXED);
}

/* What its calls take that were counted till now, or would take if all of them were timed. */
static uint64_t taken_ns(const struct round *r, bool timed)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < r->draft.probed_cnt; i++) {
		const struct budget_func *f = &r->funcs[r->of[i]];

		ns += r->calls[i] * (timed ? f->whole_ns : f->entry_ns);
	}
	return ns;
}

/* Whether the last windows are so much alike, or so cheap, that it is clear what follows. */
static bool is_clear(const struct round *r, const uint64_t *windows, size_t cnt)
{
	uint64_t least = UINT64_MAX, most = 0;

	if (cnt < WINDOWS)
		return false;
	for (size_t i = cnt - WINDOWS; i < cnt; i++) {
		least = windows[i] < least ? windows[i] : least;
		most = windows[i] > most ? windows[i] : most;
	}
	if (!least)
		return false;
	return most - least <= most / 4 ||
		per_second(most, WINDOW_NS) <= granted_ns(r->opts.budget.share) / 2;
}

/* Whether the entries take more than was granted, a quarter of a second's at least. */
static bool is_over(const struct round *r)
{
	uint64_t taken = taken_ns(r, false), most = granted_ns(r->opts.budget.share);

	return r->tried_ns >= LEAST_NS && taken >= most / 4 &&
		per_second(taken, r->tried_ns) > most;
}

static int watch(int dir_fd, void *arg)
{
	_cleanup_mapping_ struct map_mapping stats = {};
	uint64_t windows[S_NS / WINDOW_NS + 1] = {}, start, before = 0;
	struct round *r = arg;
	size_t cnt = 0;
	uint32_t rows;
	int code = counters_map(dir_fd, &stats, &rows);

	start = clock_ns(CLOCK_MONOTONIC);
	while (!code && r->tried_ns < r->most_ns && !is_over(r) && !is_clear(r, windows, cnt)) {
		sleep_ns(LOOK_NS);
		if (apart_stop())
			return -EINTR;
		r->tried_ns = clock_ns(CLOCK_MONOTONIC) - start;
		read_calls(r, stats.addr, rows);
		if (r->tried_ns < (cnt + 1) * WINDOW_NS || cnt >= ARRAY_SIZE(windows))
			continue;
		windows[cnt++] = taken_ns(r, true) - before;
		before += windows[cnt - 1];
	}
	return code;
}

/* Runs apart, as attaching does. */
static void try_round(void *arg)
{
	struct round *r = arg;
	struct err err = {};

	attach_measure(&r->draft, &r->opts, r->fs, watch, r, &err);
	r->err = err;
	if (apart_orphaned()) /* its lock is nobody else's now */
		bpffs_unlock(r->fs);
}

struct trial {
	struct draft *draft;
	struct attach_opts *opts;
	struct bpffs *fs;
	enum link_mode mode;
	struct budget_func *funcs; /* of draft->probed_cnt */
	uint64_t tried_ns, left_ns;
};

/* Everybody's entries that will pay, whether or not their calls are to count. */
static struct attach_opts opts_of_round(const struct trial *t)
{
	struct attach_opts opts = { .link = t->mode,
		.for_ns = 3 * S_NS, /* ended by themselves if nobody is left to end them */
		.access = ACCESS_PRIVATE,
		.budget = t->opts->budget };

	if (attach_links_by_pid(t->draft, t->opts, t->mode)) {
		opts.filter.pids = t->opts->filter.pids;
		opts.filter.pid_cnt = t->opts->filter.pid_cnt;
	}
	return opts;
}

/* The entries of what is not left out. */
static int round_targets(
	struct round *r, const struct trial *t, struct target *targets, size_t *of)
{
	size_t cnt = 0;

	for (size_t i = 0; i < t->draft->probed_cnt; i++)
		if (t->funcs[i].limit != LIMIT_LEFT_OUT) {
			of[cnt] = i;
			targets[cnt++] = t->draft->targets[i];
		}
	r->draft = *t->draft;
	r->draft.targets = targets;
	r->draft.target_cnt = r->draft.probed_cnt = cnt;
	r->draft.timed_cnt = r->draft.place_cnt = 0;
	r->draft.entries_alone = true;
	r->of = of;
	return cnt ? 0 : -ENOENT;
}

static int run_round(struct trial *t, struct round *r, struct err *err)
{
	r->opts = opts_of_round(t);
	r->fs = t->fs;
	r->funcs = t->funcs;
	r->most_ns = t->left_ns > WINDOW_NS ? t->left_ns : WINDOW_NS;
	err_sys(&r->err, -EINTR, "cannot count entries"); /* until it is known better */
	apart_run(try_round, r, t->opts->tick, t->opts->tick_arg);
	if (r->err.code) {
		*err = r->err;
		/* What is still there was left by a child that was killed. */
		bpffs_remove_dead(t->fs, t->draft->name, NULL);
		return err->code;
	}
	for (size_t i = 0; i < r->draft.probed_cnt; i++)
		t->funcs[r->of[i]].calls = r->calls[i];
	t->tried_ns = r->tried_ns;
	t->left_ns -= r->tried_ns < t->left_ns ? r->tried_ns : t->left_ns;
	return 0;
}

/* Rounds until the entries of what is left are no more than was granted. */
static int run_rounds(struct trial *t, struct err *err)
{
	size_t cnt = t->draft->probed_cnt, size = sizeof(struct round) + cnt * sizeof(uint64_t);
	_cleanup_free_ struct target *targets = calloc(cnt, sizeof(*targets));
	_cleanup_free_ size_t *of = calloc(cnt, sizeof(*of));
	struct round *r = apart_alloc(size);
	size_t out = 1;
	int code = 0;

	if (!targets || !of || !r)
		code = err_sys(err, -ENOMEM, "cannot count entries");
	for (int n = 0; !code && n < ROUNDS && out; n++) {
		r->tried_ns = 0;
		if (round_targets(r, t, targets, of))
			break;
		code = run_round(t, r, err);
		if (!code)
			out = budget_leave_out(
				t->funcs, cnt, t->tried_ns, t->opts->budget.share);
	}
	apart_free(r, size);
	return code;
}

static void list_funcs(struct trial *t, const struct price *price)
{
	for (size_t i = 0; i < t->draft->probed_cnt; i++) {
		struct group_func shown = target_shown(&t->draft->targets[i]);

		t->funcs[i] = (struct budget_func) {
			.whole_ns = price->whole_ns[shown.site][shown.end],
			.entry_ns = price->whole_ns[shown.site][PRICE_COUNT],
			/* With other links the end is seen all the same, and paid for. */
			.can_sample = shown.end == PRICE_RETURN && t->mode == LINK_SESSION,
		};
		if (!t->funcs[i].entry_ns)
			t->funcs[i].entry_ns = 1;
	}
}

static int cut_draft(struct trial *t, const struct draft_opts *how, struct err *err)
{
	size_t limited = 0;

	for (size_t i = 0; i < t->draft->probed_cnt; i++) {
		struct target *target = &t->draft->targets[i];

		target->limit = t->funcs[i].limit;
		target->sample = t->funcs[i].sample;
		target->calls_per_s = t->funcs[i].calls_per_s;
		limited += target->limit != LIMIT_NONE;
		/* What is made in calls that are left out would be taken for their caller's. */
		if (target->limit == LIMIT_SAMPLED)
			t->opts->nesting = false;
	}
	return limited ? draft_limit(t->draft, how, err) : 0;
}

int budget_try(struct draft *draft, const struct draft_opts *how, struct attach_opts *opts,
	struct bpffs *fs, struct err *err)
{
	struct trial t = { .draft = draft, .opts = opts, .fs = fs, .left_ns = S_NS };
	_cleanup_free_ struct budget_func *funcs = calloc(draft->probed_cnt + 1, sizeof(*funcs));
	struct attach_opts chosen = *opts;
	struct calibration c = {};
	int code;

	if (!funcs)
		return err_sys(err, -ENOMEM, "cannot count entries");
	for (size_t i = 0; i < draft->probed_cnt; i++)
		if (!draft->targets[i].kind->is_priced)
			return err_set(err, -EOPNOTSUPP,
				"--budget is for functions: what a %s's probes take is not measured",
				draft->targets[i].kind->noun);
	t.funcs = funcs;
	code = bpffs_lock(fs, err);
	if (!code && !opts->replace)
		code = attach_check_absent(fs, draft->name, err);
	if (!code)
		code = attach_choose_link(&chosen, err);
	t.mode = chosen.link;
	if (!code && !calibration_read(t.mode, &c))
		code = calibrate(fs, t.mode, &c, err);
	if (code)
		return code;
	list_funcs(&t, &c.price);
	code = run_rounds(&t, err);
	if (code)
		return code;
	budget_fit(funcs, draft->probed_cnt, t.tried_ns, opts->budget.share);
	opts->budget.tried_ns = S_NS - t.left_ns;
	opts->budget.cost_ns = budget_cost(funcs, draft->probed_cnt, t.tried_ns);
	return cut_draft(&t, how, err);
}
