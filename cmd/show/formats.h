/* SPDX-License-Identifier: BSD-2-Clause */
/* What stats --format offers. */
#ifndef FUNCSNOOP_SHOW_FORMATS_H
#define FUNCSNOOP_SHOW_FORMATS_H

#include "show/stats_report.h"

enum {
	FORMAT_READERS = 1,    /* for people: says when there is nothing to show */
	FORMAT_JSON = 2,       /* what --json stands for: errors are told in JSON, too */
	FORMAT_CUMULATIVE = 4, /* since the reset, with --interval, too */
	FORMAT_METRICS = 8,    /* only of views with VIEW_METRICS */
};

struct stats_format {
	const char *name;
	unsigned int flags; /* FORMAT_... */
	/* Writes all of it; 0 or a negative errno. @f's own errors are the caller's. */
	int (*print)(const struct report *r, FILE *f);
};

/* The format named so, or NULL. */
const struct stats_format *stats_format_find(const char *name);

/* The one without --format. */
const struct stats_format *stats_format_default(bool json);

/* What --format takes: "table|json|...". */
const char *stats_format_words(char buf[WORDS_LEN]);

/* metrics.c */
int metrics_print_prometheus(const struct report *r, FILE *f);
int metrics_print_openmetrics(const struct report *r, FILE *f);

#endif
