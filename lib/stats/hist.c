// SPDX-License-Identifier: BSD-2-Clause
// Log-linear buckets: bounds and percentiles.
#include "group/records.h"
#include "stats/stats.h"

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

uint64_t hist_percentile(const uint64_t *bucket, unsigned int permille, uint64_t min_ns,
	uint64_t max_ns)
{
	uint64_t total = 0, rank, seen = 0, ge, lt, ns;
	unsigned int i;

	for (i = 0; i < FSN_HIST_CNT; i++)
		total += bucket[i];
	/* The nearest rank: the smallest value with so many calls at or below it. */
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

uint64_t stats_func_untimed(const struct stats_func *f)
{
	if (f->same)
		return 0;
	return f->timed ? f->n.no_slot + f->n.sampled_out + f->n.jumped + f->n.inner : f->n.calls;
}

bool stats_func_called(const struct stats_func *f)
{
	return f->n.calls || f->carried || f->n.returns || f->n.unmatched;
}
