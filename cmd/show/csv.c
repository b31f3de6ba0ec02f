// SPDX-License-Identifier: BSD-2-Clause
// Comma-separated values by RFC 4180: plain numbers, a header, lines that end in CR LF.
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "show/stats_grid.h"
#include "show/stats_report.h"

/* What a spreadsheet would work out: names and arguments are others' words. */
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
void csv_field(FILE *f, const char *raw)
{
	_cleanup_free_ char *safe = text_escape(raw);
	const char *text = safe ? safe : "";
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

static void print_cell(const struct cell *cell, FILE *f)
{
	char buf[TEXT_NUM_LEN];

	switch (cell->type) {
	case CELL_TEXT:
		csv_field(f, cell->text);
		break;
	case CELL_COUNT:
	case CELL_NS:
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
		if (grid->columns[c].where != GRID_TABLE)
			fprintf(f, ",%s", grid->columns[c].key);
	fputs("\r\n", f);
}

int csv_rows(const struct grid *grid, const char *prefix, FILE *f)
{
	size_t cnt = grid->cell_cnt - grid->total_rows * grid->column_cnt;

	if (grid->failed)
		return -ENOMEM;
	for (size_t i = 0; i < cnt; i++) {
		size_t c = i % grid->column_cnt;

		if (!c)
			fputs(prefix, f);
		if (grid->columns[c].where != GRID_TABLE) {
			fputc(',', f);
			print_cell(&grid->cells[i], f);
		}
		if (c + 1 == grid->column_cnt)
			fputs("\r\n", f);
	}
	return 0;
}
