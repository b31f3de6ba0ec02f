/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables: rows of typed cells, for a terminal and as CSV. */
#pragma once

#include "base/util.h"
#include "show/text.h"
#include "stats/figures.h"

enum table_align { TABLE_LEFT, TABLE_RIGHT };

/*
 * How a column fits a narrow terminal: not at all, cut, as names of functions (text_shorten()), or
 * continued on the lines below. A table has at most one column of the last kind.
 */
enum table_fit { TABLE_RIGID = false, TABLE_CUT = true, TABLE_NAMES, TABLE_WRAP };

/* --- rows of typed cells: what a table shows with units and CSV as plain numbers ------------ */

enum cell_type {
	CELL_NONE, /* not known: "-", in CSV nothing */
	CELL_TEXT,
	CELL_COUNT,
	CELL_NUMBER, /* signed */
	CELL_NS,
	CELL_BYTES,
	CELL_PERCENT,
	CELL_CHANGE, /* percent, with its sign */
	CELL_RATE,   /* per second */
	CELL_TIME,   /* ns of CLOCK_REALTIME */
};

struct cell {
	enum cell_type type;
	char *text; /* text_escape() */
	uint64_t n;
	double x;
	bool about; /* within the noise: "~" before it in a table */
	bool least; /* it lacks calls: ">" before it in a table */
	uint64_t below; /* of such a time: "<" and this instead; or 0 */
};

#define GRID_COLUMNS 48 /* at most */
#define GRID_TREND   16 /* columns of a sparkline */

/* GRID_KNOWN: in tables in which it is known in some row. GRID_SOME: in these, and in every CSV. */
enum grid_where { GRID_BOTH, GRID_TABLE, GRID_KNOWN, GRID_SOME, GRID_CSV };

struct grid_column {
	const char *title; /* of the table */
	const char *key;   /* of the CSV; with its unit */
	enum table_align align;
	enum table_fit elastic;
	enum grid_where where;
	/* On a narrow terminal those with the highest number are left out first; 0: never. */
	unsigned int drop;
};

static inline bool grid_in_csv(const struct grid_column *column)
{
	return column->where == GRID_BOTH || column->where == GRID_SOME ||
		column->where == GRID_CSV;
}

/* Labels, then metrics. */
struct grid {
	struct grid_column columns[GRID_COLUMNS];
	size_t column_cnt;
	enum figure_id figures[GRID_COLUMNS];
	size_t figure_cnt;
	unsigned int flags[GRID_COLUMNS]; /* COLUMN_ANY, COLUMN_DIFFERS of figures' columns */
	size_t sum_cnt; /* of the labels, the last: they count, too */
	struct cell *cells; /* row by row */
	size_t cell_cnt;
	const char **marks; /* of rows: colours */
	char **notes;       /* of rows: a line below, or NULL */
	/*
	 * Sparklines or bars of the rows, after all columns, and their title; or NULL. Readers
	 * only.
	 */
	char **trends;
	const char *trend_title;
	size_t row_cnt;
	size_t total_rows; /* at the end: sums for readers, not in CSV */
	int code;          /* 0, or the error of reading types */
	bool is_table;     /* for readers; else for CSV */
};

/* Leaves the column of figure @id out of tables. */
void grid_hide(struct grid *grid, enum figure_id id);

/* Begins a grid with @cnt columns of labels, and those of each of @uses up to USE_NONE. */
void grid_begin(struct grid *grid, const struct grid_column *labels, size_t cnt,
	const enum figure_use *uses);

/* Cells fill row by row; a row begins with the first cell after a whole one. */
void grid_none(struct grid *grid);
void grid_text(struct grid *grid, const char *text); /* NULL: none */
__attribute__((format(printf, 2, 3))) void grid_textf(
	struct grid *grid, const char *fmt, ...);
void grid_n(struct grid *grid, enum cell_type type, bool known, uint64_t n);
void grid_number(struct grid *grid, int64_t n);
static inline void grid_count(struct grid *grid, bool known, uint64_t n)
{
	grid_n(grid, CELL_COUNT, known, n);
}
void grid_about(struct grid *grid, bool about); /* the last cell is within the noise */
static inline void grid_ns(struct grid *grid, bool known, uint64_t ns)
{
	grid_n(grid, CELL_NS, known, ns);
}
void grid_time(struct grid *grid, uint64_t realtime_ns);
void grid_real(struct grid *grid, enum cell_type type, bool known, double x);
/* "<0.1", "3.2", "1204": per second, for a reader. */
const char *grid_rate(double per_s, char buf[TEXT_NUM_LEN]);
/* Sets the share (0 to 1) of the row started last. All rows have one, or none. */
void grid_bar(struct grid *grid, double share);
void grid_mark(struct grid *grid, const char *sgr); /* of the row begun last */
void grid_note(struct grid *grid, const char *text); /* below it, in the table */

/* Formats the labels that identify row @row. Returns false if @buf is too small. */
bool grid_row_name(const struct grid *grid, size_t row, char *buf, size_t size);

/* Whether rows are of things that are counted. */
bool grid_counts(const struct grid *grid);

/* The calls of row @row, or what else it counts; false when that is not known. */
bool grid_row_count(const struct grid *grid, size_t row, uint64_t *ret_cnt);

/* Appends the metrics after the labels; marks suspicious ones. */
void grid_figures(struct grid *grid, const struct figures *f);
uint64_t grid_wanted(const struct grid *grid); /* bits of figures */

void grid_done(struct grid *grid);

/* As a table that fits the terminal, or @wide for a file. */
void grid_print(const struct grid *grid, const struct globals *g, bool wide, FILE *f);

#define _cleanup_grid_ __cleanup(grid_done)

/* As records of CSV, each after @prefix; the header likewise. */
void csv_header(const struct grid *grid, const char *prefix, FILE *f);
void csv_rows(const struct grid *grid, const char *prefix, FILE *f);

/* --- the tables of commands ------------------------------------------------------------------ */

struct table_column {
	const char *name;
	enum table_align align;
	enum table_fit elastic; /* cut first when the terminal is narrow */
};

/* A grid of texts: grid_textf(). Free with table_free(). */
struct grid *table_new(const struct table_column *columns, size_t cnt);
void table_free(struct grid *table);
DEFINE_CLEANUP(table, struct grid *, table_free)
#define _cleanup_table_ __cleanup(cleanup_table)
