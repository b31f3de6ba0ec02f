/* SPDX-License-Identifier: BSD-2-Clause */
/* Rows of typed cells: what a table shows with units and CSV as plain numbers. */
#ifndef FUNCSNOOP_SHOW_STATS_GRID_H
#define FUNCSNOOP_SHOW_STATS_GRID_H

#include <stdint.h>
#include <stdio.h>

#include "base/util.h"
#include "show/text.h"
#include "stats/figures.h"

enum cell_type {
	CELL_NONE, /* not known: "-", in CSV nothing */
	CELL_TEXT,
	CELL_COUNT,
	CELL_NUMBER, /* signed */
	CELL_NS,
	CELL_PERCENT,
	CELL_CHANGE, /* percent, with its sign */
	CELL_RATE,   /* per second */
	CELL_TIME,   /* ns of CLOCK_REALTIME */
};

struct cell {
	enum cell_type type;
	char *text;
	uint64_t n;
	double x;
	bool about; /* within the noise: "~" before it in a table */
};

#define GRID_COLUMNS 48 /* at most */
#define GRID_TREND   16 /* columns of a sparkline */

enum grid_where { GRID_BOTH, GRID_TABLE, GRID_CSV };

struct grid_column {
	const char *title; /* of the table */
	const char *key;   /* of the CSV; with its unit */
	enum table_align align;
	bool elastic;
	enum grid_where where;
	/* On a narrow terminal those with the highest number are left out first; 0: never. */
	unsigned int drop;
};

/* Labels, and behind them figures. */
struct grid {
	struct grid_column columns[GRID_COLUMNS];
	size_t column_cnt;
	enum figure_id figures[GRID_COLUMNS];
	size_t figure_cnt;
	struct cell *cells; /* row by row */
	size_t cell_cnt;
	const char **marks; /* of rows: colours */
	char **trends;      /* of rows, for readers: sparklines behind all columns; or NULL */
	size_t row_cnt;
	size_t total_rows; /* at the end: sums for readers, not in CSV */
	bool failed;       /* memory ran out */
};

/* Begins a grid with @cnt columns of labels, and those of each of @uses up to USE_NONE. */
void grid_begin(struct grid *grid, const struct grid_column *labels, size_t cnt,
	const enum figure_use *uses);

/* Cells fill row by row; a row begins with the first cell after a whole one. */
void grid_none(struct grid *grid);
void grid_text(struct grid *grid, const char *text); /* NULL: none */
__attribute__((format(printf, 2, 3))) void grid_textf(
	struct grid *grid, const char *fmt, ...);
void grid_count(struct grid *grid, bool known, uint64_t n);
void grid_number(struct grid *grid, int64_t n);
void grid_ns(struct grid *grid, bool known, uint64_t ns);
void grid_time(struct grid *grid, uint64_t realtime_ns);
void grid_real(struct grid *grid, enum cell_type type, bool known, double x);
/* "<0.1", "3.2", "1204": per second, for a reader. */
const char *grid_rate(double per_s, char buf[TEXT_NUM_LEN]);
void grid_mark(struct grid *grid, const char *sgr); /* of the row begun last */

/* The text of row @row, which tells it from others: its labels. False when there is no room. */
bool grid_row_name(const struct grid *grid, size_t row, char *buf, size_t size);

/* Whether rows are of things that are counted. */
bool grid_counts(const struct grid *grid);

/* The calls of row @row, or what else it counts; false when that is not known. */
bool grid_row_count(const struct grid *grid, size_t row, uint64_t *ret_cnt);

/* All that is behind the labels; what needs a look is marked. */
void grid_figures(struct grid *grid, const struct figures *f);
uint64_t grid_wanted(const struct grid *grid); /* bits of figures */

void grid_done(struct grid *grid);

/* As a table that fits the terminal, or @wide for a file; 0 or -ENOMEM. */
int grid_print(const struct grid *grid, const struct globals *g, bool wide, FILE *f);

/* As records of RFC 4180, each after @prefix; the header likewise after @prefix. */
void csv_field(FILE *f, const char *raw);
void csv_header(const struct grid *grid, const char *prefix, FILE *f);
int csv_rows(const struct grid *grid, const char *prefix, FILE *f);

#define _cleanup_grid_ __cleanup(grid_done)

#endif
