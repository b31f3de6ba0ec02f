// SPDX-License-Identifier: BSD-2-Clause
// A view as CSV, by RFC 4180: plain numbers, lines that end in CR LF.
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "group/group.h"
#include "show/stats.h"
#include "show/text.h"

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
static void csv_field(FILE *f, const char *raw)
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

/* As records, each after @prefix; the header likewise. */
static void csv_header(const struct grid *grid, const char *prefix, FILE *f)
{
	fputs(prefix, f);
	for (size_t c = 0; c < grid->column_cnt; c++)
		if (grid_in_csv(&grid->columns[c]))
			fprintf(f, ",%s", grid->columns[c].key);
	fputs("\r\n", f);
}

static int csv_rows(const struct grid *grid, const char *prefix, FILE *f)
{
	size_t cnt = grid->cell_cnt - grid->total_rows * grid->column_cnt;

	if (grid->failed)
		return -ENOMEM;
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
	return 0;
}

int csv_print(const struct report *r, FILE *f)
{
	const struct view *view = r->view;
	char prefix[TEXT_NUM_LEN * 3], when[TEXT_NUM_LEN];
	struct grid head = {};
	int code = 0;

	report_begin_grid(r, &head);
	if (r->first)
		csv_header(&head, "time,group", f);
	for (size_t i = 0; !code && i < r->cnt; i++) {
		_cleanup_grid_ struct grid grid = head;

		view->fill(&grid, r, &r->group[i]);
		/* A group's name needs no quotes. */
		snprintf(prefix, sizeof(prefix), "%s,%s", text_time(r->time_ns, when),
			group_info(r->group[i].s->group).name);
		code = csv_rows(&grid, prefix, f);
	}
	return code;
}
