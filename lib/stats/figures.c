// SPDX-License-Identifier: BSD-2-Clause
// Computes the metrics of functions, processes and rows; buckets and percentiles.
#include "group/records.h"
#include "stats/figures.h"
#include "internal.h"
#include "stats/stats.h"

_Static_assert(FIGURE_CNT <= 64, "a bit for each");

const struct figure figures[FIGURE_CNT] = {
#define AT(use, ...) [USE_##use] = { __VA_ARGS__ }
#define X(id, unit_id, name, column, text, is_known, number, ...) \
	[FIGURE_##id] = {                                         \
		.word = (name),                                   \
		.key = name UNIT_SUFFIX_##unit_id,                \
		.title = (column),                                \
		.help = (text),                                   \
		.unit = UNIT_##unit_id,                           \
		.place = { __VA_ARGS__ },                         \
	},
	FIGURES(X)
#undef X
};

size_t figure_list(enum figure_use use, enum figure_id ret_ids[FIGURE_CNT])
{
	size_t cnt = 0, k;

	for (enum figure_id id = 0; id < FIGURE_CNT; id++) {
		if (!figures[id].place[use].at)
			continue;
		for (k = cnt++; k &&
			figures[ret_ids[k - 1]].place[use].at > figures[id].place[use].at;
			k--)
			ret_ids[k] = ret_ids[k - 1];
		ret_ids[k] = id;
	}
	return cnt;
}

uint64_t figure_mask(enum figure_use use)
{
	uint64_t mask = 0;

	for (enum figure_id id = 0; id < FIGURE_CNT; id++)
		if (figures[id].place[use].at)
			mask |= FIGURE_BIT(id);
	return mask;
}

void figure_set(struct figures *f, enum figure_id id, bool known, uint64_t n)
{
	if (!known)
		return;
	f->known |= FIGURE_BIT(id);
	f->value[id].n = n;
}

static double split_share(uint64_t part, uint64_t all)
{
	return all ? 100.0 * part / all : 0;
}

void figure_set_share(struct figures *f, enum figure_id id, uint64_t part, uint64_t all)
{
	f->known |= FIGURE_BIT(id);
	f->value[id].x = split_share(part, all);
}

/*
 * True if returns are traced, so that results and durations are known. False if the function is
 * only counted, or all its calls left through untracked tail calls.
 */
static bool ends_seen(const struct stats_func *f)
{
	return f->timed && (f->n.returns || !f->n.jumped);
}

/* --- of a function -------------------------------------------------------------------------- */

#define VALUE_COUNT   n
#define VALUE_NS      n
#define VALUE_BYTES   n
#define VALUE_PERCENT x
#define VALUE_RATE    x
#define VALUE_RATIO   x

/* @probes_ns is the overhead of nested probes; it cannot exceed that of all probes. */
static uint64_t self_noise(uint64_t probes_ns, const struct figure_scope *scope)
{
	uint64_t cost = stats_signed(probes_ns);

	return SELF_NOISE(cost < scope->cost_ns ? cost : scope->cost_ns);
}

void figures_of(const struct stats_func *f, const struct figure_scope *scope,
	uint64_t wanted, struct figures *ret)
{
	static const struct figure_scope none;
	bool times = f->timed && f->n.returns, spread = times && stats_func_samples(f),
	     ends = ends_seen(f), paced;
	double seconds;

	scope = scope ? scope : &none;
	paced = scope->elapsed_ns;
	seconds = scope->elapsed_ns / 1e9;
	ret->known = 0;
	ret->noise_ns = f->noise_ns;
	ret->max_noise_ns = f->max_noise_ns;
	ret->self_noise_ns = self_noise(f->n.probes_ns, scope);
	ret->lacks = stats_func_lacks(f);
	ret->moot = f->timed
		? 0
		: FIGURE_BIT(FIGURE_IN_FLIGHT) | FIGURE_BIT(FIGURE_ABANDONED);
#define X(id, unit, word, title, help, is_known, number, ...)    \
	if (wanted & FIGURE_BIT(FIGURE_##id) && (is_known)) {    \
		ret->known |= FIGURE_BIT(FIGURE_##id);           \
		ret->value[FIGURE_##id].VALUE_##unit = (number); \
	}
	FIGURES(X)
#undef X
}

/* --- of a row ------------------------------------------------------------------------------- */

void figures_of_spread(const struct stats_spread *spread, uint64_t max_ns, struct figures *ret)
{
	static const struct {
		enum figure_id id;
		unsigned int permille;
	} all[] = { { FIGURE_P50, 500 }, { FIGURE_P90, 900 }, { FIGURE_P99, 990 } };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		figure_set(ret, all[i].id, true,
			hist_percentile(spread->bucket, all[i].permille, 0,
				max_ns ? max_ns : FSN_NS_MASK));
}

static void split_shares(const struct stats_row *row, struct figures *ret)
{
	figure_set_share(ret, FIGURE_ON_CPU_SHARE, row->n.on_cpu_ns, SPLIT_OF(row));
	figure_set_share(ret, FIGURE_QUEUED_SHARE, row->n.queued_ns, SPLIT_OF(row));
	figure_set_share(ret, FIGURE_BLOCKED_SHARE, row->n.blocked_ns, SPLIT_OF(row));
}

void figures_of_row(const struct stats_row *row, const struct stats_func *f,
	const struct figure_scope *scope, struct figures *ret)
{
	bool timed = !f || f->timed, same = f && f->same, times = timed && row->n.returns,
	     ends = !f || ends_seen(f), split = times && (f ? f->split : row->split);
	struct stats_spread spread = {};

	ret->known = ret->moot = 0;
	ret->noise_ns = f ? f->noise_ns : 0;
	ret->max_noise_ns = f ? f->max_noise_ns : 0;
	ret->lacks = f && stats_row_lacks(row, f);
	ret->self_noise_ns = scope ? self_noise(row->n.probes_ns, scope) : 0;
	figure_set(ret, FIGURE_CALLS, true, row->n.calls);
	figure_set(ret, FIGURE_RETURNS, timed || same, same ? row->n.calls : row->n.returns);
	figure_set(ret, FIGURE_TOTAL, times, row->n.total_ns);
	figure_set(ret, FIGURE_SELF, times && row->nested, stats_row_self(row));
	figure_set(ret, FIGURE_ON_CPU, split, row->n.on_cpu_ns);
	figure_set(ret, FIGURE_QUEUED, split, row->n.queued_ns);
	figure_set(ret, FIGURE_BLOCKED, split, row->n.blocked_ns);
	if (split)
		split_shares(row, ret);
	figure_set(ret, FIGURE_AVG, times, times ? row->n.total_ns / row->n.returns : 0);
	figure_set(ret, FIGURE_MAX, timed && row->n.max_ns, row->n.max_ns);
	figure_set(ret, FIGURE_ERRORS, ends, row->n.errors);
	figure_set(ret, FIGURE_SLOW, ends, row->n.slow);
	if (scope && scope->all_samples)
		figure_set_share(ret, FIGURE_SHARE, row->n.calls, scope->all_samples);
	if (times && scope && scope->all_ns) {
		ret->known |= FIGURE_BIT(FIGURE_TIME);
		ret->value[FIGURE_TIME].x =
			100.0 * (row->nested ? stats_row_self(row) : row->n.total_ns) / scope->all_ns;
	}
	if (row->n.returns && stats_spread_add(&spread, row))
		figures_of_spread(&spread, row->n.max_ns, ret);
	figure_set(ret, FIGURE_LIVE, row->allocates, row->live.bytes);
	figure_set(ret, FIGURE_LIVE_BLOCKS, row->allocates, row->live.blocks);
	figure_set(ret, FIGURE_EXIT, row->allocates, row->exit_bytes);
	figure_set(ret, FIGURE_EXIT_BLOCKS, row->allocates, row->exit_blocks);
	if (scope && scope->elapsed_ns) {
		ret->known |= FIGURE_BIT(FIGURE_CALLS_RATE);
		ret->value[FIGURE_CALLS_RATE].x = row->n.calls * 1e9 / scope->elapsed_ns;
	}
}

/* --- buckets ------------------------------------------------------------------------------- */

void hist_bounds(unsigned int i, uint64_t *ret_ge, uint64_t *ret_lt)
{
	unsigned int octave, step;

	if (i < FSN_HIST_STEPS) {
		*ret_ge = i;
		*ret_lt = i + 1;
		return;
	}
	octave = i / FSN_HIST_STEPS - 1;
	step = i % FSN_HIST_STEPS;
	*ret_ge = (uint64_t)(FSN_HIST_STEPS + step) << octave;
	*ret_lt = *ret_ge + (1ULL << octave);
}

/* By Newton's method, which falls until it is exact: libm is not linked for this alone. */
double square_root(double x)
{
	double root = x > 1 ? x : 1, next;

	while ((next = (root + x / root) / 2) < root)
		root = next;
	return root;
}

void moments_of(const struct hist_bucket *buckets, size_t cnt, struct moments *ret)
{
	struct moments m = {};
	double rank = 0, error;

	for (size_t i = 0; i < cnt; i++) {
		double width = (double)buckets[i].lt_ns - (double)buckets[i].ge_ns;
		double middle = (double)buckets[i].ge_ns + width / 2, n = (double)buckets[i].cnt;

		m.cnt += n;
		m.sum += n * middle;
		m.squares += n * (middle * middle + width * width / 12);
	}
	/* The rank of the median of all such calls is binomial among these. */
	error = m.cnt > 0 ? 3 * square_root(m.cnt) / 2 : 0;
	for (size_t i = 0; i < cnt; i++) {
		if (rank <= m.cnt / 2 - error || !i)
			m.median_ge_ns = buckets[i].ge_ns;
		if (rank < m.cnt / 2 + error)
			m.median_lt_ns = buckets[i].lt_ns;
		rank += (double)buckets[i].cnt;
	}
	*ret = m;
}

bool moments_error(const struct moments *m, double *ret_square)
{
	if (!(m->cnt >= 2))
		return false;
	*ret_square = (m->squares - m->sum * m->sum / m->cnt) / (m->cnt - 1) / m->cnt;
	return true;
}

uint64_t hist_percentile(const uint64_t *bucket, unsigned int permille, uint64_t min_ns,
	uint64_t max_ns)
{
	uint64_t total = 0, rank, seen = 0, ge, lt, ns;
	unsigned int i;

	for (i = 0; i < FSN_HIST_CNT; i++)
		total += bucket[i];
	/* Nearest rank: the smallest value with at least @rank calls at or below it. */
	rank = (uint64_t)(((__uint128_t)total * permille + 999) / 1000);
	if (!rank)
		rank = 1;
	for (i = 0; i < FSN_HIST_CNT - 1; i++) {
		seen += bucket[i];
		if (seen >= rank)
			break;
	}
	hist_bounds(i, &ge, &lt);
	ns = ge + (lt - ge) / 2;
	if (ns > max_ns)
		ns = max_ns;
	return ns < min_ns ? min_ns : ns;
}

bool stats_func_samples(const struct stats_func *f)
{
	for (unsigned int i = 0; f->bucket && i < FSN_HIST_CNT; i++)
		if (f->bucket[i])
			return true;
	return false;
}

uint64_t stats_func_percentile(const struct stats_func *f, unsigned int permille)
{
	return hist_percentile(f->bucket, permille, f->has_extremes ? f->min_ns : 0,
		f->has_extremes ? f->max_ns : FSN_NS_MASK);
}

uint64_t stats_func_unfollowed(const struct stats_func *f)
{
	if (f->same)
		return 0;
	return f->timed ? counts_untimed(&f->n) : f->n.calls;
}

uint64_t stats_func_untimed(const struct stats_func *f)
{
	return stats_func_unfollowed(f) + (f->timed && !f->same ? f->lost : 0);
}

bool stats_func_lacks(const struct stats_func *f)
{
	return f->timed && stats_func_unfollowed(f) > f->n.inner;
}

bool stats_row_lacks(const struct stats_row *row, const struct stats_func *f)
{
	/* Returns of carried calls can be in any row. */
	return stats_func_lacks(f) && (f->carried || row->n.calls > row->n.returns);
}

uint64_t stats_func_self(const struct stats_func *f)
{
	return stats_less(f->n.total_ns, stats_signed(f->n.inner_ns));
}

uint64_t stats_func_outer(const struct stats_func *f)
{
	return stats_less(f->n.total_ns, f->n.recursed_ns);
}

uint64_t stats_row_self(const struct stats_row *row)
{
	return stats_less(row->n.total_ns, stats_signed(row->n.inner_ns));
}

bool stats_func_called(const struct stats_func *f)
{
	return f->n.calls || f->carried || f->n.returns || f->n.unmatched;
}
