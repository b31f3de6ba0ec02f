// SPDX-License-Identifier: BSD-2-Clause
// Histograms: powers of two with stars for readers, all buckets for programs.
#include "show/stats_view.h"

void fill_hist(struct grid *grid, const struct report *r, const struct report_group *rg)
{
	uint64_t ge, lt;

	for (size_t i = 0; i < rg->func_cnt; i++) {
		const struct stats_func *f = rg->funcs[i];
		struct group_func func = group_func(rg->s->group, f->fn);

		for (unsigned int b = 0; stats_func_samples(f) && b < FSN_HIST_CNT;
			b++) {
			if (!f->bucket[b])
				continue;
			hist_bounds(b, &ge, &lt);
			grid_text(grid, func.name);
			grid_text(grid, func.library);
			grid_count(grid, true, ge);
			grid_count(grid, true, lt);
			grid_count(grid, true, f->bucket[b]);
		}
	}
}

#define ROWS  49 /* 0 to 1 ns, then an octave each, up to 2^49 */
#define STARS 40

/* Which power of two a duration belongs to: 0 for 0 and 1, n for [2^n, 2^(n+1)). */
static unsigned int row_of(uint64_t ns)
{
	unsigned int row = 0;

	while (ns > 1 && row < ROWS - 1) {
		ns >>= 1;
		row++;
	}
	return row;
}

static void print_row(
	unsigned int row, uint64_t count, uint64_t most, const char *marks, FILE *f)
{
	int stars = most ? (int)((__uint128_t)count * STARS / most) : 0;
	unsigned long long low = row ? 1ULL << row : 0, high = (2ULL << row) - 1;

	fprintf(f, "%12llu -> %-12llu : %-10llu |%-*.*s|%s\n", low, high,
		(unsigned long long)count, STARS, stars,
		"****************************************", marks);
}

static void print_marks(
	const struct stats_func *f, unsigned int row, char *buf, size_t size)
{
	static const unsigned int permille[] = { 500, 900, 990 };
	char ns[TEXT_NUM_LEN];
	size_t len = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(permille); i++) {
		uint64_t at = stats_func_percentile(f, permille[i]);

		if (row_of(at) == row)
			len += snprintf(buf + len, size - len, "%sP%u %s",
				len ? ", " : " ", permille[i] / 10,
				text_duration(at, ns));
	}
}

static void print_func(const struct stats *s, const struct stats_func *f, FILE *f_out)
{
	uint64_t row[ROWS] = {}, most = 0, ge, lt;
	unsigned int first = ROWS, last = 0;
	char *name = text_escape(group_func_name(s->group, f->fn)), marks[128];

	for (unsigned int b = 0; b < FSN_HIST_CNT; b++) {
		hist_bounds(b, &ge, &lt);
		row[row_of(ge)] += f->bucket[b];
	}
	for (unsigned int i = 0; i < ROWS; i++) {
		most = row[i] > most ? row[i] : most;
		first = row[i] && first == ROWS ? i : first;
		last = row[i] ? i : last;
	}
	fprintf(f_out, "\nFunction = %s\n", name ? name : "?");
	fprintf(f_out, "%12s    %-12s : %-10s %s\n", "nsecs", "", "count",
		"distribution");
	for (unsigned int i = first; i <= last; i++) {
		print_marks(f, i, marks, sizeof(marks));
		print_row(i, row[i], most, marks, f_out);
	}
	free(name);
}

void print_hist(const struct report *r, const struct report_group *rg, FILE *f)
{
	char avg[TEXT_NUM_LEN], total[TEXT_NUM_LEN];

	for (size_t i = 0; i < rg->func_cnt; i++) {
		const struct stats_func *func = rg->funcs[i];

		if (!stats_func_samples(func))
			continue;
		print_func(rg->s, func, f);
		fprintf(f, "avg = %s, total = %s, count = %llu\n",
			text_duration(
				func->n.total_ns / (func->n.returns ? func->n.returns : 1),
				avg),
			text_duration(func->n.total_ns, total),
			(unsigned long long)func->n.returns);
	}
}
