// SPDX-License-Identifier: BSD-2-Clause
// What is known of a function, and what is computed from it.
#include "stats/figures.h"

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

/* --- of a function -------------------------------------------------------------------------- */

#define VALUE_COUNT   n
#define VALUE_NS      n
#define VALUE_PERCENT x
#define VALUE_RATE    x
#define VALUE_RATIO   x

void figures_of(const struct stats_func *f, const struct figure_scope *scope,
	uint64_t wanted, struct figures *ret)
{
	static const struct figure_scope none;
	bool times = f->timed && f->n.returns, spread = times && stats_func_samples(f),
	     paced;
	double seconds;

	scope = scope ? scope : &none;
	paced = scope->elapsed_ns;
	seconds = scope->elapsed_ns / 1e9;
	ret->known = 0;
	ret->noise_ns = f->noise_ns;
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

/* --- of a process --------------------------------------------------------------------------- */

void figures_of_process(const struct stats_proc *p, bool timed, bool same,
	const struct figure_scope *scope, struct figures *ret)
{
	bool times = timed && p->returns;

	ret->known = ret->moot = ret->noise_ns = 0;
	figure_set(ret, FIGURE_CALLS, true, p->calls);
	figure_set(ret, FIGURE_RETURNS, timed || same, same ? p->calls : p->returns);
	figure_set(ret, FIGURE_TOTAL, times, p->total_ns);
	figure_set(ret, FIGURE_AVG, times, times ? p->total_ns / p->returns : 0);
	figure_set(ret, FIGURE_MAX, timed && p->max_ns, p->max_ns);
	figure_set(ret, FIGURE_ERRORS, timed, p->errors);
	figure_set(ret, FIGURE_SLOW, timed, p->slow);
	if (times && scope && scope->all_ns) {
		ret->known |= FIGURE_BIT(FIGURE_TIME);
		ret->value[FIGURE_TIME].x = 100.0 * p->total_ns / scope->all_ns;
	}
}
