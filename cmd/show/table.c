// SPDX-License-Identifier: BSD-2-Clause
// Rows of typed cells, as a table for a terminal and as CSV.
#include <ctype.h>
#include <stdarg.h>

#include "base/buffer.h"
#include "base/text.h"
#include "base/util.h"
#include "show/table.h"
#include "show/text.h"

static void add_figure(struct grid *grid, enum figure_id id, enum figure_use use)
{
	unsigned int extra = figures[id].place[use].extra;
	bool csv = extra == COLUMN_CSV;

	if (grid->column_cnt == GRID_COLUMNS)
		return;
	grid->figures[grid->figure_cnt++] = id;
	grid->flags[grid->column_cnt] = csv ? 0 : extra;
	grid->columns[grid->column_cnt++] = (struct grid_column) {
		.title = figures[id].title,
		.key = figures[id].key,
		.align = TABLE_RIGHT,
		.where = csv ? GRID_CSV : extra & COLUMN_KNOWN ? GRID_KNOWN : GRID_SOME,
		.drop = csv ? 0 : extra & 15,
	};
}

void grid_begin(struct grid *grid, const struct grid_column *labels, size_t cnt,
	const enum figure_use *uses)
{
	enum figure_id ids[FIGURE_CNT];

	memcpy(grid->columns, labels, cnt * sizeof(*labels));
	grid->column_cnt = cnt;
	for (; *uses != USE_NONE; uses++) {
		size_t figure_cnt = figure_list(*uses, ids);

		for (size_t i = 0; i < figure_cnt; i++)
			add_figure(grid, ids[i], *uses);
	}
}

void grid_hide(struct grid *grid, enum figure_id id)
{
	size_t first = grid->column_cnt - grid->figure_cnt;

	for (size_t i = 0; i < grid->figure_cnt; i++)
		if (grid->figures[i] == id)
			grid->columns[first + i].where = GRID_CSV;
}

static void add_row(struct grid *grid)
{
	grid->marks = array_grow(grid->marks, grid->row_cnt, sizeof(*grid->marks));
	grid->notes = array_grow(grid->notes, grid->row_cnt, sizeof(char *));
	grid->marks[grid->row_cnt] = NULL;
	grid->notes[grid->row_cnt++] = NULL;
}

static struct cell *add_cell(struct grid *grid, enum cell_type type)
{
	grid->cells = array_grow(grid->cells, grid->cell_cnt, sizeof(*grid->cells));
	if (grid->cell_cnt % grid->column_cnt == 0)
		add_row(grid);
	grid->cells[grid->cell_cnt] = (struct cell) { .type = type };
	return &grid->cells[grid->cell_cnt++];
}

void grid_none(struct grid *grid)
{
	add_cell(grid, CELL_NONE);
}

void grid_text(struct grid *grid, const char *text)
{
	struct cell *cell = add_cell(grid, text ? CELL_TEXT : CELL_NONE);

	if (text)
		cell->text = text_escape(text);
}

void grid_textf(struct grid *grid, const char *fmt, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	grid_text(grid, text);
}

static struct cell *add_n(struct grid *grid, enum cell_type type, uint64_t n)
{
	struct cell *cell = add_cell(grid, type);

	cell->n = n;
	return cell;
}

/*
 * Returns the error of the correction for a metric. The longest calls may have had the most probes
 * inside, but only 1 % of calls can have had 100 times the average.
 */
static uint64_t noise_of(const struct figures *f, enum figure_id id)
{
	uint64_t noise_ns = f->noise_ns;

	if (id == FIGURE_MAX)
		return f->max_noise_ns;
	if (id == FIGURE_P90)
		noise_ns *= 10;
	if (id == FIGURE_P99)
		noise_ns *= 100;
	if (id == FIGURE_P999)
		noise_ns *= 1000;
	return noise_ns < f->max_noise_ns ? noise_ns : f->max_noise_ns;
}

/* True if a time is within the error of the correction; for a sum, if its average is. */
static bool is_noise(const struct figures *f, enum figure_id id)
{
	uint64_t ns = f->value[id].n, total = figure_or_0(f, FIGURE_TOTAL);

	if (figures[id].unit != UNIT_NS)
		return false;
	if ((id == FIGURE_TOTAL || id == FIGURE_SELF) && total && figure_known(f, FIGURE_AVG))
		ns = (double)ns / total * f->value[FIGURE_AVG].n;
	return ns < noise_of(f, id) ||
		(id == FIGURE_SELF && f->noise_ns && f->value[id].n < f->self_noise_ns);
}

/*
 * Returns what a time within the error is below, if it contradicts its row: no time at all, or that of
 * all calls below the longest. 0: it does not.
 */
static uint64_t bound_of(const struct figures *f, enum figure_id id)
{
	uint64_t n = f->value[id].n, ns = noise_of(f, id), max_ns = figure_or_0(f, FIGURE_MAX);
	bool is_all = id == FIGURE_TOTAL || (id == FIGURE_SELF && n == figure_or_0(f, FIGURE_TOTAL));

	if (n && (!is_all || n >= max_ns))
		return 0;
	if (id == FIGURE_TOTAL || id == FIGURE_SELF)
		ns *= figure_or_0(f, FIGURE_CALLS);
	if (id == FIGURE_SELF && ns < f->self_noise_ns)
		ns = f->self_noise_ns;
	return is_all && ns < max_ns ? max_ns : ns;
}

static bool is_sum(enum figure_id id)
{
	return id == FIGURE_TOTAL || id == FIGURE_SELF || id == FIGURE_ON_CPU ||
		id == FIGURE_QUEUED || id == FIGURE_BLOCKED;
}

void grid_n(struct grid *grid, enum cell_type type, bool known, uint64_t n)
{
	add_n(grid, known ? type : CELL_NONE, n);
}

void grid_about(struct grid *grid, bool about)
{
	grid->cells[grid->cell_cnt - 1].about = about;
}

void grid_number(struct grid *grid, int64_t n)
{
	add_n(grid, CELL_NUMBER, (uint64_t)n);
}

void grid_time(struct grid *grid, uint64_t realtime_ns)
{
	add_n(grid, CELL_TIME, realtime_ns);
}

void grid_real(struct grid *grid, enum cell_type type, bool known, double x)
{
	add_cell(grid, known ? type : CELL_NONE)->x = x;
}

uint64_t grid_wanted(const struct grid *grid)
{
	uint64_t wanted = FIGURE_BIT(FIGURE_ERRORS) | FIGURE_BIT(FIGURE_SLOW);

	for (size_t i = 0; i < grid->figure_cnt; i++)
		wanted |= FIGURE_BIT(grid->figures[i]);
	return wanted;
}

void grid_figures(struct grid *grid, const struct figures *f)
{
	static const enum cell_type types[] = { [UNIT_COUNT] = CELL_COUNT,
		[UNIT_NS] = CELL_NS,
		[UNIT_BYTES] = CELL_BYTES,
		[UNIT_PERCENT] = CELL_PERCENT,
		[UNIT_RATE] = CELL_RATE,
		[UNIT_RATIO] = CELL_RATE };

	for (size_t i = 0; i < grid->figure_cnt; i++) {
		enum figure_id id = grid->figures[i];
		bool known = figure_known(f, id);
		enum cell_type type = types[figures[id].unit];

		if (figure_is_real(id))
			grid_real(grid, type, known, known ? f->value[id].x : 0);
		else
			grid_n(grid, type, known, known ? f->value[id].n : 0);
		grid_about(grid, known && is_noise(f, id));
		grid->cells[grid->cell_cnt - 1].least = f->lacks && is_sum(id);
		if (known && is_noise(f, id) && grid->is_table)
			grid->cells[grid->cell_cnt - 1].below = bound_of(f, id);
	}
	if (figure_or_0(f, FIGURE_ERRORS))
		grid_mark(grid, "31"); /* red */
	else if (figure_or_0(f, FIGURE_SLOW))
		grid_mark(grid, "33"); /* yellow */
}

void grid_bar(struct grid *grid, double share)
{
	const char *sign = locale_is_utf8() ? "\u2588" : "#";
	size_t row = grid->row_cnt - 1, len = (size_t)(share * GRID_TREND + 0.5);

	grid->trend_title = "SHARE";
	grid->trends = array_grow(grid->trends, row, sizeof(char *));
	grid->trends[row] = xcalloc(1, GRID_TREND * strlen(sign) + 1);
	for (size_t i = 0; i < len && i < GRID_TREND; i++)
		strcat(grid->trends[row], sign);
}

void grid_mark(struct grid *grid, const char *sgr)
{
	if (grid->row_cnt)
		grid->marks[grid->row_cnt - 1] = sgr;
}

void grid_note(struct grid *grid, const char *text)
{
	char **note = grid->row_cnt ? &grid->notes[grid->row_cnt - 1] : NULL;

	if (!note)
		return;
	free(*note);
	*note = text_escape(text);
}

void grid_done(struct grid *grid)
{
	for (size_t i = 0; i < grid->cell_cnt; i++)
		free(grid->cells[i].text);
	for (size_t i = 0; grid->trends && i < grid->row_cnt; i++)
		free(grid->trends[i]);
	for (size_t i = 0; i < grid->row_cnt; i++)
		free(grid->notes[i]);
	free(grid->trends);
	free(grid->notes);
	free(grid->cells);
	free(grid->marks);
}

/* --- the table ------------------------------------------------------------------------------ */

#define CELL_LEN 48

const char *grid_rate(double per_s, char buf[TEXT_NUM_LEN])
{
	/* A rare event must not be shown as 0. */
	if (per_s > 0 && per_s < 0.05)
		return "<0.1";
	snprintf(buf, TEXT_NUM_LEN, per_s < 99.95 ? "%.1f" : "%.0f", per_s);
	return buf;
}

/* Returns the text of a cell for readers, possibly in @buf. */
static const char *cell_shown(const struct cell *cell, char buf[CELL_LEN])
{
	switch (cell->type) {
	case CELL_TEXT:
		return cell->text;
	case CELL_COUNT:
		snprintf(buf, CELL_LEN, "%llu", (unsigned long long)cell->n);
		return buf;
	case CELL_BYTES:
		return text_bytes(cell->n, buf);
	case CELL_NUMBER:
		snprintf(buf, CELL_LEN, "%lld", (long long)cell->n);
		return buf;
	case CELL_NS:
		buf[0] = cell->below ? '<' : cell->about ? '~' : '>';
		text_duration(
			cell->below ? cell->below : cell->n, buf + (cell->about || cell->least));
		return buf;
	case CELL_PERCENT:
		snprintf(buf, CELL_LEN, "%.1f", cell->x);
		return buf;
	case CELL_CHANGE:
		snprintf(buf, CELL_LEN, "%s%+.1f %%", cell->about ? "~" : "", cell->x);
		return buf;
	case CELL_RATE:
		return grid_rate(cell->x, buf);
	case CELL_TIME:
		return text_moment(cell->n, buf);
	default:
		return "-";
	}
}

static size_t column_width(const struct grid *grid, size_t column)
{
	size_t width = text_columns(grid->columns[column].title), n;
	char buf[CELL_LEN];

	for (size_t i = column; i < grid->cell_cnt; i += grid->column_cnt) {
		n = text_columns(cell_shown(&grid->cells[i], buf));
		if (n > width)
			width = n;
	}
	return width;
}

/* The column on the left that is in tables. */
static size_t column_before(const struct grid *grid, size_t column)
{
	while (column && grid->columns[--column].where == GRID_CSV)
		;
	return column;
}

static bool is_shown(const struct grid *grid, size_t column)
{
	enum grid_where where = grid->columns[column].where;
	unsigned int flags = grid->flags[column];
	size_t before = column_before(grid, column) - column;

	if (where != GRID_KNOWN && where != GRID_SOME)
		return where != GRID_CSV;
	for (size_t i = column; i < grid->cell_cnt; i += grid->column_cnt) {
		const struct cell *cell = &grid->cells[i];

		if (cell->type != CELL_NONE && (!(flags & COLUMN_ANY) || cell->n) &&
			(!(flags & COLUMN_DIFFERS) || cell->n != grid->cells[i + before].n))
			return true;
	}
	return false;
}

/* Minimum width of a long name, and of a text that is wrapped, before columns are left out. */
#define ELASTIC_MIN 16
#define WRAP_MIN    40
/* A last column with less is printed below the rows. */
#define BELOW_MAX   24

/* Marks the columns that are shown, not @without; their width, with blanks between them. */
static size_t choose_columns(
	const struct grid *grid, bool *shown, unsigned int limit, size_t without)
{
	size_t width[GRID_COLUMNS], total = 0, worst, most;

	for (size_t c = 0; c < grid->column_cnt; c++) {
		most = grid->columns[c].elastic == TABLE_WRAP ? WRAP_MIN : ELASTIC_MIN;
		shown[c] = c != without && is_shown(grid, c);
		width[c] = shown[c] ? column_width(grid, c) + 2 : 0;
		if (grid->columns[c].elastic && width[c] > most + 2)
			width[c] = most + 2;
		total += width[c];
	}
	while (limit && total > limit + 2) {
		worst = grid->column_cnt;
		for (size_t c = 0; c < grid->column_cnt; c++)
			if (shown[c] && grid->columns[c].drop &&
				(worst == grid->column_cnt ||
					grid->columns[c].drop >
						grid->columns[worst].drop))
				worst = c;
		if (worst == grid->column_cnt)
			break;
		shown[worst] = false;
		total -= width[worst];
	}
	return total ? total - 2 : 0;
}

#define TREND_MIN 5       /* less shows nothing */
#define SHORT_NAME_MIN 12 /* columns: a name of less is cut at its end */
/* Columns of a name, and of a wrapped text with columns after it, where no terminal has a width. */
#define LONG_NAME 60
#define LONG_TEXT 80

/* Chooses columns so that a sparkline fits after them. Returns its width; 0: no sparkline. */
static unsigned int choose_trend(const struct grid *grid, bool *shown, unsigned int limit)
{
	unsigned int room = limit > GRID_TREND + 2 ? limit - GRID_TREND - 2 : !!limit;
	size_t rest = choose_columns(grid, shown, room, grid->column_cnt) + 2;

	if (!limit)
		return GRID_TREND;
	if (rest + TREND_MIN <= limit)
		return limit - rest < GRID_TREND ? limit - rest : GRID_TREND;
	choose_columns(grid, shown, limit, grid->column_cnt);
	return 0;
}

static bool is_key(const struct grid_column *column, const char *key)
{
	return column->key && !strcmp(column->key, key);
}

bool grid_row_name(const struct grid *grid, size_t row, char *buf, size_t size)
{
	const struct cell *cells = &grid->cells[row * grid->column_cnt];
	char text[CELL_LEN];
	size_t len = 0;

	/* A state changes, and what is counted does; the row stays what it is. */
	for (size_t c = 0;
		c + grid->sum_cnt + grid->figure_cnt < grid->column_cnt && len < size; c++)
		if (!is_key(&grid->columns[c], "state") && !is_key(&grid->columns[c], "count"))
			len += snprintf(
				buf + len, size - len, "%s\n", cell_shown(&cells[c], text));
	return len < size;
}

/* Returns the column of counts; column_cnt if there is none. */
static size_t count_column(const struct grid *grid)
{
	size_t c = 0;

	while (c < grid->column_cnt && !is_key(&grid->columns[c], "calls") &&
		!is_key(&grid->columns[c], "count"))
		c++;
	return c;
}

bool grid_counts(const struct grid *grid)
{
	return count_column(grid) < grid->column_cnt;
}

bool grid_row_count(const struct grid *grid, size_t row, uint64_t *ret_cnt)
{
	const struct cell *cell = &grid->cells[row * grid->column_cnt + count_column(grid)];

	if (!grid_counts(grid) || cell->type != CELL_COUNT)
		return false;
	*ret_cnt = cell->n;
	return true;
}

/* The last @width signs of a sparkline. */
static const char *trend_tail(const char *trend, unsigned int width)
{
	const char *at = trend + strlen(trend);

	while (at > trend && width)
		width -= !utf8_goes_on(*--at);
	return at;
}

static size_t last_shown(const struct grid *grid, const bool *shown)
{
	size_t c = grid->column_cnt;

	while (c && !shown[c - 1])
		c--;
	return c - 1;
}

/* The width of a column where no terminal limits it. */
static size_t file_width(const struct grid *grid, const bool *shown, size_t column, size_t width)
{
	enum table_fit elastic = grid->columns[column].elastic;
	size_t most = elastic == TABLE_NAMES                                        ? LONG_NAME
		: elastic == TABLE_WRAP && column != last_shown(grid, shown) ? LONG_TEXT
									     : width;

	return width < most ? width : most;
}

/* Widths of the columns that are shown: elastic ones give way until all fit. */
static void fit_columns(const struct grid *grid, const bool *shown, size_t trend,
	unsigned int limit, size_t *width)
{
	size_t total = trend ? trend + 2 : 0, wide;

	for (size_t c = 0; c < grid->column_cnt; c++) {
		width[c] = shown[c] ? column_width(grid, c) : 0;
		if (!limit)
			width[c] = file_width(grid, shown, c, width[c]);
		total += shown[c] ? width[c] + 2 : 0;
	}
	while (limit && total > limit + 2) {
		wide = grid->column_cnt;
		for (size_t c = 0; c < grid->column_cnt; c++)
			if (shown[c] && grid->columns[c].elastic &&
				(wide == grid->column_cnt || width[c] > width[wide]))
				wide = c;
		if (wide == grid->column_cnt || width[wide] <= 12)
			break;
		width[wide]--;
		total--;
	}
}

/* Returns the width of the sparklines, at most @most columns each. */
static size_t trend_width(const struct grid *grid, unsigned int most)
{
	size_t width = strlen(grid->trend_title), n;

	for (size_t i = 0; i < grid->row_cnt; i++) {
		n = text_columns(trend_tail(grid->trends[i], most));
		if (n > width)
			width = n;
	}
	return width;
}

/* Prints @str truncated to @width columns, at its end, or with @front at its start. */
static void print_cut(const char *str, size_t has, size_t width, bool front, FILE *f)
{
	const char *dots = locale_is_utf8() ? "\xe2\x80\xa6" : "...";
	size_t room = width - text_columns(dots), skip = front ? has - room : room;
	const char *at = str;

	while (skip) {
		at++;
		skip -= !utf8_goes_on(*at);
	}
	if (front)
		fprintf(f, "%s%s", dots, at);
	else
		fprintf(f, "%.*s%s", (int)(at - str), str, dots);
}

static void print_cell(
	const char *s, size_t width, enum table_align align, bool last, FILE *f)
{
	size_t has = text_columns(s), shown = has < width ? has : width;

	if (align == TABLE_RIGHT)
		for (size_t i = shown; i < width; i++)
			fputc(' ', f);
	/* Truncate a path at its start, and other text at its end. */
	if (has > width && width > 3)
		print_cut(s, has, width, s[0] == '/', f);
	else
		fputs(s, f);
	if (align == TABLE_LEFT && !last)
		for (size_t i = shown; i < width; i++)
			fputc(' ', f);
	if (!last)
		fputs("  ", f);
}

/* Texts that are fitted to their columns; the others are NULL. */
struct fitted {
	size_t names;    /* column of TABLE_NAMES; column_cnt: none */
	char **name;     /* of each row, shortened */
	size_t wraps;    /* column of TABLE_WRAP; column_cnt: none */
	bool below;      /* its texts have lines of their own */
	char *line;      /* the first one of the row that is printed; NULL: .below, or no text */
	const char *rest; /* what follows it */
};

static size_t find_fit(const struct grid *grid, const bool *shown, enum table_fit fit)
{
	size_t c = 0;

	while (c < grid->column_cnt && !(shown[c] && grid->columns[c].elastic == fit))
		c++;
	return c;
}

static void shorten_names(const struct grid *grid, const size_t *width, struct fitted *fit)
{
	_cleanup_free_ const char **names = xcalloc(grid->row_cnt + 1, sizeof(char *));

	if (fit->names == grid->column_cnt || width[fit->names] < SHORT_NAME_MIN)
		return;
	for (size_t i = 0; i < grid->row_cnt; i++)
		names[i] = grid->cells[i * grid->column_cnt + fit->names].text;
	text_shorten(names, grid->row_cnt, width[fit->names], fit->name);
}

static const char *shown_text(const struct grid *grid, const struct fitted *fit, size_t row,
	size_t column, char buf[CELL_LEN])
{
	if (column == fit->names && fit->name[row])
		return fit->name[row];
	if (column == fit->wraps && fit->line)
		return fit->line;
	return cell_shown(&grid->cells[row * grid->column_cnt + column], buf);
}

/* The bytes of @text for a line of @width: up to " > ", or a blank, or as many as there is room for. */
static size_t line_len(const char *text, size_t width)
{
	size_t first = strspn(text, "> "), columns = 0, blank = 0, arrow = 0, at = 0;

	for (; text[at]; at++) {
		if (at > first && text[at] == ' ')
			blank = at;
		if (at > first && !strncmp(text + at, " > ", 3))
			arrow = at;
		if (!utf8_goes_on(text[at]) && columns++ == width)
			return arrow ? arrow : blank ? blank : at;
	}
	return at;
}

/* Row @row, or with -1 the titles. */
static void print_line(const struct grid *grid, const struct fitted *fit, ssize_t row,
	const bool *shown, const size_t *width, unsigned int trend, FILE *f)
{
	size_t last = last_shown(grid, shown);
	char buf[CELL_LEN];

	for (size_t c = 0; c <= last; c++)
		if (shown[c])
			print_cell(row < 0 ? grid->columns[c].title
					   : shown_text(grid, fit, row, c, buf),
				width[c], grid->columns[c].align, c == last && !trend, f);
	if (trend)
		fputs(row < 0 ? grid->trend_title : trend_tail(grid->trends[row], trend), f);
}

/* Cuts the wrapped text of @row to its first line. */
static void wrap_row(const struct grid *grid, size_t row, const size_t *width, struct fitted *fit)
{
	const struct cell *cell = &grid->cells[row * grid->column_cnt + fit->wraps];
	size_t len;

	free(fit->line);
	fit->line = NULL;
	fit->rest = "";
	if (fit->wraps == grid->column_cnt || cell->type != CELL_TEXT)
		return;
	len = fit->below ? 0 : line_len(cell->text, width[fit->wraps]);
	fit->line = fit->below ? NULL : xstrndup(cell->text, len);
	fit->rest = cell->text + len;
}

#define BELOW_INDENT 4

/* Prints what follows the first line, a bit further in. */
static void print_rest(const struct fitted *fit, const bool *shown, const size_t *width,
	unsigned int limit, FILE *f)
{
	size_t indent = BELOW_INDENT, room = limit, len;

	if (!*fit->rest)
		return;
	if (!fit->below) {
		room = width[fit->wraps];
		indent = strspn(fit->line, " ") + 2;
		indent = indent < room / 2 ? indent : 0;
	}
	room -= indent;
	for (size_t c = 0; !fit->below && c < fit->wraps; c++)
		indent += shown[c] ? width[c] + 2 : 0;
	for (const char *at = fit->rest + strspn(fit->rest, " "); *at; at += strspn(at, " ")) {
		len = line_len(at, room);
		fprintf(f, "\n%*s%.*s", (int)indent, "", (int)len, at);
		at += len;
	}
}

/* True if the last column is too narrow to be read: lines below the rows have more room. */
static bool is_squeezed(const struct grid *grid, const bool *shown, const size_t *width,
	unsigned int limit, size_t column)
{
	return column < grid->column_cnt && column == last_shown(grid, shown) &&
		width[column] < BELOW_MAX && width[column] < column_width(grid, column) &&
		limit > BELOW_MAX;
}

void grid_print(const struct grid *grid, const struct globals *g, bool wide, FILE *f)
{
	unsigned int limit = wide ? 0 : text_width(), trend = 0;
	size_t width[GRID_COLUMNS];
	bool shown[GRID_COLUMNS], color = text_color(g);
	struct fitted fit = { .name = xcalloc(grid->row_cnt + 1, sizeof(char *)) };

	if (grid->trends)
		trend = choose_trend(grid, shown, limit);
	else
		choose_columns(grid, shown, limit, grid->column_cnt);
	fit_columns(grid, shown, trend ? trend_width(grid, trend) : 0, limit, width);
	fit.names = find_fit(grid, shown, TABLE_NAMES);
	fit.wraps = find_fit(grid, shown, TABLE_WRAP);
	if (is_squeezed(grid, shown, width, limit, fit.wraps)) {
		fit.below = true;
		choose_columns(grid, shown, limit, fit.wraps);
		fit_columns(grid, shown, 0, limit, width);
	}
	shorten_names(grid, width, &fit);
	fputs(color ? "\033[1m" : "", f);
	print_line(grid, &fit, -1, shown, width, trend, f);
	if (fit.below)
		fprintf(f, "\n%*s%s", BELOW_INDENT, "", grid->columns[fit.wraps].title);
	fputs(color ? "\033[0m\n" : "\n", f);
	for (size_t i = 0; i < grid->row_cnt; i++) {
		const char *mark = color ? grid->marks[i] : NULL;

		if (mark)
			fprintf(f, "\033[%sm", mark);
		wrap_row(grid, i, width, &fit);
		print_line(grid, &fit, i, shown, width, trend, f);
		print_rest(&fit, shown, width, limit, f);
		fputs(mark ? "\033[0m\n" : "\n", f);
		if (grid->notes[i])
			fprintf(f, "    %s\n", grid->notes[i]);
		free(fit.name[i]);
	}
	free(fit.line);
	free(fit.name);
}

/* --- the tables of commands ---------------------------------------------------------------------- */

struct grid *table_new(const struct table_column *columns, size_t cnt)
{
	static const enum figure_use none[] = { USE_NONE };
	struct grid_column labels[GRID_COLUMNS] = {};
	struct grid *table = xcalloc(1, sizeof(*table));

	for (size_t i = 0; i < cnt; i++)
		labels[i] = (struct grid_column) { .title = columns[i].name,
			.align = columns[i].align,
			.elastic = columns[i].elastic };
	grid_begin(table, labels, cnt, none);
	return table;
}

void table_free(struct grid *table)
{
	if (table)
		grid_done(table);
	free(table);
}

/* --- CSV, by RFC 4180: plain numbers, lines that end in CR LF ------------------------------------ */

/* True if a spreadsheet would evaluate @text. Names and arguments are untrusted. */
static bool is_formula(const char *text)
{
	char *end;

	if (!*text || !strchr("=+-@", *text))
		return false;
	if (!isdigit((unsigned char)text[1]))
		return true;
	strtod(text, &end);
	return *end;
}

/* A path may be of any bytes, and a table of values ends on terminals, too. */
static void csv_field(FILE *f, const char *raw)
{
	_cleanup_free_ char *safe = text_escape(raw);
	const char *text = safe;
	bool formula = is_formula(text);

	if (!formula && !text[strcspn(text, ",\"\r\n")]) {
		fputs(text, f);
		return;
	}
	/* Quotes alone don't make a text of it, an apostrophe before it does. */
	fputs(formula ? "\"'" : "\"", f);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', f);
		fputc(*text, f);
	}
	fputc('"', f);
}

static void csv_cell(const struct cell *cell, FILE *f)
{
	char buf[TEXT_NUM_LEN];

	switch (cell->type) {
	case CELL_TEXT:
		csv_field(f, cell->text);
		break;
	case CELL_COUNT:
	case CELL_NS:
	case CELL_BYTES:
		fprintf(f, "%llu", (unsigned long long)cell->n);
		break;
	case CELL_NUMBER:
		fprintf(f, "%lld", (long long)cell->n);
		break;
	case CELL_PERCENT:
	case CELL_CHANGE:
		fprintf(f, "%.3f", cell->x);
		break;
	case CELL_RATE:
		fprintf(f, "%.*f", rate_digits(cell->x), cell->x);
		break;
	case CELL_TIME:
		fputs(text_time(cell->n, buf), f);
		break;
	case CELL_NONE:
		break;
	}
}

void csv_header(const struct grid *grid, const char *prefix, FILE *f)
{
	fputs(prefix, f);
	for (size_t c = 0; c < grid->column_cnt; c++)
		if (grid_in_csv(&grid->columns[c]))
			fprintf(f, ",%s", grid->columns[c].key);
	fputs("\r\n", f);
}

void csv_rows(const struct grid *grid, const char *prefix, FILE *f)
{
	size_t cnt = grid->cell_cnt - grid->total_rows * grid->column_cnt;

	for (size_t i = 0; i < cnt; i++) {
		size_t c = i % grid->column_cnt;

		if (!c)
			fputs(prefix, f);
		if (grid_in_csv(&grid->columns[c])) {
			fputc(',', f);
			csv_cell(&grid->cells[i], f);
		}
		if (c + 1 == grid->column_cnt)
			fputs("\r\n", f);
	}
}
