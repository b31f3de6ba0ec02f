// SPDX-License-Identifier: BSD-2-Clause
// Rows of typed cells, and how they look in a table.
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "show/stats_grid.h"

static struct cell *add_cell(struct grid *grid, enum cell_type type)
{
	struct cell *cells = array_grow(grid->cells, grid->cell_cnt, sizeof(*cells));
	const char **marks = grid->marks;

	if (cells)
		grid->cells = cells;
	if (cells && grid->cell_cnt % grid->column_cnt == 0) {
		marks = array_grow(grid->marks, grid->row_cnt, sizeof(*marks));
		if (marks) {
			grid->marks = marks;
			marks[grid->row_cnt++] = NULL;
		}
	}
	if (!cells || !marks) {
		grid->failed = true;
		return NULL;
	}
	cells[grid->cell_cnt] = (struct cell) { .type = type };
	return &cells[grid->cell_cnt++];
}

void grid_none(struct grid *grid)
{
	add_cell(grid, CELL_NONE);
}

void grid_text(struct grid *grid, const char *text)
{
	struct cell *cell = add_cell(grid, text ? CELL_TEXT : CELL_NONE);

	if (!cell || !text)
		return;
	cell->text = strdup(text);
	grid->failed |= !cell->text;
}

void grid_textf(struct grid *grid, const char *fmt, ...)
{
	struct cell *cell = add_cell(grid, CELL_TEXT);
	va_list ap;

	if (!cell)
		return;
	va_start(ap, fmt);
	if (vasprintf(&cell->text, fmt, ap) < 0) {
		cell->text = NULL;
		grid->failed = true;
	}
	va_end(ap);
}

static void add_n(struct grid *grid, enum cell_type type, uint64_t n)
{
	struct cell *cell = add_cell(grid, type);

	if (cell)
		cell->n = n;
}

void grid_count(struct grid *grid, bool known, uint64_t n)
{
	add_n(grid, known ? CELL_COUNT : CELL_NONE, n);
}

void grid_number(struct grid *grid, int64_t n)
{
	add_n(grid, CELL_NUMBER, (uint64_t)n);
}

void grid_ns(struct grid *grid, bool known, uint64_t ns)
{
	add_n(grid, known ? CELL_NS : CELL_NONE, ns);
}

void grid_time(struct grid *grid, uint64_t realtime_ns)
{
	add_n(grid, CELL_TIME, realtime_ns);
}

void grid_real(struct grid *grid, enum cell_type type, bool known, double x)
{
	struct cell *cell = add_cell(grid, known ? type : CELL_NONE);

	if (cell)
		cell->x = x;
}

void grid_mark(struct grid *grid, const char *sgr)
{
	if (grid->row_cnt)
		grid->marks[grid->row_cnt - 1] = sgr;
}

void grid_done(struct grid *grid)
{
	for (size_t i = 0; i < grid->cell_cnt; i++)
		free(grid->cells[i].text);
	free(grid->cells);
	free(grid->marks);
}

/* --- the table ------------------------------------------------------------------------------ */

#define CELL_LEN 48

const char *grid_rate(double per_s, char buf[TEXT_NUM_LEN])
{
	/* What happens is never shown as what does not. */
	if (per_s > 0 && per_s < 0.05)
		return "<0.1";
	snprintf(buf, TEXT_NUM_LEN, per_s < 99.95 ? "%.1f" : "%.0f", per_s);
	return buf;
}

/* What a reader sees; text itself, or @buf. */
static const char *cell_shown(const struct cell *cell, char buf[CELL_LEN])
{
	switch (cell->type) {
	case CELL_TEXT:
		return cell->text;
	case CELL_COUNT:
		snprintf(buf, CELL_LEN, "%llu", (unsigned long long)cell->n);
		return buf;
	case CELL_NUMBER:
		snprintf(buf, CELL_LEN, "%lld", (long long)cell->n);
		return buf;
	case CELL_NS:
		return text_duration(cell->n, buf);
	case CELL_PERCENT:
		snprintf(buf, CELL_LEN, "%.1f", cell->x);
		return buf;
	case CELL_CHANGE:
		snprintf(buf, CELL_LEN, "%+.1f %%", cell->x);
		return buf;
	case CELL_RATE:
		return grid_rate(cell->x, buf);
	case CELL_TIME:
		return text_time(cell->n, buf);
	default:
		return "-";
	}
}

/* About what a cell takes: bytes; where it matters, in columns of numbers, exact. */
static size_t column_width(const struct grid *grid, size_t column)
{
	size_t width = strlen(grid->columns[column].title), n;
	char buf[CELL_LEN];

	for (size_t i = column; i < grid->cell_cnt; i += grid->column_cnt) {
		n = strlen(cell_shown(&grid->cells[i], buf));
		if (n > width)
			width = n;
	}
	return width;
}

#define ELASTIC_MIN 16 /* what is left of a long name before columns are left out */

/* Marks the columns that are shown. */
static void choose_columns(const struct grid *grid, bool *shown, unsigned int limit)
{
	size_t width[GRID_COLUMNS], total = 0, worst;

	for (size_t c = 0; c < grid->column_cnt; c++) {
		shown[c] = grid->columns[c].where != GRID_CSV;
		width[c] = shown[c] ? column_width(grid, c) + 2 : 0;
		if (grid->columns[c].elastic && width[c] > ELASTIC_MIN + 2)
			width[c] = ELASTIC_MIN + 2;
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
}

int grid_print(const struct grid *grid, const struct globals *g, bool wide, FILE *f)
{
	struct table_column columns[GRID_COLUMNS] = {};
	_cleanup_table_ struct table *table = NULL;
	bool shown[GRID_COLUMNS];
	char buf[CELL_LEN];
	size_t cnt = 0;

	if (grid->failed || grid->column_cnt > GRID_COLUMNS)
		return -ENOMEM;
	choose_columns(grid, shown, wide ? 0 : text_width());
	for (size_t c = 0; c < grid->column_cnt; c++)
		if (shown[c])
			columns[cnt++] = (struct table_column) { grid->columns[c].title,
				grid->columns[c].align, grid->columns[c].elastic };
	table = table_new(columns, cnt);
	if (!table)
		return -ENOMEM;
	if (wide)
		table_wide(table);
	for (size_t i = 0; i < grid->cell_cnt; i++) {
		size_t c = i % grid->column_cnt;

		if (shown[c])
			table_cell(table, "%s", cell_shown(&grid->cells[i], buf));
		if (c + 1 == grid->column_cnt)
			table_mark(table, grid->marks[i / grid->column_cnt]);
	}
	table_print(table, g, f);
	return 0;
}
