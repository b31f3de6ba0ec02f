// SPDX-License-Identifier: BSD-2-Clause
// Histograms: powers of two with stars for readers, all buckets for programs; and what rows and
// histograms were in the frames before, as sparklines and heat maps.
#include "base/buffer.h"
#include "base/util.h"
#include "show/stats.h"

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

#define ROWS      49 /* 0 to 1 ns, then an octave each, up to 2^49 */
#define STARS     40
#define STARS_MIN 10

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

/* How a histogram is laid out: fixed where no terminal sets a limit. */
struct layout {
	int low, high, count; /* digits */
	int stars;
	bool marks; /* with their times */
};

static int digits(uint64_t n)
{
	return snprintf(NULL, 0, "%llu", (unsigned long long)n);
}

static uint64_t row_low(unsigned int row)
{
	return row ? 1ULL << row : 0;
}

static uint64_t row_high(unsigned int row)
{
	return (2ULL << row) - 1;
}

/* @ns, marked where @judged is within what was taken off. */
static const char *duration_of(
	const struct stats_func *f, uint64_t ns, uint64_t judged, char buf[1 + TEXT_NUM_LEN])
{
	buf[0] = '~';
	text_duration(ns, buf + 1);
	return judged < f->noise_ns ? buf : buf + 1;
}

static void print_row(const struct layout *l, const struct stats_func *func,
	unsigned int row, uint64_t count, uint64_t most, const char *marks, FILE *f)
{
	int stars = most ? (int)((__uint128_t)count * l->stars / most) : 0;
	char low[TEXT_NUM_LEN];

	snprintf(low, sizeof(low), "%s%llu", row_low(row) < func->noise_ns ? "~" : "",
		(unsigned long long)row_low(row));
	fprintf(f, "%*s -> %-*llu : %-*llu |%-*.*s|%s\n", l->low, low, l->high,
		(unsigned long long)row_high(row),
		l->count, (unsigned long long)count, l->stars, stars,
		"****************************************", marks);
}

/* Writes the percentiles that are in @row to @buf. Returns their length. */
static int print_marks(const struct stats_func *f, unsigned int row, bool times, char *buf,
	size_t size)
{
	static const unsigned int permille[] = { 500, 900, 990 };
	char ns[1 + TEXT_NUM_LEN];
	size_t len = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(permille); i++) {
		uint64_t at = stats_func_percentile(f, permille[i]);

		if (row_of(at) == row)
			len += snprintf(buf + len, size - len, "%sP%u%s%s",
				len ? ", " : " ", permille[i] / 10, times ? " " : "",
				times ? duration_of(f, at, at, ns) : "");
	}
	return (int)len;
}

/* Shortens the bars to make room for the percentiles, then omits the times of these. */
static struct layout layout_of(const struct stats_func *f, unsigned int first,
	unsigned int last, uint64_t most, bool plain)
{
	struct layout l = { 12, 12, 10, STARS, true };
	int width = plain ? 0 : (int)text_width(), widest = 0, room;
	char marks[128];

	if (!width)
		return l;
	l.low = digits(row_low(last)) < 8 ? 8 : digits(row_low(last));
	l.high = digits(row_high(last));
	l.count = digits(most) < 5 ? 5 : digits(most);
	room = width - (l.low + 4 + l.high + 3 + l.count + 3);
	for (int times = 1; times >= 0; times--) {
		widest = 0;
		for (unsigned int i = first; i <= last; i++) {
			int len = print_marks(f, i, times, marks, sizeof(marks));

			widest = len > widest ? len : widest;
		}
		l.marks = times;
		if (room - widest >= STARS_MIN)
			break;
	}
	l.stars = room - widest < 1 ? 1 : room - widest > STARS ? STARS : room - widest;
	return l;
}

static void print_func(
	const struct stats *s, const struct stats_func *f, bool plain, FILE *f_out)
{
	uint64_t row[ROWS] = {}, most = 0, ge, lt;
	unsigned int first = ROWS, last = 0;
	char *name = text_escape(group_func_title(s->group, f->fn)), marks[128];
	struct layout l;

	for (unsigned int b = 0; b < FSN_HIST_CNT; b++) {
		hist_bounds(b, &ge, &lt);
		row[row_of(ge)] += f->bucket[b];
	}
	for (unsigned int i = 0; i < ROWS; i++) {
		most = row[i] > most ? row[i] : most;
		first = row[i] && first == ROWS ? i : first;
		last = row[i] ? i : last;
	}
	l = layout_of(f, first, last, most, plain);
	fprintf(f_out, "\nFunction = %s\n", name);
	fprintf(f_out, "%*s    %-*s : %-*s %s\n", l.low, "nsecs", l.high, "", l.count,
		"count", "distribution");
	for (unsigned int i = first; i <= last; i++) {
		print_marks(f, i, l.marks, marks, sizeof(marks));
		print_row(&l, f, i, row[i], most, marks, f_out);
	}
	free(name);
}

void print_hist(const struct report *r, const struct report_group *rg, FILE *f)
{
	char avg[1 + TEXT_NUM_LEN], total[1 + TEXT_NUM_LEN];

	for (size_t i = 0; i < rg->func_cnt; i++) {
		const struct stats_func *func = rg->funcs[i];
		uint64_t avg_ns;

		if (!stats_func_samples(func))
			continue;
		avg_ns = func->n.total_ns / (func->n.returns ? func->n.returns : 1);
		print_func(rg->s, func, r->plain, f);
		fprintf(f, "avg = %s, total = %s, count = %llu\n",
			duration_of(func, avg_ns, avg_ns, avg),
			duration_of(func, func->n.total_ns, avg_ns, total),
			(unsigned long long)func->n.returns);
	}
}

/* --- what was before ------------------------------------------------------------------------ */

#define STEPS 240 /* readings that are remembered: a wide terminal's columns */

struct past {
	char *name;
	bool known;
	uint64_t had;              /* at the last reading, if .known */
	float rate[STEPS];         /* a second, in each */
	uint32_t (*octaves)[ROWS]; /* of each: calls by duration; NULL unless shown */
};

struct history {
	struct past **rows;
	size_t cnt;
	size_t step; /* readings so far, less one */
	uint64_t elapsed_ns;
};

struct history *history_new(void)
{
	return xcalloc(1, sizeof(struct history));
}

void history_free(struct history *h)
{
	for (size_t i = 0; h && i < h->cnt; i++) {
		free(h->rows[i]->name);
		free(h->rows[i]->octaves);
		free(h->rows[i]);
	}
	if (h)
		free(h->rows);
	free(h);
}

void history_step(struct history *h, uint64_t elapsed_ns)
{
	size_t at = ++h->step % STEPS;

	h->elapsed_ns = elapsed_ns;
	for (size_t i = 0; i < h->cnt; i++) {
		h->rows[i]->rate[at] = 0;
		if (h->rows[i]->octaves)
			memset(h->rows[i]->octaves[at], 0, sizeof(h->rows[i]->octaves[at]));
	}
}

/* Finds or adds the row of that name. */
static struct past *past_of(struct history *h, const char *group, const char *name)
{
	_cleanup_free_ char *whole = xasprintf("%s\n%s", group, name);
	struct past *p;

	for (size_t i = 0; i < h->cnt; i++)
		if (!strcmp(h->rows[i]->name, whole))
			return h->rows[i];
	*array_add(h->rows, h->cnt) = p = xcalloc(1, sizeof(*p));
	p->name = TAKE_PTR(whole);
	return p;
}

/* Eight steps to each doubling of @n. */
static unsigned int log_of(uint64_t n)
{
	unsigned int octave = 63 - __builtin_clzll(n + 1);

	return octave * 8 + (((n + 1) << 3 >> octave) & 7);
}

/* Which of @cnt signs stands for @n, of at most @most: the first for nothing alone. */
static size_t level_of(double n, double most, size_t cnt)
{
	size_t level = most > 0 ? 1 + (size_t)(n / most * (double)(cnt - 1)) : 0;

	return n <= 0 ? 0 : level < cnt ? level : cnt - 1;
}

/* The last rates, the latest at the right; blank where there was none yet. */
static char *sparkline(const struct history *h, const struct past *p)
{
	static const char *const bars[] = { "\u2581", "\u2582", "\u2583", "\u2584", "\u2585",
		"\u2586", "\u2587", "\u2588" };
	static const char *const signs[] = { "_", ".", ":", "-", "=", "+", "*", "#" };
	const char *const *sign = locale_is_utf8() ? bars : signs;
	char *text = xcalloc(1, GRID_TREND * 3 + 1);
	double most = 0;

	for (size_t i = 0; i < GRID_TREND && i < h->step; i++)
		most = p->rate[(h->step - i) % STEPS] > most ? p->rate[(h->step - i) % STEPS]
							     : most;
	for (size_t i = GRID_TREND; i--;)
		strcat(text,
			i >= h->step ? " " :
				       sign[level_of(p->rate[(h->step - i) % STEPS], most,
					       ARRAY_SIZE(bars))]);
	return text;
}

void history_trends(struct history *h, const char *group, bool all, struct grid *grid)
{
	char name[256];
	uint64_t has;

	if (!grid_counts(grid))
		return;
	grid->trend_title = "TREND";
	grid->trends = xcalloc(grid->row_cnt + 1, sizeof(char *));
	for (size_t i = 0; i < grid->row_cnt; i++) {
		struct past *p = NULL;

		if (grid_row_name(grid, i, name, sizeof(name)) &&
			grid_row_count(grid, i, &has)) {
			p = past_of(h, group, name);
			/* The first reading has no rate. */
			if (h->step && h->elapsed_ns && has > p->had && (all || p->known))
				p->rate[h->step % STEPS] +=
					(float)((double)(has - p->had) * 1e9 /
						(double)h->elapsed_ns);
			p->had = has;
			p->known = true;
		}
		grid->trends[i] = p ? sparkline(h, p) : xstrdup("");
	}
}

/* --- heat maps ------------------------------------------------------------------------------ */

/* A row for each function; its calls by duration in the last interval are noted. */
void fill_heat(struct grid *grid, const struct report *r, const struct report_group *rg)
{
	const char *group = group_info(rg->s->group).name;
	size_t at = r->history->step % STEPS;
	uint64_t ge, lt;

	for (size_t i = 0; i < rg->func_cnt; i++) {
		const struct stats_func *f = rg->funcs[i];
		const char *name = group_func_title(rg->s->group, f->fn);
		struct past *p = past_of(r->history, group, name);

		if (!p->octaves)
			p->octaves = xcalloc(STEPS, sizeof(*p->octaves));
		memset(p->octaves[at], 0, sizeof(p->octaves[at]));
		for (unsigned int b = 0; r->interval_ns && f->bucket && b < FSN_HIST_CNT; b++) {
			hist_bounds(b, &ge, &lt);
			p->octaves[at][row_of(ge)] += (uint32_t)f->bucket[b];
		}
		grid_text(grid, name);
		for (int c = 0; c < 4; c++)
			grid_none(grid);
	}
}

/* The part of a function's history that fits on the terminal. */
struct window {
	size_t cnt;               /* intervals */
	unsigned int first, last; /* octaves */
	uint32_t most;
};

static struct window window_of(const struct history *h, const struct past *p, size_t room)
{
	struct window w = { .cnt = h->step < room ? h->step : room, .first = ROWS };

	if (w.cnt > STEPS)
		w.cnt = STEPS;
	for (size_t i = 0; i < w.cnt; i++)
		for (unsigned int row = 0; row < ROWS; row++) {
			uint32_t n = p->octaves[(h->step - i) % STEPS][row];

			if (!n)
				continue;
			w.most = n > w.most ? n : w.most;
			w.first = row < w.first ? row : w.first;
			w.last = row > w.last ? row : w.last;
		}
	return w;
}

static void heat_row(const struct history *h, const struct past *p, const struct window *w,
	const struct stats_func *func, unsigned int row, FILE *f)
{
	static const char *const shades[] = { " ", "\u2591", "\u2592", "\u2593", "\u2588" };
	static const char *const signs[] = { " ", ".", "+", "*", "#" };
	const char *const *sign = locale_is_utf8() ? shades : signs;
	char low[1 + TEXT_NUM_LEN];

	fprintf(f, "%8s |", duration_of(func, row_low(row), row_low(row), low));
	for (size_t i = w->cnt; i--;)
		/* Logarithmic, so that a few long calls are visible among many short ones. */
		fputs(sign[level_of(log_of(p->octaves[(h->step - i) % STEPS][row]),
			      log_of(w->most), ARRAY_SIZE(shades))],
			f);
	fputs("|\n", f);
}

void print_heat(const struct report *r, const struct report_group *rg, FILE *f)
{
	const char *group = group_info(rg->s->group).name;
	unsigned int width = text_width();
	struct history *h = r->history;

	for (size_t i = 0; i < rg->func_cnt; i++) {
		const char *name = group_func_title(rg->s->group, rg->funcs[i]->fn);
		struct past *p = past_of(h, group, name);
		_cleanup_free_ char *safe = text_escape(name);
		struct window w;

		if (!p->octaves)
			continue;
		w = window_of(h, p, width > 31 ? width - 11 : 20);
		if (!w.most)
			continue;
		fprintf(f, "\n%s, at most %u a cell\n", safe, w.most);
		for (unsigned int row = w.last + 1; row-- > w.first;)
			heat_row(h, p, &w, rg->funcs[i], row, f);
	}
}
