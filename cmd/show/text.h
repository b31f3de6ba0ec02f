/* SPDX-License-Identifier: BSD-2-Clause */
/* Text for people: tables, colours, escaped names, times. */
#ifndef FUNCSNOOP_SHOW_TEXT_H
#define FUNCSNOOP_SHOW_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "show/message.h"

/* Whether stdout gets colours: --color, NO_COLOR, TERM=dumb, a terminal. */
bool text_color(const struct globals *g);

/* Columns of the terminal, 0 when stdout is none. */
unsigned int text_width(void);

/*
 * @str with control characters, escape sequences and broken UTF-8 written as \xNN: what
 * comes from a traced process never reaches a terminal raw. A malloc'ed string or NULL.
 */
char *text_escape(const char *str);

#define TEXT_NUM_LEN 40

/* "12 345 ns", "1.23 us", "4.56 ms", "7.89 s": three digits that count. */
const char *text_duration(uint64_t ns, char buf[TEXT_NUM_LEN]);

/* RFC 3339 in UTC: "2026-11-20T12:00:00Z". */
const char *text_time(uint64_t realtime_ns, char buf[TEXT_NUM_LEN]);

/*
 * When a call was, for people: the local time of day to the microsecond, with the date before
 * it when it was on another day than today.
 */
const char *text_moment(uint64_t realtime_ns, char buf[TEXT_NUM_LEN]);

/* "3.4 MB". */
const char *text_bytes(uint64_t bytes, char buf[TEXT_NUM_LEN]);

/* "PATH", or "TYPED (PATH)" where it was asked for by another path; as text_escape(). */
struct object;
char *text_library(const struct object *lib);

/*
 * "process 1234, the only one of group 'k', has ended", where no process is left that it
 * counts; else NULL.
 */
struct asked;
const char *text_over(const char *group, const struct asked *a, char *buf, size_t size);

/* "return+ret" for a mask of 1 << enum fsn_exit. */
const char *text_exits(unsigned int mask, char *buf, size_t size);

/* "return", "ret", "none" or "same" for an enum fsn_exit. */
const char *text_exit(unsigned int exit);

/* A table: columns align, cells are escaped; only the last column of the widest line may
 * be cut, and only on a terminal. */
struct table;

enum table_align { TABLE_LEFT, TABLE_RIGHT };

struct table_column {
	const char *name;
	enum table_align align;
	bool elastic; /* cut first when the terminal is narrow */
};

/* NULL when memory is out; every function accepts NULL then. */
struct table *table_new(const struct table_column *columns, size_t cnt);
__attribute__((format(printf, 2, 3))) void table_cell(struct table *t, const char *fmt, ...);
void table_mark(struct table *t, const char *sgr); /* colour of the row begun last */
void table_note(struct table *t, const char *text); /* a line below the row begun last */
void table_wide(struct table *t); /* for a file: never cut, whatever stdout is */
void table_print(const struct table *t, const struct globals *g, FILE *f);
void table_free(struct table *t);

static inline void cleanup_table(struct table **t)
{
	table_free(*t);
}
#define _cleanup_table_ __cleanup(cleanup_table)

#endif
